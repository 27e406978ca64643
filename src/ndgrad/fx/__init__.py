"""`torch.fx`: programs as data. Trace a function or module to a graph of operations, change it, and run it again.

    traced = ndgrad.fx.symbolic_trace(model)
    print(traced.graph)
    for node in traced.graph.nodes: ...
    traced.recompile()

    symbolic_trace, Tracer, Proxy, wrap   record a program as a graph
    Graph, Node                           the graph
    GraphModule                           a module that runs a graph, by generated code
    Interpreter, Transformer              run or rewrite a graph node by node
    replace_pattern, passes               changes of whole graphs
    from_program, to_program              the compiler's programs as graphs, and back
"""

from __future__ import annotations

import importlib as _importlib
from typing import TYPE_CHECKING as _TYPE_CHECKING
from typing import Any as _Any  # underscored: not part of the namespace

from ndgrad._src.foundations.missing_names import find_alias as _find_alias
from ndgrad.fx._code import CodeGen
from ndgrad.fx._symbolic_trace import PH, ProxyableClassMeta, Tracer, symbolic_trace, wrap
from ndgrad.fx.graph import Graph
from ndgrad.fx.graph_module import GraphModule
from ndgrad.fx.immutable_collections import immutable_dict, immutable_list
from ndgrad.fx.interpreter import Interpreter, Transformer
from ndgrad.fx.node import Node, has_side_effect, map_arg
from ndgrad.fx.proxy import Proxy
from ndgrad.fx.subgraph_rewriter import replace_pattern

if _TYPE_CHECKING:
    from ndgrad.fx.programs import from_program as from_program
    from ndgrad.fx.programs import to_program as to_program

#: Names that are imported on first use: they need the compiler.
_LATER = {"from_program": "ndgrad.fx.programs", "to_program": "ndgrad.fx.programs"}
_SUBMODULES = frozenset(
    "config experimental graph graph_module immutable_collections interpreter node operator_schemas passes programs "
    "proxy subgraph_rewriter tensor_type traceback".split()
)


def __getattr__(name: str) -> _Any:
    if name in _LATER:
        return getattr(_importlib.import_module(_LATER[name]), name)
    if name in _SUBMODULES:
        return _importlib.import_module(f"ndgrad.fx.{name}")
    return _find_alias(__name__, name)


__all__ = [
    "PH", "CodeGen", "Graph", "GraphModule", "Interpreter", "Node", "Proxy", "ProxyableClassMeta", "Tracer",
    "Transformer", "from_program", "has_side_effect", "immutable_dict", "immutable_list",
    "map_arg", "replace_pattern", "symbolic_trace", "to_program", "wrap",
]  # fmt: skip
