"""torch's names for symbolic sizes, and its functions of numbers that may be symbolic.

Sizes are always Python numbers here; a compiled function detects which of them vary. So no object is an instance of
these classes, as in torch outside of traces. Programs ask `isinstance(n, torch.SymInt)` and call `torch.sym_max`; both
have the same results as in eager torch.
"""

from __future__ import annotations

import math
from typing import Any, NoReturn, TypeVar

from ndgrad._src.foundations.public_path import set_module

__all__ = [
    "SymBool", "SymFloat", "SymInt", "sym_float", "sym_int", "sym_ite", "sym_max", "sym_min", "sym_not", "sym_sqrt",
    "sym_sum",
]  # fmt: skip

T = TypeVar("T")


def _refuse(name: str, node: object) -> NoReturn:
    raise TypeError(
        f"{name}({node!r}) cannot be made: sizes are Python numbers, also inside compiled functions. Use the number. "
        "[nd-absent]"
    )


@set_module("ndgrad")
class SymInt:
    """Class of symbolic integers in torch. There are no instances here.

    Args:
        node: torch's symbolic value. Any value raises TypeError.
    """

    def __init__(self, node: Any) -> None:
        _refuse("SymInt", node)


@set_module("ndgrad")
class SymFloat:
    """Class of symbolic floats in torch. There are no instances here.

    Args:
        node: torch's symbolic value. Any value raises TypeError.
    """

    def __init__(self, node: Any) -> None:
        _refuse("SymFloat", node)


@set_module("ndgrad")
class SymBool:
    """Class of symbolic conditions in torch. There are no instances here.

    Args:
        node: torch's symbolic value. Any value raises TypeError.
    """

    def __init__(self, node: Any) -> None:
        _refuse("SymBool", node)


@set_module("ndgrad")
def sym_int(a: Any) -> int:
    """Return a number as an integer, rounded toward zero.

    Args:
        a: number.

    >>> import ndgrad
    >>> ndgrad.sym_int(-1.5)
    -1
    """
    return int(a)


@set_module("ndgrad")
def sym_float(a: Any) -> float:
    """Return a number as a float.

    Args:
        a: number.

    >>> import ndgrad
    >>> ndgrad.sym_float(2)
    2.0
    """
    return float(a)


@set_module("ndgrad")
def sym_max(a: Any, b: Any) -> Any:
    """Return the larger of two numbers; a float if one of them is.

    Args:
        a, b: the numbers.

    >>> import ndgrad
    >>> ndgrad.sym_max(3, 2.0)
    3.0
    """
    found = max(a, b)
    return float(found) if isinstance(a, float) or isinstance(b, float) else found


@set_module("ndgrad")
def sym_min(a: Any, b: Any) -> Any:
    """Return the smaller of two numbers; a float if one of them is.

    Args:
        a, b: the numbers.

    >>> import ndgrad
    >>> ndgrad.sym_min(3, 4)
    3
    """
    found = min(a, b)
    return float(found) if isinstance(a, float) or isinstance(b, float) else found


@set_module("ndgrad")
def sym_not(a: Any) -> bool:
    """Return the negation of a condition.

    Args:
        a: condition.

    >>> import ndgrad
    >>> ndgrad.sym_not(2 > 1)
    False
    """
    return not a


@set_module("ndgrad")
def sym_ite(b: Any, t: T, f: T) -> T:
    """Return one of two values of the same type.

    Args:
        b: condition.
        t: result if it holds.
        f: result if it does not.

    >>> import ndgrad
    >>> ndgrad.sym_ite(2 > 1, 10, 20)
    10
    """
    if type(t) is not type(f):
        raise TypeError(f"sym_ite() takes two values of one type, not {type(t)} and {type(f)} [nd-type]")
    return t if b else f


@set_module("ndgrad")
def sym_sqrt(a: Any) -> float:
    """Return the square root of a number.

    Args:
        a: number.

    >>> import ndgrad
    >>> ndgrad.sym_sqrt(9)
    3.0
    """
    return math.sqrt(a)


@set_module("ndgrad")
def sym_sum(args: Any) -> Any:
    """Return the sum of numbers.

    Args:
        args: the numbers.

    >>> import ndgrad
    >>> ndgrad.sym_sum([1, 2, 3])
    6
    """
    return sum(args)
