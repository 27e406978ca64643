"""Pictures: the graph behind a result, times of calls, holders of memory. Each is an object that a notebook shows and
`save` writes as SVG or as one interactive HTML page, which needs no network.

    graph(y)            the graph: zoom, fold by line, function or module, search, colours by saved bytes or time
    flame(profile)      a profile as nested calls
    memory(trace)       a `trace_allocations` as bytes over time
    Chart(title)        curves, points and images, without a plotting library
"""

from __future__ import annotations

import sys
from typing import Any

from ndgrad._src.debug.drawing import LARGEST, GraphPicture, picture_of
from ndgrad.profiler.pictures import FlamePicture, MemoryPicture, Picture, flame, memory
from ndgrad.viz.chart import Chart, beside

__all__ = ["Chart", "FlamePicture", "GraphPicture", "MemoryPicture", "Picture", "beside", "flame", "graph", "memory"]


def graph(roots: Any, params: Any = None, *, profile: Any = None, limit: int | None = LARGEST) -> GraphPicture:
    """Return the graph behind tensors: an object that notebooks draw, terminals print, and `save` writes (.html, .svg,
    .dot, .txt).

    The arguments are those of `ndgrad.autograd.graph.show`. A `profile` of the forward pass, and perhaps of backward,
    adds the time of every node to the page. The page has every node, `limit` only applies to the SVG; made under
    `ndgrad.autograd.debug()`, it can fold by line and function, and a click shows the line.

    Args:
        roots: tensor, gradient edge, node, or a list or dict of them.
        params: names of leaves: a dict, a module, or pairs of a name and a tensor. None uses the caller's variables.
        profile: profile of the forward pass, and perhaps of backward.
        limit: largest number of boxes of the SVG. None means the default.

    >>> import ndgrad
    >>> w = ndgrad.ones(3, requires_grad=True)
    >>> picture = ndgrad.viz.graph((w * w).sum())
    >>> picture.caption
    '2 nodes, 1 leaf, 12 B saved for backward'
    >>> picture.save("graph.html")
    """
    return picture_of(roots, params, sys._getframe(1), limit, None if profile is None else _times(profile))


def _times(profile: Any) -> dict[int, tuple[float, float]]:
    """Return microseconds of each node, forward and backward, by its number in the profile."""
    found: dict[int, tuple[float, float]] = {}
    events = profile.events() if callable(getattr(profile, "events", None)) else profile.function_events
    for event in events:
        if event.sequence_nr >= 0:
            forward, backward = found.get(event.sequence_nr, (0.0, 0.0))
            own = event.self_cpu_time_total
            is_backward = event.scope == 1 or event.name.startswith("autograd::engine")
            found[event.sequence_nr] = (forward, backward + own) if is_backward else (forward + own, backward)
    return found
