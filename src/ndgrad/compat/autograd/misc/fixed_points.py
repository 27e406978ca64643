"""Fixed points that are differentiable in the parameter of their map."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from ndgrad import implicit
from ndgrad._src.foundations.pytree import tree_leaves, tree_map
from ndgrad.compat.autograd.boxes import as_tensors, is_box, plain


def fixed_point(
    f: Callable[[Any], Callable[[Any], Any]], a: Any, x0: Any, distance: Callable[[Any, Any], Any], tol: float
) -> Any:
    """Return the x with f(a)(x) = x, found by iteration from x0 up to `tol` in `distance`; differentiable in `a`, not
    in x0.

    Args:
        f: function of the parameter that returns the map.
        a: parameter of the map.
        x0: start of the iteration.
        distance: function of two iterates that returns their distance.
        tol: distance at which the iteration ends.

    >>> import ndgrad.compat.autograd.numpy as np
    >>> from ndgrad.compat.autograd import grad
    >>> from ndgrad.compat.autograd.misc.fixed_points import fixed_point
    >>> root = lambda a: fixed_point(lambda a: lambda x: 0.5 * (x + a / x), a, 1.0, lambda x, y: np.abs(x - y), 1e-12)
    >>> grad(root)(4.0)
    np.float64(0.25)
    """
    constant = tree_map(lambda t: plain(t.detach()) if is_box(t) else t, a)
    step = f(constant)
    x, before = step(x0), x0
    while distance(x, before) > tol:
        x, before = step(x), x
    if not any(map(is_box, tree_leaves(a))):
        return x
    return implicit.fixed_point(lambda v, parameter: as_tensors(f(parameter)(v)), as_tensors(x), (a,), tol=tol)
