"""Fold constants: compute while the program is built.

    constant %0: float64[3] = [2., 2., 2.]     ->  expand of the number 2.
    zeros_like(x), zero(x), fill(x, 3.)        ->  expand of a number
    add(%0, %1) of constants                   ->  a constant, if it is small
    lt(x, 256) of uint8                        ->  True, expanded: the number is out of range of the dtype

Exact: the op's own forward computes them. Arrays of one number become that number expanded, so that later rules see the
number. An op that fails or warns stays in place, and does so when the program runs.
"""

from __future__ import annotations

import warnings
from typing import Any

import numpy as np

from ndgrad._src.compiler.passes.rewrite import Rewritten, Rules, Walk
from ndgrad._src.compiler.program.program import Instruction, Program, Value
from ndgrad._src.compiler.program.replay import forward_of

#: Maximum elements of a folded constant. A larger one costs more memory than it saves time.
LARGEST = 4096

folding = Rules()


@folding.rule("zeros_like", "zero")
def _zeros(walk: Walk, instruction: Instruction) -> Rewritten:
    return walk.full(0, instruction.result)


@folding.rule("fill")
def _fill(walk: Walk, instruction: Instruction) -> Rewritten:
    value = instruction.settings["value"]
    return walk.full(value, instruction.result) if isinstance(value, (bool, int, float)) else None


@folding.rule("fill_with")
def _fill_with(walk: Walk, instruction: Instruction) -> Rewritten:
    x, value = instruction.arguments
    return walk.emit("copy", x, value)


@folding.rule("eq", "ne", "lt", "le", "gt", "ge")
def _out_of_range(walk: Walk, instruction: Instruction) -> Rewritten:
    """Fold a comparison of integers with a Python integer that their dtype cannot hold.

    NumPy compares exactly, so the answer is the same for all elements.
    """
    x, y = instruction.arguments
    name = instruction.op.name
    if x.__class__ is not Value:
        x, y, name = y, x, {"lt": "gt", "le": "ge", "gt": "lt", "ge": "le"}.get(name, name)
    if x.__class__ is not Value or x.dtype.kind not in "iu" or type(y) is not int:
        return None
    limits = np.iinfo(x.dtype)
    if limits.min <= y <= limits.max:
        return None
    return walk.full(name == "ne" or name in (("lt", "le") if y > limits.max else ("gt", "ge")), instruction.result)


@folding.rule("reshape", "permute", "getitem", "embed", "slice_scatter", "cat", "stack", "cast", "keep", "tril", "triu")
@folding.rule("sum", "sum_all", where=lambda op: op.elementwise)
def _compute(walk: Walk, instruction: Instruction) -> Rewritten:
    arrays = []
    for argument in instruction.arguments:
        if argument.__class__ is Value:
            argument = _constant(walk, argument)
            if argument is None:
                return None
        arrays.append(argument)
    if len(instruction.results) != 1 or instruction.result.size > LARGEST:
        return None
    result = instruction.result
    try:
        with warnings.catch_warnings(), np.errstate(all="raise", under="ignore"):
            warnings.simplefilter("error")
            found = np.asarray(forward_of(instruction.op)(*arrays, **instruction.settings))
    except Exception:
        return None
    if found.shape != result.shape or found.dtype != result.dtype:
        return None
    number = _only(found)
    return walk.constant(np.array(found), found.dtype) if number is None else walk.full(number, result)


def _constant(walk: Walk, value: Value) -> Any:
    """Return the array of a constant, or of an expanded constant; None for other values."""
    made = walk.made_by(value, "expand")
    if made is None:
        return walk.constants.get(value)
    array = walk.constants.get(made.arguments[0])
    return None if array is None or value.size > LARGEST else np.broadcast_to(array, value.shape)


def _only(array: Any) -> Any:
    """Return the number that all elements of an array equal bit by bit."""
    if array.size < 2 or array.dtype.hasobject:
        return None
    flat = array.reshape(-1)
    if array.dtype.kind == "c":
        return None
    size = array.dtype.itemsize
    bits = np.ascontiguousarray(flat).view(np.uint8).reshape(-1, size)
    return flat[0] if (bits == bits[0]).all() else None


def splat_constants(program: Program) -> Program:
    """Replace constants that are one number everywhere by that number, expanded."""
    found = {
        value: number for value, array in program.constants.items() if (number := _only(np.asarray(array))) is not None
    }
    if not found:
        return program
    walk = Walk(program, Rules())
    replaced = {value: walk.full(number, value) for value, number in found.items()}
    for value in found:
        del walk.constants[value]
    return walk.run(replaced)
