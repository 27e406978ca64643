"""Calls whose results NumPy makes as views or as copies, in a memory order of its own: what the aliasing table goes through.

An expression is evaluated twice, with NumPy's namespace and arrays and with ours. `x` is the array whose memory may be shared, in every
layout; `i` is the number 1 and `k` the places 2, 0 as the library at hand computes them.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as onp

# ----- memory layouts --------------------------------------------------------------------------------------------------------

#: Memory layouts of an array of a given shape, after `lead` leading dimensions (the samples of a vmap).
Layout = Callable[[tuple[int, ...], tuple[int, ...], Any], Any]


def _dense(order: tuple[int, ...], shape: tuple[int, ...], lead: tuple[int, ...], dtype: Any) -> Any:
    """Zeros whose own dimensions lie in memory in the given order, outermost first."""
    n = len(lead)
    made = onp.zeros((*lead, *(shape[d] for d in order)), dtype)
    return made.transpose(*range(n), *(n + order.index(d) for d in range(len(shape))))


def _c_order(shape: tuple[int, ...], lead: tuple[int, ...], dtype: Any) -> Any:
    return _dense(tuple(range(len(shape))), shape, lead, dtype)


def _fortran_order(shape: tuple[int, ...], lead: tuple[int, ...], dtype: Any) -> Any:
    return _dense(tuple(range(len(shape)))[::-1], shape, lead, dtype)


def _rolled(shape: tuple[int, ...], lead: tuple[int, ...], dtype: Any) -> Any:
    return _dense((*range(1, len(shape)), 0) if shape else (), shape, lead, dtype)


def _strided(shape: tuple[int, ...], lead: tuple[int, ...], dtype: Any) -> Any:
    every = (slice(None),) * len(lead)
    return onp.zeros((*lead, *(2 * n for n in shape)), dtype)[(*every, *(slice(None, None, 2),) * len(shape), ...)]


def _negative(shape: tuple[int, ...], lead: tuple[int, ...], dtype: Any) -> Any:
    return _c_order(shape, lead, dtype)[(*(slice(None),) * len(lead), *(slice(None, None, -1),) * len(shape), ...)]


def _first_negative(shape: tuple[int, ...], lead: tuple[int, ...], dtype: Any) -> Any:
    return _fortran_order(shape, lead, dtype)[(*(slice(None),) * len(lead), *(slice(None, None, -1),) * bool(shape), ...)]


def _column(shape: tuple[int, ...], lead: tuple[int, ...], dtype: Any) -> Any:
    return onp.zeros((*lead, *shape, 3), dtype)[..., 1]


def _broadcast(shape: tuple[int, ...], lead: tuple[int, ...], dtype: Any) -> Any:
    made = onp.broadcast_to(onp.zeros((*lead, *(1,) * bool(shape), *shape[1:]), dtype), (*lead, *shape))
    made.flags.writeable = True
    return made


LAYOUTS: dict[str, Layout] = {
    "C": _c_order, "F": _fortran_order, "rolled": _rolled, "strided": _strided, "negative": _negative,
    "first-negative": _first_negative, "column": _column, "broadcast": _broadcast,
}  # fmt: skip

#: The layouts and modes of the quick test.
QUICK_LAYOUTS = ("C", "F", "rolled", "strided", "negative")


def laid_out(layout: str, shape: tuple[int, ...], dtype: Any = float, lead: tuple[int, ...] = ()) -> Any:
    """An array in a layout, with distinct values where its elements are distinct places."""
    made = LAYOUTS[layout](shape, lead, dtype)
    count = onp.arange(1.0, 1.0 + made.size).reshape(made.shape)
    made[...] = count * (1 + 0.5j) if made.dtype.kind == "c" else count * 7 % (made.size + 1)
    return made


# ----- expressions ---------------------------------------------------------------------------------------------------------------

_INDEXING = """
x[0]  x[i]  x[np.int64(1)]  x[i, ...]  x[..., i]  x[None, i]  x[i, None]  x[0:2]  x[::-1]  x[i:]  x[..., 1:]  x[...]
x[()]  x[:]  x[None]  x[k]  x[[1, 0]]  x[k, None]  x[..., k]  x[..., [1, 0]]  x[x > 3]
x[[True] + [False] * (x.shape[0] - 1)]  x[True]  np.take(x, i, axis=0)  np.take(x, 1, axis=-1)  np.take(x, k, axis=0)
np.take(x, k, axis=-1)  np.take(x, [[0, 1], [1, 0]], axis=-1)  np.take(x, k)  np.take(x, [0, 1], axis=0, mode='clip')
np.compress([True, True], x, axis=-1)  np.compress([False, True], x)  np.extract(x > 3, x)  np.choose(0, [x])
np.choose(0, [x, x])  np.where(x > 3, x, 0.0)  np.where(True, x, x)  np.select([x > 3], [x], 0.0)
np.take_along_axis(x, np.zeros((1,) * x.ndim, int), axis=-1)  np.delete(x, 0, axis=-1)
np.take_along_axis(x, np.argsort(x, axis=0), axis=0)  np.take_along_axis(x, np.argsort(x, axis=-1), axis=-1)
np.delete(x, [0], axis=-1)  np.delete(x, slice(0, 1), axis=0)  np.delete(x, [], axis=0)  np.delete(x, 1)
np.insert(x, 1, 2.0, axis=-1)  np.insert(x, [0, 1], 2.0, axis=-1)  np.insert(x, 1, 2.0, axis=0)  np.insert(x, 0, 3.0)
np.argwhere(x > 3)  np.flatnonzero(x > 3)  np.unravel_index(x.astype(int) % 4, (2, 2))
np.piecewise(x, [x > 3], [1.0, 2.0])  np.unique(x)  np.unique(x, axis=0)  np.trim_zeros(x.ravel())  x.take(k)
x.compress([True, False, True])
"""

_SHAPES = """
x.T  x.transpose()  np.transpose(x)  np.permute_dims(x)  x.reshape(-1)  x.reshape(x.shape)
np.reshape(x, x.shape[::-1])  x.reshape(-1, order='F')  x.reshape(x.shape[::-1], order='F')  x.reshape(-1, order='A')
x.reshape(x.shape[::-1], order='A')  np.reshape(x, -1, copy=True)  x.ravel()  x.ravel('F')  x.ravel('A')  x.ravel('K')
np.ravel(x)  np.ravel(x, 'K')  x.flatten()  x.flatten('F')  x.flatten('A')  x.flatten('K')  x.squeeze()  np.squeeze(x)
np.squeeze(x[None])  np.squeeze(x[None], 0)  np.expand_dims(x, 0)  np.expand_dims(x, -1)  np.swapaxes(x, 0, -1)
x.swapaxes(0, -1)  np.swapaxes(x, 0, 0)  np.moveaxis(x, 0, -1)  np.moveaxis(x, 0, 0)  np.rollaxis(x, x.ndim - 1)
np.rollaxis(x, 0)  np.atleast_1d(x)  np.atleast_2d(x)  np.atleast_3d(x)  np.broadcast_to(x, x.shape)
np.broadcast_to(x, (2, *x.shape))  np.broadcast_arrays(x, x[:1])  np.broadcast_arrays(x)  np.flip(x)  np.flip(x, 0)
np.flip(x, -1)  np.flipud(x)  np.roll(x, 1)  np.roll(x, 1, axis=0)  np.roll(x, (1, 1), (0, -1))  np.roll(x, 0)
np.tile(x, 1)  np.tile(x, 2)  np.tile(x, (2, 1))  np.tile(x, ())  np.repeat(x, 2)  np.repeat(x, 2, axis=-1)
np.repeat(x, 2, axis=0)  np.repeat(x, 1, axis=0)  x.repeat(1)  x.repeat(2, axis=0)  np.split(x, [1], axis=0)
np.array_split(x, 2, axis=-1)  np.hsplit(x, [1])  np.unstack(x)  np.resize(x, x.shape)  np.resize(x, (7,))
np.lib.stride_tricks.sliding_window_view(x, 2, axis=0)  x.view()  np.copy(x)  np.copy(x, 'C')  np.copy(x, 'F')
x.copy()  x.copy('K')  x.copy('A')  x.copy('F')  list(x)  x.astype(float)  x.astype(float, copy=False)
x.astype(complex)  x.astype(complex, order='C')  x.astype(complex, order='F')  x.astype(float, order='C')
x.astype(float, order='C', copy=False)  x.astype(float, order='F', copy=False)  np.astype(x, float, copy=False)
np.array(x)  np.array(x, copy=None)  np.array(x, order='C')  np.array(x, order='F')  np.array(x, order='C', copy=None)
np.array(x, order='F', copy=None)  np.array(x, ndmin=4)  np.asarray(x)  np.asarray(x, order='F')
np.asarray(x, order='C')  np.asarray(x, dtype=complex)  np.asarray(x, dtype=complex, order='C')  np.asanyarray(x)
np.asanyarray(x, order='F')  np.ascontiguousarray(x)  np.asfortranarray(x)  np.asarray_chkfinite(x)
np.require(x, requirements='C')  np.require(x, requirements='F')  np.require(x, requirements='O')
np.require(x, requirements=['W', 'C'])  np.array([x, x])  np.zeros_like(x)  np.ones_like(x)  np.empty_like(x)
np.full_like(x, 2.0)  np.zeros_like(x, order='C')  np.zeros_like(x, order='F')  np.zeros_like(x, shape=(2, 3))
np.zeros_like(x, shape=x.shape[::-1])  np.full_like(x, 2, order='A')
"""

_ELEMENTWISE = """
+x  -x  abs(x)  np.positive(x)  np.conj(x)  np.conjugate(x)  x.conj()  x.conjugate()  np.absolute(x)  np.exp(x)
x + 1.0  np.add(x, 1, order='F')  np.exp(x, order='C')  x * x  x + x.T.T  x ** 2  x ** 1  x ** 1.0  x // 1  x * 1
x + 0  np.add(x, 1)  np.maximum(x, 0)  np.sign(x)  np.floor(x)  np.rint(x)  np.modf(x)  np.frexp(x)  np.divmod(x, 2)
np.clip(x, 0, 5)  np.clip(x, None, None)  np.clip(x, None, 5)  x.clip(0)  np.round(x)  np.around(x, 1)  x.round()
np.fix(x)  np.trunc(x)  np.real(x)  np.imag(x)  x.real  x.imag  np.angle(x)  np.real_if_close(x)
np.real_if_close(x + 0j)  np.nan_to_num(x)  np.nan_to_num(x, copy=False)  np.sinc(x)  np.i0(x)
np.interp(x, [0.0, 5.0], [1.0, 2.0])  np.unwrap(x)  np.unwrap(x, axis=0)  np.isnan(x)  np.isposinf(x)  np.isreal(x)
np.isclose(x, 1.0)  x == x  x > 3  np.logical_not(x)  np.heaviside(x, 0.5)  np.ldexp(x, 1)  np.float_power(x, 2)
np.square(x)  np.sqrt(x)  np.add(x, 1, where=x > 3)  np.add.outer(x, x[:1])  np.add.accumulate(x)
np.add.accumulate(x, axis=-1)  np.add.reduce(x)  np.add.reduceat(x, [0, 1])  np.angle(x + 1j)  np.isin(x, [1, 2])
np.digitize(x, [1.0, 5.0])
"""

_REDUCTIONS = """
x.sum(0)  x.sum(-1)  x.sum(0, keepdims=True)  np.sum(x, axis=())  np.prod(x, axis=0)  np.mean(x, axis=0)
np.mean(x, axis=-1, keepdims=True)  np.std(x, axis=0)  np.var(x, axis=0)  np.max(x, axis=0)  np.max(x, axis=())
np.min(x, axis=-1)  np.ptp(x, axis=0)  np.argmax(x, axis=0)  np.any(x, axis=0)  np.median(x, axis=0)
np.quantile(x, 0.3, axis=0)  np.quantile(x, [0.3, 0.6], axis=-1)  np.nansum(x, axis=0)  np.nanmax(x, axis=0)
np.average(x, axis=0)  np.cumsum(x, axis=0)  np.cumsum(x, axis=-1)  np.cumsum(x)  np.cumprod(x, axis=0)
np.nancumsum(x, axis=0)  np.nancumprod(x, axis=0)  np.cumulative_sum(x, axis=0)
np.cumulative_prod(x, axis=-1, include_initial=True)  np.diff(x, axis=0)  np.diff(x, n=0)  np.diff(x, prepend=0.0)
np.ediff1d(x)  np.gradient(x, axis=0)  np.gradient(x, axis=-1)  np.trapezoid(x, axis=0)  np.count_nonzero(x, axis=0)
np.sort(x)  np.sort(x, axis=0)  np.sort(x, axis=None)  np.argsort(x)  np.argsort(x, axis=0)  np.partition(x, 1)
np.partition(x, 1, axis=0)  np.argpartition(x, 1, axis=0)  np.sort_complex(x)  np.bincount(x.ravel().astype(int))
np.apply_along_axis(np.cumsum, 0, x)  np.apply_over_axes(np.sum, x, [0])
"""

_JOINING = """
np.concatenate([x, x])  np.concatenate([x, x], axis=-1)  np.concatenate([x])  np.concatenate([x, x], axis=None)
np.stack([x, x])  np.stack([x, x], axis=-1)  np.vstack([x, x])  np.hstack([x, x])  np.dstack([x, x])
np.column_stack([x, x])  np.append(x, x)  np.append(x, x, axis=0)  np.block([x, x])  np.block([[x, x], [x, x]])
np.block([x])  np.block(x)  np.pad(x, 1)  np.pad(x, 1, 'edge')  np.pad(x, 0)  np.pad(x, 1, 'wrap')
np.pad(x, 1, 'reflect')  np.pad(x, 1, 'symmetric')  np.pad(x, 1, 'linear_ramp')  np.pad(x, 1, 'mean')
np.pad(x, 1, 'maximum')  np.pad(x, 1, 'empty')  np.pad(x, 1, constant_values=((1, 2),) * x.ndim)  np.r_[x, x]
np.c_[x, x]  np.outer(x, x[:1])  np.kron(x, x[:1])  np.dot(x, 2.0)  np.meshgrid(x.ravel(), [1.0, 2.0])
np.meshgrid(x.ravel(), [1.0, 2.0], copy=False)
np.meshgrid(x.ravel(), [1.0, 2.0], indexing='ij', sparse=True, copy=False)  np.fft.fft(x)  np.fft.fft(x, axis=0)
np.fft.ifft(x)  np.fft.rfft(x)  np.fft.rfft(x, axis=0)  np.fft.irfft(x, axis=0)  np.fft.hfft(x)  np.fft.ihfft(x)
np.fft.fftn(x)  np.fft.rfftn(x)  np.fft.irfftn(x)  np.fft.ifftn(x)  np.fft.fftshift(x)  np.fft.ifftshift(x)
np.polyval([1.0, 2.0], x)
"""

_MATRICES = """
x[:, i]  x[i, :]  x[:, 1:]  x[:, k]  x[k, :]  x[1, 2]  x[i, i]  x[i, i, ...]  x[k, k]  x[k[:, None], k]  x[i, k]
x[k, i]  x[k, 1:]  x[1:, k]  x[:, None, i]  x[:, [True, False, True, False]]  x[:, [[0, 1], [1, 2]]]  x[..., None, k]
x[:, ::-1]  x[1:2]  x[0:0]  np.fliplr(x)  np.rot90(x)  np.rot90(x, 2)  np.rot90(x, 3)  np.rot90(x, 0)  np.rot90(x, -1)
np.matrix_transpose(x)  x.mT  np.vsplit(x, [1])  np.diag(x)  np.diag(x, 1)  np.diagonal(x)  x.diagonal(1)
np.linalg.diagonal(x)  np.tril(x)  np.triu(x, 1)  np.trace(x)  np.diagflat(x)  x @ x.T  np.matmul(x, x.T)
np.dot(x, x.T)  np.inner(x, x)  np.tensordot(x, x.T, axes=1)  np.cov(x)  np.corrcoef(x)  np.linalg.outer(x[0], x[0])
np.einsum('ij->ji', x)  np.einsum('ij->ij', x)  np.einsum('ij->i', x)  np.einsum('ij->', x)
np.einsum('ij,ij->ij', x, x)  np.einsum('ij,kj->ik', x, x)  np.einsum('ij,kj->ki', x, x)
np.einsum('ij->ij', x, order='F')  np.einsum('ij,ij->ij', x, x, order='C')  np.einsum('ii->i', x[:3, :3])
np.einsum('ij,j->ij', x, x[0])  np.linalg.matrix_transpose(x)  np.linalg.qr(x)  np.linalg.pinv(x)
np.linalg.svd(x, full_matrices=False)  np.linalg.norm(x, axis=0)  np.linalg.inv(x @ x.T + 9 * np.eye(3))
np.linalg.solve(x @ x.T + 9 * np.eye(3), x)  np.linalg.cholesky(x @ x.T + 9 * np.eye(3))
np.linalg.matrix_power(x[:3, :3], 1)  np.linalg.matrix_power(x[:3, :3], 2)  np.linalg.matrix_power(x[:3, :3], 0)
np.linalg.multi_dot([x, x.T, x])  np.cross(x[:, :3], x[:, :3])  np.vander(x[0])  np.vander(x[0], increasing=True)
np.histogram2d(x[0], x[1], bins=2)  np.lexsort((x[0], x[1]))  np.correlate(x[0], x[1], 'full')
np.correlate(x[0, :2], x[1], 'full')  np.convolve(x[0], x[1])  np.nonzero(x)  (x > 3).nonzero()
np.ix_(x[0].astype(int), [0, 1])  np.polyadd(x[0], x[1])  np.polymul(x[0], x[1])  np.polyder(x[0])  np.polyint(x[0])
np.matvec(x, x[0])  np.vecmat(x[:, 0], x)  np.vecdot(x, x)  np.fft.fft2(x)  np.fft.rfft2(x)
np.geomspace(x[0] + 1, x[1] + 1, 3)  np.linspace(x[0], x[1], 3)  np.linspace(x[0], x[1], 3, axis=-1)
np.transpose(x, (0, 1))  np.moveaxis(x, [0, 1], [1, 0])  x[x[:, 0] > 3]  x[np.argmax(x[:, 0])]
x[np.argmax(x[:, 0]), 1:]
"""

_CUBES = """
x[:, :, i]  x[i, :, i]  x[0, :, 1]  x[:, k]  x[:, k, k]  x[k, :, k]  x[0, :, k]  x[k, :, 0]  x[:, :, k]  x[:, k, 1:]
x[..., k, :]  x[:, [[0, 1]], k]  x[:, 0, k]  x.transpose(1, 2, 0)  x.transpose(1, 0, 2)  np.moveaxis(x, 1, 2)
x.swapaxes(1, 2)  x.reshape(6, 4)  x.reshape(2, 12)  x.reshape(2, 12, order='F')  x.reshape(6, 4, order='F')
x.reshape(3, 8)  x.T.reshape(4, 6)  x.T.ravel('K')  x.swapaxes(0, 1).ravel('K')  x[:, ::-1].ravel('K')
x.swapaxes(1, 2).reshape(2, 12)  np.rot90(x, axes=(1, 2))  np.rot90(x, 3, (2, 0))  x.sum(1)  x.sum((0, 2))
x.mean((0, 1), keepdims=True)  np.cumsum(x, axis=1)  np.sort(x, axis=1)  np.repeat(x, 2, axis=1)
np.take(x, k, axis=1)  np.delete(x, 0, axis=1)  np.insert(x, 1, 0.0, axis=1)  np.stack([x, x], axis=1)
np.concatenate([x, x], axis=1)  np.dsplit(x, [1])  np.diagonal(x, 0, 1, 2)  np.tril(x)  x @ x.swapaxes(1, 2)
np.einsum('ijk->kji', x)  np.einsum('ijk->ik', x)  np.einsum('iji->ij', x[:, :, :2])  np.einsum('ijk,ilk->ijl', x, x)
np.tensordot(x, x, axes=([2], [2]))  np.dot(x, x[0].T)  np.median(x, axis=1)  np.gradient(x, axis=1)
np.take_along_axis(x, np.argsort(x, axis=1), axis=1)  np.fft.fft(x, axis=1)
np.linalg.inv(x @ x.swapaxes(1, 2) + 99 * np.eye(3))  np.lib.stride_tricks.sliding_window_view(x, (2, 2), axis=(1, 2))
np.cross(x[..., :3], x[..., :3], axis=1)  np.linalg.norm(x, axis=(0, 2))  np.quantile(x, 0.3, axis=(0, 2))
np.apply_along_axis(np.sort, 1, x)  np.pad(x, ((0, 0), (1, 0), (0, 1)))  np.roll(x, 1, axis=1)  np.flip(x, (0, 2))
x[None, ..., 0]  x[0][1]  x[0][:, 1]
"""

_COMPLEX = """
x.real  x.imag  np.real(x)  np.imag(x)  np.conj(x)  x.conj()  np.abs(x)  np.angle(x)  x.T  x.ravel()  x.ravel('K')
np.real_if_close(x)  x * x  +x  x.astype(complex, copy=False)  np.fft.ifft(x)  np.fft.irfft(x)  np.fft.fftn(x)
np.sort(x, axis=0)  x.real.T  x.imag[0]  np.linalg.svd(x, full_matrices=False)  np.vdot(x, x)  x.copy()
x.flatten('K')
"""

_SINGLE = """
x[()]  x[...]  x[None]  x[..., None]  +x  np.conj(x)  x.reshape(1)  x.reshape(())  x.ravel()  x.flatten()  x.T
np.atleast_1d(x)  np.atleast_3d(x)  x.copy()  np.array(x)  np.asarray(x)  np.expand_dims(x, 0)
np.broadcast_to(x, (2,))  np.repeat(x, 2)  np.tile(x, 2)  np.squeeze(x)  x.view()  np.take(x, [0, 0])
np.ascontiguousarray(x)  np.asfortranarray(x)  np.zeros_like(x)  np.concatenate([x[None], x[None]])  np.stack([x, x])
x.real  x.astype(float, copy=False)  np.where(x > 0, x, 0.0)  np.nan_to_num(x, copy=False)  np.choose(0, [x])  x + 1
"""

_EMPTY = """
x.T  x.ravel()  x.reshape(-1)  x.copy()  +x  x[0:0]  x[..., None]  np.concatenate([x, x])  np.sort(x)
np.zeros_like(x)  np.repeat(x, 2)  np.tile(x, 2)  np.take(x, [], axis=0)  x.sum(0)  np.roll(x, 1)  np.flip(x)
np.moveaxis(x, 0, -1)  np.squeeze(x)  np.pad(x, 1)  np.delete(x, [], axis=0)  np.cumsum(x)  np.where(x > 0, x, 1.0)
np.linalg.norm(x, axis=0)  np.transpose(x)
"""

_GENERAL = _INDEXING + _SHAPES + _ELEMENTWISE + _REDUCTIONS + _JOINING


def _expressions(text: str) -> list[str]:
    return [expression for line in text.split("\n") if line for expression in line.split("  ")]


#: Input of each group of expressions: shape and dtype of `x`.
GROUPS: dict[str, tuple[tuple[int, ...], Any, list[str]]] = {
    "line": ((5,), float, _expressions(_GENERAL)),
    "matrix": ((3, 4), float, _expressions(_GENERAL + _MATRICES)),
    "cube": ((2, 3, 4), float, _expressions(_GENERAL + _CUBES)),
    "complex": ((3, 4), complex, _expressions(_COMPLEX)),
    "single": ((), float, _expressions(_SINGLE)),
    "empty": ((0, 3), float, _expressions(_EMPTY)),
}
