"""Loops that a trace has unrolled: found, and the same to the bit."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import ndgrad
from ndgrad._src.compiler.capture import python_loops
from ndgrad._src.compiler.passes import simplify_program
from ndgrad._src.compiler.passes.loops import roll_loops
from ndgrad._src.compiler.passes.periods import periods, runs
from ndgrad._src.compiler.passes.reroll import find_loops
from ndgrad._src.compiler.passes.schedule import move_views
from ndgrad._src.compiler.program.program import Program
from ndgrad._src.compiler.program.text import parse_program
from tests.compiler.traced import arrays_for, assert_same, becomes, traced


@pytest.fixture(autouse=True)
def trace_every_round(monkeypatch: pytest.MonkeyPatch) -> None:
    """Trace loops round by round. Otherwise these loops would be rolled up before there is a trace to search."""
    monkeypatch.setattr(python_loops, "LEAST", 10**9)


def loops(program: Program) -> list[tuple[int, int]]:
    """(rounds, instructions of a round) of the loops of a program, those inside others behind them."""
    found = []
    for instruction in program.instructions:
        if instruction.op.name == "loop":
            body = instruction.settings["body"]
            found += [(instruction.settings["count"], len(body.instructions)), *loops(body)]
    return found


def check(function: Callable[..., Any], arrays: list[Any], gradients: bool = True) -> Program:
    """The rolled program of a function, which computes what the unrolled one does."""
    program = traced(function, arrays, gradients)
    short = simplify_program(program)
    other = roll_loops(short)
    given = arrays_for(program, arrays)
    assert_same(short, other, given)
    assert str(parse_program(str(other), list(other.constants.values()))) == str(other)
    return other


def normal(*shape: int) -> Any:
    return np.random.default_rng(len(shape)).standard_normal(shape)


# ----- finding periods -----------------------------------------------------------------------------------------------------


def test_a_block_that_repeats_is_found() -> None:
    ids = np.array([0, 7, *[1, 2, 3] * 9, 9, 4])
    assert 3 in periods(ids, 4)
    assert runs(ids, 3, 4) == [(2, 9)]


def test_a_long_block_with_short_ones_inside_is_found() -> None:
    draw = np.random.default_rng(0)
    block = [*draw.integers(0, 5, 40), *[6, 7] * 8]
    ids = np.array([*draw.integers(0, 5, 13), *block * 20, *draw.integers(0, 5, 11)])
    found = periods(ids, 4)
    assert 56 in found
    assert 2 in found
    assert any(count >= 20 for _, count in runs(ids, 56, 4))


def test_a_list_without_repetition_has_no_runs() -> None:
    ids = np.arange(100)
    assert periods(ids, 4) == []


# ----- loops ---------------------------------------------------------------------------------------------------------------


def test_a_loop_and_its_text() -> None:
    lines = "".join(f"  %{k}: float64[3] = {'sin' if k % 2 else 'mul'}(%{k - 1}{'' if k % 2 else ', %1'})\n" for k in range(2, 42))
    becomes(
        find_loops,
        f"program p(%0: float64[3], %1: float64[3])\n{lines.replace('mul(%1, %1)', 'mul(%0, %1)')}  return %41\n",
        """program p(%0: float64[3], %1: float64[3])
  %2: float64[3] = loop(%0, %1, count=20, carried=1, invariant=1, reads=(), last=0)
    program body(%0: float64[3], %1: float64[3])
      %2: float64[3] = mul(%0, %1)
      %3: float64[3] = sin(%2)
      return %3
  return %2
""",
    )


def van_der_pol(steps: int) -> Callable[..., Any]:
    def slope(damping: Any, x: Any, v: Any) -> Any:
        return v, damping * (1.0 - x * x) * v - x

    def function(damping: Any, x: Any, v: Any) -> Any:
        for _ in range(steps):
            dx, dv = slope(damping, x, v)
            dx, dv = slope(damping, x + 0.0025 * dx, v + 0.0025 * dv)
            x, v = x + 0.005 * dx, v + 0.005 * dv
        return x * x + v * v

    return function


def test_an_integrator_on_scalars_forward_and_backward() -> None:
    found = check(van_der_pol(200), [np.array(1.5), np.array(1.0), np.array(0.5)])
    assert loops(found) == [(200, 18), (199, 27)]
    assert len(found.instructions) < 60


@pytest.mark.slow
def test_a_thousand_steps_of_an_integrator() -> None:
    found = check(van_der_pol(1000), [np.array(1.5), np.array(1.0), np.array(0.5)])
    assert loops(found) == [(1000, 18), (999, 27)]


def test_the_backward_loop_reads_what_the_forward_loop_has_left_from_the_end() -> None:
    def function(x: Any) -> Any:
        for _ in range(20):
            x = ndgrad.tanh(ndgrad.sin(x) * 1.5)
        return x

    _, backward = [i for i in check(function, [normal(5)]).instructions if i.op.name == "loop"]
    assert {step for _, step in backward.settings["reads"]} == {-1}


def test_a_recurrent_network_by_hand() -> None:
    def lstm(x: Any, h: Any, c: Any, wx: Any, wh: Any, b: Any) -> Any:
        out = []
        for t in range(x.shape[0]):
            i, f, o, u = (x[t] @ wx + h @ wh + b).chunk(4, 1)
            c = ndgrad.sigmoid(f) * c + ndgrad.sigmoid(i) * ndgrad.tanh(u)
            h = ndgrad.sigmoid(o) * ndgrad.tanh(c)
            out.append(h)
        return ndgrad.stack(out)

    found = check(lstm, [normal(100, 4, 3), normal(4, 5), normal(4, 5), normal(3, 20), normal(5, 20), normal(20)])
    assert [count for count, _ in loops(found)] == [100, 98]
    assert len(found.instructions) < 100


@pytest.mark.parametrize("dim", [0, 1])
def test_an_index_that_runs(dim: int) -> None:
    def function(x: Any, s: Any) -> Any:
        for t in range(40):
            s = ndgrad.sin(s * x.select(dim, t)) + s
        return s

    found = check(function, [normal(*((40, 3) if dim == 0 else (3, 40))), normal(3)])
    assert [count for count, _ in loops(found)] == [40, 39]


def test_an_index_that_runs_backwards_by_two() -> None:
    def function(x: Any, s: Any) -> Any:
        for t in range(39, 0, -2):
            s = ndgrad.sin(s * x[t]) + x[t - 1]
        return s

    found = check(function, [normal(40, 3), normal(3)])
    assert {step for i in found.instructions if i.op.name == "loop" for _, step in i.settings["reads"]} >= {-2, -1}


def test_loops_in_loops() -> None:
    def function(x: Any, w: Any) -> Any:
        for _ in range(9):
            y = x * w
            for _ in range(20):
                y = ndgrad.sin(y) * w + x
            x = ndgrad.tanh(y)
        return x

    found = check(function, [normal(4), normal(4)])
    assert loops(found)[:2] == [(9, 4), (20, 3)]
    assert (19, 6) in loops(found)
    assert len(found.instructions) < 60


def test_values_of_two_rounds_before_are_carried() -> None:
    def function(x: Any, y: Any, w: Any) -> Any:
        for _ in range(40):
            x, y = y, ndgrad.sin(x * w) + y
        return x * y

    assert max(count for count, _ in loops(check(function, [normal(3), normal(3), normal(3)]))) >= 38


def test_rows_that_are_written_one_by_one() -> None:
    def function(x: Any, s: Any) -> Any:
        out = ndgrad.zeros(40, 3, dtype=ndgrad.float64)
        for t in range(40):
            s = ndgrad.sin(s * x)
            out[t] = s
        return out

    found = check(function, [normal(3), normal(3)])
    assert [count for count, _ in loops(found)] == [40, 39]
    assert len(found.instructions) < 20


def test_matrix_products_and_reductions_in_rounds() -> None:
    def function(x: Any, w: Any) -> Any:
        losses = []
        for _ in range(25):
            x = ndgrad.relu(x @ w)
            losses.append((x * x).mean())
            x = x / (1 + x.sum(1, keepdim=True))
        return ndgrad.stack(losses).sum()

    found = check(function, [normal(4, 4), normal(4, 4)])
    assert len(loops(found)) == 2


@pytest.mark.parametrize("dtype", [np.float64, np.float32])
def test_numbers_that_differ_from_round_to_round_are_a_constant(dtype: Any) -> None:
    def function(x: Any) -> Any:
        for k in range(1, 21):
            x = ndgrad.sin(x * (1.0 + k / 3)) - k
        return x

    found = check(function, [normal(3).astype(dtype)])
    assert [count for count, _ in loops(found)] == [20, 20]
    assert {array.dtype for array in found.constants.values()} == {np.dtype(dtype)}


def test_rounds_that_differ_are_no_loop() -> None:
    def function(x: Any) -> Any:
        for k in range(20):
            x = (ndgrad.sin(x), ndgrad.cos(x), ndgrad.tanh(x))[k * k % 7 % 3] * 2.0
        return x

    assert loops(check(function, [normal(3)], gradients=False)) == []


def test_few_rounds_stay_as_they_are() -> None:
    def function(x: Any) -> Any:
        for _ in range(4):
            x = ndgrad.sin(x * 2.0)
        return x

    assert loops(check(function, [normal(3)])) == []


@pytest.mark.one_in(2)
@pytest.mark.parametrize("seed", range(25))
def test_random_loops(seed: int) -> None:
    draw = np.random.default_rng(seed)
    steps = draw.integers(0, 1 << 20, (int(draw.integers(3, 9)), 4))
    rounds = int(draw.integers(7, 14))

    def body(states: list[Any], x: Any, w: Any, t: int) -> list[Any]:
        pool = [*states, w, x[t]]
        for kind, a, b, c in steps:
            p, q = pool[a % len(pool)], pool[b % len(pool)]
            pool.append((p * q, p + q, p - q, ndgrad.sin(p), ndgrad.tanh(p), p.flip(0), p * 0.5, p.sum() * q, x[-1 - t], x[0])[kind % 10])
            if c % 5 == 0:
                pool[c % len(states)] = pool[-1]
        return [ndgrad.tanh(v) for v in (pool[-1], *pool[1 : len(states)])]

    def function(x: Any, w: Any, *states: Any) -> Any:
        current, seen = list(states), []
        for t in range(rounds):
            current = body(current, x, w, t)
            seen.append(current[0])
        return (current[-1], ndgrad.stack(seen)) if seed % 2 else current[0]

    check(function, [normal(20, 4), normal(4), *[normal(4) for _ in range(1 + seed % 3)]])


def test_parts_are_read_where_they_are_used() -> None:
    becomes(
        move_views,
        """program p(%0: float64[2,3], %1: float64[3])
  %2: float64[3] = getitem(%0, index=(0, slice(0, 3, 1)))
  %3: float64[3] = getitem(%0, index=(1, slice(0, 3, 1)))
  %4: float64[3] = mul(%1, %2)
  %5: float64[1,3] = reshape(%1, shape=(1, 3))
  %6: float64[1,3] = mul(%5, %4)
  %7: float64[1,3] = mul(%6, %3)
  return %7
""",
        """program p(%0: float64[2,3], %1: float64[3])
  %2: float64[1,3] = reshape(%1, shape=(1, 3))
  %3: float64[3] = getitem(%0, index=(0, slice(0, 3, 1)))
  %4: float64[3] = mul(%1, %3)
  %5: float64[1,3] = mul(%2, %4)
  %6: float64[3] = getitem(%0, index=(1, slice(0, 3, 1)))
  %7: float64[1,3] = mul(%5, %6)
  return %7
""",
    )


# ----- chains that one pass computes (Note [Chains in one pass]) -------------------------------------------------------------


def chain(rounds: int) -> Callable[..., Any]:
    def function(x: Any, h: Any) -> Any:
        for _ in range(rounds):
            h = (h * x).tanh() + 0.25
        return h.sum()

    return function


def test_a_chain_on_large_arrays_is_one_kernel_that_keeps_nothing() -> None:
    x, h = (ndgrad.tensor(normal(30_000) * scale, requires_grad=scale == 1) for scale in (1, 2))
    graph = ndgrad.compiler.graph(chain(20), x, h)
    assert "loop(" not in str(graph.program)
    (results,) = [line for line in str(graph.forward).splitlines() if line.startswith("  return ")]
    assert "," not in results
    compiled = ndgrad.compile(chain(20))
    for _ in range(2):
        x.grad = None
        total = compiled(x, h)
        total.backward()
        slope = np.asarray(x.grad)
        value, derivative = h.detach().numpy(), np.zeros(30_000)
        for _ in range(20):  # the chain rule by hand
            inner = np.tanh(value * x.detach().numpy())
            derivative = (1 - inner**2) * (derivative * x.detach().numpy() + value)
            value = inner + 0.25
        np.testing.assert_allclose(float(total.detach()), value.sum(), rtol=1e-12)
        np.testing.assert_allclose(slope, derivative, rtol=1e-9, atol=1e-12)


@pytest.mark.parametrize(("rounds", "size"), [(20, 30), (99, 200), (99, 30_000)])
def test_a_chain_on_small_arrays_or_of_many_ops_is_a_loop(rounds: int, size: int) -> None:
    def function(x: Any, h: Any) -> Any:
        for _ in range(rounds):
            h = (h * x).sin() + (h * 0.25).cos()
        return h

    program = simplify_program(traced(function, [normal(size), normal(size)], gradients=False))
    assert loops(find_loops(program)) == [(rounds, 5)]
