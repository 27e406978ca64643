"""Calls of the namespace's functions, those with a derivative and those without: `name -> [(function of a namespace and arrays, arrays)]`.

The arrays are plain, and so both NumPy and ndgrad can be called with them.
"""

from __future__ import annotations

from typing import Any

import numpy as np

_rng = np.random.default_rng(5)
V = np.array([0.3, -0.7, 1.4, 0.9])
W = np.array([1.2, 0.4, -0.8, 2.1])
UNIT = np.array([0.2, -0.5, 0.7])
POSITIVE = np.array([0.4, 1.7, 2.5])
A = _rng.normal(size=(3, 4))
B = _rng.normal(size=(4, 2))
BATCH = _rng.normal(size=(2, 3, 3))
SPD = BATCH @ BATCH.swapaxes(-1, -2) + 2.0 * np.eye(3)
COMPLEX = _rng.normal(size=(2, 4)) + 1j * _rng.normal(size=(2, 4))
INTS = np.array([3, 5, 6], np.int32)
MORE = np.array([1, 2, 4], np.int32)
BOOLS = np.array([True, False, True])


def _plain(names: str, *arrays: Any) -> dict[str, Any]:
    return {n: [(lambda xp, *a, n=n: getattr(xp, n)(*a), arrays)] for n in names.split()}


DIFFERENTIABLE: dict[str, Any] = {
    **_plain("asin acos atanh", UNIT),
    **_plain("abs asinh atan cos cosh exp expm1 negative positive reciprocal sin sinh square tan tanh real", V),
    **_plain("log log1p log2 log10 sqrt", POSITIVE),
    **_plain("acosh", POSITIVE + 1.0),
    **_plain("add atan2 copysign divide hypot logaddexp maximum minimum multiply subtract matmul remainder", V, W),
    **_plain("conj imag", COMPLEX),
    "sign": [(lambda xp, x: xp.sign(x), (COMPLEX,))],
    "pow": [(lambda xp, x, y: xp.pow(x, y), (POSITIVE, UNIT)), (lambda xp, x: xp.pow(2.5, x), (V,))],
    "clip": [(lambda xp, x: xp.clip(x, -0.5, 1.0), (V,)), (lambda xp, x, lo: xp.clip(x, max=2.0, min=lo), (V, W - 1.0))],
    "where": [(lambda xp, x, y: xp.where(x > y, x, y * y), (V, W)), (lambda xp, x: xp.where(x > 0.0, x, 2.0), (V,))],
    # reductions
    "sum": [(lambda xp, x: xp.sum(x, axis=(0, 1)), (A,)), (lambda xp, x: xp.sum(x, axis=1, keepdims=True, dtype=xp.complex128), (A,))],
    "prod": [(lambda xp, x: xp.prod(x, axis=-1), (A,))],
    "mean": [(lambda xp, x: xp.mean(x, axis=0, keepdims=True), (A,))],
    "max": [(lambda xp, x: xp.max(x, axis=1), (A,))],
    "min": [(lambda xp, x: xp.min(x), (A,))],
    "std": [(lambda xp, x: xp.std(x, axis=1, correction=1.0), (A,)), (lambda xp, x: xp.std(x), (A,))],
    "var": [(lambda xp, x: xp.var(x, axis=0, correction=0.5, keepdims=True), (A,))],
    "cumulative_sum": [(lambda xp, x: xp.cumulative_sum(x, axis=1, include_initial=True), (A,))],
    "cumulative_prod": [(lambda xp, x: xp.cumulative_prod(x, axis=0, include_initial=True), (A,))],
    "diff": [(lambda xp, x, a: xp.diff(x, axis=1, n=2, append=a), (A, A[:, :1]))],
    # shapes
    "reshape": [(lambda xp, x: xp.reshape(x, (2, -1)), (A,)), (lambda xp, x: xp.reshape(x, (4, 3), copy=True), (A,))],
    "broadcast_to": [(lambda xp, x: xp.broadcast_to(x, (2, 3, 4)), (A,))],
    "broadcast_arrays": [(lambda xp, x, y: xp.broadcast_arrays(x, y), (A, V))],
    "expand_dims": [(lambda xp, x: xp.expand_dims(x, axis=-2), (A,))],
    "squeeze": [(lambda xp, x: xp.squeeze(x, axis=0), (A[:1],))],
    "permute_dims": [(lambda xp, x: xp.permute_dims(x, (2, 0, 1)), (BATCH,))],
    "matrix_transpose": [(lambda xp, x: xp.matrix_transpose(x), (BATCH,)), (lambda xp, x: x.mT, (BATCH,)), (lambda xp, x: x.T, (A,))],
    "moveaxis": [(lambda xp, x: xp.moveaxis(x, (0, 1), (2, 0)), (BATCH,))],
    "flip": [(lambda xp, x: xp.flip(x, axis=1), (A,)), (lambda xp, x: xp.flip(x), (A,))],
    "roll": [(lambda xp, x: xp.roll(x, (1, -2), axis=(0, 1)), (A,)), (lambda xp, x: xp.roll(x, 3), (A,))],
    "tile": [(lambda xp, x: xp.tile(x, (2, 1, 2)), (A,))],
    "repeat": [(lambda xp, x: xp.repeat(x, xp.asarray([0, 2, 1]), axis=0), (A,)), (lambda xp, x: xp.repeat(x, 2), (A,))],
    "concat": [(lambda xp, x, y: xp.concat([x, y], axis=0), (A, B.T)), (lambda xp, x, y: xp.concat((x, y), axis=None), (A, B))],
    "stack": [(lambda xp, x, y: xp.stack([x, y], axis=1), (V, W))],
    "unstack": [(lambda xp, x: xp.unstack(x, axis=1), (A,))],
    "tril": [(lambda xp, x: xp.tril(x, k=-1), (BATCH,))],
    "triu": [(lambda xp, x: xp.triu(x, k=1), (BATCH,))],
    "meshgrid": [(lambda xp, x, y: xp.meshgrid(x, y, indexing="ij"), (V, W))],
    # picked elements
    "sort": [(lambda xp, x: xp.sort(x, axis=0), (A,)), (lambda xp, x: xp.flip(xp.sort(x), axis=-1), (A,))],
    "take": [(lambda xp, x: xp.take(x, xp.asarray([2, 0, 0]), axis=1), (A,))],
    "take_along_axis": [(lambda xp, x: xp.take_along_axis(x, xp.argsort(x, axis=0), axis=0), (A,))],
    "unique_all": [(lambda xp, x: xp.sort(xp.unique_all(x).values), (V,))],
    "unique_counts": [(lambda xp, x: xp.sort(xp.unique_counts(x).values), (V,))],
    "unique_inverse": [(lambda xp, x: xp.sort(xp.unique_inverse(x).values), (V,))],
    "unique_values": [(lambda xp, x: xp.sort(xp.unique_values(x)), (V,))],
    # products
    "tensordot": [
        (lambda xp, x, y: xp.tensordot(x, y, axes=1), (A, B)),
        (lambda xp, x, y: xp.tensordot(x, y, axes=((0,), (1,))), (A, BATCH[0])),
    ],
    "vecdot": [(lambda xp, x, y: xp.vecdot(x, y, axis=-2), (BATCH, SPD)), (lambda xp, x: xp.vecdot(x, x), (COMPLEX,))],
    # creation from arrays
    "asarray": [(lambda xp, x: xp.asarray(x, copy=True), (A,))],
    "astype": [(lambda xp, x: xp.astype(x, xp.complex128), (A,))],
    # linalg
    "linalg.cholesky": [(lambda xp, x: xp.linalg.cholesky(x + x.mT, upper=True), (SPD,))],
    "linalg.cross": [(lambda xp, x, y: xp.linalg.cross(x, y, axis=1), (BATCH, SPD))],
    "linalg.det": [(lambda xp, x: xp.linalg.det(x), (BATCH,))],
    "linalg.diagonal": [(lambda xp, x: xp.linalg.diagonal(x, offset=1), (BATCH,))],
    "linalg.eigh": [(lambda xp, x: xp.abs(xp.linalg.eigh(x + x.mT).eigenvectors), (SPD,))],
    "linalg.eigvalsh": [(lambda xp, x: xp.linalg.eigvalsh(x + x.mT), (SPD,))],
    "linalg.inv": [(lambda xp, x: xp.linalg.inv(x), (SPD,))],
    "linalg.matmul": [(lambda xp, x, y: xp.linalg.matmul(x, y), (A, B))],
    "linalg.matrix_norm": [
        (lambda xp, x, o=o: xp.linalg.matrix_norm(x, ord=o, keepdims=True), (BATCH,)) for o in ("fro", "nuc", 1, -1, 2, -2, np.inf)
    ],
    "linalg.matrix_power": [(lambda xp, x, n=n: xp.linalg.matrix_power(x, n), (SPD,)) for n in (-2, 3)],
    "linalg.matrix_transpose": [(lambda xp, x: xp.linalg.matrix_transpose(x), (BATCH,))],
    "linalg.outer": [(lambda xp, x, y: xp.linalg.outer(x, y), (V, UNIT))],
    "linalg.pinv": [(lambda xp, x: xp.linalg.pinv(x), (A,)), (lambda xp, x: xp.linalg.pinv(x, rtol=1e-3), (A.T,))],
    "linalg.qr": [
        (lambda xp, x: xp.abs(xp.linalg.qr(x, mode="reduced").R), (B,)),
        (lambda xp, x: xp.linalg.qr(x).Q @ xp.linalg.qr(x).R, (B,)),
    ],
    "linalg.slogdet": [(lambda xp, x: xp.linalg.slogdet(x).logabsdet, (BATCH,))],
    "linalg.solve": [(lambda xp, x, y: xp.linalg.solve(x, y), (SPD, UNIT)), (lambda xp, x, y: xp.linalg.solve(x, y), (SPD, A))],
    "linalg.svd": [
        (lambda xp, x: xp.linalg.svd(x, full_matrices=False).S, (A,)),
        (lambda xp, x: xp.abs(xp.linalg.svd(x, full_matrices=False).U), (A,)),
    ],
    "linalg.svdvals": [(lambda xp, x: xp.linalg.svdvals(x), (BATCH,))],
    "linalg.tensordot": [(lambda xp, x, y: xp.linalg.tensordot(x, y, axes=1), (A, B))],
    "linalg.trace": [(lambda xp, x: xp.linalg.trace(x, offset=-1), (BATCH,))],
    "linalg.vecdot": [(lambda xp, x, y: xp.linalg.vecdot(x, y), (A, V))],
    "linalg.vector_norm": [(lambda xp, x, o=o: xp.linalg.vector_norm(x, axis=(0, 2), ord=o), (BATCH,)) for o in (1, 2, 3.5, np.inf)],
    # fft
    **{
        f"fft.{n}": [(lambda xp, x, n=n: getattr(xp.fft, n)(x, n=5, axis=0, norm="ortho"), (COMPLEX.T,))]
        for n in ("fft", "ifft", "irfft", "hfft")
    },
    **{f"fft.{n}": [(lambda xp, x, n=n: getattr(xp.fft, n)(x, n=5, norm="forward"), (A,))] for n in ("rfft", "ihfft")},
    **{f"fft.{n}": [(lambda xp, x, n=n: getattr(xp.fft, n)(x, s=(2, 3), axes=(1, 0)), (COMPLEX,))] for n in ("fftn", "ifftn", "irfftn")},
    "fft.rfftn": [(lambda xp, x: xp.fft.rfftn(x, axes=(0, 1)), (A,))],
    "fft.fftshift": [(lambda xp, x: xp.fft.fftshift(x, axes=1), (A,))],
    "fft.ifftshift": [(lambda xp, x: xp.fft.ifftshift(x), (A,))],
}  # fmt: skip

DISCRETE: dict[str, Any] = {
    **_plain("ceil floor round trunc isfinite isinf isnan signbit logical_not", np.array([-1.5, 2.5, -0.0, 0.3])),
    **_plain("equal not_equal less less_equal greater greater_equal logical_and logical_or logical_xor nextafter floor_divide", V, W),
    **_plain("bitwise_and bitwise_or bitwise_xor bitwise_left_shift bitwise_right_shift", INTS, MORE),
    **_plain("bitwise_invert", INTS),
    **_plain("nonzero", BOOLS),
    **_plain("zeros ones", (2, 3)),
    **_plain("zeros_like ones_like", INTS),
    "empty": [(lambda xp: xp.empty((2, 0), dtype=xp.int8), ())],
    "empty_like": [(lambda xp, x: xp.empty_like(x[:0], dtype=xp.complex64), (V,))],
    "full": [(lambda xp: xp.full((2, 2), 7, dtype=xp.uint8), ()), (lambda xp: xp.full(3, 2.5), ())],
    "full_like": [(lambda xp, x: xp.full_like(x, 7), (V,))],
    "eye": [(lambda xp: xp.eye(2, 3, k=1, dtype=xp.float32), ())],
    "arange": [(lambda xp: xp.arange(2, 9, 3), ()), (lambda xp: xp.arange(2.5), ()), (lambda xp: xp.arange(4, dtype=xp.float32), ())],
    "linspace": [(lambda xp: xp.linspace(0.0, 1.0, 5, endpoint=False, dtype=xp.float32), ())],
    "from_dlpack": [(lambda xp, x: xp.from_dlpack(x), (V,))],
    "all": [(lambda xp, x: xp.all(x > 0, axis=1), (A,))],
    "any": [(lambda xp, x: xp.any(x > 0, axis=(0, 1), keepdims=True), (A,)), (lambda xp, x: xp.any(x), (INTS[:0],))],
    "count_nonzero": [(lambda xp, x: xp.count_nonzero(x > 0, axis=1, keepdims=True), (A,))],
    "argmax": [(lambda xp, x: xp.argmax(x, axis=1, keepdims=True), (A,))],
    "argmin": [(lambda xp, x: xp.argmin(x), (A,))],
    "argsort": [(lambda xp, x: xp.argsort(x, axis=0), (A,))],
    "searchsorted": [(lambda xp, x, y: xp.searchsorted(xp.sort(x), y, side="right"), (V, W))],
    "can_cast": [(lambda xp: (xp.can_cast(xp.int8, xp.int16), xp.can_cast(xp.float64, xp.int8)), ())],
    "isdtype": [(lambda xp: (xp.isdtype(xp.dtype("int8"), ("unsigned integer", xp.int8)) if hasattr(xp, "dtype") else True,), ())],
    "result_type": [(lambda xp, x: str(xp.result_type(x, xp.uint8, 3)), (INTS,))],
    "finfo": [(lambda xp: xp.finfo(xp.float32).bits, ())],
    "iinfo": [(lambda xp: xp.iinfo(xp.uint16).max, ())],
    "linalg.matrix_rank": [(lambda xp, x: xp.linalg.matrix_rank(x, rtol=1e-3), (BATCH,))],
    "fft.fftfreq": [(lambda xp: xp.fft.fftfreq(5, d=0.5), ())],
    "fft.rfftfreq": [(lambda xp: xp.fft.rfftfreq(5, d=0.5), ())],
}  # fmt: skip
