"""The gamma function's family: its logarithm and derivatives, zeta, beta, and the incomplete gamma functions.

The constraint: raw functions come from SciPy where it is installed and else from NumPy alone (ndgrad.arrays.special), so rules
use only functions that both have. Orders of derivatives are settings: a rule asks for the next one, to any order.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any, NoReturn

from ndgrad.ops.error_function import _special
from ndgrad.ops.table import elementwise


def real_function(name: str, public: str = "") -> Callable[..., Any]:
    """A forward function from scipy.special's `name`, for real arguments (`public` is what users call it)."""

    def forward(np: Any, *arguments: Any) -> Any:
        for a in arguments:
            dtype = getattr(a, "dtype", None)
            if isinstance(a, complex) if dtype is None else dtype.kind == "c":
                raise NotImplementedError(
                    f"{public or name}() is not implemented for complex numbers, and got {dtype or a}. Apply it to a real "
                    "tensor (.real, .abs())."
                )
        return _special(np, name)(*arguments)

    return forward


def no_derivative(op: str, argument: str) -> NoReturn:
    raise NotImplementedError(
        f"the derivative of {op} with respect to its argument {argument!r} is not implemented. Detach that argument if its "
        "gradient is not wanted."
    )


# ----- logarithm and its derivatives -----------------------------------------------------------------------------------

_lgamma, _digamma, _zeta = real_function("gammaln", "lgamma"), real_function("psi", "digamma"), real_function("zeta")

lgamma = elementwise("lgamma", _lgamma, x=lambda t, x, ops: t * ops.digamma(x))

d# P and Q of the shape x, up to and from the point y.
igamma = elementwise(
    "igamma", real_function("gammainc", "igamma"), args="x y",
    x=lambda t: no_derivative("igamma", "input"),
    y=lambda t, x, y, ops: t * ops.gamma_density(x, y),
)  # fmt: skip

igammac = elementwise(
    "igammac", real_function("gammaincc", "igammac"), args="x y",
    x=lambda t: no_derivative("igammac", "input"),
    y=lambda t, x, y, ops: t * -ops.gamma_density(x, y),
)  # fmt: skip
