"""Fourier transforms on a device: cuFFT's plans called directly, and kernels for what surrounds them.

A plan transforms the last one to three dimensions of a contiguous array, all lines or blocks of it in one call. CuPy's
functions choose, look up and check a plan in Python at each call, which takes longer than the transform. Plans are kept
here by shape, with the stream that they run on: two streams must not share the work area of a plan.

Other dimensions, and arrays without elements, are left to CuPy.
"""

from __future__ import annotations

import functools
from math import prod, sqrt
from typing import Any

import numpy as np

from ndgrad._src.arrays import graph_recording, library
from ndgrad._src.compiler.cuda import launch
from ndgrad._src.compiler.cuda.complex_elementwise import PARTS, PRELUDE
from ndgrad._src.compiler.cuda.copies import copy_of, in_order
from ndgrad._src.compiler.cuda.elementwise import BYTES, LARGEST, THREADS
from ndgrad._src.foundations.bounded_tables import make_room

#: Maximum number of dimensions of a plan, and of plans that are kept.
_MOST_DIMS, _MOST_PLANS = 3, 64
#: Real dtype -> complex dtype.
_COMPLEX: dict[str, np.dtype[Any]] = {"f": np.dtype(np.complex64), "d": np.dtype(np.complex128)}
_REAL: dict[str, np.dtype[Any]] = {"F": np.dtype(np.float32), "D": np.dtype(np.float64)}
#: cuFFT's names of the kinds of transforms, by the dtypes of operand and result.
_KINDS = {
    "FF": "CUFFT_C2C", "DD": "CUFFT_Z2Z", "fF": "CUFFT_R2C", "dD": "CUFFT_D2Z", "Ff": "CUFFT_C2R", "Dd": "CUFFT_Z2D",
}  # fmt: skip
_FORWARD, _INVERSE = -1, 1

#: Plans by device, stream, kind, sizes and number of blocks.
_plans: dict[Any, Any] = {}
#: The last plan that was made for each key without a stream.
_last: dict[Any, Any] = {}


@functools.lru_cache(maxsize=1)
def _cufft() -> Any:
    """Return CuPy's module of plans; None if this version has none."""
    try:
        from cupy.cuda import cufft
    except ImportError:
        return None
    return cufft if hasattr(cufft, "PlanNd") else None


def _plan(device: int, kind: str, sizes: tuple[int, ...], count: int) -> Any:
    """Return the plan for blocks of some sizes on the current stream."""
    key = (device, kind, sizes, count)
    if graph_recording.active is not None and key in _last:  # no plan can be made while a graph is recorded
        made = _last[key]
        graph_recording.active.kept.append(made)
        return made
    streamed = (*key, library.device_library.cuda.get_current_stream().ptr)
    made = _plans.get(streamed)
    if made is None:
        cufft = _cufft()
        made = cufft.PlanNd(sizes, None, 1, 0, None, 1, 0, getattr(cufft, _KINDS[kind]), count, "C", -1, None)
        make_room(_plans, _MOST_PLANS)
        make_room(_last, _MOST_PLANS)
        _plans[streamed] = _last[key] = made
    return made


def _trailing(ndim: int, dims: tuple[int, ...], last: bool) -> bool:
    """True if dims are the last dimensions; with `last`, in an order that ends with the last one."""
    count = len(dims)
    if not 0 < count <= _MOST_DIMS or (last and dims[-1] != ndim - 1):
        return False
    return sorted(dims) == list(range(ndim - count, ndim))


def _make_ready(x: Any) -> Any:
    """Return an array as cuFFT reads it: contiguous, and aligned to complex elements."""
    if x._c_contiguous and x.data.ptr % BYTES:
        return copy_of(x)
    return in_order(x)


def _factor(scale: str, points: int) -> float:
    return {"none": 1.0, "root": 1.0 / sqrt(points), "full": 1.0 / points}[scale]


def _scaled(x: Any, factor: float) -> Any:
    """Multiply a new contiguous array by a number, in place."""
    if factor != 1.0:
        char = _REAL.get(x.dtype.char, x.dtype).char
        count = x.nbytes // np.dtype(char).itemsize
        _scaling(char, x.data.device_id)(-(-count // THREADS), THREADS, count, x.data.ptr, factor)
    return x


@functools.lru_cache(maxsize=16)
def _scaling(char: str, device: int) -> launch.Kernel:
    part = {"f": "float", "d": "double"}[char]
    return launch.Kernel(
        f"""
struct Arguments {{ long long n; {part}* x; double factor; }};
extern "C" __global__ void __launch_bounds__({THREADS}) kernel(const Arguments a) {{
    const long long i = (long long)blockIdx.x * {THREADS} + threadIdx.x;
    if (i < a.n) a.x[i] *= ({part})a.factor;
}}
""",
        "2qd",
    )


def _can_run(x: Any, chars: str) -> bool:
    return x.dtype.char in chars and 0 < x.size < LARGEST and _cufft() is not None


def c2c(operands: tuple[Any, ...], settings: dict[str, Any]) -> Any:
    """Return the transform of complex numbers; None if it is left to CuPy."""
    x, dims = operands[0], tuple(settings["dims"])
    if not _can_run(x, "FD") or not _trailing(x.ndim, dims, False):
        return None
    x, out = _make_ready(x), launch.new(x.shape, x.dtype)
    sizes = x.shape[x.ndim - len(dims) :]
    points = prod(sizes)
    plan = _plan(x.data.device_id, x.dtype.char * 2, sizes, x.size // points)
    plan.fft(x, out, _INVERSE if settings["inverse"] else _FORWARD)
    return _scaled(out, _factor(settings["scale"], points))


def r2c(operands: tuple[Any, ...], settings: dict[str, Any]) -> Any:
    """Return the transform of real numbers, the bins of the last dimension halved or not; None if it is left to CuPy.
    """
    x, dims = operands[0], tuple(settings["dims"])
    if not _can_run(x, "fd") or not _trailing(x.ndim, dims, True):
        return None
    x, lead = _make_ready(x), x.shape[: x.ndim - len(dims)]
    sizes = x.shape[len(lead) :]
    points, dtype = prod(sizes), _COMPLEX[x.dtype.char]
    out = launch.new((*lead, *sizes[:-1], sizes[-1] // 2 + 1), dtype)
    _plan(x.data.device_id, x.dtype.char + dtype.char, sizes, x.size // points).fft(x, out, _FORWARD)
    out = _scaled(out, _factor(settings["scale"], points))
    return out if settings["onesided"] else _mirrored(out, lead, sizes)


def c2r(operands: tuple[Any, ...], settings: dict[str, Any]) -> Any:
    """Return the transform of half of the bins to real numbers; None if it is left to CuPy."""
    x, dims, size = operands[0], tuple(settings["dims"]), settings["size"]
    if not _can_run(x, "FD") or not _trailing(x.ndim, dims, True) or x.shape[-1] != size // 2 + 1 or size < 1:
        return None
    dtype, lead = _REAL[x.dtype.char], x.shape[: x.ndim - len(dims)]
    sizes = (*x.shape[len(lead) : -1], size)
    x = copy_of(x)  # cuFFT writes over the operand
    if x is None:
        return None
    points = prod(sizes)
    out = launch.new((*lead, *sizes), dtype)
    _plan(x.data.device_id, x.dtype.char + dtype.char, sizes, out.size // points).fft(x, out, _INVERSE)
    return _scaled(out, _factor(settings["scale"], points))


# ----- bins -----------------------------------------------------------------------------------------------------------

_MIRROR = """
struct Arguments { long long n, first, second, last; const Complex<T>* x; Complex<T>* out; };
extern "C" __global__ void __launch_bounds__(THREADS) kernel(const Arguments a) {
    const long long i = (long long)blockIdx.x * THREADS + threadIdx.x;
    if (i >= a.n) return;
    const long long bins = a.last / 2 + 1, k = i % a.last;
    long long row = i / a.last;
    if (k < bins) { a.out[i] = a.x[row * bins + k]; return; }
    const long long q = row % a.second, p = row / a.second % a.first, block = row / a.second / a.first;
    row = (block * a.first + (p ? a.first - p : 0)) * a.second + (q ? a.second - q : 0);
    const Complex<T> v = a.x[row * bins + a.last - k];
    a.out[i] = Complex<T>{v.re, -v.im};
}
"""


def _mirrored(half: Any, lead: tuple[int, ...], sizes: tuple[int, ...]) -> Any:
    """Return all bins of real points from half of them: y[-k] = conj(y[k])."""
    out = launch.new((*lead, *sizes), half.dtype)
    first, second = (1, 1, *sizes[:-1])[-2:]
    count = out.size
    kernel = _bins("mirror", half.dtype.char, half.data.device_id)
    kernel(-(-count // THREADS), THREADS, count, first, second, sizes[-1], half.data.ptr, out.data.ptr)
    return out


_SCALE = """
struct Arguments { long long n, bins, inner, size; const Complex<T>* x; Complex<T>* out; double factor; };
extern "C" __global__ void __launch_bounds__(THREADS) kernel(const Arguments a) {
    const long long i = (long long)blockIdx.x * THREADS + threadIdx.x;
    if (i >= a.n) return;
    const long long k = i / a.inner % a.bins;
    const Complex<T> v = a.x[i];
    const T by = k >= 1 && k < (a.size + 1) / 2 ? (T)a.factor : T(1);
    a.out[i] = Complex<T>{v.re * by, v.im * by};
}
"""


@functools.lru_cache(maxsize=32)
def _bins(name: str, char: str, device: int) -> launch.Kernel:
    body, layout = {"mirror": (_MIRROR, "6q"), "scale": (_SCALE, "6qd")}[name]
    return launch.Kernel(f"{PRELUDE}typedef {PARTS[char][1]} T; enum {{ THREADS = {THREADS} }};\n{body}", layout)


def scale_bins(operands: tuple[Any, ...], settings: dict[str, Any]) -> Any:
    """Return complex numbers, the bins that represent two bins multiplied; None if it is left to CuPy."""
    x, dim = operands[0], settings["dim"]
    if x.dtype.char not in PARTS or not x._c_contiguous or not x.size or not 0 <= dim < x.ndim:
        return None
    out, count = launch.new(x.shape, x.dtype), x.size
    words = count, x.shape[dim], prod(x.shape[dim + 1 :]), settings["size"], x.data.ptr, out.data.ptr
    _bins("scale", x.dtype.char, x.data.device_id)(-(-count // THREADS), THREADS, *words, settings["factor"])
    return out
