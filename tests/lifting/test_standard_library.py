"""Python's own modules in lifted code: math over sequences, statistics, dataclasses, object arrays, NumPy's scalar classes."""

from __future__ import annotations

import dataclasses
import math
import statistics
from statistics import fmean

import numpy as np
import pytest

import ndgrad
import ndgrad.numpy as dnp
from ndgrad.func import grad

X = np.array([1.3, 2.1, 0.7])


def differences(f, x, step=1e-6):
    return np.array([(f(x + step * e) - f(x - step * e)) / (2 * step) for e in np.eye(len(x))])


OTHER = [1.0, 5.0, 2.0]
FUNCTIONS = {
    "fsum": lambda v: math.fsum(v * v),
    "fsum of a generator": lambda v: math.fsum(x * x for x in v),
    "prod": lambda v: math.prod(v),
    "prod of a list": lambda v: math.prod([v[0], 2.0, v[1]], start=3.0),
    "dist": lambda v: math.dist(v, OTHER),
    "mean": lambda v: statistics.mean(v) * 2,
    "fmean": lambda v: fmean(v, weights=OTHER),
    "geometric": lambda v: statistics.geometric_mean(v),
    "harmonic": lambda v: statistics.harmonic_mean(v, weights=OTHER),
    "variance": lambda v: statistics.variance(v) + statistics.pvariance(list(v)),
    "deviation": lambda v: statistics.stdev(v) + statistics.pstdev(x * x for x in v),
    "about a centre": lambda v: statistics.variance(v, statistics.mean(v)),
    "covariance": lambda v: statistics.covariance(v, OTHER),
    "correlation": lambda v: statistics.correlation(v, OTHER),
    "regression": lambda v: statistics.linear_regression(OTHER, v).slope + statistics.linear_regression(v, OTHER).intercept,
    "median": lambda v: statistics.median(v) ** 2,
    "float64": lambda v: np.float64(v[0]) * np.double(v[1]) + np.float64(3.0) * np.sum(np.float64(v)),
    "complex128": lambda v: abs(np.complex128(v[0]) + 1j * v[1]) ** 2,
    "fields": lambda v: fields(v),
    "objects": lambda v: objects(v),
    "ragged": lambda v: np.array([v[0], v[1:] ** 2], dtype=object)[1].sum() + np.array([v, v * v], dtype=object)[1, 2],
}


@dataclasses.dataclass
class Point:
    x: float
    rest: dict


def fields(v):
    point = Point(v[0] ** 2, {"a": [v[1], Point(v[2], {})]})
    d = dataclasses.asdict(point)
    t = dataclasses.astuple(point)
    return d["x"] + d["rest"]["a"][1]["x"] * 3 + t[0] * t[1]["a"][0]


def objects(v):
    o = np.empty(3, dtype=object)
    for i in range(3):
        o[i] = v[i] * i
    return (o * 2).sum()


@pytest.mark.parametrize("name", list(FUNCTIONS))
def test_lifted_functions_have_the_derivative_of_the_original(name):
    f = FUNCTIONS[name]
    found = grad(ndgrad.lift(f))(dnp.array(X))
    np.testing.assert_allclose(np.asarray(found), differences(f, X), rtol=1e-6, atol=1e-8)


def test_constants_are_pythons_own():
    def f():
        return (
            statistics.mean([1, 2]),
            math.prod([2, 3]),
            np.float64(2.0),
            dataclasses.asdict(Point(1.0, {})),
            type(statistics.fmean([1.0])),
        )

    assert ndgrad.lift(f)() == f()
    assert type(ndgrad.lift(f)()[2]) is dnp.Array  # at the border, as all numbers of NumPy


def test_classes_of_scalars_are_what_they_were():
    def f(v):
        x = v[0]
        return (
            isinstance(x, np.float64),
            isinstance(x, np.floating),
            type(x) is np.float64,
            np.zeros(2, np.float64).dtype == np.float64,
            np.dtype(np.float64).name,
        )

    assert ndgrad.lift(f)(dnp.array(X).requires_grad_()) == (True, True, True, True, "float64")
    assert f(X) == (True, True, True, True, "float64")


def test_errors_are_pythons_own():
    x = dnp.array(X).requires_grad_()
    with pytest.raises(statistics.StatisticsError):
        ndgrad.lift(lambda v: statistics.variance(v[:1]))(x)
    with pytest.raises(ValueError, match="dimension"):
        ndgrad.lift(lambda v: math.dist(v, [1.0]))(x)
    with pytest.raises(TypeError, match="dataclass"):
        ndgrad.lift(lambda v: dataclasses.asdict(v))(x)
    with pytest.raises(TypeError, match="ranks|method"):
        ndgrad.lift(lambda v: statistics.correlation(v, OTHER, method="ranked"))(x)
