"""Making Arrays, with NumPy's signatures. What is made here is differentiable memory: `u = zeros(n); u[i] = f(x)` keeps the graph."""

from __future__ import annotations

from typing import Any

import numpy as np

from ndgrad.autograd.modes import thread
from ndgrad.autograd.variable import Variable, meta_of, np_dtype, wrap
from ndgrad.numpy.array import Array, to_array
from ndgrad.ops import cast as cast_ops
from ndgrad.ops import join as join_ops


def _new(made: Any) -> Any:
    t = wrap(Array, made)
    if thread.levels:
        meta_of(t).born = thread.levels[-1].number
    return t


def array(object: Any, dtype: Any = None, *, copy: bool | None = True, order: str = "K", ndmin: int = 0) -> Any:
    """An Array of numbers, of nested sequences of numbers, or of nested sequences that hold tensors, whose graph is kept.

    >>> import ndgrad.numpy as np
    >>> x = np.array(2.0).requires_grad_()
    >>> y = np.array([x, x * x, 1.0])
    >>> y.sum().backward()
    >>> x.grad
    array(5.)
    """
    made = _from(object, dtype)
    if made is object or (isinstance(object, Variable) and made._storage is not None and made._storage is object._storage):
        made = cast_ops.clone(made) if copy else made
    while made.ndim < ndmin:
        made = made[None]
    return made


def asarray(a: Any, dtype: Any = None, order: Any = None, *, copy: bool | None = None) -> Any:
    """As `array`, without a copy where none is needed."""
    made = _from(a, dtype)
    return cast_ops.clone(made) if copy else made


def _from(object: Any, dtype: Any) -> Any:
    if isinstance(object, Variable):
        made = to_array(object)
    elif isinstance(object, (list, tuple)) and _holds_tensors(object):
        made = _stacked(object)
    else:
        return _new(np.array(object, dtype=dtype))
    return made if dtype is None or np_dtype(made) == np.dtype(dtype) else cast_ops.cast(made, dtype=np.dtype(dtype))


def _holds_tensors(items: Any) -> bool:
    return any(isinstance(i, Variable) or (isinstance(i, (list, tuple)) and _holds_tensors(i)) for i in items)


def _stacked(items: Any) -> Any:
    """Nested sequences of tensors and numbers as one Array, by stacking."""
    parts = [_from(i, None) for i in items]
    shapes = {tuple(p.shape) for p in parts}
    if len(shapes) > 1:
        raise ValueError(
            "setting an array element with a sequence: the requested array has an inhomogeneous shape (parts have shapes "
            f"{sorted(shapes)}). "
            "Give parts of one shape."
        )
    dtype = np.result_type(*(np_dtype(p) for p in parts))
    return join_ops.stack(*(p if np_dtype(p) == dtype else cast_ops.cast(p, dtype=dtype) for p in parts), dim=0)


def zeros(shape: Any, dtype: Any = float, order: str = "C") -> Any:
    return _new(np.zeros(shape, dtype, order))  # type: ignore[call-overload]


def ones(shape: Any, dtype: Any = None, order: str = "C") -> Any:
    return _new(np.ones(shape, dtype, order))  # type: ignore[call-overload]


def empty(shape: Any, dtype: Any = float, order: str = "C") -> Any:
    return _new(np.empty(shape, dtype, order))  # type: ignore[call-overload]


def full(shape: Any, fill_value: Any, dtype: Any = None, order: str = "C") -> Any:
    if isinstance(fill_value, Variable):
        made = empty(shape, np_dtype(fill_value) if dtype is None else dtype)
        made[...] = fill_value
        return made
    return _new(np.full(shape, fill_value, dtype, order))  # type: ignore[call-overload]


def _like(a: Any, dtype: Any, shape: Any) -> tuple[Any, Any]:
    known = a if isinstance(a, Variable) else np.asarray(a)
    have = np_dtype(known) if isinstance(known, Variable) else known.dtype
    return (tuple(known.shape) if shape is None else shape), (have if dtype is None else dtype)


def zeros_like(a: Any, dtype: Any = None, order: str = "K", subok: bool = True, shape: Any = None) -> Any:
    return _new(np.zeros(*_like(a, dtype, shape)))


def ones_like(a: Any, dtype: Any = None, order: str = "K", subok: bool = True, shape: Any = None) -> Any:
    return _new(np.ones(*_like(a, dtype, shape)))


def empty_like(a: Any, dtype: Any = None, order: str = "K", subok: bool = True, shape: Any = None) -> Any:
    return _new(np.empty(*_like(a, dtype, shape)))


def full_like(a: Any, fill_value: Any, dtype: Any = None, order: str = "K", subok: bool = True, shape: Any = None) -> Any:
    where, have = _like(a, dtype, shape)
    return full(where, fill_value, have)


def arange(*args: Any, dtype: Any = None) -> Any:
    return _new(np.arange(*args, dtype=dtype))


def linspace(start: Any, stop: Any, num: int = 50, endpoint: bool = True, retstep: bool = False, dtype: Any = None, axis: int = 0) -> Any:
    """Evenly spaced numbers; differentiable in its ends when these are scalars."""
    if isinstance(start, Variable) or isinstance(stop, Variable):
        steps = _new(np.arange(num) / max(num - 1 if endpoint else num, 1))
        made = start + (stop - start) * steps
        return (made, (stop - start) / max(num - 1 if endpoint else num, 1)) if retstep else made
    made = np.linspace(start, stop, num, endpoint, retstep, dtype, axis)  # type: ignore[call-overload]
    return (_new(made[0]), made[1]) if retstep else _new(made)


def eye(N: int, M: int | None = None, k: int = 0, dtype: Any = float) -> Any:
    return _new(np.eye(N, M, k, dtype))


def identity(n: int, dtype: Any = None) -> Any:
    return _new(np.identity(n, dtype))
