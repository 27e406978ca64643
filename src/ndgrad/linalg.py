"""`ndgrad.linalg`: linear algebra, as torch.linalg.

Functions in torch's main namespace (`det`, `inverse`, an older form of `svd`) are in `ndgrad`, from
_src.tensor.functions.matrix.
"""

from __future__ import annotations

from ndgrad._src.foundations.missing_names import refuse_absent as _refuse_absent
from ndgrad._src.ops.matrix import LinAlgError
from ndgrad._src.tensor.functions.decomposition import (
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
from ndgrad._src.tensor.functions.ldl import ldl_factor, ldl_factor_ex, ldl_solve
from ndgrad._src.tensor.functions.linalg import (
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
from ndgrad._src.tensor.functions.norm import linalg_norm as norm
from ndgrad._src.tensor.functions.norm import matrix_norm, vector_norm
from ndgrad._src.tensor.functions.solve import (
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
from ndgrad._src.tensor.public import publish_namespace as _publish_namespace

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
