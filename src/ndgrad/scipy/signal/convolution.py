"""Convolution and correlation of arrays of any dimension: directly, or by Fourier transforms if that is faster."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING

import ndgrad.numpy as np
from ndgrad._src.core.variable import np_dtype
from ndgrad._src.ops.vocabulary import tensor_ops
from ndgrad.numpy.coercion import many_axes, operands
from ndgrad.scipy._without_rules import floating
from ndgrad.scipy.fft import next_fast_len
from ndgrad.scipy.signal.filters import lfilter

if TYPE_CHECKING:
    from ndgrad._typing import Array, ArrayLike, Axes

__all__ = ["convolve", "convolve2d", "correlate", "correlate2d", "deconvolve", "fftconvolve", "oaconvolve"]

#: Number of multiplications from which a transform is used, unless the method is given.
_MANY = 1 << 16


def _pair(name: str, in1: ArrayLike, in2: ArrayLike) -> list[Array]:
    x, y = operands(floating(in1), floating(in2))
    if x.ndim != y.ndim:
        raise ValueError(
            f"{name}: in1 and in2 should have the same dimensionality, but have shapes {x.shape} and {y.shape}. "
            "[nd-ndim]"
        )
    return [x, y]


def _cut_centre(full: Array, shape: tuple[int, ...], axes: tuple[int, ...]) -> Array:
    index = [slice(None)] * full.ndim
    for d in axes:
        low = (full.shape[d] - shape[d]) // 2
        index[d] = slice(low, low + shape[d])
    return full[tuple(index)]


def _contains(a: tuple[int, ...], b: tuple[int, ...], axes: tuple[int, ...]) -> bool:
    """True if a is at least as large as b in all axes, for mode "valid"; one of the two must be."""
    if all(a[d] >= b[d] for d in axes):
        return True
    if all(a[d] <= b[d] for d in axes):
        return False
    raise ValueError(
        f"For 'valid' mode, one must be at least as large as the other in every dimension: the shapes are {a} and {b}. "
        "[nd-window]"
    )


def _part(full: Array, a: tuple[int, ...], b: tuple[int, ...], mode: str, axes: tuple[int, ...]) -> Array:
    """Return the part of the full convolution that a mode keeps."""
    if mode == "full":
        return full
    if mode == "same":
        return _cut_centre(full, a, axes)
    if mode == "valid":
        larger, smaller = (a, b) if _contains(a, b, axes) else (b, a)
        sizes = tuple(larger[d] - smaller[d] + 1 if d in axes else full.shape[d] for d in range(len(a)))
        return _cut_centre(full, sizes, axes)
    raise ValueError(f"acceptable mode flags are 'valid', 'same', or 'full', and the mode is {mode!r}. [nd-option]")


def direct(x: Array, kernel: Array, padding: tuple[tuple[int, int], ...]) -> Array:
    """Return the correlation of x, padded with zeros, with a kernel of as many dimensions, at positions inside."""
    n = x.ndim
    if any(low or high for low, high in padding):
        x = np.pad(x, padding)
    made = tensor_ops.convolution(
        x.reshape((1, 1, *x.shape)), kernel.reshape((1, 1, *kernel.shape)), None,
        stride=(1,) * n, padding=(0,) * n, dilation=(1,) * n, groups=1,
    )  # fmt: skip
    return made.reshape(made.shape[2:])


def _convolve_by_transform(x: Array, y: Array, axes: tuple[int, ...]) -> Array:
    sizes = [x.shape[d] + y.shape[d] - 1 for d in axes]
    if not axes:
        return x * y

    complex_result = "c" in (np_dtype(x).kind, np_dtype(y).kind)
    fast = [next_fast_len(n, not complex_result) for n in sizes]
    forward, back = (np.fft.fftn, np.fft.ifftn) if complex_result else (np.fft.rfftn, np.fft.irfftn)
    made = back(forward(x, fast, axes) * forward(y, fast, axes), fast, axes)
    index = [slice(None)] * made.ndim
    for d, n in zip(axes, sizes, strict=True):
        index[d] = slice(0, n)
    return made[tuple(index)]


def convolve(in1: ArrayLike, in2: ArrayLike, mode: str = "full", method: str = "auto") -> Array:
    """The convolution of two arrays, differentiable in both.

    Args:
        in1: first array.
        in2: second array, of as many dimensions.
        mode: part of the result: `"full"`, `"same"` (the size of `in1`) or `"valid"` (no padding).
        method: `"direct"`, `"fft"`, or `"auto"` to choose by the sizes.

    >>> from ndgrad.scipy import signal
    >>> signal.convolve([1.0, 2.0, 3.0], [1.0, 1.0], mode="same")
    array([1., 3., 5.])
    """
    x, y = _pair("convolve", in1, in2)
    if method not in ("auto", "direct", "fft"):
        raise ValueError("Acceptable method flags are 'auto', 'direct', or 'fft'. [nd-option]")
    if x.ndim == 0:
        return x * y
    axes = tuple(range(x.ndim))
    if 0 in x.shape or 0 in y.shape:
        return np.zeros((0,))
    if mode == "valid" and not _contains(x.shape, y.shape, axes):
        x, y = y, x
    if method == "fft" or (method == "auto" and math.prod(x.shape) * math.prod(y.shape) > _MANY):
        return _part(_convolve_by_transform(x, y, axes), x.shape, y.shape, mode, axes)
    pad = tuple((0, 0) if mode == "valid" else (n - 1, n - 1) for n in y.shape)
    full = direct(x, np.flip(y), pad)
    return full if mode == "valid" else _part(full, x.shape, y.shape, mode, axes)


def correlate(in1: ArrayLike, in2: ArrayLike, mode: str = "full", method: str = "auto") -> Array:
    """The cross-correlation of two arrays; if complex, the second is conjugated.

    Args:
        in1: first array.
        in2: second array, of as many dimensions.
        mode: part of the result: `"full"`, `"same"` (the size of `in1`) or `"valid"` (no padding).
        method: `"direct"`, `"fft"`, or `"auto"` to choose by the sizes.

    >>> from ndgrad.scipy import signal
    >>> signal.correlate([1.0, 2.0, 3.0], [0.0, 1.0], mode="same")
    array([1., 2., 3.])
    """
    x, y = _pair("correlate", in1, in2)
    if mode != "valid" or x.ndim == 0 or _contains(x.shape, y.shape, tuple(range(x.ndim))):
        return convolve(x, np.flip(y).conj(), mode, method)
    # SciPy swaps the two, and reverses the result.
    return np.flip(convolve(y, np.flip(x).conj(), mode, method)).conj()


def fftconvolve(in1: ArrayLike, in2: ArrayLike, mode: str = "full", axes: Axes = None) -> Array:
    """The convolution along axes, by Fourier transforms; other axes broadcast.

    Args:
        in1: first array.
        in2: second array, of as many dimensions.
        mode: part of the result: `"full"`, `"same"` (the size of `in1`) or `"valid"` (no padding).
        axes: axes of the convolution. None means all.

    >>> from ndgrad.scipy import signal
    >>> signal.fftconvolve([1.0, 2.0, 3.0], [1.0, 1.0]).round(6)
    array([1., 3., 5., 3.])
    """
    x, y = _pair("fftconvolve", in1, in2)
    if x.ndim == 0:
        return x * y
    dims = many_axes(axes, x.ndim)
    if 0 in x.shape or 0 in y.shape:
        return np.zeros((0,))
    if mode == "valid" and not _contains(x.shape, y.shape, dims):
        x, y = y, x
    busy = tuple(d for d in dims if x.shape[d] != 1 and y.shape[d] != 1)
    return _part(_convolve_by_transform(x, y, busy), x.shape, y.shape, mode, dims)


oaconvolve = fftconvolve

_BOUNDARIES = {"fill": "constant", "wrap": "wrap", "symm": "symmetric"}


def _convolve_bounded(x: Array, y: Array, mode: str, boundary: str, fillvalue: ArrayLike) -> Array:
    """Return the convolution of matrices that are extended beyond their borders."""
    if boundary not in _BOUNDARIES:
        raise ValueError(
            "Acceptable boundary flags are 'fill', 'circular' (or 'wrap'), and 'symmetric' (or 'symm'), "
            f"but it is {boundary!r}. [nd-option]"
        )
    if x.ndim != 2:
        raise ValueError("convolve2d inputs must both be 2-D arrays [nd-ndim]")
    if mode == "valid":
        return convolve(x, y, mode, "direct")
    if boundary == "fill" and isinstance(fillvalue, (int, float)) and fillvalue == 0:
        return convolve(x, y, mode, "direct")
    margin = [(n - 1, n - 1) for n in y.shape]
    if boundary == "fill":
        rest = np.pad(x - fillvalue, margin) + fillvalue
    else:
        rest = np.pad(x, margin, mode=_BOUNDARIES[boundary])
    return _part(direct(rest, np.flip(y), ((0, 0), (0, 0))), x.shape, y.shape, mode, (0, 1))


def convolve2d(
    in1: ArrayLike, in2: ArrayLike, mode: str = "full", boundary: str = "fill", fillvalue: ArrayLike = 0,
) -> Array:  # fmt: skip
    """The convolution of two matrices; `boundary` extends the first beyond its borders.

    Args:
        in1: first array.
        in2: second array, of as many dimensions.
        mode: part of the result: `"full"`, `"same"` (the size of `in1`) or `"valid"` (no padding).
        boundary: values beyond the borders: `"fill"`, `"wrap"` or `"symm"`.
        fillvalue: value beyond the borders for `"fill"`.

    >>> from ndgrad.scipy import signal
    >>> signal.convolve2d([[1.0, 2.0], [3.0, 4.0]], [[1.0, 1.0]], mode="same", boundary="symm")
    array([[2., 3.],
           [6., 7.]])
    """
    x, y = _pair("convolve2d", in1, in2)
    if mode == "valid" and not _contains(x.shape, y.shape, (0, 1)):
        x, y = y, x
    return _convolve_bounded(x, y, mode, {"circular": "wrap", "symmetric": "symm"}.get(boundary, boundary), fillvalue)


def correlate2d(
    in1: ArrayLike, in2: ArrayLike, mode: str = "full", boundary: str = "fill", fillvalue: ArrayLike = 0,
) -> Array:  # fmt: skip
    """The cross-correlation of two matrices; `boundary` extends the first beyond its borders.

    Args:
        in1: first array.
        in2: second array, of as many dimensions.
        mode: part of the result: `"full"`, `"same"` (the size of `in1`) or `"valid"` (no padding).
        boundary: values beyond the borders: `"fill"`, `"wrap"` or `"symm"`.
        fillvalue: value beyond the borders for `"fill"`.

    >>> from ndgrad.scipy import signal
    >>> signal.correlate2d([[1.0, 2.0], [3.0, 4.0]], [[1.0, 1.0]], mode="same")
    array([[3., 2.],
           [7., 4.]])
    """
    x, y = _pair("correlate2d", in1, in2)
    if mode == "valid" and not _contains(x.shape, y.shape, (0, 1)):
        return np.flip(correlate2d(y, x, mode, boundary, fillvalue)).conj()
    if mode == "same":
        # The middle of an even kernel is on the other side when it is reversed.
        full = correlate2d(x, y, "full", boundary, fillvalue)
        index = tuple(slice(low := (k - 1) - (k - 1) // 2, low + n) for n, k in zip(x.shape, y.shape, strict=True))
        return full[index]
    return _convolve_bounded(
        x, np.flip(y).conj(), mode, {"circular": "wrap", "symmetric": "symm"}.get(boundary, boundary), fillvalue
    )


def deconvolve(signal: ArrayLike, divisor: ArrayLike) -> tuple[Array, Array]:
    """Quotient and remainder, so that signal = convolve(divisor, quotient) + remainder.

    Args:
        signal: signal, of shape (n,).
        divisor: filter to divide by, of shape (m,).

    >>> from ndgrad.scipy import signal
    >>> signal.deconvolve([1.0, 3.0, 5.0, 3.0], [1.0, 1.0])
    (array([1., 2., 3.]), array([0., 0., 0., 0.]))
    """
    num, den = operands(np.atleast_1d(floating(signal)), np.atleast_1d(floating(divisor)))
    if num.ndim != 1 or den.ndim != 1:
        raise ValueError("deconvolve: signal and divisor must be 1-D. [nd-ndim]")
    n, d = num.shape[0], den.shape[0]
    if d > n:
        return np.zeros((0,)), num
    impulse = np.zeros(n - d + 1, dtype=np_dtype(num))
    impulse[0] = 1.0
    quotient = lfilter(num, den, impulse)
    return quotient, num - convolve(den, quotient, "full")
