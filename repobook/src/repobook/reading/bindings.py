"""Names that Python sees, from C and C++: method tables, getset tables, pybind11 definitions, module init functions."""

import re

from tree_sitter import Node

from repobook.reading import engine
from repobook.reading.engine import Scopes
from repobook.reading.facts import Binding, Facts

_IDENTIFIER = re.compile(r"[A-Za-z_]\w*(?:::[A-Za-z_]\w*)*")
_TABLES = {"PyMethodDef": "method table", "PyGetSetDef": "getset table", "PyMemberDef": "member table"}
# Identifiers of a table's row that are never the function behind it.
_NOISE = frozenset(
    "PyCFunction getter setter void nullptr NULL const char static_cast reinterpret_cast PyCFunctionWithKeywords PyObject "
    "castPyCFunctionWithKeywords METH_VARARGS METH_KEYWORDS METH_NOARGS METH_O METH_STATIC METH_CLASS METH_FASTCALL "
    "PyCFunctionFast self args kwargs int".split()
)
_DEF = frozenset({"def", "def_static", "def_property", "def_property_readonly", "def_readwrite", "def_readonly", "def_property_readonly_static", "impl", "def_submodule"})  # fmt: skip


def read_bindings(found: dict[str, list[Node]], source: bytes, scopes: Scopes, facts: Facts) -> None:
    for row in engine.in_order(found.get("row", [])):
        local = scopes.at(row.start_byte)
        table = facts.symbols[local]
        kind = next((title for word, title in _TABLES.items() if word in table.signature), None)
        if kind is None:
            continue
        parts = row.named_children
        exposed = _string(parts[0], source)
        targets = [name for part in parts[1:] for name in _targets(part, source)]
        if not exposed:
            continue
        line = row.start_point[0] + 1
        for target in targets[: 2 if kind == "getset table" else 1]:
            facts.bindings.append(Binding(line, kind, exposed, target, table.name, local))


def pybind(match: dict[str, list[Node]], source: bytes) -> tuple[int, Binding] | None:
    """`m.def("name", &function)` and its relatives; returns where it stands too."""
    method, exposed_node, target = match["method"][0], match["exposed"][0], match["target"][0]
    if source[method.start_byte : method.end_byte].decode("utf-8", "replace") not in _DEF:
        return None
    exposed = _string(exposed_node, source)
    if not exposed:
        return None
    # A lambda is defined where it is registered: the enclosing function stands for it.
    targets = [] if target.type == "lambda_expression" else _targets(target, source)
    binding = Binding(exposed_node.start_point[0] + 1, "pybind11", exposed, targets[-1] if targets else "")
    return method.start_byte, binding


def _string(node: Node, source: bytes) -> str:
    return source[node.start_byte : node.end_byte].decode("utf-8", "replace").strip('"')


def _targets(node: Node, source: bytes) -> list[str]:
    text = source[node.start_byte : node.end_byte].decode("utf-8", "replace")
    if text.startswith('"'):
        return []
    return [name for name in _IDENTIFIER.findall(text) if name not in _NOISE]
