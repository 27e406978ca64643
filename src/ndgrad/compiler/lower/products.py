"""Matrix products as steps: which instructions are one, and the calls of the kernel library that compute it.

Leading dimensions are a batch. Where the second matrix is the same for all of a batch and the rows of the first
follow one another, the whole is a single product of more rows; else it is a loop of products. Transposes are strides.
"""

from __future__ import annotations

import ctypes
import functools
from collections.abc import Set as AbstractSet
from dataclasses import dataclass
from math import prod

import numpy as np

from ndgrad.compiler.kernels import arrays
from ndgrad.compiler.lower.places import Place, contiguous
from ndgrad.compiler.native.ir import Function, element_of
from ndgrad.compiler.program import Instruction, Value

_INTEGER = ctypes.c_int64

#: Products of a batch that are enough pieces of work for the threads as they are.
_MANY = 32


def _name(element: str) -> str:
    """What a segment calls the product of an element type; a program may have both."""
    return {"float": "product_f32", "double": "product_f64"}[element]


def symbols(element: str) -> dict[str, int]:
    """The addresses of what a segment calls, in the library of the kernels."""
    code = arrays.code("product", element)
    return {_name(element): code.address("product"), f"{_name(element)}_batch": code.address("product_batch")}


@functools.cache
def _measured(element: str, what: str, m: int, n: int, k: int) -> int:
    """A number that the library gives for a product of this size."""
    function = ctypes.CFUNCTYPE(_INTEGER, _INTEGER, _INTEGER, _INTEGER)(
        arrays.code("product", element).address(f"product_{what}")
    )
    return int(function(m, n, k))


def is_product(instruction: Instruction) -> bool:
    """Whether an instruction is a matrix product that the kernels know."""
    if instruction.op.name != "matmul":
        return False
    values = list(instruction.values())
    dtype = instruction.result.dtype
    return (
        len(values) == 2 and all(v.dtype == dtype and v.size for v in values) and arrays.available(dtype, ("product",))
    )


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

    def touched(self) -> AbstractSet[Value]:
        """The values whose memory it reads or writes."""
        return dict.fromkeys([self.a.root, self.b.root, self.result]).keys()

    def written(self) -> AbstractSet[Value]:
        """The value whose memory it writes."""
        return {self.result}

    @property
    def element(self) -> str:
        return element_of(self.result.dtype)

    @property
    def buffer_bytes(self) -> int:
        """The memory that a worker packs its matrices into."""
        return -64 * (-_measured(self.element, "bytes", self.m, self.n, self.k) // 64)

    @property
    def flops(self) -> int:
        return 2 * self.m * self.n * self.k * prod(self.batch)

    @property
    def chunks(self) -> int:
        """The pieces of work: those of a product, or whole products where there are many."""
        return prod(self.batch) * self.of_each // self.together

    @property
    def of_each(self) -> int:
        """The pieces that the library cuts a single product into."""
        return max(1, _measured(self.element, "chunks", self.m, self.n, self.k))

    @property
    def chunk_sides(self) -> tuple[int, int]:
        """The rows and the columns of the result that one of those computes."""
        high, wide = (_measured(self.element, what, self.m, self.n, self.k) for what in ("high", "wide"))
        return high, wide

    @property
    def together(self) -> int:
        """How many of those make a piece of work here: cutting a product costs packing its operands again."""
        return self.of_each if prod(self.batch) >= _MANY else 1

    def functions(
        self, name: str, slots: dict[Value, int], at_once: bool, between: int | None = None, parts: int | None = None
    ) -> list[Function | str]:
        """void name(ptr table, i64 chunk, i64 worker): one piece of the work, or all of it at once. `between`: bytes
        between the buffers of two workers, where other products use them, too; `parts`: equal parts of the batch, if
        those are to be the pieces."""
        element, kernel = self.element, _name(self.element)
        f = Function(name, "ptr %table, i64 %chunk, i64 %worker")
        a, b, c, buffer = (f.set(f"load ptr, ptr {f.address('ptr', '%table', str(n))}") for n in (
            slots[self.a.root], slots[self.b.root], slots[self.result], len(slots)))  # fmt: skip
        a = f.address(element, a, str(self.a.offset)) if self.a.offset else a
        b = f.address(element, b, str(self.b.offset)) if self.b.offset else b
        buffer = f.ahead(buffer, f.mul("%worker", between or self.buffer_bytes))
        sizes = [f"i64 {self.m}", f"i64 {self.n}", f"i64 {self.k}"]
        first = [f"ptr {a}", f"i64 {self.a.strides[-2]}", f"i64 {self.a.strides[-1]}"]
        second = [f"ptr {b}", f"i64 {self.b.strides[-2]}", f"i64 {self.b.strides[-1]}"]
        begin, end = "0", str(self.chunks * self.together)
        if not at_once:
            together = self.together if parts is None else prod(self.batch) // parts * self.of_each
            begin = f.mul("%chunk", together)
            end = f.add(begin, together)
        rest = [f"ptr {c}", f"i64 {self.n}", "i64 0", "ptr null", f"ptr {buffer}", f"i64 {begin}", f"i64 {end}"]
        if not self.batch:
            f.call_outside(kernel, *sizes, *first, *second, *rest)
            f.returns()
            return [f]
        steps = contiguous((*self.batch, self.m, self.n))
        lines = [n for d, size in enumerate(self.batch) for n in (size, self.a.strides[d], self.b.strides[d], steps[d])]
        batch = f"@{name}.batch = internal constant [{len(lines)} x i64] [{', '.join(f'i64 {n}' for n in lines)}]"
        f.call_outside(
            f"{kernel}_batch", f"i64 {len(self.batch)}", f"ptr @{name}.batch", *sizes, *first, *second, *rest
        )
        f.returns()
        return [batch, f]


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
