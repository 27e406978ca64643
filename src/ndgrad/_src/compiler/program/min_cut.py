"""Minimum cut of a graph with capacities: the edges with the least sum that separate a source from a sink.

Dinic's algorithm: compute levels by breadth-first search, push flow along edges from one level to the next until none
is left, and repeat. By the theorem of Ford and Fulkerson, the edges from nodes that the source still reaches to other
nodes are a minimum cut.
"""

from __future__ import annotations

from collections import deque

INFINITE = 1 << 62


class FlowGraph:
    """A graph whose nodes are numbers. An edge and its reverse are adjacent in the lists."""

    def __init__(self) -> None:
        self._edges: list[list[int]] = []  # numbers of the edges of each node
        self._to: list[int] = []
        self._left: list[int] = []

    def add_node(self) -> int:
        self._edges.append([])
        return len(self._edges) - 1

    def add_edge(self, start: int, end: int, capacity: int) -> None:
        for here, there, width in ((start, end, capacity), (end, start, 0)):
            self._edges[here].append(len(self._to))
            self._to.append(there)
            self._left.append(width)

    def find_cut(self, source: int, sink: int) -> set[int]:
        """Return the nodes on the source's side of a minimum cut."""
        while True:
            levels = self._find_levels(source)
            if sink not in levels:
                return set(levels)
            nexts = [0] * len(self._edges)
            while self._push(source, sink, levels, nexts):
                pass

    def _find_levels(self, source: int) -> dict[int, int]:
        levels, queue = {source: 0}, deque([source])
        while queue:
            node = queue.popleft()
            for e in self._edges[node]:
                if self._left[e] and self._to[e] not in levels:
                    levels[self._to[e]] = levels[node] + 1
                    queue.append(self._to[e])
        return levels

    def _push(self, source: int, sink: int, levels: dict[int, int], nexts: list[int]) -> int:
        """Push flow along one path from level to level and return its amount. Without recursion, because programs are
        long.
        """
        path: list[int] = []
        node = source
        while node != sink:
            edges = self._edges[node]
            while nexts[node] < len(edges):
                e = edges[nexts[node]]
                if self._left[e] and levels.get(self._to[e]) == levels[node] + 1:
                    break
                nexts[node] += 1
            else:
                if not path:
                    return 0
                e = path.pop()
                node = self._to[e ^ 1]
                nexts[node] += 1
                continue
            path.append(e)
            node = self._to[e]
        flow = min(self._left[e] for e in path)
        for e in path:
            self._left[e] -= flow
            self._left[e ^ 1] += flow
        return flow
