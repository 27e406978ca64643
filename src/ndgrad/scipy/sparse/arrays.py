"""Sparse arrays with an Array of entries: differentiable values with a constant pattern.

The pattern (the positions of entries) is fixed at creation; gradients have the same pattern. Products with dense
arrays, sums and solves are ops. Operations that change the pattern return a new array.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, TypeAlias

import numpy

import ndgrad.numpy as np
from ndgrad._src.arrays.sparse_pattern import Pattern
from ndgrad._src.core.variable import Variable, np_dtype
from ndgrad._src.ops import sparse as ops
from ndgrad._src.ops.vocabulary import tensor_ops
from ndgrad.implicit.convergence import scipy_module
from ndgrad.numpy.coercion import as_array, operands, values_of
from ndgrad.scipy._without_rules import active_in, floating, strip_tensors

if TYPE_CHECKING:
    from numpy.typing import NDArray
    from scipy.sparse import sparray, spmatrix

    from ndgrad._typing import Array, ArrayLike, Axes, Dtype, Index, Out, Tensor

#: A sparse array of ours or of SciPy's, or a dense matrix.
SparseLike: TypeAlias = "SparseArray | ArrayLike | sparray | spmatrix"

__all__ = ["SparseArray", "coo_array", "coo_matrix", "csc_array", "csc_matrix", "csr_array", "csr_matrix"]


def is_scipys(value: object) -> bool:
    """True if this is one of scipy.sparse's own arrays or matrices."""
    return type(value).__module__.startswith("scipy.sparse") and hasattr(value, "tocoo")


def as_sparse(value: Any) -> SparseArray:
    """Return a sparse array of SciPy's (a constant) or of ours, or a dense matrix by its nonzero entries."""
    if isinstance(value, SparseArray):
        return value
    if is_scipys(value):
        coo = value.tocoo()
        if coo.ndim != 2:
            raise ValueError(f"a sparse array of two axes was expected, and this one has {coo.ndim}. [nd-matrix]")
        return coo_array((coo.data, (coo.row, coo.col)), shape=coo.shape)
    full = floating(value)
    if full.ndim != 2:
        raise ValueError(f"a matrix was expected, and the shape is {full.shape}. [nd-matrix]")
    rows, columns = numpy.nonzero(values_of(full.detach()))
    return coo_array((full[rows, columns], (rows, columns)), shape=(full.shape[0], full.shape[1]))


class SparseArray:
    """Matrix given by its entries. `data` may carry derivatives; `a @ x` is differentiable in both.

    Args:
        arg: entries (data, (rows, columns)), for CSR and CSC also (data, indices, indptr), a shape of an empty matrix,
            or another matrix, sparse or dense.
        shape: shape of the matrix. The default is the smallest that holds all entries.
        dtype: dtype of the entries.
        copy: whether the entries are copied.

    >>> import ndgrad.numpy as np
    >>> from ndgrad.scipy import sparse
    >>> data = np.array([2.0, 3.0]).requires_grad_()
    >>> a = sparse.csr_array((data, ([0, 1], [1, 0])), shape=(2, 2))
    >>> (a @ np.array([1.0, 10.0])).sum().backward()
    >>> data.grad
    array([10.,  1.])
    """

    format = "coo"
    __array_ufunc__ = None  # NumPy leaves operators with an ndarray on the left to this class
    __array_priority__ = 2000

    def __init__(self, arg: Any, shape: tuple[int, int] | None = None, dtype: Dtype = None, copy: bool = False) -> None:
        data, pattern = self._read_argument(arg, shape)
        data = data if dtype is None else data.astype(dtype)
        self._set(data.copy() if copy else data, pattern)

    def _set(self, data: Array, pattern: Pattern) -> None:
        self.data, self.pattern = data, pattern

    def _read_argument(self, arg: Any, shape: tuple[int, int] | None) -> tuple[Array, Pattern]:
        if isinstance(arg, SparseArray) or is_scipys(arg):
            found = as_sparse(arg)
            return found.data, found.pattern
        if isinstance(arg, tuple) and len(arg) == 2 and not isinstance(arg[1], (int, numpy.integer)):
            numbers, (rows, columns) = as_array(arg[0]), arg[1]
            rows, columns = (numpy.asarray(values_of(as_array(v))) for v in (rows, columns))
            height, width = shape if shape is not None else (int(v.max()) + 1 if v.size else 0 for v in (rows, columns))
            return _numbers(numbers), Pattern(rows, columns, (height, width))
        if isinstance(arg, tuple) and len(arg) == 3 and self.format in ("csr", "csc"):
            numbers = as_array(arg[0])
            inner, starts = (numpy.asarray(values_of(as_array(v))) for v in arg[1:])
            outer = numpy.repeat(numpy.arange(len(starts) - 1), numpy.diff(starts))
            rows, columns = (outer, inner) if self.format == "csr" else (inner, outer)
            if shape is None:
                other = int(inner.max()) + 1 if inner.size else 0
                shape = (len(starts) - 1, other) if self.format == "csr" else (other, len(starts) - 1)
            return _numbers(numbers), Pattern(rows, columns, shape)
        if isinstance(arg, tuple) and len(arg) == 2:
            return np.zeros(0), Pattern([], [], arg)
        found = as_sparse(arg)
        return found.data, found.pattern

    # ----- what it is -----

    @property
    def shape(self) -> tuple[int, int]:
        return self.pattern.shape

    ndim = 2

    @property
    def dtype(self) -> numpy.dtype[Any]:
        return np_dtype(self.data)

    @property
    def nnz(self) -> int:
        return int(self.pattern.rows.size)

    @property
    def coords(self) -> tuple[NDArray[Any], NDArray[Any]]:
        return self.pattern.rows, self.pattern.columns

    row = property(lambda self: self.pattern.rows)
    col = property(lambda self: self.pattern.columns)

    @property
    def requires_grad(self) -> bool:
        return bool(self.data.requires_grad)

    def requires_grad_(self, requires_grad: bool = True) -> SparseArray:
        """Set whether autograd records operations on the entries, and return the matrix.

        Args:
            requires_grad: whether autograd records operations on the entries.
        """
        self.data.requires_grad_(requires_grad)
        return self

    def detach(self) -> SparseArray:
        return self._like(self.data.detach())

    def __repr__(self) -> str:
        ending = ", requires grad" if self.requires_grad else ""
        return f"<{type(self).__name__} of {self.nnz} entries, shape {self.shape}, dtype {self.dtype}{ending}>"

    # ----- other forms of it -----

    def _like(self, data: Array, pattern: Pattern | None = None) -> SparseArray:
        made = object.__new__(type(self))
        made._set(data, self.pattern if pattern is None else pattern)
        return made

    def _as(self, kind: type[SparseArray], copy: bool) -> SparseArray:
        made = object.__new__(kind)
        made._set(self.data.copy() if copy else self.data, self.pattern)
        return made

    def asformat(self, format: str | None, copy: bool = False) -> SparseArray:
        """Return the array in another format.

        Args:
            format: `"csr"`, `"csc"`, `"coo"`, or None for the current one.
            copy: whether the values are copied if the format is the current one.
        """
        if format is None:
            return self.copy() if copy else self
        convert = getattr(self, f"to{format}", None)
        if convert is None:
            raise ValueError(f"Format {format} is unknown. Known are csr, csc and coo. [nd-sparse]")
        made: SparseArray = convert(copy=copy)
        return made

    def tocsr(self, copy: bool = False) -> SparseArray:
        """Return the matrix in compressed rows.

        Args:
            copy: whether the entries are copied.
        """
        return self._as(csr_array, copy)

    def tocsc(self, copy: bool = False) -> SparseArray:
        """Return the matrix in compressed columns.

        Args:
            copy: whether the entries are copied.
        """
        return self._as(csc_array, copy)

    def tocoo(self, copy: bool = False) -> SparseArray:
        """Return the matrix as entries with their coordinates.

        Args:
            copy: whether the entries are copied.
        """
        return self._as(coo_array, copy)

    def copy(self) -> SparseArray:
        return self._like(self.data.copy())

    def astype(self, dtype: Dtype, casting: str = "unsafe", copy: bool = True) -> SparseArray:
        """Return the matrix with entries of another dtype.

        Args:
            dtype: dtype of the result.
            casting: permitted conversions, as in NumPy.
            copy: whether entries are copied even if the dtype is the same.
        """
        return self._like(self.data.astype(dtype, casting=casting, copy=copy))

    def conj(self, copy: bool = True) -> SparseArray:
        """Return the complex conjugate.

        Args:
            copy: whether real entries are copied.
        """
        made = self.data.conj()
        return self._like(made.copy() if copy and self.dtype.kind != "c" else made)

    conjugate = conj

    def transpose(self, axes: Axes = None, copy: bool = False) -> SparseArray:
        """Return the transpose.

        Args:
            axes: None or (1, 0).
            copy: whether the entries are copied.
        """
        if axes is not None and numpy.atleast_1d(axes).tolist() != [1, 0]:
            raise ValueError(
                f"transpose(): axes is {axes!r}. A sparse matrix swaps its two axes; leave the argument out. [nd-dim]"
            )
        return self._like(self.data.copy() if copy else self.data, self.pattern.transposed)

    T = property(lambda self: self.transpose())

    def toarray(self, order: str | None = None, out: Out = None) -> Array:
        """Return the dense matrix, an Array.

        Args:
            order: `"F"` for a result in Fortran's order.
            out: must be None.
        """
        if out is not None:
            raise NotImplementedError(
                "toarray(): out= has no rule here. Assign the result: out[...] = a.toarray(). [nd-unsupported]"
            )
        places = [as_array(p) for p in self.coords]
        made = tensor_ops.index_add_zeros(self.data, *places, shape=self.shape)
        return np.array(made, order=order) if order == "F" else made

    todense = toarray

    def eliminate_zeros(self) -> None:
        """Do nothing: an entry that is zero stays, because it may have a derivative."""

    def to_scipy(self) -> Any:
        """Return SciPy's array of the same values, without derivatives."""
        sparse = scipy_module("sparse", "SparseArray.to_scipy")
        made = sparse.coo_array((values_of(self.data.detach()), self.coords), shape=self.shape)
        return made.asformat(self.format)

    def __array__(self, dtype: Dtype = None, copy: bool | None = None) -> NDArray[Any]:
        """Raise a clear error. NumPy would create an array of objects, which functions for dense matrices refuse
        without a reason.
        """
        raise TypeError(
            f"a {type(self).__name__} of shape {self.shape} was given where a full array is wanted. "
            "Use toarray(), which keeps the derivative, or for SciPy's own functions to_scipy(), which drops it. "
            "[nd-sparse]"
        )

    # ----- arithmetic -----

    def __matmul__(self, other: Any) -> Any:
        """Return the product with a vector or a matrix; that of two sparse matrices is sparse.

        Args:
            other: vector, or dense or sparse matrix.
        """
        if isinstance(other, SparseArray) or is_scipys(other):
            return self._times_sparse(as_sparse(other))
        return product(self, other)

    def __rmatmul__(self, other: Any) -> Any:
        if isinstance(other, SparseArray) or is_scipys(other):
            return as_sparse(other)._times_sparse(self)
        return product_from_left(other, self)

    dot = __matmul__

    def _times_sparse(self, other: SparseArray) -> SparseArray:
        """Multiply entry by entry: a[i, k] meets the entries of row k of b; products at the same position add up."""
        if self.shape[1] != other.shape[0]:
            raise ValueError(f"matmul: dimension mismatch: shapes {self.shape} and {other.shape}. [nd-matmul]")
        order, columns, starts = other.pattern.by_rows
        middle = self.pattern.columns
        counts = (starts[1:] - starts[:-1])[middle]
        left = numpy.repeat(numpy.arange(self.nnz), counts)
        inside = numpy.arange(counts.sum()) - numpy.repeat(numpy.cumsum(counts) - counts, counts)
        right = starts[middle[left]] + inside
        a, b = operands(self.data, other.data)
        terms = a[left] * b[order[right]]
        return self._sum_entries(terms, self.pattern.rows[left], columns[right], (self.shape[0], other.shape[1]))

    def _sum_entries(
        self, terms: Array, rows: NDArray[Any], columns: NDArray[Any], shape: tuple[int, int]
    ) -> SparseArray:
        keys, places = numpy.unique(rows * shape[1] + columns, return_inverse=True)
        data = tensor_ops.index_add_zeros(terms, as_array(places.ravel()), shape=(len(keys),))
        return self._like(data, Pattern(keys // max(shape[1], 1), keys % max(shape[1], 1), shape))

    def __add__(self, other: Any) -> Any:
        if isinstance(other, SparseArray) or is_scipys(other):
            more = as_sparse(other)
            if more.shape != self.shape:
                raise ValueError(f"inconsistent shapes {self.shape} and {more.shape} [nd-shape]")
            a, b = operands(self.data, more.data)
            rows, columns = (numpy.concatenate(pair) for pair in zip(self.coords, more.coords, strict=True))
            return self._sum_entries(np.concatenate([a, b]), rows, columns, self.shape)
        if isinstance(other, (int, float)) and other == 0:
            return self
        return self.toarray() + other

    __radd__ = __add__

    def __neg__(self) -> SparseArray:
        return self._like(-self.data)

    def __sub__(self, other: Any) -> Any:
        return self + (-as_sparse(other) if isinstance(other, SparseArray) or is_scipys(other) else -as_array(other))

    def __rsub__(self, other: Any) -> Any:
        return -self + other

    def multiply(self, other: Any) -> SparseArray:
        """Multiply elementwise with a number or an array that broadcasts; the pattern stays.

        Args:
            other: number, or dense or sparse array that broadcasts to the shape.
        """
        if isinstance(other, SparseArray) or is_scipys(other):
            other = as_sparse(other).toarray()
        factor = as_array(other)
        if factor.ndim:
            factor = np.broadcast_to(factor, self.shape)[self.coords]
        return self._like(self.data * factor)

    __mul__ = __rmul__ = multiply

    def __truediv__(self, other: ArrayLike) -> SparseArray:
        return self.multiply(1.0 / floating(other))

    def power(self, n: ArrayLike) -> SparseArray:
        """Return the entries raised to a power; the pattern stays.

        Args:
            n: exponent.
        """
        return self._like(self.data**n)

    def __abs__(self) -> SparseArray:
        return self._like(abs(self.data))

    def sum(self, axis: int | None = None) -> Array:
        """Return the sum of the entries, dense.

        Args:
            axis: axis that is summed. None means both.
        """
        if axis is None:
            return self.data.sum()
        d = axis % 2
        ones = np.ones((self.shape[d], 1), dtype=self.dtype)
        matrix = self if d == 1 else self.T
        return product(matrix, ones)[:, 0]

    def mean(self, axis: int | None = None) -> Array:
        """Return the mean of all elements, zeros included.

        Args:
            axis: axis that is averaged. None means both.
        """
        return self.sum(axis) / (self.shape[0] * self.shape[1] if axis is None else self.shape[axis % 2])

    def trace(self, offset: int = 0) -> Array:
        """Return the sum of a diagonal.

        Args:
            offset: number of the diagonal, positive above the main one.
        """
        return self.diagonal(offset).sum()

    def diagonal(self, k: int = 0) -> Array:
        """Return a diagonal, dense.

        Args:
            k: number of the diagonal, positive above the main one.
        """
        length = max(0, min(self.shape[0] + min(k, 0), self.shape[1] - max(k, 0)))
        chosen = numpy.flatnonzero(self.pattern.columns - self.pattern.rows == k)
        places = numpy.minimum(self.pattern.rows, self.pattern.columns)[chosen]
        return tensor_ops.index_add_zeros(self.data[chosen], as_array(places), shape=(length,))

    def __getitem__(self, index: Index) -> Any:
        raise NotImplementedError(
            "indexing a sparse array has no rule here. Index its toarray(), or choose entries when it is made. "
            "[nd-no-derivative]"
        )


class coo_array(SparseArray):
    """Entries in any order; repeated positions add up.

    >>> from ndgrad.scipy import sparse
    >>> sparse.coo_array(([1.0, 2.0], ([0, 0], [1, 1])), shape=(2, 2)).toarray()
    array([[0., 3.],
           [0., 0.]])
    """


class csr_array(SparseArray):
    """Entries by rows.

    >>> from ndgrad.scipy import sparse
    >>> sparse.csr_array([[1.0, 0.0], [0.0, 2.0]]) @ [1.0, 1.0]
    array([1., 2.])
    """

    format = "csr"

    def _set(self, data: Array, pattern: Pattern) -> None:
        super()._set(*_sort_entries(data, pattern, by_columns=False))

    indices = property(lambda self: self.pattern.columns)
    indptr = property(lambda self: self.pattern.by_rows[2])


class csc_array(SparseArray):
    """Entries by columns.

    >>> from ndgrad.scipy import sparse
    >>> sparse.csc_array([[1.0, 0.0], [3.0, 2.0]]).indptr
    array([0, 2, 3])
    """

    format = "csc"

    def _set(self, data: Array, pattern: Pattern) -> None:
        super()._set(*_sort_entries(data, pattern, by_columns=True))

    indices = property(lambda self: self.pattern.rows)
    indptr = property(lambda self: self.pattern.transposed.by_rows[2])


# ----- SciPy's matrices -----


class _MatrixClass(type):
    """Metaclass of `csr_matrix` and its kin: constants are SciPy's own matrices, which have more methods."""

    def __call__(cls, *args: Any, **kwargs: Any) -> Any:
        if active_in((args, kwargs)) is not None:
            return super().__call__(*args, **kwargs)
        theirs = getattr(scipy_module("sparse", cls.__name__), cls.__name__)
        given, options = strip_tensors((args, kwargs))
        return theirs(*given, **options)

    def __instancecheck__(cls, x: object) -> bool:
        return super().__instancecheck__(x) or (is_scipys(x) and type(x).__name__ == cls.__name__)


class _Matrix(SparseArray):
    """Operators of SciPy's matrices: `a * b` is the product of matrices, `a ** n` a power of the matrix."""

    def __mul__(self, other: Any) -> Any:
        if isinstance(other, (int, float, complex)) or getattr(other, "ndim", 1) == 0:
            return self.multiply(other)
        return self @ other

    def __rmul__(self, other: Any) -> Any:
        if isinstance(other, (int, float, complex)) or getattr(other, "ndim", 1) == 0:
            return self.multiply(other)
        return other @ self

    def __pow__(self, n: int) -> Any:
        if n < 1 or int(n) != n:
            raise ValueError(f"a sparse matrix to the power {n}: give a positive integer. [nd-arguments]")
        made: Any = self
        for _ in range(int(n) - 1):
            made = made @ self
        return made


class coo_matrix(_Matrix, coo_array, metaclass=_MatrixClass):
    """SciPy's matrix of entries in any order.

    >>> from ndgrad.scipy import sparse
    >>> sparse.coo_matrix(([1.0, 2.0], ([0, 1], [1, 0]))).shape
    (2, 2)
    """


class csr_matrix(_Matrix, csr_array, metaclass=_MatrixClass):
    """SciPy's matrix by rows, for which `*` is the product of matrices.

    >>> import ndgrad.numpy as np
    >>> from ndgrad.scipy import sparse
    >>> a = sparse.csr_matrix(np.array([[2.0, 0.0], [0.0, 3.0]]).requires_grad_())
    >>> (a * a).toarray().detach()
    array([[4., 0.],
           [0., 9.]])
    """


class csc_matrix(_Matrix, csc_array, metaclass=_MatrixClass):
    """SciPy's matrix by columns.

    >>> from ndgrad.scipy import sparse
    >>> sparse.csc_matrix([[2.0, 0.0], [0.0, 3.0]]).nnz
    2
    """


def _sort_entries(data: Array, pattern: Pattern, *, by_columns: bool) -> tuple[Array, Pattern]:
    """Return sorted entries; if they are sorted, the same Array and pattern, so that `data` is the user's object."""
    keys = (pattern.rows, pattern.columns) if by_columns else (pattern.columns, pattern.rows)
    major, minor = keys[1], keys[0]
    if pattern.rows.size < 2 or bool(
        ((numpy.diff(major) > 0) | ((numpy.diff(major) == 0) & (numpy.diff(minor) >= 0))).all()
    ):
        return data, pattern
    order = numpy.lexsort(keys)
    return data[order], Pattern(pattern.rows[order], pattern.columns[order], pattern.shape)


def _numbers(data: Array) -> Array:
    return data.astype(numpy.float64) if np_dtype(data).kind == "b" else data


def product(a: SparseArray, x: ArrayLike) -> Array:
    """Multiply the matrix with a vector or columns (or a stack of these), differentiable in both."""
    t = as_array(x)
    if np_dtype(a.data).kind in "iu" and np_dtype(t).kind in "iu":
        data = a.data
    else:
        data, t = operands(a.data, t)
    vector = t.ndim == 1
    if t.ndim == 0 or t.shape[0 if vector else -2] != a.shape[1]:
        raise ValueError(
            f"matmul: dimension mismatch: a sparse array of shape {a.shape} and an array of shape {tuple(t.shape)}. "
            "[nd-matmul]"
        )
    made = ops.sparse_product(data, t[:, None] if vector else t, pattern=a.pattern)
    return made[:, 0] if vector else made


def product_from_left(x: ArrayLike, a: SparseArray) -> Array:
    """Return x @ a."""
    t = as_array(x)
    if t.ndim == 1:
        return product(a.T, t)
    return np.swapaxes(product(a.T, np.swapaxes(t, -1, -2)), -1, -2)


def matmul_with_tensors(left: Any, right: Any) -> Tensor:
    """Multiply SciPy's sparse array with a tensor; the result has the tensor's class."""
    tensor = left if isinstance(left, Variable) else right
    made = product(as_sparse(left), right) if is_scipys(left) else product_from_left(left, as_sparse(right))
    return made if tensor.is_numpy_type else made.tensor()


