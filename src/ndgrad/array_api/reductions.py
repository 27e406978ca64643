"""Numbers that stand for many: sums, extremes, means, deviations, running sums, differences."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from ndgrad.array_api.naming import named
from ndgrad.numpy import calculus
from ndgrad.numpy import reductions as ours

__all__ = ["all", "any", "count_nonzero", "cumulative_prod", "cumulative_sum", "diff", "max", "mean", "min", "prod", "std", "sum", "var"]


def _reduction(name: str) -> Callable[..., Any]:
    reduction = getattr(ours, name)

    def function(x: Any, /, *, axis: Any = None, keepdims: bool = False) -> Any:
        return reduction(x, axis, keepdims=keepdims)

    return named(function, "ndgrad.array_api", name, reduction.__doc__)


def _total(name: str) -> Callable[..., Any]:
    reduction = getattr(ours, name)

    def function(x: Any, /, *, axis: Any = None, dtype: Any = None, keepdims: bool = False) -> Any:
        return reduction(x, axis, dtype, keepdims=keepdims)

    return named(function, "ndgrad.array_api", name, reduction.__doc__)


def _spread(name: str) -> Callable[..., Any]:
    reduction = getattr(ours, name)

    def function(x: Any, /, *, axis: Any = None, correction: float = 0.0, keepdims: bool = False) -> Any:
        return reduction(x, axis, keepdims=keepdims, correction=correction)

    return named(function, "ndgrad.array_api", name, reduction.__doc__)


def _running(name: str) -> Callable[..., Any]:
    scan = getattr(ours, name)

    def function(x: Any, /, *, axis: int | None = None, dtype: Any = None, include_initial: bool = False) -> Any:
        return scan(x, axis=axis, dtype=dtype, include_initial=include_initial)

    return named(function, "ndgrad.array_api", name, scan.__doc__)


all, any, max, min, mean = (_reduction(name) for name in ("all", "any", "max", "min", "mean"))
count_nonzero = _reduction("count_nonzero")
sum, prod = _total("sum"), _total("prod")
std, var = _spread("std"), _spread("var")
cumulative_sum, cumulative_prod = _running("cumulative_sum"), _running("cumulative_prod")


def diff(x: Any, /, *, axis: int = -1, n: int = 1, prepend: Any = None, append: Any = None) -> Any:
    """Differences of neighbours along an axis, taken n times."""
    ends = {name: value for name, value in (("prepend", prepend), ("append", append)) if value is not None}
    return calculus.diff(x, n, axis, **ends)
