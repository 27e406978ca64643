"""Checks of derivatives against finite differences, in both modes and to any order."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from itertools import product
from typing import Any

import numpy as np

from ndgrad._src.foundations.pytree import tree_flatten, tree_map
from ndgrad.compat.autograd.boxes import plain
from ndgrad.compat.autograd.differential_operators import _unary, make_jvp, make_vjp
from ndgrad.compat.autograd.extend import vspace

TOL = RTOL = 1e-6
EPS = 1e-6


def scalar_close(a: Any, b: Any) -> bool:
    """True if two numbers are equal within 1e-6, absolutely or relatively.

    Args:
        a, b: numbers.
    """
    return bool(abs(a - b) < TOL or abs(a - b) / abs(a + b) < RTOL)


def make_numerical_jvp(f: Callable[..., Any], x: Any) -> Callable[[Any], Any]:
    """Return the derivative along a direction by central differences.

    Args:
        f: function of one argument.
        x: point.
    """

    def jvp(v: Any) -> Any:
        up = plain(f(tree_map(lambda a, d: a + d * (EPS / 2), x, v)))
        down = plain(f(tree_map(lambda a, d: a - d * (EPS / 2), x, v)))
        return tree_map(lambda a, b: (a - b) / EPS, up, down)

    return jvp


def check_vjp(f: Callable[..., Any], x: Any) -> None:
    """Check reverse mode against differences, in random directions.

    Args:
        f: function of one argument.
        x: point.

    Raises:
        AssertionError: if the two differ.
    """
    vjp, value = make_vjp(f)(x)
    into, out = vspace(x), vspace(value)
    along, weights = into.randn(), out.randn()
    gradient = vjp(weights)
    if vspace(gradient) != into:
        raise AssertionError(f"the gradient lies in {vspace(gradient)}, the argument in {into} [nd-not-close]")
    derivative = make_numerical_jvp(f, x)(along)
    expected = into.inner_prod(out.covector(weights), derivative)
    found = into.inner_prod(along, into.covector(gradient))
    if not scalar_close(expected, found):
        raise AssertionError(
            f"Derivative (VJP) check of {_name(f)} failed with arg {x}: by differences {expected}, by reverse "
            f"mode {found} [nd-not-close]"
        )


def check_jvp(f: Callable[..., Any], x: Any) -> None:
    """Check forward mode against differences, in a random direction.

    Args:
        f: function of one argument.
        x: point.

    Raises:
        AssertionError: if the two differ.
    """
    along = vspace(x).randn()
    expected, found = make_numerical_jvp(f, x)(along), make_jvp(f)(x)(along)[1]
    for a, b in zip(tree_flatten(expected)[0], tree_flatten(found)[0], strict=True):
        if not np.allclose(a, b, rtol=1e-5, atol=1e-5 * max(1.0, float(np.max(np.abs(a), initial=0.0)))):
            raise AssertionError(
                f"Derivative (JVP) check of {_name(f)} failed with arg {x}: "
                f"by differences {a}, by forward mode {b} [nd-not-close]"
            )


def _name(f: Callable[..., Any]) -> str:
    return getattr(f, "__name__", repr(f))


def check_equivalent(x: Any, y: Any) -> None:
    """Check that two values have the same structure and are nearly equal.

    Args:
        x, y: values of any structure.

    Raises:
        AssertionError: if they differ.
    """
    if vspace(x) != vspace(y):
        raise AssertionError(f"{x} and {y} lie in different spaces [nd-not-close]")
    direction = vspace(x).randn()
    if not scalar_close(vspace(x).inner_prod(x, direction), vspace(x).inner_prod(y, direction)):
        raise AssertionError(f"{x} and {y} differ [nd-not-close]")


def check_grads(
    f: Callable[..., Any], argnum: Any = 0, *, modes: Sequence[str] = ("fwd", "rev"), order: int = 2
) -> Callable[..., None]:
    """Return a function of the arguments of `f` that raises unless derivatives up to `order` agree with finite
    differences.

    Args:
        f: function to check.
        argnum: number or numbers of the arguments to differentiate in. None means all.
        modes: modes to check: `"fwd"`, `"rev"` or both.
        order: highest order of derivatives.
    """

    def check(*args: Any, **kwargs: Any) -> None:
        of_one, x = _unary(f, tuple(range(len(args))) if argnum is None else argnum, args, kwargs)
        of_one.__name__ = _name(f)
        _check(of_one, x, modes, order)

    return check


def _check(f: Callable[..., Any], x: Any, modes: Sequence[str], order: int) -> None:
    if "fwd" in modes:
        check_jvp(f, x)
        if order > 1:
            along = vspace(x).randn()

            def jvp(given: tuple[Any, Any]) -> Any:
                return make_jvp(f)(given[0])(given[1])[1]

            jvp.__name__ = f"jvp_{_name(f)}"
            _check(jvp, (x, along), modes, order - 1)
    if "rev" in modes:
        check_vjp(f, x)
        if order > 1:
            weights = vspace(plain(f(x))).randn()

            def vjp(given: tuple[Any, Any]) -> Any:
                """Return the vjp as a function of the argument and of the cotangent: a rule may be wrong in either."""
                return make_vjp(f)(given[0])[0](given[1])

            vjp.__name__ = f"vjp_{_name(f)}"
            _check(vjp, (x, weights), modes, order - 1)


def combo_check(
    fun: Callable[..., Any], argnums: Sequence[int], *, order: int = 2, modes: Sequence[str] = ("fwd", "rev")
) -> Callable[..., None]:
    """Same as `check_grads`, for all combinations of lists of arguments and keyword arguments.

    Args:
        fun: function to check.
        argnums: numbers of the arguments to differentiate in.
        order: highest order of derivatives.
        modes: modes to check: `"fwd"`, `"rev"` or both.
    """

    def check(*args: Any, **kwargs: Any) -> None:
        names = list(kwargs)
        for given in product(*args):
            for options in product(*kwargs.values()):
                named = dict(zip(names, options, strict=True))
                check_grads(fun, tuple(argnums), order=order, modes=modes)(*given, **named)

    return check
