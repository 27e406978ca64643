"""Epilogues: which kernels go over the pieces of a convolution, and that what they give is what NumPy gives."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import ndgrad
from ndgrad.nn import functional as F

pytest.importorskip("llvmlite")

from ndgrad._src.compiler.lower.accounting import ops_of
from ndgrad._src.compiler.lower.epilogues import attach_epilogues
from ndgrad._src.compiler.lower.grouping import group_instructions
from ndgrad._src.compiler.lower.native_program import NativeProgram
from ndgrad._src.compiler.lower.steps import Finished, Step
from ndgrad._src.compiler.program.program import Program
from ndgrad._src.compiler.program.text import parse_program
from tests.compiler.lower.test_native_programs import failures_are_errors

assert failures_are_errors  # a fixture that every test here uses

RNG = np.random.default_rng(5)


def normal(*shape: int, dtype: Any = np.float32) -> np.ndarray:
    return RNG.standard_normal(shape).astype(dtype)


def show(steps: list[Step], program: Program) -> str:
    """Steps as text: a line for each, what is finished before what finishes it."""
    lines, defined = [], program.definitions()
    for step in steps:
        parts = [step.producer, step.kernel] if isinstance(step, Finished) else [step]
        lines.append(", then each piece: ".join(" ".join(ops_of(part, defined)) for part in parts))
    return "\n".join(lines)


def before_and_after(text: str) -> tuple[str, str]:
    program = parse_program(text)
    steps = group_instructions(program).steps
    return show(steps, program), show(attach_epilogues(steps, len(steps)), program)


CONVOLUTION = """
program block(%0: float32[8,16,24,24], %1: float32[32,16,3,3], %2: float32[32])
  %3: float32[8,32,24,24] = convolution(%0, %1, None, stride=(1, 1), padding=(1, 1), dilation=(1, 1), groups=1)
  %4: float32[32,1,1] = reshape(%2, shape=(32, 1, 1))
  %5: float32[8,32,24,24] = add(%3, %4)
  %6: float32[8,32,24,24] = relu(%5)
  %7: float32[8,32,24,24] = convolution(%6, %8, None, stride=(1, 1), padding=(1, 1), dilation=(1, 1), groups=1)
  %9: float32[32] = sum(%7, dim=(0, 2, 3), keepdim=False)
  return %9
"""


def test_what_follows_a_convolution_whose_channels_lie_last_is_an_epilogue() -> None:
    text = CONVOLUTION.replace("%2: float32[32])", "%2: float32[32], %8: float32[32,32,3,3])")
    before, after = before_and_after(text)
    assert before == "convolution\nadd relu\nconvolution\nsum"
    assert after == "convolution, then each piece: add relu\nconvolution, then each piece: sum"


#: Ops after a convolution that gives as many images.
SAME = """
program same(%0: float32[8,32,24,24], %1: float32[32,32,3,3], %2: float32[32,32,3,3])
  %3: float32[8,32,24,24] = convolution(%0, %1, None, stride=(1, 1), padding=(1, 1), dilation=(1, 1), groups=1)
  @
  return %4
"""
TRANSPOSED = "%5: float32[8,32,24,24] = permute(%3, dims=(0, 1, 3, 2))\n  %4: float32[8,32,24,24] = add(%3, %5)"
READ_BETWEEN = """%5: float32[8,32,24,24] = convolution(%3, %2, None, stride=(1, 1), padding=(1, 1), dilation=(1, 1), groups=1)
  %6: float32[8,1,1,1] = amax(%5, dim=(1, 2, 3), keepdim=True)
  %4: float32[8,32,24,24] = add(%3, %6)"""
IMAGES = "%4: float32[8] = sum(%3, dim=(1, 2, 3), keepdim=False)"


@pytest.mark.parametrize("what", [TRANSPOSED, READ_BETWEEN, IMAGES])
def test_what_is_no_epilogue(what: str) -> None:
    """It reads the result elsewhere; another step needs the result before; it takes whole images together."""
    before, after = before_and_after(SAME.replace("@", what))
    assert before == after
    assert "convolution" in before


def test_small_results_have_no_epilogue() -> None:
    text = CONVOLUTION.replace("%2: float32[32])", "%2: float32[32], %8: float32[32,32,3,3])")
    before, after = before_and_after(text.replace("24,24", "2,2"))
    assert before == after


def test_an_update_of_many_arrays_stays_by_itself() -> None:
    inputs = ", ".join(f"%{n}: float32[8,32,24,24]" for n in (5, 6, 7))
    text = SAME.replace("[32,32,3,3])", f"[32,32,3,3], {inputs})").replace("return %4", "return %8, %9, %4")
    chain = """%8: float32[8,32,24,24] = add(%3, %5)
  %9: float32[8,32,24,24] = mul(%8, %6)
  %4: float32[8,32,24,24] = add(%9, %7)"""
    before, after = before_and_after(text.replace("@", chain))
    assert before == after


@pytest.mark.parametrize(("stride", "side"), [(1, 24), (2, 7)])
def test_convolutions_with_epilogues_give_what_numpy_gives(stride: int, side: int) -> None:
    def f(x: Any, w: Any, g: Any) -> Any:
        y = F.conv2d(x, w, stride=stride, padding=1)
        z = F.relu(F.batch_norm(y, None, None, g, training=True))
        return F.conv2d(z, ndgrad.transpose(w, 0, 1), padding=1).sum((0, 2, 3))

    shapes = ((9, 24, side, side), (24, 24, 3, 3), (24,))
    x, w, g = (ndgrad.tensor(normal(*s, dtype=np.float64), requires_grad=True) for s in shapes)
    eager = f(x, w, g)
    wanted = ndgrad.autograd.grad((eager * eager).sum(), (x, w, g))
    out = ndgrad.compile(f)(x, w, g)
    found = ndgrad.autograd.grad((out * out).sum(), (x, w, g))
    for one, other in zip((out, *found), (eager, *wanted), strict=True):
        a, b = one.detach().numpy(), other.detach().numpy()
        np.testing.assert_allclose(a, b, rtol=1e-9, atol=1e-9 * np.abs(b).max())


def test_a_routine_whose_result_is_one_number() -> None:
    text = """
program one(%0: float64[5])
  %1: int64[] = argmax(%0, dim=0, keepdim=False)
  %2: float64[] = index(%0, %1)
  return %2
"""
    program = parse_program(text)
    assert NativeProgram(program)([np.array([1.0, 4.0, 2.0, 0.0, 3.0])])[0] == 4.0
