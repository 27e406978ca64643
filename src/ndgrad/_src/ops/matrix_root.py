"""The square root and the logarithm of a matrix, and the unitary factor of its polar decomposition.

Unlike eigenvectors these are smooth functions of the matrix wherever they are defined, also at equal eigenvalues. So
their rules use no eigenvectors: roots and polar factors lead to Sylvester's equation, the logarithm to a logarithm of
twice the size.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from ndgrad._src.arrays import matrix_equations
from ndgrad._src.arrays.host_fallback import wrap_for_host
from ndgrad._src.ops.matrix import adjoint, call_linalg, hermitian
from ndgrad._src.ops.matrix_function import derivative_by_blocks
from ndgrad._src.ops.table import op

if TYPE_CHECKING:
    from ndgrad._typing import Library, Payload, Vocabulary

# ----- square root: out out = x ---------------------------------------------------------------------------------------

# d(out) out + out d(out) = dx. A real matrix with a negative eigenvalue has a complex root.
matrix_sqrt = op(
    "matrix_sqrt", "x",
    lambda np, x: wrap_for_host(np, matrix_equations.square_root, "sqrtm")(x),
    vjp={"x": lambda g, out, ops: ops.sylvester(adjoint(out, ops), adjoint(out, ops), g)},
    jvp={"x": lambda t, out, ops: ops.sylvester(out, out, t)},
    batch="leading",
    may_raise=True, core_dims=[2],
)  # fmt: skip

# ----- logarithm ------------------------------------------------------------------------------------------------------

# See Note [Derivative of the matrix exponential]: the same block matrix serves every function of matrices.
matrix_log = op(
    "matrix_log", "x",
    lambda np, x: wrap_for_host(np, matrix_equations.logarithm, "logm")(x),
    vjp={"x": lambda g, x, ops: derivative_by_blocks(ops.matrix_log, adjoint(x, ops), g, ops)},
    jvp={"x": lambda t, x, ops: derivative_by_blocks(ops.matrix_log, x, t, ops)},
    batch="leading",
    may_raise=True, core_dims=[2],
)  # fmt: skip


# ----- polar decomposition: x = u p, u^H u = 1, p = u^H x positive ----------------------------------------------------

# u^H du = o is skew, and o p + p o = u^H dx - dx^H u; outside the columns of u, du = (1 - u u^H) dx p^-1. The map from
# the right side to o is its own adjoint, because p is Hermitian. With more columns than rows, x stands for its adjoint
# here and in the rules.


def _polar_unitary(np: Library, x: Payload) -> Payload:
    remedy = "Check the matrix for NaN and infinities."
    u, _, vh = call_linalg(np.linalg.svd, "polar: the singular values did not converge", remedy, x, full_matrices=False)
    return np.matmul(u, vh)


def _tall(x: Payload, out: Payload, along: Any, ops: Vocabulary) -> tuple[Any, Any, Any, bool]:
    if x.shape[-2] >= x.shape[-1]:
        return x, out, along, False
    return adjoint(x, ops), adjoint(out, ops), adjoint(along, ops), True


def _polar_vjp(g: Payload, x: Payload, out: Payload, ops: Vocabulary) -> Payload:
    x, u, g, turned = _tall(x, out, g, ops)
    uh = adjoint(u, ops)
    p = hermitian(ops.matmul(uh, x), ops)
    inside = ops.matmul(uh, g)
    o = ops.sylvester(p, p, inside)
    found = ops.matmul(u, o - adjoint(o, ops))
    if u.shape[-2] > u.shape[-1]:
        outside = g - ops.matmul(u, inside)
        found = found + adjoint(ops.solve(p, adjoint(outside, ops)), ops)
    return adjoint(found, ops) if turned else found


def _polar_jvp(t: Payload, x: Payload, out: Payload, ops: Vocabulary) -> Payload:
    x, u, t, turned = _tall(x, out, t, ops)
    uh = adjoint(u, ops)
    p = hermitian(ops.matmul(uh, x), ops)
    inside = ops.matmul(uh, t)
    moved = ops.matmul(u, ops.sylvester(p, p, inside - adjoint(inside, ops)))
    if u.shape[-2] > u.shape[-1]:
        outside = t - ops.matmul(u, inside)
        moved = moved + adjoint(ops.solve(p, adjoint(outside, ops)), ops)
    return adjoint(moved, ops) if turned else moved


polar_unitary = op(
    "polar_unitary", "x",
    _polar_unitary,
    vjp={"x": _polar_vjp},
    jvp={"x": _polar_jvp},
    batch="leading",
    may_raise=True, core_dims=[2],
)  # fmt: skip
