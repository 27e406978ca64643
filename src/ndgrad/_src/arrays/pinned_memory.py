"""Page-locked host memory, from which a GPU reads directly: a copy from it needs no wait and no buffer.

The memory must not change until the copy is done, so its owner is kept alive here until then.
"""

from __future__ import annotations

from collections import deque
from typing import TYPE_CHECKING, Any

import numpy

if TYPE_CHECKING:
    from ndgrad._typing import Library, Payload

#: Copies that may be in progress: events that mark their end, and the memory they read.
_under_way: deque[tuple[Any, Any]] = deque()


def pinned_copy(library: Library, array: Payload) -> Payload:
    """Return a copy of a NumPy array in page-locked memory."""
    memory = library.cuda.alloc_pinned_memory(max(1, array.nbytes))
    out = numpy.frombuffer(memory, numpy.uint8, array.nbytes).view(array.dtype).reshape(array.shape)
    out[...] = array
    return out


def is_pinned(array: Payload) -> bool:
    """True if a NumPy array is in page-locked memory."""
    owner = array
    while isinstance(owner, numpy.ndarray):
        owner = owner.base
    if isinstance(owner, memoryview):
        owner = owner.obj
    return owner.__class__.__name__ == "PinnedMemoryPointer"


def send(library: Library, array: Payload) -> Payload:
    """Copy a page-locked array to the current device; the host does not wait."""
    out, stream = library.empty(array.shape, array.dtype), library.cuda.get_current_stream()
    out.data.copy_from_host_async(array.ctypes.data, array.nbytes, stream)
    keep_until_done(stream, array)
    return out


def keep_until_done(stream: Any, what: Any) -> None:
    """Keep an object alive until a stream has finished all its current work."""
    while _under_way and _under_way[0][0].done:
        _under_way.popleft()
    _under_way.append((stream.record(), what))
