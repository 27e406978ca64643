"""`scipy.fft` with derivatives: NumPy's transforms under SciPy's signatures, and the cosine and sine transforms."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy

import ndgrad.numpy as np
from ndgrad.autograd.variable import np_dtype
from ndgrad.numpy.coercion import many_axes, one_axis
from ndgrad.scipy._without_rules import beyond, floating

# ----- Fourier transforms -----------------------------------------------------------------------------------------------------


def _line(name: str) -> Callable[..., Any]:
    def function(
        x: Any, n: Any = None, axis: int = -1, norm: Any = None, overwrite_x: bool = False, workers: Any = None, *, plan: Any = None
    ) -> Any:
        return getattr(np.fft, name)(floating(x), n, axis, norm)

    function.__name__ = function.__qualname__ = name
    function.__doc__ = f"`scipy.fft.{name}`."
    return function


def _box(name: str, default: Any) -> Callable[..., Any]:
    def function(
        x: Any, s: Any = None, axes: Any = default, norm: Any = None, overwrite_x: bool = False, workers: Any = None, *, plan: Any = None
    ) -> Any:
        t = floating(x)
        if s is not None and axes is None:
            axes = tuple(range(t.ndim - len(s), t.ndim))
        return getattr(np.fft, name)(t, s, axes, norm)

    function.__name__ = function.__qualname__ = name
    function.__doc__ = f"`scipy.fft.{name}`."
    return function


fft, ifft, rfft, irfft, hfft, ihfft = (_line(name) for name in ("fft", "ifft", "rfft", "irfft", "hfft", "ihfft"))
fft2, ifft2, rfft2, irfft2 = (_box(name, (-2, -1)) for name in ("fft2", "ifft2", "rfft2", "irfft2"))
fftn, ifftn, rfftn, irfftn = (_box(name, None) for name in ("fftn", "ifftn", "rfftn", "irfftn"))
_SWAPPED = {None: "forward", "backward": "forward", "forward": "backward", "ortho": "ortho"}


def hfftn(
    x: Any, s: Any = None, axes: Any = None, norm: Any = None, overwrite_x: bool = False, workers: Any = None, *, plan: Any = None
) -> Any:
    """The transform of a spectrum with Hermitian symmetry: irfftn of the conjugate, in the other normalisation."""
    return irfftn(floating(x).conj(), s, axes, _SWAPPED[norm])


def ihfftn(
    x: Any, s: Any = None, axes: Any = None, norm: Any = None, overwrite_x: bool = False, workers: Any = None, *, plan: Any = None
) -> Any:
    return rfftn(floating(x), s, axes, _SWAPPED[norm]).conj()


def hfft2(
    x: Any, s: Any = None, axes: Any = (-2, -1), norm: Any = None, overwrite_x: bool = False, workers: Any = None, *, plan: Any = None
) -> Any:
    return hfftn(x, s, axes, norm)


def ihfft2(
    x: Any, s: Any = None, axes: Any = (-2, -1), norm: Any = None, overwrite_x: bool = False, workers: Any = None, *, plan: Any = None
) -> Any:
    return ihfftn(x, s, axes, norm)


fftshift, ifftshift = np.fft.fftshift, np.fft.ifftshift


def fftfreq(n: int, d: Any = 1.0, *, xp: Any = None, device: Any = None) -> Any:
    return np.fft.fftfreq(n, d)


def rfftfreq(n: int, d: Any = 1.0, *, xp: Any = None, device: Any = None) -> Any:
    return np.fft.rfftfreq(n, d)


def next_fast_len(target: int, real: bool = False) -> int:
    """The next length that a transform likes."""
    import scipy.fft

    return int(scipy.fft.next_fast_len(int(target), real))


def prev_fast_len(target: int, real: bool = False) -> int:
    import scipy.fft

    return int(scipy.fft.prev_fast_len(int(target), real))


# ----- cosine and sine transforms ------------------------------------------------------------------------------------------------

# Each is the Fourier transform of the signal continued with the symmetry that its type stands for; the factors of norm="ortho" scale the
# ends of the input and of the output. The inverse of type 2 is type 3 and the other way round, types 1 and 4 are their own.


def _continued(t: Any, kind: int, odd: bool) -> Any:
    """2 N sums over n of x[n] cos(or sin)(...), without normalisation, along the last axis."""
    n = t.shape[-1]
    k = numpy.arange(n)
    if kind == 1:
        if odd:
            zero = np.zeros((*t.shape[:-1], 1), dtype=np_dtype(t))
            whole = np.concatenate([zero, t, zero, -t[..., ::-1]], axis=-1)
            return -np.fft.rfft(whole)[..., 1 : n + 1].imag
        whole = np.concatenate([t, t[..., n - 2 : 0 : -1]], axis=-1) if n > 2 else t
        return np.fft.rfft(whole)[..., :n].real
    if kind == 2:
        whole = np.concatenate([t, -t[..., ::-1] if odd else t[..., ::-1]], axis=-1)
        turn = numpy.exp(-1j * numpy.pi * (k + (1 if odd else 0)) / (2 * n))
        spectrum = np.fft.rfft(whole)
        if odd:
            return -(spectrum[..., 1 : n + 1] * turn).imag
        return (spectrum[..., :n] * turn).real
    if kind == 3:
        # y[k] = x[0] + 2 sum over n >= 1 of x[n] cos(pi n (2k+1) / 2N); for the sine the last one is alone
        if odd:
            weights = numpy.append(numpy.full(n - 1, 2.0), 1.0)
            turned = t * weights * (numpy.exp(1j * numpy.pi * (k + 1) / (2 * n)))
            padded = np.pad(turned, [(0, 0)] * (t.ndim - 1) + [(1, n - 1)])
            return (np.fft.ifft(padded)[..., :n] * (2 * n)).imag
        weights = numpy.append(1.0, numpy.full(n - 1, 2.0))
        turned = t * weights * numpy.exp(1j * numpy.pi * k / (2 * n))
        return (np.fft.ifft(np.pad(turned, [(0, 0)] * (t.ndim - 1) + [(0, n)]))[..., :n] * (2 * n)).real
    if kind == 4:
        # cos(pi (2n+1)(2k+1) / 4N) from a transform of twice the length of the samples turned by half a step
        turned = t * numpy.exp(-1j * numpy.pi * (2 * k + 1) / (4 * n))
        spectrum = np.fft.fft(np.pad(turned, [(0, 0)] * (t.ndim - 1) + [(0, n)]))[..., :n] * numpy.exp(-1j * numpy.pi * k / (2 * n))
        return -2.0 * spectrum.imag if odd else 2.0 * spectrum.real
    raise ValueError(f"the type of a cosine or sine transform must be 1, 2, 3 or 4, and is {kind}.")


def _length(kind: int, odd: bool, n: int) -> int:
    """By which the inverse divides."""
    if kind == 1:
        return 2 * (n + 1) if odd else 2 * (n - 1)
    return 2 * n


def _discrete(t: Any, kind: int, axis: int, norm: Any, odd: bool, inverse: bool, orthogonalize: Any, size: Any = None) -> Any:
    d = one_axis(axis, t.ndim)
    if norm not in (None, "backward", "ortho", "forward"):
        raise ValueError(f"Invalid norm value {norm!r}, should be None, 'backward', 'ortho' or 'forward'")
    if np_dtype(t).kind == "c":
        real, imaginary = (_discrete(p, kind, axis, norm, odd, inverse, orthogonalize, size) for p in (t.real, t.imag))
        return real + 1j * imaginary
    t = np.moveaxis(t, d, -1)
    if size is not None:
        n = t.shape[-1]
        t = t[..., : int(size)] if size <= n else np.pad(t, [(0, 0)] * (t.ndim - 1) + [(0, int(size) - n)])
    n = t.shape[-1]
    if kind == 1 and not odd and n < 2:
        raise ValueError("DCT-I is not defined for size < 2")
    run = {2: 3, 3: 2}.get(kind, kind) if inverse else kind
    ortho = (norm == "ortho") if orthogonalize is None else bool(orthogonalize)
    if ortho and run in (1, 3) and not (run == 1 and odd):
        t = t * _ends(n, run, odd, 2**0.5)
    made = _continued(t, run, odd)
    if ortho and run in (1, 2) and not (run == 1 and odd):
        made = made * _ends(n, run, odd, 2**-0.5)
    length = _length(run, odd, n)
    if norm == "ortho":
        made = made / length**0.5
    elif (norm in (None, "backward")) == inverse:
        made = made / length
    return np.moveaxis(made, -1, d)


def _ends(n: int, kind: int, odd: bool, factor: float) -> Any:
    weights = numpy.ones(n)
    if kind == 1:
        weights[0] = weights[-1] = factor
    else:
        weights[-1 if odd else 0] = factor
    return weights


def _transform(name: str, odd: bool, inverse: bool) -> Callable[..., Any]:
    def function(
        x: Any, type: int = 2, n: Any = None, axis: int = -1, norm: Any = None, overwrite_x: bool = False, workers: Any = None,
        orthogonalize: Any = None,
    ) -> Any:  # fmt: skip
        return _discrete(floating(x), type, axis, norm, odd, inverse, orthogonalize, n)

    function.__name__ = function.__qualname__ = name
    function.__doc__ = f"`scipy.fft.{name}`."
    return function


def _many(name: str, odd: bool, inverse: bool) -> Callable[..., Any]:
    def function(
        x: Any, type: int = 2, s: Any = None, axes: Any = None, norm: Any = None, overwrite_x: bool = False, workers: Any = None, *,
        orthogonalize: Any = None,
    ) -> Any:  # fmt: skip
        t = floating(x)
        dims = tuple(range(t.ndim - len(s), t.ndim)) if axes is None and s is not None else many_axes(axes, t.ndim)
        sizes = (None,) * len(dims) if s is None else tuple(s)
        for d, n in zip(dims, sizes, strict=True):
            t = _discrete(t, type, d, norm, odd, inverse, orthogonalize, n)
        return t

    function.__name__ = function.__qualname__ = name
    function.__doc__ = f"`scipy.fft.{name}`."
    return function


dct, idct = _transform("dct", False, False), _transform("idct", False, True)
dst, idst = _transform("dst", True, False), _transform("idst", True, True)
dctn, idctn = _many("dctn", False, False), _many("idctn", False, True)
dstn, idstn = _many("dstn", True, False), _many("idstn", True, True)

__getattr__ = beyond(
    "fft",
    {"fht": "fft of samples on a logarithmic grid", "ifht": "ifft of samples on a logarithmic grid"},
    decisions="fhtoffset get_workers set_workers set_backend set_global_backend skip_backend register_backend",
)

__all__ = [
    "dct", "dctn", "dst", "dstn", "fft", "fft2", "fftfreq", "fftn", "fftshift", "hfft", "hfft2", "hfftn", "idct", "idctn", "idst", "idstn",
    "ifft", "ifft2", "ifftn", "ifftshift", "ihfft", "ihfft2", "ihfftn", "irfft", "irfft2", "irfftn", "next_fast_len", "prev_fast_len",
    "rfft", "rfft2", "rfftfreq", "rfftn",
]  # fmt: skip
