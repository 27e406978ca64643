"""Gradients of Python loops that are detected before differentiation: those of eager code, or the general path."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any
from unittest import mock

import numpy as np
import pytest

import ndgrad
import ndgrad.numpy as gnp
from ndgrad._src.compiler.capture import loop_gradients, python_loops
from ndgrad._src.compiler.capture.trace_watch import trust
from ndgrad._src.compiler.program.program import Program
from ndgrad._src.compiler.program.text import parse_program
from ndgrad._src.compiler.runtime import tracing

ROUNDS = 200


@pytest.fixture(autouse=True)
def trace_every_round(monkeypatch: pytest.MonkeyPatch) -> None:
    """Trace loops round by round. Otherwise these loops would be rolled up before there is a trace to search."""
    monkeypatch.setattr(python_loops, "LEAST", 10**9)


def normal(*shape: int) -> Any:
    return np.random.default_rng(len(shape) + sum(shape)).standard_normal(shape)


trust(__file__)  # `watch` replaces one of the compiler's functions


def gradients(f: Callable[..., Any], arrays: Sequence[Any]) -> list[Any]:
    tensors = [ndgrad.tensor(a, requires_grad=True) for a in arrays]
    loss = f(*tensors)
    loss.backward()
    return [loss.detach().numpy(), *[None if t.grad is None else t.grad.numpy() for t in tensors]]


def compared(f: Callable[..., Any], arrays: Sequence[Any]) -> loop_gradients.Joint | None:
    """Compare compiled gradients with those of eager code. Return the joint program of the loop path; None if the
    general path was taken.
    """
    made: list[Any] = []

    def watch(*args: Any) -> Any:
        made.append(loop_gradients.joint_program(*args))
        return made[-1]

    with mock.patch.object(tracing, "joint_program", watch):
        found = gradients(ndgrad.compile(f, fullgraph=True), arrays)
    expected = gradients(f, arrays)
    for a, b in zip(found, expected, strict=True):
        assert (a is None) == (b is None)
        if b is not None:
            assert a.dtype == b.dtype
            np.testing.assert_allclose(a, b, rtol=1e-12 if b.dtype.itemsize > 4 else 1e-4)
    assert len(made) == 1
    joint: loop_gradients.Joint | None = made[0]
    return joint


def names(program: Program) -> list[str]:
    return [i.op.name for i in program.instructions]


def integrator(damping: Any, x: Any, v: Any) -> Any:
    for _ in range(ROUNDS):
        x, v = x + 0.01 * v, v + 0.01 * (damping * (1.0 - x * x) * v - x)
    return x * x + v * v


# ----- loops that are differentiated as loops -------------------------------------------------------------------------


def test_an_integrator_on_scalars() -> None:
    joint = compared(integrator, [np.array(1.5), np.array(1.0), np.array(0.5)])
    assert joint is not None
    assert names(joint.program).count("loop") == 2
    assert len(joint.program.instructions) < 30


def test_gradients_of_parts_of_a_parameter_are_summed_in_the_loop() -> None:
    def f(w: Any, b: Any) -> Any:
        h = w[0, 0]
        for _ in range(ROUNDS):
            h = ndgrad.tanh(h * w[0, 1] + b[0]) * ndgrad.sigmoid(h * w[1, 0] + b[1]) + 0.1 * w[1, 1]
        return h.sum()

    joint = compared(f, [normal(2, 2, 5), normal(2, 5)])
    assert joint is not None
    assert len(joint.program.instructions) < 60


def test_rows_of_an_input_and_of_a_target() -> None:
    def f(w: Any, x: Any) -> Any:
        h, total = ndgrad.zeros(4), ndgrad.zeros(())
        for t in range(ROUNDS - 1):
            h = ndgrad.tanh(w @ h + x[t])
            total = total + (h * x[t + 1]).sum()
        return total

    joint = compared(f, [normal(4, 4) / 3, normal(ROUNDS, 4)])
    assert joint is not None


def test_a_final_state_that_nobody_reads_adds_nothing() -> None:
    def f(w: Any, h: Any) -> Any:
        total = ndgrad.zeros(())
        for _ in range(ROUNDS):
            h = ndgrad.sin(h * w) + 0.1
            total = total + (h * h).sum()
        return total

    assert compared(f, [normal(3), normal(3)]) is not None


def test_stored_rounds() -> None:
    def f(w: Any, x: Any) -> Any:
        out = []
        for _ in range(ROUNDS):
            x = ndgrad.tanh(x * w + 0.1)
            out.append(x)
        return (ndgrad.stack(out) ** 2).mean()

    assert compared(f, [normal(3), normal(3)]) is not None


def test_single_precision_and_several_results() -> None:
    def f(w: Any, x: Any) -> Any:
        y = x
        for _ in range(ROUNDS):
            x, y = ndgrad.sin(x * w) + y * 0.5, ndgrad.cos(x) * w
        return (x * y).sum()

    assert compared(f, [normal(3).astype(np.float32), normal(3).astype(np.float32)]) is not None


def test_complex_numbers() -> None:
    def f(w: Any) -> Any:
        z = ndgrad.complex(w, w * 0.5)
        for _ in range(ROUNDS):
            z = z * z * 0.5 + ndgrad.complex(w, -w) * 0.3
        return (z * z.conj()).real.sum()

    assert compared(f, [normal(3) / 5]) is not None


def test_on_numpys_class() -> None:
    def f(w: Any) -> Any:
        x = gnp.asarray(w)
        for _ in range(ROUNDS):
            x = gnp.sin(x * w) + 0.5
        return (x * x).sum()

    compared(f, [normal(3)])


def test_second_derivatives_and_tangents() -> None:
    def f(w: Any) -> Any:
        x = w
        for _ in range(ROUNDS):
            x = ndgrad.sin(x * w) + 0.5
        return x.sum()

    w, v = ndgrad.tensor(normal(3)), ndgrad.tensor(normal(3) + 1)
    compiled = ndgrad.compile(f, fullgraph=True)
    hvp = lambda g: ndgrad.func.jvp(ndgrad.func.grad(g), (w,), (v,))[1].numpy()
    np.testing.assert_allclose(hvp(compiled), hvp(f), rtol=1e-9)
    leaf = ndgrad.tensor(normal(3), requires_grad=True)
    (g,) = ndgrad.autograd.grad(compiled(leaf), leaf, create_graph=True)
    (h,) = ndgrad.autograd.grad((g * v).sum(), leaf)
    np.testing.assert_allclose(h.numpy(), hvp(f), rtol=1e-9)


# ----- graphs that are not the program --------------------------------------------------------------------------------


class Doubled(ndgrad.autograd.Function):
    @staticmethod
    def forward(ctx: Any, x: Any) -> Any:
        return x * 1.0

    @staticmethod
    def backward(ctx: Any, g: Any) -> Any:
        return 2.0 * g


def _without_grad(x: Any, w: Any) -> Any:
    with ndgrad.no_grad():
        y = ndgrad.sin(x)
    return y * w + 0.5 * x


def _hooked(x: Any, w: Any) -> Any:
    y = ndgrad.sin(x * w)
    y.register_hook(lambda g: 0.5 * g)
    return y


def _saved(x: Any, w: Any) -> Any:
    with ndgrad.autograd.graph.saved_tensors_hooks(lambda t: t, lambda t: 0.5 * t):
        return ndgrad.sin(x * w)


def _write_function(x: Any, w: Any) -> Any:
    y = x * w
    y.sin_()
    return y


@pytest.mark.parametrize(
    "step",
    [
        _without_grad,
        lambda x, w: ndgrad.sin(x).detach() * w + 0.5 * x,
        lambda x, w: ndgrad.sin(x).data * w + 0.5 * x,
        lambda x, w: ndgrad.sin(x * w.detach()) + 0.1 * w,
        lambda x, w: ndgrad.sin(x) * ndgrad.cos(x.detach()) + w,
        lambda x, w: ndgrad.sin(Doubled.apply(x) * w),
        _hooked,
        _saved,
    ],
    ids=["no_grad", "detach", "data", "one_edge", "detached_operand", "custom", "hook", "saved_hooks"],
)
def test_what_autograd_does_otherwise_takes_the_general_way(step: Callable[..., Any]) -> None:
    def f(w: Any) -> Any:
        x = w
        for _ in range(ROUNDS):
            x = step(x, w)
        return (x * x).sum()

    assert compared(f, [normal(3)]) is None


def test_writes_take_either_way() -> None:
    def f(w: Any) -> Any:
        x = w
        for _ in range(ROUNDS):
            x = _write_function(x, w)
        return x.sum()

    compared(f, [normal(3)])


def test_a_graph_that_was_used_up_inside() -> None:
    def f(w: Any) -> Any:
        x = w
        for _ in range(ROUNDS):
            x = ndgrad.sin(x * w) + 0.1
        total = x.sum()
        (g,) = ndgrad.autograd.grad(total, w)
        return total + 0.0 * g.detach().sum()

    w = ndgrad.tensor(normal(3), requires_grad=True)
    for function in (f, ndgrad.compile(f)):
        with pytest.raises(RuntimeError, match="second time"):
            function(w).backward()


# ----- no gradient is not a gradient of zero --------------------------------------------------------------------------


#: Zero except in the last round: the slope of sqrt(r * r * w) is infinite in all other rounds.
LAST = np.eye(ROUNDS)[ROUNDS - 1]


def test_a_state_that_only_decides_has_no_gradient_before_the_last_round() -> None:
    last = ndgrad.tensor(LAST)

    def f(w: Any) -> Any:
        x = s = w
        for t in range(ROUNDS):
            x = ndgrad.where(s > 2.0, x * 0.99, x + 0.001 * w)
            s = ndgrad.sqrt(last[t] * w * w)
        return (x * x).sum() + s.sum()

    with np.errstate(all="ignore"):
        compared(f, [normal(3)])
        assert np.isfinite(gradients(ndgrad.compile(f), [normal(3)])[1]).all()


def test_the_last_of_what_is_stored_has_a_gradient() -> None:
    last = ndgrad.tensor(LAST)

    def f(w: Any) -> Any:
        x, stored, count = w, [], ndgrad.zeros(3)
        for t in range(ROUNDS):
            stored.append(ndgrad.sqrt(last[t] * w * w))
            count = count + (stored[-1] > 0.5)
            x = ndgrad.sin(x * w)
        return stored[-1].sum() + (x * x).sum() + ndgrad.stack(stored).detach().sum() + count.sum()

    with np.errstate(all="ignore"):
        compared(f, [normal(3)])
        assert np.isfinite(gradients(ndgrad.compile(f), [normal(3)])[1]).all()


def reached(body: str, after: str) -> bool:
    """True if a loop over (x, s, w), followed by `after`, has the same gradients in all rounds."""
    program = parse_program(f"""program p(%0: float64[3], %1: float64[3])
  %2: float64[3], %3: float64[3], %4: float64[20,3] = loop(%0, %0, %1, count=20, carried=2, invariant=1, reads=(), last=0)
    program body(%0: float64[3], %1: float64[3], %2: float64[3])
{body}
  %5: float64[3] = {after}
  return %5
""")
    flowing = loop_gradients._find_flowing(program, set(program.inputs))
    return loop_gradients._find_reached(program, flowing, set(program.outputs)) is not None


DECIDES = """      %3: bool[3] = gt(%1, 2.0)
      %4: float64[3] = where(%3, %0, %2)
      %5: float64[3] = sqrt(%2)
      return %4, %5, %5"""
BOTH = """      %3: float64[3] = mul(%0, %1)
      %4: float64[3] = sqrt(%3)
      return %4, %3, %3"""


@pytest.mark.parametrize(
    ("body", "after", "alike"),
    [
        (DECIDES, "add(%2, %3)", False),  # s has a gradient after the loop, but none from one round to the previous one
        (DECIDES, "neg(%2)", False),  # s has no gradient, but the loop carries it
        (DECIDES, "getitem(%4, index=(3, slice(0, 3, 1)))", False),  # gradient of one round only
        (BOTH, "add(%2, %3)", True),
        (BOTH, "neg(%2)", True),  # s has a gradient inside each round, because x depends on it
        (BOTH, "neg(%3)", False),  # x has no gradient in the last round
        (BOTH, "sum(%4, dim=(0,), keepdim=False, dtype=None)", False),
    ],
)
def test_loops_in_which_a_round_has_gradients_that_another_has_not(body: str, after: str, alike: bool) -> None:
    assert reached(body, after) is alike


# ----- random loops ---------------------------------------------------------------------------------------------------

ONE: list[Callable[[Any], Any]] = [
    ndgrad.sin, ndgrad.cos, ndgrad.sigmoid, ndgrad.relu, ndgrad.abs, lambda a: a * 0.5, lambda a: a * a * 0.1,
    lambda a: ndgrad.sqrt(a * a + 0.1), lambda a: a.sum() * 0.1 + a * 0.5, lambda a: ndgrad.softmax(a, -1),
    lambda a: ndgrad.cat([a[2:], a[:2]]), lambda a: a.cumsum(0) * 0.2,
]  # fmt: skip
TWO: list[Callable[[Any, Any], Any]] = [
    lambda a, b: a + b * 0.5, lambda a, b: a * b * 0.5, lambda a, b: a - b, lambda a, b: ndgrad.where(a > b, a, b * 0.5),
    ndgrad.maximum, lambda a, b: a / (b * b + 1.0),
]  # fmt: skip


def random_loop(seed: int) -> tuple[Callable[..., Any], list[Any]]:
    """Return a loop over states whose rounds compute with parts of parameters, with rows, and with each other's
    results. Some rounds detach values, write in place, store values, or read a stored value of one round.
    """
    random = np.random.default_rng(seed)
    states, parameters, rounds = random.integers(1, 4), random.integers(2, 5), random.integers(60, 90)
    plan = [tuple(random.integers(0, 100, 4)) for _ in range(random.integers(3, 10))]
    follows = random.integers(0, len(plan), states)
    detaches, writes, picks = random.random(3) < 0.15
    reads, stores, sums = random.random(3) < 0.5
    arrays = [random.standard_normal(shape) for shape in ((parameters, 4), (rounds + 1, 4), (states, 4))]

    def f(w: Any, rows: Any, start: Any) -> Any:
        state, total, stored = [start[i] for i in range(states)], ndgrad.zeros(()), []
        for t in range(rounds):
            values = [*state, *[w[k] for k in range(parameters)], *([rows[t], rows[t + 1]] if reads else ())]
            for kind, a, b, c in plan:
                x, y = values[a % len(values)], values[b % len(values)]
                made = ONE[c % len(ONE)](x) if kind % 2 else TWO[c % len(TWO)](x, y)
                values.append(made.detach() if detaches and c % 5 == 0 else made)
            if writes:
                values[-1] = values[-1].clone().mul_(0.9)
            state = [0.5 * s + 0.3 * ndgrad.tanh(values[-1 - k]) for s, k in zip(state, follows, strict=True)]
            stored.append(state[0] * 1.5)
            if sums:
                total = total + (state[-1] * values[-1]).sum() * 0.01
        loss = (state[0] ** 2).sum() + total
        if stores:
            loss = loss + (ndgrad.stack(stored) ** 2).mean()
        return loss + stored[5].sum() if picks else loss

    return f, arrays


@pytest.mark.one_in(2)
@pytest.mark.parametrize("seed", [*range(8), *[pytest.param(seed, marks=pytest.mark.slow) for seed in range(8, 200)]])
def test_random_loops(seed: int, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("NDGRAD_COMPILE_REPLAY", "1")  # the same program on NumPy, uncompiled
    f, arrays = random_loop(seed)
    with np.errstate(all="ignore"):
        found, expected = gradients(ndgrad.compile(f, fullgraph=True), arrays), gradients(f, arrays)
    for a, b in zip(found, expected, strict=True):
        assert (a is None) == (b is None)
        if b is not None:
            np.testing.assert_allclose(a, b, rtol=1e-9, atol=1e-12 * np.abs(b).max())
