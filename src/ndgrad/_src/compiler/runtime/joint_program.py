"""Forward and backward of a scalar function in one program.

The gradient of a scalar is a number times the gradients that belong to a gradient of one, and nearly always that
number is one. A recorded call of a scalar function is nearly always followed by its backward pass, too. So forward
computes the gradients as well: kernels then go from the inputs to the gradients without storing what lies between,
backward hands the gradients out, and there is one program to be made and not two. A function whose calls are not
followed by backward passes goes over to two programs, and comes back when they are again.

Gradients for another number than one are multiplied by it at the end instead of at the beginning, which rounds
differently; `strict` functions do without this.
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

#: Calls that are watched before it is decided anew.
_WATCHED = 3


class Whole:
    """The program of values and gradients for a gradient of one, made when it is found to pay."""

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
        self._calls = 0  # that recorded and were not yet followed by a backward pass
        self._passes = _WATCHED  # backward passes since that did not pay

    def pays(self) -> bool:
        """Whether the next call should compute gradients at once. Asked once per recorded call."""
        self._calls += 1
        if self._calls > 2 * _WATCHED:
            self._passes = 0
        return self._passes >= _WATCHED

    def counts_on(self) -> bool:
        """Whether one more recorded call, which has computed gradients at once, is as good as those before; it is
        counted then. False: `pays` must be asked."""
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
        """What computes results and gradients, made now if it was not."""
        if self._runner is None:
            p = self._program
            inputs = [v for v in p.inputs if v is not self._cotangent]
            one = {**p.constants, self._cotangent: np.ones((), self._cotangent.dtype)}
            whole = simplify_program(Program(inputs, p.outputs, p.instructions, one, p.name))
            self._runner = Runner(whole, threads=self._threads, sizes=self._sizes, later=self._later)
        return self._runner

    def scaled(self, gradients: Sequence[Any], by: Any) -> Sequence[Any]:
        """The gradients for another gradient of the result than one."""
        self.backward_was_called()
        if is_on_device(by):
            return [(by * g).astype(g.dtype, copy=False) for g in gradients]  # to ask for the number would be to wait
        return gradients if by.item() == 1 else [np.asarray(by * g, g.dtype) for g in gradients]
