"""Kernels of eager ops: native ones on the CPU, CUDA kernels on a GPU. Lower layers find them through the registry."""

from __future__ import annotations

import functools
from typing import Any

from ndgrad._src.arrays.library import is_on_device


def native_kernels() -> Any:
    """Return kernels for large NumPy arrays; None if there are none."""
    from ndgrad._src.compiler.kernels import eager  # needs llvmlite

    return eager.native_kernels()


def device_kernels() -> Any:
    """Return kernels for arrays on a GPU; None if there are none."""
    from ndgrad._src.compiler.cuda import eager  # needed on devices only

    return eager.device_kernels()


def run_fused(function: Any, arrays: Any, settings: Any) -> Any:
    """Return the result of a body or rule by one kernel; None if it has none."""
    return _fused_ops().run_fused(function, arrays, settings)


@functools.cache
def _fused_ops() -> Any:
    """Return the module of fused ops. An import statement takes as long as a small kernel, even of a known module."""
    from ndgrad._src.compiler.runtime import fused_ops  # needs llvmlite or a device

    return fused_ops


def multiply(a: Any, b: Any) -> Any:
    """Return the product of two matrices by native kernels; None without kernels for them."""
    return _products().multiply(a, b)


@functools.cache
def _products() -> Any:
    """Return the module with products of matrices. As above, the import statement is left out of calls."""
    from ndgrad._src.compiler.kernels import arrays  # needs llvmlite

    return arrays


def native_taps() -> Any:
    """Return the kernels over tables of taps for NumPy arrays."""
    from ndgrad._src.compiler.kernels import taps  # needs llvmlite

    return taps


def run_matrices(what: str, shape: Any, a: Any, b: Any = None, upper: bool = False, unit: bool = False) -> Any:
    """Return a result for stacks of small matrices by one native kernel; None if LAPACK is to decide."""
    from ndgrad._src.compiler.kernels import small_matrices  # needs llvmlite

    return small_matrices.run_matrices(what, shape, a, b, upper, unit)


@functools.cache
def class_losses() -> Any:
    """Return the kernels for losses of class numbers on NumPy arrays. As above, without an import statement per call."""
    from ndgrad._src.compiler.kernels import class_loss  # needs llvmlite

    return class_loss


@functools.cache
def copies() -> Any:
    """Return the kernels for copies of arrays with any steps, and for choices by a mask."""
    from ndgrad._src.compiler.kernels import copies  # needs llvmlite

    return copies


def device_taps(x: Any) -> Any:
    """Return the kernels over tables of taps for an array on a device; None if they do not take it."""
    from ndgrad._src.compiler.cuda import taps  # needed on devices only

    return taps.taps_for(x)


def run_sampling(what: str, arrays: Any, how: Any) -> Any:
    """Return the values or gradients of `grid_sample` by one kernel; None if it has none."""
    if is_on_device(arrays[0]):
        from ndgrad._src.compiler.cuda import sampling as on_device  # needed on devices only

        return on_device.run_sampling(what, arrays, how)
    from ndgrad._src.compiler.kernels import sampling  # needs llvmlite

    return sampling.run_sampling(what, arrays, how)
