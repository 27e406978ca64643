"""The library of matrix products, made by a thread of its own while a function is still being traced.

Where nothing is in the cache on disk, LLVM takes longer over that library than over most programs, and no program with
a product can be written before it is there. LLVM runs without the interpreter lock, and tracing runs without LLVM. So
the tracer says when it meets the first product of a dtype, and whoever needs the library waits for what is left.

It is only a hint. A thread that fails says nothing: who asks for the library meets the same failure.
"""

from __future__ import annotations

import contextlib
import os
import threading
from typing import Any

from ndgrad._src.arrays import library
from ndgrad._src.compiler.kernels import arrays
from ndgrad._src.compiler.native import pool, target
from ndgrad._src.compiler.native.ir import TYPES

#: Ops that become matrix products.
_PRODUCTS = frozenset(["matmul", "linear", "addmm", "bmm", "baddbmm", "mv", "dot", "vdot", "inner", "tensordot"])

_begun: set[str] = set()


def note_op(op: Any, dtype: Any) -> None:
    """An op is traced for the first time on arrays like these, and gives this dtype."""
    if op.name not in _PRODUCTS or dtype.name in _begun or dtype.name not in ("float32", "float64"):
        return
    _begun.add(dtype.name)
    is_native = target.available() and not os.environ.get("NDGRAD_COMPILE_REPLAY") and library.device_library is None
    if is_native and (os.cpu_count() or 1) > 1:
        # not a daemon: a process that ends waits until LLVM has
        threading.Thread(target=_make, args=(TYPES[dtype.name],), name="ndgrad compile ahead").start()


def _make(element: str) -> None:
    with contextlib.suppress(Exception):
        arrays.code("product", element)
        pool.pool()


def _after_fork() -> None:
    """A child has the thread no more."""
    _begun.clear()


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_after_fork)
