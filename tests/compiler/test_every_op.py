"""Every op of the table, compiled and eager: values, gradients and second derivatives, in double and single precision.

On NumPy a program runs the same functions on the same arrays in the same order, so nothing may differ in any bit. For other backends the
number of units in the last place is a parameter (NDGRAD_COMPILE_ULP).
"""

from __future__ import annotations

import os
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import ndgrad
from ndgrad.arrays.precision import is_inexact
from ndgrad.compiler.function import CompiledFunction
from ndgrad.ops.table import DATA_DEPENDENT, NOT_DIFFERENTIABLE, OPS, RANDOM
from tests.op_programs import SAMPLES, program_of

ULP = int(os.environ.get("NDGRAD_COMPILE_ULP", "0"))

#: Ops whose programs run eagerly, and why.
EAGER = {}


def as_array(t: Any) -> Any:
    return None if t is None else np.asarray(t.detach()._array)


def equal(found: Any, expected: Any, what: str) -> None:
    """Whether two lists of arrays are the same in every bit, or within ULP units in the last place."""
    assert len(found) == len(expected), what
    for a, b in zip(found, expected, strict=True):
        assert (a is None) == (b is None), what
        if b is None:
            continue
        assert (a.shape, a.dtype) == (b.shape, b.dtype), what
        if ULP and is_inexact(b.dtype):
            scale = np.finfo(b.dtype).eps * ULP
            np.testing.assert_allclose(a, b, rtol=scale, atol=scale * float(np.max(np.abs(b), initial=0.0)), err_msg=what)
        else:
            np.testing.assert_array_equal(a, b, err_msg=what)


def outcome(run: Callable[..., Any], inputs: list[Any], second: bool) -> dict[str, Any]:
    """What a function gives: results, gradients of a weighted sum, and gradients of a weighted sum of these."""
    leaves = [t.detach().clone().requires_grad_() if t.is_floating_point() or t.is_complex() else t for t in inputs]
    wanted = [t for t in leaves if t.requires_grad]
    results = run(*leaves)
    found = {"values": [as_array(r) for r in results]}
    rng = np.random.default_rng(0)
    roots = [r for r in results if r.requires_grad]
    if roots and wanted:
        weights = [ndgrad.tensor(rng.standard_normal(r.shape).astype(as_array(r).dtype)) for r in roots]
        gradients = ndgrad.autograd.grad(roots, wanted, weights, create_graph=second, allow_unused=True)
        found["gradients"] = [as_array(g) for g in gradients]
        again = [g for g in gradients if g is not None and g.requires_grad]
        if second and again:
            weights = [ndgrad.tensor(rng.standard_normal(g.shape).astype(as_array(g).dtype)) for g in again]
            found["second"] = [as_array(g) for g in ndgrad.autograd.grad(again, wanted, weights, allow_unused=True)]
    return found


@pytest.mark.parametrize("name", sorted(SAMPLES))
@pytest.mark.parametrize("dtype", ["double", "single"])
def test_compiled_op_equals_eager(name: str, dtype: str) -> None:
    op = OPS[name]
    for number, sample in enumerate(SAMPLES[name]):
        program, inputs = program_of(op, sample)
        if dtype == "single":
            if sample.prepare is not None:
                continue
            inputs = [t.to(ndgrad.complex64 if t.is_complex() else ndgrad.float32) for t in inputs]
        second = sample.smooth and op.vjp is not NOT_DIFFERENTIABLE
        try:
            expected = outcome(program, inputs, second)
        except (RuntimeError, TypeError, ValueError, np.linalg.LinAlgError, NotImplementedError):
            continue  # not for single precision
        compiled = CompiledFunction(program)
        found = outcome(compiled, inputs, second)
        broken = compiled.entries[0].broken
        if op.batch in (RANDOM, DATA_DEPENDENT) or name in EAGER:
            assert broken is not None, f"{name} is compiled: take it out of EAGER"
            continue
        assert broken is None, f"{name}, sample {number}: {broken.reason}"
        for what, arrays in expected.items():
            equal(found[what], arrays, f"{name}, sample {number}: {what}")
