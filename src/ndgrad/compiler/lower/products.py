"""Matrix products as steps: which instructions are one, and the calls of the kernel library that compute it.

Leading dimensions are a batch. Where the second matrix is the same for all of a batch and the rows of the first follow one another, the whole
is a single product of more rows; else it is a loop of products. Transposes are strides.
"""

from __future__ import annotations

import ctypes
import functools
from dataclasses import dataclass

import numpy as np

from ndgrad.compiler.kernels import gemm
from ndgrad.compiler.lower.places import Place, contiguous
from ndgrad.compiler.native.ir import SIZES, TYPES, Function, module
from ndgrad.compiler.native.target import Code, host
from ndgrad.compiler.program import Instruction, Value

_INTEGER = ctypes.c_int64


@functools.cache
def product_library(element: str) -> Code:
    """The functions of the matrix product of an element type, compiled once in a process."""
    return Code(module(gemm.library(_prefix(element), element, host())), level=0)


def _prefix(element: str) -> str:
    return {"float": "gemm_f32", "double": "gemm_f64"}[element]


def symbols(element: str) -> dict[str, int]:
    """The addresses of what a segment calls."""
    name = _prefix(element)
    return {name: product_library(element).address(name)}


@functools.cache
def _measured(element: str, what: str, m: int, n: int, k: int) -> int:
    """A number that the library gives for a product of this size."""
    function = ctypes.CFUNCTYPE(_INTEGER, _INTEGER, _INTEGER, _INTEGER)(product_library(element).address(f"{_prefix(element)}_{what}"))
    return int(function(m, n, k))


def is_product(instruction: Instruction) -> bool:
    """Whether an instruction is a matrix product that the kernels know."""
    if instruction.op.name != "matmul":
        return False
    values = list(instruction.values())
    dtype = instruction.result.dtype
    return len(values) == 2 and all(v.dtype == dtype and v.size for v in values) and dtype in (np.float32, np.float64) and dtype.isnative


@dataclass(eq=False, slots=True)
class Product:
    """C[batch, M, N] = A[batch, M, K] B[batch, K, N], with strides in elements."""

    result: Value
    a: Place
    b: Place
    batch: tuple[int, ...]
    m: int
    n: int
    k: int

    @property
    def element(self) -> str:
        return TYPES[self.result.dtype.name]

    @property
    def buffer_bytes(self) -> int:
        """The memory that a call packs its matrices into."""
        return _measured(self.element, "bytes", self.m, self.n, self.k)

    @property
    def flops(self) -> int:
        count = 2 * self.m * self.n * self.k
        for size in self.batch:
            count *= size
        return count

    def write(self, f: Function, a: str, b: str, c: str, buffer: str) -> None:
        """Write the calls into a segment, given the addresses of the matrices and of a buffer."""
        element = self.element
        a = f.address(element, a, str(self.a.offset)) if self.a.offset else a
        b = f.address(element, b, str(self.b.offset)) if self.b.offset else b
        self._loops(f, 0, a, b, c, buffer)

    def _loops(self, f: Function, depth: int, a: str, b: str, c: str, buffer: str) -> None:
        if depth == len(self.batch):
            self._call(f, a, b, c, buffer)
            return
        size = SIZES[self.element]
        step = contiguous((*self.batch, self.m, self.n))[depth]
        with f.loop(str(self.batch[depth])) as i:
            self._loops(
                f,
                depth + 1,
                f.ahead(a, f.mul(i, self.a.strides[depth] * size)),
                f.ahead(b, f.mul(i, self.b.strides[depth] * size)),
                f.ahead(c, f.mul(i, step * size)),
                buffer,
            )

    def _call(self, f: Function, a: str, b: str, c: str, buffer: str) -> None:
        name = _prefix(self.element)
        sizes = [f"i64 {self.m}", f"i64 {self.n}", f"i64 {self.k}"]
        first = [f"ptr {a}", f"i64 {self.a.strides[-2]}", f"i64 {self.a.strides[-1]}"]
        second = [f"ptr {b}", f"i64 {self.b.strides[-2]}", f"i64 {self.b.strides[-1]}"]
        chunks = _measured(self.element, "chunks", self.m, self.n, self.k)
        f.call_outside(name, *sizes, *first, *second, f"ptr {c}", f"i64 {self.n}", "i64 0", "ptr null", f"ptr {buffer}", "i64 0", f"i64 {chunks}")


def product(instruction: Instruction, a: Place, b: Place) -> Product:
    """The step of an instruction that reads its matrices at these places."""
    if len(a.shape) == 1:
        a = Place(a.root, a.offset, (1, *a.shape), (0, *a.strides))
    if len(b.shape) == 1:
        b = Place(b.root, b.offset, (*b.shape, 1), (*b.strides, 0))
    batch = np.broadcast_shapes(a.shape[:-2], b.shape[:-2])
    m, k, n = a.shape[-2], a.shape[-1], b.shape[-1]
    a, b = a.broadcast((*batch, m, k)), b.broadcast((*batch, k, n))
    while batch and b.strides[-3] == 0 and (a.strides[-3] == a.strides[-2] * m or m == 1):
        rows = a.strides[-2] if m != 1 else a.strides[-3]
        m, batch = m * batch[-1], batch[:-1]
        a = Place(a.root, a.offset, (*batch, m, k), (*a.strides[:-3], rows, a.strides[-1]))
        b = Place(b.root, b.offset, (*batch, k, n), (*b.strides[:-3], *b.strides[-2:]))
    return Product(instruction.result, a, b, batch, m, n, k)
