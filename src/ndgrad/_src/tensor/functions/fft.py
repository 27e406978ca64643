"""Fourier transforms under torch's names: dimensions, sizes and scales.

All come down to three ops (_src.ops.fourier). This file trims (by a view) or zero-pads the input to the requested
sizes, and turns `norm` and the direction into a scale.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from ndgrad._src.arrays.dtypes import as_dtype, as_numpy_dtype, get_default_dtype
from ndgrad._src.arrays.precision import is_inexact
from ndgrad._src.core.detach_checks import as_number
from ndgrad._src.core.variable import Variable, np_dtype
from ndgrad._src.ops import cast, fourier, index, padding
from ndgrad._src.tensor.arguments import as_integer, both_worlds
from ndgrad._src.tensor.checks import existing_dim
from ndgrad._src.tensor.functions.creation import Options
from ndgrad._src.tensor.functions.product import conjugate
from ndgrad._src.tensor.functions.rearrange import roll
from ndgrad._src.tensor.functions.reduce import deliver

if TYPE_CHECKING:
    from collections.abc import Sequence
    from typing import Unpack

    from numpy.typing import NDArray

    from ndgrad._typing import Dims, FactoryOptions, Tensor

__all__ = [
    "fft", "fft2", "fftfreq", "fftn", "fftshift", "hfft", "hfft2", "hfftn", "ifft", "ifft2", "ifftn", "ifftshift",
    "ihfft", "ihfft2", "ihfftn", "irfft", "irfft2", "irfftn", "rfft", "rfft2", "rfftfreq", "rfftn",
]  # fmt: skip

#: Dimensions, and the number of points of each (None: the current size).
_Plan = tuple[tuple[int, ...], tuple[int | None, ...]]

# ----- reading arguments ----------------------------------------------------------------------------------------------


def _as_floating(name: str, input: Tensor, *, real: bool = False) -> Tensor:
    """Return the input in a dtype that can be transformed: integers become the default dtype."""
    if not isinstance(input, Variable):
        raise TypeError(
            f"{name}() takes a tensor, but got {type(input).__name__}. Wrap it with ndgrad.as_tensor(...). [nd-type]"
        )
    dtype = np_dtype(input)
    if dtype.kind in "biu":
        return cast.cast(input, dtype=as_numpy_dtype(get_default_dtype()))
    if real and dtype.kind == "c":
        raise RuntimeError(
            f"{name} expects a real input tensor, but got {as_dtype(dtype)!r}. Pass its .real, "
            "or use a transform of complex numbers. [nd-complex]"
        )
    if dtype.itemsize == 2:
        raise RuntimeError(
            f"{name}: Unsupported dtype {as_dtype(dtype)!r}: there are no transforms in half precision. "
            "Convert it with .float(). [nd-dtype]"
        )
    return input


def _scale(name: str, norm: str | None, forward: bool) -> str:
    if norm == "ortho":
        return "root"
    if norm not in (None, "backward", "forward"):
        raise RuntimeError(
            f'{name}: Invalid normalization mode: {norm!r}. Give "ortho", "forward" or "backward", the default. '
            "[nd-option]"
        )
    return "full" if forward == (norm == "forward") else "none"


def _sequence(value: Dims) -> tuple[int, ...] | None:
    return None if value is None else tuple(value) if hasattr(value, "__iter__") else (value,)


def _plan_dims(name: str, input: Tensor, s: Sequence[int] | None, dim: Dims) -> _Plan:
    """Return the plan for several dimensions."""
    ndim = input.ndim
    sizes, dims = _sequence(s), _sequence(dim)
    if dims is None:
        if sizes is not None and len(sizes) > ndim:
            raise RuntimeError(
                f"{name}: Got shape with {len(sizes)} values but input tensor only has {ndim} dimensions. "
                "Give at most one size per dimension. [nd-shape]"
            )
        numbers = tuple(range(0 if sizes is None else ndim - len(sizes), ndim))
    else:
        numbers = tuple(existing_dim(d, ndim) for d in dims)
    if sizes is None:
        return _require_unique(name, numbers), (None,) * len(numbers)
    if len(sizes) != len(numbers):
        raise RuntimeError(
            f"{name}: When given, dim and shape arguments must have the same length, but s = {s} has {len(sizes)} and "
            f"dim = {dim} has {len(numbers)}. Give one size per dim. [nd-shape]"
        )
    points = tuple(as_integer(name, "s", n) for n in sizes)
    return _require_unique(name, numbers), tuple(None if n == -1 else n for n in points)


def _require_unique(name: str, dims: tuple[int, ...]) -> tuple[int, ...]:
    if len(set(dims)) != len(dims):
        raise RuntimeError(f"{name}: FFT dims must be unique, but these are {dims}. Name each dimension once. [nd-dim]")
    return dims


def _resize(name: str, input: Tensor, plan: _Plan, halved: bool = False) -> tuple[Tensor, int]:
    """Return the input with the planned number of points, and the number of points of the last dimension.

    `halved`: the input is half of a spectrum, and sizes count points of the result: the last
    dimension needs n // 2 + 1.
    """
    dims, sizes = plan
    shape = tuple(input.shape)
    points = [shape[d] if n is None else n for d, n in zip(dims, sizes, strict=True)]
    if halved and sizes[-1] is None:
        points[-1] = 2 * (shape[dims[-1]] - 1)
    for d, n in zip(dims, points, strict=True):
        if n < 1:
            raise RuntimeError(
                f"{name}: Invalid number of data points ({n}) specified for dimension {d} of an input of shape "
                f"{list(shape)}. A transform needs at least one. [nd-range]"
            )
    last = points[-1] if points else 0
    if halved:
        points[-1] = last // 2 + 1
    wanted = dict(zip(dims, points, strict=True))
    if any(n < shape[d] for d, n in wanted.items()):
        input = index.getitem(input, index=tuple(slice(wanted.get(d)) for d in range(len(shape))))
    if any(n > shape[d] for d, n in wanted.items()):
        pads = tuple((0, max(0, wanted.get(d, n) - n)) for d, n in enumerate(shape))
        input = padding.constant_pad_nd(input, pads=pads, value=0.0)
    return input, last


# ----- the three kinds ------------------------------------------------------------------------------------------------


def _c2c(name: str, input: Tensor, plan: _Plan, norm: str | None, forward: bool) -> Tensor:
    """Transform any input and return all bins."""
    scale = _scale(name, norm, forward)
    dims = plan[0]
    x, _ = _resize(name, input, plan)
    if np_dtype(x).kind == "c" or not dims:
        return fourier.fft_c2c(x, dims=dims, scale=scale, inverse=not forward)
    spectrum = fourier.fft_r2c(x, dims=dims, scale=scale, onesided=False)
    return spectrum if forward else conjugate(spectrum)


def _r2c(name: str, input: Tensor, plan: _Plan, norm: str | None, forward: bool) -> Tensor:
    """Transform real input and return half of the bins. The inverse transform is the conjugate of the forward one."""
    scale = _scale(name, norm, forward)
    dims = plan[0]
    _require_dims(name, dims)
    x, _ = _resize(name, input, plan)
    spectrum = fourier.fft_r2c(x, dims=dims, scale=scale, onesided=True)
    return spectrum if forward else conjugate(spectrum)


def _c2r(name: str, input: Tensor, plan: _Plan, norm: str | None, forward: bool) -> Tensor:
    """Transform half of a spectrum to real numbers. The forward transform is the inverse one of the conjugate."""
    scale = _scale(name, norm, forward)
    dims = plan[0]
    _require_dims(name, dims)
    x, size = _resize(name, input, plan, halved=True)
    return fourier.fft_c2r(conjugate(x) if forward else x, dims=dims, scale=scale, size=size)


def _require_dims(name: str, dims: tuple[int, ...]) -> None:
    if not dims:
        raise RuntimeError(
            f"{name} must transform at least one axis, but dim names none. Name a dimension to halve. [nd-dim]"
        )


def _one_dim_plan(name: str, input: Tensor, n: int | None, dim: int) -> _Plan:
    """Return the plan for one dimension."""
    return (existing_dim(dim, input.ndim),), (None if n is None else as_integer(name, "n", n),)


# ----- one dimension --------------------------------------------------------------------------------------------------


@both_worlds
def fft(
    input: Tensor, n: int | None = None, dim: int = -1, norm: str | None = None, *, out: Tensor | None = None
) -> Tensor:
    """The Fourier transform along one dimension: sum over j of input[j] exp(-2 pi i jk / n).

    The input is trimmed or padded with zeros to n points. `norm` chooses the direction that is divided by n: "backward"
    (the default) or "forward"; "ortho" divides each by sqrt(n).

    Args:
        input: real or complex tensor.
        n: number of points. The default is the size of the dimension.
        dim: dimension to transform.
        norm: `"backward"`, `"forward"` or `"ortho"`. None means `"backward"`.
        out: tensor that receives the result.

    >>> import ndgrad
    >>> ndgrad.fft.fft(ndgrad.tensor([1.0, 0.0, 0.0, 0.0])).real
    tensor([1., 1., 1., 1.])
    """
    x = _as_floating("fft", input)
    return deliver("fft", _c2c("fft", x, _one_dim_plan("fft", x, n, dim), norm, True), out, input)


@both_worlds
def ifft(
    input: Tensor, n: int | None = None, dim: int = -1, norm: str | None = None, *, out: Tensor | None = None
) -> Tensor:
    """The inverse of `fft`: sum over k of input[k] exp(2 pi i jk / n), divided by n.

    Args:
        input: real or complex spectrum.
        n: number of points. The input is trimmed or padded with zeros to it. The default is the size of the dimension.
        dim: dimension to transform.
        norm: direction that is divided by n, as in `fft`.
        out: tensor that receives the result.

    >>> import ndgrad
    >>> ndgrad.fft.ifft(ndgrad.tensor([2.0, 0.0])).real
    tensor([1., 1.])
    """
    x = _as_floating("ifft", input)
    return deliver("ifft", _c2c("ifft", x, _one_dim_plan("ifft", x, n, dim), norm, False), out, input)


@both_worlds
def rfft(
    input: Tensor, n: int | None = None, dim: int = -1, norm: str | None = None, *, out: Tensor | None = None
) -> Tensor:
    """The Fourier transform of real numbers, bins 0 to n // 2; the other bins are conjugates of these.

    Args:
        input: real tensor.
        n: number of points. The input is trimmed or padded with zeros to it. The default is the size of the dimension.
        dim: dimension to transform. Its size in the result is n // 2 + 1.
        norm: direction that is divided by n, as in `fft`.
        out: tensor that receives the result.

    >>> import ndgrad
    >>> ndgrad.fft.rfft(ndgrad.ones(5)).real
    tensor([5., 0., 0.])
    """
    x = _as_floating("rfft", input, real=True)
    return deliver("rfft", _r2c("rfft", x, _one_dim_plan("rfft", x, n, dim), norm, True), out, input)


@both_worlds
def irfft(
    input: Tensor, n: int | None = None, dim: int = -1, norm: str | None = None, *, out: Tensor | None = None
) -> Tensor:
    """The inverse of `rfft`, with n points (by default an even number).

    Args:
        input: bins 0 to n // 2 of a spectrum, as `rfft` returns them.
        n: number of points of the result. The default is 2 * (size - 1) for the size of the dimension.
        dim: dimension to transform.
        norm: direction that is divided by n, as in `fft`.
        out: tensor that receives the result.

    >>> import ndgrad
    >>> ndgrad.fft.irfft(ndgrad.fft.rfft(ndgrad.tensor([1.0, 2.0, 3.0])), n=3)
    tensor([1., 2., 3.])
    """
    x = _as_floating("irfft", input)
    return deliver("irfft", _c2r("irfft", x, _one_dim_plan("irfft", x, n, dim), norm, False), out, input)


@both_worlds
def hfft(
    input: Tensor, n: int | None = None, dim: int = -1, norm: str | None = None, *, out: Tensor | None = None
) -> Tensor:
    """The real Fourier transform, with n points, of a Hermitian-symmetric signal. `input` is the first half of
    the signal.

    Args:
        input: first half of the signal, with n // 2 + 1 points.
        n: number of points of the result. The default is 2 * (size - 1) for the size of the dimension.
        dim: dimension to transform.
        norm: direction that is divided by n, as in `fft`.
        out: tensor that receives the result.

    >>> import ndgrad
    >>> ndgrad.fft.hfft(ndgrad.tensor([1.0, 2.0]), n=2)
    tensor([ 3., -1.])
    """
    x = _as_floating("hfft", input)
    return deliver("hfft", _c2r("hfft", x, _one_dim_plan("hfft", x, n, dim), norm, True), out, input)


@both_worlds
def ihfft(
    input: Tensor, n: int | None = None, dim: int = -1, norm: str | None = None, *, out: Tensor | None = None
) -> Tensor:
    """The inverse of `hfft`.

    Args:
        input: real spectrum.
        n: number of points. The input is trimmed or padded with zeros to it. The default is the size of the dimension.
        dim: dimension to transform. Its size in the result is n // 2 + 1.
        norm: direction that is divided by n, as in `fft`.
        out: tensor that receives the result.

    >>> import ndgrad
    >>> ndgrad.fft.ihfft(ndgrad.tensor([3.0, -1.0])).real
    tensor([1., 2.])
    """
    x = _as_floating("ihfft", input, real=True)
    return deliver("ihfft", _r2c("ihfft", x, _one_dim_plan("ihfft", x, n, dim), norm, False), out, input)


# ----- several dimensions ---------------------------------------------------------------------------------------------


@both_worlds
def fftn(
    input: Tensor,
    s: Sequence[int] | None = None,
    dim: Dims = None,
    norm: str | None = None,
    *,
    out: Tensor | None = None,
) -> Tensor:
    """The Fourier transform along several dimensions, all of them by default, with `s` points each.

    Args:
        input: real or complex tensor.
        s: number of points of each dimension, to which the input is trimmed or padded with zeros. -1 keeps a size, and
            None keeps all.
        dim: dimensions to transform. The default is all of them, or the last `len(s)`.
        norm: direction that is divided by the number of points, as in `fft`.
        out: tensor that receives the result.

    >>> import ndgrad
    >>> ndgrad.fft.fftn(ndgrad.ones(2, 2)).real
    tensor([[4., 0.],
            [0., 0.]])
    """
    x = _as_floating("fftn", input)
    return deliver("fftn", _c2c("fftn", x, _plan_dims("fftn", x, s, dim), norm, True), out, input)


@both_worlds
def ifftn(
    input: Tensor,
    s: Sequence[int] | None = None,
    dim: Dims = None,
    norm: str | None = None,
    *,
    out: Tensor | None = None,
) -> Tensor:
    """The inverse of `fftn`.

    Args:
        input: real or complex spectrum.
        s: number of points of each dimension, to which the input is trimmed or padded with zeros. -1 keeps a size, and
            None keeps all.
        dim: dimensions to transform. The default is all of them, or the last `len(s)`.
        norm: direction that is divided by the number of points, as in `fft`.
        out: tensor that receives the result.

    >>> import ndgrad
    >>> ndgrad.fft.ifftn(ndgrad.tensor([[4.0, 0.0], [0.0, 0.0]])).real
    tensor([[1., 1.],
            [1., 1.]])
    """
    x = _as_floating("ifftn", input)
    return deliver("ifftn", _c2c("ifftn", x, _plan_dims("ifftn", x, s, dim), norm, False), out, input)


@both_worlds
def rfftn(
    input: Tensor,
    s: Sequence[int] | None = None,
    dim: Dims = None,
    norm: str | None = None,
    *,
    out: Tensor | None = None,
) -> Tensor:
    """The Fourier transform of real numbers along several dimensions; the last one has half of the bins.

    Args:
        input: real tensor.
        s: number of points of each dimension, to which the input is trimmed or padded with zeros. -1 keeps a size, and
            None keeps all.
        dim: dimensions to transform. The default is all of them, or the last `len(s)`.
        norm: direction that is divided by the number of points, as in `fft`.
        out: tensor that receives the result.

    >>> import ndgrad
    >>> ndgrad.fft.rfftn(ndgrad.ones(2, 4)).shape
    ndgrad.Size([2, 3])
    """
    x = _as_floating("rfftn", input, real=True)
    return deliver("rfftn", _r2c("rfftn", x, _plan_dims("rfftn", x, s, dim), norm, True), out, input)


@both_worlds
def irfftn(
    input: Tensor,
    s: Sequence[int] | None = None,
    dim: Dims = None,
    norm: str | None = None,
    *,
    out: Tensor | None = None,
) -> Tensor:
    """The inverse of `rfftn`; `s` counts the points of the result.

    Args:
        input: spectrum, as `rfftn` returns it.
        s: number of points of each dimension of the result. The default keeps all sizes but the last, which becomes 2 *
            (size - 1).
        dim: dimensions to transform. The default is all of them, or the last `len(s)`.
        norm: direction that is divided by the number of points, as in `fft`.
        out: tensor that receives the result.

    >>> import ndgrad
    >>> ndgrad.fft.irfftn(ndgrad.fft.rfftn(ndgrad.ones(2, 2)))
    tensor([[1., 1.],
            [1., 1.]])
    """
    x = _as_floating("irfftn", input)
    return deliver("irfftn", _c2r("irfftn", x, _plan_dims("irfftn", x, s, dim), norm, False), out, input)


@both_worlds
def hfftn(
    input: Tensor,
    s: Sequence[int] | None = None,
    dim: Dims = None,
    norm: str | None = None,
    *,
    out: Tensor | None = None,
) -> Tensor:
    """`hfft` along several dimensions; the last one is given by half. `s` counts the points of the result.

    Args:
        input: signal, whose last transformed dimension holds the first half.
        s: number of points of each dimension of the result. The default keeps all sizes but the last, which becomes 2 *
            (size - 1).
        dim: dimensions to transform. The default is all of them, or the last `len(s)`.
        norm: direction that is divided by the number of points, as in `fft`.
        out: tensor that receives the result.

    >>> import ndgrad
    >>> ndgrad.fft.hfftn(ndgrad.ones(2, 3)).shape
    ndgrad.Size([2, 4])
    """
    x = _as_floating("hfftn", input)
    return deliver("hfftn", _c2r("hfftn", x, _plan_dims("hfftn", x, s, dim), norm, True), out, input)


@both_worlds
def ihfftn(
    input: Tensor,
    s: Sequence[int] | None = None,
    dim: Dims = None,
    norm: str | None = None,
    *,
    out: Tensor | None = None,
) -> Tensor:
    """The inverse of `hfftn`.

    Args:
        input: real spectrum.
        s: number of points of each dimension, to which the input is trimmed or padded with zeros. -1 keeps a size, and
            None keeps all.
        dim: dimensions to transform. The default is all of them, or the last `len(s)`.
        norm: direction that is divided by the number of points, as in `fft`.
        out: tensor that receives the result.

    >>> import ndgrad
    >>> ndgrad.fft.ihfftn(ndgrad.ones(2, 4)).shape
    ndgrad.Size([2, 3])
    """
    x = _as_floating("ihfftn", input, real=True)
    return deliver("ihfftn", _r2c("ihfftn", x, _plan_dims("ihfftn", x, s, dim), norm, False), out, input)


# ----- two dimensions: the same, along the last two -------------------------------------------------------------------


@both_worlds
def fft2(
    input: Tensor,
    s: Sequence[int] | None = None,
    dim: Dims = (-2, -1),
    norm: str | None = None,
    *,
    out: Tensor | None = None,
) -> Tensor:
    """`fftn` along the last two dimensions.

    Args:
        input: real or complex tensor.
        s: number of points of each dimension, as in `fftn`.
        dim: dimensions to transform.
        norm: direction that is divided by the number of points, as in `fft`.
        out: tensor that receives the result.

    >>> import ndgrad
    >>> ndgrad.fft.fft2(ndgrad.ones(2, 2)).real
    tensor([[4., 0.],
            [0., 0.]])
    """
    return fftn(input, s, dim, norm, out=out)


@both_worlds
def ifft2(
    input: Tensor,
    s: Sequence[int] | None = None,
    dim: Dims = (-2, -1),
    norm: str | None = None,
    *,
    out: Tensor | None = None,
) -> Tensor:
    """`ifftn` along the last two dimensions.

    Args:
        input: real or complex spectrum.
        s: number of points of each dimension, as in `ifftn`.
        dim: dimensions to transform.
        norm: direction that is divided by the number of points, as in `fft`.
        out: tensor that receives the result.

    >>> import ndgrad
    >>> ndgrad.fft.ifft2(ndgrad.fft.fft2(ndgrad.ones(1, 2))).real
    tensor([[1., 1.]])
    """
    return ifftn(input, s, dim, norm, out=out)


@both_worlds
def rfft2(
    input: Tensor,
    s: Sequence[int] | None = None,
    dim: Dims = (-2, -1),
    norm: str | None = None,
    *,
    out: Tensor | None = None,
) -> Tensor:
    """`rfftn` along the last two dimensions.

    Args:
        input: real tensor.
        s: number of points of each dimension, as in `rfftn`.
        dim: dimensions to transform. The last one has half of the bins.
        norm: direction that is divided by the number of points, as in `fft`.
        out: tensor that receives the result.

    >>> import ndgrad
    >>> ndgrad.fft.rfft2(ndgrad.ones(3, 2, 4)).shape
    ndgrad.Size([3, 2, 3])
    """
    return rfftn(input, s, dim, norm, out=out)


@both_worlds
def irfft2(
    input: Tensor,
    s: Sequence[int] | None = None,
    dim: Dims = (-2, -1),
    norm: str | None = None,
    *,
    out: Tensor | None = None,
) -> Tensor:
    """`irfftn` along the last two dimensions.

    Args:
        input: spectrum, as `rfft2` returns it.
        s: number of points of each dimension of the result, as in `irfftn`.
        dim: dimensions to transform. The last one is given by half.
        norm: direction that is divided by the number of points, as in `fft`.
        out: tensor that receives the result.

    >>> import ndgrad
    >>> ndgrad.fft.irfft2(ndgrad.ones(3, 2, 3)).shape
    ndgrad.Size([3, 2, 4])
    """
    return irfftn(input, s, dim, norm, out=out)


@both_worlds
def hfft2(
    input: Tensor,
    s: Sequence[int] | None = None,
    dim: Dims = (-2, -1),
    norm: str | None = None,
    *,
    out: Tensor | None = None,
) -> Tensor:
    """`hfftn` along the last two dimensions.

    Args:
        input: signal, whose last transformed dimension holds the first half.
        s: number of points of each dimension of the result, as in `hfftn`.
        dim: dimensions to transform. The last one is given by half.
        norm: direction that is divided by the number of points, as in `fft`.
        out: tensor that receives the result.

    >>> import ndgrad
    >>> ndgrad.fft.hfft2(ndgrad.ones(3, 2, 3)).shape
    ndgrad.Size([3, 2, 4])
    """
    return hfftn(input, s, dim, norm, out=out)


@both_worlds
def ihfft2(
    input: Tensor,
    s: Sequence[int] | None = None,
    dim: Dims = (-2, -1),
    norm: str | None = None,
    *,
    out: Tensor | None = None,
) -> Tensor:
    """`ihfftn` along the last two dimensions.

    Args:
        input: real spectrum.
        s: number of points of each dimension, as in `ihfftn`.
        dim: dimensions to transform. The last one has half of the bins.
        norm: direction that is divided by the number of points, as in `fft`.
        out: tensor that receives the result.

    >>> import ndgrad
    >>> ndgrad.fft.ihfft2(ndgrad.ones(3, 2, 4)).shape
    ndgrad.Size([3, 2, 3])
    """
    return ihfftn(input, s, dim, norm, out=out)


# ----- frequencies ----------------------------------------------------------------------------------------------------


def _frequencies(name: str, numbers: NDArray[Any], n: int, d: float, options: dict[str, Any]) -> Tensor:
    given = Options(name, options)
    dtype = given.dtype or as_numpy_dtype(get_default_dtype())
    if not is_inexact(dtype):
        raise RuntimeError(
            f"{name} requires a floating point or complex dtype, but dtype is {as_dtype(dtype)!r}. "
            "Leave it out, or give one. [nd-dtype]"
        )
    with np.errstate(divide="ignore", invalid="ignore"):
        values = numbers / np.float64(n * as_number(name, "d", d))
    return given.tensor(name, values.astype(dtype))


def _check_count(name: str, n: int) -> int:
    count = as_integer(name, "n", n)
    if count < 0:
        raise RuntimeError(
            f"{name}: Trying to create tensor with negative dimension {count}: n counts points. Give 0 or more. "
            "[nd-range]"
        )
    return count


def fftfreq(n: int, d: float = 1.0, **options: Unpack[FactoryOptions]) -> Tensor:
    """The frequencies of the bins of `fft` for n points at distance d: positive ones first, then negative ones.

    Args:
        n: number of points.
        d: distance between two points, in the unit of time or length.
        **options: `dtype`, `device`, `requires_grad` and others, as in `zeros`.

    Returns:
        A vector of n frequencies, in cycles per unit.

    >>> import ndgrad
    >>> ndgrad.fft.fftfreq(5)
    tensor([ 0.0000,  0.2000,  0.4000, -0.4000, -0.2000])
    """
    count = _check_count("fftfreq", n)
    numbers = np.arange(count)
    numbers[(count + 1) // 2 :] -= count
    return _frequencies("fftfreq", numbers, count, d, {**options})


def rfftfreq(n: int, d: float = 1.0, **options: Unpack[FactoryOptions]) -> Tensor:
    """The frequencies of the bins of `rfft` for n points at distance d.

    Args:
        n: number of points.
        d: distance between two points, in the unit of time or length.
        **options: `dtype`, `device`, `requires_grad` and others, as in `zeros`.

    Returns:
        A vector of n // 2 + 1 frequencies, in cycles per unit.

    >>> import ndgrad
    >>> ndgrad.fft.rfftfreq(4)
    tensor([0.0000, 0.2500, 0.5000])
    """
    count = _check_count("rfftfreq", n)
    return _frequencies("rfftfreq", np.arange(count // 2 + 1), count, d, {**options})


def _shift(input: Tensor, dim: Dims, extra: int) -> Tensor:
    dims = tuple(range(input.ndim)) if dim is None else _sequence(dim) or ()
    return roll(input, tuple((input.shape[existing_dim(d, input.ndim)] + extra) // 2 for d in dims), dims)


@both_worlds
def fftshift(input: Tensor, dim: Dims = None) -> Tensor:
    """The bins ordered by frequency, 0 in the middle, along `dim` (all dimensions by default).

    Args:
        input: spectrum in the order of `fft`.
        dim: dimension or dimensions to reorder.

    >>> import ndgrad
    >>> ndgrad.fft.fftshift(ndgrad.fft.fftfreq(4))
    tensor([-0.5000, -0.2500,  0.0000,  0.2500])
    """
    return _shift(input, dim, 0)


@both_worlds
def ifftshift(input: Tensor, dim: Dims = None) -> Tensor:
    """The inverse of `fftshift`.

    Args:
        input: spectrum in the order of `fftshift`.
        dim: dimension or dimensions to reorder. The default is all of them.

    >>> import ndgrad
    >>> ndgrad.fft.ifftshift(ndgrad.tensor([-1.0, 0.0, 1.0]))
    tensor([ 0.,  1., -1.])
    """
    return _shift(input, dim, 1)
