"""The text of a sparse tensor, as torch prints it: its indices, its values, and its attributes."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from ndgrad._src.arrays import dtypes
from ndgrad._src.arrays.sparse import NAMES, Compressed
from ndgrad._src.core.variable import Variable, np_dtype
from ndgrad._src.core.view import tangents_of
from ndgrad._src.tensor.printing import append_suffixes, format_array
from ndgrad.sparse.tensor import data_of, handles

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from ndgrad.sparse.tensor import SparseTensor


@handles("__repr__")
def text(self: SparseTensor) -> str:
    """
    >>> import ndgrad
    >>> ndgrad.sparse_coo_tensor([[0, 1]], [3.0, 4.0])
    tensor(indices=tensor([[0, 1]]),
           values=tensor([3., 4.]),
           size=(2,), nnz=2, layout=ndgrad.sparse_coo)
    """
    data = data_of(self)
    structure = data.structure
    if isinstance(structure, Compressed):
        pointers, others, *_ = NAMES[structure.layout]
        parts = [(pointers, structure.pointers), (others, structure.others)]
    else:
        parts = [("indices", structure.coordinates)]
    lines = [_part(name, array) for name, array in parts]
    # Inside transforms the values are a tensor, with its own text.
    lines.append(f"values={data.values!r}" if isinstance(data.values, Variable) else _part("values", data.values))
    count = structure.values_shape[len(getattr(structure, "batch", ()))]
    suffixes = [f"size={tuple(structure.shape)}", f"nnz={count}"]
    dtype = np_dtype(self)
    default = dtypes.get_default_dtype().numpy
    usual = (default, np.complex128 if default == np.float64 else np.complex64, np.dtype(np.int64), np.dtype(np.bool_))
    if dtype not in usual:
        suffixes.append(f"dtype={dtypes.as_dtype(dtype)!r}")
    suffixes.append(f"layout={self.layout!r}")
    if self._node is not None:
        suffixes.append(f"grad_fn=<{self._node.name()}>")
    elif self.requires_grad:
        suffixes.append("requires_grad=True")
    if self._meta is not None:
        suffixes += [f"tangent={tangent!r}" for _, tangent in sorted((tangents_of(self) or {}).items())]
    head = ",\n       ".join(lines)
    return append_suffixes(f"tensor({head}", suffixes, indent=7, force_newline=structure.layout == "sparse_coo")


def _part(name: str, array: NDArray[Any]) -> str:
    """Return indices or values as text, with their size if they are empty."""
    indent = len("tensor(") + len(name) + len("=tensor(")
    written = format_array(array, indent=indent)
    if 0 in array.shape:
        written += f", size={tuple(array.shape)}"
    return f"{name}=tensor({written})"
