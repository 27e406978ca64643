"""Compiling functions: traced once into a program, then run as native code or on NumPy.

    trace        the function runs on tensors whose payloads have no data; an observer writes down its ops     (trace.py)
    program      a list of ops, each value defined once, forward and backward together                          (program.py, text.py)
    passes       what makes it shorter: one idea per file                                                        (passes/)
    lower        loops and kernels                                                                               (lower/, kernels/)
    native       machine code through llvmlite, kept on disk, called and run by a pool of workers                (native/)
    replay       the same program on NumPy, where there is no llvmlite and for ops without a kernel              (replay.py)

What users call (`ndgrad.compile`, and here `disable`, `explain`, `is_compiling`, `reset`) is in entry.py, loaded when
first asked for; `graph` and `kernel_list`, which show what was compiled, are in seeing.py; torch's other names for what
its compiler is told are in directives.py.
"""

from __future__ import annotations

import importlib as _importlib
from typing import Any as _Any  # underscored: not part of the namespace

_HOMES = {
    **dict.fromkeys(("compile", "disable", "explain", "is_compiling", "reset"), "entry"),  # with the whole compiler
    **dict.fromkeys(("graph", "kernel_list"), "seeing"),  # with what measures and draws
    **dict.fromkeys(
        (
            "allow_in_graph", "assume_constant_result", "cudagraph_mark_step_begin", "is_dynamo_compiling", "is_exporting",
            "list_backends", "nested_compile_region", "set_stance",
        ),
        "directives",
    ),
}  # fmt: skip
__all__ = [*_HOMES]


def __getattr__(name: str) -> _Any:
    home = _HOMES.get(name)
    if home is None:
        from ndgrad._src.foundations.missing_names import refusal  # only for a name that is not there

        raise refusal(__name__, name)
    return getattr(_importlib.import_module(f"ndgrad.compiler.{home}"), name)


def __dir__() -> list[str]:
    return sorted(__all__)
