"""Account for the work of a program's steps: their ops, bytes read and written, and arithmetic.

Bytes are those that must move. Each place that a step reads or writes counts once, even if it reads elements repeatedly
(a broadcast row, a weight that all rows use). Data that a later step finds in the cache counts again, since it is read
again.

Arithmetic is counted in floating-point operations of one element: an addition, a multiplication or a comparison is one,
a division four, a function such as exp twelve (about the instructions of its polynomial). A product of matrices takes
two for each pair of factors. Copies and casts take none.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable
from dataclasses import dataclass
from math import prod
from typing import Any

import numpy as np

from ndgrad._src.compiler.lower import pointwise
from ndgrad._src.compiler.lower.loops import Loop
from ndgrad._src.compiler.lower.memory_places import Place
from ndgrad._src.compiler.lower.steps import Call, Chain, Finished, Kernel
from ndgrad._src.compiler.program.compiler_ops import interleaved
from ndgrad._src.compiler.program.partition import is_view
from ndgrad._src.compiler.program.program import Instruction, Program, Value
from ndgrad._src.ops.flops import flops_of


@dataclass(frozen=True)
class Work:
    """Work: bytes read and written, floating-point operations, and the dtype of the computation."""

    read: int = 0
    written: int = 0
    flops: int = 0
    dtype: str = "float64"

    @property
    def bytes(self) -> int:
        return self.read + self.written


#: The instruction that defines each value of a program.
Definitions = dict[Value, Instruction]


def parts_of(step: Any, defined: Definitions) -> list[tuple[str, str | None]]:
    """Return the ops of a step by name, in order, each with its line in the user's code. Ops in a loop count once."""
    if isinstance(step, Kernel):
        return [(item.instruction.op.name, item.instruction.where) for item in step.items]
    if isinstance(step, Loop):
        inside = step.body.definitions()
        return [part for inner in step.groups.steps for part in parts_of(inner, inside)]
    if isinstance(step, (Chain, Finished)):
        return [part for inner in _inner_steps(step) for part in parts_of(inner, defined)]
    found = [(op_name(i), i.where) for i in _instructions(step, defined)]
    return found or [(type(step).__name__.lower(), None)]


def ops_of(step: Any, defined: Definitions) -> list[str]:
    """Return the names of the ops of a step, in order."""
    return [name for name, _ in parts_of(step, defined)]


def op_name(instruction: Instruction) -> str:
    """Return the name of the op that an instruction represents."""
    return str(instruction.settings["op"] if instruction.op is interleaved else instruction.op.name)


def _inner_steps(step: Chain | Finished) -> list[Any]:
    """Return the inner steps of a step."""
    return [step.producer, step.kernel] if isinstance(step, Finished) else list(step.steps)


def _instructions(step: Any, defined: Definitions) -> list[Instruction]:
    """Return the instructions of a step that is neither a kernel nor a loop: the definitions of its results."""
    instruction = getattr(step, "instruction", None)
    if instruction is not None:
        return [instruction]
    results = list(getattr(step, "places", ())) or [v for v in (getattr(step, "result", None),) if v is not None]
    return list(dict.fromkeys(defined[v] for v in results if v in defined))


def format_ops(ops: Iterable[str], most: int = 6) -> str:
    """Format a list of ops briefly: mul x 3, add, sum."""
    counts = Counter(ops)
    shown = [f"{name} x {count}" if count > 1 else name for name, count in list(counts.items())[:most]]
    rest = sum(list(counts.values())[most:])
    return ", ".join([*shown, *([f"{rest} more"] if rest else [])])


def format_lines(lines: Iterable[str], most: int = 4) -> str:
    """Format lines of the user's code briefly: model.py:12, 14, loss.py:3."""
    shown, last = [], ""
    for line in sorted({*lines}, key=_by_number):
        file, _, number = line.rpartition(":")
        shown.append(number if file == last else line)
        last = file
    return ", ".join([*shown[:most], *(["..."] if len(shown) > most else [])])


def _by_number(line: str) -> tuple[str, int]:
    file, _, number = line.rpartition(":")
    return file, int(number)


def work_of(step: Any, known: set[Value], defined: Definitions) -> Work:
    """Return the work of a step; `known` are the values that were in memory before it."""
    dtype = _dtype(step.touched())
    if isinstance(step, Loop):
        return _loop(step, dtype)
    # In steps other than kernels, byte arrays are workspace.
    own = {v for v in step.touched() if v.dtype != np.uint8}
    if isinstance(step, (Chain, Finished)):
        flops = sum(work_of(inner, known | step.written_values(), defined).flops for inner in _inner_steps(step))
        return Work(sum(v.nbytes for v in own - step.written_values()), sum(v.nbytes for v in step.written_values()), flops, dtype)
    if isinstance(step, Kernel):
        return Work(*_moved_bytes(step), _kernel_flops(step), dtype)
    instructions, written = _instructions(step, defined), sum(v.nbytes for v in own - known)
    if all(i.op.movement == "gather" for i in instructions):
        read = written + sum(v.nbytes for v in own & known if v.dtype.kind == "i")
    else:
        read = sum(_bytes(place) for place in _places(step)) or sum(v.nbytes for v in own & known)
    counted = getattr(step, "flops", None)
    if counted is None:
        counted = sum(instruction_flops(i) for i in instructions)
    return Work(read, written, int(counted), dtype)


def _loop(step: Loop, dtype: str) -> Work:
    """Return the work of a loop. Its memory is its inputs and outputs; values between rounds are assumed to stay in the
    cache.
    """
    count = step.instruction.settings.get("count", 1)  # the number of rounds of a `while` is unknown
    inside = step.body.definitions()
    known = {*step.body.inputs, *step.body.constants}
    flops = 0
    for inner in step.groups.steps:
        flops += work_of(inner, known, inside).flops
        known |= inner.touched()
    read = sum(_bytes(place) for place in step.reads)
    return Work(read, sum(v.nbytes for v in step.instruction.results), count * flops, dtype)


def _moved_bytes(kernel: Kernel) -> tuple[int, int]:
    """Return the bytes that a kernel reads and writes."""
    places = [p for item in kernel.items for p in item.reads if p is not None and p.root not in kernel.computed]
    read = sum(_bytes(place) for place in {(p.root, p.offset, p.strides): p for p in places}.values())
    written = sum(v.nbytes for v in (*kernel.stores, *kernel.targets))
    return read, written + sum(_bytes(place) for _, place in kernel.puts)


def _kernel_flops(kernel: Kernel) -> int:
    return sum(
        _elementwise(item.instruction, prod(kernel.row_shape) if item.per_row else kernel.size) for item in kernel.items
    )


def _elementwise(instruction: Instruction, elements: int) -> int:
    op = instruction.op
    return 0 if op.movement or op.name == "copy" else elements * int(op.cost)


def _places(step: Any) -> list[Place]:
    """Return the places that a step other than a kernel reads."""
    if isinstance(step, Call):
        return [place for place in step.reads if place is not None]
    return [place for name in ("a", "b") if isinstance(place := getattr(step, name, None), Place)]


def _bytes(place: Place) -> int:
    """Return the bytes of a place. An element that is read many times counts once."""
    elements = prod(n for n, stride in zip(place.shape, place.strides, strict=True) if stride)
    return min(elements, place.root.size) * place.root.dtype.itemsize


def _dtype(values: Iterable[Value]) -> str:
    """Return the dtype with the most memory, among those that kernels compute in."""
    sizes: Counter[str] = Counter()
    for value in values:
        if value.dtype.kind == "f":
            sizes["float32" if value.dtype.itemsize <= 4 else "float64"] += value.nbytes
    return sizes.most_common(1)[0][0] if sizes else "float64"


# ----- programs -------------------------------------------------------------------------------------------------------


def instruction_flops(instruction: Instruction) -> int:
    """Return the floating-point operations of an instruction of a program."""
    op = instruction.op
    if op.name == "loop":
        return int(instruction.settings["count"]) * program_flops(instruction.settings["body"])
    shapes = [a.shape if a.__class__ is Value else () for a in instruction.arguments]
    result = instruction.results[0]
    if op.name == "convolution_input":  # as many as the corresponding convolution
        return 2 * prod(shapes[0]) * prod(shapes[1][1:])
    if op.name == "convolution_weight":
        return 2 * prod(shapes[0]) * prod(instruction.settings["w_shape"][1:])
    if op.name in ("matmul", "convolution", "linear", "addmm"):
        return flops_of(op.name, shapes, result.shape)
    if is_view(instruction) or result.dtype.kind not in "fc":
        return 0
    if op.movement == "scatter":
        return sum(v.size for v in instruction.values() if v.dtype.kind in "fc")
    if op.name in ("max_pool", "avg_pool"):
        return result.size * prod(instruction.settings["kernel"])
    source = (
        max([result.size, *[v.size for v in instruction.values()]])
        if pointwise.is_reduction(instruction)
        else result.size
    )
    return _elementwise(instruction, source)


def program_flops(program: Program) -> int:
    """Return the floating-point operations of a program."""
    return sum(instruction_flops(instruction) for instruction in program.instructions)


def least_work(program: Program) -> Work:
    """Return a lower bound on the work of a program.

    It reads every used input once, writes every output once, and does its arithmetic.
    """
    used = {v for i in program.instructions for v in i.values()} | set(program.outputs)
    read = sum(v.nbytes for v in program.inputs if v in used)
    written = sum(v.nbytes for v in dict.fromkeys(program.outputs) if v not in program.inputs)
    flops = program_flops(program)
    return Work(read, written, flops, _dtype([*program.inputs, *program.outputs, *[Value((), np.dtype(np.float64))]]))
