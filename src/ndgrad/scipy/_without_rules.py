"""What SciPy has and ndgrad has no rule for.

The constraint: programs that are moved to `ndgrad.scipy` also call what designs a filter, finds peaks or makes a
Hilbert matrix. Such calls run on SciPy's own function as long as no argument carries a derivative; one that does is
refused, with the name of the nearest call that works. So nothing is lost silently, and a name of SciPy's is missing
only if SciPy has not got it.
"""

from __future__ import annotations

import functools
import sys
import types
from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Any

import numpy as np

from ndgrad._src.core.detach_checks import first_at_stake, stake_of
from ndgrad._src.core.variable import Variable
from ndgrad._src.tensor.storage import memory_of
from ndgrad.implicit.convergence import scipy_module
from ndgrad.numpy.coercion import as_array, as_arrays, inexact, values_of

if TYPE_CHECKING:
    from ndgrad._typing import Array, ArrayLike, Tensor

#: What a refusal suggests where nothing of the kind is differentiable.
ONLY_VALUES = "detach() the argument if its gradient is not wanted"


def floating(x: ArrayLike) -> Array:
    """An argument as an Array of floating (or complex) numbers; integers become float64."""
    return inexact(as_array(x))


def finite(x: ArrayLike, check: bool = True) -> Array:
    """The same, refused if it holds infinities or NaN and the check was not switched off, as in SciPy."""
    t = floating(x)
    if check and not np.isfinite(memory_of(t)).all():
        raise ValueError("array must not contain infs or NaNs [nd-values]")
    return t


def is_our_sparse(value: object) -> bool:
    """Whether this is a SparseArray; asked by its attributes, since the module of sparse
    arrays is built on this one."""
    return hasattr(value, "to_scipy") and isinstance(getattr(value, "data", None), Variable)


def active_in(value: Any) -> Tensor | None:
    """The first tensor in an argument, in sparse arrays too, that has a derivative at stake; None if there is none."""
    if is_our_sparse(value):
        return first_at_stake(value.data)
    if isinstance(value, (list, tuple, dict)):
        items = value.values() if isinstance(value, dict) else value
        return next((found for item in items if (found := active_in(item)) is not None), None)
    return first_at_stake(value)


def refuse_active(name: str, arguments: Any, instead: str) -> None:
    found = active_in(arguments)
    if found is not None:
        raise NotImplementedError(
            f"{name} has no derivative here, and got a tensor of shape {tuple(found.shape)} that {stake_of(found)}. "
            f"Instead: {instead}. [nd-no-derivative]"
        )


def without_tensors(value: Any, name: str = "a function of SciPy's") -> Any:
    """An argument for SciPy: plain arrays in the place of tensors, SciPy's sparse arrays in the place of ours, and in
    the place of a function one that gives numbers, and refuses to where its result carries a derivative: it may close
    over a tensor that does."""
    if isinstance(value, Variable):
        return values_of(value)
    if is_our_sparse(value):
        return value.to_scipy()
    if isinstance(value, (types.FunctionType, types.MethodType, functools.partial)):
        return _of_numbers(value, name)
    if isinstance(value, (list, tuple)) and not hasattr(value, "_fields"):
        return type(value)(without_tensors(v, name) for v in value)
    return {k: without_tensors(v, name) for k, v in value.items()} if isinstance(value, dict) else value


def _of_numbers(function: Callable[..., Any], name: str) -> Callable[..., Any]:
    def call(*args: Any, **kwargs: Any) -> Any:
        made = function(*args, **kwargs)
        refuse_active(
            f"{name}: the result of its function",
            made,
            "the same with functions of ndgrad, or detach() what it closes over",
        )
        return without_tensors(made)

    functools.update_wrapper(call, function)  # SciPy asks some functions for their signature
    return call


def on_constants(name: str, theirs: Callable[..., Any], instead: str, *, decides: bool = False) -> Callable[..., Any]:
    """SciPy's own function on constants. With `decides`, its answer is a place, a count or a yes: then nothing is
    lost, whatever it reads."""

    @functools.wraps(theirs, updated=())
    def call(*args: Any, **kwargs: Any) -> Any:
        if not decides:
            refuse_active(name, (args, kwargs), instead)
        made = theirs(*without_tensors(args, name), **without_tensors(kwargs, name))
        return made if decides else as_arrays(made)

    return call


def beyond(
    submodule: str, instead: Mapping[str, str], decisions: str = "", otherwise: str = ONLY_VALUES,
) -> Callable[[str], Any]:  # fmt: skip
    """The `__getattr__` of a submodule: names of SciPy's that it does not have itself.

    `instead` names the nearest call that works, `decisions` the functions whose answers are not numbers that
    depend smoothly on anything.
    """
    deciding = frozenset(decisions.split())

    def find(name: str) -> Any:
        if name.startswith("_"):
            raise AttributeError(f"module 'ndgrad.scipy.{submodule}' has no attribute {name!r}")
        theirs = getattr(scipy_module(submodule, f"ndgrad.scipy.{submodule}"), name, None)
        if theirs is None:
            raise AttributeError(
                f"module 'ndgrad.scipy.{submodule}' has no attribute {name!r}, nor has SciPy's module [nd-absent]"
            )
        is_class = isinstance(theirs, type)
        if (
            isinstance(theirs, types.ModuleType)
            or not callable(theirs)
            or (is_class and issubclass(theirs, (BaseException, Warning)))
        ):
            return theirs
        return on_constants(f"scipy.{submodule}.{name}", theirs, instead.get(name, otherwise), decides=name in deciding)

    find.decisions = deciding  # type: ignore[attr-defined]  # functions take attributes
    return find


def public_of(module: str) -> Callable[[], list[str]]:
    """The `__dir__` of a module: the names in its `__all__`, without what it imports for itself."""
    return lambda: sorted(sys.modules[module].__all__)


__all__ = [
    "ONLY_VALUES", "beyond", "finite", "floating", "on_constants", "public_of", "refuse_active", "without_tensors",
]  # fmt: skip
