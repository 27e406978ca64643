"""Kernels of eager ops: native ones on the CPU, CUDA kernels on a GPU. Lower layers find them through the registry."""

from __future__ import annotations

from typing import Any


def native_kernels() -> Any:
    """Return kernels for large NumPy arrays; None if there are none."""
    from ndgrad._src.compiler.kernels import eager  # needs llvmlite

    return eager.native_kernels()


def device_kernels() -> Any:
    """Return kernels for arrays on a GPU; None if there are none."""
    from ndgrad._src.compiler.cuda import eager  # needed on devices only

    return eager.device_kernels()


