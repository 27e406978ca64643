"""Python's `statistics` in lifted code: the original functions compute with fractions, which have no derivative.

If no derivative is at stake, Python's own functions are called. Functions that select from the data (median, mode,
quantiles) work on Arrays unchanged.
"""

from __future__ import annotations

import functools
import statistics
from collections.abc import Callable
from typing import Any

import ndgrad.numpy as dnp
from ndgrad._src.core.detach_checks import at_stake
from ndgrad._src.lifting.numbers import python_number


def _row(data: Any) -> Any:
    return dnp.array(list(data))


def _mean(data: Any) -> Any:
    return dnp.mean(_row(data))


def _weighted_mean(data: Any, weights: Any = None) -> Any:
    return dnp.mean(_row(data)) if weights is None else dnp.average(_row(data), weights=_row(weights))


def _geometric_mean(data: Any) -> Any:
    return dnp.exp(dnp.mean(dnp.log(_row(data))))


def _harmonic_mean(data: Any, weights: Any = None) -> Any:
    values = _row(data)
    shares = dnp.ones(len(values)) if weights is None else _row(weights)
    return dnp.sum(shares) / dnp.sum(shares / values)


def _variance_rule(correction: int) -> Callable[..., Any]:
    def variance(data: Any, middle: Any = None) -> Any:
        values = _row(data)
        centre = dnp.mean(values) if middle is None else middle
        return dnp.sum((values - centre) ** 2) / (len(values) - correction)

    return variance


def _root_rule(of: Callable[..., Any]) -> Callable[..., Any]:
    return lambda data, middle=None: dnp.sqrt(of(data, middle))


def _covariance(x: Any, y: Any, /) -> Any:
    a, b = _row(x), _row(y)
    return dnp.sum((a - dnp.mean(a)) * (b - dnp.mean(b))) / (len(a) - 1)


def _correlation(x: Any, y: Any, /, *, method: str = "linear") -> Any:
    a, b = _row(x), _row(y)
    if method != "linear":
        raise TypeError(
            f"statistics.correlation with method={method!r} was called by lifted code: ranks have no derivative. Use "
            "method='linear'. [nd-no-derivative]"
        )
    a, b = a - dnp.mean(a), b - dnp.mean(b)
    return dnp.sum(a * b) / dnp.sqrt(dnp.sum(a * a) * dnp.sum(b * b))


def _linear_regression(x: Any, y: Any, /, *, proportional: bool = False) -> Any:
    a, b = _row(x), _row(y)
    x0, y0 = (0.0, 0.0) if proportional else (dnp.mean(a), dnp.mean(b))
    slope = dnp.sum((a - x0) * (b - y0)) / dnp.sum((a - x0) ** 2)
    made: Any = statistics.LinearRegression  # its fields are floats for type checkers
    return made(slope=slope, intercept=y0 - slope * x0)


_RULES: dict[str, Callable[..., Any]] = {
    "mean": _mean, "fmean": _weighted_mean, "geometric_mean": _geometric_mean, "harmonic_mean": _harmonic_mean,
    "variance": _variance_rule(1), "pvariance": _variance_rule(0),
    "stdev": _root_rule(_variance_rule(1)), "pstdev": _root_rule(_variance_rule(0)),
    "covariance": _covariance, "correlation": _correlation, "linear_regression": _linear_regression,
}  # fmt: skip


def _wrap_rule(name: str, rule: Callable[..., Any]) -> Callable[..., Any]:
    theirs = getattr(statistics, name)

    @functools.wraps(theirs)
    def call(*args: Any, **kwargs: Any) -> Any:
        args = tuple(list(a) if hasattr(a, "__next__") else a for a in args)
        if not at_stake(args, kwargs):
            return theirs(*args, **kwargs)
        # Run it for its errors, such as too few data.
        theirs(*map(_plain, args), **{k: _plain(a) for k, a in kwargs.items()})
        made = rule(*args, **kwargs)
        return made if isinstance(made, tuple) else python_number(made)

    return call


def _plain(value: Any) -> Any:
    """Replace Arrays by numbers."""
    if isinstance(value, (list, tuple)):
        return [_plain(v) for v in value]
    return value.detach().tolist() if hasattr(value, "detach") else value


#: Replacements of the functions of `statistics` that compute with their data.
STATISTICS = {name: _wrap_rule(name, rule) for name, rule in _RULES.items()}
