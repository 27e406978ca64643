"""Which way a program runs: as native code where there is llvmlite and its ops have kernels, else on NumPy."""

from __future__ import annotations

import os
from collections.abc import Callable, Sequence
from typing import Any

from ndgrad.compiler.lower.native_program import NativeProgram
from ndgrad.compiler.native.target import available
from ndgrad.compiler.passes.reroll import rolled
from ndgrad.compiler.program import Program
from ndgrad.compiler.replay import Replay

Runner = Callable[[Sequence[Any]], list[Any]]


def runner(program: Program) -> Runner:
    """A function from the arrays of the inputs to those of the outputs."""
    if os.environ.get("NDGRAD_COMPILE_REPLAY") or not available():
        return Replay(program)
    return NativeProgram(rolled(program))
