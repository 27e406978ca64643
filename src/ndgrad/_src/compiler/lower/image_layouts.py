"""In which order the dimensions of images lie in memory.

The kernels of convolutions compute with channels last, and elementwise ops, sums and pooling take images as they lie.
So a convolution leaves its result with its channels last, and what is computed of it element by element lies so too,
until an op comes that knows nothing of this: it reads by strides, or a copy is made. Where that would come soon anyway,
because all that happens to a result is elementwise until it leaves the program or is reshaped, the kernel had better
write in the order of dimensions at once: it transposes in registers.
"""

from __future__ import annotations

from ndgrad._src.compiler.lower import pointwise
from ndgrad._src.compiler.lower.routines import NAMES
from ndgrad._src.compiler.program.program import Program, Value


def needed_in_order(program: Program) -> set[Value]:
    """The values that somebody needs in the order of their dimensions."""
    needed = set(program.outputs)
    for instruction in reversed(program.instructions):
        if instruction.op.name in NAMES or pointwise.is_reduction(instruction):
            continue
        if instruction.op.name == "getitem":  # which reads by strides
            needed.update(v for v in instruction.values() if instruction.result in needed)
        elif not pointwise.is_pointwise(instruction):
            needed.update(instruction.values())
        elif instruction.result in needed:
            needed.update(v for v in instruction.values() if v.shape == instruction.result.shape)
    return needed


def kept_in_order(order: tuple[int, ...], dims: tuple[int, ...]) -> bool:
    """Whether the dimensions that a reduction of some leaves follow one another as before, if they are
    gone through in an order."""
    kept = [d for d in order if d not in dims]
    return kept == sorted(kept)
