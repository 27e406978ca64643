"""Which way a program runs: as native code where there is llvmlite, else on NumPy.

Code is made when a program first runs: a backward program that is never asked for costs nothing. Should making it
fail, the program runs on NumPy, and a warning says why; a program of very many small steps runs there anyway. NDGRAD_COMPILE_REPLAY=1 asks for NumPy; with
NDGRAD_COMPILE_RAISE=1 a failure is an error (our tests).
"""

from __future__ import annotations

import os
import warnings
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any

from ndgrad._src.arrays.library import is_on_device
from ndgrad._src.compiler.lower.in_place import Writes
from ndgrad._src.compiler.lower.native_program import NativeProgram, TooLong
from ndgrad._src.compiler.lower.templates import Sizes
from ndgrad._src.compiler.native.phases import Times, compiling, phase
from ndgrad._src.compiler.native.target import available
from ndgrad._src.compiler.passes.hoist_products import hoisting
from ndgrad._src.compiler.passes.reroll import find_loops
from ndgrad._src.compiler.passes.select_branches import select_short_branches
from ndgrad._src.compiler.program.program import Program
from ndgrad._src.compiler.program.replay import Replay
from ndgrad._src.core.modes import ThreadState
from ndgrad._src.foundations.locks import make_lock

if TYPE_CHECKING:
    from ndgrad._src.compiler.cuda.program import DeviceProgram
    from ndgrad._src.compiler.runtime.observed_program import Watched

#: Errors by the number of the output which says that there is one.
Later = dict[int, Callable[[int], Exception]]


class LoweringFailed(BaseException):
    """What NDGRAD_COMPILE_RAISE=1 makes of a failure: nobody on its way takes it for an error of the function's, and
    runs that eagerly."""


def runs_on_numpy(strict: bool) -> bool:
    """Whether programs of arrays on the CPU run on NumPy, op by op."""
    return strict or bool(os.environ.get("NDGRAD_COMPILE_REPLAY")) or not available()


class Runner:
    """A function from the arrays of a program's inputs to those of its outputs."""

    def __init__(
        self,
        program: Program,
        strict: bool = False,
        threads: int | None = None,
        sizes: Sizes | None = None,
        writes: Writes | None = None,
        later: Later | None = None,
    ) -> None:
        """`strict`: on NumPy, op by op, as eager computes; `threads`: at most so many in native code; `sizes`: those
        that vary between programs which may share their code (see
        ndgrad._src.compiler.lower.templates), None if none may; `writes`: the outputs that may come back as inputs that have
        been written (see ndgrad._src.compiler.lower.in_place); `later`: the outputs that a device is to look at by itself, and
        what is raised if one is not zero."""
        self.program = program
        self.strict = strict
        self.threads = threads
        self.sizes = sizes
        self.writes = writes
        self.later = later or {}
        self._made: NativeProgram | Replay | None = None
        #: the same on a device, where inputs are there
        self._on_device: DeviceProgram | None = None
        #: the same with every step told apart, for those who watch
        self._watched: Any = None
        #: why it runs on NumPy although there could be native code
        self.too_long: str | None = None
        #: what making it took
        self.times = Times()
        self._lock = make_lock()

    @property
    def made(self) -> NativeProgram | Replay:
        """What runs it, made now if it was not."""
        if self._made is None:
            with self._lock:
                if self._made is None:
                    with compiling(self.times, self.program.name, "lowering"):
                        self._made = self._make()
        return self._made

    @property
    def watched(self) -> Watched:
        """What runs it step by step under the eyes of watchers, made now if it was not."""
        made = self.made
        with self._lock:
            if self._watched is None:
                from ndgrad._src.compiler.runtime.observed_program import watched_form  # few ask

                with compiling(Times(), self.program.name, "lowering"):
                    self._watched = watched_form(made, self.program, self.threads)
        found: Watched = self._watched
        return found

    def _make(self) -> NativeProgram | Replay:
        if runs_on_numpy(self.strict):
            return Replay(self.program)
        try:
            with phase("passes"):
                program = hoisting(find_loops(select_short_branches(self.program)))
            return NativeProgram(program, self.threads, self.sizes, self.writes)
        except TooLong as error:
            self.too_long = str(error)
            return Replay(self.program)
        except Exception as error:
            if os.environ.get("NDGRAD_COMPILE_RAISE"):
                raise LoweringFailed(f"{self.program.name}: {type(error).__name__}: {error} [nd-bug]") from error
            warnings.warn(
                (
                    f"compile: no native code could be made for {self.program.name} ({type(error).__name__}: {error}). "
                    "It runs on NumPy instead: right, but slower. Please report this."
                ),
                stacklevel=2,
            )
            return Replay(self.program)

    @property
    def known_on_device(self) -> DeviceProgram | None:
        """What runs it on a device, if it has."""
        return self._on_device

    def on_device(self, inputs: Sequence[Any]) -> DeviceProgram:
        """What runs it on a device, for inputs that are there, or on the host, as these are; made now if it was not."""
        if self._on_device is None or not self._on_device.takes(inputs):
            from ndgrad._src.compiler.cuda.program import DeviceProgram  # only where there is a device

            with self._lock, compiling(self.times, self.program.name, "lowering"):
                self._on_device = DeviceProgram(self.program, inputs, self.writes, self.later, self.strict)
        return self._on_device

    def __call__(self, inputs: Sequence[Any]) -> list[Any]:
        if any(is_on_device(a) for a in inputs):
            run = self.on_device(inputs)
            if not ThreadState.watchers:
                return run(inputs)
            from ndgrad._src.compiler.runtime.observed_program import shown  # few ask

            return shown(self.program, run, inputs)
        return self.watched(inputs) if ThreadState.watchers else self.made(inputs)
