"""Programs as native code and on NumPy give the same arrays."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from ndgrad._src.compiler.program.replay import Replay
from ndgrad._src.compiler.program.text import parse_program

pytest.importorskip("llvmlite")

import tests.op_programs  # noqa: F401  # loads all ops
from ndgrad._src.compiler.lower.native_program import NativeProgram


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


def test_a_constant_of_a_loop_in_a_loop_in_a_loop_is_read_by_it():
    same(
        """program p(%0: float64[3])
  %1: float64[3] = loop(%0, count=2, carried=1, invariant=0, reads=(), last=0)
    program body(%0: float64[3])
      %1: float64[3] = loop(%0, count=2, carried=1, invariant=0, reads=(), last=0)
        program body(%0: float64[3])
          constant %1: float64[3,3] = [[0.5, 0.25, 2.0], [3.0, 1.0, 0.125], [0.75, 1.5, 4.0]]
          %2: float64[3] = loop(%0, %1, count=3, carried=1, invariant=0, reads=((0, 1),), last=0)
            program body(%0: float64[3], %1: float64[3])
              %2: float64[3] = mul(%0, %1)
              return %2
          return %2
      return %1
  return %1
"""
    )


@pytest.mark.parametrize("rows", [495, 500, 513])
def test_a_number_summed_in_pieces_has_whole_vectors_in_each(rows: int) -> None:
    """A reduction over all dimensions except one of size one: one loop, shared by the workers."""
    same(
        f"""program p(%0: float64[{rows},1,8], %1: float64[1,1,1], %2: float64[{rows},1,8])
  %3: float64[{rows},1,8] = clamp(%0, -0.8, 0.8)
  %4: float64[{rows},1,8] = sub(%3, %1)
  %5: float64[{rows},1,8] = mul(%2, %4)
  %6: float64[{rows},1,8] = mul(%2, %3)
  %7: float64[{rows},1,8] = neg(%6)
  %8: float64[{rows},1,8] = add(%5, %6)
  %9: float64[1,1,1] = sum(%7, dim=(0, 2), keepdim=True, dtype=None)
  %10: bool[{rows},1,8] = ge(%0, -0.8)
  %11: bool[{rows},1,8] = le(%0, 0.8)
  %12: bool[{rows},1,8] = bitwise_and(%10, %11)
  %13: float64[{rows},1,8] = add(%8, %9)
  %14: float64[{rows},1,8] = keep(%13, %12)
  return %14
"""
    )
