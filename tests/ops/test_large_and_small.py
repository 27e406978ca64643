"""Elementwise ops at special values, on few and on many elements: native kernels for large arrays give the same
results.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import ndgrad
from ndgrad._src.arrays import native_kernels
from ndgrad._src.ops.table import table
from tests.examples import in_a_long_run
from tests.op_programs import SAMPLES

pytest.importorskip("llvmlite")

#: Parts of other rules, masks and orders: not functions of two arbitrary numbers.
APART = frozenset(["resolved_quotient", "native_dropout", "masked_fill", "copy"])
#: Ops whose derivatives are differences of digamma, which has no digits left one unit in the last place from a pole.
AT_POLES = frozenset(["betaln", "poch", "binom"])


def functions() -> list[str]:
    found = []
    for name in SAMPLES:
        op = table[name]
        plain = op.elementwise and op.differentiable and op.outputs == 1 and len(op.args) <= 2
        named = {"k", "mask", "v"} & set(op.args)
        if plain and not named and name not in APART | AT_POLES and all(s is not None for s in op.settings.values()):
            found.append(name)
    return sorted(found)


def cases() -> list[tuple[str, Any]]:
    """Return each function in both dtypes. A short run takes one dtype for each, alternating."""
    return [
        (name, dtype)
        for number, name in enumerate(functions())
        for place, dtype in enumerate([np.float64, np.float32])
        if in_a_long_run() or number % 2 == place
    ]


#: The factor by which ops magnify a rounding of the logarithms that they contain.
ENLARGES = {
    "binary_cross_entropy": lambda x, y: np.abs(y),
    "gamma_shape_ratio": lambda a, x: np.abs(a * np.log(np.abs(x))),
}


def special(dtype: Any) -> Any:
    limits = np.finfo(dtype)
    ends = [limits.tiny, limits.smallest_subnormal, limits.max, limits.eps]
    numbers = [0.0, 0.5, 1.0, 2.0, 3.7, 30.0, 100.0, 1e4, 1e30, 1e-30, np.inf, *ends]
    return np.array([*numbers, *(-n for n in numbers), np.nan], dtype)


def run(name: str, arrays: list[Any]) -> list[Any]:
    """Return the value and the gradients."""
    op = table[name]
    tensors = [ndgrad.tensor(a, requires_grad=True) for a in arrays]
    made = op(*tensors, **op.settings)
    if made.requires_grad:
        made.backward(ndgrad.ones_like(made))
    return [made.detach().numpy(), *(t.grad.numpy() for t in tensors if t.grad is not None)]


@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize(("name", "dtype"), cases())
def test_many_elements_are_what_few_are(name: str, dtype: Any) -> None:
    x = special(dtype)
    arrays = [x] if len(table[name].args) == 1 else [a.ravel() for a in np.meshgrid(x, x)]
    times = -(-native_kernels.SMALLEST // arrays[0].size)
    with np.errstate(all="ignore"):
        try:
            few = run(name, arrays)
        except (TypeError, RuntimeError):  # the function does not exist for such floats
            return
        many = run(name, [np.tile(a, times) for a in arrays])
        for one, other in zip(few, many, strict=True):
            part = other[: one.size]
            size = np.maximum(1.0, np.abs(one))
            if name in ENLARGES:
                size *= 1 + np.nan_to_num(ENLARGES[name](*arrays), posinf=np.inf)
            close = np.abs(one - part) <= 64 * np.finfo(dtype).eps * size
            same = (one == part) | (np.isnan(one) & np.isnan(part)) | close
            assert same.all(), (tuple(a[~same][:3] for a in arrays), one[~same][:3], part[~same][:3])
