"""Operators with the tensor as second operand (`2 - x`), seen by overrides: the method gets its tensor first, as in torch,
so passing the call on computes the written expression."""

from __future__ import annotations

import operator

import pytest

import ndgrad
from ndgrad.overrides import FunctionMode


class Passes(ndgrad.Tensor):
    """A class that passes every call on."""

    @classmethod
    def __torch_function__(cls, func, types, args=(), kwargs=None):
        return super().__torch_function__(func, types, args, kwargs or {})


class Sees(FunctionMode):
    def __init__(self) -> None:
        super().__init__()
        self.first = []

    def __ndgrad_function__(self, func, types, args=(), kwargs=None):
        self.first.append(type(args[0]))
        return func(*args, **(kwargs or {}))


OPERATORS = [operator.sub, operator.truediv, operator.pow, operator.floordiv, operator.mod, operator.add, operator.mul]
ON_INTEGERS = [operator.lshift, operator.rshift, operator.and_, operator.or_, operator.xor]


@pytest.mark.parametrize("run", OPERATORS, ids=lambda f: f.__name__)
def test_a_number_before_a_tensor_of_a_class_that_passes_calls_on(run):
    x = ndgrad.tensor([2.0, 3.0])
    assert run(7.0, x.as_subclass(Passes)).tolist() == run(7.0, x).tolist() == pytest.approx([run(7.0, 2.0), run(7.0, 3.0)], rel=1e-14)


@pytest.mark.parametrize("run", ON_INTEGERS, ids=lambda f: f.__name__)
def test_an_integer_before_a_tensor_of_a_class_that_passes_calls_on(run):
    x = ndgrad.tensor([1, 2])
    assert run(9, x.as_subclass(Passes)).tolist() == [run(9, 1), run(9, 2)]


@pytest.mark.parametrize("run", OPERATORS, ids=lambda f: f.__name__)
def test_a_number_before_a_tensor_under_a_function_mode(run):
    x = ndgrad.tensor([2.0, 3.0])
    with Sees() as seen:
        found = run(7.0, x)
    assert found.tolist() == pytest.approx([run(7.0, 2.0), run(7.0, 3.0)], rel=1e-14)
    assert seen.first[0] is ndgrad.Tensor


def test_the_gradient_of_a_number_minus_a_tensor_of_such_a_class():
    x = ndgrad.tensor([2.0, 3.0], requires_grad=True)
    (10.0 / (7.0 - x.as_subclass(Passes))).sum().backward()
    assert x.grad.tolist() == pytest.approx([10 / 25, 10 / 16])
