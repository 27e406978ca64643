"""The graph of imports: cycles, and the layer of each file (the longest chain of imports below it)."""

import sqlite3


def components(graph: dict[int, list[int]]) -> list[list[int]]:
    """Strongly connected components, those that others depend on first (Tarjan, without recursion)."""
    index: dict[int, int] = {}
    low: dict[int, int] = {}
    on_stack: set[int] = set()
    stack: list[int] = []
    found: list[list[int]] = []
    for root in graph:
        if root in index:
            continue
        work: list[tuple[int, int]] = [(root, 0)]
        while work:
            node, at = work.pop()
            if at == 0:
                index[node] = low[node] = len(index)
                stack.append(node)
                on_stack.add(node)
            following = graph.get(node, ())
            descended = False
            while at < len(following):
                child = following[at]
                at += 1
                if child not in index:
                    work.append((node, at))
                    work.append((child, 0))
                    descended = True
                    break
                if child in on_stack:
                    low[node] = min(low[node], index[child])
            if descended:
                continue
            if low[node] == index[node]:
                component = []
                while True:
                    member = stack.pop()
                    on_stack.discard(member)
                    component.append(member)
                    if member == node:
                        break
                found.append(component)
            if work:
                above = work[-1][0]
                low[above] = min(low[above], low[node])
    return found


def layers(db: sqlite3.Connection) -> dict[int, tuple[int, int]]:
    """file -> (layer, its cycle by the smallest file id in it, 0 where it is in none)."""
    graph: dict[int, list[int]] = {row[0]: [] for row in db.execute("SELECT id FROM files ORDER BY id")}
    for source, target in db.execute(
        "SELECT DISTINCT file, target FROM imports WHERE target IS NOT NULL ORDER BY file, target"
    ):
        if source != target and target in graph:
            graph[source].append(target)
    level: dict[int, int] = {}
    found: dict[int, tuple[int, int]] = {}
    for component in components(graph):
        members = set(component)
        depth = max(
            (level[child] + 1 for node in component for child in graph[node] if child not in members), default=0
        )
        cycle = min(component) if len(component) > 1 else 0
        for node in component:
            level[node] = depth
            found[node] = (depth, cycle)
    return found
