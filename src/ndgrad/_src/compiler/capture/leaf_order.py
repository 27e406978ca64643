"""The order in which a backward pass completes the gradients of leaves.

Hooks of leaves run when a gradient is complete. A compiled call is one node that sends all gradients at once, so it
sends them in the order of the function's own graph (`Node.sent_edges`).
"""

from __future__ import annotations

import heapq
import itertools
from collections.abc import Iterable, Sequence
from typing import Any

from ndgrad._src.core.node import FIRST, Node, edge_node
from ndgrad._src.core.traversal import count_gradients
from ndgrad._src.core.variable import edge


def order_of_leaves(roots: Sequence[Any], inputs: Sequence[Any], wanted: Sequence[int]) -> list[int] | None:
    """Return the positions of inputs in the order in which an eager backward pass reaches them, unreached inputs last;
    None if that is the order of the inputs.
    """
    if len(wanted) < 2:
        return None
    places = {edge_node(e): i for i in wanted if (e := edge(inputs[i])) is not None}
    starts = [edge_node(e) for t in roots if (e := edge(t)) is not None]
    first = [places[node] for node in order_of_completion(dict.fromkeys(starts), places)]
    order = [*first, *sorted({*range(len(inputs))} - {*first})]
    return None if order == [*range(len(inputs))] else order


def order_of_completion(roots: Iterable[Node], ends: Iterable[Node]) -> list[Node]:
    """Return the nodes of `ends` that a pass from the roots reaches, in the order in which their gradients are
    complete.
    """
    wanted, found = set(ends), list[Node]()
    counts = count_gradients(roots)
    ready = [(-node.seq, number, node) for number, node in enumerate(counts) if not counts[node]]
    heapq.heapify(ready)
    arrivals = itertools.count(len(counts)).__next__
    while ready:
        node = heapq.heappop(ready)[2]
        if node in wanted:
            found.append(node)
        for e in node.next:
            if e is None:
                continue
            target = edge_node(e)
            counts[target] -= 1
            if counts[target] == 0:
                heapq.heappush(ready, (-FIRST if target in wanted else -target.seq, arrivals(), target))
    return found
