"""Samples of shape ops: views, parts, joins, rearrangements, diagonals and windows."""

from __future__ import annotations

import numpy as np

from ndgrad._src.ops.window import Geometry, geometry_of
from ndgrad.testing.op_checks import Sample

r = np.random.default_rng(7)
A = r.standard_normal((3, 4))
B = r.standard_normal((2, 3, 4))
ONES = r.standard_normal((1, 3, 1, 2))
V = r.standard_normal(5)
Z = r.standard_normal((3, 4)) + 1j * r.standard_normal((3, 4))
SCALAR, EMPTY = np.float64(1.5), np.empty((0, 3))
A32 = A.astype(np.float32)
TURNED = np.asfortranarray(r.standard_normal((4, 3)))  # a memory order other than NumPy's default
STRIDED = r.standard_normal((6, 8))[::2, 1::3]
WHOLE = np.arange(6)


def loose(*samples):
    """Loosen the tolerances for float32 arrays, whose accuracy is limited by rounding, not by the rules."""
    for s in samples:
        s.skip = dict.fromkeys(("jvp", "vjp", "jvp of vjp", "vjp of vjp", "vjp of jvp", "vmap"), "float32 is too coarse")
    return list(samples)


def each(arrays, reference, **settings):
    return [Sample((a,), settings, reference) for a in arrays]


def single(reference, *pairs):
    """Return samples from (array, settings) pairs."""
    return [Sample((a,), settings, reference) for a, settings in pairs]


def same(x, **settings):
    return x


# ----- the same elements -------------------------------------------------------------------------------------------------


def reshaped(x, *, shape):
    return np.reshape(x, shape)


RESHAPES = single(
    reshaped,
    (A, {"shape": (2, 6)}), (A, {"shape": (12,)}), (B, {"shape": (6, 4)}), (B, {"shape": (2, 3, 2, 2)}), (Z, {"shape": (4, 3)}),
    (SCALAR, {"shape": (1, 1)}), (SCALAR, {"shape": ()}), (EMPTY, {"shape": (3, 0, 2)}), (TURNED, {"shape": (6, 2)}),
    (STRIDED, {"shape": (9,)}),
)  # fmt: skip


def squeezed(x, *, dims):
    return np.squeeze(x, dims)


SQUEEZES = single(
    squeezed,
    (ONES, {"dims": (0, 2)}), (ONES, {"dims": (2,)}), (ONES, {"dims": ()}), (ONES + 1j, {"dims": (0,)}), (SCALAR, {"dims": ()}),
    (np.empty((1, 0)), {"dims": (0,)}),
)  # fmt: skip


def as_pairs(x):
    return np.stack([x.real, x.imag], -1)


def as_complex(x):
    return x[..., 0] + 1j * x[..., 1]


# ----- parts ---------------------------------------------------------------------------------------------------------------


def embedded(x, *, shape, index):
    out = np.zeros(shape, x.dtype)
    out[index] = x
    return out


def axis_index(dim, item):
    return (slice(None),) * dim + (item,)


SLICES = [
    (A, {"dim": 0, "start": 1, "stop": 3, "step": 1}), (A, {"dim": 1, "start": 0, "stop": 4, "step": 2}),
    (B, {"dim": 2, "start": 1, "stop": 4, "step": 2}),
    (Z, {"dim": 1, "start": 1, "stop": 2, "step": 1}), (V, {"dim": 0, "start": 2, "stop": 2, "step": 1}),
    (EMPTY, {"dim": 1, "start": 1, "stop": 3, "step": 1}),
]  # fmt: skip
SELECTS = [(A, {"dim": 0, "index": 1}), (A, {"dim": 1, "index": 3}), (B, {"dim": 1, "index": 0}), (Z, {"dim": 0, "index": 2}),
(V, {"dim": 0, "index": 4}),
           (EMPTY, {"dim": 1, "index": 2})]  # fmt: skip


def transposed_samples(pairs, take, put):
    """Return samples of the op that takes a part, and of its transpose, which puts the part back among zeros."""
    takes = [Sample((a,), s, take) for a, s in pairs]
    puts = [Sample((np.asarray(take(a, **s)) * 2.0,), {"shape": a.shape, **s}, put) for a, s in pairs]
    return takes, puts


select, select_backward = transposed_samples(
    SELECTS,
    lambda x, *, dim, index: np.take(x, index, dim),
    lambda x, *, shape, dim, index: embedded(x, shape=shape, index=axis_index(dim, index)),
)
slice_, slice_backward = transposed_samples(
    SLICES,
    lambda x, *, dim, start, stop, step: np.take(x, range(start, stop, step), dim),
    lambda x, *, shape, dim, start, stop, step: embedded(x, shape=shape, index=axis_index(dim, slice(start, stop, step))),
)


def split_reference(x, *, split_size, dim):
    return tuple(np.split(x, range(split_size, x.shape[dim], split_size), dim)) if split_size else (x,)


def sizes_reference(x, *, sizes, dim):
    return tuple(np.split(x, np.cumsum(sizes)[:-1], dim))


# ----- windows ---------------------------------------------------------------------------------------------------------------


def windows(x, *, dim, width, step):
    found = np.lib.stride_tricks.sliding_window_view(x, width, dim)
    return found[axis_index(dim, slice(None, None, step))]


def windows_added(x, *, shape, dim, width, step):
    """Add the windows one by one."""
    out = np.zeros(shape, x.dtype)
    for i in range(x.shape[dim]):
        out[axis_index(dim, slice(i * step, i * step + width))] += np.moveaxis(np.take(x, i, dim), -1, dim)
    return out


unfold, unfold_backward = transposed_samples(
    [
        (V, {"dim": 0, "width": 3, "step": 1}), (V, {"dim": 0, "width": 2, "step": 3}),
        (A, {"dim": 1, "width": 2, "step": 2}), (B, {"dim": 1, "width": 2, "step": 1}),
        (Z, {"dim": 0, "width": 3, "step": 1}), (STRIDED, {"dim": 0, "width": 2, "step": 1}),
        (TURNED[::-1], {"dim": 0, "width": 3, "step": 1}),
        (V, {"dim": 0, "width": 5, "step": 1}),
    ],
    windows,
    windows_added,
)  # fmt: skip


def place(index, geometry):
    return geometry.offset + sum(i * s for i, s in zip(index, geometry.strides, strict=True))


def strided(x, *, source, target):
    """Copy element by element, through memory that holds the mean of all elements of x at one position."""
    memory = {}
    for i in np.ndindex(x.shape):
        memory.setdefault(place(i, source), []).append(x[i])
    out = np.zeros(target.sizes, x.dtype)
    for i in np.ndindex(*target.sizes):
        out[i] = np.mean(memory.get(place(i, target), 0.0))
    return out


def strided_transpose(x, *, source, target):
    """Return the transpose, from the columns of the map."""
    out = np.zeros(source.sizes, x.dtype)
    for i in np.ndindex(*source.sizes):
        unit = np.zeros(source.sizes)
        unit[i] = 1
        out[i] = (strided(unit, source=source, target=target) * x).sum()
    return out


GEOMETRIES = [
    (A, Geometry((3, 3), (4, 1), 1)),
    (A, Geometry((5, 3), (1, 2), 0)),  # overlapping
    (Z, Geometry((2, 2), (6, 1), 2)),
    (V, Geometry((), (), 3)),
    (V, Geometry((2, 0), (1, 1), 0)),
]
STRIDES = [(a, {"source": geometry_of(a), "target": target}) for a, target in GEOMETRIES]
# By value, geometries may also extend beyond the array, and the array may overlap itself.
VALUES = [
    *STRIDES,
    (TURNED, {"source": geometry_of(TURNED), "target": Geometry((4,), (3,), 0)}),
    (V, {"source": Geometry((5,), (1,)), "target": Geometry((4,), (1,), -2)}),
    (A, {"source": Geometry((3, 4), (0, 1)), "target": Geometry((2, 4), (4, 1), 0)}),
    (STRIDED, {"source": Geometry((3, 3), (16, 3)), "target": Geometry((3, 2), (1, 5), 1)}),
]


# ----- diagonals -------------------------------------------------------------------------------------------------------------


def diagonal_reference(x, *, offset, dim0, dim1):
    return np.diagonal(x, offset, dim0, dim1)


def diagonal_put(x, *, shape, offset, dim0, dim1):
    out = np.zeros(shape, x.dtype)
    np.einsum("...ii->...i", square(np.moveaxis(out, (dim0, dim1), (-2, -1)), offset))[...] = x
    return out


def square(m, offset):
    """Return the square part of matrices whose main diagonal is the given diagonal."""
    m = m[..., max(-offset, 0) :, max(offset, 0) :]
    n = min(m.shape[-2:])
    return m[..., :n, :n]


diagonal, diagonal_backward = transposed_samples(
    [
        (A, {"offset": 0, "dim0": 0, "dim1": 1}), (A, {"offset": 1, "dim0": 0, "dim1": 1}),
        (A, {"offset": -2, "dim0": 0, "dim1": 1}),
        (A, {"offset": 9, "dim0": 0, "dim1": 1}), (B, {"offset": 1, "dim0": 0, "dim1": 2}),
        (B, {"offset": 0, "dim0": 2, "dim1": 1}),
        (Z, {"offset": 0, "dim0": 1, "dim1": 0}),
    ],
    diagonal_reference,
    diagonal_put,
)  # fmt: skip


def diag_embedded(x, *, offset, dim0, dim1):
    n = x.shape[-1] + abs(offset)
    out = np.zeros((*x.shape[:-1], n, n), x.dtype)
    np.einsum("...ii->...i", square(out, offset))[...] = x
    return np.moveaxis(out, (-2, -1), (dim0, dim1))


# ----- joins -----------------------------------------------------------------------------------------------------------------


def blocks(*xs):
    out = np.zeros((sum(x.shape[0] for x in xs), sum(x.shape[1] for x in xs)), np.result_type(*xs))
    row = column = 0
    for x in xs:
        out[row : row + x.shape[0], column : column + x.shape[1]] = x
        row, column = row + x.shape[0], column + x.shape[1]
    return out


def tiled(x, *, repeats):
    return np.tile(x, repeats)


def interleaved(x, *, repeats, dim):
    return np.repeat(x, repeats, dim)


def interleaved_sum(x, *, repeats, dim):
    stops = np.cumsum(repeats)
    return np.stack([np.sum(np.take(x, range(stop - n, stop), dim), dim) for n, stop in zip(repeats, stops, strict=True)], dim)


SAMPLES = {
    "alias": each([A, Z, SCALAR, EMPTY], same),
    "detach": each([A, Z, SCALAR, EMPTY], same),
    "reshape": RESHAPES,
    "unsafe_view": RESHAPES + loose(Sample((A32,), {"shape": (12,)}, reshaped)),
    "expand": single(
        np.broadcast_to,
        (A, {"shape": (2, 3, 4)}), (ONES, {"shape": (2, 3, 5, 2)}), (A, {"shape": (1, 3, 4)}), (SCALAR, {"shape": (2, 2)}),
        (SCALAR, {"shape": ()}),
        (Z, {"shape": (2, 3, 4)}), (EMPTY, {"shape": (2, 0, 3)}), (np.ones((1, 2)), {"shape": (0, 2)}),
    ),
    "squeeze": SQUEEZES,
    "squeeze_dim": SQUEEZES,
    "squeeze_dims": SQUEEZES,
    "unsqueeze": single(
        lambda x, *, dim: np.expand_dims(x, dim),
        (A, {"dim": 0}), (A, {"dim": 1}), (Z, {"dim": 2}), (SCALAR, {"dim": 0}), (EMPTY, {"dim": 1}),
    ),
    "permute": single(
        lambda x, *, dims: np.transpose(x, dims),
        (A, {"dims": (1, 0)}), (B, {"dims": (2, 0, 1)}), (Z, {"dims": (0, 1)}), (SCALAR, {"dims": ()}),
        (EMPTY, {"dims": (1, 0)}),
    ),
    "transpose": single(
        lambda x, *, dim0, dim1: np.swapaxes(x, dim0, dim1) if np.ndim(x) else x,
        (A, {"dim0": 0, "dim1": 1}), (B, {"dim0": 2, "dim1": 0}), (Z, {"dim0": 1, "dim1": 1}),
        (SCALAR, {"dim0": 0, "dim1": 0}), (EMPTY, {"dim0": 0, "dim1": 1}),
    ),
    "t": each([A, Z, V, SCALAR, EMPTY], np.transpose),
    "view_as_real": [
        *each([Z, Z.T, Z[::2, 1::2], Z[0, 0], np.empty((0, 2), complex)], as_pairs),
        *loose(Sample((Z.astype(np.complex64),), {}, as_pairs)),
    ],
    "view_as_complex": [
        *each([r.standard_normal((3, 2)), r.standard_normal((2, 3, 4))[..., 1:3], TURNED[:, :2], np.empty((0, 2))], as_complex),
        *loose(Sample((A32[:, :2],), {}, lambda x: as_complex(x).astype(np.complex64))),
    ],
    "view_dtype": single(
        lambda x, *, dtype: x.view(dtype),
        (A, {"dtype": np.dtype(np.int64)}), (A, {"dtype": np.dtype(np.float32)}), (Z, {"dtype": np.dtype(np.float64)}),
        (WHOLE, {"dtype": np.dtype(np.uint8)}),
    ),
    "select": select,
    "select_backward": select_backward,
    "slice": slice_,
    "slice_backward": slice_backward,
    "split": single(
        split_reference,
        (A, {"split_size": 2, "dim": 0}), (B, {"split_size": 3, "dim": 2}), (Z, {"split_size": 1, "dim": 1}),
        (V, {"split_size": 9, "dim": 0}), (EMPTY, {"split_size": 0, "dim": 0}),
    ),
    "split_with_sizes": single(
        sizes_reference,
        (A, {"sizes": (1, 2), "dim": 0}), (B, {"sizes": (1, 0, 3), "dim": 2}), (Z, {"sizes": (4,), "dim": 1}),
    ),
    "unbind": single(
        lambda x, *, dim: tuple(np.moveaxis(x, dim, 0)),
        (A, {"dim": 0}), (B, {"dim": 2}), (Z, {"dim": 1}), (V, {"dim": 0}),
    ),
    "unfold": unfold,
    "unfold_backward": unfold_backward,
    "as_strided": [Sample((a,), s, strided, skip={"strided memory": "the strides are given"}) for a, s in STRIDES],
    "strided_values": single(strided, *VALUES),
    "as_strided_backward": [Sample((np.asarray(strided(a, **s)) * 2.0,), s, strided_transpose) for a, s in VALUES],
    "tril": single(lambda x, *, diagonal: np.tril(x, diagonal), (A, {"diagonal": 0}), (B, {"diagonal": -1}),
    (Z, {"diagonal": 2}), (EMPTY, {"diagonal": 0}))
        + loose(Sample((A32,), {"diagonal": 0}, lambda x, *, diagonal: np.tril(x, diagonal))),
    "triu": single(lambda x, *, diagonal: np.triu(x, diagonal), (A, {"diagonal": 0}), (B, {"diagonal": -1}),
    (Z, {"diagonal": 2}), (EMPTY, {"diagonal": 0}))
        + loose(Sample((A32,), {"diagonal": 0}, lambda x, *, diagonal: np.triu(x, diagonal))),
    "diagonal": diagonal,
    "diagonal_backward": diagonal_backward,
    "diag_embed": single(
        diag_embedded,
        (V, {"offset": 0, "dim0": 0, "dim1": 1}), (A, {"offset": 1, "dim0": 1, "dim1": 2}),
        (A, {"offset": -2, "dim0": 0, "dim1": 2}), (Z, {"offset": 1, "dim0": 2, "dim1": 0}),
        (EMPTY, {"offset": 0, "dim0": 1, "dim1": 2}),
    ),
    "cat": [
        Sample((A, 2 * A), {"dim": 0}, lambda *xs, dim: np.concatenate(xs, dim)),
        Sample((A, A[:, :1], A[:, 1:1]), {"dim": 1}, lambda *xs, dim: np.concatenate(xs, dim)),
        Sample((A, Z), {"dim": 0}, lambda *xs, dim: np.concatenate(xs, dim)),
        Sample((V,), {"dim": 0}, lambda *xs, dim: np.concatenate(xs, dim)),
        Sample((V, WHOLE), {"dim": 0}, lambda *xs, dim: np.concatenate(xs, dim)),
        *loose(Sample((A32, A32), {"dim": 1}, lambda *xs, dim: np.concatenate(xs, dim))),
    ],
    "stack": [
        Sample((A, 2 * A, -A), {"dim": dim}, lambda *xs, dim: np.stack(xs, dim)) for dim in (0, 1, 2)
    ] + [
        Sample((SCALAR, 2 * SCALAR), {"dim": 0}, lambda *xs, dim: np.stack(xs, dim)),
        Sample((Z, A), {"dim": 1}, lambda *xs, dim: np.stack(xs, dim)),
        Sample((EMPTY,), {"dim": 1}, lambda *xs, dim: np.stack(xs, dim)),
    ],
    "block_diag": [Sample((A, A.T, V[None]), {}, blocks), Sample((Z, A), {}, blocks), Sample((EMPTY, A), {}, blocks)],
    "flip": single(lambda x, *, dims: np.flip(x, dims), (A, {"dims": (0,)}), (B, {"dims": (0, 2)}), (Z, {"dims": ()}),
    (SCALAR, {"dims": ()}), (EMPTY, {"dims": (1,)})),
    "rot90": single(lambda x, *, k, dims: np.rot90(x, k, dims), *((B, {"k": k, "dims": (1, 2)}) for k in (-1, 0, 1, 2, 5)),
    (Z, {"k": 1, "dims": (1, 0)})),
    "roll": single(
        lambda x, *, shifts, dims: np.roll(x, shifts, dims),
        (A, {"shifts": (1,), "dims": (0,)}), (A, {"shifts": (5, -1), "dims": (1, 0)}),
        (B, {"shifts": (1, 1), "dims": (2, 2)}), (A, {"shifts": (3,), "dims": None}),
        (Z, {"shifts": (-2,), "dims": None}), (EMPTY, {"shifts": (1,), "dims": (0,)}),
    ),
    "repeat": single(
        tiled,
        (A, {"repeats": (2, 3)}), (A, {"repeats": (2, 1, 1)}), (Z, {"repeats": (1, 2)}), (SCALAR, {"repeats": (3,)}),
        (SCALAR, {"repeats": ()}), (A, {"repeats": (0, 2)}), (EMPTY, {"repeats": (2, 2)}),
    ),
    "repeat_interleave": single(
        interleaved,
        (A, {"repeats": (2, 0, 1), "dim": 0}), (B, {"repeats": (1, 2, 3, 0), "dim": 2}),
        (Z, {"repeats": (1, 1, 1), "dim": 0}), (V, {"repeats": (0, 0, 0, 0, 0), "dim": 0}),
        (EMPTY, {"repeats": (), "dim": 0}),
    ),
    "sum_interleaved": single(
        interleaved_sum,
        (A, {"repeats": (2, 0, 1), "dim": 0}), (B, {"repeats": (0, 1, 3, 0), "dim": 2}),
        (Z, {"repeats": (1, 1, 1), "dim": 0}), (EMPTY, {"repeats": (0, 0), "dim": 0}),
    ),
}  # fmt: skip
