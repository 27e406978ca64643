"""The rules of elementwise ops on large arrays, each as one native kernel.

A rule is written once, in operators and in the vocabulary of the table. On raw arrays each of its steps is a pass over
memory. Run once on symbols (_src.ops.formulas), the rule yields a formula, from which a kernel with a single pass is
made. Both compute the same result, up to the last digits of functions. Rules that look at values, arguments that
broadcast, other dtypes and small arrays use the rule itself. On a device, a kernel pays off for any size
(ndgrad._src.arrays.device_kernels).
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any

import numpy as np

from ndgrad._src.arrays import device_kernels, library, native_kernels
from ndgrad._src.foundations.bounded_tables import make_room
from ndgrad._src.ops.formulas import Formula, Signature, Words

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from ndgrad._typing import Payload

#: Maximum number of cached formulas per rule, for different settings and numbers. Making a formula takes 20 us.
_MOST = 64


def make_native_rule(rule: Callable[..., Any], names: tuple[str, ...]) -> Callable[..., Any]:
    """Return the rule for large arrays. `names` are its parameters; `t` is the gradient."""
    at, words = names.index("t"), names.index("ops") if "ops" in names else -1
    known: dict[tuple[Any, ...], tuple[Signature, list[float]] | None] = {}

    def run(*values: Any) -> Payload:
        g = values[at]
        is_supported = g.__class__ is np.ndarray and native_kernels.has_kernels(g.dtype)
        kernels = native_kernels.kernels() if is_supported else None
        if kernels is None:
            return rule(*values)
        operands: list[Any] = []
        key: list[Any] = []
        for place, value in enumerate(values):
            if place == words:
                continue
            if isinstance(value, (np.ndarray, np.generic)):
                value = _operand(value, g)
                if value is None:
                    return rule(*values)
                operands.append(value)
                key.append(_ARRAY)
            else:
                key.append(value)
        try:
            found = known[tuple(key)]
        except KeyError:
            make_room(known, _MOST)
            found = known[tuple(key)] = _formula(rule, values, words)
        except TypeError:  # an unhashable setting
            return rule(*values)
        out = None if found is None else kernels.formula(*found, g.shape, operands)
        return rule(*values) if out is None else out

    return run


def make_device_rule(rule: Callable[..., Any], names: tuple[str, ...]) -> Callable[..., Any]:
    """Return the rule for arrays on a device; it returns None if there is no kernel."""
    words = names.index("ops") if "ops" in names else -1
    known: dict[tuple[Any, ...], tuple[Callable[..., Any], list[float]] | None] = {}
    own, ndarray = device_kernels.kernels(), library.device_library.ndarray

    def write_kernel(values: tuple[Any, ...]) -> tuple[Callable[..., Any], list[float]] | None:
        found = _formula(rule, values, words, ndarray)
        run = None if found is None else own.planned(found[0])
        return None if found is None or run is None else (run, found[1])

    def run(*values: Any) -> Payload:
        if own is None:
            return None
        key = tuple([_ARRAY if value.__class__ is ndarray else value for value in values])
        try:
            found = known[key]
        except KeyError:
            make_room(known, _MOST)
            found = known[key] = write_kernel(values)
        except TypeError:  # an unhashable setting
            return None
        if found is None:
            return None
        return found[0](*[value for value in values if value.__class__ is ndarray], *found[1])

    return run


_ARRAY = object()


def _operand(x: Payload, like: NDArray[Any]) -> Payload:
    """Return an operand of a kernel: an array like the gradient, or one number; None if kernels do not support it."""
    if x.dtype != like.dtype:
        return None
    if x.shape == like.shape and x.__class__ is np.ndarray:
        if native_kernels.is_dense(x):
            return x
        if any(x.strides):
            return np.array(x, order="C")
        x = x[(0,) * x.ndim]  # one number for all elements, as in the gradient of a sum
    return np.asarray(x) if x.size == 1 and x.ndim <= like.ndim else None


def _formula(
    rule: Callable[..., Any],
    values: tuple[Any, ...],
    words: int,
    arrays: tuple[type[Any], ...] = (np.ndarray, np.generic),
) -> tuple[Signature, list[float]] | None:
    """Return the formula of a rule, with the numbers among its arguments; None if the rule is not a formula."""
    formula = Formula()
    given = [
        Words(formula) if place == words else formula.input() if isinstance(value, arrays) else value
        for place, value in enumerate(values)
    ]
    try:
        return formula.signature([rule(*given)]), formula.numbers
    except Exception:  # a rule may do anything with symbols; on arrays it is right or raises
        return None
