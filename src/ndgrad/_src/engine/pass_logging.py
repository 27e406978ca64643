"""Log messages of the engine: with the logger `ndgrad.autograd.graph` at DEBUG, each node of a pass as it runs.

This module does not import `logging`: without an import in the program, no logger can have been configured.
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any

from ndgrad._src.core.node import edge_node
from ndgrad._src.core.traversal import iterate_nodes
from ndgrad._src.core.variable import np_dtype, shape_of
from ndgrad._src.engine.engine import backward_from
from ndgrad._src.engine.roots import gradient_edges

if TYPE_CHECKING:
    from ndgrad._src.core.node import Node
    from ndgrad._typing import Payload

_DEBUG = 10
_LETTERS = {"f": "f", "c": "c", "i": "i", "u": "u", "b": "b"}


_logger: Any = None


def is_logged() -> bool:
    """True if the engine's passes are logged."""
    global _logger
    if _logger is None:
        if "logging" not in sys.modules:
            return False
        _logger = sys.modules["logging"].getLogger("ndgrad.autograd.graph")
    return bool(_logger.isEnabledFor(_DEBUG))


def log_nodes(roots: Sequence[Any]) -> Callable[[], None]:
    """Log every node behind tensors or gradient edges when it runs. Return a function that ends the logging."""
    import logging  # loaded only on request

    logger = logging.getLogger("ndgrad.autograd.graph")

    def make_hook(node: Node) -> Callable[[Any], None]:
        name = f"<{node.name()} object at {id(node):#x}>"  # a hook must not hold its node
        return lambda grads: logger.debug("Executing: %s with grad_outputs: [%s]", name, ", ".join(map(_brief, grads)))

    nodes = iterate_nodes(dict.fromkeys(map(edge_node, gradient_edges(list(roots)))))
    handles = [node.register_prehook(make_hook(node)) for node in nodes]

    def end() -> None:
        for handle in handles:
            handle.remove()

    return end


def logged_backward(tensors: list[Any], grads: list[Any], **options: Any) -> list[Any] | None:
    """Same as `backward_from`, with every node logged."""
    end = log_nodes(tensors)
    try:
        return backward_from(tensors, grads, **options)
    finally:
        end()


def _brief(g: Payload) -> str:
    """Return a gradient's dtype and shape as text: f64[2, 3]."""
    if g is None:
        return "None"
    dtype = np_dtype(g)
    letters = "bf" if dtype.name == "bfloat16" else _LETTERS.get(dtype.kind, dtype.kind)
    return f"{letters}{8 * dtype.itemsize}[{', '.join(map(str, shape_of(g)))}]"
