"""Numbers that compiled functions read from tensors: Python numbers at the end of a call, and constants for
derivatives.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import ndgrad
import ndgrad.numpy as ng
from ndgrad import func, nn
from ndgrad._src.foundations.pytree import tree_flatten

VALUES = ([1.0, 2.5, 4.0], [-3.0, 0.5, 0.25])


def assert_same(found: Any, expected: Any) -> None:
    leaves, others = tree_flatten(found)[0], tree_flatten(expected)[0]
    assert [type(a) for a in leaves] == [type(b) for b in others]
    for a, b in zip(leaves, others, strict=True):
        a, b = (v.detach().numpy() if isinstance(v, ndgrad.Tensor) else v for v in (a, b))
        assert getattr(a, "dtype", None) == getattr(b, "dtype", None)
        if isinstance(a, str):
            assert a == b
            continue
        np.testing.assert_allclose(a, b, rtol=1e-6 if getattr(a, "dtype", None) == np.float32 else 1e-13)


def count_call(x: Any) -> Any:
    return {"right": (x > 0.4).sum().item() / 3, "largest": x.argmax().item(), "is it": x.argmax().item() == 2}


def scaled(x: Any) -> Any:
    norm = (x * x).sum().item()
    if norm > 12.0:
        x = x * (2.0 / norm)
    return x + norm, norm


NUMBERS: dict[str, Callable[[Any], Any]] = {
    "returned": lambda x: (x * 2, x.sum().item()),
    "in a dictionary": lambda x: {"loss": (x * x).mean().item()},
    "alone": lambda x: x.max().item(),
    "of a list": lambda x: [x.sum().tolist(), x[:1].item()],
    "below": lambda x: x / x.sum().item(),
    "above": lambda x: x.sum().item() / (x * x + 1),
    "on both sides": lambda x: x * x.min().item() - x.max().item() * x,
    "computed with": lambda x: x * (2 * x.sum().item() - x.max().item() / 3.0 + True),
    "signs": lambda x: abs(-x.sum().item()) - +x.min().item(),
    "the larger one": lambda x: max(x.sum().item(), 3.0),
    "summed up": lambda x: sum(x[i].item() for i in range(3)),
    "compared": lambda x: x * 2 if 1 < x.sum().item() <= 9 else -x,
    "true": lambda x: x if (x[0] - 1.0).item() else -x,
    "where": lambda x: ndgrad.where(x > 1, x, x.sum().item()),
    "clamped": lambda x: x.clamp(max=x.mean().item()),
    "written": lambda x: (x * 1.0).mul_(x.mean().item()),
    "beside integers": lambda x: x.argsort() * x.sum().item(),
    "counted": count_call,
    "scaled": scaled,
    "math": lambda x: math.sqrt(abs(x.sum().item())),
    "power": lambda x: x.sum().item() ** 2,
    "remainder": lambda x: x.sum().item() % 1.0,
    "integers": lambda x: x.argmax().item() * 3 + 1,
    "of no input": lambda x: x * (ndgrad.arange(4.0).sum().item() / 2),
}


@pytest.mark.parametrize("dtype", [ndgrad.float32, ndgrad.float64])
@pytest.mark.parametrize("name", list(NUMBERS))
def test_numbers_are_those_of_eager_code(name: str, dtype: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    f = NUMBERS[name]
    for replay in "01":
        monkeypatch.setenv("NDGRAD_COMPILE_REPLAY", replay)
        g = ndgrad.compile(f, fullgraph=True)
        for values in (*VALUES, *VALUES, VALUES[1]):
            x = ndgrad.tensor(values, dtype=dtype)
            assert_same(g(x), f(x))


def test_numbers_of_numpys_class_and_of_numpys_arrays() -> None:
    f = lambda x: (np.sin(x) / np.sum(x).item(), np.mean(x).item())
    g = ndgrad.compile(f)
    for values in (*VALUES, VALUES[0]):
        assert_same(g(ng.array(values)), f(ng.array(values)))
    assert ndgrad.compiler.explain(g, ng.array(VALUES[0])).compiled
    for values in (*VALUES, VALUES[0]):
        assert_same(g(np.array(values)), f(np.array(values)))


@pytest.mark.parametrize("name", ["below", "on both sides", "computed with", "compared", "where"])
def test_numbers_are_constants_to_derivatives(name: str) -> None:
    total = lambda x: (NUMBERS[name](x) ** 3).sum()
    for transform in (func.grad, func.hessian, func.jacfwd):
        for values in VALUES:
            x = ndgrad.tensor(values, dtype=ndgrad.float64)
            assert_same(ndgrad.compile(transform(total), fullgraph=True)(x), transform(total)(x))
            assert_same(transform(ndgrad.compile(total))(x), transform(total)(x))
    gradients = []
    for f in (total, ndgrad.compile(total, fullgraph=True)):
        x = ndgrad.tensor(VALUES[0], dtype=ndgrad.float64, requires_grad=True)
        (first,) = ndgrad.autograd.grad(f(x), x, create_graph=True)
        gradients.append([first, *ndgrad.autograd.grad((first * first).sum(), x)])
    assert_same(gradients[1], gradients[0])


def test_a_loop_of_many_rounds_with_a_number_in_it() -> None:
    def f(x: Any) -> Any:
        scale = x.mean().item()
        for _ in range(300):
            x = x + 0.01 * scale * x.sin()
        return x.sum()

    x = ndgrad.tensor(VALUES[0], dtype=ndgrad.float64)
    assert_same(ndgrad.compile(func.grad(f), fullgraph=True)(x), func.grad(f)(x))


def test_a_training_step_that_returns_its_loss_as_a_number() -> None:
    def make(c: Any) -> Any:
        ndgrad.manual_seed(0)
        model = nn.Linear(3, 2)
        optimizer = ndgrad.optim.SGD(model.parameters(), lr=0.1)

        @c
        def step(x: Any, y: Any) -> float:
            optimizer.zero_grad()
            loss = ((model(x) - y) ** 2).mean()
            loss.backward()
            optimizer.step()
            return loss.item()

        return step

    args = ndgrad.ones(4, 3), ndgrad.zeros(4, 2)
    eager, step = make(lambda f: f), make(ndgrad.compile)
    for _ in range(5):
        assert_same(step(*args), pytest.approx(eager(*args), rel=1e-5).expected)
    assert ndgrad.compiler.explain(step, *args).compiled


def test_a_quotient_by_zero_raises_as_pythons_does() -> None:
    f = lambda x: 2.0 / x.sum().item()
    g = ndgrad.compile(f)
    assert g(ndgrad.tensor([1.0, 3.0])) == 0.5
    with pytest.raises(ZeroDivisionError):
        g(ndgrad.tensor([1.0, -1.0]))
    assert g(ndgrad.tensor([1.0, 1.0])) == 1.0
    assert ndgrad.compiler.explain(g, ndgrad.ones(2)).compiled


def test_integers_that_no_float_holds() -> None:
    f = lambda x: x.sum().item() / 3
    g = ndgrad.compile(f)
    for large in (6, 2**53 + 2, 2**60 + 1):
        assert g(ndgrad.tensor([large])) == f(ndgrad.tensor([large]))


def test_samples_of_a_batch_have_no_number() -> None:
    f = lambda x: x * x.sum().item()
    for g in (func.vmap(f), ndgrad.compile(func.vmap(f)), func.vmap(ndgrad.compile(f))):
        with pytest.raises(RuntimeError, match="calling .item"):
            g(ndgrad.ones(2, 3))


def in_rounds(x: Any) -> Any:
    total = x.sum().item()
    return func.scan(lambda c, r: (c * total, r), x, x)[0]


NEEDED: dict[str, Callable[[Any], Any]] = {
    "float": lambda x: x * float(x.sum()),
    "int": lambda x: x * int(x.sum().item()),
    "text": lambda x: (x, f"{x.sum().item():.3f}"),
    "math, and a tensor": lambda x: x * math.sqrt(abs(x.sum().item())),
    "power, and a tensor": lambda x: x * x.sum().item() ** 2,
    "key": lambda x: {x.sum().item(): 1}[x.sum().item()] * x,
    "exponent": lambda x: (x * x + 1) ** x.mean().item(),
    "size": lambda x: x[: x.argmax().item()],
    "array": lambda x: x + ndgrad.tensor([x.sum().item()] * 3),
    "NumPy's function": lambda x: x * np.sqrt(abs(x.sum().item())),
    "NumPy's array": lambda x: ndgrad.tensor(np.ones(3) * x.sum().item()),
    "halves": lambda x: x.half() * x.sum().item(),
    "in rounds": in_rounds,
}


@pytest.mark.parametrize("name", list(NEEDED))
def test_what_needs_the_number_itself_runs_eagerly(name: str) -> None:
    f = NEEDED[name]
    x = ndgrad.tensor(VALUES[0], dtype=ndgrad.float64)
    assert not ndgrad.compiler.explain(f, x).compiled
    g = ndgrad.compile(f)
    for _ in range(2):
        assert_same(g(x), f(x))


def test_what_a_number_is_written_into_is_no_part_of_a_program() -> None:
    seen: list[float] = []

    def f(x: Any) -> Any:
        seen.append(x.sum().item())
        return x * 2

    g = ndgrad.compile(f)
    for _ in range(2):
        g(ndgrad.ones(2))
    assert seen == [2.0, 2.0]
    assert isinstance(seen[0], float)
    assert type(seen[0]) is float


KIND = type


@pytest.mark.parametrize(
    "is_float",
    [lambda v: type(v) is float, lambda v: KIND(v) is float, lambda v, kind=type: kind(v) is float, lambda v: {float: 1}.get(type(v))],
    ids=["by name", "by another name", "by default", "as key"],
)
def test_who_asks_for_the_type_of_a_number_is_given_a_number(is_float: Any) -> None:
    def doubled(x: Any) -> Any:
        return x * 2 if is_float(x.sum().item()) else x * 3

    compiled = ndgrad.compile(doubled)
    for _ in range(3):
        assert compiled(ndgrad.ones(3)).tolist() == [2.0, 2.0, 2.0]
    assert not ndgrad.compiler.explain(doubled, ndgrad.ones(3)).compiled
