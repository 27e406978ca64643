"""Reductions: sums, extremes, means, deviations, running sums, differences."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING

from ndgrad.array_api.naming import like, rename_function
from ndgrad.numpy import calculus
from ndgrad.numpy import reductions as ours

if TYPE_CHECKING:
    from ndgrad._typing import Array, ArrayLike, Axes, Dtype

__all__ = [
    "all", "any", "count_nonzero", "cumulative_prod", "cumulative_sum", "diff", "max", "mean", "min", "prod", "std",
    "sum", "var",
]  # fmt: skip


def _reduction(name: str) -> Callable[..., Array]:
    reduction = getattr(ours, name)

    def function(x: ArrayLike, /, *, axis: Axes = None, keepdims: bool = False) -> Array:
        return reduction(x, axis, keepdims=keepdims)

    return rename_function(function, "ndgrad.array_api", name, reduction)


def _total(name: str) -> Callable[..., Array]:
    reduction = getattr(ours, name)

    def function(x: ArrayLike, /, *, axis: Axes = None, dtype: Dtype = None, keepdims: bool = False) -> Array:
        return reduction(x, axis, dtype, keepdims=keepdims)

    return rename_function(function, "ndgrad.array_api", name, reduction)


def _make_deviation(name: str) -> Callable[..., Array]:
    reduction = getattr(ours, name)

    def function(x: ArrayLike, /, *, axis: Axes = None, correction: float = 0.0, keepdims: bool = False) -> Array:
        return reduction(x, axis, keepdims=keepdims, correction=correction)

    correction = "number subtracted from the count of elements in the divisor."
    return rename_function(function, "ndgrad.array_api", name, reduction, correction=correction)


def _make_scan(name: str) -> Callable[..., Array]:
    scan = getattr(ours, name)

    def function(
        x: ArrayLike, /, *, axis: int | None = None, dtype: Dtype = None, include_initial: bool = False
    ) -> Array:
        return scan(x, axis=axis, dtype=dtype, include_initial=include_initial)

    return rename_function(function, "ndgrad.array_api", name, scan)


all, any, max, min, mean = (_reduction(name) for name in ("all", "any", "max", "min", "mean"))
count_nonzero = _reduction("count_nonzero")
sum, prod = _total("sum"), _total("prod")
std, var = _make_deviation("std"), _make_deviation("var")
cumulative_sum, cumulative_prod = _make_scan("cumulative_sum"), _make_scan("cumulative_prod")


@like(calculus.diff)
def diff(
    x: ArrayLike, /, *, axis: int = -1, n: int = 1, prepend: ArrayLike | None = None, append: ArrayLike | None = None
) -> Array:
    ends = {name: value for name, value in (("prepend", prepend), ("append", append)) if value is not None}
    return calculus.diff(x, n, axis, **ends)
