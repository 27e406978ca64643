"""Running sums, products and extrema, differences, derivatives on grids and integrals along one dimension, under
torch's names."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from ndgrad._src.arrays.dtypes import as_dtype, as_numpy_dtype
from ndgrad._src.arrays.precision import is_inexact
from ndgrad._src.core.inplace import write
from ndgrad._src.core.variable import Variable, np_dtype
from ndgrad._src.ops import comparison, index, join, shape
from ndgrad._src.ops import reduce as reductions
from ndgrad._src.ops import scan as ops
from ndgrad._src.tensor import return_types
from ndgrad._src.tensor.arguments import as_dim, as_dims, both_worlds
from ndgrad._src.tensor.functions.extremum import require_order
from ndgrad._src.tensor.functions.reduce import deliver, ndim_of, run_along, sum_dtype

if TYPE_CHECKING:
    from ndgrad._src.ops.table import Op
    from ndgrad._typing import Dims, Dtype, Payload, Tensor

__all__ = [
    "cumsum", "cumprod", "logcumsumexp", "cummax", "cummin", "diff", "gradient", "trapezoid", "cumulative_trapezoid",
]  # fmt: skip
METHODS = ("cumsum", "cumsum_", "cumprod", "cumprod_", "logcumsumexp", "cummax", "cummin", "diff")
ALIASES = {"cumlogsumexp": "logcumsumexp", "trapz": "trapezoid"}


# ----- scans ----------------------------------------------------------------------------------------------------------


@both_worlds
def cumsum(input: Tensor, dim: int, *, dtype: Dtype = None, out: Tensor | None = None) -> Tensor:
    """The running sum along `dim`.

    Args:
        input: tensor of any dtype.
        dim: dimension along which elements are added.
        dtype: dtype of the result. The default is that of `input`, and int64 for integers and bool.
        out: tensor that receives the result.

    >>> import ndgrad
    >>> ndgrad.cumsum(ndgrad.tensor([1.0, 2.0, 3.0]), dim=0)
    tensor([1., 3., 6.])
    """
    ndim_of(input, "cumsum")
    return deliver("cumsum", run_along(ops.cumsum, "cumsum", input, dim, dtype=sum_dtype(input, dtype)), out, input)


@both_worlds
def cumprod(input: Tensor, dim: int, *, dtype: Dtype = None, out: Tensor | None = None) -> Tensor:
    """The running product along `dim`; its gradient is exact even if factors are zero.

    Args:
        input: tensor of any dtype.
        dim: dimension along which elements are multiplied.
        dtype: dtype of the result. The default is that of `input`, and int64 for integers and bool.
        out: tensor that receives the result.

    >>> import ndgrad
    >>> x = ndgrad.tensor([2.0, 0.0, 3.0], requires_grad=True)
    >>> x.cumprod(0).sum().backward()
    >>> x.grad
    tensor([1., 8., 0.])
    """
    ndim_of(input, "cumprod")
    return deliver("cumprod", run_along(ops.cumprod, "cumprod", input, dim, dtype=sum_dtype(input, dtype)), out, input)


def _in_place(op: Op, self: Tensor, dim: int, dtype: Dtype) -> Tensor:
    ndim = ndim_of(self, op.name + "_")
    number = as_dim(dim, ndim)
    if dtype is not None and as_numpy_dtype(dtype) != np_dtype(self):
        raise RuntimeError(
            f"{op.name}_(): provided dtype must match the dtype of self, {as_dtype(np_dtype(self))!r}, "
            f"but is {as_dtype(dtype)!r}. Use {op.name}(), which makes a new tensor. [nd-write-fit]"
        )
    return write(op, self, (), {"dim": number, "reverse": False, "dtype": np_dtype(self)}) if ndim else self


@both_worlds
def cumsum_(self: Tensor, dim: int, *, dtype: Dtype = None) -> Tensor:
    """In-place version of `cumsum`.

    Args:
        self: tensor to change.
        dim: dimension along which elements are added.
        dtype: None or the dtype of `self`.

    >>> import ndgrad
    >>> ndgrad.tensor([1.0, 2.0, 3.0]).cumsum_(0)
    tensor([1., 3., 6.])
    """
    return _in_place(ops.cumsum, self, dim, dtype)


@both_worlds
def cumprod_(self: Tensor, dim: int, *, dtype: Dtype = None) -> Tensor:
    """In-place version of `cumprod`.

    Args:
        self: tensor to change.
        dim: dimension along which elements are multiplied.
        dtype: None or the dtype of `self`.

    >>> import ndgrad
    >>> ndgrad.tensor([1.0, 2.0, 3.0]).cumprod_(0)
    tensor([1., 2., 6.])
    """
    return _in_place(ops.cumprod, self, dim, dtype)


@both_worlds
def logcumsumexp(input: Tensor, dim: int, *, out: Tensor | None = None) -> Tensor:
    """The running log(sum(exp(input))) along `dim`, without overflow.

    Args:
        input: floating or complex tensor.
        dim: dimension along which elements are combined.
        out: tensor that receives the result.

    >>> import ndgrad
    >>> ndgrad.logcumsumexp(ndgrad.tensor([1000.0, 1000.0]), dim=0)
    tensor([1000.0000, 1000.6932])
    """
    ndim_of(input, "logcumsumexp")
    if not is_inexact(np_dtype(input)):
        raise NotImplementedError(
            f"logcumsumexp(): not implemented for {as_dtype(np_dtype(input))!r}. "
            "Convert the input to floating point first. [nd-dtype]"
        )
    return deliver("logcumsumexp", run_along(ops.logcumsumexp, "logcumsumexp", input, dim), out, input)


@both_worlds
def cummax(input: Tensor, dim: int, *, out: tuple[Tensor, Tensor] | None = None) -> return_types.cummax:
    """The running maximum along `dim`, and the index of its last occurrence.

    Args:
        input: real tensor.
        dim: dimension along which elements are compared.
        out: tuple of tensors that receive the results.

    Returns:
        The values and the indices, both of the shape of `input`.

    >>> import ndgrad
    >>> values, indices = ndgrad.cummax(ndgrad.tensor([1.0, 3.0, 2.0, 3.0]), dim=0)
    >>> values, indices
    (tensor([1., 3., 3., 3.]), tensor([0, 1, 1, 3]))
    """
    ndim_of(input, "cummax")
    require_order("cummax", input)
    return deliver("cummax", return_types.cummax(*run_along(ops.cummax, "cummax", input, dim)), out, input)


@both_worlds
def cummin(input: Tensor, dim: int, *, out: tuple[Tensor, Tensor] | None = None) -> return_types.cummin:
    """The running minimum along `dim`, and the index of its last occurrence.

    Args:
        input: real tensor.
        dim: dimension along which elements are compared.
        out: tuple of tensors that receive the results.

    Returns:
        The values and the indices, both of the shape of `input`.

    >>> import ndgrad
    >>> ndgrad.cummin(ndgrad.tensor([3.0, 1.0, 2.0]), dim=0).values
    tensor([3., 1., 1.])
    """
    ndim_of(input, "cummin")
    require_order("cummin", input)
    return deliver("cummin", return_types.cummin(*run_along(ops.cummin, "cummin", input, dim)), out, input)


# ----- differences ----------------------------------------------------------------------------------------------------


def stretch(input: Tensor, dim: int, start: int | None, stop: int | None) -> Tensor:
    """Return the view input[..., start:stop, ...] along `dim`."""
    return index.getitem(input, index=(*(slice(None),) * dim, slice(start, stop)))


def _join(input: Tensor, dim: int, prepend: Tensor | None, append: Tensor | None) -> Tensor:
    for part in (prepend, append):
        if part is None:
            continue
        sizes, own = list(part.shape), list(input.shape)
        if len(sizes) != len(own) or sizes[:dim] + sizes[dim + 1 :] != own[:dim] + own[dim + 1 :]:
            raise RuntimeError(
                "diff expects the shape of the tensor to prepend or append to match that of input except along dim "
                f"{dim}: they are {tuple(sizes)} and {tuple(own)}. Expand or reshape it first. [nd-shape]"
            )
    parts = [p for p in (prepend, input, append) if p is not None]
    return join.cat(*parts, dim=dim) if len(parts) > 1 else input


@both_worlds
def diff(
    input: Tensor,
    n: int = 1,
    dim: int = -1,
    prepend: Tensor | None = None,
    append: Tensor | None = None,
    *,
    out: Tensor | None = None,
) -> Tensor:
    """The n-th difference of neighbours along `dim`.

    Args:
        input: tensor of at least one dimension.
        n: how often differences are taken.
        dim: dimension along which differences are taken.
        prepend: tensor that is joined in front of `input` first.
        append: tensor that is joined to the end of `input` first.
        out: tensor that receives the result.

    >>> import ndgrad
    >>> ndgrad.diff(ndgrad.tensor([1.0, 4.0, 9.0, 16.0])), ndgrad.diff(ndgrad.tensor([1.0, 4.0, 9.0, 16.0]), n=2)
    (tensor([3., 5., 7.]), tensor([2., 2.]))
    """
    ndim = ndim_of(input, "diff")
    if ndim == 0:
        raise RuntimeError(
            "diff expects input to be at least one-dimensional, but it has no dimensions. Reshape it to (1,). [nd-ndim]"
        )
    number = as_dim(dim, ndim)
    if n < 0:
        raise RuntimeError(f"diff: order must be non-negative but got {n}. Give n >= 0. [nd-range]")
    result = _join(input, number, prepend, append) if n else input  # order 0 joins nothing
    for _ in range(n):
        later, earlier = stretch(result, number, 1, None), stretch(result, number, None, -1)
        result = comparison.ne(later, earlier) if np_dtype(result).kind == "b" else later - earlier
    return deliver("diff", result, out, input)


# ----- derivatives on a grid ------------------------------------------------------------------------------------------


def grid_derivative(t: Tensor, h: Any, dim: int, edge_order: int) -> Any:  # Tensor or Array
    """Return central differences inside and one-sided ones at the ends, along `dim`, for more than `edge_order` points.

    `h` is the distance of neighbours: a number (or 0-d tensor), or a tensor of all distances.
    """
    n = t.shape[dim]
    h0: Any
    if len(getattr(h, "shape", ())) == 0:
        inner = (stretch(t, dim, 2, n) - stretch(t, dim, 0, n - 2)) / (2.0 * h)
        h0 = h1 = h2 = h3 = h
    else:
        sizes = (n - 2, *(1,) * (t.ndim - dim - 1))
        left, right = (shape.reshape(stretch(h, 0, *part), shape=sizes) for part in ((0, n - 2), (1, n - 1)))
        # Derivative, at the middle point, of the parabola through three points of a grid that may be uneven.
        inner = (
            -right / (left * (left + right)) * stretch(t, dim, 0, n - 2)
            + (right - left) / (left * right) * stretch(t, dim, 1, n - 1)
            + left / (right * (left + right)) * stretch(t, dim, 2, n)
        )
        h0, h1, h2, h3 = (index.getitem(h, index=(min(i, n - 2) if i >= 0 else max(i, 1 - n),)) for i in (0, 1, -2, -1))
    points = [stretch(t, dim, i, i + 1) for i in (0, 1, n - 2, n - 1)]
    if edge_order == 1:
        first, last = (points[1] - points[0]) / h0, (points[3] - points[2]) / h3
    else:
        first = _one_sided(points[0], points[1], stretch(t, dim, 2, 3), h0, h1)
        last = -_one_sided(points[3], points[2], stretch(t, dim, n - 3, n - 2), h3, h2)
    return join.cat(first, inner, last, dim=dim)


def _one_sided(y0: Tensor, y1: Tensor, y2: Tensor, a: Payload, b: Payload) -> Tensor:
    """Return the slope at the first of three points, at distances a and b, of the parabola through them."""
    return -(2.0 * a + b) / (a * (a + b)) * y0 + (a + b) / (a * b) * y1 - a / (b * (a + b)) * y2


@both_worlds
def gradient(
    input: Tensor,
    *,
    spacing: float | Sequence[float] | Sequence[Tensor] | None = None,
    dim: Dims = None,
    edge_order: int = 1,
) -> tuple[Tensor, ...]:
    """The derivatives of sampled values along each of `dim` (all by default), by central differences, one-sided at the
    ends.

    Args:
        input: sampled values.
        spacing: distance of samples, or a list with a distance or a 1-d tensor of coordinates for each of `dim`. The
            default is 1. Gradients flow to coordinates too.
        dim: dimension or dimensions to differentiate along. The default is all of them.
        edge_order: order of accuracy at the ends, 1 or 2.

    Returns:
        A tuple with a tensor of the shape of `input` for each of `dim`.

    >>> import ndgrad
    >>> ndgrad.gradient(ndgrad.tensor([0.0, 1.0, 4.0, 9.0]), edge_order=2)
    (tensor([0., 2., 4., 6.]),)
    """
    ndim = ndim_of(input, "gradient")
    if edge_order not in (1, 2):
        raise RuntimeError(f"gradient only supports edge_order=1 and edge_order=2, but got {edge_order}. [nd-option]")
    if np_dtype(input).kind == "b":
        raise RuntimeError(
            "gradient: differences of bools are not supported. Convert the input to numbers first. [nd-dtype]"
        )
    dims = as_dims(dim, ndim)
    if isinstance(spacing, Variable):
        raise TypeError(
            "gradient(): spacing must be a number, or a list with one number or 1-d tensor for each dim. [nd-type]"
        )
    several = isinstance(spacing, (list, tuple))
    given: Any = tuple(spacing) if several else (1.0 if spacing is None else spacing,) * len(dims)  # type: ignore[arg-type]
    if len(given) != len(dims):
        raise RuntimeError(
            "gradient expected spacing to be unspecified, a scalar, or of the same length as dim, but got a spacing "
            f"argument of length {len(given)} and {len(dims)} dims. Give one spacing for each. [nd-shape]"
        )
    found = []
    for d, h in zip(dims, given, strict=True):
        if input.shape[d] < edge_order + 1:
            raise RuntimeError(
                f"gradient expected each dimension size to be at least edge_order+1: dimension {d} has "
                f"{input.shape[d]} "
                f"(shape {tuple(input.shape)}, edge_order {edge_order}). Leave that dimension out of dim. [nd-too-few]"
            )
        if isinstance(h, Variable):
            if h.ndim != 1 or h.shape[0] != input.shape[d]:
                raise RuntimeError(
                    f"gradient expected each element of spacing to have one dimension, with the {input.shape[d]} "
                    "coordinates along "
                    f"dimension {d}, but got shape {tuple(h.shape)}. Give the coordinates of the samples. [nd-shape]"
                )
            h = stretch(h, 0, 1, None) - stretch(h, 0, None, -1)
        found.append(grid_derivative(input, h, d, edge_order))
    return tuple(found)


# ----- integrals by trapezoids ----------------------------------------------------------------------------------------


def _widths(name: str, y: Tensor, x: Tensor | None, dx: float | Tensor | None, dim: int) -> float | Tensor:
    """Return the distances of the sample points along `dim`: a number, or a tensor broadcast to intervals of y."""
    if x is None:
        return 1.0 if dx is None else dx
    if dx is not None:
        raise TypeError(
            f"{name}(): got both x, the sample points, and dx, their distance. Give one of them. [nd-exclusive]"
        )
    if x.ndim == 1:
        if x.shape[0] != y.shape[dim]:
            raise RuntimeError(
                f"{name}: There must be one `x` value for each sample point: x has {x.shape[0]}, "
                f"and y {y.shape[dim]} along dim {dim}. [nd-shape]"
            )
        x = shape.reshape(x, shape=(x.shape[0], *(1,) * (y.ndim - dim - 1)))
    elif x.ndim < y.ndim:
        x = shape.reshape(x, shape=(*(1,) * (y.ndim - x.ndim), *tuple(x.shape)))
    return diff(x, dim=dim - y.ndim)


def _areas(name: str, y: Tensor, x: Tensor | None, dx: float | Tensor | None, dim: int) -> tuple[Tensor, int]:
    """Return the areas of the trapezoids, and the number of their dimension."""
    ndim = ndim_of(y, name)
    if ndim == 0:
        raise IndexError(
            f"{name}(): Dimension specified as {dim} but tensor has no dimensions. Reshape y to (1,). [nd-dim]"
        )
    number = as_dim(dim, ndim)
    if np_dtype(y).kind == "b":
        raise RuntimeError(
            f"{name}: received a bool input for `y`, but bool is not supported. Convert it to numbers first. [nd-dtype]"
        )
    areas = (stretch(y, number, 1, None) + stretch(y, number, None, -1)) * (_widths(name, y, x, dx, number) / 2)
    return areas, number - ndim + areas.ndim


@both_worlds
def trapezoid(y: Tensor, x: Tensor | None = None, *, dx: float | Tensor | None = None, dim: int = -1) -> Tensor:
    """The integral along `dim` by the trapezoidal rule.

    Args:
        y: sampled values.
        x: sample points, a vector or a tensor that broadcasts with `y`. It excludes `dx`.
        dx: distance of sample points. The default is 1.
        dim: dimension to integrate along.

    >>> import ndgrad
    >>> ndgrad.trapezoid(ndgrad.tensor([1.0, 2.0, 3.0]), dx=2.0)
    tensor(8.)
    """
    areas, number = _areas("trapezoid", y, x, dx, dim)
    return reductions.sum(areas, dim=(number,))


@both_worlds
def cumulative_trapezoid(
    y: Tensor, x: Tensor | None = None, *, dx: float | Tensor | None = None, dim: int = -1
) -> Tensor:
    """The running integral along `dim` by the trapezoidal rule.

    Args:
        y: sampled values.
        x: sample points, a vector or a tensor that broadcasts with `y`. It excludes `dx`.
        dx: distance of sample points. The default is 1.
        dim: dimension to integrate along. Its size in the result is smaller by one.

    >>> import ndgrad
    >>> ndgrad.cumulative_trapezoid(ndgrad.tensor([1.0, 2.0, 3.0]))
    tensor([1.5000, 4.0000])
    """
    areas, number = _areas("cumulative_trapezoid", y, x, dx, dim)
    return ops.cumsum(areas, dim=number)
