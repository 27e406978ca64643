"""Which kernels eager ops use: native ones on the CPU, CUDA's on a GPU. Lower rooms ask for them by the registry."""

from __future__ import annotations

from typing import Any

from ndgrad._src.foundations.registry import register


def native_kernels() -> Any:
    """Kernels for large NumPy arrays, None if there are none."""
    from ndgrad._src.compiler.kernels import eager  # for which llvmlite is needed

    return eager.native_kernels()


def device_kernels() -> Any:
    """Kernels for arrays on a GPU, None if there are none."""
    from ndgrad._src.compiler.cuda import eager  # only where there is one

    return eager.device_kernels()


register(native_kernels=native_kernels, device_kernels=device_kernels)
