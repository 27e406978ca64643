"""Elementwise ops of complex numbers, compiled and on NumPy: everywhere, at infinities, NaN, zeros of both signs, and near overflow."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from ndgrad._src.compiler.program.replay import Replay
from ndgrad._src.compiler.program.text import parse_program

pytest.importorskip("llvmlite")

import tests.op_programs  # noqa: F401  # which loads all ops
from ndgrad._src.compiler.lower.native_program import NativeProgram
from ndgrad._src.compiler.lower.steps import Call

DTYPES = {"complex64": np.float32, "complex128": np.float64}

#: Of each op, in groups that are one program each: the error in units in the last place of the modulus.
UNARY = [
    {"neg": 0, "conj": 0, "square": 0, "reciprocal": 3, "abs": 2, "angle": 3, "sgn": 3, "real": 0, "imag": 0},
    {"isnan": 0, "isinf": 0, "isfinite": 0, "isreal": 0, "logical_not": 0},
    {"log": 4, "log2": 5, "log10": 5, "sqrt": 4, "rsqrt": 7},
    {"exp": 4, "exp2": 6, "sinh": 6, "cosh": 6, "tanh": 8},
    {"sin": 6, "cos": 6, "tan": 8, "sigmoid": 10},
]
BINARY = {"add": 0, "sub": 0, "mul": 1, "div": 6, "eq": 0, "ne": 0}


def numbers(real: Any) -> Any:
    """Complex numbers of all pairs of special parts, and ordinary ones."""
    limits = np.finfo(real)
    top = float(np.log(limits.max))
    special = [0.0, 1.0, 0.5, 3.0, 1e-3, np.inf, limits.tiny, limits.smallest_subnormal, limits.max, limits.max / 3, top + 0.5, top - 0.5]
    parts = np.array([*special, *[-s for s in special], np.nan], real)
    random = np.random.default_rng(0)
    ordinary = random.standard_normal((400, 2)) * np.exp(random.uniform(-3, 3, (400, 1)))
    circle = np.exp(1j * random.uniform(-4, 4, 200)) * (1 + random.standard_normal(200) * 1e-4)
    grid = np.stack(np.meshgrid(parts, parts), -1).reshape(-1, 2)
    pairs = np.concatenate([grid, ordinary, np.stack([circle.real, circle.imag], -1)]).astype(real)
    return pairs.view(np.result_type(real, np.complex64))[:, 0]


def assert_alike(found: Any, expected: Any, units: float, arguments: list[Any], call: str) -> None:
    """Finite results within so many units in the last place of the modulus; NaN, infinities and the signs of zeros as they are, but for
    zeros beside a NaN, whose sign is undefined."""
    assert found.dtype == expected.dtype
    if expected.dtype.kind == "b":
        np.testing.assert_array_equal(found, expected)
        return
    a, b = (np.stack([v.real, v.imag] if v.dtype.kind == "c" else [v]) for v in (found, expected))
    with np.errstate(all="ignore"):
        size = np.maximum(np.max(np.abs(b), axis=0), np.finfo(b.dtype).tiny)
        near = (np.abs(a - b) <= units * np.finfo(b.dtype).eps * size) & np.isfinite(b)
    underflown = np.abs(b) < np.finfo(b.dtype).tiny
    same_sign = (np.signbit(a) == np.signbit(b)) | np.isnan(b).any(axis=0)
    right = ((a == b) & same_sign) | (np.isnan(a) & np.isnan(b)) | (near & (~underflown | same_sign))
    wrong = np.flatnonzero(~right.all(axis=0))
    shown = [f"{[x[i] for x in arguments]}: {found[i]}, {expected[i]}" for i in wrong[:20]]
    assert not len(wrong), f"{call}: {len(wrong)} of {len(found)}\n" + "\n".join(shown)


def check(calls: dict[str, tuple[str, float]], arguments: list[Any]) -> None:
    """Calls of one program, each with the dtype of its result and its error."""
    inputs = ", ".join(f"%{i}: {a.dtype.name}[{len(a)}]" for i, a in enumerate(arguments))
    names = [f"%{len(arguments) + i}" for i in range(len(calls))]
    lines = [f"  {name}: {dtype}[{len(arguments[0])}] = {call}" for name, (call, (dtype, _)) in zip(names, calls.items(), strict=True)]
    program = parse_program("\n".join([f"program p({inputs})", *lines, f"  return {', '.join(names)}\n"]))
    made = NativeProgram(program)
    assert not (called := [str(step.instruction.op.name) for step in made.groups.steps if isinstance(step, Call)]), called
    with np.errstate(all="ignore"):
        found, expected = made(arguments), Replay(program)(arguments)
    for (call, (_, units)), a, b in zip(calls.items(), found, expected, strict=True):
        assert_alike(a, b, units, arguments, call)


def typed(op: str, dtype: str) -> str:
    """The dtype of what an op gives."""
    if op in ("abs", "angle", "real", "imag"):
        return np.dtype(DTYPES[dtype]).name
    return "bool" if op in ("eq", "ne", "isnan", "isinf", "isfinite", "isreal", "logical_not") else dtype


@pytest.mark.parametrize("dtype", sorted(DTYPES))
@pytest.mark.parametrize("ops", UNARY, ids=lambda ops: next(iter(ops)))
def test_functions_of_one_number(ops: dict[str, float], dtype: str) -> None:
    check({f"{op}(%0)": (typed(op, dtype), units) for op, units in ops.items()}, [numbers(DTYPES[dtype])])


@pytest.mark.parametrize("dtype", sorted(DTYPES))
def test_functions_of_two_numbers(dtype: str) -> None:
    z = numbers(DTYPES[dtype])
    random = np.random.default_rng(1)
    calls = {f"{op}(%0, %1)": (typed(op, dtype), units) for op, units in BINARY.items()}
    check(calls, [random.choice(z, 4000), random.choice(z, 4000)])


@pytest.mark.parametrize("dtype", sorted(DTYPES))
def test_operands_that_are_real_or_numbers(dtype: str) -> None:
    """They are made complex first, as NumPy does: an infinite number times a real one has a NaN in it."""
    random = np.random.default_rng(2)
    z = random.choice(numbers(DTYPES[dtype]), 2000)
    x = random.choice(numbers(DTYPES[dtype]).real, 2000)
    written = ["add(%0, %1)", "mul(%0, %1)", "mul(%1, %0)", "div(%0, %1)", "div(%1, %0)", "mul(%0, 2.0)", "div(%0, 3)", "mul(%0, 1j)",
               "sub(1.0, %0)", "div(1.0, %0)"]  # fmt: skip
    check(dict.fromkeys(written, (dtype, 6)), [z, x])


@pytest.mark.parametrize("dtype", sorted(DTYPES))
def test_powers(dtype: str) -> None:
    """By products, as NumPy's; of numbers whose powers neither overflow nor vanish, where the last digits of products decide."""
    z = numbers(DTYPES[dtype])
    with np.errstate(all="ignore"):
        ordinary = z[((np.abs(z) > 1e-3) & (np.abs(z) < 1e3)) | (z == 0)]
    exponents = (-1, 0, 0.5, 1, 2, 3, 4, 5, -3, 7)
    check({f"pow(%0, {n})": (dtype, 4 + 4 * abs(n)) for n in exponents}, [ordinary])
