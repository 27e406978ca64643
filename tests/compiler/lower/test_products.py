"""Matrix products as steps: what a program gives is what NumPy gives, with matrices that are packed ahead and without."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import ndgrad

pytest.importorskip("llvmlite")

from ndgrad._src.compiler.lower.native_program import NativeProgram
from ndgrad._src.compiler.lower.products import Product
from ndgrad._src.compiler.program.text import parse_program
from tests.compiler.lower.test_native_programs import failures_are_errors
from tests.compiler.traced import run

assert failures_are_errors  # a fixture that every test here uses

RNG = np.random.default_rng(5)


def normal(*shape: int, dtype: Any = np.float32) -> np.ndarray:
    return RNG.standard_normal(shape).astype(dtype)


# odd sizes, one row or column of pieces, both dtypes; the last is small
SHAPES = [
    ((309, 301, 203), np.float32),
    ((1000, 140, 67), np.float32),
    ((64, 784, 512), np.float32),
    ((301, 377, 95), np.float64),
    ((40, 90, 51), np.float64),
]


@pytest.mark.parametrize(("sizes", "dtype"), SHAPES)
@pytest.mark.parametrize("transposed", [False, True])
def test_a_layer_gives_what_numpy_gives_on_any_number_of_threads(
    sizes: tuple[int, int, int], dtype: Any, transposed: bool
) -> None:
    m, k, n = sizes
    x, b, s = normal(m, k, dtype=dtype), normal(n, dtype=dtype), normal(m, n, dtype=dtype)
    w = normal(n, k, dtype=dtype).T if transposed else normal(k, n, dtype=dtype)

    def f(x: Any, w: Any, b: Any, s: Any) -> Any:
        y = ndgrad.relu(x @ w + b) * s
        return [y, y.sum(0)]

    c = np.maximum(x.astype(np.float64) @ w + b, 0) * s
    tolerance = 60 * np.finfo(dtype).eps * k
    results = []
    for threads in (1, 2):
        found = [t.numpy() for t in ndgrad.compile(f, threads=threads)(*[ndgrad.tensor(a) for a in (x, w, b, s)])]
        for one, expected in zip(found, (c, c.sum(0)), strict=True):
            np.testing.assert_allclose(one, expected, rtol=tolerance, atol=tolerance * np.abs(expected).max())
        results.append(found[0])
    np.testing.assert_array_equal(*results)  # pieces change no sum


def test_products_of_a_wave_are_packed_ahead_together() -> None:
    """Both read one matrix, each of them packs another; memory of one must not be that of the other."""
    text = """
program two(%0: float32[256,300], %1: float32[300,200], %2: float32[300,120], %3: float32[40,300])
  %4: float32[256,200] = matmul(%0, %1)
  %5: float32[256,120] = matmul(%0, %2)
  %6: float32[40,200] = matmul(%3, %1)
  return %4, %5, %6
"""
    program = parse_program(text)
    made = NativeProgram(program, threads=2)
    assert [len(wave) for wave in made.waves] == [3]
    products = [step for wave in made.waves for step in wave if isinstance(step, Product)]
    assert [bool(step.ahead_bytes) for step in products] == [True, True, False]
    a = [normal(*v.shape) for v in program.inputs]
    for one, other in zip(made(a), run(program, a), strict=True):
        np.testing.assert_allclose(one, other, rtol=1e-3, atol=1e-3)


def test_one_piece_of_code_for_several_sizes() -> None:
    compiled = ndgrad.compile(lambda x, w, b: ndgrad.relu(x @ w + b).sum(0), dynamic=True)
    for rows in (256, 300, 411):
        x, w, b = normal(rows, 300), normal(300, 120), normal(120)
        found = compiled(*[ndgrad.tensor(a) for a in (x, w, b)]).numpy()
        expected = np.maximum(x.astype(np.float64) @ w + b, 0).sum(0)
        np.testing.assert_allclose(found, expected, rtol=1e-4, atol=1e-3)
