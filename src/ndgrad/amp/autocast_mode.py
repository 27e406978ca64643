"""`autocast`: a block in which each function chooses its dtype (see `ndgrad.amp.policies`).

The op `cast` converts the arguments of public functions before they run, and is recorded. So gradients have the dtype
of their tensors, and backward, which uses tensors saved by forward, needs no block.

Note [Casts that are kept]
A parameter that is used several times in a block is cast once: casts of leaves that require grad are kept until the
outermost block ends. A kept cast is reused only in the same grad mode, and if the leaf still has the same values.
(torch checks neither: after a pass under no_grad inside the block gradients are missing, and after an optimizer step
inside it the old weights are used.)
"""

from __future__ import annotations

import functools
import warnings
from collections.abc import Callable
from typing import TYPE_CHECKING, Any, NamedTuple, Self, TypeVar

from ndgrad._src.arrays import dtypes
from ndgrad._src.arrays.gpus import devices_or_none
from ndgrad._src.arrays.library import is_on_device
from ndgrad._src.arrays.precision import is_half
from ndgrad._src.core.generate import TENSOR_TYPES
from ndgrad._src.core.grad_mode import Mode
from ndgrad._src.core.modes import Modes, modes, process, put_in_force, restore, scope
from ndgrad._src.core.variable import Variable, np_dtype
from ndgrad._src.foundations.devices import device as as_device
from ndgrad._src.ops.cast import cast
from ndgrad._src.ops.vocabulary import tensor_ops as ops
from ndgrad.amp.policies import JOINT, LISTED, policy_of

if TYPE_CHECKING:
    from ndgrad._typing import Dtype

__all__ = ["autocast", "custom_bwd", "custom_fwd", "is_autocast_available"]

F = TypeVar("F", bound=Callable[..., Any])

DEVICES = ("cpu", "cuda")
#: Dtypes to which functions can be cast.
_FAST = {"cpu": (dtypes.bfloat16, dtypes.float16), "cuda": (dtypes.float16, dtypes.bfloat16)}


class State(NamedTuple):
    """The autocast settings of one context. `casts` has kept casts while a block is open."""

    enabled: frozenset[str] = frozenset()
    cpu_dtype: dtypes.dtype = dtypes.bfloat16
    cuda_dtype: dtypes.dtype = dtypes.float16
    keeps: bool = True
    casts: dict[Any, Any] | None = None

    def dtype(self, device: str) -> dtypes.dtype:
        return self.cpu_dtype if device == "cpu" else self.cuda_dtype

    def with_dtype(self, device: str, dtype: dtypes.dtype) -> State:
        return self._replace(cpu_dtype=dtype) if device == "cpu" else self._replace(cuda_dtype=dtype)

    def switch(self, device: str, enabled: bool) -> State:
        others = self.enabled - {device}
        return self._replace(enabled=others | {device} if enabled else others)


_DEFAULT = State()


def state_of(found: Modes) -> State:
    return _DEFAULT if found.autocast is None else found.autocast


# ----- a call ---------------------------------------------------------------------------------------------------------


def autocast_call(function: Any, args: tuple[Any, ...], kwargs: dict[str, Any], unasked: Any) -> Any:
    """Return the result of a public function under autocast, or `unasked` if no policy applies."""
    here = modes()
    state: State = here.autocast
    if not state.enabled or function.__name__ not in LISTED:
        return unasked
    device = _device_of(args) or _device_of(tuple(kwargs.values()))
    if device not in state.enabled:
        return unasked
    policy = policy_of(device, function, args, kwargs)
    if policy is None:
        return unasked
    target = state.dtype(device)
    outside = scope()
    try:
        restore(outside.without_casts(device))
        if policy == "rounded":
            return _Casts(device, target, state).convert(function(*args, **kwargs))
        if policy == "float32":
            target = dtypes.float32
        elif policy == "widest":
            target = _widest((*args, *kwargs.values()), device, target)
        convert = _Casts(device, target, state, function.__name__ in JOINT).convert
        args = tuple([convert(a) for a in args])
        return function(*args, **{name: convert(value) for name, value in kwargs.items()})
    finally:
        restore(outside)
        del outside, here


def _device_of(values: Any) -> str | None:
    """Return the kind of device of the first tensor among values, lists included."""
    for value in values:
        if isinstance(value, Variable):
            return "cuda" if is_on_device(value._array) else value.device.type
        if value.__class__ in (tuple, list) and (found := _device_of(value)) is not None:
            return found
    return None


def _is_cast_dtype(dtype: Any) -> bool:
    """True for float32, float16 and bfloat16, whose package may be absent."""
    return dtype.char == "f" or is_half(dtype)


def _is_cast(value: Any, device: str) -> bool:
    """True if autocast casts a value: a tensor on this device of float32 or less."""
    if not isinstance(value, Variable) or not _is_cast_dtype(np_dtype(value)):
        return False
    return device == "cuda" if is_on_device(value._array) else value.device.type == device


def _widest(values: Any, device: str, dtype: dtypes.dtype) -> dtypes.dtype:
    for value in values:
        if value.__class__ in (tuple, list):
            dtype = _widest(value, device, dtype)
        elif _is_cast(value, device):
            dtype = dtypes.promote_types(dtype, dtypes.as_dtype(np_dtype(value)))
    return dtype


class _Casts:
    """The casts of one call."""

    __slots__ = ("device", "known", "own_dtype", "state", "target")

    def __init__(self, device: str, target: dtypes.dtype, state: State, joint: bool = False) -> None:
        self.device, self.target, self.state = device, target, state
        self.own_dtype = target.numpy
        #: With `joint`, casts by the ids of tensors, which the arguments keep alive. Otherwise each argument has a cast
        #: of its own, so that gradients are added in single precision.
        self.known: dict[int, Any] | None = {} if joint else None

    def convert(self, value: Any) -> Any:
        """Return an argument with the tensors in it cast."""
        if value is None or value.__class__ in _PLAIN:
            return value
        if value.__class__ in (tuple, list):
            return type(value)([self.convert(v) for v in value])
        if not _is_cast(value, self.device) or np_dtype(value) == self.own_dtype:
            return value
        if self.known is None:
            return self._cast(value)
        found = self.known.get(id(value))
        if found is None:
            found = self.known[id(value)] = self._cast(value)
        return found

    def _cast(self, value: Any) -> Any:
        state, target = self.state, self.target
        if not (state.keeps and state.casts is not None and _is_kept(value, target)):
            return _convert(value, target)
        key = id(value), target, modes().grad_enabled
        found = state.casts.get(key)
        if found is not None and found[0] is value and found[1] == value._version:
            return found[2]
        made = _convert(value, target)
        state.casts[key] = value, value._version, made
        return made


#: Classes of arguments without tensors.
_PLAIN = frozenset((bool, int, float, str))


def _convert(value: Any, target: dtypes.dtype) -> Any:
    """Return a tensor in another dtype. Classes of users have their own conversion."""
    if value.__class__ not in TENSOR_TYPES:
        return value.to(target)
    here = modes()
    if here.is_alone_with_autocast() and not (process.dispatching or process.open):  # as `dispatch` would decide
        return (cast.plain if here.grad_enabled else cast.unrecorded)(value, dtype=target.numpy)
    return ops.cast(value, dtype=target.numpy)


def _is_kept(value: Any, target: dtypes.dtype) -> bool:
    """True if a cast of a tensor is kept (see Note [Casts that are kept])."""
    meta = value._meta
    return (
        target is not dtypes.float32
        and meta is not None
        and meta.requires_grad
        and meta.view is None
        and value._node is None
        and not modes().levels
        and np_dtype(value) == dtypes.float32.numpy
    )


# ----- the block ------------------------------------------------------------------------------------------------------


class autocast(Mode):
    """A block, or decorator, in which functions run in half precision if that is safe.

    Args:
        device_type: kind of device, `"cpu"` or `"cuda"`.
        dtype: dtype of the fast functions, bfloat16 or float16. The default is `get_autocast_dtype(device_type)`:
            bfloat16 on the CPU and float16 on a GPU, unless it was changed.
        enabled: whether functions are cast. An inner block with False switches casts off.
        cache_enabled: whether casts of parameters are kept until the outermost block ends. The default is the
            surrounding setting.

    >>> import ndgrad
    >>> w = ndgrad.ones(2, 2, requires_grad=True)
    >>> with ndgrad.autocast("cpu"):
    ...     y = ndgrad.ones(1, 2) @ w
    >>> y.dtype
    ndgrad.bfloat16
    >>> y.sum().backward()
    >>> w.grad.dtype
    ndgrad.float32
    """

    names_itself = True

    def __init__(
        self, device_type: str, dtype: Dtype | None = None, enabled: bool = True, cache_enabled: bool | None = None
    ) -> None:
        super().__init__()
        if not isinstance(device_type, str):
            raise ValueError(
                f"Expected `device_type` of type `str`, got: `{type(device_type)}`. Write autocast('cpu'). [nd-type]"
            )
        self.device = as_device(device_type).type
        if self.device not in DEVICES:
            raise RuntimeError(
                f"User specified an unsupported autocast device_type {device_type!r}. There are 'cpu' and 'cuda'. "
                "[nd-option]"
            )
        self.fast_dtype = state_of(modes()).dtype(self.device) if dtype is None else dtypes.as_dtype(dtype)
        self._cache_enabled = state_of(modes()).keeps if cache_enabled is None else cache_enabled
        self._enabled = enabled and self._is_possible()
        self._given = device_type, dtype, enabled, cache_enabled

    def _is_possible(self) -> bool:
        if self.device == "cuda" and not devices_or_none()[1]:
            warnings.warn("CUDA is not available. Disabling autocast.", UserWarning, stacklevel=3)
            return False
        if self.fast_dtype not in _FAST[self.device]:
            supported = ", ".join(map(repr, _FAST[self.device]))
            warnings.warn(
                f"In {self.device.upper()} autocast, but the target dtype is not supported. Disabling autocast.\n"
                f"{self.device.upper()} Autocast only supports dtypes of {supported} currently.",
                UserWarning,
                stacklevel=3,
            )
            return False
        return True

    def fresh(self) -> Self:
        return type(self)._again(self)

    @classmethod
    def _again(cls, other: autocast) -> Self:
        """Return another block of the same kind, without repeating its warnings."""
        made = cls.__new__(cls)
        vars(made).update({**vars(other), "_stack": []})
        return made

    def change(self, modes: Modes) -> None:
        """Apply the settings of the block to the modes of a thread.

        Args:
            modes: modes to change.
        """
        process.overriding = True
        modes.entered += 1
        state = state_of(modes).switch(self.device, self._enabled).with_dtype(self.device, self.fast_dtype)
        casts = {} if state.casts is None else state.casts
        modes.autocast = state._replace(keeps=self._cache_enabled, casts=casts)


def is_autocast_available(device_type: str) -> bool:
    """True if autocast supports a kind of device.

    Args:
        device_type: kind of device, `"cpu"` or `"cuda"`.

    >>> import ndgrad
    >>> ndgrad.amp.is_autocast_available("cpu")
    True
    """
    return as_device(device_type).type in DEVICES


# ----- settings, under torch's names ----------------------------------------------------------------------------------


def _set(state: State) -> None:
    """Apply settings until the enclosing block ends."""
    made = modes().copy()
    unset = not state.enabled and state._replace(casts=None) == _DEFAULT and made.entered == 1
    if unset and made.autocast is not None:  # no other settings apply, and none of these remain
        made.entered, made.autocast = 0, None
    else:
        process.overriding = True
        made.entered += made.autocast is None
        made.autocast = state
    put_in_force(made)


def is_autocast_enabled(device_type: str = "cuda") -> bool:
    """True if autocast is on for a kind of device.

    Args:
        device_type: kind of device, `"cpu"` or `"cuda"`.

    >>> import ndgrad
    >>> with ndgrad.autocast("cpu"):
    ...     ndgrad.is_autocast_enabled("cpu")
    True
    """
    return as_device(device_type).type in state_of(modes()).enabled


def set_autocast_enabled(device_type: str | bool, enabled: bool | None = None) -> None:
    """Switch autocast on or off without a block.

    Args:
        device_type: kind of device, `"cpu"` or `"cuda"`; or, without `enabled`, the setting of GPUs.
        enabled: whether functions are cast.

    >>> import ndgrad
    >>> ndgrad.set_autocast_enabled("cpu", False)
    """
    if enabled is None:  # torch's older form is about GPUs
        device_type, enabled = "cuda", bool(device_type)
    assert isinstance(device_type, str)
    state = state_of(modes())
    if enabled or state.enabled:
        casts = {} if state.casts is None else state.casts
        _set(state._replace(casts=casts).switch(as_device(device_type).type, enabled))


def get_autocast_dtype(device_type: str) -> dtypes.dtype:
    """Return the dtype to which autocast casts on a kind of device.

    Args:
        device_type: kind of device, `"cpu"` or `"cuda"`.

    >>> import ndgrad
    >>> ndgrad.get_autocast_dtype("cpu")
    ndgrad.bfloat16
    """
    return state_of(modes()).dtype(as_device(device_type).type)


def set_autocast_dtype(device_type: str, dtype: dtypes.dtype) -> None:
    """Set the dtype to which autocast casts on a kind of device.

    Args:
        device_type: kind of device, `"cpu"` or `"cuda"`.
        dtype: bfloat16 or float16.

    >>> import ndgrad
    >>> ndgrad.set_autocast_dtype("cpu", ndgrad.bfloat16)
    """
    device, wanted = as_device(device_type).type, dtypes.as_dtype(dtype)
    if state_of(modes()).dtype(device) is not wanted:
        _set(state_of(modes()).with_dtype(device, wanted))


def is_autocast_cache_enabled() -> bool:
    """True if casts of parameters are kept until the outermost block ends.

    >>> import ndgrad
    >>> ndgrad.is_autocast_cache_enabled()
    True
    """
    return state_of(modes()).keeps


def set_autocast_cache_enabled(enabled: bool) -> None:
    """Set whether casts of parameters are kept.

    Args:
        enabled: whether they are kept.

    >>> import ndgrad
    >>> ndgrad.set_autocast_cache_enabled(True)
    """
    if state_of(modes()).keeps is not enabled:
        _set(state_of(modes())._replace(keeps=enabled))


def clear_autocast_cache() -> None:
    """Forget the kept casts of parameters.

    >>> import ndgrad
    >>> ndgrad.clear_autocast_cache()
    """
    casts = state_of(modes()).casts
    if casts is not None:
        casts.clear()


def is_autocast_cpu_enabled() -> bool:
    """True if autocast is on for the CPU.

    >>> import ndgrad
    >>> ndgrad.is_autocast_cpu_enabled()
    False
    """
    return is_autocast_enabled("cpu")


def set_autocast_cpu_enabled(enabled: bool) -> None:
    """Switch autocast on or off for the CPU, without a block.

    Args:
        enabled: whether functions are cast.

    >>> import ndgrad
    >>> ndgrad.set_autocast_cpu_enabled(False)
    """
    set_autocast_enabled("cpu", enabled)


def get_autocast_cpu_dtype() -> dtypes.dtype:
    """Return the dtype to which autocast casts on the CPU.

    >>> import ndgrad
    >>> ndgrad.get_autocast_cpu_dtype()
    ndgrad.bfloat16
    """
    return get_autocast_dtype("cpu")


def set_autocast_cpu_dtype(dtype: dtypes.dtype) -> None:
    """Set the dtype to which autocast casts on the CPU.

    Args:
        dtype: bfloat16 or float16.

    >>> import ndgrad
    >>> ndgrad.set_autocast_cpu_dtype(ndgrad.bfloat16)
    """
    set_autocast_dtype("cpu", dtype)


def get_autocast_gpu_dtype() -> dtypes.dtype:
    """Return the dtype to which autocast casts on GPUs.

    >>> import ndgrad
    >>> ndgrad.get_autocast_gpu_dtype()
    ndgrad.float16
    """
    return get_autocast_dtype("cuda")


def set_autocast_gpu_dtype(dtype: dtypes.dtype) -> None:
    """Set the dtype to which autocast casts on GPUs.

    Args:
        dtype: bfloat16 or float16.

    >>> import ndgrad
    >>> ndgrad.set_autocast_gpu_dtype(ndgrad.float16)
    """
    set_autocast_dtype("cuda", dtype)


# ----- custom functions -----------------------------------------------------------------------------------------------


def custom_fwd(fwd: Any = None, *, device_type: str, cast_inputs: Dtype | None = None) -> Any:
    """Decorate the forward of a custom function for use under autocast.

    Args:
        fwd: forward of the function. Without it a decorator is returned.
        device_type: kind of device, `"cpu"` or `"cuda"`.
        cast_inputs: dtype to which floating tensors are cast. The function then runs with autocast off, so that it sees
            one dtype. By default it runs in the surrounding autocast.

    >>> import ndgrad
    >>> from ndgrad.amp import custom_bwd, custom_fwd
    >>> class Double(ndgrad.autograd.Function):
    ...     @staticmethod
    ...     @custom_fwd(device_type="cpu", cast_inputs=ndgrad.float32)
    ...     def forward(ctx, x):
    ...         return x * 2
    ...     @staticmethod
    ...     @custom_bwd(device_type="cpu")
    ...     def backward(ctx, g):
    ...         return g * 2
    >>> with ndgrad.autocast("cpu"):
    ...     Double.apply(ndgrad.ones(1, dtype=ndgrad.bfloat16)).dtype
    ndgrad.float32
    """
    if fwd is None:
        return functools.partial(custom_fwd, device_type=device_type, cast_inputs=cast_inputs)
    device = _device_name("custom_fwd", device_type)

    @functools.wraps(fwd)
    def run(*args: Any, **kwargs: Any) -> Any:
        ctx = args[0]
        ctx._dtype = get_autocast_dtype(device)
        if cast_inputs is None:
            ctx._fwd_used_autocast = is_autocast_enabled(device)
            return fwd(*args, **kwargs)
        around = is_autocast_enabled(device)
        ctx._fwd_used_autocast = False
        if not around:
            return fwd(*args, **kwargs)
        target = dtypes.as_dtype(cast_inputs)
        with autocast(device, enabled=False):
            args = tuple([_cast_any(a, device, target) for a in args])
            return fwd(*args, **{name: _cast_any(value, device, target) for name, value in kwargs.items()})

    return run


def custom_bwd(bwd: Any = None, *, device_type: str) -> Any:
    """Decorate the backward of a custom function, so that it runs in the autocast of its forward.

    The forward is decorated with `custom_fwd`.

    Args:
        bwd: backward of the function. Without it a decorator is returned.
        device_type: kind of device, `"cpu"` or `"cuda"`.
    """
    if bwd is None:
        return functools.partial(custom_bwd, device_type=device_type)
    device = _device_name("custom_bwd", device_type)

    @functools.wraps(bwd)
    def run(*args: Any, **kwargs: Any) -> Any:
        ctx = args[0]
        with autocast(device, enabled=ctx._fwd_used_autocast, dtype=ctx._dtype):
            return bwd(*args, **kwargs)

    return run


def _device_name(what: str, device_type: Any) -> str:
    if not isinstance(device_type, str):
        raise ValueError(
            f"{what}: Expected `device_type` of type `str`, got: `{type(device_type)}`. Write device_type='cpu'. "
            "[nd-type]"
        )
    return as_device(device_type).type


def _cast_any(value: Any, device: str, target: dtypes.dtype) -> Any:
    """Return an argument with its floating tensors in one dtype, in any container; float64 is unchanged."""
    if isinstance(value, Variable):
        return value.to(target) if _is_cast(value, device) else value
    if isinstance(value, dict):
        return {k: _cast_any(v, device, target) for k, v in value.items()}
    if isinstance(value, (list, tuple)):
        return type(value)([_cast_any(v, device, target) for v in value])
    return value


