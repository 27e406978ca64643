"""Write the kernels of programs as CUDA C++: elementwise ops, rows with stages, and sums over leading dimensions.

    extern "C" __global__ void NAME(const Pointers<3> a)

There is a form for each (ndgrad._src.compiler.cuda.fused_flat, fused_rows, fused_columns), and this file chooses it.
"""

from __future__ import annotations

from math import prod

from ndgrad._src.compiler.cuda.fused_columns import Columns
from ndgrad._src.compiler.cuda.fused_flat import Flat
from ndgrad._src.compiler.cuda.fused_form import Affine, Form, Fused
from ndgrad._src.compiler.cuda.fused_rows import PIECE, LongRows, Rows
from ndgrad._src.compiler.cuda.fusion import LONGEST_ROW
from ndgrad._src.compiler.lower.steps import Kernel


def fused(kernel: Kernel, affine: Affine, guarded: bool = False) -> Fused:
    """Write a kernel of a program; `guarded`: it writes permanent memory, and does nothing once a fault was noted."""
    if kernel.rows is None and not kernel.targets:
        form: type[Form] = Flat
    elif kernel.rows is None:
        form = Columns
    else:
        row, rows = kernel.shape[-1], prod(kernel.shape[:-1])
        few = kernel.stages == 1 and not kernel.targets and rows < 128 and row >= 4 * PIECE
        form = LongRows if row > LONGEST_ROW or few else Rows
    made = form(kernel, affine, guarded)
    made.write()
    return made.out
