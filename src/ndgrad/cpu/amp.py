"""torch's older names of `ndgrad.amp`, for the CPU."""

from __future__ import annotations

import warnings
from typing import TYPE_CHECKING

from ndgrad import amp
from ndgrad._src.arrays import dtypes
from ndgrad._src.foundations.missing_names import refuse_absent as _refuse_absent
from ndgrad.amp import autocast_mode, grad_scaler

if TYPE_CHECKING:
    from ndgrad._typing import Dtype

__all__ = ["GradScaler", "autocast", "autocast_mode", "grad_scaler"]


class autocast(amp.autocast):
    """Older form of `ndgrad.amp.autocast("cpu", ...)`.

    Args:
        enabled: whether the object has an effect.
        dtype: dtype of products and convolutions in the block.
        cache_enabled: whether converted weights are kept for the block.
    """

    def __init__(self, enabled: bool = True, dtype: Dtype = dtypes.bfloat16, cache_enabled: bool = True) -> None:
        warnings.warn(
            "`ndgrad.cpu.amp.autocast(args...)` is deprecated. "
            "Please use `ndgrad.amp.autocast('cpu', args...)` instead.",
            FutureWarning,
            stacklevel=2,
        )
        super().__init__("cpu", dtype, enabled, cache_enabled)


class GradScaler(amp.GradScaler):
    """Older form of `ndgrad.amp.GradScaler("cpu", ...)`.

    Args:
        init_scale: first scale of the loss.
        growth_factor: factor of the scale after `growth_interval` good steps.
        backoff_factor: factor of the scale after a step with infinite gradients.
        growth_interval: number of good steps before the scale grows.
        enabled: whether the object has an effect.
    """

    def __init__(
        self, init_scale: float = 2.0**16, growth_factor: float = 2.0, backoff_factor: float = 0.5,
        growth_interval: int = 2000, enabled: bool = True,
    ) -> None:  # fmt: skip
        warnings.warn(
            "`ndgrad.cpu.amp.GradScaler(args...)` is deprecated. "
            "Please use `ndgrad.amp.GradScaler('cpu', args...)` instead.",
            FutureWarning,
            stacklevel=2,
        )
        super().__init__("cpu", init_scale, growth_factor, backoff_factor, growth_interval, enabled)


_refuse_absent(__name__)
