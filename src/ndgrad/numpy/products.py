"""Products of arrays: dot and its variants, einsum through the core's own contraction, outer, kron, cross."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from ndgrad._src.arrays.precision import is_inexact
from ndgrad._src.core.layout import is_view_of
from ndgrad._src.core.variable import np_dtype
from ndgrad._src.ops import complex as complex_ops
from ndgrad._src.ops import join
from ndgrad._src.ops import product as ops
from ndgrad._src.tensor.functions import einsum as _einsum
from ndgrad._src.tensor.functions import product as _product
from ndgrad._src.tensor.storage import layout_sample, memory_of
from ndgrad.numpy.coercion import (
    arrange,
    broadcast,
    deliver,
    flat,
    move_axis,
    one_axis,
    operands,
    order_like,
    plain,
    with_dtype,
)

if TYPE_CHECKING:
    from ndgrad._typing import ArrayLike, Axis, Dtype, Out
    from ndgrad.numpy._array import Array

#: torch's functions. They return Arrays for Arrays, which their declarations cannot express.
einsum_api: Any = _einsum
product_api: Any = _product

__all__ = ["cross", "dot", "einsum", "einsum_path", "inner", "kron", "outer", "tensordot", "vdot"]


def dot(a: ArrayLike, b: ArrayLike, out: Out = None) -> Array:
    """The inner product of the last axis of `a` with the last but one (or only) axis of `b`.

    Args:
        a, b: arrays. For numbers it is the product, for lines the inner product, for matrices the matrix product.
        out: array that receives the result.

    >>> import ndgrad.numpy as np
    >>> np.dot(np.array([1.0, 2.0]), np.array([3.0, 4.0]))
    array(11.)
    """
    x, y = operands(a, b)
    if x.ndim == 0 or y.ndim == 0:
        made = x * y
        return deliver("dot", arrange(made) if made.ndim <= 2 and is_inexact(np_dtype(made)) else made, out)
    if x.ndim <= 2 and y.ndim <= 2:
        return deliver("dot", ops.matmul(x, y), out)
    return deliver("dot", einsum_api.tensordot(x, y, dims=([x.ndim - 1], [max(y.ndim - 2, 0)])), out)


def inner(a: ArrayLike, b: ArrayLike, /) -> Array:
    """The inner products of the last axes of both arrays.

    Args:
        a, b: arrays whose last axes have one size.

    >>> import ndgrad.numpy as np
    >>> np.inner(np.array([1.0, 2.0]), np.array([3.0, 4.0]))
    array(11.)
    """
    x, y = operands(a, b)
    return x * y if x.ndim == 0 or y.ndim == 0 else product_api.inner(x, y)


def vdot(a: ArrayLike, b: ArrayLike, /) -> Array:
    """The inner product of two flattened arrays, the first conjugated.

    Args:
        a: first array, which is conjugated.
        b: second array, with as many elements.

    >>> import ndgrad.numpy as np
    >>> np.vdot(np.array([1.0j]), np.array([1.0j]))
    array(1.+0.j)
    """
    x, y = (flat(t) for t in operands(a, b))
    return ops.matmul(complex_ops.conj(x) if np_dtype(x).kind == "c" else x, y)


def outer(a: ArrayLike, b: ArrayLike, out: Out = None) -> Array:
    """The products of all pairs of elements of two flattened arrays.

    Args:
        a, b: arrays, which are flattened.
        out: array that receives the result.

    >>> import ndgrad.numpy as np
    >>> np.outer(np.array([1, 2]), np.array([3, 4]))
    array([[3, 4],
           [6, 8]])
    """
    x, y = (flat(t) for t in operands(a, b))
    return deliver("outer", x[:, None] * y[None, :], out, broadcasts=True)


def kron(a: ArrayLike, b: ArrayLike) -> Array:
    """The Kronecker product: copies of the second array, scaled by each element of the first.

    Args:
        a: array of factors.
        b: array that is copied.

    >>> import ndgrad.numpy as np
    >>> np.kron(np.array([1, 10]), np.array([1, 2]))
    array([ 1,  2, 10, 20])
    """
    return product_api.kron(*operands(a, b))


def tensordot(a: ArrayLike, b: ArrayLike, axes: int | Sequence[Any] = 2) -> Array:
    """The sums of products over axes of both arrays: the last and the first ones, or the given ones.

    Args:
        a, b: arrays.
        axes: number of axes to sum over, the last ones of `a` and the first ones of `b`, or a pair of lists with the
            axes of each.

    >>> import ndgrad.numpy as np
    >>> np.tensordot(np.ones((2, 3)), np.ones((3, 4)), axes=1).shape
    (2, 4)
    """
    x, y = operands(a, b)
    if hasattr(axes, "__iter__"):
        axes = [[t] if np.ndim(t) == 0 else [int(i) for i in t] for t in axes]
        axes = [[one_axis(i, t.ndim) for i in group] for group, t in zip(axes, (x, y), strict=True)]
    elif axes < 0 or axes > min(x.ndim, y.ndim):
        raise ValueError(f"axes={axes} cannot be summed over for arrays of shapes {x.shape} and {y.shape} [nd-matmul]")
    return einsum_api.tensordot(x, y, dims=axes)


def cross(a: ArrayLike, b: ArrayLike, axisa: int = -1, axisb: int = -1, axisc: int = -1, axis: Axis = None) -> Array:
    """The cross product of vectors of length 3 (or 2, which lie in the plane).

    Args:
        a, b: arrays of vectors.
        axisa, axisb: axes of the vectors in `a` and `b`.
        axisc: axis of the vectors in the result. It has no effect if both have length 2, when the result is a number
            each.
        axis: one axis in place of the three others.

    >>> import ndgrad.numpy as np
    >>> np.cross(np.array([1.0, 0.0, 0.0]), np.array([0.0, 1.0, 0.0]))
    array([0., 0., 1.])
    """
    if axis is not None:
        axisa = axisb = axisc = axis
    x, y = operands(a, b)
    x, y = move_axis(x, axisa, -1), move_axis(y, axisb, -1)
    if x.shape[-1] not in (2, 3) or y.shape[-1] not in (2, 3):
        raise ValueError(
            f"incompatible dimensions for cross product (dimension must be 2 or 3), got {x.shape[-1]} and "
            f"{y.shape[-1]} [nd-shape]"
        )
    if x.shape[-1] == y.shape[-1] == 2:
        return arrange(x[..., 0] * y[..., 1] - x[..., 1] * y[..., 0])
    shape = np.broadcast_shapes(x.shape[:-1], y.shape[:-1])
    x, y = (join.cat(t, t[..., :1] * 0, dim=t.ndim - 1) if t.shape[-1] == 2 else t for t in (x, y))
    x, y = (broadcast(t, (*shape, 3)) for t in (x, y))
    made = product_api.cross_along("cross", x, y, len(shape))
    return move_axis(arrange(made), -1, axisc)


def einsum(
    *args: Any, out: Out = None, optimize: bool | str | Sequence[Any] = False, dtype: Dtype = None, order: str = "K",
    casting: str = "safe",
) -> Array:  # fmt: skip
    """Sums of products over named dimensions. ndgrad chooses the order of contractions itself.

    Args:
        *args: an equation such as `"ij,jk->ik"` and the arrays, or arrays alternating with lists of the numbers of
            their dimensions.
        out: array that receives the result.
        optimize: accepted as in NumPy. It does not change the order of contractions, only the memory order of the
            result.
        dtype: dtype to which the arrays are converted first.
        order: memory order of the result: `"C"`, `"F"`, `"A"` or `"K"`.
        casting: rule for writing into `out`: with `"unsafe"` any conversion is allowed, otherwise those within a kind.

    >>> import ndgrad.numpy as np
    >>> np.einsum("ij,j->i", np.eye(2), np.array([1.0, 2.0]))
    array([1., 2.])
    """
    if isinstance(args[0], str):
        equation, given = args[0], args[1:]
        values = [with_dtype(t, dtype) for t in operands(*given)]
        made = einsum_api.einsum(equation, *values)
    else:
        pairs, last = args[: len(args) // 2 * 2], args[len(args) // 2 * 2 :]
        values = [with_dtype(t, dtype) for t in operands(*pairs[::2])]
        mixed = [item for t, names in zip(values, pairs[1::2], strict=True) for item in (t, list(names))]
        made = einsum_api.einsum(*mixed, *(list(names) for names in last))
    if made.ndim > 1 and memory_of(made).size and not any(is_view_of(made, t) for t in values):
        made = arrange(made, _einsum_order(args, values, order, optimize))
    return deliver("einsum", made, out, casting if casting == "unsafe" else "same_kind")


#: Arguments of NumPy's einsum -> memory order of its result.
_orders: dict[Any, tuple[int, ...]] = {}


def _einsum_order(args: tuple[Any, ...], values: list[Array], order: str, optimize: Any) -> tuple[int, ...]:
    """Return the memory order that NumPy chooses for a result, by the strides of the operands."""
    samples = [layout_sample(t) for t in values]
    by_lists = not isinstance(args[0], str)
    names = args[0] if not by_lists else str([*args[1::2], *args[len(args) // 2 * 2 :]])
    key = (names, order, str(optimize), *((s.shape, s.strides) for s in samples))
    found = _orders.get(key)
    if found is None:
        if len(_orders) > 4096:
            _orders.clear()
        # A few elements are enough: they have the same strides as the whole.
        corners = [s[(slice(0, 2),) * s.ndim] for s in samples]
        asked = (names, *corners)
        if by_lists:
            pairs = zip(corners, args[1::2], strict=False)
            asked = (*(item for pair in pairs for item in pair), *args[len(args) // 2 * 2 :])
        # The stubs require a literal order.
        found = _orders[key] = order_like(np.einsum(*asked, order=order, optimize=optimize))  # type: ignore[call-overload]
    return found


def einsum_path(
    *args: Any, optimize: bool | str | Sequence[Any] = "greedy", einsum_call: bool = False
) -> tuple[list[Any], str]:
    """The order in which NumPy would contract the operands of an einsum, and a report.

    Args:
        *args: an equation and arrays, as for `einsum`.
        optimize: strategy: `"greedy"`, `"optimal"`, False for no optimisation, or a path.
        einsum_call: accepted as in NumPy, for its internal use. It has no effect.

    Returns:
        The path as a list, and the report as text.

    >>> import ndgrad.numpy as np
    >>> np.einsum_path("ij,jk", np.eye(2), np.eye(2))[0]
    ['einsum_path', (0, 1)]
    """
    return np.einsum_path(*plain(args), optimize=optimize)
