"""The floating-point status of the processor: division by zero, overflow or NaN in native code.

NumPy checks it after each ufunc, and warns or raises as `np.errstate` says. A program checks it once, at its end, and
workers of the pool pass theirs to the thread that runs the program. Vector code may set a bit that NumPy's would not. A
bit therefore only means that an eager call may have something to report (see ndgrad._src.compiler.lower.float_errors).

The bits are those of x86-64. On architectures other than x86-64 and arm64, no bit is ever set.
"""

from __future__ import annotations

import ctypes
from collections.abc import Callable

from ndgrad._src.compiler.native.target import Code, host
from ndgrad._src.foundations.locks import compute_once

INVALID, DIVIDE, OVERFLOW = 1, 4, 8
ALL = INVALID | DIVIDE | OVERFLOW
#: Result of `enter` if a bit of its mask is set.
FLAGGED = 77

#: i64 status(): the bits that are set. void clear_status(). void add_status(i64): set further bits.
_X86 = """
declare void @llvm.x86.sse.stmxcsr(ptr)
declare void @llvm.x86.sse.ldmxcsr(ptr)
define internal i64 @status() {
  %word = alloca i32
  call void @llvm.x86.sse.stmxcsr(ptr %word)
  %all = load i32, ptr %word
  %bits = and i32 %all, 13
  %wide = zext i32 %bits to i64
  ret i64 %wide
}
define internal void @clear_status() {
  %word = alloca i32
  call void @llvm.x86.sse.stmxcsr(ptr %word)
  %all = load i32, ptr %word
  %rest = and i32 %all, -64
  store i32 %rest, ptr %word
  call void @llvm.x86.sse.ldmxcsr(ptr %word)
  ret void
}
define internal void @add_status(i64 %bits) {
  %word = alloca i32
  call void @llvm.x86.sse.stmxcsr(ptr %word)
  %all = load i32, ptr %word
  %more = trunc i64 %bits to i32
  %both = or i32 %all, %more
  store i32 %both, ptr %word
  call void @llvm.x86.sse.ldmxcsr(ptr %word)
  ret void
}
"""
# arm64 uses the C library, whose bits are 1, 2 and 4: invalid, divide, overflow.
_ARM = """
declare i32 @fetestexcept(i32)
declare i32 @feclearexcept(i32)
declare i32 @feraiseexcept(i32)
define internal i64 @status() {
  %all = call i32 @fetestexcept(i32 7)
  %invalid = and i32 %all, 1
  %others = and i32 %all, 6
  %moved = shl i32 %others, 1
  %bits = or i32 %invalid, %moved
  %wide = zext i32 %bits to i64
  ret i64 %wide
}
define internal void @clear_status() {
  %r = call i32 @feclearexcept(i32 7)
  ret void
}
define internal void @add_status(i64 %bits) {
  %some = trunc i64 %bits to i32
  %invalid = and i32 %some, 1
  %others = and i32 %some, 12
  %moved = lshr i32 %others, 1
  %own = or i32 %invalid, %moved
  %r = call i32 @feraiseexcept(i32 %own)
  ret void
}
"""
_NONE = """
define internal i64 @status() {
  ret i64 0
}
define internal void @clear_status() {
  ret void
}
define internal void @add_status(i64 %bits) {
  ret void
}
"""


def functions(architecture: str) -> str:
    """Return the functions of a module that reads the status."""
    return {"x86_64": _X86, "aarch64": _ARM}.get(architecture, _NONE)


# Programs call functions of another module, because the compiler moves no code across such calls.
_MODULE = """
define i64 @take_status() {
  %bits = call i64 @status()
  call void @clear_status()
  ret i64 %bits
}
define void @ndgrad_clear_status() {
  call void @clear_status()
  ret void
}
define void @ndgrad_add_status(i64 %bits) {
  call void @add_status(i64 %bits)
  ret void
}
define void @ndgrad_status(ptr %to) {
  %bits = call i64 @status()
  store i64 %bits, ptr %to
  ret void
}
"""


@compute_once
def _code() -> Code:
    return Code(functions(host().architecture) + _MODULE)


def symbols() -> dict[str, int]:
    """Return the functions that programs call: void ndgrad_clear_status(), void ndgrad_status(ptr to), void
    ndgrad_add_status(i64 bits).
    """
    names = ("ndgrad_clear_status", "ndgrad_status", "ndgrad_add_status")
    return {name: _code().address(name) for name in names}


@compute_once
def take() -> Callable[[], int]:
    """Return a function that returns the bits of this thread and clears them."""
    found: Callable[[], int] = _code().function("take_status", ctypes.c_int64)
    return found
