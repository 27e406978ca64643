"""Special functions under SciPy's names.

SciPy, when it is told to mind other libraries' arrays (SCIPY_ARRAY_API=1), looks for `xp.special.<name>` before anything else. A
function that is missing here is computed by SciPy from bare memory, which an Array that requires grad refuses. So what stands here is
what has a derivative. Arguments are Arrays and Python numbers; integers are computed in float64. Whole-number arguments (orders,
counts) are rounded down where SciPy does so, and have no derivative.
"""

from __future__ import annotations

import math
import operator
from collections.abc import Callable
from typing import Any

import numpy as np

from ndgrad.array_api.naming import named
from ndgrad.arrays.special_source import special as _raw
from ndgrad.autograd.variable import Variable, np_dtype
from ndgrad.numpy.array import at_stake
from ndgrad.numpy.coercion import as_array, constant, inexact, operands, values_of, with_dtype
from ndgrad.ops import (
    activation,
    arithmetic,
    bessel,
    comparison,
    distribution,
    error_function,
    exponential,
    probability,
    rounding,
    selection,
    transcendental,
    trigonometric,
)
from ndgrad.ops import (
    complex as complex_ops,
)
from ndgrad.ops import (
    gamma as gamma_ops,
)

where, _both = selection.where, comparison.logical_and


def _floats(*values: Any) -> list[Any]:
    """The arguments as floating-point Arrays of one data type."""
    found = operands(*values)
    return [inexact(t) for t in found]


def _elementwise(name: str, op: Any) -> Callable[..., Any]:
    """An op of the table on its arguments."""

    def function(*args: Any) -> Any:
        if len(args) != len(op.args):
            raise TypeError(f"{name}() takes {len(op.args)} arguments, and got {len(args)}.")
        return op(*_floats(*args))

    return named(function, "ndgrad.array_api.special", name, f"scipy.special.{name} of Arrays.")


#: SciPy's name -> the op.
_OPS = {
    "boxcox": transcendental.boxcox, "boxcox1p": transcendental.boxcox1p,
    "betainc": distribution.betainc, "betaincc": distribution.betaincc, "betainccinv": distribution.betaincc_inverse,
    "betaincinv": distribution.betainc_inverse, "betaln": gamma_ops.betaln, "cbrt": arithmetic.cbrt, "cosdg": transcendental.cosdg,
    "cosm1": transcendental.cosm1, "cotdg": transcendental.cotdg, "ellipk": transcendental.ellipk, "ellipkm1": transcendental.ellipkm1,
    "entr": probability.entr, "erf": error_function.erf, "erfc": error_function.erfc, "erfcx": probability.erfcx,
    "erfinv": error_function.erfinv, "exp1": transcendental.exp1, "exp2": exponential.exp2, "expi": transcendental.expi,
    "exprel": transcendental.exprel, "gamma": transcendental.gamma_function, "gammainc": gamma_ops.igamma,
    "gammaincc": gamma_ops.igammac, "gammainccinv": distribution.igammac_inverse, "gammaincinv": distribution.igamma_inverse,
    "gammaln": gamma_ops.lgamma, "i0": bessel.i0, "i0e": bessel.i0e, "i1": bessel.i1, "i1e": bessel.i1e, "j0": bessel.bessel_j0,
    "j1": bessel.bessel_j1, "k0": bessel.modified_bessel_k0, "k0e": bessel.scaled_modified_bessel_k0, "k1": bessel.modified_bessel_k1,
    "k1e": bessel.scaled_modified_bessel_k1, "log_ndtr": probability.log_ndtr, "logit": activation.logit,
    "ndtr": probability.ndtr, "ndtri": probability.ndtri,
    "owens_t": probability.owens_t, "poch": transcendental.poch, "psi": gamma_ops.digamma, "rgamma": transcendental.rgamma,
    "sinc": trigonometric.sinc, "sindg": transcendental.sindg, "spence": transcendental.spence, "stdtr": distribution.stdtr,
    "stdtrit": distribution.stdtr_inverse, "tandg": transcendental.tandg, "xlog1py": exponential.xlog1py, "xlogy": exponential.xlogy,
    "y0": bessel.bessel_y0, "y1": bessel.bessel_y1, "binom": transcendental.binom,
}  # fmt: skip

globals().update({_name: _elementwise(_name, _op) for _name, _op in _OPS.items()})
digamma = globals()["psi"]

__all__ = [
    "bdtr", "bdtrc", "bdtri", "chdtr", "chdtrc", "chdtri", "digamma", "exp10", "expit", "expn", "fdtr", "fdtrc", "fdtri",
    "gammasgn", "gdtr", "gdtrc", "huber", "hyp1f1", "inv_boxcox", "inv_boxcox1p", "kl_div", "loggamma", "lpmv", "multigammaln",
    "nbdtr", "nbdtrc", "nbdtri", "pdtr", "pdtrc", "pdtri", "polygamma", "pseudo_huber", "radian", "rel_entr", "yn", "zeta", *_OPS,
]  # fmt: skip

# ----- arguments that are whole numbers ---------------------------------------------------------------------------------


def _whole(name: str, value: Any) -> Any:
    """An order or a count: no derivative belongs to it."""
    if isinstance(value, Variable) and at_stake(value):
        gamma_ops.no_derivative(name, "n")
    return constant(np.asarray(values_of(value)))


def expn(n: Any, x: Any) -> Any:
    """The exponential integral E_n."""
    return transcendental.expn(_whole("expn", n), inexact(as_array(x)))


def yn(n: Any, x: Any) -> Any:
    """The Bessel function of the second kind of whole order."""
    return transcendental.yn(_whole("yn", n), inexact(as_array(x)))


def lpmv(m: Any, v: Any, x: Any) -> Any:
    """The associated Legendre function of whole order; differentiable in x, not in the degree."""
    v, x = _floats(v, x)
    return transcendental.lpmv(with_dtype(_whole("lpmv", m), np_dtype(x)), v, x)


def polygamma(n: Any, x: Any) -> Any:
    """The n-th derivative of `psi`; an array of orders takes one after the other."""
    orders, t = values_of(_whole("polygamma", n)), inexact(as_array(x))
    if (orders != np.floor(orders)).any() or (orders < 0).any():
        raise ValueError(f"polygamma(): the orders must be whole numbers from 0 on, and are {orders!r}.")
    found = np.unique(orders)
    if found.size == 1:
        made = gamma_ops.polygamma(t, order=int(found[0]))
        return made if orders.ndim == 0 else made + constant(np.zeros(orders.shape))
    made = constant(np.zeros(np.broadcast_shapes(orders.shape, t.shape), np_dtype(t)))
    for order in found:
        made = where(constant(orders == order), gamma_ops.polygamma(t, order=int(order)), made)
    return made


def multigammaln(a: Any, d: Any) -> Any:
    """The logarithm of the multivariate gamma function of dimension d."""
    t, count = inexact(as_array(a)), operator.index(d) if not hasattr(d, "ndim") else int(values_of(d))
    if bool((values_of(t) <= 0.5 * (count - 1)).any()):
        raise ValueError(f"condition a > 0.5 * (d - 1) not met: d is {count}, and the smallest a is {values_of(t).min()}")
    return gamma_ops.mvlgamma(t, p=count)


def zeta(x: Any, q: Any = None) -> Any:
    """Hurwitz's zeta function, and Riemann's without q; differentiable in q alone."""
    return gamma_ops.zeta(*_floats(x, 1.0 if q is None else q))


def hyp1f1(a: Any, b: Any, x: Any) -> Any:
    """Kummer's confluent hypergeometric function; differentiable in x alone."""
    return transcendental.hyp1f1(*_floats(a, b, x))


# ----- logarithms, powers, angles ---------------------------------------------------------------------------------------


def expit(x: Any) -> Any:
    """1 / (1 + exp(-x)); above 0 as one less the other tail, which has the digits of the derivative."""
    t = inexact(as_array(x))
    above = comparison.gt(t, 0.0)
    tail = activation.sigmoid(where(above, -t, t))
    return where(above, 1.0 - tail, tail)


def exp10(x: Any) -> Any:
    return arithmetic.pow(10.0, inexact(as_array(x)))


def loggamma(x: Any) -> Any:
    """The logarithm of the gamma function on its principal branch: of real numbers, NaN below zero."""
    t = inexact(as_array(x))
    return where(comparison.lt(t, 0.0), math.nan, gamma_ops.lgamma(t))


def gammasgn(x: Any) -> Any:
    """The sign of the gamma function: constant between its poles."""
    return constant(np.asarray(_raw("gammasgn")(values_of(inexact(as_array(x))))))


def radian(d: Any, m: Any, s: Any) -> Any:
    """Degrees, minutes and seconds in radians."""
    d, m, s = _floats(d, m, s)
    return (d + m / 60.0 + s / 3600.0) * (math.pi / 180)


# Of Box and Cox's transforms, the inverses are smooth where lmbda passes 0: log1prel(u) = log(1 + u) / u is a power series there.


def _inverse(x: Any, lmbda: Any) -> Any:
    """log(1 + lmbda x) / lmbda, the logarithm whose transform is x."""
    infinite = comparison.isinf(x)
    near = where(infinite, 0.0, x)
    level = comparison.eq(lmbda, 0.0)
    limit = where(level, x, exponential.log1p(lmbda * where(level, 1.0, x)) / where(level, 1.0, lmbda))
    return where(infinite, limit, near * transcendental.log1prel(lmbda * near))


def inv_boxcox(x: Any, lmbda: Any) -> Any:
    return exponential.exp(_inverse(*_floats(x, lmbda)))


def inv_boxcox1p(x: Any, lmbda: Any) -> Any:
    return exponential.expm1(_inverse(*_floats(x, lmbda)))


# ----- distances --------------------------------------------------------------------------------------------------------


def rel_entr(x: Any, y: Any) -> Any:
    """x log(x / y), 0 where x is 0 and y is not negative, infinity outside."""
    x, y = _floats(x, y)
    inside = _both(comparison.gt(x, 0.0), comparison.gt(y, 0.0))
    p, q = where(inside, x, 1.0), where(inside, y, 1.0)
    # of the quotient's logarithm while the quotient is a number of full precision, of the difference of logarithms elsewhere
    ratio = p / q
    normal = _both(comparison.gt(ratio, 1e-300), comparison.lt(ratio, 1e300))
    log = where(normal, exponential.log(where(normal, ratio, 1.0)), exponential.log(p) - exponential.log(q))
    close = comparison.lt(complex_ops.abs(p - q), q * 0.5)
    log = where(close, exponential.log1p(where(close, p - q, 0.0) / q), log)
    border = _both(comparison.eq(x, 0.0), comparison.ge(y, 0.0))
    unknown = comparison.logical_or(comparison.isnan(x), comparison.isnan(y))
    return where(unknown, math.nan, where(inside, p * log, where(border, 0.0, math.inf)))


def kl_div(x: Any, y: Any) -> Any:
    """rel_entr(x, y) - x + y."""
    x, y = _floats(x, y)
    inside = _both(comparison.gt(x, 0.0), comparison.gt(y, 0.0))
    border = _both(comparison.eq(x, 0.0), comparison.ge(y, 0.0))
    entropy = rel_entr(x, y)
    made = where(inside, entropy - where(inside, x, 0.0) + where(inside, y, 0.0), where(border, y, entropy))
    # near x = y the terms cancel: with d = (x - y) / y, y ((1 + d) log(1 + d) - d) = y d^2 (1/2 - d/6 + d^2/12 - ...)
    close = _both(inside, comparison.lt(complex_ops.abs(x - y), y * 0.05))
    d = where(close, x - y, 0.0) / where(close, y, 1.0)
    series = d * 0.0
    for k in range(12, -1, -1):
        series = series * d + (-1) ** k / ((k + 1) * (k + 2))
    return where(close, y * d * d * series, made)


def huber(delta: Any, r: Any) -> Any:
    """r^2 / 2 up to delta, and delta (|r| - delta / 2) beyond."""
    delta, r = _floats(delta, r)
    size = complex_ops.abs(r)
    made = where(comparison.le(size, delta), r * r * 0.5, delta * (size - delta * 0.5))
    return where(comparison.lt(delta, 0.0), math.inf, made)


def pseudo_huber(delta: Any, r: Any) -> Any:
    """delta^2 (sqrt(1 + (r / delta)^2) - 1), without the difference: r^2 / (sqrt(1 + (r / delta)^2) + 1)."""
    delta, r = _floats(delta, r)
    infinite = comparison.isinf(r)
    near = where(infinite, 0.0, r)
    ratio = near / where(comparison.le(delta, 0.0), 1.0, delta)
    made = where(infinite, math.inf, near * near / (arithmetic.sqrt(ratio * ratio + 1.0) + 1.0))
    made = where(comparison.eq(delta, 0.0), 0.0 * delta, made)
    return where(comparison.lt(delta, 0.0), math.inf, made)


# ----- distribution functions: cumulated, complementary (c), inverse (i) ------------------------------------------------


def _half(v: Any, x: Any) -> tuple[Any, Any]:
    v, x = _floats(v, x)
    return v * 0.5, x * 0.5


def _inside(made: Any, allowed: Any) -> Any:
    return where(allowed, made, math.nan)


def chdtr(v: Any, x: Any) -> Any:
    """The distribution function of chi-square."""
    return gamma_ops.igamma(*_half(v, x))


def chdtrc(v: Any, x: Any) -> Any:
    return gamma_ops.igammac(*_half(v, x))


def chdtri(v: Any, p: Any) -> Any:
    v, p = _floats(v, p)
    return distribution.igammac_inverse(v * 0.5, p) * 2.0


def gdtr(a: Any, b: Any, x: Any) -> Any:
    """The distribution function of the gamma distribution of rate a and shape b."""
    a, b, x = _floats(a, b, x)
    return _inside(gamma_ops.igamma(b, a * x), comparison.ge(x, 0.0))


def gdtrc(a: Any, b: Any, x: Any) -> Any:
    a, b, x = _floats(a, b, x)
    return _inside(gamma_ops.igammac(b, a * x), comparison.ge(x, 0.0))


def _f_allows(n: Any, d: Any, x: Any) -> Any:
    return _both(_both(comparison.gt(n, 0.0), comparison.gt(d, 0.0)), comparison.ge(x, 0.0))


def fdtr(dfn: Any, dfd: Any, x: Any) -> Any:
    """Snedecor's F distribution."""
    n, d, x = _floats(dfn, dfd, x)
    small = comparison.lt(n * x, d)
    upper = distribution.betaincc(d * 0.5, n * 0.5, where(small, 0.5, d / (d + n * x)))
    return _inside(where(small, distribution.betainc(n * 0.5, d * 0.5, where(small, n * x / (d + n * x), 0.5)), upper), _f_allows(n, d, x))


def fdtrc(dfn: Any, dfd: Any, x: Any) -> Any:
    n, d, x = _floats(dfn, dfd, x)
    # of the smaller of the two shares, which has all its digits
    small = comparison.lt(n * x, d)
    lower = distribution.betaincc(n * 0.5, d * 0.5, where(small, n * x / (d + n * x), 0.5))
    return _inside(where(small, lower, distribution.betainc(d * 0.5, n * 0.5, where(small, 0.5, d / (d + n * x)))), _f_allows(n, d, x))


def fdtri(dfn: Any, dfd: Any, p: Any) -> Any:
    n, d, p = _floats(dfn, dfd, p)
    # x = d/n of the shares of numerator and denominator, each found by itself: the small one has all its digits
    return distribution.betainc_inverse(n * 0.5, d * 0.5, p) * d / (distribution.betaincc_inverse(d * 0.5, n * 0.5, p) * n)


def _counts(k: Any, n: Any, p: Any) -> tuple[Any, Any, Any]:
    k, n, p = _floats(k, n, p)
    return rounding.floor(k), n, p


def _is_probability(p: Any) -> Any:
    return _both(comparison.ge(p, 0.0), comparison.le(p, 1.0))


def bdtr(k: Any, n: Any, p: Any) -> Any:
    """The probability of at most k successes in n trials of probability p."""
    k, n, p = _counts(k, n, p)
    every = comparison.eq(k, n)
    rest = where(every, 1.0, n - k)
    made = distribution.betaincc(k + 1.0, rest, p)
    allowed = _both(_both(comparison.ge(k, 0.0), comparison.ge(n, k)), _is_probability(p))
    return _inside(where(every, 1.0 + 0.0 * p, made), allowed)


def bdtrc(k: Any, n: Any, p: Any) -> Any:
    k, n, p = _counts(k, n, p)
    every, before = comparison.ge(k, n), comparison.lt(k, 0.0)
    made = distribution.betainc(where(before, 1.0, k + 1.0), where(every, 1.0, n - k), p)
    made = where(before, 1.0 + 0.0 * p, where(comparison.eq(k, n), 0.0 * p, made))
    return _inside(made, _both(comparison.ge(n, k), _is_probability(p)))


def bdtri(k: Any, n: Any, y: Any) -> Any:
    """The probability of success for which bdtr is y."""
    k, n, y = _counts(k, n, y)
    rest = where(comparison.gt(n, k), n - k, 1.0)
    allowed = _both(comparison.ge(k, 0.0), comparison.gt(n, k))
    return _inside(distribution.betaincc_inverse(k + 1.0, rest, y), allowed)


def nbdtr(k: Any, n: Any, p: Any) -> Any:
    """The probability of at most k failures before the n-th success."""
    k, n, p = _counts(k, n, p)
    allowed = _both(comparison.ge(k, 0.0), comparison.gt(n, 0.0))
    return _inside(distribution.betainc(where(allowed, n, 1.0), where(allowed, k + 1.0, 1.0), p), allowed)


def nbdtrc(k: Any, n: Any, p: Any) -> Any:
    k, n, p = _counts(k, n, p)
    allowed = _both(comparison.ge(k, 0.0), comparison.gt(n, 0.0))
    return _inside(distribution.betaincc(where(allowed, n, 1.0), where(allowed, k + 1.0, 1.0), p), allowed)


def nbdtri(k: Any, n: Any, y: Any) -> Any:
    k, n, y = _counts(k, n, y)
    allowed = _both(comparison.ge(k, 0.0), comparison.gt(n, 0.0))
    return _inside(distribution.betainc_inverse(where(allowed, n, 1.0), where(allowed, k + 1.0, 1.0), y), allowed)


def pdtr(k: Any, m: Any) -> Any:
    """The probability of at most k events of a Poisson distribution of mean m."""
    k, m = _floats(k, m)
    k = rounding.floor(k)
    allowed = _both(comparison.ge(k, 0.0), comparison.ge(m, 0.0))
    return _inside(gamma_ops.igammac(where(allowed, k + 1.0, 1.0), where(allowed, m, 1.0)), allowed)


def pdtrc(k: Any, m: Any) -> Any:
    k, m = _floats(k, m)
    k = rounding.floor(k)
    allowed = _both(comparison.ge(k, 0.0), comparison.ge(m, 0.0))
    return _inside(gamma_ops.igamma(where(allowed, k + 1.0, 1.0), where(allowed, m, 1.0)), allowed)


def pdtri(k: Any, y: Any) -> Any:
    """The mean for which pdtr is y."""
    k, y = _floats(k, y)
    return _inside(distribution.igammac_inverse(rounding.floor(k) + 1.0, y), comparison.lt(y, 1.0))
