"""Products of matrices by groups of rows or columns, as in mixtures of experts."""

from __future__ import annotations

from typing import TYPE_CHECKING

from ndgrad._src.arrays import dtypes
from ndgrad._src.core.variable import np_dtype
from ndgrad._src.ops.vocabulary import tensor_ops as ops
from ndgrad.nn.functional.spatial import sizes_of

if TYPE_CHECKING:
    from ndgrad._typing import Dtype, Tensor

__all__ = ["grouped_mm"]


def grouped_mm(
    mat_a: Tensor,
    mat_b: Tensor,
    *,
    offs: Tensor | None = None,
    bias: Tensor | None = None,
    out_dtype: Dtype = None,
) -> Tensor:
    """Multiply groups of rows or columns by a matrix each.

    Args:
        mat_a: matrix, or matrices of shape (groups, n, k).
        mat_b: matrix, or matrices of shape (groups, k, m).
        offs: int32 vector with the end of each group, along the dimension that has no group dimension in the other
            operand: rows of `mat_a`, columns of `mat_b`, or the common dimension of two matrices. It is None for two
            batches.
        bias: only None, as in torch.
        out_dtype: dtype of the result, which is that of `mat_a`.

    Returns:
        A matrix if one operand has groups, else a batch with a product per group. Rows or columns behind the last group
        are 0.

    >>> import ndgrad
    >>> x, w = ndgrad.ones(3, 2), ndgrad.tensor([[[1.0], [1.0]], [[5.0], [5.0]]])
    >>> ndgrad.nn.functional.grouped_mm(x, w, offs=ndgrad.tensor([1, 3], dtype=ndgrad.int32))
    tensor([[ 2.],
            [10.],
            [10.]])
    """
    a, b = sizes_of(mat_a), sizes_of(mat_b)
    for name, shape in (("mat_a", a), ("mat_b", b)):
        if len(shape) not in (2, 3):
            raise RuntimeError(f"grouped_mm: {name} has to be 2 or 3d, but has shape {shape}. [nd-ndim]")
    if a[-1] != b[-2]:
        raise RuntimeError(
            f"grouped_mm: contraction dimension of mat_a and mat_b must match, but the shapes are {a} and {b}. "
            "[nd-matmul]"
        )
    if bias is not None:
        raise RuntimeError("grouped_mm: Bias not supported yet. Add it to the result. [nd-option]")
    if out_dtype is not None and dtypes.as_numpy_dtype(out_dtype) != np_dtype(mat_a):
        raise RuntimeError(
            f"grouped_mm: Grouped gemm output dtype must match `mat_a` dtype, {dtypes.as_dtype(np_dtype(mat_a))}. "
            "Convert the result with to(). [nd-dtype]"
        )
    if (offs is None) != (len(a) == len(b) == 3):
        raise RuntimeError(
            "grouped_mm: Have to provide offsets if there is a 2d matrix, or no offset if both matrices are 3d; the "
            f"shapes are {a} and {b}. [nd-arguments]"
        )
    if offs is None:
        return mat_a @ mat_b
    parts = _find_groups(offs, a, b)
    if len(a) == len(b):
        return ops.stack(*[mat_a[:, part] @ mat_b[part] for part in parts], dim=0)
    dim = 0 if len(a) == 2 else 1
    size = a[0] if len(a) == 2 else b[1]
    pairs = [(group, part) for group, part in enumerate(parts) if part.stop > part.start] or [(0, slice(0, 0))]
    if len(a) == 2:
        made = [mat_a[part] @ mat_b[group] for group, part in pairs]
    else:
        made = [mat_a[group] @ mat_b[:, part] for group, part in pairs]
    if (missing := size - pairs[-1][1].stop) > 0:
        made.append(made[0].new_zeros((missing, b[-1]) if dim == 0 else (a[-2], missing)))
    return made[0] if len(made) == 1 else ops.cat(*made, dim=dim)


def _find_groups(offs: Tensor, a: tuple[int, ...], b: tuple[int, ...]) -> list[slice]:
    """Return the part of each group, along the dimension that `offs` divides."""
    if np_dtype(offs).name != "int32":
        raise RuntimeError(f"grouped_mm: Offsets have to be int32, but are {np_dtype(offs)}. [nd-dtype]")
    groups = a[0] if len(a) == 3 else b[0] if len(b) == 3 else None
    if offs.ndim != 1 or not offs.shape[0] or groups not in (None, offs.shape[0]):
        raise RuntimeError(
            f"grouped_mm: matrix batch sizes have to match: offs has shape {tuple(offs.shape)}, and the operands "
            f"{a} and {b}. Give the end of each group. [nd-shape]"
        )
    ends = offs.tolist()
    size = b[1] if len(a) == 3 else a[0] if len(b) == 3 else a[1]
    starts = [0, *ends[:-1]]
    if any(end < start for start, end in zip(starts, ends, strict=True)) or ends[-1] > size:
        raise RuntimeError(
            f"grouped_mm: offs is {ends}; the ends of groups must not decrease, and the last one is at most {size}. "
            "[nd-index]"
        )
    return [slice(start, end) for start, end in zip(starts, ends, strict=True)]
