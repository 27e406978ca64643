"""torch's `distributed.algorithms.join`: a block in which ranks may have different numbers of batches.

The collectives of a training step belong to objects such as a data parallel module or an optimizer. The first of these
objects notifies the block once per step, and the ranks exchange which of them have a batch. A rank whose block has
ended calls the main hooks of the objects, which make the same collectives as a step of the other ranks, until no rank
has a batch. Then every rank calls the last hooks.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from types import TracebackType
from typing import TYPE_CHECKING, Any

import numpy as np

from ndgrad._src.foundations.missing_names import refuse_absent as _refuse_absent
from ndgrad.distributed import transport

if TYPE_CHECKING:
    from ndgrad.distributed.groups import ProcessGroup

__all__ = ["Join", "JoinHook", "Joinable"]


class JoinHook:
    """Calls of a rank that has no more batches. Subclasses override one or both."""

    def main_hook(self) -> None:
        """Make the collectives of one step of the ranks that have a batch."""

    def post_hook(self, is_last_joiner: bool) -> None:
        """End the block, after the last batch of all ranks.

        Args:
            is_last_joiner: whether this rank had a batch in the last step.
        """


class Joinable(ABC):
    """Base class of objects that make collectives in each step of a training loop."""

    #: The open block, or None.
    _join: Join | None = None

    @abstractmethod
    def join_hook(self, **kwargs: Any) -> JoinHook:
        """Return the calls of a rank that has no more batches.

        Args:
            kwargs: settings that were given to `Join`.
        """

    @property
    @abstractmethod
    def join_device(self) -> Any:
        """Device on which collectives of the block run."""

    @property
    @abstractmethod
    def join_process_group(self) -> ProcessGroup:
        """Group whose ranks take part."""


class Join:
    """Block for training with different numbers of batches on the ranks.

    Args:
        joinables: objects that make the collectives of a step, in the order of their collectives. All have one group.
        enable: whether the block does anything.
        throw_on_early_termination: whether all ranks raise when one has no more batches.
        kwargs: settings for the objects, such as `divide_by_initial_world_size` of data parallel modules.

    >>> import ndgrad
    >>> from ndgrad.distributed.algorithms.join import Join
    >>> ndgrad.distributed.init_process_group()
    >>> net = ndgrad.nn.parallel.DistributedDataParallel(ndgrad.nn.Linear(2, 1))
    >>> with Join([net]):
    ...     for batch in [ndgrad.ones(3, 2)]:
    ...         net(batch).sum().backward()
    >>> ndgrad.distributed.destroy_process_group()
    """

    def __init__(
        self, joinables: list[Joinable], enable: bool = True, throw_on_early_termination: bool = False, **kwargs: Any
    ) -> None:
        if not joinables:
            raise ValueError("The join context manager requires at least one joinable. [nd-arguments]")
        groups = {id(j.join_process_group): j.join_process_group for j in joinables}
        if len(groups) > 1:
            raise ValueError(
                "Using join context manager with multiple process groups: all objects must have one group. [nd-rank]"
            )
        self._joinables = list(joinables)
        self._group: ProcessGroup = joinables[0].join_process_group
        self._enabled = enable and self._group.size() > 1
        self._throws = throw_on_early_termination
        self._hooks = [j.join_hook(**kwargs) for j in joinables]
        #: The ranks that had a batch in the last step.
        self.active: list[int] = list(range(self._group.size()))

    def __enter__(self) -> None:
        for joinable in self._joinables:
            joinable._join = self if self._enabled else None

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        try:
            if self._enabled and kind is None:
                while self._exchange(False):
                    for hook in self._hooks:
                        hook.main_hook()
                is_last = self._group.rank() in self.active
                for hook in self._hooks:
                    hook.post_hook(is_last)
        finally:
            for joinable in self._joinables:
                joinable._join = None

    def _exchange(self, has_batch: bool) -> list[int]:
        """Return the ranks that have a batch."""
        flags = np.zeros(self._group.size(), np.uint8)
        transport.all_gather(self._group, flags, np.array([has_batch], np.uint8)).wait()
        found = [int(r) for r in np.flatnonzero(flags)]
        if self._throws and len(found) < self._group.size():
            raise RuntimeError(
                f"Detected at least one rank that exhausted inputs. Throwing across all ranks: ranks {found} of "
                f"{self._group.size()} have a batch. Give all ranks as many, or leave throw_on_early_termination out. "
                "[nd-data-parallel]"
            )
        if found:
            self.active = found
        return found

    @staticmethod
    def notify_join_context(joinable: Joinable) -> None:
        """Announce a step of this rank, before its collectives. Only the first object of the block sends anything.

        Args:
            joinable: object whose collectives follow.
        """
        block = joinable._join
        if block is not None and block._joinables[0] is joinable:
            block._exchange(True)


_refuse_absent(__name__)
