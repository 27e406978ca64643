"""Samples of arithmetic ops."""

from __future__ import annotations

import operator

import numpy as np

from ndgrad.testing.op_checks import Sample

r = np.random.default_rng(1)
A, B, ROW = r.standard_normal((3, 4)) + 3, r.standard_normal((3, 4)) + 3, r.standard_normal(4) + 3
POSITIVE = r.uniform(0.5, 2, (3, 4))
Z, W = A + 1j * B, B - 2j * A
SCALAR, EMPTY = np.float64(1.5), np.empty((0, 3))
INTEGERS = np.array([[7, -7, 3], [9, -9, 4]])
DIVISORS = np.array([2, -3, 4])


def binary(reference):
    return [*real_binary(reference), Sample((Z, W), reference=reference), Sample((A, W), reference=reference)]


def real_binary(reference, **settings):
    return [
        Sample((A, B), settings, reference),
        Sample((A, ROW), settings, reference),
        Sample((ROW, B), settings, reference),
        Sample((A, 2.5), settings, reference),
        Sample((A, SCALAR), settings, reference),
        Sample((SCALAR, np.float64(0.7)), settings, reference),
        Sample((EMPTY, EMPTY), settings, reference),
    ]


def unary(reference, x=A, z=None, **settings):
    found = [
        Sample((x,), settings, reference),
        Sample((x[1, 2],), settings, reference),
        Sample((x.T,), settings, reference),
        Sample((EMPTY,), settings, reference),
    ]
    return found if z is None else [*found, Sample((z,), settings, reference), Sample((z[0, 0],), settings, reference)]


def trunc_divide(x, y):
    quotient = np.trunc(np.true_divide(x, y))
    return quotient.astype(np.result_type(x, y))


def addcmul(x, tensor1, tensor2, value=1):
    return x + value * tensor1 * tensor2


def addcdiv(x, tensor1, tensor2, value=1):
    return x + value * tensor1 / tensor2


def lerp(x, end, weight):
    return x * (1 - weight) + end * weight


def three(reference):
    return [
        Sample((A, B, POSITIVE), {}, reference),
        Sample((A, ROW, POSITIVE), {"value": -0.5}, reference),
        Sample((ROW, A, B), {"value": 2}, reference),
        Sample((A, B, 2.0), {"value": 0.25}, reference),
        Sample((Z, W, Z), {"value": 3.0}, reference),
        Sample((EMPTY, EMPTY, EMPTY), {}, reference),
    ]


SAMPLES = {
    "add": binary(operator.add),
    "sub": binary(operator.sub),
    "mul": binary(operator.mul),
    "div": [*binary(operator.truediv), Sample((2.5, A), reference=operator.truediv)],
    "neg": unary(operator.neg, z=Z),
    "reciprocal": [*unary(lambda x: 1 / x, z=Z), Sample((INTEGERS,), reference=lambda x: 1 / x)],
    "floor_divide": [
        *real_binary(np.floor_divide), Sample((-A, B), reference=np.floor_divide), Sample((INTEGERS, DIVISORS), reference=np.floor_divide),
    ],
    "trunc_divide": [
        *real_binary(trunc_divide), Sample((-A, B), reference=trunc_divide), Sample((INTEGERS, DIVISORS), reference=trunc_divide),
    ],
    "remainder": [
        *real_binary(np.remainder), Sample((-A, B), reference=np.remainder), Sample((INTEGERS, DIVISORS), reference=np.remainder),
        Sample((7.5, B), reference=np.remainder),
    ],
    "fmod": [
        *real_binary(np.fmod), Sample((-A, B), reference=np.fmod), Sample((INTEGERS, DIVISORS), reference=np.fmod),
        Sample((7.5, B), reference=np.fmod),
    ],
    "pow": [
        *binary(operator.pow),
        *(Sample((A, exponent), reference=operator.pow) for exponent in (0, 1, 2, 3, 4.0, 5, -1, -2, 0.5, -0.5, -1.5)),
        *(Sample((Z, exponent), reference=operator.pow) for exponent in (2, 3, -2, 0.5, 1.5 + 0.5j)),
        Sample((POSITIVE, np.array([[0.0, 1.0, 2.0, 3.0]])), reference=operator.pow, smooth=False),
        Sample((2.0, A), reference=operator.pow),
        Sample((0.5 + 1j, A), reference=operator.pow),
        Sample((0.0, A), reference=operator.pow),
        Sample((2.0, Z), reference=operator.pow),
        Sample((-2.0, Z), reference=lambda x, exponent: (x + 0j) ** exponent),
        Sample((INTEGERS, np.array([2, 3, 0])), reference=operator.pow),
    ],
    "square": unary(lambda x: x * x, z=Z),
    "sqrt": unary(lambda x: x**0.5, POSITIVE, Z),
    "rsqrt": unary(lambda x: x**-0.5, POSITIVE, Z),
    "cbrt": [*unary(lambda x: x ** (1 / 3), POSITIVE), Sample((-POSITIVE,), reference=np.cbrt)],
    "ldexp": [
        Sample((A, DIVISORS[:, None]), reference=np.ldexp),
        Sample((A, 3), reference=np.ldexp),
        Sample((A, -0.5), reference=lambda x, y: x * 2**y),
        Sample((A, B), reference=lambda x, y: x * 2**y),
        Sample((ROW, B), reference=lambda x, y: x * 2**y),
    ],
    "addcmul": three(addcmul),
    "addcdiv": three(addcdiv),
    "lerp": [
        Sample((A, B, 0.3), reference=lerp),
        Sample((A, B, 0.75), reference=lerp),
        Sample((A, ROW, -2.0), reference=lerp),
        Sample((A, B, POSITIVE - 0.25), reference=lerp),
        Sample((ROW, A, np.float64(0.25)), reference=lerp),
        Sample((Z, W, 0.3), reference=lerp),
        Sample((EMPTY, EMPTY, EMPTY), reference=lerp),
    ],
}  # fmt: skip
