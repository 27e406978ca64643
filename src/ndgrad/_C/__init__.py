"""The few names of torch's private `torch._C` that libraries use around autograd, so that their
code runs as it stands. Its submodules have those of `_functions`, `_autograd` and `_functorch`."""

from __future__ import annotations

from ndgrad._C import _autograd, _functions, _functorch
from ndgrad.absent import refuse_absent as _refuse_absent
from ndgrad.autograd.callbacks import current_execution_order as _current_graph_task_execution_order
from ndgrad.autograd.callbacks import current_graph_task_id as _current_graph_task_id
from ndgrad.autograd.callbacks import current_node as _current_autograd_node
from ndgrad.autograd.grad_mode import is_grad_enabled
from ndgrad.autograd.grad_mode import set_grad_enabled as _set
from ndgrad.overrides import DisableTorchFunction, DisableTorchFunctionSubclass, _disabled_torch_function_impl

__all__ = [
    "DisableTorchFunction", "DisableTorchFunctionSubclass", "_autograd", "_current_autograd_node",
    "_current_graph_task_execution_order", "_current_graph_task_id", "_disabled_torch_function_impl", "_functions",
    "_functorch", "_set_grad_enabled", "is_grad_enabled",
]  # fmt: skip


def _set_grad_enabled(mode: bool) -> None:
    """Switch recording on or off."""
    _set(mode)


def _log_api_usage_once(name: str) -> None:
    """Nothing: uses are not counted."""


_refuse_absent(__name__)
