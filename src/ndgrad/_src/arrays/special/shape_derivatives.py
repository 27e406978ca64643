r"""Derivatives of distribution functions in their shapes: incomplete gamma and beta functions, and Student's t.

None has a closed form. All are integrals of the derivative of a density, d^n/da^n F(x; a) = the integral up to x of d^n
p(t; a)/da^n dt. log p is simple, so the integrand is p times a polynomial in the derivatives of log p (Bell's; here by
the recurrence of `derivatives`). In a variable u in which p falls exponentially on both sides (log t, logit t, arsinh
t) the double exponential rule

    integral over d > 0 of f(d) dd  =  h sum over k of f(w / lambda) w' / lambda,   w = exp(s - exp(-s)),  s = k h,

gives nearly all digits, if 1 / lambda is the length over which p falls. The derivative of the whole integral is zero,
so the integral may be taken over either tail. The tail without the peak is used, so that relative accuracy holds far
out in it.

The number of terms is fixed, so the cost does not depend on values. Arithmetic is in float64.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from itertools import product
from typing import TYPE_CHECKING, Any

import numpy as np

from ndgrad._src.arrays.special_source import special

if TYPE_CHECKING:
    from ndgrad._typing import Payload

Array = Any

_STEP = 0.05
_S = np.arange(-3.75, 4.5, _STEP)
TAIL_NODES = np.exp(_S - np.exp(-_S))
TAIL_WEIGHTS = _STEP * TAIL_NODES * (1 + np.exp(-_S))
#: Elements processed together: the temporaries of all nodes stay in the cache.
_BLOCK = 2048
#: Power series are summed up to here.
_SERIES_END = 60.0


def polygamma(order: int, x: Array) -> Array:
    if order == 0:
        return special("psi")(x)
    return (-1) ** (order + 1) * math.factorial(order) * special("zeta")(order + 1.0, x)


def derivatives(first: Callable[[tuple[int, ...]], Any], orders: tuple[int, ...]) -> Any:
    """Return d^orders exp(l) / exp(l) from the derivatives of l: `first` gives the derivative of each nonzero
    multi-index.

    It follows from (e^l)' = l' e^l, differentiated by Leibniz's rule.
    """
    known: dict[tuple[int, ...], Any] = {(0,) * len(orders): 1.0}

    def find(index: tuple[int, ...]) -> Any:
        if index not in known:
            axis = next(i for i, n in enumerate(index) if n)
            rest = tuple(n - (i == axis) for i, n in enumerate(index))
            total: Any = 0.0
            for part in product(*(range(n + 1) for n in rest)):
                count = math.prod(math.comb(n, k) for n, k in zip(rest, part, strict=True))
                inner = first(tuple(k + (i == axis) for i, k in enumerate(part)))
                total = total + inner * find(tuple(n - k for n, k in zip(rest, part, strict=True))) * float(count)
            known[index] = total
        return known[index]

    return find(orders)


def _apply_in_blocks(function: Callable[..., Array], *arguments: Array) -> Array:
    """Apply a function of flat float64 arrays to arrays that broadcast, some thousand elements at a time."""
    spread = np.broadcast_arrays(*(np.asarray(a, np.float64) for a in arguments))
    shape = spread[0].shape
    flat = [a.reshape(-1) for a in spread]
    out = np.empty(flat[0].size)
    with np.errstate(all="ignore"):
        for start in range(0, out.size, _BLOCK):
            part = slice(start, start + _BLOCK)
            out[part] = function(*(a[part] for a in flat))
    return out.reshape(shape)


def _tail(density: Callable[[Array], Array], slope: Array, curvature: Array, left: Array, least: Array) -> Array:
    """Return the integral over a tail, as a function of the distance from its start, where log p has a slope and a
    curvature.

    `least` bounds the rate of decay: in the end p falls at that rate, and not faster.
    """
    rate = np.minimum(np.maximum(np.abs(slope), np.sqrt(curvature)), least)
    distance = TAIL_NODES[:, None] / rate
    values = density(np.where(left, -distance, distance))
    return (TAIL_WEIGHTS @ np.where(np.isfinite(values), values, 0.0)) / rate


def _stirling_rest(a: Array) -> Array:
    """Return lgamma(a) - ((a - 1/2) log a - a + log(2 pi)/2)."""
    far = np.where(a < 10, 10.0, a)
    r = 1 / (far * far)
    series = (
        1 / 12 - r * (1 / 360 - r * (1 / 1260 - r * (1 / 1680 - r * (1 / 1188 - r * (691 / 360360 - r / 156)))))
    ) / far
    near = np.where(a < 10, a, 1.0)
    return np.where(
        a < 10, special("gammaln")(near) - (near - 0.5) * np.log(near) + near - 0.5 * math.log(2 * math.pi), series
    )


# ----- incomplete gamma -----------------------------------------------------------------------------------------------


def gammainc_shape(a: Array, x: Array, order: int) -> Array:
    """Return the derivative of P(a, x) in a, of order 1 or more."""
    return _apply_in_blocks(lambda a, x: _gamma(a, x, order, ratio=False), a, x)


def gammainc_shape_ratio(a: Array, x: Array, order: int) -> Array:
    """Return the same divided by x p(x), the density of log x: a quotient that neither overflows nor underflows."""
    return _apply_in_blocks(lambda a, x: _gamma(a, x, order, ratio=True), a, x)


def _gamma(a: Array, x: Array, order: int, ratio: bool) -> Array:
    good = (a > 0) & (x > 0) & np.isfinite(x) & np.isfinite(a)
    a, y = np.where(good, a, 1.0), np.where(good, x, 0.5)
    # The power series is much faster, but a difference of large numbers on the right of the peak, and it needs about x
    # terms. On the tail, for x above 1, log t is of the order of the density's width.
    near = y <= np.minimum(a + 3 * np.sqrt(a) + 2, _SERIES_END)
    out = np.empty_like(y)
    for part, function in ((near, _gamma_series), (~near, _gamma_tail)):
        if part.any():
            out[part] = function(a[part], y[part], order, ratio)
    return np.where(good, out, np.where((a > 0) & (x >= 0), 0.0, math.nan))


def _gamma_series(a: Array, x: Array, order: int, ratio: bool) -> Array:
    """Return P = x^a e^-x / gamma(a + 1) (1 + x/(a+1) + x^2/((a+1)(a+2)) + ...), term by term.

    Each term is a polynomial in the change of a.
    """
    term = [np.ones_like(x), *(np.zeros_like(x) for _ in range(order))]
    total = [t.copy() for t in term]
    most = float(np.max(x))
    inverse, quotient, before = np.empty_like(x), np.empty_like(x), np.empty_like(x)
    for k in range(1, int(most + 9 * math.sqrt(most)) + 25):
        np.reciprocal(np.add(a, k, out=inverse), out=inverse)
        np.multiply(x, inverse, out=quotient)
        for j in range(order + 1):  # division by (a + k + e), one power of e after the other
            term[j] *= quotient
            if j:
                term[j] -= np.multiply(term[j - 1], inverse, out=before)
            total[j] += term[j]
        if k % 8 == 0 and all(np.all(np.abs(t) <= 1e-18 * np.abs(s)) for t, s in zip(term, total)):
            break
    exponent = {0: a * np.log(x) - x - special("gammaln")(a + 1)}
    for k in range(1, order + 1):
        exponent[k] = (np.log(x) if k == 1 else 0.0) - polygamma(k - 1, a + 1)
    outer = [derivatives(lambda index: exponent[index[0]], (k,)) for k in range(order + 1)]
    # Leibniz's rule; total[j] is the j-th derivative over j!.
    made = sum(math.comb(order, k) * outer[k] * total[order - k] * math.factorial(order - k) for k in range(order + 1))
    return made / a if ratio else np.exp(exponent[0]) * made


def _gamma_tail(a: Array, x: Array, order: int, ratio: bool) -> Array:
    """Integrate over u = log t, at the distance d from log a: log p = a (d - expm1(d)) + const(a)."""
    left = x < a
    start = np.where(np.abs(x - a) < 0.5 * a, np.log1p((x - a) / a), np.log(x / a))
    constant = a * (np.expm1(start) - start) if ratio else 0.5 * np.log(a / (2 * math.pi)) - _stirling_rest(a)
    # 1 / gamma(a) is a / gamma(a + 1), whose derivatives do not cancel for small a.
    rates = [np.log(a) - polygamma(0, a + 1), *(-polygamma(k, a + 1) for k in range(1, order))]

    def density(distance: Array) -> Array:
        d = start + distance
        bells = [
            derivatives(lambda index: d + rates[0] if index[0] == 1 else rates[index[0] - 1], (k,))
            for k in (order - 1, order)
        ]
        return np.exp(a * (d - np.expm1(d)) + constant) * (bells[1] + bells[0] * (order / a))

    found = _tail(density, a - x, x, left, np.where(left, a, math.inf))
    return np.where(left, found, -found)


# ----- incomplete beta ------------------------------------------------------------------------------------------------


def betainc_shape(a: Array, b: Array, x: Array, orders: tuple[int, int]) -> Array:
    """Return the derivative of I_x(a, b) in a and b of the given orders; the total order is at least 1."""
    return _apply_in_blocks(lambda a, b, x: _beta(a, b, x, orders, ratio=False), a, b, x)


def betainc_shape_ratio(a: Array, b: Array, x: Array, orders: tuple[int, int]) -> Array:
    """Return the same divided by x (1 - x) p(x), the density of logit x."""
    return _apply_in_blocks(lambda a, b, x: _beta(a, b, x, orders, ratio=True), a, b, x)


def _beta(a: Array, b: Array, x: Array, orders: tuple[int, int], ratio: bool) -> Array:
    valid = (a > 0) & (b > 0) & np.isfinite(a) & np.isfinite(b) & (x >= 0) & (x <= 1)
    good = valid & (x > 0) & (x < 1)
    a, b, x = np.where(good, a, 1.0), np.where(good, b, 1.0), np.where(good, x, 0.5)
    # The power series is much faster. It converges if x is not close to 1, and is a difference of large numbers if the
    # density has fallen on the right of its peak. I_x(a, b) = 1 - I_(1-x)(b, a), so it may be that of 1 - x.
    c = a + b
    on_left = x * c <= a
    high = a * np.log(x * c / a) + b * (np.log1p(-x) + np.log(c / b)) > -3
    few = c <= _SERIES_END
    straight, turned = few & (x < 0.55) & (on_left | high), few & (x > 0.45) & (~on_left | high)
    turned &= ~straight | ~on_left
    out = np.empty_like(x)
    for part, at_0 in ((straight & ~turned, True), (turned, False)):
        if part.any():
            shapes = (a[part], b[part], x[part])
            made = _beta_series(*shapes, orders) if at_0 else -_beta_series(b[part], a[part], 1 - x[part], orders[::-1])
            out[part] = made if ratio else made * _logit_density(*shapes)
    rest = ~(straight | turned)
    if rest.any():
        out[rest] = _beta_tail(a[rest], b[rest], x[rest], orders, ratio)
    return np.where(good, out, np.where(valid, 0.0, math.nan))


def _log_beta_constant(a: Array, b: Array) -> Array:
    """Return log(a^a b^b / (c^c B(a, b))) for c = a + b, by Stirling's series."""
    c = a + b
    return 0.5 * np.log(a * b / (c * 2 * math.pi)) + _stirling_rest(c) - _stirling_rest(a) - _stirling_rest(b)


def _logit_density(a: Array, b: Array, x: Array) -> Array:
    """Return x^a (1 - x)^b / B(a, b)."""
    c = a + b
    return np.exp(a * np.log(x * c / a) + b * (np.log1p(-x) + np.log(c / b)) + _log_beta_constant(a, b))


def _beta_log_derivatives(
    a: Array, b: Array, log_t: Array, log_other: Array
) -> Callable[[tuple[int, ...]], Array]:
    """Return a function for the derivatives of log p in a and b, as `derivatives` needs them."""
    known: dict[tuple[int, int], Array] = {}

    def gammas(which: int, k: int) -> Array:
        if (which, k) not in known:
            known[which, k] = polygamma(k, (a, b, a + b)[which])
        return known[which, k]

    def first(index: tuple[int, ...]) -> Array:
        i, j = index
        shared = gammas(2, i + j - 1)
        if i and j:
            return shared
        own = gammas(0 if i else 1, i + j - 1)
        return (log_t if i else log_other) - own + shared if i + j == 1 else shared - own

    return first


def _beta_series(a: Array, b: Array, x: Array, orders: tuple[int, int]) -> Array:
    """Return I = x^a (1-x)^b / B S / a with S = 1 + (a+b)/(a+1) x + (a+b)(a+b+1)/((a+1)(a+2)) x^2 + ..., term by term.

    Each term is a polynomial in the changes e and f of a and b. The result is divided by the density of logit x, which
    is the factor before S / a.
    """

    def divide(polynomial: Array, by: Array) -> Array:
        """Divide a polynomial by `by` + e, one power of e after the other."""
        made = np.empty_like(polynomial)
        before: Any = 0.0
        for i, coefficients in enumerate(polynomial):
            before = made[i] = (coefficients - before) / by
        return made

    term = np.zeros((orders[0] + 1, orders[1] + 1, *x.shape))  # the coefficients of e^i f^j
    term[0, 0] = 1.0
    total = term.copy()
    for k in range(2000):
        raised = (a + b + k) * term
        raised[1:] += term[:-1]
        raised[:, 1:] += term[:, :-1]
        raised *= x
        term = divide(raised, a + 1 + k)
        total += term
        if k % 8 == 7 and np.all(term[0, 0] <= 1e-18 * total[0, 0]):
            break
    whole = divide(total, a)
    first = _beta_log_derivatives(a, b, np.log(x), np.log1p(-x))
    made: Array = 0.0
    # Leibniz's rule; a coefficient is a derivative divided by the factorials of its orders.
    for i, j in np.ndindex(whole.shape[:2]):
        rest = orders[0] - i, orders[1] - j
        count = math.comb(orders[0], i) * math.comb(orders[1], j) * math.factorial(i) * math.factorial(j)
        made = made + count * derivatives(first, rest) * whole[i, j]
    return made


def _beta_tail(a: Array, b: Array, x: Array, orders: tuple[int, int], ratio: bool) -> Array:
    """Integrate over u = logit t, at the distance d from the peak t0 = a / (a + b).

    There log p = a d - (a + b) log1p(t0 expm1(d)) + const.
    """
    c = a + b
    peak = a / c
    start = np.log(x / a) - np.log1p(-x) + np.log(b)
    slope, middle = a - c * x, x > 0.5
    # A tail that is level at its start and passes the middle has a corner there; the other tail has none.
    left = np.where(np.abs(slope) < 0.5, ~middle, slope > 0)
    if ratio:  # exp(constant) is then 1 / (the density at x)
        constant = c * np.where(start > 700, start + np.log(peak), np.log1p(peak * np.expm1(start))) - a * start
    else:
        constant = _log_beta_constant(a, b)
    log_t_of, log_other_of = np.log(peak), np.log(b / c)

    def density(distance: Array) -> Array:
        d = start + distance
        rest = np.log1p(peak * np.expm1(d))
        far = d > 700  # expm1 overflows: log1p(t0 expm1(d)) is d + log(t0)
        rest = np.where(far, d + np.log(peak), rest)
        first = _beta_log_derivatives(a, b, d + log_t_of - rest, log_other_of - rest)
        return np.exp(a * d - c * rest + constant) * derivatives(first, orders)

    found = _tail(density, slope, c * x * (1 - x), left, np.where(left, a, b))
    return np.where(left, found, -found)


# ----- Student's t ----------------------------------------------------------------------------------------------------


def student_shape(df: Array, t: Array, order: int) -> Array:
    """Return the derivative of Student's distribution function in the degrees of freedom, of order 1 or more."""
    return _apply_in_blocks(lambda df, t: _student(df, t, order), df, t)


def student_log_density(df: Payload, keep: Any, log_keep: Any, order: int, gammas: Any) -> Any:
    """Return the derivative of log p in df of the given order, for keep = df / (df + t^2).

    `gammas(k, s)` is polygamma(k, (df + s) / 2). log p = lgamma((v+1)/2) - lgamma(v/2) - log(pi v)/2 + (v+1)/2 f with f
    = log v - log(v + t^2) = log(keep), whose k-th derivative is f_k = (-1)^(k-1) (k-1)! (1 - keep^k) / v^k; that of the
    product is (v+1)/2 f_k + k/2 f_(k-1).
    """
    k = order
    sign = (-1.0) ** (k - 1) * math.factorial(k - 1)
    power = df ** -float(k)
    total = (gammas(k - 1, 1) - gammas(k - 1, 0)) * 0.5**k - power * (0.5 * sign)
    total = total + (df + 1.0) * (0.5 * sign) * (1.0 - keep ** float(k)) * power
    if k == 1:
        return total + 0.5 * log_keep
    before = 0.5 * k * (-1.0) ** (k - 2) * math.factorial(k - 2)
    return total + (1.0 - keep ** float(k - 1)) * (before * df ** -float(k - 1))


_NODES, _NODE_WEIGHTS = np.polynomial.legendre.leggauss(24)


def _student(df: Array, t: Array, order: int) -> Array:
    """Integrate over u = arsinh(t / sqrt(df)): log(p dt/du) = -df log cosh(u) + const, keep = 1 / cosh(u)^2.

    Here t = sqrt(df) sinh(u). The integral from 0 to t is minus that from t on, by symmetry. It is more accurate for
    small t.
    """
    valid = (df > 0) & ~np.isnan(t)
    good = valid & np.isfinite(t) & np.isfinite(df)
    v, t = np.where(good, df, 1.0), np.where(good, t, 0.0)
    start = np.arcsinh(np.abs(t) / np.sqrt(v))
    half = 0.5 * v
    # log(gamma((v+1)/2) / (gamma(v/2) sqrt(pi))).
    constant = (
        half * np.log1p(0.5 / half) - 0.5 + 0.5 * np.log(half) + _stirling_rest(half + 0.5) - _stirling_rest(half)
    )
    constant = constant - 0.5 * math.log(math.pi)
    found_before = {(k, s): polygamma(k, (v + s) * 0.5) for k in range(order) for s in (0, 1)}

    def density(u: Array) -> Array:
        log_cosh = np.abs(u) + np.log1p(np.exp(-2 * np.abs(u))) - math.log(2.0)
        log_keep = -2 * log_cosh
        keep = np.exp(log_keep)
        bell = derivatives(
            lambda index: student_log_density(v, keep, log_keep, index[0], lambda k, s: found_before[k, s]), (order,)
        )
        return np.exp(constant - v * log_cosh) * bell

    flat = np.zeros(t.shape, bool)
    tail = _tail(lambda d: density(start + d), v * np.tanh(start), v / np.cosh(np.minimum(start, 300.0)) ** 2, flat, v)
    near = start * np.sqrt(v + 1) < 1
    inner = np.where(near, start, 0.0)
    body = (_NODE_WEIGHTS @ density(inner * (0.5 * (_NODES[:, None] + 1)))) * (0.5 * inner)
    found = np.where(near, -body, tail)
    found = np.where(t > 0, -found, found)
    # With many degrees of freedom the density hardly changes with them, and its change is a small difference.
    many = (v > 1e3) & (t**4 < 0.04 * v)
    found = np.where(many, _nearly_normal(np.where(many, v, 1e3), np.where(many, t, 0.0), order), found)
    return np.where(good, found, np.where(valid, 0.0, math.nan))


#: Polynomials t, t^3, ...: the coefficients of 1 / v^k in the expansion of (normal - Student's distribution function) /
#: normal density (Fisher).
_FISHER = (
    np.array([1.0, 1.0]) / 4,
    np.array([-3.0, -5.0, -7.0, 3.0]) / 96,
    np.array([-15.0, -3.0, 6.0, 14.0, -11.0, 1.0]) / 384,
    np.array([945.0, -915.0, -213.0, -939.0, -2141.0, 2225.0, -375.0, 15.0]) / 92160,
)


def _nearly_normal(v: Array, t: Array, order: int) -> Array:
    """Return the derivative in v of that expansion, term by term. Each term is smaller by t^4 / 4v."""
    total = np.zeros_like(v)
    for k, coefficients in enumerate(_FISHER, 1):
        rising = math.prod(range(k, k + order))
        total = total + (-1) ** order * rising * v ** -float(k + order) * np.polynomial.polynomial.polyval(
            t * t, coefficients
        )
    return -np.exp(-0.5 * t * t) / math.sqrt(2 * math.pi) * t * total
