"""Page-locked memory of the host, from which a GPU reads by itself: a copy from there needs no wait, and no buffer.

What is being read must stay as it is till the copy is done: its owner is kept alive here as long.
"""

from __future__ import annotations

from collections import deque
from typing import Any

import numpy

#: Copies that may be under way: what is done when they are, and what they read.
_under_way: deque[tuple[Any, Any]] = deque()


def pinned_copy(library: Any, array: Any) -> Any:
    """The values of an array of NumPy's in page-locked memory."""
    memory = library.cuda.alloc_pinned_memory(max(1, array.nbytes))
    out = numpy.frombuffer(memory, numpy.uint8, array.nbytes).view(array.dtype).reshape(array.shape)
    out[...] = array
    return out


def is_pinned(array: Any) -> bool:
    """Whether an array of NumPy's lies in page-locked memory."""
    owner = array
    while isinstance(owner, numpy.ndarray):
        owner = owner.base
    if isinstance(owner, memoryview):
        owner = owner.obj
    return owner.__class__.__name__ == "PinnedMemoryPointer"


def sent(library: Any, array: Any) -> Any:
    """A copy of a page-locked array on the current device; the host goes on meanwhile."""
    out, stream = library.empty(array.shape, array.dtype), library.cuda.get_current_stream()
    out.data.copy_from_host_async(array.ctypes.data, array.nbytes, stream)
    keep_until_done(stream, array)
    return out


def keep_until_done(stream: Any, what: Any) -> None:
    """Keep something alive until a stream has done all that is in it now."""
    while _under_way and _under_way[0][0].done:
        _under_way.popleft()
    _under_way.append((stream.record(), what))
