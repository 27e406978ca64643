"""Compiled functions as objects: copies, pickles, number of traces, results and kept references."""

from __future__ import annotations

import copy
import functools
import gc
import pickle
import re
import warnings
import weakref
from typing import Any

import numpy as np
import pytest

import ndgrad
from ndgrad import nn
from ndgrad._src.compiler.runtime import function
from ndgrad._src.compiler.runtime.function import CompiledFunction


@ndgrad.compile
def decorated(x: Any) -> Any:
    return x * 2


def plain(x: Any) -> Any:
    return x * 3


class Model(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.layer = nn.Linear(3, 3)

    def forward(self, x: Any) -> Any:
        return self.layer(x).tanh()


X = ndgrad.ones(2, 3)


def zero(model: Any) -> None:
    with ndgrad.no_grad():
        for p in model.parameters():
            p.zero_()


# ----- copies and pickles -------------------------------------------------------------------------------------------------


def test_a_compiled_function_is_copied_and_pickled_as_functions_are() -> None:
    for f in (decorated, ndgrad.compile(plain)):
        for _ in range(4):
            f(X)
        assert copy.copy(f) is f
        assert copy.deepcopy({"f": f})["f"] is f
        again = pickle.loads(pickle.dumps(f))
        assert again(X).tolist() == f(X).tolist()
        assert (again is f) == (f is decorated)


def test_a_pickled_function_keeps_its_options() -> None:
    again: Any = pickle.loads(pickle.dumps(ndgrad.compile(plain, strict=True, dynamic=False)))
    assert (again.strict, again.dynamic) == (True, False)


def test_a_copy_of_a_model_with_a_compiled_method_is_a_model_of_its_own() -> None:
    model = Model()
    model.forward = ndgrad.compile(model.forward)  # type: ignore[method-assign]
    before = model(X).tolist()
    other = copy.deepcopy(model)
    zero(other)
    assert other(X).abs().max().item() == 0
    assert model(X).tolist() == before


def test_a_model_is_compiled_in_place() -> None:
    model = Model()
    before = model(X).detach().numpy()
    model.compile()
    model.register_forward_hook(lambda module, args, output: output * 2)
    for _ in range(4):
        np.testing.assert_allclose(model(X).detach().numpy(), 2 * before, rtol=1e-6)
    assert model._compiled_call_impl.entries[0].specialisation is not None
    assert list(model.state_dict()) == ["layer.weight", "layer.bias"]
    other = copy.deepcopy(model)
    assert other._compiled_call_impl is None
    zero(other)
    assert other(X).abs().max().item() == 0
    assert model(X).abs().max().item() > 0
    model.compile(disable=True)
    assert model._compiled_call_impl is None


# ----- the limit of traces ------------------------------------------------------------------------------------------------

scale = 0.0


@pytest.mark.filterwarnings("ignore:.*has been traced.*")
def test_only_sizes_of_tensors_count_as_sizes() -> None:
    global scale
    compiled = CompiledFunction(lambda x: x * float(scale))
    for i in range(function.THRASHING + 5):
        scale = str(i)
        assert compiled(X)[0, 0].item() == i
    assert compiled.traces == 1 + function.MOST_OTHERS
    assert compiled.resized == 0
    resized = CompiledFunction(plain)
    for n in range(1, function.THRASHING + 10):
        resized(ndgrad.ones(n))
    assert resized.traces == function.THRASHING + 9


# ----- what is returned ---------------------------------------------------------------------------------------------------


def with_default(x: Any) -> Any:
    def inner(z: Any, y: Any = x * 2) -> Any:
        return y + z

    return inner


def with_attribute(x: Any) -> Any:
    def inner(z: Any) -> Any:
        return inner.y + z  # type: ignore[attr-defined]

    inner.y = x * 2  # type: ignore[attr-defined]
    return inner


def class_of_method(x: Any) -> Any:
    y = x * 2

    class Adds:
        def __call__(self, z: Any) -> Any:
            return y + z

    return Adds()


MAKERS = {
    "closure": lambda x: (lambda y: lambda z: y + z)(x * 2),
    "default": with_default,
    "attribute": with_attribute,
    "instance": class_of_method,
    "partial": lambda x: functools.partial(ndgrad.add, x * 2),
    "method": lambda x: (x * 2).__add__,
}


@pytest.mark.parametrize("name", sorted(MAKERS))
def test_what_is_returned_around_a_tensor_holds_that_of_the_call(name: str) -> None:
    compiled = ndgrad.compile(MAKERS[name])
    for i in range(4):
        made: Any = compiled(ndgrad.full((2,), float(i)))
        assert made(ndgrad.ones(2)).tolist() == [2 * i + 1] * 2


def test_functions_and_classes_that_are_found_in_modules_are_returned_by_programs() -> None:
    f = CompiledFunction(lambda x: (x * 2, plain, len, Model, slice(1, 2)))
    assert f(X)[1:] == (plain, len, Model, slice(1, 2))
    assert f.entries[0].specialisation is not None


# ----- what is kept -------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("detaches", [False, True])
def test_a_state_that_is_kept_over_calls_is_differentiated(detaches: bool) -> None:
    def gradients(compiles: bool) -> list[Any]:
        w = ndgrad.full((3,), 0.5, requires_grad=True)
        state = {"h": ndgrad.zeros(3), "scale": 1.0}

        def f(x: Any) -> Any:
            h = state["h"].detach() if detaches else state["h"]  # type: ignore[attr-defined]
            state["h"] = h * w * state["scale"] + x
            return state["h"].sum()  # type: ignore[attr-defined]

        g = ndgrad.compile(f) if compiles else f
        losses = [g(ndgrad.ones(3)) for _ in range(5)]
        state["scale"] = 3.0  # the calls have read another number
        losses[-1].backward()
        assert state["scale"] == 3.0
        return [w.grad.tolist(), [loss.item() for loss in losses]]

    assert gradients(True) == gradients(False)


def test_warm_calls_leave_filters_of_warnings_alone() -> None:
    before = list(warnings.filters)
    for _ in range(4):
        decorated(X)
    assert warnings.filters == before


def test_an_object_that_a_trace_reached_dies_by_reference_counting():
    class Holder:
        def __init__(self):
            self.scale = 2.0

        def run(self, x):
            return (x * self.scale).sum()

    holder = Holder()
    compiled = ndgrad.compile(holder.run)
    x = ndgrad.ones(3, requires_grad=True)
    compiled(x).backward()
    ref = weakref.ref(holder)
    enabled = gc.isenabled()
    gc.disable()
    try:
        del holder, compiled
        assert ref() is None
    finally:
        if enabled:
            gc.enable()


def test_the_reason_for_a_trace_names_the_argument() -> None:
    f = ndgrad.compile(lambda x, word: x * len(word))
    reasons = []
    for x, word in [
        (ndgrad.ones(3), "a"), (ndgrad.ones(3), "bb"), (ndgrad.ones(4), "bb"), (ndgrad.ones(4).float(), "bb"),
        (ndgrad.ones(3, requires_grad=True), "a"), (ndgrad.ones(3), ("a",)),
    ]:  # fmt: skip
        f(x, word)
        reasons.append(f.last_reason)
    with ndgrad.no_grad():
        f(ndgrad.ones(3), "a")
    assert [*reasons, f.last_reason] == [
        "the first call",
        "argument 1 is 'bb' instead of 'a'",
        "argument 0 has shape (4,) instead of (3,)",
        "argument 0 has dtype float32 instead of float64",
        "argument 0 has requires_grad True instead of False",
        "argument 1 has the structure (*,) instead of *",
        "the grad mode has changed",
    ]


def test_the_reason_for_a_trace_names_what_the_function_reaches() -> None:
    model = nn.Sequential(nn.Linear(2, 2), nn.Dropout(0.5))
    factors = [1.0]
    f = ndgrad.compile(lambda x, y, scale=1: model(x * factors[0] + y * scale).sum())
    x, y = ndgrad.ones(2), ndgrad.zeros(2)
    changes = [
        lambda: model.eval(), lambda: model[0].weight.requires_grad_(False), lambda: model.append(nn.ReLU()),
        lambda: factors.append(2.0),
    ]  # fmt: skip
    f(x, y)
    reasons = []
    for change in changes:
        change()
        f(x, y)
        reasons.append(f.last_reason.rpartition(": ")[2])
    for args, keywords in [((x, x), {}), ((x, y), {"scale": 2}), ((x, y, 2), {})]:
        f(*args, **keywords)
        reasons.append(f.last_reason.rpartition(": ")[2])
    assert reasons == [
        "model.training is False instead of True",
        "model.0.weight has requires_grad False instead of True",
        "model._modules has the new entry '2'",
        "factors has 2 items instead of 1",
        "argument 1 is the same tensor as argument 0",
        "the keyword arguments are scale instead of none",
        "3 positional arguments instead of 2",
    ]


def test_the_reason_for_a_trace_gives_the_line_of_a_condition() -> None:
    f = ndgrad.compile(lambda x: x if x.sum() > 0 else -x)
    for x in (ndgrad.ones(2), -ndgrad.ones(2)):
        f(x)
    assert f.traces == 2
    assert re.fullmatch(r"a condition on values has another outcome: test_function\.py:\d+", f.last_reason)


def test_a_compiled_module_counts_its_traces() -> None:
    model = ndgrad.compile(nn.Linear(2, 2))
    for rows in (1, 3, 1):
        model(ndgrad.ones(rows, 2))
    assert (model.traces, model.last_reason) == (2, "argument 0 has shape (3, 2) instead of (1, 2)")
