"""What the engine tells `logging`: with the logger `ndgrad.autograd.graph` at DEBUG, each node of a pass as it runs.

`logging` is not imported for it: in a program that has not done so nobody can have asked.
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Sequence
from typing import Any

from ndgrad._src.core.node import edge_node
from ndgrad._src.core.traversal import iterate_nodes
from ndgrad._src.core.variable import np_dtype, shape_of
from ndgrad._src.engine.engine import backward_from
from ndgrad._src.engine.roots import gradient_edges

_DEBUG = 10
_LETTERS = {"f": "f", "c": "c", "i": "i", "u": "u", "b": "b"}


_logger: Any = None


def is_logged() -> bool:
    """Whether somebody wants to read of the passes of the engine."""
    global _logger
    if _logger is None:
        if "logging" not in sys.modules:
            return False
        _logger = sys.modules["logging"].getLogger("ndgrad.autograd.graph")
    return bool(_logger.isEnabledFor(_DEBUG))


def log_nodes(roots: Sequence[Any]) -> Callable[[], None]:
    """Let every node behind tensors or gradient edges say when it runs; the result is called to end that."""
    import logging  # whoever asks for this wants it

    logger = logging.getLogger("ndgrad.autograd.graph")

    def saying(node: Any) -> Callable[[Any], None]:
        name = f"<{node.name()} object at {id(node):#x}>"  # a hook must not hold its node
        return lambda grads: logger.debug("Executing: %s with grad_outputs: [%s]", name, ", ".join(map(_brief, grads)))

    nodes = iterate_nodes(dict.fromkeys(map(edge_node, gradient_edges(list(roots)))))
    handles = [node.register_prehook(saying(node)) for node in nodes]

    def end() -> None:
        for handle in handles:
            handle.remove()

    return end


def logged_backward(tensors: list[Any], grads: list[Any], **options: Any) -> list[Any] | None:
    """`backward_from`, whose nodes say when they run."""
    end = log_nodes(tensors)
    try:
        return backward_from(tensors, grads, **options)
    finally:
        end()


def _brief(g: Any) -> str:
    """A gradient by dtype and shape: f64[2, 3]."""
    if g is None:
        return "None"
    dtype = np_dtype(g)
    letters = "bf" if dtype.name == "bfloat16" else _LETTERS.get(dtype.kind, dtype.kind)
    return f"{letters}{8 * dtype.itemsize}[{', '.join(map(str, shape_of(g)))}]"
