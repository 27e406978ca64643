"""Record a program of a device as a CUDA graph: its launches are recorded once, and started together from then on.

A graph runs on the memory of its recording. An input that stayed in place during the last calls, such as parameters and
the state of an optimizer, is read and written there. If it moves later, the graph is recorded again with a buffer for
it. All other inputs are copied into buffers before the graph runs, and values from the host are copied in one piece.
One kernel copies all results out, each into new memory, so that no call overwrites the results of another.

Steps that read values or copy data from the host cannot be recorded. Then the program runs step by step, and `problem`
gives the reason.
"""

from __future__ import annotations

import os
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from ndgrad._src.arrays import graph_recording, library
from ndgrad._src.compiler.cuda import launch
from ndgrad._src.compiler.cuda.device_steps import Arrays, view_place
from ndgrad._src.compiler.cuda.values import PRELUDE
from ndgrad._src.compiler.program.program import Value
from ndgrad._src.foundations.locks import make_lock

if TYPE_CHECKING:
    from ndgrad._src.compiler.cuda.program import DeviceProgram

#: Number of calls before the recording. They compile kernels, and show which inputs stay in place.
_WARMING = 2
#: Minimum number of launches of a graph, and the largest share of a program's traffic for copying its results.
_FEWEST, _COPIED = 4, 0.125
#: Maximum bytes of an input whose copy takes negligible time.
_SMALL = 1 << 22
#: Bytes that are copied in the time of a launch.
_PER_LAUNCH = 1 << 22
#: Maximum number of recordings of a program.
_MOST_RECORDINGS = 4
#: Alignment of values from the host, and maximum number of arrays that one kernel copies.
_ALIGNMENT, _TOGETHER = 16, 120
#: Bytes that a block copies.
_BLOCK = 16384

_COPY = f"""
struct Arguments {{ long long count; long long first[{_TOGETHER}]; const char* from[{_TOGETHER}]; char* to[{_TOGETHER}];
                   long long bytes[{_TOGETHER}]; }};
extern "C" __global__ void __launch_bounds__(256) kernel(const __grid_constant__ Arguments a) {{
    int low = 0, high = (int)a.count - 1;
    while (low < high) {{
        const int middle = (low + high + 1) / 2;
        if (a.first[middle] <= blockIdx.x) low = middle; else high = middle - 1;
    }}
    const long long begin = (blockIdx.x - a.first[low]) * {_BLOCK}ll;
    const long long end = begin + {_BLOCK} < a.bytes[low] ? begin + {_BLOCK} : a.bytes[low];
    const char* const from = a.from[low];
    char* const to = a.to[low];
    long long i = begin + threadIdx.x * 16;
    for (; i + 16 <= end; i += 4096) *(uint4*)(to + i) = *(const uint4*)(from + i);
    if (i < end) for (; i < end; ++i) to[i] = from[i];
}}
"""


class Capturing:
    """The graph of a program, or before it exists, the observations of its inputs."""

    def __init__(self, program: DeviceProgram) -> None:
        self.program = program
        self._calls = self._recordings = 0
        #: the addresses of the inputs in the last call, and the numbers of those that moved
        self._places: list[int] = []
        self._moving: set[int] = set()
        self._graph: _Graph | None = None
        #: the reason why there will be no graph
        self.problem = self._unwanted()
        self._lock = make_lock()

    @property
    def is_recorded(self) -> bool:
        return self._graph is not None

    @property
    def memory(self) -> int:
        """Return the bytes that the graph holds."""
        return 0 if self._graph is None else self._graph.memory

    def _unwanted(self) -> str | None:
        program = self.program
        if os.environ.get("NDGRAD_CUDA_GRAPHS", "1") == "0":
            return "NDGRAD_CUDA_GRAPHS is 0"
        if not program.plan.is_fused or not hasattr(library.device_library.cuda.get_current_stream(), "begin_capture"):
            return "there are no kernels that can be recorded"
        started = sum(max(len(step.functions), 1) for step in program.plan.steps)
        if started < _FEWEST:
            return "it has few launches"
        traffic = sum(v.nbytes for step in program.plan.groups.steps for v in step.touched())
        results = sum(p.root.nbytes for p in program.plan.new_outputs())
        if results > max(_COPIED * traffic, started * _PER_LAUNCH):
            return "copying its results would take longer than starting its kernels does"
        return None

    def __call__(self, inputs: Sequence[Any]) -> list[Any] | None:
        """Return the outputs by the graph; None if there is none for this call."""
        if self.problem is not None or graph_recording.active is not None:
            return None
        with self._lock:
            places = [0 if there else a.data.ptr for a, there in zip(inputs, self.program.on_host, strict=True)]
            if self._places:
                self._moving.update(n for n, (a, b) in enumerate(zip(places, self._places, strict=True)) if a != b)
            self._places, self._calls = places, self._calls + 1
            if self._calls <= _WARMING:
                return None
            graph = self._graph
            if graph is None or not graph.moving >= self._moving:
                graph = self._recorded(inputs)
            return None if graph is None else graph.run(inputs)

    def _recorded(self, inputs: Sequence[Any]) -> _Graph | None:
        self._graph = None  # frees its memory
        self._recordings += 1
        if self._recordings > _MOST_RECORDINGS:
            self.problem = f"its inputs were somewhere else {_MOST_RECORDINGS} times"
            return None
        # other inputs may move as well: copy first those that take negligible time, then all of them
        if self._recordings > 1:
            largest = _SMALL if self._recordings == 2 else max(v.nbytes for v in self.program.plan.original.inputs)
            written = {*self.program.plan.in_place.values()}
            inputs_of = enumerate(self.program.plan.original.inputs)
            self._moving.update(n for n, v in inputs_of if v.nbytes <= largest and v not in written)
        try:
            self._graph = _Graph(self.program, inputs, frozenset(self._moving))
        except Exception as error:
            self.problem = f"{type(error).__name__}: {str(error)[:300]}"
        return self._graph


class _Graph:
    """One recording, with its memory."""

    def __init__(self, program: DeviceProgram, inputs: Sequence[Any], moving: frozenset[int]) -> None:
        from ndgrad.cuda.graphs import CUDAGraph, graph  # avoids an import cycle with the public package

        found = library.device_library
        self.program = program
        self.moving = moving
        self._graph = CUDAGraph()
        self._stream: Any = None
        # Earlier calls have left as much memory again in the pool.
        found.get_default_memory_pool().free_all_blocks()
        self._buffers: dict[int, Any] = {}
        arrays: Arrays = {}
        for n, (value, array) in enumerate(zip(program.plan.original.inputs, inputs, strict=True)):
            if program.on_host[n]:
                continue
            if n in moving or not array.flags.c_contiguous or array.data.ptr % _ALIGNMENT:
                self._buffers[n] = found.empty(value.shape, value.dtype)
            arrays[value] = self._buffers.get(n, array)
        self._offsets: dict[Value, int] = {}
        size = 0
        for value in program.plan.parts.crossing:
            self._offsets[value] = size
            size += -(-max(value.nbytes, 1) // _ALIGNMENT) * _ALIGNMENT
        self._brought = found.empty(max(size, _ALIGNMENT), np.uint8)
        self._packed = np.zeros(max(size, _ALIGNMENT), np.uint8)
        for value, offset in self._offsets.items():
            arrays[value] = found.ndarray(value.shape, value.dtype, self._brought.data + offset)
        program.prepare()
        with graph(self._graph):
            program.execute(arrays)
        #: the arrays of results
        self._arrays = arrays

    @property
    def memory(self) -> int:
        """Return the bytes that it holds for itself."""
        return int(self._graph._pool.total_bytes())

    def run(self, inputs: Sequence[Any]) -> list[Any]:
        """Return the outputs for these arrays."""
        program, found = self.program, library.device_library
        host = program.on_the_host(inputs)
        stream = found.cuda.get_current_stream()
        if self._stream is not None and self._stream.ptr != stream.ptr:
            event = found.cuda.Event(disable_timing=True)
            event.record(self._stream)
            stream.wait_event(event)
        self._stream = stream
        copy_arrays([(buffer, inputs[n]) for n, buffer in self._buffers.items()])
        if self._offsets:
            for value, offset in self._offsets.items():
                self._packed[offset : offset + value.nbytes] = np.ascontiguousarray(host[value]).reshape(-1).view(np.uint8)
            self._brought.set(self._packed)
        out, copies = program.prepared(inputs, host, self._used_inputs(inputs))
        self._graph.replay()
        copy_arrays([(fresh, view_place(self._arrays, place)) for fresh, place in copies])
        return out

    def _used_inputs(self, inputs: Sequence[Any]) -> dict[Value, Any]:
        """Return, by input, the array of this call if the graph has used it directly."""
        numbers, on_host = enumerate(self.program.plan.original.inputs), self.program.on_host
        return {v: inputs[n] for n, v in numbers if not on_host[n] and n not in self._buffers}


def copy_arrays(pairs: Sequence[tuple[Any, Any]]) -> None:
    """Copy arrays into others of their shape and dtype: all contiguous ones by one kernel."""
    rest = []
    for to, source in pairs:
        if source.flags.c_contiguous and not (source.data.ptr | to.data.ptr) % _ALIGNMENT and source.nbytes:
            rest.append((to, source))
        else:
            to[...] = source
    for start in range(0, len(rest), _TOGETHER):
        _copy_together(rest[start : start + _TOGETHER])


def _copy_together(pairs: Sequence[tuple[Any, Any]]) -> None:
    firsts, blocks = [], 0
    for to, _ in pairs:
        firsts.append(blocks)
        blocks += -(-to.nbytes // _BLOCK)
    gap = [0] * (_TOGETHER - len(pairs))
    sources, targets = [s.data.ptr for _, s in pairs], [t.data.ptr for t, _ in pairs]
    sizes = [t.nbytes for t, _ in pairs]
    words = (len(pairs), *firsts, *gap, *sources, *gap, *targets, *gap, *sizes, *gap)
    _kernel(pairs[0][0].data.device_id)(blocks, 256, *words)


_kernels: dict[int, launch.Kernel] = {}


def _kernel(device: int) -> launch.Kernel:
    found = _kernels.get(device)
    if found is None:
        found = _kernels[device] = launch.Kernel(PRELUDE + _COPY, f"{1 + 4 * _TOGETHER}q")
    return found

