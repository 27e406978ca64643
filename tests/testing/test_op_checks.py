"""check_op finds what is wrong with an op, whatever it is."""

from __future__ import annotations

import io
import sys

import numpy as np
import pytest

from ndgrad._src.ops.table import elementwise, op, table
from ndgrad.testing import Sample, check_op
from ndgrad.testing.op_checks import CHECKS, Failure

X = np.array([[0.3, -1.2, 2.0], [0.7, 1.1, -0.4]])


@pytest.fixture
def make_op():
    """Return a function that makes ops, which leave the table after the test."""
    before = set(table)
    yield lambda kind, name, *args, **rules: kind(f"test_{name}", *args, **rules)
    for name in set(table) - before:
        del table[name]


def cube(make_op, **changes):
    rules = {"x": lambda t, x: 3.0 * t * x * x, **changes}
    return make_op(elementwise, "cube", lambda x: x * x * x, **rules)


def sample(**options):
    return Sample((X,), reference=lambda x: x**3, **options)


def test_a_right_op_passes_everything(make_op):
    ran = check_op(cube(make_op), sample(), Sample((X + 1j,), reference=lambda x: x**3))
    assert set(CHECKS) < set(ran)
    assert set(ran) - set(CHECKS) == {"strided memory", "single precision", "empty batch", "no dimensions", "no elements"}


def test_variants_can_be_left_out(make_op):
    assert set(check_op(cube(make_op), sample(), variants=False)) == set(CHECKS)


def test_no_sample_is_an_error(make_op):
    with pytest.raises(ValueError, match="no sample"):
        check_op(cube(make_op))


def test_a_wrong_value(make_op):
    f = make_op(elementwise, "value", lambda x: x * x, x=lambda t, x: 2.0 * t * x)
    with pytest.raises(Failure, match="value is"):
        check_op(f, sample())


def test_a_wrong_first_derivative(make_op):
    with pytest.raises(Failure, match="jvp is"):
        check_op(cube(make_op, x=lambda t, x: 2.0 * t * x * x), sample())


def test_a_wrong_second_derivative(make_op):
    with pytest.raises(Failure, match="jvp of vjp"):
        check_op(cube(make_op, x=lambda t, x, ops: 3.0 * t * ops.detach(x) * x), sample())


def test_a_wrong_third_derivative(make_op):
    """The derivative of x^2 / 2 is x, and of that, here, half of what it should be."""
    half = make_op(elementwise, "half_square", lambda x: 0.5 * x * x, x=lambda t, x, ops: t * ops.test_self(x))
    make_op(elementwise, "self", lambda x: x * 1.0, x=lambda t, x, ops: t * ops.test_one(x))
    make_op(elementwise, "one", lambda x: 1.0 + 0.0 * x, x=lambda t: t * 0.25)
    with pytest.raises(Failure, match="jvp of jvp of vjp"):
        check_op(half, Sample((X,), reference=lambda x: x * x / 2))


def test_a_reverse_rule_that_is_not_the_transpose(make_op):
    f = make_op(
        op, "turned", "x", lambda x: x @ np.array([[0.0, 1.0, 0.0], [0.0, 0.0, 1.0], [1.0, 0.0, 0.0]]),
        vjp={"x": lambda g, ops: g}, jvp="linear", batch="leading",
    )  # fmt: skip
    with pytest.raises(Failure, match="not the transpose"):
        check_op(f, Sample((X,), reference=lambda x: np.roll(x, 1, 1)))


def test_a_forgotten_conjugate(make_op):
    f = make_op(elementwise, "modulus", lambda np, x: np.abs(x), vjp={"x": lambda g, x, out: g * x.conj() / out},
             jvp={"x": lambda t, x, out, ops: ops.real(t * ops.conj(x)) / out})  # fmt: skip
    with pytest.raises(Failure, match="not the transpose"):
        check_op(f, Sample((X + 1j,), reference=np.abs))


def test_a_wrong_batching_rule(make_op):
    f = make_op(op, "total", "x", lambda np, x: np.sum(x), vjp={"x": lambda g, x_shape, ops: ops.expand(g, shape=x_shape)}, jvp="linear",
             batch=lambda x, ops: ops.expand(ops.reshape(ops.sum(x, dim=(0, 1)), shape=(1,)), shape=(x.shape[0],)))  # fmt: skip
    with pytest.raises(Failure, match="vmap"):
        check_op(f, Sample((X[0],), reference=np.sum))


def test_a_batching_rule_that_loops(make_op):
    def loop(x, ops):
        return ops.stack(*(ops.getitem(x, index=(i,)) * 2.0 for i in range(x.shape[0])), dim=0)

    f = make_op(op, "doubled", "x", lambda x: x * 2.0, vjp={"x": lambda g: g * 2.0}, jvp="linear", batch=loop)
    with pytest.raises(Failure, match="loop"):
        check_op(f, Sample((X,), reference=lambda x: 2 * x))


def test_a_forward_that_minds_the_memory(make_op):
    f = make_op(elementwise, "memory", lambda x: x * 2.0 if x.flags.c_contiguous else x * 3.0, x=lambda t: 2.0 * t)
    with pytest.raises(Failure, match="strided memory"):
        check_op(f, Sample((X,), reference=lambda x: 2 * x))


def test_a_forward_that_leaves_single_precision(make_op):
    f = make_op(elementwise, "wide", lambda x: x * np.float64(2.0), x=lambda t: 2.0 * t)
    with pytest.raises(Failure, match="single precision"):
        check_op(f, Sample((X,), reference=lambda x: 2 * x))


def test_a_forward_that_needs_elements(make_op):
    def forward(x):
        return x - 0.0 * np.max(x)

    with pytest.raises(Exception, match="zero-size"):
        check_op(make_op(elementwise, "largest", forward, x=lambda t: t), Sample((X,), reference=lambda x: x))


def test_skipped_checks_are_skipped(make_op):
    ran = check_op(cube(make_op), sample(skip={"jvp of vjp": "no reason", "empty batch": "no reason"}))
    assert "jvp of vjp" not in ran
    assert "empty batch" not in ran


def test_progress_is_shown_on_a_terminal(make_op, monkeypatch):
    from ndgrad.autograd.gradcheck import progress

    class Terminal(io.StringIO):
        def isatty(self):
            return True

    monkeypatch.setattr(progress, "_PATIENCE", 0.0)
    terminal = Terminal()
    monkeypatch.setattr(sys, "stderr", terminal)
    check_op(cube(make_op), sample())
    assert "check_op test_cube" in terminal.getvalue()
