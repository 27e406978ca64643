"""Anomaly mode, under torch's path. It is told in ndgrad.debug.anomaly."""

from __future__ import annotations

from ndgrad.debug.anomaly import detect_anomaly, set_detect_anomaly

__all__ = ["detect_anomaly", "set_detect_anomaly"]
