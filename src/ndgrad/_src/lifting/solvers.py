"""Root finders of the program: the derivative of a root follows from its equation, not from the steps of the search.

Bisection moves its bounds by comparisons, so the derivative of its steps is zero. A function that the user names in
`lift(..., implicit=...)` is called on plain numbers. Its result is then made differentiable by the implicit function
theorem (`ndgrad.implicit`). Functions with the name of a bracketing method of SciPy (`brentq`, `bisect`) are treated
alike if their result is a root of their first argument.
"""

from __future__ import annotations

import functools
import inspect
from collections.abc import Callable
from typing import Any

import numpy as np

from ndgrad._src.core.grad_mode import no_grad
from ndgrad._src.core.variable import Variable, innermost_array
from ndgrad.numpy.coercion import as_array

#: Names of bracketing methods.
BRACKETING = frozenset(
    "bisect bisection bisect_root bisection_method brentq brenth brent_root ridder ridders toms748 regula_falsi "
    "false_position illinois".split()
)


class NotARoot(Exception):
    """The result of a function is not a root of its first argument."""


def plain(value: Any) -> Any:
    """Return a value without derivatives: tensors become numbers or plain arrays."""
    if isinstance(value, Variable):
        array = np.asarray(innermost_array(value))
        return array.item() if not array.ndim else array
    if isinstance(value, (list, tuple)) and type(value) in (list, tuple):
        return type(value)(map(plain, value))
    return {k: plain(v) for k, v in value.items()} if type(value) is dict else value


def wrap_solver(solver: Callable[..., Any], lifted: Callable[..., Any] | None = None) -> Callable[..., Any]:
    """Return a root finder `solver(f, ...)` with the derivative of the root of f. With `lifted`, that function runs
    instead if the result is not a root."""
    signature = _signature(solver)

    @functools.wraps(solver)
    def call(*args: Any, **kwargs: Any) -> Any:
        if not args or not callable(args[0]):
            return (lifted or solver)(*args, **kwargs)
        f, rest = args[0], args[1:]
        extra = _extra_arguments(signature, args, kwargs)

        def value(*point: Any) -> Any:
            with no_grad():
                return plain(f(*point))

        try:
            found = solver(value, *map(plain, rest), **{k: plain(v) for k, v in kwargs.items()})
            several = isinstance(found, tuple)
            root = _differentiable_root(solver.__name__, f, extra, found[0] if several else found)
        except NotARoot:
            if lifted is None:
                raise TypeError(
                    f"lift(..., implicit={solver.__name__}): its result is not a root of its first argument, so its "
                    "derivative is not known. Name functions that solve f(x, *args) = 0 for x. [nd-lift]"
                ) from None
            return lifted(*args, **kwargs)
        return (root, *found[1:]) if several else root

    return call


def _signature(solver: Callable[..., Any]) -> inspect.Signature | None:
    try:
        return inspect.signature(solver)
    except (TypeError, ValueError):
        return None


def _extra_arguments(
    signature: inspect.Signature | None, args: tuple[Any, ...], kwargs: dict[str, Any]
) -> tuple[Any, ...]:
    """Return the arguments of f besides x: the solver's parameter `args`, as in SciPy."""
    if signature is None or "args" not in signature.parameters:
        return ()
    given = signature.bind_partial(*args, **kwargs).arguments.get("args", ())
    return tuple(given) if isinstance(given, (list, tuple)) else (given,)


def _differentiable_root(name: str, f: Callable[..., Any], extra: tuple[Any, ...], root: Any) -> Any:
    from ndgrad.implicit.roots import find_root  # the package of solvers, which few programs need

    start = np.asarray(root, float)
    _check_root(f, extra, start)
    x, _ = find_root(name, f, as_array(start), extra, lambda function, x0: x0, None, {}, None, "return")
    return x


def _check_root(f: Callable[..., Any], extra: tuple[Any, ...], x: np.ndarray[Any, Any]) -> None:
    """Raise NotARoot unless f changes its sign or nearly vanishes at x."""
    step = 1e-6 * (1.0 + np.abs(x))
    with no_grad():
        here, below, above = (np.asarray(plain(f(_number(p), *extra)), float) for p in (x, x - step, x + step))
    if here.shape != x.shape:
        raise NotARoot
    scale = np.maximum(np.abs(below), np.abs(above))
    if not np.all((below * above <= 0) | (np.abs(here) <= 1e-5 * scale)):
        raise NotARoot


def _number(x: np.ndarray[Any, Any]) -> Any:
    return x if x.ndim else float(x)
