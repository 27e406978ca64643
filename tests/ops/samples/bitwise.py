"""Samples of ops of integers."""

from __future__ import annotations

import math
import operator

import numpy as np

from ndgrad.testing.op_checks import Sample

X, Y = np.array([[5, -3, 12], [7, 0, 255]]), np.array([3, 6, -1])
SMALL = np.array([200, 7, 90], np.uint8)
BITS = np.array([True, False, True])
SHIFTS = np.array([0, 3, 5])


def each(f):
    """Apply a Python function of ints to arrays."""

    def reference(x, *other):
        dtype = np.result_type(x, *other)
        return np.vectorize(lambda *v: f(*(int(a) for a in v)), otypes=[dtype])(x, *other)

    return reference


def pairs(f):
    return [Sample(args, reference=each(f)) for args in ((X, Y), (X, 6), (SMALL, SMALL[::-1]), (np.int64(5), np.int64(6)), (BITS, ~BITS))]


def divisors(f):
    return [Sample(args, reference=each(f)) for args in ((X, Y), (X, 6), (SMALL // 20, SMALL[::-1] // 20), (np.int64(5), np.int64(6)))]


SAMPLES = {
    "bitwise_and": pairs(operator.and_),
    "bitwise_or": pairs(operator.or_),
    "bitwise_xor": pairs(operator.xor),
    "bitwise_not": [
        Sample((X,), reference=lambda x: -x - 1),
        Sample((SMALL,), reference=lambda x: 255 - x),
        Sample((BITS,), reference=lambda x: x == False),  # noqa: E712
        Sample((np.int64(5),), reference=lambda x: -x - 1),
    ],
    "gcd": divisors(math.gcd),
    "lcm": divisors(math.lcm),
    "bitwise_left_shift": [Sample((X, SHIFTS), reference=lambda x, y: x * 2**y), Sample((X, 2), reference=lambda x, y: x * 4)],
    "bitwise_right_shift": [Sample((X, SHIFTS), reference=lambda x, y: x // 2**y), Sample((X, 2), reference=lambda x, y: x // 4)],
}
