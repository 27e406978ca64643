"""Functions defined as integrals: sine, Fresnel and Dawson integrals, Faddeeva's function, integrals of Bessel functions. The derivative
of each is its integrand, which is elementary or in the table already. Values come from SciPy."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

from ndgrad.ops.bessel_order import any_function, part_of
from ndgrad.ops.gamma import real_function
from ndgrad.ops.table import Op, elementwise

_TWO_OVER_ROOT_PI = 2 / math.sqrt(math.pi)
_ROOT_TWO_PI = math.sqrt(2 * math.pi)

# ----- trigonometric integrals ------------------------------------------------------------------------------

sine_integral = elementwise("sine_integral", part_of("sici", 0), x=lambda t, x, ops: t * ops.sinc(x * (1 / math.pi)), inplace=False)
cosine_integral = elementwise("cosine_integral", part_of("sici", 1), x=lambda t, x, ops: t * (ops.cos(x) / x), inplace=False)
hyperbolic_sine_integral = elementwise(
    "hyperbolic_sine_integral", part_of("shichi", 0), x=lambda t, x, ops: t * (ops.sinh(x) / x), inplace=False
)
hyperbolic_cosine_integral = elementwise(
    "hyperbolic_cosine_integral", part_of("shichi", 1), x=lambda t, x, ops: t * (ops.cosh(x) / x), inplace=False
)
fresnel_s = elementwise("fresnel_s", part_of("fresnel", 0), x=lambda t, x, ops: t * ops.sin(x * x * (math.pi / 2)), inplace=False)
fresnel_c = elementwise("fresnel_c", part_of("fresnel", 1), x=lambda t, x, ops: t * ops.cos(x * x * (math.pi / 2)), inplace=False)

# ----- the error function's kin ----------------------------------------------------------------------------------------------

dawsn = elementwise("dawsn", any_function("dawsn"), x=lambda t, x, out: t * (1.0 - x * out * 2.0), inplace=False)
erfi = elementwise("erfi", any_function("erfi"), x=lambda t, x, ops: t * (ops.exp(x * x) * _TWO_OVER_ROOT_PI), inplace=False)
wofz = elementwise("wofz", any_function("wofz"), x=lambda t, x, out: t * (x * out * -2.0 + 1j * _TWO_OVER_ROOT_PI), inplace=False)
erfcinv = elementwise(
    "erfcinv", real_function("erfcinv"), x=lambda t, out, ops: t * (ops.exp(out * out) * (-1 / _TWO_OVER_ROOT_PI)), inplace=False
)
# the quantile of a logarithm: log Phi(out) = x
ndtri_exp = elementwise(
    "ndtri_exp", real_function("ndtri_exp"), x=lambda t, x, out, ops: t * (ops.exp(x + out * out * 0.5) * _ROOT_TWO_PI), inplace=False
)

# ----- integrals of Bessel functions and their kin, from 0 (or to infinity) -------------------------------------------------------


def _integral(name: str, function: str, place: int | None, integrand: Callable[[Any, Any], Any]) -> Op:
    forward = real_function(function) if place is None else part_of(function, place)
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
integral_j0_over = _integral("integral_j0_over", "it2j0y0", 0, lambda x, ops: (1.0 - ops.bessel_j0(x)) / x)
integral_y0_over = _integral("integral_y0_over", "it2j0y0", 1, lambda x, ops: -ops.bessel_y0(x) / x)
integral_i0_over = _integral("integral_i0_over", "it2i0k0", 0, lambda x, ops: (ops.i0(x) - 1.0) / x)
integral_k0_over = _integral("integral_k0_over", "it2i0k0", 1, lambda x, ops: -ops.modified_bessel_k0(x) / x)
integral_struve0_over = _integral("integral_struve0_over", "it2struve0", None, lambda x, ops: -ops.struve(0, x) / x)
