"""Epilogues: which kernels go over the pieces of a product or a convolution, and that what they give is what NumPy gives."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import ndgrad
from ndgrad.nn import functional as F

pytest.importorskip("llvmlite")

from ndgrad.compiler.accounting import ops_of
from ndgrad.compiler.lower.epilogues import finished
from ndgrad.compiler.lower.group import grouped
from ndgrad.compiler.lower.native_program import NativeProgram
from ndgrad.compiler.lower.steps import Finished, Step
from ndgrad.compiler.program import Program
from ndgrad.compiler.text import parse_program
from tests.compiler.lower.test_native_programs import failures_are_errors
from tests.compiler.traced import run

assert failures_are_errors  # a fixture that every test here uses

RNG = np.random.default_rng(5)


def normal(*shape: int, dtype: Any = np.float32) -> np.ndarray:
    return RNG.standard_normal(shape).astype(dtype)


def shown(steps: list[Step], program: Program) -> str:
    """Steps as text: a line for each, what is finished before what finishes it."""
    lines, defined = [], program.definitions()
    for step in steps:
        parts = [step.producer, step.kernel] if isinstance(step, Finished) else [step]
        lines.append(", then each piece: ".join(" ".join(ops_of(part, defined)) for part in parts))
    return "\n".join(lines)


def before_and_after(text: str) -> tuple[str, str]:
    program = parse_program(text)
    steps = grouped(program).steps
    return shown(steps, program), shown(finished(steps, len(steps)), program)


LAYER = """
program layer(%0: float32[256,300], %1: float32[300,200], %2: float32[200], %3: float32[256,200])
  %4: float32[256,200] = matmul(%0, %1)
  %5: float32[256,200] = add(%4, %2)
  %6: float32[256,200] = relu(%5)
  %7: float32[256,200] = mul(%6, %3)
  %8: float32[200] = sum(%7, dim=(0,), keepdim=False)
  return %7, %8
"""


def test_bias_activation_and_sum_of_columns_are_an_epilogue() -> None:
    before, after = before_and_after(LAYER)
    assert before == "matmul\nadd relu mul sum"
    assert after == "matmul, then each piece: add relu mul sum"


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


SQUARE = """
program square(%0: float32[256,300], %1: float32[300,256], %2: float32[256,64])
  %3: float32[256,256] = matmul(%0, %1)
  @
  return %4
"""
TRANSPOSED = "%5: float32[256,256] = permute(%3, dims=(1, 0))\n  %4: float32[256,256] = add(%3, %5)"
READ_BETWEEN = """%5: float32[256,64] = matmul(%3, %2)
  %6: float32[256,1] = amax(%5, dim=(1,), keepdim=True)
  %4: float32[256,256] = add(%3, %6)"""
ROWS = "%4: float32[256] = sum(%3, dim=(1,), keepdim=False)"


@pytest.mark.parametrize("what", [TRANSPOSED, READ_BETWEEN, ROWS])
def test_what_is_no_epilogue(what: str) -> None:
    """It reads the result elsewhere; another step needs the result before; it takes whole rows together."""
    before, after = before_and_after(SQUARE.replace("@", what))
    assert before == after
    assert "matmul" in before


def test_small_results_have_no_epilogue() -> None:
    before, after = before_and_after(LAYER.replace("[256,", "[16,"))
    assert before == after


def test_an_update_of_many_arrays_stays_by_itself() -> None:
    inputs = ", ".join(f"%{n}: float32[512,512]" for n in (2, 3, 4))
    text = f"""
program update(%0: float32[512,64], %1: float32[64,512], {inputs})
  %5: float32[512,512] = matmul(%0, %1)
  %6: float32[512,512] = add(%5, %2)
  %7: float32[512,512] = mul(%6, %3)
  %8: float32[512,512] = add(%7, %4)
  return %6, %7, %8
"""
    assert before_and_after(text)[1] == "matmul\nadd mul add"


# odd sizes, one row or column of pieces, both dtypes, a transposed operand, bias along rows or columns
SHAPES = [
    ((129, 301, 203), np.float32, (203,)),
    ((1000, 40, 67), np.float32, (1000, 1)),
    ((64, 784, 512), np.float32, (512,)),
    ((301, 77, 95), np.float64, (1, 95)),
    ((40, 900, 515), np.float64, (40, 1)),
]


@pytest.mark.parametrize(("sizes", "dtype", "bias"), SHAPES)
@pytest.mark.parametrize("transposed", [False, True])
def test_epilogues_give_what_numpy_gives(
    sizes: tuple[int, int, int], dtype: Any, bias: tuple[int, ...], transposed: bool
) -> None:
    m, k, n = sizes
    x, b, s = normal(m, k, dtype=dtype), normal(*bias, dtype=dtype), normal(m, n, dtype=dtype)
    w = normal(n, k, dtype=dtype).T if transposed else normal(k, n, dtype=dtype)

    def f(x: Any, w: Any, b: Any, s: Any) -> Any:
        y = ndgrad.relu(x @ w + b) * s
        return [y, y.sum(0), y.amax(0)]

    c = np.maximum(x.astype(np.float64) @ w + b, 0) * s
    tolerance = 60 * np.finfo(dtype).eps * k
    for threads in (1, 2):
        found = [t.numpy() for t in ndgrad.compile(f, threads=threads)(*[ndgrad.tensor(a) for a in (x, w, b, s)])]
        for one, expected in zip(found, (c, c.sum(0), c.max(0)), strict=True):
            np.testing.assert_allclose(one, expected, rtol=tolerance, atol=tolerance * np.abs(expected).max())
        if threads == 1:
            alone = found
    for one, other in zip(alone, found, strict=True):
        np.testing.assert_array_equal(one, other)  # pieces do not depend on the number of threads


def test_batches_of_products_are_finished_piece_by_piece() -> None:
    text = """
program batch(%0: float32[3,200,130], %1: float32[3,130,170], %2: float32[170])
  %3: float32[3,200,170] = matmul(%0, %1)
  %4: float32[3,200,170] = add(%3, %2)
  %5: float32[3,200,170] = tanh(%4)
  %6: float32[170] = sum(%5, dim=(0, 1), keepdim=False)
  return %5, %6
"""
    program = parse_program(text)
    made = NativeProgram(program)
    assert [type(step) for step in made.groups.steps] == [Finished]
    a = [normal(*v.shape) for v in program.inputs]
    y = np.tanh(a[0].astype(np.float64) @ a[1] + a[2])
    found = made(a)
    np.testing.assert_allclose(found[0], y, atol=2e-5)
    np.testing.assert_allclose(found[1], y.sum((0, 1)), atol=1e-3)
    for count in (40, 33):  # whole products are pieces then
        again = parse_program(text.replace("[3,", f"[{count},"))
        a = [normal(*v.shape) for v in again.inputs]
        y = np.tanh(a[0].astype(np.float64) @ a[1] + a[2])
        found = NativeProgram(again)(a)
        np.testing.assert_allclose(found[0], y, atol=2e-5)
        np.testing.assert_allclose(found[1], y.sum((0, 1)), atol=5e-3)


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


def test_second_derivatives_through_epilogues() -> None:
    def f(x: Any, w: Any, v: Any) -> Any:
        return (ndgrad.tanh(ndgrad.tanh(x @ w) @ v) ** 2).sum()

    shapes = ((150, 90), (90, 110), (110, 70))
    x, w, v = (ndgrad.tensor(normal(*s, dtype=np.float64), requires_grad=True) for s in shapes)
    results = []
    for function in (f, ndgrad.compile(f)):
        (g,) = ndgrad.autograd.grad(function(x, w, v), (w,), create_graph=True)
        results.append(ndgrad.autograd.grad((g * g).sum(), (x, v)))
    for one, other in zip(*results, strict=True):
        np.testing.assert_allclose(one.numpy(), other.numpy(), rtol=1e-9, atol=1e-9)


def test_one_piece_of_code_for_several_sizes() -> None:
    compiled = ndgrad.compile(lambda x, w, b: ndgrad.relu(x @ w + b).sum(0), dynamic=True)
    for rows in (256, 300, 411):
        x, w, b = normal(rows, 200), normal(200, 120), normal(120)
        found = compiled(*[ndgrad.tensor(a) for a in (x, w, b)]).numpy()
        expected = np.maximum(x.astype(np.float64) @ w + b, 0).sum(0)
        np.testing.assert_allclose(found, expected, rtol=1e-4, atol=1e-3)


def test_steps_with_epilogues_run_at_once() -> None:
    """The two products of a backward pass are a wave, one of them with its mask and its sum."""
    text = """
program two(%0: float32[256,300], %1: float32[300,200], %2: float32[256,200], %3: float32[300,200])
  %4: float32[256,200] = matmul(%0, %1)
  %5: float32[256,200] = keep(%4, %2)
  %6: float32[200] = sum(%5, dim=(0,), keepdim=False)
  %7: float32[256,200] = matmul(%0, %3)
  %8: float32[256,200] = exp(%7)
  return %5, %6, %8
"""
    program = parse_program(text)
    made = NativeProgram(program, threads=2)
    assert [len(wave) for wave in made.waves] == [2]
    a = [normal(*v.shape) * 0.1 for v in program.inputs]
    for one, other in zip(made(a), run(program, a), strict=True):
        np.testing.assert_allclose(one, other, rtol=1e-3, atol=1e-4)


def test_a_routine_whose_result_is_one_number() -> None:
    text = """
program one(%0: float64[5])
  %1: int64[] = argmax(%0, dim=0, keepdim=False)
  %2: float64[] = index(%0, %1)
  return %2
"""
    program = parse_program(text)
    assert NativeProgram(program)([np.array([1.0, 4.0, 2.0, 0.0, 3.0])])[0] == 4.0
