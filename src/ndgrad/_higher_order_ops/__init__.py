"""torch's private `_higher_order_ops`: loops and branches over tensors, with the signatures that torch gives them."""

from __future__ import annotations

import sys
from collections.abc import Callable
from types import ModuleType
from typing import Any

from ndgrad._src.control_flow import loops
from ndgrad._src.control_flow.associative import associative_scan as _prefixes
from ndgrad._src.core.variable import Variable
from ndgrad._src.foundations.pytree import tree_map
from ndgrad._src.transforms.transforms import vmap
from ndgrad.control_flow import cond, while_loop

__all__ = ["associative_scan", "cond", "map", "scan", "while_loop"]


def associative_scan(
    combine_fn: Callable[[Any, Any], Any], xs: Any, dim: int, reverse: bool = False, combine_mode: str = "pointwise"
) -> Any:
    """Return all prefixes of `xs` along a dimension under an associative function.

    With `combine_mode="pointwise"` the function is elementwise; with "generic" it takes elements without the dimension.

    >>> import ndgrad
    >>> from ndgrad._higher_order_ops import associative_scan
    >>> associative_scan(lambda x, y: x + y, ndgrad.tensor([1.0, 2.0, 3.0]), 0)
    tensor([1., 3., 6.])
    """
    if not callable(combine_fn):
        raise ValueError(f"Combine_fn must be a callable, but got {combine_fn!r} [nd-type]")
    if combine_mode not in ("pointwise", "generic"):
        raise ValueError(f"Combine_mode must be either 'pointwise' or 'generic', but got {combine_mode} [nd-arguments]")
    function = combine_fn if combine_mode == "pointwise" else vmap(combine_fn, in_dims=dim, out_dims=dim)
    return _prefixes(function, xs, reverse, dim)


def scan(
    combine_fn: Callable[[Any, Any], tuple[Any, Any]], init: Any, xs: Any, *, dim: int = 0, reverse: bool = False
) -> tuple[Any, Any]:
    """Run `carry, y = combine_fn(carry, x)` over the slices of `xs` along a dimension; return the last carry and all y.

    >>> import ndgrad
    >>> from ndgrad._higher_order_ops import scan
    >>> scan(lambda c, x: (c + x, c * x), ndgrad.tensor(1.0), ndgrad.tensor([2.0, 3.0]))
    (tensor(6.), tensor([2., 9.]))
    """
    rows = tree_map(lambda t: t.movedim(dim, 0) if isinstance(t, Variable) else t, xs)
    return loops.scan(combine_fn, init, rows, reverse=reverse)


def map(f: Callable[..., Any], xs: Any, *args: Any) -> Any:
    """Return `f(x, *args)` for each slice of `xs` along the first dimension, stacked.

    >>> import ndgrad
    >>> from ndgrad import _higher_order_ops
    >>> _higher_order_ops.map(lambda x, y: x.sum() * y, ndgrad.ones(2, 3), ndgrad.tensor(2.0))
    tensor([6., 6.])
    """
    return loops.map(lambda x: f(x, *args), xs)


# torch has a module of the same name as the function. A file would replace the function as an attribute of the package.
_module = ModuleType(f"{__name__}.associative_scan", associative_scan.__doc__)
_module.__dict__["associative_scan"] = associative_scan
sys.modules[_module.__name__] = _module
