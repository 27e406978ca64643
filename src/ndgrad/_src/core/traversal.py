"""Graph traversal: the nodes that a backward pass will reach, their gradient counts and their order.

All functions walk the graph with a list, never with recursion, so that the depth of a graph is not limited.
"""

from __future__ import annotations

import heapq
import itertools
from collections.abc import Iterable, Iterator
from operator import attrgetter

from ndgrad._src.core.node import FIRST, Edge, Node, edge_node

_sequence_number = attrgetter("seq")


def iterate_nodes(roots: Iterable[Node]) -> Iterator[Node]:
    """Yield all nodes reachable from the roots, each once, consumers of the first root first."""
    stack = list(roots)
    seen = set(stack)
    while stack:
        node = stack.pop()
        yield node
        for e in node.next:
            if e is not None:
                target = e.node if e.__class__ is Edge else e
                if target not in seen:
                    seen.add(target)
                    stack.append(target)


def count_gradients(roots: Iterable[Node]) -> dict[Node, int]:
    """Return the number of gradients that each node reachable from the roots will receive."""
    counts: dict[Node, int] = dict.fromkeys(roots, 0)
    stack = list(counts)
    while stack:
        for e in stack.pop().next:
            if e is None:
                continue
            if e.__class__ is Edge:
                e = e.node
            count = counts.get(e)
            if count is None:
                counts[e] = 1
                stack.append(e)
            else:
                counts[e] = count + 1
    return counts


def nodes_towards(roots: Iterable[Node], wanted: set[Node]) -> set[Node]:
    """Return the nodes from which a wanted node can be reached, including the wanted nodes.

    Nodes that may reach a wanted node by an inner pass are included too. The loop starts at the oldest node and checks
    the targets of each node, which are older, so one sweep over the graph is enough. If sequence numbers were changed,
    a node may come before its target; the sweep is then repeated until nothing changes.
    """
    found = list(dict.fromkeys(roots))
    seen = set(found)
    for node in found:  # the list grows
        for e in node.next:
            if e is not None:
                target = e.node if e.__class__ is Edge else e
                if target not in seen:
                    seen.add(target)
                    found.append(target)
    found.sort(key=_sequence_number)
    needed = wanted.intersection(found)
    inner = [node for node in found if node.has_inner_pass]
    if inner:
        oldest = oldest_of(wanted)
        needed.update(node for node in inner if oldest < node.seq)
    while True:
        before, in_order = len(needed), True
        for node in found:
            if node not in needed:
                for e in node.next:
                    if e is not None:
                        target = e.node if e.__class__ is Edge else e
                        if target in needed:
                            needed.add(node)
                            break
                        if target.seq >= node.seq and target.seq is not FIRST:
                            in_order = False
        if in_order or len(needed) == before:
            return needed


def oldest_of(nodes: Iterable[Node]) -> float:
    """Return the sequence number of the oldest node. A leaf, whose own number is FIRST, counts as the oldest."""
    return min((-1.0 if node.seq is FIRST else node.seq for node in nodes), default=FIRST)


def execution_order(roots: list[Node], wanted: set[Node] | None = None) -> list[Node]:
    """Return the nodes that a pass from the roots runs, in order; with `wanted`, only those towards a wanted node."""
    counts = count_gradients(roots)
    needed = counts.keys() if wanted is None else nodes_towards(roots, wanted)
    arrivals = itertools.count().__next__
    ready = [(-node.seq, arrivals(), node) for node in dict.fromkeys(roots) if not counts[node] and node in needed]
    heapq.heapify(ready)
    order = []
    while ready:
        node = heapq.heappop(ready)[2]
        order.append(node)
        for e in node.next:
            target = None if e is None else edge_node(e)
            if target is not None and target in needed:
                counts[target] -= 1
                if not counts[target]:
                    heapq.heappush(ready, (-target.seq, arrivals(), target))
    return order
