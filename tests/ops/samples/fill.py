"""Samples of ops that overwrite, and of copies and conversions."""

from __future__ import annotations

import numpy as np

from ndgrad._src.foundations.devices import device
from ndgrad.testing.op_checks import Sample

r = np.random.default_rng(21)
A, B, ROW, EMPTY = r.standard_normal((3, 4)), r.standard_normal((3, 4)), r.standard_normal(4), np.empty((0, 3))
A32 = A.astype(np.float32)
Z = A + 1j * B
SCALAR = np.float64(1.5)
CUBE = r.standard_normal((2, 3, 4))
COLUMNS = np.asfortranarray(A)

CPU = device("cpu")


def copy_reference(x, y):
    return np.broadcast_to(y, x.shape).astype(x.dtype)


def zeros(x):
    return np.zeros_like(np.asarray(x))


def full(x, *, value):
    return np.full_like(np.asarray(x), value)


def full_with(x, value):
    return np.full_like(np.asarray(x), value)


def same(x, **_):
    return np.asarray(x)


SAMPLES = {
    "copy": [
        Sample((A, B), reference=copy_reference),
        Sample((A, ROW), reference=copy_reference),
        Sample((A, SCALAR), reference=copy_reference),
        Sample((A32, A32 + 1), reference=copy_reference, tolerance=1e-2),
        Sample((EMPTY, EMPTY), reference=copy_reference),
        Sample((Z, 2 * Z), reference=copy_reference),
        Sample((Z, A), reference=copy_reference),
    ],
    "zeros_like": [Sample((x,), reference=zeros) for x in (A, A32, Z, EMPTY, SCALAR, np.arange(3))],
    "zero": [Sample((x,), reference=zeros) for x in (A, Z, EMPTY, SCALAR)],
    "fill": [Sample((x,), {"value": 2.5}, full) for x in (A, A32, Z, EMPTY, SCALAR)],
    "fill_with": [
        Sample((A, SCALAR), reference=full_with),
        Sample((Z, np.complex128(1 + 2j)), reference=full_with),
        Sample((EMPTY, SCALAR), reference=full_with),
        Sample((SCALAR, np.float64(3.0)), reference=full_with),
    ],
    "cast": [
        Sample(
            (A,), {"dtype": np.dtype(np.complex128)}, lambda x, *, dtype: x.astype(dtype),
            skip={"single precision": "the dtype of the result is given"},
        ),
        Sample((SCALAR,), {"dtype": np.dtype(np.float64)}, lambda x, *, dtype: np.asarray(x, dtype)),
        Sample(
            (A,), {"dtype": np.dtype(np.int64)}, lambda x, *, dtype: x.astype(dtype),
            skip=dict.fromkeys(("jvp", "vjp", "vmap of jvp", "vmap of vjp"), "discrete"), smooth=False,
        ),
        Sample((np.arange(3),), {"dtype": np.dtype(np.float32)}, lambda x, *, dtype: x.astype(dtype)),
    ],
    "clone": [Sample((x,), reference=same, tolerance=1e-2 if x is A32 else 1e-6) for x in (A, A32, Z, EMPTY, SCALAR, COLUMNS)],
    "clone_ordered": [
        Sample((A,), {"order": (1, 0)}, same),
        Sample((CUBE,), {"order": (2, 0, 1)}, same),
        Sample((SCALAR,), {"order": ()}, same),
        Sample((EMPTY,), {"order": (0, 1)}, same),
    ],
    "to_device": [Sample((x,), {"device": CPU, "source": CPU}, same) for x in (A, Z, SCALAR, EMPTY)],
}
