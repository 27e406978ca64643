"""The few names of torch's private `torch._C` that libraries use around autograd, so that their
code runs as it stands."""

from __future__ import annotations

from ndgrad.autograd.callbacks import current_execution_order as _current_graph_task_execution_order
from ndgrad.autograd.callbacks import current_graph_task_id as _current_graph_task_id
from ndgrad.autograd.callbacks import current_node as _current_autograd_node
from ndgrad.overrides import DisableTorchFunction, DisableTorchFunctionSubclass, _disabled_torch_function_impl

__all__ = [
    "DisableTorchFunction",
    "DisableTorchFunctionSubclass",
    "_disabled_torch_function_impl",
    "_current_autograd_node",
    "_current_graph_task_execution_order",
    "_current_graph_task_id",
]
