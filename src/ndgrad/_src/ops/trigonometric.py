"""Trigonometric and hyperbolic functions and their inverses, on NumPy's principal branches."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Any

from ndgrad._src.arrays import native_kernels
from ndgrad._src.arrays.precision import finfo
from ndgrad._src.ops.arithmetic import may_vanish
from ndgrad._src.ops.table import elementwise

if TYPE_CHECKING:
    from ndgrad._typing import Library, Payload, Vocabulary

# ----- circular -------------------------------------------------------------------------------------------------------

sin = elementwise("sin", "sin", x=lambda t, x, ops: t * ops.cos(x))

cos = elementwise("cos", "cos", x=lambda t, x, ops: t * -ops.sin(x))

# NumPy computes tan, arctan and arcsinh one element at a time on most processors. They have no overflow and no poles at
# floating-point numbers, so a kernel loses no warning for finite elements.
tan = elementwise("tan", native_kernels.with_kernel("tan")(lambda np, x: np.tan(x)), x=lambda t, out: t + t * out * out)

def _one_less_square(x: Any, dtype: Any) -> Any:
    """Return 1 - x^2 on the right side of a branch cut.

    On a cut the sign of a zero selects the side of the function, and the derivative must be on the same side. For
    complex numbers 1 - z loses that sign, since 0 - 0 is 0, while -(z - 1) keeps it. For the same reason the code uses
    z - (-1) instead of z + 1.
    """
    return -(x * x - 1.0) if dtype.kind == "c" else 1.0 - x * x


asin = elementwise("asin", "arcsin", x=lambda t, x, x_dtype, ops: t * ops.rsqrt(_one_less_square(x, x_dtype)))

acos = elementwise("acos", "arccos", x=lambda t, x, x_dtype, ops: t * -ops.rsqrt(_one_less_square(x, x_dtype)))

atan = elementwise(
    "atan", native_kernels.with_kernel("atan")(lambda np, x: np.arctan(x)),
    x=lambda t, x: t / (x * x + 1.0),
    kind="saturating",
)  # fmt: skip


def _radius_squared(x: Payload, y: Payload, ops: Vocabulary) -> Payload:
    """Return x^2 + y^2, and infinity at the origin: the angle has no derivative there, and quotients must be 0."""
    squared = x * x + y * y
    return ops.where(squared == 0, math.inf, squared) if may_vanish(squared, ops) else squared


atan2 = elementwise(
    "atan2", native_kernels.with_kernel("atan2")(lambda np, x, y: np.arctan2(x, y)), args="x y",
    shared=_radius_squared,
    x=lambda t, y, shared: t * (y / shared),
    y=lambda t, x, shared: t * -(x / shared),
)  # fmt: skip

hypot = elementwise(
    "hypot", native_kernels.with_kernel("hypot")(lambda np, x, y: np.hypot(x, y)), args="x y",
    x=lambda t, x, out: t * (x / out),
    y=lambda t, y, out: t * (y / out),
)  # fmt: skip

deg2rad = elementwise(
    "deg2rad", "deg2rad", x=lambda t: t * (math.pi / 180), backward_name="Deg2RadBackward0", halves=False,
    linear_in=["x"],
)

rad2deg = elementwise(
    "rad2deg", "rad2deg", x=lambda t: t * (180 / math.pi), backward_name="Rad2DegBackward0", halves=False,
    linear_in=["x"],
)

# ----- hyperbolic -----------------------------------------------------------------------------------------------------

sinh = elementwise("sinh", "sinh", x=lambda t, x, ops: t * ops.cosh(x))

cosh = elementwise("cosh", "cosh", x=lambda t, x, ops: t * ops.sinh(x))

tanh = elementwise("tanh", "tanh", x=lambda t, out: t - t * out * out, kind="saturating")


def _asinh_x(t: Payload, x: Payload, x_dtype: Any, ops: Vocabulary) -> Payload:
    """Return 1 / sqrt(x^2 + 1). The square may overflow, but not the root."""
    return t / (ops.sqrt(x * x - -1.0) if x_dtype.kind == "c" else ops.hypot(x, 1.0))


asinh = elementwise("asinh", native_kernels.with_kernel("asinh")(lambda np, x: np.arcsinh(x)), x=_asinh_x)


def _acosh_x(t: Payload, x: Payload, x_dtype: Any, ops: Vocabulary) -> Payload:
    """Return 1 / sqrt(x^2 - 1). For complex numbers the two roots are computed separately, to stay on the branch of
    acosh.
    """
    if x_dtype.kind == "c":
        return t * (ops.rsqrt(x - -1.0) * ops.rsqrt(x - 1.0))
    large = ops.abs(x) > 2 / math.sqrt(finfo(x_dtype).eps)  # 1 is negligible, and the square may overflow
    near = ops.where(large, 2.0, x)
    return t * ops.where(large, 1.0 / ops.abs(ops.where(large, x, 2.0)), ops.rsqrt(near * near - 1.0))


acosh = elementwise("acosh", "arccosh", x=_acosh_x)

atanh = elementwise("atanh", "arctanh", x=lambda t, x: t / (1.0 - x * x))

# ----- sinc -----------------------------------------------------------------------------------------------------------


def _sinc(np: Library, x: Payload, *, order: int) -> Payload:
    r"""Return the `order`-th derivative of f(x) = sin(pi x) / (pi x).

    Far from 0, differentiating x f = sin(pi x) / pi n times gives the recurrence
        f_n = (pi^(n-1) sin(pi x + n pi/2) - n f_(n-1)) / x,
    which loses n digits for each factor by which |pi x| falls below n. Near 0 the Taylor series of the n-th derivative,
        f_n = sum over k with n + k even of  (-1)^((n+k)/2) pi^(n+k) / ((n+k+1) k!)  x^k,
    is used; for |pi x| < 1 + n/2 it needs about 24 + 3n terms.
    """
    if order == 0:
        angle = math.pi * x
        return np.where(angle == 0, 1.0, np.sin(angle) / np.where(angle == 0, 1.0, angle))
    near = np.abs(x) < (1 + order / 2) / math.pi
    far = np.where(near, 1.0, x)
    out = np.sin(math.pi * far) / (math.pi * far)
    for n in range(1, order + 1):
        out = (math.pi ** (n - 1) * np.sin(math.pi * far + n * math.pi / 2) - n * out) / far
    small = np.where(near, x, 0.0)
    squared = small * small
    series = 0.0 * small
    first = order % 2
    for k in range(first + 2 * (12 + 2 * order), first - 1, -2):
        sign = -1.0 if (order + k) // 2 % 2 else 1.0
        series = series * squared + sign * math.pi ** (order + k) / ((order + k + 1) * math.factorial(k))
    return np.where(near, series * small if first else series, out)


# `order` is the number of derivatives. Masking x = 0 in a rule would make every second derivative there 0 instead of
# -pi^2 / 3.
sinc = elementwise("sinc", _sinc, settings={"order": 0}, x=lambda t, x, order, ops: t * ops.sinc(x, order=order + 1))
