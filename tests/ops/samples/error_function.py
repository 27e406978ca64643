"""Samples of the error function and related functions."""

from __future__ import annotations

import dataclasses
import importlib.util
import math
from statistics import NormalDist

import numpy as np

from tests.ops.samples.arithmetic import unary

X = np.array([[0.3, -1.2, 2.4, -0.4], [1.7, -2.1, 0.8, -0.15], [0.05, -3.0, 1.1, -0.6]])


def each(f):
    return np.vectorize(f, otypes=[float])


def erfinv(x):
    return NormalDist().inv_cdf((1 + x) / 2) / math.sqrt(2)


# Without SciPy the middle and the ends of the interval are computed separately, if they occur.
BY_PARTS = {} if importlib.util.find_spec("scipy") else {"no loop": "the number of calls depends on the values"}

SAMPLES = {
    "erf": unary(each(math.erf), X),
    "erfc": unary(each(math.erfc), X),
    "erfinv": [dataclasses.replace(sample, skip=BY_PARTS) for sample in unary(each(erfinv), X / 4)],
}
