"""Ops on a device that move elements by a rule, one kernel each: patches of images, triangles, pairs, cross products.

A thread computes one element of the result. Sums over patches (`col2im`) are added in the order of the window, so a
result is the same in every run.
"""

from __future__ import annotations

import functools
from math import prod
from typing import Any

import numpy as np

from ndgrad._src.compiler.cuda import launch
from ndgrad._src.compiler.cuda.copies import in_order
from ndgrad._src.compiler.cuda.elementwise import LARGEST, THREADS
from ndgrad._src.compiler.cuda.values import COMPUTED, PRELUDE, STORED

#: Types that are moved without conversion, by their sizes in bytes.
_OPAQUE = {
    1: "unsigned char", 2: "unsigned short", 4: "unsigned int", 8: "unsigned long long", 16: "uint4",
}  # fmt: skip
#: Maximum number of dimensions of an image.
_MOST_DIMS = 3

_BEGIN = f"""
extern "C" __global__ void __launch_bounds__({THREADS}) kernel(const Arguments a) {{
    const long long i = (long long)blockIdx.x * {THREADS} + threadIdx.x;
    if (i >= a.n) return;
    unsigned int rest = (unsigned int)i;
"""

#: Sizes of the image, the window and the positions, then the steps, in three dimensions.
_WINDOW = "long long size[3], kernel[3], count[3], dilation[3], padding[3], stride[3];"

_SOURCES = {
    "im2col": (
        f"struct Arguments {{ long long n; const S* x; S* out; {_WINDOW} }};{_BEGIN}"
        + """
    long long at[3];
    for (int d = 2; d >= 0; --d) { at[d] = rest % (unsigned)a.count[d] * a.stride[d] - a.padding[d]; rest /= (unsigned)a.count[d]; }
    bool inside = true;
    for (int d = 2; d >= 0; --d) {
        at[d] += rest % (unsigned)a.kernel[d] * a.dilation[d];
        rest /= (unsigned)a.kernel[d];
        inside = inside && at[d] >= 0 && at[d] < a.size[d];
    }
    a.out[i] = inside ? a.x[(((long long)rest * a.size[0] + at[0]) * a.size[1] + at[1]) * a.size[2] + at[2]] : S{};
}
""",
        "21q",
    ),
    "col2im": (
        f"struct Arguments {{ long long n; const S* x; S* out; {_WINDOW} }};{_BEGIN}"
        + """
    long long at[3];
    for (int d = 2; d >= 0; --d) { at[d] = rest % (unsigned)a.size[d] + a.padding[d]; rest /= (unsigned)a.size[d]; }
    const long long places = a.count[0] * a.count[1] * a.count[2];
    const S* const x = a.x + (long long)rest * a.kernel[0] * a.kernel[1] * a.kernel[2] * places;
    T total = 0;
    for (int p = 0; p < a.kernel[0]; ++p) {
        const long long u = at[0] - p * a.dilation[0];
        if (u < 0 || u % a.stride[0] || u / a.stride[0] >= a.count[0]) continue;
        for (int q = 0; q < a.kernel[1]; ++q) {
            const long long v = at[1] - q * a.dilation[1];
            if (v < 0 || v % a.stride[1] || v / a.stride[1] >= a.count[1]) continue;
            for (int r = 0; r < a.kernel[2]; ++r) {
                const long long w = at[2] - r * a.dilation[2];
                if (w < 0 || w % a.stride[2] || w / a.stride[2] >= a.count[2]) continue;
                const long long tap = (p * a.kernel[1] + q) * a.kernel[2] + r;
                const long long place = (u / a.stride[0] * a.count[1] + v / a.stride[1]) * a.count[2] + w / a.stride[2];
                total += wide(x[tap * places + place]);
            }
        }
    }
    put(a.out[i], total);
}
""",
        "21q",
    ),
    "triangle": (
        f"struct Arguments {{ long long n; const S* x; S* out; long long rows, columns, diagonal, upper; }};{_BEGIN}"
        + """
    const long long across = rest % (unsigned)a.columns, down = rest / (unsigned)a.columns % (unsigned)a.rows;
    const long long over = across - down - a.diagonal;
    a.out[i] = (a.upper ? over >= 0 : over <= 0) ? a.x[i] : S{};
}
""",
        "7q",
    ),
    "pairs": (
        f"struct Arguments {{ long long n; const S* x; S* out; long long points, back; }};{_BEGIN}"
        + """
    const long long points = a.points, k = rest % (unsigned)points, j = rest / (unsigned)points % (unsigned)points;
    const long long block = rest / (unsigned)points / (unsigned)points;
    const long long place = block * (points * (points - 1) / 2) + j * points - j * (j + 1) / 2 + k - j - 1;
    if (a.back) a.out[i] = k > j ? a.x[place] : S{};
    else if (k > j) a.out[place] = a.x[i];
}
""",
        "5q",
    ),
    "cross": (
        f"struct Arguments {{ long long n; const S* x; const S* y; S* out; long long inner; }};{_BEGIN}"
        + """
    const long long first = rest / (unsigned)a.inner * 3 * a.inner + rest % (unsigned)a.inner;
    const T x0 = wide(a.x[first]), x1 = wide(a.x[first + a.inner]), x2 = wide(a.x[first + 2 * a.inner]);
    const T y0 = wide(a.y[first]), y1 = wide(a.y[first + a.inner]), y2 = wide(a.y[first + 2 * a.inner]);
    put(a.out[first], x1 * y2 - x2 * y1);
    put(a.out[first + a.inner], x2 * y0 - x0 * y2);
    put(a.out[first + 2 * a.inner], x0 * y1 - x1 * y0);
}
""",
        "5q",
    ),
}


@functools.lru_cache(maxsize=128)
def _moving(name: str, item: int, device: int) -> launch.Kernel:
    """Return a kernel that moves elements of some size."""
    body, layout = _SOURCES[name]
    return launch.Kernel(f"{PRELUDE}typedef {_OPAQUE[item]} S;\n{body}", layout)


@functools.lru_cache(maxsize=32)
def _computing(name: str, char: str, device: int) -> launch.Kernel:
    """Return a kernel that computes with elements of a dtype."""
    body, layout = _SOURCES[name]
    return launch.Kernel(f"{PRELUDE}typedef {COMPUTED[char]} T; typedef {STORED[char]} S;\n{body}", layout)


def _start(kernel: launch.Kernel, count: int, *words: int) -> None:
    kernel(-(-count // THREADS), THREADS, count, *words)


# ----- patches --------------------------------------------------------------------------------------------------------


@functools.lru_cache(maxsize=512)
def _window(
    sizes: tuple[int, ...], kernel: tuple[int, ...], dilation: tuple[int, ...], padding: tuple[int, ...], stride: tuple[int, ...]
) -> tuple[tuple[int, ...], tuple[int, ...]]:
    """Return the numbers of positions, and the words of a window in three dimensions."""
    counts = tuple(
        [(s + 2 * p - d * (k - 1) - 1) // t + 1 for s, k, d, p, t in zip(sizes, kernel, dilation, padding, stride, strict=True)]
    )
    missing = _MOST_DIMS - len(sizes)
    ones, zeros = (1,) * missing, (0,) * missing
    words = (*ones, *sizes, *ones, *kernel, *ones, *counts, *ones, *dilation, *zeros, *padding, *ones, *stride)
    return counts, words


def _settings(settings: dict[str, Any]) -> list[tuple[int, ...]]:
    return [tuple(settings[name]) for name in ("kernel", "dilation", "padding", "stride")]


def im2col(operands: tuple[Any, ...], settings: dict[str, Any]) -> Any:
    """Return the patches of images as columns; None if they are left to CuPy."""
    x = operands[0]
    if not 3 <= x.ndim <= 2 + _MOST_DIMS or x.dtype.itemsize not in _OPAQUE:
        return None
    kernel, dilation, padding, stride = _settings(settings)
    counts, words = _window(x.shape[2:], kernel, dilation, padding, stride)
    shape = (x.shape[0], x.shape[1] * prod(kernel), prod(counts))
    count = prod(shape)
    if not 0 < count < LARGEST or not 0 < x.size < LARGEST or min(counts) < 1:
        return None
    x, out = in_order(x), launch.new(shape, x.dtype)
    _start(_moving("im2col", x.dtype.itemsize, x.data.device_id), count, x.data.ptr, out.data.ptr, *words)
    return out


def col2im(operands: tuple[Any, ...], settings: dict[str, Any]) -> Any:
    """Return images as sums of the columns of their patches; None if they are left to CuPy."""
    x, sizes = operands[0], tuple(settings["sizes"])
    if x.ndim != 3 or len(sizes) > _MOST_DIMS or x.dtype.char not in COMPUTED:
        return None
    kernel, dilation, padding, stride = _settings(settings)
    counts, words = _window(sizes, kernel, dilation, padding, stride)
    shape = (x.shape[0], x.shape[1] // prod(kernel), *sizes)
    count = prod(shape)
    if not 0 < count < LARGEST or not 0 < x.size < LARGEST or min(counts) < 1 or prod(counts) != x.shape[2]:
        return None
    x, out = in_order(x), launch.new(shape, x.dtype)
    _start(_computing("col2im", x.dtype.char, x.data.device_id), count, x.data.ptr, out.data.ptr, *words)
    return out


# ----- matrices -------------------------------------------------------------------------------------------------------


def _triangle(operands: tuple[Any, ...], settings: dict[str, Any], upper: bool) -> Any:
    x = operands[0]
    if x.ndim < 2 or not 0 < x.size < LARGEST or x.dtype.itemsize not in _OPAQUE:
        return None
    x, out = in_order(x), launch.new(x.shape, x.dtype)
    words = x.data.ptr, out.data.ptr, x.shape[-2], x.shape[-1], settings["diagonal"], upper
    _start(_moving("triangle", x.dtype.itemsize, x.data.device_id), x.size, *words)
    return out


def tril(operands: tuple[Any, ...], settings: dict[str, Any]) -> Any:
    """Return lower triangles; None if they are left to CuPy."""
    return _triangle(operands, settings, False)


def triu(operands: tuple[Any, ...], settings: dict[str, Any]) -> Any:
    """Return upper triangles; None if they are left to CuPy."""
    return _triangle(operands, settings, True)


def _move_pairs(x: Any, points: int, shape: tuple[int, ...], count: int, back: bool) -> Any:
    if points < 2 or not 0 < count < LARGEST or x.dtype.itemsize not in _OPAQUE:
        return None
    x, out = in_order(x), launch.new(shape, x.dtype)
    _start(_moving("pairs", x.dtype.itemsize, x.data.device_id), count, x.data.ptr, out.data.ptr, points, back)
    return out


def pairs(operands: tuple[Any, ...], settings: dict[str, Any]) -> Any:
    """Return the entries above the diagonal; None if they are left to CuPy."""
    x = operands[0]
    points = x.shape[-1]
    return _move_pairs(x, points, (*x.shape[:-2], points * (points - 1) // 2), x.size, False)


def from_pairs(operands: tuple[Any, ...], settings: dict[str, Any]) -> Any:
    """Return matrices with given entries above the diagonal; None if they are left to CuPy."""
    x, points = operands[0], settings["count"]
    shape = (*x.shape[:-1], points, points)
    return _move_pairs(x, points, shape, prod(shape), True)


# ----- vectors --------------------------------------------------------------------------------------------------------


def cross(operands: tuple[Any, ...], settings: dict[str, Any]) -> Any:
    """Return cross products of vectors of one shape; None if they are left to CuPy."""
    x, y = operands
    if x.__class__ is not y.__class__ or x.shape != y.shape or x.dtype != y.dtype or x.dtype.char not in COMPUTED:
        return None
    dim = settings["dim"]
    if not 0 < x.size < LARGEST or not 0 <= dim < x.ndim or x.shape[dim] != 3:
        return None
    x, y, out = in_order(x), in_order(y), launch.new(x.shape, np.dtype(x.dtype))
    words = x.data.ptr, y.data.ptr, out.data.ptr, prod(x.shape[dim + 1 :])
    _start(_computing("cross", x.dtype.char, x.data.device_id), x.size // 3, *words)
    return out
