"""Orders of nodes, and small facts about them, for passes."""

from __future__ import annotations

import heapq
from typing import Any

from ndgrad._src.core.variable import Variable
from ndgrad.fx.graph_module import GraphModule
from ndgrad.fx.node import Node, _get_qualified_name

__all__ = ["get_node_target", "is_node_output_tensor", "legalize_graph", "sort_nodes", "stable_topological_sort"]

CALLABLE_NODE_OPS = frozenset(("call_module", "call_function", "call_method"))


def get_node_target(submodules: Any, node: Node) -> str:
    """Return the name of a called function, method, or class of module.

    Args:
        submodules: modules by path.
        node: node that calls.

    >>> import ndgrad
    >>> from ndgrad.fx.passes.tools_common import get_node_target
    >>> traced = ndgrad.fx.symbolic_trace(ndgrad.nn.Sequential(ndgrad.nn.ReLU()))
    >>> get_node_target(dict(traced.named_modules()), list(traced.graph.nodes)[1])
    'ndgrad.nn.modules.activation.ReLU'
    """
    if node.op not in CALLABLE_NODE_OPS:
        raise AssertionError(
            f"Expect op types of {', '.join(sorted(CALLABLE_NODE_OPS))}, but found {node.op} of node {node}. "
            "[nd-fx-graph]"
        )
    if node.op == "call_module":
        module = submodules[node.target]
        return str(getattr(module, "_base_class_origin", type(module)).__module__) + f".{type(module).__name__}"
    return _get_qualified_name(node.target) if node.op == "call_function" else str(node.target)


def is_node_output_tensor(node: Node) -> bool:
    """True if shape propagation found a tensor as the result of a node.

    Args:
        node: node of the graph.
    """
    kind = node.meta.get("type")
    return kind is not None and issubclass(kind, Variable)


def sort_nodes(nodes: list[Node]) -> list[Node]:
    """Return nodes in an order in which each comes after the nodes that it reads, close to the given one.

    Args:
        nodes: nodes of a graph.

    >>> import ndgrad
    >>> from ndgrad.fx.passes.tools_common import sort_nodes
    >>> x, add, output = ndgrad.fx.symbolic_trace(lambda x: x + 1).graph.nodes
    >>> sort_nodes([add, x, output])
    [x, add, output]
    """
    place = {node: i for i, node in enumerate(nodes)}
    waits = {node: sum(n in place for n in node.all_input_nodes) for node in nodes}
    ready = [place[node] for node in nodes if not waits[node]]
    heapq.heapify(ready)
    found: list[Node] = []
    while ready:
        node = nodes[heapq.heappop(ready)]
        found.append(node)
        for user in node.users:
            if user in waits:
                waits[user] -= 1
                if not waits[user]:
                    heapq.heappush(ready, place[user])
    if len(found) < len(nodes):
        left = [node.name for node in nodes if node not in set(found)]
        raise RuntimeError(
            f"Input graph has cycles, unable to add {', '.join(left)}: they read each other's results. [nd-fx-graph]"
        )
    return found


def stable_topological_sort(gm: GraphModule) -> GraphModule:
    """Move nodes of a graph after the nodes that they read, and keep the order otherwise.

    Args:
        gm: module whose graph is sorted in place.

    >>> import ndgrad
    >>> from ndgrad.fx.passes.tools_common import stable_topological_sort
    >>> traced = ndgrad.fx.symbolic_trace(lambda x: x + 1)
    >>> x, add, _ = traced.graph.nodes
    >>> x.prepend(add)
    >>> list(stable_topological_sort(traced).graph.nodes)
    [x, add, output]
    """
    root = gm.graph._root
    for node in sort_nodes(list(gm.graph.nodes)):
        root.prepend(node)
    return gm


legalize_graph = stable_topological_sort
