"""Functions of SciPy for which ndgrad has no rule.

Programs that are moved to `ndgrad.scipy` also call functions that design a filter, find peaks or create a Hilbert
matrix. Such calls run SciPy's own function as long as no argument carries a derivative. An argument with a derivative
raises an error that names the nearest call that works. So no derivative is lost silently, and a name is missing only if
SciPy does not have it.
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

#: Suggestion of an error if no similar function is differentiable.
ONLY_VALUES = "detach() the argument if its gradient is not wanted"


def floating(x: ArrayLike) -> Array:
    """Return an argument as an Array of floating-point (or complex) numbers; integers become float64."""
    return inexact(as_array(x))


def finite(x: ArrayLike, check: bool = True) -> Array:
    """Same as `floating`; raise for infinities and NaN unless the check is disabled, as in SciPy."""
    t = floating(x)
    if check and not np.isfinite(memory_of(t)).all():
        raise ValueError("array must not contain infs or NaNs [nd-values]")
    return t


def is_our_sparse(value: object) -> bool:
    """True if this is a SparseArray. The test uses its attributes, since the module of sparse arrays imports this
    one.
    """
    return hasattr(value, "to_scipy") and isinstance(getattr(value, "data", None), Variable)


def active_in(value: Any) -> Tensor | None:
    """Return the first tensor in an argument, also in sparse arrays, that carries a derivative; None if there is
    none.
    """
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
            f"{name} has no derivative here, but got a tensor of shape {tuple(found.shape)} that {stake_of(found)}. "
            f"Instead: {instead}. [nd-no-derivative]"
        )


def strip_tensors(value: Any, name: str = "a function of SciPy's") -> Any:
    """Convert an argument for SciPy: tensors become plain arrays, and our sparse arrays SciPy's. A function is wrapped
    to return numbers, and raises if its result carries a derivative, because it may close over such a tensor.
    """
    if isinstance(value, Variable):
        return values_of(value)
    if is_our_sparse(value):
        return value.to_scipy()
    if isinstance(value, (types.FunctionType, types.MethodType, functools.partial)):
        return _refuse_active_results(value, name)
    if isinstance(value, (list, tuple)) and not hasattr(value, "_fields"):
        return type(value)(strip_tensors(v, name) for v in value)
    return {k: strip_tensors(v, name) for k, v in value.items()} if isinstance(value, dict) else value


def _refuse_active_results(function: Callable[..., Any], name: str) -> Callable[..., Any]:
    def call(*args: Any, **kwargs: Any) -> Any:
        made = function(*args, **kwargs)
        refuse_active(
            f"{name}: the result of its function",
            made,
            "the same with functions of ndgrad, or detach() what it closes over",
        )
        return strip_tensors(made)

    functools.update_wrapper(call, function)  # SciPy inspects the signature of some functions
    return call


def wrap_for_constants(
    name: str, theirs: Callable[..., Any], instead: str, *, decides: bool = False
) -> Callable[..., Any]:
    """Return SciPy's own function on constants. With `decides`, its result is an index, a count or a boolean: then no
    derivative is lost.
    """

    @functools.wraps(theirs, updated=())
    def call(*args: Any, **kwargs: Any) -> Any:
        if not decides:
            refuse_active(name, (args, kwargs), instead)
        made = theirs(*strip_tensors(args, name), **strip_tensors(kwargs, name))
        return made if decides else as_arrays(made)

    return call


def make_module_getattr(
    submodule: str, instead: Mapping[str, str], decisions: str = "", otherwise: str = ONLY_VALUES,
) -> Callable[[str], Any]:  # fmt: skip
    """Return the `__getattr__` of a submodule, for SciPy's names that it does not define itself.

    `instead` names the nearest call that works, `decisions` the functions whose results are not differentiable in
    anything.
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
        made: Any = wrap_for_constants(
            f"scipy.{submodule}.{name}", theirs, instead.get(name, otherwise), decides=name in deciding
        )
        if is_class:
            made.stands_for_class = theirs  # for isinstance() in lifted code
        return made

    find.decisions = deciding  # type: ignore[attr-defined]  # functions take attributes
    find.instead = instead  # type: ignore[attr-defined]
    return find


def public_of(module: str) -> Callable[[], list[str]]:
    """Return the `__dir__` of a module: the names in its `__all__`, without its own imports."""
    return lambda: sorted(sys.modules[module].__all__)


__all__ = [
    "ONLY_VALUES", "finite", "floating", "make_module_getattr", "public_of", "refuse_active", "strip_tensors",
    "wrap_for_constants",
]  # fmt: skip
