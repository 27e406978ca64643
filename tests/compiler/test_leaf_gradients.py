"""Gradients that leaves get without Python, and what falls back to the engine: each answer is the engine's."""

from __future__ import annotations

import gc
import threading
import weakref
from typing import Any

import numpy as np
import pytest

import ndgrad
from ndgrad import nn
from ndgrad._src.compiler.native.calls import is_available
from ndgrad._src.compiler.runtime.node import CompiledFunctionBackward
from ndgrad._src.core.references import LOCAL

pytestmark = pytest.mark.skipif(not (is_available() and LOCAL), reason="no native code, or no counts")


@pytest.fixture(autouse=True)
def native(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("NDGRAD_COMPILE_RAISE", "1")
    monkeypatch.delenv("NDGRAD_COMPILE_REPLAY", raising=False)


class Case:
    """A compiled number of two leaves, called often enough to be native, and how often leaves got gradients natively."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch, x: Any = None, w: Any = None) -> None:
        self.x = ndgrad.tensor([0.3, -0.7, 1.1], requires_grad=True) if x is None else x
        self.w = ndgrad.tensor([1.0, 2.0, 0.5], requires_grad=True) if w is None else w
        x, w = self.x, self.w
        self.function = lambda: (x * w).sin().sum() + (w * w).sum()
        self.compiled = ndgrad.compile(self.function)
        for _ in range(5):
            self.compiled().backward()
        self.clear()
        self.answers: list[bool] = []
        original = CompiledFunctionBackward.run_alone

        def run_alone(node: Any) -> bool:
            self.answers.append(original(node))
            return self.answers[-1]

        monkeypatch.setattr(CompiledFunctionBackward, "run_alone", run_alone)

    def clear(self) -> None:
        self.x.grad = self.w.grad = None

    def expected(self) -> list[Any]:
        return [g.numpy() for g in ndgrad.autograd.grad(self.function(), (self.x, self.w))]

    def check(self, times: float = 1.0) -> None:
        for t, g in zip((self.x, self.w), self.expected(), strict=True):
            assert type(t.grad) is ndgrad.Tensor
            np.testing.assert_allclose(t.grad.detach().numpy(), times * g, rtol=1e-6)


def test_a_backward_pass_of_one_program_gives_leaves_their_gradients_natively(monkeypatch: pytest.MonkeyPatch) -> None:
    case = Case(monkeypatch)
    for _ in range(3):
        case.clear()
        loss = case.compiled()
        loss.backward()
        case.check()
        with pytest.raises(RuntimeError, match="backward"):
            loss.backward()  # the graph is used up
    assert case.answers[::2] == [True] * 3
    assert case.x.grad._array.base is None
    assert case.x.grad._array.flags.writeable


def test_gradients_that_are_there_are_added_to(monkeypatch: pytest.MonkeyPatch) -> None:
    case = Case(monkeypatch)
    case.compiled().backward()
    before = case.x.grad
    case.compiled().backward()
    assert case.answers == [True, False]
    assert case.x.grad is before
    case.check(2.0)


def test_one_leaf_with_a_gradient_keeps_all_from_being_given_twice(monkeypatch: pytest.MonkeyPatch) -> None:
    case = Case(monkeypatch)
    case.w.grad = ndgrad.zeros(3)
    case.compiled().backward()
    assert case.answers == [False]
    case.check()


def test_parameters_get_tensors(monkeypatch: pytest.MonkeyPatch) -> None:
    case = Case(monkeypatch, x=nn.Parameter(ndgrad.tensor([0.3, -0.7, 1.1])))
    case.compiled().backward()
    assert case.answers == [True]
    case.check()


def test_retained_graphs_hooks_modes_and_other_gradients_go_through_the_engine(monkeypatch: pytest.MonkeyPatch) -> None:
    case = Case(monkeypatch)
    loss = case.compiled()
    loss.backward(retain_graph=True)
    loss.backward()
    case.check(2.0)

    case.clear()
    case.compiled().backward(ndgrad.tensor(3.0))
    case.check(3.0)

    case.clear()
    seen: list[Any] = []
    handle = case.x.register_hook(lambda g: seen.append(g.clone()))
    case.compiled().backward()
    handle.remove()
    assert len(seen) == 1
    case.check()

    case.clear()
    handle = case.w.register_post_accumulate_grad_hook(lambda t: seen.append(t.grad))
    case.compiled().backward()
    handle.remove()
    assert seen[1] is case.w.grad

    case.clear()
    loss = case.compiled()
    loss.grad_fn.register_hook(lambda inputs, outputs: seen.append("node"))
    loss.backward()
    assert seen[-1] == "node"
    case.check()

    case.clear()
    with ndgrad.autograd.detect_anomaly():
        case.compiled().backward()
    case.check()

    case.clear()
    loss = case.compiled()
    held = loss.grad_fn.made[0]  # a reference to a gradient before it is handed out
    loss.backward()
    assert case.x.grad._array is not held
    case.check()
    assert True not in case.answers

    case.clear()
    with pytest.warns(UserWarning, match="create_graph"):
        case.compiled().backward(create_graph=True)
    assert case.x.grad.requires_grad
    case.check()


def test_leaves_that_lie_otherwise_or_ask_for_other_dtypes_go_through_the_engine(monkeypatch: pytest.MonkeyPatch) -> None:
    x = ndgrad.ones(2, 3).T.requires_grad_()
    case = Case(monkeypatch, x, ndgrad.ones(3, 2).requires_grad_())
    case.compiled().backward()
    case.check()
    assert case.x.grad.stride() == x.stride()
    case = Case(monkeypatch)
    case.clear()
    case.w.grad_dtype = ndgrad.float16
    case.compiled().backward()
    assert case.w.grad.dtype == ndgrad.float16
    assert case.answers == [False]


def test_a_leaf_that_no_longer_requires_grad_gets_none(monkeypatch: pytest.MonkeyPatch) -> None:
    case = Case(monkeypatch)
    loss = case.compiled()
    case.w.requires_grad_(False)
    loss.backward()
    assert case.answers == [False]
    assert case.w.grad is None
    assert case.x.grad is not None


def test_nothing_is_kept_alive_and_nothing_is_freed_too_early(monkeypatch: pytest.MonkeyPatch) -> None:
    case = Case(monkeypatch)
    gc.disable()
    try:
        loss = case.compiled()
        loss.backward()
        node, gradient = weakref.ref(loss.grad_fn), weakref.ref(case.x.grad)
        array = weakref.ref(case.x.grad._array)
        del loss
        assert node() is None
        assert gradient() is not None
        case.clear()
        assert gradient() is None
        assert array() is None
        case.answers.clear()
        gc.enable()
        gc.set_threshold(1)  # the collector then runs whenever a tensor is made
        for _ in range(50):
            case.clear()
            case.compiled().backward()
            case.check()
    finally:
        gc.set_threshold(700, 10, 10)
        gc.enable()
    assert case.answers == [True] * 50


def test_threads_add_up(monkeypatch: pytest.MonkeyPatch) -> None:
    case = Case(monkeypatch)

    def work() -> None:
        for _ in range(40):
            case.compiled().backward()

    threads = [threading.Thread(target=work) for _ in range(4)]
    for t in threads:
        t.start()
    for t in threads:
        t.join()
    case.check(160.0)


def test_inputs_that_want_no_gradient_are_left_out(monkeypatch: pytest.MonkeyPatch) -> None:
    x, w = (ndgrad.tensor(values, requires_grad=True) for values in ([0.3, -0.7, 1.1], [1.0, 2.0, 0.5]))
    data, unused = ndgrad.tensor([2.0, 3.0, 4.0]), ndgrad.tensor([1.0], requires_grad=True)
    functions = [
        lambda: (data * x).sin().sum() + (data * w * w).sum(),
        lambda: (data * x).sum() + (w * w).sum() + unused.detach().sum(),
    ]
    compiled = [ndgrad.compile(f) for f in functions]
    for f in compiled:
        for _ in range(5):
            f().backward()
    case = Case(monkeypatch, x, w)
    for case.function, case.compiled in zip(functions, compiled, strict=True):
        case.clear()
        case.compiled().backward()
        case.check()
    assert case.answers[0]
    assert data.grad is None
    assert unused.grad is None
