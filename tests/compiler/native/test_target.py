"""Processors, and the road from text to addresses."""

from __future__ import annotations

import ctypes
import gc
import mmap
import os
import subprocess
import sys
import threading
from ctypes import c_double, c_int64, c_void_p

import numpy as np
import pytest

pytest.importorskip("llvmlite")

from ndgrad._src.compiler.native import target
from ndgrad._src.compiler.native.ir import Function, Vector, module

SCALE = """
define void @scale(ptr %x, double %a, i64 %n) {
entry:
  br label %head
head:
  %i = phi i64 [0, %entry], [%j, %body]
  %more = icmp slt i64 %i, %n
  br i1 %more, label %body, label %done
body:
  %p = getelementptr double, ptr %x, i64 %i
  %v = load double, ptr %p
  %w = call double @twice(double %v)
  %u = fmul double %w, %a
  store double %u, ptr %p
  %j = add i64 %i, 1
  br label %head
done:
  ret void
}
define internal double @twice(double %x) alwaysinline {
  %y = fadd double %x, %x
  ret double %y
}
"""


def test_a_module_runs_from_python():
    x = np.arange(5.0)
    target.Code(SCALE).function("scale", None, c_void_p, c_double, c_int64)(x.ctypes.data, 1.5, 5)
    np.testing.assert_array_equal(x, 3.0 * np.arange(5.0))


def test_a_function_keeps_its_code_alive():
    x = np.arange(3.0)
    scale = target.Code(SCALE).function("scale", None, c_void_p, c_double, c_int64)
    for _ in range(20):
        target.Code(SCALE)  # linked to other places, and gone
    scale(x.ctypes.data, 0.5, 3)
    np.testing.assert_array_equal(x, np.arange(3.0))


@pytest.mark.parametrize("level", [0, 1, 2, 3])
def test_every_level_means_the_same(level: int):
    x = np.arange(7.0)
    target.Code(SCALE, level=level).function("scale", None, c_void_p, c_double, c_int64)(x.ctypes.data, 1.5, 7)
    np.testing.assert_array_equal(x, 3.0 * np.arange(7.0))


def test_functions_from_outside_come_by_their_addresses():
    seen: list[float] = []

    @ctypes.CFUNCTYPE(c_double, c_double)
    def callback(x: float) -> float:
        seen.append(x)
        return x + 1.0

    body = "%y = call double @outside(double %x)"
    text = f"declare double @outside(double)\ndefine double @f(double %x) {{\n  {body}\n  ret double %y\n}}\n"
    address = ctypes.cast(callback, c_void_p).value
    assert address is not None
    f = target.Code(text, symbols={"outside": address}).function("f", c_double, c_double)
    assert f(3.0) == 4.0
    assert seen == [3.0]
    other = ctypes.CFUNCTYPE(c_double, c_double)(lambda x: -x)  # the same text, another address
    address = ctypes.cast(other, c_void_p).value
    assert address is not None
    assert target.Code(text, symbols={"outside": address}).function("f", c_double, c_double)(3.0) == -3.0
    assert f(3.0) == 4.0


def test_the_c_library_needs_no_address():
    body = "%y = call double @hypot(double 3.0, double 4.0)"
    text = f"declare double @hypot(double, double)\ndefine double @f() {{\n  {body}\n  ret double %y\n}}\n"
    assert target.Code(text).function("f", c_double)() == 5.0


def test_a_function_that_nobody_has_is_refused():
    text = "declare void @no_such_function()\ndefine void @f() {\n  call void @no_such_function()\n  ret void\n}\n"
    with pytest.raises(
        target.CompileError, match="declares @no_such_function, which neither the process has nor `symbols` gives"
    ):
        target.Code(text)


def test_a_name_that_the_module_does_not_define_is_refused():
    with pytest.raises(KeyError, match="defines no function 'twice'. It defines scale"):
        target.Code(SCALE).address("twice")  # internal


def test_an_error_of_the_parser_shows_the_line():
    text = (
        "define i32 @first() {\n  ret i32 0\n}\ndefine i32 @second(i32 %a) {\n  %b = add i32 %a, %c\n  ret i32 %b\n}\n"
    )
    with pytest.raises(target.CompileError) as caught:
        target.Code(text)
    said = str(caught.value)
    assert "line 5 of this module: use of undefined value '%c'" in said
    assert "in define i32 @second(i32 %a) {" in said
    lines = said.splitlines()
    at = next(i for i, line in enumerate(lines) if line.endswith("%b = add i32 %a, %c"))
    assert lines[at + 1].index("^") == lines[at].index("%c")


def test_an_error_of_the_verifier_shows_the_line():
    text = (
        "define i32 @f(i1 %c) {\n  br i1 %c, label %l, label %r\nl:\n  %x = add i32 1, 2\n  br label %r\nr:\n"
        "  %y = add i32 %x, 1\n  ret i32 %y\n}\n"
    )
    with pytest.raises(target.CompileError, match=r"does not dominate all uses(.|\n)*4 \|   %x = add i32 1, 2"):
        target.Code(text)


@pytest.mark.skipif(not os.path.exists("/proc/self/statm"), reason="no way to ask for the memory in use")
def test_compiling_and_loading_leak_little():
    def memory() -> int:
        with open("/proc/self/statm") as file:
            return int(file.read().split()[1]) * mmap.PAGESIZE

    text = "define i64 @f() {\n  ret i64 41\n}\n"
    for _ in range(20):
        target.Code(text, keep=False)
    gc.collect()
    before = memory()
    for _ in range(60):
        target.Code(text, keep=False)
    gc.collect()
    assert memory() - before < 60 * 30_000  # llvmlite keeps some 10 kB of every library that it has linked


# ----- processors -----


def test_the_host_has_vectors_of_a_known_width():
    host = target.host()
    assert host.vector_bytes in (16, 32, 64)
    assert host.lanes("float") == host.vector_bytes // 4
    assert host.registers in (16, 32)


def _vector_product(processor: target.Target) -> str:
    """x * y + z on one vector register of floats."""
    v = Vector("float", processor.lanes("float"))
    f = Function("product", "ptr %x, ptr %y, ptr %z")
    x, y, z = (f.load(v, p) for p in ("%x", "%y", "%z"))
    f.store(v, f.call(v, f"llvm.fmuladd.{v.suffix}", f"{v} {x}", f"{v} {y}", f"{v} {z}"), "%z")
    f.returns()
    return module([f])


@pytest.mark.parametrize(
    ("name", "instruction"),
    [
        ("x86-64", "mulps"), ("haswell", "%ymm"), ("x86-64-v3", "%ymm"), ("znver3", "%ymm"), ("skylake-avx512", "%zmm"),
        ("znver4", "%zmm"), ("armv8", "fmla"), ("neoverse-n1", "fmla"), ("apple-m1", "fmla"),
    ],
)  # fmt: skip
def test_code_for_other_processors_has_their_vectors(name: str, instruction: str):
    processor = target.processor(name)
    text = target.assembly(_vector_product(processor), processor)
    assert instruction in text
    assert "call" not in text
    assert processor.fma == ("fmadd" in text or "fmla" in text)


def test_code_for_another_architecture_is_not_loaded():
    foreign = target.processor("armv8" if target.host().architecture == "x86_64" else "x86-64")
    with pytest.raises(ValueError, match="cannot be loaded on this machine"):
        target.Code(SCALE, foreign)


@pytest.mark.parametrize("name", ["generic", "haswell", "skylake-avx512", "native"])
def test_the_environment_chooses_the_processor(name: str, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.delenv("NDGRAD_COMPILE_CPU", raising=False)  # the processor itself, whatever the environment says
    here = target.host()
    wanted = {"generic": 16, "haswell": 32, "skylake-avx512": 64}.get(name, here.vector_bytes)
    monkeypatch.setenv("NDGRAD_COMPILE_CPU", name)
    if wanted > here.vector_bytes:
        with pytest.raises(ValueError, match="would not run here|another"):
            target.host()
        return
    host = target.host()
    assert host.vector_bytes == wanted
    x, y, z = (np.arange(host.lanes("float"), dtype=np.float32) + k for k in range(3))
    expected = x * y + z
    code = target.Code(_vector_product(host))
    code.function("product", None, c_void_p, c_void_p, c_void_p)(x.ctypes.data, y.ctypes.data, z.ctypes.data)
    np.testing.assert_array_equal(z, expected)


@pytest.mark.parametrize("name", ["neoverse-n1", "znver4", "no-such-processor"])
def test_a_processor_that_cannot_run_here_is_refused(name: str, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.delenv("NDGRAD_COMPILE_CPU", raising=False)
    host = target.host()
    if (
        name == host.cpu
        or (name == "znver4" and host.vector_bytes == 64)
        or (name == "neoverse-n1" and host.architecture == "aarch64")
    ):
        pytest.skip("it can")
    monkeypatch.setenv("NDGRAD_COMPILE_CPU", name)
    with pytest.raises(ValueError, match="another|would not run here|no processor"):
        target.host()


def test_ir_and_assembly_on_request():
    code = target.Code(SCALE)
    assert "scale" in code.assembly()
    assert "@twice" not in code.optimised()  # inlined


# ----- threads, processes -----


def test_threads_compile_at_once():
    results: dict[int, float] = {}

    def compile_one(k: int) -> None:
        text = f"define double @f(double %x) {{\n  %y = fadd double %x, {k}.0\n  ret double %y\n}}\n"
        results[k] = target.Code(text).function("f", c_double, c_double)(0.5)

    threads = [threading.Thread(target=compile_one, args=(k,)) for k in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert results == {k: k + 0.5 for k in range(8)}


@pytest.mark.skipif(not hasattr(os, "fork"), reason="no fork on this system")
def test_a_child_forked_during_a_compilation_can_compile(monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setenv("NDGRAD_CACHE_DIR", "")
    stop = threading.Event()

    def compile_forever() -> None:
        while not stop.is_set():
            target.Code(SCALE)

    thread = threading.Thread(target=compile_forever)
    thread.start()
    try:
        for _ in range(3):
            child = os.fork()
            if child == 0:
                x = np.arange(3.0)
                target.Code(SCALE).function("scale", None, c_void_p, c_double, c_int64)(x.ctypes.data, 1.0, 3)
                os._exit(int(x.sum()))
            assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 6
    finally:
        stop.set()
        thread.join()


def test_importing_the_room_does_not_load_llvmlite():
    program = (
        "import sys, ndgrad._src.compiler.native.target, ndgrad._src.compiler.native.cache; sys.exit('llvmlite' in sys.modules)"
    )
    subprocess.run(
        [sys.executable, "-c", program],
        check=True,
        timeout=60,
        env={**os.environ, "PYTHONPATH": os.pathsep.join(sys.path)},
    )
