"""Samples of sums, products, counts, extrema, softmax and related functions."""

from __future__ import annotations

import math

import numpy as np

from ndgrad.testing.op_checks import Sample

r = np.random.default_rng(2)
A, V = r.standard_normal((3, 4)), r.standard_normal(5)
CUBE = r.standard_normal((2, 3, 4))
Z = A + 1j * r.standard_normal((3, 4))
SCALAR, EMPTY = np.float64(1.5), np.empty((0, 3))
SINGLE, HALF = A.astype(np.float32), A.astype(np.float16)
INT, BOOL = np.arange(12).reshape(3, 4) % 5, A > 0
NAN = np.where(A > 1, np.nan, A)
# Two zeros in one row, one in another.
ZEROS = np.array([[2.0, 0.0, 3.0, 0.0], [1.5, -2.0, 0.0, 3.0], [1.0, 2.0, 3.0, 0.5]])
LINES = r.standard_normal((80, 60))  # above the size from which rows are reduced differently

# Finite differences and vmap's comparison with a loop need float64. For other dtypes only the dtype of the result is
# checked.
ONLY_VALUES = dict.fromkeys(("jvp", "vjp", "vmap"), "not enough digits")


def narrow(array, reference, **settings):
    """Return a sample in low precision, for which only the value and its dtype are checked."""

    def rounded(x, **settings):
        wide = np.complex128 if x.dtype.kind == "c" else np.float64
        out = reference(x.astype(wide), **settings)
        small = x.dtype if np.asarray(out).dtype.kind == np.dtype(wide).kind else x.real.dtype
        return np.asarray(out).astype(small)

    # The narrow result differs from the rounded wide one by its own rounding.
    return Sample((array,), settings, rounded, smooth=False, skip=ONLY_VALUES, invariant=lambda x: _loose(x))


def _loose(x):
    """Round to a few digits, so that only the dtype is compared."""
    from ndgrad.testing.op_checks import array_of, wrap_array

    values = array_of(x)
    return wrap_array(np.round(values.astype(np.result_type(values.dtype, np.float32)), 1).astype(values.dtype))


def over_dims(function):
    """Wrap a NumPy reduction to take the ops' settings."""
    return lambda x, *, dim=(), keepdim=False, dtype=None, **rest: function(x, axis=dim, keepdims=keepdim, **rest)


def over_all(function):
    return lambda x, **rest: np.asarray(function(x, **rest))


def reductions(reference, *, smooth=True, arrays=(A, CUBE), extra=()):
    """Return samples with the shapes that every reduction over dims has to handle."""
    last = tuple(arrays)[-1].ndim - 1
    return [
        Sample((arrays[0],), {"dim": (0,)}, reference, smooth=smooth),
        Sample((arrays[0],), {"dim": (1,), "keepdim": True}, reference, smooth=smooth),
        Sample((arrays[0],), {"dim": (0, 1)}, reference, smooth=smooth),
        Sample((arrays[-1],), {"dim": (0, last), "keepdim": True}, reference, smooth=smooth),
        Sample((arrays[-1],), {"dim": (1,)}, reference, smooth=smooth),
        Sample((SCALAR,), {"dim": ()}, reference, smooth=smooth),
        *extra,
    ]


def with_complex(reference):
    return [Sample((Z,), {"dim": (1,)}, reference), Sample((Z,), {"dim": (0, 1)}, reference)]


def empties(reference, **options):
    return [Sample((EMPTY,), {"dim": (0,)}, reference, **options), Sample((EMPTY,), {"dim": (1,)}, reference, **options)]


total, average, product = over_dims(np.sum), over_dims(np.mean), over_dims(np.prod)
nan_total, truth, some = over_dims(np.nansum), over_dims(np.all), over_dims(np.any)


# ----- extrema ------------------------------------------------------------------------------------------------------------


def extremum(function, place):
    def reference(x, index, *, dim, keepdim=False):
        return function(x, axis=dim, keepdims=keepdim)

    def sample(x, dim, keepdim=False):
        return Sample((x, np.asarray(place(x, axis=dim, keepdims=keepdim))), {"dim": dim, "keepdim": keepdim}, reference)

    return [  # samples of the op that receives the index
        sample(A, 0),
        sample(A, 1, True),
        sample(V, 0),
        sample(CUBE, 1),
        sample(LINES, 1),
        sample(INT, 1),
        sample(BOOL, 1),
        sample(np.empty((3, 0)), 0),
    ]


def extremum_and_place(function, place):
    def reference(x, *, dim, keepdim=False):
        return function(x, axis=dim, keepdims=keepdim), np.asarray(place(x, axis=dim, keepdims=keepdim))

    arrays = [(A, 0), (V, 0), (CUBE, 1), (LINES, 0), (LINES, 1), (INT, 1), (BOOL, 1), (np.empty((3, 0)), 0)]
    return [Sample((a,), {"dim": dim}, reference) for a, dim in arrays] + [Sample((A,), {"dim": 1, "keepdim": True}, reference)]


def places(function):
    def reference(x, *, dim, keepdim=False):
        return np.asarray(function(x, axis=dim, keepdims=keepdim))

    arrays = [(A, 1), (V, 0), (CUBE, 1), (LINES, 0), (LINES, 1), (np.where(LINES > 2.5, np.nan, LINES), 0), (INT, 1), (BOOL, 0)]
    return [Sample((a,), {"dim": dim, "keepdim": keepdim}, reference) for a, dim in arrays for keepdim in (False, True)]


INDEX = np.array([[0, 2, 1, 0], [2, 2, 0, 1]])
ONE = np.array([[1], [0], [3]])


def place_reference(x, index, *, dim, size):
    shape = list(x.shape)
    shape[dim] = size
    out = np.zeros(shape, x.dtype)
    for where in np.ndindex(*index.shape):
        target = list(where)
        target[dim] = index[where]
        out[tuple(target)] += x[where]
    return out


# ----- softmax ---------------------------------------------------------------------------------------------------------------


def softmax(x, *, dim):
    e = np.exp(x - x.max(dim, keepdims=True)) if x.size else x
    return e / e.sum(dim, keepdims=True)


def log_softmax(x, *, dim):
    return np.log(softmax(x, dim=dim))


def logsumexp(x, *, dim=(), keepdim=False):
    return np.log(np.sum(np.exp(x), axis=dim, keepdims=keepdim))


def normalisers(reference):
    return [
        Sample((A,), {"dim": 0}, reference),
        Sample((A,), {"dim": 1}, reference),
        Sample((V,), {"dim": 0}, reference),
        Sample((CUBE,), {"dim": 1}, reference),
        Sample((LINES,), {"dim": 1}, reference),
        Sample((LINES,), {"dim": 0}, reference),
        Sample((np.array([[1000.0, 1001.0], [-1000.0, -1001.0]]),), {"dim": 1}, reference),
        Sample((EMPTY,), {"dim": 0}, reference),
        narrow(SINGLE, reference, dim=1),
        narrow(HALF, reference, dim=1),
    ]


def large_logsumexp(x, *, dim, keepdim=False):
    top = x.max(dim, keepdims=True)
    out = np.log(np.sum(np.exp(x - top), axis=dim, keepdims=True)) + top
    return out if keepdim else out.reshape([n for i, n in enumerate(x.shape) if i not in dim])


SAMPLES = {
    "sum": [
        *reductions(total),
        *with_complex(total),
        *empties(total),
        Sample((INT,), {"dim": (1,)}, total),
        Sample((BOOL,), {"dim": (1,)}, total),
        Sample((INT,), {"dim": (1,), "dtype": np.dtype(float)}, lambda x, *, dim, dtype: x.sum(dim, dtype=dtype)),
        narrow(SINGLE, total, dim=(0,)),
        narrow(HALF, total, dim=(0,)),
    ],
    "sum_all": [Sample((a,), {}, over_all(np.sum)) for a in (A, CUBE, SCALAR, EMPTY, Z, LINES, INT)] + [narrow(SINGLE, over_all(np.sum))],
    "mean": [
        *reductions(average),
        *with_complex(average),
        Sample((EMPTY,), {"dim": (1,)}, average),
        Sample((INT,), {"dim": (1,)}, average),
        narrow(SINGLE, average, dim=(0,)),
        narrow(HALF, average, dim=(0,)),
    ],
    "mean_all": [Sample((a,), {}, over_all(np.mean)) for a in (A, CUBE, SCALAR, Z, LINES, INT)] + [narrow(HALF, over_all(np.mean))],
    "nansum": [
        *reductions(nan_total),
        Sample((NAN,), {"dim": (1,)}, nan_total, smooth=False),
        narrow(SINGLE, nan_total, dim=(0,)),
    ],
    "prod": [
        *reductions(product),
        *with_complex(product),
        *empties(product),
        *(Sample((ZEROS,), {"dim": dim}, product) for dim in [(0,), (1,), (0, 1)]),
        Sample((CUBE * (CUBE > -0.5),), {"dim": (0, 2), "keepdim": True}, product),
        Sample((Z * (A > -0.5),), {"dim": (1,)}, product),
        Sample((INT,), {"dim": (1,)}, product),
        narrow(SINGLE, product, dim=(0,)),
    ],
    "prod_all": [Sample((a,), {}, over_all(np.prod)) for a in (A, CUBE, SCALAR, EMPTY, Z, ZEROS, ZEROS[0], INT)],
    "count_nonzero": [
        Sample((ZEROS,), {"dim": dim, "keepdim": keepdim}, over_dims(np.count_nonzero))
        for dim in [(0,), (1,), (0, 1)]
        for keepdim in (False, True)
    ],
    "all": [
        *(Sample((BOOL,), {"dim": dim}, truth) for dim in [(0,), (1,), (0, 1), ()]),
        Sample((ZEROS,), {"dim": (1,), "keepdim": True}, truth),
    ],
    "any": [Sample((BOOL,), {"dim": dim}, some) for dim in [(0,), (1,), (0, 1), ()]] + [Sample((EMPTY,), {"dim": (0,)}, some)],
    "amax": [*reductions(over_dims(np.max)), narrow(SINGLE, over_dims(np.max), dim=(0,)), Sample((INT,), {"dim": (0,)}, over_dims(np.max))],
    "amin": [*reductions(over_dims(np.min)), narrow(SINGLE, over_dims(np.min), dim=(0,)), Sample((INT,), {"dim": (0,)}, over_dims(np.min))],
    "max_all": [Sample((a,), {}, over_all(np.max)) for a in (A, CUBE, SCALAR, INT)] + [narrow(SINGLE, over_all(np.max))],
    "min_all": [Sample((a,), {}, over_all(np.min)) for a in (A, CUBE, SCALAR, INT)] + [narrow(SINGLE, over_all(np.min))],
    "max_at": extremum(np.max, np.argmax),
    "min_at": extremum(np.min, np.argmin),
    "max": extremum_and_place(np.max, np.argmax),
    "min": extremum_and_place(np.min, np.argmin),
    "argmax": places(np.argmax),
    "argmin": places(np.argmin),
    "pick_along": [
        Sample((A, INDEX), {"dim": 0}, lambda x, index, *, dim: np.take_along_axis(x, index, dim)),
        Sample((Z, ONE), {"dim": 1}, lambda x, index, *, dim: np.take_along_axis(x, index, dim)),
    ],
    "place_along": [
        Sample((A[:2], INDEX), {"dim": 0, "size": 3}, place_reference),
        Sample((Z[:2], INDEX), {"dim": 0, "size": 4}, place_reference),
        Sample((A[:, :1], ONE), {"dim": 1, "size": 4}, place_reference),
    ],
    "softmax": normalisers(softmax),
    "log_softmax": normalisers(log_softmax)[:6] + normalisers(log_softmax)[7:],
    "line_dot": [
        Sample((A, A + 1), {"dim": dim}, lambda x, y, *, dim: np.sum(x * y, axis=dim, keepdims=True)) for dim in (0, 1)
    ]
    + [Sample((Z, Z + 1j), {"dim": 1}, lambda x, y, *, dim: np.sum(x * y, axis=dim, keepdims=True))],
    "logsumexp": [
        *reductions(logsumexp),
        *with_complex(logsumexp),
        *empties(logsumexp, skip={"jvp": "the differences of -inf are NaN"}, smooth=False),
        Sample((LINES,), {"dim": (1,)}, logsumexp),
        Sample((np.array([[1000.0, 1001.0], [-1000.0, -1001.0]]),), {"dim": (1,)}, large_logsumexp),
        Sample((np.array([-math.inf, 1.0, 2.0]),), {"dim": (0,)}, logsumexp, smooth=False, skip={"jvp": "-inf has no neighbours"}),
        Sample((np.array([-math.inf, -math.inf]),), {"dim": (0,)}, logsumexp, smooth=False, skip=ONLY_VALUES),
        narrow(SINGLE, logsumexp, dim=(1,)),
        narrow(HALF, logsumexp, dim=(1,)),
    ],
}  # fmt: skip
