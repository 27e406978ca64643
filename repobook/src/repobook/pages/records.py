"""Rows of the model as pages read them, and the kinds of symbols that pages tell apart."""

from typing import NamedTuple

# Kinds that hold other symbols: every `std::` would count as a use of one.
SPACES = ("file", "namespace", "module", "package")


# Kinds whose names describe a file; members and constants need their owner for that.
TELLING = frozenset({
    "class", "struct", "union", "interface", "trait", "enum", "object", "function", "macro", "type", "concept",
    "binding",
})  # fmt: skip


class Symbol(NamedTuple):
    id: int
    name: str
    kind: str
    line: int
    end_line: int
    parent: int
    qualified: str
    signature: str
    doc: str
    declaration: int
    bases: str
    complexity: int
    nesting: int
    twin: int | None
    uses: int
    parts: str

    @property
    def local(self) -> int:
        return self.id & 0xFFFFF


class Use(NamedTuple):
    """One edge, seen from the file at hand: `near` is its symbol, `far` the other end."""

    near: int
    far: int
    kind: int
    certainty: int
    line: int
    times: int
    file: int  # file of the other end


class Named(NamedTuple):
    """Name and place of a symbol of another file."""

    id: int
    qualified: str
    kind: str
    line: int

    @property
    def short_name(self) -> str:
        """The name as code writes it: `add` for the operator `add.Tensor`, `x` for `a::b.x`."""
        if self.kind == "operator":
            return self.qualified.partition(".")[0]
        return self.qualified.rpartition("::")[2].rpartition(".")[2] or self.qualified


class File(NamedTuple):
    id: int
    path: str
    folder: str
    language: str
    size: int
    status: str
    lines: int
    code: int
    comment: int
    errors: int
    test: int
    purpose: str
    exports: str | None
    layer: int
    cycle: int
    origin: str  # source of the purpose: docstring, header, the name of a class, derived


class Keyword(NamedTuple):
    id: int
    qualified: str
    kind: str
    uses: int
    definition: int  # definition of a name that is only declared here; 0 otherwise
