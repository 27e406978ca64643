"""Every op of the table, compiled and eager: values, gradients and second derivatives, in double and single precision.

On NumPy a program runs the same functions on the same arrays in the same order, so no value may differ in any bit. For other backends the
number of units in the last place is a parameter (NDGRAD_COMPILE_ULP).
"""

from __future__ import annotations

import os
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import ndgrad
from ndgrad._src.arrays.precision import is_inexact
from ndgrad._src.compiler.capture.memory_order import _kept_order
from ndgrad._src.compiler.runtime.function import CompiledFunction
from ndgrad._src.ops.table import DATA_DEPENDENT, NOT_DIFFERENTIABLE, RANDOM
from ndgrad._src.ops.vocabulary import find
from tests.op_programs import SAMPLES, program_of

ULP = int(os.environ.get("NDGRAD_COMPILE_ULP", "0"))
#: Tolerance for gradients: eager rules see arrays and take short cuts by their contents and owners, which round
#: differently.
RULES = 32

#: Ops whose programs run eagerly, with the reason.
EAGER = {
    "as_strided": "shows memory in another way than a program can",
    "view_dtype": "shows memory in another way than a program can",
    "bincount": "the shape depends on values",
    "masked_select": "the shape depends on values",
    "masked_select_backward": "the shape depends on values",
    "to_device": "is no computation",
    "cholesky_banded": "refuses the zeros by which shapes are found",
    "continuous_riccati": "refuses the zeros by which shapes are found",
    "solve_toeplitz": "refuses the zeros by which shapes are found",
    "sparse_solve": "refuses the zeros by which shapes are found",
    "matrix_log": "SciPy draws random numbers",
    "refuse_phase": "is there for the error that it raises",
    "eig": "its gradient asks refuse_phase",
}


@pytest.fixture(autouse=True)
def lanes_of_their_own(monkeypatch: pytest.MonkeyPatch) -> None:
    """Trace ops as in long programs, in which each op has a generated function."""
    monkeypatch.setattr("ndgrad._src.compiler.capture.traced_calls._FREQUENT", 0)


def as_array(t: Any) -> Any:
    return None if t is None else np.asarray(t.detach()._array)


def equal(found: Any, expected: Any, what: str) -> None:
    """True if two lists of arrays agree in every bit, or within ULP units in the last place."""
    assert len(found) == len(expected), what
    for a, b in zip(found, expected, strict=True):
        assert (a is None) == (b is None), what
        if b is None:
            continue
        assert (a.shape, a.dtype) == (b.shape, b.dtype), what
        units = (ULP or (0 if what.endswith("values") else RULES)) * (4 if what.endswith("second") else 1)
        if units and is_inexact(b.dtype):
            scale = np.finfo(b.dtype).eps * units
            np.testing.assert_allclose(a, b, rtol=scale, atol=scale * float(np.max(np.abs(b), initial=0.0)), err_msg=what)
        else:
            np.testing.assert_array_equal(a, b, err_msg=what)


def outcome(run: Callable[..., Any], inputs: list[Any], second: bool) -> dict[str, Any]:
    """Return the results of a function, the gradients of a weighted sum, and the gradients of a weighted sum of these.
    """
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


def check(name: str, dtype: str, samples: Any, second: bool) -> None:
    op = find(name)
    eagerly = runs = 0
    for number, sample in samples:
        program, inputs = program_of(op, sample)
        if dtype == "single":
            if sample.prepare is not None:
                continue
            inputs = [t.to(ndgrad.complex64 if t.is_complex() else ndgrad.float32) for t in inputs]
        twice = second and sample.smooth and op.vjp is not NOT_DIFFERENTIABLE
        try:
            expected = outcome(program, inputs, twice)
        except (RuntimeError, TypeError, ValueError, np.linalg.LinAlgError, NotImplementedError):
            continue  # not for single precision
        compiled = CompiledFunction(program)
        found = outcome(compiled, inputs, twice)
        broken = compiled.entries[0].broken
        runs += 1
        if op.batch in (RANDOM, DATA_DEPENDENT) or name in EAGER:
            eagerly += broken is not None  # samples without elements may be compiled
        else:
            assert broken is None, f"{name}, sample {number}: {broken.reason}"
        for what, arrays in expected.items():
            if op.batch is not RANDOM:
                equal(found[what], arrays, f"{name}, sample {number}: {what}")
    if name in EAGER:
        assert eagerly or not runs, f"{name} is compiled: take it out of EAGER"


@pytest.fixture(autouse=True)
def backend(monkeypatch: pytest.MonkeyPatch) -> None:
    if not ULP:
        monkeypatch.setenv("NDGRAD_COMPILE_REPLAY", os.environ.get("NDGRAD_COMPILE_REPLAY", "1"))


@pytest.mark.parametrize("name", sorted(SAMPLES))
def test_compiled_op_equals_eager(name: str) -> None:
    check(name, "double", [(0, SAMPLES[name][0])], second=False)


# ----- complex numbers as native code -----------------------------------------------------------------------------------


def is_complex(sample: Any) -> bool:
    return any(isinstance(a, np.ndarray) and a.dtype.kind == "c" for a in sample.args)


def check_complex(name: str, dtype: str, second: bool, monkeypatch: pytest.MonkeyPatch) -> None:
    """Complex ops, which are split into real ones (ndgrad._src.compiler.passes.complex_parts), within some units in the
    last place.
    """
    monkeypatch.delenv("NDGRAD_COMPILE_REPLAY", raising=False)
    monkeypatch.setenv("NDGRAD_COMPILE_RAISE", "1")
    monkeypatch.setattr(f"{__name__}.ULP", ULP or 200)
    with np.errstate(all="ignore"):
        check(name, dtype, [(i, s) for i, s in enumerate(SAMPLES[name]) if is_complex(s)][: None if second else 1], second)


OF_COMPLEX = sorted(name for name in SAMPLES if any(is_complex(s) for s in SAMPLES[name]))
#: One of each kind: arithmetic, functions, parts, choices, views, indices, sums, products, and ops that NumPy runs.
SOME = (
    "addcdiv pow exp log sgn where getitem index_add cumsum mean matmul contract linear vector_norm fft_c2c solve"
).split()


@pytest.mark.parametrize("name", SOME)
def test_native_op_of_complex_numbers_equals_eager(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    pytest.importorskip("llvmlite")
    check_complex(name, "double", False, monkeypatch)


@pytest.mark.slow
@pytest.mark.parametrize("name", OF_COMPLEX)
@pytest.mark.parametrize("dtype", ["double", "single"])
def test_every_native_op_of_complex_numbers_equals_eager_to_second_order(name: str, dtype: str, monkeypatch: pytest.MonkeyPatch) -> None:
    pytest.importorskip("llvmlite")
    check_complex(name, dtype, True, monkeypatch)


@pytest.mark.slow
@pytest.mark.parametrize("name", sorted(SAMPLES))
@pytest.mark.parametrize("dtype", ["double", "single"])
def test_compiled_op_equals_eager_on_all_samples_to_second_order(name: str, dtype: str) -> None:
    check(name, dtype, enumerate(SAMPLES[name]), second=True)


# ----- assumptions of a trace about memory order ------------------------------------------------------------------------


def in_order(argument: Any, order: Any) -> Any:
    return np.array(argument, order=order) if isinstance(argument, np.ndarray) else argument


def results_of(op: Any, sample: Any, order: Any) -> tuple[list[Any], list[Any]]:
    """Return an op on arguments in one memory order, and these arguments."""
    args: Any = sample.args
    if sample.prepare is not None:
        made = sample.prepare(*[ndgrad.tensor(a) if isinstance(a, np.ndarray) else a for a in args])
        args = [np.asarray(t._array) if isinstance(t, ndgrad.Tensor) else t for t in (made if isinstance(made, tuple) else (made,))]
    args = [in_order(a, order) for a in args]
    found = op.forward_for(np)(*args, **{**op.settings, **sample.settings})
    return list(found) if isinstance(found, tuple) else [found], args


#: The result of `copy` is not visible: it is written into existing memory.
ORDERLY = sorted(n for n in SAMPLES if n != "copy" and find(n).memory_order is not None)
KEEPING = [n for n in ORDERLY if find(n).memory_order == "kept"]


@pytest.mark.parametrize("name", ORDERLY)
def test_results_lie_in_order_where_a_trace_says_so(name: str) -> None:
    tried = 0
    for sample in SAMPLES[name]:
        if sample.settings.get("reverse"):  # a view with negative strides
            continue
        for array in results_of(find(name), sample, "C")[0]:
            assert np.asarray(array).flags.c_contiguous, f"{name} of {[np.shape(a) for a in sample.args]}, {sample.settings}"
            tried += 1
    assert tried


@pytest.mark.parametrize("name", KEEPING)
def test_results_keep_the_order_of_arguments_where_a_trace_says_so(name: str) -> None:
    op = find(name)
    for sample in SAMPLES[name]:
        for order in "CF":
            results, args = results_of(op, sample, order)
            given = tuple((a.shape, a.strides) for a in args if isinstance(a, np.ndarray))
            for array in map(np.asarray, results):
                if array.ndim > 1 and array.size and 1 not in array.shape:
                    expected = tuple(s * array.itemsize for s in _kept_order(array.shape, given))
                    assert array.strides == expected, f"{name} of {[np.shape(a) for a in args]} in order {order}"
