"""Which way a program runs: as native code where there is llvmlite and its ops have kernels, else on NumPy."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from ndgrad.compiler.program import Program
from ndgrad.compiler.replay import Replay

Runner = Callable[[Sequence[Any]], list[Any]]


def runner(program: Program) -> Runner:
    """A function from the arrays of the inputs to those of the outputs."""
    return Replay(program)
