"""Occurrences of a small graph, the pattern, in another one.

The search starts at the pattern's results and goes up their arguments. A placeholder of the pattern matches any value;
different nodes of the pattern match different nodes. An occurrence counts only if nothing outside reads its inner
nodes, so that it can be replaced.
"""

from __future__ import annotations

import copy
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any

from ndgrad._src.core.variable import Variable
from ndgrad.fx.graph import Graph
from ndgrad.fx.node import Argument, Node
from ndgrad.fx.operator_schemas import normalize_function

__all__ = ["InternalMatch", "SubgraphMatcher"]


@dataclass
class InternalMatch:
    """Occurrence of a pattern.

    Args:
        anchors: nodes of the pattern from which the search starts.
        nodes_map: node or value that each node of the pattern matches.
        placeholder_nodes: nodes that the placeholders of the pattern match.
        returning_nodes: nodes that the results of the pattern match.
        name_node_map: nodes by the names that a pattern gives them.
    """

    anchors: list[Node]
    nodes_map: dict[Node, Any] = field(default_factory=dict)
    #: Nodes or values that match the pattern's placeholders, in their order.
    placeholder_nodes: list[Any] = field(default_factory=list)
    #: Nodes that match the pattern's results, in their order.
    returning_nodes: list[Node] = field(default_factory=list)
    #: Nodes that match the pattern's nodes with this name, if the pattern's last result is a dictionary of them.
    name_node_map: dict[str, Node] = field(default_factory=dict)

    def __copy__(self) -> InternalMatch:
        return InternalMatch(
            list(self.anchors),
            dict(self.nodes_map),
            list(self.placeholder_nodes),
            list(self.returning_nodes),
            dict(self.name_node_map),
        )


class SubgraphMatcher:
    """Search for a pattern in graphs.

    Args:
        pattern: graph to find.
        match_output: whether the output matches only an output.
        match_placeholder: whether a placeholder matches only a placeholder.
        remove_overlapping_matches: whether occurrences that share nodes are left out.
        ignore_literals: whether constants of the pattern match all constants.

    >>> import ndgrad
    >>> from ndgrad.fx.passes.utils.matcher_utils import SubgraphMatcher
    >>> pattern = ndgrad.fx.symbolic_trace(lambda a, b: ndgrad.relu(a + b)).graph
    >>> graph = ndgrad.fx.symbolic_trace(lambda x: ndgrad.relu(x + 2 * x) * 3).graph
    >>> [match.returning_nodes for match in SubgraphMatcher(pattern).match(graph)]
    [[relu]]
    """

    def __init__(
        self,
        pattern: Graph,
        match_output: bool = False,
        match_placeholder: bool = False,
        remove_overlapping_matches: bool = True,
        ignore_literals: bool = False,
    ) -> None:
        self.pattern = pattern
        self.match_output = match_output
        self.match_placeholder = match_placeholder
        self.remove_overlapping_matches = remove_overlapping_matches
        self.ignore_literals = ignore_literals
        if not len(pattern.nodes):
            raise ValueError(
                "SubgraphMatcher cannot be initialized with an empty pattern: the graph has no nodes. [nd-fx-graph]"
            )
        for node in pattern.nodes:
            if node.op != "output" and not node.users:
                raise AssertionError(
                    f"SubgraphMatcher cannot be initialized with an pattern with dead code: nothing reads {node}. "
                    "Call eliminate_dead_code() first. [nd-fx-graph]"
                )
        self.pattern_placeholder_nodes = [n for n in pattern.nodes if n.op == "placeholder"]
        output = pattern.output_node()
        self.pattern_returning_nodes = output.all_input_nodes
        if match_output:
            self.pattern_anchors = [output]
        else:
            # A result that another result reads is reached from that one.
            self.pattern_anchors = [n for n in output.all_input_nodes if len(n.users) == 1] or output.all_input_nodes

    def match(self, graph: Graph) -> list[InternalMatch]:
        """Return the occurrences of the pattern, in the order of the graph.

        Args:
            graph: graph to search.

        >>> import ndgrad
        >>> from ndgrad.fx.passes.utils.matcher_utils import SubgraphMatcher
        >>> pattern = ndgrad.fx.symbolic_trace(lambda a: a.sin()).graph
        >>> len(SubgraphMatcher(pattern).match(ndgrad.fx.symbolic_trace(lambda x: x.sin().sin()).graph))
        2
        """
        found = []
        for match in self._complete(InternalMatch(list(self.pattern_anchors)), 0, graph):
            match.placeholder_nodes = [match.nodes_map[p] for p in self.pattern_placeholder_nodes]
            match.returning_nodes = [match.nodes_map[p] for p in self.pattern_returning_nodes]
            if self._is_contained(match.nodes_map):
                found.append(match)
        return self._without_overlap(found) if self.remove_overlapping_matches else found

    def _complete(self, match: InternalMatch, anchor: int, graph: Graph) -> Iterator[InternalMatch]:
        """Yield the completions of a partial match by its anchors from the given number on."""
        if anchor == len(self.pattern_anchors):
            yield match
            return
        for node in graph.nodes:
            tried = copy.copy(match)
            if self._match_nodes(self.pattern_anchors[anchor], node, tried.nodes_map):
                yield from self._complete(tried, anchor + 1, graph)

    # ----- nodes -----

    def _nodes_are_equal(self, pn: Node, gn: Node) -> bool:
        """True if a node may match a node of the pattern, apart from arguments."""
        if not self.match_placeholder and pn.op == "placeholder":
            return True
        if pn.op != gn.op:
            return False
        if pn.op in ("placeholder", "output"):
            return True
        if pn.op == "get_attr":
            return self._match_attributes(pn, gn)
        return bool(pn.target == gn.target)

    def _match_attributes(self, pn: Node, gn: Node) -> bool:
        """True if two values of modules may match: tensors match tensors, other values must be equal."""
        values = []
        for node in (pn, gn):
            found: Any = node.graph.owning_module
            for part in str(node.target).split("."):
                found = getattr(found, part, None)
            values.append(found)
        if isinstance(values[0], Variable):
            return isinstance(values[1], Variable)
        return pn.target == gn.target or bool(values[0] == values[1])

    def _match_nodes(self, pn: Node, gn: Any, known: dict[Node, Any]) -> bool:
        """Match a node of the pattern and the nodes above it; add them to `known`, which is useless after a failure."""
        if pn in known:
            return known[pn] is gn
        if not isinstance(gn, Node):
            # A placeholder of the pattern also matches a constant.
            if pn.op == "placeholder" and not self.match_placeholder:
                known[pn] = gn
                return True
            return False
        if any(gn is other for other in known.values()) or not self._nodes_are_equal(pn, gn):
            return False
        known[pn] = gn
        if pn.op == "placeholder":
            return True
        if pn.op == "output" and not self.match_output:
            return True
        pattern, given = _arguments(pn, gn)
        return self._match_args(pattern, given, known)

    def _match_args(self, pattern: Argument, given: Argument, known: dict[Node, Any]) -> bool:
        if isinstance(pattern, Node):
            return self._match_nodes(pattern, given, known)
        if isinstance(given, Node):
            return False
        if isinstance(pattern, (list, tuple)):
            return (
                isinstance(given, (list, tuple))
                and len(pattern) == len(given)
                and all(self._match_args(a, b, known) for a, b in zip(pattern, given, strict=True))
            )
        if isinstance(pattern, dict):
            return (
                isinstance(given, dict)
                and pattern.keys() == given.keys()
                and all(self._match_args(pattern[key], given[key], known) for key in pattern)
            )
        if isinstance(pattern, slice):
            return isinstance(given, slice) and self._match_args(
                (pattern.start, pattern.stop, pattern.step), (given.start, given.stop, given.step), known
            )
        if self.ignore_literals:
            return True
        return type(pattern) is type(given) and bool(pattern == given)

    # ----- whole matches -----

    def _is_contained(self, nodes_map: dict[Node, Any]) -> bool:
        """True if nothing outside reads an inner node of the match."""
        inner = {gn for pn, gn in nodes_map.items() if isinstance(gn, Node) and pn.op != "placeholder"}
        for pn, gn in nodes_map.items():
            if pn.op in ("placeholder", "output") or pn in self.pattern_returning_nodes or not isinstance(gn, Node):
                continue
            if any(user not in inner for user in gn.users):
                return False
        return True

    def _without_overlap(self, matches: list[InternalMatch]) -> list[InternalMatch]:
        kept: list[InternalMatch] = []
        used: set[Node] = set()
        for match in matches:
            own = {
                gn
                for pn, gn in match.nodes_map.items()
                if isinstance(gn, Node) and pn.op not in ("placeholder", "output")
            }
            if not own & used:
                used |= own
                kept.append(match)
        return kept


def _arguments(pn: Node, gn: Node) -> tuple[Any, Any]:
    """Return the arguments of two calls of one target in comparable form: by position, or else by parameter name."""
    plain = [(n.args, n.kwargs) for n in (pn, gn)]
    if len(pn.args) == len(gn.args) and pn.kwargs.keys() == gn.kwargs.keys():
        return plain[0], plain[1]
    if pn.op == "call_function":
        named = [normalize_function(n.target, n.args, n.kwargs, normalize_to_only_use_kwargs=True) for n in (pn, gn)]
        if named[0] is not None and named[1] is not None:
            return named[0].kwargs, named[1].kwargs
    return plain[0], plain[1]
