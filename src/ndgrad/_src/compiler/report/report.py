"""The kernel list of a compiled function: for each step its ops, bytes, operations, time and least possible time.

Times are the least of several runs of the programs step by step (`ndgrad._src.compiler.runtime.observed_program`), on
the given arguments. Nothing is written, and no gradients are accumulated. The share of a step is the least time that
the machine needs for its bytes and its arithmetic (`ndgrad._src.compiler.report.roofline`), divided by its measured
time.
"""

from __future__ import annotations

import re
import time
from collections.abc import Iterator, Sequence
from typing import Any

import numpy as np

from ndgrad._src.arrays.library import is_on_device
from ndgrad._src.arrays.placement import CPU, library_for
from ndgrad._src.compiler.lower.accounting import Work, format_lines, format_ops
from ndgrad._src.compiler.lower.native_program import NativeProgram
from ndgrad._src.compiler.native import target
from ndgrad._src.compiler.report.roofline import machine
from ndgrad._src.compiler.runtime.backend import Runner
from ndgrad._src.compiler.runtime.observed_program import WatchedStep
from ndgrad._src.compiler.runtime.specialization import Specialisation
from ndgrad._src.debug.drawing.contents import format_bytes

_WIDEST = 56
#: Least number of runs of each program, and least time in seconds.
_LEAST, _SAMPLING = 3, 0.2


class Step:
    """One step of a compiled program, measured."""

    def __init__(self, step: WatchedStep, code: Any, machine: Any) -> None:
        #: Name of its program: loss_forward, loss_backward, or loss if both are one.
        self.program: str = step.program
        #: kernel0, product1, loop0, or the name of an op that NumPy runs.
        self.name: str = step.name
        #: Its ops, in order.
        self.ops: list[str] = step.ops
        #: Source lines of the user for these ops. Gradients that the function does not compute itself have none.
        self.lines: list[str] = list(dict.fromkeys([line for _, line in step.parts if line is not None]))
        #: Bytes and floating-point operations.
        self.work: Work = step.work
        self.is_native: bool = step.is_native
        #: Least measured time, in seconds.
        self.seconds: float = step.seconds or 0.0
        #: Least time that this machine needs.
        self.limit: float = machine.least_seconds(step.work)
        #: Library that runs it, if it is no kernel.
        self.library: str = "CuPy" if hasattr(code, "cuda_source") else "NumPy"
        self._functions = step.functions
        self._code = code

    @property
    def share(self) -> float:
        """Least possible time divided by the measured time: 1 is the roofline."""
        return self.limit / self.seconds if self.seconds else 0.0

    @property
    def ir(self) -> str:
        """Its LLVM IR before optimisation, or its CUDA C++; empty for steps of NumPy or CuPy."""
        if hasattr(self._code, "cuda_source"):
            return "\n".join(map(self._code.cuda_source, dict.fromkeys(self._functions)))
        return "\n".join(found for name in self._functions if (found := _definition(self._code.text, name)))

    @property
    def assembly(self) -> str:
        """Its machine code as assembly; empty for steps of NumPy. Inlined code is part of its caller; the text is then
        that of the whole program.
        """
        if not self._functions or hasattr(self._code, "cuda_source"):
            return ""
        text = self._code.assembly()
        return "\n".join(found for name in self._functions if (found := _labelled(text, name))) or text

    def __repr__(self) -> str:
        return f"<{self.program}::{self.name} ({format_ops(self.ops)}), {_time(self.seconds)}>"


class KernelList(Sequence[Any]):
    """The steps of the programs of a compiled function; `print` shows a table."""

    def __init__(self, steps: list[Step], totals: dict[str, float], texts: dict[str, Any], machine: Any) -> None:
        self._steps = steps
        self._texts = texts
        #: Least time of each program as a whole, without clocks between its steps.
        self.totals: dict[str, float] = totals
        #: Machine that it was measured on.
        self.machine: Any = machine

    def __getitem__(self, index: Any) -> Any:
        return self._steps[index]

    def __len__(self) -> int:
        return len(self._steps)

    def __iter__(self) -> Iterator[Step]:
        return iter(self._steps)

    @property
    def ir(self) -> str:
        """The LLVM IR of all programs."""
        return "\n".join(f"; ----- {name}\n{code.text}" for name, code in self._texts.items())

    @property
    def optimised(self) -> str:
        """The same after LLVM's passes; empty for a device."""
        return "\n".join(
            f"; ----- {name}\n{target.optimised(code.text, code.target, code.level)}"
            for name, code in self._texts.items()
            if hasattr(code, "target")
        )

    @property
    def assembly(self) -> str:
        """The machine code of all programs, as assembly."""
        return "\n".join(f"# ----- {name}\n{code.assembly()}" for name, code in self._texts.items())

    def __str__(self) -> str:
        head = ["", "read", "written", "flop", "time", "limit", "share", "lines"]
        rows = [head]
        for program in dict.fromkeys([*self.totals, *[s.program for s in self._steps]]):
            rows.append([program, "", "", "", _time(self.totals.get(program)), "", "", ""])
            rows += [_row(step) for step in self._steps if step.program == program]
        widths = [max(len(row[i]) for row in rows) for i in range(len(head))]
        aligned = [
            [row[0].ljust(widths[0]), *[cell.rjust(w) for cell, w in zip(row[1:-1], widths[1:], strict=False)], row[-1]]
            for row in rows
        ]
        lines = ["  ".join(cells) for cells in aligned]
        return "\n".join([line.rstrip() for line in [*lines, "", f"The machine, measured: {self.machine}"]])

    __repr__ = __str__


def _row(step: Step) -> list[str]:
    words = format_ops(step.ops)
    title = f"  {step.name}: {words}" if step.is_native else f"  {step.name} ({step.library})"
    if len(title) > _WIDEST:
        title = title[: _WIDEST - 3] + "..."
    return [
        title, format_bytes(step.work.read), format_bytes(step.work.written), _count(step.work.flops),
        _time(step.seconds),
        _time(step.limit), f"{100 * step.share:.0f} %", format_lines(step.lines),
    ]  # fmt: skip


def _count(flops: int) -> str:
    for size, unit in ((1e9, "G"), (1e6, "M"), (1e3, "k")):
        if flops >= size:
            return f"{flops / size:.1f} {unit}"
    return str(flops)


def _time(seconds: float | None) -> str:
    if seconds is None:
        return ""
    for size, unit in ((1.0, "s"), (1e-3, "ms"), (1e-6, "us")):
        if seconds >= size:
            return f"{seconds / size:.3g} {unit}"
    return f"{seconds * 1e9:.0f} ns"


# ----- measuring ------------------------------------------------------------------------------------------------------


def measure(found: Specialisation, inputs: Sequence[Any]) -> KernelList:
    """Measure the steps of a specialisation's programs on these tensors."""
    if found.trace.place is not CPU:
        return _measure_on_device(found, [t._array for t in inputs])
    arrays = [np.asarray(t._array) for t in inputs]
    limits = machine()
    steps: list[Step] = []
    totals: dict[str, float] = {}
    texts: dict[str, Any] = {}
    for runner, given in _runs(found, arrays):
        if not runner.program.instructions:
            continue
        watched = runner.watched_executable
        best, until, runs = float("inf"), time.perf_counter() + _SAMPLING, 0
        while runs < _LEAST or time.perf_counter() < until:
            watched(given)
            start = time.perf_counter()
            runner.executable(given)
            best = min(best, time.perf_counter() - start)
            runs += 1
        totals[runner.program.name] = best
        code = getattr(watched, "code", None)
        if isinstance(watched, NativeProgram) and code is not None:
            texts[runner.program.name] = code
        steps += [Step(step, code, limits) for step in watched.watched]
    return KernelList(steps, totals, texts, limits)


def _measure_on_device(found: Specialisation, arrays: list[Any]) -> KernelList:
    """Measure the steps of programs that run on a device."""
    from ndgrad._src.compiler.report import cuda_inspection  # needed on devices only

    limits, steps, totals, texts = cuda_inspection.machine(found.trace.place.index or 0), [], {}, {}
    for runner, given in _runs(found, arrays):
        if runner.program.instructions:
            watched, seconds, code = cuda_inspection.measure(runner, given)
            totals[runner.program.name], texts[runner.program.name] = seconds, code
            steps += [Step(step, code, limits) for step in watched]
    return KernelList(steps, totals, texts, limits)


def _runs(found: Specialisation, arrays: list[Any]) -> Iterator[tuple[Runner, list[Any]]]:
    """Yield the programs that calls like this one run, each with arrays for its inputs. A scalar function whose calls
    are followed by backward passes runs as one program (see ndgrad._src.compiler.runtime.joint_program).
    """
    if found.plan.whole is not None and not found.trace.is_freed:
        yield found.plan.whole.runner, arrays
        return
    yield found.plan.run_forward, arrays
    if found.plan.backward.outputs:
        made = found.plan.run_forward(arrays)
        kept = made[len(made) - sum(not is_input for is_input, _ in found.plan.kept_from) :]
        taken = [arrays[k] if is_input else kept[k] for is_input, k in found.plan.kept_from]
        library = library_for(found.trace.place)
        ones = [library.ones(v.shape, v.dtype) for v in found.plan.backward.inputs[len(taken) :]]
        yield found.plan.run_backward, [a if is_on_device(a) else np.asarray(a) for a in taken] + ones


# ----- texts of single functions --------------------------------------------------------------------------------------


def _definition(text: str, name: str) -> str | None:
    """Return a function of a module of LLVM IR."""
    found = re.search(rf"^define [^\n]*@\"?{re.escape(name)}\"?\(.*?^\}}", text, re.MULTILINE | re.DOTALL)
    return None if found is None else found[0]


def _labelled(text: str, name: str) -> str | None:
    """Return a function of an assembly text: from its label to the end of its frame."""
    found = re.search(
        rf"^_?\"?{re.escape(name)}\"?:.*?(?=^\s*\.cfi_endproc|^\s*\.size|\Z)", text, re.MULTILINE | re.DOTALL
    )
    return None if found is None else found[0].rstrip()
