"""Arrays without data, for the device `meta`: shapes and dtypes are computed, values are not.

A `MetaArray` implements NumPy's two protocols, so the op table's forward functions run on it unchanged. It holds one
zero, broadcast to the shape; views and shape functions are NumPy's own on that. Elementwise functions run on a single
element and reductions on dimensions cut to length one, so neither costs time or memory. Any other function runs on the
broadcast zeros, and its values are discarded: the shape is right, but it costs as much as on the CPU. Operations that
need values (`item`, `nonzero`, conversion to NumPy) raise. An op that reads values, but whose result shape does not
depend on them, then runs as a whole on the zeros (`run_on_stand_ins`).
"""

from __future__ import annotations

import functools
import warnings
from collections.abc import Callable
from types import SimpleNamespace
from typing import TYPE_CHECKING, Any, NoReturn

import numpy as np
from numpy.lib.mixins import NDArrayOperatorsMixin

from ndgrad._src.arrays import library as libraries
from ndgrad._src.arrays.device_kernels import make_filled
from ndgrad._src.arrays.precision import is_inexact, result_dtype

if TYPE_CHECKING:
    from ndgrad._typing import Library, Payload

_REDUCTIONS = frozenset("sum prod max min mean var std any all argmax argmin".split())
_SAME_SHAPE = frozenset("astype conj conjugate copy round clip".split())
_OTHERS = frozenset(
    "reshape transpose swapaxes squeeze diagonal ravel flatten repeat view cumsum cumprod argsort".split()
)
_NEED_VALUES = frozenset(
    "nonzero argwhere flatnonzero unique bincount array_equal allclose array2string array_repr".split()
)


@functools.cache
def _zero(dtype: np.dtype[Any]) -> np.ndarray[Any, Any]:
    """A zero that cannot be written, for all arrays without data of a dtype."""
    made = np.zeros((), dtype)
    made.flags.writeable = False
    return made


class MetaArray(NDArrayOperatorsMixin):
    """An array with a shape and a dtype, but no data."""

    __slots__ = ("__weakref__", "_zeros")

    is_meta = True
    base = None
    __array_priority__ = 100.0

    def __init__(self, shape: tuple[int, ...], dtype: np.dtype[Any] | type[bool]) -> None:
        try:
            # np.broadcast_to does the same in Python, which takes ten times as long.
            self._zeros = np.ndarray(shape, dtype, _zero(np.dtype(dtype)), 0, (0,) * len(shape))
        except (TypeError, ValueError):  # objects, and shapes that NumPy refuses with a better message
            self._zeros = np.broadcast_to(np.zeros((), dtype), shape)

    def with_part(self, index: Any, part: Payload) -> MetaArray:
        """The array after `array[index] = part`; a part that does not fit is an error, as it is NumPy's."""
        shape, given = np.shape(self._zeros[index]), np.shape(_stand_in(part))
        extra = len(given) - len(shape)
        if given != shape and not (
            all(n == 1 for n in given[: max(extra, 0)])
            and all(n in (1, m) for n, m in zip(given[::-1], shape[::-1], strict=False))
        ):
            raise ValueError(f"could not broadcast input array from shape {given} into shape {shape} [nd-write-fit]")
        return MetaArray(self.shape, self.dtype)

    # ----- known properties -----

    @property
    def shape(self) -> tuple[int, ...]:
        return self._zeros.shape

    @property
    def dtype(self) -> np.dtype[Any]:
        return self._zeros.dtype

    @property
    def ndim(self) -> int:
        return self._zeros.ndim

    @property
    def size(self) -> int:
        return self._zeros.size

    @property
    def itemsize(self) -> int:
        return self._zeros.itemsize

    @property
    def nbytes(self) -> int:
        return self._zeros.nbytes

    @property
    def strides(self) -> tuple[int, ...]:
        """The strides of a contiguous array; other memory orders are not tracked."""
        step, out = self.itemsize, []
        for n in reversed(self.shape):
            out.append(step)
            step *= max(n, 1)
        return tuple(reversed(out))

    @property
    def flags(self) -> SimpleNamespace:
        return SimpleNamespace(writeable=True, c_contiguous=True, f_contiguous=self.ndim < 2)

    @property
    def T(self) -> Payload:
        return _meta(self._zeros.T)

    @property
    def real(self) -> Payload:
        return _meta(self._zeros.real)

    @property
    def imag(self) -> Payload:
        return _meta(self._zeros.imag)

    def __len__(self) -> int:
        return len(self._zeros)

    def __repr__(self) -> str:
        return f"MetaArray(shape={self.shape}, dtype={self.dtype})"

    # ----- missing values -----

    def _refuse(self, *args: Any, **kwargs: Any) -> NoReturn:
        raise NotImplementedError(
            f"the values of a tensor on the meta device were asked for (shape {self.shape}, {self.dtype}), but it has "
            "none. Make the tensor on the CPU, or make one of this shape there with empty_like(t, device='cpu'). "
            "[nd-meta]"
        )

    __array__ = __bool__ = __int__ = __float__ = __complex__ = __index__ = __iter__ = item = tolist = tobytes = _refuse

    # ----- computing -----

    def __getitem__(self, index: Any) -> Payload:
        return _meta(self._zeros[_stand_in(index)])

    def __setitem__(self, index: Any, value: Payload) -> None:
        """Check the shapes; there is nothing to write."""
        np.broadcast_to(_stand_in(value), self[index].shape)

    def fill(self, value: Payload) -> None:
        """Do nothing: there is no memory to fill."""

    def take(self, indices: Any, axis: int | None = None) -> Payload:
        """Take by shape alone: NumPy would first make a contiguous copy of the zeros."""
        shape = (self.size,) if axis is None else self.shape
        axis = 0 if axis is None else axis % len(shape)
        return MetaArray((*shape[:axis], *np.shape(_stand_in(indices)), *shape[axis + 1 :]), self.dtype)

    def __getattr__(self, name: str) -> Any:
        if name in _REDUCTIONS:
            return lambda axis=None, *args, **kwargs: _reduce(name, self._zeros, axis, args, kwargs)
        if name in _SAME_SHAPE:
            return lambda *args, **kwargs: _broadcast(getattr(_one(self._zeros), name)(*args, **kwargs), self.shape)
        if name in _OTHERS:
            return lambda *args, **kwargs: _meta(getattr(self._zeros, name)(*_stand_in(args), **kwargs))
        raise AttributeError(f"an array on the meta device has no attribute {name!r}")

    def __array_ufunc__(self, ufunc: np.ufunc, method: str, *inputs: Any, **kwargs: Any) -> Any:
        inputs = _stand_in(inputs)
        out = kwargs.pop("out", None)
        with np.errstate(all="ignore"):
            if method == "__call__" and ufunc.signature is None:
                shape = np.broadcast_shapes(*(np.shape(i) for i in inputs))
                result = _broadcast(ufunc(*map(_one, inputs), **_stand_in(kwargs)), shape)
            elif method == "reduce":
                axis = kwargs.pop("axis", 0)
                trimmed = _trim(inputs[0], axis)
                result = _meta(ufunc.reduce(trimmed, axis=axis, **_stand_in(kwargs)))
            elif method == "__call__" and ufunc is np.matmul:
                result = _matmul(*inputs)
            elif method == "__call__" and ufunc is np.vecdot:
                a, b = inputs
                result = MetaArray(np.broadcast_shapes(a.shape, b.shape)[:-1], result_dtype(a.dtype, b.dtype))
            elif method == "at":  # Writes nothing here; one element checks the dtypes.
                target = np.zeros((1,) * inputs[0].ndim, inputs[0].dtype)
                ufunc.at(target, (0,) * target.ndim, *(np.zeros((), np.asarray(v).dtype) for v in inputs[2:]))
                result = None
            else:
                result = _meta(getattr(ufunc, method)(*inputs, **_stand_in(kwargs)))
        return result if out is None else out[0]

    def __array_function__(self, function: Callable[..., Any], types: Any, args: Any, kwargs: Any) -> Any:
        if function.__name__ in _NEED_VALUES:
            self._refuse()
        if function is np.where and len(args) == 3:
            parts = _stand_in(args)
            return _broadcast(np.where(*map(_one, parts)), np.broadcast_shapes(*(np.shape(p) for p in parts)))
        if function.__name__ in _REDUCTIONS and args and isinstance(args[0], MetaArray):
            return getattr(args[0], function.__name__)(*args[1:], **kwargs)
        with np.errstate(all="ignore"):
            return _meta(function(*_stand_in(args), **_stand_in(kwargs)))


def zeros_on_same_device(
    np: Library, x: Payload, shape: tuple[int, ...], dtype: np.dtype[Any] | type[bool]
) -> Payload:
    """Return zeros on the device of x, without data if x has none."""
    if isinstance(x, MetaArray):
        return MetaArray(shape, dtype)
    return make_filled(np, shape, 0, dtype) if np is libraries.device_library else np.zeros(shape, dtype)


def zeros_like_array(np: Library, x: Payload, dtype: np.dtype[Any] | type[bool]) -> Payload:
    """Return zeros with the shape, device and memory order of x."""
    if isinstance(x, MetaArray):
        return MetaArray(x.shape, dtype)
    # zeros_like() is written in Python and takes ten times as long for a small array.
    if not x.flags.c_contiguous:
        return np.zeros_like(x, dtype)
    dtype = x.dtype if dtype is None else dtype
    return make_filled(np, x.shape, 0, dtype) if np is libraries.device_library else np.zeros(x.shape, dtype)


def run_on_stand_ins(function: Callable[..., Any], arrays: list[Any], settings: dict[str, Any]) -> Any:
    """Run a function that reads values, and return its result without data.

    It runs on zeros, or on milder numbers if zeros fail.
    """
    zeros = _stand_in(arrays)
    with np.errstate(all="ignore"), warnings.catch_warnings():
        warnings.simplefilter("ignore")
        try:
            return _meta(function(*zeros, **settings))
        except ValueError:  # such as a singular matrix
            return _meta(function(*map(_harmless, zeros), **settings))


def _harmless(zeros: Payload) -> Any:
    """Return contiguous stand-ins for zeros: identities for square matrices, a unit vector for a vector, else ones."""
    if not isinstance(zeros, np.ndarray):
        return zeros
    out: Any = np.zeros(zeros.shape, zeros.dtype)
    if is_inexact(out.dtype):
        if out.ndim == 1:
            out[:1] = 1
        else:
            out[...] = np.eye(out.shape[-1]) if out.ndim and out.shape[-1] == out.shape[-2] else 1
    return out


def _stand_in(value: Payload) -> Payload:
    """Replace meta arrays in nested arguments by their zeros."""
    if isinstance(value, MetaArray):
        return value._zeros
    if isinstance(value, (tuple, list)):
        return type(value)(map(_stand_in, value))
    if isinstance(value, dict):
        return {k: _stand_in(v) for k, v in value.items()}
    return value


def _meta(value: Payload) -> Payload:
    """Return a result without its values."""
    if isinstance(value, (np.ndarray, np.generic)):
        return MetaArray(value.shape, value.dtype)
    if isinstance(value, (tuple, list)):
        parts = tuple(map(_meta, value))
        return type(value)(*parts) if hasattr(value, "_fields") else type(value)(parts)
    return value


def _one(value: Payload) -> Payload:
    """Cut an argument to at most one element; a number stays weakly typed."""
    return np.zeros((1,) * value.ndim, value.dtype) if isinstance(value, (np.ndarray, np.generic)) else value


def _broadcast(value: Payload, shape: tuple[int, ...]) -> Payload:
    return tuple(_broadcast(v, shape) for v in value) if isinstance(value, tuple) else MetaArray(shape, value.dtype)


def _trim(zeros: Payload, axis: Any) -> Payload:
    """Cut the reduced dimensions of the zeros to length one. Empty dimensions stay empty, and may be an error."""
    axes = range(zeros.ndim) if axis is None else (axis,) if np.ndim(axis) == 0 else axis
    reduced = {a % zeros.ndim for a in axes} if zeros.ndim else set()
    return zeros[tuple(slice(0, 1) if d in reduced else slice(None) for d in range(zeros.ndim))]


def _reduce(name: str, zeros: Payload, axis: Any, args: Any, kwargs: Any) -> Payload:
    with np.errstate(all="ignore"):
        return _meta(getattr(np, name)(_trim(zeros, axis), axis, *args, **kwargs))


def _matmul(a: Payload, b: Payload) -> Payload:
    """Check the shapes of a product, with dimensions that only multiply the work cut to length one."""
    if a.ndim and b.ndim and a.shape[-1] != b.shape[-2 if b.ndim > 1 else 0]:
        np.matmul(a[..., :1, :] if a.ndim > 1 else a, b[..., :1] if b.ndim > 1 else b)  # raises NumPy's own error
    batch = np.broadcast_shapes(a.shape[:-2], b.shape[:-2])
    rows, columns = a.shape[-2:-1] if a.ndim > 1 else (), b.shape[-1:] if b.ndim > 1 else ()
    return MetaArray((*batch, *rows, *columns), result_dtype(a.dtype, b.dtype))


class WrapperArray(MetaArray):
    """The array of a tensor subclass that stores its data elsewhere: a given shape, dtype, device and strides."""

    __slots__ = ("_strides", "stands_on")

    def __init__(
        self, shape: tuple[int, ...], dtype: np.dtype[Any], device: Any, strides: tuple[int, ...] | None = None
    ) -> None:
        super().__init__(shape, dtype)
        self.stands_on = device
        self._strides = strides

    @property
    def strides(self) -> tuple[int, ...]:
        return super().strides if self._strides is None else tuple(s * self.itemsize for s in self._strides)


class _Library:
    """The functions that factories call to make arrays on the meta device."""

    @staticmethod
    def empty(shape: tuple[int, ...], dtype: np.dtype[Any]) -> MetaArray:
        return MetaArray(shape, dtype)

    zeros = ones = empty

    @staticmethod
    def full(shape: tuple[int, ...], value: Payload, dtype: np.dtype[Any]) -> MetaArray:
        return MetaArray(shape, dtype)

    @staticmethod
    def asarray(array: Payload) -> MetaArray:
        return MetaArray(array.shape, array.dtype)


library = _Library()
# Ops on meta arrays use NumPy's functions, which find the protocols above.
libraries._known[MetaArray] = libraries._known[WrapperArray] = np
