"""The rows of the GPU benchmark as a Markdown table."""

from __future__ import annotations

from benchmarks.gpu.rows import Row
from benchmarks.gpu.timing import Way


def cells_of(ways: list[Way]) -> list[str]:
    """Return the milliseconds of two libraries, and their ratio."""
    cells = [way.problem or f"{way.seconds * 1e3:.3f}" for way in ways]
    if len(ways) < 2:
        return ["", "", ""]
    return [*cells, "" if any(way.problem for way in ways) else f"{ways[1].seconds / ways[0].seconds:.2f}"]


def line_of(wanted: Row, ways: list[Way], compiled: bool, memory: bool) -> str:
    eager, rest = ways[:2], ways[2:]
    cells = [wanted.title, *cells_of(eager)]
    if compiled:
        cells += cells_of(rest)
    if memory:
        cells += [f"{way.peak / 2**20:.1f}" if way.peak else "" for way in eager]
    return f"| {' | '.join(cells)} |"


def head_of(compiled: bool, memory: bool) -> str:
    titles = ["step", "torch, ms", "ndgrad, ms", "ratio"]
    if compiled:
        titles += ["torch.compile, ms", "ndgrad.compile, ms", "ratio"]
    if memory:
        titles += ["torch, peak MiB", "ndgrad, peak MiB"]
    return f"| {' | '.join(titles)} |\n|{' --- |' * len(titles)}"
