"""`torch.autograd.graph`: nodes, gradient edges, hooks over several tensors, hooks on saved tensors, pictures."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from ndgrad._src.engine.graph import (
    GradientEdge,
    Node,
    _register_logging_hooks_on_whole_graph,  # noqa: F401  # torch programs import these private names
    allow_mutation_on_saved_tensors,
    current_execution_order,
    current_graph_task_id,
    current_node,
    disable_saved_tensors_hooks,
    get_gradient_edge,
    increment_version,
    queue_callback,
    region_activation_memory_budget,
    register_multi_grad_hook,
    save_on_cpu,
    saved_tensors_hooks,
    set_override_stale_capture_stream,
    set_warn_on_accumulate_grad_stream_mismatch,
    walk,
)

__all__ = [
    "GradientEdge",
    "Node",
    "allow_mutation_on_saved_tensors",
    "current_execution_order",
    "current_graph_task_id",
    "current_node",
    "disable_saved_tensors_hooks",
    "get_gradient_edge",
    "increment_version",
    "queue_callback",
    "region_activation_memory_budget",
    "register_multi_grad_hook",
    "save_on_cpu",
    "saved_tensors_hooks",
    "set_override_stale_capture_stream",
    "set_warn_on_accumulate_grad_stream_mismatch",
    "walk",
]

#: Names loaded on first use, and their modules.
_HOMES = {
    **dict.fromkeys(("GraphPicture", "draw", "show", "to_dot", "to_svg", "tree"), "ndgrad._src.debug.drawing"),
    "saved_bytes": "ndgrad._src.debug.saved_memory",
    "trace_allocations": "ndgrad.profiler.allocations",
}


if TYPE_CHECKING:
    from ndgrad._src.debug.drawing import GraphPicture as GraphPicture
    from ndgrad._src.debug.drawing import draw as draw
    from ndgrad._src.debug.drawing import show as show
    from ndgrad._src.debug.drawing import to_dot as to_dot
    from ndgrad._src.debug.drawing import to_svg as to_svg
    from ndgrad._src.debug.drawing import tree as tree
    from ndgrad._src.debug.saved_memory import saved_bytes as saved_bytes
    from ndgrad.profiler.allocations import trace_allocations as trace_allocations
else:

    def __getattr__(name: str) -> Any:
        """Load pictures and traces on first use."""
        if name not in _HOMES:
            raise AttributeError(f"module 'ndgrad.autograd.graph' has no attribute {name!r}")
        import importlib

        value = getattr(importlib.import_module(_HOMES[name]), name)
        globals()[name] = value
        return value


def __dir__() -> list[str]:
    return sorted({*__all__, *_HOMES})
