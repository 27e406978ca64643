"""Dispatch modes, under torch's module name. ndgrad._src.core.op_observers explains them."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import ndgrad.ops.aten  # noqa: F401  # gives ops their packets, which modes for torch read
from ndgrad._src.core.modes import restore, scope, thread
from ndgrad._src.core.op_observers import DispatchMode
from ndgrad._src.core.subclass import has_dispatch
from ndgrad._src.core.variable import Variable

__all__ = [
    "BaseTorchDispatchMode", "DispatchMode", "TorchDispatchMode", "is_traceable_wrapper_subclass",
    "return_and_correct_aliasing", "transform_subclass",
]  # fmt: skip

TorchDispatchMode = DispatchMode


class BaseTorchDispatchMode(DispatchMode):
    """A mode that passes every op on.

    >>> import ndgrad
    >>> from ndgrad.utils._python_dispatch import BaseTorchDispatchMode
    >>> with BaseTorchDispatchMode():
    ...     ndgrad.ones(1) + 1
    tensor([2.])
    """

    def __torch_dispatch__(
        self, func: Any, types: Any, args: tuple[Any, ...] = (), kwargs: dict[str, Any] | None = None
    ) -> Any:
        return func(*args, **(kwargs or {}))


def _get_current_dispatch_mode_stack() -> list[Any]:
    """Return the modes of this thread, innermost last."""
    return [o for o in thread.observers if isinstance(o, DispatchMode)]


def _get_current_dispatch_mode() -> Any:
    """Return the innermost mode of this thread, or None."""
    stack = _get_current_dispatch_mode_stack()
    return stack[-1] if stack else None


def is_in_torch_dispatch_mode(include_infra_modes: bool = True) -> bool:
    return bool(_get_current_dispatch_mode_stack())


_len_torch_dispatch_stack = lambda: len(_get_current_dispatch_mode_stack())


@contextmanager
def _disable_current_modes() -> Iterator[list[Any]]:
    """Return a context without modes; observers of other kinds stay active."""
    outside = scope()
    try:
        others = tuple(o for o in outside.modes.observers if not isinstance(o, DispatchMode))
        restore(outside.with_changes(entered=outside.modes.entered + 1, observers=others))
        yield [o for o in outside.modes.observers if isinstance(o, DispatchMode)]
    finally:
        restore(outside)
        del outside


@contextmanager
def _pop_mode_temporarily(k: Any = None) -> Iterator[Any]:
    """Return a context without the innermost mode."""
    mode = _get_current_dispatch_mode()
    if mode is None:
        raise RuntimeError("_pop_mode_temporarily(): no dispatch mode is active in this thread. [nd-call-order]")
    outside = scope()
    before = outside.modes.observers
    last = len(before) - 1 - before[::-1].index(mode)
    try:
        restore(outside.with_changes(observers=before[:last] + before[last + 1 :]))
        yield mode
    finally:
        restore(outside)
        del outside


def is_traceable_wrapper_subclass_type(cls: type[Any]) -> bool:
    return has_dispatch(cls) and hasattr(cls, "__tensor_flatten__") and hasattr(cls, "__tensor_unflatten__")


def is_traceable_wrapper_subclass(t: Any) -> bool:
    """True if a tensor's class has its own dispatch and defines how to flatten and unflatten it.

    >>> import ndgrad
    >>> from ndgrad.utils._python_dispatch import is_traceable_wrapper_subclass
    >>> is_traceable_wrapper_subclass(ndgrad.ones(1))
    False
    """
    return isinstance(t, Variable) and is_traceable_wrapper_subclass_type(type(t))


def return_and_correct_aliasing(func: Any, args: Any, kwargs: Any, out: Any) -> Any:
    """Return the result of a dispatch: the argument itself for an op that writes in place, `out` for any other.

    >>> from ndgrad.utils._python_dispatch import return_and_correct_aliasing
    >>> def add_(x, y): ...
    >>> return_and_correct_aliasing(add_, ("x", "y"), {}, "out")
    'x'
    """
    return args[0] if func.__name__.endswith("_") else out


def any_torch_dispatch_mode_on_stack() -> bool:
    return is_in_torch_dispatch_mode()


def is_in_any_mode_without_ignore_compile_internals() -> bool:
    return is_in_torch_dispatch_mode()


def transform_subclass(t: Any, callback: Any, outer_size: Any = None, outer_stride: Any = None) -> Any:
    """Return a wrapper with a method `__tensor_flatten__`, with each inner tensor replaced by `callback(name, tensor)`.

    `outer_size` and `outer_stride` are passed to `__tensor_unflatten__`; the default is the wrapper's own.
    """
    outer_size = t.size() if outer_size is None else outer_size
    outer_stride = t.stride() if outer_stride is None else outer_stride
    names, context = t.__tensor_flatten__()
    made = type(t).__tensor_unflatten__(
        {name: callback(name, getattr(t, name)) for name in names}, context, outer_size, outer_stride
    )
    if tuple(made.shape) != tuple(outer_size) or tuple(made.stride()) != tuple(outer_stride):
        raise RuntimeError(
            f"Expected return value from {type(t).__name__}__tensor_unflatten__() to have size {tuple(outer_size)} and "
            f"stride {tuple(outer_stride)}, but it has {tuple(made.shape)} and {tuple(made.stride())}. Make the "
            "wrapper with the size and stride that it is given. [nd-dispatch]"
        )
    return made
