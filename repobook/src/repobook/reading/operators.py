"""Entries of data files: lists of mappings in YAML, and among them the operators that PyTorch's build reads.

`native_functions.yaml` declares each operator with its schema, the kernels of its dispatch keys and the forms that the
build generates (function, method). `derivatives.yaml` has the formulas of its gradients. Both become entries: an
operator is registered under its name, its kernels are bound to it, and a formula refers to its operator and to the
functions that it calls.
"""

import re
from bisect import bisect_right

from repobook.reading.engine import Captures, Definition
from repobook.reading.facts import CALL, OPERATOR, OUT, Binding, Facts, pack

# Entries of one file; a longer list is data, not structure.
_ENTRIES = 20_000
_PLAIN_ENTRIES = 400
_ENTRY = re.compile(r"^- +(?:&\w+ +)?(\w+): *([^\n]*)", re.M)
_SCHEMA = re.compile(r"((?:\w+::)?\w+(?:\.\w+)?)\(.*?\) *->", re.S)
_RETURNS_TENSOR = re.compile(r"-> *Tensor(?:\([^)]*\))?(?: *#.*)?$")
# A result that the caller hands over: `*, Tensor(a!) out`.
_WRITES = re.compile(r"\*,.*\(\w!\).*->", re.S)
_FIELD = re.compile(r"^  (\w+): *([^\n]*(?:\n {4,}[^\n]*)*)", re.M)
_KERNEL = re.compile(r"^ {4}([\w, ]+): *([\w:]+)", re.M)
_CALLED = re.compile(r"(?<![\w.:>])([A-Za-z_]\w*(?:::\w+)*) *\(")
_NAMED = ("name", "id", "key", "op", "func", "title", "path", "repo", "uses")
# Keys of a derivative that hold no formula.
_NO_FORMULA = frozenset({"name", "output_differentiability", "dispatch", "variants", "tags", "autogen"})


def entries(source: bytes) -> list[tuple[int, int, re.Match[str]]]:
    """(start, end, first line) of the mappings of a list at the top of a file."""
    text = source.decode("latin-1")  # a character per byte, so that offsets are those of the bytes
    matches = list(_ENTRY.finditer(text))
    ends = [match.start() for match in matches[1:]] + [len(text)]
    return [(match.start(), end, match) for match, end in zip(matches, ends, strict=False)]


def define_entries(source: bytes, captures: Captures) -> None:
    """A definition for each entry that its first key names."""
    plain = 0
    for start, end, match in entries(source)[:_ENTRIES]:
        schema = _SCHEMA.match(match.group(2)) if match.group(1) in ("func", "name") else None
        if schema is not None:
            name, kind, signature = schema.group(1), "operator", match.group(2).strip()
        elif match.group(1) in _NAMED and plain < _PLAIN_ENTRIES:
            name, kind, signature = match.group(2).partition(" #")[0].strip(" \"'"), "entry", ""
            plain += 1
        else:
            continue
        if name and len(name) <= 200:
            stop = start + len(source[start:end].rstrip())
            name = name.encode("latin-1").decode("utf-8", "replace")
            made = Definition(start, stop, name, kind, match.start(2), signature=signature)
            if _RETURNS_TENSOR.search(signature):
                made.bases = "at::Tensor"  # the type that it returns
            captures.definitions.append(made)


def read_operators(source: bytes, lines: list[int], facts: Facts) -> None:
    """Kernels, forms and formulas of the operators that `define_entries` found."""
    by_line = {symbol.line: local for local, symbol in enumerate(facts.symbols) if symbol.kind == "operator"}
    if not by_line:
        return
    for start, end, match in entries(source):
        local = by_line.get(bisect_right(lines, start))
        if local is None:
            continue
        fields = {field.group(1): field for field in _FIELD.finditer(match.string, start, end)}
        if match.group(1) == "func":
            _operator(fields, local, lines, facts)
        else:
            _derivative(fields, local, lines, facts)


def _operator(fields: dict[str, re.Match[str]], local: int, lines: list[int], facts: Facts) -> None:
    symbol = facts.symbols[local]
    variants = fields["variants"].group(2).strip() if "variants" in fields else "function"
    if "manual_cpp_binding" in fields:
        variants += ", manual"
    writes = bool(_WRITES.search(symbol.signature))
    if writes:
        variants += f", {OUT}"
    base = symbol.name.partition(".")[0]
    facts.bindings.append(Binding(symbol.line, "operator", base, "", variants, local))
    dispatch = fields.get("dispatch")
    if dispatch is not None:
        for kernel in _KERNEL.finditer(dispatch.string, dispatch.start(2), dispatch.end()):
            target = kernel.group(2) if "::" in kernel.group(2) else f"at::native::{kernel.group(2)}"
            line = bisect_right(lines, kernel.start(2))
            facts.bindings.append(Binding(line, "kernel", symbol.name, target, kernel.group(1).strip(), local))
    elif "structured_delegate" not in fields:
        # Without a kernel of its own an operator is implemented by the function of its name.
        target = f"at::native::{base}_{OUT}" if writes else f"at::native::{base}"
        facts.bindings.append(Binding(symbol.line, "kernel", symbol.name, target, "", local))
    for key in ("structured_delegate", "autogen"):
        if key in fields:
            for name in fields[key].group(2).split(","):
                _refer(name.strip(), OPERATOR, bisect_right(lines, fields[key].start(2)), local, 0, facts)


def _derivative(fields: dict[str, re.Match[str]], local: int, lines: list[int], facts: Facts) -> None:
    symbol = facts.symbols[local]
    _refer(symbol.name, OPERATOR, symbol.line, local, 0, facts)
    for key, field in fields.items():
        if key in _NO_FORMULA:
            continue
        for called in _CALLED.finditer(field.group(2)):
            line = bisect_right(lines, field.start(2) + called.start())
            space, _, name = called.group(1).rpartition("::")
            _refer(name, space, line, local, CALL, facts)


def _refer(name: str, qualifier: str, line: int, local: int, flags: int, facts: Facts) -> None:
    if name:
        facts.references.setdefault((name, qualifier), []).append(pack(line, local, flags))
