"""`numpy.lib.stride_tricks` on Arrays."""

from __future__ import annotations

from ndgrad.numpy.shapes import as_strided, broadcast_arrays, broadcast_to, sliding_window_view

__all__ = ["as_strided", "broadcast_arrays", "broadcast_to", "sliding_window_view"]
