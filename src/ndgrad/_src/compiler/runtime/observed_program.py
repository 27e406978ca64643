"""Programs that run step by step for watchers: the profiler and kernel lists.

Native code runs a whole list of steps in one call, so its steps cannot be told apart from outside. Here every step is a
segment of its own: the same kernels, compiled once more when the first watcher appears, with a clock around each. On
NumPy a step is an op.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any

from ndgrad._src.compiler.lower.accounting import Work, format_ops, instruction_flops, op_name, parts_of, work_of
from ndgrad._src.compiler.lower.native_program import NativeProgram
from ndgrad._src.compiler.lower.steps import Call, Finished
from ndgrad._src.compiler.program.program import Program
from ndgrad._src.compiler.program.replay import Replay
from ndgrad._src.core.call_watchers import FUNCTION, KERNEL, begin, end


@dataclass(eq=False)
class WatchedStep:
    """One step of a program: its name, its work, and the least time that it has taken."""

    program: str
    #: kernel0, product1, loop0, or the name of an op that NumPy runs.
    name: str
    #: Names of its ops, each with the source line of the user.
    parts: list[tuple[str, str | None]]
    work: Work
    #: Native functions that were generated for it.
    functions: list[str]
    #: Least time of all runs so far; None before the first.
    seconds: float | None = None

    @property
    def ops(self) -> list[str]:
        return [name for name, _ in self.parts]

    @property
    def is_native(self) -> bool:
        return bool(self.functions)

    @property
    def label(self) -> str:
        """Label in profiles: loss_forward::kernel0 (mul, add, sum)."""
        return (
            f"{self.program}::{self.name} ({format_ops(self.ops)})" if self.is_native else f"{self.program}::{self.name}"
        )

    def run(self, call: Callable[[], Any]) -> Any:
        """Run the step with a clock, and notify watchers."""
        begun = begin(KERNEL, self.label, self)
        try:
            start = time.perf_counter()
            found = call()
            seconds = time.perf_counter() - start
        finally:
            end(begun)
        if self.seconds is None or seconds < self.seconds:
            self.seconds = seconds
        return found


class WatchedNative(NativeProgram):
    """A native program whose steps are segments of their own."""

    apart = True

    def __init__(self, program: Program, threads: int | None = None) -> None:
        super().__init__(program, threads)
        known, defined = {*self.program.inputs, *self.program.constants}, self.program.definitions()
        self.watched: list[WatchedStep] = []
        for step, functions in self.written:
            name = op_name(step.instruction) if isinstance(step, Call) else _name(step, functions)
            self.watched.append(
                WatchedStep(program.name, name, parts_of(step, defined), work_of(step, known, defined), functions)
            )
            known |= step.touched()

    def __call__(self, inputs: Sequence[Any]) -> list[Any]:
        return run_reported(self.program, super().__call__, inputs)

    def execute(self, frame: Any) -> None:
        for step, seen in zip(self.steps, self.watched, strict=True):
            seen.run(partial(step, frame.address) if seen.is_native else partial(step.run, frame))


def _name(step: Any, functions: list[str]) -> str:
    """Return the name of a native step: that of the function that runs all of it; with an epilogue, that of its
    routine.
    """
    first = [f for f in functions if f.startswith("routine")] if isinstance(step, Finished) else []
    return (first or functions)[-1].partition(".")[0]


class WatchedReplay(Replay):
    """A program on NumPy whose ops are watched."""

    def __init__(self, program: Program) -> None:
        super().__init__(program)
        self.program = program
        self.watched: list[WatchedStep] = []
        for i, instruction in enumerate(program.instructions):
            name = instruction.op.name
            read = sum(v.nbytes for v in dict.fromkeys(instruction.values()))
            work = Work(read, sum(v.nbytes for v in instruction.results), instruction_flops(instruction))
            shown = WatchedStep(program.name, name, [(name, instruction.where)], work, [])
            self.watched.append(shown)
            forward, *rest = self._calls[i]
            self._calls[i] = (_watch_op(shown, forward), *rest)

    def __call__(self, inputs: Sequence[Any]) -> list[Any]:
        return run_reported(self.program, self.one_by_one, inputs)


def run_reported(program: Program, run: Callable[[Sequence[Any]], list[Any]], inputs: Sequence[Any]) -> list[Any]:
    """Run a whole program as one call for watchers."""
    begun = begin(FUNCTION, f"compiled {program.name}")
    try:
        return run(inputs)
    finally:
        end(begun)


def _watch_op(shown: WatchedStep, forward: Callable[..., Any]) -> Callable[..., Any]:
    return lambda *arrays, **settings: shown.run(lambda: forward(*arrays, **settings))


Watched = WatchedNative | WatchedReplay


def make_watched(made: NativeProgram | Replay, program: Program, threads: int | None) -> Watched:
    """Return a program for watchers that computes the same as `made`."""
    return WatchedNative(made.original, threads) if isinstance(made, NativeProgram) else WatchedReplay(program)
