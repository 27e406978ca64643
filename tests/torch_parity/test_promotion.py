"""Dtypes of results beside torch's, with torch's defaults: every pair of dtypes and ranks, numbers, functions of integers, modules."""

from __future__ import annotations

import itertools
from collections.abc import Callable, Iterator
from typing import Any

import pytest
import torch

import ndgrad

NAMES = (
    "bool", "uint8", "int8", "int16", "int32", "int64", "float16", "bfloat16", "float32", "float64", "complex64", "complex128",
)  # fmt: skip
#: Functions of torch that NumPy does not have.
BEYOND = "complex32"


@pytest.fixture(autouse=True)
def torchs_defaults() -> Iterator[None]:
    before = ndgrad.get_default_dtype()
    ndgrad.set_default_dtype(ndgrad.float32)
    yield
    ndgrad.set_default_dtype(before)


def dtype_of(program: Callable[[Any], Any], library: Any) -> str:
    """The name of the dtype of what a program gives, or of the error that it raises."""
    try:
        return str(program(library).dtype).rpartition(".")[2]
    except (RuntimeError, TypeError, NotImplementedError) as error:
        return type(error).__name__


def check(program: Callable[[Any], Any], case: Any) -> None:
    theirs = dtype_of(program, torch)
    if theirs != BEYOND and not theirs.endswith("Error"):
        assert dtype_of(program, ndgrad) == theirs, case


@pytest.mark.filterwarnings("ignore:ComplexHalf")
@pytest.mark.parametrize("name", ["add", "mul", "sub", "div", "maximum", "pow", "atan2", "eq", "lt", "where", "logaddexp", "hypot"])
def test_two_tensors(name):
    for a, b in itertools.product(NAMES, repeat=2):
        for first, second in itertools.product([(2,), ()], repeat=2):

            def program(library, a=a, b=b, first=first, second=second):
                x = library.ones(first, dtype=getattr(library, a))
                y = library.ones(second, dtype=getattr(library, b))
                if name == "where":
                    return library.where(library.tensor([True, False]), x, y)
                return getattr(library, name)(x, y)

            check(program, (name, a, first, b, second))


@pytest.mark.parametrize("name", ["add", "mul", "div", "pow", "__radd__", "__rsub__", "__rtruediv__"])
@pytest.mark.parametrize("number", [True, 2, 2.5, 2j])
def test_a_tensor_and_a_number(name, number):
    for a in NAMES:
        if a == "bool" and name == "pow":
            continue  # NumPy's is int8

        def program(library, a=a):
            return getattr(library.ones(2, dtype=getattr(library, a)), name)(number)

        check(program, (name, a, number))


@pytest.mark.parametrize(
    "name",
    "sin exp sqrt erf rsqrt lgamma abs neg reciprocal tanh log1p floor digamma angle expm1 acosh log2 sinc cosh atan "
    "deg2rad logit".split(),
)
def test_functions_of_one_tensor(name):
    for a in NAMES:

        def program(library, a=a):
            return getattr(library, name)(library.ones(2, dtype=getattr(library, a)))

        check(program, (name, a))


PROGRAMS: dict[str, Callable[[Any], Any]] = {
    "numbers": lambda m: m.tensor([1.5]),
    "whole numbers": lambda m: m.tensor([1, 2]),
    "quotients of whole numbers": lambda m: m.arange(3) / 2,
    "whole numbers times a number": lambda m: m.tensor([1, 2]) * 1.5,
    "whole numbers times a scalar": lambda m: m.tensor([1, 2]) * m.tensor(2.0),
    "single times a double scalar": lambda m: m.ones(2) * m.tensor(2.0, dtype=m.float64),
    "joined": lambda m: m.cat([m.ones(2), m.ones(2, dtype=m.int64)]),
    "joined with double": lambda m: m.cat([m.ones(2), m.ones(2, dtype=m.float64)]),
    "stacked": lambda m: m.stack([m.arange(2), m.ones(2)]),
    "mean squared error": lambda m: m.nn.functional.mse_loss(m.ones(2), m.ones(2, dtype=m.float64)),
    "evenly spaced": lambda m: m.linspace(0, 1, 3),
    "filled": lambda m: m.full((2,), 1.0),
    "filled with whole numbers": lambda m: m.full((2,), 1),
    "embedding": lambda m: m.nn.Embedding(3, 2)(m.tensor([1])),
    "layer norm": lambda m: m.nn.LayerNorm(2)(m.ones(2, 2)),
    "clamped by numbers": lambda m: m.clamp(m.arange(3), 0.5, 2.0),
    "chosen": lambda m: m.where(m.tensor([True, False]), 1.0, m.arange(2)),
    "transform": lambda m: m.fft.fft(m.ones(2)),
    "frequencies": lambda m: m.fft.fftfreq(3),
    "random": lambda m: m.randn(2),
    "written in place": lambda m: m.ones(2).add_(m.ones(2, dtype=m.float64)),
    "in place into whole numbers": lambda m: m.arange(2).add_(m.ones(2)),
    "a product of two precisions": lambda m: m.ones(2, 2) @ m.ones(2, 2, dtype=m.float64),
    "a product with whole numbers": lambda m: m.ones(2, 2) @ m.ones(2, 2, dtype=m.int64),
    "a product with halves": lambda m: m.ones(2, 2).half() @ m.ones(2, 2),
    "a linear map of another precision": lambda m: m.nn.functional.linear(m.ones(2, 2), m.ones(2, 2, dtype=m.float64)),
    "a convolution of another precision": lambda m: m.nn.functional.conv1d(m.ones(1, 2, 2), m.ones(1, 2, 2, dtype=m.float64)),
    "einsum of two precisions": lambda m: m.einsum("ij,jk->ik", m.ones(2, 2), m.ones(2, 2, dtype=m.float64)),
    "a dot product of two precisions": lambda m: m.dot(m.ones(2), m.ones(2, dtype=m.float64)),
    "a system of two precisions": lambda m: m.linalg.solve(m.eye(2), m.ones(2, 2, dtype=m.float64)),
    "addmm of two precisions": lambda m: m.addmm(m.ones(2, 2), m.ones(2, 2), m.ones(2, 2, dtype=m.float64)),
    "attention of two precisions": lambda m: m.nn.functional.scaled_dot_product_attention(
        m.ones(2, 2), m.ones(2, 2, dtype=m.float64), m.ones(2, 2)
    ),
}


@pytest.mark.parametrize("name", PROGRAMS)
def test_programs(name):
    assert dtype_of(PROGRAMS[name], ndgrad) == dtype_of(PROGRAMS[name], torch)


def test_gradients_have_the_dtypes_of_what_they_belong_to():
    for library in (torch, ndgrad):
        x = library.ones(2, requires_grad=True)
        y = library.ones(2, dtype=library.float64, requires_grad=True)
        (x * library.arange(2) * y).sum().backward()
        assert (x.grad.dtype, y.grad.dtype) == (library.float32, library.float64)
        assert x.grad.tolist() == y.grad.tolist() == [0.0, 1.0]


def test_a_model_stays_in_single_precision():
    def run(library):
        model = library.nn.Sequential(library.nn.Linear(3, 4), library.nn.GELU(), library.nn.Linear(4, 2))
        loss = library.nn.functional.cross_entropy(model(library.ones(5, 3)), library.zeros(5, dtype=library.int64))
        loss.backward()
        optimizer = library.optim.AdamW(model.parameters())
        optimizer.step()
        state = [v for values in optimizer.state.values() for v in values.values()]
        return {str(t.dtype).rpartition(".")[2] for t in [loss, *model.parameters(), *state]}

    assert run(ndgrad) == run(torch) == {"float32"}
