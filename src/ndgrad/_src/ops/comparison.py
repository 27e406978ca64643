"""Ops with boolean results: comparisons, tests, logic. None has a derivative."""

from __future__ import annotations

import math
import operator
from typing import TYPE_CHECKING

from ndgrad._src.arrays.meta import zeros_like_array
from ndgrad._src.ops.table import elementwise

if TYPE_CHECKING:
    from ndgrad._typing import Library, Payload

# ----- comparisons ----------------------------------------------------------------------------------------------------

eq = elementwise("eq", operator.eq, args="x y", inplace=False, returns_bool=True, commutes=True, cost=1)
ne = elementwise("ne", operator.ne, args="x y", inplace=False, returns_bool=True, commutes=True, cost=1)
lt = elementwise("lt", operator.lt, args="x y", inplace=False, returns_bool=True, cost=1)
le = elementwise("le", operator.le, args="x y", inplace=False, returns_bool=True, cost=1)
gt = elementwise("gt", operator.gt, args="x y", inplace=False, returns_bool=True, cost=1)
ge = elementwise("ge", operator.ge, args="x y", inplace=False, returns_bool=True, cost=1)

# |x - y| <= atol + rtol |y|, which is not symmetric in x and y.
isclose = elementwise(
    "isclose",
    lambda np, x, y, *, rtol, atol, equal_nan: np.isclose(x, y, rtol=rtol, atol=atol, equal_nan=equal_nan),
    args="x y", settings={"rtol": 1e-05, "atol": 1e-08, "equal_nan": False},
    inplace=False, returns_bool=True,
)  # fmt: skip

# ----- tests ----------------------------------------------------------------------------------------------------------


def _isreal(np: Library, x: Payload) -> Payload:
    return x.imag == 0 if x.dtype.kind == "c" else ~zeros_like_array(np, x, bool)


isnan = elementwise("isnan", "isnan", inplace=False, moves_values=True, returns_bool=True)
isinf = elementwise("isinf", "isinf", inplace=False, moves_values=True, returns_bool=True)
isfinite = elementwise("isfinite", "isfinite", inplace=False, moves_values=True, returns_bool=True)
isposinf = elementwise("isposinf", lambda np, x: x == math.inf, inplace=False, moves_values=True, returns_bool=True)
isneginf = elementwise("isneginf", lambda np, x: x == -math.inf, inplace=False, moves_values=True, returns_bool=True)
isreal = elementwise("isreal", _isreal, inplace=False, moves_values=True, returns_bool=True)
signbit = elementwise("signbit", "signbit", inplace=False, moves_values=True, returns_bool=True)

# ----- logic ----------------------------------------------------------------------------------------------------------

logical_and = elementwise(
    "logical_and", "logical_and", args="x y", inplace=False, returns_bool=True, of_truths=True, commutes=True
)
logical_or = elementwise(
    "logical_or", "logical_or", args="x y", inplace=False, returns_bool=True, of_truths=True, commutes=True
)
logical_xor = elementwise(
    "logical_xor", "logical_xor", args="x y", inplace=False, returns_bool=True, of_truths=True, commutes=True
)
logical_not = elementwise(
    "logical_not", "logical_not", inplace=False, moves_values=True, returns_bool=True, of_truths=True
)
