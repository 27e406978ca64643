"""The target machine, and the path from LLVM IR to addresses.

    text  --parse, passes-->  module  --code generator-->  object (bytes)  --loader-->  addresses

There is one path. The code generator produces an object file in memory, the same bytes that the cache on disk holds.
Loading takes an object from either source. So a cached function and a fresh one are the same machine code. The loader
is ndgrad's own (`object_loader`), or LLVM's linker for objects that it does not support.

Note [Without LLVM]
A process that finds all its objects in the cache does not import LLVM, which takes some hundred milliseconds and 70 to
100 MB. Keys of objects contain LLVM's version and its name for the processor. Both are in the cache, too, under a digest
of the processor's description and of the installed files of llvmlite.

    code = Code(text)                                  # for this machine, level 1, through the cache
    scale = code.function("scale", None, c_void_p, c_double, c_int64)
    print(code.assembly())

Functions that the text declares but does not define come from `symbols` (name -> address) or from the C library of the
process. A function in neither is an error here, not a crash later. Addresses are valid as long as the `Code` lives.

LLVM can generate code for other processors (`processor("skylake-avx512")`); its assembly can only be read. The
environment variable NDGRAD_COMPILE_CPU names another processor to generate code for. `generic` is the minimum of every
machine of the architecture (16-byte vectors). A name that this machine cannot run is refused.
"""

from __future__ import annotations

import ctypes
import functools
import importlib.util
import itertools
import json
import os
import platform
import re
import sys
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, NamedTuple

from ndgrad._src.compiler.native import cache
from ndgrad._src.compiler.native.ir import SIZES
from ndgrad._src.compiler.native.object_loader import is_supported, load_object
from ndgrad._src.compiler.native.phases import note_object, phase
from ndgrad._src.foundations.locks import compute_once

_ABSENT = (
    "compiling to native code needs llvmlite, which is not installed. Install it (pip install llvmlite), "
    "or go on without it: compiled functions then run their programs on NumPy. [nd-install]"
)


@compute_once
def available() -> bool:
    """True if llvmlite can be imported. On a machine where it was imported before, it is not imported now."""
    if _remembered() is not None:
        return True
    try:
        import llvmlite.binding  # noqa: F401
    except ImportError:
        return False
    return True


@compute_once
def binding() -> Any:
    """Return llvmlite's binding, initialised for this machine, or raise an error that explains the installation. The
    import takes 0.1 s, so it is deferred.
    """
    try:
        import llvmlite.binding as llvm
    except ImportError as error:
        raise ImportError(_ABSENT) from error
    llvm.initialize_native_target()
    llvm.initialize_native_asmprinter()
    _let_forks_wait(llvm)
    return llvm


def _let_forks_wait(llvm: Any) -> None:
    """Let forks wait until no thread is inside LLVM. The child would inherit its locks locked, and no thread would
    release them.
    """
    lock = getattr(
        llvm.ffi.lib, "_lock", None
    )  # llvmlite holds it around every call, so several threads may compile modules at once
    if lock is not None and hasattr(os, "register_at_fork"):
        leave = functools.partial(lock.__exit__, None, None, None)
        os.register_at_fork(before=lock.__enter__, after_in_parent=leave, after_in_child=leave)


# ----- processors -----------------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Target:
    """A processor: its name and features for LLVM, the bytes of a vector register, and its system (empty: this one)."""

    cpu: str
    features: str
    vector_bytes: int
    triple: str = ""

    def lanes(self, element: str) -> int:
        """Return the number of elements of an LLVM type in a vector register."""
        return self.vector_bytes // SIZES[element]

    @property
    def architecture(self) -> str:
        """Return x86_64, aarch64, or another name of LLVM's."""
        name = self.triple.partition("-")[0] if self.triple else platform.machine().lower()
        return {"amd64": "x86_64", "arm64": "aarch64"}.get(name, name)

    @property
    def fma(self) -> bool:
        """True if a fused multiply-add is one instruction; otherwise `llvm.fma` is a slow call."""
        return self.architecture == "aarch64" or self.vector_bytes > 16 or "+fma" in self.features.split(",")

    @property
    def registers(self) -> int:
        """Return the number of vector registers, which bounds the tile of a product."""
        return 32 if self.architecture == "aarch64" or self.vector_bytes == 64 else 16


_AVX2 = ("avx2", "fma", "bmi2")
_AVX512 = (*_AVX2, "avx512f", "avx512cd", "avx512bw", "avx512dq", "avx512vl")

#: Processors by name: architecture, LLVM's name, features to add, bytes of a vector, features that a machine needs to
#: run the code.
_PROCESSORS: dict[str, tuple[str, str, str, int, tuple[str, ...]]] = {
    "x86-64": ("x86_64", "x86-64", "", 16, ()),
    "x86-64-v3": ("x86_64", "x86-64-v3", "", 32, _AVX2),
    "haswell": ("x86_64", "haswell", "", 32, _AVX2),
    "znver3": ("x86_64", "znver3", "", 32, (*_AVX2, "clwb", "vaes")),
    "skylake-avx512": ("x86_64", "skylake-avx512", "-prefer-256-bit", 64, _AVX512),
    "znver4": ("x86_64", "znver4", "", 64, (*_AVX512, "avx512vbmi", "avx512bf16")),
    "armv8": ("aarch64", "generic", "+neon", 16, ()),
    "neoverse-n1": ("aarch64", "neoverse-n1", "", 16, ("lse", "rdm")),
    "apple-m1": ("aarch64", "apple-m1", "", 16, ("lse", "rdm")),
}
_LEAST = {"x86_64": "x86-64", "aarch64": "armv8"}


def processor(name: str) -> Target:
    """Return a processor by its name, which may differ from this machine's."""
    here = Target("", "", 16).architecture
    if name == "generic" and here not in _LEAST:
        return Target("", "", 16)
    name = _LEAST[here] if name == "generic" else name
    if name not in _PROCESSORS:
        raise ValueError(
            f"no processor {name!r} is known to the compiler. Those that are: generic, {', '.join(_PROCESSORS)}. "
            "[nd-compiler]"
        )
    architecture, cpu, features, width, _ = _PROCESSORS[name]
    return Target(cpu, features, width, "" if architecture == here else f"{architecture}-unknown-linux-gnu")


def host() -> Target:
    """Return the processor to generate code for: this machine's, or the one that NDGRAD_COMPILE_CPU names."""
    name = os.environ.get("NDGRAD_COMPILE_CPU", "")
    return _native() if name in ("", "native") else _check_processor(name)


@compute_once
def _native() -> Target:
    text = _toolchain().features
    features = set(text.split(","))
    if {"+avx512f", "+avx512vl", "+avx512dq"} <= features:
        width, text = 64, text + ",-prefer-256-bit"  # the kernels use 64-byte vectors
    elif {"+avx2", "+fma"} <= features:
        width = 32
    else:
        width = 16  # SSE2 or NEON, which every such machine has; elsewhere LLVM splits vectors
    return Target(_toolchain().cpu, text, width)


@compute_once
def _check_processor(name: str) -> Target:
    """Return a processor by name whose code this machine can run."""
    target = processor(name)
    if target.triple:
        raise ValueError(
            f"NDGRAD_COMPILE_CPU={name}: that is a processor of the architecture {target.architecture}, "
            "and this machine has another. Take the variable away, or set it to 'generic'. [nd-environment]"
        )
    features = set(_toolchain().features.split(","))
    missing = [] if name == "generic" else [need for need in _PROCESSORS[name][4] if f"+{need}" not in features]
    if missing:
        raise ValueError(
            f"NDGRAD_COMPILE_CPU={name}: this machine's processor has no {', '.join(missing)}, "
            "so the code would not run here. Take the variable away, or set it to 'generic'. [nd-environment]"
        )
    return target


# ----- LLVM's description of this machine -----------------------------------------------------------------------------


class _Toolchain(NamedTuple):
    """LLVM's version with the interface to it, and its name and features of this machine's processor."""

    versions: str
    cpu: str
    features: str


@compute_once
def _toolchain() -> _Toolchain:
    """Return the facts of LLVM and of the processor, from the cache on disk if possible (Note [Without LLVM])."""
    known = _remembered()
    if known is not None:
        return known
    llvm = binding()
    from llvmlite import __version__ as version  # imported separately from the binding, which is loaded on first use

    versions = f"llvmlite {version}, LLVM {llvm.llvm_version_info}, {llvm.get_process_triple()}, {platform.system()}"
    found = _Toolchain(versions, llvm.get_host_cpu_name(), llvm.get_host_cpu_features().flatten())
    entry = _entry_of_machine()
    if entry is not None:
        cache.store(entry, json.dumps(found).encode())
    return found


@compute_once
def _remembered() -> _Toolchain | None:
    """Return the facts that the cache holds for this machine and llvmlite."""
    entry = _entry_of_machine()
    data = None if entry is None else cache.load(entry)
    if data is None:
        return None
    try:
        versions, cpu, features = json.loads(data)
    except ValueError:
        return None
    return _Toolchain(str(versions), str(cpu), str(features))


@compute_once
def _entry_of_machine() -> str | None:
    """Return the name of the entry for this processor and llvmlite; None if they cannot be told without LLVM."""
    if not is_supported():
        return None
    try:
        spec = importlib.util.find_spec("llvmlite")
        if spec is None or spec.origin is None:
            return None
        here = Path(spec.origin).parent
        stats = [(str(file), file.stat()) for file in (here / "_version.py", here / "binding" / "libllvmlite.so")]
        files = [f"{name} {status.st_size} {status.st_mtime_ns} {status.st_ino}" for name, status in stats]
        first = Path("/proc/cpuinfo").read_text().partition("\n\n")[0]
    except (OSError, ValueError, ImportError):
        return None
    changing = ("processor", "cpu MHz", "core id", "apicid", "initial apicid", "physical id", "bogomips")
    lines = [line for line in first.splitlines() if line.partition("\t")[0].strip(" :") not in changing]
    return cache.key("machine", *files, *lines)


# ----- text to object -------------------------------------------------------------------------------------------------


class CompileError(RuntimeError):
    """Raised if LLVM rejects a module, with its message and the line concerned."""


def object_code(text: str, target: Target | None = None, level: int = 1) -> bytes:
    """Compile a module to an object file. `level`: 0 compiles quickest, 1 is for straight vector code, 3 runs all of
    LLVM's optimisations.
    """
    module, machine = _optimised(text, target or host(), level)
    return bytes(machine.emit_object(module))


def assembly(text: str, target: Target | None = None, level: int = 1) -> str:
    """Return a module as assembly, for reading."""
    module, machine = _optimised(text, target or host(), level)
    return str(machine.emit_assembly(module))


def optimised(text: str, target: Target | None = None, level: int = 1) -> str:
    """Return a module as IR after LLVM's passes, for reading."""
    return str(_optimised(text, target or host(), level)[0])


def _optimised(text: str, target: Target, level: int) -> tuple[Any, Any]:
    llvm = binding()
    machine = _machine(target, level)
    try:
        module = llvm.parse_assembly(text, llvm.create_context())
        module.verify()
    except RuntimeError as error:
        raise CompileError(_explain(str(error), text)) from None
    module.triple = machine.triple
    module.data_layout = str(machine.target_data)
    if level:
        options = llvm.create_pipeline_tuning_options(speed_level=level)
        options.loop_vectorization = options.slp_vectorization = False
        builder = llvm.create_pass_builder(machine, options)
        passes = _short_passes(llvm) if level == 1 else builder.getModulePassManager()
        passes.run(module, builder)
        if type(passes)._dispose is llvm.ffi.ObjectRef._dispose:  # llvmlite 0.50 fails to free them, 44 kB each time
            llvm.ffi.lib.LLVMPY_DisposeNewModulePassManger(passes)
            passes.detach()
    return module, machine


def _short_passes(llvm: Any) -> Any:
    """Run the few LLVM passes that help code already written in vectors and loops.

    The forty passes of level 1 take four times as long, and compiled programs are as quick without them, to a few
    percent.
    """
    passes = llvm.create_new_module_pass_manager()
    passes.add_always_inliner_pass()
    passes.add_simplify_cfg_pass()
    passes.add_loop_rotate_pass()
    passes.add_new_gvn_pass()
    passes.add_instruction_combine_pass()
    return passes


@functools.lru_cache(maxsize=16)
def _machine(target: Target, level: int) -> Any:
    llvm = binding()
    if target.triple:
        llvm.initialize_all_targets()
        llvm.initialize_all_asmprinters()
    triple = target.triple or llvm.get_process_triple()
    # Position-independent code with nearby constants is the smallest. The linker places the sections of an object side
    # by side and reaches far functions through a table. Windows has no such table.
    where = (
        {"codemodel": "jitdefault", "jit": True} if sys.platform == "win32" else {"reloc": "pic", "codemodel": "small"}
    )
    return llvm.Target.from_triple(triple).create_target_machine(
        cpu=target.cpu, features=target.features, opt=min(level + 1, 3), **where
    )


def _explain(said: str, text: str) -> str:
    """Return LLVM's message, and the source lines around the one concerned."""
    lines = text.splitlines()
    place = re.search(r"<string>:(\d+):(\d+): error: (.*)", said)
    if place:
        number, column, what = int(place[1]), int(place[2]), place[3]
    else:  # the verifier quotes instructions and names no line
        what = said.strip()
        quoted = {line.strip() for line in what.splitlines()}
        number, column = next((n for n, line in enumerate(lines, 1) if line.strip() in quoted), 0), 0
    if not number:
        return f"LLVM does not accept this module: {what} [nd-compiler]"
    head = next((line for line in reversed(lines[:number]) if line.startswith("define")), "")
    shown = [f"{n:6d} | {lines[n - 1]}" for n in range(max(1, number - 3), min(len(lines), number + 2) + 1)]
    if column:
        shown.insert(number - max(1, number - 3) + 1, " " * (8 + column) + "^")
    told = [f"LLVM does not accept line {number} of this module: {what}", *([f"in {head}"] if head else []), *shown]
    return "\n".join(told) + " [nd-compiler]"


# ----- object to addresses --------------------------------------------------------------------------------------------

_DEFINED = re.compile(r"^define (?!.*\b(?:internal|private)\b)[^@]*@\"?([\w.$]+)\"?\(", re.MULTILINE)
_DECLARED = re.compile(r"^declare [^@]*@\"?([\w.$]+)\"?\(", re.MULTILINE)
_numbers = itertools.count()


@compute_once
def _linker() -> Any:
    llvm = binding()
    linker = llvm.create_lljit_compiler(
        _machine(_native(), 1), use_jit_link=sys.platform != "win32", suppress_errors=True
    )
    # Never freed: at the exit of the interpreter the workers of the pool may still be inside the code that it owns.
    ctypes.pythonapi.Py_IncRef(ctypes.py_object(linker))
    return linker


class Code:
    """Compiled functions, alive as long as this object is."""

    def __init__(
        self,
        text: str,
        target: Target | None = None,
        level: int = 1,
        symbols: Mapping[str, int] | None = None,
        keep: bool = True,
    ) -> None:
        """Compile and link a module.

        `symbols` are the addresses of functions that the text declares. `keep` stores the object in the cache on disk;
        it must be False if the text contains addresses of this process.
        """
        self.text = text
        self.target = target or host()
        self.level = level
        if self.target.triple:
            raise ValueError(
                f"code for {self.target.cpu} ({self.target.triple}) cannot be loaded on this machine. "
                "assembly() and object_code() make it for reading. [nd-compiler]"
            )
        #: covers everything that the object depends on
        self.key = cache.key("object", _versions(), self.target.cpu, self.target.features, str(level), text)
        found = cache.load(self.key) if keep else None
        self.cached = found is not None
        note_object(self.cached)
        self.object = found or self._compiled(keep)
        try:
            self._addresses = self._linked_to(dict(symbols or {}))
        except CompileError:
            if not self.cached:
                raise
            self.cached, self.object = False, self._compiled(keep)  # complete, but rejected by the linker
            self._addresses = self._linked_to(dict(symbols or {}))

    def _compiled(self, keep: bool) -> bytes:
        with phase("LLVM"):
            made = object_code(self.text, self.target, self.level)
        if keep:
            cache.store(self.key, made)
        return made

    def _linked_to(self, symbols: dict[str, int]) -> dict[str, int]:
        with phase("linking"):
            return self._link(symbols)

    def _link(self, symbols: dict[str, int]) -> dict[str, int]:
        names = _DEFINED.findall(self.text)
        loaded = load_object(self.object, symbols)
        if loaded is not None and all(name in loaded.addresses for name in names):
            self._linked: Any = loaded  # owns the code
            return {name: loaded.addresses[name] for name in names}
        llvm, linker = binding(), _linker()  # makes the symbols of the process known to LLVM
        outside = {name for name in _DECLARED.findall(self.text) if not name.startswith("llvm.")}
        missing = sorted(name for name in outside - set(symbols) if not llvm.address_of_symbol(name))
        if missing:
            raise CompileError(
                f"the module declares {', '.join('@' + name for name in missing)}, "
                "which neither the process has nor `symbols` gives. Pass its address in `symbols`, or define it. "
                "[nd-compiler]"
            )
        library = llvm.JITLibraryBuilder().add_object_img(self.object).add_current_process()
        for name in outside & set(symbols):
            library.import_symbol(name, symbols[name])
        for name in names:
            library.export_symbol(name)
        try:
            self._linked = library.link(linker, f"ndgrad{next(_numbers)}")  # owns the code
        except RuntimeError as error:
            raise CompileError(f"the module with {', '.join(names)} cannot be linked: {error} [nd-compiler]") from None
        return {name: int(self._linked[name]) for name in names}

    def address(self, name: str) -> int:
        """Return the address of a function of the module."""
        try:
            return self._addresses[name]
        except KeyError:
            raise KeyError(
                f"the module defines no function {name!r}. It defines {', '.join(self._addresses)}. [nd-compiler]"
            ) from None

    def function(self, name: str, returns: Any, *arguments: Any) -> Any:
        """Return a ctypes function of the module, which releases the interpreter lock while it runs."""
        return _Called(self, ctypes.CFUNCTYPE(returns, *arguments)(self.address(name)))

    def assembly(self) -> str:
        return assembly(self.text, self.target, self.level)

    def optimised(self) -> str:
        return optimised(self.text, self.target, self.level)


class _Called:
    """A ctypes function that keeps its code alive."""

    def __init__(self, code: Code, function: Any) -> None:
        self._code = code
        self._function = function

    def __call__(self, *arguments: Any) -> Any:
        return self._function(*arguments)


def _versions() -> str:
    """Return the versions that the object depends on besides the text: LLVM, and the interface to it."""
    return _toolchain().versions
