"""Transform a program before its kernels on a device are made.

Composite ops along rows are decomposed, so that they fuse with their neighbours (ndgrad._src.compiler.passes.decompose
has the formulas), those of halves in single precision. Ops with better kernels on a device stay: products,
convolutions, attention, reading and adding by index.
"""

from __future__ import annotations

import numpy as np

from ndgrad._src.compiler.cuda.fusion import LONGEST_ROW, is_type
from ndgrad._src.compiler.cuda.scheduling import schedule_program
from ndgrad._src.compiler.passes import simplify_program
from ndgrad._src.compiler.passes.attention import attention_gradients
from ndgrad._src.compiler.passes.decompose import composites, expand_body
from ndgrad._src.compiler.passes.expansion import Expansion
from ndgrad._src.compiler.passes.half_precision import is_half, narrow
from ndgrad._src.compiler.passes.regions import split_into_regions
from ndgrad._src.compiler.passes.rewrite import Rewritten, Rules, Walk
from ndgrad._src.compiler.program.program import Instruction, Program, Value

_SINGLE = np.dtype(np.float32)

_rules = Rules()


class _Expansion(Expansion):
    longest_row = LONGEST_ROW


def expand_program(program: Program) -> tuple[Program, list[Value]]:
    """Return the program that kernels are made of, and the values that must be zero unless an index is out of range."""
    program = simplify_program(narrow(attention_gradients(program)))
    walk = _Expansion(program, _rules)
    found, checks = walk.run(), walk.checks
    found = Program(found.inputs, [*found.outputs, *checks], found.instructions, found.constants, found.name)
    found = schedule_program(narrow(split_into_regions(simplify_program(narrow(simplify_program(found))), is_type)))
    count = len(found.outputs) - len(checks)
    return (
        Program(found.inputs, found.outputs[:count], found.instructions, found.constants, found.name),
        found.outputs[count:],
    )


@_rules.rule("mean", "mean_all", "native_layer_norm", "rms_norm", "logsumexp", "var", "softmax", "log_softmax")
@_rules.rule("softmax_cross_entropy", "gather", "gather_backward", "line_dot")
def _along_rows(walk: Walk, instruction: Instruction) -> Rewritten:
    if not _goes_along_rows(instruction):
        return None
    if any(is_half(a) for a in instruction.arguments):
        return _in_single(walk, instruction)
    found: Rewritten = _decompose(walk, instruction)
    return found


@_rules.rule("addmm", "baddbmm")
def _product(walk: Walk, instruction: Instruction) -> Rewritten:
    """Split off the added matrix, because the next kernel can add it. The product itself adds a bias (`linear`)."""
    values = list(instruction.values())
    if len({v.dtype for v in values}) != 1 or instruction.result.dtype != values[0].dtype or not values[0].size:
        return None
    return None if is_half(values[0]) else _decompose(walk, instruction)


def _decompose(walk: Walk, instruction: Instruction) -> Rewritten:
    rules = composites.by_name.get(instruction.op.name)
    return expand_body(walk, instruction) if rules is None else rules[-1](walk, instruction)


def _in_single(walk: Walk, instruction: Instruction) -> Rewritten:
    """Run an op of halves in single precision, between casts."""
    wide = [walk.emit("cast", a, dtype=_SINGLE) if is_half(a) else a for a in instruction.arguments]
    if any(a.__class__ is Value and a.dtype.kind == "f" and a.dtype != _SINGLE for a in wide):
        return None
    out = walk.emit(instruction.op, *wide, **instruction.settings)
    return walk.emit("cast", out, dtype=instruction.result.dtype)


def _goes_along_rows(instruction: Instruction) -> bool:
    """True if an op reduces the last dimensions, and these fit into a row of a kernel."""
    name, settings = instruction.op.name, instruction.settings
    x = next(instruction.values())
    if name == "mean_all":
        return True
    shape = tuple(settings["shape"]) if name == "gather_backward" else x.shape
    dims = (settings["dim"],) if isinstance(settings["dim"], int) else settings["dim"]
    if not dims or not shape:
        return False
    last = sorted(d % len(shape) for d in dims)
    if name in ("gather", "gather_backward"):
        index = instruction.arguments[1]
        one_each = tuple([1 if d == last[0] else n for d, n in enumerate(shape)])
        if index.__class__ is not Value or index.shape != one_each or shape[last[0]] > LONGEST_ROW:
            return False
    size = 1
    for d in last:
        size *= shape[d]
    return last == list(range(len(shape) - len(last), len(shape))) and (size <= LONGEST_ROW or name == "mean")
