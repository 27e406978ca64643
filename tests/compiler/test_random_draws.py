"""Compiled functions that draw random numbers: the numbers of eager code, drawn once, with the same final generator
states.
"""

from __future__ import annotations

import os
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import ndgrad
import ndgrad.nn.functional as F
import ndgrad.numpy as dnp
from ndgrad import func, nn, optim
from ndgrad._src.checkpoint import checkpoint


@pytest.fixture(autouse=True)
def on_numpy(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("NDGRAD_COMPILE_REPLAY", os.environ.get("NDGRAD_COMPILE_REPLAY", "1"))


def tensor(n: int = 6, **options: Any) -> Any:
    return ndgrad.tensor(np.linspace(0.1, 0.9, n), dtype=ndgrad.float64, **options)


def in_place(name: str, *args: Any) -> Callable[[Any], Any]:
    def f(x: Any) -> Any:
        made = ndgrad.zeros(6, dtype=ndgrad.float64)
        getattr(made, name)(*args)
        made[0] = 1.0
        return made * x

    return f


FUNCTIONS: dict[str, Callable[[Any], Any]] = {
    "rand": lambda x: x * ndgrad.rand(6, dtype=ndgrad.float64),
    "randn": lambda x: (x * ndgrad.randn(6), ndgrad.randn(2, 3)),
    "two of a kind": lambda x: x * ndgrad.rand(6) - ndgrad.rand(6),
    "rand_like": lambda x: x + ndgrad.rand_like(x) * ndgrad.randn_like(x),
    "randint": lambda x: x * ndgrad.randint(0, 10, (6,)),
    "randperm": lambda x: x[ndgrad.randperm(6)],
    "bernoulli": lambda x: x * ndgrad.bernoulli(x.detach()),
    "bernoulli of a number": lambda x: x * x.detach().bernoulli(0.3),
    "normal of tensors": lambda x: ndgrad.normal(x.detach(), x.detach().square()) * x,
    "normal of a mean": lambda x: ndgrad.normal(x.detach(), 2.0) * x,
    "normal of a deviation": lambda x: ndgrad.normal(0.5, x.detach()) * x,
    "normal_": in_place("normal_", 1.0, 2.0),
    "uniform_": in_place("uniform_", -1.0, 1.0),
    "exponential_": in_place("exponential_"),
    "bernoulli_": in_place("bernoulli_", 0.4),
    "dropout": lambda x: F.dropout(x, 0.4) * x,
    "dropout in place": lambda x: F.dropout(x * 2.0, 0.4, inplace=True) * x,
    "alpha_dropout": lambda x: F.alpha_dropout(x, 0.3),
    "dropout2d": lambda x: F.dropout2d(x.reshape(1, 3, 2, 1), 0.5),
    "gumbel_softmax": lambda x: F.gumbel_softmax(x),
    "attention": lambda x: F.scaled_dot_product_attention(*[x.reshape(1, 3, 2)] * 3, dropout_p=0.5),
    "nobody reads it": lambda x: (ndgrad.rand(3), x * ndgrad.rand(6))[1],
    "a number that is returned": lambda x: ndgrad.rand(3),
    "checkpoint": lambda x: checkpoint(lambda y: F.dropout(y, 0.5) * y, x, use_reentrant=False) * ndgrad.rand(6),
}


@pytest.mark.parametrize("name", FUNCTIONS)
def test_draws_are_those_of_eager_code(name: str) -> None:
    f = FUNCTIONS[name]
    compiled = ndgrad.compile(f, fullgraph=True)
    outcomes = []
    for g in (f, compiled):
        ndgrad.manual_seed(5)
        x = tensor(requires_grad=True)
        rounds = []
        for _ in range(3):
            leaves = ndgrad.utils._pytree.tree_flatten(g(x))[0]
            rounds += [t.detach().numpy().copy() for t in leaves]
            tracked = [t for t in leaves if t.requires_grad]
            if tracked:
                (first,) = ndgrad.autograd.grad(tracked[0].square().sum(), x, create_graph=True)
                rounds.append(first.detach().numpy().copy())
                if first.requires_grad:
                    (second,) = ndgrad.autograd.grad(first.sum(), x, allow_unused=True)
                    rounds += [] if second is None else [second.numpy().copy()]
        rounds.append(ndgrad.get_rng_state().numpy())
        outcomes.append(rounds)
    assert compiled.traces == 1
    for expected, found in zip(*outcomes, strict=True):
        np.testing.assert_allclose(found, expected, rtol=1e-12, atol=1e-14)


def test_a_training_step_with_dropout() -> None:
    def trained(compiles: bool) -> list[Any]:
        ndgrad.manual_seed(1)
        model = nn.Sequential(nn.Linear(3, 16), nn.Dropout(0.5), nn.Tanh(), nn.Dropout(0.2), nn.Linear(16, 2))
        optimizer = optim.AdamW(model.parameters(), lr=0.01)

        def step(x: Any, y: Any) -> Any:
            optimizer.zero_grad()
            loss = F.cross_entropy(model(x), y)
            loss.backward()
            optimizer.step()
            return loss

        run = ndgrad.compile(step, fullgraph=True) if compiles else step
        x, y = ndgrad.randn(8, 3), ndgrad.randint(0, 2, (8,))
        losses = [step(x, y).item(), *[run(x, y).item() for _ in range(6)]]
        return [*losses, *[p.detach().numpy() for p in model.parameters()], ndgrad.rand(3).numpy()]

    for expected, found in zip(trained(False), trained(True), strict=True):
        np.testing.assert_allclose(found, expected, rtol=2e-5, atol=1e-7)


def test_native_code_gets_the_same_numbers(monkeypatch: pytest.MonkeyPatch) -> None:
    pytest.importorskip("llvmlite")
    monkeypatch.delenv("NDGRAD_COMPILE_REPLAY")

    def f(x: Any) -> Any:
        return (F.dropout(x.exp(), 0.3) * ndgrad.randn(6)).sum()

    found = []
    for g in (f, ndgrad.compile(f, fullgraph=True)):
        x = tensor(requires_grad=True)
        ndgrad.manual_seed(2)
        for _ in range(6):  # until forward and backward are one program
            x.grad = None
            g(x).backward()
        found.append(x.grad.numpy())
    np.testing.assert_allclose(found[1], found[0], rtol=1e-6)


@pytest.mark.parametrize("randomness", ["different", "same"])
def test_inside_vmap(randomness: str) -> None:
    f = func.vmap(lambda x: x * ndgrad.rand(6), randomness=randomness)
    batch = ndgrad.stack([tensor(), tensor()])
    ndgrad.manual_seed(3)
    expected = f(batch)
    ndgrad.manual_seed(3)
    assert ndgrad.equal(ndgrad.compile(f, fullgraph=True)(batch), expected)


def test_inside_transforms() -> None:
    def f(x: Any) -> Any:
        return (F.dropout(x, 0.5) ** 3).sum()

    for form in (func.grad(f), lambda x: func.jvp(func.grad(f), (x,), (x,))[1], func.jacrev(f)):
        ndgrad.manual_seed(4)
        expected = form(tensor())
        ndgrad.manual_seed(4)
        np.testing.assert_allclose(ndgrad.compile(form)(tensor()).numpy(), expected.numpy(), rtol=1e-12)


def test_generators_of_ones_own() -> None:
    held = ndgrad.Generator()

    def f(x: Any, generator: Any) -> Any:
        return x * ndgrad.rand(6, generator=generator) + ndgrad.randn(6, generator=held) - ndgrad.rand(6)

    compiled, outcomes = ndgrad.compile(f, fullgraph=True), []
    for g in (f, compiled):
        given = ndgrad.Generator().manual_seed(1)
        held.manual_seed(2)
        ndgrad.manual_seed(3)
        outcomes.append([*[g(tensor(), given).numpy() for _ in range(3)], given.get_state().numpy(), held.get_state().numpy()])
    for expected, found in zip(*outcomes, strict=True):
        np.testing.assert_array_equal(found, expected)


def test_a_block_that_leaves_the_generator_as_it_was() -> None:
    def f(x: Any) -> Any:
        before = ndgrad.rand(6)
        with ndgrad.random.fork_rng():
            inside = ndgrad.rand(6)
        return x * inside + before, x * ndgrad.rand(6)

    outcomes = []
    for g in (f, ndgrad.compile(f, fullgraph=True)):
        ndgrad.manual_seed(3)
        outcomes.append([t.numpy() for _ in range(2) for t in g(tensor())] + [ndgrad.get_rng_state().numpy()])
    for expected, found in zip(*outcomes, strict=True):
        np.testing.assert_array_equal(found, expected)

    def last(x: Any) -> Any:
        with ndgrad.random.fork_rng():
            return x * ndgrad.rand(6)

    assert ndgrad.equal(ndgrad.compile(last, fullgraph=True)(tensor()), last(tensor()))


def test_tracing_and_failing_calls_draw_nothing() -> None:
    @ndgrad.compile
    def f(x: Any, index: Any) -> Any:
        noise = ndgrad.rand(6)
        return F.nll_loss(x.reshape(2, 3) + noise.reshape(2, 3), index)

    ndgrad.manual_seed(3)
    state = ndgrad.get_rng_state()
    ndgrad.compiler.explain(lambda x: x * ndgrad.rand(6), tensor())
    assert ndgrad.equal(ndgrad.get_rng_state(), state)
    f(tensor(), ndgrad.tensor([0, 1]))
    ndgrad.manual_seed(3)
    with pytest.raises(IndexError):
        f(tensor(), ndgrad.tensor([0, 7]))
    once = ndgrad.get_rng_state()
    ndgrad.manual_seed(3)
    ndgrad.rand(6)
    assert ndgrad.equal(ndgrad.get_rng_state(), once)


def seeding(x: Any) -> Any:
    ndgrad.manual_seed(0)
    return x * ndgrad.rand(6)


def making(x: Any) -> Any:
    return x * ndgrad.rand(6, generator=ndgrad.Generator())


def telling(x: Any) -> Any:
    return x * 2.0, ndgrad.get_rng_state()


def counting(x: Any) -> Any:
    return ndgrad.poisson(x)


OWN = dnp.random.default_rng(3)
BARE = np.random.default_rng(3)


def from_ones_own(x: Any) -> Any:
    return x + ndgrad.as_tensor(OWN.normal(size=6))


def from_numpys(x: Any) -> Any:
    return x + ndgrad.tensor(BARE.normal(size=6))


def without_a_seed(x: Any) -> Any:
    return x + ndgrad.tensor(np.random.default_rng().normal(size=6)) * 0


def global_numbers(x: Any) -> Any:
    return x + ndgrad.tensor(np.random.normal(size=6)) * 0


class Noisy(ndgrad.autograd.Function):
    @staticmethod
    def forward(ctx: Any, x: Any) -> Any:
        return x * 2.0

    @staticmethod
    def backward(ctx: Any, g: Any) -> Any:
        return g * ndgrad.rand(6)


@pytest.mark.parametrize(
    ("f", "reason"),
    [
        (seeding, "seeds a generator"),
        (making, "makes a generator"),
        (from_ones_own, "draws from a generator"),
        (from_numpys, "draws from a generator"),
        (without_a_seed, "without a seed"),
        (global_numbers, "draws"),
        (telling, "state of a generator"),
        (counting, "how many depends on values"),
        (Noisy.apply, "draws random numbers of its own"),
    ],
)
def test_what_runs_eagerly(f: Any, reason: str) -> None:
    x = tensor(requires_grad=True)
    assert reason in str(ndgrad.compiler.explain(f, x))
    outcomes = []
    for g in (f, ndgrad.compile(f)):
        ndgrad.manual_seed(1)
        OWN.bit_generator.state = BARE.bit_generator.state = np.random.PCG64(3).state
        outcomes.append(ndgrad.utils._pytree.tree_flatten([g(x), g(x)])[0])
    for a, b in zip(*outcomes, strict=True):
        assert ndgrad.equal(a, b)
