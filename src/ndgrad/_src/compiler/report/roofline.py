"""Limits of this machine: bytes per second from each level of its memory, and floating-point operations per second.

They are measured on first use, once in a process (a second), by two loops of our own on all threads that the process
may use:

    copy     b[i] = a[i] over blocks of several sizes: one byte read and one byte written for each byte of the block
    fma      x = x * m + c, in enough registers to keep the units busy, without memory accesses

Work takes at least max(bytes / bandwidth, operations / peak): the roofline. The bandwidth is that of the level of
memory that can hold the data of the work. Without llvmlite, NumPy's copy and matrix products replace the loops.
"""

from __future__ import annotations

import functools
import time
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np

from ndgrad._src.arrays import threads as allowed
from ndgrad._src.compiler.lower.accounting import Work
from ndgrad._src.compiler.native import pool
from ndgrad._src.compiler.native.ir import Function, Vector, module
from ndgrad._src.compiler.native.target import Code, Target, available, host

#: Bytes that the copy touches, source and target together, over all threads: in the first, second and third cache (the
#: third may be small or large), and in main memory.
SIZES = (1 << 15, 1 << 18, 1 << 22, 1 << 24, 1 << 26)
_BLOCK = 1 << 14
#: Seconds of samples for each measurement.
_SAMPLING = 0.15
_ROUNDS = 5_000


@dataclass(frozen=True)
class Machine:
    """The measured limits, and the number of threads."""

    #: Bytes per second, by the number of touched bytes.
    bandwidth: dict[int, float]
    #: Floating-point operations per second, by dtype.
    peak: dict[str, float]
    threads: int

    def bandwidth_at(self, nbytes: int) -> float:
        """Return bytes per second for work that touches so many. They come from the smallest memory that holds them, or
        from a larger one if that is faster, which happens if the smallest belongs to one core.
        """
        sizes = [size for size in self.bandwidth if size >= nbytes] or [max(self.bandwidth)]
        return max(self.bandwidth[size] for size in sizes)

    def least_seconds(self, work: Work) -> float:
        """Return the least time in which any program can do some work here."""
        return max(work.bytes / self.bandwidth_at(work.bytes), work.flops / self.peak[work.dtype])

    def __str__(self) -> str:
        levels = ", ".join(f"{speed / 1e9:.0f} GB/s in {_size(size)}" for size, speed in self.bandwidth.items())
        peaks = ", ".join(f"{speed / 1e9:.0f} GFLOP/s in {dtype}" for dtype, speed in self.peak.items())
        return f"{self.threads} thread{'s' * (self.threads != 1)}: {levels}; {peaks}"


def _size(nbytes: int) -> str:
    return f"{nbytes >> 20} MB" if nbytes >= 1 << 20 else f"{nbytes >> 10} kB"


def machine() -> Machine:
    """Return the limits of this machine for the number of threads allowed now, measured on first use."""
    return _measure(allowed.max_threads)


@functools.lru_cache(maxsize=4)
def _measure(threads: int) -> Machine:
    if not available():
        return Machine({size: _numpy_copy(size) for size in SIZES}, _numpy_peaks(), threads)
    loops = _Loops(host(), threads)
    return Machine(
        {size: loops.measure_copy(size) for size in SIZES}, {d: loops.measure_fma(d) for d in ("float32", "float64")}, threads
    )


def _fastest(run: Callable[[], Any]) -> float:
    """Return the least seconds of many short runs, because other processes slow down some of them."""
    best, until = float("inf"), time.perf_counter() + _SAMPLING
    while True:
        start = time.perf_counter()
        run()
        now = time.perf_counter()
        best = min(best, now - start)
        if now > until:
            return best


# ----- native loops ---------------------------------------------------------------------------------------------------


class _Loops:
    """Both loops for a processor, run chunk by chunk by the pool; `argument` points to their parameters."""

    def __init__(self, target: Target, threads: int) -> None:
        self.threads = threads
        self.target = target
        functions: list[Function | str] = [_copy(target), *[_fma(target, e) for e in ("float", "double")]]
        self.code = Code(module(functions), target)

    def _run(self, name: str, argument: Any, chunks: int) -> float:
        address = self.code.address(name)
        pool.run(address, argument.ctypes.data, chunks, self.threads)
        return _fastest(lambda: pool.run(address, argument.ctypes.data, chunks, self.threads))

    def measure_copy(self, touched: int) -> float:
        """Return bytes per second of a copy that touches so many bytes. The same thread copies blocks in a cache
        repeatedly: one chunk per thread, with a share of its own.
        """
        share = max(touched // (2 * self.threads) // _BLOCK, 1) * _BLOCK
        chunks = self.threads
        rounds = max(1, (1 << 22) // (2 * share * chunks))
        memory = np.zeros(2 * share * chunks + 128, np.uint8)
        start = memory.ctypes.data + -memory.ctypes.data % 64
        argument = np.array([start, share, rounds], np.int64)
        return 2 * share * chunks * rounds / self._run("copy", argument, chunks)

    def measure_fma(self, dtype: str) -> float:
        """Return floating-point operations per second."""
        element = {"float32": "float", "float64": "double"}[dtype]
        rounds = np.array([_ROUNDS], np.int64)
        each = 2 * _registers(self.target) * self.target.lanes(element) * _ROUNDS
        chunks = 4 * self.threads
        return each * chunks / self._run(f"fma_{element}", rounds, chunks)


def _registers(target: Target) -> int:
    """Return the number of independent sums: two units, four or five cycles each."""
    return min(12, target.registers - 4)


def _copy(target: Target) -> Function:
    """Write void copy(ptr argument, i64 chunk, i64 worker); argument: address, bytes of a share, rounds."""
    f = Function("copy", "ptr %argument, i64 %chunk, i64 %worker")
    kind = Vector("float", target.lanes("float"))
    start = f.set("load ptr, ptr %argument")
    share = f.set(f"load i64, ptr {f.ahead('%argument', 8)}")
    rounds = f.set(f"load i64, ptr {f.ahead('%argument', 16)}")
    source = f.ahead(start, f.mul(f.mul("%chunk", share), 2))
    into = f.ahead(source, share)
    step = 8 * kind.bytes
    with f.loop(rounds), f.loop(share, step=str(step)) as i:
        loaded = [f.load(kind, f.ahead(source, f.add(i, k * kind.bytes))) for k in range(8)]
        for k, value in enumerate(loaded):
            f.store(kind, value, f.ahead(into, f.add(i, k * kind.bytes)))
    f.returns()
    return f


def _fma(target: Target, element: str) -> Function:
    """Write void fma_element(ptr rounds, i64 chunk, i64 worker): sums that are never read. The last one is stored, so
    that they are computed.
    """
    f = Function(f"fma_{element}", "ptr %argument, i64 %chunk, i64 %worker")
    kind = Vector(element, target.lanes(element))
    rounds = f.set("load i64, ptr %argument")
    place = f.set(f"alloca {kind}, align 64")
    f.store(kind, kind.constant(0.999), place)
    factor = f.set(f"load volatile {kind}, ptr {place}")
    sums = [f.carry(kind, kind.constant(k)) for k in range(_registers(target))]
    with f.loop(rounds, carried=sums):
        for s in sums:
            if target.fma:
                s.next = f.call(kind, f"llvm.fma.{kind.suffix}", f"{kind} {s}", f"{kind} {factor}", f"{kind} {factor}")
            else:
                s.next = f.set(f"fadd {kind} {f.set(f'fmul {kind} {s}, {factor}')}, {factor}")
    for s in sums:
        f.do(f"store volatile {kind} {s}, ptr {place}")
    f.returns()
    return f


# ----- NumPy ----------------------------------------------------------------------------------------------------------


def _numpy_copy(touched: int) -> float:
    source = np.zeros(touched // 8, np.float32)
    target = np.zeros_like(source)
    rounds = max(1, (1 << 22) // touched)

    def copy() -> None:
        for _ in range(rounds):
            np.copyto(target, source)

    return touched * rounds / _fastest(copy)


def _numpy_peaks() -> dict[str, float]:
    n = 512
    found = {}
    for dtype in ("float32", "float64"):
        a = np.ones((n, n), dtype)
        found[dtype] = 2 * n**3 / _fastest(lambda a=a: a @ a)  # type: ignore[misc]
    return found
