"""Facts of one file. A reader fills `Facts` and the store writes them; no other module knows both sides.

An occurrence of a name is one integer, because a large tree has millions of them:

    bits 0-19 line, bits 20-39 local index of the enclosing symbol, bits 40- access flags
"""

from collections.abc import Iterable
from dataclasses import dataclass, field

CALL = 1  # the name is followed by an argument list
MEMBER = 2  # reached through `.` or `->`
SCOPED = 4  # reached through `::`
SCOPE = 8  # followed by `::`, so that it names a namespace, a class or another type
ASSIGNED = 16  # the target of an assignment
ARROW = 32  # reached through `->`

LINE_BITS = 20
LINE_MASK = (1 << LINE_BITS) - 1
LOCAL_BITS = 20
LOCAL_MASK = (1 << LOCAL_BITS) - 1

# Receivers whose type is known are written as this mark and the type, then the members on the way: `self.f` in class C
# has the qualifier ":C", `self.x.f` has ":C|x".
TYPED = ":"
STEP = "|"
# A receiver that is an expression (`a[0].g`, `(a + b).g`): nothing is known of it.
OPAQUE = "?"
# The type of a name that holds the result of a call: `auto x = a.f()` has the type "=a.f()" until that of a is known.
# A step or a type that ends in `()` means the type that a function returns: `f().g` has the qualifier ":f()".
RESULT = "="
# Between a smart pointer and the class it holds: a `shared_ptr<Node>` has the type "shared_ptr*Node".
HOLDS = "*"

# Qualifiers of names in data and build files: an operator by its schema name, a target, a source file of a target.
OPERATOR, TARGET, SOURCE = "@operator", "@target", "@source"
# Among the forms of an operator: its overload writes the result into an argument of the caller.
OUT = "out"


def pack(line: int, local: int, flags: int) -> int:
    return min(line, LINE_MASK) | min(local, LOCAL_MASK) << LINE_BITS | flags << 40


def unpack(occurrence: int) -> tuple[int, int, int]:
    return occurrence & LINE_MASK, occurrence >> LINE_BITS & LOCAL_MASK, occurrence >> 40


@dataclass(slots=True)
class Symbol:
    """A definition or declaration. Its place in `Facts.symbols` is its local index; index 0 is the file itself."""

    name: str
    kind: str
    line: int
    end_line: int
    parent: int = 0
    qualified: str = ""
    signature: str = ""
    doc: str = ""
    declaration: bool = False  # declared here, defined elsewhere
    bases: str = ""  # for classes the texts of the bases, for fields and variables that of the type, where it is stated
    complexity: int = 0
    nesting: int = 0
    start_line: int = 0  # first line, with the template or decorator
    internal: bool = False  # C family: the linker shows it to no other source file


@dataclass(slots=True)
class Import:
    line: int
    kind: str  # import, from, include, using, require, source
    module: str
    name: str = ""  # the imported name, "*" for all
    alias: str = ""  # the name it has here
    local: int = 0  # enclosing symbol


@dataclass(slots=True)
class Finding:
    """A statement about a line: section is performance, safety, pattern or flag."""

    line: int
    section: str
    rule: str
    detail: str
    local: int = 0


@dataclass(slots=True)
class Remark:
    """Words addressed to the reader: a titled note, a reference to one, a TODO, an invariant, a heading."""

    line: int
    kind: str  # note, note-reference, todo, invariant, heading
    title: str
    text: str = ""
    local: int = 0


@dataclass(slots=True)
class Binding:
    """A name that another language sees: row of a method table, pybind11 `.def`, module init, registration macro."""

    line: int
    kind: str  # method table, getset table, pybind11, module, registration
    exposed: str
    target: str  # the function behind it, as written
    owner: str = ""  # the table, class or module it is registered in
    local: int = 0


@dataclass(slots=True)
class Facts:
    symbols: list[Symbol] = field(default_factory=list)
    # (name, qualifier) -> occurrences
    references: dict[tuple[str, str], list[int]] = field(default_factory=dict)
    imports: list[Import] = field(default_factory=list)
    findings: list[Finding] = field(default_factory=list)
    remarks: list[Remark] = field(default_factory=list)
    bindings: list[Binding] = field(default_factory=list)
    words: dict[str, tuple[int, int]] = field(default_factory=dict)  # candidate terms: (count, first line)
    locals: list[str] = field(default_factory=list)  # names of parameters and local variables
    exports: Iterable[str] | None = None  # __all__ and its like, where the file states it
    purpose: str = ""
    purpose_origin: str = ""  # docstring, header, the name of the main class, derived
    lines: int = 0
    code: int = 0
    comment: int = 0
    errors: int = 0  # line of the first syntax error that the parser recovered from
