"""`ndgrad.linalg`: linear algebra, as torch.linalg.

What torch keeps beside it (`det`, `inverse`, an older form of `svd`) is in `ndgrad`, from ndgrad.api.matrix.
"""

from __future__ import annotations

from ndgrad.absent import refuse_absent as _refuse_absent
from ndgrad.api.decomposition import (
    cholesky,
    cholesky_ex,
    eig,
    eigh,
    eigvals,
    eigvalsh,
    householder_product,
    lu,
    lu_factor,
    lu_factor_ex,
    lu_solve,
    qr,
    svd,
    svdvals,
)
from ndgrad.api.ldl import ldl_factor, ldl_factor_ex, ldl_solve
from ndgrad.api.linalg import (
    cond,
    cross,
    det,
    diagonal,
    matmul,
    matrix_exp,
    matrix_power,
    matrix_rank,
    multi_dot,
    slogdet,
    vander,
    vecdot,
)
from ndgrad.api.norm import linalg_norm as norm
from ndgrad.api.norm import matrix_norm, vector_norm
from ndgrad.api.public import publish_namespace as _publish_namespace
from ndgrad.api.solve import (
    inv,
    inv_ex,
    lstsq,
    pinv,
    solve,
    solve_ex,
    solve_triangular,
    tensorinv,
    tensorsolve,
)
from ndgrad.ops.matrix import LinAlgError

__all__ = [
    "LinAlgError",
    "cholesky",
    "cholesky_ex",
    "cond",
    "cross",
    "det",
    "diagonal",
    "eig",
    "eigh",
    "eigvals",
    "eigvalsh",
    "householder_product",
    "inv",
    "inv_ex",
    "ldl_factor",
    "ldl_factor_ex",
    "ldl_solve",
    "lstsq",
    "lu",
    "lu_factor",
    "lu_factor_ex",
    "lu_solve",
    "matmul",
    "matrix_exp",
    "matrix_norm",
    "matrix_power",
    "matrix_rank",
    "multi_dot",
    "norm",
    "pinv",
    "qr",
    "slogdet",
    "solve",
    "solve_ex",
    "solve_triangular",
    "svd",
    "svdvals",
    "tensorinv",
    "tensorsolve",
    "vander",
    "vecdot",
    "vector_norm",
]

_publish_namespace(globals())

_refuse_absent(__name__)
