"""Rewrite a program into one without complex values, for native code.

    program f(%0: complex128[3])                     program f(%0: float64[3,2])
      %1: complex128[3] = mul(%0, %0)        ->        %1: float64[3] = getitem(%0, index=(slice(0, 3, 1), 0))
      return %1                                        %2: float64[3] = getitem(%0, index=(slice(0, 3, 1), 1))
                                                       ...
                                                       %9: float64[3,2] = stack(%5, %8, dim=1)
                                                       return %9

A complex value becomes two real ones, its *parts*. Real kernels, fusion, sums, products and loops then apply to it, and
unread parts are not computed. In memory complex numbers are *pairs*, as in NumPy: a real array with a last dimension of
two. Inputs, outputs and values carried by loops and branches are pairs. So are the arguments and results of ops without
a rule here, which NumPy runs (`interleaved`).

Exact except for the last digits: formulas are in complex_formulas.py and complex_functions.py, matrix products in
complex_products.py. An op that treats every number alike (a view, a sum) is applied to each part.

A part may be a number instead of a value: the imaginary part of a real value is 0. Arithmetic uses this 0 like NumPy,
which makes real operands complex first. Infinities and the signs of zeros therefore agree.
"""

from __future__ import annotations

from collections.abc import Container, Sequence
from typing import Any

import numpy as np

from ndgrad._src.compiler.passes.basic_index import is_setting
from ndgrad._src.compiler.passes.complex_formulas import formulas
from ndgrad._src.compiler.passes.complex_functions import functions
from ndgrad._src.compiler.passes.complex_products import products
from ndgrad._src.compiler.passes.complex_walk import ByParts, Part, has_complex, is_complex, real_dtype
from ndgrad._src.compiler.passes.contraction import contractions
from ndgrad._src.compiler.passes.rewrite import Rewritten, Rules, Walk
from ndgrad._src.compiler.program.program import Argument, Instruction, Program, Value
from ndgrad._src.ops.table import Op

_rules = Rules(formulas, functions, products, contractions)
rule = _rules.rule


def split_complex_values(program: Program) -> Program:
    """Return the program without complex values. Complex inputs and outputs become pairs."""
    return ByParts(program, _rules).run_by_parts() if has_complex(program) else program



# ----- pairs ----------------------------------------------------------------------------------------------------------


@rule("view_as_real")
def _view_as_real(walk: Walk, instruction: Instruction) -> Rewritten:
    assert isinstance(walk, ByParts)
    return walk.pairs(instruction.arguments[0])


@rule("view_as_complex")
def _view_as_complex(walk: Walk, instruction: Instruction) -> Rewritten:
    assert isinstance(walk, ByParts)
    return walk.join_pairs(instruction.arguments[0])


@rule("reshape", "getitem")
def _keep_pairs(walk: Walk, instruction: Instruction) -> Rewritten:
    """Keep values as pairs that are pairs in memory."""
    assert isinstance(walk, ByParts)
    (z,), settings = instruction.arguments, instruction.settings
    if not walk.has_pairs(z):
        return None
    if instruction.op.name == "reshape":
        return walk.join_pairs(walk.emit("reshape", walk.pairs(z), shape=(*instruction.result.shape, 2)))
    if not is_setting(settings["index"], z.shape):
        return None
    return walk.join_pairs(walk.emit("getitem", walk.pairs(z), index=(*settings["index"], slice(0, 2, 1))))


# ----- the same op on each part ---------------------------------------------------------------------------------------


@rule(where=lambda op: op.adds_values or op.movement not in (None, "fill"))
def _separately(walk: Walk, instruction: Instruction) -> Rewritten:
    assert isinstance(walk, ByParts)
    settings = instruction.settings
    if not all(v.dtype.kind == "c" for v in instruction.results) or not _are_parts_alone(instruction):
        return None
    if settings.get("dtype") is not None:
        return None
    halves = [_half(walk, instruction, k) for k in (0, 1)]
    made = [walk.pair(re, im, v) for v, re, im in zip(instruction.results, *halves, strict=True)]
    _note_transposed(walk, instruction, made)
    return made[0] if len(made) == 1 else tuple(made)


def _is_number(argument: Argument) -> bool:
    return isinstance(argument, (int, float, complex, np.generic))


#: Ops of the compiler whose arguments are all numbers. The other ops also take positions.
_JOINING = frozenset(["pieces", "overlaid", "assembled"])


def _numbers_at(instruction: Instruction) -> Container[int]:
    """Return the positions of the arguments that hold numbers. Integers at other positions are indices or masks."""
    op, count = instruction.op, len(instruction.arguments)
    if isinstance(op, Op):
        return op.differentiable_positions(count) if op.differentiable else (0,)
    return range(count) if op.name in _JOINING else (0,)


def _are_parts_alone(instruction: Instruction) -> bool:
    """True if the real arguments are indices, masks, or numbers of a real NumPy dtype."""
    numbers = _numbers_at(instruction)
    return all(
        a.__class__ is not Value
        or a.dtype == instruction.results[0].dtype
        or a.dtype.kind in ("biuf" if i in numbers else "biu")
        for i, a in enumerate(instruction.arguments)
    )


def _half(walk: ByParts, instruction: Instruction, k: int) -> Sequence[Part]:
    """Emit an instruction on one part of its complex arguments and numbers.

    If all arguments are zeros, so is the result. A real argument next to complex ones has an imaginary part of zero.
    """
    arguments, settings = list(instruction.arguments), instruction.settings
    dtype = real_dtype(instruction.results[0].dtype)
    if _is_number(settings.get("value")):  # fill value
        settings = {**settings, "value": walk.parts(settings["value"])[k]}
    numbers = [settings["value"]] if "value" in settings else []
    at = _numbers_at(instruction)
    parts = [i for i, a in enumerate(arguments) if is_complex(a) or (a.__class__ is Value and i in at)]
    for i, a in enumerate(instruction.arguments):
        if i in parts or _is_number(a):
            arguments[i] = walk.parts(a, dtype)[k]
            numbers.append(arguments[i])
    if all(_is_zero(n) for n in numbers):
        return [0.0] * len(instruction.results)
    for i in parts:
        arguments[i] = walk.value(arguments[i], instruction.arguments[i].shape, dtype)
    results = tuple([Value(v.shape, real_dtype(v.dtype)) for v in instruction.results])
    if instruction.op.name == "pieces":  # only real numbers keep sums of negative zeros
        settings = {**settings, "common": None}
    return walk.append(Instruction(instruction.op, tuple(arguments), settings, results, instruction.where))


def _is_zero(part: Any) -> bool:
    return part.__class__ is not Value and part == 0 and not np.signbit(part)


def _note_transposed(walk: ByParts, instruction: Instruction, made: list[Value]) -> None:
    """Remember the source of a transposed matrix, so that products read it in place."""
    if instruction.op.name != "permute":
        return
    z, dims = instruction.arguments[0], instruction.settings["dims"]
    n = z.ndim
    if n >= 2 and tuple(d % n for d in dims) == (*range(n - 2), n - 1, n - 2):
        source, transposed, conjugated = walk.seen_as.get(z, (z, False, False))
        walk.seen_as[made[0]] = (source, not transposed, conjugated)
