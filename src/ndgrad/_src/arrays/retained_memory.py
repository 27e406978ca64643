"""Freed memory that the process keeps, so that the next array need not ask the kernel for pages again.

A training step allocates and frees the same tens of megabytes over and over. The C library's allocator gives the top
of its heap back whenever much of it is free, so every step pays for fresh pages: on the transformer and the
convolutional network of our benchmarks that is a fifth and a third of the time. glibc can be told to keep more;
other C libraries cannot, and there this file does nothing. The setting holds for the whole process, so it is made
where the same memory is about to be asked for again and again, with the first optimizer and with the first compiled
function whose results are large, and not when ndgrad is imported; `set_retained_memory` chooses at any time, and the
environment variable NDGRAD_RETAINED_MEMORY (bytes) says what these shall choose, where 0 leaves the allocator alone.
"""

from __future__ import annotations

import os

DEFAULT = 256 << 20

# Names and numbers of glibc's malloc.h; larger thresholds for mmap than 32 MB are refused.
_M_TRIM_THRESHOLD, _M_MMAP_THRESHOLD = -1, -3
_LARGEST_ON_THE_HEAP = 32 << 20
_AS_IT_STARTS = 128 << 10

_retained = 0
#: Whether somebody has chosen.
_chosen = False


def set_retained_memory(nbytes: int) -> bool:
    """Let the process keep up to `nbytes` of freed memory for the arrays to come; whether the C
    library takes such a wish.

    Arrays above 32 MB always go back to the system at once. 0 asks for the thresholds that glibc starts with.

    >>> import ndgrad
    >>> before = ndgrad.get_retained_memory()
    >>> done = ndgrad.set_retained_memory(before)
    """
    global _retained, _chosen
    if isinstance(nbytes, bool) or not isinstance(nbytes, int) or not 0 <= nbytes < 1 << 31:
        raise ValueError(
            f"set_retained_memory expects a number of bytes below 2**31, and got {nbytes!r}. The default is {DEFAULT}. "
            "[nd-range]"
        )
    _chosen = True
    from ctypes import CDLL  # NumPy has loaded it already

    try:
        mallopt = CDLL(None).mallopt
    except (AttributeError, OSError, TypeError):  # no glibc
        return False
    largest = _LARGEST_ON_THE_HEAP if nbytes else _AS_IT_STARTS
    taken = bool(mallopt(_M_MMAP_THRESHOLD, largest) and mallopt(_M_TRIM_THRESHOLD, nbytes or _AS_IT_STARTS))
    if taken:
        _retained = nbytes
    return taken


def get_retained_memory() -> int:
    """How many bytes of freed memory ndgrad asked the allocator to keep; 0 when it did not ask.

    >>> import ndgrad
    >>> ndgrad.get_retained_memory() >= 0
    True
    """
    return _retained


def retain_by_default() -> None:
    """Apply the environment's wish, or the default, unless a choice has been made: called when an
    optimizer is made, or a compiled function with large results."""
    global _chosen
    if _chosen:
        return
    wish = os.environ.get("NDGRAD_RETAINED_MEMORY", str(DEFAULT))
    if not wish.isdecimal():
        raise ValueError(
            f"NDGRAD_RETAINED_MEMORY is {wish!r}, which is no number of bytes. "
            "Unset it, or give one; 0 changes nothing. [nd-environment]"
        )
    _chosen = True
    if int(wish):
        set_retained_memory(int(wish))
