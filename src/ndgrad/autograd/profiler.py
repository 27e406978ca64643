"""torch's path to the profiler, which is in ndgrad.profiler."""

from ndgrad.profiler.events import EventList, FunctionEvent, FunctionEventAvg
from ndgrad.profiler.nvtx_ranges import emit_nvtx
from ndgrad.profiler.timing import _is_profiling, kineto_available, profile, record_function

__all__ = [
    "EventList", "FunctionEvent", "FunctionEventAvg", "_is_profiling", "emit_nvtx", "kineto_available", "profile",
    "record_function",
]  # fmt: skip
