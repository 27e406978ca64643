"""Optimizers by themselves: gradients through steps, groups, hooks, saving, schedules."""

from __future__ import annotations

import copy
import pickle
import warnings

import numpy as np
import pytest

import ndgrad
from ndgrad import optim
from ndgrad.optim import lr_scheduler

SETTINGS = {
    "sgd": lambda p: optim.SGD(p, lr=0.1, momentum=0.9, nesterov=True, weight_decay=0.1, differentiable=True),
    "adam": lambda p: optim.Adam(p, lr=0.1, amsgrad=True, weight_decay=0.1, differentiable=True),
    "adamw": lambda p: optim.AdamW(p, lr=0.1, differentiable=True),
    "adamax": lambda p: optim.Adamax(p, lr=0.1, differentiable=True),
    "nadam": lambda p: optim.NAdam(p, lr=0.1, differentiable=True),
    "radam": lambda p: optim.RAdam(p, lr=0.1, betas=(0.9, 0.8), differentiable=True),
    "rmsprop": lambda p: optim.RMSprop(p, lr=0.1, momentum=0.3, centered=True, differentiable=True),
    "adagrad": lambda p: optim.Adagrad(p, lr=0.1, lr_decay=0.1, differentiable=True),
    "adadelta": lambda p: optim.Adadelta(p, differentiable=True),
    "rprop": lambda p: optim.Rprop(p, lr=0.1, differentiable=True),
}


def after_steps(make, start):
    p = start.clone()
    optimizer = make([p])
    for k in range(7):
        q = p.clone()
        p.grad = ndgrad.autograd.grad((q**2 * ndgrad.tensor([1.0, 2.0, 3.0]) + q.cos()).sum() * (1 + 0.1 * k), q, create_graph=True)[0]
        optimizer.step()
    return (p**3).sum()


@pytest.mark.parametrize("name", SETTINGS)
def test_gradient_through_several_steps(name):
    start = ndgrad.tensor([1.0, -0.7, 0.4], requires_grad=True)
    after_steps(SETTINGS[name], start).backward()
    eps = 1e-5
    for i in range(3):
        step = ndgrad.zeros(3)
        step[i] = eps
        ends = [float(after_steps(SETTINGS[name], (start.detach() + s * step).requires_grad_()).detach()) for s in (1, -1)]
        np.testing.assert_allclose(float(start.grad[i]), (ends[0] - ends[1]) / (2 * eps), rtol=1e-5, atol=1e-8)


def test_gradient_with_respect_to_the_learning_rate():
    lr = ndgrad.tensor(0.1, requires_grad=True)
    p = ndgrad.tensor([2.0], requires_grad=True).clone()
    optimizer = optim.SGD([p], lr=lr, differentiable=True)
    for _ in range(2):
        p.grad = 2 * p.clone()
        optimizer.step()
    p.sum().backward()
    # p = 2 (1 - 2 lr)^2
    assert float(lr.grad) == pytest.approx(-8 * (1 - 0.2))


ALL = [
    optim.SGD,
    optim.Adam,
    optim.AdamW,
    optim.Adamax,
    optim.NAdam,
    optim.RAdam,
    optim.RMSprop,
    optim.Adagrad,
    optim.Adadelta,
    optim.Rprop,
    optim.ASGD,
]


@pytest.mark.parametrize("kind", ALL, ids=lambda k: k.__name__)
def test_step_is_not_recorded_and_skips_parameters_without_gradient(kind):
    p, q = ndgrad.ones(2, requires_grad=True), ndgrad.ones(2, requires_grad=True)
    optimizer = kind([p, q], lr=0.1)
    (p * p).sum().backward()
    optimizer.step()
    assert p.is_leaf
    assert p.tolist() != [1.0, 1.0]
    assert q.tolist() == [1.0, 1.0]
    assert all(not v.requires_grad for v in optimizer.state[p].values() if isinstance(v, ndgrad.Tensor))


@pytest.mark.parametrize("kind", [optim.SGD, optim.Adam, optim.RMSprop, optim.LBFGS], ids=lambda k: k.__name__)
@pytest.mark.parametrize(
    "transfer", [lambda s: s, copy.deepcopy, lambda s: pickle.loads(pickle.dumps(s))], ids=["as it is", "deepcopy", "pickle"]
)
def test_state_can_be_taken_to_another_optimizer(kind, transfer):
    def run(p, optimizer, steps):
        def closure():
            optimizer.zero_grad()
            loss = ((p - 3.0) ** 4).sum()
            loss.backward()
            return loss

        for _ in range(steps):
            optimizer.step(closure)

    options = {"max_iter": 3} if kind is optim.LBFGS else {"momentum": 0.5} if kind is optim.SGD else {}
    p = ndgrad.tensor([0.5, 1.0], requires_grad=True)
    optimizer = kind([p], lr=0.01, **options)
    run(p, optimizer, 3)
    q = p.detach().clone().requires_grad_()
    other = kind([q], lr=0.5, **options)
    other.load_state_dict(transfer(optimizer.state_dict()))
    assert other.param_groups[0]["lr"] == 0.01
    run(p, optimizer, 3)
    run(q, other, 3)
    np.testing.assert_allclose(q.tolist(), p.tolist(), rtol=1e-12)


def test_loaded_state_takes_the_dtype_of_its_parameter():
    p = ndgrad.ones(2, requires_grad=True)
    p.grad = ndgrad.ones(2)
    optimizer = optim.Adam([p])
    optimizer.step()
    single = optim.Adam([ndgrad.ones(2, dtype=ndgrad.float32, requires_grad=True)])
    single.load_state_dict(optimizer.state_dict())
    (state,) = single.state.values()
    assert state["exp_avg"].dtype is ndgrad.float32
    assert float(state["step"]) == 1.0
    assert state["exp_avg"].data_ptr() != optimizer.state[p]["exp_avg"].data_ptr()


def test_copied_optimizer_is_whole():
    p = ndgrad.ones(2, requires_grad=True)
    optimizer = optim.SGD([p], lr=0.1, momentum=0.9)
    p.grad = ndgrad.ones(2)
    optimizer.step()
    for other in (copy.deepcopy(optimizer), pickle.loads(pickle.dumps(optimizer))):
        (q,) = other.param_groups[0]["params"]
        q.grad = ndgrad.ones(2)
        other.step()
        np.testing.assert_allclose(q.tolist(), [0.9 - 0.19] * 2)


def test_hooks_around_steps_and_state():
    p = ndgrad.ones(2, requires_grad=True)
    p.grad = ndgrad.ones(2)
    optimizer, events = optim.SGD([p], lr=0.1), []
    optimizer.register_step_pre_hook(lambda o, args, kwargs: events.append(("pre", p.tolist())))
    handle = optimizer.register_step_post_hook(lambda o, args, kwargs: events.append(("post", p.tolist())))
    optimizer.register_state_dict_post_hook(lambda o, state: {**state, "more": 1})
    optimizer.register_load_state_dict_pre_hook(lambda o, state: events.append(sorted(state)))
    optimizer.step()
    handle.remove()
    optimizer.step()
    optimizer.load_state_dict(optimizer.state_dict())
    assert events == [("pre", [1.0, 1.0]), ("post", [0.9, 0.9]), ("pre", [0.9, 0.9]), ["more", "param_groups", "state"]]


def test_optimizer_with_a_step_of_its_own_is_not_behind_its_schedule():
    class Descent(optim.Optimizer):
        def __init__(self, params):
            super().__init__(params, {"lr": 1.0})

        def step(self, closure=None):
            return None

    optimizer = Descent([ndgrad.ones(2, requires_grad=True)])
    schedule = lr_scheduler.StepLR(optimizer, 1)
    optimizer.step()
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        schedule.step()


def test_hooks_run_once_and_again_after_a_step_that_failed():
    calls = []

    class Nested(optim.SGD):
        def step(self, closure=None):
            return super().step(closure)

    optimizer = Nested([ndgrad.ones(2, requires_grad=True)], lr=0.1)
    optimizer.register_step_pre_hook(lambda o, args, kwargs: calls.append("pre"))
    optimizer.register_step_post_hook(lambda o, args, kwargs: calls.append("post"))
    with pytest.raises(ZeroDivisionError):
        optimizer.step(lambda: 1 / 0)
    optimizer.step()
    assert calls == ["pre", "pre", "post"]


def test_vmap_over_the_learning_rate():
    def after(lr):
        p = ndgrad.tensor([2.0, 3.0], requires_grad=True).clone()
        optimizer = optim.SGD([p], lr=lr, differentiable=True)
        p.grad = 2 * p.clone()
        optimizer.step()
        return p

    rates = ndgrad.tensor([0.1, 0.2])
    np.testing.assert_allclose(ndgrad.func.vmap(after)(rates).detach().numpy(), [[1.6, 2.4], [1.2, 1.8]])


def test_closure_that_fails_leaves_parameters_and_modes():
    p = ndgrad.ones(2, requires_grad=True)
    p.grad = ndgrad.ones(2)
    optimizer = optim.SGD([p], lr=0.1)
    with pytest.raises(ZeroDivisionError):
        optimizer.step(lambda: 1 / 0)
    assert p.tolist() == [1.0, 1.0]
    assert ndgrad.is_grad_enabled()


def test_zero_grad_in_place_keeps_the_tensor():
    p = ndgrad.ones(2, requires_grad=True)
    p.grad = ndgrad.ones(2)
    kept = p.grad
    optimizer = optim.SGD([p], lr=0.1)
    optimizer.zero_grad(set_to_none=False)
    assert p.grad is kept
    assert kept.tolist() == [0.0, 0.0]
    optimizer.zero_grad()
    assert p.grad is None


@pytest.mark.parametrize("search", [None, "strong_wolfe"])
def test_lbfgs_solves_a_quadratic(search):
    r = np.random.default_rng(0)
    a = r.standard_normal((6, 6))
    matrix, b = ndgrad.tensor(a @ a.T + np.eye(6)), ndgrad.tensor(r.standard_normal(6))
    x = ndgrad.zeros(2, 3, requires_grad=True)
    optimizer = optim.LBFGS(
        [x], lr=1.0 if search else 0.2, max_iter=200, line_search_fn=search, tolerance_grad=1e-10, tolerance_change=1e-14
    )

    def closure():
        optimizer.zero_grad()
        flat = x.reshape(-1)
        loss = 0.5 * flat @ matrix @ flat - b @ flat
        loss.backward()
        return loss

    optimizer.step(closure)
    np.testing.assert_allclose(x.detach().numpy().ravel(), np.linalg.solve(matrix.numpy(), b.numpy()), atol=1e-6)


def test_schedule_ahead_of_the_optimizer_warns():
    p = ndgrad.ones(2, requires_grad=True)
    schedule = lr_scheduler.StepLR(optim.SGD([p], lr=0.1), 2)
    with pytest.warns(UserWarning, match="opposite order"):
        schedule.step()


SCHEDULES = {
    "step": lambda o: lr_scheduler.StepLR(o, 2),
    "cosine": lambda o: lr_scheduler.CosineAnnealingLR(o, 5),
    "lambda": lambda o: lr_scheduler.LambdaLR(o, lambda e: 0.9**e),
    "one cycle": lambda o: lr_scheduler.OneCycleLR(o, 0.5, 20),
    "sequential": lambda o: lr_scheduler.SequentialLR(o, [lr_scheduler.ConstantLR(o), lr_scheduler.ExponentialLR(o, 0.9)], [4]),
}


@pytest.mark.parametrize("make", SCHEDULES.values(), ids=SCHEDULES)
def test_schedule_goes_on_from_its_saved_state(make):
    def new():
        optimizer = optim.SGD([ndgrad.ones(2, requires_grad=True)], lr=0.1, momentum=0.5)
        return optimizer, make(optimizer)

    def steps(optimizer, schedule, count):
        rates = []
        for _ in range(count):
            optimizer.step()
            schedule.step()
            rates.append(optimizer.param_groups[0]["lr"])
        return rates

    first, schedule = new()
    steps(first, schedule, 3)
    other, resumed = new()
    other.load_state_dict(first.state_dict())
    resumed.load_state_dict(pickle.loads(pickle.dumps(schedule.state_dict())))
    assert steps(other, resumed, 4) == steps(first, schedule, 4)


def test_line_search_along_zeros_stays_in_place():
    from ndgrad.optim.lbfgs import _strong_wolfe

    x, d = ndgrad.tensor([1.0, 2.0]), ndgrad.zeros(2)

    def evaluate(x, t, d):
        at = x + t * d
        return float((at**2).sum()), 2 * at

    loss, gradient = evaluate(x, 0.0, d)
    found, slope, _, probes = _strong_wolfe(evaluate, x, 1.0, d, loss, gradient, gradient.dot(d))
    assert found == 5.0
    assert slope.tolist() == [2.0, 4.0]
    assert probes <= 25
