"""`torch._higher_order_ops.associative_scan`: prefixes of an associative function."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from ndgrad._src.control_flow.associative import associative_scan as _scan
from ndgrad._src.foundations.missing_names import refuse_absent as _refuse_absent

__all__ = ["associative_scan"]


def associative_scan(
    combine_fn: Callable[..., Any], xs: Any, dim: int, reverse: bool = False, combine_mode: str = "pointwise"
) -> Any:
    """Return all prefixes of `xs` along a dimension under an associative function of two trees.

    >>> import ndgrad
    >>> from ndgrad._higher_order_ops import associative_scan
    >>> associative_scan(lambda a, b: a * b, ndgrad.tensor([1.0, 2.0, 3.0]), 0)
    tensor([1., 2., 6.])
    """
    if combine_mode not in ("pointwise", "generic"):
        raise ValueError(f"Combine_mode must be 'pointwise' or 'generic', but is {combine_mode!r}. [nd-option]")
    return _scan(combine_fn, xs, axis=dim, reverse=reverse)


_refuse_absent(__name__)
