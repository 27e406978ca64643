"""The `fft` extension: functions of `ndgrad.numpy.fft` with the standard's signatures."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING

from ndgrad.array_api.device_placement import place_on_device
from ndgrad.array_api.naming import like, rename_function
from ndgrad.numpy import fft as ours
from ndgrad.numpy.coercion import with_dtype

if TYPE_CHECKING:
    from ndgrad._typing import Array, ArrayLike, Axes, Device, Dtype

__all__ = [
    "fft", "fftfreq", "fftn", "fftshift", "hfft", "ifft", "ifftn", "ifftshift", "ihfft", "irfft", "irfftn", "rfft",
    "rfftfreq", "rfftn",
]  # fmt: skip


def _line(name: str) -> Callable[..., Array]:
    transform = getattr(ours, name)

    def function(x: ArrayLike, /, *, n: int | None = None, axis: int = -1, norm: str = "backward") -> Array:
        return transform(x, n, axis, norm)

    return rename_function(function, "ndgrad.array_api.fft", name, transform)


def _box(name: str) -> Callable[..., Array]:
    transform = getattr(ours, name)

    def function(
        x: ArrayLike, /, *, s: Sequence[int] | None = None, axes: Axes = None, norm: str = "backward"
    ) -> Array:
        return transform(x, s, axes, norm)

    return rename_function(function, "ndgrad.array_api.fft", name, transform)


fft, ifft, rfft, irfft, hfft, ihfft = (_line(name) for name in ("fft", "ifft", "rfft", "irfft", "hfft", "ihfft"))
fftn, ifftn, rfftn, irfftn = (_box(name) for name in ("fftn", "ifftn", "rfftn", "irfftn"))


@like(ours.fftfreq, dtype="dtype of the result. None means float64.")
def fftfreq(n: int, /, *, d: ArrayLike = 1.0, dtype: Dtype = None, device: Device = None) -> Array:
    return place_on_device(with_dtype(ours.fftfreq(n, d), dtype), device)


@like(ours.rfftfreq, dtype="dtype of the result. None means float64.")
def rfftfreq(n: int, /, *, d: ArrayLike = 1.0, dtype: Dtype = None, device: Device = None) -> Array:
    return place_on_device(with_dtype(ours.rfftfreq(n, d), dtype), device)


@like(ours.fftshift)
def fftshift(x: ArrayLike, /, *, axes: Axes = None) -> Array:
    return ours.fftshift(x, axes)


@like(ours.ifftshift)
def ifftshift(x: ArrayLike, /, *, axes: Axes = None) -> Array:
    return ours.ifftshift(x, axes)
