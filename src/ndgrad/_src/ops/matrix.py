"""Common parts of the rules of linear algebra: adjoints, parts of matrices, and division by numbers that may be zero.

The constraint that shaped this file: derivatives of eigenvectors and singular vectors divide by differences of
eigenvalues, which may be zero. A rule must then give the right answer or report that there is none, on arrays, under
vmap and at every order. So the division is an op of its own, and its forward, which always receives plain arrays,
raises the error.
"""

from __future__ import annotations

import functools
import importlib
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

import numpy

from ndgrad._src.arrays.device_kernels import copy_array
from ndgrad._src.arrays.library import is_on_device, library_of
from ndgrad._src.arrays.precision import finfo
from ndgrad._src.foundations.public_path import set_module
from ndgrad._src.ops.table import NOT_DIFFERENTIABLE, elementwise, op

if TYPE_CHECKING:
    from ndgrad._typing import Library, Payload, Vocabulary


@set_module("ndgrad.linalg")
class LinAlgError(numpy.linalg.LinAlgError, RuntimeError):
    """A matrix does not allow the computation: it is singular, not positive definite, or has no derivative there.

    >>> import ndgrad
    >>> try:
    ...     ndgrad.linalg.inv(ndgrad.zeros(2, 2))
    ... except ndgrad.linalg.LinAlgError:
    ...     print("singular")
    singular
    """


def call_linalg(function: Callable[..., Any], problem: str, remedy: str, *arrays: Any, **settings: Any) -> Any:
    """Run a function of the array library's linear algebra, and turn its failures into errors with a cure."""
    try:
        if library_of(arrays[0]) is numpy:
            return function(*arrays, **settings)
        with importlib.import_module("cupyx").errstate(linalg="raise"):  # CuPy does not check results by default
            return function(*arrays, **settings)
    except numpy.linalg.LinAlgError as error:
        shapes = " and ".join(str(tuple(a.shape)) for a in arrays)
        raise LinAlgError(f"{problem} (shape {shapes}; {error}). {remedy} [nd-singular]") from None
    except TypeError as error:
        kinds = " and ".join(str(a.dtype) for a in arrays)
        raise RuntimeError(
            f"{problem.split(':')[0]}: {kinds} is not a type this works on ({error}). Convert to float32 or float64. "
            "[nd-dtype]"
        ) from None


def decompose_singular(np: Library, x: Payload, full_matrices: bool = True, compute_uv: bool = True) -> Any:
    """Return np.linalg.svd of matrices. On a device Jacobi's method decomposes a single real matrix of moderate size.

    It takes a quarter of the time of CuPy's function, which reduces to bidiagonal form.
    """
    jacobi = None if np is numpy or getattr(x, "is_meta", False) else _find_jacobi()
    if jacobi is None or x.ndim != 2 or x.dtype.char not in "fd" or not 0 < x.size <= _MOST_FOR_JACOBI:
        return np.linalg.svd(x, full_matrices=full_matrices, compute_uv=compute_uv)
    found = jacobi(x, full_matrices=full_matrices, compute_uv=compute_uv)
    if not compute_uv:
        return found
    u, s, v = found
    return u, s, v.swapaxes(-1, -2)


#: Maximum number of elements of a matrix for Jacobi's method.
_MOST_FOR_JACOBI = 1 << 18


@functools.cache
def _find_jacobi() -> Any:
    """Return CuPy's interface to the decomposition by Jacobi's method; None if this version has none."""
    for name in ("cupyx.cusolver", "cupyx._cusolver", "cupy.cusolver"):  # its place depends on the version
        try:
            return importlib.import_module(name).gesvdj
        except (ImportError, AttributeError):
            continue
    return None


# ----- transposes -----------------------------------------------------------------------------------------------------


def transpose(x: Payload, ops: Vocabulary) -> Payload:
    """Exchange the last two dimensions."""
    if ops.raw:
        return x.swapaxes(-1, -2)
    n = len(x.shape)
    return ops.permute(x, dims=(*range(n - 2), n - 1, n - 2))


def adjoint(x: Payload, ops: Vocabulary) -> Payload:
    """Return the conjugate transpose of the last two dimensions."""
    if ops.raw:
        x = x.swapaxes(-1, -2)
        return x.conj() if x.dtype.kind == "c" else x
    return ops.conj(transpose(x, ops))


def column(x: Payload, ops: Vocabulary) -> Payload:
    """Reshape (..., n) to (..., n, 1)."""
    return ops.reshape(x, shape=(*x.shape, 1))


def row(x: Payload, ops: Vocabulary) -> Payload:
    """Reshape (..., n) to (..., 1, n)."""
    return ops.reshape(x, shape=(*x.shape[:-1], 1, x.shape[-1]))


def hermitian(x: Payload, ops: Vocabulary) -> Payload:
    """Return the Hermitian part of a matrix."""
    if is_on_device(x):  # the kernels of ops are faster than a library's operators
        return ops.mul(ops.add(x, adjoint(x, ops)), 0.5)
    return (x + adjoint(x, ops)) * 0.5


def times(x: Payload, y: Payload, ops: Vocabulary) -> Payload:
    """Return x * y. On a device the op's kernel is faster than the library's operator."""
    return ops.mul(x, y) if is_on_device(y) else x * y


def negated(x: Payload, ops: Vocabulary) -> Payload:
    """Return -x. On a device the op's kernel is faster than the library's operator."""
    return ops.neg(x) if is_on_device(x) else -x


def align(x: Payload, batched: bool, rank: int, ops: Vocabulary) -> Payload:
    """Insert dimensions of size one after the batch, so that `rank` dimensions broadcast as they did for one sample."""
    missing = rank + 1 - len(x.shape)
    if not batched or missing <= 0:
        return x
    return ops.reshape(x, shape=(x.shape[0], *(1,) * missing, *x.shape[1:]))


# ----- diagonals ------------------------------------------------------------------------------------------------------


def take_diagonal(x: Payload, ops: Vocabulary) -> Payload:
    """Return the diagonals of the matrices in the last two dimensions."""
    n = len(x.shape)
    return ops.diagonal(x, offset=0, dim0=n - 2, dim1=n - 1)


def make_diagonal(x: Payload, rows: int, columns: int, ops: Vocabulary) -> Payload:
    """Return matrices with the diagonals x and zeros elsewhere."""
    n = len(x.shape)
    return ops.diagonal_backward(x, shape=(*x.shape[:-1], rows, columns), offset=0, dim0=n - 1, dim1=n)


def _scale_diagonal(np: Library, x: Payload, *, factor: float) -> Payload:
    if np is not numpy and x.flags.c_contiguous and x.size and not getattr(x, "is_meta", False):
        out, n = copy_array(np, x), x.shape[-1]
        diagonal = out.reshape(*x.shape[:-2], -1)[..., : min(x.shape[-2:]) * (n + 1) : n + 1]
        if factor:
            diagonal *= factor
        else:
            diagonal.fill(0)
        return out
    out = np.array(x)
    i = np.arange(min(x.shape[-2:]))
    out[..., i, i] = x[..., i, i] * factor if factor else 0
    return out


# The matrix with its diagonal multiplied by a number; 0 sets the diagonal to zero even if it is not finite. The op is
# its own transpose.
scale_diagonal = op(
    "scale_diagonal", "x",
    _scale_diagonal,
    settings={"factor": 0.0},
    vjp={"x": lambda g, factor, ops: ops.scale_diagonal(g, factor=factor)},
    jvp="linear",
    batch="leading", core_dims=[2],
)  # fmt: skip

trace = op(
    "trace", "x",
    lambda np, x: np.trace(x, axis1=-2, axis2=-1),
    vjp={"x": lambda g, x_shape, ops: _spread_trace(g, x_shape, ops)},
    jvp="linear",
    batch="leading", core_dims=[2], adds_values=True,
)  # fmt: skip


def _spread_trace(g: Payload, x_shape: tuple[int, ...], ops: Vocabulary) -> Payload:
    rows, columns = x_shape[-2:]
    spread = ops.expand(ops.reshape(g, shape=(*g.shape, 1)), shape=(*g.shape, min(rows, columns)))
    return make_diagonal(spread, rows, columns, ops)


# ----- division by gaps -----------------------------------------------------------------------------------------------


def largest(np: Library, x: Payload) -> Payload:
    """Return the largest element along the last dimension, which keeps size one; 0 if the dimension is empty."""
    return x.max(axis=-1, keepdims=True) if x.shape[-1] else np.zeros((*x.shape[:-1], 1), x.dtype)


def _gaps(np: Library, x: Payload, *, squared: bool) -> Payload:
    later, earlier = x[..., None, :], x[..., :, None]
    gap = later - earlier
    unresolved = np.abs(gap) <= finfo(x.dtype).eps * largest(np, np.abs(x))[..., None]
    out = np.where(unresolved, np.zeros((), x.dtype), gap * (later + earlier) if squared else gap)
    i = np.arange(x.shape[-1])
    out[..., i, i] = 1
    return out


# Note [Equal eigenvalues]
# gaps[i, j] = x[j] - x[i] (of the squares with `squared`). It is exactly zero if the two are equal to working
# precision: LAPACK cannot separate their eigenvectors, and dividing by the difference would give noise of the size of
# the answer. The diagonal is one: rules divide matrices with a zero diagonal, which then stays zero.
#
# Eigenvectors of equal eigenvalues are any basis of their space, so a function of them has no derivative in general. If
# it has one (V f(w) V^H), it is a limit of 0/0 that the division cannot determine: the numerator is a difference that
# vanishes. So reverse rules divide the two terms of that difference separately, and `resolved_quotient` raises unless
# both are zero, as they are for a function of the eigenvalues alone. Forward mode always computes tangents of
# eigenvectors, and gets NaN there. At second order the same holds wherever the eigenvectors enter.
gaps = op(
    "spectral_gaps", "x",
    _gaps,
    settings={"squared": False},
    vjp={"x": lambda g, x, squared, ops: _gaps_vjp(g, x, squared, ops)},
    jvp={"x": lambda t, x, squared, ops: _gaps_jvp(t, x, squared, ops)},
    batch="leading", core_dims=[1],
)  # fmt: skip


def _gaps_vjp(g: Payload, x: Payload, squared: bool, ops: Vocabulary) -> Payload:
    n = len(g.shape)
    total = ops.sum(g, dim=(n - 2,), keepdim=False) - ops.sum(g, dim=(n - 1,), keepdim=False)
    return total * ops.conj(x) * 2.0 if squared else total


def _gaps_jvp(t: Payload, x: Payload, squared: bool, ops: Vocabulary) -> Payload:
    if squared:
        t = t * x * 2.0
    return row(t, ops) - column(t, ops)


def _quotient(np: Library, x: Payload, y: Payload, *, floor: bool, problem: str) -> Payload:
    y = np.asarray(y)
    if floor:
        size = np.abs(y)
        zero = size <= finfo(y.dtype).eps * largest(np, size)
    else:
        zero = y == 0
    if zero.any():
        wanted = x != 0
        refused = wanted & zero
        out = np.where(wanted, x, 0) / np.where(zero, np.ones((), y.dtype), y)
        if not refused.any():
            return out
        if problem:
            raise LinAlgError(problem)
        return np.where(refused, np.full((), np.nan, out.dtype), out)
    return x / y


# x / y, and 0 if x is 0 for any y. Any other division by zero raises `problem`, or gives NaN if `problem` is empty.
# With `floor`, a y that is negligible compared with the largest along the last dimension counts as zero.
quotient = elementwise(
    "resolved_quotient", _quotient,
    args="x y",
    settings={"floor": False, "problem": ""},
    x=lambda t, y, floor, problem, ops: ops.resolved_quotient(t, y, floor=floor, problem=problem),
    y=lambda t, y, out, floor, problem, ops: -ops.resolved_quotient(t * out, y, floor=floor, problem=problem),
    inplace=False,
    may_raise=True,
)  # fmt: skip


def _refuse_phase(np: Library, x: Payload, y: Payload, *, problem: str) -> Payload:
    turn = np.abs(x.imag)
    if ((turn * turn > 1e-6 * y[..., None]) & (turn > 100 * finfo(x.dtype).eps)).any():
        raise LinAlgError(problem)
    return turn


# Check that a loss does not depend on the phases of complex eigenvectors, which are arbitrary. x is diag(V^H gV), whose
# imaginary part is the derivative along the phases. y is the squared norm of V^H gV, the scale of the comparison.
refuse_phase = op(
    "refuse_phase", "x y", _refuse_phase, settings={"problem": ""}, vjp=NOT_DIFFERENTIABLE, batch="leading",
    may_raise=True,
    core_dims=[0],
)
