"""torch's older names of `ndgrad.amp`, for GPUs."""

from __future__ import annotations

import functools
import warnings
from typing import TYPE_CHECKING, Any

from ndgrad import amp
from ndgrad._src.foundations.missing_names import refuse_absent as _refuse_absent
from ndgrad.amp import autocast_mode, grad_scaler

if TYPE_CHECKING:
    from ndgrad._typing import Dtype

__all__ = ["GradScaler", "autocast", "autocast_mode", "custom_bwd", "custom_fwd", "grad_scaler"]


def _warn_deprecated(old: str, new: str) -> None:
    warnings.warn(f"`{old}` is deprecated. Please use `{new}` instead.", FutureWarning, stacklevel=3)


class autocast(amp.autocast):
    """Older form of `ndgrad.amp.autocast("cuda", ...)`.

    Args:
        enabled: whether the object has an effect.
        dtype: dtype of products and convolutions in the block. The default is that of `ndgrad.amp.autocast("cuda")`.
        cache_enabled: whether converted weights are kept for the block.
    """

    def __init__(self, enabled: bool = True, dtype: Dtype | None = None, cache_enabled: bool = True) -> None:
        _warn_deprecated("ndgrad.cuda.amp.autocast(args...)", "ndgrad.amp.autocast('cuda', args...)")
        super().__init__("cuda", dtype, enabled, cache_enabled)


class GradScaler(amp.GradScaler):
    """Older form of `ndgrad.amp.GradScaler("cuda", ...)`.

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
        _warn_deprecated("ndgrad.cuda.amp.GradScaler(args...)", "ndgrad.amp.GradScaler('cuda', args...)")
        super().__init__("cuda", init_scale, growth_factor, backoff_factor, growth_interval, enabled)


def custom_fwd(fwd: Any = None, *, cast_inputs: Dtype | None = None) -> Any:
    """Older form of `ndgrad.amp.custom_fwd(..., device_type="cuda")`.

    Args:
        fwd: forward of a Function. Without it, the result is a decorator.
        cast_inputs: dtype to which arguments are converted. The default keeps them.
    """
    _warn_deprecated("ndgrad.cuda.amp.custom_fwd(args...)", "ndgrad.amp.custom_fwd(args..., device_type='cuda')")
    return functools.partial(amp.custom_fwd, device_type="cuda")(fwd, cast_inputs=cast_inputs)


def custom_bwd(bwd: Any) -> Any:
    """Older form of `ndgrad.amp.custom_bwd(..., device_type="cuda")`.

    Args:
        bwd: backward of a Function.
    """
    _warn_deprecated("ndgrad.cuda.amp.custom_bwd(args...)", "ndgrad.amp.custom_bwd(args..., device_type='cuda')")
    return amp.custom_bwd(bwd, device_type="cuda")


_refuse_absent(__name__)
