"""Sorting and selection on a device: sort, argsort, topk, kthvalue and medians.

An array is a number of lines along one dimension. An element becomes a key, an unsigned number in the order of the
elements. All NaN have the largest key, and both zeros have one key. Elements are compared by (key, position), so
every order is stable. Values are read again at the positions found.

Sorting: a block sorts a tile in shared memory by a bitonic network. Longer lines are merged, tile by tile, then run by
run; a thread finds its part of two runs by bisection.

Selection: a block finds the key of rank k digit by digit, by counting the elements that agree with the digits found so
far. If several elements have this key, it continues with the digits of positions. So the k elements up to that one
are known, and only they are sorted.
"""

from __future__ import annotations

import functools
import math
from typing import Any

import numpy as np

from ndgrad._src.compiler.cuda import launch
from ndgrad._src.compiler.cuda.copies import in_order
from ndgrad._src.compiler.cuda.values import PRELUDE, STORED

#: Types of keys: 64 bits for elements of 8 bytes, else 32 bits.
_INTEGERS = {
    "b": "signed char", "B": "unsigned char", "h": "short", "H": "unsigned short", "i": "int", "I": "unsigned int",
    "l": "long long", "q": "long long", "L": "unsigned long long", "Q": "unsigned long long", "?": "bool",
}  # fmt: skip
_THREADS = 256
#: Bytes of a tile in shared memory; elements that a thread merges; most elements that are selected and then sorted.
_TILE_BYTES, _MERGED, _MOST_SELECTED = 32 << 10, 8, 2048
#: Length of lines from which a block that selects has 1,024 threads. Most elements: positions have 32 bits.
_LONG, _LARGEST = 1 << 14, 1 << 31

_KEYS = """
struct Arguments {
    long long lines, length, inner, tiles, width, descending, last, rank, count, rule;
    const S* x; S* values; long long* places; Key* keys; unsigned int* order; const Key* from_keys; const unsigned int* from_order;
};
struct Item { Key key; unsigned int place; };
__device__ inline bool before(Item a, Item b) { return a.key < b.key || (a.key == b.key && a.place < b.place); }
__device__ inline Key key_of(const Arguments& a, long long i) {
    const Key key = plain_key(a.x[i]);
    return a.descending ? (Key)~key : key;
}
__device__ inline long long begin_of(const Arguments& a, long long line) {
    return line / a.inner * a.length * a.inner + line % a.inner;
}
"""

_PLAIN_KEY = {
    "f": """
__device__ inline Key plain_key(S x) {
    const float value = wide(x);
    const unsigned int bits = __float_as_uint(value == 0 ? 0.0f : value);
    return value != value ? ~0u : bits >> 31 ? ~bits : bits | 0x80000000u;
}
""",
    "d": """
__device__ inline Key plain_key(S x) {
    const double value = x == 0 ? 0.0 : x;
    const unsigned long long bits = __double_as_longlong(value);
    return value != value ? ~0ull : bits >> 63 ? ~bits : bits | 1ull << 63;
}
""",
    "signed": "__device__ inline Key plain_key(S x) { return (Key)x ^ (Key)1 << (8 * sizeof(Key) - 1); }\n",
    "unsigned": "__device__ inline Key plain_key(S x) { return (Key)x; }\n",
}

# A bitonic network over N items of a group of threads. All threads of the block take part in the barriers.
_NETWORK = """
template <int N, int THREADS_OF_GROUP> __device__ inline void sort_items(Key* keys, unsigned int* order, unsigned int thread) {
    for (unsigned int size = 2; size <= N; size *= 2) {
        for (unsigned int step = size / 2; step; step /= 2) {
            __syncthreads();
            for (unsigned int pair = thread; pair < N / 2; pair += THREADS_OF_GROUP) {
                const unsigned int i = (pair & ~(step - 1)) * 2 + (pair & (step - 1)), j = i + step;
                const Item a = {keys[i], order[i]}, b = {keys[j], order[j]};
                if (before(b, a) == ((i & size) == 0)) {
                    keys[i] = b.key; order[i] = b.place;
                    keys[j] = a.key; order[j] = a.place;
                }
            }
        }
    }
    __syncthreads();
}
"""

_SORT = """
extern "C" __global__ void __launch_bounds__(1024) kernel(const Arguments a) {
    __shared__ Key all_keys[GROUPS * TILE];
    __shared__ unsigned int all_places[GROUPS * TILE];
    const unsigned int group = threadIdx.x / GROUP, thread = threadIdx.x % GROUP;
    Key* const keys = all_keys + group * TILE;
    unsigned int* const order = all_places + group * TILE;
    const long long number = (long long)blockIdx.x * GROUPS + group, line = number / a.tiles;
    const bool inside = line < a.lines;
    const long long first = number % a.tiles * TILE, begin = inside ? begin_of(a, line) : 0;
    for (unsigned int i = thread; i < TILE; i += GROUP) {
        const long long at = first + i;
        keys[i] = inside && at < a.length ? key_of(a, begin + at * a.inner) : (Key)~(Key)0;
        order[i] = (unsigned int)at;
    }
    sort_items<TILE, GROUP>(keys, order, thread);
    if (!inside) return;
    for (unsigned int i = thread; i < TILE; i += GROUP) {
        const long long at = first + i;
        if (at >= a.length) break;
        if (a.last) {
            const long long to = begin + at * a.inner;
            if (a.values) a.values[to] = a.x[begin + (long long)order[i] * a.inner];
            a.places[to] = order[i];
        } else {
            a.keys[line * a.length + at] = keys[i];
            a.order[line * a.length + at] = order[i];
        }
    }
}
"""

_MERGE = """
extern "C" __global__ void __launch_bounds__(256) kernel(const Arguments a) {
    const long long number = (long long)blockIdx.x * 256 + threadIdx.x, parts = (a.length + MERGED - 1) / MERGED;
    const long long line = number / parts;
    if (line >= a.lines) return;
    const long long from = number % parts * MERGED, run = from / (2 * a.width) * 2 * a.width;
    const Key* const keys = a.from_keys + line * a.length;
    const unsigned int* const order = a.from_order + line * a.length;
    const long long middle = run + a.width < a.length ? run + a.width : a.length;
    const long long end = run + 2 * a.width < a.length ? run + 2 * a.width : a.length;
    // The first `low` of the left run and the rest of the right one come before this thread's elements.
    const long long skip = from - run;
    long long low = skip > end - middle ? skip - (end - middle) : 0, high = skip < middle - run ? skip : middle - run;
    while (low < high) {
        const long long half = (low + high) / 2, i = run + half, j = middle + skip - half - 1;
        if (before({keys[j], order[j]}, {keys[i], order[i]})) high = half;
        else low = half + 1;
    }
    long long i = run + low, j = middle + skip - low;
    const long long begin = begin_of(a, line);
    for (long long at = from; at < from + MERGED && at < end; ++at) {
        const bool left = j >= end || (i < middle && before({keys[i], order[i]}, {keys[j], order[j]}));
        const long long taken = left ? i++ : j++;
        if (a.last) {
            const long long to = begin + at * a.inner;
            if (a.values) a.values[to] = a.x[begin + (long long)order[taken] * a.inner];
            a.places[to] = order[taken];
        } else {
            a.keys[line * a.length + at] = keys[taken];
            a.order[line * a.length + at] = order[taken];
        }
    }
}
"""

# rule 1: the first NaN of a line wins; rule 2: the middle of the elements that are not NaN. `count` results of a line
# are those of ranks `rank` - `count` + 1 to `rank`: with count = rank + 1 the first ones, with count = 1 one alone.
_SELECT = """
extern "C" __global__ void __launch_bounds__(1024) kernel(const Arguments a) {
    __shared__ unsigned int counts[256], found, first_nan, nans;
    __shared__ long long rank, equal;
    __shared__ Key keys[KEPT];
    __shared__ unsigned int order[KEPT];
    const long long line = blockIdx.x, begin = begin_of(a, line);
    const unsigned int thread = threadIdx.x, threads = blockDim.x;
    Item limit = {0, ~0u};
    if (thread == 0) { rank = a.rank; equal = a.length; found = nans = 0; first_nan = ~0u; }
    __syncthreads();
    if (a.rule) {
        for (long long i = thread; i < a.length; i += threads)
            if (plain_key(a.x[begin + i * a.inner]) == (Key)~(Key)0 && is_nan(a.x[begin + i * a.inner])) {
                atomicMin(&first_nan, (unsigned int)i);
                atomicAdd(&nans, 1u);
            }
        __syncthreads();
        if (thread == 0 && a.rule == 2) rank = a.length - nans > 0 ? (a.length - nans - 1) / 2 : 0;
        __syncthreads();
    }
    if (a.rule == 1 && nans) {
        if (thread == 0) {
            if (a.values) a.values[line] = a.x[begin + (long long)first_nan * a.inner];
            if (a.places) a.places[line] = first_nan;
        }
        return;
    }
    for (int digit = sizeof(Key) - 1; digit >= 0; --digit) {
        for (unsigned int i = thread; i < 256; i += threads) counts[i] = 0;
        __syncthreads();
        const Key above = digit + 1 == sizeof(Key) ? 0 : (Key)~(Key)0 << 8 * (digit + 1);
        for (long long i = thread; i < a.length; i += threads) {
            const Key key = key_of(a, begin + i * a.inner);
            if ((key & above) == limit.key) atomicAdd(&counts[key >> 8 * digit & 255], 1u);
        }
        __syncthreads();
        if (thread == 0) {
            unsigned int d = 0;
            while (counts[d] <= rank) rank -= counts[d++];
            found = d;
            equal = counts[d];
        }
        __syncthreads();
        limit.key |= (Key)found << 8 * digit;
        __syncthreads();
    }
    if (equal > rank + 1 || (a.count == 1 && equal > 1)) {
        limit.place = 0;
        for (int digit = 3; digit >= 0; --digit) {
            for (unsigned int i = thread; i < 256; i += threads) counts[i] = 0;
            __syncthreads();
            const unsigned int above = digit == 3 ? 0 : ~0u << 8 * (digit + 1);
            for (long long i = thread; i < a.length; i += threads)
                if (key_of(a, begin + i * a.inner) == limit.key && ((unsigned int)i & above) == limit.place)
                    atomicAdd(&counts[(unsigned int)i >> 8 * digit & 255], 1u);
            __syncthreads();
            if (thread == 0) {
                unsigned int d = 0;
                while (counts[d] <= rank) rank -= counts[d++];
                found = d;
            }
            __syncthreads();
            limit.place |= found << 8 * digit;
            __syncthreads();
        }
    }
    if (thread == 0) found = 0;
    for (unsigned int i = thread; i < KEPT; i += threads) { keys[i] = (Key)~(Key)0; order[i] = ~0u; }
    __syncthreads();
    for (long long i = thread; i < a.length; i += threads) {
        const Item item = {key_of(a, begin + i * a.inner), (unsigned int)i};
        if (a.count == 1 ? item.key == limit.key && (item.place == limit.place || limit.place == ~0u) : !before(limit, item)) {
            const unsigned int to = atomicAdd(&found, 1u);
            if (to < KEPT) { keys[to] = item.key; order[to] = item.place; }
        }
    }
    sort_items<KEPT, 0>(keys, order, thread);
    for (long long i = thread; i < a.count; i += threads) {
        const long long to = line / a.inner * a.count * a.inner + line % a.inner + i * a.inner;
        if (a.values) a.values[to] = a.x[begin + (long long)order[i] * a.inner];
        if (a.places) a.places[to] = order[i];
    }
}
"""
_LAYOUT = "10q7q"
_PLACES = np.dtype(np.int64)


def source(part: str, char: str, tile: int, group: int = 0, groups: int = 0) -> str:
    """Return the text of a kernel: "sort" of tiles, "merge" or "select", which keeps up to `tile` elements."""
    stored = STORED[char] if char in "fdeE" else _INTEGERS[char]
    key = "unsigned long long" if np.dtype(char if char != "E" else "e").itemsize == 8 else "unsigned int"
    kind = "d" if char == "d" else "f" if char in "feE" else "signed" if char in "bhilq" else "unsigned"
    nan = "wide(x) != wide(x)" if char in "fdeE" else "false"
    types = (
        f"typedef {stored} S; typedef {key} Key;\n"
        f"__device__ inline bool is_nan(S x) {{ return {nan}; }}\n"
        f"enum {{ TILE = {tile}, KEPT = {tile}, GROUP = {group}, GROUPS = {groups}, MERGED = {_MERGED} }};\n"
    )
    body = {"sort": _SORT, "merge": _MERGE, "select": _SELECT}[part]
    network = "" if part == "merge" else _NETWORK
    if part == "select":  # the number of threads is that of the block
        network = network.replace("template <int N, int THREADS_OF_GROUP>", "template <int N, int NONE>")
        network = network.replace("THREADS_OF_GROUP", "blockDim.x")
    return PRELUDE + types + _PLAIN_KEY[kind] + _KEYS + network + body


@functools.lru_cache(maxsize=256)
def _kernel(part: str, char: str, tile: int, group: int, groups: int, device: int) -> launch.Kernel:
    return launch.Kernel(source(part, char, tile, group, groups), _LAYOUT)


def takes(x: Any, dim: int) -> bool:
    """True if the kernels support an array, along a dimension."""
    char = x.dtype.char
    return (char in _INTEGERS or char in "fdeE") and x.ndim > dim and 0 < x.size < _LARGEST


def _power_of_two(n: int) -> int:
    return 1 << (n - 1).bit_length()


def sort_lines(x: Any, dim: int, descending: bool, with_values: bool = True) -> tuple[Any, Any]:
    """Return the sorted values of an array along a dimension (None without them), and their positions."""
    x = in_order(x)
    shape, length = x.shape, x.shape[dim]
    inner, char, device = math.prod(shape[dim + 1 :]), x.dtype.char, x.data.device_id
    lines = x.size // length
    values = launch.new(shape, x.dtype) if with_values else None
    places = launch.new(shape, _PLACES)
    key = np.dtype(np.uint64 if x.dtype.itemsize == 8 else np.uint32)
    tile = min(max(_power_of_two(length), 2), _TILE_BYTES // (key.itemsize + 4))
    tile = 1 << (tile.bit_length() - 1)
    tiles = -(-length // tile)
    group = min(max(tile // 2, 1), 1024)
    groups = max(1, min(_THREADS // group, _TILE_BYTES // (tile * (key.itemsize + 4))))
    addresses = [x.data.ptr, 0 if values is None else values.data.ptr, places.data.ptr]

    def run(part: str, blocks: int, threads: int, width: int, last: bool, to: list[Any], given: list[Any]) -> None:
        settings = lines, length, inner, tiles, width, int(descending), int(last), 0, 0, 0
        kernel = _kernel(part, char, tile, group, groups, device) if part == "sort" else _kernel(part, char, 0, 0, 0, device)
        kernel(blocks, threads, *settings, *addresses, *[0 if a is None else a.data.ptr for a in (*to, *given)])

    none: list[Any] = [None, None]
    buffers = [none, none]
    if tiles > 1:
        buffers = [[launch.new((x.size,), key), launch.new((x.size,), np.dtype(np.uint32))] for _ in range(2)]
    run("sort", -(-lines * tiles // groups), group * groups, 0, tiles == 1, buffers[0], none)
    width, parts = tile, -(-length // _MERGED)
    while width < length:
        run("merge", -(-lines * parts // 256), 256, width, 2 * width >= length, buffers[1], buffers[0])
        buffers.reverse()
        width *= 2
    return values, places


def select_lines(x: Any, dim: int, count: int, rank: int, descending: bool, rule: int = 0) -> tuple[Any, Any]:
    """Return `count` elements of each line up to a rank, in order, and their positions. `count` is rank + 1 or 1."""
    x = in_order(x)
    shape, length = x.shape, x.shape[dim]
    inner, lines = math.prod(shape[dim + 1 :]), x.size // length
    shape = (*shape[:dim], count, *shape[dim + 1 :])
    values, places = launch.new(shape, x.dtype), launch.new(shape, _PLACES)
    kept = _power_of_two(max(count, 2))
    threads = 1024 if length >= _LONG else _THREADS if length > 128 else 64
    kernel = _kernel("select", x.dtype.char, kept, 0, 0, x.data.device_id)
    settings = lines, length, inner, 1, 0, int(descending), 1, rank, count, rule
    kernel(lines, threads, *settings, x.data.ptr, values.data.ptr, places.data.ptr, 0, 0, 0, 0)
    return values, places


# ----- ops ------------------------------------------------------------------------------------------------------------


def sort(operands: tuple[Any, ...], settings: dict[str, Any]) -> Any:
    """Return sorted values and their positions; None if it is left to CuPy."""
    (x,) = operands
    descending = settings.get("descending", False)
    return sort_lines(x, settings["dim"], descending) if takes(x, settings["dim"]) else None


def argsort(operands: tuple[Any, ...], settings: dict[str, Any]) -> Any:
    """Return the positions of sorted values; None if it is left to CuPy."""
    (x,), dim = operands, settings["dim"]
    return sort_lines(x, dim, settings.get("descending", False), False)[1] if takes(x, dim) else None


def topk(operands: tuple[Any, ...], settings: dict[str, Any]) -> Any:
    """Return the k largest or smallest values in order, and their positions; None if it is left to CuPy."""
    (x,), k, dim, largest = operands, settings["k"], settings["dim"], settings.get("largest", True)
    if not takes(x, dim) or not 0 < k <= x.shape[dim]:
        return None
    if k <= _MOST_SELECTED and (x.shape[dim] > 1024 or k == 1):
        return select_lines(x, dim, k, k - 1, largest)
    found = sort_lines(x, dim, largest)
    part = (*(slice(None),) * dim, slice(k))
    return found if k == x.shape[dim] else tuple(in_order(a[part]) for a in found)


def _pick(x: Any, dim: int, rank: int, keepdim: bool, rule: int) -> Any:
    found = select_lines(x, dim, 1, rank, False, rule)
    if keepdim:
        return found
    shape = (*x.shape[:dim], *x.shape[dim + 1 :])
    return tuple(launch.shaped(a, shape) for a in found)


def kthvalue(operands: tuple[Any, ...], settings: dict[str, Any]) -> Any:
    """Return the k-th smallest values and their positions; None if it is left to CuPy."""
    (x,), k, dim = operands, settings["k"], settings["dim"]
    if not takes(x, dim) or not 0 < k <= x.shape[dim]:
        return None
    return _pick(x, dim, k - 1, settings.get("keepdim", False), 0)


def median(operands: tuple[Any, ...], settings: dict[str, Any]) -> Any:
    """Return medians and their positions; None if it is left to CuPy."""
    (x,), dim = operands, settings["dim"]
    return _pick(x, dim, (x.shape[dim] - 1) // 2, settings.get("keepdim", False), 1) if takes(x, dim) else None


def nanmedian(operands: tuple[Any, ...], settings: dict[str, Any]) -> Any:
    """Return medians of the elements that are not NaN, and their positions; None if it is left to CuPy."""
    (x,), dim = operands, settings["dim"]
    return _pick(x, dim, 0, settings.get("keepdim", False), 2) if takes(x, dim) else None


def median_all(operands: tuple[Any, ...], settings: dict[str, Any]) -> Any:
    """Return the median of all elements; None if it is left to CuPy."""
    return _pick_all(operands[0], 1)


def nanmedian_all(operands: tuple[Any, ...], settings: dict[str, Any]) -> Any:
    """Return the median of all elements that are not NaN; None if it is left to CuPy."""
    return _pick_all(operands[0], 2)


def _pick_all(x: Any, rule: int) -> Any:
    if not x.ndim or not takes(x, 0):
        return None
    line = launch.shaped(in_order(x), (x.size,))
    return _pick(line, 0, (x.size - 1) // 2, False, rule)[0]
