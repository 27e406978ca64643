"""Training steps in one program: forward, backward, `.grad` and the optimizer's update, compared with eager steps."""

from __future__ import annotations

import io
import logging
import math
import os
from typing import Any

import numpy as np
import pytest

import ndgrad
import ndgrad.nn.functional as F
from ndgrad import nn, optim
from ndgrad._src.arrays import native_kernels
from ndgrad.optim import lr_scheduler


@pytest.fixture(autouse=True)
def on_numpy(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("NDGRAD_COMPILE_REPLAY", os.environ.get("NDGRAD_COMPILE_REPLAY", "1"))


def batches() -> Any:
    rng = np.random.default_rng(0)
    for _ in range(6):
        yield ndgrad.tensor(rng.standard_normal((8, 3))), ndgrad.tensor(rng.integers(0, 4, 8))


OPTIMIZERS = {
    "SGD": lambda p: optim.SGD(p, lr=0.1),
    "momentum": lambda p: optim.SGD(p, lr=0.1, momentum=0.9, nesterov=True, weight_decay=0.01),
    "Adam": lambda p: optim.Adam(p, lr=0.05),
    "AdamW": lambda p: optim.AdamW(p, lr=0.05, amsgrad=True),
    "Adamax": lambda p: optim.Adamax(p, lr=0.05),
    "NAdam": lambda p: optim.NAdam(p, lr=0.05),
    "RAdam": lambda p: optim.RAdam(p, lr=0.05),
    "RMSprop": lambda p: optim.RMSprop(p, lr=0.01, momentum=0.5, centered=True),
    "Adagrad": lambda p: optim.Adagrad(p, lr=0.05, lr_decay=0.1),
    "Adadelta": lambda p: optim.Adadelta(p),
    "Rprop": lambda p: optim.Rprop(p, lr=0.05),
    "ASGD": lambda p: optim.ASGD(p, lr=0.05, t0=3.0),
    "Adafactor": lambda p: optim.Adafactor(p, lr=0.5),
    "Muon": lambda p: optim.Muon([p for p in p if p.dim() == 2], lr=0.05),
}


def trained(kind: str, compiles: bool, zero: str) -> tuple[list[Any], Any]:
    ndgrad.manual_seed(0)
    model = nn.Sequential(nn.Linear(3, 5, bias=False), nn.BatchNorm1d(5), nn.Tanh(), nn.Linear(5, 4)).double()
    optimizer = OPTIMIZERS[kind](model.parameters())

    def step(x: Any, y: Any) -> Any:
        if zero == "inside":
            optimizer.zero_grad()
        loss = F.cross_entropy(model(x), y)
        loss.backward()
        optimizer.step()
        return loss

    run = ndgrad.compile(step) if compiles else step
    losses = []
    for x, y in batches():
        losses.append(run(x, y).detach().numpy())
        if zero == "outside":
            optimizer.zero_grad()
        elif zero == "in place":
            optimizer.zero_grad(set_to_none=False)
    found = [*losses, *[p.detach().numpy() for p in model.parameters()], *[b.numpy() for b in model.buffers()]]
    found += [np.zeros(1) if p.grad is None else p.grad.numpy() for p in model.parameters()]
    state = optimizer.state_dict()["state"]
    found += [
        np.asarray(v if not isinstance(v, ndgrad.Tensor) else v.detach()) for s in state.values() for v in s.values() if v is not None
    ]
    return found, run


@pytest.mark.one_in(2)
@pytest.mark.parametrize(
    ("kind", "zero"),
    [*[(kind, "inside") for kind in OPTIMIZERS], *[(kind, zero) for kind in ("SGD", "Adam") for zero in ("outside", "in place", "never")]],
)
def test_a_training_step_is_one_program(kind: str, zero: str):
    found, run = trained(kind, True, zero)
    expected, _ = trained(kind, False, zero)
    for a, b in zip(found, expected, strict=True):
        np.testing.assert_allclose(a, b, rtol=1e-9, atol=1e-11)
    last = run.entries[-1]
    assert last.specialisation is not None, last.broken
    assert run.traces <= 4


@pytest.mark.parametrize("kind", OPTIMIZERS)
def test_one_program_serves_all_steps(kind: str):
    """The step count is data of the program, and cached data of eager steps about the parameters is not part of it."""
    shape = (64, native_kernels.SMALLEST // 64)  # large enough for eager steps to cache data

    def updated(compiles: bool) -> tuple[list[Any], Any]:
        rng = np.random.default_rng(0)
        parameters = [ndgrad.tensor(rng.standard_normal(shape), requires_grad=True) for _ in range(2)]
        optimizer = OPTIMIZERS[kind](parameters)
        run = ndgrad.compile(lambda: optimizer.step()) if compiles else optimizer.step
        for number in range(12):
            for p in parameters:
                p.grad = ndgrad.tensor(rng.standard_normal(shape))
            (optimizer.step if number in (0, 1, 2, 7) else run)()
        return parameters, run

    found, run = updated(True)
    expected, _ = updated(False)
    for a, b in zip(found, expected, strict=True):
        np.testing.assert_allclose(a.detach().numpy(), b.detach().numpy(), rtol=1e-9, atol=1e-11)
    assert [entry.broken for entry in run.entries] == [None]
    assert run.traces == 1, run.last_reason


def test_gradients_that_are_accumulated_by_the_function():
    w = ndgrad.tensor([1.0, 2.0], requires_grad=True)

    def f(x: Any) -> Any:
        loss = (w * x).sum()
        loss.backward()
        return w.grad * 2

    c = ndgrad.compile(f)
    x = ndgrad.tensor([3.0, 4.0])
    for expected in ([6.0, 8.0], [12.0, 16.0], [18.0, 24.0]):
        assert c(x).tolist() == expected
    assert w.grad.tolist() == [9.0, 12.0]
    w.grad = None
    assert c(x).tolist() == [6.0, 8.0]
    assert all(e.broken is None for e in c.entries)
    assert c.traces == 2


def test_a_graph_that_was_used_up_inside():
    w = ndgrad.tensor([1.0, 2.0], requires_grad=True)

    def f(x: Any) -> Any:
        loss = (w * x).sin().sum()
        loss.backward()
        return loss

    for g in (f, ndgrad.compile(f, fullgraph=True)):
        out = g(ndgrad.tensor([3.0, 4.0]))
        assert out.requires_grad
        with pytest.raises(RuntimeError, match="second time"):
            out.backward()


def test_backward_into_a_graph_from_outside_and_hooks_run_eagerly():
    leaf = ndgrad.tensor([1.0, 2.0], requires_grad=True)
    seen: list[Any] = []

    def f(h: Any) -> Any:
        loss = (h * h).sum()
        loss.backward()
        return loss.detach()

    c = ndgrad.compile(f)
    for expected in ([18.0, 36.0], [36.0, 72.0]):
        c(leaf * 3)
        assert leaf.grad.tolist() == expected
    other = ndgrad.tensor([1.0, 2.0], requires_grad=True)
    other.register_post_accumulate_grad_hook(lambda t: seen.append(t.grad.clone()))
    c(other)
    c(other)
    assert len(seen) == 2
    assert other.grad.tolist() == [4.0, 8.0]


def test_state_that_is_put_in_the_place_of_other_state():
    class Cell(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.register_buffer("h", ndgrad.zeros(2))
            self.seen: Any = None

        def forward(self, x: Any) -> Any:
            self.h = (self.h * 0.5 + x).tanh()
            self.seen = self.h * 2
            return self.h.sum()

    cells = Cell(), Cell()
    c = ndgrad.compile(cells[0])
    for k in range(4):
        x = ndgrad.tensor([0.1 * k, 0.2])
        assert abs(c(x).item() - cells[1](x).item()) < 1e-6
        np.testing.assert_allclose(cells[0].h, cells[1].h, rtol=1e-6)
        np.testing.assert_allclose(cells[0].seen, cells[1].seen, rtol=1e-6)
    assert all(e.broken is None for e in c.compiled_forward.entries)
    assert c.compiled_forward.traces == 2


def test_optimizer_counters_in_python_are_numbers_of_the_program():
    class Counting(optim.Optimizer):
        def __init__(self, params: Any) -> None:
            super().__init__(params, {"lr": 0.1})
            self.count = 0

        def step(self) -> None:  # type: ignore[override]
            self.count += 1
            for p in self.param_groups[0]["params"]:
                with ndgrad.no_grad():
                    p.sub_(p.grad, alpha=0.1 / self.count)

    w = ndgrad.tensor([1.0], requires_grad=True)
    o = Counting([w])

    def step() -> Any:
        o.zero_grad()
        loss = (w * w).sum()
        loss.backward()
        o.step()
        return loss.detach()

    c = ndgrad.compile(step)
    for _ in range(5):
        c()
    assert o.count == 5
    assert abs(w.item() - 0.8 * 0.9 * (1 - 0.2 / 3) * 0.95 * 0.96) < 1e-6
    assert c.traces == 2


# ----- schedules, averages and logs -----------------------------------------------------------------------------------

logger = logging.getLogger("tests.training")

SCHEDULES: dict[str, Any] = {
    "lambda": lambda o: lr_scheduler.LambdaLR(o, lambda e: min(1.0, (e + 1) / 6) * 0.5 * (1 + math.cos(math.pi * e / 30))),
    "constant": lambda o: lr_scheduler.LambdaLR(o, lambda e: 1.0),
    "step": lambda o: lr_scheduler.StepLR(o, 5, 0.5),
    "several steps": lambda o: lr_scheduler.MultiStepLR(o, [4, 9]),
    "cosine": lambda o: lr_scheduler.CosineAnnealingLR(o, 30),
    "one cycle": lambda o: lr_scheduler.OneCycleLR(o, 0.1, total_steps=40),
    "one after another": lambda o: lr_scheduler.SequentialLR(
        o, [lr_scheduler.LinearLR(o, 0.1, 1.0, 5), lr_scheduler.CosineAnnealingLR(o, 30)], [5]
    ),
    "plateau": lambda o: lr_scheduler.ReduceLROnPlateau(o, patience=2),
}


def scheduled(kind: str, optimizer: Any, is_inside: bool, compiles: bool) -> tuple[list[Any], Any]:
    ndgrad.manual_seed(0)
    model = nn.Linear(3, 4).double()
    own = optimizer(model.parameters())
    schedule = SCHEDULES[kind](own)

    def advance(loss: Any) -> None:
        if kind == "plateau":
            schedule.step(loss.item())
        else:
            schedule.step()

    def step(x: Any, y: Any) -> Any:
        own.zero_grad()
        loss = F.cross_entropy(model(x), y)
        loss.backward()
        own.step()
        if is_inside:
            advance(loss)
        return loss

    run = ndgrad.compile(step) if compiles else step
    found: list[Any] = []
    for _ in range(3):
        for x, y in batches():
            loss = run(x, y)
            if not is_inside:
                advance(loss)
            found += [loss.item(), *[group["lr"] for group in own.param_groups], *schedule.get_last_lr(), schedule.last_epoch]
    return [*found, *[p.detach().numpy() for p in model.parameters()]], run


@pytest.mark.filterwarnings("ignore:.*runs eagerly from now on")
@pytest.mark.parametrize("is_inside", [False, True], ids=["outside", "inside"])
@pytest.mark.parametrize("kind", SCHEDULES)
def test_a_schedule_gives_numbers_to_one_program(kind: str, is_inside: bool) -> None:
    optimizer = OPTIMIZERS["AdamW" if kind != "step" else "momentum"]
    found, run = scheduled(kind, optimizer, is_inside, True)
    expected, _ = scheduled(kind, optimizer, is_inside, False)
    for a, b in zip(found, expected, strict=True):
        np.testing.assert_allclose(a, b, rtol=1e-9, atol=1e-11)
    # The first step creates the optimizer's state. A schedule has few conditions on the step count.
    assert run.traces <= (12 if kind == "plateau" else 7 if is_inside else 4), run.last_reason


def training(compiles: bool, level: int, is_inside: bool) -> tuple[Any, Any, Any]:
    """AdamW with warm-up and cosine, gradients clipped, the loss averaged and logged, and a moving average of
    parameters.
    """
    ndgrad.manual_seed(0)
    logger.setLevel(level)
    model = nn.Sequential(nn.Linear(3, 8), nn.Tanh(), nn.Linear(8, 4)).double()
    averages = [p.detach().clone() for p in model.parameters()]
    optimizer = optim.AdamW(model.parameters(), lr=0.05)
    schedule = lr_scheduler.LambdaLR(
        optimizer, lambda n: (n + 1) / 10 if n < 10 else 0.5 * (1 + math.cos(math.pi * (n - 10) / 90))
    )
    stats: dict[str, Any] = {"mean": 0.0, "count": 0, "best": math.inf}
    history: list[float] = []

    def step(x: Any, y: Any) -> Any:
        optimizer.zero_grad()
        loss = F.cross_entropy(model(x), y)
        loss.backward()
        nn.utils.clip_grad_norm_(model.parameters(), 1.0)
        optimizer.step()
        if is_inside:
            schedule.step()
        with ndgrad.no_grad():
            for average, p in zip(averages, model.parameters(), strict=True):
                average.mul_(0.99).add_(p, alpha=0.01)
        stats["count"] += 1
        stats["mean"] += (loss.item() - stats["mean"]) / stats["count"]
        stats["best"] = min(stats["best"], loss.item())
        history.append(loss.item())
        logger.info("loss %.4f", loss.item())
        return loss

    run = ndgrad.compile(step) if compiles else step

    def advance(x: Any, y: Any) -> Any:
        loss = run(x, y)
        if not is_inside:
            schedule.step()
        return loss

    def state() -> list[Any]:
        numbers = [*stats.values(), *history, optimizer.param_groups[0]["lr"], schedule.last_epoch, *schedule.get_last_lr()]
        assert {type(n) for n in numbers} == {int, float}
        return [*numbers, *[t.detach().numpy() for t in (*model.parameters(), *averages)], *[p.grad.numpy() for p in model.parameters()]]

    return advance, run, state


@pytest.mark.parametrize("is_inside", [False, True], ids=["schedule outside", "schedule inside"])
@pytest.mark.parametrize("level", [logging.WARNING, logging.INFO])
def test_a_training_step_as_users_write_it_is_traced_a_few_times(level: int, is_inside: bool) -> None:
    stream = io.StringIO()
    before, logger.propagate = logger.handlers, False
    texts, states = [], []
    try:
        logger.handlers = [logging.StreamHandler(stream)]
        for compiles in (False, True):
            advance, run, state = training(compiles, level, is_inside)
            for number in range(100):
                rng = np.random.default_rng(number)
                advance(ndgrad.tensor(rng.standard_normal((8, 3))), ndgrad.tensor(rng.integers(0, 4, 8)))
            states.append(state())
            texts.append(stream.getvalue())
            stream.truncate(0)
            stream.seek(0)
    finally:
        logger.handlers, logger.propagate = before, True
    for a, b in zip(*states, strict=True):
        np.testing.assert_allclose(a, b, rtol=1e-8, atol=1e-11)
    assert texts[0] == texts[1]
    assert len(texts[0].splitlines()) == (100 if level == logging.INFO else 0)
    assert run.traces <= 3
    assert run.entries[-1].specialisation is not None


@pytest.mark.parametrize("kind", ["batches", "mean", "moving"])
def test_running_means_of_batches_and_of_parameters(kind: str) -> None:
    def trained(compiles: bool) -> tuple[list[Any], Any]:
        ndgrad.manual_seed(0)
        model = nn.Sequential(nn.Linear(3, 4), nn.BatchNorm1d(4, momentum=None)).double()
        averaged = optim.swa_utils.AveragedModel(
            model, multi_avg_fn=optim.swa_utils.get_ema_multi_avg_fn(0.9) if kind == "moving" else None
        )
        optimizer = optim.SGD(model.parameters(), lr=0.1)

        def step(x: Any, y: Any) -> Any:
            optimizer.zero_grad()
            loss = F.cross_entropy(model(x), y)
            loss.backward()
            optimizer.step()
            if kind != "batches":
                averaged.update_parameters(model)
            return loss

        run = ndgrad.compile(step) if compiles else step
        losses = [run(x, y).item() for x, y in batches()]
        tensors = [*model.parameters(), *model.buffers(), *averaged.parameters(), *averaged.buffers()]
        return [*losses, *[t.detach().numpy() for t in tensors]], run

    found, run = trained(True)
    for a, b in zip(found, trained(False)[0], strict=True):
        np.testing.assert_allclose(a, b, rtol=1e-9, atol=1e-11)
    assert run.entries[-1].specialisation is not None
    assert run.traces <= 4


def test_hooks_of_parameters_run_in_the_order_of_an_eager_pass() -> None:
    net = nn.Sequential(nn.Linear(3, 4), nn.Tanh(), nn.Linear(4, 4))
    seen: list[str] = []
    for name, p in net.named_parameters():
        p.register_hook(lambda g, name=name: seen.append(name))
    x = ndgrad.ones(2, 3)

    def loss(x: Any) -> Any:
        return (net(x).sum() * net[0].bias.sum()).exp()

    compiled = ndgrad.compile(loss)
    for f in (loss, compiled, compiled, compiled):
        f(x).backward()
    assert len(seen) == 16
    assert seen[:4] == seen[4:8] == seen[8:12] == seen[12:]
    assert seen[:4] != sorted(seen[:4])
