"""Forward and backward of a scalar function in one program.

The gradient of a scalar is a number times the gradients for a seed of one, and nearly always that number is one. A
recorded call of a scalar function is nearly always followed by its backward pass. So forward computes the gradients as
well. Kernels then go from the inputs to the gradients without storing intermediate values, backward returns the
gradients, and one program is compiled instead of two. A function whose calls are not followed by backward passes
switches to two programs, and back when they are again.

Gradients for another seed are multiplied by it at the end instead of at the start, which rounds differently. `strict`
functions do not use this.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from ndgrad._src.arrays.library import is_on_device
from ndgrad._src.compiler.lower.templates import Sizes
from ndgrad._src.compiler.passes import simplify_program
from ndgrad._src.compiler.program.program import Program, Value
from ndgrad._src.compiler.runtime.backend import Later, Runner

#: Number of watched calls before a new decision.
_WATCHED = 3


class JointProgram:
    """The program of values and gradients for a seed of one, compiled when it pays."""

    def __init__(
        self,
        program: Program,
        cotangent: Value,
        threads: int | None = None,
        sizes: Sizes | None = None,
        later: Later | None = None,
    ) -> None:
        self._program = program
        self._cotangent = cotangent
        self._threads = threads
        self._sizes = sizes
        self._later = later
        self._runner: Runner | None = None
        self._calls = 0  # recorded calls without a backward pass so far
        self._passes = _WATCHED  # backward passes since it last did not pay

    def pays(self) -> bool:
        """True if the next call should compute gradients as well. Asked once per recorded call."""
        self._calls += 1
        if self._calls > 2 * _WATCHED:
            self._passes = 0
        return self._passes >= _WATCHED

    def counts_on(self) -> bool:
        """Count a recorded call that has computed gradients, without a new decision. False if `pays` must be asked."""
        if self._calls >= 2 * _WATCHED:
            return False
        self._calls += 1
        return True

    def backward_was_called(self) -> None:
        """Note that a call was followed by its backward pass."""
        self._passes += 1
        self._calls = 0

    @property
    def runner(self) -> Runner:
        """The runner for results and gradients, created on first use."""
        if self._runner is None:
            p = self._program
            inputs = [v for v in p.inputs if v is not self._cotangent]
            one = {**p.constants, self._cotangent: np.ones((), self._cotangent.dtype)}
            whole = simplify_program(Program(inputs, p.outputs, p.instructions, one, p.name))
            self._runner = Runner(whole, threads=self._threads, sizes=self._sizes, later=self._later)
        return self._runner

    def scale(self, gradients: Sequence[Any], by: Any) -> Sequence[Any]:
        """Return the gradients for a seed other than one."""
        self.backward_was_called()
        if is_on_device(by):
            return [(by * g).astype(g.dtype, copy=False) for g in gradients]  # reading the number would wait for the device
        return gradients if by.item() == 1 else [np.asarray(by * g, g.dtype) for g in gradients]
