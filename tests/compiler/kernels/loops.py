"""Loops over arrays around code for vectors, so that tests can run it."""

from __future__ import annotations

import ctypes
from collections.abc import Callable, Sequence
from functools import cache
from typing import Any

import numpy as np

from ndgrad._src.compiler.kernels import maths
from ndgrad._src.compiler.native.ir import TYPES, Function, Vector, module
from ndgrad._src.compiler.native.target import Code, Target, host, processor

#: This machine, and the least of its architecture: no fused multiply-add on x86, 16-byte vectors.
TARGETS = {"host": host, "plain": lambda: processor("generic")}


class Loops:
    """Functions over arrays, `write(f, lanes, *values)` for each vector of elements; one module for all, which LLVM does quickest."""

    def __init__(self, target: Target) -> None:
        self.target = target
        self.functions: list[Function] = []
        self.signatures: dict[str, tuple[Sequence[str], str, int]] = {}

    def add(self, name: str, write: Callable[..., str], takes: Sequence[str], gives: str, lanes: int) -> None:
        places = [f"ptr %x{i}" for i in range(len(takes))]
        f = Function(name, ", ".join([*places, "ptr %out", "i64 %n"]))
        with f.loop("%n", step=str(lanes)) as i:
            values = [f.load(Vector(TYPES[d], lanes), f.address(TYPES[d], f"%x{k}", i)) for k, d in enumerate(takes)]
            f.store(Vector(TYPES[gives], lanes), write(f, lanes, *values), f.address(TYPES[gives], "%out", i))
        f.returns()
        self.functions.append(f)
        self.signatures[name] = (takes, gives, lanes)

    def compiled(self, level: int = 1) -> Loops:
        needed = [n for f in self.functions for n in f.needed]
        self.code = Code(module([*self.functions, *maths.library(needed, self.target)]), self.target, level)
        return self

    def __call__(self, name: str, *arrays: Any) -> Any:
        takes, gives, lanes = self.signatures[name]
        given = [np.ascontiguousarray(a, d) for a, d in zip(arrays, takes, strict=True)]
        n = given[0].size
        padded = [np.concatenate([a, np.ones(-n % lanes, a.dtype)]) for a in given]
        out = np.empty(padded[0].size, gives)
        pointers = [ctypes.c_void_p] * (len(given) + 1)
        run = self.code.function(name, None, *pointers, ctypes.c_int64)
        run(*(a.ctypes.data for a in padded), out.ctypes.data, out.size)
        return out[:n]


@cache
def library(dtype: str, where: str, lanes: int = 0, only: tuple[str, ...] = ()) -> Loops:
    """All functions of the maths library in one module."""
    target = TARGETS[where]()
    loops = Loops(target)
    lanes = lanes or target.lanes(TYPES[dtype])
    for name in only or maths.FORMULAS:
        def write(f: Function, lanes: int, *values: str, name: str = name) -> str:
            return maths.emit(f, name, Vector(TYPES[dtype], lanes), *values)

        loops.add(name, write, [dtype] * maths.FORMULAS[name].arity, dtype, lanes)
    return loops.compiled()
