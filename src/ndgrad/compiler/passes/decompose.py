"""Composite ops in terms of those that have kernels: rows of softmax and of normalisations, losses, linear layers, means.

NumPy's forms of these ops are quicker as they stand, so only a program that becomes native code is decomposed. Each formula is that of the
op's own forward function: shifted by the largest element, in two passes where that has two.

Along a row, the element that an index names is found by comparing the index with all positions: in a kernel that goes through the row
anyway this costs next to nothing. An index outside the row would go unseen, so whether there is one is a further result, a *check*: a number
that must be zero.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import numpy as np

from ndgrad.compiler.program import Instruction, Program, Value, rewritten
from ndgrad.compiler.trace import infer
from ndgrad.ops.vocabulary import find

#: The longest row in which an index is looked for position by position.
_LONGEST = 4096


class Expansion:
    """Instructions that stand for one."""

    def __init__(self, program: Program, where: str | None, checks: list[Value]) -> None:
        self.instructions: list[Instruction] = []
        self.checks = checks
        self._constants = program.constants
        self._where = where

    def __call__(self, name: str, *arguments: Any, **settings: Any) -> Value:
        """The result of another instruction."""
        op = find(name)
        settings = {**op.settings, **settings}
        _, ((shape, dtype),) = infer(op, arguments, settings)
        result = Value(shape, dtype)
        self.instructions.append(Instruction(op, arguments, settings, (result,), self._where))
        return result

    def constant(self, array: Any) -> Value:
        value = Value(tuple(array.shape), array.dtype)
        self._constants[value] = array
        return value

    def sum(self, x: Value, dim: tuple[int, ...]) -> Value:
        """The sum over dimensions, which are kept."""
        return self("sum", x, dim=dim, keepdim=True)

    def at(self, index: Value, shape: tuple[int, ...], dim: int) -> Value:
        """Where positions along a dimension are those that an index, of length 1 there, names."""
        places = np.arange(shape[dim], dtype=index.dtype).reshape([-1 if d == dim else 1 for d in range(len(shape))])
        outside = self("logical_or", self("lt", index, 0), self("ge", index, shape[dim]))
        self.checks.append(self("sum_all", self("cast", outside, dtype=np.dtype(np.float64))))
        return self("eq", self.constant(places), index)


def decomposed(program: Program) -> tuple[Program, list[Value]]:
    """A program of ops that have kernels, as far as that can be, and its checks."""
    replaced: dict[Value, Value] = {}
    checks: list[Value] = []
    program = Program(program.inputs, program.outputs, program.instructions, dict(program.constants), program.name)

    def rewrite(instruction: Instruction) -> list[Instruction] | None:
        rule = _RULES.get(instruction.op.name)
        if rule is None or not _is_float(instruction):
            return None
        expansion = Expansion(program, instruction.where, checks)
        made = rule(expansion, *instruction.arguments, **instruction.settings)
        if made is None:
            return None
        if made.shape != instruction.result.shape:
            made = expansion("reshape", made, shape=instruction.result.shape)
        if made.dtype != instruction.result.dtype:
            made = expansion("cast", made, dtype=instruction.result.dtype)
        replaced[instruction.result] = made
        return expansion.instructions

    out = rewritten(program, rewrite, replaced)
    return Program(out.inputs, out.outputs, out.instructions, {**out.constants, **program.constants}, out.name), checks


def _is_float(instruction: Instruction) -> bool:
    """Whether an instruction is one of single or double precision, with one result that is not empty."""
    if len(instruction.results) != 1 or instruction.result.dtype not in (np.float32, np.float64):
        return False
    return all(v.size and v.dtype.kind in "fiub" and v.dtype != np.float16 for v in instruction.values())


# ----- sums of exponentials ------------------------------------------------------------------------------------------------


def _shifted(e: Expansion, x: Value, dim: tuple[int, ...]) -> Value:
    return e("sub", x, e("amax", x, dim=dim, keepdim=True))


def _softmax(e: Expansion, x: Value, dim: int) -> Value:
    out = e("exp", _shifted(e, x, (dim,)))
    return e("div", out, e.sum(out, (dim,)))


def _log_softmax(e: Expansion, x: Value, dim: int) -> Value:
    shifted = _shifted(e, x, (dim,))
    return e("sub", shifted, e("log", e.sum(e("exp", shifted), (dim,))))


def _logsumexp(e: Expansion, x: Value, dim: tuple[int, ...], keepdim: bool) -> Value | None:
    if not dim:
        return None
    top = e("amax", x, dim=dim, keepdim=True)
    top = e("where", e("isfinite", top), top, 0.0)
    return e("add", e("log", e.sum(e("exp", e("sub", x, top)), dim)), top)


def _cross_entropy(e: Expansion, x: Value, target: Value, dim: int) -> Value | None:
    if x.shape[dim] > _LONGEST or target.dtype.kind not in "iu":
        return None
    index = e("reshape", target, shape=(*x.shape[:dim], 1, *x.shape[dim + 1 :]))
    shifted = _shifted(e, x, (dim,))
    there = e.sum(e("where", e.at(index, x.shape, dim), shifted, 0.0), (dim,))
    return e("sub", e("log", e.sum(e("exp", shifted), (dim,))), there)


# ----- one element of each row ---------------------------------------------------------------------------------------------


def _is_one_of_a_row(index: Value, shape: tuple[int, ...], dim: int) -> bool:
    expected = tuple(1 if d == dim else n for d, n in enumerate(shape))
    return index.shape == expected and index.dtype.kind in "iu" and shape[dim] <= _LONGEST


def _gather(e: Expansion, x: Value, index: Value, dim: int) -> Value | None:
    if not _is_one_of_a_row(index, x.shape, dim):
        return None
    return e.sum(e("where", e.at(index, x.shape, dim), x, 0.0), (dim,))


def _gather_backward(e: Expansion, g: Value, index: Value, dim: int, shape: tuple[int, ...], distinct: bool) -> Value | None:
    if not _is_one_of_a_row(index, shape, dim):
        return None
    return e("where", e.at(index, shape, dim), g, 0.0)


# ----- means and normalisation -----------------------------------------------------------------------------------------------


def _mean(e: Expansion, x: Value, dim: tuple[int, ...], keepdim: bool, dtype: Any) -> Value | None:
    dims = dim or tuple(range(x.ndim))
    total = e("sum", x, dim=dims, keepdim=True, dtype=dtype)
    return e("div", total, math.prod(x.shape[d] for d in dims))


def _mean_all(e: Expansion, x: Value, dtype: Any) -> Value:
    return e("div", e("sum_all", x, dtype=dtype), x.size)


def _line_dot(e: Expansion, x: Value, y: Value, dim: int) -> Value:
    return e.sum(e("mul", x, y), (dim,))


def _layer_norm(e: Expansion, x: Value, w: Value | None, b: Value | None, dim: tuple[int, ...], eps: float) -> Value:
    share = 1 / math.prod(x.shape[d] for d in dim)
    centred = e("sub", x, e("mul", e.sum(x, dim), share))
    variance = e("mul", e.sum(e("mul", centred, centred), dim), share)
    # an infinite variance is no answer: its deviation is NaN, which 0 * inf makes
    inverse = e("add", e("reciprocal", e("sqrt", e("add", variance, eps))), e("mul", variance, 0.0))
    out = e("mul", centred, inverse)
    out = out if w is None else e("mul", out, w)
    return out if b is None else e("add", out, b)


# ----- products ---------------------------------------------------------------------------------------------------------------


def _linear(e: Expansion, x: Value, w: Value, b: Value | None) -> Value | None:
    if w.ndim != 2:
        return None
    out = e("matmul", x, e("permute", w, dims=(1, 0)))
    return out if b is None else e("add", out, b)


def _addmm(e: Expansion, a: Value, x: Value, y: Value, beta: Any, alpha: Any) -> Value | None:
    if beta == 0:
        return None
    product = e("matmul", x, y)
    product = product if alpha == 1 else e("mul", product, alpha)
    return e("add", a if beta == 1 else e("mul", a, beta), product)


_RULES: dict[str, Callable[..., Value | None]] = {
    "softmax": _softmax,
    "log_softmax": _log_softmax,
    "logsumexp": _logsumexp,
    "softmax_cross_entropy": _cross_entropy,
    "gather": _gather,
    "gather_backward": _gather_backward,
    "mean": _mean,
    "mean_all": _mean_all,
    "line_dot": _line_dot,
    "native_layer_norm": _layer_norm,
    "linear": _linear,
    "addmm": _addmm,
    "baddbmm": _addmm,
    "addmv": _addmm,
}
