"""Conditions on values: a trace follows the outcome, each call checks it, and a few outcomes have a program each."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import ndgrad
import ndgrad.numpy as dnp
from ndgrad._src.compiler.capture.branch_conditions import MOST_IN_VAIN, MOST_PATHS
from ndgrad.func import grad, scan, vmap

UP, DOWN = [1.0, 2.0], [-1.0, -2.0]


def tensor(values: Any, **options: Any) -> Any:
    return ndgrad.tensor(values, dtype=ndgrad.float64, **options)


def branching(x: Any) -> Any:
    return (x * x).sum() if x.sum() > 0 else (x * x * x).sum() * 2


def test_both_ways_of_a_branch_are_compiled() -> None:
    f = ndgrad.compile(branching, fullgraph=True)
    for values in (UP, DOWN, UP, DOWN, DOWN):
        assert f(tensor(values)).item() == branching(tensor(values)).item()
    assert f.traces == 2


def test_gradients_follow_the_way_of_the_call() -> None:
    for transform in (grad, lambda f: grad(lambda x: grad(f)(x).sum())):
        f = ndgrad.compile(transform(branching), fullgraph=True)
        for values in (UP, DOWN, UP):
            np.testing.assert_allclose(f(tensor(values)).numpy(), transform(branching)(tensor(values)).numpy())
    f = ndgrad.compile(branching, fullgraph=True)
    for values in (UP, DOWN, UP):
        x = tensor(values, requires_grad=True)
        (first,) = ndgrad.autograd.grad(f(x), x, create_graph=True)
        (second,) = ndgrad.autograd.grad(first.sum(), x)
        np.testing.assert_allclose(second.numpy(), [2.0, 2.0] if values is UP else [-12.0, -24.0])


def test_a_loop_that_ends_when_it_has_converged() -> None:
    def root(a: Any) -> Any:
        x = a * 0.5 + 0.5
        while (x * x - a).abs() > 1e-9:
            x = 0.5 * (x + a / x)
        return x

    f = ndgrad.compile(root, fullgraph=True)
    for a in (1.0, 2.0, 2.1, 9.0):
        np.testing.assert_allclose(f(tensor(a)).item(), np.sqrt(a), rtol=1e-9)
    np.testing.assert_allclose(grad(f)(tensor(2.0)).item(), 0.5 / np.sqrt(2), rtol=1e-9)


def test_an_assertion_holds_or_raises_as_in_eager_code() -> None:
    def f(x: Any) -> Any:
        if not (x > 0).all():
            raise AssertionError("positive numbers")
        return x.log().sum()

    g = ndgrad.compile(f)
    assert g(tensor(UP)).item() == pytest.approx(np.log(2.0))
    with pytest.raises(AssertionError, match="positive numbers"):
        g(tensor(DOWN))
    assert g(tensor([2.0, 2.0])).item() == pytest.approx(2 * np.log(2.0))
    assert ndgrad.compiler.explain(f, tensor(UP)).compiled


def test_writes_are_done_only_by_the_program_of_the_right_way() -> None:
    def step(x: Any, buffer: Any) -> Any:
        buffer.add_(1)
        if x.sum() > 0:
            buffer.mul_(2)
        return buffer.sum()

    g = ndgrad.compile(step, fullgraph=True)
    found, expected = tensor([1.0, 2.0]), tensor([1.0, 2.0])
    for values in (UP, DOWN, DOWN, UP, DOWN):
        assert g(tensor(values), found).item() == step(tensor(values), expected).item()
        assert found.tolist() == expected.tolist()


def test_numbers_that_are_true_and_answers_of_the_numpy_class() -> None:
    def f(x: Any) -> Any:
        return x * 2 if x[0] and not dnp.allclose(x, 3.0) and max(x[0], x[1]) > 0 else -x

    g = ndgrad.compile(f, fullgraph=True)
    for values in ([1.0, 2.0], [0.0, 2.0], [3.0, 3.0], [-1.0, -2.0]):
        assert g(dnp.array(values)).tolist() == f(dnp.array(values)).tolist()


def test_many_ways_run_eagerly_and_are_right() -> None:
    def f(x: Any) -> Any:
        return sum(x[i] * (i + 1) if x[i] > 0 else -x[i] for i in range(4))

    g = ndgrad.compile(f)
    rng = np.random.default_rng(0)
    for _ in range(2 * MOST_IN_VAIN):
        x = tensor(rng.standard_normal(4))
        assert g(x).item() == pytest.approx(f(x).item())
    assert g.traces == MOST_PATHS
    g.fullgraph = True
    with pytest.raises(RuntimeError, match="changes from call to call"):
        g(x)


def test_what_only_a_number_tells_is_no_condition() -> None:
    for f in (lambda x: x * float(x[0]), lambda x: x[: int(x[1])]):
        explanation = ndgrad.compiler.explain(f, tensor(UP))
        assert not explanation.compiled
        assert "needs a number" in str(explanation.reason)


def test_explain_names_the_condition_and_its_answer() -> None:
    assert "test_conditions.py:24 is False" in str(ndgrad.compiler.explain(branching, tensor(DOWN)))


def test_a_body_of_a_loop_has_one_way() -> None:
    def f(x: Any) -> Any:
        return scan(lambda c, r: (c + r if r > 0 else c, None), x.sum(), x)[0]

    assert "decide what the body of a loop" in str(ndgrad.compiler.explain(f, tensor(UP)).reason)
    assert ndgrad.compile(f)(tensor(UP)).item() == f(tensor(UP)).item()


def test_samples_of_a_batch_cannot_decide() -> None:
    with pytest.raises(RuntimeError, match="vmap"):
        ndgrad.compile(vmap(branching))(tensor([UP, DOWN]))


# ----- values that no input has a part in ---------------------------------------------------------------------------------


KNOWN: dict[str, Callable[[Any], Any]] = {
    "a mask of counts": lambda x: x[ndgrad.arange(4) < 3].sum(),
    "a mask of NumPy's": lambda x: (x * x)[np.array([True, False, True, False])].sum(),
    "where a triangle is": lambda x: (x[:, None] * x)[ndgrad.triu(ndgrad.ones(4, 4), 1).bool()].sum(),
    "a number of constants": lambda x: x * (ndgrad.tensor(3.0) / 2).item(),
    "places of ones": lambda x: x[ndgrad.nonzero(ndgrad.tensor([0, 1, 0, 1]))[:, 0]].prod(),
    "a part of a constant": lambda x: x * ndgrad.linspace(0, 1, 5)[3].item(),
    "in the body of a loop": lambda x: scan(lambda c, r: (c * r[ndgrad.arange(2) > 0][0], None), x.sum(), x.reshape(2, 2))[0],
    "of an outer constant": lambda x: (lambda m: scan(lambda c, r: (c * r[m > 0][0], None), x.sum(), x.reshape(2, 2))[0])(ndgrad.arange(2)),
    "a condition": lambda x: x * 2 if ndgrad.arange(3).sum() > 2 else x,
}


@pytest.mark.parametrize("name", KNOWN)
def test_constants_are_known_while_a_function_is_traced(name: str) -> None:
    f, x = KNOWN[name], tensor([1.0, 2.0, 3.0, 4.0])
    compiled = ndgrad.compile(f, fullgraph=True)
    np.testing.assert_allclose(compiled(x).numpy(), f(x).numpy())
    total = lambda x: (f(x) ** 2).sum()
    np.testing.assert_allclose(ndgrad.compile(grad(total), fullgraph=True)(x).numpy(), grad(total)(x).numpy())
    assert not compiled.entries[-1].specialisation.trace.outcomes


def test_a_constant_that_was_written_is_none() -> None:
    def f(x: Any) -> Any:
        count = ndgrad.zeros(2, dtype=ndgrad.float64)
        count += x
        return x * 2 if count.sum() > 0 else x * 3

    g = ndgrad.compile(f, fullgraph=True)
    assert [g(tensor(v)).tolist() for v in (UP, DOWN)] == [[2.0, 4.0], [-3.0, -6.0]]
