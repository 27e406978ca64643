"""Fourier transforms under torch's names: which dimensions, how many points, what scale.

All come down to three ops (ndgrad.ops.fourier). What is decided here: sizes along the transformed dimensions are made as asked
by trimming, which is a view, or by padding with zeros; `norm` and the direction become a scale.
"""

from __future__ import annotations

import operator
from typing import Any

import numpy as np

from ndgrad.api.arguments import both_worlds
from ndgrad.api.creation import Options
from ndgrad.api.product import conjugate, written
from ndgrad.api.rearrange import roll
from ndgrad.api.tensor_checks import existing_dim
from ndgrad.arrays.precision import is_inexact
from ndgrad.autograd.stake import as_number
from ndgrad.autograd.variable import Variable, np_dtype
from ndgrad.dtypes import as_dtype, as_numpy_dtype, get_default_dtype
from ndgrad.ops import cast, fourier, index, padding

__all__ = [
    "fft", "fft2", "fftfreq", "fftn", "fftshift", "hfft", "hfft2", "hfftn", "ifft", "ifft2", "ifftn", "ifftshift", "ihfft",
    "ihfft2", "ihfftn", "irfft", "irfft2", "irfftn", "rfft", "rfft2", "rfftfreq", "rfftn",
]  # fmt: skip

#: Dimensions, and how many points each is asked to have (None: as many as there are).
_Plan = tuple[tuple[int, ...], tuple[int | None, ...]]

# ----- reading arguments -----------------------------------------------------------------------------------------------


def _floating(name: str, input: Any, *, real: bool = False) -> Any:
    """The input in a dtype that can be transformed: integers become the default dtype."""
    if not isinstance(input, Variable):
        raise TypeError(f"{name}() takes a tensor, and got {type(input).__name__}. Wrap it with ndgrad.as_tensor(...).")
    dtype = np_dtype(input)
    if dtype.kind in "biu":
        return cast.cast(input, dtype=as_numpy_dtype(get_default_dtype()))
    if real and dtype.kind == "c":
        raise RuntimeError(
            f"{name} expects a real input tensor, but got {as_dtype(dtype)!r}. Pass its .real, or use a transform of complex "
            "numbers."
        )
    if dtype.itemsize == 2:
        raise RuntimeError(
            f"{name}: Unsupported dtype {as_dtype(dtype)!r}: there are no transforms in half precision. Convert it with "
            ".float()."
        )
    return input


def _scale(name: str, norm: Any, forward: bool) -> str:
    if norm == "ortho":
        return "root"
    if norm not in (None, "backward", "forward"):
        raise RuntimeError(f'{name}: Invalid normalization mode: {norm!r}. Give "ortho", "forward" or "backward", the default.')
    return "full" if forward == (norm == "forward") else "none"


def _integer(name: str, what: str, value: Any) -> int:
    try:
        return operator.index(value)
    except TypeError:
        raise TypeError(
            f"{name}(): argument {what!r} must be int, not {type(value).__name__} ({value!r}). Give a whole number."
        ) from None


def _sequence(value: Any) -> tuple[Any, ...] | None:
    return None if value is None else tuple(value) if hasattr(value, "__iter__") else (value,)


def _dims_and_sizes(name: str, input: Any, s: Any, dim: Any) -> _Plan:
    """Several dimensions."""
    ndim = input.ndim
    sizes, dims = _sequence(s), _sequence(dim)
    if dims is None:
        if sizes is not None and len(sizes) > ndim:
            raise RuntimeError(
                f"{name}: Got shape with {len(sizes)} values but input tensor only has {ndim} dimensions. Give at most one "
                "size per dimension."
            )
        numbers = tuple(range(0 if sizes is None else ndim - len(sizes), ndim))
    else:
        numbers = tuple(existing_dim(d, ndim) for d in dims)
    if sizes is None:
        return _unique(name, numbers), (None,) * len(numbers)
    if len(sizes) != len(numbers):
        raise RuntimeError(
            f"{name}: When given, dim and shape arguments must have the same length, and s = {s} has {len(sizes)} and "
            f"dim = {dim} has {len(numbers)}. Give one size per dim."
        )
    asked = tuple(_integer(name, "s", n) for n in sizes)
    return _unique(name, numbers), tuple(None if n == -1 else n for n in asked)


def _unique(name: str, dims: tuple[int, ...]) -> tuple[int, ...]:
    if len(set(dims)) != len(dims):
        raise RuntimeError(f"{name}: FFT dims must be unique, and these are {dims}. Name each dimension once.")
    return dims


def _resized(name: str, input: Any, plan: _Plan, halved: bool = False) -> tuple[Any, int]:
    """The input with as many points along the dims as planned, and the number of points of the last one.

    `halved`: the input is half of a spectrum, and sizes count points of the result: the last dimension needs n // 2 + 1.
    """
    dims, sizes = plan
    shape = tuple(input.shape)
    points = [shape[d] if n is None else n for d, n in zip(dims, sizes, strict=True)]
    if halved and sizes[-1] is None:
        points[-1] = 2 * (shape[dims[-1]] - 1)
    for d, n in zip(dims, points, strict=True):
        if n < 1:
            raise RuntimeError(
                f"{name}: Invalid number of data points ({n}) specified for dimension {d} of an input of shape {list(shape)}. "
                "A transform needs at least one."
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


# ----- the three kinds -------------------------------------------------------------------------------------------------


def _c2c(name: str, input: Any, plan: _Plan, norm: Any, forward: bool) -> Any:
    """Any input, all bins."""
    scale = _scale(name, norm, forward)
    dims = plan[0]
    x, _ = _resized(name, input, plan)
    if np_dtype(x).kind == "c" or not dims:
        return fourier.fft_c2c(x, dims=dims, scale=scale, inverse=not forward)
    spectrum = fourier.fft_r2c(x, dims=dims, scale=scale, onesided=False)
    return spectrum if forward else conjugate(spectrum)


def _r2c(name: str, input: Any, plan: _Plan, norm: Any, forward: bool) -> Any:
    """Real input, half of the bins. The inverse transform of real numbers is the conjugate of the forward one."""
    scale = _scale(name, norm, forward)
    dims = plan[0]
    _some(name, dims)
    x, _ = _resized(name, input, plan)
    spectrum = fourier.fft_r2c(x, dims=dims, scale=scale, onesided=True)
    return spectrum if forward else conjugate(spectrum)


def _c2r(name: str, input: Any, plan: _Plan, norm: Any, forward: bool) -> Any:
    """Half of the bins of a spectrum, real result. The forward transform is the inverse one of the conjugate."""
    scale = _scale(name, norm, forward)
    dims = plan[0]
    _some(name, dims)
    x, size = _resized(name, input, plan, halved=True)
    return fourier.fft_c2r(conjugate(x) if forward else x, dims=dims, scale=scale, size=size)


def _some(name: str, dims: tuple[int, ...]) -> None:
    if not dims:
        raise RuntimeError(f"{name} must transform at least one axis, and dim names none. Name a dimension to halve.")


def _line(name: str, input: Any, n: Any, dim: Any) -> _Plan:
    """One dimension."""
    return (existing_dim(dim, input.ndim),), (None if n is None else _integer(name, "n", n),)


# ----- one dimension ---------------------------------------------------------------------------------------------------


@both_worlds
def fft(input: Any, n: int | None = None, dim: int = -1, norm: str | None = None, *, out: Any = None) -> Any:
    """The Fourier transform along one dimension: sum over j of input[j] exp(-2 pi i jk / n).

    >>> import ndgrad
    >>> ndgrad.fft.fft(ndgrad.tensor([1.0, 0.0, 0.0, 0.0])).real
    tensor([1., 1., 1., 1.])
    """
    x = _floating("fft", input)
    return written("fft", _c2c("fft", x, _line("fft", x, n, dim), norm, True), out, input)


@both_worlds
def ifft(input: Any, n: int | None = None, dim: int = -1, norm: str | None = None, *, out: Any = None) -> Any:
    """The inverse of `fft`."""
    x = _floating("ifft", input)
    return written("ifft", _c2c("ifft", x, _line("ifft", x, n, dim), norm, False), out, input)


@both_worlds
def rfft(input: Any, n: int | None = None, dim: int = -1, norm: str | None = None, *, out: Any = None) -> Any:
    """The Fourier transform of real numbers, bins 0 to n // 2: the others are conjugates of these.

    >>> import ndgrad
    >>> tuple(ndgrad.fft.rfft(ndgrad.zeros(5)).shape)
    (3,)
    """
    x = _floating("rfft", input, real=True)
    return written("rfft", _r2c("rfft", x, _line("rfft", x, n, dim), norm, True), out, input)


@both_worlds
def irfft(input: Any, n: int | None = None, dim: int = -1, norm: str | None = None, *, out: Any = None) -> Any:
    """The inverse of `rfft`, of n points (by default an even number of them)."""
    x = _floating("irfft", input)
    return written("irfft", _c2r("irfft", x, _line("irfft", x, n, dim), norm, False), out, input)


@both_worlds
def hfft(input: Any, n: int | None = None, dim: int = -1, norm: str | None = None, *, out: Any = None) -> Any:
    """The Fourier transform of a Hermitian-symmetric signal, of which `input` is the first half; it is real, of n points."""
    x = _floating("hfft", input)
    return written("hfft", _c2r("hfft", x, _line("hfft", x, n, dim), norm, True), out, input)


@both_worlds
def ihfft(input: Any, n: int | None = None, dim: int = -1, norm: str | None = None, *, out: Any = None) -> Any:
    """The inverse of `hfft`."""
    x = _floating("ihfft", input, real=True)
    return written("ihfft", _r2c("ihfft", x, _line("ihfft", x, n, dim), norm, False), out, input)


# ----- several dimensions ----------------------------------------------------------------------------------------------


@both_worlds
def fftn(input: Any, s: Any = None, dim: Any = None, norm: str | None = None, *, out: Any = None) -> Any:
    """The Fourier transform along several dimensions, all of them by default, with `s` points each."""
    x = _floating("fftn", input)
    return written("fftn", _c2c("fftn", x, _dims_and_sizes("fftn", x, s, dim), norm, True), out, input)


@both_worlds
def ifftn(input: Any, s: Any = None, dim: Any = None, norm: str | None = None, *, out: Any = None) -> Any:
    """The inverse of `fftn`."""
    x = _floating("ifftn", input)
    return written("ifftn", _c2c("ifftn", x, _dims_and_sizes("ifftn", x, s, dim), norm, False), out, input)


@both_worlds
def rfftn(input: Any, s: Any = None, dim: Any = None, norm: str | None = None, *, out: Any = None) -> Any:
    """The Fourier transform of real numbers along several dimensions; of the last one, half of the bins."""
    x = _floating("rfftn", input, real=True)
    return written("rfftn", _r2c("rfftn", x, _dims_and_sizes("rfftn", x, s, dim), norm, True), out, input)


@both_worlds
def irfftn(input: Any, s: Any = None, dim: Any = None, norm: str | None = None, *, out: Any = None) -> Any:
    """The inverse of `rfftn`; `s` counts the points of the result."""
    x = _floating("irfftn", input)
    return written("irfftn", _c2r("irfftn", x, _dims_and_sizes("irfftn", x, s, dim), norm, False), out, input)


@both_worlds
def hfftn(input: Any, s: Any = None, dim: Any = None, norm: str | None = None, *, out: Any = None) -> Any:
    """`hfft` along several dimensions, of which the last is the one given by half; `s` counts the points of the result."""
    x = _floating("hfftn", input)
    return written("hfftn", _c2r("hfftn", x, _dims_and_sizes("hfftn", x, s, dim), norm, True), out, input)


@both_worlds
def ihfftn(input: Any, s: Any = None, dim: Any = None, norm: str | None = None, *, out: Any = None) -> Any:
    """The inverse of `hfftn`."""
    x = _floating("ihfftn", input, real=True)
    return written("ihfftn", _r2c("ihfftn", x, _dims_and_sizes("ihfftn", x, s, dim), norm, False), out, input)


# ----- two dimensions: the same, along the last two --------------------------------------------------------------------


@both_worlds
def fft2(input: Any, s: Any = None, dim: Any = (-2, -1), norm: str | None = None, *, out: Any = None) -> Any:
    """`fftn` along the last two dimensions.

    >>> import ndgrad
    >>> ndgrad.fft.fft2(ndgrad.ones(2, 2)).real
    tensor([[4., 0.],
            [0., 0.]])
    """
    return fftn(input, s, dim, norm, out=out)


@both_worlds
def ifft2(input: Any, s: Any = None, dim: Any = (-2, -1), norm: str | None = None, *, out: Any = None) -> Any:
    """`ifftn` along the last two dimensions."""
    return ifftn(input, s, dim, norm, out=out)


@both_worlds
def rfft2(input: Any, s: Any = None, dim: Any = (-2, -1), norm: str | None = None, *, out: Any = None) -> Any:
    """`rfftn` along the last two dimensions."""
    return rfftn(input, s, dim, norm, out=out)


@both_worlds
def irfft2(input: Any, s: Any = None, dim: Any = (-2, -1), norm: str | None = None, *, out: Any = None) -> Any:
    """`irfftn` along the last two dimensions."""
    return irfftn(input, s, dim, norm, out=out)


@both_worlds
def hfft2(input: Any, s: Any = None, dim: Any = (-2, -1), norm: str | None = None, *, out: Any = None) -> Any:
    """`hfftn` along the last two dimensions."""
    return hfftn(input, s, dim, norm, out=out)


@both_worlds
def ihfft2(input: Any, s: Any = None, dim: Any = (-2, -1), norm: str | None = None, *, out: Any = None) -> Any:
    """`ihfftn` along the last two dimensions."""
    return ihfftn(input, s, dim, norm, out=out)


# ----- frequencies -----------------------------------------------------------------------------------------------------


def _frequencies(name: str, numbers: Any, n: int, d: float, options: dict[str, Any]) -> Any:
    given = Options(name, options)
    dtype = given.dtype or as_numpy_dtype(get_default_dtype())
    if not is_inexact(dtype):
        raise RuntimeError(
            f"{name} requires a floating point or complex dtype, and dtype is {as_dtype(dtype)!r}. Leave it out, or give one."
        )
    with np.errstate(divide="ignore", invalid="ignore"):
        values = numbers / np.float64(n * as_number(name, "d", d))
    return given.tensor(name, values.astype(dtype))


def _count(name: str, n: Any) -> int:
    count = _integer(name, "n", n)
    if count < 0:
        raise RuntimeError(f"{name}: Trying to create tensor with negative dimension {count}: n counts points. Give 0 or more.")
    return count


def fftfreq(n: int, d: float = 1.0, **options: Any) -> Any:
    """The frequencies of the bins of `fft` for n points a distance d apart: the positive ones, then the negative ones.

    >>> import ndgrad
    >>> ndgrad.fft.fftfreq(5)
    tensor([ 0.0000,  0.2000,  0.4000, -0.4000, -0.2000])
    """
    count = _count("fftfreq", n)
    numbers = np.arange(count)
    numbers[(count + 1) // 2 :] -= count
    return _frequencies("fftfreq", numbers, count, d, options)


def rfftfreq(n: int, d: float = 1.0, **options: Any) -> Any:
    """The frequencies of the bins of `rfft` for n points a distance d apart."""
    count = _count("rfftfreq", n)
    return _frequencies("rfftfreq", np.arange(count // 2 + 1), count, d, options)


def _shifted(input: Any, dim: Any, extra: int) -> Any:
    dims = tuple(range(input.ndim)) if dim is None else _sequence(dim) or ()
    return roll(input, tuple((input.shape[existing_dim(d, input.ndim)] + extra) // 2 for d in dims), dims)


@both_worlds
def fftshift(input: Any, dim: Any = None) -> Any:
    """The bins in the order of their frequencies, 0 in the middle, along `dim` (all dimensions by default)."""
    return _shifted(input, dim, 0)


@both_worlds
def ifftshift(input: Any, dim: Any = None) -> Any:
    """The inverse of `fftshift`."""
    return _shifted(input, dim, 1)
