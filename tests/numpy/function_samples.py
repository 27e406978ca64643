"""A call, at least, of each function of NumPy that dispatches.

`np` is NumPy's module (for the oracle and for ours alike: the arguments decide), `new` makes buffers (NumPy for the oracle,
ndgrad.numpy for ours). Functions under DIFFERENTIABLE are checked against finite differences of NumPy's own, in every array given;
those under DISCRETE have answers without a derivative, whose values are compared.
"""

from __future__ import annotations

import io
from collections.abc import Callable
from typing import Any, NamedTuple

import numpy as onp

rng = onp.random.default_rng(7)


class Call(NamedTuple):
    run: Callable[..., Any]
    inputs: tuple[Any, ...]


def normal(*shape: int) -> Any:
    return rng.standard_normal(shape)


def positive(*shape: int) -> Any:
    return rng.random(shape) + 0.5


def draw_distinct(n: int) -> Any:
    """Distinct numbers in no order, so that small steps change no order."""
    return rng.permutation(n) + 0.3 * rng.random(n)


def table(*shape: int) -> Any:
    return draw_distinct(int(onp.prod(shape))).reshape(shape)


def complex_normal(*shape: int) -> Any:
    return normal(*shape) + 1j * normal(*shape)


def positive_definite(n: int) -> Any:
    a = normal(n, n)
    return a @ a.T + n * onp.eye(n)


def with_nan(*shape: int) -> Any:
    x = table(*shape)
    x.flat[1] = onp.nan
    return x


def C(run: Callable[..., Any], *inputs: Any) -> Call:
    return Call(run, inputs)


X, Y, M, Z = normal(4), normal(4), normal(3, 4), complex_normal(3)


def _buffer(write: Callable[..., None], shape: tuple[int, ...] = (3, 4)) -> Callable[..., Any]:
    """A function that writes into a buffer, as a function of what it writes."""

    def run(np: Any, new: Any, *inputs: Any) -> Any:
        u = new.ones(shape)
        u *= 2.0
        write(np, u, *inputs)
        return u

    return run


DIFFERENTIABLE: dict[str, list[Call]] = {
    # ----- elementwise
    "angle": [C(lambda np, new, z: np.angle(z), Z), C(lambda np, new, z: np.angle(z, deg=True), Z)],
    "around": [C(lambda np, new, x: np.around(x, 1) + x, X)],
    "astype": [C(lambda np, new, x: np.astype(x, complex) * (1 + 2j), X)],
    "clip": [
        C(lambda np, new, x: np.clip(x, -0.5, 0.5), X),
        C(lambda np, new, x: np.clip(x, None, 0.1), X),
        C(lambda np, new, x, lo: np.clip(x, lo, 1.0), X, onp.float64(-0.2)),
    ],
    "fix": [C(lambda np, new, x: np.fix(x) + x, 3 * X)],
    "i0": [C(lambda np, new, x: np.i0(x), X)],
    "imag": [C(lambda np, new, z: np.imag(z) * 2, Z)],
    "interp": [
        C(
            lambda np, new, x, xp, fp: np.interp(x, xp, fp),
            onp.array([-1.0, 0.3, 1.7, 2.2, 9.0]),
            onp.array([0.0, 1.0, 2.0, 4.0]),
            normal(4),
        ),
        C(lambda np, new, x, fp: np.interp(x, [0.0, 1.0, 2.0], fp, left=-1.0, right=5.0), onp.array([-1.0, 0.3, 3.0]), normal(3)),
        C(lambda np, new, x, fp: np.interp(x, [0.5, 1.5, 3.0], fp, period=4.0), onp.array([-1.2, 0.3, 3.6, 7.1]), normal(3)),
    ],
    "nan_to_num": [C(lambda np, new, x: np.nan_to_num(x, nan=1.0), onp.array([1.0, -2.0, 0.5]))],
    "real": [C(lambda np, new, z: np.real(z) * 2, Z)],
    "real_if_close": [C(lambda np, new, z: np.real_if_close(z), Z), C(lambda np, new, x: np.real_if_close(x + 0j), X)],
    "round": [C(lambda np, new, x: np.round(x, 2) + x, X)],
    "sinc": [C(lambda np, new, x: np.sinc(x), X)],
    "unwrap": [
        C(lambda np, new, x: np.unwrap(x), onp.array([0.1, 3.0, -3.0, 2.9, 0.2])),
        C(lambda np, new, x: np.unwrap(x, axis=0, period=4.0), 5 * M),
    ],
    # ----- reductions
    **{
        name: [
            C(lambda np, new, x, f=name: getattr(np, f)(x), table(3, 4) / 5 + 0.2),
            C(lambda np, new, x, f=name: getattr(np, f)(x, axis=1), table(3, 4) / 5 + 0.2),
            C(lambda np, new, x, f=name: getattr(np, f)(x, axis=(0, 2), keepdims=True), table(2, 3, 2) / 5 + 0.2),
        ]
        for name in (
            "amax",
            "amin",
            "max",
            "min",
            "ptp",
            "sum",
            "prod",
            "mean",
            "std",
            "var",
            "nansum",
            "nanprod",
            "nanmax",
            "nanmin",
            "nanmean",
            "nanstd",
            "nanvar",
            "median",
            "nanmedian",
        )
    },
    "average": [
        C(lambda np, new, x, w: np.average(x, axis=1, weights=w), M, positive(4)),
        C(lambda np, new, x: np.average(x), M),
        C(lambda np, new, x, w: np.average(x, axis=0, weights=w, returned=True), M, positive(3, 4)),
    ],
    "cumprod": [C(lambda np, new, x: np.cumprod(x, axis=1), M)],
    "cumsum": [C(lambda np, new, x: np.cumsum(x), M), C(lambda np, new, x: np.cumsum(x, axis=0), M)],
    "cumulative_prod": [C(lambda np, new, x: np.cumulative_prod(x, axis=1, include_initial=True), M)],
    "cumulative_sum": [C(lambda np, new, x: np.cumulative_sum(x, axis=0), M)],
    "nancumprod": [C(lambda np, new, x: np.nancumprod(x, axis=1), M)],
    "nancumsum": [C(lambda np, new, x: np.nancumsum(x, axis=1), M)],
    # ----- order statistics
    **{
        name: [
            C(lambda np, new, x, f=name, s=scale: getattr(np, f)(x, 0.3 * s), draw_distinct(7)),
            C(lambda np, new, x, q, f=name, s=scale: getattr(np, f)(x, q * s, axis=1), table(3, 5), onp.array([0.21, 0.8])),
            C(
                lambda np, new, x, f=name, s=scale: getattr(np, f)(x, [0.21 * s, 0.7 * s], axis=0, method="median_unbiased", keepdims=True),
                table(5, 2),
            ),
            C(lambda np, new, x, f=name, s=scale: getattr(np, f)(x, 0.6 * s, method="nearest"), draw_distinct(6)),
        ]
        for name, scale in (("percentile", 100), ("quantile", 1), ("nanpercentile", 100), ("nanquantile", 1))
    },
    "corrcoef": [C(lambda np, new, x: np.corrcoef(x), M), C(lambda np, new, x, y: np.corrcoef(x, y), X, Y)],
    "cov": [
        C(lambda np, new, x: np.cov(x), M),
        C(lambda np, new, x, y: np.cov(x, y, rowvar=False, ddof=0), normal(4, 2), normal(4, 3)),
        C(lambda np, new, x, w: np.cov(x, aweights=w, fweights=[1, 2, 1, 3]), M, positive(4)),
    ],
    "histogram": [
        C(lambda np, new, w: np.histogram([0.1, 0.4, 0.9, 1.7], bins=3, range=(0, 2), weights=w), positive(4)),
        C(lambda np, new, w: np.histogram([0.1, 0.4, 0.9, 1.7], bins=[0, 0.5, 2.0], weights=w, density=True), positive(4)),
        C(lambda np, new, x: np.histogram(x, bins=3)[1], draw_distinct(5)),
    ],
    "histogram_bin_edges": [C(lambda np, new, x: np.histogram_bin_edges(x, bins=4), draw_distinct(5))],
    "histogram2d": [C(lambda np, new, w: np.histogram2d([0.1, 0.4, 0.9], [1.0, 2.0, 3.0], bins=2, weights=w)[0], positive(3))],
    "histogramdd": [
        C(
            lambda np, new, w: np.histogramdd(onp.array([[0.1, 1.0], [0.4, 2.0], [0.9, 3.0]]), bins=2, weights=w, density=True)[0],
            positive(3),
        )
    ],
    "bincount": [C(lambda np, new, w: np.bincount([0, 2, 2, 5], weights=w, minlength=8), X)],
    # ----- shapes
    "array_split": [C(lambda np, new, x: np.array_split(x, 3, axis=1), M)],
    "atleast_1d": [C(lambda np, new, x: np.atleast_1d(x) ** 2, onp.float64(1.5)), C(lambda np, new, x, y: np.atleast_1d(x, y), X, M)],
    "atleast_2d": [C(lambda np, new, x: np.atleast_2d(x) ** 2, X)],
    "atleast_3d": [C(lambda np, new, x: np.atleast_3d(x) ** 2, X), C(lambda np, new, x: np.atleast_3d(x) ** 2, M)],
    "broadcast_arrays": [C(lambda np, new, x, y: np.broadcast_arrays(x, y), X, normal(3, 1))],
    "broadcast_to": [C(lambda np, new, x: np.broadcast_to(x, (3, 4)) ** 2, X)],
    "copy": [C(lambda np, new, x: np.copy(x) ** 2, M)],
    "diag": [C(lambda np, new, x: np.diag(x, 1), X), C(lambda np, new, x: np.diag(x, -1), M)],
    "diagflat": [C(lambda np, new, x: np.diagflat(x, 1), normal(2, 2))],
    "diagonal": [C(lambda np, new, x: np.diagonal(x, 1, 0, 2), normal(3, 2, 4))],
    "dsplit": [C(lambda np, new, x: np.dsplit(x, [1, 2]), normal(2, 2, 4))],
    "expand_dims": [C(lambda np, new, x: np.expand_dims(x, (0, -1)) ** 2, X)],
    "flip": [C(lambda np, new, x: np.flip(x, (0,)) ** 2, M), C(lambda np, new, x: np.flip(x), M)],
    "fliplr": [C(lambda np, new, x: np.fliplr(x), M)],
    "flipud": [C(lambda np, new, x: np.flipud(x), M)],
    "hsplit": [C(lambda np, new, x: np.hsplit(x, 2), M)],
    "matrix_transpose": [C(lambda np, new, x: np.matrix_transpose(x), normal(2, 3, 4))],
    "moveaxis": [C(lambda np, new, x: np.moveaxis(x, (0, 1), (-1, 0)), normal(2, 3, 4))],
    "permute_dims": [C(lambda np, new, x: np.permute_dims(x, (1, 2, 0)), normal(2, 3, 4))],
    "ravel": [C(lambda np, new, x: np.ravel(x, order="F"), M)],
    "repeat": [C(lambda np, new, x: np.repeat(x, [1, 0, 2], axis=0), M), C(lambda np, new, x: np.repeat(x, 2), M)],
    "reshape": [C(lambda np, new, x: np.reshape(x, (2, -1), order="F"), M)],
    "resize": [C(lambda np, new, x: np.resize(x, (3, 3)), X)],
    "roll": [C(lambda np, new, x: np.roll(x, (1, 2), (0, 1)), M), C(lambda np, new, x: np.roll(x, 2), M)],
    "rollaxis": [C(lambda np, new, x: np.rollaxis(x, 2, 1), normal(2, 3, 4))],
    "rot90": [C(lambda np, new, x: np.rot90(x, 3), M)],
    "split": [C(lambda np, new, x: np.split(x, [1, 3], 1), M)],
    "squeeze": [C(lambda np, new, x: np.squeeze(x, 0), normal(1, 3, 1))],
    "swapaxes": [C(lambda np, new, x: np.swapaxes(x, 0, 2), normal(2, 3, 4))],
    "tile": [C(lambda np, new, x: np.tile(x, (2, 1, 2)), M)],
    "trace": [C(lambda np, new, x: np.trace(x, 1), M)],
    "transpose": [C(lambda np, new, x: np.transpose(x), M), C(lambda np, new, x: np.transpose(x, (1, 2, 0)), normal(2, 3, 4))],
    "tril": [C(lambda np, new, x: np.tril(x, -1), M), C(lambda np, new, x: np.tril(x), X)],
    "triu": [C(lambda np, new, x: np.triu(x, 1), normal(2, 3, 3))],
    "trim_zeros": [C(lambda np, new, x: np.trim_zeros(np.concatenate(([0.0, 0.0], x, [0.0]))), X)],
    "unstack": [C(lambda np, new, x: np.unstack(x, axis=1), M)],
    "vsplit": [C(lambda np, new, x: np.vsplit(x, 3), M)],
    # ----- joining
    "append": [C(lambda np, new, x, y: np.append(x, y), X, M), C(lambda np, new, x, y: np.append(x, y, axis=0), M, normal(1, 4))],
    "block": [C(lambda np, new, x, y: np.block([[x, y], [np.transpose(y), 2.0 * x[:2, :2]]]), normal(3, 3)[:2, :2], normal(2, 2))],
    "column_stack": [C(lambda np, new, x, y: np.column_stack((x, y)), X, normal(4, 2))],
    "concat": [C(lambda np, new, x, y: np.concat((x, y)), X, Y)],
    "concatenate": [C(lambda np, new, x, y: np.concatenate([x, y, [1.0, 2.0]], axis=None), X, M)],
    "delete": [C(lambda np, new, x: np.delete(x, [0, -1], axis=1), M), C(lambda np, new, x: np.delete(x, slice(1, 3)), X)],
    "dstack": [C(lambda np, new, x, y: np.dstack([x, y]), X, Y)],
    "hstack": [C(lambda np, new, x, y: np.hstack([x, y]), X, normal(2)), C(lambda np, new, x, y: np.hstack([x, y]), M, normal(3, 1))],
    "insert": [
        C(lambda np, new, x, v: np.insert(x, 1, v, axis=1), M, normal(3)),
        C(lambda np, new, x, v: np.insert(x, [1, 3, 1], v), X, normal(3)),
        C(lambda np, new, x, v: np.insert(x, 2, v), X, onp.float64(0.7)),
    ],
    "pad": [
        *(
            C(lambda np, new, x, m=mode: np.pad(x, ((1, 2), (3, 1)), m), table(3, 4))
            for mode in ("constant", "edge", "reflect", "symmetric", "wrap", "linear_ramp", "maximum", "minimum", "mean", "median")
        ),
        C(lambda np, new, x: np.pad(x, 5, "reflect", reflect_type="odd"), X),
        C(lambda np, new, x: np.pad(x, 5, "symmetric", reflect_type="odd"), X),
        C(lambda np, new, x: np.pad(x, (2, 1), constant_values=(1.0, 3.0)), X),
        C(lambda np, new, x: np.pad(x, 2, "linear_ramp", end_values=(1.0, 3.0)), X),
        C(lambda np, new, x: np.pad(x, 2, "mean", stat_length=2), X),
    ],
    "stack": [C(lambda np, new, x, y: np.stack([x, y, [1.0, 2.0, 3.0, 4.0]], axis=1), X, Y)],
    "vstack": [C(lambda np, new, x, y: np.vstack((x, y)), X, M)],
    # ----- indexing
    "choose": [C(lambda np, new, x, y: np.choose([0, 1, 1, 0], (x, y)), X, Y)],
    "compress": [C(lambda np, new, x: np.compress([True, False, True], x, axis=0), M)],
    "copyto": [
        C(_buffer(lambda np, u, x: np.copyto(u, x)), X),
        C(_buffer(lambda np, u, x: np.copyto(u, x, where=[[True], [False], [True]])), X),
    ],
    "extract": [C(lambda np, new, x: np.extract([True, False, True, True], x), X)],
    "fill_diagonal": [
        C(_buffer(lambda np, u, x: np.fill_diagonal(u, x)), normal(2)),
        C(_buffer(lambda np, u, x: np.fill_diagonal(u, x, wrap=True), (6, 2)), normal(2)),
    ],
    "piecewise": [
        C(lambda np, new, x: np.piecewise(x, [x < 0, x >= 0], [lambda v: v * v, lambda v: 3.0 * v]), X),
        C(lambda np, new, x: np.piecewise(x, [x < 0], [-1.0, np.exp]), X),
    ],
    "place": [C(_buffer(lambda np, u, x: np.place(u, [[True, False, True, True], [False] * 4, [True] * 4], x)), normal(3))],
    "put": [
        C(_buffer(lambda np, u, x: np.put(u, [0, 5, -1], x)), normal(3)),
        C(_buffer(lambda np, u, x: np.put(u, [0, 50], x, mode="wrap")), normal(2)),
    ],
    "put_along_axis": [C(_buffer(lambda np, u, x: np.put_along_axis(u, onp.array([[0], [3], [1]]), x, axis=1)), normal(3, 1))],
    "putmask": [C(_buffer(lambda np, u, x: np.putmask(u, u > 1.0, x)), normal(5))],
    "select": [C(lambda np, new, x, y: np.select([x < 0, x < 0.7], [x * x, y], default=2.0), X, Y)],
    "take": [C(lambda np, new, x: np.take(x, [[0, 1], [-1, 0]], axis=1), M), C(lambda np, new, x: np.take(x, [5, 13], mode="wrap"), M)],
    "take_along_axis": [C(lambda np, new, x: np.take_along_axis(x, onp.array([[0, -1], [3, 2], [1, 1]]), axis=1), M)],
    "where": [
        C(lambda np, new, x, y: np.where(x > 0, x * x, y), X, Y),
        C(lambda np, new, x: np.where([True, False], x, 1.0), normal(3, 2)),
    ],
    # ----- products
    "cross": [
        C(lambda np, new, x, y: np.cross(x, y), normal(2, 3), normal(3)),
        C(lambda np, new, x, y: np.cross(x, y, axis=0), normal(3, 2), normal(3, 2)),
    ],
    "dot": [C(lambda np, new, x, y: np.dot(x, y), M, X), C(lambda np, new, x, y: np.dot(x, y), normal(2, 3, 4), normal(2, 4, 2))],
    "einsum": [
        C(lambda np, new, x, y: np.einsum("ij,kj->ik", x, y), M, normal(2, 4)),
        C(lambda np, new, x, y: np.einsum(x, [0, 1], y, [1], [0]), M, X),
        C(lambda np, new, x: np.einsum("ii->i", x), normal(3, 3)),
        C(lambda np, new, x, y: np.einsum("...j,j", x, y), normal(2, 3, 4), X),
    ],
    "inner": [C(lambda np, new, x, y: np.inner(x, y), M, normal(2, 4))],
    "kron": [C(lambda np, new, x, y: np.kron(x, y), normal(2, 2), normal(1, 3))],
    "outer": [C(lambda np, new, x, y: np.outer(x, y), M, X)],
    "tensordot": [C(lambda np, new, x, y: np.tensordot(x, y, axes=([0, 2], [1, 0])), normal(2, 3, 4), normal(4, 2))],
    "vdot": [C(lambda np, new, x, y: np.vdot(x, y), Z, complex_normal(3))],
    # ----- calculus
    "convolve": [C(lambda np, new, x, y, m=m: np.convolve(x, y, m), normal(5), normal(3)) for m in ("full", "same", "valid")],
    "correlate": [
        *(C(lambda np, new, x, y, m=m: np.correlate(x, y, m), normal(5), normal(3)) for m in ("full", "same", "valid")),
        C(lambda np, new, x, y: np.correlate(x, y, "full"), complex_normal(2), complex_normal(4)),
        C(lambda np, new, x, y: np.correlate(x, y, "same"), normal(2), normal(5)),
    ],
    "diff": [
        C(lambda np, new, x: np.diff(x, 2, axis=0), normal(4, 2)),
        C(lambda np, new, x, p: np.diff(x, prepend=p, append=1.0), X, onp.float64(0.2)),
    ],
    "ediff1d": [C(lambda np, new, x, e: np.ediff1d(x, to_end=e, to_begin=[1.0]), M, normal(2))],
    "gradient": [
        C(lambda np, new, f, h: np.gradient(f, h), normal(6), onp.float64(0.3)),
        C(lambda np, new, f, x: np.gradient(f, x, edge_order=2), normal(5), onp.sort(draw_distinct(5))),
        C(lambda np, new, f: np.gradient(f, 0.5, axis=0, edge_order=2), normal(4, 3)),
        C(lambda np, new, f: np.gradient(f), normal(3, 4)),
    ],
    "trapezoid": [
        C(lambda np, new, y, x: np.trapezoid(y, x), M, onp.sort(draw_distinct(4))),
        C(lambda np, new, y: np.trapezoid(y, dx=0.3, axis=0), M),
    ],
    "trapz": [C(lambda np, new, y: np.trapz(y, dx=0.3, axis=0), M)],
    # ----- sorting and sets
    "partition": [C(lambda np, new, x: np.sort(np.partition(x, 2)[:3]), draw_distinct(6))],
    "sort": [C(lambda np, new, x: np.sort(x, axis=0), table(3, 4)), C(lambda np, new, x: np.sort(x, axis=None), table(3, 4))],
    "sort_complex": [C(lambda np, new, x: np.sort_complex(x), draw_distinct(4))],
    "unique": [C(lambda np, new, x: np.unique(x), draw_distinct(5)), C(lambda np, new, x: np.unique(x, axis=0), table(3, 2))],
    "unique_all": [C(lambda np, new, x: np.unique_all(x).values, draw_distinct(5))],
    "unique_counts": [C(lambda np, new, x: np.unique_counts(x).values, draw_distinct(5))],
    "unique_inverse": [C(lambda np, new, x: np.unique_inverse(x).values, draw_distinct(5))],
    "unique_values": [C(lambda np, new, x: np.sort(np.unique_values(x)), draw_distinct(5))],
    "intersect1d": [C(lambda np, new, x: np.intersect1d(x, np.flip(x)[1:]), draw_distinct(5))],
    "setdiff1d": [C(lambda np, new, x: np.setdiff1d(x, [100.0]), draw_distinct(4))],
    "setxor1d": [C(lambda np, new, x, y: np.setxor1d(x, y), draw_distinct(4), draw_distinct(3) + 10)],
    "union1d": [C(lambda np, new, x, y: np.union1d(x, y), draw_distinct(4), draw_distinct(3) + 10)],
    # ----- polynomials
    "poly": [C(lambda np, new, z: np.poly(z), X), C(lambda np, new, m: np.poly(m), positive_definite(3))],
    "polyadd": [C(lambda np, new, p, q: np.polyadd(p, q), X, normal(2))],
    "polyder": [C(lambda np, new, p: np.polyder(p, 2), X)],
    "polydiv": [C(lambda np, new, p, q: np.polydiv(p, q), normal(5), onp.array([1.5, 0.3, 0.8]))],
    "polyfit": [
        C(lambda np, new, x, y, w: np.polyfit(x, y, 2, w=w), onp.sort(draw_distinct(6)), normal(6), positive(6)),
        C(lambda np, new, x, y: np.polyfit(x, y, 1, cov=True), onp.sort(draw_distinct(6)), normal(6)),
    ],
    "polyint": [C(lambda np, new, p, k: np.polyint(p, 2, k), X, normal(2))],
    "polymul": [C(lambda np, new, p, q: np.polymul(p, q), X, normal(2))],
    "polysub": [C(lambda np, new, p, q: np.polysub(p, q), X, normal(2))],
    "polyval": [C(lambda np, new, p, x: np.polyval(p, x), X, M)],
    "roots": [C(lambda np, new, p: np.sort(np.real(np.roots(p))), onp.poly([1.0, -2.0, 3.5]))],
    "vander": [C(lambda np, new, x: np.vander(x, 3), X), C(lambda np, new, x: np.vander(x, increasing=True), X)],
    # ----- creation and functions of functions
    "full_like": [C(lambda np, new, v: np.full_like(new.zeros(3), v), onp.float64(0.4))],
    "geomspace": [C(lambda np, new, a, b: np.geomspace(a, b, 5), onp.float64(0.5), onp.float64(4.0))],
    "linspace": [
        C(lambda np, new, a, b: np.linspace(a, b, 5), onp.float64(0.5), onp.float64(4.0)),
        C(lambda np, new, a, b: np.linspace(a, b, 4, endpoint=False, retstep=True, axis=1), X, Y),
    ],
    "logspace": [C(lambda np, new, a, b: np.logspace(a, b, 4), onp.float64(0.5), onp.float64(1.0))],
    "meshgrid": [
        C(lambda np, new, x, y: np.meshgrid(x, y), normal(3), normal(2)),
        C(lambda np, new, x, y: np.meshgrid(x, y, indexing="ij", sparse=True), normal(3), normal(2)),
    ],
    "apply_along_axis": [
        C(lambda np, new, x: np.apply_along_axis(lambda r: np.outer(r, r[:2]), 1, x), M),
        C(lambda np, new, x: np.apply_along_axis(np.sum, 0, x), M),
    ],
    "apply_over_axes": [C(lambda np, new, x: np.apply_over_axes(np.sum, x, [0, 2]), normal(2, 3, 2))],
    # ----- linalg
    "linalg.cholesky": [C(lambda np, new, a: np.linalg.cholesky((a + np.transpose(a)) / 2), positive_definite(3))],
    "linalg.cond": [C(lambda np, new, a: np.linalg.cond(a), normal(3, 3)), C(lambda np, new, a: np.linalg.cond(a, 1), normal(3, 3))],
    "linalg.cross": [C(lambda np, new, x, y: np.linalg.cross(x, y), normal(2, 3), normal(2, 3))],
    "linalg.det": [C(lambda np, new, a: np.linalg.det(a), normal(2, 3, 3))],
    "linalg.diagonal": [C(lambda np, new, a: np.linalg.diagonal(a, offset=1), normal(2, 3, 3))],
    "linalg.eig": [
        C(lambda np, new, a: np.abs(np.linalg.eig(a).eigenvectors) ** 2, positive_definite(3)),
        C(lambda np, new, a: np.linalg.eig(a).eigenvalues, normal(3, 3)),
    ],
    "linalg.eigh": [
        C(lambda np, new, a: (np.linalg.eigh(a + np.transpose(a))[0], np.linalg.eigh(a + np.transpose(a))[1] ** 2), normal(3, 3))
    ],
    "linalg.eigvals": [C(lambda np, new, a: np.linalg.eigvals(a), normal(3, 3))],
    "linalg.eigvalsh": [C(lambda np, new, a: np.linalg.eigvalsh(a + np.transpose(a), "U"), normal(3, 3))],
    "linalg.inv": [C(lambda np, new, a: np.linalg.inv(a), normal(2, 3, 3))],
    "linalg.lstsq": [
        C(lambda np, new, a, b: np.linalg.lstsq(a, b)[:2], normal(5, 2), normal(5, 3)),
        C(lambda np, new, a, b: np.linalg.lstsq(a, b, rcond=None)[0], normal(5, 2), normal(5)),
    ],
    "linalg.matmul": [C(lambda np, new, x, y: np.linalg.matmul(x, y), M, X)],
    "linalg.matrix_norm": [
        C(lambda np, new, a, o=o: np.linalg.matrix_norm(a, ord=o, keepdims=True), normal(2, 3, 4)) for o in ("fro", "nuc", 2, 1, onp.inf)
    ],
    "linalg.matrix_power": [
        C(lambda np, new, a: np.linalg.matrix_power(a, 3), normal(3, 3)),
        C(lambda np, new, a: np.linalg.matrix_power(a, -2), normal(3, 3)),
    ],
    "linalg.matrix_transpose": [C(lambda np, new, a: np.linalg.matrix_transpose(a), normal(2, 3, 4))],
    "linalg.multi_dot": [C(lambda np, new, a, b, c: np.linalg.multi_dot([a, b, c]), X, normal(4, 3), normal(3, 2))],
    "linalg.norm": [
        C(lambda np, new, a: np.linalg.norm(a), M),
        C(lambda np, new, a: np.linalg.norm(a, axis=1, keepdims=True), M),
        C(lambda np, new, a: np.linalg.norm(a, 3, axis=0), M),
        C(lambda np, new, a: np.linalg.norm(a, "nuc", axis=(0, 2)), normal(2, 3, 2)),
        C(lambda np, new, a: np.linalg.norm(a, onp.inf), M),
        C(lambda np, new, a: np.linalg.norm(a), complex_normal(2, 2)),
    ],
    "linalg.outer": [C(lambda np, new, x, y: np.linalg.outer(x, y), X, normal(2))],
    "linalg.pinv": [C(lambda np, new, a: np.linalg.pinv(a), normal(3, 2))],
    "linalg.qr": [C(lambda np, new, a: np.linalg.qr(a), normal(4, 3)), C(lambda np, new, a: np.linalg.qr(a, "r"), normal(4, 3))],
    "linalg.slogdet": [C(lambda np, new, a: np.linalg.slogdet(a).logabsdet, normal(2, 3, 3))],
    "linalg.solve": [
        C(lambda np, new, a, b: np.linalg.solve(a, b), normal(3, 3), normal(3)),
        C(lambda np, new, a, b: np.linalg.solve(a, b), normal(2, 3, 3), normal(3, 2)),
    ],
    "linalg.svd": [
        C(lambda np, new, a: np.linalg.svd(a, full_matrices=False).U ** 2, normal(3, 2)),
        C(lambda np, new, a: np.linalg.svd(a, compute_uv=False), normal(3, 4)),
    ],
    "linalg.svdvals": [C(lambda np, new, a: np.linalg.svdvals(a), normal(2, 3, 4))],
    "linalg.tensordot": [C(lambda np, new, x, y: np.linalg.tensordot(x, y, axes=1), M, X)],
    "linalg.tensorinv": [C(lambda np, new, a: np.linalg.tensorinv(a, ind=1), normal(4, 2, 2))],
    "linalg.tensorsolve": [C(lambda np, new, a, b: np.linalg.tensorsolve(a, b), normal(2, 2, 4), normal(2, 2))],
    "linalg.trace": [C(lambda np, new, a: np.linalg.trace(a), normal(2, 3, 3))],
    "linalg.vecdot": [C(lambda np, new, x, y: np.linalg.vecdot(x, y, axis=0), Z, complex_normal(3))],
    "linalg.vector_norm": [
        C(lambda np, new, x: np.linalg.vector_norm(x, axis=0, ord=3), M),
        C(lambda np, new, x: np.linalg.vector_norm(x), M),
    ],
    # ----- fft
    **{
        f"fft.{name}": [
            C(lambda np, new, x, f=name: getattr(np.fft, f)(x), complex_normal(3, 4) if kind == "c" else normal(3, 4)),
            C(
                lambda np, new, x, f=name, k=key: getattr(np.fft, f)(
                    x, **{k: 5 if k == "n" else (2, 5)}, norm="ortho", **({"axes": (0, 1)} if k == "s" else {})
                ),
                complex_normal(3, 4) if kind == "c" else normal(3, 4),
            ),
        ]
        for name, key, kind in (
            ("fft", "n", "c"),
            ("ifft", "n", "c"),
            ("rfft", "n", "f"),
            ("irfft", "n", "c"),
            ("hfft", "n", "c"),
            ("ihfft", "n", "f"),
            ("fft2", "s", "c"),
            ("ifft2", "s", "f"),
            ("rfft2", "s", "f"),
            ("irfft2", "s", "c"),
            ("fftn", "s", "f"),
            ("ifftn", "s", "c"),
            ("rfftn", "s", "f"),
            ("irfftn", "s", "c"),
        )
    },
    "fft.fftshift": [C(lambda np, new, x: np.fft.fftshift(x), M)],
    "fft.ifftshift": [C(lambda np, new, x: np.fft.ifftshift(x, axes=1), M)],
}

_I = onp.array([3, 1, 2, 1])
_B = onp.array([0, 200, 17], onp.uint8)


def _saved(save: Callable[..., None]) -> Callable[..., bytes]:
    def run(np: Any, new: Any, x: Any) -> bytes:
        file = io.BytesIO()
        save(np, file, x)
        return file.getvalue()[:8]

    return run


DISCRETE: dict[str, list[Call]] = {
    "in1d": [C(lambda np, new, x: np.in1d(x, [1, 3]), _I)],
    **{
        name: [
            C(lambda np, new, x, f=name: getattr(np, f)(x > 0), M),
            C(lambda np, new, x, f=name: getattr(np, f)(x, axis=1, keepdims=True), M),
        ]
        for name in ("all", "any")
    },
    **{
        name: [
            C(lambda np, new, x, f=name: getattr(np, f)(x), M),
            C(lambda np, new, x, f=name: getattr(np, f)(x, axis=1, keepdims=True), M),
        ]
        for name in ("argmax", "argmin")
    },
    **{
        name: [
            C(lambda np, new, x, f=name: getattr(np, f)(x), with_nan(3, 4)),
            C(lambda np, new, x, f=name: getattr(np, f)(x, axis=1), with_nan(3, 4)),
        ]
        for name in ("nanargmax", "nanargmin")
    },
    **{name: [C(lambda np, new, x, f=name: getattr(np, f)(x, x), M)] for name in ("allclose", "array_equal", "array_equiv", "isclose")},
    **{
        name: [C(lambda np, new, x, f=name: getattr(np, f)(x), M)]
        for name in (
            "array2string",
            "array_repr",
            "array_str",
            "iscomplexobj",
            "isrealobj",
            "ndim",
            "shape",
            "common_type",
            "min_scalar_type",
            "result_type",
        )
    },
    **{name: [C(lambda np, new, x, f=name: getattr(np, f)(x), onp.array([1.0, -onp.inf, onp.inf]))] for name in ("isneginf", "isposinf")},
    **{name: [C(lambda np, new, x, f=name: getattr(np, f)(x), onp.array([1.0, 2.0 + 1j]))] for name in ("iscomplex", "isreal")},
    **{
        name: [C(lambda np, new, x, f=name: getattr(np, f)(x), onp.array([[1.0, 0.0], [0.0, 2.0]]))]
        for name in ("argwhere", "count_nonzero", "flatnonzero", "nonzero")
    },
    **{
        name: [C(lambda np, new, x, f=name: getattr(np, f)(x), normal(3, 3))]
        for name in ("diag_indices_from", "tril_indices_from", "triu_indices_from")
    },
    **{name: [C(lambda np, new, x, f=name: getattr(np, f)(x), M)] for name in ("zeros_like", "ones_like")},
    "empty_like": [C(lambda np, new, x: np.empty_like(x).shape, M)],
    "argpartition": [C(lambda np, new, x: np.argpartition(x, 2)[2], draw_distinct(5))],
    "argsort": [C(lambda np, new, x: np.argsort(x, axis=0), table(3, 4))],
    "can_cast": [C(lambda np, new, x: np.can_cast(x.dtype, onp.float32), M)],
    "digitize": [C(lambda np, new, x: np.digitize(x, [-1.0, 0.0, 1.0]), M)],
    "einsum_path": [C(lambda np, new, x, y: np.einsum_path("ij,j->i", x, y)[0], M, X)],
    "isin": [C(lambda np, new, x: np.isin(x, [1, 3]), _I)],
    "ix_": [C(lambda np, new, x: np.ix_(x, [0, 1]), _I)],
    "lexsort": [C(lambda np, new, x, y: np.lexsort((x, y)), X, _I)],
    "linalg.matrix_rank": [C(lambda np, new, x: np.linalg.matrix_rank(x), M)],
    "may_share_memory": [C(lambda np, new, x: np.may_share_memory(x, x[1:]), X)],
    "shares_memory": [C(lambda np, new, x: np.shares_memory(x, x + 1), X)],
    "packbits": [C(lambda np, new, x: np.packbits(x), _B)],
    "unpackbits": [C(lambda np, new, x: np.unpackbits(x), _B)],
    "ravel_multi_index": [C(lambda np, new, x: np.ravel_multi_index((x, x), (4, 4)), _I)],
    "unravel_index": [C(lambda np, new, x: np.unravel_index(x, (2, 2)), _I)],
    "save": [C(_saved(lambda np, file, x: np.save(file, x)), M)],
    "savetxt": [C(_saved(lambda np, file, x: np.savetxt(file, x)), M)],
    "savez": [C(_saved(lambda np, file, x: np.savez(file, x)), M)],
    "savez_compressed": [C(_saved(lambda np, file, x: np.savez_compressed(file, x)), M)],
    "searchsorted": [C(lambda np, new, x: np.searchsorted(x, [0.5, 1.5], side="right"), onp.sort(draw_distinct(4)))],
    "size": [C(lambda np, new, x: np.size(x, 1), M)],
}
