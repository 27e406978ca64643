"""Elements at indexed positions on a device: read, written, added or combined by one kernel.

A call walks through the elements of a part (the result of a read, or the values to write). The position of an element
in the whole array is the sum of its place along the dimensions that both share and of index * step for each index
array. `gather`, `x[i, j]`, `index_select` and their transposes differ only in these strides.

The kernel checks the indices itself (ndgrad._src.compiler.cuda.index_faults). An element whose index is out of bounds
is read as zero and not written. Sums at repeated positions are added in no fixed order. Of several values for one
position the last stays: a first kernel notes the last element for each position, and a second one writes only these.
"""

from __future__ import annotations

import functools
from collections.abc import Callable, Sequence
from math import prod
from typing import Any

import numpy as np

from ndgrad._src.arrays import determinism
from ndgrad._src.compiler.cuda import launch
from ndgrad._src.compiler.cuda.elementwise import BYTES, LARGEST, MOST_DIMS, THREADS, walk
from ndgrad._src.compiler.cuda.index_faults import INTEGERS, NOTE, notes

#: Types that are moved without conversion, by their sizes in bytes.
_OPAQUE = {
    1: "unsigned char", 2: "unsigned short", 4: "unsigned int", 8: "unsigned long long", 16: "uint4",
}  # fmt: skip
#: Types that are combined, by the characters of their dtypes, and the words in which they are exchanged.
_COMBINED = {
    "f": "float", "d": "double", "i": "int", "I": "unsigned int", "l": "long long", "q": "long long",
    "L": "unsigned long long", "Q": "unsigned long long",
}  # fmt: skip
_COMBINATIONS = {
    "multiply": "x * y",
    # A NaN stays.
    "maximum": "x != x ? x : y != y ? y : x < y ? y : x",
    "minimum": "x != x ? x : y != y ? y : y < x ? y : x",
}
_MOST_INDICES = 4
Error = Callable[[int], Exception]
Strides = tuple[int, ...]

_ACTIONS = {
    "read": "a.part[there] = inside ? a.whole[at] : Some{};",
    "write": "if (inside) a.whole[at] = a.part[there];",
    "fill": "if (inside) a.whole[at] = *(const Some*)&a.bits;",
    "read kept": "a.part[there] = inside && a.last[at] == (unsigned int)i + 1 ? a.whole[at] : Some{};",
    "claim": "if (inside) atomicMax(a.last + at, (unsigned int)i + 1);",
    "write last": "if (inside && a.last[at] == (unsigned int)i + 1) a.whole[at] = a.part[there];",
    "lost": "a.part[there] = !inside || a.last[at] != (unsigned int)i + 1;",
    "combine": "if (inside) combine(a.whole + at, a.part[there]);",
}

_ADD = """
__device__ inline void combine(Some* at, Some x) { atomicAdd((Added*)at, (Added)x); }
"""
_EXCHANGE = """
__device__ inline void combine(Some* at, Some y) {
    Word before = *(volatile Word*)at, seen;
    do {
        seen = before;
        Some x = *(const Some*)&seen;
        x = COMBINED;
        if (*(const Word*)&x == seen) return;
        before = atomicCAS((Word*)at, seen, *(const Word*)&x);
    } while (before != seen);
}
"""


def source(action: str, name: str, some: str, index_types: Sequence[str], dims: int) -> str:
    """Return the text of a kernel. `name` is the ufunc if it combines, `some` the C type of an element."""
    count = len(index_types)
    fields = [f"const {t}* index{k};" for k, t in enumerate(index_types)]
    steps = []
    for d in reversed(range(dims)):
        steps.append(f"place = rest % (unsigned int)a.sizes[{d}]; rest /= (unsigned int)a.sizes[{d}];" if d else "place = rest;")
        names = ("there", "at", *[f"i{k}" for k in range(count)])
        steps += [f"{n} += place * a.strides[{row}][{d}];" for row, n in enumerate(names)]
    checks = []
    for k in range(count):
        checks += [
            f"long long j{k} = (long long)a.index{k}[i{k}];",
            f"if (a.wraps && j{k} < 0) j{k} += a.lengths[{k}];",
            f"if (j{k} < 0 || j{k} >= a.lengths[{k}]) {{",
            f"    if (a.calls[{k}]) leave({{a.host, a.flag, a.calls[{k}]}}, (long long)a.index{k}[i{k}]);",
            "    inside = false;",
            "}",
            f"at += inside ? j{k} * a.steps[{k}] : 0;",
        ]
    combining = ""
    if action == "combine" and name == "add":
        added = {"long long": "unsigned long long"}.get(some, some)
        combining = f"typedef {added} Added;{_ADD}"
    elif action == "combine":
        word = "unsigned int" if some in ("float", "int", "unsigned int") else "unsigned long long"
        combining = f"typedef {word} Word;{_EXCHANGE.replace('COMBINED', _COMBINATIONS[name])}"
    part = "bool" if action == "lost" else "Some"
    places = " ".join(f"long long i{k} = 0;" for k in range(count))
    lines = "\n    ".join([*steps, *checks, _ACTIONS[action]])
    return f"""{NOTE}
typedef {some} Some;
struct Arguments {{
    long long n; {part}* part; Some* whole; unsigned int* last; unsigned long long bits; long long wraps;
    long long* host; unsigned long long* flag; {" ".join(fields)}
    long long calls[{count}], lengths[{count}], steps[{count}], sizes[{dims}], strides[{2 + count}][{dims}];
}};
{combining}
extern "C" __global__ void __launch_bounds__({THREADS}) kernel(const Arguments a) {{
    const long long i = (long long)blockIdx.x * {THREADS} + threadIdx.x;
    if (i >= a.n) return;
    unsigned int rest = (unsigned int)i, place;
    long long there = 0, at = 0; {places}
    bool inside = true;
    {lines}
}}
"""


@functools.lru_cache(maxsize=512)
def _kernel(action: str, name: str, some: str, index_types: tuple[str, ...], dims: int, device: int) -> launch.Kernel:
    count = len(index_types)
    return launch.Kernel(source(action, name, some, index_types, dims), f"{8 + 4 * count + dims * (3 + count)}q")


class Move:
    """The strides of a call: the shape of the part, and for each array its strides along that shape, in elements."""

    def __init__(
        self, shape: tuple[int, ...], whole: Strides, part: Strides, indices: Sequence[Strides], steps: Strides, lengths: Strides
    ) -> None:
        self.shape, self.steps, self.lengths = shape, steps, lengths
        self.count = prod(shape)
        rows = tuple([(shape, strides, 1) for strides in (part, whole, *indices)])
        self.sizes, self.strides = walk(shape, rows)

    def can_run(self) -> bool:
        """True if it can be run by a kernel."""
        return 0 < self.count < LARGEST and len(self.sizes) <= MOST_DIMS and 0 < len(self.lengths) <= _MOST_INDICES

    def widen(self, addresses: Sequence[int], item: int) -> tuple[int, list[int], list[list[int]], list[int]]:
        """Return the elements that a thread moves at a time, and sizes, strides and steps in units of them."""
        width = BYTES // item if item < BYTES else 1
        part, whole, *indices = self.strides
        if part[-1] != 1 or whole[-1] != 1 or any(row[-1] for row in indices):
            width = 1
        others = (self.sizes[-1], *part[:-1], *whole[:-1], *self.steps)
        while width > 1 and any(n % width for n in others) | any(p % (width * item) for p in addresses):
            width //= 2
        if width == 1:
            return 1, list(self.sizes), self.strides, list(self.steps)
        sizes = [*self.sizes[:-1], self.sizes[-1] // width]
        strides = [[*[s // width for s in row[:-1]], 1] for row in (part, whole)] + [list(row) for row in indices]
        return width, sizes, strides, [s // width for s in self.steps]


class _Call:
    """A call of kernels: its index arrays, and the notes for indices out of bounds."""

    def __init__(self, move: Move, indices: Sequence[Any], errors: Sequence[Error] | None, wraps: bool) -> None:
        self.move, self.indices, self.wraps = move, indices, wraps
        self.device = indices[0].data.device_id
        self.types = tuple([INTEGERS[i.dtype.char] for i in indices])
        self.calls = [0] * len(indices)
        self.host = self.flag = 0
        if errors is not None:
            for k, error in enumerate(errors):
                self.host, self.flag, self.calls[k] = notes(self.device).words(error)

    def start(
        self, action: str, some: str, part: int, whole: int, last: int = 0, bits: int = 0, name: str = "",
        laid_out: tuple[Any, ...] | None = None,
    ) -> None:  # fmt: skip
        """Start a kernel on addresses; `laid_out`: sizes, strides and steps other than those of the move."""
        move = self.move
        sizes, strides, steps = laid_out or (move.sizes, move.strides, move.steps)
        count = prod(sizes)
        kernel = _kernel(action, name, some, self.types, len(sizes), self.device)
        kernel(
            -(-count // THREADS), THREADS, count, part, whole, last, bits, int(self.wraps), self.host, self.flag,
            *[i.data.ptr for i in self.indices], *self.calls, *move.lengths, *steps, *sizes,
            *[s for row in strides for s in row],
        )  # fmt: skip

    def claim(self, size: int, some: str) -> int:
        """Note the last element for each of `size` positions. Return the address of the notes, which stay alive."""
        self.last = launch.zeros(size, np.dtype(np.uint32))
        self.start("claim", some, 0, 0, self.last.data.ptr)
        self.calls = [0] * len(self.calls)  # faults are noted already
        return int(self.last.data.ptr)


def run(
    how: str, move: Move, whole: Any, part: Any, indices: Sequence[Any], errors: Sequence[Error] | None, wraps: bool,
    distinct: bool = False,
) -> None:  # fmt: skip
    """Move elements: "read", "write", "fill" with a number, or combine them by the ufunc of that name.

    "read kept" reads zero for an element whose position occurs again later.

    `errors` makes the exception for each index out of bounds; None if they have been checked. `distinct`: no position
    occurs twice.
    """
    item, call, to = whole.dtype.itemsize, _Call(move, indices, errors, wraps), whole.data.ptr
    if how == "fill":
        data = np.zeros(8, np.uint8)
        data[:item] = np.frombuffer(np.array(part, whole.dtype).tobytes(), np.uint8)
        call.start("fill", _OPAQUE[item], 0, to, bits=int(data.view(np.int64)[0]))
        return
    given = part.data.ptr
    if how == "read" or (how == "write" and distinct):
        width, *laid_out = move.widen((given, to), item)
        call.start(how, _OPAQUE[width * item], given, to, laid_out=tuple(laid_out))
    elif how == "read kept":
        call.start(how, _OPAQUE[item], given, to, call.claim(whole.size, _OPAQUE[item]))
    elif how == "write":
        call.start("write last", _OPAQUE[item], given, to, call.claim(whole.size, _OPAQUE[item]))
    else:
        call.start("combine", _COMBINED[whole.dtype.char], given, to, name=how)


def _mark_lost(move: Move, out: Any, indices: Sequence[Any], size: int) -> None:
    """Write a mask of the elements of valid indices whose position occurs again later."""
    call = _Call(move, indices, None, True)
    call.start("lost", "unsigned char", out.data.ptr, 0, call.claim(size, "unsigned char"))


# ----- the strides of each convention ---------------------------------------------------------------------------------


def _in_elements(a: Any) -> Strides:
    item = a.dtype.itemsize
    return tuple([0 if n == 1 else s // item for n, s in zip(a.shape, a.strides)])


def _aligned(strides: Strides, ndim: int) -> Strides:
    return (0,) * (ndim - len(strides)) + strides


@functools.lru_cache(maxsize=4096)
def _plan_along(shape: tuple[int, ...], whole: Strides, part: Strides, index: Strides, dim: int, length: int) -> Move:
    others = (*whole[:dim], 0, *whole[dim + 1 :])
    return Move(shape, others, _aligned(part, len(shape)), [index], (whole[dim],), (length,))


@functools.lru_cache(maxsize=4096)
def _at_arrays(
    lead: tuple[int, ...], rest: tuple[int, ...], whole: Strides, part: Strides, indices: tuple[Strides, ...], lengths: Strides
) -> Move:
    count, shape = len(indices), (*lead, *rest)
    rows = [(*_aligned(i, len(lead)), *(0,) * len(rest)) for i in indices]
    return Move(shape, ((0,) * len(lead) + whole[count:]), _aligned(part, len(shape)), rows, whole[:count], lengths)


@functools.lru_cache(maxsize=4096)
def _of_slices(shape: tuple[int, ...], whole: Strides, part: Strides, index: int, dim: int, length: int) -> Move:
    others = (*whole[:dim], 0, *whole[dim + 1 :])
    row = tuple([index if d == dim else 0 for d in range(len(shape))])
    return Move(shape, others, _aligned(part, len(shape)), [row], (whole[dim],), (length,))


def _takes(how: str, whole: Any, part: Any, indices: Sequence[Any]) -> bool:
    """True if the kernels support these arrays."""
    kind = whole.__class__
    if any(i.__class__ is not kind or i.dtype.char not in INTEGERS for i in indices) or not whole.size:
        return False
    if how in ("add", *_COMBINATIONS):
        if whole.dtype.char not in _COMBINED or (determinism.demand != "no" and whole.dtype.char in "fd"):
            return False
    elif whole.dtype.itemsize not in _OPAQUE or (how == "fill" and whole.dtype.itemsize > 8):
        return False
    if how in ("write", "read kept") and not whole._c_contiguous:
        return False
    return how == "fill" or (part.__class__ is kind and part.dtype == whole.dtype)


def _fits(shape: tuple[int, ...], wanted: tuple[int, ...]) -> bool:
    """True if an array of a shape broadcasts to another one."""
    return len(shape) <= len(wanted) and all(a in (b, 1) for a, b in zip(reversed(shape), reversed(wanted)))


def move_along(
    how: str, whole: Any, part: Any, index: Any, dim: int, error: Error | None, wraps: bool = False, distinct: bool = False
) -> bool:
    """Move elements at an index of the whole array's rank, along one dimension. Return False if nothing was done."""
    if not _takes(how, whole, part, (index,)) or index.ndim != whole.ndim or not index.ndim:
        return False
    if how != "fill" and not _fits(part.shape, index.shape):
        return False
    strides = () if how == "fill" else _in_elements(part)
    move = _plan_along(index.shape, _in_elements_of_all(whole), strides, _in_elements(index), dim, whole.shape[dim])
    if not move.can_run():
        return False
    run(how, move, whole, part, (index,), None if error is None else (error,), wraps, distinct)
    return True


def _in_elements_of_all(a: Any) -> Strides:
    """Return strides in elements, also of dimensions of size one."""
    item = a.dtype.itemsize
    return tuple([s // item for s in a.strides])


def at_arrays(
    how: str, whole: Any, part: Any, indices: Sequence[Any], errors: Sequence[Error] | None, wraps: bool = True
) -> bool:
    """Move elements at index arrays into the leading dimensions. Return False if nothing was done."""
    if not indices or len(indices) > whole.ndim or not _takes(how, whole, part, indices):
        return False
    lead = np.broadcast_shapes(*[i.shape for i in indices])
    rest = whole.shape[len(indices) :]
    if how != "fill" and not _fits(part.shape, (*lead, *rest)):
        return False
    strides = () if how == "fill" else _in_elements(part)
    move = _at_arrays(
        lead, rest, _in_elements_of_all(whole), strides, tuple([_in_elements(i) for i in indices]), whole.shape[: len(indices)]
    )
    if not move.can_run():
        return False
    run(how, move, whole, part, indices, errors, wraps)
    return True


def of_slices(how: str, whole: Any, part: Any, index: Any, dim: int, error: Error | None, wraps: bool = False) -> bool:
    """Move whole slices along a dimension, selected by a 1-d index. Return False if nothing was done."""
    if index.ndim != 1 or not _takes(how, whole, part, (index,)):
        return False
    shape = (*whole.shape[:dim], index.size, *whole.shape[dim + 1 :])
    if how != "fill" and not _fits(part.shape, shape):
        return False
    strides = () if how == "fill" else _in_elements(part)
    step = _in_elements(index)[0]
    move = _of_slices(shape, _in_elements_of_all(whole), strides, step, dim, whole.shape[dim])
    if not move.can_run():
        return False
    run(how, move, whole, part, (index,), None if error is None else (error,), wraps)
    return True


def _contiguous(shape: tuple[int, ...]) -> Strides:
    steps = [1]
    for n in reversed(shape[1:]):
        steps.append(steps[-1] * n)
    return tuple(reversed(steps))[: len(shape)] if shape else ()


def lost_along(index: Any, shape: tuple[int, ...], dim: int) -> Any:
    """Return a mask of the elements of an index along a dimension whose position occurs again later; None if it is left
    to CuPy.
    """
    if index.dtype.char not in INTEGERS or index.ndim != len(shape) or not index.size:
        return None
    out = launch.new(index.shape, np.dtype(np.bool_))
    move = _plan_along(index.shape, _contiguous(shape), _in_elements(out), _in_elements(index), dim, shape[dim])
    if not move.can_run():
        return None
    _mark_lost(move, out, (index,), prod(shape))
    return out


def lost_at_arrays(indices: Sequence[Any], shape: tuple[int, ...]) -> Any:
    """Return the same for index arrays into dimensions of these sizes."""
    kind = indices[0].__class__
    if any(i.__class__ is not kind or i.dtype.char not in INTEGERS for i in indices) or len(indices) != len(shape):
        return None
    lead = np.broadcast_shapes(*[i.shape for i in indices])
    out = launch.new(lead, np.dtype(np.bool_))
    move = _at_arrays(lead, (), _contiguous(shape), _in_elements(out), tuple([_in_elements(i) for i in indices]), shape)
    if not move.can_run():
        return None
    _mark_lost(move, out, indices, prod(shape))
    return out
