"""torch's path to the events of a profile, which are in ndgrad.profiler."""

from ndgrad.profiler.events import (
    EventList,
    FunctionEvent,
    FunctionEventAvg,
    Interval,
    _format_memory,
    _format_time,
    _format_time_share,
)

__all__ = [
    "EventList", "FunctionEvent", "FunctionEventAvg", "Interval", "_format_memory", "_format_time",
    "_format_time_share",
]  # fmt: skip
