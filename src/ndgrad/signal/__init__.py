"""`ndgrad.signal`: signals, as torch.signal, which only has windows."""

from __future__ import annotations

from ndgrad.signal import windows

__all__ = ["windows"]
