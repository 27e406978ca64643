"""Samples of rounding, signs and steps, away from the jumps."""

from __future__ import annotations

import math

import numpy as np

from ndgrad.testing.op_checks import Sample
from tests.ops.samples.arithmetic import EMPTY, INTEGERS, unary

X = np.array([[1.3, -2.6, 0.4, -0.7], [12.345, -7.2, 3.9, 5.1], [0.2, -0.3, 8.8, -9.6]])
Y = np.array([[1.0, -1.0, -2.0, 2.0], [1.5, 3.0, -0.5, -4.0], [-1.0, 1.0, 1.0, -1.0]])
JUMPS = np.array([0.0, -1.0, 2.0, 0.0])
BROKEN = np.array([[1.0, np.nan, np.inf], [-np.inf, 2.0, -3.0]])


def each(f):
    """Apply a function of Python floats to each element."""
    return lambda x, **settings: np.vectorize(lambda v: float(f(v, **settings)), otypes=[float])(x)


def nan_to_num(x, nan=0.0, posinf=None, neginf=None):
    out = np.where(np.isnan(x), nan, x)
    out = np.where(out == np.inf, np.finfo(float).max if posinf is None else posinf, out)
    return np.where(out == -np.inf, np.finfo(float).min if neginf is None else neginf, out)


def copysign(x, y):
    return np.abs(x) * np.where(np.asarray(y) < 0, -1, 1)


INFINITE = dict.fromkeys(("jvp", "vjp", "vmap"), "the sample has infinities")

LEVELS = {"quant_min": -128, "quant_max": 127}
BYTES = {"scale": 0.25, "inverse": 4.0, "zero_point": 0, **LEVELS}
JUMPING = dict.fromkeys(("jvp", "vjp"), "its gradient is that of the function without rounding, by definition")
CHANNELS = [np.array([[0.25], [0.5], [1.0]]), np.array([[4.0], [2.0], [1.0]]), np.array([[0.0], [3.0], [-7.0]])]


def fake_quantize(x, scale, inverse, zero_point, quant_min, quant_max, adds="after rounding"):
    levels = np.rint(x / scale) + zero_point if adds == "after rounding" else np.rint(x / scale + zero_point)
    levels = np.clip(np.nan_to_num(levels, nan=-np.inf, neginf=-np.inf, posinf=np.inf), quant_min, quant_max)
    return (levels - zero_point) * scale


SAMPLES = {
    "round": [
        *unary(each(round), X),
        *unary(each(lambda v, decimals: round(v, decimals)), X, decimals=1),
        Sample((X,), {"decimals": -1}, each(lambda v, decimals: round(v, decimals))),
        Sample((INTEGERS,), {}, lambda x: x),
        Sample((INTEGERS,), {"decimals": -1}, lambda x, decimals: np.array([[10, -10, 0], [10, -10, 0]])),
    ],
    "floor": [*unary(each(math.floor), X), Sample((INTEGERS,), reference=lambda x: x)],
    "ceil": [*unary(each(math.ceil), X), Sample((INTEGERS,), reference=lambda x: x)],
    "trunc": [*unary(each(math.trunc), X), Sample((INTEGERS,), reference=lambda x: x)],
    "frac": unary(each(lambda v: math.modf(v)[0]), X),
    "sign": [*unary(lambda x: x / np.abs(x), X), Sample((JUMPS,), reference=np.sign, skip={"jvp": "it jumps at 0"}, smooth=False)],
    "copysign": [
        Sample((X, Y), reference=copysign),
        Sample((X, Y[0]), reference=copysign),
        Sample((X[0], Y), reference=copysign),
        Sample((X, -2.0), reference=copysign),
        Sample((X[0, 0], Y[0, 1]), reference=copysign),
        Sample((EMPTY, EMPTY), reference=copysign),
    ],
    "heaviside": [
        Sample((X, Y), reference=lambda x, values: np.where(x > 0, 1.0, 0.0)),
        Sample((JUMPS, Y[0]), reference=lambda x, values: np.array([1.0, 0.0, 1.0, 2.0]), smooth=False,
               skip={"jvp": "it jumps at 0", "vmap": "it jumps at 0"}),
        Sample((np.array([0, -3, 5]), np.array([7, 7, 7])), reference=lambda x, values: np.array([7, 0, 1])),
        Sample((X, 0.5), reference=lambda x, values: np.where(x > 0, 1.0, 0.0)),
    ],
    "nextafter": [
        Sample((X, Y), reference=lambda x, y: x + np.spacing(x) * np.sign(y - x) * np.sign(x)),
        Sample((X, Y[0]), reference=np.nextafter),
        Sample((X, 0.5), reference=np.nextafter),
        Sample((EMPTY, EMPTY), reference=np.nextafter),
    ],
    "binary_exponent": [
        Sample((x,), reference=np.vectorize(lambda v: math.frexp(v)[1], otypes=[np.int32]))
        for x in (X, X[0, 0], np.array([1e-310, 0.0, 4.0]))
    ],
    "fake_quantize_per_tensor_affine": [
        Sample((x,), BYTES, fake_quantize, skip=JUMPING, smooth=False) for x in (X, X.T, X[0, 0], EMPTY, 100 * X)
    ]
    + [Sample((BROKEN,), {**BYTES, "zero_point": 3, "quant_min": -8}, fake_quantize, skip=JUMPING, smooth=False)],
    "fake_quantize_per_channel_affine": [
        Sample((x, *CHANNELS), how, fake_quantize, skip=JUMPING, smooth=False)
        for x in (X, X[:, :1], np.empty((3, 0)), np.resize(BROKEN, (3, 4)))
        for how in (LEVELS, {**LEVELS, "adds": "before rounding"})
    ],
    "nan_to_num": [
        *unary(nan_to_num, X),
        Sample((BROKEN,), {}, nan_to_num, skip=INFINITE, smooth=False),
        Sample((BROKEN,), {"nan": 1.0, "posinf": 2.0, "neginf": 3.0}, nan_to_num, skip=INFINITE, smooth=False),
    ],
}  # fmt: skip
