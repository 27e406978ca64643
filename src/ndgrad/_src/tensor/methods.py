"""Tensor methods that are public functions, and Python's operators.

METHODS in each file of `functions/` lists the functions that are also methods. For type checkers and editors,
`methods.pyi` (written by scripts/surface.py) declares all of them.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from ndgrad._src.arrays.library import is_raw_array
from ndgrad._src.arrays.precision import is_number
from ndgrad._src.core.inplace import write
from ndgrad._src.core.plain_arrays import check_plain
from ndgrad._src.core.variable import Variable
from ndgrad._src.foundations import registry
from ndgrad._src.ops import arithmetic, bitwise, comparison, product
from ndgrad._src.ops import complex as complex_ops
from ndgrad._src.ops.table import Op
from ndgrad._src.tensor.public import operator, public


def _binary_operator(name: str, op: Op, shown: str = "") -> Any:
    """Return the method of `x * y`. Overrides see the torch method behind the operator, if there is one."""
    method = f"__{name}__"
    return operator(op, lambda: getattr(TensorMethods, shown or method), method)


def _reflected_operator(name: str, op: Op, shown: str = "") -> Any:
    """Return the method of `2 - x`. `2 * x` and `2 + x` record the graph of `x * 2` and `x + 2`, as in torch, because
    a number as second operand has a fast path."""
    method = f"__r{name}__"
    return operator(op, lambda: getattr(TensorMethods, shown or method), method, reflected=name not in ("add", "mul"))


def _in_place_operator(name: str, op: Op, shown: str = "") -> Callable[[Any, Any], Any]:
    """Return the method of `x += y`. An unknown operand falls through to `x = x + y`, which raises."""

    def method(self: Any, other: Any) -> Any:
        if not (isinstance(other, (Variable, bool, int, float, complex)) or is_raw_array(other)):
            if not (self.is_numpy_type and isinstance(other, (list, tuple))):
                return NotImplemented
            other = registry.numpy_arguments.as_array(other)  # `Array` accepts lists
        elif isinstance(other, np.ndarray) and (other.__class__ is not np.ndarray or not is_number(other.dtype)):
            other = check_plain(other)  # refuse masked arrays, matrices, objects and records
        return write(op, self, (other,), {})

    method.__name__, method.__qualname__ = f"__i{name}__", f"Tensor.__i{name}__"
    return public(method, shown=lambda: getattr(TensorMethods, shown or method.__name__))


class TensorMethods:
    """Methods that `Tensor` inherits from the public functions."""

    __slots__ = ()

    __add__ = _binary_operator("add", arithmetic.add, "add")
    __sub__ = _binary_operator("sub", arithmetic.sub, "sub")
    __mul__ = _binary_operator("mul", arithmetic.mul, "mul")
    __truediv__ = _binary_operator("truediv", arithmetic.div, "div")
    __floordiv__ = _binary_operator("floordiv", arithmetic.floor_divide)
    __mod__ = _binary_operator("mod", arithmetic.remainder, "remainder")
    __pow__ = _binary_operator("pow", arithmetic.pow, "pow")
    __and__ = _binary_operator("and", bitwise.bitwise_and)
    __or__ = _binary_operator("or", bitwise.bitwise_or)
    __xor__ = _binary_operator("xor", bitwise.bitwise_xor)
    __lshift__ = _binary_operator("lshift", bitwise.bitwise_left_shift)
    __rshift__ = _binary_operator("rshift", bitwise.bitwise_right_shift)
    __matmul__ = _binary_operator("matmul", product.matmul, "matmul")

    __radd__ = _reflected_operator("add", arithmetic.add, "add")
    __rsub__ = _reflected_operator("sub", arithmetic.sub)
    __rmul__ = _reflected_operator("mul", arithmetic.mul, "mul")
    __rtruediv__ = _reflected_operator("truediv", arithmetic.div)
    __rdiv__ = __rtruediv__
    __rfloordiv__ = _reflected_operator("floordiv", arithmetic.floor_divide)
    __rmod__ = _reflected_operator("mod", arithmetic.remainder)
    __rpow__ = _reflected_operator("pow", arithmetic.pow)
    __rand__ = _reflected_operator("and", bitwise.bitwise_and, "bitwise_and")
    __ror__ = _reflected_operator("or", bitwise.bitwise_or, "bitwise_or")
    __rxor__ = _reflected_operator("xor", bitwise.bitwise_xor, "bitwise_xor")
    __rlshift__ = _reflected_operator("lshift", bitwise.bitwise_left_shift)
    __rrshift__ = _reflected_operator("rshift", bitwise.bitwise_right_shift)
    __rmatmul__ = _reflected_operator("matmul", product.matmul)

    __iadd__ = _in_place_operator("add", arithmetic.add, "add_")
    __isub__ = _in_place_operator("sub", arithmetic.sub, "sub_")
    __imul__ = _in_place_operator("mul", arithmetic.mul, "mul_")
    __itruediv__ = _in_place_operator("truediv", arithmetic.div, "div_")
    __ifloordiv__ = _in_place_operator("floordiv", arithmetic.floor_divide, "floor_divide_")
    __imod__ = _in_place_operator("mod", arithmetic.remainder, "remainder_")
    __ipow__ = _in_place_operator("pow", arithmetic.pow, "pow_")
    __iand__ = _in_place_operator("and", bitwise.bitwise_and)
    __ior__ = _in_place_operator("or", bitwise.bitwise_or)
    __ixor__ = _in_place_operator("xor", bitwise.bitwise_xor)
    __ilshift__ = _in_place_operator("lshift", bitwise.bitwise_left_shift)
    __irshift__ = _in_place_operator("rshift", bitwise.bitwise_right_shift)

    __eq__ = _binary_operator("eq", comparison.eq)
    __ne__ = _binary_operator("ne", comparison.ne, "ne")
    __lt__ = _binary_operator("lt", comparison.lt, "lt")
    __le__ = _binary_operator("le", comparison.le, "le")
    __gt__ = _binary_operator("gt", comparison.gt, "gt")
    __ge__ = _binary_operator("ge", comparison.ge, "ge")
    __hash__ = object.__hash__

    __neg__ = _binary_operator("neg", arithmetic.neg, "neg")
    __abs__ = _binary_operator("abs", complex_ops.abs, "abs")
    __invert__ = _binary_operator("invert", bitwise.bitwise_not)

    def __pos__(self: Any) -> Any:
        return self.positive()

    def __divmod__(self: Any, other: Any) -> Any:
        return self // other, self % other

    def __rdivmod__(self: Any, other: Any) -> Any:
        return other // self, other % self

    def __round__(self: Any, ndigits: int | None = None) -> Any:
        return self.round(decimals=ndigits or 0)

    def __trunc__(self: Any) -> int:
        # math.floor and math.ceil return Python ints through __float__, as in torch. math.trunc has no such fallback.
        return int(self)
