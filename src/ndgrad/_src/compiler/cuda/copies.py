"""Copies on a device, from any layout to any other: casts between floating dtypes, contiguous copies, and gradients
added to parts of arrays.

CuPy's copies move one element at a time; these move 16 bytes if both layouts allow it.
"""

from __future__ import annotations

import functools
from math import prod
from typing import Any

import numpy as np

from ndgrad._src.arrays import library
from ndgrad._src.compiler.cuda import launch
from ndgrad._src.compiler.cuda.elementwise import BYTES, LARGEST, MOST_DIMS, THREADS, walk
from ndgrad._src.compiler.cuda.values import COMPUTED, PRELUDE, STORED

#: Types that are moved without conversion, by their sizes in bytes.
_OPAQUE = {1: "unsigned char", 2: "unsigned short", 4: "unsigned int", 8: "unsigned long long"}
#: The dtype that stands for all dtypes of a size.
_BY_SIZE = {1: "B", 2: "H", 4: "I", 8: "Q"}
#: Types of integers, which are converted to and from floats and each other as in C.
_INTEGERS = {
    **dict.fromkeys("b", "signed char"), "h": "short", "i": "int", **dict.fromkeys("lq", "long long"),
    "B": "unsigned char", "H": "unsigned short", "I": "unsigned int", **dict.fromkeys("LQ", "unsigned long long"),
}  # fmt: skip
_REAL = {*COMPUTED, *_INTEGERS, "?"}


@functools.lru_cache(maxsize=256)
def _kernel(to: str, given: str, dims: int, width: int, adds: bool, device: int) -> launch.Kernel:
    return launch.Kernel(source(to, given, dims, width, adds), f"3q{dims}I{2 * dims}i0q", THREADS)


def source(to: str, given: str, dims: int, width: int, adds: bool) -> str:
    """Return the text of a kernel from one dtype to another, over so many dimensions, so many elements at a time."""
    types = [STORED.get(char) or _OPAQUE[np.dtype(char).itemsize] for char in (to, given)]
    if to in COMPUTED and given in COMPUTED:
        value = "wide(t.at[k]) + wide(x.at[k])" if adds else "wide(x.at[k])"
        step = f"put(t.at[k], {value});"
    elif to != given:
        types = [STORED.get(char) or _INTEGERS[char] for char in (to, given)]
        value = "wide(x.at[k])" if given in COMPUTED else "x.at[k]"
        if to in COMPUTED:
            step = f"put(t.at[k], ({COMPUTED[to]}){value});"
        else:
            step = f"t.at[k] = {f'{value} != 0' if to == '?' else f'({types[0]}){value}'};"
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


def _move(
    to: int, given: int, shape: tuple[int, ...], to_strides: tuple[int, ...], given_strides: tuple[int, ...], like: Any
) -> bool:
    """Copy elements of one dtype between two addresses, with strides in bytes. Return False if it is not supported.

    `like` is an array of the same dtype and device. Views made by CuPy would take longer than the copy.
    """
    if 0 in shape:
        return True
    asked = _find_kernel(
        (shape, to_strides, like.dtype), (shape, given_strides, like.dtype), False, like.data.device_id,
        _aligned(to), _aligned(given),
    )  # fmt: skip
    if asked is None:
        return False
    kernel, count, words = asked
    kernel(-(-count // THREADS), THREADS, count, to, given, *words)
    return True


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
    are_real = chars[0] in _REAL and chars[1] in _REAL
    if not floats and (adds or (to[2] != given[2] and not are_real) or to[2].itemsize not in _OPAQUE):
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
    if chars[0] == chars[1] and not adds:  # one kernel for all dtypes of a size
        chars = (_BY_SIZE[items[0]],) * 2
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
extern "C" __global__ void kernel(const Arguments a) {{
    put(*a.out, ({COMPUTED[char]})1);
}}
""",
        "q",
    )


#: Dtypes of counters -> their types in C.
COUNTS = {"i": "int", "l": "long long", "q": "long long"}


def count_up(array: Any, others: tuple[Any, ...]) -> bool:
    """Add a Python integer to an array of integers, in place. Return False for other operands."""
    if len(others) != 1 or others[0].__class__ is not int or not array._c_contiguous or not array.size:
        return False
    if not -(1 << 31) <= others[0] < 1 << 31:
        return False
    count = array.size
    _counting(array.dtype.char, array.data.device_id)(-(-count // THREADS), THREADS, count, array.data.ptr, others[0])
    return True


@functools.lru_cache(maxsize=16)
def _counting(char: str, device: int) -> launch.Kernel:
    return launch.Kernel(
        f"""
struct Arguments {{ long long n; {COUNTS[char]}* x; long long step; }};
extern "C" __global__ void kernel(const Arguments a) {{
    const long long i = (long long)blockIdx.x * {THREADS} + threadIdx.x;
    if (i < a.n) a.x[i] += ({COUNTS[char]})a.step;
}}
""",
        "3q",
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
    out = launch.new(x.shape, dtype) if x._c_contiguous else _new_in_order_of(x, dtype)
    return out if copy_into(out, x) else None


def clone(operands: tuple[Any, ...], settings: dict[str, Any]) -> Any:
    """Return a copy in the same order in memory; None if it is left to CuPy."""
    x = operands[0]
    out = launch.new(x.shape, x.dtype) if x._c_contiguous or 0 in x.strides else _new_in_order_of(x, x.dtype)
    return out if copy_into(out, x) else None


def _new_in_order_of(x: Any, dtype: np.dtype[Any]) -> Any:
    """Return a new dense array whose dimensions are in the order of those of x in memory, as CuPy's copies have it."""
    memory = launch.allocate(x.size * dtype.itemsize)
    return library.device_library.ndarray(x.shape, dtype, memory, _ordered_strides(x.shape, x.strides, dtype.itemsize))


@functools.lru_cache(maxsize=4096)
def _ordered_strides(shape: tuple[int, ...], strides: tuple[int, ...], item: int) -> tuple[int, ...]:
    found = [0] * len(shape)
    for d in sorted(range(len(shape)), key=lambda d: (abs(strides[d]), -d)):
        found[d] = item
        item *= shape[d]
    return tuple(found)


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



# ----- ops that only move elements -------------------------------------------------------------------------------------


def _have_one_kind(arrays: tuple[Any, ...]) -> bool:
    """True if arrays have one dtype, one number of dimensions and one device."""
    x = arrays[0]
    for y in arrays:
        if y.__class__ is not x.__class__ or y.dtype != x.dtype or y.ndim != x.ndim:
            return False
        if y.data.device_id != x.data.device_id:
            return False
    return True


def cat(arrays: tuple[Any, ...], settings: dict[str, Any]) -> Any:
    """Return arrays side by side along a dimension; None if it is left to CuPy."""
    if not _have_one_kind(arrays) or not arrays[0].ndim:
        return None
    first, dim = arrays[0].shape, settings["dim"]
    before, behind = first[:dim], first[dim + 1 :]
    for x in arrays:
        shape = x.shape
        if shape[:dim] != before or shape[dim + 1 :] != behind:
            return None  # CuPy raises the error
    out = launch.new((*before, sum(x.shape[dim] for x in arrays), *behind), arrays[0].dtype)
    strides, place = out.strides, out.data.ptr
    for x in arrays:
        if not _move(place, x.data.ptr, x.shape, strides, x.strides, x):
            return None
        place += x.shape[dim] * strides[dim]
    return out


def stack(arrays: tuple[Any, ...], settings: dict[str, Any]) -> Any:
    """Return arrays along a new dimension; None if it is left to CuPy."""
    dim, shape = settings["dim"], arrays[0].shape
    if not _have_one_kind(arrays) or not 0 <= dim <= len(shape) or any(x.shape != shape for x in arrays):
        return None
    out = launch.new((*shape[:dim], len(arrays), *shape[dim:]), arrays[0].dtype)
    strides, place = out.strides, out.data.ptr
    others = (*strides[:dim], *strides[dim + 1 :])
    for x in arrays:
        if not _move(place, x.data.ptr, shape, others, x.strides, x):
            return None
        place += strides[dim]
    return out


def _copy_reversed(x: Any, dims: tuple[int, ...], order: tuple[int, ...]) -> Any:
    """Return a copy of an array in reverse along some dimensions, its dimensions then in another order."""
    shape, strides, place = x.shape, list(x.strides), x.data.ptr
    for d in dims:
        place += (shape[d] - 1) * strides[d]
        strides[d] = -strides[d]
    sizes = tuple([shape[d] for d in order])
    out = launch.new(sizes, x.dtype)
    return out if _move(out.data.ptr, place, sizes, out.strides, tuple([strides[d] for d in order]), x) else None


def _as_dims(dims: Any, ndim: int) -> tuple[int, ...] | None:
    """Return different dimensions, counted from the first; None if some do not exist."""
    found = tuple([d + ndim if d < 0 else d for d in ((dims,) if dims.__class__ is int else dims)])
    return found if len({*found}) == len(found) and all(0 <= d < ndim for d in found) else None


def flip(operands: tuple[Any, ...], settings: dict[str, Any]) -> Any:
    """Return a copy in reverse along some dimensions; None if it is left to CuPy."""
    x = operands[0]
    dims = _as_dims(settings["dims"], x.ndim)
    return None if dims is None or not x.size else _copy_reversed(x, dims, tuple(range(x.ndim)))


def rot90(operands: tuple[Any, ...], settings: dict[str, Any]) -> Any:
    """Return a copy rotated by quarter turns in the plane of two dimensions; None if it is left to CuPy."""
    x, turns = operands[0], settings["k"] % 4
    dims = _as_dims(settings["dims"], x.ndim)
    if dims is None or len(dims) != 2 or not x.size:
        return None
    first, second = dims
    order = list(range(x.ndim))
    if turns % 2:
        order[first], order[second] = second, first
    return _copy_reversed(x, ((), (second,), (first, second), (first,))[turns], tuple(order))


def roll(operands: tuple[Any, ...], settings: dict[str, Any]) -> Any:
    """Return a copy shifted along one dimension, or flattened and shifted; None if it is left to CuPy."""
    x, shifts, dims = operands[0], settings["shifts"], settings["dims"]
    if len(shifts) != 1 or not x.size or not x._c_contiguous:
        return None
    shape = x.shape
    if dims is None:
        shape, strides, dim = (x.size,), (x.dtype.itemsize,), 0
    elif len(dims) == 1 and -x.ndim <= dims[0] < x.ndim:
        strides, dim = x.strides, dims[0] % x.ndim
    else:
        return None
    out = launch.new(x.shape, x.dtype)
    length, step = shape[dim], strides[dim]
    shift = shifts[0] % length
    to, given = out.data.ptr, x.data.ptr
    for there, here, count in ((shift, 0, length - shift), (0, length - shift, shift)):
        part = (*shape[:dim], count, *shape[dim + 1 :])
        if not _move(to + there * step, given + here * step, part, strides, strides, x):
            return None
    return out


def repeat(operands: tuple[Any, ...], settings: dict[str, Any]) -> Any:
    """Return copies end to end along each dimension; None if it is left to CuPy."""
    x, repeats = operands[0], settings["repeats"]
    more = len(repeats) - x.ndim
    if more < 0 or not x.size or 0 in repeats:
        return None
    own_shape, own_strides = (*(1,) * more, *x.shape), (*(0,) * more, *x.strides)
    shape = tuple([n for pair in zip(repeats, own_shape, strict=True) for n in pair])
    given = tuple([s for stride in own_strides for s in (0, stride)])
    return _copy_strided(x, shape, given, tuple([r * n for r, n in zip(repeats, own_shape, strict=True)]))


def repeat_interleave(operands: tuple[Any, ...], settings: dict[str, Any]) -> Any:
    """Return each slice along a dimension several times in a row; None if it is left to CuPy."""
    x, repeats, dim = operands[0], settings["repeats"], settings["dim"]
    count = _one_number(repeats)
    if not count or len(repeats) != x.shape[dim] or not x.size:
        return None
    shape = (*x.shape[: dim + 1], count, *x.shape[dim + 1 :])
    given = (*x.strides[: dim + 1], 0, *x.strides[dim + 1 :])
    return _copy_strided(x, shape, given, (*x.shape[:dim], x.shape[dim] * count, *x.shape[dim + 1 :]))


def _one_number(repeats: Any) -> int:
    """Return the number that all slices are repeated; 0 if there are several."""
    if repeats.__class__ is not tuple or not repeats:
        return 0
    return repeats[0] if repeats.count(repeats[0]) == len(repeats) else 0


def _copy_strided(x: Any, shape: tuple[int, ...], strides: tuple[int, ...], wanted: tuple[int, ...]) -> Any:
    """Return a copy of elements read with other strides, in a wanted shape."""
    out = launch.new(wanted, x.dtype)
    steps, step = [], x.dtype.itemsize
    for n in reversed(shape):
        steps.append(step)
        step *= n
    return out if _move(out.data.ptr, x.data.ptr, shape, tuple(reversed(steps)), strides, x) else None


def slice_backward(operands: tuple[Any, ...], settings: dict[str, Any]) -> Any:
    """Return zeros with an array in a range of one dimension; None if it is left to CuPy."""
    x, shape, dim = operands[0], tuple(settings["shape"]), settings["dim"]
    start, stop, step = slice(settings["start"], settings["stop"], settings["step"]).indices(shape[dim])
    if not x.size or x.shape != (*shape[:dim], len(range(start, stop, step)), *shape[dim + 1 :]):
        return None
    return _place_in_zeros(x, shape, x.shape, dim, start, step)


def select_backward(operands: tuple[Any, ...], settings: dict[str, Any]) -> Any:
    """Return zeros with an array at one place of a dimension; None if it is left to CuPy."""
    x, shape, dim, index = operands[0], tuple(settings["shape"]), settings["dim"], settings["index"]
    if index.__class__ is not int or not x.size or x.shape != (*shape[:dim], *shape[dim + 1 :]):
        return None
    return _place_in_zeros(x, shape, None, dim, index % shape[dim], 0)


def _place_in_zeros(
    x: Any, shape: tuple[int, ...], part: tuple[int, ...] | None, dim: int, start: int, step: int
) -> Any:
    """Return zeros with x from `start` on in one dimension, which x lacks if `part` is None."""
    out = make_filled(shape, 0, x.dtype)
    if out is None:
        return None
    strides, place = out.strides, out.data.ptr + start * out.strides[dim]
    others = (*strides[:dim], *(() if part is None else (strides[dim] * step,)), *strides[dim + 1 :])
    return out if _move(place, x.data.ptr, x.shape, others, x.strides, x) else None
