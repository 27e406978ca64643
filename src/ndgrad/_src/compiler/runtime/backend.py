"""Choice of a backend for a program: native code if llvmlite is installed, else NumPy.

Code is generated when a program first runs, so an unused backward program costs nothing. If code generation fails, the
program runs on NumPy, with a warning that gives the reason. A program of very many small steps always runs on NumPy.
NDGRAD_COMPILE_REPLAY=1 selects NumPy; with NDGRAD_COMPILE_RAISE=1 a failure is an error (for our tests).
"""

from __future__ import annotations

import contextlib
import functools
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

#: Exceptions by the number of the output that signals them.
Later = dict[int, Callable[[int], Exception]]


class LoweringFailed(BaseException):
    """A failure under NDGRAD_COMPILE_RAISE=1. It is no Exception, so callers do not mistake it for an error of the
    function and run that eagerly.
    """


def runs_on_numpy(strict: bool) -> bool:
    """True if programs of CPU arrays run on NumPy, op by op."""
    return strict or bool(os.environ.get("NDGRAD_COMPILE_REPLAY")) or not available()


@functools.cache
def _warn_without_llvmlite() -> None:
    """Warn once per process that compiled functions are interpreted. A filter that makes warnings errors does not stop
    the call: it computes the same.
    """
    with contextlib.suppress(UserWarning):
        warnings.warn(
            "compile: llvmlite is not installed, so compiled functions run on NumPy, op by op. Install it for native "
            "code: pip install llvmlite",
            stacklevel=2,
        )


class Runner:
    """A function from the input arrays of a program to its output arrays."""

    def __init__(
        self,
        program: Program,
        strict: bool = False,
        threads: int | None = None,
        sizes: Sizes | None = None,
        writes: Writes | None = None,
        later: Later | None = None,
    ) -> None:
        """Create a runner.

            strict      run on NumPy, op by op, as eager code computes
            threads     largest number of threads in native code
            sizes       sizes that vary between programs with shared code (see ndgrad._src.compiler.lower.templates); None if no
                        code is shared
            writes      outputs that may be returned as written inputs (see ndgrad._src.compiler.lower.in_place)
            later       outputs that a device checks asynchronously, with the exception to raise if one is not zero
        """
        self.program = program
        self.strict = strict
        self.threads = threads
        self.sizes = sizes
        self.writes = writes
        self.later = later or {}
        self._executable: NativeProgram | Replay | None = None
        #: The device program, for inputs on a device.
        self._on_device: DeviceProgram | None = None
        #: The program with separate steps, for watchers.
        self._watched: Any = None
        #: Reason for running on NumPy, for `explain`; None if that was asked for, and for native code.
        self.reason_for_numpy: str | None = None
        #: Times of code generation.
        self.times = Times()
        self._lock = make_lock()

    @property
    def executable(self) -> NativeProgram | Replay:
        """The native program or replay, created on first use."""
        if self._executable is None:
            with self._lock:
                if self._executable is None:
                    with compiling(self.times, self.program.name, "lowering"):
                        self._executable = self._make()
        return self._executable

    @property
    def watched_executable(self) -> Watched:
        """The program that reports each step to watchers, created on first use."""
        made = self.executable
        with self._lock:
            if self._watched is None:
                from ndgrad._src.compiler.runtime.observed_program import make_watched  # rarely needed

                with compiling(Times(), self.program.name, "lowering"):
                    self._watched = make_watched(made, self.program, self.threads)
        found: Watched = self._watched
        return found

    def _make(self) -> NativeProgram | Replay:
        if runs_on_numpy(self.strict):
            if not available() and not self.strict:
                self.reason_for_numpy = "llvmlite is not installed"
                _warn_without_llvmlite()
            return Replay(self.program)
        try:
            with phase("passes"):
                program = hoisting(find_loops(select_short_branches(self.program)))
            return NativeProgram(program, self.threads, self.sizes, self.writes)
        except TooLong as error:
            self.reason_for_numpy = str(error)
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
        """The device program if it exists."""
        return self._on_device

    def on_device(self, inputs: Sequence[Any]) -> DeviceProgram:
        """Return the device program for inputs on the device or the host, as these are; create it if needed."""
        if self._on_device is None or not self._on_device.takes(inputs):
            from ndgrad._src.compiler.cuda.program import DeviceProgram  # needed on devices only

            with self._lock, compiling(self.times, self.program.name, "lowering"):
                self._on_device = DeviceProgram(self.program, inputs, self.writes, self.later, self.strict)
        return self._on_device

    def __call__(self, inputs: Sequence[Any]) -> list[Any]:
        if any(is_on_device(a) for a in inputs):
            run = self.on_device(inputs)
            if not ThreadState.watchers:
                return run(inputs)
            from ndgrad._src.compiler.runtime.observed_program import run_reported  # rarely needed

            return run_reported(self.program, run, inputs)
        return self.watched_executable(inputs) if ThreadState.watchers else self.executable(inputs)
