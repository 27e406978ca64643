"""Anomaly mode beyond torch's: its error texts for every kind of backward, and its state afterwards."""

from __future__ import annotations

import inspect
import warnings
import weakref

import numpy as np
import pytest

import ndgrad
from ndgrad.autograd import set_detect_anomaly


def leaf(*values: float):
    return ndgrad.tensor(list(values), requires_grad=True)


def line() -> int:
    return inspect.currentframe().f_back.f_lineno


@pytest.fixture(autouse=True)
def quiet():
    busy = len(ndgrad._src.core.modes.process.busy)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        yield
    assert not ndgrad.autograd.is_anomaly_enabled()
    assert len(ndgrad._src.core.modes.process.busy) == busy


def failure(run) -> str:
    with set_detect_anomaly(True), pytest.raises(RuntimeError, match="returned nan values") as caught:
        run()
    return str(caught.value)


# ----- text of the error -------------------------------------------------------------------------------------------------------


def test_the_first_nan_is_named_with_its_node_index_values_and_line():
    x = leaf(4.0, 0.0, 1.0)
    here = line() + 3

    def run():
        (x.sqrt() * 0.0).sum().backward()

    text = failure(run)
    assert "Function 'SqrtBackward0' returned nan values in its 0th output" in text
    assert "1 of the 3 values of the gradient of 'self' (shape (3,)), the first at index (1,)" in text
    assert "gradient that arrived = 0.0, result = 0.0, self = 0.0" in text
    assert f"called:   {__file__}:{here} in" in text
    assert "forward:  finite everywhere" in text
    assert "clamp it" in text


def test_the_infinity_behind_a_nan_is_named():
    x = leaf(0.0, 1.0)

    def run():
        h = x * 0.0
        (h.sqrt()).sum().backward()

    text = failure(run)
    assert "Function 'MulBackward0' returned nan" in text
    assert "the first gradient of this pass that was not finite is inf, returned by SqrtBackward0 at index (0,)" in text


def test_a_forward_that_was_not_finite_is_named_with_its_line():
    x = leaf(0.0, 1.0)

    def run():
        h = x.log()
        (h * 0.0).sum().backward()

    here = inspect.getsourcelines(run)[1] + 1
    text = failure(run)
    assert "forward:  not finite: the result of LogBackward0 is -inf at index (0,)" in text
    assert f":{here} in" in text


def test_a_leaf_that_is_not_finite_is_named():
    x = leaf(1.0, float("nan"))
    assert "a leaf of shape (2,) holds nan at index (1,)" in failure(lambda: (x * x).sum().backward())


def test_a_forward_that_was_not_watched_is_said_to_be_unknown():
    x = leaf(0.0, 1.0)
    y = (x.sqrt() * 0.0).sum()
    text = failure(y.backward)
    assert "called:   unknown" in text
    assert "forward:  unknown, since it ran outside" in text


def test_a_nan_that_a_hook_put_in_is_not_blamed_on_the_op():
    x = leaf(1.0, 2.0)

    def run():
        h = x * 3.0
        h.sum().backward(ndgrad.tensor(float("nan")))

    assert "It was already in the gradient that arrived" in failure(run)


def test_broadcast_values_are_shown_at_the_right_place():
    x, w = ndgrad.ones(2, 3, requires_grad=True), ndgrad.tensor([[1.0, float("nan"), 2.0]])

    def run():
        (x * w).sum().backward()

    text = failure(run)
    assert "the first at index (0, 1)" in text
    assert "other = nan" in text


def test_infinite_gradients_pass_unless_asked_for():
    x = leaf(0.0, 1.0)
    with set_detect_anomaly(True):
        x.sqrt().sum().backward()
    assert x.grad.tolist() == [float("inf"), 0.5]
    with set_detect_anomaly(True, check_inf=True), pytest.raises(RuntimeError, match="returned inf values"):
        x.sqrt().sum().backward()


# ----- all kinds of backward -------------------------------------------------------------------------------------------------------------


def nan_at_zero(t):
    return (t.sqrt() * 0.0).sum()


def test_arrays_lane_and_captures():
    x = leaf(0.0, 1.0)
    failure(lambda: nan_at_zero(x).backward())
    failure(lambda: ndgrad.autograd.grad(nan_at_zero(x), x))
    failure(lambda: nan_at_zero(x).backward(inputs=[x]))


def test_create_graph_lane():
    x = leaf(0.0, 1.0)
    failure(lambda: ndgrad.autograd.grad(nan_at_zero(x), x, create_graph=True))


@pytest.mark.parametrize("transform", [
    lambda f: ndgrad.func.grad(f),
    lambda f: ndgrad.func.grad(lambda t: ndgrad.func.grad(f)(t).sum()),
    lambda f: ndgrad.func.vmap(ndgrad.func.grad(f)),
    lambda f: lambda t: ndgrad.func.vjp(f, t)[1](ndgrad.tensor(1.0)),
], ids=["grad", "grad of grad", "vmap of grad", "vjp"])  # fmt: skip
def test_lanes_of_transforms(transform):
    text = failure(lambda: transform(nan_at_zero)(ndgrad.tensor([[0.0, 1.0], [2.0, 3.0]])))
    assert "Backward" in text


def test_multi_output_and_view_and_in_place_nodes():
    x = leaf(0.0, 1.0, 2.0)

    def run():
        h = x * 1.0
        h[1:].mul_(2.0)
        a, b = h.split([1, 2])
        (a.sqrt() * 0.0 + b.sum()).sum().backward()

    assert "SqrtBackward0" in failure(run)


def test_custom_functions_are_watched():
    class Bad(ndgrad.autograd.Function):
        @staticmethod
        def forward(ctx, x):
            return x * 1.0

        @staticmethod
        def backward(ctx, g):
            return g * float("nan")

    x = leaf(1.0, 2.0)
    here = line() + 3

    def run():
        Bad.apply(x).sum().backward()

    text = failure(run)
    assert "Function 'BadBackward' returned nan values" in text
    assert f":{here} in" in text


# ----- failures -----------------------------------------------------------------------------------------------------------------


def test_an_error_keeps_its_class_and_carries_the_line_of_the_forward():
    class Raises(ndgrad.autograd.Function):
        @staticmethod
        def forward(ctx, x):
            return x * 1.0

        @staticmethod
        def backward(ctx, g):
            raise LookupError("mine")

    x = leaf(1.0)
    with set_detect_anomaly(True):
        y = Raises.apply(x)
        here = line() - 1
        with pytest.raises(LookupError, match="mine") as caught:
            y.backward()
    assert f":{here} in" in caught.value.__notes__[0]
    assert "RaisesBackward" in caught.value.__notes__[0]


def test_parents_are_named_up_to_the_first_forward():
    x = leaf(0.0, 1.0)
    with set_detect_anomaly(True), warnings.catch_warnings(record=True) as seen:
        warnings.simplefilter("always")
        y = (x**2.5).sum()
        first = line() - 1
        (g,) = ndgrad.autograd.grad(y, x, create_graph=True)
        (h,) = ndgrad.autograd.grad(g.sum(), x, create_graph=True)
        second = line() - 1
        z = (h * 0.0).sum()
        with pytest.raises(RuntimeError) as caught:
            ndgrad.autograd.grad(z, x)
    notes = "\n".join(caught.value.__notes__)
    assert f":{second} in" in notes
    assert f":{first} in" in notes
    texts = [str(w.message) for w in seen]
    assert any(t.startswith("Error detected in PowBackward0. Traceback of the forward call") for t in texts)
    assert any("was part of the backward of" in t and "y = (x**2.5).sum()" in t for t in texts)


def test_a_failed_pass_leaves_later_ones_intact():
    x = leaf(0.0, 4.0)
    y = (x.sqrt() * ndgrad.tensor([0.0, 1.0])).sum()
    with set_detect_anomaly(True), pytest.raises(RuntimeError):
        y.backward(retain_graph=True)
    assert x.grad is None
    y.backward()
    assert np.isnan(x.grad.tolist()[0])
    assert x.grad.tolist()[1] == 0.25


def test_saved_values_are_freed_as_usual():
    x = leaf(1.0, 2.0)
    with set_detect_anomaly(True):
        y = x.exp()
        saved = weakref.ref(y.grad_fn._saved_result._array)
        z = y.sum()
        del y
        z.backward()
        assert saved() is None
        with pytest.raises(RuntimeError, match="freed"):
            z.grad_fn.next_functions[0][0]._saved_result
    assert np.allclose(x.grad.numpy(), np.exp([1.0, 2.0]))


def test_traces_hold_no_frames():
    class Big:
        pass

    x = leaf(1.0)

    def call():
        big = Big()
        gone.append(weakref.ref(big))
        return x * 2.0

    gone: list = []
    with set_detect_anomaly(True):
        y = call()
    assert gone[0]() is None
    assert any("call" in text for text in y.grad_fn.metadata["traceback_"])


def test_hooks_run_in_the_same_order_in_anomaly_mode():
    def events(x):
        out: list = []
        h = x * 2.0
        h.register_hook(lambda g: out.append("h"))
        h.grad_fn.register_hook(lambda a, b: out.append("post"))
        h.grad_fn.register_prehook(lambda g: out.append("pre"))
        x.register_hook(lambda g: out.append("x"))
        h.exp().sum().backward()
        return out

    plain = events(leaf(1.0, 2.0))
    with set_detect_anomaly(True):
        assert events(leaf(1.0, 2.0)) == plain


def test_a_training_step_gives_the_same_numbers():
    rng = np.random.default_rng(0)
    data = ndgrad.tensor(rng.standard_normal((8, 4)))

    def step():
        w1, w2 = (ndgrad.tensor(np.random.default_rng(s).standard_normal((4, 4)), requires_grad=True) for s in (1, 2))
        for _ in range(3):
            loss = ((data @ w1).tanh() @ w2).pow(2).mean()
            g1, g2 = ndgrad.autograd.grad(loss, (w1, w2))
            with ndgrad.no_grad():
                w1 -= 0.1 * g1
                w2 -= 0.1 * g2
        return w1.tolist(), w2.tolist()

    plain = step()
    with set_detect_anomaly(True):
        assert step() == plain
