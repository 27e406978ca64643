"""Inspection of device programs: a description in words, and the steps with their times.

Events in the device's queue separate the steps without waiting for it. The measured program has no memory that calls
write to, so nothing is written; and no graph is recorded.
"""

from __future__ import annotations

import functools
import itertools
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from ndgrad._src.arrays import library
from ndgrad._src.compiler.cuda.program import DeviceProgram
from ndgrad._src.compiler.lower.accounting import Work, format_ops, parts_of, work_of
from ndgrad._src.compiler.lower.steps import Call
from ndgrad._src.compiler.runtime.observed_program import WatchedStep
from ndgrad._src.debug.drawing.contents import format_bytes

if TYPE_CHECKING:
    from ndgrad._src.compiler.runtime.backend import Runner

#: Number of warm-up runs, and of measured runs, the fastest of which counts.
_BEFORE, _MEASURED = 2, 5
_COPIED = 1 << 26


def describe(program: DeviceProgram) -> str:
    """Return a line that describes the execution of a program."""
    calls = [step.group.instruction.op.name for step in program.plan.steps if isinstance(step.group, Call)]
    kernels = sum(len(step.functions) for step in program.plan.steps)
    said = f"{program.plan.original.name}: on cuda:{program.device}, {kernels} fused kernels ({len(program.plan.texts)} different)"
    if calls:
        said += f", calls of {format_ops(calls, 8)}"
    if program.plan.in_place:
        said += f", {len(program.plan.in_place)} tensors written in place"
    graph = program.capturing
    if graph.is_recorded:
        return f"{said}; as a CUDA graph, which holds {format_bytes(graph.memory)}"
    if graph.problem is None:
        return f"{said}; as a CUDA graph from the third call on"
    return f"{said}; without a CUDA graph: {graph.problem}"


class Source:
    """The source of a program's kernels, in the form that kernel lists use."""

    def __init__(self, program: DeviceProgram) -> None:
        self.text = program.plan.code
        self._functions = {name: text.replace("NAME", name, 1) for text, name in program.plan.texts.items()}

    def cuda_source(self, name: str) -> str:
        """Return the CUDA C++ of one kernel."""
        return self._functions[name]

    def assembly(self) -> str:
        """Return no text, because only the driver has the assembly."""
        return ""


class Machine:
    """Limits of a device: its copy bandwidth."""

    def __init__(self, bandwidth: float, name: str) -> None:
        self.bandwidth = bandwidth
        self._name = name

    def least_seconds(self, work: Work) -> float:
        """Return the least time for moving so many bytes."""
        return work.bytes / self.bandwidth

    def __str__(self) -> str:
        return f"{self._name}: {self.bandwidth / 1e9:.0f} GB/s"


@functools.lru_cache(maxsize=16)
def machine(device: int) -> Machine:
    """Return the limits of a device, measured on first use."""
    found = library.device_library
    with found.cuda.Device(device):
        a = found.zeros(_COPIED, np.uint8)
        b = found.empty(_COPIED, np.uint8)
        seconds = min(_seconds([lambda: b.__setitem__(..., a)])[0] for _ in range(_MEASURED))
        name = found.cuda.runtime.getDeviceProperties(device)["name"].decode()
    return Machine(2 * _COPIED / max(seconds, 1e-6), name)


def _seconds(runs: Sequence[Any]) -> list[float]:
    """Return the time that each of some functions takes on the device."""
    cuda = library.device_library.cuda
    events = [cuda.Event() for _ in range(len(runs) + 1)]
    events[0].record()
    for run, event in zip(runs, events[1:], strict=True):
        run()
        event.record()
    events[-1].synchronize()
    return [cuda.get_elapsed_time(a, b) / 1e3 for a, b in itertools.pairwise(events)]


def measure(runner: Runner, inputs: Sequence[Any]) -> tuple[list[WatchedStep], float, Source]:
    """Return the steps of a program with their times on these arrays, the total time, and the source."""
    program = DeviceProgram(runner.program, inputs, None, runner.later, runner.strict)
    known, defined = {*program.plan.program.inputs, *program.plan.program.constants}, program.plan.program.definitions()
    shown: list[WatchedStep] = []
    for step in program.plan.steps:
        groups = [s.group for s in (step, *step.members) if s.group is not None]
        works = [work_of(group, known, defined) for group in groups]
        work = Work(*[sum(getattr(w, field) for w in works) for field in ("read", "written", "flops")])
        name = "note" if step.group is None else step.group.instruction.op.name if isinstance(step.group, Call) else ""
        parts = [part for group in groups for part in parts_of(group, defined)] or [(str(name), None)]
        shown.append(WatchedStep(program.plan.original.name, name or step.functions[0], parts, work, step.functions))
        known.update(v for group in groups for v in group.touched())
    total = float("inf")
    for n in range(_BEFORE + _MEASURED):
        host = program.on_the_host(inputs)
        arrays = program.collect_inputs(inputs, host)
        times = _seconds(program.running(arrays))  # one time per step, because nothing is written in place
        if n < _BEFORE:
            continue
        total = min(total, sum(times))
        for one, seconds in zip(shown, times, strict=True):
            one.seconds = seconds if one.seconds is None else min(one.seconds, seconds)
    return shown, total, Source(program)
