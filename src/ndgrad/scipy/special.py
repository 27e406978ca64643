"""`scipy.special` with derivatives.

This module has the functions of `ndgrad.array_api.special`, which SciPy's array API mode uses, and those that SciPy
computes only in C. Orders, degrees and parameters of hypergeometric functions have no derivative; requesting one raises
an error.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from inspect import Parameter, Signature, signature
from typing import TYPE_CHECKING, Any, Protocol, TypeVar

import numpy

import ndgrad.numpy as np
from ndgrad._src.core.variable import np_dtype
from ndgrad._src.ops import bessel_order, hypergeometric, integral
from ndgrad._src.ops.vocabulary import tensor_ops as S
from ndgrad.array_api import special as standard
from ndgrad.array_api.special import *  # noqa: F403
from ndgrad.numpy.coercion import as_array, deliver, inexact, many_axes, operands
from ndgrad.scipy._without_rules import make_module_getattr, public_of

if TYPE_CHECKING:
    from ndgrad._src.ops.table import Op
    from ndgrad._typing import Array, ArrayLike, Out

F = TypeVar("F", bound=Callable[..., Any])

# ----- ops of the table, as ufuncs ------------------------------------------------------------------------------------


def _arguments(values: tuple[Any, ...]) -> list[Array]:
    """Return floating-point Arrays of one dtype; integers next to floats stay unchanged (orders, degrees)."""
    found = [as_array(v) for v in values]
    if all(np_dtype(t).kind in "biu" for t in found):
        return [inexact(t) for t in found]
    return found


def _ufunc(
    name: str, parameters: str, compute: Callable[..., Any], sentence: str, arguments: str, result: str,
) -> Callable[..., Array]:  # fmt: skip
    """Return a function of Arrays under SciPy's name, with its docstring: a description, and the arguments and the
    result of its example.
    """
    names = parameters.split(", ")

    def function(*args: ArrayLike, out: Out = None) -> Array:
        if len(args) != len(names):
            raise TypeError(f"{name}() takes {len(names)} arguments, but got {len(args)}. [nd-arguments]")
        return deliver(name, compute(*_arguments(args)), out)

    return _describe(
        function, name, [*(Parameter(n, Parameter.POSITIONAL_ONLY) for n in names), _OUT], sentence, arguments, result
    )


_OUT = Parameter("out", Parameter.KEYWORD_ONLY, default=None)


#: Descriptions of parameters by their names. The name of a function comes first if its parameter means something else.
_MEANINGS = {
    "x": "argument.",
    "z": "argument.",
    "u": "argument.",
    "y": "function value to invert.",
    "a": "first parameter.",
    "b": "second parameter.",
    "c": "third parameter.",
    "m": "parameter, the square of the modulus.",
    "n": "degree. It has no derivative.",
    "p": "probability.",
    "v": "order. It has no derivative.",
    "alpha": "first parameter of the polynomial.",
    "beta": "second parameter of the polynomial.",
    "phi": "amplitude in radians.",
    "derivative": "whether to return the derivative in z.",
    "out": "array that receives the result.",
    "agm.a": "first number.",
    "agm.b": "second number.",
    "erfcinv.y": "value of the complementary error function, from 0 to 2.",
    "gdtria.b": "shape of the gamma distribution.",
    "gdtria.x": "quantile.",
    "gdtrix.a": "rate of the gamma distribution.",
    "gdtrix.b": "shape of the gamma distribution.",
    "hyp0f1.v": "parameter.",
    "jn.n": "order. It has no derivative.",
    "kn.n": "order. It has no derivative.",
    "ndtri_exp.y": "logarithm of a probability.",
    "pbwa.a": "parameter.",
    "powm1.x": "base.",
    "powm1.y": "exponent.",
    "voigt_profile.sigma": "standard deviation of the normal variable.",
    "voigt_profile.gamma": "half width of the Cauchy variable.",
    **{f"spherical_{kind}.n": "order, a whole number from 0 on." for kind in ("jn", "yn", "in", "kn")},
    **{f"{name}.n": "order of the derivative." for name in ("jvp", "yvp", "ivp", "kvp", "h1vp", "h2vp")},
}


def _describe(function: F, name: str, parameters: list[Parameter], sentence: str, arguments: str, result: str) -> F:
    function.__name__ = function.__qualname__ = name
    function.__signature__ = Signature(parameters)  # type: ignore[attr-defined]  # functions take attributes
    meanings = {p.name: _MEANINGS.get(f"{name}.{p.name}") or _MEANINGS[p.name] for p in parameters}
    described = "".join(f"    {parameter}: {meaning}\n" for parameter, meaning in meanings.items())
    example = f">>> from ndgrad.scipy import special\n>>> special.{name}({arguments})\n{result}\n"
    function.__doc__ = f"{sentence}\n\nArgs:\n{described}\n{example}"
    return function


def _several(
    name: str, parameters: str, sentence: str, arguments: str, result: str, *ops: Callable[..., Array]
) -> Callable[..., tuple[Array, ...]]:
    """Same as `_ufunc`, for a function with several results."""
    names = parameters.split(", ")

    def function(*args: ArrayLike) -> tuple[Array, ...]:
        if len(args) != len(names):
            raise TypeError(f"{name}() takes {len(names)} arguments, but got {len(args)}. [nd-arguments]")
        given = _arguments(args)
        return tuple(op(*given) for op in ops)

    return _describe(
        function, name, [Parameter(n, Parameter.POSITIONAL_ONLY) for n in names], sentence, arguments, result
    )


def _log_expit(x: Array) -> Array:
    """Return log(1 / (1 + exp(-x))), on each side of 0 by the exponential that is small there: derivatives of every
    order keep their digits.
    """
    below = x < 0
    return np.where(below, x, 0.0) - np.log1p(np.exp(np.where(below, x, -x)))


def _beta(a: Array, b: Array) -> Array:
    """Return the beta function: by its logarithm if gamma would overflow, else as a quotient. The quotient holds below
    0 and where a + b is a pole of gamma.
    """
    positive = (a > 0) & (b > 0)
    quotient = [np.where(positive, 1.0, v) for v in (a, b)]
    other = S.gamma_function(quotient[0]) * S.gamma_function(quotient[1]) * S.rgamma(quotient[0] + quotient[1])
    return np.where(positive, np.exp(S.betaln(*(np.where(positive, v, 1.0) for v in (a, b)))), other)


def _agm(a: Array, b: Array) -> Array:
    """Return pi/4 (a + b) / K(m), m = ((a - b) / (a + b))^2, whose complement is 4ab / (a + b)^2."""
    total = a + b
    return total * (math.pi / 4) / S.ellipkm1(4.0 * a * b / (total * total))


# Degrees below 0 are mirrored, as SciPy does for integers: the same functions solve the same equations there.


def _legendre(n: Array, x: Array) -> Array:
    return hypergeometric.jacobi_polynomial(np.where(n < -0.5, -n - 1, n), 0, 0, x)


def _chebyt(n: Array, x: Array) -> Array:
    """Return cos(n arccos x)."""
    return hypergeometric.chebyshev_polynomial(abs(n), x)


def _chebyu(n: Array, x: Array) -> Array:
    """Return sin((n + 1) arccos x) / sin(arccos x)."""
    below = n < -1
    return np.where(below, -1.0, 1.0) * hypergeometric.gegenbauer_polynomial(np.where(below, -n - 2, n), 1, x)


def _real_only(name: str, op: Op) -> Callable[..., Any]:
    """Wrap an op scaled by exp(-|Im z|), which is 1 on the real line and not holomorphic off it."""

    def compute(v: Array, z: Array) -> Array:
        if np_dtype(z).kind == "c":
            raise NotImplementedError(
                f"{name}() has a derivative for real arguments only. Use {op.name}() and scale it. [nd-complex]"
            )
        return op(v, z)

    return compute


log_expit = _ufunc(
    "log_expit", "x", _log_expit, "The logarithm of the logistic function, -log(1 + exp(-x)).", "0.0",
    "array(-0.69314718)",
)  # fmt: skip
expm1 = _ufunc("expm1", "x", S.expm1, "exp(x) - 1, exact for small x.", "1e-5", "array(1.000005e-05)")
log1p = _ufunc("log1p", "x", S.log1p, "log(1 + x), exact for small x.", "1e-5", "array(9.99995e-06)")
powm1 = _ufunc("powm1", "x, y", S.powm1, "x^y - 1, exact where the power is near 1.", "2.0, 3.0", "array(7.)")
beta = _ufunc(
    "beta", "a, b", _beta, "The beta function, gamma(a) gamma(b) / gamma(a + b).", "2.0, 3.0", "array(0.08333333)",
)  # fmt: skip
agm = _ufunc("agm", "a, b", _agm, "The arithmetic-geometric mean of a and b.", "1.0, 4.0", "array(2.24302858)")

# Errors and integrals.
dawsn = _ufunc(
    "dawsn", "x", integral.dawsn, "Dawson's integral, sqrt(pi)/2 exp(-x^2) erfi(x).", "1.0", "array(0.53807951)",
)  # fmt: skip
erfi = _ufunc("erfi", "z", integral.erfi, "The imaginary error function, -i erf(iz).", "1.0", "array(1.65042576)")
erfcinv = _ufunc(
    "erfcinv", "y", integral.erfcinv, "The x whose complementary error function is y.", "0.5", "array(0.47693628)",
)  # fmt: skip
wofz = _ufunc(
    "wofz", "z", integral.wofz, "Faddeeva's function exp(-z^2) erfc(-iz), complex.", "1.0",
    "array(0.36787944+0.60715771j)",
)  # fmt: skip
ndtri_exp = _ufunc(
    "ndtri_exp", "y", integral.ndtri_exp, "The x for which log_ndtr(x) is y.", "-1.0", "array(-0.33747496)",
)  # fmt: skip
voigt_profile = _ufunc(
    "voigt_profile", "x, sigma, gamma", integral.voigt_profile, "The density of a normal variable plus a Cauchy one.",
    "1.0, 1.0, 0.5", "array(0.20017964)",
)  # fmt: skip
itstruve0 = _ufunc(
    "itstruve0", "x", integral.integral_struve0, "The integral of Struve's function H_0 from 0 to x.", "1.0",
    "array(0.30109043)",
)  # fmt: skip
itmodstruve0 = _ufunc(
    "itmodstruve0", "x", integral.integral_modstruve0, "The integral of the modified Struve function L_0 from 0 to x.",
    "1.0", "array(0.33647263)",
)  # fmt: skip
it2struve0 = _ufunc(
    "it2struve0", "x", integral.integral_struve0_over, "The integral of H_0(t) / t from x to infinity.", "1.0",
    "array(0.95719735)",
)  # fmt: skip
gdtria = _ufunc(
    "gdtria", "p, b, x", lambda p, b, x: S.igamma_inverse(b, p) / x, "The a for which gdtr(a, b, x) is p.",
    "0.5, 1.0, 2.0", "array(0.34657359)",
)  # fmt: skip
gdtrix = _ufunc(
    "gdtrix", "a, b, p", lambda a, b, p: S.igamma_inverse(b, p) / a, "The x for which gdtr(a, b, x) is p.",
    "1.0, 1.0, 0.5", "array(0.69314718)",
)  # fmt: skip

# Elliptic and hypergeometric functions.
ellipe = _ufunc(
    "ellipe", "m", hypergeometric.ellipe, "The complete elliptic integral of the second kind, of the parameter m.",
    "0.5", "array(1.35064388)",
)  # fmt: skip
ellipkinc = _ufunc(
    "ellipkinc", "phi, m", hypergeometric.ellipkinc, "The incomplete elliptic integral of the first kind.", "1.0, 0.5",
    "array(1.08321677)",
)  # fmt: skip
ellipeinc = _ufunc(
    "ellipeinc", "phi, m", hypergeometric.ellipeinc, "The incomplete elliptic integral of the second kind.",
    "1.0, 0.5", "array(0.92732988)",
)  # fmt: skip
wrightomega = _ufunc(
    "wrightomega", "z", hypergeometric.wrightomega, "Wright's omega, the w with w + log(w) = z.", "1.0", "array(1.)",
)  # fmt: skip
hyp0f1 = _ufunc(
    "hyp0f1", "v, z", hypergeometric.hyp0f1, "The confluent hypergeometric limit function 0F1.", "2.0, 1.0",
    "array(1.59063685)",
)  # fmt: skip
hyp2f1 = _ufunc(
    "hyp2f1", "a, b, c, z", hypergeometric.hyp2f1, "Gauss's hypergeometric function 2F1.", "1.0, 1.0, 2.0, 0.5",
    "array(1.38629436)",
)  # fmt: skip
hyperu = _ufunc(
    "hyperu", "a, b, x", hypergeometric.hyperu, "The confluent hypergeometric function U.", "1.0, 2.0, 4.0",
    "array(0.25)",
)  # fmt: skip

# Bessel functions and their relatives; orders have no derivative.
jv = _ufunc(
    "jv", "v, z", bessel_order.jv, "The Bessel function of the first kind of order v.", "1, 2.0", "array(0.57672481)",
)  # fmt: skip
jn = _ufunc(
    "jn", "n, x", bessel_order.jv, "The Bessel function of the first kind, jv by its older name.", "1, 2.0",
    "array(0.57672481)",
)  # fmt: skip
yv = _ufunc(
    "yv", "v, z", bessel_order.yv, "The Bessel function of the second kind of order v.", "1, 2.0",
    "array(-0.10703243)",
)  # fmt: skip
iv = _ufunc(
    "iv", "v, z", bessel_order.iv, "The modified Bessel function of the first kind of order v.", "1, 2.0",
    "array(1.59063685)",
)  # fmt: skip
kv = _ufunc(
    "kv", "v, z", bessel_order.kv, "The modified Bessel function of the second kind of order v.", "1, 2.0",
    "array(0.13986588)",
)  # fmt: skip
kn = _ufunc(
    "kn", "n, x", bessel_order.kv, "The modified Bessel function of the second kind of whole order n.", "1, 2.0",
    "array(0.13986588)",
)  # fmt: skip
jve = _ufunc(
    "jve", "v, z", _real_only("jve", bessel_order.jv), "jv scaled by exp(-|Im z|): for real z, jv.", "1, 2.0",
    "array(0.57672481)",
)  # fmt: skip
yve = _ufunc(
    "yve", "v, z", _real_only("yve", bessel_order.yv), "yv scaled by exp(-|Im z|): for real z, yv.", "1, 2.0",
    "array(-0.10703243)",
)  # fmt: skip
ive = _ufunc("ive", "v, z", bessel_order.ive, "iv scaled by exp(-|Re z|).", "1, 2.0", "array(0.21526929)")
kve = _ufunc("kve", "v, z", bessel_order.kve, "kv scaled by exp(z).", "1, 2.0", "array(1.03347685)")
hankel1 = _ufunc(
    "hankel1", "v, z", bessel_order.hankel1, "The Hankel function of the first kind, jv + i yv.", "1, 2.0",
    "array(0.57672481-0.10703243j)",
)  # fmt: skip
hankel2 = _ufunc(
    "hankel2", "v, z", bessel_order.hankel2, "The Hankel function of the second kind, jv - i yv.", "1, 2.0",
    "array(0.57672481+0.10703243j)",
)  # fmt: skip
hankel1e = _ufunc(
    "hankel1e", "v, z", bessel_order.hankel1e, "hankel1 scaled by exp(-iz).", "1, 2.0",
    "array(-0.33732652-0.47987318j)",
)  # fmt: skip
hankel2e = _ufunc(
    "hankel2e", "v, z", bessel_order.hankel2e, "hankel2 scaled by exp(iz).", "1, 2.0",
    "array(-0.33732652+0.47987318j)",
)  # fmt: skip
struve = _ufunc("struve", "v, x", bessel_order.struve, "Struve's function H of order v.", "1, 2.0", "array(0.64676373)")
modstruve = _ufunc(
    "modstruve", "v, x", bessel_order.modstruve, "The modified Struve function L of order v.", "1, 2.0",
    "array(1.10275979)",
)  # fmt: skip
ber = _ufunc("ber", "x", bessel_order.ber, "Kelvin's function ber.", "2.0", "array(0.75173418)")
bei = _ufunc("bei", "x", bessel_order.bei, "Kelvin's function bei.", "2.0", "array(0.97229163)")
ker = _ufunc("ker", "x", bessel_order.ker, "Kelvin's function ker.", "2.0", "array(-0.04166451)")
kei = _ufunc("kei", "x", bessel_order.kei, "Kelvin's function kei.", "2.0", "array(-0.20240007)")
berp = _ufunc("berp", "x", bessel_order.berp, "The derivative of ber.", "2.0", "array(-0.49306712)")
beip = _ufunc("beip", "x", bessel_order.beip, "The derivative of bei.", "2.0", "array(0.91701361)")
kerp = _ufunc("kerp", "x", bessel_order.kerp, "The derivative of ker.", "2.0", "array(-0.10660097)")
keip = _ufunc("keip", "x", bessel_order.keip, "The derivative of kei.", "2.0", "array(0.21980791)")

# Orthogonal polynomials; degrees have no derivative.
eval_legendre = _ufunc(
    "eval_legendre", "n, x", _legendre, "Legendre's polynomial of degree n.", "2, 0.5", "array(-0.125)",
)  # fmt: skip
eval_hermite = _ufunc(
    "eval_hermite", "n, x", hypergeometric.hermite_polynomial, "The (physicists') Hermite polynomial of degree n.",
    "2, 0.5", "array(-1.)",
)  # fmt: skip
eval_hermitenorm = _ufunc(
    "eval_hermitenorm", "n, x", hypergeometric.hermite_e_polynomial,
    "The (probabilists') Hermite polynomial of degree n.", "2, 0.5", "array(-0.75)",
)  # fmt: skip
eval_laguerre = _ufunc(
    "eval_laguerre", "n, x", lambda n, x: hypergeometric.laguerre_polynomial(n, 0, x),
    "Laguerre's polynomial of degree n.", "2, 0.5", "array(0.125)",
)  # fmt: skip
eval_genlaguerre = _ufunc(
    "eval_genlaguerre", "n, alpha, x", hypergeometric.laguerre_polynomial,
    "The generalised Laguerre polynomial of degree n.", "2, 1.0, 0.5", "array(1.625)",
)  # fmt: skip
eval_jacobi = _ufunc(
    "eval_jacobi", "n, alpha, beta, x", hypergeometric.jacobi_polynomial, "Jacobi's polynomial of degree n.",
    "2, 1.0, 2.0, 0.5", "array(-0.1875)",
)  # fmt: skip
eval_gegenbauer = _ufunc(
    "eval_gegenbauer", "n, alpha, x", hypergeometric.gegenbauer_polynomial, "Gegenbauer's polynomial of degree n.",
    "2, 1.5, 0.5", "array(0.375)",
)  # fmt: skip
eval_chebyt = _ufunc(
    "eval_chebyt", "n, x", _chebyt, "Chebyshev's polynomial of the first kind, cos(n arccos x).", "2, 0.5",
    "array(-0.5)",
)  # fmt: skip
eval_chebyu = _ufunc(
    "eval_chebyu", "n, x", _chebyu, "Chebyshev's polynomial of the second kind.", "2, 0.5", "array(0.)",
)  # fmt: skip
eval_chebyc = _ufunc(
    "eval_chebyc", "n, x", lambda n, x: 2.0 * _chebyt(n, x * 0.5),
    "Chebyshev's polynomial of the first kind on [-2, 2].", "2, 0.5", "array(-1.75)",
)  # fmt: skip
eval_chebys = _ufunc(
    "eval_chebys", "n, x", lambda n, x: _chebyu(n, x * 0.5), "Chebyshev's polynomial of the second kind on [-2, 2].",
    "2, 0.5", "array(-0.75)",
)  # fmt: skip
eval_sh_legendre = _ufunc(
    "eval_sh_legendre", "n, x", lambda n, x: _legendre(n, 2.0 * x - 1.0), "Legendre's polynomial on [0, 1].",
    "2, 0.25", "array(-0.125)",
)  # fmt: skip
eval_sh_chebyt = _ufunc(
    "eval_sh_chebyt", "n, x", lambda n, x: _chebyt(n, 2.0 * x - 1.0),
    "Chebyshev's polynomial of the first kind on [0, 1].", "2, 0.25", "array(-0.5)",
)  # fmt: skip
eval_sh_chebyu = _ufunc(
    "eval_sh_chebyu", "n, x", lambda n, x: _chebyu(n, 2.0 * x - 1.0),
    "Chebyshev's polynomial of the second kind on [0, 1].", "2, 0.25", "array(0.)",
)  # fmt: skip

# ----- several results -----------------------------------------------------------------------------------------------

airy = _several(
    "airy", "z", "Airy's functions Ai and Bi with their derivatives: (Ai, Ai', Bi, Bi').", "1.0",
    "(array(0.13529242), array(-0.15914744), array(1.20742359), array(0.93243593))", bessel_order.airy_ai,
    bessel_order.airy_aip, bessel_order.airy_bi, bessel_order.airy_bip,
)  # fmt: skip
ellipj = _several(
    "ellipj", "u, m", "Jacobi's elliptic functions sn, cn, dn and the amplitude.", "0.5, 0.5",
    "(array(0.47075047), array(0.88226639), array(0.94297243), array(0.49014121))", hypergeometric.jacobi_sn,
    hypergeometric.jacobi_cn, hypergeometric.jacobi_dn, hypergeometric.jacobi_am,
)  # fmt: skip
fresnel = _several(
    "fresnel", "z", "Fresnel's integrals S and C.", "1.0", "(array(0.43825915), array(0.7798934))", integral.fresnel_s,
    integral.fresnel_c,
)  # fmt: skip
sici = _several(
    "sici", "x", "The sine and cosine integrals.", "1.0", "(array(0.94608307), array(0.33740392))",
    integral.sine_integral, integral.cosine_integral,
)  # fmt: skip
shichi = _several(
    "shichi", "x", "The hyperbolic sine and cosine integrals.", "1.0", "(array(1.05725088), array(0.83786694))",
    integral.hyperbolic_sine_integral, integral.hyperbolic_cosine_integral,
)  # fmt: skip
itj0y0 = _several(
    "itj0y0", "x", "The integrals of J_0 and Y_0 from 0 to x.", "1.0", "(array(0.91973041), array(-0.63706938))",
    integral.integral_j0, integral.integral_y0,
)  # fmt: skip
iti0k0 = _several(
    "iti0k0", "x", "The integrals of I_0 and K_0 from 0 to x.", "1.0", "(array(1.0865211), array(1.24250985))",
    integral.integral_i0, integral.integral_k0,
)  # fmt: skip
it2j0y0 = _several(
    "it2j0y0", "x", "The integrals of (1 - J_0(t)) / t from 0 to x, and of Y_0(t) / t from x on.", "1.0",
    "(array(0.12116525), array(0.3952729))", integral.integral_j0_over, integral.integral_y0_over,
)  # fmt: skip
it2i0k0 = _several(
    "it2i0k0", "x", "The integrals of (I_0(t) - 1) / t from 0 to x, and of K_0(t) / t from x on.", "1.0",
    "(array(0.12897944), array(0.20851829))", integral.integral_i0_over, integral.integral_k0_over,
)  # fmt: skip
itairy = _several(
    "itairy", "x", "The integrals of Ai and Bi from 0 to x, and of Ai(-t) and Bi(-t).", "1.0",
    "(array(0.23631733), array(0.87276908), array(0.46567396), array(0.37300499))", integral.integral_ai,
    integral.integral_bi, integral.integral_ai_minus, integral.integral_bi_minus,
)  # fmt: skip
pbdv = _several(
    "pbdv", "v, x", "The parabolic cylinder function D and its derivative.", "1.0, 0.5",
    "(array(0.46970653), array(0.82198643))", bessel_order.pbdv, bessel_order.pbdv_slope,
)  # fmt: skip
pbvv = _several(
    "pbvv", "v, x", "The parabolic cylinder function V and its derivative.", "1.0, 0.5",
    "(array(-0.65384844), array(0.55445262))", bessel_order.pbvv, bessel_order.pbvv_slope,
)  # fmt: skip
pbwa = _several(
    "pbwa", "a, x", "The parabolic cylinder function W and its derivative.", "1.0, 0.5",
    "(array(0.46791054), array(-0.39513919))", bessel_order.pbwa, bessel_order.pbwa_slope,
)  # fmt: skip


def kelvin(x: ArrayLike) -> tuple[Array, ...]:
    """Kelvin's functions as complex numbers: ber + i bei, ker + i kei, and their derivatives.

    Args:
        x: argument.

    >>> from ndgrad.scipy import special
    >>> special.kelvin(2.0)[0]
    array(0.75173418+0.97229163j)
    """
    (t,) = _arguments((x,))
    parts = ((ber, bei), (ker, kei), (berp, beip), (kerp, keip))
    return tuple(re(t) + 1j * im(t) for re, im in parts)


def eval_sh_jacobi(n: Array, p: Array, q: Array, x: Array, out: Out = None) -> Array:
    """The shifted Jacobi polynomial, that of 2x - 1 over a binomial coefficient.

    Args:
        n: degree. It has no derivative.
        p: first parameter of the polynomial.
        q: second parameter of the polynomial.
        x: argument.
        out: array that receives the result.

    >>> from ndgrad.scipy import special
    >>> special.eval_sh_jacobi(2, 3.0, 2.0, 0.25)
    array(0.0125)
    """
    n, p, q, x = (as_array(v) for v in (n, p, q, x))
    value = hypergeometric.jacobi_polynomial(n, p - q, q - 1, 2.0 * x - 1.0)
    return deliver("eval_sh_jacobi", value / S.binom(2.0 * n + p - 1.0, inexact(n)), out)


def lambertw(z: Array, k: int = 0, tol: float = 1e-8) -> Array:
    """Return Lambert's function W: the w with w exp(w) = z, on branch k; complex, as SciPy's is.

    Args:
        z: argument.
        k: number of the branch. 0 is the principal one.
        tol: tolerance of the iteration.

    >>> from ndgrad.scipy import special
    >>> special.lambertw(1.0)
    array(0.56714329+0.j)
    """
    return hypergeometric.lambertw(inexact(as_array(z)), k=int(k), tol=tol)


def round(x: Array) -> Array:
    """Round to integers, halves to even; the derivative is zero.

    Args:
        x: input array.

    >>> from ndgrad.scipy import special
    >>> special.round([0.5, 1.7])
    array([0., 2.])
    """
    return np.round(as_array(x))


def softplus(x: Array, **kwargs: Any) -> Array:
    """Return log(1 + exp(x)), without overflow.

    Args:
        x: input array.
        kwargs: must be empty: options of SciPy's ufunc are not supported.

    >>> from ndgrad.scipy import special
    >>> special.softplus(0.0)
    array(0.69314718)
    """
    if kwargs:
        raise TypeError(f"softplus(): {', '.join(sorted(kwargs))} is not supported. Leave it out. [nd-unsupported]")
    return -_log_expit(-inexact(as_array(x)))


# ----- Bessel functions of other kinds --------------------------------------------------------------------------------


class _Spherical(Protocol):
    def __call__(self, n: int, z: ArrayLike, derivative: bool = False) -> Array: ...


def _spherical(kind: str, sentence: str, result: str) -> _Spherical:
    def function(n: int, z: ArrayLike, derivative: bool = False) -> Array:
        order, t = int(n), inexact(as_array(z))
        if order != n or order < 0:
            raise ValueError(f"spherical_{kind}: n must be a whole number from 0 on, but is {n!r}. [nd-range]")
        if not derivative:
            return bessel_order.spherical_bessel(t, kind=kind, order=order)
        made = (
            bessel_order._UPPER[kind]
            * (order + 1)
            / (2 * order + 1)
            * bessel_order.spherical_bessel(t, kind=kind, order=order + 1)
        )
        if order == 0:
            return made
        return made + bessel_order._LOWER[kind] * order / (2 * order + 1) * bessel_order.spherical_bessel(
            t, kind=kind, order=order - 1
        )

    sentence = f"The {sentence} of one whole order n, or its derivative in z."
    return _describe(
        function, f"spherical_{kind}", list(signature(function).parameters.values()), sentence, "1, 2.0", result
    )


spherical_jn = _spherical("jn", "spherical Bessel function of the first kind", "array(0.43539777)")
spherical_yn = _spherical("yn", "spherical Bessel function of the second kind", "array(-0.350612)")
spherical_in = _spherical("in", "modified spherical Bessel function of the first kind", "array(0.97438274)")
spherical_kn = _spherical("kn", "modified spherical Bessel function of the second kind", "array(0.15943812)")


class _Derivative(Protocol):
    def __call__(self, v: ArrayLike, z: ArrayLike, n: int = 1) -> Array: ...


def _derivative_of(name: str, op: Op, sign: float, outer: float, result: str) -> _Derivative:
    def function(v: ArrayLike, z: ArrayLike, n: int = 1) -> Array:
        order, t = _arguments((v, z))
        steps = int(n)
        if steps < 0:
            raise ValueError(f"{name}: n must be 0 or more, but is {n}. [nd-range]")
        total: Any = 0.0
        for k in range(steps + 1):  # each derivative is half a difference (or sum) of neighbouring orders
            total = total + math.comb(steps, k) * sign**k * op(order - steps + 2 * k, t)
        return total * outer**steps / 2.0**steps

    sentence = f"The n-th derivative of {op.name}(v, z) in z."
    return _describe(function, name, list(signature(function).parameters.values()), sentence, "1, 2.0", result)


jvp = _derivative_of("jvp", bessel_order.jv, -1.0, 1.0, "array(-0.06447162)")
yvp = _derivative_of("yvp", bessel_order.yv, -1.0, 1.0, "array(0.56389189)")
ivp = _derivative_of("ivp", bessel_order.iv, 1.0, 1.0, "array(1.48426688)")
kvp = _derivative_of("kvp", bessel_order.kv, 1.0, -1.0, "array(-0.18382681)")
h1vp = _derivative_of("h1vp", bessel_order.hankel1, -1.0, 1.0, "array(-0.06447162+0.56389189j)")
h2vp = _derivative_of("h2vp", bessel_order.hankel2, -1.0, 1.0, "array(-0.06447162-0.56389189j)")

# ----- sums of exponentials, counts -----------------------------------------------------------------------------------


def logsumexp(
    a: Array, axis: int | None = None, b: ArrayLike | None = None, keepdims: bool = False, return_sign: bool = False,
) -> tuple[Array, Array] | Array:  # fmt: skip
    """Return log(sum(b exp(a))), without overflow.

    Args:
        a: exponents.
        axis: axis or axes of the sum. None means all.
        b: weights of the exponentials, which broadcast with `a`.
        keepdims: whether reduced axes stay, with size 1.
        return_sign: whether to return the logarithm of the absolute value, and the sign.

    >>> from ndgrad.scipy import special
    >>> special.logsumexp([0.0, 0.0])
    array(0.69314718)
    """
    t = inexact(as_array(a))
    if b is not None:
        t, weights = operands(t, inexact(as_array(b)))
        t = t + np.zeros_like(weights)
        weights = weights + np.zeros_like(t)
    dims = many_axes(axis, t.ndim)
    if b is None:
        made = S.logsumexp(t, dim=dims, keepdim=keepdims)
        return (made, np.ones_like(made).detach()) if return_sign else made
    top = np.max(np.where(weights == 0, -numpy.inf, t), axis=dims, keepdims=True).detach()
    top = np.where(np.isfinite(top), top, 0.0)
    total = (np.where(weights == 0, 0.0, weights * np.exp(np.where(weights == 0, 0.0, t - top)))).sum(
        axis=dims, keepdims=keepdims
    )
    top = top if keepdims else top.reshape(total.shape)
    if return_sign:
        return np.log(abs(total)) + top, np.sign(total).detach()
    return np.log(total) + top


def softmax(x: Array, axis: int | None = None) -> Array:
    """Return exp(x) divided by its sum.

    Args:
        x: input array.
        axis: axis or axes of the sum. None means all.

    >>> from ndgrad.scipy import special
    >>> special.softmax([0.0, 0.0])
    array([0.5, 0.5])
    """
    t = inexact(as_array(x))
    return np.exp(t - S.logsumexp(t, dim=many_axes(axis, t.ndim), keepdim=True))


def log_softmax(x: Array, axis: int | None = None) -> Array:
    """The logarithm of softmax.

    Args:
        x: input array.
        axis: axis or axes of the sum. None means all.

    >>> from ndgrad.scipy import special
    >>> special.log_softmax([0.0, 0.0])
    array([-0.69314718, -0.69314718])
    """
    t = inexact(as_array(x))
    return t - S.logsumexp(t, dim=many_axes(axis, t.ndim), keepdim=True)


def factorial(n: Array, exact: bool = False, extend: str = "zero") -> Array:
    """Return gamma(n + 1), and 0 for n below 0; differentiable in n.

    Args:
        n: argument.
        exact: whether to return exact integers, without derivatives, by SciPy.
        extend: must be `"zero"`: the value below zero.

    >>> from ndgrad.scipy import special
    >>> special.factorial(4)
    array(24.)
    """
    if exact:
        return _beyond("factorial")(n, exact=True)
    if extend != "zero":
        raise NotImplementedError(
            f"factorial(): extend={extend!r} has no rule here. Use gamma(n + 1). [nd-no-derivative]"
        )
    t = inexact(as_array(n))
    below = t < 0
    return np.where(below, 0.0, S.gamma_function(np.where(below, 0.0, t) + 1.0))


def comb(N: Array, k: Array, *, exact: bool = False, repetition: bool = False) -> Array:
    """The binomial coefficient, 0 outside of 0 <= k <= N; differentiable in both.

    Args:
        N: number of things.
        k: number of chosen things.
        exact: whether to return exact integers, without derivatives, by SciPy.
        repetition: whether a thing may be chosen several times.

    >>> from ndgrad.scipy import special
    >>> special.comb(5, 2)
    array(10.)
    """
    if exact:
        return _beyond("comb")(N, k, exact=True, repetition=repetition)
    n, m = (inexact(t) for t in operands(as_array(N), as_array(k)))
    if repetition:
        n = n + m - 1.0
    inside = (m <= n) & (n >= 0) & (m >= 0)
    return np.where(inside, S.binom(np.where(inside, n, 1.0), np.where(inside, m, 1.0)), 0.0)


def perm(N: Array, k: Array, exact: bool = False) -> Array:
    """The number of arrangements, N! / (N - k)!; differentiable in both.

    Args:
        N: number of things.
        k: number of arranged things.
        exact: whether to return exact integers, without derivatives, by SciPy.

    >>> from ndgrad.scipy import special
    >>> special.perm(5, 2)
    array(20.)
    """
    if exact:
        return _beyond("perm")(N, k, exact=True)
    n, m = (inexact(t) for t in operands(as_array(N), as_array(k)))
    inside = (m <= n) & (n >= 0) & (m >= 0)
    return np.where(inside, S.poch(np.where(inside, n - m, 1.0) + 1.0, np.where(inside, m, 1.0)), 0.0)


_beyond = make_module_getattr(
    "special",
    {
        **dict.fromkeys(
            ("elliprf", "elliprd", "elliprg", "elliprj", "elliprc"), "ellipk, ellipe, ellipkinc or ellipeinc"
        ),
        "zetac": "zeta(x, q), differentiable in q",
        "airye": "airy",
        **dict.fromkeys(("chndtr", "chndtrix", "chndtridf", "chndtrinc"), "chdtr"),
        **dict.fromkeys(("nctdtr", "nctdtrit", "nctdtridf", "nctdtrinc", "stdtridf"), "stdtr and stdtrit"),
        **dict.fromkeys(("ncfdtr", "ncfdtri", "ncfdtridfd", "ncfdtridfn", "ncfdtrinc", "fdtridfd"), "fdtr and fdtri"),
        **dict.fromkeys(("btdtria", "btdtrib"), "betaincinv, or optimize.brentq of betainc"),
        **dict.fromkeys(("gdtrib", "chdtriv"), "optimize.brentq of gammainc"),
        **dict.fromkeys(
            ("bdtrik", "bdtrin", "nbdtrik", "nbdtrin", "pdtrik"), "optimize.brentq of the distribution function"
        ),
        **dict.fromkeys(("nrdtrimn", "nrdtrisd"), "ndtri"),
        **dict.fromkeys(("kolmogorov", "kolmogi", "smirnov", "smirnovi"), "stats.wasserstein_distance"),
        **dict.fromkeys(("sph_harm_y", "sph_legendre_p", "assoc_legendre_p"), "lpmv"),
        "legendre_p": "eval_legendre",
        "assoc_laguerre": "eval_genlaguerre",
        "besselpoly": "jv",
        "diric": "ndgrad.numpy.sin(x * n / 2) / (n * ndgrad.numpy.sin(x / 2))",
        "tklmbda": "stats.logistic",
        **dict.fromkeys(("wright_bessel", "log_wright_bessel"), "hyp0f1"),
        **dict.fromkeys(("modfresnelp", "modfresnelm"), "fresnel"),
    },
    decisions="geterr seterr errstate bernoulli euler stirling2",
    otherwise="a function of ndgrad.scipy.special that has a derivative, or detach() the argument",
)
__getattr__ = _beyond
__dir__ = public_of(__name__)

#: Names of step functions, with derivative zero.
STEPS = frozenset(("gammasgn", "round"))



__all__ = [
    *standard.__all__, "agm", "airy", "bei", "beip", "ber", "berp", "beta", "comb", "dawsn", "ellipe", "ellipeinc",
    "ellipj", "ellipkinc", "erfcinv", "erfi", "eval_chebyc", "eval_chebys", "eval_chebyt", "eval_chebyu",
    "eval_gegenbauer", "eval_genlaguerre", "eval_hermite", "eval_hermitenorm", "eval_jacobi", "eval_laguerre",
    "eval_legendre", "eval_sh_chebyt", "eval_sh_chebyu", "eval_sh_jacobi", "eval_sh_legendre", "expm1", "factorial",
    "fresnel", "gdtria", "gdtrix", "h1vp", "h2vp", "hankel1", "hankel1e", "hankel2", "hankel2e", "hyp0f1", "hyp2f1",
    "hyperu", "it2i0k0", "it2j0y0", "it2struve0", "itairy", "iti0k0", "itj0y0", "itmodstruve0", "itstruve0", "iv",
    "ive", "ivp", "jn", "jv", "jve", "jvp", "kei", "keip", "kelvin", "ker", "kerp", "kn", "kv", "kve", "kvp",
    "lambertw", "log1p", "log_expit", "log_softmax", "logsumexp", "modstruve", "ndtri_exp", "pbdv", "pbvv", "pbwa",
    "perm", "powm1", "round", "shichi", "sici", "softmax", "softplus", "spherical_in", "spherical_jn", "spherical_kn",
    "spherical_yn", "struve", "voigt_profile", "wofz", "wrightomega", "yv", "yve", "yvp",
]  # fmt: skip


def scipy_special(name: str) -> Array | None:
    """Return the function of that name here, or None."""
    return globals()[name] if name in __all__ else None


