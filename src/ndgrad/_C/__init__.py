"""The few names of torch's private `torch._C` that libraries use around autograd, so that their code runs unchanged.
Its submodules have the names of `_functions`, `_autograd` and `_functorch`.
"""

from __future__ import annotations

import weakref as _weakref
from contextlib import AbstractContextManager

from ndgrad._C import _autograd, _functions, _functorch, _nn
from ndgrad._C._dispatch_keys import DispatchKey, DispatchKeySet, _ExcludeDispatchKeyGuard
from ndgrad._C._files import PyTorchFileReader
from ndgrad._src.arrays.dtypes import dtype
from ndgrad._src.arrays.generator import Generator
from ndgrad._src.core.grad_mode import inference_mode as _InferenceMode
from ndgrad._src.core.grad_mode import is_grad_enabled
from ndgrad._src.core.grad_mode import set_grad_enabled as _set
from ndgrad._src.core.modes import modes as _modes
from ndgrad._src.core.variable import BareTensor as TensorBase
from ndgrad._src.core.variable import Variable as _Variable
from ndgrad._src.engine.callbacks import current_execution_order as _current_graph_task_execution_order
from ndgrad._src.engine.callbacks import current_graph_task_id as _current_graph_task_id
from ndgrad._src.engine.callbacks import current_node as _current_autograd_node
from ndgrad._src.engine.callbacks import will_engine_execute_node as _will_engine_execute_node
from ndgrad._src.foundations.devices import device
from ndgrad._src.foundations.devices import get_default_device as _default_device
from ndgrad._src.foundations.missing_names import refuse_absent as _refuse_absent
from ndgrad._src.foundations.sizes import Size
from ndgrad._src.interpreters.forward_ad import set_fwd_grad_enabled as _set_forward
from ndgrad._src.ops.matrix import LinAlgError as _LinAlgError
from ndgrad.overrides import (
    DisableTorchFunction,
    DisableTorchFunctionSubclass,
    _disabled_torch_function_impl,
)
from ndgrad.overrides import has_torch_function as _has_torch_function
from ndgrad.overrides import has_torch_function_unary as _has_torch_function_unary
from ndgrad.overrides import has_torch_function_variadic as _has_torch_function_variadic

__all__ = [
    "DisableTorchFunction", "DisableTorchFunctionSubclass", "DispatchKey", "DispatchKeySet", "Generator", "Graph",
    "PyTorchFileReader", "Size", "TensorBase", "Value",
    "_AutoDispatchBelowAutograd", "_ExcludeDispatchKeyGuard", "_InferenceMode",
    "_autograd",
    "_current_autograd_node", "_current_graph_task_execution_order", "_current_graph_task_id",
    "_disabled_torch_function_impl", "_functions", "_functorch", "_nn",
    "_LinAlgError",
    "_has_torch_function", "_has_torch_function_unary", "_has_torch_function_variadic", "_set_grad_enabled", "device",
    "dtype", "is_grad_enabled", "_will_engine_execute_node",
]  # fmt: skip

_TensorBase = TensorBase
_TensorMeta = type(TensorBase)


class Graph:
    """The class of graphs of torch's own compiler, for annotations. There are no instances here."""


class Value:
    """The class of values in such graphs. There are no instances here."""


class _WeakTensorRef:
    """A weak reference to a tensor."""

    def __init__(self, tensor: _Variable) -> None:
        self._ref = _weakref.ref(tensor)

    def __call__(self) -> _Variable | None:
        return self._ref()

    def expired(self) -> bool:
        """True if the tensor is gone."""
        return self._ref() is None


def _get_accelerator(check: bool = False) -> device:
    """Return the kind of accelerator that can be used; the CPU if there is none."""
    from ndgrad import accelerator, cpu  # not every program asks

    found = accelerator.current_accelerator()
    if found is None and check and not cpu.is_available():
        raise RuntimeError("no accelerator is available. [nd-gpu]")
    return found or device("cpu")


def _set_fwd_grad_enabled(mode: bool) -> None:
    """Switch forward-mode differentiation on or off."""
    _set_forward(mode)


def _is_torch_function_enabled() -> bool:
    """True if classes that override functions are dispatched to."""
    return not _modes().functions_disabled


def _is_torch_function_mode_enabled() -> bool:
    """True if a function mode is active."""
    return bool(_modes().function_modes)


def _len_torch_function_stack() -> int:
    """Return the number of active function modes."""
    return len(_modes().function_modes)


def _are_functorch_transforms_active() -> bool:
    """True if a function transform is open."""
    return bool(_modes().levels)


def _get_default_device() -> str:
    """Return the device that factories use."""
    return str(_default_device())


def _get_tracing_state() -> None:
    """Return None: torch's tracer does not exist here."""


def _set_grad_enabled(mode: bool) -> None:
    """Switch recording on or off."""
    _set(mode)


def _AutoDispatchBelowAutograd() -> AbstractContextManager[None]:
    """Return a block in which ops of `ndgrad.library` run their kernels, as inside an "Autograd" kernel."""
    from ndgrad.library.overloads import below_autograd  # loads transforms, which most programs do not need

    return below_autograd()


def _log_api_usage_once(name: str) -> None:
    """Do nothing: uses are not counted."""


_refuse_absent(__name__)
