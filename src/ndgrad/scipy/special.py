"""`scipy.special` with derivatives.

What SciPy's array API mode asks of a namespace is in `ndgrad.array_api.special`, and the same functions stand here; added are those that
SciPy computes in C alone. Orders, degrees and parameters of hypergeometric functions have no derivative, and raise where one is asked
for.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import numpy

import ndgrad.numpy as np
from ndgrad._registry import register
from ndgrad.array_api import special as standard
from ndgrad.array_api.special import *  # noqa: F403
from ndgrad.autograd.variable import np_dtype
from ndgrad.numpy.coercion import as_array, deliver, inexact, many_axes, operands
from ndgrad.ops import bessel_order, hypergeometric, integral
from ndgrad.ops.vocabulary import tensor_ops as S
from ndgrad.scipy._without_rules import beyond

# ----- ops of the table, as ufuncs ------------------------------------------------------------------------------------------


def _arguments(values: tuple[Any, ...]) -> list[Any]:
    """Floating Arrays of one dtype; whole numbers that stand beside floats stay what they are (orders, degrees)."""
    found = [as_array(v) for v in values]
    if all(np_dtype(t).kind in "biu" for t in found):
        return [inexact(t) for t in found]
    return found


def _ufunc(name: str, compute: Callable[..., Any], count: int) -> Callable[..., Any]:
    def function(*args: Any, out: Any = None) -> Any:
        if len(args) != count:
            raise TypeError(f"{name}() takes {count} arguments, and got {len(args)}.")
        return deliver(name, compute(*_arguments(args)), out)

    function.__name__ = function.__qualname__ = name
    function.__doc__ = f"`scipy.special.{name}`."
    return function


def _log_expit(x: Any) -> Any:
    """log(1 / (1 + exp(-x))), each side of 0 by the exponential that is small there: derivatives of every order keep their digits."""
    below = x < 0
    return np.where(below, x, 0.0) - np.log1p(np.exp(np.where(below, x, -x)))


_UNARY = {
    "ber": bessel_order.ber, "bei": bessel_order.bei, "ker": bessel_order.ker, "kei": bessel_order.kei, "berp": bessel_order.berp,
    "beip": bessel_order.beip, "kerp": bessel_order.kerp, "keip": bessel_order.keip, "dawsn": integral.dawsn, "erfi": integral.erfi,
    "wofz": integral.wofz, "erfcinv": integral.erfcinv, "ndtri_exp": integral.ndtri_exp, "itstruve0": integral.integral_struve0,
    "itmodstruve0": integral.integral_modstruve0, "it2struve0": integral.integral_struve0_over, "ellipe": hypergeometric.ellipe,
    "wrightomega": hypergeometric.wrightomega, "log_expit": _log_expit, "expm1": S.expm1, "log1p": S.log1p,
}  # fmt: skip
_BINARY = {
    "jv": bessel_order.jv, "jn": bessel_order.jv, "yv": bessel_order.yv, "iv": bessel_order.iv, "kv": bessel_order.kv,
    "kn": bessel_order.kv, "ive": bessel_order.ive, "kve": bessel_order.kve, "hankel1": bessel_order.hankel1,
    "hankel2": bessel_order.hankel2, "hankel1e": bessel_order.hankel1e, "hankel2e": bessel_order.hankel2e, "struve": bessel_order.struve,
    "modstruve": bessel_order.modstruve, "hyp0f1": hypergeometric.hyp0f1, "ellipkinc": hypergeometric.ellipkinc,
    "ellipeinc": hypergeometric.ellipeinc, "eval_hermite": hypergeometric.hermite_polynomial,
    "eval_hermitenorm": hypergeometric.hermite_e_polynomial,
}  # fmt: skip
_MORE: dict[str, tuple[Any, int]] = {
    "hyp2f1": (hypergeometric.hyp2f1, 4), "hyperu": (hypergeometric.hyperu, 3), "eval_jacobi": (hypergeometric.jacobi_polynomial, 4),
    "eval_gegenbauer": (hypergeometric.gegenbauer_polynomial, 3), "eval_genlaguerre": (hypergeometric.laguerre_polynomial, 3),
}  # fmt: skip


def _real_only(name: str, op: Any) -> Callable[..., Any]:
    """Scaled by exp(-|Im z|), which is 1 on the real line and not holomorphic off it."""

    def compute(v: Any, z: Any) -> Any:
        if np_dtype(z).kind == "c":
            raise NotImplementedError(f"{name}() has a derivative for real arguments only. Use {op.name}() and scale it.")
        return op(v, z)

    return compute


# ----- several results --------------------------------------------------------------------------------------------------------


def _several(name: str, *ops: Any) -> Callable[..., Any]:
    count = len(ops[0].args)

    def function(*args: Any) -> tuple[Any, ...]:
        if len(args) != count:
            raise TypeError(f"{name}() takes {count} arguments, and got {len(args)}.")
        given = _arguments(args)
        return tuple(op(*given) for op in ops)

    function.__name__ = function.__qualname__ = name
    function.__doc__ = f"`scipy.special.{name}`."
    return function


_SEVERAL = {
    "airy": (bessel_order.airy_ai, bessel_order.airy_aip, bessel_order.airy_bi, bessel_order.airy_bip),
    "ellipj": (hypergeometric.jacobi_sn, hypergeometric.jacobi_cn, hypergeometric.jacobi_dn, hypergeometric.jacobi_am),
    "fresnel": (integral.fresnel_s, integral.fresnel_c), "sici": (integral.sine_integral, integral.cosine_integral),
    "shichi": (integral.hyperbolic_sine_integral, integral.hyperbolic_cosine_integral),
    "itj0y0": (integral.integral_j0, integral.integral_y0), "iti0k0": (integral.integral_i0, integral.integral_k0),
    "it2j0y0": (integral.integral_j0_over, integral.integral_y0_over), "it2i0k0": (integral.integral_i0_over, integral.integral_k0_over),
    "itairy": (integral.integral_ai, integral.integral_bi, integral.integral_ai_minus, integral.integral_bi_minus),
    "pbdv": (bessel_order.pbdv, bessel_order.pbdv_slope), "pbvv": (bessel_order.pbvv, bessel_order.pbvv_slope),
    "pbwa": (bessel_order.pbwa, bessel_order.pbwa_slope),
}  # fmt: skip

# ----- compositions --------------------------------------------------------------------------------------------------------------


def _beta(a: Any, b: Any) -> Any:
    """By its logarithm where gamma would overflow; else as a quotient, which holds below 0 and where a + b is a pole of gamma."""
    positive = (a > 0) & (b > 0)
    quotient = [np.where(positive, 1.0, v) for v in (a, b)]
    other = S.gamma_function(quotient[0]) * S.gamma_function(quotient[1]) * S.rgamma(quotient[0] + quotient[1])
    return np.where(positive, np.exp(S.betaln(*(np.where(positive, v, 1.0) for v in (a, b)))), other)


def _agm(a: Any, b: Any) -> Any:
    """pi/4 (a + b) / K(m), m = ((a - b) / (a + b))^2, whose complement is 4ab / (a + b)^2."""
    total = a + b
    return total * (math.pi / 4) / S.ellipkm1(4.0 * a * b / (total * total))


def _kelvin(x: Any) -> tuple[Any, ...]:
    b, k = bessel_order, bessel_order
    parts = ((b.ber(x), b.bei(x)), (k.ker(x), k.kei(x)), (b.berp(x), b.beip(x)), (k.kerp(x), k.keip(x)))
    return tuple(re + 1j * im for re, im in parts)


# Degrees below 0 are mirrored, as whole ones are in SciPy: the same functions solve the same equations there.


def _legendre(n: Any, x: Any) -> Any:
    return hypergeometric.jacobi_polynomial(np.where(n < -0.5, -n - 1, n), 0, 0, x)


def _chebyt(n: Any, x: Any) -> Any:
    """cos(n arccos x)."""
    return hypergeometric.chebyshev_polynomial(abs(n), x)


def _chebyu(n: Any, x: Any) -> Any:
    """sin((n + 1) arccos x) / sin(arccos x)."""
    below = n < -1
    return np.where(below, -1.0, 1.0) * hypergeometric.gegenbauer_polynomial(np.where(below, -n - 2, n), 1, x)


_COMPOSED: dict[str, tuple[Callable[..., Any], int]] = {
    "beta": (_beta, 2),
    "powm1": (S.powm1, 2),
    "agm": (_agm, 2),
    "voigt_profile": (integral.voigt_profile, 3),
    "kelvin": (_kelvin, 1),
    "gdtria": (lambda p, b, x: S.igamma_inverse(b, p) / x, 3),
    "gdtrix": (lambda a, b, p: S.igamma_inverse(b, p) / a, 3),
    "eval_legendre": (_legendre, 2),
    "eval_laguerre": (lambda n, x: hypergeometric.laguerre_polynomial(n, 0, x), 2),
    "eval_chebyt": (_chebyt, 2),
    "eval_chebyu": (_chebyu, 2),
    "eval_chebyc": (lambda n, x: 2.0 * _chebyt(n, x * 0.5), 2),
    "eval_chebys": (lambda n, x: _chebyu(n, x * 0.5), 2),
    "eval_sh_legendre": (lambda n, x: _legendre(n, 2.0 * x - 1.0), 2),
    "eval_sh_chebyt": (lambda n, x: _chebyt(n, 2.0 * x - 1.0), 2),
    "eval_sh_chebyu": (lambda n, x: _chebyu(n, 2.0 * x - 1.0), 2),
    "jve": (_real_only("jve", bessel_order.jv), 2),
    "yve": (_real_only("yve", bessel_order.yv), 2),
}


def eval_sh_jacobi(n: Any, p: Any, q: Any, x: Any, out: Any = None) -> Any:
    """The shifted Jacobi polynomial, that of 2x - 1 over a binomial coefficient."""
    n, p, q, x = (as_array(v) for v in (n, p, q, x))
    value = hypergeometric.jacobi_polynomial(n, p - q, q - 1, 2.0 * x - 1.0)
    return deliver("eval_sh_jacobi", value / S.binom(2.0 * n + p - 1.0, inexact(n)), out)


for _table, _count in ((_UNARY, 1), (_BINARY, 2)):
    globals().update({_name: _ufunc(_name, _op, _count) for _name, _op in _table.items()})
globals().update({_name: _ufunc(_name, *_made) for _name, _made in (*_MORE.items(), *_COMPOSED.items())})
globals().update({_name: _several(_name, *_ops) for _name, _ops in _SEVERAL.items()})


def lambertw(z: Any, k: int = 0, tol: float = 1e-8) -> Any:
    """The w with w exp(w) = z, on branch k; complex, as SciPy's is."""
    return hypergeometric.lambertw(inexact(as_array(z)), k=int(k), tol=tol)


def round(x: Any) -> Any:
    """To whole numbers, halves to even; the derivative is zero."""
    return np.round(as_array(x))


def softplus(x: Any, **kwargs: Any) -> Any:
    """log(1 + exp(x))."""
    return -_log_expit(-inexact(as_array(x)))


# ----- Bessel functions of other kinds ---------------------------------------------------------------------------------------------


def _spherical(kind: str) -> Callable[..., Any]:
    def function(n: int, z: Any, derivative: bool = False) -> Any:
        order, t = int(n), inexact(as_array(z))
        if order != n or order < 0:
            raise ValueError(f"spherical_{kind}: n must be a whole number from 0 on, and is {n!r}.")
        if not derivative:
            return bessel_order.spherical_bessel(t, kind=kind, order=order)
        made = bessel_order._UPPER[kind] * (order + 1) / (2 * order + 1) * bessel_order.spherical_bessel(t, kind=kind, order=order + 1)
        if order == 0:
            return made
        return made + bessel_order._LOWER[kind] * order / (2 * order + 1) * bessel_order.spherical_bessel(t, kind=kind, order=order - 1)

    function.__name__ = function.__qualname__ = f"spherical_{kind}"
    function.__doc__ = f"`scipy.special.spherical_{kind}` of one whole order n."
    return function


spherical_jn, spherical_yn, spherical_in, spherical_kn = (_spherical(kind) for kind in ("jn", "yn", "in", "kn"))


def _derivative_of(name: str, op: Any, sign: float, outer: float) -> Callable[..., Any]:
    def function(v: Any, z: Any, n: int = 1) -> Any:
        order, t = _arguments((v, z))
        steps = int(n)
        if steps < 0:
            raise ValueError(f"{name}: n must be 0 or more, and is {n}.")
        total: Any = 0.0
        for k in range(steps + 1):  # each derivative is half a difference (or sum) of neighbouring orders
            total = total + math.comb(steps, k) * sign**k * op(order - steps + 2 * k, t)
        return total * outer**steps / 2.0**steps

    function.__name__ = function.__qualname__ = name
    function.__doc__ = f"`scipy.special.{name}`: the n-th derivative in z."
    return function


jvp = _derivative_of("jvp", bessel_order.jv, -1.0, 1.0)
yvp = _derivative_of("yvp", bessel_order.yv, -1.0, 1.0)
ivp = _derivative_of("ivp", bessel_order.iv, 1.0, 1.0)
kvp = _derivative_of("kvp", bessel_order.kv, 1.0, -1.0)
h1vp = _derivative_of("h1vp", bessel_order.hankel1, -1.0, 1.0)
h2vp = _derivative_of("h2vp", bessel_order.hankel2, -1.0, 1.0)

# ----- sums of exponentials, counts ---------------------------------------------------------------------------------------------------


def logsumexp(a: Any, axis: Any = None, b: Any = None, keepdims: bool = False, return_sign: bool = False) -> Any:
    """log(sum(b exp(a))); with `return_sign` that of the absolute value, and the sign."""
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
    total = (np.where(weights == 0, 0.0, weights * np.exp(np.where(weights == 0, 0.0, t - top)))).sum(axis=dims, keepdims=keepdims)
    top = top if keepdims else top.reshape(total.shape)
    if return_sign:
        return np.log(abs(total)) + top, np.sign(total).detach()
    return np.log(total) + top


def softmax(x: Any, axis: Any = None) -> Any:
    t = inexact(as_array(x))
    return np.exp(t - S.logsumexp(t, dim=many_axes(axis, t.ndim), keepdim=True))


def log_softmax(x: Any, axis: Any = None) -> Any:
    t = inexact(as_array(x))
    return t - S.logsumexp(t, dim=many_axes(axis, t.ndim), keepdim=True)


def factorial(n: Any, exact: bool = False, extend: str = "zero") -> Any:
    """gamma(n + 1), 0 below zero; differentiable in n. Exact counts are SciPy's."""
    if exact:
        return _beyond("factorial")(n, exact=True)
    t = inexact(as_array(n))
    below = t < 0
    return np.where(below, 0.0, S.gamma_function(np.where(below, 0.0, t) + 1.0))


def comb(N: Any, k: Any, *, exact: bool = False, repetition: bool = False) -> Any:
    """The binomial coefficient, 0 outside of 0 <= k <= N; differentiable in both."""
    if exact:
        return _beyond("comb")(N, k, exact=True, repetition=repetition)
    n, m = (inexact(t) for t in operands(as_array(N), as_array(k)))
    if repetition:
        n = n + m - 1.0
    inside = (m <= n) & (n >= 0) & (m >= 0)
    return np.where(inside, S.binom(np.where(inside, n, 1.0), np.where(inside, m, 1.0)), 0.0)


def perm(N: Any, k: Any, exact: bool = False) -> Any:
    """The number of arrangements, N! / (N - k)!; differentiable in both."""
    if exact:
        return _beyond("perm")(N, k, exact=True)
    n, m = (inexact(t) for t in operands(as_array(N), as_array(k)))
    inside = (m <= n) & (n >= 0) & (m >= 0)
    return np.where(inside, S.poch(np.where(inside, n - m, 1.0) + 1.0, np.where(inside, m, 1.0)), 0.0)


_beyond = beyond(
    "special",
    {
        **dict.fromkeys(("elliprf", "elliprd", "elliprg", "elliprj", "elliprc"), "ellipk, ellipe, ellipkinc or ellipeinc"),
        "zetac": "zeta(x, q), differentiable in q",
        "airye": "airy",
        **dict.fromkeys(("chndtr", "chndtrix", "chndtridf", "chndtrinc"), "chdtr"),
        **dict.fromkeys(("nctdtr", "nctdtrit", "nctdtridf", "nctdtrinc", "stdtridf"), "stdtr and stdtrit"),
        **dict.fromkeys(("ncfdtr", "ncfdtri", "ncfdtridfd", "ncfdtridfn", "ncfdtrinc", "fdtridfd"), "fdtr and fdtri"),
        **dict.fromkeys(("btdtria", "btdtrib"), "betaincinv, or optimize.brentq of betainc"),
        **dict.fromkeys(("gdtrib", "chdtriv"), "optimize.brentq of gammainc"),
        **dict.fromkeys(("bdtrik", "bdtrin", "nbdtrik", "nbdtrin", "pdtrik"), "optimize.brentq of the distribution function"),
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

_HERE = (
    "comb", "eval_sh_jacobi", "factorial", "h1vp", "h2vp", "ivp", "jvp", "kvp", "lambertw", "log_softmax", "logsumexp", "perm", "round",
    "softmax", "softplus", "spherical_in", "spherical_jn", "spherical_kn", "spherical_yn", "yvp",
)  # fmt: skip
#: Names whose results are steps, with derivative zero.
STEPS = frozenset(("gammasgn", "round"))

__all__ = sorted({*standard.__all__, *_UNARY, *_BINARY, *_MORE, *_COMPOSED, *_SEVERAL, *_HERE})


def scipy_special(name: str) -> Any:
    """The function of that name here; None if there is none."""
    return globals()[name] if name in __all__ else None


register(scipy_special=scipy_special)
