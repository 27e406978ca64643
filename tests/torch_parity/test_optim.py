"""Optimizers and schedules: the same gradients move the same parameters to the same places in torch and ndgrad."""

from __future__ import annotations

import numpy as np
import pytest
import torch

import ndgrad
import ndgrad.optim
from tests.torch_parity.differences import deliberate
from tests.torch_parity.side_by_side import MODULES, attempt, error_name

pytestmark = [pytest.mark.usefixtures("float64_torch"), pytest.mark.filterwarnings("ignore")]

OPTIMIZERS = """
SGD(ps, lr=0.1)
SGD(ps, lr=0.1, momentum=0.9)
SGD(ps, lr=0.1, momentum=0.9, dampening=0.3, weight_decay=0.1)
SGD(ps, lr=0.1, momentum=0.9, nesterov=True, maximize=True)
SGD(ps, lr=t.tensor(0.1))
SGD([{"params": ps[:1], "lr": 0.3}, {"params": ps[1:], "momentum": 0.5}], lr=0.1)
Adam(ps, lr=0.1)
Adam(ps, lr=0.1, betas=(0.7, 0.9), eps=0.1, weight_decay=0.1)
Adam(ps, lr=0.1, amsgrad=True, maximize=True)
Adam(ps, lr=0.1, weight_decay=0.1, decoupled_weight_decay=True)
AdamW(ps, lr=0.1)
AdamW(ps, lr=0.1, weight_decay=0.3, amsgrad=True)
Adamax(ps, lr=0.1, weight_decay=0.1)
NAdam(ps, lr=0.1, weight_decay=0.1)
NAdam(ps, lr=0.1, weight_decay=0.1, decoupled_weight_decay=True)
RAdam(ps, lr=0.1, betas=(0.9, 0.8))
RAdam(ps, lr=0.1, weight_decay=0.1, decoupled_weight_decay=True)
RMSprop(ps, lr=0.1)
RMSprop(ps, lr=0.1, momentum=0.5, centered=True, weight_decay=0.1)
Adagrad(ps, lr=0.1, lr_decay=0.1, weight_decay=0.1, initial_accumulator_value=0.5)
Adadelta(ps, lr=0.5, weight_decay=0.1)
Rprop(ps, lr=0.1)
Rprop(ps, lr=0.1, etas=(0.3, 2), step_sizes=(0.05, 0.2), maximize=True)
Adam(ps, lr=t.tensor([0.1]), betas=[0.5, 0.6], foreach=False)
Adam(ps, lr=t.tensor(0.1), betas=(t.tensor(0.5), t.tensor(0.6)))
RAdam(ps, lr=0.1, maximize=True, weight_decay=0.1)
Adadelta(ps, rho=1, foreach=True)
SGD([("a", ps[0]), ("b", ps[1])], lr=0.1)
ASGD(ps, lr=0.1, t0=3, weight_decay=0.1)
LBFGS(ps, lr=0.5, max_iter=5)
LBFGS(ps, lr=0.5, max_iter=30, history_size=3)
"""

ERRORS = """
SGD([], lr=0.1)
SGD(ps[0], lr=0.1)
SGD([ps[0] * 2], lr=0.1)
SGD([3], lr=0.1)
SGD([{"params": ps}, {"params": ps}], lr=0.1)
SGD([{"params": set(ps)}])
SGD([("a", ps[0]), ps[1]])
SGD([{"params": [("a", ps[0])]}, {"params": [ps[1]]}])
SGD(ps, lr=-1)
SGD(ps, lr=t.tensor(-1.0))
SGD(ps, momentum=-1)
SGD(ps, weight_decay=-1)
SGD(ps, nesterov=True)
SGD(ps, fused=True, differentiable=True)
SGD(ps, foreach=True, fused=True)
Adam(ps, lr=-1)
Adam(ps, eps=-1)
Adam(ps, betas=(1.5, 0.9))
Adam(ps, betas=(0.9, -1.0))
Adam(ps, betas=(0.9,))
NAdam(ps, betas=0.9)
Adam(ps, lr=t.tensor([0.1, 2.0]))
Adagrad(ps, lr_decay=-1)
Adadelta(ps, rho=1.5)
RMSprop(ps, alpha=-1)
Rprop(ps, etas=(0.5, 0.9))
NAdam(ps, momentum_decay=-1)
LBFGS([{"params": ps[:1]}, {"params": ps[1:]}])
LBFGS(ps).step()
SGD(ps).add_param_group([ps[0]])
SGD(ps).add_param_group({"params": ps[0]})
SGD(ps).load_state_dict(t.optim.SGD([{"params": ps[:1]}, {"params": ps[1:]}]).state_dict())
SGD(ps).load_state_dict(t.optim.SGD(ps[:1]).state_dict())
SGD(ps).load_state_dict({})
SGD([("a", ps[0])]).add_param_group({"params": [ps[1]]})
SGD(ps[:1]).add_param_group({"params": [("b", ps[1])]})
SGD(ps[:1]).add_param_group({"params": [ps[1] * 2]})
SGD(ps[:1]).add_param_group({})
"""


def parameters(t, complex_too=False):
    r = np.random.default_rng(2)
    arrays = [r.standard_normal((2, 3)), r.standard_normal(4)]
    if complex_too:
        arrays.append(r.standard_normal(3) + 1j * r.standard_normal(3))
    return [t.tensor(a, requires_grad=True) for a in arrays]


def loss_of(ps):
    """Something curved, different in every element."""
    return sum(((p - 0.3).abs() ** 2 * (1 + k)).sum() + (p.real * 2).cos().sum() for k, p in enumerate(ps))


def plain(value):
    if isinstance(value, dict):
        return {k: plain(v) for k, v in value.items()}
    if isinstance(value, (list, tuple)):
        return [plain(v) for v in value]
    return np.asarray(value.tolist()) if hasattr(value, "tolist") else value


def run(t, text, steps=4):
    ps = parameters(t, complex_too="LBFGS" not in text)
    optimizer = eval("t.optim." + text, {"t": t, "ps": ps})

    def closure():
        optimizer.zero_grad()
        loss = loss_of(ps)
        loss.backward()
        return loss

    losses = [float(optimizer.step(closure)) for _ in range(steps)]
    return losses, [p.detach().numpy() for p in ps], plain(optimizer.state_dict()), repr(optimizer)


def assert_close(got, want, path=""):
    if isinstance(want, dict):
        assert list(got) == list(want), path
        for key, value in want.items():
            assert_close(got[key], value, f"{path}/{key}")
    elif isinstance(want, list):
        assert len(got) == len(want), path
        for number, value in enumerate(want):
            assert_close(got[number], value, f"{path}/{number}")
    elif isinstance(want, (float, np.ndarray)):
        np.testing.assert_allclose(got, want, rtol=1e-9, atol=1e-12, err_msg=path)
    else:
        assert got == want, path


@pytest.mark.parametrize("text", OPTIMIZERS.strip().splitlines())
def test_same_steps_and_state(text):
    want, got = (run(t, text) for t in MODULES)
    assert got[3] == want[3]
    if "LBFGS" in text:  # a run of many iterations lets rounding grow
        np.testing.assert_allclose(got[0], want[0], rtol=1e-5)
        assert_close([g.round(5) for g in got[1]], [w.round(5) for w in want[1]])
        return
    assert_close(got[0], want[0])
    assert_close(got[1], want[1])
    assert_close(got[2], want[2])


@pytest.mark.parametrize("text", ERRORS.strip().splitlines())
def test_same_errors(text):
    found = []
    for t in MODULES:
        with pytest.raises(Exception) as error:
            eval("t.optim." + text, {"t": t, "ps": parameters(t)})
        found.append(error_name(error.value))
    assert found[0] == found[1]


@pytest.mark.parametrize(
    "text", ["SGD(ps, lr=0.1, momentum=0.9)", "Adam(ps, lr=0.1, amsgrad=True)", "RMSprop(ps, momentum=0.1)", "Adagrad(ps)"]
)
def test_saved_state_of_torch_continues_in_ndgrad(text):
    ps = parameters(torch)
    optimizer = eval("t.optim." + text, {"t": torch, "ps": ps})
    for _ in range(3):
        optimizer.zero_grad()
        loss_of(ps).backward()
        optimizer.step()
    ours = [ndgrad.tensor(p.detach().numpy(), requires_grad=True) for p in ps]
    mine = eval("t.optim." + text, {"t": ndgrad, "ps": ours})
    state = optimizer.state_dict()
    mine.load_state_dict(
        {
            "state": {n: {k: ndgrad.tensor(np.asarray(v.tolist())) for k, v in s.items()} for n, s in state["state"].items()},
            "param_groups": state["param_groups"],
        }
    )
    for t, group, opt in ((torch, ps, optimizer), (ndgrad, ours, mine)):
        for _ in range(3):
            opt.zero_grad()
            loss_of(group).backward()
            opt.step()
        assert t is not None
    for a, b in zip(ps, ours):
        np.testing.assert_allclose(b.detach().numpy(), a.detach().numpy(), rtol=1e-10)


# Those through which torch too can go back several steps; tests/optim has all of them, beside finite differences.
DIFFERENTIABLE = ["SGD([p], lr=0.1", "Adagrad([p], lr=0.1", "Adadelta([p]", "Adam([p], lr=0.1", "AdamW([p], lr=0.1"]


def through_steps(text):
    found = []
    for t in MODULES:
        start = t.tensor([1.0, -0.7, 0.4], requires_grad=True)
        p = start.clone()
        optimizer = eval(f"t.optim.{text}, differentiable=True)", {"t": t, "p": p})
        for k in range(3):
            q = p.clone()  # what the gradient was computed from is not written
            p.grad = t.autograd.grad((q**2 * t.tensor([1.0, 2.0, 3.0])).sum() * (k + 1), q, create_graph=True)[0]
            optimizer.step()
        (p**3).sum().backward()
        found.append((p.tolist(), start.grad.tolist()))
    return found


@pytest.mark.parametrize("text", DIFFERENTIABLE)
def test_gradients_through_differentiable_steps(text):
    want, got = through_steps(text)
    np.testing.assert_allclose(got, want, rtol=1e-9)


def test_gradients_through_momentum_are_whole():
    assert deliberate("momentum-graph")
    want, got = through_steps("SGD([p], lr=0.1, momentum=0.9")
    np.testing.assert_allclose(got[0], want[0], rtol=1e-12)
    assert not np.allclose(got[1], want[1])


SCHEDULES = """
LambdaLR(o, lambda e: 0.9**e)
LambdaLR(o, [lambda e: 0.9**e, lambda e: 1 / (1 + e)])
MultiplicativeLR(o, lambda e: 0.9)
StepLR(o, 3)
StepLR(o, 2, 0.5)
MultiStepLR(o, [2, 5, 5, 7], 0.5)
ConstantLR(o, 0.5, 4)
LinearLR(o, 0.25, 0.75, 6)
ExponentialLR(o, 0.8)
PolynomialLR(o, 8, 2.0)
CosineAnnealingLR(o, 5)
CosineAnnealingLR(o, 4, 0.01)
CosineAnnealingWarmRestarts(o, 3)
CosineAnnealingWarmRestarts(o, 2, 2, 0.01)
OneCycleLR(o, 0.5, total_steps=14)
OneCycleLR(o, [0.5, 0.3], epochs=2, steps_per_epoch=7, anneal_strategy="linear", three_phase=True)
SequentialLR(o, [s.ConstantLR(o, 0.1, 3), s.ExponentialLR(o, 0.9)], [4])
SequentialLR(o, [s.LinearLR(o, 0.1, 1.0, 3), s.CosineAnnealingLR(o, 5), s.StepLR(o, 2)], [3, 8])
ChainedScheduler([s.ConstantLR(o, 0.1, 3), s.ExponentialLR(o, 0.9)])
"""


def rates(t, text):
    ps = parameters(t)
    o = t.optim.SGD([{"params": ps[:1], "lr": 0.3}, {"params": ps[1:]}], lr=0.1, momentum=0.9)
    schedule = eval("s." + text, {"s": t.optim.lr_scheduler, "o": o})
    found = []
    for _ in range(12):
        found.append(([g["lr"] for g in o.param_groups], schedule.get_last_lr(), [g["momentum"] for g in o.param_groups]))
        o.step()
        schedule.step()
    return found


@pytest.mark.parametrize("text", SCHEDULES.strip().splitlines())
def test_same_learning_rates(text):
    want, got = (rates(t, text) for t in MODULES)
    np.testing.assert_allclose(np.array(got), np.array(want), rtol=1e-12)


PLATEAUS = ["", "mode='max'", "patience=1, cooldown=2", "patience=0, threshold=0.5, threshold_mode='abs'", "patience=1, min_lr=[0.02, 0.2]"]


@pytest.mark.parametrize("settings", PLATEAUS)
def test_same_rates_on_plateaus(settings):
    found = []
    for t in MODULES:
        ps = parameters(t)
        o = t.optim.SGD([{"params": ps[:1], "lr": 0.3}, {"params": ps[1:]}], lr=0.1)
        s = eval(f"s.ReduceLROnPlateau(o, {settings})", {"s": t.optim.lr_scheduler, "o": o})
        row = []
        for value in [5.0, 4.0, 4.0, 3.9999, 4.5, 3.0, 3.0, 3.0, 3.0, float("nan"), 3.0, 3.0, 2.0, 6.0, 6.0, 6.0] * 2:
            s.step(value)
            row.append((s.get_last_lr(), s.num_bad_epochs, s.best, s.cooldown_counter))
        found.append(row)
    assert repr(found[0]) == repr(found[1])


@pytest.mark.parametrize("floor", [0.02, [0.02]])
def test_group_added_under_a_plateau(floor):
    def run(t):
        ps = parameters(t)
        o = t.optim.SGD(ps[:1], lr=0.1)
        s = t.optim.lr_scheduler.ReduceLROnPlateau(o, patience=0, min_lr=floor)
        o.add_param_group({"params": ps[1:], "lr": 0.5})
        for _ in range(3):
            s.step(1.0)
        return [g["lr"] for g in o.param_groups]

    want, got = (attempt(lambda t=t: run(t)) for t in MODULES)
    assert got == want


def test_same_saved_schedules():
    for text in ("OneCycleLR(o, 0.5, total_steps=14, three_phase=True)", "ReduceLROnPlateau(o)", "StepLR(o, 2)", "PolynomialLR(o)"):
        want, got = (
            eval("s." + text, {"s": t.optim.lr_scheduler, "o": t.optim.SGD(parameters(t), lr=0.1, momentum=0.9)}).state_dict()
            for t in MODULES
        )
        assert got.keys() == want.keys()
        assert got.get("_schedule_phases") == want.get("_schedule_phases")


@pytest.mark.parametrize(
    "text", ["StepLR(o, 2)", "MultiStepLR(o, [2, 4])", "LinearLR(o)", "ConstantLR(o)", "PolynomialLR(o)", "ExponentialLR(o, 0.5)"]
)
def test_same_rates_at_chosen_and_resumed_epochs(text):
    found = []
    for t in MODULES:
        o = t.optim.SGD(parameters(t), lr=0.1)
        s = eval("s." + text, {"s": t.optim.lr_scheduler, "o": o})
        row = []
        for epoch in (0, 1, 2, 5, 3, 9):
            s.step(epoch)
            row.append(s.get_last_lr()[0])
        s = eval("s." + text[:-1] + ", last_epoch=2)", {"s": t.optim.lr_scheduler, "o": o})
        for _ in range(4):
            row.append(s.get_last_lr()[0])
            s.step()
        found.append(row)
    np.testing.assert_allclose(found[1], found[0], rtol=1e-12)


SCHEDULE_ERRORS = [
    "StepLR(3, 2)", "LambdaLR(o, [lambda e: 1])", "ConstantLR(o, 2.0)", "LinearLR(o, 0.0)", "LinearLR(o, 0.5, 2.0)",
    "StepLR(o, 2, last_epoch=3)",
    "CosineAnnealingWarmRestarts(o, 0)", "CosineAnnealingWarmRestarts(o, 2, 0)", "CosineAnnealingWarmRestarts(o, 2).step(-1)",
    "OneCycleLR(o, 0.1)", "OneCycleLR(o, 0.1, total_steps=0)", "OneCycleLR(o, 0.1, total_steps=5, pct_start=2)",
    "OneCycleLR(o, 0.1, total_steps=5, anneal_strategy='q')", "OneCycleLR(o, [0.1], total_steps=5)", "SequentialLR(o, [], [])",
    "SequentialLR(o, [s.StepLR(o, 2)], [3])", "ChainedScheduler([])", "ReduceLROnPlateau(o, factor=2.0)", "ReduceLROnPlateau(o, mode='q')",
    "OneCycleLR(o, 0.1, total_steps=5, pct_start=1)", "SequentialLR(o, [s.ReduceLROnPlateau(o)], [])", "SequentialLR(o, [3], [])",
    "ChainedScheduler([s.ReduceLROnPlateau(o)])",
    "ReduceLROnPlateau(o, threshold_mode='q')", "ReduceLROnPlateau(3)", "ReduceLROnPlateau(o, min_lr=[0.1])", "LRScheduler(o)",
]  # fmt: skip


@pytest.mark.parametrize("text", SCHEDULE_ERRORS)
def test_same_errors_of_schedules(text):
    def make(t):
        ps = parameters(t)
        o = t.optim.SGD([{"params": ps[:1]}, {"params": ps[1:]}], lr=0.1)
        return eval("s." + text, {"s": t.optim.lr_scheduler, "o": o})

    want, got = (attempt(lambda t=t: make(t)) for t in MODULES)
    assert isinstance(want, str)
    assert got == want


def hook_calls(t):
    """Hooks around steps see the optimizer and the arguments."""
    seen = []

    def note(word):
        return lambda o, args, kwargs: seen.append((word, args[0] is o, len(args), sorted(kwargs)))

    for kind in (t.optim.SGD, t.optim.LBFGS):
        o = kind(parameters(t), lr=0.1)
        o.register_step_pre_hook(note("before"))
        o.register_step_post_hook(note("after"))
        o.step(lambda: t.tensor(1.0))
        o.step(closure=lambda: 1.0)
    return seen


def test_same_hook_calls_around_steps():
    want, got = (hook_calls(t) for t in MODULES)
    assert got == want


def test_hook_before_a_step_may_give_it_other_arguments():
    for t in MODULES:
        o = t.optim.SGD(parameters(t), lr=0.1)
        o.register_step_pre_hook(lambda o, args, kwargs: ((*args[:1], lambda: 5.0), {}))
        assert o.step() == 5.0


def test_group_is_the_dict_that_was_given():
    for t in MODULES:
        ps = parameters(t)
        first, second = {"params": ps[:1], "lr": 0.5}, {"params": ps[1]}
        o = t.optim.SGD([first])
        o.add_param_group(second)
        assert o.param_groups[0] is first
        assert o.param_groups[1] is second
        assert second["params"] == [ps[1]]
        assert second["lr"] == 1e-3


@pytest.mark.parametrize("kind", ["SGD", "Adam", "AdamW", "RMSprop", "Adagrad"])
def test_flags_that_an_old_state_lacks_are_off(kind):
    found = []
    for t in MODULES:
        ps = parameters(t)
        state = getattr(t.optim, kind)(ps, lr=0.1).state_dict()
        for flag in ("foreach", "maximize", "capturable", "differentiable", "fused", "amsgrad", "nesterov", "centered"):
            state["param_groups"][0].pop(flag, None)
        o = getattr(t.optim, kind)(ps, lr=0.3, maximize=True)
        o.load_state_dict(state)
        loss_of(ps).backward()
        o.step()
        found.append((sorted(o.param_groups[0]), [p.tolist() for p in ps]))
    assert found[0][0] == found[1][0]
    for want, got in zip(found[0][1], found[1][1]):
        np.testing.assert_allclose(got, want, rtol=1e-12)


def test_strong_wolfe_finds_the_minimum_of_rosenbrock():
    found = []
    for t in MODULES:
        x = t.tensor([-1.2, 1.0], requires_grad=True)
        o = t.optim.LBFGS([x], max_iter=60, line_search_fn="strong_wolfe")

        def closure(t=t, x=x, o=o):
            o.zero_grad()
            loss = (1 - x[0]) ** 2 + 100 * (x[1] - x[0] ** 2) ** 2
            loss.backward()
            return loss

        o.step(closure)
        found.append((x.tolist(), o.state[x]["func_evals"]))
    np.testing.assert_allclose(found[0][0], [1.0, 1.0], atol=1e-3)
    np.testing.assert_allclose(found[1][0], [1.0, 1.0], atol=1e-3)
    assert found[1][1] <= 1.5 * found[0][1]
