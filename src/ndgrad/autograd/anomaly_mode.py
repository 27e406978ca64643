"""Anomaly mode, under torch's path. ndgrad._src.debug.anomaly explains it."""

from __future__ import annotations

from ndgrad._src.debug.anomaly import detect_anomaly, set_detect_anomaly

__all__ = ["detect_anomaly", "set_detect_anomaly"]
