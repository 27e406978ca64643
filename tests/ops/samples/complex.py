"""Samples of functions of complex numbers that are not holomorphic."""

from __future__ import annotations

import numpy as np

from ndgrad.testing.op_checks import Sample
from tests.ops.samples.arithmetic import EMPTY, ROW, A, B, Z, unary


def modulus(x):
    return np.sqrt(x.real * x.real + x.imag * x.imag)


def polar(abs, angle):
    return abs * np.exp(1j * np.asarray(angle))


SAMPLES = {
    "conj": unary(lambda x: x.real - 1j * x.imag if np.iscomplexobj(x) else x, z=Z),
    "real": [*unary(np.real, z=Z), Sample((Z.T[1:],), reference=np.real)],
    "imag": [Sample((Z,), reference=np.imag), Sample((Z[1, 1],), reference=np.imag), Sample((Z.T[1:],), reference=np.imag)],
    "abs": [*unary(modulus, z=Z), Sample((-A,), reference=modulus), Sample((np.array([[1, -2], [0, 3]]),), reference=np.abs)],
    "sgn": [*unary(lambda x: x / modulus(x), z=Z), Sample((-A,), reference=np.sign)],
    "angle": [
        *unary(lambda x: np.imag(np.log(x + 0j)), z=Z),
        Sample((-A,), reference=lambda x: np.full(x.shape, np.pi)),
        Sample((-Z,), reference=lambda x: np.imag(np.log(x))),
        Sample((np.array([1, -1, 0]),), reference=lambda x: np.array([0, np.pi, 0])),
    ],
    "complex": [
        Sample((A, B), reference=lambda real, imag: real + 1j * imag),
        Sample((A, ROW), reference=lambda real, imag: real + 1j * imag),
        Sample((ROW, B), reference=lambda real, imag: real + 1j * imag),
        Sample((A[0, 0], B[0, 0]), reference=lambda real, imag: real + 1j * imag),
        Sample((EMPTY, EMPTY), reference=lambda real, imag: real + 1j * imag),
    ],
    "polar": [
        Sample((A, B), reference=polar),
        Sample((A, ROW), reference=polar),
        Sample((ROW, B), reference=polar),
        Sample((A[0, 0], B[0, 0]), reference=polar),
        Sample((EMPTY, EMPTY), reference=polar),
    ],
}  # fmt: skip
