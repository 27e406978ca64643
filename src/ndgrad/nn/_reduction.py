"""Numbers of the reductions of losses, and the old flags `size_average` and `reduce`, under torch's names."""

from __future__ import annotations

import warnings

from ndgrad.nn.functional.reduction import read_reduction

__all__: list[str] = []

_NUMBERS = {"none": 0, "mean": 1, "elementwise_mean": 1, "sum": 2}


def get_enum(reduction: str) -> int:
    """Return the number of a reduction: 0 for none, 1 for mean, 2 for sum."""
    if reduction not in _NUMBERS:
        raise ValueError(f"{reduction} is not a valid value for reduction. Choose none, mean or sum. [nd-option]")
    if reduction == "elementwise_mean":
        warnings.warn("reduction='elementwise_mean' is deprecated. Please use reduction='mean' instead.", stacklevel=2)
    return _NUMBERS[reduction]


def legacy_get_string(size_average: bool | None, reduce: bool | None, emit_warning: bool = True) -> str:
    """Return the reduction that two old flags stand for."""
    with warnings.catch_warnings():
        if not emit_warning:
            warnings.simplefilter("ignore")
        return read_reduction("mean", True if size_average is None else size_average, reduce)


def legacy_get_enum(size_average: bool | None, reduce: bool | None, emit_warning: bool = True) -> int:
    """Return the number of the reduction that two old flags stand for."""
    return get_enum(legacy_get_string(size_average, reduce, emit_warning))
