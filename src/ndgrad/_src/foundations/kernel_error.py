"""The error of a kernel that a device does not take. Callers catch it and let CuPy compute."""

from __future__ import annotations

from ndgrad._src.foundations.public_path import set_module


@set_module("ndgrad.errors")
class KernelError(RuntimeError):
    """Raised if NVRTC, or the driver, rejects a kernel."""
