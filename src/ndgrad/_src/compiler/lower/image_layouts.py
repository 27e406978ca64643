"""Choose the order of the dimensions of images in memory.

The kernels of convolutions compute with channels last. Elementwise ops, sums and pooling accept images in either order.
A convolution therefore leaves its result with channels last, and elementwise results keep that order. Any other op
reads by strides, or needs a copy. If all readers of a result are elementwise until it leaves the program or is
reshaped, the kernel writes in the order of dimensions directly: it transposes in registers.
"""

from __future__ import annotations

from ndgrad._src.compiler.lower import pointwise
from ndgrad._src.compiler.lower.routines import NAMES
from ndgrad._src.compiler.program.program import Program, Value


def needed_in_order(program: Program) -> set[Value]:
    """Return the values that some reader needs in the order of their dimensions."""
    needed = set(program.outputs)
    for instruction in reversed(program.instructions):
        if instruction.op.name in NAMES or pointwise.is_reduction(instruction):
            continue
        if instruction.op.name == "getitem":  # reads by strides
            needed.update(v for v in instruction.values() if instruction.result in needed)
        elif not pointwise.is_pointwise(instruction):
            needed.update(instruction.values())
        elif instruction.result in needed:
            needed.update(v for v in instruction.values() if v.shape == instruction.result.shape)
    return needed


def kept_in_order(order: tuple[int, ...], dims: tuple[int, ...]) -> bool:
    """True if the dimensions that a reduction keeps stay in their order, when they are traversed in a given order."""
    kept = [d for d in order if d not in dims]
    return kept == sorted(kept)
