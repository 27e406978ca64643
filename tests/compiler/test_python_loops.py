"""Python loops that are rolled up while they are traced: results of eager code, and reasons for those that are not."""

from __future__ import annotations

import threading
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import ndgrad
import ndgrad.numpy as gnp

N = 130


def numbers(*shape: int) -> Any:
    return np.random.default_rng(sum(shape)).standard_normal(shape) * 0.5


def compound(rate: Any) -> Any:
    b = gnp.ones(N)
    for i in range(1, N):
        b[i] = b[i - 1] * (1 + rate)
    return b.sum()


def two_rows_before(a: Any) -> Any:
    u = gnp.zeros(N)
    u[0], u[1] = a, 1.0
    for i in range(2, N):
        u[i] = 0.5 * u[i - 1] + 0.4 * gnp.sin(u[i - 2]) * a
    return (u * u).sum()


def equal_indices_written_differently(x: Any) -> Any:
    u = gnp.zeros(N)
    for i in range(1, N - 1):
        u[1 + i] = x[i] * 0.5
        u[i + 1] = u[i + 1] * x[i - 1]
    return (u * u).sum()


def moving_window(x: Any) -> Any:
    out = gnp.zeros(N - 2)
    for k in range(N - 2):
        out[k] = (x[k : k + 3] ** 2).sum()
    return (out * out).sum()


def changes_in_place(x: Any) -> Any:
    h = gnp.zeros(3)
    for i in range(N):
        h += x[i : i + 1].sum()
        h[1:] *= 0.9
    return (h * h).sum()


def in_place_is_seen_under_other_names(x: Any) -> Any:
    h = gnp.zeros(3)
    other = h
    for i in range(N):
        h += x[i] * 0.1
    return (other * other).sum()


def rotating_buffers(x: Any) -> Any:
    before, now, after = x[:9] * 1.0, x[:9] * 2.0, gnp.zeros(9)
    for _ in range(N):
        after[1:-1] = 2 * now[1:-1] - before[1:-1] + 0.2 * (now[2:] - 2 * now[1:-1] + now[:-2])
        before, now, after = now, after, before
    return (now**2).sum() + before[2] - after[3]


def in_place_sweep(x: Any) -> Any:
    u = x * 1.0
    for i in range(1, N - 1):
        u[i] = 0.5 * (u[i - 1] + u[i + 1])
    return (u**2).sum()


def table_by_two_loops(x: Any) -> Any:
    u = gnp.zeros((N, 4))
    u[0] = x[:4]
    for i in range(1, N):
        for j in range(1, 4):
            u[i, j] = 0.5 * u[i - 1, j] + 0.3 * u[i, j - 1] + 0.1
    return (u * u).sum()


def conditions_on_the_index(x: Any) -> Any:
    s = x[0] * 0.0
    for i in range(N):
        if i == 0:
            s = x[i] * 2
        elif i % 3 == 1:
            s = s * 0.9 + x[i]
        else:
            s = s * 0.8 - x[i]
    return s


def condition_that_changes_once(x: Any) -> Any:
    s = x[0] * 0.0
    for i in range(2 * N):
        if i < N:
            s = s * 0.9 + x[i]
            continue
        s = s * 0.8 - x[i - N]
    return s


def numbers_that_rounds_change(x: Any) -> Any:
    t, count, mean, total = 0.0, 0, 0.0, 0.0
    for i in range(N):
        count += 1
        t = t + 0.01
        mean = mean + (x[i] - mean) / count
        total += mean * t
    return total + t * count


def items_of_zip_and_enumerate(x: Any) -> Any:
    s = x[0] * 0.0
    for k, (a, b) in enumerate(zip(x, x[::-1], strict=True), start=2):
        s = 0.9 * s + a * b + 0.001 * k
    return s


def reversed_items(x: Any) -> Any:
    s = x[0] * 0.0
    for i in reversed(range(N)):
        s = 0.95 * s + x[i] * x[i]
    return s + i


def values_after_the_loop(x: Any) -> Any:
    for i in range(N):
        last = x[i] * x[i - 1]
    return last * last + i


def appended(x: Any) -> Any:
    h, out = x[:3], []
    for _ in range(N):
        h = gnp.tanh(h * 1.01)
        out.append(h)
    return gnp.stack(out).sum() + len(out)


def powers_of_and_with_the_index(x: Any) -> Any:
    s, t = x[0] * 0.0, 0.5
    for i in range(N):
        s = s + t**i * x[0] ** i + x[1] ** 2 * (i + 1) ** 0.5 + (i / N) ** (x[2] ** 2)
    return s


def functions_of_the_index(x: Any) -> Any:
    s = x[0] * 0.0
    for i in range(N):
        s = s + x[1] * gnp.exp(-i / 40) * gnp.sin(0.1 * i) + gnp.cos(x[2] * (0.5 + i))
    return s


def breaks_at_an_index(x: Any) -> Any:
    s = x[0]
    for i in range(N):
        s = s + x[i]
        if i == 120:
            break
    return s * i


def breaks_by_value(x: Any) -> Any:
    s, u = x[0] * 0.0, gnp.zeros(N)
    for i in range(N):
        s = s + x[i] ** 2
        if s > 2:
            break
        u[i] = s
    else:
        s = s * 3
    return s * i + (u * u).sum()


def branches_by_value(x: Any) -> Any:
    s, n, u, h = x[0] * 0.0, x[0] * 0.0, gnp.zeros(N), gnp.zeros(3)
    for i in range(1, N):
        if -0.2 < x[i] < 0.2 and not x[i] > 0.15:
            s = s * 0.9 + (x[i] if x[i] > 0 else 0.5 * x[i] * x[i - 1])
            continue
        if x[i] > 0:
            step = gnp.sqrt(x[i])
            u[i] = u[i - 1] * 0.5 + max(step, s)
            n = n + 1
        elif i % 2 == 0:
            step = -x[i]
            h[1:] += step
        else:
            step = s
        s = s * 0.99 + step
    return s * n + (u * u).sum() + (h * h).sum()


def while_by_value(x: Any) -> Any:
    y, count = abs(x) + 1.0, 0
    while abs(y * y - x * x - 2).max() > 1e-9 and count < 60:
        y = 0.5 * (y + (x * x + 2) / y)
        count += 1
    return (y * count).sum()


def while_with_a_break(x: Any) -> Any:
    y = x[:4] * 1.0
    while True:
        y *= 0.9
        if (y * y).sum() < 1e-4:
            break
        y[1:] += 0.01 * y[:-1]
    return (y * x[:4]).sum()


def while_by_numbers(x: Any) -> Any:
    u, i, t = gnp.zeros(N), 1, 0.0
    while i < N - 1:
        u[i] = 0.5 * u[i - 1] + x[i + 1] * t
        i += 1
        t += 0.01
    return (u * u).sum() * t


REGULAR = [
    breaks_at_an_index, breaks_by_value, branches_by_value, while_by_value, while_with_a_break, while_by_numbers,
    compound, two_rows_before, equal_indices_written_differently, moving_window, changes_in_place,
    in_place_is_seen_under_other_names, rotating_buffers, in_place_sweep, table_by_two_loops, conditions_on_the_index,
    condition_that_changes_once, numbers_that_rounds_change, items_of_zip_and_enumerate, reversed_items,
    values_after_the_loop, appended, powers_of_and_with_the_index, functions_of_the_index,
]  # fmt: skip


def argument(f: Callable[..., Any]) -> Any:
    return gnp.array(0.03 if f in (compound, two_rows_before) else numbers(N))


def log_of(compiled: Any) -> Any:
    return compiled.entries[0].environment.loops


@pytest.mark.parametrize("f", REGULAR)
def test_values_and_gradients_are_those_of_eager_code(f: Callable[..., Any]) -> None:
    x = argument(f)
    value = ndgrad.compile(f, fullgraph=True)
    np.testing.assert_allclose(value(x).numpy(), f(x).numpy(), rtol=1e-13)
    gradient = ndgrad.compile(ndgrad.func.grad(f), fullgraph=True)
    np.testing.assert_allclose(gradient(x).numpy(), ndgrad.func.grad(f)(x).numpy(), rtol=1e-10, atol=1e-13)
    for compiled in (value, gradient):
        assert log_of(compiled).rolled
        assert not log_of(compiled).refused
        assert len(compiled.entries[0].specialisation.plan.forward.instructions) < 400


@pytest.mark.parametrize("f", [two_rows_before, rotating_buffers, conditions_on_the_index])
def test_gradients_are_those_of_finite_differences(f: Callable[..., Any]) -> None:
    x = argument(f).numpy()
    gradient = ndgrad.compile(ndgrad.func.grad(f))(gnp.array(x)).numpy()
    for place in list(np.ndindex(x.shape))[:5]:
        high, low = x.copy(), x.copy()
        high[place] += 1e-6
        low[place] -= 1e-6
        slope = (f(gnp.array(high)).numpy() - f(gnp.array(low)).numpy()) / 2e-6
        np.testing.assert_allclose(gradient[place], slope, rtol=1e-5, atol=1e-7)


def test_second_derivatives_and_batches() -> None:
    f = two_rows_before
    x = gnp.array(0.3)
    second = ndgrad.func.grad(ndgrad.func.grad(f))
    np.testing.assert_allclose(ndgrad.compile(second)(x).numpy(), second(x).numpy(), rtol=1e-9)
    some = gnp.array([0.1, 0.2, 0.3])
    batched = ndgrad.func.vmap(ndgrad.func.grad(f))
    np.testing.assert_allclose(ndgrad.compile(batched)(some).numpy(), batched(some).numpy(), rtol=1e-9)


# ----- loops that are traced round by round ---------------------------------------------------------------------------


def lengths_differ(x: Any) -> Any:
    s = x[0]
    for i in range(1, N):
        s = s + x[:i].sum()
    return s


def writes_rows_again(x: Any) -> Any:
    u = gnp.zeros(7)
    for i in range(N):
        u[i % 7] = u[(i + 1) % 7] * 0.5 + x[i]
    return (u * u).sum()


def reads_the_array_that_it_writes(x: Any) -> Any:
    u = gnp.zeros(N)
    for i in range(N):
        u[i] = u.sum() * 0.1 + x[i]
    return u.sum()


def writes_through_a_view(x: Any) -> Any:
    u = gnp.zeros((N, 3))
    for i in range(N):
        row = u[i]
        row[1] = x[i]
    return (u * u).sum()


def writes_an_alias(x: Any) -> Any:
    u = gnp.zeros(N)
    v = u[:]
    for i in range(1, N):
        u[i] = v[i - 1] * 0.5 + x[i]
    return u.sum()


def functions_of_an_integer(x: Any) -> Any:
    s = x[0]
    for i in range(N):
        s = s + x[1] * gnp.sin(i)
    return s


def uses_the_index_as_a_number(x: Any) -> Any:
    s = x[0]
    for i in range(N):
        s = s + x[i] * float(i)
    return s


IRREGULAR = {
    lengths_differ: "slice", writes_rows_again: "row", reads_the_array_that_it_writes: "array",
    writes_through_a_view: "view", writes_an_alias: "memory|array", uses_the_index_as_a_number: "plain number",
    functions_of_an_integer: "takes an integer",
}  # fmt: skip


@pytest.mark.parametrize("f", IRREGULAR)
def test_irregular_loops_give_the_results_of_eager_code_and_a_reason(f: Callable[..., Any]) -> None:
    x = argument(f)
    compiled = ndgrad.compile(ndgrad.func.grad(f), fullgraph=True)
    np.testing.assert_allclose(compiled(x).numpy(), ndgrad.func.grad(f)(x).numpy(), rtol=1e-10, atol=1e-13)
    ((where, reason),) = log_of(compiled).refused.items()
    assert where.startswith("test_python_loops.py:")
    assert any(word in reason for word in IRREGULAR[f].split("|")), reason
    assert f"loop at {where} is traced round by round: {reason}" in str(ndgrad.compiler.explain(compiled, x))


def test_an_error_of_a_late_round_is_raised() -> None:
    def f(x: Any) -> Any:
        s = x[0]
        for i in range(N + 1):
            s = s + x[i]
        return s

    with pytest.raises(IndexError):
        ndgrad.compile(f)(gnp.array(numbers(N)))


def test_functions_have_their_own_code_after_a_trace() -> None:
    before = compound.__code__
    seen = []
    ndgrad.compile(compound)(gnp.array(0.01))
    thread = threading.Thread(target=lambda: seen.append(compound(gnp.array(0.01))))
    thread.start()
    thread.join()
    assert compound.__code__ is before
    assert seen[0].numpy() == compound(gnp.array(0.01)).numpy()


class _Model:
    """Loops that read an attribute, and code behind them that changes it."""

    def __init__(self):
        self.gain = 2.0
        self.table = [1.0, 2.0]

    def attribute(self, x):
        u = gnp.zeros(N)
        self.gain = 2.0
        for j in range(N):
            u[j] = x * self.gain * j
        self.gain = 5.0
        return u.sum()

    def item(self, x):
        u = gnp.zeros(N)
        self.table = [1.0, 3.0]
        for j in range(N):
            u[j] = x * self.table[1] * j
        self.table[1] = 7.0
        return u.sum()


def _read_by_a_helper(x):
    u, s = gnp.zeros(N), 2.0

    def scaled(v):
        return v * s

    for j in range(N):
        u[j] = scaled(x) * j
    s = 7.0
    return u.sum()


def _assigned_again(x):
    u, s, t = gnp.zeros(N), 2.0, x * 3
    for j in range(N):
        u[j] = x * s * j + t
    s, t = 7.0, x * 11
    return u.sum() + s


def _rows_of_a_matrix(x):
    u = gnp.zeros((4, N))
    for i in range(4):
        for j in range(N):
            u[i, j] = gnp.sin(x * i + j)
    return u.sum()


def _entry_of_a_dict(x):
    u, known = gnp.zeros(N), {"a": x * 2.0}
    for j in range(N):
        u[j] = known["a"] * j
    known["a"] = x * 9.0
    return u.sum()


def _branch_of_a_round(x):
    u, s = gnp.zeros(N), x * 0.0
    for j in range(N):
        c = x * j
        if s < 3.0:
            s = s + c * 0.01
            u[j] = c * c
        c = x * 100.0 + s
    return u.sum() + c * s


@pytest.mark.parametrize(
    "f",
    [_branch_of_a_round, _Model().attribute, _Model().item, _read_by_a_helper, _assigned_again, _rows_of_a_matrix, _entry_of_a_dict],
    ids=lambda f: f.__name__,
)
def test_derivatives_take_variables_as_the_loop_saw_them(f):
    # A derivative runs the body again, after the code behind the loop.
    x = gnp.array(0.31)
    slope = (f(gnp.array(0.31 + 1e-6)).item() - f(gnp.array(0.31 - 1e-6)).item()) / 2e-6
    assert abs(ndgrad.compile(ndgrad.func.grad(f))(x).item() - slope) < 1e-6 * abs(slope) + 1e-6
    assert abs(ndgrad.compile(lambda t: ndgrad.func.jvp(f, (t,), (gnp.ones(()),))[1])(x).item() - slope) < 1e-6 * abs(slope) + 1e-6
