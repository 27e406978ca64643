"""`numpy.fft` on Arrays. The transforms are those of torch's namespace; NumPy's differ in argument names, dtypes and
errors.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any, Protocol

import numpy as np

from ndgrad._src.arrays.precision import is_inexact
from ndgrad._src.core.variable import np_dtype
from ndgrad._src.foundations import docstrings
from ndgrad._src.tensor.arguments import torch_names
from ndgrad._src.tensor.functions import fft as _fft
from ndgrad.numpy.coercion import arrange_like, as_array, constant, deliver, on_device, one_axis, with_dtype

if TYPE_CHECKING:
    from ndgrad._typing import ArrayLike, Axes, Device, Out
    from ndgrad.numpy._array import Array

#: torch's functions. They return Arrays for Arrays, which their declarations cannot express.
fft_api: Any = _fft

__all__ = [
    "fft", "fft2", "fftfreq", "fftn", "fftshift", "hfft", "ifft", "ifft2", "ifftn", "ifftshift", "ihfft", "irfft",
    "irfft2", "irfftn", "rfft", "rfft2", "rfftfreq", "rfftn",
]  # fmt: skip


def _floating(name: str, a: ArrayLike, *, real: bool) -> Array:
    """Convert integers to double precision and half precision to single, as in NumPy."""
    t = as_array(a)
    dtype = np_dtype(t)
    if real and dtype.kind == "c":
        raise TypeError(
            f"{name}() takes real numbers, but got {dtype}. Take .real, or use the transform of complex numbers. "
            "[nd-complex]"
        )
    if not is_inexact(dtype):
        return with_dtype(t, np.float64)
    return with_dtype(t, np.float32) if dtype.itemsize == 2 else t


def _norm(norm: str | None) -> str | None:
    if norm not in (None, "backward", "ortho", "forward"):
        raise ValueError(f'Invalid norm value {norm}; should be "backward", "ortho" or "forward". [nd-option]')
    return norm


class _Line(Protocol):
    def __call__(
        self, a: ArrayLike, n: int | None = None, axis: int = -1, norm: str | None = None, out: Out = None
    ) -> Array: ...


class _Box(Protocol):
    def __call__(
        self,
        a: ArrayLike,
        s: Sequence[int] | None = None,
        axes: Sequence[int] | None = None,
        norm: str | None = None,
        out: Out = None,
    ) -> Array: ...


_NORM = (
    '`"backward"` scales the inverse transform by 1/n, `"forward"` the forward one, `"ortho"` both by the root of it. '
    'None means `"backward"`.'
)
_OUT = "array that receives the result."


def _describe(function: Callable[..., Any], name: str, sentence: str, example: str) -> Any:
    """Return a transform with its name, its docstring and torch's keywords."""
    function.__name__ = function.__qualname__ = name
    kind = "real" if name.startswith(("r", "ih")) else "real or complex"
    halves = name.startswith(("ir", "h"))  # these transforms double the length of a half spectrum
    length = "2 (m - 1) for an axis of size m" if halves else "the size of the axis"
    ends = "twice the size of the last axis, less 2" if halves else "its size"
    axes = (
        {
            "n": f"number of points, to which the axis is cut or padded with zeros. None means {length}.",
            "axis": "axis along which to transform.",
        }
        if function.__code__.co_varnames[1] == "n"
        else {
            "s": f"number of points along each axis, to which it is cut or padded with zeros. None means {ends}.",
            "axes": "axes along which to transform. None means all, or the last `len(s)` ones.",
        }
    )
    parameters = {"a": f"array of {kind} numbers.", **axes, "norm": _NORM, "out": _OUT}
    function.__doc__ = docstrings.compose(sentence, parameters, f">>> import ndgrad.numpy as np\n{example}")
    return torch_names(function)


def _line(name: str, sentence: str, example: str, *, real: bool = False) -> _Line:
    """Return a transform along one axis."""
    transform = getattr(fft_api, name)

    def function(a: ArrayLike, n: int | None = None, axis: int = -1, norm: str | None = None, out: Out = None) -> Array:
        t = _floating(name, a, real=real)
        if n is not None and n < 1:
            raise ValueError(f"Invalid number of FFT data points ({n}) specified. [nd-range]")
        made = transform(t, n, one_axis(axis, t.ndim), _norm(norm))
        return deliver(name, arrange_like(made, t.copy() if name == "hfft" and 0 in t.strides else t), out)

    return _describe(function, name, sentence, example)


def _box(name: str, sentence: str, example: str, axes: Sequence[int] | None = None, *, real: bool = False) -> _Box:
    """Return a transform along several axes."""
    transform = getattr(fft_api, name[:-1] + "n")
    default = axes

    def function(
        a: ArrayLike,
        s: Sequence[int] | None = None,
        axes: Sequence[int] | None = default,
        norm: str | None = None,
        out: Out = None,
    ) -> Array:
        t = _floating(name, a, real=real)
        if s is not None and axes is not None and len(s) != len(axes):
            raise ValueError("Shape and axes have different lengths. [nd-shape]")
        dims = None if axes is None else tuple(one_axis(d, t.ndim) for d in axes)
        if dims is not None and len(set(dims)) < len(dims):
            return deliver(name, _transform_repeated_axes(name, t, s, dims, norm), out)
        return deliver(name, arrange_like(transform(t, s, dims, _norm(norm)), t), out)

    return _describe(function, name, sentence, example)


def _transform_repeated_axes(
    name: str, t: Array, s: Sequence[int] | None, dims: tuple[int, ...], norm: str | None
) -> Array:
    """Transform an axis that is given twice twice, as in NumPy."""
    if name not in ("fft2", "fftn", "ifft2", "ifftn"):
        raise ValueError(f"{name}(): axes {dims} names an axis twice. Name each once. [nd-dim]")
    for d, n in zip(reversed(dims), reversed(s if s is not None else (None,) * len(dims)), strict=True):
        t = (ifft if name.startswith("i") else fft)(t, n, d, norm)
    return t


fft = _line("fft", "The discrete Fourier transform along an axis.", ">>> np.fft.fft([1.0, 0.0]).real\narray([1., 1.])")
ifft = _line("ifft", "The inverse of `fft`.", ">>> np.fft.ifft([1.0, 1.0]).real\narray([1., 0.])")
rfft = _line(
    "rfft",
    "The first half of the Fourier transform of real numbers.",
    ">>> np.fft.rfft([1.0, 0.0, 0.0, 0.0]).shape\n(3,)",
    real=True,
)
irfft = _line(
    "irfft", "The inverse of `rfft`: real numbers.", ">>> np.fft.irfft([1.0, 1.0, 1.0])\narray([1., 0., 0., 0.])"
)
hfft = _line(
    "hfft",
    "The transform, which is real, of a signal that is the conjugate of its mirror image, given by its first half.",
    ">>> np.fft.hfft([1.0, 1.0])\narray([2., 0.])",
)  # fmt: skip
ihfft = _line("ihfft", "The inverse of `hfft`.", ">>> np.fft.ihfft([2.0, 0.0]).real\narray([1., 1.])", real=True)
_LAST = (-2, -1)
fft2 = _box(
    "fft2", "The Fourier transform along two axes.", ">>> np.fft.fft2(np.eye(2)).real[0]\narray([2., 0.])", _LAST
)
ifft2 = _box(
    "ifft2", "The inverse of `fft2`.", ">>> np.fft.ifft2(np.fft.fft2(np.eye(2))).real[0]\narray([1., 0.])", _LAST
)
rfft2 = _box(
    "rfft2", "Half of `fft2` of real numbers.", ">>> np.fft.rfft2(np.ones((4, 4))).shape\n(4, 3)", _LAST, real=True
)
irfft2 = _box(
    "irfft2", "The inverse of `rfft2`: real numbers.", ">>> np.fft.irfft2(np.ones((4, 3))).shape\n(4, 4)", _LAST
)
fftn = _box(
    "fftn",
    "The Fourier transform along axes, by default all.",
    ">>> np.fft.fftn(np.ones((2, 2))).real[0]\narray([4., 0.])",
)
ifftn = _box("ifftn", "The inverse of `fftn`.", ">>> np.fft.ifftn(np.fft.fftn(np.eye(2))).real[0]\narray([1., 0.])")
rfftn = _box("rfftn", "Half of `fftn` of real numbers.", ">>> np.fft.rfftn(np.ones((2, 4))).shape\n(2, 3)", real=True)
irfftn = _box("irfftn", "The inverse of `rfftn`: real numbers.", ">>> np.fft.irfftn(np.ones((2, 3))).shape\n(2, 4)")


@torch_names
def fftshift(x: ArrayLike, axes: Axes = None) -> Array:
    """The spectrum with frequency zero moved to the middle.

    Args:
        x: array.
        axes: axis or axes to shift. None means all.

    >>> import ndgrad.numpy as np
    >>> np.fft.fftshift(np.array([0, 1, 2, -2, -1]))
    array([-2, -1,  0,  1,  2])
    """
    return fft_api.fftshift(as_array(x), axes)


@torch_names
def ifftshift(x: ArrayLike, axes: Axes = None) -> Array:
    """The inverse of `fftshift`: frequency zero moved to the front.

    Args:
        x: array.
        axes: axis or axes to shift. None means all.

    >>> import ndgrad.numpy as np
    >>> np.fft.ifftshift(np.array([-2, -1, 0, 1, 2]))
    array([ 0,  1,  2, -2, -1])
    """
    return fft_api.ifftshift(as_array(x), axes)


def fftfreq(n: int, d: ArrayLike = 1.0, device: Device = None) -> Array:
    """The frequencies of fft's bins; differentiable in the spacing.

    Args:
        n: number of points.
        d: distance of neighbouring points.
        device: device of the result.

    >>> import ndgrad.numpy as np
    >>> np.fft.fftfreq(4)
    array([ 0.  ,  0.25, -0.5 , -0.25])
    """
    return on_device(constant(np.fft.fftfreq(n)) / d, device)


def rfftfreq(n: int, d: ArrayLike = 1.0, device: Device = None) -> Array:
    """The frequencies of rfft's bins; differentiable in the spacing.

    Args:
        n: number of points.
        d: distance of neighbouring points.
        device: device of the result.

    >>> import ndgrad.numpy as np
    >>> np.fft.rfftfreq(4)
    array([0.  , 0.25, 0.5 ])
    """
    return on_device(constant(np.fft.rfftfreq(n)) / d, device)
