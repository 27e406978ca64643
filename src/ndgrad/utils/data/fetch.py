"""Batches from the output of a sampler, in this process or in a worker."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from itertools import islice
from typing import Any

from ndgrad.utils.data.dataset import IterableDataset

#: Marker of an ended stream, in place of a batch.
END = "the stream has ended"


class Fetch:
    """Makes batches of a dataset's samples. For indices, `task` is a list of them, or one without automatic collation;
    for a stream it is the number of samples, None for a single one.
    """

    def __init__(self, dataset: Any, collates: bool, collate_fn: Callable[[Any], Any], drop_last: bool) -> None:
        self.dataset = dataset
        self.collates = collates
        self.collate_fn = collate_fn
        self.drop_last = drop_last
        self.samples: Iterator[Any] | None = iter(dataset) if isinstance(dataset, IterableDataset) else None

    def __call__(self, task: Any) -> Any:
        """Return the batch, or END."""
        found = self._take(task) if self.samples is not None else self._look_up(task)
        return found if isinstance(found, str) and found is END else self.collate_fn(found)

    def _look_up(self, task: Any) -> Any:
        if not self.collates:
            return self.dataset[task]
        several = getattr(self.dataset, "__getitems__", None)
        return several(task) if callable(several) else [self.dataset[i] for i in task]

    def _take(self, count: int | None) -> Any:
        assert self.samples is not None
        if count is None:
            return next(self.samples, END)
        batch = list(islice(self.samples, count))
        return END if not batch or (self.drop_last and len(batch) < count) else batch
