"""Long programs: no recursion over their length, work that grows linearly with it, and limits for both."""

from __future__ import annotations

import contextlib
import sys
from collections.abc import Callable, Iterator
from typing import Any

import numpy
import pytest

import ndgrad
import ndgrad.numpy as np
from ndgrad import func
from ndgrad._src.compiler.capture import tracer
from ndgrad._src.compiler.lower import native_program
from ndgrad._src.compiler.program.replay import Replay
from ndgrad._src.compiler.runtime import backend

#: Rounds of a loop, and frames that compiling may use: fewer than rounds.
LONG, FRAMES = 300, 200


@contextlib.contextmanager
def few_frames() -> Iterator[None]:
    """Context in which any recursion over the length of a program fails."""
    depth, frame = 0, sys._getframe()
    while frame is not None:
        depth, frame = depth + 1, frame.f_back  # type: ignore[assignment]
    before = sys.getrecursionlimit()
    sys.setrecursionlimit(depth + FRAMES)
    try:
        yield
    finally:
        sys.setrecursionlimit(before)


# ----- programs as they are written -----------------------------------------------------------------------------------


def compound(n: int) -> tuple[Callable[..., Any], Any]:
    def f(rate: Any) -> Any:
        balance = np.ones(n)
        for i in range(1, n):
            balance[i] = balance[i - 1] * (1 + rate)
        return balance[-1]

    return f, np.array(0.001)


def two_before(n: int) -> tuple[Callable[..., Any], Any]:
    def f(r: Any) -> Any:
        u = np.ones(n)
        for i in range(2, n):
            u[i] = 0.5 * u[i - 1] * r + 0.3 * u[i - 2]
        return u.sum()

    return f, np.array(0.9)


def rows(n: int) -> tuple[Callable[..., Any], Any]:
    def f(w: Any) -> Any:
        u = ndgrad.zeros(n, 4, dtype=ndgrad.float64)
        u[0] = w
        for i in range(1, n):
            u[i] = ndgrad.tanh(u[i - 1].clone() * 1.01 + w)
        return (u**2).sum()

    return f, ndgrad.linspace(0.1, 0.4, 4, dtype=ndgrad.float64)


def items_of_rows(n: int) -> tuple[Callable[..., Any], Any]:
    def f(x: Any) -> Any:
        u = np.zeros((n // 4, 4))
        for i in range(n // 4):
            for j in range(4):
                u[i][j] = x[j] * (u[i - 1][j] + 1.0 if i else 1.0)
        return u[-1].sum()

    return f, np.linspace(0.1, 0.4, 4)


def windows(n: int) -> tuple[Callable[..., Any], Any]:
    def f(x: Any) -> Any:
        out = np.zeros(n)
        for k in range(n):
            out[k] = (x[k : k + 3] ** 2).sum()
        return (out * out).sum()

    return f, np.linspace(0.0, 1.0, n + 2)


def scattered(n: int) -> tuple[Callable[..., Any], Any]:
    places = numpy.random.default_rng(0).integers(0, n, (n, 2)).tolist()

    def f(x: Any) -> Any:
        u = np.zeros(n) + x
        for i, (j, k) in enumerate(places):
            u[j] = (np.sin, np.cos, np.tanh)[i % 3](u[k]) if i % 7 else u[k] * x
        return u.sum()

    return f, np.array(0.3)


def irregular(n: int) -> tuple[Callable[..., Any], Any]:
    picks = numpy.random.default_rng(1).integers(0, 4, n).tolist()
    w = ndgrad.tensor(numpy.random.default_rng(2).normal(size=(3, 3)) * 0.4)

    def f(x: Any) -> Any:
        for k in picks:
            x = (lambda v: v @ w, ndgrad.tanh, lambda v: v - v.sum(0), lambda v: v.T)[k](x)
        return x.sum()

    return f, ndgrad.tensor(numpy.random.default_rng(3).normal(size=(3, 3)))


def nested_views(n: int) -> tuple[Callable[..., Any], Any]:
    def f(x: Any) -> Any:
        whole = x * 1.0
        view = whole
        for k in range(n):
            view = (view.T, view[:], view.reshape(2, 2), view[None].squeeze(0))[k % 4]
            view.mul_(1.001)
            view[0].add_(0.001)
        return (whole * view).sum()

    return f, ndgrad.tensor([[0.1, 0.2], [0.3, 0.4]], dtype=ndgrad.float64)


def tolerance(n: int) -> tuple[Callable[..., Any], Any]:
    def f(x: Any) -> Any:
        y, rounds = x * 1.0, 0
        while rounds < n and y.max() > 1e-9:
            y = y * 0.93
            rounds += 1
        return y.sum() + rounds * x.sum()

    return f, ndgrad.linspace(0.5, 1.0, 3, dtype=ndgrad.float64)


PROGRAMS = [compound, two_before, rows, items_of_rows, windows, scattered, irregular, nested_views]
#: Functions whose rounds become loops, with their gradients.
ROLLED = [compound, two_before, rows]


@pytest.mark.parametrize("make", PROGRAMS)
def test_gradients_of_long_loops_compile_without_recursion(make: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(native_program, "MOST_SMALL_STEPS", 100)  # code for thousands of steps takes long to compile
    f, x = make(LONG)
    gradient = func.grad(f)
    compiled = ndgrad.compile(gradient, fullgraph=True)
    with few_frames():
        found = compiled(x)
    numpy.testing.assert_allclose(found.detach().numpy(), gradient(x).detach().numpy(), rtol=1e-9, atol=1e-12)
    if make in ROLLED:
        assert len(compiled.entries[0].specialisation.plan.forward.instructions) < 40


@pytest.mark.parametrize("make", [compound, rows, irregular])
def test_recorded_calls_of_long_loops(make: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(native_program, "MOST_SMALL_STEPS", 100)
    f, x = make(LONG)
    compiled = ndgrad.compile(f, fullgraph=True)
    results = []
    for g in (compiled, f):
        leaf = x.detach().clone().requires_grad_()
        with few_frames() if g is compiled else contextlib.nullcontext():
            y = g(leaf)
            y.backward()
        results.append((y.detach().numpy(), leaf.grad.numpy()))
    for a, b in zip(*results, strict=True):
        numpy.testing.assert_allclose(a, b, rtol=1e-9, atol=1e-12)


@pytest.mark.parametrize("transform", ["vmap", "hvp", "jvp"])
def test_transforms_of_a_long_loop(transform: str) -> None:
    f, x = compound(LONG // 2)
    g: Any
    match transform:
        case "vmap":
            g, x = func.vmap(func.grad(f)), np.stack([x, x * 2.0, x * 0.0])
        case "hvp":
            g = lambda x: func.jvp(func.grad(f), (x,), (np.ones_like(x),))[1]
        case _:
            g = lambda x: func.jvp(f, (x,), (np.ones_like(x),))[1]
    compiled = ndgrad.compile(g, fullgraph=True)
    with few_frames():
        found = compiled(x)
    numpy.testing.assert_allclose(found.detach().numpy(), g(x).detach().numpy(), rtol=1e-9)


def test_lifted_functions_of_numpy_buffers() -> None:
    def plain(rate: Any) -> Any:
        balance = numpy.ones(LONG)
        for i in range(1, LONG):
            balance[i] = balance[i - 1] * (1 + rate)
        return balance[-1]

    lifted = ndgrad.compile(func.grad(ndgrad.lift(plain)))
    with few_frames():
        found = lifted(0.001)
    numpy.testing.assert_allclose(float(found), (LONG - 1) * 1.001 ** (LONG - 2), rtol=1e-9)


def test_a_loop_with_a_tolerance() -> None:
    f, x = tolerance(50)
    compiled = ndgrad.compile(f)
    for scale in (1.0, 1.0, 2.0):
        numpy.testing.assert_allclose(compiled(x * scale).item(), f(x * scale).item(), rtol=1e-12)


# ----- work that grows with the length --------------------------------------------------------------------------------


def calls_for(make: Any, n: int) -> int:
    """Return the number of Python calls needed to compile the gradient of a loop."""
    f, x = make(n)
    compiled = ndgrad.compile(func.grad(f), fullgraph=True)
    count = 0

    def counting(frame: Any, event: str, argument: Any) -> None:
        nonlocal count
        count += event == "call"

    sys.setprofile(counting)
    try:
        compiled(x)
    finally:
        sys.setprofile(None)
    return count


@pytest.mark.parametrize("make", [compound, scattered])
def test_work_grows_with_the_length(make: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(native_program, "MOST_SMALL_STEPS", 10)
    calls_for(make, 30)  # does the work of the first call
    short, long = calls_for(make, 40), calls_for(make, 160)
    assert long < 5 * short


@pytest.mark.parametrize("transform", [lambda f: f, func.grad], ids=["forward", "gradient"])
def test_each_write_to_a_nested_view_is_a_bounded_number_of_ops(transform: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    """The limit on the ops of a trace would end it: a write to the k-th view was an op for each of k views."""
    monkeypatch.setattr(native_program, "MOST_SMALL_STEPS", 10)
    monkeypatch.setattr(tracer, "MOST_INSTRUCTIONS", 100 * LONG)
    f, x = nested_views(LONG)
    ndgrad.compile(transform(f), fullgraph=True)(x)


# ----- limits ---------------------------------------------------------------------------------------------------------


def test_a_program_of_too_many_small_steps_runs_on_numpy(monkeypatch: pytest.MonkeyPatch) -> None:
    if backend.runs_on_numpy(False):
        pytest.skip("there is no native code")
    monkeypatch.setattr(native_program, "MOST_SMALL_STEPS", 5)
    f, x = irregular(60)
    compiled = ndgrad.compile(f, fullgraph=True)
    for _ in range(3):
        numpy.testing.assert_allclose(compiled(x).item(), f(x).item(), rtol=1e-12)
    assert isinstance(compiled.entries[0].specialisation.plan.run_forward.executable, Replay)
    assert "on NumPy, op by op: it has" in str(ndgrad.compiler.explain(compiled, x))
    short, x = irregular(3)
    assert "op by op" not in str(ndgrad.compiler.explain(ndgrad.compile(short), x))


def test_a_trace_that_is_too_long_ends(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(tracer, "MOST_INSTRUCTIONS", 50)
    f, x = irregular(200)
    compiled = ndgrad.compile(f)
    for _ in range(3):
        numpy.testing.assert_allclose(compiled(x).item(), f(x).item(), rtol=0)
    assert compiled.traces == 1
    assert "the trace has more than 50 ops" in str(ndgrad.compiler.explain(compiled, x))
