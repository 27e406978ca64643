"""Compiling functions: traced once into a program, then run as native code or on NumPy.

    trace        the function runs on tensors whose payloads have no data; an observer writes down its ops     (trace.py)
    program      a list of ops, each value defined once, forward and backward together                          (program.py, text.py)
    passes       what makes it shorter: one idea per file                                                        (passes/)
    lower        loops and kernels                                                                               (lower/, kernels/)
    native       machine code through llvmlite, kept on disk, called and run by a pool of workers                (native/)
    replay       the same program on NumPy, where there is no llvmlite and for ops without a kernel              (replay.py)

What users call (`ndgrad.compile`, and here `disable`, `explain`, `is_compiling`, `reset`) is in entry.py, loaded when
first asked for; `graph` and `kernel_list`, which show what was compiled, are in seeing.py.
"""

from __future__ import annotations

from typing import Any as _Any  # underscored: not part of the namespace

__all__ = ["disable", "explain", "graph", "is_compiling", "kernel_list", "reset"]

_SEEING = ("graph", "kernel_list")


def __getattr__(name: str) -> _Any:
    if name in _SEEING:
        from ndgrad.compiler import seeing  # with what measures and draws

        return getattr(seeing, name)
    if name in __all__:
        from ndgrad.compiler import entry  # with the whole compiler

        return getattr(entry, name)
    raise AttributeError(f"module 'ndgrad.compiler' has no attribute {name!r}")


def __dir__() -> list[str]:
    return sorted(__all__)
