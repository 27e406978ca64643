"""Names that Python sees, from C and C++: method tables, getset tables, pybind11 definitions, module init functions."""

import re

from tree_sitter import Node

from repobook.reading import engine
from repobook.reading.engine import Captures, Definition, Scopes
from repobook.reading.facts import Binding, Facts

_ARGUMENTS = re.compile(r"(?<=\w)<(?:[^<>]|<[^<>]*>)*>(?!\s*\()")
_IDENTIFIER = re.compile(r"[A-Za-z_]\w*(?:::[A-Za-z_]\w*)*")
_TABLES = {"PyMethodDef": "method table", "PyGetSetDef": "getset table", "PyMemberDef": "member table"}
# Identifiers of a table's row that are never the function behind it.
_NOISE = frozenset(
    [
        "PyCFunction",
        "getter",
        "setter",
        "void",
        "nullptr",
        "NULL",
        "const",
        "char",
        "static_cast",
        "reinterpret_cast",
        "PyCFunctionWithKeywords",
        "PyObject",
        "castPyCFunctionWithKeywords",
        "castPyCFunctionFast",
        "METH_VARARGS",
        "METH_KEYWORDS",
        "METH_NOARGS",
        "METH_O",
        "METH_STATIC",
        "METH_CLASS",
        "METH_FASTCALL",
        "PyCFunctionFast",
        "self",
        "args",
        "kwargs",
        "int",
    ]
)
_DEF = frozenset(
    {
        "def",
        "def_static",
        "def_property",
        "def_property_readonly",
        "def_readwrite",
        "def_readonly",
        "def_property_readonly_static",
    }
)
# `m.impl("add", f)`: the dispatcher calls f for one dispatch key; no caller names it.
_KERNEL = "impl"
# `py::class_<T> name(m, "Name")`, `auto name = py::class_<T>(m, "Name")`: definitions on `name` are methods.
_CLASS_VARIABLE = re.compile(
    r"""(?:class_|enum_|exception)\s*<[^;]{0,400}?>\s*(\w+)\s*[({]\s*\w+\s*,\s*"(\w+)"|"""
    r"""\b(\w+)\s*=\s*(?:\w+::)*(?:class_|enum_)\s*<[^;]{0,400}?>\s*\(\s*\w+\s*,\s*"(\w+)\""""
)
# `py::module_& m`, `auto m = parent.def_submodule(...)`, `PYBIND11_MODULE(name, m)`.
_MODULE_VARIABLE = re.compile(
    r"\b[Mm]odule_?\s*&{0,2}\s*(\w+)\b|\b(\w+)\s*=[^;=]*?[_:.>]*module|"
    r"\b(?:PYBIND11_\w*MODULE|NB_MODULE|\w*TORCH_LIBRARY\w*)\([^()]*?(\w+)\s*\)"
)
# Owner of a name that is defined on a value of unknown type.
UNKNOWN = "?"
_CLASS_MADE = re.compile(r"""(?:class_|enum_|exception)\b[^"]*"(\w+)\"""", re.S)


def read_bindings(found: dict[str, list[Node]], source: bytes, scopes: Scopes, facts: Facts) -> None:
    for row in engine.in_order(found.get("row", [])):
        local = scopes.find_owner(row.start_byte)
        table = facts.symbols[local]
        kind = next((title for word, title in _TABLES.items() if word in table.signature), None)
        if kind is None:
            continue
        parts = [part for part in row.named_children if part.type != "comment"]
        # `(char*)"name"`: the string behind the cast.
        exposed = _string(parts[0].child_by_field_name("value") or parts[0], source)
        if not exposed:
            continue
        line = row.start_point[0] + 1
        if kind == "getset table":
            for part, title in zip(parts[1:3], (kind, kind + ", setter"), strict=False):
                for target in _targets(part, source)[:1]:
                    facts.bindings.append(Binding(line, title, exposed, target, table.name, local))
            continue
        for target in [name for part in parts[1:] for name in _targets(part, source)][:1]:
            facts.bindings.append(Binding(line, kind, exposed, target, table.name, local))


def class_variables(source: bytes) -> dict[str, str]:
    """The variables of a file that hold a class or a module of pybind11: name of the class in Python, "" of modules."""
    if b".def(" not in source and b".def_" not in source:
        return {}
    text = source.decode("utf-8", "replace")
    found = {name: "" for match in _MODULE_VARIABLE.finditer(text) for name in match.groups() if name}
    if b"class_" in source or b"enum_" in source:
        found |= {m.group(1) or m.group(3): m.group(2) or m.group(4) for m in _CLASS_VARIABLE.finditer(text)}
    return found


def pybind(
    match: dict[str, list[Node]], source: bytes, captures: Captures, classes: dict[str, str]
) -> tuple[int, Binding] | None:
    """`m.def("name", &function)` and its relatives; returns where it stands too.

    A lambda has no name but the one it is registered under: it becomes a definition of that name.
    """
    method, exposed_node, target = match["method"][0], match["exposed"][0], match["target"][0]
    called = source[method.start_byte : method.end_byte].decode("utf-8", "replace")
    if called not in _DEF and called != _KERNEL:
        return None
    exposed = _string(exposed_node, source)
    if not exposed:
        return None
    line = exposed_node.start_point[0] + 1
    kind, owner = ("dispatch key", "") if called == _KERNEL else ("pybind11", _owner(method, source, classes))
    if target.type == "lambda_expression":
        body = target.child_by_field_name("body")
        stop = body.start_byte if body is not None else target.end_byte
        captures.definitions.append(
            Definition(target.start_byte, target.end_byte, exposed, "binding", exposed_node.start_byte, stop)
        )
        return target.start_byte, Binding(line, kind, exposed, "", owner)
    targets = _targets(target, source)
    return method.start_byte, Binding(line, kind, exposed, targets[-1] if targets else "", owner)


def _owner(method: Node, source: bytes, classes: dict[str, str]) -> str:
    """The class that a chain of `.def(...)` starts with, "" for a module, `UNKNOWN` for any other value."""
    at = method.parent
    while at is not None:
        receiver = at.child_by_field_name("argument") if at.type == "field_expression" else None
        if receiver is None:
            receiver = at.child_by_field_name("function") if at.type == "call_expression" else None
        if receiver is None:
            break
        if at.type == "call_expression" and receiver.type != "field_expression":
            made = _CLASS_MADE.search(source[at.start_byte : at.end_byte].decode("utf-8", "replace"))
            return made.group(1) if made else ""
        at = receiver
    return classes.get(engine.text_of(at, source), UNKNOWN) if at is not None else ""


_PYO3 = re.compile(rb"#\[(pymethods|pyfunction|pyclass|pyo3::pyfunction|pyo3::pymethods|pyo3::pyclass)\b")
_ITEM = re.compile(rb"\b(impl|fn|struct|enum)\b")
_PYO3_NAME = re.compile(rb"""\bname\s*=\s*"(\w+)\"""")
_ACCESSOR = re.compile(rb"#\[(getter|setter)(?:\((\w+)\))?\]")


_ATTRIBUTE_LINES = (b"#[", b"//", b"signature", b")")


def read_pyo3(source: bytes, lines: list[int], scopes: Scopes, facts: Facts) -> None:
    """Functions, classes and methods that Rust shows to Python with the attributes of pyo3."""
    if b"#[py" not in source:
        return
    members: dict[int, list[int]] = {}
    for local, symbol in enumerate(facts.symbols):
        members.setdefault(symbol.parent, []).append(local)
    for match in _PYO3.finditer(source):
        item = _ITEM.search(source, match.end())
        if item is None:
            continue
        local = scopes.find_owner(item.end())
        symbol = facts.symbols[local]
        if match.group(1).endswith(b"pymethods"):
            for method in members.get(local, ()):
                if facts.symbols[method].kind == "method":
                    _expose(facts, method, _attributes(source, lines, facts.symbols[method].line), symbol.name)
        elif local and item.start() < lines[min(symbol.line, len(lines) - 1)]:
            _expose(facts, local, source[match.start() : item.start()], "")


def _attributes(source: bytes, lines: list[int], line: int) -> bytes:
    """The lines of attributes and comments right above a line."""
    first = line
    while first > 1 and source[lines[first - 2] : lines[first - 1]].lstrip().startswith(_ATTRIBUTE_LINES):
        first -= 1
    return source[lines[first - 1] : lines[line - 1]]


def _expose(facts: Facts, local: int, attributes: bytes, owner: str) -> None:
    symbol = facts.symbols[local]
    named = _PYO3_NAME.search(attributes)
    accessor = _ACCESSOR.search(attributes)
    exposed = named.group(1).decode() if named else symbol.name
    kind = "pyo3"
    if accessor is not None:
        kind = "getset table, setter" if accessor.group(1) == b"setter" else "getset table"
        exposed = accessor.group(2).decode() if accessor.group(2) else exposed.removeprefix("get_").removeprefix("set_")
    facts.bindings.append(Binding(symbol.line, kind, exposed, "", owner, local))


def _string(node: Node, source: bytes) -> str:
    return source[node.start_byte : node.end_byte].decode("utf-8", "replace").strip('"')


def _targets(node: Node, source: bytes) -> list[str]:
    text = source[node.start_byte : node.end_byte].decode("utf-8", "replace")
    if text.startswith('"'):
        return []
    # `getter<&A::x>` is the function getter, not its argument.
    return [name for name in _IDENTIFIER.findall(_ARGUMENTS.sub("", text)) if name not in _NOISE]
