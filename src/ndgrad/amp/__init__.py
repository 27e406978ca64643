"""torch's `amp`: functions run in half precision if that is safe, and gradients are scaled against underflow."""

from __future__ import annotations

from ndgrad._src.foundations.missing_names import refuse_absent as _refuse_absent
from ndgrad.amp import autocast_mode, grad_scaler
from ndgrad.amp.autocast_mode import autocast, custom_bwd, custom_fwd, is_autocast_available
from ndgrad.amp.grad_scaler import GradScaler

__all__ = [
    "GradScaler", "autocast", "autocast_mode", "custom_bwd", "custom_fwd", "grad_scaler", "is_autocast_available",
]  # fmt: skip

_refuse_absent(__name__)
