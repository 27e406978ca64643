"""The methods of tensors that are public functions, and Python's operators.

METHODS in each file of `functions/` names the functions that are methods too. For type checkers and editors,
`methods.pyi` (written by scripts/surface.py) shows all of them.
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


def _binary(name: str, op: Op, shown: str = "") -> Any:
    """`x * y`. Overrides are asked about the method that it stands for, where torch has one."""
    method = f"__{name}__"
    return operator(op, lambda: getattr(TensorMethods, shown or method), method)


def _reflected(name: str, op: Op, shown: str = "") -> Any:
    """`2 - x`. Of `2 * x` and `2 + x` the graph is that of `x * 2` and `x + 2`, as in torch, and numbers
    second are the short way."""
    method = f"__r{name}__"
    return operator(op, lambda: getattr(TensorMethods, shown or method), method, reflected=name not in ("add", "mul"))


def _in_place(name: str, op: Op, shown: str = "") -> Callable[[Any, Any], Any]:
    """`x += y`; an operand that is unknown falls through to `x = x + y`, which then says so."""

    def method(self: Any, other: Any) -> Any:
        if not (isinstance(other, (Variable, bool, int, float, complex)) or is_raw_array(other)):
            if not (self.on_numpy_face and isinstance(other, (list, tuple))):
                return NotImplemented
            other = registry.numpy_arguments.as_array(other)  # on NumPy's face a list is an array
        elif isinstance(other, np.ndarray) and (other.__class__ is not np.ndarray or not is_number(other.dtype)):
            other = check_plain(other)  # masks, matrices, objects and records are refused
        return write(op, self, (other,), {})

    method.__name__, method.__qualname__ = f"__i{name}__", f"Tensor.__i{name}__"
    return public(method, shown=lambda: getattr(TensorMethods, shown or method.__name__))


class TensorMethods:
    """What `Tensor` gets from the public functions."""

    __slots__ = ()

    __add__ = _binary("add", arithmetic.add, "add")
    __sub__ = _binary("sub", arithmetic.sub, "sub")
    __mul__ = _binary("mul", arithmetic.mul, "mul")
    __truediv__ = _binary("truediv", arithmetic.div, "div")
    __floordiv__ = _binary("floordiv", arithmetic.floor_divide)
    __mod__ = _binary("mod", arithmetic.remainder, "remainder")
    __pow__ = _binary("pow", arithmetic.pow, "pow")
    __and__ = _binary("and", bitwise.bitwise_and)
    __or__ = _binary("or", bitwise.bitwise_or)
    __xor__ = _binary("xor", bitwise.bitwise_xor)
    __lshift__ = _binary("lshift", bitwise.bitwise_left_shift)
    __rshift__ = _binary("rshift", bitwise.bitwise_right_shift)
    __matmul__ = _binary("matmul", product.matmul, "matmul")

    __radd__ = _reflected("add", arithmetic.add, "add")
    __rsub__ = _reflected("sub", arithmetic.sub)
    __rmul__ = _reflected("mul", arithmetic.mul, "mul")
    __rtruediv__ = _reflected("truediv", arithmetic.div)
    __rdiv__ = __rtruediv__
    __rfloordiv__ = _reflected("floordiv", arithmetic.floor_divide)
    __rmod__ = _reflected("mod", arithmetic.remainder)
    __rpow__ = _reflected("pow", arithmetic.pow)
    __rand__ = _reflected("and", bitwise.bitwise_and, "bitwise_and")
    __ror__ = _reflected("or", bitwise.bitwise_or, "bitwise_or")
    __rxor__ = _reflected("xor", bitwise.bitwise_xor, "bitwise_xor")
    __rlshift__ = _reflected("lshift", bitwise.bitwise_left_shift)
    __rrshift__ = _reflected("rshift", bitwise.bitwise_right_shift)
    __rmatmul__ = _reflected("matmul", product.matmul)

    __iadd__ = _in_place("add", arithmetic.add, "add_")
    __isub__ = _in_place("sub", arithmetic.sub, "sub_")
    __imul__ = _in_place("mul", arithmetic.mul, "mul_")
    __itruediv__ = _in_place("truediv", arithmetic.div, "div_")
    __ifloordiv__ = _in_place("floordiv", arithmetic.floor_divide, "floor_divide_")
    __imod__ = _in_place("mod", arithmetic.remainder, "remainder_")
    __ipow__ = _in_place("pow", arithmetic.pow, "pow_")
    __iand__ = _in_place("and", bitwise.bitwise_and)
    __ior__ = _in_place("or", bitwise.bitwise_or)
    __ixor__ = _in_place("xor", bitwise.bitwise_xor)
    __ilshift__ = _in_place("lshift", bitwise.bitwise_left_shift)
    __irshift__ = _in_place("rshift", bitwise.bitwise_right_shift)

    __eq__ = _binary("eq", comparison.eq)
    __ne__ = _binary("ne", comparison.ne, "ne")
    __lt__ = _binary("lt", comparison.lt, "lt")
    __le__ = _binary("le", comparison.le, "le")
    __gt__ = _binary("gt", comparison.gt, "gt")
    __ge__ = _binary("ge", comparison.ge, "ge")
    __hash__ = object.__hash__

    __neg__ = _binary("neg", arithmetic.neg, "neg")
    __abs__ = _binary("abs", complex_ops.abs, "abs")
    __invert__ = _binary("invert", bitwise.bitwise_not)

    def __pos__(self: Any) -> Any:
        return self.positive()

    def __divmod__(self: Any, other: Any) -> Any:
        return self // other, self % other

    def __rdivmod__(self: Any, other: Any) -> Any:
        return other // self, other % self

    def __round__(self: Any, ndigits: int | None = None) -> Any:
        return self.round(decimals=ndigits or 0)

    def __trunc__(self: Any) -> int:
        # math.floor and math.ceil give Python ints through __float__, as in torch; math.trunc has no such way
        return int(self)
