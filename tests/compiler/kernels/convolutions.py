"""Calling the kernels of convolutions on NumPy arrays."""

from __future__ import annotations

import ctypes
from typing import Any

import numpy as np

from ndgrad._src.compiler.kernels import convolution, windows
from ndgrad._src.compiler.kernels.tiles import tile_shape
from ndgrad._src.compiler.native.ir import module
from ndgrad._src.compiler.native.target import Code, host

POINTER, SIZE = ctypes.c_void_p, ctypes.c_int64
GUARD = 64


def axes(x: Any, kernel: Any, stride: Any, padding: Any, dilation: Any) -> list[windows.Axis]:
    """The axes of a convolution with the same padding on both sides."""
    settings = zip(x, kernel, stride, padding, dilation, strict=True)
    return [windows.Axis(n, k, s, d, p, (n + 2 * p - d * (k - 1) - 1) // s + 1) for n, k, s, p, d in settings]


class Convolution:
    """A compiled library of one element type."""

    def __init__(self, dtype: str, target: Any = None, **settings: Any) -> None:
        target = target or host()
        element = {"float32": "float", "float64": "double"}[dtype]
        self.dtype, self.tile = np.dtype(dtype), tile_shape(target, element)
        code = self.code = Code(module(convolution.library("conv", element, target, **settings)), target, level=0)
        ranges = [SIZE, SIZE]
        self._weights = code.function("conv_weights", None, *[POINTER] * 3, *ranges)
        self._correlate = code.function("conv_correlate", None, *[POINTER] * 6, *ranges)
        self._weight_gradient = code.function("conv_weight_gradient", None, *[POINTER] * 5, *ranges)
        self._weight_sum = code.function("conv_weight_sum", None, *[POINTER] * 3, *ranges)

    def table(self, correlation: windows.Correlation, **settings: Any) -> windows.Table:
        return windows.table(correlation, self.tile.type.lanes, self.tile.columns, self.dtype.itemsize, **settings)

    def _buffer(self, count: int) -> np.ndarray:
        return np.full(count + GUARD, np.nan, self.dtype)

    def correlate(
        self, correlation: windows.Correlation, x: np.ndarray, w: np.ndarray, out: np.ndarray, order: Any, context: int = 0, **settings: Any
    ) -> None:
        """Chunks in an order that a generator of random numbers draws."""
        table = self.table(correlation, **settings)
        packed, buffer, words = self._buffer(table.packed), self._buffer(table.scratch), table.words.ctypes.data
        for strip in order.permutation(table.strips):
            self._weights(words, w.ctypes.data, packed.ctypes.data, int(strip), int(strip) + 1)
        for chunk in order.permutation(table.chunks):
            self._correlate(
                words, x.ctypes.data, packed.ctypes.data, out.ctypes.data, context, buffer.ctypes.data, int(chunk), int(chunk) + 1
            )
        assert np.isnan(packed[-GUARD:]).all(), "wrote beyond the packed weight"
        assert np.isnan(buffer[-GUARD:]).all(), "wrote beyond the buffer"

    def weight_gradient(
        self, correlation: windows.Correlation, x: np.ndarray, g: np.ndarray, dw: np.ndarray, order: Any, **settings: Any
    ) -> None:
        table = self.table(correlation, of_weight=self.tile.rows, **settings)
        parts, buffer, words = self._buffer(table.packed), self._buffer(table.scratch), table.words.ctypes.data
        for chunk in order.permutation(table.chunks):
            self._weight_gradient(words, x.ctypes.data, g.ctypes.data, parts.ctypes.data, buffer.ctypes.data, int(chunk), int(chunk) + 1)
        depth = correlation.depth(correlation.entries[0])
        for chunk in order.permutation(-(-depth // self.tile.type.lanes)):
            self._weight_sum(words, parts.ctypes.data, dw.ctypes.data, int(chunk), int(chunk) + 1)
        assert np.isnan(parts[-GUARD:]).all(), "wrote beyond the parts"
        assert np.isnan(buffer[-GUARD:]).all(), "wrote beyond the buffer"
