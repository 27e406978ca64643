"""The gamma function and its relatives: logarithm and derivatives, zeta, beta, and the incomplete gamma functions.

The constraint: raw functions come from SciPy if it is installed, else from NumPy alone (_src.arrays.special), so rules
use only functions that both have. Orders of derivatives are settings: a rule uses the next order, to any order.
"""

from __future__ import annotations

import importlib
import math
from collections.abc import Callable
from typing import TYPE_CHECKING, Any, NoReturn

import numpy

from ndgrad._src.arrays.host_fallback import to_host, warn_of_host
from ndgrad._src.arrays.precision import is_floating
from ndgrad._src.arrays.scalar_operands import as_operands
from ndgrad._src.ops.error_function import _special
from ndgrad._src.ops.table import elementwise

if TYPE_CHECKING:
    from ndgrad._typing import Library, Payload, Vocabulary


def real_function(name: str, public: str = "") -> Callable[..., Any]:
    """Return a forward function for scipy.special's `name`, for real arguments. `public` is the name for users."""

    def forward(np: Library, *arguments: Any) -> Payload:
        for a in arguments:
            dtype = getattr(a, "dtype", None)
            if isinstance(a, complex) if dtype is None else dtype.kind == "c":
                raise NotImplementedError(
                    f"{public or name}() is not implemented for complex numbers, but got {dtype or a}. "
                    "Apply it to a real tensor (.real, .abs()). [nd-complex]"
                )
        return _special(np, name)(*arguments)

    return forward


def shape_derivatives(name: str) -> Callable[..., Any]:
    """Return a function of the module shape_derivatives, which is loaded when a derivative in a shape is needed."""
    module = importlib.import_module("ndgrad._src.arrays.special.shape_derivatives")
    return getattr(module, name)  # functions are looked up by name


def run_on_host(np: Library, name: str, function: Callable[..., Any], *arguments: Any, **settings: Any) -> Payload:
    """Run a float64 function of NumPy arrays on the host, and convert the result to the arguments' dtype and
    library.
    """
    if np is not numpy:
        warn_of_host(name)
    given = [to_host(a) for a in arguments]
    dtype = numpy.result_type(*given)
    if dtype.kind == "c":
        raise NotImplementedError(
            f"{name}() is not implemented for complex numbers, but got {dtype}. Apply it to real tensors. [nd-complex]"
        )
    made = function(*given, **settings)
    return np.asarray(made if dtype.kind in "biu" else made.astype(dtype, copy=False))


def make_like(value: Payload, like: Payload, ops: Vocabulary) -> Payload:
    """Convert a Python number to the kind of `like`, for functions that take only tensors."""
    return ops.zeros_like(like) + value if value.__class__ in (int, float) else value


def no_derivative(op: str, argument: str) -> NoReturn:
    raise NotImplementedError(
        f"the derivative of {op} with respect to its argument {argument!r} is not implemented. "
        "Detach that argument if its gradient is not wanted. [nd-no-derivative]"
    )


# From this many elements on, polynomials over blocks are faster than a compiled sum for each element (20 times, for
# 1e5).
_MANY = 2048

# ----- logarithm and its derivatives ----------------------------------------------------------------------------------

_gammaln, _digamma, _zeta = real_function("gammaln", "lgamma"), real_function("psi", "digamma"), real_function("zeta")


def _lgamma(np: Library, x: Payload) -> Payload:
    """Return log |gamma(x)|, and -log |x| near 0, because SciPy's is infinite for subnormal numbers."""
    out = _gammaln(np, x)
    near = np.abs(x) < numpy.finfo(numpy.float64).tiny
    return np.where(near, -np.log(np.abs(x)), out) if near.any() else out



lgamma = elementwise("lgamma", _lgamma, x=lambda t, x, ops: t * ops.digamma(x))

digamma = elementwise("digamma", _digamma, x=lambda t, x, ops: t * ops.polygamma(x, order=1))


def _polygamma(np: Library, x: Payload, *, order: int) -> Payload:
    """Return (-1)^(n+1) n! zeta(n + 1, x) for order n, in double precision, because n! may overflow a float32."""
    if order == 0:
        return _digamma(np, x)
    if order == 1 and x.__class__ is numpy.ndarray and x.size >= _MANY and is_floating(x.dtype):
        from ndgrad._src.arrays.special import trigamma  # loaded on first use, to keep `import ndgrad` fast

        return trigamma(x)
    factorial = float(math.factorial(order)) if order <= 170 else math.inf
    values = _zeta(np, np.float64(order + 1), x) * (factorial if order % 2 else -factorial)
    return values if x.dtype.kind in "biu" else values.astype(x.dtype)


polygamma = elementwise(
    "polygamma", _polygamma, settings={"order": 0},
    x=lambda t, x, order, ops: t * ops.polygamma(x, order=order + 1),
    saved_names={"order": "n"},
)  # fmt: skip

# ----- the multivariate gamma function --------------------------------------------------------------------------------


def _mvlgamma(np: Library, x: Payload, *, p: int) -> Payload:
    """log(pi^(p(p-1)/4) gamma(x) gamma(x - 1/2) ... gamma(x - (p-1)/2))."""
    out = _lgamma(np, x) + p * (p - 1) / 4 * math.log(math.pi)
    for j in range(1, p):
        out = out + _lgamma(np, x - j / 2)
    return out


def _mvlgamma_x(t: Payload, x: Payload, p: int, ops: Vocabulary) -> Payload:
    slope = ops.digamma(x)
    for j in range(1, p):
        slope = slope + ops.digamma(x - j / 2)
    return t * slope


mvlgamma = elementwise("mvlgamma", _mvlgamma, settings={"p": 1}, x=_mvlgamma_x)

# ----- zeta and beta --------------------------------------------------------------------------------------------------

# Hurwitz's zeta function: the sum over k >= 0 of (k + q)^-x.
zeta = elementwise(
    "zeta", _zeta, args="x q",
    x=lambda t: no_derivative("zeta", "input"),
    q=lambda t, x, q, ops: t * (ops.zeta(x + 1.0, q) * -x),
    backward_name="SpecialZetaBackward0",
    saved_names={"q": "other"},
)  # fmt: skip



def digamma_rise(a: Payload, b: Payload, ops: Vocabulary) -> Payload:
    """Return digamma(a + b) - digamma(a).

    For large a this is a small difference. Stirling's series gives it term by term: log(1 + b/a) - (1/(a+b) - 1/a) / 2
    - sum over k of B_2k/2k (1/(a+b)^2k - 1/a^2k).
    """
    a, b = make_like(a, b, ops), make_like(b, a, ops)
    large = (a > 20.0) & (a + b > 20.0)
    far, step = ops.where(large, a, 30.0), ops.where(large, b, 0.0)
    rest = 1.0 / (far + step)
    inverse = 1.0 / far
    fall = step * rest * inverse  # 1/far - 1/(far + step)
    # x^-2k - y^-2k is (x^-2 - y^-2) times a sum of products.
    squares = (inverse * inverse, rest * rest)
    total, powers, ones = -1 / 12, 1.0, squares[0]
    for term in (1 / 120, -1 / 252, 1 / 240, -1 / 132, 691 / 32760):
        powers = powers * squares[1] + ones
        ones = ones * squares[0]
        total = total + powers * term
    series = ops.log1p(step * inverse) + fall * 0.5 - fall * (inverse + rest) * total
    small = ops.where(large, 1.0, a)
    return ops.where(large, series, ops.digamma(small + ops.where(large, 0.0, b)) - ops.digamma(small))


betaln = elementwise(
    "betaln", real_function("betaln"), args="a b",
    a=lambda t, a, b, ops: t * -digamma_rise(a, b, ops),
    b=lambda t, a, b, ops: t * -digamma_rise(b, a, ops),
)  # fmt: skip

# ----- incomplete gamma functions -------------------------------------------------------------------------------------


def _gamma_density(np: Library, a: Payload, x: Payload) -> Payload:
    """Return x^(a-1) e^-x / gamma(a) through its logarithm.

    At x = 0 the power dominates (1 for a = 1), at infinity the exponential.
    """
    a, x = as_operands(np, a, x)
    with numpy.errstate(all="ignore"):
        power = a - 1.0
        exponent = np.where(power == 0, 0.0, power * np.log(x)) - x - _lgamma(np, a)
        return np.where(x == math.inf, 0.0, np.exp(np.where((a < 0) | (x < 0), math.nan, exponent)))


# The density of the gamma distribution, whose two tails are P and Q below.
gamma_density = elementwise(
    "gamma_density", _gamma_density, args="a x",
    a=lambda t, a, x, out, ops: t * (out * (ops.log(x) - ops.digamma(a))),
    x=lambda t, a, x, out: t * (out * ((a - 1.0) / x) - out),
)  # fmt: skip


def _igamma_shape(np: Library, x: Payload, y: Payload, *, order: int) -> Payload:
    return run_on_host(np, "igamma", shape_derivatives("gammainc_shape"), x, y, order=order)


def _density_change(a: Payload, x: Payload, order: int, ops: Vocabulary) -> Any:
    """Return the derivative of the density in a of the given order.

    It is the density times a polynomial in the derivatives of its logarithm.
    """
    a, x = make_like(a, x, ops), make_like(x, a, ops)
    return ops.gamma_density(a, x) * _relative_change(a, x, order, ops)


def _relative_change(a: Payload, x: Payload, order: int, ops: Vocabulary) -> Any:
    def first(index: tuple[int, ...]) -> Any:
        return ops.log(x) - ops.digamma(a) if index[0] == 1 else -ops.polygamma(a, order=index[0] - 1)

    return shape_derivatives("derivatives")(first, (order,))


# The derivative of P in the shape x, of order 1 or more (see arrays.special.shape_derivatives).
igamma_shape = elementwise(
    "igamma_shape", _igamma_shape, args="x y", settings={"order": 1},
    x=lambda t, x, y, order, ops: t * ops.igamma_shape(x, y, order=order + 1),
    y=lambda t, x, y, order, ops: t * _density_change(x, y, order, ops),
    inplace=False, memory_order="C",
)  # fmt: skip



def _gamma_shape_ratio(np: Library, x: Payload, y: Payload, *, order: int) -> Payload:
    return run_on_host(np, "igamma", shape_derivatives("gammainc_shape_ratio"), x, y, order=order)


def _ratio_change(a: Payload, x: Payload, out: Payload, order: int, ops: Vocabulary) -> Any:
    """Return (p^(n) - R d(x p)/dx) / (x p) for R = P^(n) / (x p), where p^(n) is a derivative in a."""
    a, x = make_like(a, x, ops), make_like(x, a, ops)
    return (_relative_change(a, x, order, ops) - out * (a - x)) / x


# igamma_shape / (y gamma_density(x, y)), where the divisor is the density of log y. At order 1 it is minus the speed of
# log y at a fixed P(x, y): the motion of gamma samples with their shape.
gamma_shape_ratio = elementwise(
    "gamma_shape_ratio", _gamma_shape_ratio, args="x y", settings={"order": 1},
    x=lambda t, x, y, out, order, ops: t * (
        ops.gamma_shape_ratio(x, y, order=order + 1) - out * (ops.log(y) - ops.digamma(x))
    ),
    y=lambda t, x, y, out, order, ops: t * _ratio_change(x, y, out, order, ops),
    inplace=False, memory_order="C",
)  # fmt: skip

# P and Q for the shape x: the integrals up to and from the point y.
igamma = elementwise(
    "igamma", real_function("gammainc", "igamma"), args="x y",
    x=lambda t, x, y, ops: t * ops.igamma_shape(x, y, order=1),
    y=lambda t, x, y, ops: t * ops.gamma_density(x, y),
)  # fmt: skip

igammac = elementwise(
    "igammac", real_function("gammaincc", "igammac"), args="x y",
    x=lambda t, x, y, ops: t * -ops.igamma_shape(x, y, order=1),
    y=lambda t, x, y, ops: t * -ops.gamma_density(x, y),
)  # fmt: skip
