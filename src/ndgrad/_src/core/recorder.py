"""Functions of the core that the op table calls: an op's eager functions, its node class, and in-place writes."""

from __future__ import annotations

from ndgrad._src.core.generate import make_eager, make_widening
from ndgrad._src.core.inplace import write
from ndgrad._src.core.modes import modes
from ndgrad._src.core.node_classes import make_node_class
from ndgrad._src.core.saved import lift
from ndgrad._src.core.variable import innermost_array

__all__ = ["innermost_array", "is_recording", "lift", "make_eager", "make_node_class", "make_widening", "write"]


def is_recording() -> bool:
    """True if ops are recorded now, in a graph or by a transform."""
    now = modes()
    return bool(now.grad_enabled or now.levels or now.dual_levels)
