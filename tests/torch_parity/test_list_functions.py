"""`_foreach_*`: each form of each function, values, gradients and errors beside torch."""

from __future__ import annotations

import numpy as np
import pytest
import torch

import ndgrad
from ndgrad._src.tensor import list_functions

VALUES = [np.array([0.3, 0.7, 0.2]), np.array([[0.5], [0.9]])]


def make(library, grad=False):
    return [library.tensor(v.tolist(), dtype=library.float64, requires_grad=grad) for v in VALUES]


def both(call):
    """Results of a call in both libraries, or the kind of its error."""

    def attempt(library):
        try:
            found = call(library)
        except Exception as error:  # kinds are compared
            return type(error).__name__
        return [t.tolist() for t in found]

    expected, found = attempt(torch), attempt(ndgrad)
    assert type(expected) is type(found), (expected, found)
    if isinstance(expected, str):
        assert expected == found
    else:
        for a, b in zip(expected, found, strict=True):
            np.testing.assert_allclose(b, a, rtol=1e-12)


def test_every_name_of_torch_is_here():
    assert {n for n in dir(torch) if n.startswith("_foreach_")} == set(list_functions.FUNCTIONS)


@pytest.mark.parametrize("name", list_functions.UNARY)
def test_unary_functions(name):
    both(lambda library: getattr(library, f"_foreach_{name}")(make(library)))

    def write(library):
        tensors = make(library)
        assert getattr(library, f"_foreach_{name}_")(tensors)[0] is tensors[0]
        return tensors

    both(write)


OPERANDS = {
    "number": lambda library: 2.0,
    "numbers": lambda library: [2.0, 3.0],
    "tensors": make,
    "tensor": lambda library: library.tensor(2.0, dtype=library.float64),
    "vector": lambda library: library.tensor([2.0, 1.0], dtype=library.float64),
    "too many": lambda library: [1.0, 2.0, 3.0],
}


@pytest.mark.parametrize("kind", OPERANDS)
@pytest.mark.parametrize("name", list_functions.BINARY)
def test_binary_functions_and_their_operands(name, kind):
    both(lambda library: getattr(library, f"_foreach_{name}")(make(library), OPERANDS[kind](library)))
    both(lambda library: getattr(library, f"_foreach_{name}_")(make(library), OPERANDS[kind](library)))


@pytest.mark.parametrize("name", ["add", "sub"])
def test_alpha(name):
    both(lambda library: getattr(library, f"_foreach_{name}")(make(library), make(library), alpha=3))
    both(lambda library: getattr(library, f"_foreach_{name}")(make(library), 2.0, alpha=3))


@pytest.mark.parametrize("name", ["addcmul", "addcdiv"])
@pytest.mark.parametrize("value", [2.0, [2.0, 3.0], "tensor"], ids=str)
def test_pointwise_functions(name, value):
    def call(library, suffix=""):
        given = library.tensor([2.0, 3.0], dtype=library.float64) if value == "tensor" else value
        return getattr(library, f"_foreach_{name}{suffix}")(make(library), make(library), make(library), given)

    both(call)
    both(lambda library: call(library, "_"))


@pytest.mark.parametrize("weight", [0.25, [0.25, 0.5], "tensors"], ids=str)
def test_lerp(weight):
    def call(library):
        end = library._foreach_add(make(library), 1)
        return library._foreach_lerp(make(library), end, make(library) if weight == "tensors" else weight)

    both(call)


@pytest.mark.parametrize(
    "call",
    [
        lambda library: library._foreach_norm(make(library)),
        lambda library: library._foreach_norm(make(library), 1),
        lambda library: library._foreach_norm(make(library), ord=float("inf")),
        lambda library: library._foreach_powsum(make(library), 3),
        lambda library: library._foreach_max(make(library)),
        lambda library: library._foreach_clone(make(library)),
        lambda library: library._foreach_pow(2.0, make(library)),
        lambda library: library._foreach_mm([make(library)[1]], [make(library)[1].T]),
        lambda library: library._foreach_zero_(make(library)),
        lambda library: library._foreach_copy_(make(library), library._foreach_add(make(library), 1)),
        lambda library: library._foreach_add([], 1),
        lambda library: library._foreach_add(make(library)[0], 1),
        lambda library: library._foreach_add(make(library), scalar=1),
    ],
)  # fmt: skip
def test_other_functions_and_errors(call):
    both(call)


def test_gradients_of_list_functions():
    def gradients(library):
        leaves = make(library, grad=True)
        results = library._foreach_mul(library._foreach_exp(leaves), leaves)
        return library.autograd.grad(sum(n * n for n in library._foreach_norm(results)), leaves)

    both(gradients)
