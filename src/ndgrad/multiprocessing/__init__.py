"""torch's `multiprocessing`: Python's, with tensors that travel through shared memory.

Every name of Python's module is here. A tensor that is put into a queue or a pipe, or given to a process that is
spawned, is laid into shared memory, and the receiver's tensor is that memory: nothing goes through the pipe but where
it lies. What the receiver writes is not seen by the sender, whose tensor stays where it was; memory that several
processes write is made with `share_memory_()` before they are forked.
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
    """The ways in which memory is shared: one.

    >>> import ndgrad
    >>> ndgrad.multiprocessing.get_all_sharing_strategies()
    {'file_system'}
    """
    return {"file_system"}


def get_sharing_strategy() -> str:
    """'file_system': shared memory has a name, under which the receiver finds it."""
    return "file_system"


def set_sharing_strategy(new_strategy: str) -> None:
    """Choose how memory is shared: 'file_system'. torch's other way, by file descriptors, is refused."""
    if new_strategy != "file_system":
        raise ValueError(
            f"set_sharing_strategy: {new_strategy!r} is not a strategy here; shared memory goes by name. "
            "Leave it at 'file_system'. [nd-option]"
        )


reductions.init_reductions()
_refuse_absent(__name__)
