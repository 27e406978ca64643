"""Samples of comparisons, tests and logic."""

from __future__ import annotations

import numpy as np

from ndgrad.testing.op_checks import Sample

X = np.array([[1.0, 2.0, np.nan, np.inf], [-1.0, 0.0, 2.0, -np.inf]])
Y = np.array([[1.0, 1.0, 1.0, np.inf], [2.0, -0.0, np.nan, 0.0]])
Z = np.array([1 + 1j, 2 + 0j, complex(np.nan, 0), complex(0, np.inf)])
EMPTY = np.empty((0, 3))
ONE, TWO = np.float64(1.0), np.float64(2.0)
BITS = np.array([True, False, True])


def each(f):
    """Apply a Python function of elements to arrays."""
    return np.vectorize(f, otypes=[bool])


def pairs(f):
    return [Sample(args, reference=each(f)) for args in ((X, Y), (X, Y[0]), (X, 1.0), (ONE, TWO), (np.arange(4), X), (EMPTY, EMPTY))]


def tests(f, *more):
    return [Sample((x,), reference=each(f)) for x in (X, ONE, EMPTY, np.arange(3), *more)]


def close(x, y, rtol=1e-05, atol=1e-08, equal_nan=False):
    def one(a, b):
        if a != a or b != b:
            return equal_nan and a != a and b != b
        return a == b or (abs(a - b) <= atol + rtol * abs(b) and abs(b) != np.inf)

    return np.vectorize(one, otypes=[bool])(x, y)


def infinite(v):
    return v.real in (np.inf, -np.inf) or v.imag in (np.inf, -np.inf)


SAMPLES = {
    "eq": [*pairs(lambda a, b: a == b), Sample((Z, Z[::-1]), reference=each(lambda a, b: a == b))],
    "ne": [*pairs(lambda a, b: a != b), Sample((Z, Z[::-1]), reference=each(lambda a, b: a != b))],
    "lt": pairs(lambda a, b: a < b),
    "le": pairs(lambda a, b: a <= b),
    "gt": pairs(lambda a, b: a > b),
    "ge": pairs(lambda a, b: a >= b),
    "isclose": [
        Sample((X, Y), {}, close),
        Sample((X, X), {"equal_nan": True}, close),
        Sample((X, X), {}, close),
        Sample((np.array([1.0, 1.1, 2.0]), np.array([1.05, 1.0, 1.0])), {"rtol": 0.0, "atol": 0.075}, close),
        Sample((np.array([1.0, 10.0]), np.array([1.1, 10.1])), {"rtol": 0.02, "atol": 0.0}, close),
    ],
    "isnan": tests(lambda v: v != v, Z),
    "isinf": tests(infinite, Z),
    "isfinite": tests(lambda v: v == v and not infinite(v), Z),
    "isposinf": tests(lambda v: v == float("inf")),
    "isneginf": tests(lambda v: v == -float("inf")),
    "isreal": tests(lambda v: v.imag == 0, Z),
    "signbit": [
        Sample((np.array([1.0, -1.0, 0.0, -0.0, -np.inf]),), reference=lambda x: (np.copysign(1.0, x) < 0)),
        Sample((ONE,), reference=lambda x: np.False_),
    ],
    "logical_and": [*pairs(lambda a, b: bool(a) and bool(b)), Sample((BITS, ~BITS), reference=each(lambda a, b: a and b))],
    "logical_or": [*pairs(lambda a, b: bool(a) or bool(b)), Sample((BITS, ~BITS), reference=each(lambda a, b: a or b))],
    "logical_xor": [*pairs(lambda a, b: bool(a) != bool(b)), Sample((BITS, BITS), reference=each(lambda a, b: a != b))],
    "logical_not": tests(lambda v: not v, BITS, Z),
}
