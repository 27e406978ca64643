"""The machine that code is made for: its instruction set as llvmlite sees it, the width of its vectors, and compiling text to addresses."""

from __future__ import annotations

import functools
from dataclasses import dataclass
from typing import Any

_ABSENT = (
    "compiling to native code needs llvmlite, which is not installed. Install it (pip install 'ndgrad[compile]'), or go on without it: "
    "compiled functions then run their programs on NumPy."
)


@functools.cache
def available() -> bool:
    """Whether llvmlite can be imported."""
    try:
        import llvmlite.binding  # noqa: F401
    except ImportError:
        return False
    return True


def binding() -> Any:
    """llvmlite's binding, or a message that says how to get it."""
    try:
        import llvmlite.binding as llvm
    except ImportError as error:
        raise ImportError(_ABSENT) from error
    return llvm


@dataclass(frozen=True)
class Target:
    """A processor: its name and features for LLVM, and the bytes of a vector register."""

    cpu: str
    features: str
    vector_bytes: int

    def lanes(self, element: str) -> int:
        """How many elements of an LLVM type fit into a vector register."""
        from ndgrad.compiler.native.ir import SIZES

        return self.vector_bytes // SIZES[element]

    @property
    def fma(self) -> bool:
        """Whether a multiplication and an addition with one rounding are an instruction: without it LLVM would call the C library."""
        return self.vector_bytes > 16 or any(f in ("+fma", "+neon", "+fp-armv8") for f in self.features.split(","))


@functools.cache
def host() -> Target:
    """This machine."""
    llvm = binding()
    llvm.initialize_native_target()
    llvm.initialize_native_asmprinter()
    features = llvm.get_host_cpu_features()
    if features.get("avx512f"):
        width = 64
    elif features.get("avx2") and features.get("fma"):
        width = 32
    else:
        width = 16
    return Target(llvm.get_host_cpu_name(), features.flatten(), width)


class Code:
    """Compiled functions, alive as long as this object is."""

    def __init__(self, text: str, target: Target | None = None, level: int = 1) -> None:
        """Compile a module. `level`: 0 compiles quickest, 1 is for straight vector code, 3 lets LLVM try everything."""
        target = target or host()
        llvm = binding()
        module = llvm.parse_assembly(text)
        machine = llvm.Target.from_default_triple().create_target_machine(
            cpu=target.cpu, features=target.features, opt=min(level + 1, 3), jit=True
        )
        module.triple = llvm.get_default_triple()
        module.data_layout = str(machine.target_data)
        if level:
            options = llvm.create_pipeline_tuning_options(speed_level=level)
            options.loop_vectorization = options.slp_vectorization = False
            options.loop_unrolling = level > 1
            builder = llvm.create_pass_builder(machine, options)
            builder.getModulePassManager().run(module, builder)
        self._machine = machine
        self._engine = llvm.create_mcjit_compiler(module, machine)
        self._engine.finalize_object()

    def address(self, name: str) -> int:
        """Where a function of the module begins."""
        return int(self._engine.get_function_address(name))
