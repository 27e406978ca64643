"""Which kernels eager ops use: native ones on the CPU, CUDA's on a GPU. Lower rooms ask for them by the registry."""

from __future__ import annotations

from typing import Any


def native_kernels() -> Any:
    """Kernels for large NumPy arrays, None if there are none."""
    from ndgrad._src.compiler.kernels import eager  # for which llvmlite is needed

    return eager.native_kernels()


def device_kernels() -> Any:
    """Kernels for arrays on a GPU, None if there are none."""
    from ndgrad._src.compiler.cuda import eager  # only where there is one

    return eager.device_kernels()


