"""Epilogues: elementwise kernels that process the result of a convolution piece by piece, as it is computed.

    routine0: c = convolution of x by w       routine0, and for each finished piece of c:
    kernel0:  y = relu(c + b)           ->        y = relu(c + b)

The pieces of a convolution are images or rows of them. The worker that has computed a piece finds it in its cache. The
following kernel saves a trip to memory and one synchronisation of the workers. Examples are bias and activation,
residual connections, scales and casts, the mask of an activation's gradient, and sums over rows, such as gradients of
biases and the means of batch norm. A step of LeNet takes 5 % less time. One of ResNet-18 takes the same time, because
convolutions are 94 % of it.

Matrix products have no epilogues. Measured with them, steps of the MLP and of the VAE took the same time (within 2 %),
and transformers up to 7 % more. A product's result is small enough to stay in a cache anyway, and its blocks of rows
and columns are a worse order for the following kernel than memory order.

A kernel is an epilogue if

* it is elementwise over as many elements, and reads the result at its own element;
* its only sums are over columns (channels);
* no step in between reads the result: the convolution moves to the kernel's place, where all inputs of the kernel
  exist;
* there is enough work for several workers: in a small convolution, one worker would run a large kernel alone;
* it reads and writes few other arrays: they displace operands in the cache, and memory is quickest from front to
  back.

Elementwise arithmetic does not change. Sums are *reassociated*: the pieces are those of the convolution, which do not
depend on the number of threads, and their sums are added in order (loop_nests.py, Note [Sums of pieces]).
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

from ndgrad._src.compiler.kernels.windows import HEADER
from ndgrad._src.compiler.lower.memory_places import Place, is_contiguous
from ndgrad._src.compiler.lower.routines import Phase, Routine
from ndgrad._src.compiler.lower.steps import Finished, Item, Kernel, Step
from ndgrad._src.compiler.native.ir import Function
from ndgrad._src.compiler.program.program import Value

#: Minimum bytes of a result. Smaller ones stay in the cache anyway.
_SMALLEST = 1 << 14
#: Maximum number of other arrays that an epilogue reads and writes.
_OTHERS = 3
#: Minimum machine instructions of a convolution that workers share.
SHARED_COST = 100_000


class Result(NamedTuple):
    """The memory that a step writes, as rows and columns."""

    value: Value
    rows: int
    columns: int


def finished(steps: Sequence[Step], end: int) -> list[Step]:
    """Return the steps, with kernels among the first `end` of them merged into the steps whose epilogues they are."""
    found: list[Step | None] = list(steps)
    producers: dict[Value, int] = {}
    for number, step in enumerate(steps[:end]):
        if isinstance(step, Kernel):
            read = {p.root for item in step.items for p in item.reads if p is not None}
            # The latest producer comes first, because the others finish earlier.
            for value in sorted(read & producers.keys(), key=lambda v: -producers[v]):
                producer = steps[producers[value]]
                assert isinstance(producer, Routine)
                between = steps[producers[value] + 1 : number]
                kernel = _over(step, result_of(producer))
                if kernel is not None and _pays(kernel, value) and not any(value in other.touched() for other in between):
                    found[producers.pop(value)] = None
                    found[number] = Finished(producer, kernel)
                    break
        elif isinstance(step, Routine) and (result := result_of(step)) is not None:
            producers[result.value] = number
    return [step for step in found if step is not None]


def result_of(step: Routine) -> Result | None:
    """Return the result of a step that may have an epilogue."""
    phase, ((_, place),) = step.phases[-1], list(step.places.items())[:1]
    if phase.function != "conv_correlate":  # other routines may write numbers without columns
        return None
    value, columns = place.root, place.root.shape[-1]
    # The pieces of images with channels last are rows.
    is_shared = not place.is_whole and phase.cost >= SHARED_COST and phase.chunks > 1
    return Result(value, value.size // columns, columns) if is_shared and value.nbytes >= _SMALLEST else None


def _over(kernel: Kernel, result: Result | None) -> Kernel | None:
    """Return a kernel over rows and columns of a result; None if it cannot be one."""
    if result is None or kernel.rows is not None or kernel.size != result.value.size:
        return None
    shape = (result.rows, result.columns)
    items = []
    for item in kernel.items:
        reads = [p if p is None or p.root in kernel.computed else p.reshaped(shape) for p in item.reads]
        for before, now in zip(item.reads, reads, strict=True):
            if before is not None and (now is None or (now.root is result.value and not _is_each(now))):
                return None
        items.append(Item(item.instruction, reads))
    puts = [(value, place.reshaped(shape)) for value, place in kernel.puts]
    targets = {value: place.reshaped(shape) for value, place in kernel.targets.items()}
    if any(place is None for _, place in puts) or not all(_is_column_sum(p, result) for p in targets.values()):
        return None
    computed = {item.instruction.result: item for item in items}
    made = Kernel(shape, None, items, computed, stores=kernel.stores, parts=kernel.parts)
    made.puts, made.targets = puts, targets  # type: ignore[assignment]  # none is None
    return made


def _pays(kernel: Kernel, result: Value) -> bool:
    """True if a kernel accesses few enough arrays in addition to a result."""
    read = {p for item in kernel.items for p in item.reads if p is not None and p.root not in kernel.computed}
    others = {(p.root, p.offset, p.strides) for p in read if p.root is not result and 0 not in p.strides}
    return len(others) + len(kernel.stores) + len(kernel.puts) <= _OTHERS


def _is_each(place: Place) -> bool:
    """True if a place is all of its root, in order."""
    return place.offset == 0 and is_contiguous(place.shape, place.strides)


def _is_column_sum(place: Place | None, result: Result) -> bool:
    return (
        place is not None
        and place.root.size == result.columns
        and place.offset == 0
        and (place.strides[0] == 0 or result.rows == 1)
        and (place.strides[1] == 1 or result.columns == 1)
    )


# ----- pieces ---------------------------------------------------------------------------------------------------------


class Block(NamedTuple):
    """Rows from `begin` to `end` and columns from `first` to `past`, and the number of the piece of rows. All are i64
    names or numbers.
    """

    begin: str | int
    end: str | int
    first: str | int
    past: str | int
    piece: str | int


def block_of_images(f: Function, phase: Phase, columns: int, chunk: str) -> Block:
    """Return the block that a chunk of a convolution computes: a few images, or rows of one."""
    table = phase.words[0]
    t = dict(zip(HEADER, table.tolist(), strict=False))  # type: ignore[union-attr]  # behind it are the entries
    row = t["out_y"] * t["out_x"]
    image = t["out_z"] * row
    group = f.div(chunk, t["blocks"])
    z = f.mul(f.sub(chunk, f.mul(group, t["blocks"])), t["block"])
    n = f.mul(group, t["together"])
    begin = f.add(f.mul(n, image), f.mul(z, row))
    if t["blocks"] == 1:
        end = f.mul(f.least(f.add(n, t["together"]), t["images"]), image)
    else:
        end = f.add(begin, f.mul(f.least(t["block"], f.sub(t["out_z"], z)), row))
    return Block(begin, end, 0, columns, chunk)
