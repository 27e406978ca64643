"""Hypergeometric functions, elliptic integrals and functions, Lambert's W, Wright's omega, orthogonal polynomials.

A derivative of a hypergeometric function shifts its parameters by one, so it is smooth wherever the function is smooth.
The usual formulas for elliptic integrals are 0/0 at m = 0. There are no rules for derivatives in parameters. Values
come from SciPy.
"""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Any

from ndgrad._src.ops.bessel_order import any_function, nth_result
from ndgrad._src.ops.gamma import no_derivative, real_function
from ndgrad._src.ops.table import elementwise

if TYPE_CHECKING:
    from ndgrad._typing import Library, Payload

# ----- hypergeometric functions ---------------------------------------------------------------------------------------

hyp2f1 = elementwise(
    "hyp2f1", any_function("hyp2f1"), args="a b c_ z",
    a=lambda t: no_derivative("hyp2f1", "a"), b=lambda t: no_derivative("hyp2f1", "b"),
    c_=lambda t: no_derivative("hyp2f1", "c"),
    z=lambda t, a, b, c_, z, ops: t * (ops.hyp2f1(a + 1, b + 1, c_ + 1, z) * (a * b / c_)),
    inplace=False,
)  # fmt: skip

hyp0f1 = elementwise(
    "hyp0f1", any_function("hyp0f1"), args="v z",
    v=lambda t: no_derivative("hyp0f1", "v"),
    z=lambda t, v, z, ops: t * (ops.hyp0f1(v + 1, z) / v),
    inplace=False,
)  # fmt: skip

hyperu = elementwise(
    "hyperu", real_function("hyperu"), args="a b x",
    a=lambda t: no_derivative("hyperu", "a"), b=lambda t: no_derivative("hyperu", "b"),
    x=lambda t, a, b, x, ops: t * (ops.hyperu(a + 1, b + 1, x) * -a),
    inplace=False,
)  # fmt: skip

# ----- elliptic integrals of the parameter m = k^2 --------------------------------------------------------------------

# E = pi/2 F(-1/2, 1/2; 1; m)
ellipe = elementwise(
    "ellipe",
    real_function("ellipe"),
    m=lambda t, m, ops: t * (ops.hyp2f1(0.5, 1.5, 2.0, m) * (-math.pi / 8)),
    args="m",
    inplace=False,
)

ellipkinc = elementwise(
    "ellipkinc", any_function("ellipkinc"), args="phi m",
    phi=lambda t, phi, m, ops: t / ops.sqrt(1.0 - m * ops.square(ops.sin(phi))),
    m=lambda t: no_derivative("ellipkinc", "m"),
    inplace=False,
)  # fmt: skip

ellipeinc = elementwise(
    "ellipeinc", any_function("ellipeinc"), args="phi m",
    phi=lambda t, phi, m, ops: t * ops.sqrt(1.0 - m * ops.square(ops.sin(phi))),
    m=lambda t: no_derivative("ellipeinc", "m"),
    inplace=False,
)  # fmt: skip

# ----- Jacobi's elliptic functions ------------------------------------------------------------------------------------


def _jacobi(name: str, place: int, slope: Any) -> Any:
    return elementwise(
        name, nth_result("ellipj", place), args="x m",
        x=slope,
        m=lambda t: no_derivative("ellipj", "m"),
        inplace=False,
    )  # fmt: skip


jacobi_sn = _jacobi("jacobi_sn", 0, lambda t, x, m, ops: t * (ops.jacobi_cn(x, m) * ops.jacobi_dn(x, m)))
jacobi_cn = _jacobi("jacobi_cn", 1, lambda t, x, m, ops: t * -(ops.jacobi_sn(x, m) * ops.jacobi_dn(x, m)))
jacobi_dn = _jacobi("jacobi_dn", 2, lambda t, x, m, ops: t * -(ops.jacobi_sn(x, m) * ops.jacobi_cn(x, m) * m))
jacobi_am = _jacobi("jacobi_am", 3, lambda t, x, m, ops: t * ops.jacobi_dn(x, m))

# ----- Lambert and Wright ---------------------------------------------------------------------------------------------

# Derivative: w e^w = z, so dw = e^-w / (1 + w) dz, at z = 0 too.
lambertw = elementwise(
    "lambertw", lambda np, z, *, k, tol: _lambertw(np, z, k, tol), args="z", settings={"k": 0, "tol": 1e-8},
    z=lambda t, out, ops: t * (ops.exp(-out) / (out + 1.0)),
    inplace=False,
)  # fmt: skip


def _lambertw(np: Library, z: Payload, k: int, tol: float) -> Payload:
    return any_function("lambertw")(np, z, k, tol)


# Definition: w + log(w) = z.
wrightomega = elementwise(
    "wrightomega", any_function("wrightomega"), args="z", z=lambda t, out: t * (out / (out + 1.0)), inplace=False
)

# ----- orthogonal polynomials of degree k -----------------------------------------------------------------------------

# The degree need not be an integer. The functions are then hypergeometric, and their derivatives continue below degree
# 0. The derivatives of a polynomial end there.


def _has_lower_degree(k: Any) -> Any:
    """True if the derivative is that of the degree below. It is zero for integer degrees up to 0."""
    return (k > 0) | (k % 1 != 0)


def _lower(k: Any) -> Any:
    """Return the degree below, or 0 if there is none; its factor is then 0."""
    return (k - 1) * _has_lower_degree(k)


jacobi_polynomial = elementwise(
    "jacobi_polynomial", real_function("eval_jacobi"), args="k a b x",
    k=lambda t: no_derivative("eval_jacobi", "n"), a=lambda t: no_derivative("eval_jacobi", "alpha"),
    b=lambda t: no_derivative("eval_jacobi", "beta"),
    x=lambda t, k, a, b, x, ops: t * (ops.jacobi_polynomial(_lower(k), a + 1, b + 1,
            x) * ((k + a + b + 1) * 0.5 * _has_lower_degree(k))),
    inplace=False,
)  # fmt: skip

gegenbauer_polynomial = elementwise(
    "gegenbauer_polynomial", real_function("eval_gegenbauer"), args="k a x",
    k=lambda t: no_derivative("eval_gegenbauer", "n"), a=lambda t: no_derivative("eval_gegenbauer", "alpha"),
    x=lambda t, k, a, x, ops: t * (ops.gegenbauer_polynomial(_lower(k), a + 1, x) * (a * 2.0 * _has_lower_degree(k))),
    inplace=False,
)  # fmt: skip

# Chebyshev polynomials of the first kind, cos(k arccos(x)), for k >= 0.
chebyshev_polynomial = elementwise(
    "chebyshev_polynomial", real_function("eval_chebyt"), args="k x",
    k=lambda t: no_derivative("eval_chebyt", "n"),
    x=lambda t, k, x, ops: t * (ops.gegenbauer_polynomial(_lower(k), 1, x) * (k * 1.0)),
    inplace=False,
)  # fmt: skip

laguerre_polynomial = elementwise(
    "laguerre_polynomial", real_function("eval_genlaguerre"), args="k a x",
    k=lambda t: no_derivative("eval_genlaguerre", "n"), a=lambda t: no_derivative("eval_genlaguerre", "alpha"),
    x=lambda t, k, a, x, ops: t * (ops.laguerre_polynomial(_lower(k), a + 1, x) * (-1.0 * _has_lower_degree(k))),
    inplace=False,
)  # fmt: skip

# SciPy's Hermite polynomials have integer degree, and are NaN below 0.
hermite_polynomial = elementwise(
    "hermite_polynomial", real_function("eval_hermite"), args="k x",
    k=lambda t: no_derivative("eval_hermite", "n"),
    x=lambda t, k, x, ops: t * (ops.hermite_polynomial(k - (k > 0), x) * (k * 2.0)),
    inplace=False,
)  # fmt: skip

hermite_e_polynomial = elementwise(
    "hermite_e_polynomial", real_function("eval_hermitenorm"), args="k x",
    k=lambda t: no_derivative("eval_hermitenorm", "n"),
    x=lambda t, k, x, ops: t * (ops.hermite_e_polynomial(k - (k > 0), x) * (k * 1.0)),
    inplace=False,
)  # fmt: skip
