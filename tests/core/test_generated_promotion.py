"""Generated functions of ops agree with the complete path where dtypes differ, or numbers take part."""

from __future__ import annotations

import itertools
from typing import Any

import numpy as np
import pytest

import ndgrad
from ndgrad._src.core.dispatch import dispatch
from ndgrad._src.ops import arithmetic, selection
from ndgrad._src.ops.table import Op

DTYPES = [np.float32, np.float64, np.float16, np.int64, np.bool_]


def operands() -> list[Any]:
    arrays = [np.ones(shape, dtype) for dtype in DTYPES for shape in [(3,), ()]]
    return [*[ndgrad.from_numpy(a) if a.ndim else ndgrad.tensor(a) for a in arrays], 2, 1.5]


def assert_same_as_dispatch(op: Op, *args: Any) -> None:
    def run(function: Any) -> Any:
        try:
            found = function()
        except (TypeError, RuntimeError, ValueError) as error:
            return type(error), None
        return found.dtype, found.detach().numpy().tolist()

    assert run(lambda: op.eager(*args)) == run(lambda: dispatch(op, args, {}))


@pytest.mark.parametrize("op", [arithmetic.mul, arithmetic.add, arithmetic.div, selection.maximum], ids=lambda op: op.name)
def test_ops_of_two_operands_of_all_kinds(op: Op) -> None:
    for x, y in itertools.product(operands(), repeat=2):
        if isinstance(x, ndgrad.Tensor):
            assert_same_as_dispatch(op, x, y)


def test_where_of_all_kinds_of_operands() -> None:
    condition = ndgrad.tensor([True, False, True])
    for x, y in itertools.product(operands(), repeat=2):
        assert_same_as_dispatch(selection.where, condition, x, y)


def test_gradients_beside_a_bool_operand_and_a_number() -> None:
    x = ndgrad.tensor([1.0, 2.0, 3.0], requires_grad=True)
    mask = ndgrad.tensor([True, False, True])
    for out, expected in [
        (x * mask, [1.0, 0.0, 1.0]),
        (ndgrad.where(mask, x, 0.0), [1.0, 0.0, 1.0]),
        (ndgrad.where(mask, 0.0, x), [0.0, 1.0, 0.0]),
        (ndgrad.where(mask, x, -x), [1.0, -1.0, 1.0]),
    ]:
        (gradient,) = ndgrad.autograd.grad(out.sum(), x)
        assert gradient.tolist() == expected
        assert gradient.dtype == x.dtype
