"""What SciPy has and ndgrad has no rule for.

The constraint: programs that are moved to `ndgrad.scipy` also call what designs a filter, finds peaks or makes a Hilbert matrix. Such calls
run on SciPy's own function as long as no argument carries a derivative; one that does is refused, with the name of the nearest call that
works. So nothing is lost silently, and a name of SciPy's is missing only if SciPy has not got it.
"""

from __future__ import annotations

import functools
import types
from collections.abc import Callable, Mapping
from typing import Any

import numpy as np

from ndgrad.autograd.stake import first_at_stake, stake_of
from ndgrad.autograd.variable import Variable
from ndgrad.implicit.convergence import scipy_module
from ndgrad.numpy.coercion import as_array, as_arrays, inexact, values_of
from ndgrad.storage import memory_of

#: What a refusal suggests where nothing of the kind is differentiable.
ONLY_VALUES = "detach() the argument if its gradient is not wanted"


def floating(x: Any) -> Any:
    """An argument as an Array of floating (or complex) numbers; integers become float64."""
    return inexact(as_array(x))


def finite(x: Any, check: bool = True) -> Any:
    """The same, refused if it holds infinities or NaN and the check was not switched off, as in SciPy."""
    t = floating(x)
    if check and not np.isfinite(memory_of(t)).all():
        raise ValueError("array must not contain infs or NaNs")
    return t


def refuse_active(name: str, arguments: Any, instead: str) -> None:
    found = first_at_stake(arguments)
    if found is not None:
        raise NotImplementedError(
            f"{name} has no derivative here, and got a tensor of shape {tuple(found.shape)} that {stake_of(found)}. Instead: {instead}."
        )


def without_tensors(value: Any) -> Any:
    """An argument for SciPy: plain arrays in the place of tensors."""
    if isinstance(value, Variable):
        return values_of(value)
    if isinstance(value, (list, tuple)) and not hasattr(value, "_fields"):
        return type(value)(without_tensors(v) for v in value)
    return {k: without_tensors(v) for k, v in value.items()} if isinstance(value, dict) else value


def on_constants(name: str, theirs: Callable[..., Any], instead: str, *, decides: bool = False) -> Callable[..., Any]:
    """SciPy's own function on constants. With `decides`, its answer is a place, a count or a yes: then nothing is lost, whatever it
    reads."""

    @functools.wraps(theirs, updated=())
    def call(*args: Any, **kwargs: Any) -> Any:
        if not decides:
            refuse_active(name, (args, kwargs), instead)
        made = theirs(*without_tensors(args), **without_tensors(kwargs))
        return made if decides else as_arrays(made)

    return call


def beyond(submodule: str, instead: Mapping[str, str], decisions: str = "", otherwise: str = ONLY_VALUES) -> Callable[[str], Any]:
    """The `__getattr__` of a submodule: names of SciPy's that it does not have itself.

    `instead` names the nearest call that works, `decisions` the functions whose answers are not numbers that depend smoothly on anything.
    """
    deciding = frozenset(decisions.split())

    def find(name: str) -> Any:
        if name.startswith("_"):
            raise AttributeError(f"module 'ndgrad.scipy.{submodule}' has no attribute {name!r}")
        theirs = getattr(scipy_module(submodule, f"ndgrad.scipy.{submodule}"), name, None)
        if theirs is None:
            raise AttributeError(f"module 'ndgrad.scipy.{submodule}' has no attribute {name!r}, nor has SciPy's module")
        is_class = isinstance(theirs, type)
        if isinstance(theirs, types.ModuleType) or not callable(theirs) or (is_class and issubclass(theirs, (BaseException, Warning))):
            return theirs
        return on_constants(f"scipy.{submodule}.{name}", theirs, instead.get(name, otherwise), decides=name in deciding)

    find.decisions = deciding  # type: ignore[attr-defined]  # functions take attributes
    return find


__all__ = ["ONLY_VALUES", "beyond", "finite", "floating", "on_constants", "refuse_active", "without_tensors"]
