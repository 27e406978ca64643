"""Contents of a profile: events, lists of them, and their averages, under torch's names.

An event is one call: a name, a thread, a beginning and an end in microseconds, and measurements. Lists of events can
nest (`_build_tree`), group (`key_averages`) and print themselves. ndgrad.profiler.timing makes the measurements, and
programs may create their own events.
"""

from __future__ import annotations

import os
from collections.abc import Iterable
from typing import Any, Self

from ndgrad.profiler.table import build_table, format_memory, format_time, format_time_share
from ndgrad.profiler.trace import write_trace

__all__ = ["EventList", "FunctionEvent", "FunctionEventAvg", "Interval"]

_format_time = format_time
_format_time_share = format_time_share
_format_memory = format_memory


class Interval:
    """Beginning and end, in microseconds.

    Args:
        start, end: times in microseconds.

    >>> from ndgrad.profiler.events import Interval
    >>> Interval(1.0, 3.5).elapsed_us()
    2.5
    """

    __slots__ = ("end", "start")

    def __init__(self, start: float, end: float) -> None:
        self.start, self.end = start, end

    def elapsed_us(self) -> float:
        return self.end - self.start

    def __repr__(self) -> str:
        return f"Interval({self.start}, {self.end})"


class _Formatted:
    """Times as text."""

    count: int
    cpu_time_total: Any
    self_cpu_time_total: Any
    device_time_total: Any
    self_device_time_total: Any

    @property
    def device_time(self) -> float:
        """The time of one call on a GPU, on average."""
        return 0.0 if self.count == 0 else 1.0 * self.device_time_total / self.count

    @property
    def cuda_time_total(self) -> float:
        """Deprecated name of `device_time_total`."""
        return float(self.device_time_total)

    @property
    def cpu_time(self) -> float:
        """The time of one call, on average."""
        return 0.0 if self.count == 0 else 1.0 * self.cpu_time_total / self.count

    @property
    def cpu_time_str(self) -> str:
        return format_time(self.cpu_time)

    @property
    def cpu_time_total_str(self) -> str:
        return format_time(self.cpu_time_total)

    @property
    def self_cpu_time_total_str(self) -> str:
        return format_time(self.self_cpu_time_total)


class FunctionEvent(_Formatted):
    """A call. Without a tree (`EventList._build_tree`) it has no children, and its self time is its whole time.

    Args:
        id: number of the event.
        name: name of the call.
        thread: number of the thread.
        start_us, end_us: times in microseconds.
        overload_name: name of the overload.
        fwd_thread: thread of the op whose backward this is.
        input_shapes: shapes of the inputs.
        stack: lines of the user's code, innermost first.
        scope: 0 for an op, 1 for a backward node, 7 for a range marked by the user.
        use_device: device whose time is measured, too.
        cpu_memory_usage: bytes allocated less bytes freed.
        device_memory_usage: same as `cpu_memory_usage`, on the device.
        is_async: whether the call ended in another thread.
        is_remote: whether the call ran in another process.
        sequence_nr: number that an op and its backward node share, or -1.
        node_id: number of the process, or -1.
        flops: number of floating-point operations.
        is_user_annotation: whether the event is a range marked by the user.
        saved_bytes: bytes saved for backward.
        device_time_total: time on the device in microseconds.
        **others: further fields of torch's events, which are not used.

    >>> import ndgrad
    >>> with ndgrad.profiler.profile() as p:
    ...     _ = ndgrad.ones(2).sin()
    >>> "sin" in [event.name.split("::")[-1] for event in p.events()]
    True
    """

    def __init__(
        self,
        id: int,
        name: str,
        thread: int,
        start_us: float,
        end_us: float,
        overload_name: str | None = None,
        fwd_thread: int | None = None,
        input_shapes: Any = None,
        stack: list[str] | None = None,
        scope: int = 0,
        use_device: str | None = None,
        cpu_memory_usage: int = 0,
        device_memory_usage: int = 0,
        is_async: bool = False,
        is_remote: bool = False,
        sequence_nr: int = -1,
        node_id: int = -1,
        flops: int | None = None,
        is_user_annotation: bool = False,
        saved_bytes: int = 0,
        device_time_total: float = 0.0,
        **others: Any,
    ) -> None:
        self.id = id
        self.name = name
        self.overload_name = overload_name or ""
        self.thread = thread
        #: The thread of the op whose backward this is.
        self.fwd_thread = fwd_thread
        self.time_range = Interval(start_us, end_us)
        self.count = 1
        self.cpu_children: list[FunctionEvent] = []
        self.cpu_parent: FunctionEvent | None = None
        self.input_shapes = input_shapes
        self.stack: list[str] = stack or []
        #: 0 for an op, 1 for a backward node, 7 for a range marked by the user
        self.scope = scope
        self.use_device = use_device
        #: Bytes allocated minus bytes freed during the call, including its children.
        self.cpu_memory_usage = cpu_memory_usage
        self.device_memory_usage = device_memory_usage
        self.is_async = is_async
        self.is_remote = is_remote
        #: The number of the graph's node: an op and its backward have the same.
        self.sequence_nr = sequence_nr
        self.node_id = node_id
        self.flops = flops
        self.is_user_annotation = is_user_annotation
        #: Bytes that the node of the op keeps for backward.
        self.saved_bytes = saved_bytes
        #: Microseconds of the GPU from before the call to after it (see ndgrad.profiler.device_time).
        self.device_time_total = device_time_total
        self.trace_name = others.pop("trace_name", None) or name
        self.is_legacy = others.pop("is_legacy", False)
        self.others = others

    @property
    def key(self) -> str:
        return self.name

    @property
    def cpu_time_total(self) -> float:
        return self.time_range.elapsed_us()

    @property
    def self_cpu_time_total(self) -> float:
        """The time of the call minus that of its children."""
        return self.cpu_time_total - sum(child.cpu_time_total for child in self.cpu_children)

    @property
    def self_device_time_total(self) -> float:
        """The GPU time of the call minus that of its children."""
        return max(0.0, self.device_time_total - sum(child.device_time_total for child in self.cpu_children))

    @property
    def self_cpu_memory_usage(self) -> int:
        return self.cpu_memory_usage - sum(child.cpu_memory_usage for child in self.cpu_children)

    def append_cpu_child(self, child: FunctionEvent) -> None:
        """Note a call inside this one.

        Args:
            child: event of the inner call.
        """
        if not isinstance(child, FunctionEvent):
            raise AssertionError(f"a child of an event is an event, and this is {type(child).__name__} [nd-type]")
        self.cpu_children.append(child)

    def set_cpu_parent(self, parent: FunctionEvent) -> None:
        """Note the call around this one.

        Args:
            parent: event of the outer call.
        """
        if not isinstance(parent, FunctionEvent):
            raise AssertionError(f"the parent of an event is an event, and this is {type(parent).__name__} [nd-type]")
        self.cpu_parent = parent

    def __repr__(self) -> str:
        return (
            f"<FunctionEvent id={self.id} name={self.name} thread={self.thread} cpu_time={self.cpu_time_str} "
            f"start_us={self.time_range.start:.3f} end_us={self.time_range.end:.3f} "
            f"cpu_children={[c.id for c in self.cpu_children]} input_shapes={self.input_shapes} "
            f"cpu_memory_usage={self.cpu_memory_usage} seq_nr={self.sequence_nr}>"
        )


class FunctionEventAvg(_Formatted):
    """Several events of one name: their number, and their time.

    >>> import ndgrad
    >>> with ndgrad.profiler.profile() as p:
    ...     _ = ndgrad.ones(2).sin().sin()
    >>> [average.count for average in p.key_averages() if average.key.endswith("sin")]
    [2]
    """

    def __init__(self) -> None:
        self.key: str | None = None
        self.overload_name: str | None = None
        self.count = 0
        self.node_id = 0
        self.is_async = False
        self.is_remote = False
        self.is_legacy = False
        self.is_user_annotation = False
        self.use_device: str | None = None
        self.cpu_time_total: float = 0
        self.self_cpu_time_total: float = 0
        self.device_time_total: float = 0
        self.self_device_time_total: float = 0
        self.cpu_memory_usage = 0
        self.self_cpu_memory_usage = 0
        self.device_memory_usage = 0
        self.saved_bytes = 0
        self.input_shapes: Any = None
        self.stack: list[str] = []
        self.scope: int | None = None
        self.cpu_parent: FunctionEvent | None = None
        self.cpu_children: list[FunctionEvent] = []
        self.flops = 0

    def add(self, other: FunctionEvent | FunctionEventAvg) -> FunctionEventAvg:
        """Add one more event, or another average, with the same name.

        Args:
            other: event or average.

        Returns:
            This average.
        """
        if self.key is None:
            self.key, self.overload_name = other.key, other.overload_name
            self.node_id, self.is_async, self.is_remote = other.node_id, other.is_async, other.is_remote
            self.cpu_parent, self.cpu_children = other.cpu_parent, other.cpu_children
            self.input_shapes, self.stack, self.scope = other.input_shapes, other.stack, other.scope
            self.is_user_annotation, self.use_device, self.is_legacy = (
                other.is_user_annotation,
                other.use_device,
                other.is_legacy,
            )
        if not isinstance(other, (FunctionEvent, FunctionEventAvg)):
            raise AssertionError(f"only events can be added, and this is {type(other).__name__} [nd-type]")
        if other.key != self.key:
            raise AssertionError(
                f"an average is of events of one name: {other.key!r} cannot be added to {self.key!r} [nd-profiler]"
            )
        self.cpu_time_total += other.cpu_time_total
        self.self_cpu_time_total += other.self_cpu_time_total
        self.device_time_total += other.device_time_total
        self.self_device_time_total += other.self_device_time_total
        self.cpu_memory_usage += other.cpu_memory_usage
        self.self_cpu_memory_usage += other.self_cpu_memory_usage
        self.device_memory_usage += other.device_memory_usage
        self.saved_bytes += other.saved_bytes
        self.count += other.count
        self.flops += other.flops or 0
        return self

    def __iadd__(self, other: FunctionEvent | FunctionEventAvg) -> Self:
        self.add(other)
        return self

    def __repr__(self) -> str:
        return (
            f"<FunctionEventAvg key={self.key} self_cpu_time={self.self_cpu_time_total_str} "
            f"cpu_time={self.cpu_time_str} count={self.count} input_shapes={self.input_shapes} "
            f"cpu_memory_usage={self.cpu_memory_usage}>"
        )


class EventList(list[Any]):
    """Events, or averages, in order; `table()` shows them.

    Args:
        *args: events, as for `list`.
        **options: `profile_memory`, `with_flops` and `use_device` select columns of the table; `thread_names` and
            `memory` are written to traces.

    >>> import ndgrad
    >>> with ndgrad.profiler.profile() as p:
    ...     _ = ndgrad.ones(2).sin()
    >>> isinstance(p.events().table(), str)
    True
    """

    def __init__(self, *args: Any, **options: Any) -> None:
        self._profile_memory: bool = options.pop("profile_memory", False)
        self._with_flops: bool = options.pop("with_flops", False)
        self._use_device: str | None = options.pop("use_device", None)
        self._thread_names: dict[int, str] = options.pop("thread_names", {})
        self._memory: list[tuple[float, int]] = options.pop("memory", [])
        self._tree_built = False
        super().__init__(*args, **options)

    def _build_tree(self) -> None:
        """Find the nesting of calls from times and threads. A call whose only child has the same name (an op inside a
        transform) is merged with it.
        """
        self._populate_cpu_children()
        self._remove_dup_nodes()
        self._tree_built = True

    def _populate_cpu_children(self) -> None:
        by_thread: dict[Any, list[FunctionEvent]] = {}
        for event in self:
            if not event.is_async:
                by_thread.setdefault((event.thread, event.node_id), []).append(event)
        for events in by_thread.values():
            open_events: list[FunctionEvent] = []
            # If two begin together, the longer is the outer; if they are equally long, the one that was noted first.
            for event in sorted(events, key=lambda e: (e.time_range.start, -e.time_range.end)):
                while open_events and event.time_range.end > open_events[-1].time_range.end:
                    open_events.pop()
                while open_events and event.time_range.start >= open_events[-1].time_range.end:
                    if event.time_range.start == event.time_range.end == open_events[-1].time_range.end:
                        break  # an instant at the end of a call belongs to it
                    open_events.pop()
                if open_events:
                    open_events[-1].append_cpu_child(event)
                    event.set_cpu_parent(open_events[-1])
                open_events.append(event)

    def _remove_dup_nodes(self) -> None:
        gone: set[int] = set()
        for event in self:
            parent = event.cpu_parent
            while parent is not None and id(parent) in gone:
                parent = parent.cpu_parent
            if parent is not None and parent.name == event.name and len(parent.cpu_children) == 1:
                parent.cpu_children = event.cpu_children
                parent.saved_bytes = max(parent.saved_bytes, event.saved_bytes)
                parent.sequence_nr = max(parent.sequence_nr, event.sequence_nr)
                parent.flops = max(parent.flops or 0, event.flops or 0) or None
                for child in event.cpu_children:
                    child.cpu_parent = parent
                gone.add(id(event))
        if gone:
            self[:] = [event for event in self if id(event) not in gone]

    @property
    def self_cpu_time_total(self) -> float:
        """The time of all calls, without counting any twice."""
        return float(sum(event.self_cpu_time_total for event in self))

    def _empty(self, events: Iterable[Any] = ()) -> EventList:
        return EventList(
            events, profile_memory=self._profile_memory, with_flops=self._with_flops, use_device=self._use_device
        )

    def key_averages(
        self, group_by_input_shapes: bool = False, group_by_stack_n: int = 0, group_by_overload_name: bool = False
    ) -> EventList:
        """Return the events grouped by name, and on request by the shapes of their inputs and the innermost lines of
        their stacks.

        Args:
            group_by_input_shapes: whether events with different shapes of inputs stay apart.
            group_by_stack_n: number of innermost lines by which events stay apart.
            group_by_overload_name: whether overloads stay apart.
        """
        groups: dict[tuple[Any, ...], FunctionEventAvg] = {}
        for event in self:
            key: list[Any] = [event.key, event.node_id, event.is_user_annotation]
            if group_by_input_shapes:
                key.append(str(event.input_shapes))
            if group_by_overload_name:
                key.append(event.overload_name)
            if group_by_stack_n > 0:
                key += event.stack[:group_by_stack_n]
            groups.setdefault(tuple(key), FunctionEventAvg()).add(event)
        out = self._empty(groups.values())
        for average in out:
            average.stack = average.stack[:group_by_stack_n]
            if not group_by_input_shapes:
                average.input_shapes = ""
            if not group_by_overload_name:
                average.overload_name = ""
        return out

    def total_average(self) -> FunctionEventAvg:
        """Return the average of all events."""
        total = FunctionEventAvg()
        for event in self:
            total.key = event.key
            total.add(event)
        total.key = "Total"
        return total

    def table(
        self,
        sort_by: str | None = None,
        row_limit: int = 100,
        max_src_column_width: int = 75,
        max_name_column_width: int = 55,
        max_shapes_column_width: int = 80,
        header: str | None = None,
        top_level_events_only: bool = False,
        time_unit: str | None = None,
    ) -> str:
        """Return the events as a table.

        `sort_by` names an attribute (cpu_time_total, self_cpu_time_total, cpu_time, cpu_memory_usage,
        self_cpu_memory_usage, count, saved_bytes, flops; device_time_total and self_device_time_total of a GPU),
        largest first; None keeps the order. A
        `row_limit` of -1 is none.

        Args:
            sort_by: name of an attribute, largest first. None keeps the order.
            row_limit: largest number of rows. -1 means all.
            max_src_column_width: width of the column of lines.
            max_name_column_width: width of the column of names.
            max_shapes_column_width: width of the column of shapes.
            header: text above the table.
            top_level_events_only: whether calls inside other calls are left out.
            time_unit: unit of times: `"s"`, `"ms"` or `"us"`. None chooses one for each number.
        """
        events: list[Any] = list(self)
        if sort_by is not None:
            name = sort_by.replace("cuda", "device").replace("xpu", "device")
            if name == "self_device_memory_usage":
                pass  # not measured, so all are equal
            else:
                missing = [type(e).__name__ for e in events if not hasattr(e, name)]
                if missing:
                    raise AttributeError(
                        f"{missing[0]!r} object has no attribute {name!r}, so a table cannot be sorted by it. "
                        "Sort by cpu_time_total, self_cpu_time_total, cpu_time, cpu_memory_usage, "
                        "self_cpu_memory_usage, saved_bytes, flops or count. [nd-profiler]"
                    )
                events.sort(key=lambda event: getattr(event, name) or 0, reverse=True)
        if top_level_events_only:
            events = [event for event in events if event.cpu_parent is None]
        return build_table(
            events,
            total=self.self_cpu_time_total,
            row_limit=row_limit,
            widths=(max_name_column_width, max_shapes_column_width, max_src_column_width),
            header=header,
            only_top=top_level_events_only,
            time_unit=time_unit,
            with_memory=self._profile_memory,
            with_flops=self._with_flops,
            with_device=self._use_device is not None,
        )

    def __str__(self) -> str:
        return self.table()

    def export_chrome_trace(self, path: str | os.PathLike[str]) -> None:
        """Write the events as a trace for chrome://tracing, Perfetto, and similar programs.

        Args:
            path: path of the file.
        """
        write_trace(path, self, self._thread_names, self._memory)

    def supported_export_stacks_metrics(self) -> list[str]:
        return ["self_cpu_time_total", "cpu_time_total", "self_cpu_memory_usage"]

    def export_stacks(self, path: str | os.PathLike[str], metric: str = "self_cpu_time_total") -> None:
        """Write a line per stack, outermost frame first, with its cost, for flame graph programs.

        Args:
            path: path of the file.
            metric: cost of a stack: `"self_cpu_time_total"`, `"cpu_time_total"` or `"self_cpu_memory_usage"`.
        """
        if metric not in self.supported_export_stacks_metrics():
            raise ValueError(
                f"metric should be one of: {self.supported_export_stacks_metrics()}, but is {metric!r}. [nd-option]"
            )
        sums: dict[str, int] = {}
        for event in self:
            value = int(getattr(event, metric))
            if event.stack and value > 0:
                line = ";".join(frame.translate(_FLAMES) for frame in [*reversed(event.stack), event.name])
                sums[line] = sums.get(line, 0) + value
        with open(path, "w", encoding="utf-8") as file:
            file.writelines(f"{line} {value}\n" for line, value in sums.items())


#: Replacements of characters with a meaning in the files of flame graph programs.
_FLAMES = str.maketrans(" ;\t\n", "____")
