"""Reduction of losses: `reduction`, and torch's two older flags."""

from __future__ import annotations

import warnings
from typing import TYPE_CHECKING

from ndgrad._src.ops.vocabulary import tensor_ops as ops

if TYPE_CHECKING:
    from ndgrad._typing import Tensor

_KINDS = ("none", "mean", "sum")


def read_reduction(
    reduction: str, size_average: bool | None = None, reduce: bool | None = None, *, more: tuple[str, ...] = ()
) -> str:
    """Return the reduction to use; the deprecated flags take precedence, with a warning."""
    if size_average is not None or reduce is not None:
        average = True if size_average is None else size_average
        wanted = True if reduce is None else reduce
        reduction = ("mean" if average else "sum") if wanted else "none"
        warnings.warn(
            f"size_average and reduce args will be deprecated, please use reduction={reduction!r} instead.",
            stacklevel=3,
        )
    if reduction not in _KINDS and reduction not in more:
        raise ValueError(
            f"{reduction} is not a valid value for reduction. Choose one of {', '.join((*_KINDS, *more))}. [nd-option]"
        )
    return reduction


def reduce_loss(loss: Tensor, reduction: str) -> Tensor:
    """Return the losses, their mean or their sum."""
    if reduction == "mean":
        return ops.mean_all(loss)
    return ops.sum_all(loss) if reduction == "sum" else loss
