"""Copies on a device, from any layout to any other: casts between floating dtypes, contiguous copies, and gradients
added to parts of arrays.

CuPy's copies move one element at a time; these move 16 bytes if both layouts allow it.
"""

from __future__ import annotations

import functools
from math import prod
from typing import Any

import numpy as np

from ndgrad._src.compiler.cuda import launch
from ndgrad._src.compiler.cuda.elementwise import BYTES, LARGEST, MOST_DIMS, THREADS, walk
from ndgrad._src.compiler.cuda.values import COMPUTED, PRELUDE, STORED

#: Types that are moved without conversion, by their sizes in bytes.
_OPAQUE = {1: "unsigned char", 2: "unsigned short", 4: "unsigned int", 8: "unsigned long long"}


@functools.lru_cache(maxsize=256)
def _kernel(to: str, given: str, dims: int, width: int, adds: bool, device: int) -> launch.Kernel:
    return launch.Kernel(source(to, given, dims, width, adds), f"3q{dims}I{2 * dims}i0q", THREADS)


def source(to: str, given: str, dims: int, width: int, adds: bool) -> str:
    """Return the text of a kernel from one dtype to another, over so many dimensions, so many elements at a time."""
    types = [STORED.get(char) or _OPAQUE[np.dtype(char).itemsize] for char in (to, given)]
    if to in COMPUTED and given in COMPUTED:
        value = "wide(t.at[k]) + wide(x.at[k])" if adds else "wide(x.at[k])"
        step = f"put(t.at[k], {value});"
    else:
        step = "t.at[k] = x.at[k];"
    walk = []
    for d in reversed(range(dims)):
        walk.append(f"at = rest % a.sizes[{d}]; rest /= a.sizes[{d}];" if d else "at = rest;")
        walk += [f"{name} += (long long)at * a.strides[{i}][{d}];" for i, name in enumerate(("there", "here"))]
    lines = "\n    ".join(walk)
    return f"""{PRELUDE}typedef Pack<{types[0]}, {width}> To; typedef Pack<{types[1]}, {width}> From;
struct Arguments {{ long long n; To* to; const From* from; unsigned int sizes[{dims}]; int strides[2][{dims}]; }};
extern "C" __global__ void __launch_bounds__({THREADS}) kernel(const Arguments a) {{
    const long long i = (long long)blockIdx.x * {THREADS} + threadIdx.x;
    if (i >= a.n) return;
    unsigned int rest = (unsigned int)i, at;
    long long there = 0, here = 0;
    {lines}
    const From x = a.from[here];
    To t{" = a.to[there]" if adds else ""};
    #pragma unroll
    for (int k = 0; k < {width}; ++k) {step}
    a.to[there] = t;
}}
"""


def copy_into(to: Any, given: Any, adds: bool = False) -> bool:
    """Write an array's elements over another one's, or add them. Return False if it is not supported here. `given`
    broadcasts.
    """
    places = to.data.ptr, given.data.ptr
    asked = _find_kernel(
        (to.shape, to.strides, to.dtype), (given.shape, given.strides, given.dtype), adds, to.data.device_id,
        _aligned(places[0]), _aligned(places[1]),
    )  # fmt: skip
    if asked is None:
        return False
    kernel, count, words = asked
    kernel(-(-count // THREADS), THREADS, count, *places, *words)
    return True


_Lies = tuple[tuple[int, ...], tuple[int, ...], Any]


def _aligned(place: int) -> int:
    """Return the alignment of an address as a power of two, up to the bytes that a thread moves at a time."""
    return min(BYTES, place & -place) or BYTES


@functools.lru_cache(maxsize=4096)
def _find_kernel(
    to: _Lies, given: _Lies, adds: bool, device: int, to_alignment: int, given_alignment: int
) -> tuple[launch.Kernel, int, tuple[int, ...]] | None:
    """Return the kernel for arrays of such shapes, strides and dtypes, its threads, and the words after the addresses;
    None if there is none.
    """
    chars, count = (to[2].char, given[2].char), prod(to[0])
    floats = chars[0] in COMPUTED and chars[1] in COMPUTED
    if floats and "d" in chars and ("e" in chars or "E" in chars):
        return None  # via single precision it would be rounded twice
    if not floats and (adds or to[2] != given[2] or to[2].itemsize not in _OPAQUE):
        return None
    if not 0 < count < LARGEST or len(given[0]) > len(to[0]):
        return None
    items = to[2].itemsize, given[2].itemsize
    sizes, strides = walk(to[0], ((*to[:2], items[0]), (*given[:2], items[1])))
    if len(sizes) > MOST_DIMS:
        return None
    width = _width(sizes, strides, (to_alignment, given_alignment), items)
    if width > 1:
        sizes = [*sizes[:-1], sizes[-1] // width]
        strides = [[*[s // width for s in row[:-1]], 1] for row in strides]
    if max(abs(s) for row in strides for s in row) >= LARGEST:
        return None
    kernel = _kernel(*chars, len(sizes), width, adds, device)
    return kernel, count // width, (*sizes, *strides[0], *strides[1])


def _width(sizes: list[int], strides: list[list[int]], alignments: tuple[int, int], items: tuple[int, int]) -> int:
    """Return the number of elements that a thread moves at a time: 16 bytes of the wider dtype, fewer, or one."""
    if any(row[-1] != 1 for row in strides):
        return 1
    width = BYTES // max(items)
    while width > 1:
        together = all(n % width == 0 for n in (sizes[-1], *[s for row in strides for s in row[:-1]]))
        if together and all(found % (width * item) == 0 for found, item in zip(alignments, items, strict=True)):
            return width
        width //= 2
    return 1


def scalar_one(dtype: np.dtype[Any], device: int) -> Any:
    """Return a new array without dimensions that holds 1; None if it is left to CuPy."""
    if dtype.char not in COMPUTED:
        return None
    out = launch.new((), dtype)
    _one(dtype.char, device)(1, 1, out.data.ptr)
    return out


@functools.lru_cache(maxsize=64)
def _one(char: str, device: int) -> launch.Kernel:
    return launch.Kernel(
        f"""{PRELUDE}
struct Arguments {{ {STORED[char]}* out; }};
extern "C" __global__ void kernel(const Arguments a) {{ put(*a.out, ({COMPUTED[char]})1); }}
""",
        "q",
    )


_FILL = """
struct Arguments {{ long long n; {some}* out; unsigned long long bits; }};
extern "C" __global__ void __launch_bounds__({threads}) kernel(const Arguments a) {{
    const long long first = ((long long)blockIdx.x * {threads} + threadIdx.x) * {width};
    const {some} value = *(const {some}*)&a.bits;
    if (first + {width} <= a.n) {{
        Pack<{some}, {width}> pack;
        #pragma unroll
        for (int k = 0; k < {width}; ++k) pack.at[k] = value;
        *(Pack<{some}, {width}>*)(a.out + first) = pack;
    }} else for (long long i = first; i < a.n; ++i) a.out[i] = value;
}}
"""


@functools.lru_cache(maxsize=64)
def _filling(item: int, device: int) -> launch.Kernel:
    code = PRELUDE + _FILL.format(some=_OPAQUE[item], threads=THREADS, width=BYTES // item)
    return launch.Kernel(code, "2qQ", THREADS * (BYTES // item))


@functools.lru_cache(maxsize=256)
def _bits(value: Any, dtype: np.dtype[Any]) -> int | None:
    """Return the bits of a number, or of a float in text, as an unsigned integer; None if they are left to CuPy."""
    if dtype.itemsize not in _OPAQUE or dtype.hasobject:
        return None
    try:
        number = np.array(float(value) if value.__class__ is str else value, dtype)
    except OverflowError:  # CuPy raises the error, or wraps the number
        return None
    return int.from_bytes(number.tobytes(), "little")


def make_filled(shape: tuple[int, ...], value: Any, dtype: np.dtype[Any]) -> Any:
    """Return a new array full of one number; None if it is left to CuPy."""
    item = dtype.itemsize
    bits = _bits(repr(value) if value.__class__ is float else value, dtype)  # the text tells -0.0 from 0.0
    if bits is None:
        return None
    out = launch.new(shape, dtype)
    count = out.size
    if count and not bits:
        out.data.memset_async(0, count * item)
    elif count:
        kernel = _filling(item, out.data.device_id)
        kernel(-(-count // kernel.grain), THREADS, count, out.data.ptr, bits)
    return out


def copy_of(x: Any) -> Any:
    """Return a contiguous copy; None if it is left to CuPy."""
    out = launch.new(x.shape, x.dtype)
    return out if not x.size or copy_into(out, x) else None


# ----- ops ------------------------------------------------------------------------------------------------------------


def cast(operands: tuple[Any, ...], settings: dict[str, Any]) -> Any:
    """Return an array in another dtype, in the same order in memory; None if it is left to CuPy."""
    x, dtype = operands[0], np.dtype(settings["dtype"])
    if not x._c_contiguous:
        return None
    out = launch.new(x.shape, dtype)
    return out if copy_into(out, x) else None


def clone(operands: tuple[Any, ...], settings: dict[str, Any]) -> Any:
    """Return a copy in the same order in memory; None if it is left to CuPy."""
    x = operands[0]
    if not x._c_contiguous and 0 not in x.strides:
        return None
    out = launch.new(x.shape, x.dtype)
    return out if copy_into(out, x) else None


def unsafe_view(operands: tuple[Any, ...], settings: dict[str, Any]) -> Any:
    """Return a contiguous copy, of another shape; None if it is left to CuPy."""
    x, shape = operands[0], settings["shape"]
    out = launch.new(x.shape, x.dtype)
    return launch.shaped(out, tuple(shape)) if copy_into(out, x) else None


def reshape(operands: tuple[Any, ...], settings: dict[str, Any]) -> Any:
    """Return the copy that a new shape needs if strides allow no view; None for views, which are left to CuPy."""
    x, shape = operands[0], settings["shape"]
    if x._c_contiguous or not x.size or _is_view(x.shape, x.strides, tuple(shape)):
        return None
    return unsafe_view(operands, settings)


@functools.lru_cache(maxsize=4096)
def _is_view(shape: tuple[int, ...], strides: tuple[int, ...], wanted: tuple[int, ...]) -> bool:
    """True if an array with this layout has a view of another shape.

    Each run of dimensions that can be merged must be a product of consecutive new sizes.
    """
    runs: list[tuple[int, int]] = []
    for n, step in zip(shape, strides, strict=True):
        if runs and runs[-1][1] == n * step:
            runs[-1] = (runs[-1][0] * n, step)
        elif n != 1:
            runs.append((n, step))
    left = [n for n in reversed(wanted) if n != 1]
    for size, _ in runs:
        found = 1
        while found < size and left:
            found *= left.pop()
        if found != size:
            return False
    return True


def in_order(x: Any) -> Any:
    """Return an array without gaps: itself, or a copy."""
    if x._c_contiguous:
        return x
    out = launch.new(x.shape, x.dtype)
    return out if copy_into(out, x) else x.copy(order="C")

