"""`numpy.fft` on Arrays. The transforms are those of torch's names; NumPy's differences are argument names, dtypes and errors."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from ndgrad.api import fft as fft_api
from ndgrad.api.arguments import torch_names
from ndgrad.arrays.precision import is_inexact
from ndgrad.autograd.variable import np_dtype
from ndgrad.numpy.coercion import arranged_like, as_array, constant, deliver, one_axis, with_dtype

__all__ = [
    "fft", "fft2", "fftfreq", "fftn", "fftshift", "hfft", "ifft", "ifft2", "ifftn", "ifftshift", "ihfft", "irfft", "irfft2",
    "irfftn", "rfft", "rfft2", "rfftfreq", "rfftn",
]  # fmt: skip


def _floating(name: str, a: Any, *, real: bool) -> Any:
    """Integers are transformed in double precision, half precision in single, as in NumPy."""
    t = as_array(a)
    dtype = np_dtype(t)
    if real and dtype.kind == "c":
        raise TypeError(f"{name}() takes real numbers, and got {dtype}. Take .real, or use the transform of complex numbers.")
    if not is_inexact(dtype):
        return with_dtype(t, np.float64)
    return with_dtype(t, np.float32) if dtype.itemsize == 2 else t


def _norm(norm: Any) -> Any:
    if norm not in (None, "backward", "ortho", "forward"):
        raise ValueError(f'Invalid norm value {norm}; should be "backward", "ortho" or "forward".')
    return norm


def _line(name: str, *, real: bool = False) -> Callable[..., Any]:
    """A transform along one axis."""
    transform = getattr(fft_api, name)

    def function(a: Any, n: int | None = None, axis: int = -1, norm: Any = None, out: Any = None) -> Any:
        t = _floating(name, a, real=real)
        if n is not None and n < 1:
            raise ValueError(f"Invalid number of FFT data points ({n}) specified.")
        made = transform(t, n, one_axis(axis, t.ndim), _norm(norm))
        return deliver(name, arranged_like(made, t.copy() if name == "hfft" and 0 in t.strides else t), out)

    function.__name__ = function.__qualname__ = name
    return torch_names(function)


def _box(name: str, axes: Any, *, real: bool = False) -> Callable[..., Any]:
    """A transform along several axes."""
    transform = getattr(fft_api, name[:-1] + "n")
    default = axes

    def function(a: Any, s: Any = None, axes: Any = default, norm: Any = None, out: Any = None) -> Any:
        t = _floating(name, a, real=real)
        if s is not None and axes is not None and len(s) != len(axes):
            raise ValueError("Shape and axes have different lengths.")
        dims = None if axes is None else tuple(one_axis(d, t.ndim) for d in axes)
        if dims is not None and len(set(dims)) < len(dims):
            return deliver(name, _repeated(name, t, s, dims, norm), out)
        return deliver(name, arranged_like(transform(t, s, dims, _norm(norm)), t), out)

    function.__name__ = function.__qualname__ = name
    return torch_names(function)


def _repeated(name: str, t: Any, s: Any, dims: tuple[int, ...], norm: Any) -> Any:
    """NumPy transforms an axis that is named twice twice."""
    if name not in ("fft2", "fftn", "ifft2", "ifftn"):
        raise ValueError(f"{name}(): axes {dims} names an axis twice. Name each once.")
    for d, n in zip(reversed(dims), reversed(s if s is not None else (None,) * len(dims)), strict=True):
        t = (ifft if name.startswith("i") else fft)(t, n, d, norm)
    return t


fft, ifft, hfft = _line("fft"), _line("ifft"), _line("hfft")
rfft, irfft, ihfft = _line("rfft", real=True), _line("irfft"), _line("ihfft", real=True)
fft2, ifft2 = _box("fft2", (-2, -1)), _box("ifft2", (-2, -1))
rfft2, irfft2 = _box("rfft2", (-2, -1), real=True), _box("irfft2", (-2, -1))
fftn, ifftn = _box("fftn", None), _box("ifftn", None)
rfftn, irfftn = _box("rfftn", None, real=True), _box("irfftn", None)


@torch_names
def fftshift(x: Any, axes: Any = None) -> Any:
    """Frequency zero moved to the middle."""
    return fft_api.fftshift(as_array(x), axes)


@torch_names
def ifftshift(x: Any, axes: Any = None) -> Any:
    return fft_api.ifftshift(as_array(x), axes)


def fftfreq(n: int, d: Any = 1.0, device: Any = None) -> Any:
    """The frequencies of fft's bins; differentiable in the spacing."""
    return constant(np.fft.fftfreq(n)) / d


def rfftfreq(n: int, d: Any = 1.0, device: Any = None) -> Any:
    return constant(np.fft.rfftfreq(n)) / d
