"""Conversion between plain values and Arrays: arguments and results of differentiated functions.

HIPS autograd puts values into boxes on the way in and takes them out on the way back. Here an Array is the box. A
result is unboxed if it has no graph; inside an outer derivative it stays an Array.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from ndgrad._src.arrays.precision import is_inexact
from ndgrad._src.core.plain_arrays import check_plain
from ndgrad._src.core.variable import Variable, np_dtype
from ndgrad._src.foundations.pytree import tree_flatten, tree_map
from ndgrad._src.lifting.numbers import is_constant
from ndgrad._src.tensor.storage import memory_of
from ndgrad.numpy._array import Array
from ndgrad.numpy.coercion import as_array, constant

_INEXACT = (float, complex, np.floating, np.complexfloating)


def box(tree: Any) -> Any:
    """Return an argument to differentiate in, with Arrays for its numbers and arrays."""
    return tree_map(_boxed_leaf, tree)


def _boxed_leaf(value: Any) -> Any:
    if isinstance(value, Variable):
        made = as_array(value)
    elif isinstance(value, _INEXACT) and not isinstance(value, np.ndarray):
        made = constant(np.asarray(value))
    elif isinstance(value, np.ndarray):
        made = constant(check_plain(value))
    else:
        raise _undifferentiable(type(value))
    if not is_inexact(np_dtype(made)):
        raise _undifferentiable(np_dtype(made).type)
    return made


def _undifferentiable(kind: type) -> TypeError:
    return TypeError(
        f"Can't differentiate w.r.t. type {kind}. Pass floats, floating-point arrays, or nested lists, "
        "tuples and dicts of them (for an int x, float(x)). [nd-grad-dtype]"
    )


def as_tensors(tree: Any) -> Any:
    """Return the result of a function as Arrays; numbers without dependencies are constants."""
    return tree_map(as_array, tree)


def plain(tree: Any) -> Any:
    """Return a result without its boxes, if they have no graph."""
    return tree_map(_plain_leaf, tree)


def _plain_leaf(t: Any) -> Any:
    if not isinstance(t, Variable) or not is_constant(t):
        return t
    values = memory_of(t)
    return values[()] if values.ndim == 0 else values


def is_box(x: Any) -> bool:
    """True if a value is being differentiated.

    Args:
        x: any object.
    """
    return isinstance(x, Variable) and not is_constant(x)


def value_of(x: Any) -> Any:
    """Return the value in a box, with boxes of outer derivatives inside; other values are unchanged.

    Args:
        x: any object.
    """
    if not isinstance(x, Variable):
        return x
    inner = x._array
    return (
        as_array(inner) if isinstance(inner, Variable) else np.asarray(inner)[()] if x.ndim == 0 else np.asarray(inner)
    )


def conjugate(tree: Any) -> Any:
    """Return conjugates: HIPS autograd's gradients of complex numbers are the conjugates of torch's."""
    leaves = tree_flatten(tree)[0]
    if all(np_dtype(t).kind != "c" for t in leaves if isinstance(t, Variable)):
        return tree
    return tree_map(lambda t: t.conj() if isinstance(t, Variable) and np_dtype(t).kind == "c" else t, tree)


def install() -> None:
    """Add the attribute `x._value`, with which HIPS autograd's programs look into a box."""
    # HIPS autograd's attribute, added while this module is in use.
    Array._value = property(value_of)  # type: ignore[attr-defined]
