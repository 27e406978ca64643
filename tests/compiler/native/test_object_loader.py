"""The loader of object files, which needs no LLVM."""

from __future__ import annotations

import ctypes
import gc
import os
import subprocess
import sys
from ctypes import c_double, c_int64, c_void_p
from pathlib import Path

import numpy as np
import pytest

pytest.importorskip("llvmlite")

from ndgrad._src.compiler.native import object_loader, target

supported = pytest.mark.skipif(not object_loader.is_supported(), reason="another system loads objects by LLVM")

#: a constant table, a variable, a call of the C library, a call from outside, and an internal function
TEXT = """
@table = private constant [3 x double] [double 1.0, double 10.0, double 100.0]
@names = constant [1 x ptr] [ptr @digits]
@count = internal global i64 0
declare ptr @memcpy(ptr, ptr, i64)
declare double @given(double)
define i64 @digits(ptr %to) {
  %r = call ptr @memcpy(ptr %to, ptr @table, i64 24)
  %old = load i64, ptr @count
  %new = add i64 %old, 1
  store i64 %new, ptr @count
  ret i64 %new
}
define i64 @indirect(ptr %to) {
  %f = load ptr, ptr @names
  %n = call i64 %f(ptr %to)
  ret i64 %n
}
define double @outside(double %x) {
  %y = call double @given(double %x)
  %z = call double @plus(double %y)
  ret double %z
}
define internal double @plus(double %x) noinline {
  %y = fadd double %x, 0.25
  ret double %y
}
"""


@supported
def test_calls_constants_variables_and_functions_from_outside():
    given = ctypes.CFUNCTYPE(c_double, c_double)(lambda x: 3.0 * x)
    address = ctypes.cast(given, c_void_p).value
    assert address is not None
    loaded = object_loader.load_object(target.object_code(TEXT), {"given": address})
    assert loaded is not None
    assert {"digits", "indirect", "outside"} <= set(loaded.addresses)
    assert "plus" not in loaded.addresses
    out = np.zeros(3)
    for n, name in enumerate(["digits", "indirect"], start=1):
        out[:] = 0
        assert ctypes.CFUNCTYPE(c_int64, c_void_p)(loaded.addresses[name])(out.ctypes.data) == n
        assert out.tolist() == [1.0, 10.0, 100.0]
    assert ctypes.CFUNCTYPE(c_double, c_double)(loaded.addresses["outside"])(2.0) == 6.25


@supported
def test_unknown_functions_are_left_to_the_linker():
    assert object_loader.load_object(target.object_code(TEXT), {}) is None
    assert object_loader.address_in_process("memcpy")
    assert object_loader.address_in_process("no_such_function_anywhere") is None


@supported
def test_memory_is_released_with_the_object():
    data = target.object_code("define i64 @f() {\n  ret i64 7\n}\n")

    def mappings() -> int:
        return sum("r-xp 00000000 00:00 0" in line for line in Path("/proc/self/maps").read_text().splitlines())

    before = mappings()
    kept = [object_loader.load_object(data, {}) for _ in range(3)]
    assert all(kept)
    assert ctypes.CFUNCTYPE(c_int64)(kept[0].addresses["f"])() == 7  # type: ignore[union-attr]
    assert b"".join(ctypes.string_at(k.addresses["f"], 1) for k in kept if k)
    kept.clear()
    gc.collect()
    assert mappings() <= before + 1


@supported
@pytest.mark.parametrize("part", [0, 4, 16, 40, 58, 62, 200])
def test_a_damaged_object_is_refused(part: int):
    data = bytearray(target.object_code(TEXT))
    data[part : part + 8] = b"\xff" * 8
    assert object_loader.load_object(bytes(data[: part + 8]), {"given": 1}) is None
    if part != 200:
        assert object_loader.load_object(bytes(data), {"given": 1}) is None


def test_other_systems_use_the_linker_of_llvm(monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(object_loader.sys, "platform", "plan9")
    assert object_loader.load_object(target.object_code("define void @f() {\n  ret void\n}\n"), {}) is None
    code = target.Code("define i64 @f() {\n  ret i64 5\n}\n")
    assert code.function("f", c_int64)() == 5


SECOND = """
import sys
import numpy as np
import ndgrad
x = ndgrad.tensor(np.linspace(-1.0, 1.0, 60_000), requires_grad=True)
ndgrad.nn.functional.gelu(x).sum().backward()
f = ndgrad.compile(lambda x: (x.tanh() * x).sum())
f(x).backward()
print("llvmlite.binding" in sys.modules, repr(float(x.grad.sum())), f.traces)
"""


@supported
def test_a_second_process_does_not_load_llvm(tmp_path: Path):
    environment = {**os.environ, "NDGRAD_CACHE_DIR": str(tmp_path)}
    environment.pop("NDGRAD_COMPILE_REPLAY", None)

    def run() -> list[str]:
        done = subprocess.run([sys.executable, "-c", SECOND], env=environment, check=True, capture_output=True, text=True)
        return done.stdout.split()

    first, second = run(), run()
    assert first[0] == "True"
    assert second == ["False", *first[1:]]
