"""Comparisons, tests and logic under torch's names: functions whose answers are yes or no.

Their results are booleans without a derivative. In place, the answer replaces the value as 0 or 1 in the tensor's dtype, so the
tensor no longer depends on what it was: the history of the write is that of a copy.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from ndgrad.autograd.inplace import write, write_out
from ndgrad.autograd.variable import Variable, np_dtype
from ndgrad.ops import comparison, fill
from ndgrad.ops.table import table

_IN_PLACE = ("eq", "ne", "lt", "le", "gt", "ge", "logical_and", "logical_or", "logical_xor", "logical_not")

ELEMENTWISE = (*_IN_PLACE, "isnan", "isinf", "isfinite", "isreal", "signbit")

__all__ = ["isposinf", "isneginf", "isclose", "allclose", "equal"]

METHODS = (*__all__, *(name + "_" for name in _IN_PLACE))

ALIASES = {"not_equal": "ne", "less": "lt", "less_equal": "le", "greater": "gt", "greater_equal": "ge"}


def _replacing(name: str) -> Callable[..., Any]:
    op = table[name]

    def method(self: Any, *other: Any) -> Any:
        return write(fill.copy, self, (op(self, *other),), {})

    method.__name__ = method.__qualname__ = name + "_"
    method.__doc__ = f"In-place {name}: 0 or 1 in the tensor's dtype."
    return method


for _name in _IN_PLACE:
    globals()[_name + "_"] = _replacing(_name)


def isposinf(input: Any, *, out: Any = None) -> Any:
    """Where the input is positive infinity."""
    return _infinite("isposinf", input, out)


def isneginf(input: Any, *, out: Any = None) -> Any:
    """Where the input is negative infinity."""
    return _infinite("isneginf", input, out)


def _infinite(name: str, input: Any, out: Any) -> Any:
    if isinstance(input, Variable) and np_dtype(input).kind == "c":
        raise RuntimeError(f"{name} does not support complex inputs, which have no sign. Ask for the real or imaginary part.")
    if out is None:
        return table[name](input)

    return write_out(table[name], (input,), {}, out)


def isclose(input: Any, other: Any, rtol: float = 1e-05, atol: float = 1e-08, equal_nan: bool = False) -> Any:
    """Where |input - other| <= atol + rtol |other|.

    >>> import ndgrad
    >>> ndgrad.isclose(ndgrad.tensor([1.0, 1.0]), ndgrad.tensor([1.0 + 1e-9, 1.1]))
    tensor([ True, False])
    """
    _check_closeness("isclose", input, other, rtol, atol)
    return comparison.isclose(input, other, rtol=rtol, atol=atol, equal_nan=equal_nan)


def allclose(input: Any, other: Any, rtol: float = 1e-05, atol: float = 1e-08, equal_nan: bool = False) -> bool:
    """Whether the two are close everywhere.

    >>> import ndgrad
    >>> ndgrad.allclose(ndgrad.tensor([1.0, 1.0]), ndgrad.tensor([1.0 + 1e-9, 1.1]))
    False
    """
    _check_closeness("allclose", input, other, rtol, atol)
    return _everywhere("allclose", comparison.isclose(input, other, rtol=rtol, atol=atol, equal_nan=equal_nan))


def _check_closeness(function: str, input: Any, other: Any, rtol: float, atol: float) -> None:
    for name, value in (("rtol", rtol), ("atol", atol)):
        if value < 0:
            raise RuntimeError(f"{function}(): {name} must be greater than or equal to zero, but got {value}. Give a tolerance.")
    if isinstance(input, Variable) and isinstance(other, Variable) and np_dtype(input) != np_dtype(other):
        raise RuntimeError(
            f"{function}(): dtypes {np_dtype(input)} and {np_dtype(other)} did not match. Convert one of the tensors with .to()."
        )


def equal(input: Any, other: Any) -> bool:
    """Whether two tensors have the same shape and the same elements.

    >>> import ndgrad
    >>> ndgrad.equal(ndgrad.tensor([1.0, 2.0]), ndgrad.tensor([1, 2]))
    True
    """
    if not isinstance(input, Variable) or not isinstance(other, Variable):
        kinds = f"{type(input).__name__} and {type(other).__name__}"
        raise TypeError(f"equal() takes two tensors, and got {kinds}. Wrap arrays with ndgrad.as_tensor(...).")
    return tuple(input.shape) == tuple(other.shape) and _everywhere("equal", comparison.eq(input, other))


def _everywhere(function: str, answer: Any) -> bool:
    if isinstance(answer._array, Variable):
        raise RuntimeError(
            f"{function}() inside vmap: its answer is one Python bool, and each sample of the batch has its own. "
            f"Use the elementwise form (isclose, eq) and all(), or call {function}() outside vmap."
        )
    return bool(answer._array.all())
