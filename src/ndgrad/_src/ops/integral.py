"""Functions defined as integrals: sine, Fresnel and Dawson integrals, Faddeeva's function, integrals of Bessel
functions.

The derivative of each is its integrand, which is elementary or already in the table. Values come from SciPy.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

import numpy

from ndgrad._src.ops.arithmetic import is_complex
from ndgrad._src.ops.bessel_order import any_function, nth_result
from ndgrad._src.ops.error_function import _special
from ndgrad._src.ops.gamma import real_function, run_on_host
from ndgrad._src.ops.table import Op, elementwise

if TYPE_CHECKING:
    from ndgrad._typing import Library, Payload, Vocabulary

_TWO_OVER_ROOT_PI = 2 / math.sqrt(math.pi)
_ROOT_TWO_PI = math.sqrt(2 * math.pi)

# ----- trigonometric integrals ------------------------------------------------------------------------------

sine_integral = elementwise(
    "sine_integral", nth_result("sici", 0), x=lambda t, x, ops: t * ops.sinc(x * (1 / math.pi)), inplace=False
)
cosine_integral = elementwise(
    "cosine_integral", nth_result("sici", 1), x=lambda t, x, ops: t * (ops.cos(x) / x), inplace=False
)


def _sinhc(x: Payload, ops: Vocabulary) -> Payload:
    """Return sinh(x) / x. Near 0 it is computed as exprel(2x) exp(-x), for real numbers."""
    if is_complex(x):
        return ops.sinc(x * (1j / math.pi))
    near = ops.abs(x) < 1.0
    small, far = ops.where(near, x, 0.0), ops.where(near, 1.0, x)
    return ops.where(near, ops.exprel(small * 2.0) * ops.exp(-small), ops.sinh(far) / far)


hyperbolic_sine_integral = elementwise(
    "hyperbolic_sine_integral", nth_result("shichi", 0), x=lambda t, x, ops: t * _sinhc(x, ops), inplace=False
)
hyperbolic_cosine_integral = elementwise(
    "hyperbolic_cosine_integral", nth_result("shichi", 1), x=lambda t, x, ops: t * (ops.cosh(x) / x), inplace=False
)
fresnel_s = elementwise(
    "fresnel_s", nth_result("fresnel", 0), x=lambda t, x, ops: t * ops.sin(x * x * (math.pi / 2)), inplace=False
)
fresnel_c = elementwise(
    "fresnel_c", nth_result("fresnel", 1), x=lambda t, x, ops: t * ops.cos(x * x * (math.pi / 2)), inplace=False
)

# ----- relatives of the error function --------------------------------------------------------------------------------


def _far_series(np: Library, z: Payload, order: int, step: Any) -> Payload:
    """Return the sum over k of c_k step^k with c_0 = 1 and c_(k+1) / c_k = (2k+n+1) (2k+n+2) / (k+1).

    For step = 1 / (4 z^2) the n-th derivative of the sum over k of (1/2)_k z^(-2k-1) is this times (-1)^n n! z^(-n-1).
    """
    series = np.ones_like(z)
    for k in range(24, -1, -1):
        series = series * step * ((2 * k + order + 1) * (2 * k + order + 2) / (k + 1)) + 1.0
    return series


def _faddeeva(np: Library, z: Payload, order: int, value: Payload, slope: complex, far: Any) -> Payload:
    r"""Return the n-th derivative of w(z) = exp(-z^2) erfc(-iz) or of Dawson's integral, from its value and w' + 2 z w
    = `slope`.

    Differentiating n - 1 more times gives w_n = -2z w_(n-1) - 2(n-1) w_(n-2). These differences lose their digits if
    |z| is large. There (`far`) w = slope / 2 sum_k (1/2)_k z^(-2k-1), term by term. From |z| = 8 on, the twenty-fifth
    term is below 1e-17.
    """
    if order == 0:
        return value
    near = np.where(far, 0.0, z)
    before, made = np.where(far, 0.0, value), -2.0 * near * np.where(far, 0.0, value) + slope
    for n in range(2, order + 1):
        before, made = made, -2.0 * near * made - 2.0 * (n - 1) * before
    inverse = 1.0 / np.where(far, z, 1.0)
    power = inverse
    for _ in range(order):
        power = power * inverse
    series = _far_series(np, inverse, order, inverse * inverse * 0.25)
    return np.where(far, (-1.0) ** order * math.factorial(order) * (slope * 0.5) * power * series, made)


_FAR = 8.0


def _dawsn(np: Library, x: Payload, *, order: int) -> Payload:
    value = _special(np, "dawsn")(x)
    far = np.abs(x.real) > _FAR if x.dtype.kind == "c" else np.abs(x) > _FAR
    if x.dtype.kind == "c":  # for complex x the other exponential is not small
        far = far & (np.abs(x.imag) < 1.0)
    return value if order == 0 else _faddeeva(np, x, order, value, 1.0, far).astype(value.dtype)


def _wofz(np: Library, x: Payload, *, order: int) -> Payload:
    value = _special(np, "wofz")(x)
    if order == 0:
        return value
    z = x.astype(value.dtype)
    return _faddeeva(np, z, order, value, 1j * _TWO_OVER_ROOT_PI, (np.abs(z) > _FAR) & (z.imag >= 0)).astype(
        value.dtype
    )


dawsn = elementwise(
    "dawsn", _dawsn, settings={"order": 0}, x=lambda t, x, order, ops: t * ops.dawsn(x, order=order + 1), inplace=False
)
erfi = elementwise(
    "erfi", any_function("erfi"), x=lambda t, x, ops: t * (ops.exp(x * x) * _TWO_OVER_ROOT_PI), inplace=False
)
wofz = elementwise(
    "wofz", _wofz, settings={"order": 0}, x=lambda t, x, order, ops: t * ops.wofz(x, order=order + 1), inplace=False
)


def _voigt(np: Library, x: Payload, sigma: Any, gamma: Any, *, order: int, imaginary: bool) -> Payload:
    r"""Return the real (or imaginary) part of the n-th derivative of F(zeta) = w(zeta / (sigma sqrt 2)) / (sigma sqrt(2
    pi)).

    Here zeta = x + i gamma. The real part is the convolution of a normal density with Cauchy's. For large |z| the
    series above is one in sigma^2 / zeta^2. It also holds for sigma = 0: F = i / (pi zeta), Cauchy's density alone.
    """
    x, sigma, gamma = np.broadcast_arrays(*(np.asarray(v, np.float64) for v in (x, sigma, gamma)))
    zeta = x + 1j * gamma
    root = sigma * math.sqrt(2)
    far = (np.abs(zeta) > _FAR * root) & (gamma >= 0)
    width, place = np.where(far, 1.0, root), np.where(far, 1.0, zeta)
    z = place / width
    near = _faddeeva(np, z, order, _special(np, "wofz")(z), 1j * _TWO_OVER_ROOT_PI, (np.abs(z) > _FAR) & (z.imag >= 0))
    near = near / (width ** (order + 1) * math.sqrt(math.pi))
    inverse = 1.0 / np.where(far, zeta, 1.0)
    power = inverse
    for _ in range(order):
        power = power * inverse
    series = _far_series(np, inverse, order, inverse * inverse * (root * root * 0.25))
    made = np.where(far, (-1.0) ** order * math.factorial(order) * (1j / math.pi) * power * series, near)
    return (made.imag if imaginary else made.real).copy()  # a copy does not keep the other part's memory alive


def _voigt_forward(np: Library, x: Payload, width: Any, y: Payload, *, order: int, imaginary: bool) -> Payload:
    if order == 0 and not imaginary:
        return _special(np, "voigt_profile")(x, width, y)
    return run_on_host(np, "voigt_profile", lambda *v: _voigt(numpy, *v, order=order, imaginary=imaginary), x, width, y)


# `width` is sigma of the normal density, y is gamma of Cauchy's. In sigma the profile satisfies the heat equation,
# dF/dsigma = sigma F'', and F is a function of x + i gamma.
voigt_profile = elementwise(
    "voigt_profile", _voigt_forward, args="x width y", settings={"order": 0, "imaginary": False},
    x=lambda t, x, width, y, order, imaginary, ops: t * ops.voigt_profile(x, width, y, order=order + 1,
        imaginary=imaginary),
    width=lambda t, x, width, y, order, imaginary, ops: t * (ops.voigt_profile(x, width, y, order=order + 2,
            imaginary=imaginary) * width),
    y=lambda t, x, width, y, order, imaginary, ops: (
        t * (ops.voigt_profile(x, width, y, order=order + 1, imaginary=not imaginary) * (1.0 if imaginary else -1.0))
    ),
    inplace=False, memory_order="C",
)  # fmt: skip
erfcinv = elementwise(
    "erfcinv",
    real_function("erfcinv"),
    x=lambda t, out, ops: t * (ops.exp(out * out) * (-1 / _TWO_OVER_ROOT_PI)),
    inplace=False,
)
# The quantile of a logarithm: log Phi(out) = x.
ndtri_exp = elementwise(
    "ndtri_exp",
    real_function("ndtri_exp"),
    x=lambda t, x, out, ops: t * (ops.exp(x + out * out * 0.5) * _ROOT_TWO_PI),
    inplace=False,
)

# ----- integrals of Bessel functions and related functions, from 0 (or to infinity) -----------------------------------


def _integral(name: str, function: str, place: int | None, integrand: Callable[[Any, Any], Any]) -> Op:
    forward = real_function(function) if place is None else nth_result(function, place)
    return elementwise(name, forward, x=lambda t, x, ops: t * integrand(x, ops), inplace=False)


integral_j0 = _integral("integral_j0", "itj0y0", 0, lambda x, ops: ops.bessel_j0(x))
integral_y0 = _integral("integral_y0", "itj0y0", 1, lambda x, ops: ops.bessel_y0(x))
integral_i0 = _integral("integral_i0", "iti0k0", 0, lambda x, ops: ops.i0(x))
integral_k0 = _integral("integral_k0", "iti0k0", 1, lambda x, ops: ops.modified_bessel_k0(x))
integral_ai = _integral("integral_ai", "itairy", 0, lambda x, ops: ops.airy_ai(x))
integral_bi = _integral("integral_bi", "itairy", 1, lambda x, ops: ops.airy_bi(x))
integral_ai_minus = _integral("integral_ai_minus", "itairy", 2, lambda x, ops: ops.airy_ai(-x))
integral_bi_minus = _integral("integral_bi_minus", "itairy", 3, lambda x, ops: ops.airy_bi(-x))
integral_struve0 = _integral("integral_struve0", "itstruve0", None, lambda x, ops: ops.struve(0, x))
integral_modstruve0 = _integral("integral_modstruve0", "itmodstruve0", None, lambda x, ops: ops.modstruve(0, x))


def _expand_near_0(
    x: Payload, ops: Vocabulary, term: Callable[[int], float], otherwise: Callable[[Any], Any]
) -> Payload:
    """Return the sum over k of term(k) (x^2 / 4)^k up to |x| = 1, where the integrand's quotient would cancel."""
    near = ops.abs(x) < 1.0
    small = ops.where(near, x, 0.0)
    step = small * small * 0.25
    series = step * 0.0
    for k in range(11, -1, -1):
        series = series * step + term(k)
    return ops.where(near, series, otherwise(ops.where(near, 1.0, x)))


def _quotient(x: Payload, ops: Vocabulary, sign: int, otherwise: Callable[[Any], Any]) -> Payload:
    """Return (1 - J_0(x)) / x for sign -1 or (I_0(x) - 1) / x for sign 1: x/4 sum over k of (sign x^2/4)^k /
    (k+1)!^2.
    """
    near = ops.abs(x) < 1.0
    made = _expand_near_0(x, ops, lambda k: sign**k / math.factorial(k + 1) ** 2, lambda far: otherwise(far) * 4.0)
    return made * 0.25 * ops.where(near, x, 1.0)


integral_j0_over = _integral(
    "integral_j0_over", "it2j0y0", 0, lambda x, ops: _quotient(x, ops, -1, lambda far: (1.0 - ops.bessel_j0(far)) / far)
)
integral_y0_over = _integral("integral_y0_over", "it2j0y0", 1, lambda x, ops: -ops.bessel_y0(x) / x)
integral_i0_over = _integral(
    "integral_i0_over", "it2i0k0", 0, lambda x, ops: _quotient(x, ops, 1, lambda far: (ops.i0(far) - 1.0) / far)
)
integral_k0_over = _integral("integral_k0_over", "it2i0k0", 1, lambda x, ops: -ops.modified_bessel_k0(x) / x)
integral_struve0_over = _integral(
    "integral_struve0_over", "it2struve0", None,
    lambda x, ops: -_expand_near_0(x, ops, lambda k: 0.5 * (-1) ** k / math.gamma(k + 1.5) ** 2,
        lambda far: ops.struve(0, far) / far),
)  # fmt: skip
