r"""Special functions that SciPy has and torch lacks: gamma quotients, exponential integrals, quotients by x, angles in
degrees, elliptic, hypergeometric and Legendre functions.

The constraint: values are SciPy's, and derivatives of every order keep their digits if the closed form is a quotient of
two terms that vanish together. In that case the order is a setting: a power series is used near the point, and a
recurrence elsewhere.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

import numpy

from ndgrad._src.arrays.scalar_operands import as_operands
from ndgrad._src.arrays.special_source import cast_to_promoted
from ndgrad._src.ops.error_function import _special
from ndgrad._src.ops.gamma import digamma_rise, make_like, no_derivative, real_function, run_on_host
from ndgrad._src.ops.table import elementwise

if TYPE_CHECKING:
    from ndgrad._typing import Library, Payload, Vocabulary

# ----- gamma functions and their quotients ----------------------------------------------------------------------------

gamma_function = elementwise(
    "gamma_function", real_function("gamma"),
    x=lambda t, x, out, ops: t * (out * ops.digamma(x)),
    inplace=False,
)  # fmt: skip


def _rgamma_slope(x: Payload, ops: Vocabulary) -> Payload:
    """Return the slope of 1/gamma. Below 1/2, 1/gamma(x) = sin(pi x) gamma(1 - x) / pi, whose derivative holds at the
    poles too.
    """
    left = x < 0.5
    low, high = ops.where(left, x, 0.25), ops.where(left, 0.75, x)
    mirrored = ops.gamma_function(1.0 - low)
    below = mirrored * (ops.cos(low * math.pi) - ops.sin(low * math.pi) * ops.digamma(1.0 - low) * (1 / math.pi))
    return ops.where(left, below, -ops.rgamma(high) * ops.digamma(high))


rgamma = elementwise("rgamma", real_function("rgamma"), x=lambda t, x, ops: t * _rgamma_slope(x, ops), inplace=False)


def _poch_x(t: Payload, x: Payload, m: Payload, out: Payload, ops: Vocabulary) -> Payload:
    """Return the derivative in x. At the poles of gamma(x) it uses gamma(x + m) / gamma(x), where 1/gamma is smooth.

    If x + m is a pole too, the mirrored formula is used.
    """
    x, m = make_like(x, m, ops), make_like(m, x, ops)
    top = x + m
    left, up = x <= 0, top > 0
    both, one = left & (top <= 0) & (m % 1 == 0), left & up
    plain, mirrored = ops.where(left & (both | one), 1.0, x), ops.where(both, 1.0 - x, 2.0)
    rise = digamma_rise(plain, ops.where(both | one, 0.0, m), ops)
    fall = -digamma_rise(mirrored, ops.where(both, -m, 0.0), ops)
    high, low = ops.where(one, top, 1.0), ops.where(one, x, 1.0)
    split = ops.gamma_function(high) * (ops.digamma(high) * ops.rgamma(low) + _rgamma_slope(low, ops))
    return t * ops.where(one, split, out * ops.where(both, -fall, rise))


# gamma(x + m) / gamma(x).
poch = elementwise(
    "poch", real_function("poch"), args="x m",
    x=_poch_x,
    m=lambda t, x, m, out, ops: t * (out * ops.digamma(x + m)),
    inplace=False,
)  # fmt: skip


def _binom_change(t: Payload, x: Payload, k: Any, out: Payload, ops: Vocabulary, of_k: bool) -> Payload:
    r"""Differentiate gamma(x + 1) / gamma(k + 1) / gamma(x - k + 1) = B(x + 1, m) sin(pi m) / pi with m = k - x.

    The right side also holds if x - k + 1 is a pole of gamma, where the coefficient is 0. Replacing k by j = x - k
    gives the same number, which covers k below 0.
    """
    x, k = make_like(x, k, ops), make_like(k, x, ops)
    above, below = (k - x > 0.5) & (x > -1.0), (k < -0.5) & (x > -1.0)
    mirrored = above | below
    inner, upper = ops.where(mirrored, 1.0, k), ops.where(mirrored, 2.0, x)
    slope = (
        ops.digamma(upper - inner + 1.0) - ops.digamma(inner + 1.0) if of_k else -digamma_rise(upper + 1.0, -inner, ops)
    )
    n, m = ops.where(mirrored, x + 1.0, 1.0), ops.where(above, k - x, ops.where(below, -k, 1.0))
    size = ops.exp(ops.betaln(n, m)) * (1 / math.pi)
    sine, turned = ops.sin(m * math.pi), ops.cos(m * math.pi) * math.pi
    # d/dm = (digamma(m) - digamma(n + m)) sin + pi cos, d/dn = (digamma(n) - digamma(n + m)) sin.
    along_m = -digamma_rise(m, n, ops) * sine + turned
    along_n = -digamma_rise(n, m, ops) * sine
    found = ops.where(above, along_m if of_k else along_n - along_m, -along_m if of_k else along_n)
    return t * ops.where(mirrored, size * found, out * slope)


# The binomial coefficient of real arguments, gamma(x + 1) / gamma(k + 1) / gamma(x - k + 1).
binom = elementwise(
    "binom", real_function("binom"), args="x k",
    x=lambda t, x, k, out, ops: _binom_change(t, x, k, out, ops, of_k=False),
    k=lambda t, x, k, out, ops: _binom_change(t, x, k, out, ops, of_k=True),
    inplace=False,
)  # fmt: skip

# ----- powers minus one, and Box-Cox transforms -----------------------------------------------------------------------

powm1 = elementwise(
    "powm1", real_function("powm1"), args="x y",
    x=lambda t, x, y: t * (y * x ** (y - 1.0)),
    y=lambda t, x, y, ops: t * ops.xlogy(x**y, x),
    inplace=False,
)  # fmt: skip


def _boxcox(np: Library, log: Any, lmbda: Any) -> Payload:
    """Return (exp(lmbda log) - 1) / lmbda. For log = -inf it is -1 / lmbda on one side of 0 and infinite on the
    other.
    """
    log, lmbda = np.broadcast_arrays(log, lmbda)
    with numpy.errstate(all="ignore"):
        infinite = np.isinf(log)
        finite = np.where(infinite, 0.0, log).astype(np.result_type(log, lmbda))
        limit = np.where(
            lmbda * np.sign(log) < 0, -1.0 / np.where(lmbda == 0, 1.0, lmbda), np.where(np.isnan(lmbda), lmbda, log)
        )
        return np.where(infinite, limit, finite * _exprel(np, lmbda * finite, order=0)).astype(finite.dtype)


def _boxcox_of(np: Library, x: Payload, lmbda: Any) -> Payload:
    x, lmbda = as_operands(np, x, lmbda)
    with numpy.errstate(all="ignore"):
        return _boxcox(np, np.log(x), lmbda)


def _boxcox1p_of(np: Library, x: Payload, lmbda: Any) -> Payload:
    x, lmbda = as_operands(np, x, lmbda)
    with numpy.errstate(all="ignore"):
        return _boxcox(np, np.log1p(x), lmbda)


def _boxcox_change(log: Any, lmbda: Any, ops: Vocabulary) -> Payload:
    """Return d/dlmbda of (exp(lmbda log) - 1) / lmbda: log^2 times the derivative of exprel.

    For log(0) it is the limit, 1 / lmbda^2.
    """
    infinite = (log == -math.inf) & (lmbda > 0)
    finite = ops.where(infinite, 0.0, log)
    return ops.where(
        infinite, ops.where(infinite, lmbda, 1.0) ** -2.0, finite * finite * ops.exprel(lmbda * finite, order=1)
    )


# (x^lmbda - 1) / lmbda, and log(x) for lmbda = 0.
boxcox = elementwise(
    "boxcox", _boxcox_of, args="x lmbda",
    x=lambda t, x, lmbda: t * x ** (lmbda - 1.0),
    lmbda=lambda t, x, lmbda, ops: t * _boxcox_change(ops.log(make_like(x, lmbda, ops)), make_like(lmbda, x, ops), ops),
    inplace=False, memory_order="C",
)  # fmt: skip

# boxcox(1 + x, lmbda).
boxcox1p = elementwise(
    "boxcox1p", _boxcox1p_of, args="x lmbda",
    x=lambda t, x, lmbda: t * (x + 1.0) ** (lmbda - 1.0),
    lmbda=lambda t, x, lmbda, ops: t
        * _boxcox_change(ops.log1p(make_like(x, lmbda, ops)), make_like(lmbda, x, ops), ops),
    inplace=False, memory_order="C",
)  # fmt: skip

# ----- quotients by x -------------------------------------------------------------------------------------------------


def _quotient(
    np: Library,
    x: Payload,
    order: int,
    plain: Callable[..., Any],
    change: Callable[..., Any],
    term: Callable[[int], float],
    limit: float,
) -> Payload:
    r"""Return the derivative of f(x) = h(x) / x, h(0) = 0, of the given order, with its limit at infinity.

    From x f = h follows x f_n + n f_(n-1) = h_n, a recurrence that loses digits if x is small. There f_n is the series
    sum_k (k + n)! / k! c_(k+n) x^k with f = sum_k c_k x^k.
    """
    wide = x.astype(np.float64)
    near = np.abs(wide) < 0.25
    small, far = np.where(near, wide, 0.0), np.where(near, 1.0, wide)
    series = np.zeros_like(wide)
    for k in range(28, -1, -1):
        series = series * small + math.perm(k + order, order) * term(k + order)
    value = plain(np, far) / far
    for n in range(1, order + 1):
        value = (change(np, far, n) - n * value) / far
    made = np.where(near, series, np.where(far == math.inf, limit, value))
    return made if x.dtype.kind in "biu" else made.astype(x.dtype)


def _exprel(np: Library, x: Payload, *, order: int) -> Payload:
    if x.dtype.kind == "c":
        raise NotImplementedError(
            f"exprel() is not implemented for complex numbers, but got {x.dtype}. Apply it to a real tensor. "
            "[nd-complex]"
        )
    with numpy.errstate(over="ignore", invalid="ignore"):
        return _quotient(
            np,
            x,
            order,
            lambda np, v: np.expm1(v),
            lambda np, v, n: np.exp(v),
            lambda k: 1 / math.factorial(k + 1),
            math.inf,
        )


# (exp(x) - 1) / x.
exprel = elementwise(
    "exprel", _exprel, settings={"order": 0},
    x=lambda t, x, order, ops: t * ops.exprel(x, order=order + 1),
    inplace=False,
)  # fmt: skip


def _log1prel(np: Library, x: Payload, *, order: int) -> Any:
    if x.dtype.kind == "c":
        raise NotImplementedError(
            f"log1prel() is not implemented for complex numbers, but got {x.dtype}. Apply it to a real tensor. "
            "[nd-complex]"
        )

    def change(np: Library, v: Payload, n: int) -> Payload:
        return (-1) ** (n - 1) * math.factorial(n - 1) * (1.0 + v) ** -n

    with numpy.errstate(divide="ignore", invalid="ignore"):
        return _quotient(np, x, order, lambda np, v: np.log1p(v), change, lambda k: (-1) ** k / (k + 1), 0.0)


# log(1 + x) / x.
log1prel = elementwise(
    "log1prel", _log1prel, settings={"order": 0},
    x=lambda t, x, order, ops: t * ops.log1prel(x, order=order + 1),
    inplace=False,
)  # fmt: skip

cosm1 = elementwise("cosm1", real_function("cosm1"), x=lambda t, x, ops: t * -ops.sin(x), inplace=False)

# Spence's function, the integral of log(t) / (1 - t) from 1 to x.
spence = elementwise("spence", real_function("spence"), x=lambda t, x, ops: t * -ops.log1prel(x - 1.0), inplace=False)

# ----- angles in degrees ----------------------------------------------------------------------------------------------

_DEGREE = math.pi / 180

sindg = elementwise("sindg", real_function("sindg"), x=lambda t, x, ops: t * (ops.cosdg(x) * _DEGREE), inplace=False)
cosdg = elementwise("cosdg", real_function("cosdg"), x=lambda t, x, ops: t * (ops.sindg(x) * -_DEGREE), inplace=False)
tandg = elementwise("tandg", real_function("tandg"), x=lambda t, out: t * ((out * out + 1.0) * _DEGREE), inplace=False)
cotdg = elementwise("cotdg", real_function("cotdg"), x=lambda t, out: t * ((out * out + 1.0) * -_DEGREE), inplace=False)

# ----- exponential integrals ------------------------------------------------------------------------------------------

expi = elementwise("expi", real_function("expi"), x=lambda t, x, ops: t * (ops.exp(x) / x), inplace=False)
exp1 = elementwise("exp1", real_function("exp1"), x=lambda t, x, ops: t * -(ops.exp(-x) / x), inplace=False)


def _expn(np: Library, n: Any, x: Payload) -> Payload:
    """Return E_n(x) for integer n. SciPy covers n >= 0; below, E_n(x) = x^(n-1) gamma(1 - n) Q(1 - n, x)."""
    order, at = np.broadcast_arrays(np.asarray(n), np.asarray(x))
    below = order < 0
    if not below.any():
        return cast_to_promoted(_special(np, "expn")(order, at), (n, x))
    shape = np.where(below, 1.0 - order, 1.0)
    with numpy.errstate(all="ignore"):
        left = at**-shape * _special(np, "gamma")(shape) * _special(np, "gammaincc")(shape, at)
    return cast_to_promoted(np.where(below, left, _special(np, "expn")(np.where(below, 0, order), at)), (n, x))


expn = elementwise(
    "expn", _expn, args="k x",
    k=lambda t: no_derivative("expn", "n"),
    x=lambda t, k, x, ops: t * -ops.expn(k - 1, x),
    inplace=False, memory_order="C",
)  # fmt: skip

# ----- the complete elliptic integral ---------------------------------------------------------------------------------


def _ellipkm1(np: Library, p: Any, *, order: int) -> Payload:
    """Return the derivative of K(1 - p) of the given order, K the complete elliptic integral of parameter m = 1 - p.

    K is the integral of the first kind, K = pi/2 F(1/2, 1/2; 1; m), so near m = 0 its series is differentiated.
    Elsewhere the first derivative is Carlson's integral, dK/dm = R_D(0, 1, p) / 6. The differential equation, which is
    the same in m and in p, gives the higher ones:
        m p K_(n+2) + (n + 1) (1 - 2p) K_(n+1) - (n + 1/2)^2 K_n = 0   (derivatives in p).
    """
    import scipy.special as functions

    wide = np.asarray(p, np.float64)
    if order == 0:
        return functions.ellipkm1(wide)
    near = np.abs(1.0 - wide) < 0.125
    far = np.where(near, 0.5, wide)
    before, value = functions.ellipkm1(far), functions.elliprd(0.0, 1.0, far) / -6
    for n in range(order - 1):
        before, value = value, ((n + 0.5) ** 2 * before - (n + 1) * (1.0 - 2.0 * far) * value) / (far * (1.0 - far))
    small = np.where(near, 1.0 - wide, 0.0)
    series = np.zeros_like(wide)
    for k in range(24, -1, -1):
        coefficient = math.pi / 2 * (math.comb(2 * (k + order), k + order) / 4 ** (k + order)) ** 2
        series = series * small + math.perm(k + order, order) * coefficient
    return np.where(near, (-1) ** order * series, value)


ellipkm1 = elementwise(
    "ellipkm1", lambda np, x, *, order: run_on_host(np, "ellipkm1", lambda x: _ellipkm1(numpy, x, order=order), x),
    settings={"order": 0},
    x=lambda t, x, order, ops: t * ops.ellipkm1(x, order=order + 1),
    inplace=False,
)  # fmt: skip

ellipk = elementwise(
    "ellipk", real_function("ellipk"), x=lambda t, x, ops: t * -ops.ellipkm1(1.0 - x, order=1), inplace=False
)

# ----- functions of three arguments, and Bessel functions of integer order --------------------------------------------

# Kummer's confluent hypergeometric function.
hyp1f1 = elementwise(
    "hyp1f1", real_function("hyp1f1"), args="a b x",
    a=lambda t: no_derivative("hyp1f1", "a"),
    b=lambda t: no_derivative("hyp1f1", "b"),
    x=lambda t, a, b, x, ops: t * (ops.hyp1f1(a + 1.0, b + 1.0, x) * (a / b)),
    inplace=False,
)  # fmt: skip

# The associated Legendre function of integer order k and real degree v, on -1 < x < 1.
lpmv = elementwise(
    "lpmv", real_function("lpmv"), args="k v x",
    k=lambda t: no_derivative("lpmv", "m"),
    v=lambda t: no_derivative("lpmv", "v"),
    x=lambda t, k, v, x, out, ops: t * ((v * x * out - (v + k) * ops.lpmv(k, v - 1.0, x)) / (x * x - 1.0)),
    inplace=False,
)  # fmt: skip

# The Bessel function of the second kind of integer order.
yn = elementwise(
    "yn", real_function("yn"), args="k x",
    k=lambda t: no_derivative("yn", "n"),
    x=lambda t, k, x, ops: t * ((ops.yn(k - 1, x) - ops.yn(k + 1, x)) * 0.5),
    inplace=False,
)  # fmt: skip
