"""torch's `multiprocessing`: Python's, with tensors sent through shared memory.

Every name of Python's module is available. A tensor that is put into a queue or a pipe, or passed to a spawned process,
is copied into shared memory, which becomes the receiver's tensor: only its name goes through the pipe. The sender,
whose tensor stays in its memory, does not see the receiver's writes. Use `share_memory_()` before forking for memory
that several processes write.
"""

from __future__ import annotations

import multiprocessing as _standard
from multiprocessing import *  # noqa: F403

from ndgrad._src.foundations.missing_names import refuse_absent as _refuse_absent
from ndgrad.multiprocessing import reductions
from ndgrad.multiprocessing.spawning import (
    ProcessContext,
    ProcessExitedException,
    ProcessRaisedException,
    SpawnContext,
    spawn,
    start_processes,
)

__all__ = [
    *_standard.__all__, "ProcessContext", "ProcessExitedException", "ProcessRaisedException", "SpawnContext",
    "get_all_sharing_strategies", "get_sharing_strategy", "reductions", "set_sharing_strategy", "spawn",
    "start_processes",
]  # fmt: skip


def get_all_sharing_strategies() -> set[str]:
    """Return the strategies of sharing memory: one.

    >>> import ndgrad
    >>> ndgrad.multiprocessing.get_all_sharing_strategies()
    {'file_system'}
    """
    return {"file_system"}


def get_sharing_strategy() -> str:
    """Return 'file_system': shared memory has a name, under which the receiver finds it."""
    return "file_system"


def set_sharing_strategy(new_strategy: str) -> None:
    """Set the strategy of sharing memory: 'file_system'. torch's other one, by file descriptors, raises an error.

    Args:
        new_strategy: `"file_system"`.
    """
    if new_strategy != "file_system":
        raise ValueError(
            f"set_sharing_strategy: {new_strategy!r} is not a strategy here; shared memory goes by name. "
            "Leave it at 'file_system'. [nd-option]"
        )


reductions.init_reductions()
_refuse_absent(__name__)
