"""testing.assert_close and make_tensor: which pairs pass, and which calls are refused, as in torch."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
import torch

import ndgrad
import ndgrad.testing
from tests.torch_parity.outcomes import compare, outcome

NAN, INF = float("nan"), float("inf")


def pairs(m: Any) -> dict[str, tuple[Any, Any, dict[str, Any]]]:
    t = m.tensor
    single, double = m.float32, m.float64
    return {
        "equal": (t([1.0, 2.0]), t([1.0, 2.0]), {}),
        "different": (t([1.0, 2.0, 3.0]), t([1.0, 2.5, 3.0]), {}),
        "within the default of double precision": (t([1.0]), t([1.0 + 1.5e-7]), {}),
        "beyond the default of double precision": (t([1.0]), t([1.0 + 2.5e-7]), {}),
        "within the default of single precision": (t([1.0], dtype=single), t([1.00001], dtype=single), {}),
        "beyond the default of single precision": (t([1.0], dtype=single), t([1.00003], dtype=single), {}),
        "exactly": (t([1.0]), t([1.0 + 1e-12]), {"rtol": 0, "atol": 0}),
        "wide": (t([1.0]), t([2.0]), {"rtol": 0, "atol": 1.5}),
        "relative to the expected": (t([1.0]), t([2.0]), {"rtol": 0.5, "atol": 0}),
        "relative to the expected, turned": (t([2.0]), t([1.0]), {"rtol": 0.5, "atol": 0}),
        "no dimensions": (t(1.0), t(2.0), {}),
        "integers": (t([1, 2]), t([1, 3]), {}),
        "integers with tolerance": (t([1, 2]), t([1, 3]), {"rtol": 0, "atol": 1}),
        "truth values": (t([True]), t([False]), {}),
        "equal truth values": (t([True]), t([True]), {}),
        "complex": (t([1 + 1j]), t([1 + 2j]), {}),
        "numbers": (1.0, 1.1, {}),
        "equal numbers": (1.5, 1.5, {}),
        "complex numbers": (1 + 1j, 1 + 2j, {}),
        "an int and a float": (1, 1.0, {}),
        "an int and a float, of any type": (1, 1.0, {"check_dtype": False}),
        "an int and a float that differ": (5, 5.5, {"check_dtype": False}),
        "a bool and a bool": (True, True, {}),
        "two bools": (True, False, {}),
        "a tensor and a number": (t(1.0), 1.0, {}),
        "dtypes": (t([1.0], dtype=single), t([1.0], dtype=double), {}),
        "any dtypes": (t([1.0], dtype=single), t([1.0], dtype=double), {"check_dtype": False}),
        "any dtypes that differ": (t([1], dtype=m.int64), t([1.5]), {"check_dtype": False}),
        "shapes": (t([1.0]), t([1.0, 1.0]), {}),
        "shapes that broadcast": (t([[1.0]]), t([1.0]), {}),
        "no dimensions and one": (t(1.0), t([1.0]), {}),
        "strides": (m.ones(2, 3), m.ones(3, 2).t(), {}),
        "strides that count": (m.ones(2, 3), m.ones(3, 2).t(), {"check_stride": True}),
        "not a number": (t([NAN]), t([NAN]), {}),
        "not a number, equal": (t([NAN]), t([NAN]), {"equal_nan": True}),
        "not a number, once": (t([NAN]), t([1.0]), {"equal_nan": True}),
        "infinite": (t([INF]), t([INF]), {}),
        "infinite both ways": (t([INF]), t([-INF]), {}),
        "infinite once": (t([1.0]), t([INF]), {}),
        "one tolerance": (t([1.0]), t([1.0]), {"rtol": 1e-3}),
        "negative tolerance": (t([1.0]), t([1.0]), {"rtol": -1.0, "atol": 0.0}),
        "lists": ([t([1.0]), t([2.0])], [t([1.0]), t([3.0])], {}),
        "a list and a tuple": ([t([1.0])], (t([1.0]),), {}),
        "lengths": ([t([1.0])], [t([1.0]), t([1.0])], {}),
        "mappings": ({"a": t([1.0])}, {"a": t([2.0])}, {}),
        "mappings in another order": ({"a": 1, "b": 2}, {"b": 2, "a": 1}, {}),
        "keys": ({"a": t([1.0])}, {"b": t([1.0])}, {}),
        "nested": ({"a": [t([1.0]), {"b": t([2.0])}]}, {"a": [t([1.0]), {"b": t([3.0])}]}, {}),
        "empty lists": ([], [], {}),
        "strings": ("a", "a", {}),
        "strings in a list": (["a"], ["a"], {}),
        "sets": ({1}, {1}, {}),
        "none": (None, None, {}),
        "none and a tensor": (None, t([1.0]), {}),
        "a list and a tensor": ([t([1.0])], t([1.0]), {}),
        "arrays": (np.ones(2), np.ones(2), {}),
        "arrays that differ": (np.ones(2), np.zeros(2), {}),
        "an array and a tensor": (np.ones(1), t([1.0]), {}),
        "NumPy's numbers": (np.float64(1), np.float64(1), {}),
        "with a graph": (m.ones(1, requires_grad=True), m.ones(1), {}),
        "without data": (m.ones(1, device="meta"), m.ones(1), {}),
        "empty": (m.ones(0, 3), m.ones(0, 3), {}),
    }  # fmt: skip


NAMES = list(pairs(ndgrad))


@pytest.mark.parametrize("name", NAMES)
def test_pair(name):
    def program(m: Any) -> Any:
        actual, expected, options = pairs(m)[name]
        return m.testing.assert_close(actual, expected, **options)

    compare(program)


@pytest.mark.parametrize("allow", [True, False])
def test_subclasses(allow):
    def program(m: Any) -> Any:
        special = type("Special", (m.Tensor,), {})
        return m.testing.assert_close(m.ones(1).as_subclass(special), m.ones(1), allow_subclasses=allow)

    compare(program)


CALLS: dict[str, Any] = {
    "shape as ints": lambda m: list(m.testing.make_tensor(2, 3, dtype=m.float64, device="cpu").shape),
    "shape as a tuple": lambda m: list(m.testing.make_tensor((2, 3), dtype=m.float64, device="cpu").shape),
    "no shape": lambda m: list(m.testing.make_tensor((), dtype=m.float64, device="cpu").shape),
    "interval the wrong way round": lambda m: m.testing.make_tensor(3, dtype=m.float64, device="cpu", low=3, high=2),
    "interval of one number": lambda m: m.testing.make_tensor(3, dtype=m.float64, device="cpu", low=2, high=2),
    "interval of no integer": lambda m: m.testing.make_tensor(3, dtype=m.int64, device="cpu", low=2, high=2),
    "interval of NaN": lambda m: m.testing.make_tensor(3, dtype=m.float64, device="cpu", low=NAN),
    "interval outside the dtype": lambda m: m.testing.make_tensor(3, dtype=m.bool, device="cpu", low=2, high=5),
    "strided": lambda m: m.testing.make_tensor((2, 3), dtype=m.float64, device="cpu", noncontiguous=True).stride(),
    "strided and ordered": lambda m: m.testing.make_tensor(
        (2, 3, 4, 4), dtype=m.float64, device="cpu", noncontiguous=True, memory_format=m.channels_last
    ),
    "integers with gradients": lambda m: m.testing.make_tensor(3, dtype=m.int64, device="cpu", requires_grad=True),
    "gradients": lambda m: m.testing.make_tensor(3, dtype=m.float64, device="cpu", requires_grad=True).is_leaf,
}


@pytest.mark.parametrize("name", CALLS)
def test_make_tensor(name):
    compare(CALLS[name])


def test_intervals_are_torchs():
    def bounds(m: Any) -> Any:
        found = []
        for dtype in (m.float32, m.int64, m.uint8, m.int8, m.bool):
            t = m.testing.make_tensor(4000, dtype=dtype, device="cpu")
            found.append([round(float(t.min()), 1), round(float(t.max()), 1)])
        return found

    assert outcome(bounds, torch) == outcome(bounds, ndgrad)
