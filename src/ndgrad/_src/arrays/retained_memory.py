"""Freed memory that the process keeps, so that the next array need not request pages from the kernel again.

A training step repeatedly allocates and frees the same tens of megabytes. The C library's allocator returns the top of
its heap whenever much of it is free, so every step pays for fresh pages: a fifth and a third of the time on the
benchmarks' transformer and convolutional network. glibc can be configured to keep more. Other C libraries cannot, and
this file then does nothing.

The setting holds for the whole process. So it is applied when the same memory is about to be requested repeatedly, with
the first optimizer and with the first compiled function with large results, and not when ndgrad is imported.
`set_retained_memory` changes it at any time. The environment variable NDGRAD_RETAINED_MEMORY (bytes) sets the automatic
value; 0 leaves the allocator unchanged.
"""

from __future__ import annotations

import os

from ndgrad._src.foundations.public_path import set_module

DEFAULT = 256 << 20

# Constants of glibc's malloc.h. glibc refuses mmap thresholds above 32 MB.
_M_TRIM_THRESHOLD, _M_MMAP_THRESHOLD = -1, -3
_LARGEST_ON_THE_HEAP = 32 << 20
_AS_IT_STARTS = 128 << 10

_retained = 0
#: True if a value has been set.
_chosen = False


@set_module("ndgrad")
def set_retained_memory(nbytes: int) -> bool:
    """Let the process keep up to `nbytes` of freed memory for new arrays. Return True if the C library supports it.

    Arrays above 32 MB always return to the system at once. 0 restores glibc's initial thresholds.

    Args:
        nbytes: number of bytes, from 0 to 2**31 - 1.

    >>> import ndgrad
    >>> before = ndgrad.get_retained_memory()
    >>> done = ndgrad.set_retained_memory(before)
    """
    global _retained, _chosen
    if isinstance(nbytes, bool) or not isinstance(nbytes, int) or not 0 <= nbytes < 1 << 31:
        raise ValueError(
            f"set_retained_memory expects a number of bytes below 2**31, but got {nbytes!r}. The default is {DEFAULT}. "
            "[nd-range]"
        )
    _chosen = True
    from ctypes import CDLL  # NumPy has loaded ctypes already

    try:
        mallopt = CDLL(None).mallopt
    except (AttributeError, OSError, TypeError):  # no glibc
        return False
    largest = _LARGEST_ON_THE_HEAP if nbytes else _AS_IT_STARTS
    taken = bool(mallopt(_M_MMAP_THRESHOLD, largest) and mallopt(_M_TRIM_THRESHOLD, nbytes or _AS_IT_STARTS))
    if taken:
        _retained = nbytes
    return taken


@set_module("ndgrad")
def get_retained_memory() -> int:
    """Return the number of bytes of freed memory that ndgrad asked the allocator to keep; 0 if it did not ask.

    >>> import ndgrad
    >>> ndgrad.get_retained_memory() >= 0
    True
    """
    return _retained


def retain_by_default() -> None:
    """Apply the environment variable, or the default, unless a value has been set.

    Called for each new optimizer, and for compiled functions with large results.
    """
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
