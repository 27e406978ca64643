"""Effects of compiled functions: numbers, containers and list items as in eager code, and none left by a trace."""

from __future__ import annotations

import contextlib
import copy
import math
from collections import OrderedDict, deque
from collections.abc import Callable
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest

import ndgrad
from ndgrad._src.compiler.capture.tracer import Tracer
from tests.compiler.traced import fail_at


class State:
    def __init__(self, **given: Any) -> None:
        self.__dict__.update(given)


def plain(value: Any) -> Any:
    """Return a value with the classes and all bits of its parts."""
    if isinstance(value, ndgrad.Tensor):
        return "tensor", str(value.dtype), value.detach().tolist(), value.requires_grad
    if isinstance(value, dict):
        return type(value), [(k, plain(v)) for k, v in value.items()]
    if isinstance(value, (list, tuple, deque)):
        return type(value), [plain(v) for v in value]
    return plain(vars(value)) if isinstance(value, State) else (type(value), repr(value))


@pytest.fixture(autouse=True)
def on_numpy(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("NDGRAD_COMPILE_REPLAY", "1")


#: Functions, their state, and the largest number of traces for 14 calls.
CASES: dict[str, tuple[Callable[[Any, Any], Any], dict[str, Any], int]] = {}


def case(traces: int, **state: Any) -> Any:
    def note(f: Any) -> Any:
        CASES[f.__name__] = f, state, traces
        return f

    return note


@case(2, count=0)
def counts(s: Any, x: Any) -> Any:
    s.count += 1
    return x * s.count


@case(2, total={"loss": 0.0})
def sums_up(s: Any, x: Any) -> Any:
    loss = (x * x).sum()
    s.total["loss"] += loss.item()
    return loss


@case(2, best=math.inf, worst=-math.inf)
def keeps_the_best(s: Any, x: Any) -> Any:
    loss = x.sum().item()
    s.best, s.worst = min(s.best, loss), max(s.worst, loss)
    return x * s.best


@case(2, previous=None)
def keeps_the_last(s: Any, x: Any) -> Any:
    loss = x.sum().item()
    s.previous = loss
    return x * loss


@case(2, losses=[])
def appends_numbers(s: Any, x: Any) -> Any:
    s.losses.append(x.sum().item())
    return x + 1


@case(2, history=[], more=[])
def appends_tensors(s: Any, x: Any) -> Any:
    s.history.append(x.sum().detach())
    s.more += [x, x * 2]
    return x + 1


@case(2, rows=[], n=0)
def appends_containers(s: Any, x: Any) -> Any:
    s.n += 1
    s.rows.append({"loss": x.sum().item(), "step": s.n, "both": (x * 2, [s.n])})
    return x + 1


@case(2, recent=deque(maxlen=3), name="a")
def appends_to_a_deque(s: Any, x: Any) -> Any:
    s.recent.append(x.sum().item())
    return x + 1


@case(5, recent=deque(maxlen=3))
def averages_over_a_deque(s: Any, x: Any) -> Any:
    s.recent.append(x.amax().item())  # a sum depends on the processor's order of additions
    return x * (sum(s.recent) / len(s.recent))


@case(6, seen=[])
def appends_and_counts(s: Any, x: Any) -> Any:
    s.seen.append(1.0)
    return x * len(s.seen)


@case(6, seen=[])
def appends_and_reads(s: Any, x: Any) -> Any:
    if s.seen:
        x = x + s.seen[-1]
    s.seen.append(x.sum().item())
    return x


@case(6, seen=[0.0])
def appends_and_compares(s: Any, x: Any) -> Any:
    is_new = s.seen == [0.0]
    s.seen.append(0.0)
    return x if is_new else -x


@case(6, seen=[1.0])
def concatenates(s: Any, x: Any) -> Any:
    s.seen.extend([2.0])
    return x * sum([1.0] + s.seen)


@case(2, mean=0.0, n=0)
def running_mean(s: Any, x: Any) -> Any:
    s.n += 1
    s.mean += (x.mean().item() - s.mean) / s.n
    return x - s.mean


@case(2, entries={}, ordered=OrderedDict())
def adds_entries(s: Any, x: Any) -> Any:
    s.entries["a"], s.entries["b"] = x.sum().item(), 3
    s.ordered["c"] = x * 2
    return x


@case(2)
def adds_attributes(s: Any, x: Any) -> Any:
    s.loss, s.doubled = x.sum().item(), x * 2
    return x


@case(2, last=[0.0], table={"lr": 0.5}, lr=0.1)
def replaces_containers(s: Any, x: Any) -> Any:
    y = x * s.last[0] + s.table["lr"]
    s.lr *= 0.9
    s.last, s.table = [s.lr], {"lr": s.lr}
    return y


@case(2, betas=(0.9, 0.99))
def replaces_a_tuple(s: Any, x: Any) -> Any:
    s.betas = (s.betas[0] * 0.99, s.betas[1])
    return x * s.betas[0] + s.betas[1]


@case(3, a=1.0, b=2.0)
def exchanges(s: Any, x: Any) -> Any:
    s.a, s.b = s.b, s.a + 1
    return x * s.a


@case(2, n=0)
def sets_the_same_number(s: Any, x: Any) -> Any:
    y = x * s.n
    s.n = 3
    return y


@case(3, n=0, is_even=False)
def sets_flags(s: Any, x: Any) -> Any:
    s.n += 1
    s.is_even = s.n % 2 == 0
    return x * 2 if s.is_even else x


@case(6, n=0)
def sets_texts(s: Any, x: Any) -> Any:
    s.n += 1
    s.name = f"step {s.n}"
    return x


@case(6, n=2**70)
def counts_on_from_a_large_number(s: Any, x: Any) -> Any:
    s.n += 1
    return x


@case(6, n=2**53 - 2)
def counts_past_what_floats_hold(s: Any, x: Any) -> Any:
    s.n += 1
    return x * s.n


@case(3, items=[], other=None)
def holds_a_list_twice(s: Any, x: Any) -> Any:
    s.items.append(x.sum().item())
    s.other = s.items
    return x


@case(2, items=[])
def returns_its_list(s: Any, x: Any) -> Any:
    s.items.append(x.sum().item())
    return s.items


@case(6, a=None, b=None)
def shares_a_new_list(s: Any, x: Any) -> Any:
    s.a = s.b = [x.sum().item()]
    s.a.append(2.0)
    return x


@case(14, items=[1.0, 2.0])
def removes_items(s: Any, x: Any) -> Any:
    s.items.append(s.items.pop(0) + 1)
    return x * s.items[0]


@case(2, step=0)
def schedules(s: Any, x: Any) -> Any:
    s.step += 1
    return x * (1 - 0.9**s.step) * round(s.step / 3, 2) * (s.step // 2) * (s.step % 3) * abs(-s.step) * math.cos(s.step)


@case(2, powers=0.0)
def computes_with_what_it_reads(s: Any, x: Any) -> Any:
    loss = x.sum().item()
    s.powers += loss**2 + loss % 0.7 + loss // 0.3 + round(loss, 2) + math.exp(loss) - abs(-loss)
    return x


@pytest.mark.parametrize("name", CASES)
@pytest.mark.filterwarnings("ignore:.*runs eagerly from now on")
def test_effects_are_those_of_eager_code(name: str) -> None:
    f, given, traces = CASES[name]
    eager, own = (State(**copy.deepcopy(given)) for _ in range(2))
    g = ndgrad.compile(lambda x: f(own, x))
    rng = np.random.default_rng(0)
    for _ in range(14):
        x = ndgrad.tensor(rng.standard_normal(2))
        found, expected = g(x), f(eager, x)
        assert plain(found) == plain(expected)
        assert plain(own) == plain(eager)
        if name == "returns_its_list":
            assert found is own.items
        if name == "holds_a_list_twice":
            assert own.other is own.items
    assert g.traces <= traces


@pytest.mark.parametrize("value", [None, "a", (1, 2), 7.0, True, [], ()])
def test_a_cell_takes_any_constant(value: Any) -> None:
    cell: Any = 3.0

    def f(x: Any) -> Any:
        nonlocal cell
        cell = value
        return x + 1

    g = ndgrad.compile(f)
    for _ in range(4):
        cell = 3.0
        g(ndgrad.ones(2))
        assert cell == value
        assert type(cell) is type(value)


def test_changes_from_outside_are_seen() -> None:
    """Between calls, the list is emptied and the count is set."""
    s = State(items=[], n=0)

    def f(x: Any) -> Any:
        s.n += 1
        s.items.append(s.n)
        return x * s.n

    g = ndgrad.compile(f)
    for n in (0, 7, 7, 2, 5.5, 6.5, 100):
        s.n = n
        s.items.clear()
        assert g(ndgrad.ones(1)).item() == n + 1
        assert plain(s.items) == plain([n + 1])
    s.items = [3]
    g(ndgrad.ones(1))
    assert s.items[0] == 3
    assert len(s.items) == 2


def test_a_loss_that_raises_leaves_what_eager_code_leaves() -> None:
    s = State(total=0.0)
    w = ndgrad.ones(2)

    def f(x: Any) -> Any:
        w.add_(x)
        s.total += math.sqrt(x.sum().item())
        return w * 2

    g = ndgrad.compile(f)
    for values in ([1.0, 3.0], [4.0, 5.0], [2.0, 2.0]):
        g(ndgrad.tensor(values))
    assert s.total == 2.0 + 3.0 + 2.0
    with pytest.raises(ValueError, match="math domain error"):
        g(ndgrad.tensor([-1.0, 0.0]))
    assert s.total == 7.0
    assert w.tolist() == [1.0 + 7 - 1, 1.0 + 10]


# ----- nothing stays behind after a trace -----------------------------------------------------------------------------


class Fault(Exception):
    pass


class Interrupt(BaseException):
    pass


def contents(value: Any, seen: dict[int, Any]) -> Any:
    """Return the identities of all objects in a state."""
    if id(value) in seen:
        return id(value)
    seen[id(value)] = value
    if isinstance(value, (State, SimpleNamespace)):
        return id(value), contents(vars(value), seen)
    if isinstance(value, dict):
        return id(value), [(id(k), contents(v, seen)) for k, v in value.items()]
    if isinstance(value, (list, tuple, deque)):
        return id(value), [contents(v, seen) for v in value]
    return (id(value), value.tolist(), value._version) if isinstance(value, ndgrad.Tensor) else (id(value), type(value))


@pytest.mark.parametrize("error", [Fault, Interrupt])
def test_a_trace_that_fails_anywhere_leaves_nothing_behind(error: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    s = State(
        n=0, total={"loss": 0.5}, items=[1.0], recent=deque([0.5], maxlen=2), pair=(0.5, 1), w=ndgrad.ones(2, requires_grad=True),
        inner=State(best=1.0), made=None,
    )  # fmt: skip
    cell = 0.5

    def f(x: Any) -> Any:
        nonlocal cell
        s.n += 1
        loss = (x * s.w * s.n).sum()
        s.total["loss"] += loss.item()
        s.items.append(loss.item() * cell)
        cell = cell + 0.5
        s.recent.append(cell)
        s.pair = (s.pair[0] * 2, s.pair[1])
        loss.backward()
        with ndgrad.no_grad():
            s.w -= s.w.grad * cell
        s.w.grad = None
        s.inner.best = min(s.inner.best, loss.item())
        s.made = [State(hidden=loss), {"loss": loss.item()}]
        s.made = {"numbers": [loss.item(), s.n]}
        return loss

    emit = Tracer.emit
    for warm in range(3):  # without placeholders, and with them
        count = [0, -1]
        monkeypatch.setattr(Tracer, "emit", fail_at(emit, count, error))
        g = ndgrad.compile(f)
        x = ndgrad.ones(2)
        for _ in range(warm):
            g(x)
            s.n += 1
        total = None
        number = 1
        while total is None or number <= total:
            keep: dict[int, Any] = {}
            before, cell_before = contents(s, keep), cell
            count[:] = [0, number if total is not None else -1]
            g.entries.clear()
            with contextlib.suppress(error):
                ndgrad.compiler.explain(g, x)
            total = total or count[0]
            assert contents(s, {}) == before
            assert cell is cell_before
            assert s.w.grad is None
            number += 1
        monkeypatch.setattr(Tracer, "emit", emit)
        assert total > 10


def test_numbers_of_a_state_that_the_issue_named() -> None:
    """Three rows are three counts, and the total stays a number."""
    total = {"loss": 0.0, "count": 0}

    def f(x: Any) -> Any:
        loss = (x * x).sum()
        total["loss"] += loss.item()
        total["count"] += x.shape[0]
        return loss

    g = ndgrad.compile(f)
    for i in range(5):
        g(ndgrad.full((3,), float(i)))
        assert total == {"loss": sum(3.0 * k * k for k in range(i + 1)), "count": 3 * (i + 1)}
        assert type(total["loss"]) is float
        assert type(total["count"]) is int


# ----- gradients ------------------------------------------------------------------------------------------------------


def test_gradients_of_some_results_of_a_function_that_counts_and_keeps() -> None:
    """The derivatives are traced after the call, which has changed the captured state."""
    found = []
    for compiles in (False, True):
        s = State(n=0, kept=[], last=None, total=0.0)

        def f(x: Any, s: State = s) -> Any:
            s.n += 1
            y = (x * s.n).sin()
            s.kept.append(y)
            s.last = {"y": y.detach(), "n": s.n}
            s.total += y.sum().item()
            return (y * y).sum(), y * 2

        run = ndgrad.compile(f) if compiles else f
        values: list[Any] = []
        for i in range(5):
            x = ndgrad.tensor([0.5, i + 1.0], dtype=ndgrad.float64, requires_grad=True)
            loss, _ = run(x)
            (first,) = ndgrad.autograd.grad(loss, x, create_graph=True)
            (second,) = ndgrad.autograd.grad(first.sum(), x, retain_graph=True)
            (third,) = ndgrad.autograd.grad(s.kept[-1].sum(), x) if i % 2 else (x,)
            values += [t.detach().numpy() for t in (first, second, third, s.last["y"])]
            values += [s.n, s.last["n"], len(s.kept), s.total]
        found.append(values)
    for a, b in zip(*found, strict=True):
        np.testing.assert_allclose(a, b, rtol=1e-12)
