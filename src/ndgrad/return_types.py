"""`torch.return_types`: named results of functions that return several tensors."""

from __future__ import annotations

from ndgrad._src.tensor.return_types import (
    aminmax,
    cummax,
    cummin,
    frexp,
    geqrf,
    histogram,
    histogramdd,
    kthvalue,
    max,
    median,
    min,
    mode,
    nanmedian,
    sort,
    topk,
)

__all__ = [
    "aminmax",
    "cummax",
    "cummin",
    "frexp",
    "geqrf",
    "histogram",
    "histogramdd",
    "kthvalue",
    "max",
    "median",
    "min",
    "mode",
    "nanmedian",
    "sort",
    "topk",
]
