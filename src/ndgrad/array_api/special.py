"""Special functions under SciPy's names.

With support for other libraries' arrays (SCIPY_ARRAY_API=1), SciPy looks for `xp.special.<name>` first. SciPy computes
a missing function from plain memory, which an Array that requires grad refuses. So this module has all functions with a
derivative. Arguments are Arrays and Python numbers; integers are computed in float64. Integer arguments (orders,
counts) are rounded down like in SciPy, and have no derivative.
"""

from __future__ import annotations

import math
import operator
from collections.abc import Callable
from inspect import Parameter, Signature
from typing import TYPE_CHECKING, SupportsIndex

import numpy as np

from ndgrad._src.arrays.special_source import special as _raw
from ndgrad._src.core.detach_checks import at_stake
from ndgrad._src.core.variable import Variable, np_dtype
from ndgrad._src.foundations import docstrings
from ndgrad._src.ops import (
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
from ndgrad._src.ops import complex as complex_ops
from ndgrad._src.ops import gamma as gamma_ops
from ndgrad.numpy.coercion import as_array, constant, inexact, operands, values_of, with_dtype

if TYPE_CHECKING:
    from ndgrad._src.ops.table import Op
    from ndgrad._typing import Array, ArrayLike

where, _both = selection.where, comparison.logical_and


def _floats(*values: ArrayLike) -> list[Array]:
    """Return the arguments as floating-point Arrays of one data type."""
    found = operands(*values)
    return [inexact(t) for t in found]


_PROBABILITY, _ANGLE = {"p": "value, from 0 to 1."}, {"x": "angle in degrees."}
#: Function -> descriptions of its parameters. The argument of a function of one number needs none.
_PARAMETERS = {
    "betainc": {"a, b": "positive parameters.", "x": "upper end of the integral, from 0 to 1."},
    "betaincc": {"a, b": "positive parameters.", "x": "lower end of the integral, from 0 to 1."},
    "betainccinv": {"a, b": "positive parameters.", **_PROBABILITY},
    "betaincinv": {"a, b": "positive parameters.", **_PROBABILITY},
    "betaln": {"a, b": "positive parameters."},
    "binom": {"x": "number of elements.", "k": "number of elements that are chosen."},
    "boxcox": {"x": "number to transform, not negative.", "lmbda": "exponent of the transform."},
    "boxcox1p": {"x": "number to transform, not below -1.", "lmbda": "exponent of the transform."},
    "cosdg": _ANGLE,
    "cotdg": _ANGLE,
    "ellipk": {"x": "parameter m, the square of the modulus, up to 1."},
    "ellipkm1": {"x": "distance of the parameter m from 1, not negative."},
    "erfinv": {"x": "value of the error function, from -1 to 1."},
    "gammainc": {"x": "positive parameter.", "y": "upper end of the integral, not negative."},
    "gammaincc": {"x": "positive parameter.", "y": "lower end of the integral, not negative."},
    "gammainccinv": {"a": "positive parameter.", **_PROBABILITY},
    "gammaincinv": {"a": "positive parameter.", **_PROBABILITY},
    "logit": {"x": "probability."},
    "ndtr": {"x": "bound."},
    "ndtri": {"x": "share, from 0 to 1."},
    "owens_t": {"h": "distance of the wedge from the origin.", "a": "slope of the wedge."},
    "poch": {"x": "first factor.", "m": "number of factors, not only an integer."},
    "sindg": _ANGLE,
    "stdtr": {"df": "degrees of freedom.", "x": "bound."},
    "stdtrit": {"df": "degrees of freedom.", "p": "share, from 0 to 1."},
    "tandg": _ANGLE,
    "xlog1py": {"x": "factor.", "y": "argument of the logarithm, less 1."},
    "xlogy": {"x": "factor.", "y": "argument of the logarithm."},
}


def _op(name: str, op: Op, sentence: str, arguments: str, result: str) -> Callable[..., Array]:
    """Return a function for an op of the table, with its docstring: a description, and the arguments and the result of
    its example.
    """

    def function(*args: ArrayLike) -> Array:
        if len(args) != len(op.args):
            raise TypeError(f"{name}() takes {len(op.args)} arguments, but got {len(args)}. [nd-arguments]")
        return op(*_floats(*args))

    function.__name__ = function.__qualname__ = name
    # Functions accept attributes.
    function.__signature__ = Signature([Parameter(a, Parameter.POSITIONAL_ONLY) for a in op.args])  # type: ignore[attr-defined]
    example = f">>> import ndgrad.array_api as xp\n>>> xp.special.{name}({arguments})\n{result}"
    function.__doc__ = docstrings.compose(sentence, _PARAMETERS.get(name, {"x": "argument."}), example)
    return function


betainc = _op(
    "betainc", distribution.betainc, "The regularised incomplete beta function I_x(a, b).",
    "2.0, 3.0, 0.5", "array(0.6875)",
)  # fmt: skip
betaincc = _op("betaincc", distribution.betaincc, "The complement 1 - I_x(a, b).", "2.0, 3.0, 0.5", "array(0.3125)")
betaincinv = _op(
    "betaincinv", distribution.betainc_inverse, "The x for which betainc(a, b, x) is p.",
    "2.0, 3.0, 0.6875", "array(0.5)",
)  # fmt: skip
betainccinv = _op(
    "betainccinv", distribution.betaincc_inverse, "The x for which betaincc(a, b, x) is p.",
    "2.0, 3.0, 0.3125", "array(0.5)",
)  # fmt: skip
betaln = _op("betaln", gamma_ops.betaln, "The logarithm of the beta function.", "1.0, 1.0", "array(0.)")
binom = _op("binom", transcendental.binom, "The binomial coefficient, of real numbers too.", "4.0, 2.0", "array(6.)")
boxcox = _op(
    "boxcox", transcendental.boxcox, "Box and Cox's transform (x^lmbda - 1) / lmbda, the logarithm where lmbda is 0.",
    "3.0, 2.0", "array(4.)",
)  # fmt: skip
boxcox1p = _op("boxcox1p", transcendental.boxcox1p, "Box and Cox's transform of 1 + x.", "2.0, 2.0", "array(4.)")
cbrt = _op("cbrt", arithmetic.cbrt, "The cube root.", "8.0", "array(2.)")
cosdg = _op("cosdg", transcendental.cosdg, "The cosine of an angle in degrees.", "60.0", "array(0.5)")
cosm1 = _op("cosm1", transcendental.cosm1, "The difference cos(x) - 1, exact for small x.", "1e-5", "array(-5.e-11)")
cotdg = _op("cotdg", transcendental.cotdg, "The cotangent of an angle in degrees.", "45.0", "array(1.)")
ellipk = _op(
    "ellipk", transcendental.ellipk, "The complete elliptic integral of the first kind.",
    "0.0", "array(1.57079633)",
)  # fmt: skip
ellipkm1 = _op(
    "ellipkm1", transcendental.ellipkm1, "The complete elliptic integral of the first kind, of the parameter 1 - x.",
    "1.0", "array(1.57079633)",
)  # fmt: skip
entr = _op("entr", probability.entr, "The entropy -x log(x), 0 at 0.", "0.5", "array(0.34657359)")
erf = _op("erf", error_function.erf, "The error function.", "0.5", "array(0.52049988)")
erfc = _op("erfc", error_function.erfc, "The complement 1 - erf(x).", "0.5", "array(0.47950012)")
erfcx = _op("erfcx", probability.erfcx, "The scaled complement exp(x^2) erfc(x).", "0.0", "array(1.)")
erfinv = _op("erfinv", error_function.erfinv, "The inverse of the error function.", "0.5", "array(0.47693628)")
exp1 = _op("exp1", transcendental.exp1, "The exponential integral E_1.", "1.0", "array(0.21938393)")
exp2 = _op("exp2", exponential.exp2, "The power 2^x.", "3.0", "array(8.)")
expi = _op("expi", transcendental.expi, "The exponential integral Ei.", "1.0", "array(1.89511782)")
exprel = _op("exprel", transcendental.exprel, "The relative exponential (exp(x) - 1) / x, 1 at 0.", "0.0", "array(1.)")
gamma = _op("gamma", transcendental.gamma_function, "The gamma function.", "5.0", "array(24.)")
gammainc = _op(
    "gammainc", gamma_ops.igamma, "The regularised lower incomplete gamma function P(x, y).",
    "1.0, 1.0", "array(0.63212056)",
)  # fmt: skip
gammaincc = _op(
    "gammaincc", gamma_ops.igammac, "The regularised upper incomplete gamma function Q(x, y).",
    "1.0, 1.0", "array(0.36787944)",
)  # fmt: skip
gammaincinv = _op(
    "gammaincinv", distribution.igamma_inverse, "The x for which gammainc(a, x) is p.", "1.0, 0.5", "array(0.69314718)",
)  # fmt: skip
gammainccinv = _op(
    "gammainccinv", distribution.igammac_inverse, "The x for which gammaincc(a, x) is p.",
    "1.0, 0.5", "array(0.69314718)",
)  # fmt: skip
gammaln = _op(
    "gammaln", gamma_ops.lgamma, "The logarithm of the absolute value of the gamma function.",
    "5.0", "array(3.17805383)",
)  # fmt: skip
i0 = _op("i0", bessel.i0, "The modified Bessel function of the first kind of order 0.", "1.0", "array(1.26606588)")
i0e = _op("i0e", bessel.i0e, "The scaled Bessel function exp(-abs(x)) i0(x).", "1.0", "array(0.46575961)")
i1 = _op("i1", bessel.i1, "The modified Bessel function of the first kind of order 1.", "1.0", "array(0.5651591)")
i1e = _op("i1e", bessel.i1e, "The scaled Bessel function exp(-abs(x)) i1(x).", "1.0", "array(0.20791042)")
j0 = _op("j0", bessel.bessel_j0, "The Bessel function of the first kind of order 0.", "1.0", "array(0.76519769)")
j1 = _op("j1", bessel.bessel_j1, "The Bessel function of the first kind of order 1.", "1.0", "array(0.44005059)")
k0 = _op(
    "k0", bessel.modified_bessel_k0, "The modified Bessel function of the second kind of order 0.",
    "1.0", "array(0.42102444)",
)  # fmt: skip
k0e = _op(
    "k0e", bessel.scaled_modified_bessel_k0, "The scaled Bessel function exp(x) k0(x).", "1.0", "array(1.14446308)"
)
k1 = _op(
    "k1", bessel.modified_bessel_k1, "The modified Bessel function of the second kind of order 1.",
    "1.0", "array(0.60190723)",
)  # fmt: skip
k1e = _op(
    "k1e", bessel.scaled_modified_bessel_k1, "The scaled Bessel function exp(x) k1(x).", "1.0", "array(1.63615349)"
)
log_ndtr = _op(
    "log_ndtr", probability.log_ndtr, "The logarithm of `ndtr`, also far below 0.", "-20.0", "array(-203.91715537)",
)  # fmt: skip
logit = _op("logit", activation.logit, "The logarithm of odds, log(x / (1 - x)).", "0.5", "array(0.)")
ndtr = _op("ndtr", probability.ndtr, "The share of the normal distribution below x.", "0.0", "array(0.5)")
ndtri = _op(
    "ndtri", probability.ndtri, "The x below which a share of the normal distribution lies.", "0.5", "array(0.)",
)  # fmt: skip
owens_t = _op("owens_t", probability.owens_t, "Owen's T function.", "0.0, 1.0", "array(0.125)")
poch = _op("poch", transcendental.poch, "Pochhammer's symbol gamma(x + m) / gamma(x).", "3.0, 2.0", "array(12.)")
psi = _op("psi", gamma_ops.digamma, "The logarithmic derivative of the gamma function.", "1.0", "array(-0.57721566)")
rgamma = _op("rgamma", transcendental.rgamma, "One over the gamma function.", "3.0", "array(0.5)")
sinc = _op("sinc", trigonometric.sinc, "The function sin(pi x) / (pi x), 1 at 0.", "0.5", "array(0.63661977)")
sindg = _op("sindg", transcendental.sindg, "The sine of an angle in degrees.", "30.0", "array(0.5)")
spence = _op("spence", transcendental.spence, "Spence's function, the dilogarithm of 1 - x.", "1.0", "array(0.)")
stdtr = _op("stdtr", distribution.stdtr, "The share of Student's t distribution below x.", "3.0, 0.0", "array(0.5)")
stdtrit = _op(
    "stdtrit", distribution.stdtr_inverse, "The t below which a share of Student's distribution lies.",
    "3.0, 0.5", "array(0.)",
)  # fmt: skip
tandg = _op("tandg", transcendental.tandg, "The tangent of an angle in degrees.", "45.0", "array(1.)")
xlog1py = _op("xlog1py", exponential.xlog1py, "The product x log(1 + y), 0 where x is 0.", "2.0, 0.0", "array(0.)")
xlogy = _op("xlogy", exponential.xlogy, "The product x log(y), 0 where x is 0.", "0.0, 0.0", "array(0.)")
y0 = _op("y0", bessel.bessel_y0, "The Bessel function of the second kind of order 0.", "1.0", "array(0.08825696)")
y1 = _op("y1", bessel.bessel_y1, "The Bessel function of the second kind of order 1.", "1.0", "array(-0.78121282)")
digamma = psi

__all__ = [
    "bdtr", "bdtrc", "bdtri", "betainc", "betaincc", "betainccinv", "betaincinv", "betaln", "binom", "boxcox",
    "boxcox1p", "cbrt", "chdtr", "chdtrc", "chdtri", "cosdg", "cosm1", "cotdg", "digamma", "ellipk", "ellipkm1",
    "entr", "erf", "erfc", "erfcx", "erfinv", "exp1", "exp10", "exp2", "expi", "expit", "expn", "exprel", "fdtr",
    "fdtrc", "fdtri", "gamma", "gammainc", "gammaincc", "gammainccinv", "gammaincinv", "gammaln", "gammasgn", "gdtr",
    "gdtrc", "huber", "hyp1f1", "i0", "i0e", "i1", "i1e", "inv_boxcox", "inv_boxcox1p", "j0", "j1", "k0", "k0e", "k1",
    "k1e", "kl_div", "log_ndtr", "loggamma", "logit", "lpmv", "multigammaln", "nbdtr", "nbdtrc", "nbdtri", "ndtr",
    "ndtri", "owens_t", "pdtr", "pdtrc", "pdtri", "poch", "polygamma", "pseudo_huber", "psi", "radian", "rel_entr",
    "rgamma", "sinc", "sindg", "spence", "stdtr", "stdtrit", "tandg", "xlog1py", "xlogy", "y0", "y1", "yn", "zeta",
]  # fmt: skip

# ----- arguments that are whole numbers -------------------------------------------------------------------------------


def _whole(name: str, value: ArrayLike) -> Array:
    """Return an order or a count, which has no derivative."""
    if isinstance(value, Variable) and at_stake(value):
        gamma_ops.no_derivative(name, "n")
    return constant(np.asarray(values_of(value)))


def expn(n: ArrayLike, x: ArrayLike) -> Array:
    """The exponential integral E_n.

    Args:
        n: order, an integer that is not negative. It has no derivative.
        x: argument.

    >>> import ndgrad.array_api as xp
    >>> xp.special.expn(2, 1.0)
    array(0.14849551)
    """
    return transcendental.expn(_whole("expn", n), inexact(as_array(x)))


def yn(n: ArrayLike, x: ArrayLike) -> Array:
    """The Bessel function of the second kind of integer order.

    Args:
        n: order, an integer. It has no derivative.
        x: positive argument.

    >>> import ndgrad.array_api as xp
    >>> xp.special.yn(2, 1.0)
    array(-1.65068261)
    """
    return transcendental.yn(_whole("yn", n), inexact(as_array(x)))


def lpmv(m: ArrayLike, v: ArrayLike, x: ArrayLike) -> Array:
    """The associated Legendre function of integer order; differentiable in x, not in the degree.

    Args:
        m: order, an integer. It has no derivative.
        v: degree.
        x: argument between -1 and 1.

    >>> import ndgrad.array_api as xp
    >>> xp.special.lpmv(0, 2.0, 0.5)
    array(-0.125)
    """
    v, x = _floats(v, x)
    return transcendental.lpmv(with_dtype(_whole("lpmv", m), np_dtype(x)), v, x)


def polygamma(n: ArrayLike, x: ArrayLike) -> Array:
    """The n-th derivative of `psi`; an array of orders is evaluated one by one.

    Args:
        n: number of derivatives of `psi`, an integer that is not negative. It has no derivative.
        x: argument.

    Raises:
        ValueError: if an order is negative or no whole number.

    >>> import ndgrad.array_api as xp
    >>> xp.special.polygamma(1, 1.0)
    array(1.64493407)
    """
    orders, t = values_of(_whole("polygamma", n)), inexact(as_array(x))
    if (orders != np.floor(orders)).any() or (orders < 0).any():
        raise ValueError(f"polygamma(): the orders must be whole numbers from 0 on, but are {orders!r}. [nd-range]")
    found = np.unique(orders)
    if found.size == 1:
        made = gamma_ops.polygamma(t, order=int(found[0]))
        return made if orders.ndim == 0 else made + constant(np.zeros(orders.shape))
    made = constant(np.zeros(np.broadcast_shapes(orders.shape, t.shape), np_dtype(t)))
    for order in found:
        made = where(constant(orders == order), gamma_ops.polygamma(t, order=int(order)), made)
    return made


def multigammaln(a: ArrayLike, d: SupportsIndex | Array) -> Array:
    """The logarithm of the multivariate gamma function of dimension d.

    Args:
        a: argument, above (d - 1) / 2.
        d: dimension.

    Raises:
        ValueError: if `a` is too small.

    >>> import ndgrad.array_api as xp
    >>> xp.special.multigammaln(xp.asarray(2.0), 2)
    array(0.45158271)
    """
    t, count = inexact(as_array(a)), int(values_of(d)) if isinstance(d, (Variable, np.ndarray)) else operator.index(d)
    if bool((values_of(t) <= 0.5 * (count - 1)).any()):
        raise ValueError(
            f"condition a > 0.5 * (d - 1) not met: d is {count}, and the smallest a is {values_of(t).min()} [nd-values]"
        )
    return gamma_ops.mvlgamma(t, p=count)


def zeta(x: ArrayLike, q: ArrayLike | None = None) -> Array:
    """Hurwitz's zeta function, and Riemann's without q; differentiable only in q.

    Args:
        x: exponent.
        q: shift of the terms: the sum of 1 / (k + q)^x from k = 0 on. None means 1.

    >>> import ndgrad.array_api as xp
    >>> xp.special.zeta(2.0)
    array(1.64493407)
    """
    return gamma_ops.zeta(*_floats(x, 1.0 if q is None else q))


def hyp1f1(a: ArrayLike, b: ArrayLike, x: ArrayLike) -> Array:
    """Kummer's confluent hypergeometric function; differentiable only in x.

    Args:
        a, b: parameters.
        x: argument.

    >>> import ndgrad.array_api as xp
    >>> xp.special.hyp1f1(1.0, 1.0, 1.0)
    array(2.71828183)
    """
    return transcendental.hyp1f1(*_floats(a, b, x))


# ----- logarithms, powers, angles -------------------------------------------------------------------------------------


def expit(x: ArrayLike) -> Array:
    """The logistic function 1 / (1 + exp(-x)). Above 0 it is one minus the other tail, which keeps the digits of the
    derivative.

    Args:
        x: argument.

    >>> import ndgrad.array_api as xp
    >>> xp.special.expit(0.0)
    array(0.5)
    """
    t = inexact(as_array(x))
    above = comparison.gt(t, 0.0)
    tail = activation.sigmoid(where(above, -t, t))
    return where(above, 1.0 - tail, tail)


def exp10(x: ArrayLike) -> Array:
    """The power 10^x.

    Args:
        x: exponent.

    >>> import ndgrad.array_api as xp
    >>> xp.special.exp10(2.0)
    array(100.)
    """
    return arithmetic.pow(10.0, inexact(as_array(x)))


def loggamma(x: ArrayLike) -> Array:
    """The logarithm of the gamma function on its principal branch: for real numbers, NaN below zero.

    Args:
        x: argument.

    >>> import ndgrad.array_api as xp
    >>> xp.special.loggamma(5.0)
    array(3.17805383)
    """
    t = inexact(as_array(x))
    return where(comparison.lt(t, 0.0), math.nan, gamma_ops.lgamma(t))


def gammasgn(x: ArrayLike) -> Array:
    """The sign of the gamma function, constant between its poles.

    Args:
        x: argument.

    >>> import ndgrad.array_api as xp
    >>> xp.special.gammasgn(-0.5)
    array(-1.)
    """
    return constant(np.asarray(_raw("gammasgn")(values_of(inexact(as_array(x))))))


def radian(d: ArrayLike, m: ArrayLike, s: ArrayLike) -> Array:
    """Degrees, minutes and seconds in radians.

    Args:
        d: degrees.
        m: minutes.
        s: seconds.

    >>> import ndgrad.array_api as xp
    >>> xp.special.radian(180.0, 0.0, 0.0)
    array(3.14159265)
    """
    d, m, s = _floats(d, m, s)
    return (d + m / 60.0 + s / 3600.0) * (math.pi / 180)


# The inverses of Box and Cox's transforms are smooth where lmbda passes 0: log1prel(u) = log(1 + u) / u is a power
# series there.


def _inverse(x: Array, lmbda: Array) -> Array:
    """Return log(1 + lmbda x) / lmbda, the logarithm whose transform is x."""
    infinite = comparison.isinf(x)
    near = where(infinite, 0.0, x)
    level = comparison.eq(lmbda, 0.0)
    limit = where(level, x, exponential.log1p(lmbda * where(level, 1.0, x)) / where(level, 1.0, lmbda))
    return where(infinite, limit, near * transcendental.log1prel(lmbda * near))


def inv_boxcox(x: ArrayLike, lmbda: ArrayLike) -> Array:
    """The inverse of `boxcox`.

    Args:
        x: transformed number.
        lmbda: exponent of the transform.

    >>> import ndgrad.array_api as xp
    >>> xp.special.inv_boxcox(4.0, 2.0)
    array(3.)
    """
    return exponential.exp(_inverse(*_floats(x, lmbda)))


def inv_boxcox1p(x: ArrayLike, lmbda: ArrayLike) -> Array:
    """The inverse of `boxcox1p`.

    Args:
        x: transformed number.
        lmbda: exponent of the transform.

    >>> import ndgrad.array_api as xp
    >>> xp.special.inv_boxcox1p(4.0, 2.0)
    array(2.)
    """
    return exponential.expm1(_inverse(*_floats(x, lmbda)))


# ----- distances ------------------------------------------------------------------------------------------------------


def rel_entr(x: ArrayLike, y: ArrayLike) -> Array:
    """The relative entropy x log(x / y), 0 where x is 0 and y is not negative, infinity outside.

    Args:
        x: first probability.
        y: second probability.

    >>> import ndgrad.array_api as xp
    >>> xp.special.rel_entr(1.0, 0.5)
    array(0.69314718)
    """
    x, y = _floats(x, y)
    inside = _both(comparison.gt(x, 0.0), comparison.gt(y, 0.0))
    p, q = where(inside, x, 1.0), where(inside, y, 1.0)
    # Use the logarithm of the quotient if the quotient has full precision, else the difference of logarithms.
    ratio = p / q
    normal = _both(comparison.gt(ratio, 1e-300), comparison.lt(ratio, 1e300))
    log = where(normal, exponential.log(where(normal, ratio, 1.0)), exponential.log(p) - exponential.log(q))
    close = comparison.lt(complex_ops.abs(p - q), q * 0.5)
    log = where(close, exponential.log1p(where(close, p - q, 0.0) / q), log)
    border = _both(comparison.eq(x, 0.0), comparison.ge(y, 0.0))
    unknown = comparison.logical_or(comparison.isnan(x), comparison.isnan(y))
    return where(unknown, math.nan, where(inside, p * log, where(border, 0.0, math.inf)))


def kl_div(x: ArrayLike, y: ArrayLike) -> Array:
    """The term rel_entr(x, y) - x + y of the Kullback-Leibler divergence.

    Args:
        x: first probability.
        y: second probability.

    >>> import ndgrad.array_api as xp
    >>> xp.special.kl_div(1.0, 1.0)
    array(0.)
    """
    x, y = _floats(x, y)
    inside = _both(comparison.gt(x, 0.0), comparison.gt(y, 0.0))
    border = _both(comparison.eq(x, 0.0), comparison.ge(y, 0.0))
    entropy = rel_entr(x, y)
    made = where(inside, entropy - where(inside, x, 0.0) + where(inside, y, 0.0), where(border, y, entropy))
    # Near x = y the terms cancel: with d = (x - y) / y, y ((1 + d) log(1 + d) - d) = y d^2 (1/2 - d/6 + d^2/12 - ...).
    close = _both(inside, comparison.lt(complex_ops.abs(x - y), y * 0.05))
    d = where(close, x - y, 0.0) / where(close, y, 1.0)
    series = d * 0.0
    for k in range(12, -1, -1):
        series = series * d + (-1) ** k / ((k + 1) * (k + 2))
    return where(close, y * d * d * series, made)


def huber(delta: ArrayLike, r: ArrayLike) -> Array:
    """Huber's loss: r^2 / 2 up to delta, and delta (|r| - delta / 2) beyond.

    Args:
        delta: size of a residual at which the loss becomes linear.
        r: residual.

    >>> import ndgrad.array_api as xp
    >>> xp.special.huber(1.0, 2.0)
    array(1.5)
    """
    delta, r = _floats(delta, r)
    size = complex_ops.abs(r)
    made = where(comparison.le(size, delta), r * r * 0.5, delta * (size - delta * 0.5))
    return where(comparison.lt(delta, 0.0), math.inf, made)


def pseudo_huber(delta: ArrayLike, r: ArrayLike) -> Array:
    """A smooth form of Huber's loss, delta^2 (sqrt(1 + (r / delta)^2) - 1). It is computed without the difference, as
    r^2 / (sqrt(1 + (r / delta)^2) + 1).

    Args:
        delta: size of a residual around which the loss becomes linear.
        r: residual.

    >>> import ndgrad.array_api as xp
    >>> xp.special.pseudo_huber(1.0, 0.0)
    array(0.)
    """
    delta, r = _floats(delta, r)
    infinite = comparison.isinf(r)
    near = where(infinite, 0.0, r)
    ratio = near / where(comparison.le(delta, 0.0), 1.0, delta)
    made = where(infinite, math.inf, near * near / (arithmetic.sqrt(ratio * ratio + 1.0) + 1.0))
    made = where(comparison.eq(delta, 0.0), 0.0 * delta, made)
    return where(comparison.lt(delta, 0.0), math.inf, made)


# ----- distribution functions: cumulated, complementary (c), inverse (i) ----------------------------------------------


def _half(v: ArrayLike, x: ArrayLike) -> tuple[Array, Array]:
    v, x = _floats(v, x)
    return v * 0.5, x * 0.5


def _inside(made: Array, allowed: Array) -> Array:
    return where(allowed, made, math.nan)


def chdtr(v: ArrayLike, x: ArrayLike) -> Array:
    """The probability of values below x in the chi-square distribution with v degrees of freedom.

    Args:
        v: degrees of freedom.
        x: bound.

    >>> import ndgrad.array_api as xp
    >>> xp.special.chdtr(2.0, 1.0)
    array(0.39346934)
    """
    return gamma_ops.igamma(*_half(v, x))


def chdtrc(v: ArrayLike, x: ArrayLike) -> Array:
    """The probability of values above x in the chi-square distribution with v degrees of freedom.

    Args:
        v: degrees of freedom.
        x: bound.

    >>> import ndgrad.array_api as xp
    >>> xp.special.chdtrc(2.0, 1.0)
    array(0.60653066)
    """
    return gamma_ops.igammac(*_half(v, x))


def chdtri(v: ArrayLike, p: ArrayLike) -> Array:
    """The x with probability p of values above it in the chi-square distribution.

    Args:
        v: degrees of freedom.
        p: probability.

    >>> import ndgrad.array_api as xp
    >>> xp.special.chdtri(2.0, 0.5)
    array(1.38629436)
    """
    v, p = _floats(v, p)
    return distribution.igammac_inverse(v * 0.5, p) * 2.0


def gdtr(a: ArrayLike, b: ArrayLike, x: ArrayLike) -> Array:
    """The probability of values below x in the gamma distribution of rate a and shape b.

    Args:
        a: rate.
        b: shape.
        x: bound, not negative.

    >>> import ndgrad.array_api as xp
    >>> xp.special.gdtr(1.0, 1.0, 1.0)
    array(0.63212056)
    """
    a, b, x = _floats(a, b, x)
    return _inside(gamma_ops.igamma(b, a * x), comparison.ge(x, 0.0))


def gdtrc(a: ArrayLike, b: ArrayLike, x: ArrayLike) -> Array:
    """The probability of values above x in the gamma distribution of rate a and shape b.

    Args:
        a: rate.
        b: shape.
        x: bound, not negative.

    >>> import ndgrad.array_api as xp
    >>> xp.special.gdtrc(1.0, 1.0, 1.0)
    array(0.36787944)
    """
    a, b, x = _floats(a, b, x)
    return _inside(gamma_ops.igammac(b, a * x), comparison.ge(x, 0.0))


def _f_allows(n: Array, d: Array, x: Array) -> Array:
    return _both(_both(comparison.gt(n, 0.0), comparison.gt(d, 0.0)), comparison.ge(x, 0.0))


def fdtr(dfn: ArrayLike, dfd: ArrayLike, x: ArrayLike) -> Array:
    """The probability of values below x in Fisher's F distribution.

    Args:
        dfn: degrees of freedom in the numerator.
        dfd: degrees of freedom in the denominator.
        x: bound, not negative.

    >>> import ndgrad.array_api as xp
    >>> xp.special.fdtr(2.0, 2.0, 1.0)
    array(0.5)
    """
    n, d, x = _floats(dfn, dfd, x)
    small = comparison.lt(n * x, d)
    upper = distribution.betaincc(d * 0.5, n * 0.5, where(small, 0.5, d / (d + n * x)))
    return _inside(
        where(small, distribution.betainc(n * 0.5, d * 0.5, where(small, n * x / (d + n * x), 0.5)), upper),
        _f_allows(n, d, x),
    )


def fdtrc(dfn: ArrayLike, dfd: ArrayLike, x: ArrayLike) -> Array:
    """The probability of values above x in Fisher's F distribution.

    Args:
        dfn: degrees of freedom in the numerator.
        dfd: degrees of freedom in the denominator.
        x: bound, not negative.

    >>> import ndgrad.array_api as xp
    >>> xp.special.fdtrc(2.0, 2.0, 1.0)
    array(0.5)
    """
    n, d, x = _floats(dfn, dfd, x)
    # Use the smaller of the two probabilities, which has all its digits.
    small = comparison.lt(n * x, d)
    lower = distribution.betaincc(n * 0.5, d * 0.5, where(small, n * x / (d + n * x), 0.5))
    return _inside(
        where(small, lower, distribution.betainc(d * 0.5, n * 0.5, where(small, 0.5, d / (d + n * x)))),
        _f_allows(n, d, x),
    )


def fdtri(dfn: ArrayLike, dfd: ArrayLike, p: ArrayLike) -> Array:
    """The x with probability p of values below it in Fisher's F distribution.

    Args:
        dfn: degrees of freedom in the numerator.
        dfd: degrees of freedom in the denominator.
        p: probability.

    >>> import ndgrad.array_api as xp
    >>> xp.special.fdtri(2.0, 2.0, 0.5)
    array(1.)
    """
    n, d, p = _floats(dfn, dfd, p)
    # x = d/n times the ratio of the shares of numerator and denominator, computed separately: the small one has all its
    # digits.
    return (
        distribution.betainc_inverse(n * 0.5, d * 0.5, p) * d / (distribution.betaincc_inverse(d * 0.5, n * 0.5, p) * n)
    )


def _counts(k: ArrayLike, n: ArrayLike, p: ArrayLike) -> tuple[Array, Array, Array]:
    k, n, p = _floats(k, n, p)
    return rounding.floor(k), n, p


def _is_probability(p: Array) -> Array:
    return _both(comparison.ge(p, 0.0), comparison.le(p, 1.0))


def bdtr(k: ArrayLike, n: ArrayLike, p: ArrayLike) -> Array:
    """The probability of at most k successes in n trials of probability p.

    Args:
        k: number of successes, rounded down.
        n: number of trials.
        p: probability of a success.

    >>> import ndgrad.array_api as xp
    >>> xp.special.bdtr(1.0, 2.0, 0.5)
    array(0.75)
    """
    k, n, p = _counts(k, n, p)
    every = comparison.eq(k, n)
    rest = where(every, 1.0, n - k)
    made = distribution.betaincc(k + 1.0, rest, p)
    allowed = _both(_both(comparison.ge(k, 0.0), comparison.ge(n, k)), _is_probability(p))
    return _inside(where(every, 1.0 + 0.0 * p, made), allowed)


def bdtrc(k: ArrayLike, n: ArrayLike, p: ArrayLike) -> Array:
    """The probability of more than k successes in n trials of probability p.

    Args:
        k: number of successes, rounded down.
        n: number of trials.
        p: probability of a success.

    >>> import ndgrad.array_api as xp
    >>> xp.special.bdtrc(1.0, 2.0, 0.5)
    array(0.25)
    """
    k, n, p = _counts(k, n, p)
    every, before = comparison.ge(k, n), comparison.lt(k, 0.0)
    made = distribution.betainc(where(before, 1.0, k + 1.0), where(every, 1.0, n - k), p)
    made = where(before, 1.0 + 0.0 * p, where(comparison.eq(k, n), 0.0 * p, made))
    return _inside(made, _both(comparison.ge(n, k), _is_probability(p)))


def bdtri(k: ArrayLike, n: ArrayLike, y: ArrayLike) -> Array:
    """The probability of success for which bdtr is y.

    Args:
        k: number of successes, rounded down.
        n: number of trials, more than `k`.
        y: probability of at most `k` successes.

    >>> import ndgrad.array_api as xp
    >>> xp.special.bdtri(1.0, 2.0, 0.75)
    array(0.5)
    """
    k, n, y = _counts(k, n, y)
    rest = where(comparison.gt(n, k), n - k, 1.0)
    allowed = _both(comparison.ge(k, 0.0), comparison.gt(n, k))
    return _inside(distribution.betaincc_inverse(k + 1.0, rest, y), allowed)


def nbdtr(k: ArrayLike, n: ArrayLike, p: ArrayLike) -> Array:
    """The probability of at most k failures before the n-th success.

    Args:
        k: number of failures, rounded down.
        n: number of successes.
        p: probability of a success.

    >>> import ndgrad.array_api as xp
    >>> xp.special.nbdtr(1.0, 2.0, 0.5)
    array(0.5)
    """
    k, n, p = _counts(k, n, p)
    allowed = _both(comparison.ge(k, 0.0), comparison.gt(n, 0.0))
    return _inside(distribution.betainc(where(allowed, n, 1.0), where(allowed, k + 1.0, 1.0), p), allowed)


def nbdtrc(k: ArrayLike, n: ArrayLike, p: ArrayLike) -> Array:
    """The probability of more than k failures before the n-th success.

    Args:
        k: number of failures, rounded down.
        n: number of successes.
        p: probability of a success.

    >>> import ndgrad.array_api as xp
    >>> xp.special.nbdtrc(1.0, 2.0, 0.5)
    array(0.5)
    """
    k, n, p = _counts(k, n, p)
    allowed = _both(comparison.ge(k, 0.0), comparison.gt(n, 0.0))
    return _inside(distribution.betaincc(where(allowed, n, 1.0), where(allowed, k + 1.0, 1.0), p), allowed)


def nbdtri(k: ArrayLike, n: ArrayLike, y: ArrayLike) -> Array:
    """The probability of success for which nbdtr is y.

    Args:
        k: number of failures, rounded down.
        n: number of successes.
        y: probability of at most `k` failures.

    >>> import ndgrad.array_api as xp
    >>> xp.special.nbdtri(1.0, 2.0, 0.5)
    array(0.5)
    """
    k, n, y = _counts(k, n, y)
    allowed = _both(comparison.ge(k, 0.0), comparison.gt(n, 0.0))
    return _inside(distribution.betainc_inverse(where(allowed, n, 1.0), where(allowed, k + 1.0, 1.0), y), allowed)


def pdtr(k: ArrayLike, m: ArrayLike) -> Array:
    """The probability of at most k events of a Poisson distribution of mean m.

    Args:
        k: number of events, rounded down.
        m: mean, not negative.

    >>> import ndgrad.array_api as xp
    >>> xp.special.pdtr(1.0, 1.0)
    array(0.73575888)
    """
    events, m = _floats(k, m)
    events = rounding.floor(events)
    allowed = _both(comparison.ge(events, 0.0), comparison.ge(m, 0.0))
    return _inside(gamma_ops.igammac(where(allowed, events + 1.0, 1.0), where(allowed, m, 1.0)), allowed)


def pdtrc(k: ArrayLike, m: ArrayLike) -> Array:
    """The probability of more than k events of a Poisson distribution of mean m.

    Args:
        k: number of events, rounded down.
        m: mean, not negative.

    >>> import ndgrad.array_api as xp
    >>> xp.special.pdtrc(1.0, 1.0)
    array(0.26424112)
    """
    events, m = _floats(k, m)
    events = rounding.floor(events)
    allowed = _both(comparison.ge(events, 0.0), comparison.ge(m, 0.0))
    return _inside(gamma_ops.igamma(where(allowed, events + 1.0, 1.0), where(allowed, m, 1.0)), allowed)


def pdtri(k: ArrayLike, y: ArrayLike) -> Array:
    """The mean for which pdtr is y.

    Args:
        k: number of events, rounded down.
        y: probability of at most `k` events.

    >>> import ndgrad.array_api as xp
    >>> xp.special.pdtri(1.0, 0.5)
    array(1.67834699)
    """
    k, y = _floats(k, y)
    return _inside(distribution.igammac_inverse(rounding.floor(k) + 1.0, y), comparison.lt(y, 1.0))
