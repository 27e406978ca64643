"""Samples of products: matmul, contractions, added products, cross products, distances."""

from __future__ import annotations

import numpy as np

from ndgrad.testing.op_checks import Sample

r = np.random.default_rng(7)


def real(*shape):
    return r.standard_normal(shape)


def complex_(*shape):
    return real(*shape) + 1j * real(*shape)


def single(*shape):
    return real(*shape).astype(np.float32)


def pairs(make):
    """Return every combination of ranks that matmul supports."""
    return [
        (make(4), make(4)),
        (make(4), make(4, 3)),
        (make(3, 4), make(4)),
        (make(3, 4), make(4, 2)),
        (make(5, 3, 4), make(4, 2)),
        (make(5, 3, 4), make(4)),
        (make(3, 4), make(5, 4, 2)),
        (make(4), make(5, 4, 2)),
        (make(4), make(2, 5, 4, 2)),
        (make(5, 3, 4), make(5, 4, 2)),
        (make(2, 1, 3, 4), make(5, 4, 2)),
        (make(2, 5, 3, 4), make(5, 4, 2)),
        (make(2, 5, 3, 4), make(4, 2)),
    ]


def contracted(subscripts, x, y):
    return Sample((x, y), {"subscripts": subscripts}, lambda x, y, subscripts: np.asarray(np.einsum(subscripts, x, y)))


def added(product, x, a, b):
    def reference(x, a, b, beta=1, alpha=1):
        return (beta * x if beta != 0 else np.zeros(x.shape, x.dtype)) + alpha * product(a, b)

    return [
        Sample((x, a, b), reference=reference),
        Sample((x, a, b), {"beta": 0.5, "alpha": -2.0}, reference),
        Sample((x, a, b), {"beta": 2, "alpha": 0}, reference),
        Sample((x, a, b), {"beta": 0, "alpha": 1}, reference, smooth=True),
        Sample((x, a + 1j * a, b * 1j), {"beta": 0.5j, "alpha": 1 + 2j}, reference),
    ]


def distances(x, y):
    difference = x[..., :, None, :] - y[..., None, :, :]
    return np.sqrt((difference**2).sum(-1))


NEAR = real(9, 60)
FAR = np.concatenate([NEAR[:4] + 1e-7 * real(4, 60), 10 * real(60, 60)])


LEFT, RIGHT = np.random.default_rng(8).standard_normal((2, 3, 4))


def cosines(x, y, dim, keepdim, eps):
    lengths = (np.maximum(np.linalg.norm(a, axis=dim, keepdims=keepdim), eps) for a in (x, y))
    return (x * y).sum(dim, keepdims=keepdim) / np.prod([*lengths], 0)


def with_zero_distance():
    x = real(4, 3)
    y = real(5, 3)
    y[2] = x[1]
    return x, y


def matrix_of_pairs(x, count):
    out = np.zeros((*x.shape[:-1], count, count), x.dtype)
    out[(..., *np.triu_indices(count, 1))] = x
    return out


SAMPLES = {
    "pairs": [
        Sample((x,), reference=lambda x: x[(..., *np.triu_indices(x.shape[-1], 1))])
        for x in (real(4, 4), real(2, 3, 3), real(1, 1))
    ],
    "from_pairs": [Sample((x,), {"count": n}, matrix_of_pairs) for x, n in ((real(6), 4), (complex_(2, 3), 3), (real(0), 1))],
    "matmul": [Sample(p, reference=np.matmul) for make in (real, complex_) for p in pairs(make)]
    + [
        Sample((real(3, 4), complex_(4, 2)), reference=np.matmul),
        Sample(
            (single(3, 4), single(4, 2)),
            reference=np.matmul,
            tolerance=1e-3,
            skip={"jvp": "single precision", "vjp": ""},
            smooth=False,
        ),
        Sample((real(3, 0), real(0, 2)), reference=np.matmul),
        Sample((real(0, 3, 4), real(4, 2)), reference=np.matmul),
        Sample((real(2, 3, 0), real(0, 2)), reference=np.matmul),
        Sample((r.integers(0, 5, (3, 4)), r.integers(0, 5, (4, 2))), reference=np.matmul),
    ],
    "contract": [
        contracted("ik,kj->ij", real(3, 4), real(4, 2)),
        contracted("ki,jk->ji", complex_(4, 3), complex_(2, 4)),
        contracted("i,i->", real(4), real(4)),
        contracted("i,j->ij", real(4), complex_(3)),
        contracted("i,j->ji", real(4), real(3)),
        contracted(",ij->ji", real(), real(3, 2)),
        contracted("bi,bi->b", real(3, 4), real(3, 4)),
        contracted("bij,bjk->kbi", real(2, 3, 4), real(2, 4, 5)),
        contracted("abij,jcka->kbic", real(2, 3, 2, 4), complex_(4, 2, 3, 2)),
        contracted("ijkl,lkm->mij", real(2, 3, 2, 4), real(4, 2, 3)),
        contracted("ij,ij->", complex_(3, 4), complex_(3, 4)),
        contracted("ij,ij->ij", real(3, 4), real(3, 4)),
        contracted("ik,kj->ij", real(3, 0), real(0, 2)),
    ],
    "addmm": added(np.matmul, real(3, 2), real(3, 4), real(4, 2)) + added(np.matmul, real(2), real(3, 4), real(4, 2)),
    "addmv": added(np.matmul, real(3), real(3, 4), real(4)) + added(np.matmul, real(), real(3, 4), real(4)),
    "addr": added(np.multiply.outer, real(3, 4), real(3), real(4)),
    "baddbmm": added(np.matmul, real(5, 3, 2), real(5, 3, 4), real(5, 4, 2))
    + added(np.matmul, real(3, 1), real(5, 3, 4), real(5, 4, 2)),
    "addbmm": added(lambda a, b: (a @ b).sum(0), real(3, 2), real(5, 3, 4), real(5, 4, 2)),
    "cross": [
        Sample((make(3, 4), make(3, 4)), {"dim": 0}, lambda x, y, dim: np.cross(x, y, axis=dim)) for make in (real, complex_)
    ]
    + [Sample((real(2, 4, 3), real(2, 4, 3)), {"dim": 2}, lambda x, y, dim: np.cross(x, y, axis=dim))],
    "cosine_similarity": [
        Sample((x, y), {"dim": dim, "keepdim": keepdim, "eps": eps}, reference=cosines)
        for x, y, dim, keepdim, eps in (
            (LEFT, RIGHT, 1, False, 1e-8),
            (LEFT, RIGHT, 0, False, 1e-8),
            (LEFT, RIGHT, 0, True, 1e-8),
            (np.stack([LEFT, RIGHT]), np.stack([RIGHT, -2 * LEFT]), 1, False, 1e-8),
            (np.stack([LEFT, RIGHT]), np.stack([RIGHT, -2 * LEFT]), 2, True, 1e-8),
            (LEFT[0], RIGHT[0], 0, False, 1e-8),
            (LEFT, RIGHT, 1, False, 10.0),  # all lengths are below eps
            (LEFT[:0], RIGHT[:0], 1, False, 1e-8),
        )
    ] + [
        # Squares of these numbers overflow and underflow.
        Sample((LEFT * 1e200, RIGHT * 1e-200), {"dim": 1, "eps": 1e-300}, lambda x, y, dim, eps: cosines(LEFT, RIGHT, dim, False, eps),
               smooth=False, skip={"jvp": "steps vanish beside the numbers", "vjp": "steps vanish beside the numbers"}),
    ],
    "cdist_ord": [
        Sample((x, y), {"ord": ord}, lambda x, y, ord: np.linalg.norm(x[..., :, None, :] - y[..., None, :, :], ord, -1))
        for x, y in ((real(4, 3), real(5, 3)), (real(2, 3, 2), real(2, 2)), (real(3, 2), real(2, 1, 2, 2)), (real(0, 3), real(5, 3)))
        for ord in (1.0, np.inf)
    ],
    "cdist": [
        Sample((real(4, 3), real(5, 3)), reference=distances),
        Sample((real(2, 4, 3), real(5, 3)), reference=distances),
        Sample((real(4, 3), real(2, 1, 5, 3)), reference=distances),
        Sample((real(0, 3), real(5, 3)), reference=distances),
        # At zero distance the subgradient is 0, but finite differences see a kink.
        Sample(
            with_zero_distance(),
            reference=distances,
            smooth=False,
            skip={"jvp": "a kink", "vmap": "the batch moves off the kink"},
        ),
        # Enough points for the product formula, some of them close together.
        Sample(
            (NEAR, FAR), reference=distances, smooth=False, skip={"jvp": "the step is larger than the distance", "vmap": "slow"}
        ),
    ],
}
