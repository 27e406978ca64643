"""`Array`: the tensor with NumPy's face.

Same graph, same engine, same storage: only what names mean is NumPy's. Results keep the face of their inputs, and are Arrays when
both kinds meet. Saved values survive later writes (see Note [Versions as a chain]), since ordinary NumPy programs read earlier parts
of a buffer and write later ones.
"""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from ndgrad.api import einsum, extremum, fill, rearrange, reduce, scan, shape, statistics, triangle
from ndgrad.api import elementwise as elementwise_api
from ndgrad.api import order as order_api
from ndgrad.api.arguments import as_dim, as_dims, as_shape, infer_shape
from ndgrad.autograd.inplace import copy_into, write
from ndgrad.autograd.modes import thread
from ndgrad.autograd.variable import Variable, np_dtype, requires_grad, wrap
from ndgrad.ops import cast as cast_ops
from ndgrad.ops import fill as fill_ops
from ndgrad.ops import index as index_ops
from ndgrad.ops import rounding
from ndgrad.ops import shape as shape_ops
from ndgrad.ops.generate import FACES
from ndgrad.tensor import Tensor


def _finish(name: str, result: Any, out: Any) -> Any:
    return result if out is None else copy_into(name, out, result)


def _cast(t: Any, dtype: Any) -> Any:
    return t if dtype is None or np_dtype(t) == np.dtype(dtype) else cast_ops.cast(t, dtype=np.dtype(dtype))


def _constant(values: Any) -> Any:
    return wrap(Array, np.asarray(values))


def _reversed(t: Any) -> Any:
    return shape_ops.permute(t, dims=tuple(range(t.ndim))[::-1])


def _floating(t: Any, dtype: Any) -> Any:
    """What mean, var and std compute in: the given dtype, else float64 for integers."""
    return _cast(t, dtype if dtype is not None or np_dtype(t).kind in "fc" else np.float64)


def _deviation(name: str, t: Any, axis: Any, dtype: Any, out: Any, ddof: Any, keepdims: bool, correction: Any) -> Any:
    made = getattr(statistics, name)(_floating(t, dtype), axis, correction=ddof if correction is None else correction, keepdim=keepdims)
    return _finish(name, made, out)


class Array(Tensor):
    """An n-dimensional array with NumPy's methods that remembers how it was computed.

    >>> import ndgrad.numpy as np
    >>> x = np.array([1.0, 2.0, 4.0]).requires_grad_()
    >>> x.std().backward()
    >>> x.grad
    array([-0.35634832, -0.08908708,  0.4454354 ])
    """

    __slots__ = ()
    keeps_saved = True

    @property
    def dtype(self) -> Any:
        """NumPy's own dtype."""
        return np_dtype(self)

    @property
    def shape(self) -> Any:
        meta = self._meta
        shape = self._array.shape
        return tuple(shape[1:] if meta is not None and meta.batch_level else shape)

    # ----- attributes ----------------------------------------------------------------------------------------------------

    @property
    def size(self) -> int:  # type: ignore[override]
        """The number of elements."""
        return math.prod(self.shape)

    @property
    def strides(self) -> tuple[int, ...]:
        """Bytes to step in each dimension."""
        array = np.asarray(self._array)
        return tuple(array.strides)

    @property
    def T(self) -> Any:
        """All dimensions reversed."""
        return shape_ops.permute(self, dims=tuple(range(self.ndim))[::-1])

    @property
    def flat(self) -> Any:
        """The elements one by one, in C order."""
        return iter(shape_ops.reshape(self, shape=(math.prod(self.shape),)))

    @property
    def base(self) -> Any:
        """The Array whose memory this one is a view of, or None."""
        return self._base

    # ----- reductions ----------------------------------------------------------------------------------------------------

    def sum(self, axis: Any = None, dtype: Any = None, out: Any = None, keepdims: bool = False) -> Any:
        return _finish("sum", reduce.sum(self, axis, keepdims, dtype=dtype), out)

    def prod(self, axis: Any = None, dtype: Any = None, out: Any = None, keepdims: bool = False) -> Any:
        t = _cast(self, dtype)
        if axis is None or isinstance(axis, tuple):
            dims = as_dims(axis, t.ndim)
            rest = [d for d in range(t.ndim) if d not in dims]
            lines = (*(t.shape[d] for d in rest), math.prod(t.shape[d] for d in dims))
            flat = shape_ops.reshape(shape_ops.permute(t, dims=(*rest, *dims)), shape=lines)
            made = reduce.prod(flat, -1)
            if keepdims:
                made = shape_ops.reshape(made, shape=tuple(1 if d in dims else n for d, n in enumerate(t.shape)))
            return _finish("prod", made, out)
        return _finish("prod", reduce.prod(t, axis, keepdims), out)

    def mean(self, axis: Any = None, dtype: Any = None, out: Any = None, keepdims: bool = False) -> Any:
        return _finish("mean", reduce.mean(_floating(self, dtype), axis, keepdims), out)

    def std(
        self, axis: Any = None, dtype: Any = None, out: Any = None, ddof: Any = 0, keepdims: bool = False, *, correction: Any = None
    ) -> Any:
        """The standard deviation, by default of the population (ddof=0), unlike torch's."""
        return _deviation("std", self, axis, dtype, out, ddof, keepdims, correction)

    def var(
        self, axis: Any = None, dtype: Any = None, out: Any = None, ddof: Any = 0, keepdims: bool = False, *, correction: Any = None
    ) -> Any:
        """The variance, by default of the population (ddof=0), unlike torch's."""
        return _deviation("var", self, axis, dtype, out, ddof, keepdims, correction)

    def max(self, axis: Any = None, out: Any = None, keepdims: bool = False) -> Any:
        """The largest values (only the values: torch's `max(dim)` gives positions too)."""
        return _finish("max", extremum.amax(self, () if axis is None else axis, keepdims), out)

    def min(self, axis: Any = None, out: Any = None, keepdims: bool = False) -> Any:
        return _finish("min", extremum.amin(self, () if axis is None else axis, keepdims), out)

    def argmax(self, axis: Any = None, out: Any = None, *, keepdims: bool = False) -> Any:
        return _finish("argmax", extremum.argmax(self, axis, keepdims), out)

    def argmin(self, axis: Any = None, out: Any = None, *, keepdims: bool = False) -> Any:
        return _finish("argmin", extremum.argmin(self, axis, keepdims), out)

    def all(self, axis: Any = None, out: Any = None, keepdims: bool = False) -> Any:
        return _finish("all", reduce.all(self, axis, keepdims), out)

    def any(self, axis: Any = None, out: Any = None, keepdims: bool = False) -> Any:
        return _finish("any", reduce.any(self, axis, keepdims), out)

    def cumsum(self, axis: Any = None, dtype: Any = None, out: Any = None) -> Any:
        t = self if axis is not None else self.ravel()
        return _finish("cumsum", scan.cumsum(t, 0 if axis is None else axis, dtype=dtype), out)

    def cumprod(self, axis: Any = None, dtype: Any = None, out: Any = None) -> Any:
        t = self if axis is not None else self.ravel()
        return _finish("cumprod", scan.cumprod(t, 0 if axis is None else axis, dtype=dtype), out)

    # ----- shape ---------------------------------------------------------------------------------------------------------

    def reshape(self, *sizes: Any, order: str = "C", copy: bool | None = None) -> Any:
        wanted = infer_shape(as_shape(sizes), math.prod(self.shape), tuple(self.shape))
        if order in ("F",) or (order == "A" and np.asarray(self._array).flags.f_contiguous):
            made = _reversed(shape_ops.reshape(_reversed(self), shape=wanted[::-1]))
        else:
            made = shape_ops.reshape(self, shape=wanted)
        return made.copy() if copy else made

    def ravel(self, order: str = "C") -> Any:
        return self.reshape(-1, order=order)

    def flatten(self, order: str = "C") -> Any:
        """A one-dimensional copy (torch's `flatten` may be a view)."""
        return cast_ops.clone(self.reshape(-1, order=order))

    def transpose(self, *axes: Any) -> Any:
        """Axes permuted; reversed when none are given (torch's `transpose` swaps two)."""
        if len(axes) == 1 and (axes[0] is None or isinstance(axes[0], (tuple, list))):
            axes = () if axes[0] is None else tuple(axes[0])
        dims = tuple(range(self.ndim))[::-1] if not axes else tuple(as_dim(a, self.ndim) for a in axes)
        if sorted(dims) != list(range(self.ndim)):
            raise ValueError(f"axes {axes} don't match an array of {self.ndim} dimensions. Name each axis once.")
        return shape_ops.permute(self, dims=dims)

    def swapaxes(self, axis1: int, axis2: int) -> Any:
        return shape.transpose(self, axis1, axis2)

    def squeeze(self, axis: Any = None) -> Any:
        """Drop dimensions of size one; naming another raises (torch leaves it)."""
        dims = [d for d, n in enumerate(self.shape) if n == 1] if axis is None else list(as_dims(axis, self.ndim))
        for d in dims:
            if self.shape[d] != 1:
                raise ValueError(f"cannot select an axis to squeeze out which has size not equal to one (axis {d} of shape {self.shape})")
        return shape_ops.reshape(self, shape=tuple(n for d, n in enumerate(self.shape) if d not in dims))

    def repeat(self, repeats: Any, axis: int | None = None) -> Any:
        """Each element repeated (torch's `repeat` tiles; this is its repeat_interleave)."""
        t = self.ravel() if axis is None else self
        if not isinstance(repeats, (int, Variable)):
            repeats = _constant(repeats)
        return rearrange.repeat_interleave(t, repeats, 0 if axis is None else axis)

    def diagonal(self, offset: int = 0, axis1: int = 0, axis2: int = 1) -> Any:
        return triangle.diagonal(self, offset, axis1, axis2)

    def trace(self, offset: int = 0, axis1: int = 0, axis2: int = 1, dtype: Any = None, out: Any = None) -> Any:
        return _finish("trace", reduce.sum(triangle.diagonal(_cast(self, dtype), offset, axis1, axis2), -1), out)

    def view(self, dtype: Any = None, type: Any = None) -> Any:
        """The same memory read as another dtype (torch's `view` reshapes: here that is `reshape`)."""
        if isinstance(dtype, (int, tuple, list)):
            raise TypeError("Array.view() takes a dtype, as NumPy's does. To change the shape, call reshape().")
        return shape_ops.alias(self) if dtype is None else shape.view(self, np.dtype(dtype))

    def resize(self, *sizes: Any, refcheck: bool = True) -> None:
        raise ValueError("resize() of an Array in place is not supported: other Arrays may view its memory. Use reshape(), or "
            "ndgrad.numpy.resize().")

    # ----- elements ------------------------------------------------------------------------------------------------------

    def astype(self, dtype: Any, order: str = "K", casting: str = "unsafe", subok: bool = True, copy: bool = True) -> Any:
        wanted = np.dtype(dtype)
        if not np.can_cast(np_dtype(self), wanted, casting):  # type: ignore[arg-type]
            raise TypeError(f"Cannot cast array data from {np_dtype(self)} to {wanted} according to the rule {casting!r}")
        if np_dtype(self) == wanted:
            return cast_ops.clone(self) if copy else self
        return cast_ops.cast(self, dtype=wanted)

    def copy(self, order: str = "C") -> Any:
        return cast_ops.clone(self)

    def fill(self, value: Any) -> None:
        fill.fill_(self, value)

    def round(self, decimals: int = 0, out: Any = None) -> Any:
        return _finish("round", rounding.round(self, decimals=decimals), out)

    def clip(self, min: Any = None, max: Any = None, out: Any = None) -> Any:
        return _finish("clip", elementwise_api.clamp(self, min, max), out)

    def conj(self) -> Any:
        return elementwise_api.conj(self)

    def conjugate(self) -> Any:
        return elementwise_api.conj(self)

    def dot(self, b: Any, out: Any = None) -> Any:
        """The inner or matrix product, in NumPy's sense for more than two dimensions."""
        if not isinstance(b, Variable):
            b = _constant(b)
        if self.ndim == 0 or b.ndim == 0:
            return _finish("dot", self * b, out)
        if b.ndim == 1:
            return _finish("dot", einsum.tensordot(self, b, dims=([self.ndim - 1], [0])), out)
        return _finish("dot", einsum.tensordot(self, b, dims=([self.ndim - 1], [b.ndim - 2])), out)

    def sort(self, axis: int = -1, kind: Any = None, order: Any = None, *, stable: bool | None = None) -> None:
        """Sort in place (torch's `sort` returns a sorted copy)."""
        write(fill_ops.copy, self, (order_api.sort(self, axis)[0],), {})

    def argsort(self, axis: int | None = -1, kind: Any = None, order: Any = None, *, stable: bool | None = None) -> Any:
        t = self.ravel() if axis is None else self
        return order_api.argsort(t, 0 if axis is None else axis)

    def nonzero(self) -> tuple[Any, ...]:
        """The places of nonzero elements, one array per dimension (torch's `nonzero` gives rows)."""
        rows = index_ops.nonzero(self)
        return tuple(rows[:, d] for d in range(max(self.ndim, 1)))

    def take(self, indices: Any, axis: int | None = None, out: Any = None, mode: str = "raise") -> Any:
        t = self.ravel() if axis is None else self
        where = 0 if axis is None else as_dim(axis, t.ndim)
        if not isinstance(indices, Variable):
            indices = _constant(indices)
        n = t.shape[where]
        if mode == "wrap":
            indices = indices % n
        elif mode == "clip":
            indices = elementwise_api.clamp(indices, 0, n - 1)
        return _finish("take", t[(slice(None),) * where + (indices,)], out)

    def searchsorted(self, v: Any, side: str = "left", sorter: Any = None) -> Any:
        return order_api.searchsorted(self, v if isinstance(v, Variable) else _constant(v), side=side, sorter=sorter)

    def item(self, *args: Any) -> Any:
        """One element as a Python number; asking for it by name is the explicit way out of the graph."""
        array = np.asarray(self.detach()._array)
        return array.item(*args)

    def put(self, indices: Any, values: Any, mode: str = "raise") -> None:
        flat = shape_ops.reshape(self, shape=(math.prod(self.shape),))
        flat[np.asarray(indices)] = values

    def tobytes(self, order: str = "C") -> bytes:
        return bytes(np.asarray(self.detach()._array).tobytes(order))  # type: ignore[arg-type]

    # ----- text and numbers ----------------------------------------------------------------------------------------------

    def __repr__(self) -> str:
        if isinstance(self._array, Variable):
            return super().__repr__()
        return repr(np.asarray(self._array))

    def __str__(self) -> str:
        return str(np.asarray(self._array)) if not isinstance(self._array, Variable) else super().__str__()

    def __float__(self) -> float:
        refuse_number(self, "float()")
        return super().__float__()

    def __int__(self) -> int:
        refuse_number(self, "int()")
        return super().__int__()

    def __complex__(self) -> complex:
        refuse_number(self, "complex()")
        return super().__complex__()


def refuse_number(t: Any, what: str) -> None:
    """A Python number forgets the graph: on this face that is an error, never a silent loss."""
    if thread.grad_enabled and requires_grad(t):
        raise TypeError(
            f"{what} of an Array that requires grad would drop it from the graph: the result is a plain Python number. "
            "Keep the 0-d Array (write u[i] = t into an Array made by ndgrad.numpy, use ndgrad.numpy functions instead of math's), "
            "or ask for the number: t.item(), or under no_grad()."
        )


FACES[Array] = Array


def to_array(t: Any) -> Any:
    """The same value with NumPy's face: a view, no copy."""
    return _with_face(t, Array)


def to_tensor(t: Any) -> Any:
    """The same value with torch's face: a view, no copy."""
    return _with_face(t, Tensor)


def _with_face(t: Any, face: type[Any]) -> Any:
    if t.__class__ is face:
        return t
    other = shape_ops.alias(t)
    other.__class__ = face
    return other
