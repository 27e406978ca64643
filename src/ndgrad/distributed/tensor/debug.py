"""torch's `distributed.tensor.debug`: counts of the collectives in a block of code."""

from __future__ import annotations

from typing import Self

from ndgrad._src.foundations.missing_names import refuse_absent as _refuse_absent
from ndgrad.distributed.traffic import Traffic, counters

__all__ = ["CommDebugMode"]


class CommDebugMode(Traffic):
    """A block that counts this rank's collectives, with the bytes that they send.

    >>> import ndgrad
    >>> from ndgrad.distributed.tensor.debug import CommDebugMode
    >>> ndgrad.distributed.init_process_group()
    >>> with CommDebugMode() as seen:
    ...     ndgrad.distributed.all_reduce(ndgrad.ones(8))
    >>> seen.get_comm_counts(), seen.total()
    ({'all_reduce': 1}, 0)
    >>> ndgrad.distributed.destroy_process_group()
    """

    def __enter__(self) -> Self:
        self.calls.clear()
        self.sent.clear()
        counters.append(self)
        return self

    def __exit__(self, *exc: object) -> None:
        counters.remove(self)

    def get_comm_counts(self) -> dict[str, int]:
        """Return the number of calls of each collective."""
        return dict(self.calls)

    def get_total_counts(self) -> int:
        """Return the total number of collectives."""
        return sum(self.calls.values())


_refuse_absent(__name__)
