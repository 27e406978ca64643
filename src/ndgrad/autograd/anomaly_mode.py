"""Anomaly mode, under torch's path. It is told in ndgrad._src.debug.anomaly."""

from __future__ import annotations

from ndgrad._src.debug.anomaly import detect_anomaly, set_detect_anomaly

__all__ = ["detect_anomaly", "set_detect_anomaly"]
