r"""Functions of probability: the normal distribution, the scaled complementary error function, entropy.

The constraint: derivatives keep their digits far out in a tail, where probabilities underflow or differ from 1 by less
than rounding. So the logarithm of the distribution function is differentiated through erfcx. erfcx has its own
expansion for arguments at which its derivative is a small difference of large numbers.
"""

from __future__ import annotations

import math
from typing import TYPE_CHECKING

from ndgrad._src.ops.composite import composite_elementwise
from ndgrad._src.ops.errors import refuse_complex
from ndgrad._src.ops.gamma import real_function
from ndgrad._src.ops.table import elementwise

if TYPE_CHECKING:
    from ndgrad._typing import Library, Payload, Vocabulary

_ROOT_TWO_PI = math.sqrt(2 * math.pi)
_ROOT_HALF = math.sqrt(0.5)

# ----- exp(x^2) erfc(x) -----------------------------------------------------------------------------------------------

_plain_erfcx = real_function("erfcx")
_FAR = 8.0


def _erfcx(np: Library, x: Payload, *, order: int) -> Payload:
    r"""Return the `order`-th derivative of f(x) = exp(x^2) erfc(x).

    f' = 2x f - 2/sqrt(pi), and differentiating n - 1 more times, f_n = 2x f_(n-1) + 2(n-1) f_(n-2). For large x these
    are small differences. There the asymptotic series is used, whose terms are differentiated one by one:
        f = pi^(-1/2) sum_k (-1)^k (1/2)_k x^(-2k-1),
        f_n = (-1)^n n! pi^(-1/2) x^(-n-1) sum_k c_k x^(-2k),  c_0 = 1,  c_(k+1) / c_k = -(2k+n+1) (2k+n+2) / (4 (k+1)).
    From x = 8 on its terms decrease for long enough: the twenty-fifth is below 1e-17.
    """
    refuse_complex("erfcx", x)
    if order == 0:
        return _plain_erfcx(np, x)
    if getattr(x, "is_meta", False):
        return x.copy()
    wide = x.astype(np.float64)
    near = wide < _FAR
    if near.all():
        return _erfcx_near(np, wide, order).astype(x.dtype)
    value = _erfcx_near(np, np.where(near, wide, 0.0), order)
    return np.where(near, value, _erfcx_far(np, np.where(near, _FAR, wide), order)).astype(x.dtype)


def _erfcx_near(np: Library, x: Payload, order: int) -> Payload:
    before = _plain_erfcx(np, x)
    value = 2.0 * x * before - 2 / math.sqrt(math.pi)
    for n in range(2, order + 1):
        before, value = value, 2.0 * x * value + 2.0 * (n - 1) * before
    return value


def _erfcx_far(np: Library, x: Payload, order: int) -> Payload:
    inverse = 1.0 / x
    step = inverse * inverse * -0.25
    series = np.ones_like(x)
    for k in range(24, -1, -1):
        series = series * step * ((2 * k + order + 1) * (2 * k + order + 2) / (k + 1)) + 1.0
    return series * inverse ** (order + 1) * ((-1) ** order * math.factorial(order) / math.sqrt(math.pi))


erfcx = elementwise(
    "erfcx", _erfcx, settings={"order": 0},
    x=lambda t, x, order, ops: t * ops.erfcx(x, order=order + 1),
    backward_name="SpecialErfcxBackward0",
)  # fmt: skip

# ----- the normal distribution: function, its logarithm, its inverse --------------------------------------------------

ndtr = elementwise(
    "ndtr", real_function("ndtr"),
    x=lambda t, x, ops: t * (ops.exp(x * x * -0.5) * (1 / _ROOT_TWO_PI)),
)  # fmt: skip



def _log_ndtr_x(t: Payload, x: Payload, ops: Vocabulary) -> Payload:
    """Return t times density / distribution function, (2 pi)^(-1/2) exp(-x^2/2) / (erfc(-x/sqrt 2) / 2).

    The exponentials cancel in erfcx. Beyond 37 erfcx overflows, and its derivatives are NaN; the quotient is below
    1e-290 there.
    """
    far = x > 37.0
    return t * ops.where(far, 0.0, 2 / _ROOT_TWO_PI / ops.erfcx(ops.where(far, 0.0, x) * -_ROOT_HALF))


log_ndtr = elementwise(
    "log_ndtr", real_function("log_ndtr"),
    x=_log_ndtr_x,
    backward_name="SpecialLogNdtrBackward0",
)  # fmt: skip

ndtri = elementwise(
    "ndtri", real_function("ndtri"),
    x=lambda t, out, ops: t * (ops.exp(out * out * 0.5) * _ROOT_TWO_PI),
    backward_name="SpecialNdtriBackward0",
)  # fmt: skip

# ----- entropy --------------------------------------------------------------------------------------------------------


# -x log(x): 0 at 0, and minus infinity below.
entr = composite_elementwise(
    "entr", lambda x, ops: ops.where(x < 0, -math.inf, 0.0 - x * ops.log(ops.where(x > 0, x, 1.0))),
    refuses_complex=True,
    x=lambda t, x, ops: t * (-1.0 - ops.log(x)),
    backward_name="SpecialEntrBackward0",
)  # fmt: skip

# ----- Owen's T -------------------------------------------------------------------------------------------------------

# T(h, a) = 1/(2 pi) times the integral of exp(-h^2 (1 + x^2) / 2) / (1 + x^2) over x from 0 to a.
owens_t = elementwise(
    "owens_t", real_function("owens_t"), args="h a",
    h=lambda t, h, a, ops: t * (ops.exp(h * h * -0.5) * ops.erf(h * a * _ROOT_HALF) * (-0.5 / _ROOT_TWO_PI)),
    a=lambda t, h, a, ops: t * (ops.exp(h * h * (a * a + 1.0) * -0.5) / (a * a + 1.0) * (0.5 / math.pi)),
    inplace=False,
)  # fmt: skip
