"""torch's `distributed.tensor.debug`: counts of the collectives in a block of code."""

from __future__ import annotations

from collections import Counter
from typing import Self

from ndgrad._src.foundations.missing_names import refuse_absent as _refuse_absent
from ndgrad.distributed.tensor.planning import forget_plans
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
    (Counter({'all_reduce': 1}), 0)
    >>> ndgrad.distributed.destroy_process_group()
    """

    def __enter__(self) -> Self:
        self.calls.clear()
        self.sent.clear()
        counters.append(self)
        return self

    def __exit__(self, *exc: object) -> None:
        counters.remove(self)

    @property
    def comm_counts(self) -> Counter[str]:
        """The number of calls of each collective; 0 for others."""
        return self.calls

    def get_comm_counts(self) -> Counter[str]:
        """Return the number of calls of each collective by its name. Names under `ops.c10d_functional` are keys
        too.
        """
        return Counter(self.calls)

    def get_total_counts(self) -> int:
        """Return the total number of collectives."""
        return sum(self.calls.values())


def _clear_sharding_prop_cache() -> None:
    """Forget the plans of ops on DTensors; they are made again."""
    forget_plans()


_clear_fast_path_sharding_prop_cache = _clear_sharding_prop_cache

_refuse_absent(__name__)
