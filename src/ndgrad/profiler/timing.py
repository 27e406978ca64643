"""Time measurement: `profile` and `record_function`, under torch's names.

The recorder is a watcher (_src.core.call_watchers): it sees every op, write, factory, custom function and backward
node of every thread, with its nested calls. Backward runs on its usual path, on raw arrays, so the measurement is
realistic. Therefore the NumPy calls inside one backward node are not distinguished, unless the pass records a graph or
is watched by a mode.

While it is on, calls take the general path and each costs a little more; while it is off there is no overhead
(docs/profiler.md has the numbers).
"""

from __future__ import annotations

import functools
import itertools
import os
import threading
import time
from html import escape
from typing import Any, Self

from ndgrad._src.core.call_watchers import (
    EVALUATION,
    FUNCTION,
    KERNEL,
    NODE,
    OP,
    RANGE,
    WRITE,
    Begun,
    add_watcher,
    begin,
    end,
    remove_watcher,
)
from ndgrad._src.core.grad_mode import Mode
from ndgrad._src.core.modes import ThreadState
from ndgrad._src.core.node import FIRST, next_sequence_number
from ndgrad._src.core.variable import Variable
from ndgrad._src.debug.saved_memory import holdings, unique_bytes
from ndgrad._src.debug.source_lines import STACK_LIMIT, Frames, places, user_frames
from ndgrad._src.ops.flops import flops_of
from ndgrad._src.ops.table import table
from ndgrad.profiler import device_time
from ndgrad.profiler.allocations import Allocation, Ledger, note_received, note_results
from ndgrad.profiler.events import EventList, FunctionEvent, FunctionEventAvg

__all__ = ["EventList", "FunctionEvent", "FunctionEventAvg", "kineto_available", "profile", "record_function"]


def _aten_name(name: str) -> str:
    return table[name].aten_name if name in table else name


@functools.cache
def event_name(kind: str, name: str) -> str:
    """Return the name of a call in a profile."""
    if kind == EVALUATION:
        return f"autograd::engine::evaluate_function: {name}"
    if kind in (FUNCTION, KERNEL, NODE, RANGE) or "::" in name:
        return name
    if kind == WRITE:
        return f"aten::{_aten_name(name[:-1])}_"
    return f"aten::{_aten_name(name)}"


class Span:
    """A call while it is measured."""

    __slots__ = (
        "args", "end", "frames", "kind", "memory", "moments", "name", "number", "opened", "output", "parent", "saved",
        "seq", "shapes", "start", "subject", "thread",
    )  # fmt: skip

    start: int
    end: int

    def __init__(self, kind: str, name: str, subject: Any, number: int, thread: int, opened: list[Span]) -> None:
        self.kind, self.name, self.subject = kind, name, subject
        self.number, self.thread = number, thread
        #: The open calls of the thread; another thread may close a range.
        self.opened = opened
        self.parent = opened[-1] if opened else None
        self.shapes: list[list[int]] = []
        self.frames: Frames = ()
        self.seq = -1
        self.memory = 0  # without its children
        self.saved = 0
        self.output: tuple[int, ...] = ()
        self.args: Any = ()
        self.end = -1
        #: Positions in a GPU's stream before and after, if requested.
        self.moments: tuple[Any, Any] = (None, None)


def _flops(span: Span) -> int:
    """Estimate the floating-point operations of a call; a step of a compiled program knows its own."""
    if span.kind is KERNEL:
        return int(span.subject)
    return flops_of(span.name, span.args, span.output) if span.kind is OP else 0


class Recorder:
    """Creates spans of calls, with a stack of open ones per thread."""

    def __init__(
        self, *, shapes: bool = False, memory: bool = False, stack: bool = False, flops: bool = False, gpu: bool = False
    ) -> None:
        self.shapes, self.stack, self.flops, self.gpu = shapes, stack, flops, gpu
        self.ledger = Ledger(self._count_freed) if memory else None
        self.spans: list[Span] = []
        self.loose: list[tuple[int, int, int]] = []  # (time, thread, bytes) of memory freed outside all calls
        self.thread_names: dict[int, str] = {}
        self._oldest = next_sequence_number()
        self._noted: set[float] = set()
        self._local = threading.local()
        #: Name -> lines of intervals outside of threads: their numbers, and the time until which each is occupied.
        self._tracks: dict[str, list[tuple[int, int]]] = {}
        self._thread_numbers = itertools.count(1).__next__
        self._numbers = itertools.count(1).__next__

    def _mine(self) -> Any:
        local = self._local
        if not hasattr(local, "open"):
            local.open = []
            local.number = self._thread_numbers()
            self.thread_names[local.number] = f"{threading.current_thread().name} ({threading.get_native_id()})"
        return local

    def begin(self, kind: str, name: str, subject: Any, args: tuple[Any, ...]) -> Span:
        local = self._mine()
        span = Span(kind, name, subject, self._numbers(), local.number, local.open)
        if self.shapes and kind is not EVALUATION:
            span.shapes = [list(a.shape) if hasattr(a, "shape") else [] for a in args]
        if self.stack:
            span.frames = user_frames(STACK_LIMIT)
        if kind is NODE or kind is EVALUATION:
            span.seq = -1 if subject.seq == FIRST else int(subject.seq)
        elif self.flops:
            span.args = [tuple(a.shape) if hasattr(a, "shape") else () for a in args]
        if self.ledger is not None:
            span.args = (span.args, args)
        self.spans.append(span)
        local.open.append(span)
        if self.ledger is not None and kind is NODE:
            span.memory += sum(made.nbytes for made in note_received(self.ledger, subject, args, tuple))
        if self.gpu:
            span.moments = (device_time.moment(), None)
        span.start = time.perf_counter_ns()
        return span

    def end(self, span: Span, results: Any) -> None:
        span.end = time.perf_counter_ns()
        if self.gpu and span.moments[0] is not None:
            span.moments = (span.moments[0], device_time.moment())
        opened = span.opened
        if span in opened:  # otherwise an enclosing call has ended before it
            del opened[opened.index(span) :]
        kind, subject = span.kind, span.subject
        first = results[0] if isinstance(results, (tuple, list)) and results else results
        if isinstance(first, Variable):
            span.output = tuple(first.shape)
            if kind is not NODE and first._node is not None:
                self._note_node(span, first._node)
        if self.ledger is not None:
            span.args, args = span.args
            made = note_results(self.ledger, (kind, span.name, subject, args), results, tuple)
            span.memory += sum(m.nbytes for m in made)
        if kind is KERNEL:
            span.subject = subject.work.flops
        elif kind is not OP:
            span.subject = None  # a measurement keeps no node alive

    def interval(self, track: str, name: str, start: int, end: int, shape: tuple[int, ...] = ()) -> None:
        """Note an interval outside the calls of threads, in nanoseconds, such as a message. It has its own line;
        overlapping intervals are on several lines.
        """
        busy = self._tracks.setdefault(track, [])
        place = next((i for i, (_, until) in enumerate(busy) if until <= start), len(busy))
        if place == len(busy):
            busy.append((self._thread_numbers(), end))
            self.thread_names[busy[place][0]] = f"{track} {place + 1}"
        busy[place] = (busy[place][0], end)
        span = Span(FUNCTION, name, None, self._numbers(), busy[place][0], [])
        span.start, span.end, span.shapes = start, end, [list(shape)]
        self.spans.append(span)

    def _note_node(self, span: Span, node: Any) -> None:
        """Note the node that an op made, not one that its result had before."""
        if node.seq != FIRST and node.seq > self._oldest and node.seq not in self._noted:
            self._noted.add(node.seq)
            span.seq = int(node.seq)
            if self.ledger is not None:
                span.saved = unique_bytes(holdings(node))

    def _count_freed(self, allocation: Allocation) -> None:
        local = self._mine()
        if local.open:
            local.open[-1].memory -= allocation.nbytes
        else:
            self.loose.append((time.perf_counter_ns(), local.number, allocation.nbytes))

    def _alive(self, began: int) -> list[tuple[float, int]]:
        """Return the bytes alive over time."""
        if self.ledger is None:
            return []
        offset = self.ledger.began * 1e6 - began / 1000
        return [(now * 1e6 + offset, alive) for now, alive, _ in self.ledger.timeline()]

    def _freed_outside(self, began: int) -> list[FunctionEvent]:
        """Return memory freed outside all calls, as events."""
        found = []
        for at, thread, size in self.loose:
            when = (at - began) / 1000
            found.append(
                FunctionEvent(
                    self._numbers(), MEMORY_EVENT_NAME, thread, when, when, None, 0, [], cpu_memory_usage=-size
                )
            )
        return found

    def events(self, began: int, ended: int) -> EventList:
        """Return the measurements as nested events."""
        if self.ledger is not None:
            self.ledger.close()

        device_time.wait(self.gpu)
        spans = list(self.spans)
        totals: dict[Span, int] = {}
        for span in spans:
            if span.end < 0:
                span.end = ended  # another thread is still inside it
            totals[span] = span.memory
        for span in reversed(spans):  # children come after their parents
            if span.parent is not None and span.parent in totals:
                totals[span.parent] += totals[span]
        lines: dict[Frames, list[str]] = {}
        forward: dict[int, Span] = {}
        found = []
        for span in spans:
            backward = span.kind in (NODE, EVALUATION)
            origin = forward.get(span.seq) if backward and span.seq >= 0 else None
            if not backward and span.seq >= 0:
                forward[span.seq] = span
            frames = origin.frames if origin is not None and origin.frames else span.frames
            if frames not in lines:
                lines[frames] = [f"{place.filename}({place.line}): {place.function}" for place in places(frames)]
            found.append(
                FunctionEvent(
                    id=span.number,
                    name=event_name(span.kind, span.name),
                    thread=span.thread,
                    start_us=(span.start - began) / 1000,
                    end_us=(span.end - began) / 1000,
                    fwd_thread=origin.thread if origin is not None else 0,
                    input_shapes=span.shapes,
                    stack=lines[frames],
                    scope=1 if span.kind is NODE else 7 if span.kind is RANGE else 0,
                    cpu_memory_usage=totals[span],
                    sequence_nr=span.seq,
                    flops=_flops(span) or None if self.flops else None,
                    is_user_annotation=span.kind is RANGE,
                    saved_bytes=span.saved,
                    **device_time.device_time_arguments(*span.moments),
                )
            )
        found += self._freed_outside(began)
        found.sort(key=lambda event: (event.time_range.start, event.id))
        events = EventList(
            found,
            profile_memory=self.ledger is not None,
            with_flops=self.flops,
            thread_names=self.thread_names,
            memory=self._alive(began),
            use_device=max((event.use_device or "" for event in found), default="") or None,
        )
        events._build_tree()
        return events


#: Name in a profile of memory that is freed outside all calls.
MEMORY_EVENT_NAME = "[memory]"


class profile:
    """A context that measures every call of every thread, forward and backward.

    `record_shapes` keeps the shapes of tensor arguments, `profile_memory` counts the bytes that calls allocate and
    free, and that nodes save, `with_stack` keeps the user's lines, `with_flops` estimates floating-point operations.
    Options for torch's own implementation (`use_kineto`, `experimental_config`, ...) are accepted without effect.

    Args:
        enabled: whether anything is measured.
        use_cuda: old form of `use_device="cuda"`.
        use_device: device whose time is measured, too.
        record_shapes: whether the shapes of tensor arguments are kept.
        with_flops: whether floating-point operations are estimated.
        profile_memory: whether bytes that calls allocate, free and save are counted.
        with_stack: whether the user's lines are kept.
        with_modules: stored as an attribute, and otherwise not used.
        use_kineto, experimental_config, acc_events, custom_trace_id_callback: accepted as in torch. They have no
            effect.
        use_cpu: accepted only as True, because the time of a GPU is that of calls on the CPU.
        **others: `post_processing_timeout_s` and `activity_filters` of torch, without effect.

    >>> import ndgrad
    >>> x = ndgrad.ones(3, requires_grad=True)
    >>> with ndgrad.profiler.timing.profile() as prof:
    ...     (x * x).sum().backward()
    >>> [event.key for event in prof.key_averages() if event.key.startswith("aten::")]
    ['aten::mul', 'aten::sum']
    >>> print(prof.key_averages().table(sort_by="self_cpu_time_total", row_limit=5))
    --------...
    """

    def __init__(
        self,
        enabled: bool = True,
        *,
        use_cuda: bool = False,
        use_device: str | None = None,
        record_shapes: bool = False,
        with_flops: bool = False,
        profile_memory: bool = False,
        with_stack: bool = False,
        with_modules: bool = False,
        use_kineto: bool = False,
        use_cpu: bool = True,
        experimental_config: Any = None,
        acc_events: bool = False,
        custom_trace_id_callback: Any = None,
        **others: Any,
    ) -> None:
        unknown = others.keys() - {"post_processing_timeout_s", "activity_filters"}
        if unknown:
            raise TypeError(f"profile() got an unexpected keyword argument {min(unknown)!r} [nd-arguments]")
        if enabled and not use_cpu:
            raise AssertionError(
                "profile(use_cpu=False) would measure nothing: the time of a GPU is that of calls on the CPU. "
                "[nd-profiler]"
            )
        self.enabled = bool(enabled)
        self.record_shapes = bool(record_shapes) or bool(with_flops)
        self.with_flops = bool(with_flops)
        self.profile_memory = bool(profile_memory)
        self.with_stack = bool(with_stack)
        self.with_modules = bool(with_modules)
        self.use_device = "cuda" if use_cuda else use_device
        self.entered = False
        self._recorder: Recorder | None = None
        self._began = 0
        self._events: EventList | None = None

    def __enter__(self) -> Self | Any:  # Any stands for None, if not enabled
        if not self.enabled:
            return None
        if self.entered:
            raise RuntimeError("Profiler context manager is not reentrant. Make another profile(). [nd-call-order]")
        self.entered = True
        self._start()
        return self

    def _start(self) -> None:
        recorder = Recorder(
            shapes=self.record_shapes,
            memory=self.profile_memory,
            stack=self.with_stack,
            flops=self.with_flops,
            gpu=self.use_device == "cuda",
        )
        self._recorder, self._events = recorder, None
        self._began = time.perf_counter_ns()
        add_watcher(recorder)

    def _stop(self) -> None:
        recorder, self._recorder = self._recorder, None
        if recorder is not None:
            remove_watcher(recorder)
            self._events = recorder.events(self._began, time.perf_counter_ns())

    def __exit__(self, *exc: object) -> None:
        if self.enabled:
            self._stop()

    @property
    def function_events(self) -> EventList:
        """The events, in order; none before the block has ended."""
        if not self.enabled:
            raise AttributeError("a profile with enabled=False has no events [nd-profiler]")
        return EventList() if self._events is None else self._events

    def key_averages(
        self, group_by_input_shape: bool = False, group_by_stack_n: int = 0, group_by_overload_name: bool = False
    ) -> EventList:
        """Return the events grouped by name; on request, also by shapes and by lines (see EventList.key_averages).

        Args:
            group_by_input_shape: whether events with different shapes of inputs stay apart.
            group_by_stack_n: number of innermost lines by which events stay apart.
            group_by_overload_name: whether overloads stay apart.
        """
        return self.function_events.key_averages(group_by_input_shape, group_by_stack_n, group_by_overload_name)

    def total_average(self) -> FunctionEventAvg:
        """Return the average of all events."""
        return self.function_events.total_average()

    def table(self, *args: Any, **kwargs: Any) -> str:
        """Return the events as a table (see EventList.table).

        Args:
            *args, **kwargs: arguments of `EventList.table`.
        """
        return self.function_events.table(*args, **kwargs)

    @property
    def self_cpu_time_total(self) -> float:
        """The microseconds of all calls, without counting any twice."""
        return self.function_events.self_cpu_time_total

    def export_chrome_trace(self, path: str | os.PathLike[str]) -> None:
        """Write a trace for chrome://tracing or Perfetto; compressed if the name ends in .gz.

        Args:
            path: path of the file.
        """
        self.function_events.export_chrome_trace(path)

    def export_stacks(self, path: str | os.PathLike[str], metric: str = "self_cpu_time_total") -> None:
        """Write stacks for flame graphs; needs `with_stack=True`.

        Args:
            path: path of the file.
            metric: cost of a stack: `"self_cpu_time_total"`, `"cpu_time_total"` or `"self_cpu_memory_usage"`.
        """
        if not self.with_stack:
            raise AssertionError("export_stacks() requires with_stack=True: no stacks were kept. [nd-profiler]")
        self.function_events.export_stacks(path, metric)

    def __str__(self) -> str:
        if self._events is None:
            return "<unfinished ndgrad.profiler.timing.profile>"
        return str(self._events)

    def _repr_html_(self) -> str:
        """Return the display in a notebook: the flame graph above the table."""
        from ndgrad.profiler.pictures import flame  # only notebooks need it

        events = self.function_events
        return (flame(self)._repr_html_() if events else "") + f"<pre>{escape(str(self))}</pre>"

    def __repr__(self) -> str:
        return "<unfinished ndgrad.profiler.timing.profile>" if self._events is None else repr(list(self._events))


class record_function(Mode):
    """Named range in a profile: a context, or a decorator that makes every call of a function one. Without a profile it
    does nothing.

    Args:
        name: name of the range.
        args: text that is kept with it.

    >>> import ndgrad
    >>> with ndgrad.profiler.timing.profile() as prof:
    ...     with ndgrad.profiler.timing.record_function("my block"):
    ...         y = ndgrad.ones(2) * 2
    >>> [(event.name, event.cpu_parent and event.cpu_parent.name) for event in prof.function_events]
    [('my block', None), ('aten::ones', 'my block'), ('aten::mul', 'my block')]
    """

    def __init__(self, name: str, args: str | None = None) -> None:
        super().__init__()
        self.name = name
        self.args = args

    def fresh(self) -> record_function:
        return type(self)(self.name, self.args)

    def __enter__(self) -> Self:
        if not isinstance(self.name, str):
            raise RuntimeError(f"record_function() takes a name, a str, but got {type(self.name).__name__}. [nd-type]")
        self._stack.append(begin(RANGE, self.name, None, () if self.args is None else (self.args,)))
        return self

    def __exit__(self, *exc: object) -> None:
        begun: Begun = self._stack.pop()
        end(begun)


def _is_profiling() -> bool:
    return any(isinstance(watcher, Recorder) for watcher in ThreadState.watchers)


_profiler_enabled = _is_profiling


def kineto_available() -> bool:
    """Return False: torch's tracing library does not exist here, and the profiler does not need it.

    >>> import ndgrad
    >>> ndgrad.profiler.kineto_available()
    False
    """
    return False
