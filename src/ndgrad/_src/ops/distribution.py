"""Distribution functions with shape parameters, and their inverses: beta, Student's t, and the quantiles of gamma.

The constraint: derivatives in shape parameters are integrals (arrays.special.shape_derivatives). So each function has a
companion op, its derivative of a given order in the shapes. The companion's own derivatives are the next order and a
density. An inverse is differentiated at its result. Values come from SciPy.
"""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Any

import numpy

from ndgrad._src.ops.gamma import digamma_rise, make_like, real_function, run_on_host, shape_derivatives
from ndgrad._src.ops.table import elementwise

if TYPE_CHECKING:
    from ndgrad._typing import Library, Payload, Vocabulary

# ----- quantiles of the gamma distribution ----------------------------------------------------------------------------

# P(a, out) = p, so dp = density(a, out) d(out) + dP/da da; Q = 1 - P.
igamma_inverse = elementwise(
    "igamma_inverse", real_function("gammaincinv"), args="a p",
    a=lambda t, a, out, ops: t * -(ops.igamma_shape(a, out, order=1) / ops.gamma_density(a, out)),
    p=lambda t, a, out, ops: t / ops.gamma_density(a, out),
    inplace=False,
)  # fmt: skip

igammac_inverse = elementwise(
    "igammac_inverse", real_function("gammainccinv"), args="a p",
    a=lambda t, a, out, ops: t * -(ops.igamma_shape(a, out, order=1) / ops.gamma_density(a, out)),
    p=lambda t, a, out, ops: -t / ops.gamma_density(a, out),
    inplace=False,
)  # fmt: skip


def _tensors(*values: Any, ops: Vocabulary) -> list[Any]:
    """Convert arguments, some of which may be Python numbers, to arrays or tensors."""
    like = next(v for v in values if v.__class__ not in (int, float))
    return [make_like(v, like, ops) for v in values]


# ----- beta -----------------------------------------------------------------------------------------------------------


def beta_density(a: Payload, b: Payload, x: Payload, ops: Vocabulary) -> Payload:
    """Return x^(a-1) (1-x)^(b-1) / B(a, b)."""
    a, b, x = _tensors(a, b, x, ops=ops)
    return ops.exp(ops.xlogy(a - 1.0, x) + ops.xlog1py(b - 1.0, -x) - ops.betaln(a, b))


def _betainc_shape(np: Library, a: Payload, b: Payload, x: Payload, *, orders: tuple[int, int]) -> Payload:
    return run_on_host(np, "betainc", shape_derivatives("betainc_shape"), a, b, x, orders=orders)


def _beta_change(a: Payload, b: Payload, x: Payload, orders: tuple[int, int], ops: Vocabulary) -> Any:
    a, b, x = _tensors(a, b, x, ops=ops)
    return beta_density(a, b, x, ops) * _relative_beta_change(a, b, x, orders, ops)


def _relative_beta_change(a: Payload, b: Payload, x: Payload, orders: tuple[int, int], ops: Vocabulary) -> Any:
    def first(index: tuple[int, ...]) -> Any:
        i, j = index
        shared = ops.polygamma(a + b, order=i + j - 1)
        if i and j:
            return shared
        own = shared - ops.polygamma(a if i else b, order=i + j - 1)
        return own + (ops.log(x) if i else ops.log1p(-x)) if i + j == 1 else own

    return shape_derivatives("derivatives")(first, orders)


# The derivative of I_x(a, b) of the given orders in a and b; the total order is at least 1.
betainc_shape = elementwise(
    "betainc_shape", _betainc_shape, args="a b x", settings={"orders": (1, 0)},
    a=lambda t, a, b, x, orders, ops: t * ops.betainc_shape(a, b, x, orders=(orders[0] + 1, orders[1])),
    b=lambda t, a, b, x, orders, ops: t * ops.betainc_shape(a, b, x, orders=(orders[0], orders[1] + 1)),
    x=lambda t, a, b, x, orders, ops: t * _beta_change(a, b, x, orders, ops),
    inplace=False, memory_order="C",
)  # fmt: skip



def _beta_shape_ratio(np: Library, a: Payload, b: Payload, x: Payload, *, orders: tuple[int, int]) -> Payload:
    return run_on_host(np, "betainc", shape_derivatives("betainc_shape_ratio"), a, b, x, orders=orders)


def _beta_ratio_change(
    a: Payload, b: Payload, x: Payload, out: Payload, orders: tuple[int, int], ops: Vocabulary
) -> Any:
    a, b, x = _tensors(a, b, x, ops=ops)
    return (_relative_beta_change(a, b, x, orders, ops) - out * (a - (a + b) * x)) / (x * (1.0 - x))


# betainc_shape / (x (1 - x) beta_density(a, b, x)), where the divisor is the density of logit x. For orders (1, 0) it
# is minus the speed of logit x at a fixed I_x(a, b): the motion of beta samples with their first shape parameter.
beta_shape_ratio = elementwise(
    "beta_shape_ratio", _beta_shape_ratio, args="a b x", settings={"orders": (1, 0)},
    a=lambda t, a, b, x, out, orders, ops: t * (
        ops.beta_shape_ratio(a, b, x, orders=(orders[0] + 1, orders[1])) - out * (ops.log(x) + digamma_rise(a, b, ops))
    ),
    b=lambda t, a, b, x, out, orders, ops: t * (
        ops.beta_shape_ratio(a, b, x, orders=(orders[0], orders[1] + 1))
        - out * (ops.log1p(-x) + digamma_rise(b, a, ops))
    ),
    x=lambda t, a, b, x, out, orders, ops: t * _beta_ratio_change(a, b, x, out, orders, ops),
    inplace=False, memory_order="C",
)  # fmt: skip

# The regularised incomplete beta function I_x(a, b).
betainc = elementwise(
    "betainc", real_function("betainc"), args="a b x",
    a=lambda t, a, b, x, ops: t * ops.betainc_shape(a, b, x, orders=(1, 0)),
    b=lambda t, a, b, x, ops: t * ops.betainc_shape(a, b, x, orders=(0, 1)),
    x=lambda t, a, b, x, ops: t * beta_density(a, b, x, ops),
    inplace=False,
)  # fmt: skip

# 1 - I_x(a, b), accurate for small results too.
betaincc = elementwise(
    "betaincc", real_function("betaincc"), args="a b x",
    a=lambda t, a, b, x, ops: t * -ops.betainc_shape(a, b, x, orders=(1, 0)),
    b=lambda t, a, b, x, ops: t * -ops.betainc_shape(a, b, x, orders=(0, 1)),
    x=lambda t, a, b, x, ops: t * -beta_density(a, b, x, ops),
    inplace=False,
)  # fmt: skip

betainc_inverse = elementwise(
    "betainc_inverse", real_function("betaincinv"), args="a b p",
    a=lambda t, a, b, out, ops: t * -(ops.betainc_shape(a, b, out, orders=(1, 0)) / beta_density(a, b, out, ops)),
    b=lambda t, a, b, out, ops: t * -(ops.betainc_shape(a, b, out, orders=(0, 1)) / beta_density(a, b, out, ops)),
    p=lambda t, a, b, out, ops: t / beta_density(a, b, out, ops),
    inplace=False,
)  # fmt: skip

betaincc_inverse = elementwise(
    "betaincc_inverse", real_function("betainccinv"), args="a b p",
    a=lambda t, a, b, out, ops: t * -(ops.betainc_shape(a, b, out, orders=(1, 0)) / beta_density(a, b, out, ops)),
    b=lambda t, a, b, out, ops: t * -(ops.betainc_shape(a, b, out, orders=(0, 1)) / beta_density(a, b, out, ops)),
    p=lambda t, a, b, out, ops: -t / beta_density(a, b, out, ops),
    inplace=False,
)  # fmt: skip

# ----- Student's t ----------------------------------------------------------------------------------------------------


def student_density(df: Any, x: Payload, ops: Vocabulary) -> Payload:
    """Return the density of Student's t; for infinitely many degrees of freedom, the normal density."""
    df, x = _tensors(df, x, ops=ops)
    endless = df == math.inf
    df = ops.where(endless, 1.0, df)
    half = df * 0.5
    log = ops.log(ops.poch(half, 0.5)) - ops.log(df * math.pi) * 0.5 - (half + 0.5) * ops.log1p(x * x / df)
    return ops.exp(ops.where(endless, x * x * -0.5 - 0.5 * math.log(2 * math.pi), log))


def _student_shape(np: Library, df: Any, x: Payload, *, order: int) -> Payload:
    return run_on_host(np, "stdtr", shape_derivatives("student_shape"), df, x, order=order)


def _student_change(df: Any, x: Payload, order: int, ops: Vocabulary) -> Any:
    df, x = _tensors(df, x, ops=ops)
    log_keep = -ops.log1p(x * x / df)
    keep = ops.exp(log_keep)

    def first(index: tuple[int, ...]) -> Any:
        gammas = lambda k, s: ops.polygamma((df + float(s)) * 0.5, order=k)
        return shape_derivatives("student_log_density")(df, keep, log_keep, index[0], gammas)

    return student_density(df, x, ops) * shape_derivatives("derivatives")(first, (order,))


# The derivative of the distribution function in the degrees of freedom, of order 1 or more.
student_shape = elementwise(
    "student_shape", _student_shape, args="df x", settings={"order": 1},
    df=lambda t, df, x, order, ops: t * ops.student_shape(df, x, order=order + 1),
    x=lambda t, df, x, order, ops: t * _student_change(df, x, order, ops),
    inplace=False, memory_order="C",
)  # fmt: skip

stdtr = elementwise(
    "stdtr", real_function("stdtr"), args="df x",
    df=lambda t, df, x, ops: t * ops.student_shape(df, x, order=1),
    x=lambda t, df, x, ops: t * student_density(df, x, ops),
    inplace=False,
)  # fmt: skip

stdtr_inverse = elementwise(
    "stdtr_inverse", real_function("stdtrit"), args="df p",
    df=lambda t, df, out, ops: t * -(ops.student_shape(df, out, order=1) / student_density(df, out, ops)),
    p=lambda t, df, out, ops: t / student_density(df, out, ops),
    inplace=False,
)  # fmt: skip

# ----- powers of a distance -------------------------------------------------------------------------------------------


def _distance_power(np: Library, x: Payload, beta: Any, *, order: int, logs: int) -> Payload:
    r"""Return d^n/dx^n d^k/dbeta^k of |x|^beta with n = `order` and k = `logs`.

    This is sgn(x)^n |x|^(beta-n) sum_j C(k, j) (d^j/dbeta^j of beta (beta-1) ... (beta-n+1)) log(|x|)^(k-j). At 0 it is
    0 for beta above n, and for odd n, since a corner or a cusp has slope 0 by convention. For even n it is n! for beta
    = n and infinite for beta below n, but 0 if the power is a polynomial of lower degree.
    """
    x, beta = np.broadcast_arrays(*(np.asarray(v, np.float64) for v in (x, beta)))
    falling = numpy.polynomial.Polynomial.fromroots(range(order)) if order else numpy.polynomial.Polynomial([1.0])
    at_0 = x == 0
    size, total = np.where(at_0, 1.0, np.abs(x)), np.zeros_like(x)
    log = np.log(size)
    for j in range(logs + 1):
        factor = falling.deriv(j) if j else falling
        total = total + math.comb(logs, j) * factor(beta) * log ** (logs - j)
    away = np.sign(x) ** order * size ** (beta - order) * total
    level = (beta > order) | bool(order % 2)
    if logs:
        limit = np.where(level, 0.0, math.nan)
    else:
        ends = (beta % 2 == 0) & (beta < order)
        limit = np.where(level | ends, 0.0, np.where(beta == order, math.factorial(order), math.inf))
    return np.where(at_0, limit, away)


# |x|^beta, with all its derivatives at 0.
distance_power = elementwise(
    "distance_power", lambda np, x, beta, *, order, logs: run_on_host(
        np, "distance_power", lambda x, beta: _distance_power(numpy, x, beta, order=order, logs=logs), x, beta),
    args="x beta", settings={"order": 0, "logs": 0},
    x=lambda t, x, beta, order, logs, ops: t * ops.distance_power(x, beta, order=order + 1, logs=logs),
    beta=lambda t, x, beta, order, logs, ops: t * ops.distance_power(x, beta, order=order, logs=logs + 1),
    inplace=False, memory_order="C",
)  # fmt: skip
