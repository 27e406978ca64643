"""Compile the library of matrix products in a separate thread while a function is still being traced.

With an empty cache on disk, LLVM takes longer for that library than for most programs, and a program with a product
needs it. LLVM runs without the interpreter lock, and tracing runs without LLVM. So the tracer announces the first
product of a dtype, and users of the library wait for the remaining time.

It is only a hint. The thread reports no failure, because a user of the library meets the same failure.
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
    """Note that an op is traced for the first time on arrays like these, with a result of this dtype."""
    if op.name not in _PRODUCTS or dtype.name in _begun or dtype.name not in ("float32", "float64"):
        return
    _begun.add(dtype.name)
    is_native = target.available() and not os.environ.get("NDGRAD_COMPILE_REPLAY") and library.device_library is None
    if is_native and (os.cpu_count() or 1) > 1:
        # Not a daemon: an ending process must wait for LLVM.
        threading.Thread(target=_make, args=(TYPES[dtype.name],), name="ndgrad compile ahead").start()


def _make(element: str) -> None:
    with contextlib.suppress(Exception):
        arrays.code("product", element)
        pool.pool()


def _after_fork() -> None:
    """Reset the state in a child, which does not have the thread."""
    _begun.clear()


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_after_fork)
