"""The `fft` extension: what `ndgrad.numpy.fft` computes, with the standard's signatures."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from ndgrad.array_api.device_placement import placed
from ndgrad.array_api.naming import named
from ndgrad.numpy import fft as ours
from ndgrad.numpy.coercion import with_dtype

__all__ = [
    "fft", "fftfreq", "fftn", "fftshift", "hfft", "ifft", "ifftn", "ifftshift", "ihfft", "irfft", "irfftn", "rfft", "rfftfreq", "rfftn",
]  # fmt: skip


def _line(name: str) -> Callable[..., Any]:
    transform = getattr(ours, name)

    def function(x: Any, /, *, n: int | None = None, axis: int = -1, norm: str = "backward") -> Any:
        return transform(x, n, axis, norm)

    return named(function, "ndgrad.array_api.fft", name, f"numpy.fft.{name} of Arrays.")


def _box(name: str) -> Callable[..., Any]:
    transform = getattr(ours, name)

    def function(x: Any, /, *, s: Any = None, axes: Any = None, norm: str = "backward") -> Any:
        return transform(x, s, axes, norm)

    return named(function, "ndgrad.array_api.fft", name, f"numpy.fft.{name} of Arrays.")


fft, ifft, rfft, irfft, hfft, ihfft = (_line(name) for name in ("fft", "ifft", "rfft", "irfft", "hfft", "ihfft"))
fftn, ifftn, rfftn, irfftn = (_box(name) for name in ("fftn", "ifftn", "rfftn", "irfftn"))


def fftfreq(n: int, /, *, d: Any = 1.0, dtype: Any = None, device: Any = None) -> Any:
    """The frequencies of fft's bins; differentiable in the spacing."""
    return placed(with_dtype(ours.fftfreq(n, d), dtype), device)


def rfftfreq(n: int, /, *, d: Any = 1.0, dtype: Any = None, device: Any = None) -> Any:
    """The frequencies of rfft's bins; differentiable in the spacing."""
    return placed(with_dtype(ours.rfftfreq(n, d), dtype), device)


def fftshift(x: Any, /, *, axes: Any = None) -> Any:
    """Frequency zero moved to the middle."""
    return ours.fftshift(x, axes)


def ifftshift(x: Any, /, *, axes: Any = None) -> Any:
    return ours.ifftshift(x, axes)
