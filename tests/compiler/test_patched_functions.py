"""Functions of `math`, `min` and `max` in traced functions, and outside of traces."""

from __future__ import annotations

import builtins
import math
from math import cos as cosine
from typing import Any

import pytest

import ndgrad
from ndgrad._src.compiler.capture.number_placeholders import MATH


class State:
    k: Any = 1.0


holder = State()


@pytest.fixture(autouse=True)
def on_numpy(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("NDGRAD_COMPILE_REPLAY", "1")


NUMBERS = {
    "acos": 0.3, "asin": 0.3, "atanh": 0.3, "acosh": 1.5, "floor": 2.7, "ceil": 2.2, "trunc": -2.5, "gamma": 3.3, "lgamma": 3.3,
}  # fmt: skip
TWO = {"atan2", "copysign", "fmod", "hypot", "nextafter", "pow", "remainder", "ldexp"}


@pytest.mark.parametrize("name", [n for n in MATH if n not in ("ldexp",)])
def test_functions_of_math_give_the_same_bits(name: str) -> None:
    more = (1.7,) if name in TWO else ()

    def of_slot(x: Any) -> Any:
        return x * 2, getattr(math, name)(holder.k, *more)

    def of_read(x: Any) -> Any:
        return x * 2, getattr(math, name)(x.sum().item(), *more)

    for f in (of_slot, of_read):
        g = ndgrad.compile(f)
        for step in range(4):
            holder.k = NUMBERS.get(name, 0.7) + step * 0.01
            x = ndgrad.tensor([holder.k], dtype=ndgrad.float64)
            a, b = g(x)[1], f(x)[1]
            assert (type(a), repr(a)) == (type(b), repr(b))
        assert g.entries[-1].specialisation is not None


def test_functions_that_are_held_by_name() -> None:
    chosen = {"f": math.sqrt}
    f = lambda x: x * cosine(holder.k) * chosen["f"](holder.k)
    g = ndgrad.compile(f)
    for k in (1.0, 2.0, 3.0, 4.0):
        holder.k = k
        assert g(ndgrad.ones(1)).item() == f(ndgrad.ones(1)).item()
    assert g.traces == 2
    chosen["f"] = math.exp
    assert g(ndgrad.ones(1)).item() == f(ndgrad.ones(1)).item()
    assert (cosine, chosen["f"]) == (math.cos, math.exp)


def test_functions_that_are_compared_by_identity() -> None:
    fixed = (math.sin, math.tanh)
    kept: dict[str, Any] = {}

    def f(x: Any) -> Any:
        y = x * math.sin(holder.k) if fixed[0] is math.sin else x
        kept["f"] = math.cos
        return y * 2 if cosine is math.cos and kept["f"] is math.cos else y

    g = ndgrad.compile(f)
    for k in (1.0, 2.0, 3.0, 4.0):
        holder.k = k
        assert g(ndgrad.ones(1)).item() == f(ndgrad.ones(1)).item()
        assert kept["f"] is math.cos


def test_they_are_pythons_own_outside_of_traces() -> None:
    def f(x: Any) -> Any:
        raise ValueError

    before = math.cos, builtins.min, builtins.max, builtins.print
    for broken in (f, lambda x: x * math.cos(holder.k)):
        ndgrad.compiler.explain(broken, ndgrad.ones(1))
        assert (math.cos, builtins.min, builtins.max, builtins.print) == before
        assert type(math.cos) is type(math.dist)


def test_a_sum_of_numbers_from_outside_has_the_bits_of_python() -> None:
    """From Python 3.12 on, `sum` compensates rounding errors; single additions do not."""
    name, terms = "sqrt", [0.1] * 3 + [1e16, 1.0, -1e16]

    def of_slots(x: Any) -> Any:
        scale = getattr(math, name)(4.0)  # a name lookup while `sum` is replaced
        return x * (sum(terms) * scale), sum(terms), sum(terms, start=2.5)

    def of_read(x: Any) -> Any:
        return x * 2, sum([x[0].item(), *terms]), sum((x[0].item(), 1.5), 0.25)

    for f in (of_slots, of_read):
        g = ndgrad.compile(f)
        for step in range(6):
            terms[0] = 0.1 + step / 7
            x = ndgrad.tensor([0.3 + step, 2.0], dtype=ndgrad.float64)
            found, expected = g(x), f(x)
            assert found[0].tolist() == expected[0].tolist()
            assert list(map(repr, found[1:])) == list(map(repr, expected[1:]))
