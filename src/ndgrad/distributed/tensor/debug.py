"""torch's `distributed.tensor.debug`: which collectives a block of code makes."""

from __future__ import annotations

from typing import Self

from ndgrad._src.foundations.missing_names import refuse_absent as _refuse_absent
from ndgrad.distributed.traffic import Traffic, counters

__all__ = ["CommDebugMode"]


class CommDebugMode(Traffic):
    """A block whose collectives on this rank are counted, with the bytes that they send.

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
        """How many of each collective."""
        return dict(self.calls)

    def get_total_counts(self) -> int:
        """How many collectives."""
        return sum(self.calls.values())


_refuse_absent(__name__)
