"""Elementwise ops of complex numbers, compiled and on NumPy: everywhere, at infinities, NaN, zeros of both signs, and near overflow."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from ndgrad.compiler.replay import Replay
from ndgrad.compiler.text import parse_program

pytest.importorskip("llvmlite")

import tests.op_programs  # noqa: F401  # which loads all ops
from ndgrad.compiler.lower.group import Call
from ndgrad.compiler.lower.native_program import NativeProgram

DTYPES = {"complex64": np.float32, "complex128": np.float64}

#: Of each op: its arguments beside z, and the error in units in the last place of the modulus.
UNARY = {
    "neg": 0, "conj": 0, "square": 2, "reciprocal": 3, "abs": 2, "angle": 3, "sgn": 3, "real": 0, "imag": 0, "exp": 4, "exp2": 6,
    "log": 4, "log2": 5, "log10": 5, "sqrt": 4, "rsqrt": 7, "isnan": 0, "isinf": 0, "isfinite": 0, "isreal": 0, "logical_not": 0,
}  # fmt: skip
BINARY = {"add": 1, "sub": 1, "mul": 2, "div": 6, "eq": 0, "ne": 0}


def numbers(real: Any) -> Any:
    """Complex numbers of all pairs of special parts, and ordinary ones."""
    limits = np.finfo(real)
    largest = float(np.log(limits.max))
    special = [0.0, 1.0, 0.5, 3.0, np.inf, limits.tiny, limits.smallest_subnormal, limits.max, limits.max / 3, largest + 0.5, largest - 0.5, 1e-3]
    parts = np.array([*special, *[-s for s in special], np.nan], real)
    random = np.random.default_rng(0)
    ordinary = random.standard_normal((400, 2)) * np.exp(random.uniform(-3, 3, (400, 1)))
    circle = np.exp(1j * random.uniform(-4, 4, 200)) * (1 + random.standard_normal(200) * 1e-4)
    grid = np.stack(np.meshgrid(parts, parts), -1).reshape(-1, 2)
    pairs = np.concatenate([grid, ordinary, np.stack([circle.real, circle.imag], -1)]).astype(real)
    return pairs.view(np.result_type(real, np.complex64))[:, 0]


def assert_alike(found: Any, expected: Any, units: float, arguments: list[Any]) -> None:
    """Finite results within so many units in the last place of the modulus; NaN, infinities and the signs of zeros as they are."""
    assert found.dtype == expected.dtype
    if expected.dtype.kind == "b":
        np.testing.assert_array_equal(found, expected)
        return
    a, b = (np.stack([v.real, v.imag] if v.dtype.kind == "c" else [v]) for v in (found, expected))
    with np.errstate(all="ignore"):
        size = np.maximum(np.max(np.abs(b), axis=0), np.finfo(b.dtype).tiny)
        near = (np.abs(a - b) <= units * np.finfo(b.dtype).eps * size) & np.isfinite(b)
    underflown = np.abs(b) < np.finfo(b.dtype).tiny
    same_sign = np.signbit(a) == np.signbit(b)
    right = ((a == b) & same_sign) | (np.isnan(a) & np.isnan(b)) | (near & (~underflown | same_sign))
    wrong = np.flatnonzero(~right.all(axis=0))
    shown = [f"{[x[i] for x in arguments]}: {found[i]}, {expected[i]}" for i in wrong[:20]]
    assert not len(wrong), f"{len(wrong)} of {len(found)}\n" + "\n".join(shown)


def check(call: str, arguments: list[Any], units: float) -> None:
    inputs = ", ".join(f"%{i}: {a.dtype.name}[{len(a)}]" for i, a in enumerate(arguments))
    dtype = {"abs": "float", "angle": "float", "real": "float", "imag": "float"}.get(call.partition("(")[0], arguments[0].dtype.name)
    if dtype == "float":
        dtype = arguments[0].real.dtype.name
    if call.partition("(")[0] in ("eq", "ne", "isnan", "isinf", "isfinite", "isreal", "logical_not"):
        dtype = "bool"
    program = parse_program(f"program p({inputs})\n  %{len(arguments)}: {dtype}[{len(arguments[0])}] = {call}\n  return %{len(arguments)}\n")
    made = NativeProgram(program)
    assert not (calls := [str(step.instruction.op.name) for step in made.groups.steps if isinstance(step, Call)]), calls
    with np.errstate(all="ignore"):
        (found,), (expected,) = made(arguments), Replay(program)(arguments)
    assert_alike(found, expected, units, arguments)


@pytest.mark.parametrize("dtype", sorted(DTYPES))
@pytest.mark.parametrize("op", sorted(UNARY))
def test_function_of_one_number(op: str, dtype: str) -> None:
    check(f"{op}(%0)", [numbers(DTYPES[dtype])], UNARY[op])


@pytest.mark.parametrize("dtype", sorted(DTYPES))
@pytest.mark.parametrize("op", sorted(BINARY))
def test_function_of_two_numbers(op: str, dtype: str) -> None:
    z = numbers(DTYPES[dtype])
    random = np.random.default_rng(1)
    check(f"{op}(%0, %1)", [random.choice(z, 4000), random.choice(z, 4000)], BINARY[op])
