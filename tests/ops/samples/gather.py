"""Samples of gather, scatter, take, put and of selection by masks and slices."""

from __future__ import annotations

import numpy as np

from ndgrad.testing.op_checks import Sample

r = np.random.default_rng(3)
A = r.standard_normal((3, 4, 5))
Z = A + 1j * r.standard_normal((3, 4, 5))
V = r.standard_normal(6)
A32 = A.astype(np.float32)
#: REPEATS is an index along dim 1 of A with repeated positions, smaller than A elsewhere. The other index does not
#: repeat.
REPEATS = r.integers(0, 4, (2, 6, 5))
DISTINCT = np.argsort(r.standard_normal((3, 4, 5)), axis=1)[:, :2]
NONE = np.zeros((2, 0, 5), int)
EXPANDED = np.broadcast_to(np.array([1, 1, 0])[:, None, None], (3, 4, 5))
MASK = A > 0
Y = r.standard_normal((2, 6, 5))
DERIVATIVES = ("jvp", "vjp", "jvp of vjp", "vjp of vjp", "vjp of jvp")
SINGLE = {"skip": dict.fromkeys(DERIVATIVES, "finite differences need double precision")}


def crop(x, index, dim):
    return x[tuple(slice(None) if d == dim else slice(n) for d, n in enumerate(index.shape))]


def places(index, dim):
    where = list(np.indices(index.shape))
    where[dim] = index
    return tuple(where)


def gather(x, index, dim):
    return crop(x, index, dim)[places(index, dim)]


def gather_backward(x, index, dim, shape, distinct=False):
    out = np.zeros(shape, x.dtype)
    np.add.at(out, places(index, dim), x)
    return out


def scatter(x, index, y, dim):
    out = x.copy()
    out[places(index, dim)] = y
    return out


def scatter_add(x, index, y, dim):
    out = x.copy()
    np.add.at(out, places(index, dim), y)
    return out


def scatter_prod(x, index, dim, shape):
    out = np.ones(shape, x.dtype)
    np.multiply.at(out, places(index, dim), x)
    return out


def scatter_extreme(x, index, y, dim, largest, include_self):
    out = x.copy()
    if not include_self:
        out[places(index, dim)] = -np.inf if largest else np.inf
    (np.maximum if largest else np.minimum).at(out, places(index, dim), y)
    return out


def lost_along(x, dim, shape):
    return lost(*np.broadcast_arrays(*places(x, dim)), shape=shape)


def lost(*indices, shape):
    indices = np.broadcast_arrays(*indices)
    keys = [tuple(i % n for i, n in zip(key, shape, strict=True)) for key in zip(*(i.ravel().tolist() for i in indices), strict=True)]
    return np.array([key in keys[n + 1 :] for n, key in enumerate(keys)], bool).reshape(indices[0].shape)


def index_put(x, y, *indices, accumulate=False):
    out = x.copy()
    if accumulate:
        np.add.at(out, indices, y)
    else:
        out[indices] = y
    return out


def put_reference(x, index, y, accumulate=False):
    out = x.copy()
    flat = out.reshape(-1)
    if accumulate:
        np.add.at(flat, index, y)
    else:
        flat[index] = y
    return out


def index_select(x, index, dim):
    return np.take(x, index, axis=dim)


def index_select_backward(x, index, dim, length):
    out = np.zeros((*x.shape[:dim], length, *x.shape[dim + 1 :]), x.dtype)
    np.add.at(out, (*(slice(None),) * dim, index), x)
    return out


def index_add(x, index, y, dim):
    out = x.copy()
    np.add.at(out, (*(slice(None),) * dim, index), y)
    return out


def index_copy(x, index, y, dim):
    out = x.copy()
    out[(*(slice(None),) * dim, index)] = y
    return out


def slice_scatter(x, y, index):
    out = x.copy()
    out[index] = y
    return out


def mask_positions(x, leading=0):
    return np.maximum(np.cumsum(x.ravel()) - 1, 0).reshape(x.shape)


def index_mask(x, dim, ndim, length):
    return np.isin(np.arange(length), x % length).reshape((1,) * dim + (length,) + (1,) * (ndim - dim - 1))


def index_counts(x, length):
    return np.maximum(np.bincount(x.ravel(), minlength=length), 1)


I, J = np.array([2, 0, 2]), np.array([1, 3])
NO_INDEX = np.array([], int)
ROWS = r.standard_normal((3, 3, 5))[:, :2]
PADDING = "with padding_idx the reverse rule is, by design, not the transpose of the forward rule"
FREQUENCY = "with scale_grad_by_freq the reverse rule is, by design, not the transpose of the forward rule"
MASKS = "a mask per sample gives results of different lengths"

SAMPLES = {
    "gather": [
        Sample((A, REPEATS), {"dim": 1}, gather),
        Sample((A, DISTINCT), {"dim": 1}, gather),
        Sample((Z, DISTINCT), {"dim": 1}, gather),
        Sample((A, EXPANDED), {"dim": 0}, gather),
        Sample((A[0], DISTINCT[0]), {"dim": 0}, gather),
        Sample((V, np.array([5, 5, 0])), {"dim": 0}, gather),
        Sample((A, NONE), {"dim": 1}, gather),
        Sample((A[:, :, :0], np.zeros((3, 2, 0), int)), {"dim": 1}, gather),
        Sample((A32, REPEATS), {"dim": 1}, gather, **SINGLE),
        Sample((A.transpose(2, 1, 0), DISTINCT.transpose(2, 1, 0)), {"dim": 1}, gather),
    ],
    "gather_backward": [
        Sample((Y, REPEATS), {"dim": 1, "shape": A.shape}, gather_backward),
        Sample((Z[:, :2], DISTINCT), {"dim": 1, "shape": A.shape, "distinct": True}, gather_backward),
        Sample((A, EXPANDED), {"dim": 0, "shape": A.shape}, gather_backward),
        Sample((Y[:, :0], NONE), {"dim": 1, "shape": A.shape}, gather_backward),
        Sample((A32[:, :2], DISTINCT), {"dim": 1, "shape": A.shape}, gather_backward, **SINGLE),
        Sample((V[:3], np.array([5, 5, 0])), {"dim": 0, "shape": (6,)}, gather_backward),
    ],
    "wrap_index": [
        Sample((np.array([[-1, 0], [3, -4]]),), {"length": 4}, lambda x, length: x % length),
        Sample((np.array([1], np.int8),), {"length": 400}, lambda x, length: x.astype(np.int64)),
        Sample((NONE,), {"length": 0}, lambda x, length: x),
    ],
    "scatter": [
        Sample((A, DISTINCT, ROWS), {"dim": 1}, scatter),
        Sample((Z, DISTINCT, Z[:, :2]), {"dim": 1}, scatter),
        Sample((A, REPEATS, Y), {"dim": 1}, scatter),
        Sample((A, DISTINCT, 2.5), {"dim": 1}, scatter),
        Sample((A, NONE, Y[:, :0]), {"dim": 1}, scatter),
        Sample((A32, DISTINCT, A32[:, :2]), {"dim": 1}, scatter, **SINGLE),
        Sample((V, np.array([5, 0]), V[:2] + 1), {"dim": 0}, scatter),
    ],
    "overwritten_along": [
        Sample((REPEATS,), {"dim": 1, "shape": A.shape}, lost_along),
        Sample((DISTINCT,), {"dim": 1, "shape": A.shape}, lost_along),
        Sample((NONE,), {"dim": 1, "shape": A.shape}, lost_along),
    ],
    "overwritten": [
        Sample((I,), {"shape": (3,)}, lost),
        Sample((-I,), {"shape": (3,)}, lost),
        Sample((REPEATS % 3, REPEATS[0]), {"shape": (3, 4)}, lost),
        Sample((NO_INDEX,), {"shape": (3,)}, lost),
        Sample((np.array(1),), {"shape": (3,)}, lost),
    ],
    "index_put": [
        Sample((A, A[:2] + 1, np.array([2, 0])), reference=index_put),
        Sample((A, A + 1, I), reference=index_put),
        Sample((A, A[0, 0] + 1, I), reference=index_put),
        Sample((A, np.float64(2.5), I, np.array([[1], [3]])), reference=index_put),
        Sample((A, Y, np.array([[0], [2]]), REPEATS[:, :, 0]), reference=index_put),
        Sample((Z, Z[:2] + 1, np.array([2, 0])), reference=index_put),
        Sample((A, A + 1, I), {"accumulate": True}, index_put),
        Sample((A, A[0] + 1, I), {"accumulate": True}, index_put),
        Sample((A, A[0, 0] + 1, I, np.array([[1], [3]])), {"accumulate": True}, index_put),
        Sample((A, 0.0, I), reference=index_put),
        Sample((A, A[:0], NO_INDEX), reference=index_put),
        Sample((A, A[0] + 1, np.array(1)), reference=index_put),
        Sample((A32, A32 + 1, I), {"accumulate": True}, index_put, **SINGLE),
    ],
    "rows": [
        Sample((A, I), reference=lambda x, index: x[index]),
        Sample((A, -REPEATS[0] % 3), reference=lambda x, index: x[index]),
        Sample((Z, np.array([[-1, 0]])), reference=lambda x, index: x[index]),
        Sample((V, I), reference=lambda x, index: x[index]),
        Sample((A, NO_INDEX), reference=lambda x, index: x[index]),
        Sample((A32, I), reference=lambda x, index: x[index], **SINGLE),
    ],
    "masked_fill": [
        Sample((A, MASK, np.float64(2.5)), reference=lambda x, mask, y: np.where(mask, y, x)),
        Sample((A, MASK[0], np.float64(2.5)), reference=lambda x, mask, y: np.where(mask, y, x)),
        Sample((A[0], MASK, np.float64(2.5)), reference=lambda x, mask, y: np.where(mask, y, x)),
        Sample((A, MASK, A[0] + 1), reference=lambda x, mask, y: np.where(mask, y, x)),
        Sample((Z, MASK, np.complex128(2.5)), reference=lambda x, mask, y: np.where(mask, y, x)),
        Sample((A, MASK, 0.0), reference=lambda x, mask, y: np.where(mask, y, x)),
        Sample((A[:0], MASK[:0], np.float64(1.0)), reference=lambda x, mask, y: np.where(mask, y, x)),
        Sample((A32, MASK, 2.5), reference=lambda x, mask, y: np.where(mask, np.float32(y), x), **SINGLE),
    ],
    "nonzero": [
        Sample((MASK,), reference=np.argwhere),
        Sample((np.array([0.0, 2.0, np.nan]),), reference=np.argwhere),
        Sample((np.float64(2.0),), reference=lambda x: np.zeros((1, 0), int)),
        Sample((MASK[:0],), reference=np.argwhere),
    ],
    "scatter_add": [
        Sample((A, REPEATS, Y), {"dim": 1}, scatter_add),
        Sample((A, EXPANDED, A + 1), {"dim": 0}, scatter_add),
        Sample((Z, DISTINCT, Z[:, :2]), {"dim": 1}, scatter_add),
        Sample((A, NONE, Y[:, :0]), {"dim": 1}, scatter_add),
        Sample((A32, DISTINCT, A32[:, :2]), {"dim": 1}, scatter_add, **SINGLE),
        Sample((V, np.array([5, 5, 0]), V[:3]), {"dim": 0}, scatter_add),
    ],
    "scatter_prod": [
        Sample((Y, REPEATS), {"dim": 1, "shape": A.shape}, scatter_prod),
        Sample((np.where(np.abs(Y) < 0.6, 0.0, Y), REPEATS), {"dim": 1, "shape": A.shape}, scatter_prod),
        Sample((Z[:, :2], DISTINCT % 2), {"dim": 1, "shape": A.shape}, scatter_prod),
        Sample((V, np.array([1, 1, 0, 1, 0, 1])), {"dim": 0, "shape": (3,)}, scatter_prod),
        Sample((V[:1], np.array([1])), {"dim": 0, "shape": (3,)}, scatter_prod),
        Sample((Y[:, :0], NONE), {"dim": 1, "shape": A.shape}, scatter_prod),
        Sample((A32[:, :2], DISTINCT), {"dim": 1, "shape": A.shape}, scatter_prod, **SINGLE),
    ],
    "scatter_extreme": [
        Sample((A, REPEATS, Y), {"dim": 1, "largest": largest, "include_self": include}, scatter_extreme)
        for largest in (True, False)
        for include in (True, False)
    ] + [
        Sample((A, NONE, Y[:, :0]), {"dim": 1, "largest": True, "include_self": False}, scatter_extreme),
        Sample((A32, DISTINCT, A32[:, :2]), {"dim": 1, "largest": True, "include_self": True}, scatter_extreme, **SINGLE),
    ],
    "take": [
        Sample((A, np.array([[0, -1], [7, 7]])), reference=np.take),
        Sample((Z, np.array([3])), reference=np.take),
        Sample((A, np.array(5)), reference=np.take),
        Sample((np.float64(2.0), np.array([0, 0])), reference=np.take),
        Sample((A, NO_INDEX), reference=np.take),
        Sample((A32, np.array([3, 3])), reference=np.take, **SINGLE),
    ],
    "put": [
        Sample((A, np.array([[0, -1], [7, 8]]), Y[0, :2, :2]), {"accumulate": False}, put_reference),
        Sample((A, np.array([[0, -1], [7, 0]]), Y[0, :2, :2]), {"accumulate": True}, put_reference),
        Sample((Z, np.array([3, 4]), Z[0, 0, :2]), {"accumulate": False}, put_reference),
        Sample((A, np.array([7, 3, 7, -53]), Y[0, 0, :4]), {"accumulate": False}, put_reference),
        Sample((A, np.array([3, 4]), 0.0), {"accumulate": False}, put_reference),
        Sample((A, NO_INDEX, V[:0]), {"accumulate": True}, put_reference),
        Sample((np.array(2.0), np.array([0]), V[:1]), {"accumulate": False}, put_reference),
        Sample((np.array(2.0), np.array([0, 0]), V[:2]), {"accumulate": True}, put_reference),
        Sample((A32, np.array([3, 3]), A32[0, 0, :2]), {"accumulate": True}, put_reference, **SINGLE),
    ],
    "masked_select": [
        Sample((A, MASK), reference=lambda x, mask: x[mask], skip={"vmap": MASKS}),
        Sample((Z, MASK), reference=lambda x, mask: x[mask], skip={"vmap": MASKS}),
        Sample((A, MASK[0]), reference=lambda x, mask: x[:, mask], skip={"vmap": MASKS}),
        Sample((np.float64(2.0), np.array(True)), reference=lambda x, mask: np.atleast_1d(x), skip={"vmap": MASKS}),
        Sample((A, A > 9), reference=lambda x, mask: x[mask], skip={"vmap": MASKS}),
    ],
    "masked_select_backward": [
        Sample((A[MASK], MASK), reference=lambda x, mask: np.where(mask, A, 0.0), skip={"vmap": MASKS}),
        Sample((Z[MASK], MASK), reference=lambda x, mask: np.where(mask, Z, 0.0), skip={"vmap": MASKS}),
        Sample((A[:, MASK[0]], MASK[0]), reference=lambda x, mask: np.where(mask, A, 0.0), skip={"vmap": MASKS}),
        Sample((A32[MASK], MASK), reference=lambda x, mask: np.where(mask, A32, np.float32(0)), skip={"vmap": MASKS, **SINGLE["skip"]}),
    ],
    "mask_positions": [
        Sample((MASK,), reference=mask_positions),
        Sample((np.array(True),), reference=mask_positions),
        Sample((MASK[:0],), reference=mask_positions),
    ],
    "index_select": [
        Sample((A, I), {"dim": 0}, index_select),
        Sample((A, J), {"dim": 1}, index_select),
        Sample((Z, J), {"dim": 2}, index_select),
        Sample((A, NO_INDEX), {"dim": 1}, index_select),
        Sample((A32, I), {"dim": 0}, index_select, **SINGLE),
    ],
    "index_select_backward": [
        Sample((A, I), {"dim": 0, "length": 4}, index_select_backward),
        Sample((A[:, :2], J), {"dim": 1, "length": 4}, index_select_backward),
        Sample((Z[..., :2], J), {"dim": 2, "length": 5}, index_select_backward),
        Sample((A[:, :0], NO_INDEX), {"dim": 1, "length": 4}, index_select_backward),
        Sample((A32, I), {"dim": 0, "length": 3}, index_select_backward, **SINGLE),
    ],
    "index_add": [
        Sample((A, I, A * 2), {"dim": 0}, index_add),
        Sample((A, J, ROWS), {"dim": 1}, index_add),
        Sample((Z, J, Z[..., :2]), {"dim": 2}, index_add),
        Sample((A, NO_INDEX, A[:, :0]), {"dim": 1}, index_add),
        Sample((A32, I, A32), {"dim": 0}, index_add, **SINGLE),
    ],
    "index_copy": [
        Sample((A, I[:2], A[:2] * 2), {"dim": 0}, index_copy),
        Sample((A, J, ROWS), {"dim": 1}, index_copy),
        Sample((A, I, A * 2), {"dim": 0}, index_copy),
        Sample((Z, J, Z[..., :2]), {"dim": 2}, index_copy),
        Sample((A, NO_INDEX, A[:, :0]), {"dim": 1}, index_copy),
        Sample((A32, I[:2], A32[:2]), {"dim": 0}, index_copy, **SINGLE),
    ],
    "index_fill": [
        Sample((A, I, np.float64(2.5)), {"dim": 0}, index_copy),
        Sample((A, np.array([-1, 3]), np.float64(2.5)), {"dim": 1}, index_copy),
        Sample((Z, J, np.complex128(2.5 + 1j)), {"dim": 2}, index_copy),
        Sample((A, J, 3.0), {"dim": 2}, index_copy),
        Sample((A, NO_INDEX, np.float64(2.5)), {"dim": 1}, index_copy),
        Sample((A32, I, np.float32(2.5)), {"dim": 0}, index_copy, **SINGLE),
    ],
    "index_mask": [
        Sample((I,), {"dim": 1, "ndim": 3, "length": 4}, index_mask),
        Sample((np.array([-1, 2]),), {"dim": 0, "ndim": 1, "length": 4}, index_mask),
        Sample((NO_INDEX,), {"dim": 0, "ndim": 2, "length": 3}, index_mask),
    ],
    "slice_scatter": [
        Sample((A, A[1] * 2), {"index": (1,)}, slice_scatter),
        Sample((A, A[:, ::2] * 2), {"index": (slice(None), slice(None, None, 2))}, slice_scatter),
        Sample((Z, Z[..., 1] * 2), {"index": (slice(None), slice(None), 1)}, slice_scatter),
        Sample((A, 0.0), {"index": (1,)}, slice_scatter),
        Sample((A, A[2:1]), {"index": (slice(2, 1),)}, slice_scatter),
        Sample((A32, A32[1] * 2), {"index": (1,)}, slice_scatter, **SINGLE),
    ],
    "embedding": [
        Sample((A[0], REPEATS[0]), reference=lambda x, index: x[index]),
        Sample((Z[0], I), reference=lambda x, index: x[index]),
        Sample((A[0], np.array(1)), reference=lambda x, index: x[index]),
        Sample((A[0], NO_INDEX), reference=lambda x, index: x[index]),
        Sample((A32[0], I), reference=lambda x, index: x[index], **SINGLE),
        Sample(
            (A[0], I), {"padding_idx": 2}, lambda x, index, padding_idx: x[index],
            skip=dict.fromkeys(("vjp", "jvp of vjp", "vjp of vjp", "vjp of jvp"), PADDING),
        ),
        Sample(
            (A[0], I), {"scale_grad_by_freq": True}, lambda x, index, scale_grad_by_freq: x[index],
            skip=dict.fromkeys(("vjp", "vjp of vjp"), FREQUENCY),
        ),
    ],
    "index_counts": [
        Sample((REPEATS,), {"length": 5}, index_counts),
        Sample((NO_INDEX,), {"length": 3}, index_counts),
    ],
}  # fmt: skip
