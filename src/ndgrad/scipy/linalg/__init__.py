"""`scipy.linalg` with derivatives.

A function takes stacks of matrices if SciPy's does. The parts of a matrix that SciPy reads (one triangle, some bands)
have a gradient. As an exception, the argument of `cholesky` or `eigh` counts as a symmetric matrix, and its gradient is
symmetric. Eigenvectors and singular vectors have the signs of NumPy's LAPACK calls, which may differ from SciPy's.
"""

from __future__ import annotations

from ndgrad.scipy._without_rules import make_module_getattr, public_of
from ndgrad.scipy.linalg import equations, factors, functions, spectral, structured, systems
from ndgrad.scipy.linalg.equations import *  # noqa: F403
from ndgrad.scipy.linalg.factors import *  # noqa: F403
from ndgrad.scipy.linalg.functions import *  # noqa: F403
from ndgrad.scipy.linalg.spectral import *  # noqa: F403
from ndgrad.scipy.linalg.structured import *  # noqa: F403
from ndgrad.scipy.linalg.systems import *  # noqa: F403

_BASIS = "a function that does not depend on the choice of a basis (pinv, lstsq, polar, svdvals)"

__getattr__ = make_module_getattr(
    "linalg",
    {
        "null_space": _BASIS,
        "orth": _BASIS,
        "schur": "sqrtm, logm, expm, solve_sylvester or eigvals, which have derivatives of their own",
        "rsf2csf": "eig",
        "qz": "eig(a, b)",
        "ordqz": "eig(a, b)",
        "hessenberg": "eigvals",
        "ldl": "cholesky, or solve(assume_a='sym')",
        "rq": "qr of the matrix with rows reversed",
        "cossin": "svd of the blocks",
        "qr_delete": "qr of the smaller matrix",
        "qr_insert": "qr of the larger matrix",
        "qr_update": "qr of a + outer(u, v)",
        "cdf2rdf": "eig",
        "matrix_balance": "the function of the matrix itself",
        "expm_cond": "norm of jacobian of expm",
        "clarkson_woodruff_transform": "a product with a sparse matrix (ndgrad.scipy.sparse)",
    },
    decisions="bandwidth issymmetric ishermitian find_best_blas_type get_blas_funcs get_lapack_funcs",
)
__dir__ = public_of(__name__)

__all__ = [name for module in (equations, factors, functions, spectral, structured, systems) for name in module.__all__]
