"""Toeplitz matrices, stored by their diagonals: line[..., n - 1 + i - j] is the entry (i, j) of a matrix of n columns.

The constraint: a matrix of order n has only about 2 n numbers. So neither the matrix nor the outer product in its
gradient is ever formed, unless it is small. Three ops are closed under derivatives: a solve, a product, and sums along
the diagonals of an outer product. The product is a convolution with the line; the sums are a correlation, and are the
gradient of the line. Both use Fourier transforms, so their errors are relative to the largest number; small problems
are summed directly. The public functions give all arguments the same leading dimensions.
"""

from __future__ import annotations

import importlib
import math
from typing import TYPE_CHECKING, Any

import numpy

from ndgrad._src.arrays.host_fallback import wrap_for_host
from ndgrad._src.ops.matrix import LinAlgError
from ndgrad._src.ops.table import op

if TYPE_CHECKING:
    from ndgrad._typing import Library, Payload, Vocabulary

#: Matrices with up to this many entries are formed: products are exact, and stacks of systems are solved at once.
_SMALL = 4096


def _full(np: Library, line: Any, rows: int, columns: int) -> Payload:
    return line[..., np.arange(rows)[:, None] - np.arange(columns) + (columns - 1)]


def adjoint_line(line: Any, ops: Vocabulary) -> Payload:
    """Return the line of the conjugate transpose."""
    return ops.conj(ops.flip(line, dims=(len(line.shape) - 1,)))


# ----- products with a matrix, and sums along the diagonals of an outer product ---------------------------------------


def _convolve(np: Library, a: Payload, b: Payload, size: int) -> Any:
    """Return the spectrum of the cyclic convolution along the next to last dimension, and the inverse transform."""
    dtype = np.result_type(a, b)
    wide = np.result_type(dtype, np.float64)
    ahead, back = (np.fft.fft, np.fft.ifft) if wide.kind == "c" else (np.fft.rfft, np.fft.irfft)
    spectrum = ahead(a.astype(wide), size, axis=-2) * ahead(b.astype(wide), size, axis=-2)
    return spectrum, lambda s: back(s, size, axis=-2).astype(dtype)


def _size(at_least: int) -> int:
    """Return a power of two. Transforms of other lengths may be many times slower."""
    return 1 << max(at_least - 1, 0).bit_length()


def _multiply(np: Library, line: Any, x: Payload) -> Payload:
    n = x.shape[-2]
    rows = line.shape[-1] - n + 1
    if rows * n <= _SMALL:
        return np.matmul(_full(np, line, rows, n), x)
    # Only the middle of the convolution of the line with x is read, which the wrap-around of a cyclic convolution does
    # not reach.
    spectrum, back = _convolve(np, line[..., None], x, _size(line.shape[-1]))
    return np.ascontiguousarray(back(spectrum)[..., n - 1 : n - 1 + rows, :])


def _sum_diagonals(np: Library, w: Payload, y: Payload) -> Payload:
    rows, n = w.shape[-2], y.shape[-2]
    length = rows + n - 1
    if rows * n <= _SMALL:
        # The rows have space for one more number than the result. Read without that space, each row starts one position
        # later than the one before.
        outer = np.matmul(w, y[..., ::-1, :].swapaxes(-1, -2))
        lead = outer.shape[:-2]
        wide = np.concatenate([outer, np.zeros((*lead, rows, rows), outer.dtype)], axis=-1)
        return (
            wide.reshape((*lead, rows * (length + 1)))[..., : rows * length].reshape((*lead, rows, length)).sum(axis=-2)
        )
    spectrum, back = _convolve(np, w, y[..., ::-1, :], _size(length))
    return np.ascontiguousarray(back(spectrum.sum(axis=-1, keepdims=True))[..., :length, 0])


# T x for columns x. The number of rows of T follows from the lengths.
toeplitz_times = op(
    "toeplitz_times", "line x",
    _multiply,
    vjp={
        "line": lambda g, x, ops: ops.toeplitz_sums(g, ops.conj(x)),
        "x": lambda g, line, ops: ops.toeplitz_times(adjoint_line(line, ops), g),
    },
    jvp="multilinear",
    batch="leading", core_dims=[1, 2],
)  # fmt: skip

# The sum of each diagonal of w y^T, from the upper right corner to the lower left. w and y have equally many columns.
toeplitz_sums = op(
    "toeplitz_sums", "w y",
    _sum_diagonals,
    vjp={
        "w": lambda g, y, ops: ops.toeplitz_times(g, ops.conj(y)),
        "y": lambda g, w, ops: ops.toeplitz_times(ops.flip(g, dims=(len(g.shape) - 1,)), ops.conj(w)),
    },
    jvp="multilinear",
    batch="leading", core_dims=[2],
)  # fmt: skip


# ----- solving --------------------------------------------------------------------------------------------------------


def _solve(np: Library, line: Any, b: Payload) -> Payload:
    n, columns = b.shape[-2:]
    lead = numpy.broadcast_shapes(line.shape[:-1], b.shape[:-2])
    dtype = np.result_type(line, b)
    if not math.prod(lead) * n * columns:
        return np.zeros((*lead, n, columns), dtype)
    try:
        if all(size == 1 or stride == 0 for size, stride in zip(line.shape[:-1], line.strides[:-1], strict=True)):
            # One matrix for the whole stack; its right sides are joined as columns.
            sides = np.moveaxis(b, -2, 0)
            found = wrap_for_host(np, _levinson, "solve_toeplitz")(line[(0,) * (line.ndim - 1)], sides.reshape((n, -1)))
            made = np.moveaxis(found.reshape(sides.shape), 0, -2).astype(dtype, copy=False)
            return np.ascontiguousarray(np.broadcast_to(made, (*lead, n, columns)))
        if n * n <= _SMALL:
            return np.linalg.solve(_full(np, line, n, n), b)
        lines, sides = np.broadcast_to(line, (*lead, line.shape[-1])), np.broadcast_to(b, (*lead, n, columns))
        pairs = zip(lines.reshape((-1, line.shape[-1])), sides.reshape((-1, n, columns)), strict=True)
        return (
            np.stack([wrap_for_host(np, _levinson, "solve_toeplitz")(*pair) for pair in pairs])
            .reshape((*lead, n, columns))
            .astype(dtype, copy=False)
        )
    except numpy.linalg.LinAlgError as error:
        remedy = "Solve it as a full matrix, whose rows may be exchanged: solve(toeplitz(c, r), b)."
        raise LinAlgError(
            f"solve_toeplitz: a matrix of order {n}, or a leading part of it, is singular ({error}). "
            f"{remedy} [nd-singular]"
        ) from None


def _levinson(line: Any, b: Any) -> Any:
    try:
        linalg = importlib.import_module("scipy.linalg")
    except ImportError as error:
        raise ImportError(
            f"solve_toeplitz comes from SciPy, which could not be imported ({error}). "
            'Install it: pip install scipy. [nd-install]'
        ) from None
    n = b.shape[0]
    return linalg.solve_toeplitz((line[n - 1 :], line[n - 1 :: -1]), b, check_finite=False)


def _solve_vjp(g: Payload, line: Any, out: Payload, needs: tuple[bool, ...], ops: Vocabulary) -> tuple[Any, ...]:
    """Apply the rule of every solve: w = T^-H g is the gradient of b, and -w out^H that of T.

    The gradient of the line consists of the sums along its diagonals.
    """
    w = ops.solve_toeplitz(adjoint_line(line, ops), g)
    return -ops.toeplitz_sums(w, ops.conj(out)) if needs[0] else None, w


# The solution x of T x = b for columns b, by Levinson's recursion.
solve_toeplitz = op(
    "solve_toeplitz", "line b",
    _solve,
    vjp=_solve_vjp,
    jvp={
        "line": lambda t, line, out, ops: -ops.solve_toeplitz(line, ops.toeplitz_times(t, out)),
        "b": lambda t, line, ops: ops.solve_toeplitz(line, t),
    },
    batch="leading",
    may_raise=True, core_dims=[1, 2],
)  # fmt: skip
