"""Matrix products as steps: recognise their instructions, and write the calls of the kernel library.

Leading dimensions are a batch. If a batch shares the second matrix, and the rows of the first are consecutive, the
whole batch is a single product of more rows. Otherwise it is a loop of products. Transposes are strides.
"""

from __future__ import annotations

from collections.abc import Set as AbstractSet
from dataclasses import dataclass
from math import prod

import numpy as np

from ndgrad._src.compiler.kernels import arrays
from ndgrad._src.compiler.lower.memory_places import Place, contiguous
from ndgrad._src.compiler.native.ir import Function, element_of
from ndgrad._src.compiler.program.program import Instruction, Value

#: Minimum number of products of a batch that are enough pieces of work for the threads.
_MANY = 32


def _name(element: str) -> str:
    """Return the name of the product function for an element type, since a program may use several."""
    return {"float": "product_f32", "double": "product_f64"}[element]


def symbols(element: str) -> dict[str, int]:
    """Return the addresses of the library functions that a segment calls."""
    code = arrays.code("product", element)
    return {f"{_name(element)}{what}": code.address(f"product{what}") for what in ("", "_batch", "_ahead_pack")}


def is_product(instruction: Instruction) -> bool:
    """True if an instruction is a matrix product that the kernels support."""
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
        """Return the values whose memory it reads or writes."""
        return dict.fromkeys([self.a.root, self.b.root, self.result]).keys()

    def written_values(self) -> AbstractSet[Value]:
        """Return the value whose memory it writes."""
        return {self.result}

    @property
    def element(self) -> str:
        return element_of(self.result.dtype)

    @property
    def buffer_bytes(self) -> int:
        """Return the bytes into which a worker packs its matrices."""
        return -64 * (-self._sizes().buffer // 64)

    @property
    def ahead_bytes(self) -> int:
        """Return the bytes for packing the second matrix before the pieces begin; 0 if they pack it themselves."""
        return -64 * (-self._sizes(ahead=not self.batch).ahead // 64)

    @property
    def ahead_chunks(self) -> int:
        """Return the number of pieces of that packing."""
        return self._sizes().ahead_chunks

    def _sizes(self, ahead: bool = False) -> arrays.ProductSizes:
        return arrays.product_sizes(self.element, self.m, self.n, self.k, ahead)

    @property
    def flops(self) -> int:
        return 2 * self.m * self.n * self.k * prod(self.batch)

    @property
    def chunks(self) -> int:
        """Return the number of pieces of work: pieces of a product, or whole products if there are many."""
        return prod(self.batch) * self.pieces_of_each // self.together

    @property
    def pieces_of_each(self) -> int:
        """Return the number of pieces into which the library cuts a single product."""
        return max(1, self._sizes(ahead=not self.batch).chunks)

    @property
    def together(self) -> int:
        """Return the number of those per piece of work here, because cutting a product means packing its operands
        again.
        """
        return self.pieces_of_each if prod(self.batch) >= _MANY else 1

    def functions(
        self,
        name: str,
        slots: dict[Value, int],
        at_once: bool,
        between: int | None = None,
        parts: int | None = None,
        packed: int | None = None,
    ) -> list[Function | str]:
        """Write void name(ptr table, i64 chunk, i64 worker): one piece of the work, or all of it at once.

        `between`: bytes between the buffers of two workers, if other products use them, too. `parts`: equal parts of
        the batch, if these are the pieces. `packed`: offset of the packed second matrix after the buffers.
        """
        kernel = _name(self.element)
        f = Function(name, "ptr %table, i64 %chunk, i64 %worker")
        c, buffer = (f.set(f"load ptr, ptr {f.address('ptr', '%table', str(n))}") for n in (
            slots[self.result], len(slots)))  # fmt: skip
        ahead = "null" if packed is None else f.ahead(buffer, packed)
        buffer = f.ahead(buffer, f.mul("%worker", between or self.buffer_bytes))
        sizes = [f"i64 {self.m}", f"i64 {self.n}", f"i64 {self.k}"]
        first, second = (_matrix(f, place, slots) for place in (self.a, self.b))
        begin, end = "0", str(prod(self.batch) * self._sizes().chunks)
        if not at_once:
            together = self.together if parts is None else prod(self.batch) // parts * self.pieces_of_each
            begin = f.mul("%chunk", together)
            end = f.add(begin, together)
        result = [f"ptr {c}", f"i64 {self.n}", "i64 0", "ptr null"]
        rest = [*result, f"ptr {ahead}", f"ptr {buffer}", f"i64 {begin}", f"i64 {end}"]
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

    def packing(self, name: str, slots: dict[Value, int], packed: int) -> Function:
        """Write void name(ptr table, i64 chunk, i64 worker): one piece of packing the second matrix, at this many bytes
        after the beginning of the buffers.
        """
        f = Function(name, "ptr %table, i64 %chunk, i64 %worker")
        buffer = f.set(f"load ptr, ptr {f.address('ptr', '%table', str(len(slots)))}")
        target = [f"ptr {f.ahead(buffer, packed)}", "i64 %chunk", f"i64 {f.add('%chunk', 1)}"]
        second = _matrix(f, self.b, slots)
        f.call_outside(f"{_name(self.element)}_ahead_pack", f"i64 {self.n}", f"i64 {self.k}", *second, *target)
        f.returns()
        return f


def _matrix(f: Function, place: Place, slots: dict[Value, int]) -> list[str]:
    """Return the address of a matrix, and its strides."""
    start = f.set(f"load ptr, ptr {f.address('ptr', '%table', str(slots[place.root]))}")
    if place.offset:
        start = f.address(element_of(place.root.dtype), start, str(place.offset))
    return [f"ptr {start}", f"i64 {place.strides[-2]}", f"i64 {place.strides[-1]}"]


def product(instruction: Instruction, a: Place, b: Place) -> Product:
    """Return the step of an instruction that reads its matrices at these places."""
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
