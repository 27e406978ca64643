"""Convolutions, pooling, and indexed slices as steps: functions of the kernel library that a segment calls.

A routine is one or more phases. Each is a function of the library that does numbered chunks of work. Its arguments are
a list of words (kernels/pool_work.py): addresses of values, tables of sizes, which are constants of the module, and
memory for the workers.

Images come as (N, C, *S), and may lie in memory with their channels last. The kernels compute in that order, and
elementwise ops and sums between them accept it. A result therefore has its channels last, unless some reader needs it
in the order of its dimensions (image_layouts.py).
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from collections.abc import Set as AbstractSet
from dataclasses import dataclass, field
from math import prod
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from ndgrad._src.arrays.pooling import regular_axis
from ndgrad._src.compiler.kernels import arrays, pooling, slices, windows
from ndgrad._src.compiler.lower.memory_places import Place, whole
from ndgrad._src.compiler.native.ir import Function, element_of
from ndgrad._src.compiler.program.program import Instruction, Value


class Workspace(NamedTuple):
    """Placeholder for the memory of a routine in a list of words."""


#: A word of a phase's arguments: a number, the address of a value, of a table, or of the workspace.
Word = int | Value | NDArray[np.int64] | Workspace


@dataclass(eq=False, slots=True)
class Phase:
    """A function of a library of kernels, called for each of so many chunks."""

    kind: str
    element: str
    function: str
    words: list[Word]
    chunks: int
    #: approximate number of machine instructions
    cost: int
    #: bytes of memory for each worker; -1 for functions that take none
    buffer: int = -1


@dataclass(eq=False, slots=True)
class Routine:
    """Phases, the values that they read and write, and the layout of the results."""

    instruction: Instruction
    reads: list[Value]
    places: dict[Value, Place]
    phases: list[Phase]
    workspace: Value | None = None

    @property
    def results(self) -> list[Value]:
        """Return the memory that it writes."""
        return [place.root for place in self.places.values()]

    def touched(self) -> AbstractSet[Value]:
        """Return the values whose memory it reads or writes."""
        return dict.fromkeys([*self.reads, *self.results, *([] if self.workspace is None else [self.workspace])]).keys()

    def written_values(self) -> AbstractSet[Value]:
        """Return the values whose memory it writes, except its own workspace."""
        return dict.fromkeys(self.results).keys()

    @property
    def buffer_bytes(self) -> int:
        """Return the bytes of memory that each worker needs."""
        return max(_rounded(p.buffer) for p in self.phases)

    def functions(
        self, name: str, slots: dict[Value, int], run: Callable[[Function, str, Phase], None]
    ) -> list[Function | str]:
        """Write void name(ptr table, ptr own), which passes its phases to `run(f, argument, phase)`, and the tables
        that it uses.

        The word before a phase's argument is `own`.
        """
        f = Function(name, "ptr %table, ptr %own")
        tables: list[Function | str] = []

        def loaded(slot: int) -> str:
            return f.set(f"load i64, ptr {f.address('ptr', '%table', str(slot))}")

        for phase in self.phases:
            words: list[str] = []
            for word in phase.words:
                if isinstance(word, Workspace):
                    assert self.workspace is not None
                    words.append(loaded(slots[self.workspace]))
                elif isinstance(word, Value):
                    words.append(loaded(slots[word]))
                elif isinstance(word, int):
                    words.append(str(word))
                else:
                    table = f"{name}.table{len(tables)}"
                    numbers = ", ".join(f"i64 {n}" for n in word.tolist())
                    tables.append(f"@{table} = internal constant [{word.size} x i64] [{numbers}]")
                    words.append(f.set(f"ptrtoint ptr @{table} to i64"))
            if phase.buffer >= 0:
                words += [loaded(len(slots)), str(_rounded(phase.buffer))]
            memory = f.set(f"alloca [{len(words) + 1} x i64], align 16")
            f.do(f"store ptr %own, ptr {memory}")
            argument = f.ahead(memory, 8)
            for n, text in enumerate(words):
                f.do(f"store i64 {text}, ptr {f.ahead(argument, 8 * n)}")
            run(f, argument, phase)
        f.returns()
        return [*tables, f]


def _rounded(count: int) -> int:
    """Return the bytes between the buffers of two workers: whole pairs of cache lines."""
    return -(-max(count, 0) // 128) * 128


# ----- recognition of routines ----------------------------------------------------------------------------------------


@dataclass
class Images:
    """Callbacks between a routine and the layout of its images."""

    #: returns the memory of a value in the order of its dimensions, or with channels last; a copy, if it lies otherwise
    memory: Callable[[Value, bool], Value]
    #: true if a value lies with its channels last
    lies_last: Callable[[Value], bool]
    #: true if a result may have its channels last
    may_be_last: Callable[[Value], bool]
    #: returns the instruction that defines a value
    definition: Callable[[Value], Instruction | None]
    reads: list[Value] = field(default_factory=list)

    def memory_of(self, value: Value, last: bool) -> Value:
        found = self.memory(value, last)
        self.reads.append(found)
        return found


def last_order(ndim: int) -> tuple[int, ...]:
    """Return the order of the dimensions of images with channels last."""
    return (0, *range(2, ndim), 1)


def result_place(value: Value, last: bool) -> Place:
    """Return the place of a result in memory of its own."""
    if not last:
        return whole(value)
    order = last_order(value.ndim)
    root = Value(tuple([value.shape[d] for d in order]), value.dtype)
    return whole(root).permuted(tuple([order.index(d) for d in range(value.ndim)]))


def routine(instruction: Instruction, images: Images) -> Routine | None:
    """Return the routine of an instruction, None if it has none."""
    if instruction.op.name in ("take_slices", "add_slices", "put_slices"):
        return _slices(instruction, images)
    made = _ROUTINES.get(instruction.op.name)
    if made is None or any(a is not None and a.__class__ is not Value for a in instruction.arguments):
        return None
    values, result = list(instruction.values()), instruction.results[0]
    dtype = result.dtype
    if any((v.dtype != dtype and v.dtype != np.int64) or not v.size for v in values) or not result.size:
        return None
    if not 3 <= result.ndim <= 5:
        return None
    kind = "conv" if instruction.op.name.startswith("convolution") else "pool"
    if not arrays.available(dtype, (kind,)):
        return None
    return made(instruction, images)


def _worth_last(value: Value) -> bool:
    """True if there are enough channels for a vector."""
    return value.shape[1] >= arrays.tile(element_of(value.dtype)).type.lanes


# ----- convolutions ---------------------------------------------------------------------------------------------------


def _correlation(instruction: Instruction, images: Images, what: str, x_shape: Sequence[int]) -> Routine | None:
    """Return the convolution itself, or the gradient of its input: both read images and a weight, and write images."""
    x, w = instruction.arguments[:2]
    result, settings = instruction.result, instruction.settings
    element, size = element_of(result.dtype), result.dtype.itemsize
    x_last = images.lies_last(x)
    y_last = images.may_be_last(result) and _worth_last(result)
    axes = arrays.conv_axes(x_shape, w.shape, settings["stride"], settings["padding"], settings["dilation"])
    sizes = arrays.conv_sizes(x_shape, w.shape, settings["groups"])
    table = arrays.window_table(what, sizes, axes, element, size, x_last, y_last)
    place = result_place(result, y_last)
    source, weight = images.memory_of(x, x_last), images.memory_of(w, False)
    outputs = result if what == "forward" else x
    flops = outputs.size * prod(w.shape[1:])
    phases = [
        Phase("conv", element, "conv_weights", [table.words, weight, Workspace()], table.strips, 4 * w.size),
        Phase("conv", element, "conv_correlate", [table.words, source, Workspace(), place.root, 0], table.chunks,
              flops // 4 + 4 * (x.size + result.size), table.scratch * size),
    ]  # fmt: skip
    workspace = Value((table.packed * size + 64,), np.dtype(np.uint8))
    return Routine(instruction, images.reads, {result: place}, phases, workspace)


def _convolution(instruction: Instruction, images: Images) -> Routine | None:
    x, _, b = instruction.arguments
    return None if b is not None else _correlation(instruction, images, "forward", x.shape)


def _convolution_input(instruction: Instruction, images: Images) -> Routine | None:
    return _correlation(instruction, images, "input gradient", instruction.settings["x_shape"])


def _convolution_weight(instruction: Instruction, images: Images) -> Routine | None:
    g, x = instruction.arguments
    result, settings = instruction.result, instruction.settings
    element, size, shape = element_of(result.dtype), result.dtype.itemsize, settings["w_shape"]
    x_last, g_last = images.lies_last(x), images.lies_last(g)
    axes = arrays.conv_axes(x.shape, shape, settings["stride"], settings["padding"], settings["dilation"])
    sizes = arrays.conv_sizes(x.shape, shape, settings["groups"])
    table = arrays.window_table("weight gradient", sizes, axes, element, size, x_last, g_last)
    source, gradient = images.memory_of(x, x_last), images.memory_of(g, g_last)
    flops = g.size * prod(shape[1:])
    sums = arrays.weight_sum_chunks(shape, element)
    phases = [
        Phase("conv", element, "conv_weight_gradient", [table.words, source, gradient, Workspace()], table.chunks,
              flops // 4 + 4 * (x.size + g.size), table.scratch * size),
        Phase("conv", element, "conv_weight_sum", [table.words, Workspace(), result], sums, 2 * table.packed),
    ]  # fmt: skip
    workspace = Value((table.packed * size + 64,), np.dtype(np.uint8))
    return Routine(instruction, images.reads, {result: whole(result)}, phases, workspace)


# ----- pooling --------------------------------------------------------------------------------------------------------


def _pooling_axes(inputs: Sequence[int], outputs: Sequence[int], settings: dict[str, Any]) -> list[windows.Axis]:
    """Return the windows along each axis; a single tap by default."""
    unit = (1,) * len(inputs)
    kernel, stride = settings.get("kernel", unit), settings.get("stride", unit)
    padding, dilation = settings.get("padding", (0,) * len(inputs)), settings.get("dilation", unit)
    found = zip(inputs, outputs, kernel, stride, padding, dilation, strict=True)
    return [windows.Axis(n, k, s, d, p, out) for n, out, k, s, p, d in found]


def _chunks(shape: Sequence[int], last: bool, rows: int = 1) -> int:
    """Return the number of chunks: planes, or with channels last, images or rows of them."""
    return shape[0] * (rows if last else shape[1])


def _pooled(instruction: Instruction, images: Images, x: Value) -> tuple[bool, list[windows.Axis], NDArray[np.int64]]:
    """Return True if channels come last, the windows, and their table."""
    last = images.lies_last(x) and _worth_last(x)
    result = instruction.results[0]
    axes = _pooling_axes(x.shape[2:], result.shape[2:], instruction.settings)
    return last, axes, pooling.pooling_table(axes, x.shape[1])


def _max_pool(instruction: Instruction, images: Images) -> Routine | None:
    (x,) = instruction.arguments
    last, axes, table = _pooled(instruction, images, x)
    places = {v: result_place(v, last) for v in instruction.results}
    values, index = (place.root for place in places.values())
    taps, element = prod(instruction.settings["kernel"]), element_of(x.dtype)
    words: list[Word] = [table, images.memory_of(x, last), values, index]
    chunks = _chunks(x.shape, last, windows.three(axes)[0].out)
    return Routine(
        instruction, images.reads, places, [_pooling_phase(element, "max", last, words, chunks, values.size * taps)]
    )


def _pooling_phase(element: str, name: str, last: bool, words: list[Word], chunks: int, cost: int) -> Phase:
    return Phase("pool", element, f"pool_{name}{'_last' if last else ''}", words, chunks, cost)


def _max_unpool(instruction: Instruction, images: Images) -> Routine | None:
    g, index = instruction.arguments
    settings, result = instruction.settings, instruction.result
    if index.dtype != np.int64 or g.dtype == index.dtype or g.ndim != result.ndim:
        return None
    last = images.lies_last(index) and _worth_last(g)
    made, name = images.definition(index), "max_gradient"
    if last and settings["distinct"] and made is not None and made.op.name == "max_pool":
        if made.arguments[0].shape == result.shape:
            settings, name = made.settings, "max_windows"
    axes = _pooling_axes(result.shape[2:], g.shape[2:], settings if name == "max_windows" else {})
    table, place = pooling.pooling_table(axes, g.shape[1]), result_place(result, last)
    words: list[Word] = [table, images.memory_of(g, last), images.memory_of(index, last), place.root]
    cost = 2 * result.size + 4 * g.size
    phase = _pooling_phase(element_of(g.dtype), name, last, words, _chunks(g.shape, last), cost)
    return Routine(instruction, images.reads, {result: place}, [phase])


def _counts(sizes: Sequence[int], settings: dict[str, Any]) -> NDArray[np.int64] | None:
    """Return the divisors of means."""
    along = zip(sizes, settings["kernel"], settings["stride"], settings["padding"], strict=True)
    found = [regular_axis(n, k, s, p, 1, settings["ceil_mode"], settings["count_include_pad"]) for n, k, s, p in along]
    counts = [w.counts for w in found if w is not None]
    return pooling.average_counts(counts, settings["divisor_override"]) if len(counts) == len(found) else None


def _avg_pool(instruction: Instruction, images: Images) -> Routine | None:
    (x,) = instruction.arguments
    last, axes, table = _pooled(instruction, images, x)
    counts, place = _counts(x.shape[2:], instruction.settings), result_place(instruction.result, last)
    if counts is None:
        return None
    words: list[Word] = [table, counts, images.memory_of(x, last), place.root]
    chunks, cost = _chunks(x.shape, last, windows.three(axes)[0].out), place.size * prod(instruction.settings["kernel"])
    phase = _pooling_phase(element_of(x.dtype), "average", last, words, chunks, cost)
    return Routine(instruction, images.reads, {instruction.result: place}, [phase])


def _avg_pool_backward(instruction: Instruction, images: Images) -> Routine | None:
    (g,) = instruction.arguments
    result, settings = instruction.result, instruction.settings
    last = images.lies_last(g) and _worth_last(g)
    table = pooling.pooling_table(_pooling_axes(result.shape[2:], g.shape[2:], settings), g.shape[1])
    counts, place = _counts(result.shape[2:], settings), result_place(result, last)
    if counts is None:
        return None
    words: list[Word] = [table, counts, images.memory_of(g, last), place.root]
    cost = 2 * result.size + g.size * prod(settings["kernel"])
    phase = _pooling_phase(element_of(g.dtype), "average_gradient", last, words, _chunks(g.shape, last), cost)
    return Routine(instruction, images.reads, {result: place}, [phase])


# ----- slices ---------------------------------------------------------------------------------------------------------


def _slices(instruction: Instruction, images: Images) -> Routine | None:
    """Return the routine that reads, adds to or overwrites indexed slices."""
    *values, index = instruction.arguments
    result, dim, name = instruction.result, instruction.settings["dim"], instruction.op.name
    puts = name != "take_slices"
    adds = name == "add_slices" or (puts and instruction.settings["adds"])
    dtype = result.dtype if adds else np.dtype(np.float32)  # moves by bytes share one code for all dtypes
    if index.dtype != np.int64 or not all(v.size for v in instruction.values()) or not result.size:
        return None
    if not arrays.available(dtype, ("slices",)):
        return None
    shape = result.shape if puts else values[0].shape
    sizes = slices.slices_table(shape, dim, index.size, result.dtype.itemsize, adds)
    given: list[Word] = [images.memory_of(v, False) for v in (*values, index)]
    element = element_of(dtype)
    if not puts:
        cost = 2 * result.size + 4 * index.size
        phases = [Phase("slices", element, "slices_take", [sizes.table, *given, result], sizes.take, cost)]
    else:
        start = given[0] if name == "put_slices" else 0
        phases = [
            Phase("slices", element, "slices_begin", [sizes.table, start, result], sizes.begin, result.size),
            Phase("slices", element, "slices_put", [sizes.table, *given[-2:], result], sizes.put,
                  2 * values[-1].size + 4 * index.size),
        ]  # fmt: skip
    return Routine(instruction, images.reads, {result: whole(result)}, phases)


_ROUTINES: dict[str, Callable[[Instruction, Images], Routine | None]] = {
    "convolution": _convolution,
    "convolution_input": _convolution_input,
    "convolution_weight": _convolution_weight,
    "max_pool": _max_pool,
    "max_unpool": _max_unpool,
    "avg_pool": _avg_pool,
    "avg_pool_backward": _avg_pool_backward,
}
#: Ops that take images in either order.
NAMES = frozenset(_ROUTINES)
