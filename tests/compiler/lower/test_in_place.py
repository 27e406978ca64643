"""Results in the memory of inputs: the same values as eager, and nothing written by a call that fails."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import ndgrad
import ndgrad.nn.functional as F
from ndgrad import nn, optim
from ndgrad._src.compiler.runtime import plan

pytest.importorskip("llvmlite")


@pytest.fixture(autouse=True)
def failures_are_errors(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("NDGRAD_COMPILE_RAISE", "1")
    monkeypatch.delenv("NDGRAD_COMPILE_REPLAY", raising=False)
    monkeypatch.setattr(plan, "LARGE_WRITE", 0)


def in_place(compiled: Any) -> int:
    """Return the number of inputs that the program of the last trace writes by itself."""
    made = [entry.specialisation for entry in compiled.entries if entry.specialisation is not None][-1]
    return len(made.plan.run_forward.executable.in_place.inputs)


def twice(f: Any, make: Any, calls: int = 3) -> tuple[Any, Any, list[Any], list[Any]]:
    """A function of some tensors compiled and eager: its results and the tensors afterwards."""
    ours, theirs = make(), make()
    compiled = ndgrad.compile(f, fullgraph=True)
    found = [compiled(*ours) for _ in range(calls)]
    expected = [f(*theirs) for _ in range(calls)]
    return compiled, ours, [*found, *ours], [*expected, *theirs]


def same(found: list[Any], expected: list[Any]) -> None:
    for a, b in zip(found, expected, strict=True):
        if isinstance(a, ndgrad.Tensor):
            np.testing.assert_allclose(a.detach().numpy(), b.detach().numpy(), rtol=1e-12)


def pair() -> tuple[Any, Any]:
    rng = np.random.default_rng(0)
    return ndgrad.tensor(rng.standard_normal((3, 5))), ndgrad.tensor(rng.standard_normal((3, 5)))


def updated(x: Any, y: Any) -> Any:
    x.mul_(0.5).add_(y * y)
    return (y * 2).sum()


def test_a_tensor_is_written_where_it_lies() -> None:
    compiled, (x, _), found, expected = twice(updated, pair)
    same(found, expected)
    assert in_place(compiled) == 1
    assert x._version == 6  # as of eager code, which writes twice in each of three calls


def test_versions_tell_graphs_of_writes() -> None:
    x, y = pair()
    compiled = ndgrad.compile(updated)
    for _ in range(3):
        leaf = ndgrad.ones(3, 5, requires_grad=True)
        out = (leaf * x).sum()
        compiled(x, y)
        with pytest.raises(RuntimeError, match="modified by an inplace operation"):
            out.backward()


@pytest.mark.parametrize(
    "f",
    [
        pytest.param(lambda x, y: (x.clone(), x.add_(y))[0], id="the old value is returned"),
        pytest.param(lambda x, y: (x.add_(y), x.T @ y)[1], id="the new value is read"),
        pytest.param(lambda x, y: x.copy_(x.flip(0) + y).sum(), id="other elements are read"),
        pytest.param(lambda x, y: x.sub_(x.sum(1, keepdim=True)).sum(), id="rows are read"),
        pytest.param(lambda x, y: (y.copy_(x * 2), x.copy_(y + 1))[0].sum(), id="each into the other"),
        pytest.param(lambda x, y: x[1:].add_(x[:-1]).sum(), id="a part"),
        pytest.param(lambda x, y: (x.softmax(1), x.copy_(y * 3))[0], id="read by a kernel before"),
        pytest.param(lambda x, y: (x.copy_(y), y.copy_(y * 2))[0].sum(), id="a copy of another that is written"),
        pytest.param(lambda x, y: (x.mul_(2), y.copy_(x), x.add_(1))[1].sum(), id="written twice"),
    ],
)
def test_the_order_of_reads_and_writes_is_kept(f: Any) -> None:
    _, _, found, expected = twice(f, pair)
    same(found, expected)


def test_memory_that_is_not_contiguous_read_only_or_shared() -> None:
    def strided() -> tuple[Any, Any]:
        x, y = pair()
        return ndgrad.stack([x, x], 2)[:, :, 0], y

    _, _, found, expected = twice(updated, strided)
    same(found, expected)
    x, y = pair()
    compiled = ndgrad.compile(updated)
    view = x[:2]
    for number in range(3):
        before = x.clone()
        compiled(x, y)
        np.testing.assert_allclose(view, (before * 0.5 + y * y)[:2], rtol=1e-12)
        assert view._version == x._version, number
    array = np.ones((3, 5))
    array.flags.writeable = False
    with pytest.raises(RuntimeError, match="read-only"):
        compiled(ndgrad.from_numpy(array), y)
    np.testing.assert_array_equal(array, 1)


def step_of(model: Any, optimizer: Any) -> Any:
    def step(x: Any, y: Any) -> Any:
        optimizer.zero_grad()
        loss = F.cross_entropy(model(x), y)
        loss.backward()
        optimizer.step()
        return loss

    return step


@pytest.mark.parametrize("compiles", [True, False])
def test_a_call_that_fails_its_checks_writes_nothing(compiles: bool) -> None:
    ndgrad.manual_seed(0)
    model = nn.Sequential(nn.Linear(4, 8), nn.Tanh(), nn.Linear(8, 3))
    optimizer = optim.AdamW(model.parameters(), lr=0.1)
    step = step_of(model, optimizer)
    run = ndgrad.compile(step) if compiles else step
    x, y = ndgrad.randn(5, 4), ndgrad.tensor([0, 1, 2, 0, 1])
    for bad in (3, -1, -100, 3):
        for _ in range(4):
            run(x, y)
        if compiles:
            assert in_place(run) > 8  # parameters and moments
        before = [t.clone() for t in (*model.parameters(), *[v for s in optimizer.state.values() for v in s.values()])]
        wrong = ndgrad.tensor([0, 1, bad, 0, 1])
        if bad == -100:  # the ignored class is another condition on values
            run(x, wrong)
            continue
        with pytest.raises((IndexError, RuntimeError)):
            run(x, wrong)
        after = [*model.parameters(), *[v for s in optimizer.state.values() for v in s.values()]]
        for a, b in zip(before, after, strict=True):
            np.testing.assert_array_equal(a.detach().numpy(), b.detach().numpy())


def test_a_condition_that_comes_out_otherwise_writes_once() -> None:
    def trained(compiles: bool) -> list[Any]:
        ndgrad.manual_seed(0)
        model = nn.Linear(4, 3)
        optimizer = optim.Adam(model.parameters(), lr=0.1)
        step = step_of(model, optimizer)
        run = ndgrad.compile(step) if compiles else step
        x = ndgrad.randn(5, 4)
        for k in range(12):
            run(x, ndgrad.tensor([0, 1, -100 if k % 3 == 0 else 2, 0, 1]))
        return [p.detach().numpy() for p in model.parameters()]

    for a, b in zip(trained(True), trained(False), strict=True):
        np.testing.assert_allclose(a, b, rtol=1e-9)
