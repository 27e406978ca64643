"""A profile as a file for chrome://tracing, Perfetto and other viewers: the Trace Event Format, in JSON.

X    a call: begin and length in microseconds, on the line of its thread
s f  an arrow from an op to its backward node, with the same sequence number
C    how many bytes were alive, drawn as a curve
M    names of the process and its threads
"""

from __future__ import annotations

import gzip
import json
import os
from collections.abc import Mapping, Sequence
from typing import Any

_CATEGORIES = {0: "cpu_op", 1: "cpu_op", 7: "user_annotation"}


def trace_events(
    events: Sequence[Any], thread_names: Mapping[int, str], memory: Sequence[tuple[float, int]] = ()
) -> list[dict[str, Any]]:
    """Return the entries of a trace."""
    pid = os.getpid()
    out: list[dict[str, Any]] = [{"ph": "M", "name": "process_name", "pid": pid, "tid": 0, "args": {"name": "python"}}]
    for number in sorted({event.thread for event in events}):
        name = thread_names.get(number, f"thread {number}")
        out.append({"ph": "M", "name": "thread_name", "pid": pid, "tid": number, "args": {"name": name}})
        out.append({"ph": "M", "name": "thread_sort_index", "pid": pid, "tid": number, "args": {"sort_index": number}})
    forward: dict[int, Any] = {}
    for event in events:
        common = {"pid": pid, "tid": event.thread, "ts": event.time_range.start}
        entry = {"ph": "X", "cat": _CATEGORIES.get(event.scope, "cpu_op"), "name": event.name, **common}
        out.append({**entry, "dur": event.time_range.elapsed_us(), "args": _arguments(event)})
        if event.sequence_nr >= 0 and event.scope == 0 and not event.name.startswith("autograd::engine::"):
            forward.setdefault(event.sequence_nr, event)
        elif event.scope == 1 and event.sequence_nr in forward:
            begin = forward[event.sequence_nr]
            arrow = {"cat": "fwdbwd", "name": "fwdbwd", "id": event.id, "pid": pid}
            out.append({"ph": "s", **arrow, "tid": begin.thread, "ts": begin.time_range.start})
            out.append({"ph": "f", "bp": "e", **arrow, "tid": event.thread, "ts": event.time_range.start})
    out += [
        {"ph": "C", "name": "allocated", "pid": pid, "tid": 0, "ts": ts, "args": {"bytes": alive}}
        for ts, alive in memory
    ]
    return out


def _arguments(event: Any) -> dict[str, Any]:
    facts: dict[str, Any] = {"External id": event.id}
    if event.input_shapes:
        facts["Input Dims"] = event.input_shapes
    if event.sequence_nr >= 0:
        facts["Sequence number"] = event.sequence_nr
    if event.fwd_thread:
        facts["Fwd thread id"] = event.fwd_thread
    if event.cpu_memory_usage:
        facts["Bytes"] = event.cpu_memory_usage
    if event.saved_bytes:
        facts["Saved bytes"] = event.saved_bytes
    if event.flops:
        facts["FLOPs"] = event.flops
    if event.stack:
        facts["Call stack"] = ";".join(event.stack)
    return facts


def write_trace(
    path: str | os.PathLike[str], events: Sequence[Any], thread_names: Mapping[int, str], memory: Sequence[Any] = ()
) -> None:
    """Write a trace to a file, compressed if its name ends in .gz."""
    trace = {"schemaVersion": 1, "displayTimeUnit": "ms", "traceEvents": trace_events(events, thread_names, memory)}
    name = os.fspath(path)
    with gzip.open(name, "wt", encoding="utf-8") if name.endswith(".gz") else open(name, "w", encoding="utf-8") as file:
        json.dump(trace, file)
