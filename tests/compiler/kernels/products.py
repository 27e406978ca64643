"""Calling the kernels of matrix products on NumPy arrays, chunk by chunk."""

from __future__ import annotations

import ctypes
from itertools import pairwise
from typing import Any

import numpy as np

from ndgrad._src.compiler.kernels import gemm
from ndgrad._src.compiler.native.ir import module
from ndgrad._src.compiler.native.target import Code, host

POINTER, SIZE = ctypes.c_void_p, ctypes.c_int64
GUARD = 64


def aligned(count: int) -> tuple[np.ndarray, int, np.ndarray]:
    """(memory, its first address that is a multiple of 64, the guard after `count` bytes from there)."""
    memory = np.full(count + 64 + GUARD, 0xFF, np.uint8)
    skip = -memory.ctypes.data % 64
    return memory, memory.ctypes.data + skip, memory[skip + count : skip + count + GUARD]


class Product:
    """A compiled library of one element type."""

    def __init__(self, dtype: str, target: Any = None, plan: gemm.Blocking | None = None, **settings: Any) -> None:
        target = target or host()
        element = {"float32": "float", "float64": "double"}[dtype]
        self.dtype, self.plan = np.dtype(dtype), plan or gemm.blocking(gemm.tile_shape(target, element))
        self.code = Code(module(gemm.library("product", element, target, plan=self.plan, **settings)), target, level=0)
        sizes, matrix = [SIZE] * 3, [POINTER, SIZE, SIZE]
        call = [*sizes, *matrix, *matrix, POINTER, SIZE, SIZE, POINTER, POINTER, POINTER, SIZE, SIZE]
        self.run = ctypes.CFUNCTYPE(None, *call)(self.code.address("product"))
        self.run_batch = ctypes.CFUNCTYPE(None, SIZE, POINTER, *call)(self.code.address("product_batch"))
        self.chunks = ctypes.CFUNCTYPE(SIZE, *sizes, SIZE)(self.code.address("product_chunks"))
        self.bytes = ctypes.CFUNCTYPE(SIZE, *sizes)(self.code.address("product_bytes"))
        self.ahead = ctypes.CFUNCTYPE(SIZE, *sizes)(self.code.address("product_ahead"))
        self.ahead_chunks = ctypes.CFUNCTYPE(SIZE, SIZE)(self.code.address("product_ahead_chunks"))
        packing = [SIZE, SIZE, *matrix, POINTER, SIZE, SIZE]
        self.pack = ctypes.CFUNCTYPE(None, *packing)(self.code.address("product_ahead_pack"))

    def __call__(self, a: np.ndarray, b: np.ndarray, c: np.ndarray, accumulate: bool = False, context: int = 0, order: Any = None) -> None:
        """c (+)= a @ b, in one call, or chunk by chunk in an order that a generator of random numbers draws; b is then
        packed ahead, chunk by chunk, too, if it should be."""
        (m, k), n, size = a.shape, b.shape[1], a.itemsize
        ahead = self.ahead(m, n, k) if order is not None else 0
        count = self.chunks(m, n, k, ahead)
        (_memory, buffer, guard), (_other, packed, guard_of_packed) = aligned(self.bytes(m, n, k)), aligned(ahead)
        sa, sb, sc = ([s // size for s in x.strides] for x in (a, b, c))
        head = (m, n, k, a.ctypes.data, *sa, b.ctypes.data, *sb, c.ctypes.data, sc[0], int(accumulate), context)
        if order is None:
            self.run(*head, None, buffer, 0, count)
        else:
            for chunk in order.permutation(self.ahead_chunks(n)) if ahead else []:
                self.pack(n, k, b.ctypes.data, *sb, packed, int(chunk), int(chunk) + 1)
            for chunk in order.permutation(count):
                self.run(*head, packed if ahead else None, buffer, int(chunk), int(chunk) + 1)
        assert (guard == 0xFF).all(), "wrote beyond the buffer"
        assert (guard_of_packed == 0xFF).all(), "packed beyond the buffer"

    def batch(self, a: np.ndarray, b: np.ndarray, c: np.ndarray, pieces: int = 1) -> None:
        """c = a @ b over leading dimensions of equal lengths; the pieces of the work are cut anywhere."""
        (m, k), n, size = a.shape[-2:], b.shape[-1], a.itemsize
        lead = c.shape[:-2]
        lines = [[length, *(x.strides[d] // size for x in (a, b, c))] for d, length in enumerate(lead)]
        table = np.array(lines, np.int64).reshape(len(lead), 4)
        _memory, buffer, guard = aligned(self.bytes(m, n, k))
        sa, sb, sc = ([s // size for s in x.strides[-2:]] for x in (a, b, c))
        head = (m, n, k, a.ctypes.data, *sa, b.ctypes.data, *sb, c.ctypes.data, sc[0], 0, 0, None, buffer)
        cuts = np.linspace(0, self.chunks(m, n, k, 0) * int(np.prod(lead)), pieces + 1).astype(int)
        for begin, end in pairwise(cuts):
            self.run_batch(len(lead), table.ctypes.data, *head, int(begin), int(end))
        assert (guard == 0xFF).all(), "wrote beyond the buffer"


def error_bound(a: np.ndarray, b: np.ndarray, dtype: Any) -> np.ndarray:
    """Return the allowed error of a product: K roundings of sums of |a| |b|, in practice fewer."""
    wide = np.abs(a).astype(np.float64) @ np.abs(b).astype(np.float64)
    return np.finfo(dtype).eps * (2 + a.shape[-1]) * wide + np.finfo(dtype).tiny
