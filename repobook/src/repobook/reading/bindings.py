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
        "impl",
    }
)


def read_bindings(found: dict[str, list[Node]], source: bytes, scopes: Scopes, facts: Facts) -> None:
    for row in engine.in_order(found.get("row", [])):
        local = scopes.at(row.start_byte)
        table = facts.symbols[local]
        kind = next((title for word, title in _TABLES.items() if word in table.signature), None)
        if kind is None:
            continue
        parts = [part for part in row.named_children if part.type != "comment"]
        # `(char*)"name"`: the string behind the cast.
        exposed = _string(parts[0].child_by_field_name("value") or parts[0], source)
        targets = [name for part in parts[1:] for name in _targets(part, source)]
        if not exposed:
            continue
        line = row.start_point[0] + 1
        for target in targets[: 2 if kind == "getset table" else 1]:
            facts.bindings.append(Binding(line, kind, exposed, target, table.name, local))


def pybind(match: dict[str, list[Node]], source: bytes, captures: Captures) -> tuple[int, Binding] | None:
    """`m.def("name", &function)` and its relatives; returns where it stands too.

    A lambda has no name but the one it is registered under: it becomes a definition of that name.
    """
    method, exposed_node, target = match["method"][0], match["exposed"][0], match["target"][0]
    if source[method.start_byte : method.end_byte].decode("utf-8", "replace") not in _DEF:
        return None
    exposed = _string(exposed_node, source)
    if not exposed:
        return None
    line = exposed_node.start_point[0] + 1
    if target.type == "lambda_expression":
        body = target.child_by_field_name("body")
        stop = body.start_byte if body is not None else target.end_byte
        captures.definitions.append(
            Definition(target.start_byte, target.end_byte, exposed, "binding", exposed_node.start_byte, stop)
        )
        return target.start_byte, Binding(line, "pybind11", exposed, "")
    targets = _targets(target, source)
    return method.start_byte, Binding(line, "pybind11", exposed, targets[-1] if targets else "")


def _string(node: Node, source: bytes) -> str:
    return source[node.start_byte : node.end_byte].decode("utf-8", "replace").strip('"')


def _targets(node: Node, source: bytes) -> list[str]:
    text = source[node.start_byte : node.end_byte].decode("utf-8", "replace")
    if text.startswith('"'):
        return []
    # `getter<&A::x>` is the function getter, not what it is made for.
    return [name for name in _IDENTIFIER.findall(_ARGUMENTS.sub("", text)) if name not in _NOISE]
