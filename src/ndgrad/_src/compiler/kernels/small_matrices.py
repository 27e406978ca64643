"""Native kernels for stacks of small matrices: solutions, inverses, pivots, Cholesky factors, triangular solves.

    void name(ptr argument, i64 chunk, i64 worker)

LAPACK is made for one large matrix; for a stack of 6 x 6 matrices its calls cost more than the arithmetic. Here a chunk
is a range of matrices. Each one is copied into scratch memory, with rows padded to whole vectors, and eliminated row by
row. Arguments have any strides, results are dense.

The words of the argument are the number of matrices, those of a chunk, n, k, then four words for each of the two
operands (address and steps from matrix to matrix, row to row, column to column, in elements), the address of the result,
of the scratch memory, its bytes for each worker, and of a flag. A kernel sets the flag if a result is not finite or a
pivot is zero (Cholesky: not positive). The caller then computes everything again by LAPACK, which decides about errors.
"""

from __future__ import annotations

import functools
import struct
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ndgrad._src.arrays import threads as allowed
from ndgrad._src.compiler.kernels.elementwise import data, word
from ndgrad._src.compiler.native import pool, target
from ndgrad._src.compiler.native.calls import address_reader
from ndgrad._src.compiler.native.ir import Function, Vector, element_of, module

Array = NDArray[Any]

#: Multiplications of a chunk, and minimum number of multiplications for a second thread.
_CHUNK, _SHARED = 1 << 15, 1 << 17


class _Kernel:
    """A kernel under construction: the rows of one matrix in scratch memory, each of `wide` elements."""

    def __init__(self, element: str) -> None:
        self.f = f = Function("matrices", "ptr %argument, i64 %chunk, i64 %worker", attributes="nounwind")
        self.element, self.one = element, Vector(element)
        self.type = Vector(element, target.host().lanes(element))
        self.fma = target.host().fma
        self.count, self.grain, self.n, self.k = (word(f, i) for i in range(4))
        self.a, self.b = ((data(f, 4 + 4 * i), *[word(f, 5 + 4 * i + d) for d in range(3)]) for i in range(2))
        self.out, scratch, step, self.flag = data(f, 12), data(f, 13), word(f, 14), data(f, 15)
        self.scratch = f.ahead(scratch, f.mul("%worker", step))
        self.left = self.padded(self.n)
        self.wide = f.add(self.left, self.padded(self.k))
        self.begin = f.mul("%chunk", self.grain)
        self.end = f.least(f.add(self.begin, self.grain), self.count)

    def padded(self, count: str) -> str:
        lanes = self.type.lanes
        return self.f.set(f"and i64 {self.f.add(count, lanes - 1)}, {-lanes}")

    def place(self, i: str, j: str) -> str:
        """Return the address of an element of the scratch matrix."""
        return self.f.address(self.element, self.scratch, self.f.add(self.f.mul(i, self.wide), j))

    def get(self, i: str, j: str) -> str:
        return self.f.load(self.one, self.place(i, j))

    def source(self, operand: tuple[str, ...], m: str, i: str, j: str) -> str:
        """Return an element of an operand."""
        f = self.f
        at = f.add(f.mul(m, operand[1]), f.add(f.mul(i, operand[2]), f.mul(j, operand[3])))
        return f.load(self.one, f.address(self.element, operand[0], at))

    def clear(self) -> None:
        size = self.f.mul(self.f.mul(self.n, self.wide), self.one.bytes)
        self.f.call_void("llvm.memset.p0.i64", f"ptr {self.scratch}", "i8 0", f"i64 {size}", "i1 false")

    def fill(self, operand: tuple[str, ...], m: str, columns: str, first: str) -> None:
        """Copy an operand to the columns of the scratch matrix from `first` on."""
        f = self.f
        with f.loop(self.n) as i, f.loop(columns) as j:
            f.store(self.one, self.source(operand, m, i, j), self.place(i, f.add(first, j)))

    def subtract_row(self, i: str, j: str, factor: str, first: str, stop: str) -> None:
        """Subtract a multiple of row j from row i, from the vector that holds column `first` on."""
        f, type = self.f, self.type
        factor = f.splat(f.set(f"fneg {self.element} {factor}"), type)
        with f.loop(stop, f.set(f"and i64 {first}, {-type.lanes}"), str(type.lanes)) as c:
            to = self.place(i, c)
            parts = [f"{type} {v}" for v in (factor, f.load(type, self.place(j, c)), f.load(type, to))]
            f.store(type, f.call(type, f"llvm.fmuladd.{type.suffix}", *parts), to)

    def divide_row(self, j: str, divisor: str, first: str, stop: str, line: str | None = None) -> None:
        """Divide row j from the vector that holds column `first` on. With `line`, store it there in the result too, and
        set the flag if it is not finite.
        """
        f, type = self.f, self.type
        divisor = f.splat(divisor, type)
        begin = f.set(f"and i64 {first}, {-type.lanes}")
        with f.loop(stop, begin, str(type.lanes)) as c:
            to = self.place(j, c)
            value = f.set(f"fdiv {type} {f.load(type, to)}, {divisor}")
            f.store(type, value, to)
            if line is not None:
                column = f.sub(c, begin)
                mask = f.first_lanes(type, f.sub(self.k, column))
                f.store_masked(type, value, f.address(self.element, self.out, f.add(line, column)), mask)
                difference = f.set(f"fsub {type} {value}, {value}")
                bad = f.set(f"fcmp uno {type} {difference}, {difference}")
                bad = f.set(f"and {type.mask} {bad}, {mask}")
                self.raise_flag(f.call("i1", f"llvm.vector.reduce.or.v{type.lanes}i1", f"{type.mask} {bad}"))

    def is_not_finite(self, value: str) -> str:
        difference = self.f.set(f"fsub {self.element} {value}, {value}")
        return self.f.set(f"fcmp uno {self.element} {difference}, {difference}")

    def raise_flag(self, condition: str) -> None:
        with self.f.when(condition):
            self.f.do(f"store i64 1, ptr {self.flag}")

    def code(self) -> target.Code:
        self.f.returns()
        return target.Code(module([self.f]), level=3)


def _eliminate(k: _Kernel, is_det: bool) -> str:
    """Eliminate below the diagonal with partial pivoting, and return the sign of the exchanges."""
    f, element = k.f, k.element
    sign = f.carry(element, k.one.constant(1.0))
    with f.loop(k.n, carried=[sign]) as j:
        best = f.carry(element, f.call(element, f"llvm.fabs.{k.one.suffix}", f"{element} {k.get(j, j)}"))
        row = f.carry("i64", j)
        with f.loop(k.n, f.add(j, 1), carried=[best, row]) as i:
            size = f.call(element, f"llvm.fabs.{k.one.suffix}", f"{element} {k.get(i, j)}")
            wins = f.set(f"fcmp ogt {element} {size}, {best}")
            best.next, row.next = f.choose(wins, size, best.name, element), f.choose(wins, i, row.name)
        is_moved = f.compare("ne", row.name, j)
        with f.when(is_moved), f.loop(k.wide, "0", str(k.type.lanes)) as c:
            here, there = k.place(j, c), k.place(row.name, c)
            a, b = f.load(k.type, here), f.load(k.type, there)
            f.store(k.type, b, here)
            f.store(k.type, a, there)
        sign.next = f.choose(is_moved, f.set(f"fneg {element} {sign}"), sign.name, element)
        pivot = k.get(j, j)
        is_zero = f.set(f"fcmp oeq {element} {pivot}, {k.one.constant(0.0)}")
        is_bad = k.is_not_finite(pivot)
        k.raise_flag(is_bad if is_det else f.either(is_zero, is_bad))
        # The column below a zero pivot is zero.
        with f.when(f.negated(is_zero)), f.loop(k.n, f.add(j, 1)) as i:
            k.subtract_row(i, j, f.set(f"fdiv {element} {k.get(i, j)}, {pivot}"), f.add(j, 1), k.wide)
    return sign.name


def _write_solve(element: str, is_inverse: bool) -> target.Code:
    """Write the solution of A X = B, or the inverse of A."""
    k = _Kernel(element)
    f = k.f
    with f.loop(k.end, k.begin) as m:
        k.clear()
        k.fill(k.a, m, k.n, "0")
        if is_inverse:
            with f.loop(k.n) as i:
                f.store(k.one, k.one.constant(1.0), k.place(i, f.add(k.left, i)))
        else:
            k.fill(k.b, m, k.k, k.left)
        _eliminate(k, False)
        with f.loop(k.n) as back:
            j = f.sub(f.sub(k.n, 1), back)
            line = f.mul(f.add(f.mul(m, k.n), j), k.k)
            k.divide_row(j, k.get(j, j), k.left, k.wide, line)
            with f.loop(j) as i:
                k.subtract_row(i, j, k.get(i, j), k.left, k.wide)
    return k.code()


def _write_pivots(element: str) -> target.Code:
    """Write the pivots of A, of which the first is negated for an odd number of exchanges: their product is det A."""
    k = _Kernel(element)
    f = k.f
    with f.loop(k.end, k.begin) as m:
        k.clear()
        k.fill(k.a, m, k.n, "0")
        sign = _eliminate(k, True)
        with f.loop(k.n) as i:
            value = k.get(i, i)
            signed = f.choose(f.compare("eq", i, 0), f.set(f"fmul {element} {value}, {sign}"), value, element)
            f.store(k.one, signed, f.address(element, k.out, f.add(f.mul(m, k.n), i)))
    return k.code()


def _write_cholesky(element: str) -> target.Code:
    """Write L of A = L L', from the lower triangle of A. The scratch matrix holds the upper factor L'."""
    k = _Kernel(element)
    f = k.f
    with f.loop(k.end, k.begin) as m:
        k.clear()
        with f.loop(k.n) as i, f.loop(f.add(i, 1)) as j:
            f.store(k.one, k.source(k.a, m, i, j), k.place(j, i))
        with f.loop(k.n) as j:
            pivot = k.get(j, j)
            # An element that is not finite makes a later pivot infinite, negative or NaN.
            is_positive = f.set(f"fcmp ogt {element} {pivot}, {k.one.constant(0.0)}")
            is_finite = f.set(f"fcmp olt {element} {pivot}, {k.one.constant(float('inf'))}")
            k.raise_flag(f.negated(f.both(is_positive, is_finite)))
            root = f.call(element, f"llvm.sqrt.{k.one.suffix}", f"{element} {pivot}")
            k.divide_row(j, root, j, k.left)
            with f.loop(k.n, f.add(j, 1)) as i:
                k.subtract_row(i, j, k.get(j, i), i, k.left)
        base = f.mul(f.mul(m, k.n), k.n)
        with f.loop(k.n) as i, f.loop(k.n) as j:
            is_lower = f.compare("sle", j, i)
            value = f.choose(is_lower, k.get(j, i), k.one.constant(0.0), element)
            f.store(k.one, value, f.address(element, k.out, f.add(base, f.add(f.mul(i, k.n), j))))
    return k.code()


def _write_triangular(element: str, upper: bool, unit: bool) -> target.Code:
    """Write the solution for a triangular A by substitution. The other triangle is not read, the flag not set."""
    k = _Kernel(element)
    f = k.f
    with f.loop(k.end, k.begin) as m:
        k.clear()
        k.fill(k.b, m, k.k, k.left)
        with f.loop(k.n) as turn:
            i = f.sub(f.sub(k.n, 1), turn) if upper else turn
            pivot = "" if unit else k.source(k.a, m, i, i)
            with f.loop(k.k) as c:
                to = k.place(i, f.add(k.left, c))
                value = f.load(k.one, to)
                if not unit:
                    value = f.set(f"fdiv {element} {value}, {pivot}")
                    f.store(k.one, value, to)
                at = f.add(f.mul(f.add(f.mul(m, k.n), i), k.k), c)
                f.store(k.one, value, f.address(element, k.out, at))
            with f.loop(i, "0") if upper else f.loop(k.n, f.add(i, 1)) as r:
                k.subtract_row(r, i, k.source(k.a, m, r, i), k.left, k.wide)
    return k.code()


@functools.cache
def _kernel(what: str, dtype: np.dtype[Any], upper: bool = False, unit: bool = False) -> tuple[target.Code, int]:
    element = element_of(dtype)
    if what in ("solve", "inverse"):
        code = _write_solve(element, what == "inverse")
    elif what == "pivots":
        code = _write_pivots(element)
    elif what == "cholesky":
        code = _write_cholesky(element)
    else:
        code = _write_triangular(element, upper, unit)
    return code, code.address("matrices")


_WORDS = struct.Struct("16q").pack


def run_matrices(
    what: str, shape: tuple[int, ...], a: Array, b: Array | None = None, upper: bool = False, unit: bool = False
) -> Array | None:
    """Return a result of this shape for stacks (count, n, n) and (count, n, k) with any strides; None if LAPACK is to
    decide.
    """
    _, address = _kernel(what, a.dtype, upper, unit)
    out = np.empty(shape, a.dtype)
    count, n = a.shape[:2]
    columns = b.shape[2] if b is not None else n if what == "inverse" else 0
    size, lanes = a.itemsize, target.host().lanes(element_of(a.dtype))
    wide = -(-n // lanes) * lanes + -(-columns // lanes) * lanes
    work = n * n * (n + columns)
    grain = max(1, min(count, _CHUNK // max(work, 1)))
    chunks = -(-count // grain)
    threads = 1 if count * work < _SHARED or chunks == 1 else allowed.max_threads
    step = n * wide * size + 64
    scratch, flag = np.empty(step * threads, np.uint8), np.zeros(1, np.int64)
    b = a if b is None else b
    at_a, at_b, *rest = address_reader()(a, b, out, scratch, flag)
    steps = [[s // size for s in x.strides] for x in (a, b)]
    words = _WORDS(count, grain, n, columns, at_a, *steps[0], at_b, *steps[1], rest[0], rest[1], step, rest[2])
    pool.pool()._run(address, words, chunks, threads)
    return None if flag[0] else out
