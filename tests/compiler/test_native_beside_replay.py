"""Programs as native code and on NumPy give the same arrays."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from ndgrad.compiler.replay import Replay
from ndgrad.compiler.text import parse_program

pytest.importorskip("llvmlite")

import tests.op_programs  # noqa: F401  # which loads all ops
from ndgrad.compiler.lower.native_program import NativeProgram


def same(text: str) -> None:
    program = parse_program(text)
    rng = np.random.default_rng(0)
    inputs: list[Any] = [rng.standard_normal(v.shape).astype(v.dtype) for v in program.inputs]
    for found, expected in zip(NativeProgram(program)(inputs), Replay(program)(inputs), strict=True):
        np.testing.assert_allclose(found, expected, rtol=1e-12, atol=1e-14)


def test_a_conjugate_is_no_view_of_complex_numbers():
    same(
        """program p(%0: float64[3])
  %1: complex128[3] = fft_r2c(%0, dims=(0,), scale='none', onesided=False)
  %2: complex128[3] = conj(%1)
  %3: complex128[3] = mul(%2, %2)
  return %3
"""
    )
