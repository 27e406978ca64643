"""Steps by native kernels leave what the ordinary way leaves, to the last bit."""

from __future__ import annotations

import numpy as np
import pytest

import ndgrad as nd
from ndgrad import optim
from ndgrad._src.arrays import native_kernels
from ndgrad._src.core.modes import process

pytest.importorskip("llvmlite", reason="native kernels need llvmlite")

SHAPES = [(100, 100), (7,), (33, 45), (), (16400,)]

MAKES = {
    "SGD": lambda p: optim.SGD(p, 0.1),
    "SGD with momentum": lambda p: optim.SGD(p, 0.1, momentum=0.9, dampening=0.1, weight_decay=0.1),
    "Nesterov": lambda p: optim.SGD(p, 0.1, momentum=0.9, nesterov=True, maximize=True),
    "Adam": lambda p: optim.Adam(p, 0.01, weight_decay=0.1, amsgrad=True),
    "AdamW": lambda p: optim.AdamW(p, 0.01),
    "Adamax": lambda p: optim.Adamax(p, 0.01),
    "NAdam": lambda p: optim.NAdam(p, 0.01),
    "RAdam": lambda p: optim.RAdam(p, 0.01),
    "Adagrad": lambda p: optim.Adagrad(p, 0.01),
    "Adadelta": lambda p: optim.Adadelta(p),
    "RMSprop": lambda p: optim.RMSprop(p, 0.01, momentum=0.9, centered=True),
}


def _trained(make, kernels, dtype=np.float32, steps=7):
    """Parameters and state after some steps; one parameter has its first gradient later than the others."""
    with native_kernels.kernels_in_use(kernels):
        r = np.random.default_rng(0)
        params = [nd.tensor(r.standard_normal(s).astype(dtype), requires_grad=True) for s in SHAPES]
        optimizer = make(params)
        for step in range(steps):
            for i, p in enumerate(params):
                if i or step:
                    p.grad = nd.tensor(r.standard_normal(p.shape).astype(dtype))
            optimizer.step()
        states = [optimizer.state[p] for p in params]
        return [p.detach().numpy() for p in params], [{k: v.numpy() for k, v in s.items()} for s in states]


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
@pytest.mark.parametrize("name", MAKES)
def test_steps_are_the_same_to_the_last_bit(name, dtype):
    params, states = _trained(MAKES[name], True, dtype)
    expected_params, expected_states = _trained(MAKES[name], False, dtype)
    for a, b in zip(params, expected_params, strict=True):
        np.testing.assert_array_equal(a, b)
    for a, b in zip(states, expected_states, strict=True):
        assert a.keys() == b.keys()
        for key in a:
            assert a[key].dtype == b[key].dtype
            np.testing.assert_array_equal(a[key], b[key])


def _one(size=9000):
    p = nd.tensor(np.arange(float(size)), requires_grad=True)
    p.grad = nd.ones(size, dtype=p.dtype)
    return p


def _counting(monkeypatch):
    # other tests leave what makes all steps ordinary ones: classes with a dispatch of their own, a second array library
    monkeypatch.setattr(process, "dispatching", False)
    monkeypatch.setattr(process, "busy", set())
    kernels, calls = native_kernels.kernels(), []
    original = kernels.formula_in_place
    monkeypatch.setattr(kernels, "formula_in_place", lambda *given: calls.append(1) or original(*given))
    return calls


def test_all_parameters_of_a_group_are_one_call(monkeypatch):
    calls = _counting(monkeypatch)
    optimizer = optim.AdamW([_one() for _ in range(5)])
    optimizer.step()
    assert len(calls) == 1


def test_both_switches_off_ask_for_the_ordinary_way(monkeypatch):
    calls = _counting(monkeypatch)
    optim.Adam([_one()], foreach=False, fused=False).step()
    assert not calls
    optim.Adam([_one()], fused=True).step()
    assert len(calls) == 1


def test_a_saved_parameter_is_known_to_be_overwritten():
    p = _one()
    y = (p * p).sum()
    optim.SGD([p], 0.1).step()
    with pytest.raises(RuntimeError, match="modified by an inplace operation"):
        y.backward()


def test_parameters_that_share_memory_are_updated_one_after_another():
    results = []
    for use in (True, False):
        with native_kernels.kernels_in_use(use):
            memory = nd.from_numpy(np.arange(10000.0))
            params = [memory[:9000].detach().requires_grad_(), memory[1000:].detach().requires_grad_()]
            for p in params:
                p.grad = nd.ones(9000, dtype=p.dtype)
            optim.SGD(params, 0.5).step()
            results.append(memory.numpy().copy())
    np.testing.assert_array_equal(*results)
    assert results[0][5000] == 4999.0


def test_a_parameter_that_is_there_twice_is_updated_twice():
    p = _one()
    with pytest.warns(UserWarning, match="duplicate"):
        optimizer = optim.SGD([p, p], 0.5)
    optimizer.step()
    np.testing.assert_array_equal(p.detach().numpy(), np.arange(9000.0) - 1)


def _with_other_data(optimizer, params):
    params[1].data = params[1].data * 2.0


def _with_another_state(optimizer, params):
    optimizer.state[params[1]]["exp_avg"] = optimizer.state[params[1]]["exp_avg"] * 3.0


def _with_other_memory_under_a_state(optimizer, params):
    optimizer.state[params[1]]["exp_avg_sq"].data = optimizer.state[params[1]]["exp_avg_sq"] * 3.0


def _with_a_count_of_its_own(optimizer, params):
    optimizer.state[params[1]]["step"] += 5.0


def _with_counts_from_elsewhere(optimizer, params):
    for p in params:
        optimizer.state[p]["step"] = nd.tensor(9.0)


def _without_a_state(optimizer, params):
    del optimizer.state[params[1]]


def _with_one_more(optimizer, params):
    optimizer.param_groups[0]["params"].append(_one())


def _with_one_fewer(optimizer, params):
    del optimizer.param_groups[0]["params"][1]


def _without_a_gradient(optimizer, params):
    params[1].grad = None


def _with_memory_of_another_as_gradient(optimizer, params):
    params[0].grad = params[2].detach()


def _with_a_part_of_another_as_gradient(optimizer, params):
    params[0].grad = params[2].detach()[::1]


def _with_a_strided_gradient(optimizer, params):
    params[0].grad = nd.ones(18000, dtype=params[0].dtype)[::2]


_CHANGES = [value for name, value in list(globals().items()) if name.startswith(("_with_", "_without_"))]


@pytest.mark.parametrize("change", _CHANGES, ids=lambda change: change.__name__.lstrip("_"))
def test_what_changes_between_steps_is_seen(change):
    results = []
    for settings in ({}, {"foreach": False, "fused": False}):  # together, and the ordinary way
        params = [_one() for _ in range(3)]
        optimizer = optim.AdamW(params, 0.1, **settings)
        for _ in range(3):
            optimizer.step()
        change(optimizer, params)
        for _ in range(2):
            optimizer.step()
        results.append([p.detach().numpy() for p in optimizer.param_groups[0]["params"]])
    for together, ordinary in zip(*results, strict=True):
        np.testing.assert_array_equal(together, ordinary)


def test_odd_layouts_other_dtypes_and_tensors_as_settings_go_the_ordinary_way(monkeypatch):
    calls = _counting(monkeypatch)
    odd = nd.tensor(np.ones((100, 100)), requires_grad=True)
    odd.grad = nd.ones(100, 100, dtype=odd.dtype).t()[::1]
    half = nd.ones(9000, dtype=nd.float16, requires_grad=True)
    half.grad = nd.ones(9000, dtype=nd.float16)
    optim.SGD([half], 0.5).step()
    assert (half.detach() == 0.5).all()
    p = _one()
    optim.SGD([p], nd.tensor(0.5)).step()
    np.testing.assert_array_equal(p.detach().numpy(), np.arange(9000.0) - 0.5)
    assert not calls
    optim.SGD([odd], 0.5).step()
    assert (odd.detach() == 0.5).all()


def test_a_differentiable_step_is_recorded():
    p = nd.ones(9000, requires_grad=True)
    w = p * 2.0
    w.retain_grad()
    w.grad = nd.ones(9000)
    optim.SGD([w], 0.5, differentiable=True).step()
    w.sum().backward()
    assert (p.grad == 2.0).all()
