"""`ndgrad.signal`: signals, as torch.signal; its windows are all there is."""

from __future__ import annotations

from ndgrad.signal import windows

__all__ = ["windows"]
