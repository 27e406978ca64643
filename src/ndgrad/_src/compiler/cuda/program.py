"""A program on a device: fused kernels, and the device's functions for ops without a kernel.

    device_split    parts for the host and for the device
    expand          composite ops decomposed
    grouping        that of native code, with the features of a device's kernels     (lower/grouping.py, fusion.py)
    fused           each group as CUDA C++; groups of the same text share a function
    device_steps    steps with their memory, from CuPy's pool, which is released after its last use
    device_plan     the result of all these
    graph_capture   the whole as a CUDA graph, once it has run a few times on memory that stays

`DeviceProgram` runs a plan.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from functools import partial
from typing import Any

import numpy as np

from ndgrad._src.arrays import graph_recording, library
from ndgrad._src.arrays.library import is_on_device
from ndgrad._src.compiler.cuda.device_plan import make_device_plan
from ndgrad._src.compiler.cuda.device_steps import Arrays, Launcher, allocate, make_ready, view_place
from ndgrad._src.compiler.cuda.graph_capture import Capturing
from ndgrad._src.compiler.lower.in_place import Writes
from ndgrad._src.compiler.lower.memory_places import Place
from ndgrad._src.compiler.program.program import Program


class DeviceProgram:
    """A program whose inputs are on a device, except for some on the host. It maps arrays of inputs to arrays of
    outputs, each in memory of its own.
    """

    def __init__(
        self,
        program: Program,
        inputs: Sequence[Any],
        writes: Writes | None = None,
        later: Mapping[int, Callable[[int], Exception]] | None = None,
        strict: bool = False,
    ) -> None:
        """Compile a program. `inputs` are arrays like those of its calls; see `make_device_plan` for the others."""
        self.on_host = tuple(not is_on_device(a) for a in inputs)
        self.device = next(a.device.id for a in inputs if is_on_device(a))
        self.plan = make_device_plan(program, self.on_host, writes, later or {}, strict)
        self._launcher = Launcher(self.plan.code, self.device)
        self._host_runner: Any = None
        if self.plan.parts.host is not None:
            from ndgrad._src.compiler.runtime.backend import Runner  # avoids an import cycle

            self._host_runner = Runner(self.plan.parts.host)
        self._constants: Arrays | None = None
        self.capturing = Capturing(self)

    def takes(self, inputs: Sequence[Any]) -> bool:
        """True if it can be called with these arrays."""
        here = all(is_on_device(a) is not there for a, there in zip(inputs, self.on_host, strict=True))
        return here and all(a.device.id == self.device for a, there in zip(inputs, self.on_host) if not there)

    def __call__(self, inputs: Sequence[Any]) -> list[Any]:
        """Return the outputs for these arrays; None for outputs that the device checks itself."""
        with library.device_library.cuda.Device(self.device):
            found = self.capturing(inputs)
            if found is not None:
                return found
            host = self.on_the_host(inputs)
            arrays = self.collect_inputs(inputs, host)
            given = dict(arrays)
            self.execute(arrays)
            return self.collected(arrays, inputs, host, given)

    def on_the_host(self, inputs: Sequence[Any]) -> Arrays:
        """Return the inputs and results on the host."""
        host = {v: np.asarray(a) for v, a, there in zip(self.plan.original.inputs, inputs, self.on_host) if there}
        if self._host_runner is not None:
            program = self._host_runner.program
            host.update(zip(program.outputs, self._host_runner([host[v] for v in program.inputs]), strict=True))
        return host

    def collect_inputs(self, inputs: Sequence[Any], host: Arrays) -> Arrays:
        """Return the arrays of the device's inputs."""
        found = library.device_library
        if self.plan.parts.crossing:
            graph_recording.refuse(
                f"a call of the compiled {self.plan.original.name}, for which the host computes or draws numbers,",
                "such a call is recorded by itself; call it without recording it.",
            )
        arrays = {v: make_ready(a) for v, a, there in zip(self.plan.original.inputs, inputs, self.on_host) if not there}
        for value in self.plan.parts.crossing:
            arrays[value] = found.asarray(np.ascontiguousarray(host[value]).reshape(value.shape))
        return arrays

    def prepare(self) -> None:
        """Create permanent objects, which cannot be created while a graph is recorded."""
        self.constants()
        _ = self._launcher.flag

    def execute(self, arrays: Arrays) -> None:
        """Run the steps on the device."""
        for run in self.running(arrays):
            run()

    def running(self, arrays: Arrays) -> list[Callable[[], None]]:
        """Return the steps as functions that run them on some arrays, in order."""
        arrays.update(self.constants())
        for value, target in self.plan.in_place.items():
            arrays[value] = arrays[target]
        # Nothing may fail once inputs are written, so all memory is allocated before.
        written = (n for n, step in enumerate(self.plan.steps) if any(v in self.plan.in_place for v in step.written_values()))
        first = next(written, len(self.plan.steps))
        runs: list[Callable[[], None]] = [partial(step.execute, self._launcher, arrays) for step in self.plan.steps]
        rest = [v for step in self.plan.steps[first:] for v in step.new]
        return [*runs[:first], partial(allocate, rest, arrays), *runs[first:]] if rest else runs

    def prepared(self, inputs: Sequence[Any], host: Arrays, given: Arrays) -> tuple[list[Any], list[tuple[Any, Place]]]:
        """Return the outputs before a graph runs, as known values or new memory, and the copies to make after the run.

        Everything that can fail is done by then. `collect_inputs` are the arrays of inputs that the graph uses.
        """
        found: list[Any] = []
        copies: list[tuple[Any, Place]] = []
        for n in range(len(self.plan.outputs)):
            array, place = self._known_output(n, inputs, host, given)
            if place is not None:
                array = library.device_library.empty(place.shape, place.root.dtype)
                copies.append((array, place))
            found.append(array)
        return found, copies

    def collected(self, arrays: Arrays, inputs: Sequence[Any], host: Arrays, given: Arrays) -> list[Any]:
        """Return the outputs of a run, each in memory of its own, or in that of an input that the program writes.

        `collect_inputs` are the arrays of inputs that the program has used.
        """
        found: list[Any] = []
        for n, output in enumerate(self.plan.outputs):
            array, place = self._known_output(n, inputs, host, given)
            if place is not None:
                array = view_place(arrays, place)
                array = array if output.is_own else array.copy()
            found.append(array)
        return found

    def _known_output(self, n: int, inputs: Sequence[Any], host: Arrays, given: Arrays) -> tuple[Any, Place | None]:
        """Return an output that has no memory of its own on the device: one made later, a host value, or a written
        input. For the others, return its place.
        """
        output = self.plan.outputs[n]
        if n in self.plan.later:
            return None, None
        if output.place is None:
            return np.array(host[self.plan.original.outputs[n]]), None
        if output.target >= 0 and given.get(self.plan.original.inputs[output.target]) is inputs[output.target]:
            return inputs[output.target], None
        return None, output.place

    def constants(self) -> Arrays:
        """Return the program's constants on the device."""
        if self._constants is None:
            bring = library.device_library.asarray
            self._constants = {
                v: bring(np.ascontiguousarray(self.plan.program.constants[v]).reshape(v.shape)) for v in self.plan.constants
            }
        return self._constants
