"""Products of two matrices: by ndgrad's kernels for sizes where they are faster than BLAS, else by the array library.

Note [Products by kernels]
NumPy's BLAS (OpenBLAS) needs a packed copy of both matrices. For products of 10^5.5 to 10^8 multiply-adds, which are
most products of training steps, the kernels of compiled programs take 0.5 to 0.95 of its time (float32 and float64,
AVX-512). BLAS is faster for smaller products and as fast for larger ones. It is also faster for few columns, or if the
first matrix is stored by columns and the result has few of them. As everywhere, the choice depends on dtypes, sizes and
strides only (Note [When kernels are used] in ndgrad._src.arrays.native_kernels).
"""

from __future__ import annotations

from typing import Any

import numpy

from ndgrad._src.arrays import native_kernels
from ndgrad._src.foundations import registry

#: The range of multiply-adds. The smaller minimum is for a second matrix that is stored by columns.
_LEAST, _LEAST_BY_COLUMNS, _MOST = 2**20, 2**18, 2**26
#: Minimum numbers of rows and columns of the result, of inner elements, and of columns if the first matrix is stored by
#: columns.
_ROWS, _COLUMNS, _INNER, _WIDE = 4, 16, 16, 128


def multiply(x: Any, y: Any) -> Any:
    """Return the product of two matrices of any array library."""
    if x.__class__ is not numpy.ndarray:
        return x @ y
    rows, inner = x.shape
    work = rows * inner * y.shape[1]
    # Small products take NumPy's dot, which needs half a microsecond less than @.
    if work < _LEAST_BY_COLUMNS or work > _MOST or not _is_faster(x, y, work):
        return x.dot(y)
    found = registry.eager_kernels.multiply(x, y)
    return x.dot(y) if found is None else found


def _is_faster(x: Any, y: Any, work: int) -> bool:
    """True if the kernels take these matrices, and are faster than BLAS."""
    dtype = x.dtype
    if y.__class__ is not numpy.ndarray or not native_kernels.has_kernels(dtype) or y.dtype != dtype:
        return False
    (rows, inner), (other, columns) = x.shape, y.shape
    if other != inner or rows < _ROWS or columns < _COLUMNS or inner < _INNER:
        return False
    size = dtype.itemsize
    (down, along), (y_down, y_along) = x.strides, y.strides
    if (along != size and (down != size or columns < _WIDE)) or (y_along != size and y_down != size):
        return False
    if (work < _LEAST and y_along == size) or not (x.flags.aligned and y.flags.aligned):
        return False
    return native_kernels.kernels() is not None
