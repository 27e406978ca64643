"""Samples of the error function and its kin."""

from __future__ import annotations

import math
from statistics import NormalDist

import numpy as np

from tests.ops.samples.arithmetic import unary

X = np.array([[0.3, -1.2, 2.4, -0.4], [1.7, -2.1, 0.8, -0.15], [0.05, -3.0, 1.1, -0.6]])


def each(f):
    return np.vectorize(f, otypes=[float])


SAMPLES = {
    "erf": unary(each(math.erf), X),
    "erfc": unary(each(math.erfc), X),
    "erfinv": unary(each(lambda v: NormalDist().inv_cdf((1 + v) / 2) / math.sqrt(2)), X / 4),
}
