"""GPU time: events in its stream before and after a call, and the time between them.

Between the two, the GPU may have waited for the host: if it is faster than the host, the time is the host's.
"""

from __future__ import annotations

from typing import Any

from ndgrad._src.arrays import graph_recording, library


def moment() -> Any:
    """Return the present end of the current stream; None as long as nothing is on a GPU, or while a graph is
    recorded.
    """
    found = library.device_library
    if found is None or graph_recording.active is not None:
        return None
    event = found.cuda.Event()
    event.record()
    return event


def device_time_arguments(first: Any, last: Any) -> dict[str, Any]:
    """Return the arguments of an event for the time between two moments, which may be missing. The GPU has reached
    both.
    """
    if first is None or last is None:
        return {}
    elapsed = library.device_library.cuda.get_elapsed_time(first, last)  # milliseconds
    return {"use_device": "cuda", "device_time_total": float(elapsed) * 1e3}


def wait(is_asked_for: bool) -> None:
    """Wait until the GPU has reached all moments, if there are any."""
    if is_asked_for and library.device_library is not None and graph_recording.active is None:
        library.device_library.cuda.Device().synchronize()
