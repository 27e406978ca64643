r"""Discrete Fourier transforms: complex to complex, real to complex, complex to real.

The constraint that shaped this file: every named transform (ifft, hfft, rfft2, ...) is one of these three, with a
direction and a scale, on an input that was padded or trimmed beforehand. So only three ops have rules, and each rule is
the forward of another.

`dims` are the transformed dimensions; the last one is halved. `scale` divides the sums by nothing ("none"), by the
square root of the number of points ("root") or by that number ("full"), in both directions.
"""

from __future__ import annotations

import functools
import importlib
from typing import TYPE_CHECKING, Any

import numpy

from ndgrad._src.arrays import threads
from ndgrad._src.ops.table import op

if TYPE_CHECKING:
    from ndgrad._typing import Library, Payload, Vocabulary

# The library's norm names tell the direction in which it divides.
_FORWARD_NORMS = {"none": "backward", "root": "ortho", "full": "forward"}
_INVERSE_NORMS = {"none": "forward", "root": "ortho", "full": "backward"}

#: Number of elements from which SciPy's transforms use several threads.
_SHARED = 1 << 16


@functools.lru_cache(maxsize=1)
def _scipy_fft() -> Any:
    """Return scipy.fft, or None. It is imported with the first transform, not with this module."""
    try:
        return importlib.import_module("scipy.fft")
    except ImportError:
        return None


def _transforms(np: Library, x: Payload) -> tuple[Any, dict[str, int]]:
    """Return the module of transforms for an array, and settings for its functions.

    SciPy's take several lines at once in vectors, which is two to ten times as fast as NumPy's line by line. They take
    NumPy arrays of float32, float64 and the complex dtypes of both. Sizes of zero are left to NumPy and its errors.
    """
    if x.__class__ is not numpy.ndarray or x.dtype.char not in "fdFD" or not x.size:
        return np.fft, {}
    found = _scipy_fft()
    if found is None:
        return np.fft, {}
    return found, {"workers": threads.max_threads if x.size >= _SHARED else 1}


# ----- complex to complex ---------------------------------------------------------------------------------------------


def _c2c(np: Library, x: Payload, *, dims: tuple[int, ...], scale: str, inverse: bool) -> Payload:
    if not dims:
        return x.astype(np.result_type(x.dtype, np.complex64))
    norm = (_INVERSE_NORMS if inverse else _FORWARD_NORMS)[scale]
    fft, how = _transforms(np, x)
    if len(dims) == 1:
        return (fft.ifft if inverse else fft.fft)(x, axis=dims[0], norm=norm, **how)
    return (fft.ifftn if inverse else fft.fftn)(x, axes=dims, norm=norm, **how)


# The matrix is symmetric, so its adjoint is its conjugate: the transform in the other direction, with the same scale.
fft_c2c = op(
    "fft_c2c", "x",
    _c2c,
    settings={"dims": (), "scale": "none", "inverse": False},
    vjp={"x": lambda g, dims, scale, inverse, ops: ops.fft_c2c(g, dims=dims, scale=scale, inverse=not inverse)},
    jvp="linear",
    batch="dims",
    backward_name="FftC2CBackward0",
)  # fmt: skip

# ----- bins that represent two bins -----------------------------------------------------------------------------------

# The spectrum y of n real points has y[n - k] = conj(y[k]), so only bins 0 to n // 2 are kept. Each kept bin represents
# two, except bin 0 and, if n is even, bin n / 2.


def _scale_bins(np: Library, x: Payload, *, dim: int, size: int, factor: float) -> Payload:
    out = x.copy()
    out[(*(slice(None),) * dim, slice(1, (size + 1) // 2))] *= factor
    return out


# x with the bins that represent two bins, in a transform of `size` points, multiplied by `factor`.
scale_bins = op(
    "scale_bins", "x",
    _scale_bins,
    settings={"dim": 0, "size": 1, "factor": 1.0},
    vjp={"x": lambda g, dim, size, factor, ops: ops.scale_bins(g, dim=dim, size=size, factor=factor)},
    jvp="linear",
    batch="dims",
)  # fmt: skip

# ----- real to complex ------------------------------------------------------------------------------------------------


def _r2c(np: Library, x: Payload, *, dims: tuple[int, ...], scale: str, onesided: bool) -> Payload:
    norm = _FORWARD_NORMS[scale]
    fft, how = _transforms(np, x)
    if onesided:
        if len(dims) == 1:
            return fft.rfft(x, axis=dims[0], norm=norm, **how)
        return fft.rfftn(x, axes=dims, norm=norm, **how)
    # Half of the bins come from the transform and the rest from symmetry: twice as fast as a complex transform.
    last = dims[-1]
    if fft is not np.fft:  # SciPy does the same inside
        if len(dims) == 1:
            return fft.fft(x, axis=last, norm=norm, **how)
        return fft.fftn(x, axes=dims, norm=norm, **how)
    half = np.fft.rfft(x, axis=last, norm=norm)
    mirrored = (*(slice(None),) * last, slice((x.shape[last] - 1) // 2, 0, -1))
    out = np.concatenate([half, np.conjugate(half[mirrored])], axis=last)
    return np.fft.fftn(out, axes=dims[:-1], norm=norm) if dims[:-1] else out


def _r2c_vjp(
    g: Payload, x_shape: tuple[int, ...], dims: tuple[int, ...], scale: str, onesided: bool, ops: Vocabulary
) -> Payload:
    """Return the real part of the adjoint.

    With all bins it is that of the inverse transform. With half of them c2r takes the real part. But c2r counts the
    bins that represent two bins twice, while here each counts once.
    """
    if not onesided:
        return ops.fft_c2c(g, dims=dims, scale=scale, inverse=True)
    size = x_shape[dims[-1]]
    return ops.fft_c2r(ops.scale_bins(g, dim=dims[-1], size=size, factor=0.5), dims=dims, scale=scale, size=size)


fft_r2c = op(
    "fft_r2c", "x",
    _r2c,
    settings={"dims": (), "scale": "none", "onesided": True},
    vjp={"x": _r2c_vjp},
    jvp="linear",
    batch="dims",
    backward_name="FftR2CBackward0",
)  # fmt: skip

# ----- complex to real ------------------------------------------------------------------------------------------------


def _c2r(np: Library, x: Payload, *, dims: tuple[int, ...], scale: str, size: int) -> Payload:
    norm = _INVERSE_NORMS[scale]
    fft, how = _transforms(np, x) if size > 0 else (np.fft, {})
    if len(dims) == 1:
        return fft.irfft(x, size, axis=dims[0], norm=norm, **how)
    return fft.irfftn(x, (*(x.shape[d] for d in dims[:-1]), size), axes=dims, norm=norm, **how)


# Each bin k contributes Re(w_k x_k e^(2 pi i jk / n)), with w_k = 2 for the bins that represent two. So the gradient of
# x_k is w_k times the forward transform of g. It is real in the other bins, because their imaginary part is not read.
fft_c2r = op(
    "fft_c2r", "x",
    _c2r,
    settings={"dims": (), "scale": "none", "size": 1},
    vjp={
        "x": lambda g, dims, scale, size, ops: ops.scale_bins(
            ops.fft_r2c(g, dims=dims, scale=scale, onesided=True), dim=dims[-1], size=size, factor=2.0
        )
    },
    jvp="linear",
    batch="dims",
    backward_name="FftC2RBackward0",
)  # fmt: skip
