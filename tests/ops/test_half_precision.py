"""float16 and bfloat16 through every op of the table: computed in single precision, rounded once, differentiable in both modes.

The oracle is the op itself in double precision, on the same (rounded) numbers.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import ndgrad
from ndgrad._src.arrays.precision import finfo, is_floating
from ndgrad._src.ops.table import RANDOM, Op, table
from ndgrad.func import jvp, vjp
from ndgrad.testing.op_checks import Sample
from tests.op_programs import SAMPLES, differentiable, program_of

pytest.importorskip("ml_dtypes")

HALVES = {"float16": np.dtype(np.float16), "bfloat16": ndgrad.bfloat16.numpy}

#: Outputs that stay in single precision: the statistics of a batch, which are averaged over many, and values that only
#: gradients read, such as logarithms of sums and the divisor of a mean.
IN_SINGLE = {("native_batch_norm", 1), ("native_batch_norm", 2), ("attention_with_logs", 1), ("class_loss", 1)}
#: Ops whose results on halves cannot match double precision, with the reason.
EXCUSED = {
    "view_as_complex": "there are no complex numbers of two halves",
}


def is_real(op: Op, sample: Sample) -> bool:
    """True if a sample has something to differentiate, and all its numbers are double precision or integers."""
    arrays = [a for a in sample.args if isinstance(a, (np.ndarray, np.generic))]
    return bool(differentiable(op, sample)) and all(a.dtype == np.float64 or a.dtype.kind in "biu" for a in arrays)


def rounded_sample(sample: Sample, dtype: np.dtype) -> Sample:
    """Return the sample with its real arguments rounded to `dtype` and widened again."""
    return as_type(as_type(sample, dtype), np.dtype(np.float64))


def as_type(sample: Sample, dtype: np.dtype) -> Sample:
    args = tuple(a.astype(dtype) if isinstance(a, np.ndarray) and is_floating(a.dtype) else a for a in sample.args)
    return Sample(args, sample.settings, prepare=sample.prepare, invariant=sample.invariant)


def defined(op: Op, sample: Sample) -> tuple[Any, list[Any]]:
    """Return the op as a function of its differentiable arguments.

    If a sign, a phase or an order is arbitrary, the function returns only values that do not depend on it, because only
    these have a derivative.
    """
    program, inputs = program_of(op, sample)
    invariant = sample.invariant
    return (program if invariant is None else lambda *given: tuple(invariant(*program(*given)))), inputs


def assert_rounded(got: Any, want: Any, dtype: np.dtype, what: str) -> None:
    """Check that `got` is `want` to a few units in the last place of the largest numbers."""
    got, want = np.asarray(got, np.float64), np.asarray(want, np.float64)
    limits = finfo(dtype)
    with np.errstate(all="ignore"):
        finite = np.isfinite(want) & (np.abs(want) < float(limits.max))
    np.testing.assert_array_equal(np.isfinite(got) | ~finite, True, err_msg=what)
    size = np.abs(want[finite]).max(initial=0.0)
    bound = 8 * float(limits.eps) * size + 8 * float(limits.smallest_subnormal if dtype == np.float16 else 1e-38)
    np.testing.assert_allclose(got[finite], want[finite], rtol=0, atol=bound, err_msg=what)


CASES = [
    pytest.param(table[name], sample, id=f"{name}-{number}", marks=() if number == 0 else pytest.mark.slow)
    for name, found in SAMPLES.items()
    if name in table and table[name].differentiable and table[name].batch is not RANDOM and name not in EXCUSED
    for number, sample in enumerate(s for s in found if is_real(table[name], s))
]


@pytest.mark.parametrize("half", HALVES)
@pytest.mark.parametrize(("op", "sample"), CASES)
def test_halves_are_computed_in_single_precision_and_rounded_once(op, sample, half):
    dtype = HALVES[half]
    wide = rounded_sample(sample, dtype)
    with np.errstate(all="ignore"):
        program, inputs = defined(op, wide)
        halved, narrow = defined(op, as_type(wide, dtype))
        assert all(t.dtype == dtype for t in narrow)
        want, got = program(*inputs), halved(*narrow)
        single, inputs_in_single = defined(op, as_type(wide, np.dtype(np.float32)))
        dtypes = [dtype if o.dtype == np.float32 else o.dtype for o in single(*inputs_in_single)]
        random = np.random.default_rng(0)
        cotangents = [random.uniform(0.5, 1.5, tuple(o.shape)).astype(dtype).astype(o.numpy().dtype) for o in want]
        tangents = [random.uniform(0.5, 1.5, tuple(t.shape)).astype(dtype) for t in narrow]
        if not got:
            return  # a sample without a derivative
        for number, (g, w) in enumerate(zip(got, want, strict=True)):
            assert g.dtype == dtypes[number] or (op.name, number) in IN_SINGLE, f"{op.name} of {half} is {g.dtype}"
            if not w.dtype.is_complex:
                assert_rounded(g.detach().float().numpy(), w.detach().numpy(), dtype, f"{op.name}: value")
        _, pull = vjp(program, *inputs)
        _, pull_halves = vjp(halved, *narrow)
        wants = pull(tuple(ndgrad.tensor(c) for c in cotangents))
        gots = pull_halves(tuple(ndgrad.tensor(c).to(o.dtype) for c, o in zip(cotangents, got, strict=True)))
        for g, w in zip(gots, wants, strict=True):
            assert g.dtype == dtype
            assert_rounded(g.float().numpy(), w.numpy(), dtype, f"{op.name}: gradient")
        _, moved = jvp(program, tuple(inputs), tuple(ndgrad.tensor(t.astype(np.float64)) for t in tangents))
        _, moved_halves = jvp(halved, tuple(narrow), tuple(map(ndgrad.tensor, tangents)))
        for g, w, o in zip(moved_halves, moved, got, strict=True):
            assert g.dtype == o.dtype
            if not w.dtype.is_complex:
                assert_rounded(g.float().numpy(), w.numpy(), dtype, f"{op.name}: tangent")
