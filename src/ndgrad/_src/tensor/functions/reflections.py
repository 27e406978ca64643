"""QR factors as reflections: `geqrf` and products with its result, under torch's names.

A reflection is H = I - tau v v^H, where v starts with a one that is not stored. `geqrf` is written with ops, column by
column, because the derivatives of v and tau follow from the steps that compute them. `linalg.qr` needs neither and
calls LAPACK.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from ndgrad._src.core.variable import np_dtype, wrap_like
from ndgrad._src.ops import comparison, index, join, padding, product, selection, shape
from ndgrad._src.ops import complex as complex_ops
from ndgrad._src.tensor import return_types
from ndgrad._src.tensor.functions.norm import vector_norm
from ndgrad._src.tensor.functions.product import conjugate, takes_out
from ndgrad._src.tensor.functions.reduce import deliver
from ndgrad._src.tensor.matrix_arguments import adjoint, require_matrices, require_precision

if TYPE_CHECKING:
    from ndgrad._typing import Tensor

__all__ = ["geqrf", "ormqr"]
METHODS = ("geqrf", "ormqr")


def _part(x: Tensor, *place: Any) -> Tensor:
    return index.getitem(x, index=(Ellipsis, *place))


def _reflection(column: Tensor) -> tuple[Tensor, Tensor, Tensor]:
    """Return the number beta, v without its one, and tau, so that H^H maps the column (..., n, 1) to beta times the
    first unit vector. All follow LAPACK: beta is real and has the opposite sign of the first element; a column that
    needs no reflection gets none."""
    first, rest = _part(column, slice(0, 1), slice(None)), _part(column, slice(1, None), slice(None))
    is_complex = np_dtype(column).kind == "c"
    real = complex_ops.real(first) if is_complex else first
    rest_size = vector_norm(rest, dim=-2, keepdim=True) if rest.shape[-2] else complex_ops.abs(real * 0)
    done = comparison.eq(rest_size, 0)
    if is_complex:
        done = comparison.logical_and(done, comparison.eq(complex_ops.imag(first), 0))
    size = vector_norm(column, dim=-2, keepdim=True)
    size = selection.where(done, 1.0, size)
    beta = selection.where(comparison.signbit(real), size, -size)
    tau = selection.where(done, 0.0, (beta - first) / beta)
    v = selection.where(done, 0.0, rest / selection.where(done, 1.0, first - beta))
    return selection.where(done, real, beta), v, tau


def geqrf(input: Tensor, *, out: tuple[Tensor, Tensor] | None = None) -> return_types.geqrf:
    """Return R with the vectors of the reflections below its diagonal, and the factors tau of the reflections. The
    product of the reflections is Q.

    Args:
        input: matrices of shape (..., m, n).
        out: tuple of tensors that receive the results.

    Returns:
        A tensor of shape (..., m, n), and tau of shape (..., min(m, n)).

    >>> import ndgrad
    >>> a, tau = ndgrad.geqrf(ndgrad.tensor([[3.0, 1.0], [4.0, 2.0]]))
    >>> a, tau
    (tensor([[-5.0000, -2.2000],
            [ 0.5000,  0.4000]]), tensor([1.6000, 0.0000]))
    """
    require_matrices("geqrf", input, "input")
    require_precision("geqrf", input)
    m, n = input.shape[-2:]
    batch = tuple(input.shape[:-2])
    count = min(m, n)
    if not count:
        return deliver(
            "geqrf",
            return_types.geqrf(input.clone(), wrap_like(input, np.zeros((*batch, 0), np_dtype(input)))),
            out,
            input,
        )
    dtype, dim = np_dtype(input), input.ndim - 2
    work, rows, columns, taus = input, [], [], []
    for i in range(count):
        beta, v, tau = _reflection(_part(work, slice(None), slice(0, 1)))
        one = wrap_like(input, np.ones((*batch, 1, 1), dtype))
        whole = join.cat(one, v, dim=dim)
        others = _part(work, slice(None), slice(1, None))
        others = others - conjugate(tau) * product.matmul(whole, product.matmul(adjoint(whole), others))
        row = join.cat(
            beta if np_dtype(beta) == dtype else beta.to(input.dtype),
            _part(others, slice(0, 1), slice(None)),
            dim=dim + 1,
        )
        rows.append(padding.constant_pad_nd(row, pads=(*((0, 0),) * (dim + 1), (i, 0)), value=0))
        columns.append(padding.constant_pad_nd(v, pads=(*((0, 0),) * dim, (i + 1, 0), (0, 0)), value=0))
        taus.append(_part(tau, 0))
        work = _part(others, slice(1, None), slice(None))
    above = padding.constant_pad_nd(join.cat(*rows, dim=dim), pads=(*((0, 0),) * dim, (0, m - count), (0, 0)), value=0)
    below = padding.constant_pad_nd(
        join.cat(*columns, dim=dim + 1), pads=(*((0, 0),) * (dim + 1), (0, n - count)), value=0
    )
    return deliver("geqrf", return_types.geqrf(above + below, join.cat(*taus, dim=dim)), out, input)


@takes_out
def ormqr(
    input: Tensor, tau: Tensor, other: Tensor, left: bool = True, transpose: bool = False, *, out: Tensor | None = None
) -> Tensor:
    """Multiply a matrix by the square Q of `geqrf`: `Q @ other`.

    Args:
        input: vectors of the reflections below the diagonal, of shape (..., m, k), as `geqrf` returns them.
        tau: factors of the reflections, as `geqrf` returns them.
        other: matrices to multiply.
        left: whether Q is on the left of `other`.
        transpose: whether Q is replaced by its adjoint.
        out: tensor that receives the result.

    >>> import ndgrad
    >>> A = ndgrad.tensor([[3.0, 1.0], [4.0, 2.0]])
    >>> a, tau = ndgrad.geqrf(A)
    >>> ndgrad.ormqr(a, tau, a.triu())
    tensor([[3., 1.],
            [4., 2.]])
    """
    for name, t in (("input", input), ("other", other)):
        require_matrices("ormqr", t, name)
    side = other.shape[-2 if left else -1]
    count = tau.shape[-1] if tau.ndim else 0
    if side != input.shape[-2] or count > input.shape[-1] or tau.ndim != input.ndim - 1:
        raise RuntimeError(
            f"ormqr: input of shape {tuple(input.shape)} with tau of shape {tuple(tau.shape)} does not fit other of "
            "shape "
            f"{tuple(other.shape)}, left={left}: the sizes of the vectors and of other must agree, and there is at "
            "most one tau per column. [nd-shape]"
        )
    if not len(input.shape) == len(other.shape):
        raise RuntimeError(
            f"ormqr: input and other must have the same number of dimensions, not {input.ndim} and {other.ndim}. "
            "[nd-ndim]"
        )
    rows = wrap_like(input, np.arange(side)[:, None])
    made = other
    for i in range(count) if left == transpose else reversed(range(count)):
        column = _part(input, slice(None), slice(i, i + 1))
        v = selection.where(comparison.gt(rows, i), column, 0.0)
        v = selection.where(comparison.eq(rows, i), 1.0, v)
        factor = _part(shape.unsqueeze(tau, dim=tau.ndim), slice(i, i + 1), slice(None))
        factor = conjugate(factor) if transpose else factor
        if left:
            made = made - factor * product.matmul(v, product.matmul(adjoint(v), made))
        else:
            made = made - factor * product.matmul(product.matmul(made, v), adjoint(v))
    return made
