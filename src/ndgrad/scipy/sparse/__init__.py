"""`scipy.sparse` with derivatives.

SciPy's own sparse matrices are constants: `A @ t` and `t @ A` with a tensor work directly. The arrays of this
module (`csr_array`, `csc_array`, `coo_array`) hold their entries in an Array that may carry derivatives.
"""

from __future__ import annotations

import importlib
from typing import Any

from ndgrad.scipy._without_rules import make_module_getattr, public_of
from ndgrad.scipy.sparse import construction
from ndgrad.scipy.sparse.arrays import (
    SparseArray,
    coo_array,
    coo_matrix,
    csc_array,
    csc_matrix,
    csr_array,
    csr_matrix,
)
from ndgrad.scipy.sparse.construction import *  # noqa: F403

_beyond = make_module_getattr(
    "sparse",
    {
        **dict.fromkeys(("bsr_array", "dia_array", "dok_array", "lil_array"), "csr_array, csc_array or coo_array"),
        **dict.fromkeys(
            ("bsr_matrix", "dia_matrix", "dok_matrix", "lil_matrix"),
            "csr_array, csc_array or coo_array",
        ),
        **dict.fromkeys(
            ("tril", "triu", "find", "kronsum", "swapaxes", "permute_dims", "expand_dims"),
            "csr_array of the entries that are wanted",
        ),
        "spdiags": "diags_array",
    },
    decisions=(
        "isspmatrix isspmatrix_bsr isspmatrix_coo isspmatrix_csc isspmatrix_csr isspmatrix_dia isspmatrix_dok "
        "isspmatrix_lil get_index_dtype"
    ),
)


def __getattr__(name: str) -> Any:
    if name == "linalg":
        return importlib.import_module("ndgrad.scipy.sparse.linalg")
    return _beyond(name)


__dir__ = public_of(__name__)
__all__ = [
    "SparseArray", "coo_array", "coo_matrix", "csc_array", "csc_matrix", "csr_array", "csr_matrix",
    *construction.__all__,
]  # fmt: skip
