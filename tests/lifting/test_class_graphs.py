"""Lifted classes in programs that compare, register and look up classes and objects."""

from __future__ import annotations

import abc
import operator
from typing import Any, ClassVar, NamedTuple

import numpy as np
import pytest

import ndgrad
import ndgrad.numpy as dnp


def slope(f: Any, x: float, **options: Any) -> float:
    return float(ndgrad.func.grad(ndgrad.lift(f, **options))(dnp.array(x)))


# ----- registries of classes ------------------------------------------------------------------------------------------


class Registered(abc.ABC):  # noqa: B024  # a registry alone
    """A base that knows its subclasses, as plug-ins do."""

    kinds: ClassVar[list[type]] = []

    def __init_subclass__(cls) -> None:
        Registered.kinds.append(cls)


class Model(Registered):
    @abc.abstractmethod
    def value(self, x: Any) -> Any: ...


class Linear(Registered):
    def value(self, x: Any) -> Any:
        return np.array([x, 2.0 * x]).sum()


class Gaussian(Model):
    def width(self) -> float:
        return 0.5


class LinearGaussian(Linear, Gaussian):
    def width(self) -> float:
        return 0.25


def test_a_base_that_registers_its_subclasses_keeps_the_order_of_methods() -> None:
    assert slope(lambda x: LinearGaussian().value(x) * LinearGaussian().width(), 1.5) == 0.75


class Planar: ...


class Spatial: ...


_TABLE = {(Planar, Planar): lambda x: x * x, (Planar, Spatial): lambda x: np.sin(x)}


def test_tables_with_classes_as_keys_find_lifted_classes() -> None:
    assert slope(lambda x: _TABLE[Planar, Spatial](x) + _TABLE[type(Planar()), Planar](x), 0.5) == pytest.approx(
        np.cos(0.5) + 1.0
    )


# ----- objects that are compared by identity --------------------------------------------------------------------------


class Unit:
    """A unit whose decomposition is kept, and compared by identity."""

    def __init__(self, name: str, parts: Any = None, scale: float = 1.0) -> None:
        self.name, self.parts, self.scale, self.known = name, parts, scale, None

    def decomposed(self) -> Any:
        if self.known is None:
            self.known = Composite(self.parts or [self], self.scale)
        return self.known

    def to(self, other: Any, value: Any) -> Any:
        ours, theirs = self.decomposed(), other.decomposed()
        assert all(map(operator.is_, ours.parts, theirs.parts))
        return value * ours.scale / theirs.scale


class Composite:
    def __init__(self, parts: list[Any], scale: float) -> None:
        self.parts, self.scale = parts, scale


METRE = Unit("m")
KILOMETRE = Unit("km", [METRE], 1000.0)


def test_objects_in_a_cache_are_the_same_in_the_next_call() -> None:
    lifted = ndgrad.lift(lambda x: KILOMETRE.to(METRE, x))
    for _ in range(2):
        assert float(ndgrad.func.grad(lifted)(dnp.array(2.0))) == 1000.0


class Marker:
    def __init__(self, name: str) -> None:
        self.name = name


START = Marker("start")


class Step(NamedTuple):
    mark: Marker
    function: Any


class Route:
    def __init__(self) -> None:
        self.steps = {"a": [Step(START, lambda x: np.array([x, x * x]).sum())]}


ROUTE = Route()


def test_markers_and_functions_in_nested_tables_are_found() -> None:
    def f(x: Any) -> Any:
        step = ROUTE.steps["a"][0]
        return step.function(x) if step.mark is START else 0.0 * x

    assert slope(f, 1.5) == 4.0


class Quantity:
    """Division of a number by a quantity assumes that the left operand is a number, as Python promises."""

    def __init__(self, value: Any, power: int = 1) -> None:
        self.value, self.power = value, power

    def __truediv__(self, other: Any) -> Any:
        other = other if isinstance(other, Quantity) else Quantity(other, 0)
        return Quantity(self.value / other.value, self.power - other.power)

    def __rtruediv__(self, other: Any) -> Any:
        return Quantity(other / self.value, -self.power)


REFERENCE = Quantity(2.0)


def _quotient(x: Any, left: Any) -> Any:
    made = left / REFERENCE
    return made.value * x if made.power == 0 else 0.0 * x


def test_the_left_operand_comes_first_if_both_are_of_one_class() -> None:
    """The left operand is made by plain code, the right one is lifted."""
    kept = [Quantity(3.0)]
    assert slope(lambda x: _quotient(x, next(iter(kept))), 1.0) == 1.5


# ----- subclasses of ndarray ------------------------------------------------------------------------------------------


class Labelled:
    def label(self) -> str:
        return f"{len(self)} values"  # type: ignore[arg-type]  # of an array


class Vector(np.ndarray, Labelled):
    def __new__(cls, values: Any) -> Any:
        return np.asarray(values, float).view(cls)

    def __array_finalize__(self, obj: Any) -> None:
        self.dimension = self.size


def test_functions_that_keep_subclasses_keep_lifted_ones() -> None:
    def f(x: Any) -> Any:
        v = Vector([x, 2.0 * x])
        kinds = [
            np.asanyarray(v, dtype=float), np.array(v, subok=True), np.zeros_like(v), np.atleast_2d(v), v.ravel(),
            np.cumsum(v), v.clip(0.0, 9.0), np.expand_dims(v, 0), np.broadcast_to(v, (3, 2), subok=True),
        ]  # fmt: skip
        assert all(isinstance(k, Vector) for k in kinds), kinds
        assert not isinstance(np.asarray(v), Vector)
        assert v.label() == "2 values"
        return np.linalg.norm(v) * v.dimension

    assert slope(f, 1.0) == pytest.approx(2 * 5**0.5)


# ----- code without a module ------------------------------------------------------------------------------------------


def test_functions_made_by_exec_are_lifted() -> None:
    space: dict[str, Any] = {"array": np.array, "cos": np.cos}
    exec("def generated(x):\n    return array([[x, cos(x)], [0.0, 1.0]])", space)
    generated = space["generated"]
    assert slope(lambda x: generated(x).sum(), 0.5) == pytest.approx(1 - np.sin(0.5))
