"""Replace all occurrences of a pattern in a graph by another graph."""

from __future__ import annotations

import copy
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, NamedTuple

from ndgrad.fx._symbolic_trace import symbolic_trace
from ndgrad.fx.graph import Graph
from ndgrad.fx.graph_module import GraphModule
from ndgrad.fx.node import Node
from ndgrad.fx.passes.tools_common import stable_topological_sort
from ndgrad.fx.passes.utils.matcher_utils import InternalMatch, SubgraphMatcher
from ndgrad.nn.modules.module import Module

__all__ = ["Match", "ReplacedPatterns", "replace_pattern", "replace_pattern_with_filters"]

#: A function of (occurrence, graph, pattern) that decides whether the occurrence is replaced.
Filter = Callable[[InternalMatch, Graph, Graph], bool]


class Match(NamedTuple):
    """Occurrence that was replaced.

    Args:
        anchor: node of the pattern's result.
        nodes_map: node that each node of the pattern matched.
    """

    anchor: Node
    nodes_map: dict[Node, Node]


@dataclass
class ReplacedPatterns:
    """Occurrence with the nodes that replaced it.

    Args:
        anchor: node of the pattern's result.
        nodes_map: node that each node of the pattern matched.
        replacements: nodes in its place.
    """

    anchor: Node
    nodes_map: dict[Node, Node]
    replacements: list[Node]


def replace_pattern(
    gm: GraphModule, pattern: Callable[..., Any] | Graph | Module, replacement: Callable[..., Any] | Graph | Module
) -> list[Match]:
    """Replace all occurrences of a pattern that do not overlap, and recompile the module; return them.

    Pattern and replacement are functions, modules or graphs with the same number of inputs and results.

    Args:
        gm: module to change.
        pattern: function, module or graph to find.
        replacement: function, module or graph in its place.

    >>> import ndgrad
    >>> traced = ndgrad.fx.symbolic_trace(lambda x: ndgrad.log(ndgrad.exp(x) + 1))
    >>> matches = ndgrad.fx.replace_pattern(
    ...     traced, lambda x: ndgrad.log(ndgrad.exp(x) + 1), lambda x: ndgrad.nn.functional.softplus(x)
    ... )
    >>> len(matches), traced(ndgrad.tensor([0.0]))
    (1, tensor([0.6931]))
    """
    return [Match(m.anchor, m.nodes_map) for m in _replace(gm, pattern, replacement, (), False, None)]


def replace_pattern_with_filters(
    gm: GraphModule,
    pattern: Callable[..., Any] | Graph | GraphModule,
    replacement: Callable[..., Any] | Graph | GraphModule | None = None,
    match_filters: list[Filter] | None = None,
    ignore_literals: bool = False,
    replacement_callback: Callable[[InternalMatch, Graph, Graph], Graph] | None = None,
    node_name_match: str = "",
) -> list[ReplacedPatterns]:
    """Same as `replace_pattern`, for the occurrences that all filters accept.

    Args:
        gm: module to change.
        pattern: function, module or graph to find.
        replacement: function, module or graph in its place.
        match_filters: functions of an occurrence, the graph and the pattern that return whether it is replaced.
        ignore_literals: whether constants of the pattern match all constants.
        replacement_callback: function of an occurrence, the graph and the pattern that returns its replacement, instead
            of `replacement`.
        node_name_match: accepted as in torch; has no effect.

    >>> import ndgrad
    >>> from ndgrad.fx.subgraph_rewriter import replace_pattern_with_filters
    >>> traced = ndgrad.fx.symbolic_trace(lambda x: x.add(1).add(2))
    >>> found = replace_pattern_with_filters(
    ...     traced, lambda x: x.add(0), lambda x: x, [lambda match, graph, pattern: True], ignore_literals=True
    ... )
    >>> len(found), traced(ndgrad.tensor(5))
    (2, tensor(5))
    """
    return _replace(gm, pattern, replacement, match_filters or (), ignore_literals, replacement_callback)


def _graph_of(thing: Any) -> Graph:
    if isinstance(thing, GraphModule):
        return thing.graph
    return thing if isinstance(thing, Graph) else symbolic_trace(thing).graph


def _replace(
    gm: GraphModule, pattern: Any, replacement: Any, filters: Any, ignore_literals: bool, make: Any
) -> list[ReplacedPatterns]:
    if (replacement is None) == (make is None):
        raise AssertionError("Must provide either replacement or replacement_callback, not both. [nd-exclusive]")
    pattern_graph = _graph_of(pattern)
    matches = [
        match
        for match in SubgraphMatcher(pattern_graph, ignore_literals=ignore_literals).match(gm.graph)
        if all(accepts(match, gm.graph, pattern_graph) for accepts in filters)
    ]
    fixed = None if replacement is None else _graph_of(replacement)
    if fixed is not None:
        _check_fit(pattern_graph, fixed)
    replaced: list[ReplacedPatterns] = []
    #: Current replacement of a node that an earlier match removed.
    current: dict[Node, Any] = {}
    for match in matches:
        graph = fixed if fixed is not None else _graph_of(make(match, gm.graph, pattern_graph))
        if fixed is None:
            _check_fit(pattern_graph, graph)
        replaced.append(_replace_one(gm, match, graph, pattern_graph, current))
    if any(_is_out_of_order(node) for node in gm.graph.nodes):
        stable_topological_sort(gm)
    gm.recompile()
    if isinstance(replacement, Module):
        _copy_attributes(gm, replacement)
    return replaced


def _check_fit(pattern: Graph, replacement: Graph) -> None:
    inputs = [sum(n.op == "placeholder" for n in graph.nodes) for graph in (pattern, replacement)]
    results = [len(_results(graph)) for graph in (pattern, replacement)]
    if inputs[0] != inputs[1] or results[0] != results[1]:
        raise AssertionError(
            f"The pattern has {inputs[0]} inputs and {results[0]} results, the replacement {inputs[1]} and "
            f"{results[1]}. Give them the same numbers. [nd-fx-graph]"
        )


def _results(graph: Graph) -> list[Any]:
    result = graph.output_node().args[0]
    return list(result) if isinstance(result, (list, tuple)) else [result]


def _replace_one(
    gm: GraphModule, match: InternalMatch, replacement: Graph, pattern: Graph, current: dict[Node, Any]
) -> ReplacedPatterns:
    def latest(value: Any) -> Any:
        while isinstance(value, Node) and value in current:
            value = current[value]
        return value

    inputs = [n for n in replacement.nodes if n.op == "placeholder"]
    values = dict(zip(inputs, map(latest, match.placeholder_nodes), strict=True))
    inner = [
        gn for pn, gn in match.nodes_map.items() if isinstance(gn, Node) and pn.op not in ("placeholder", "output")
    ]
    returning = [latest(match.nodes_map[n]) if isinstance(n, Node) else n for n in _results(pattern)]
    users = [user for node in returning if isinstance(node, Node) for user in node.users if user not in inner]
    place = min(users) if users else max(inner).next
    with gm.graph.inserting_before(place):
        made, copies = _copy_into(gm.graph, replacement, values)
    for old, new in zip(returning, made, strict=True):
        if isinstance(old, Node):
            for user in [u for u in old.users if u not in inner or isinstance(new, Node)]:
                if user not in inner:
                    user._replace(old, new)
            current[old] = new
    for node in sorted(inner, reverse=True):
        if not node.users:
            gm.graph.erase_node(node)
    anchor = match.anchors[0]
    shown = {
        pn: latest(gn) if pn.op == "placeholder" else gn for pn, gn in match.nodes_map.items() if pn.op != "output"
    }
    return ReplacedPatterns(anchor, shown, copies)


def _copy_into(graph: Graph, source: Graph, values: dict[Node, Any]) -> tuple[list[Any], list[Node]]:
    """Copy a graph at the insert point; return its results and the copies."""
    copies: list[Node] = []

    def value_of(node: Node) -> Any:
        return values[node]

    for node in source.nodes:
        if node.op in ("placeholder", "output"):
            continue
        values[node] = graph.node_copy(node, value_of)
        copies.append(values[node])
    results = [values[r] if isinstance(r, Node) else r for r in _results(source)]
    return results, copies


def _is_out_of_order(node: Node) -> bool:
    return any(node < read for read in node.all_input_nodes)


def _copy_attributes(gm: GraphModule, replacement: Module) -> None:
    """Add the modules and values that the replacement reads, and remove modules that nothing reads any more."""
    for node in gm.graph.nodes:
        if node.op in ("call_module", "get_attr"):
            path = str(node.target)
            if _find_value(gm, path) is None and (found := _find_value(replacement, path)) is not None:
                if isinstance(found, Module):
                    gm.add_submodule(path, copy.deepcopy(found))
                else:
                    *parents, name = path.split(".")
                    owner: Any = gm.get_submodule(".".join(parents))
                    setattr(owner, name, found)
    gm.delete_all_unused_submodules()
    gm.graph.lint()


def _find_value(module: Any, path: str) -> Any:
    for part in path.split("."):
        module = getattr(module, part, None)
    return module
