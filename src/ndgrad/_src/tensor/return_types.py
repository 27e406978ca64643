"""Named results of functions that return several tensors: `x.max(dim=0).values`.

There is one class per function, as in torch, so that a printed result names its function and a program can tell
results apart.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, NamedTuple

if TYPE_CHECKING:
    from ndgrad._typing import Tensor


def _text(self: Any) -> str:
    """Format one field per line."""
    lines = ",\n".join(f"{name}={value!r}" for name, value in zip(self._fields, self, strict=True))
    return f"{type(self).__module__}.{type(self).__name__}(\n{lines})"


class _Ranked(NamedTuple):
    """Values, and their indices along the dimension."""

    values: Tensor
    indices: Tensor


class aminmax(NamedTuple):
    """The smallest and the largest elements.

    >>> import ndgrad
    >>> ndgrad.aminmax(ndgrad.tensor([3.0, 1.0, 2.0])).max
    tensor(3.)
    """

    min: Tensor
    max: Tensor


class max(_Ranked):
    """The largest elements along a dimension, and their indices.

    >>> import ndgrad
    >>> ndgrad.tensor([3.0, 1.0, 3.0]).max(dim=0).indices
    tensor(0)
    """

    __slots__ = ()


class min(_Ranked):
    """The smallest elements along a dimension, and their indices.

    >>> import ndgrad
    >>> ndgrad.tensor([3.0, 1.0, 2.0]).min(dim=0).indices
    tensor(1)
    """

    __slots__ = ()


class median(_Ranked):
    """The medians along a dimension, and their indices.

    >>> import ndgrad
    >>> ndgrad.tensor([3.0, 1.0, 2.0]).median(dim=0).indices
    tensor(2)
    """

    __slots__ = ()


class nanmedian(_Ranked):
    """The medians along a dimension, ignoring NaNs, and their indices.

    >>> import ndgrad
    >>> ndgrad.tensor([3.0, float("nan"), 2.0]).nanmedian(dim=0).indices
    tensor(2)
    """

    __slots__ = ()


class mode(_Ranked):
    """The most frequent elements along a dimension, and their indices.

    >>> import ndgrad
    >>> ndgrad.tensor([3.0, 1.0, 3.0]).mode(dim=0).indices
    tensor(2)
    """

    __slots__ = ()


class cummax(_Ranked):
    """The running maxima along a dimension, and their indices.

    >>> import ndgrad
    >>> ndgrad.tensor([1.0, 3.0, 2.0]).cummax(dim=0).indices
    tensor([0, 1, 1])
    """

    __slots__ = ()


class cummin(_Ranked):
    """The running minima along a dimension, and their indices.

    >>> import ndgrad
    >>> ndgrad.tensor([3.0, 1.0, 2.0]).cummin(dim=0).indices
    tensor([0, 1, 1])
    """

    __slots__ = ()


class sort(_Ranked):
    """The sorted elements along a dimension, and their former indices.

    >>> import ndgrad
    >>> ndgrad.tensor([3.0, 1.0, 2.0]).sort().indices
    tensor([1, 2, 0])
    """

    __slots__ = ()


class topk(_Ranked):
    """The largest elements along a dimension, in order, and their former indices.

    >>> import ndgrad
    >>> ndgrad.tensor([3.0, 1.0, 2.0]).topk(2).indices
    tensor([0, 2])
    """

    __slots__ = ()


class kthvalue(_Ranked):
    """The k-th smallest elements along a dimension, and their indices.

    >>> import ndgrad
    >>> ndgrad.tensor([3.0, 1.0, 2.0]).kthvalue(2).indices
    tensor(2)
    """

    __slots__ = ()


class frexp(NamedTuple):
    """Mantissas in [0.5, 1) and exponents of two.

    >>> import ndgrad
    >>> ndgrad.frexp(ndgrad.tensor([6.0])).exponent
    tensor([3], dtype=ndgrad.int32)
    """

    mantissa: Tensor
    exponent: Tensor


class histogram(NamedTuple):
    """Counts in bins, and the edges of the bins.

    >>> import ndgrad
    >>> ndgrad.histogram(ndgrad.tensor([1.0, 2.0]), 2).bin_edges
    tensor([1.0000, 1.5000, 2.0000])
    """

    hist: Tensor
    bin_edges: Tensor


class histogramdd(NamedTuple):
    """Counts in boxes, and the edges along each dimension.

    >>> import ndgrad
    >>> ndgrad.histogramdd(ndgrad.tensor([[1.0, 2.0]]), 1).bin_edges
    (tensor([0.5000, 1.5000]), tensor([1.5000, 2.5000]))
    """

    hist: Tensor
    bin_edges: tuple[Tensor, ...]


class geqrf(NamedTuple):
    """Householder vectors below R, and the factors of the reflections.

    >>> import ndgrad
    >>> ndgrad.geqrf(ndgrad.tensor([[3.0], [4.0]])).tau
    tensor([1.6000])
    """

    a: Tensor
    tau: Tensor


class linalg_cholesky_ex(NamedTuple):
    """A Cholesky factor, and an `info` that is nonzero for matrices without one.

    >>> import ndgrad
    >>> ndgrad.linalg.cholesky_ex(ndgrad.eye(2)).info
    tensor(0, dtype=ndgrad.int32)
    """

    L: Tensor
    info: Tensor


class linalg_lu_factor(NamedTuple):
    """Packed factors and row exchanges.

    >>> import ndgrad
    >>> ndgrad.linalg.lu_factor(ndgrad.eye(2)).pivots
    tensor([1, 2], dtype=ndgrad.int32)
    """

    LU: Tensor
    pivots: Tensor


class linalg_lu_factor_ex(NamedTuple):
    """Packed factors, row exchanges, and the first zero on U's diagonal.

    >>> import ndgrad
    >>> ndgrad.linalg.lu_factor_ex(ndgrad.zeros(2, 2)).info
    tensor(1, dtype=ndgrad.int32)
    """

    LU: Tensor
    pivots: Tensor
    info: Tensor


class linalg_lu(NamedTuple):
    """Factors P L U.

    >>> import ndgrad
    >>> ndgrad.linalg.lu(ndgrad.eye(2)).U
    tensor([[1., 0.],
            [0., 1.]])
    """

    P: Tensor
    L: Tensor
    U: Tensor


class lu_unpack(linalg_lu):
    """Factors P L U of packed factors.

    >>> import ndgrad
    >>> ndgrad.lu_unpack(*ndgrad.linalg.lu_factor(ndgrad.eye(2))).U
    tensor([[1., 0.],
            [0., 1.]])
    """

    __slots__ = ()


class linalg_qr(NamedTuple):
    """Factors of a QR decomposition.

    >>> import ndgrad
    >>> ndgrad.linalg.qr(ndgrad.eye(2)).R.abs()
    tensor([[1., 0.],
            [0., 1.]])
    """

    Q: Tensor
    R: Tensor


class qr(linalg_qr):
    """Factors of a QR decomposition.

    >>> import ndgrad
    >>> ndgrad.qr(ndgrad.eye(2)).R.abs()
    tensor([[1., 0.],
            [0., 1.]])
    """

    __slots__ = ()


class linalg_svd(NamedTuple):
    """Factors of a singular value decomposition: U diag(S) Vh.

    >>> import ndgrad
    >>> ndgrad.linalg.svd(ndgrad.eye(2)).S
    tensor([1., 1.])
    """

    U: Tensor
    S: Tensor
    Vh: Tensor


class svd(NamedTuple):
    """Factors U diag(S) V^H: the third one is V itself.

    >>> import ndgrad
    >>> ndgrad.svd(ndgrad.eye(2)).V.abs()
    tensor([[1., 0.],
            [0., 1.]])
    """

    U: Tensor
    S: Tensor
    V: Tensor


class linalg_eigh(NamedTuple):
    """Eigenvalues and eigenvectors.

    >>> import ndgrad
    >>> ndgrad.linalg.eigh(ndgrad.eye(2)).eigenvalues
    tensor([1., 1.])
    """

    eigenvalues: Tensor
    eigenvectors: Tensor


class linalg_eig(linalg_eigh):
    """Eigenvalues and eigenvectors.

    >>> import ndgrad
    >>> ndgrad.linalg.eig(ndgrad.eye(2)).eigenvalues
    tensor([1.+0.j, 1.+0.j])
    """

    __slots__ = ()


class linalg_lstsq(NamedTuple):
    """The results of lstsq.

    >>> import ndgrad
    >>> ndgrad.linalg.lstsq(ndgrad.eye(2), ndgrad.ones(2, 1)).rank
    tensor(2)
    """

    solution: Tensor
    residuals: Tensor
    rank: Tensor
    singular_values: Tensor


class linalg_inv_ex(NamedTuple):
    """An inverse, and an `info` that is nonzero for singular matrices.

    >>> import ndgrad
    >>> ndgrad.linalg.inv_ex(ndgrad.eye(2)).info
    tensor(0, dtype=ndgrad.int32)
    """

    inverse: Tensor
    info: Tensor


class linalg_solve_ex(NamedTuple):
    """A solution, and an `info` that is nonzero for singular systems.

    >>> import ndgrad
    >>> ndgrad.linalg.solve_ex(ndgrad.eye(2), ndgrad.ones(2)).info
    tensor(0, dtype=ndgrad.int32)
    """

    result: Tensor
    info: Tensor


class linalg_ldl_factor(NamedTuple):
    """Packed factors and row exchanges.

    >>> import ndgrad
    >>> ndgrad.linalg.ldl_factor(ndgrad.eye(2)).pivots
    tensor([1, 2], dtype=ndgrad.int32)
    """

    LD: Tensor
    pivots: Tensor


class linalg_ldl_factor_ex(NamedTuple):
    """Packed factors, row exchanges, and the first zero pivot.

    >>> import ndgrad
    >>> ndgrad.linalg.ldl_factor_ex(ndgrad.zeros(2, 2)).info
    tensor(1, dtype=ndgrad.int32)
    """

    LD: Tensor
    pivots: Tensor
    info: Tensor


class triangular_solve(NamedTuple):
    """A solution, and the matrix of the system.

    >>> import ndgrad
    >>> ndgrad.triangular_solve(ndgrad.ones(2, 1), ndgrad.eye(2)).solution
    tensor([[1.],
            [1.]])
    """

    solution: Tensor
    cloned_coefficient: Tensor


class linalg_slogdet(NamedTuple):
    """Sign and logarithm of the modulus of a determinant.

    >>> import ndgrad
    >>> ndgrad.linalg.slogdet(ndgrad.eye(2)).sign
    tensor(1.)
    """

    sign: Tensor
    logabsdet: Tensor


for _result in [value for value in list(globals().values()) if isinstance(value, type) and issubclass(value, tuple)]:
    _result.__module__ = "ndgrad.return_types"  # path shown in texts and written into pickles
    _result.__repr__ = _text  # type: ignore[method-assign]
