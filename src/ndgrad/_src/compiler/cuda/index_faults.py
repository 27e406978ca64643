"""Detect indices out of bounds on the device itself, because a check on the host would wait for all earlier work.

A kernel that finds an index out of bounds leaves a note in memory that the host can read: the number of the call, and
the index. The host reads it when values are copied there (ndgrad._src.arrays.device_faults), which waits for the device
anyway. Until then, values computed from such an index are NaN, zero or those of another element. Optimizer steps change
nothing: they first check a flag on the device that is set with the note.
"""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import Any

import numpy as np

from ndgrad._src.arrays import device_faults, graph_recording, library
from ndgrad._src.compiler.cuda import launch
from ndgrad._src.compiler.cuda.elementwise import BYTES, THREADS
from ndgrad._src.compiler.cuda.values import PRELUDE
from ndgrad._src.debug.source_lines import innermost, user_frames

#: The C types of indices, by the characters of their dtypes.
INTEGERS = {
    "b": "signed char", "B": "unsigned char", "h": "short", "i": "int", "l": "long long", "q": "long long",
}  # fmt: skip

#: The same with other types that may be checked.
_NUMBERS = {**INTEGERS, "?": "bool", "f": "float", "d": "double"}

NOTE = """
struct Note { long long* host; unsigned long long* flag; long long call; };
__device__ inline void leave(Note note, long long index) {
    if (atomicExch(note.flag, 1ull)) return;  // the first one is enough
    note.host[1] = index;
    __threadfence_system();
    note.host[0] = note.call;
}
"""

_CHECK = """
struct Arguments { long long n; const I* index; long long low; long long high; Note note; };
extern "C" __global__ void __launch_bounds__(256) kernel(const Arguments a) {
    const long long i = (long long)blockIdx.x * 256 + threadIdx.x;
    if (i >= a.n) return;
    const long long at = a.index[i];
    if (at < a.low || at >= a.high) leave(a.note, at);
}
"""

_TARGETS = """
struct Arguments { long long n; const I* index; long long low; long long high; Note note; long long ignored;
                   long long* safe; bool* counted; };
extern "C" __global__ void __launch_bounds__(256) kernel(const Arguments a) {
    const long long i = (long long)blockIdx.x * 256 + threadIdx.x;
    if (i >= a.n) return;
    const long long at = a.index[i];
    const bool counted = at != a.ignored, inside = at >= a.low && at < a.high;
    if (counted && !inside) leave(a.note, at);
    a.safe[i] = counted && inside ? at : 0;
    a.counted[i] = counted;
}
"""

_WRAP = """
struct Arguments { long long n; const I* index; long long low; long long high; Note note; long long* wrapped; };
extern "C" __global__ void __launch_bounds__(256) kernel(const Arguments a) {
    const long long i = (long long)blockIdx.x * 256 + threadIdx.x;
    if (i >= a.n) return;
    const long long at = a.index[i];
    if (at < a.low || at >= a.high) leave(a.note, at);
    a.wrapped[i] = at < 0 ? at + a.high : at;
}
"""

_FALSE = """
struct Arguments { long long n; const I* index; long long low; long long high; Note note; };
extern "C" __global__ void __launch_bounds__(256) kernel(const Arguments a) {
    const long long i = (long long)blockIdx.x * 256 + threadIdx.x;
    if (i < a.n && a.index[i] != 0) leave(a.note, (long long)a.index[i] >> 1);
}
"""

_ROWS = """
struct Arguments { long long n; const I* index; long long low; long long high; Note note; long long length;
                   const Some* table; Some* out; };
extern "C" __global__ void __launch_bounds__(256) kernel(const Arguments a) {
    const long long i = (long long)blockIdx.x * 256 + threadIdx.x;
    if (i >= a.n) return;
    const long long at = a.index[i / a.length];
    if (at < a.low || at >= a.high) { leave(a.note, at); return; }
    a.out[i] = a.table[at * a.length + i % a.length];
}
"""
_SOURCES = {"check": (_CHECK, ""), "false": (_FALSE, ""), "targets": (_TARGETS, "3q"), "wrap": (_WRAP, "q"), "rows": (_ROWS, "3q")}
_WIDTHS = {16: "uint4", 8: "unsigned long long", 4: "unsigned int", 2: "unsigned short", 1: "unsigned char"}


class Notes:
    """The notes of one device for the host, and the calls that they refer to."""

    def __init__(self) -> None:
        found = library.device_library
        self._memory = found.cuda.alloc_pinned_memory(16)
        self.host = np.frombuffer(self._memory, np.int64, 2)
        self.host[:] = 0
        self.flag = found.zeros(1, np.uint64)
        self.calls: dict[int, tuple[Callable[[int], Exception], Any]] = {}
        #: the same for calls that graphs repeat
        self.recorded: dict[int, tuple[Callable[[int], Exception], Any]] = {}
        self._last = 0
        self._is_pending = False

    def words(self, error: Callable[[int], Exception]) -> tuple[int, int, int]:
        """Return the words for a kernel, for a call whose exception is made by `error` from an index."""
        self._last += 1
        if graph_recording.active is None:
            self.calls[self._last] = error, user_frames()
            self.expect()
        else:
            self.recorded[self._last] = error, user_frames()
            graph_recording.active.before_replay.append(self.expect)
        return int(self._memory.ptr), int(self.flag.data.ptr), self._last

    def expect(self) -> None:
        """Check the device when values are next copied to the host."""
        if not self._is_pending:
            self._is_pending = True
            device_faults.pending.append(self.settle)

    def settle(self) -> None:
        """Wait for the device, and raise the noted error."""
        self._is_pending = False
        with self.flag.device:
            library.device_library.cuda.get_current_stream().synchronize()
            call, index = self.host.tolist()
            calls, self.calls = self.calls, {}
            if not call:
                return
            self.host[:] = 0
            self.flag.fill(0)
        error, frames = calls[call] if call in calls else self.recorded[call]
        raised = error(index)
        place = innermost(frames)
        if place is not None:
            raised.add_note(f"The GPU found it when the call had returned, which was made at {place}.")
        raise raised


@functools.lru_cache(maxsize=16)
def notes(device: int) -> Notes:
    """Return the notes of a device."""
    return Notes()


@functools.lru_cache(maxsize=64)
def _kernel(name: str, char: str, device: int, width: int = 1) -> launch.Kernel:
    body, more = _SOURCES[name]
    types = f"typedef {_NUMBERS[char]} I; typedef {_WIDTHS[width]} Some;"
    return launch.Kernel(PRELUDE + types + NOTE + body, f"7q{more}")


def takes(index: Any) -> bool:
    """True if the device can check an array of indices."""
    return index.dtype.char in INTEGERS and index._c_contiguous and index.size > 0


def check(index: Any, low: int, high: int, error: Callable[[int], Exception]) -> bool:
    """Let the device check for an index outside of [low, high). Return False if it cannot."""
    if not takes(index):
        return False
    device, count = index.data.device_id, index.size
    words = count, index.data.ptr, low, high, *notes(device).words(error)
    _kernel("check", index.dtype.char, device)(-(-count // THREADS), THREADS, *words)
    return True


def refuse_later(array: Any, error: Callable[[int], Exception]) -> None:
    """Let the device search for a number 2 n + 1 among zeros; `error` takes n."""
    device, count = array.data.device_id, array.size
    words = count, array.data.ptr, 0, 0, *notes(device).words(error)
    _kernel("false", array.dtype.char, device)(-(-count // THREADS), THREADS, *words)


def targets(index: Any, classes: int, ignored: int, error: Callable[[int], Exception]) -> tuple[Any, Any] | None:
    """Return class numbers with 0 for ignored ones, and the mask of those that count; None if the device cannot check
    them.
    """
    if not takes(index):
        return None
    safe, counted = launch.new(index.shape, np.dtype(np.int64)), launch.new(index.shape, np.dtype(np.bool_))
    device, count = index.data.device_id, index.size
    words = count, index.data.ptr, 0, classes, *notes(device).words(error), ignored, safe.data.ptr, counted.data.ptr
    _kernel("targets", index.dtype.char, device)(-(-count // THREADS), THREADS, *words)
    return safe, counted


def wrap_index(index: Any, size: int, error: Callable[[int], Exception]) -> Any:
    """Return indices in [-size, size) as indices from the start; None if the device cannot check them."""
    if not takes(index):
        return None
    out, device, count = launch.new(index.shape, np.dtype(np.int64)), index.data.device_id, index.size
    words = count, index.data.ptr, -size, size, *notes(device).words(error), out.data.ptr
    _kernel("wrap", index.dtype.char, device)(-(-count // THREADS), THREADS, *words)
    return out


def rows(table: Any, index: Any, error: Callable[[int], Exception]) -> Any:
    """Return the rows of a table that indices name; None if it is left to CuPy."""
    if not takes(index) or not table._c_contiguous or not table.size or not table.ndim:
        return None
    size = table.nbytes // len(table)
    width = BYTES
    while (table.data.ptr | size) % width:
        width //= 2
    out = launch.new((*index.shape, *table.shape[1:]), table.dtype)
    device, length = index.data.device_id, size // width
    count = index.size * length
    words = count, index.data.ptr, 0, len(table), *notes(device).words(error), length, table.data.ptr, out.data.ptr
    _kernel("rows", index.dtype.char, device, width)(-(-count // THREADS), THREADS, *words)
    return out
