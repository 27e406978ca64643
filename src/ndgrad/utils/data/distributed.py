"""A sampler that gives each of several processes its own part of a dataset."""

from __future__ import annotations

import math
from collections.abc import Iterator
from typing import Any

from ndgrad._src.arrays.generator import Generator
from ndgrad._src.tensor.functions.random import randperm
from ndgrad.utils.data.sampler import Sampler

__all__ = ["DistributedSampler"]


class DistributedSampler(Sampler[int]):
    """The indices of a dataset for one of several processes, shuffled alike in all of them.

    Call `set_epoch` before each epoch, or each has the same order.

    Args:
        dataset: dataset with a length.
        num_replicas: number of processes. The default is the size of the process group.
        rank: number of this process. The default is its rank.
        shuffle: whether the order is random.
        seed: seed of the order, the same in all processes.
        drop_last: whether the last indices are left out so that all processes get the same number. Otherwise the first
            ones are used again.

    >>> import ndgrad
    >>> from ndgrad.utils.data import DistributedSampler
    >>> [list(DistributedSampler(range(5), 2, rank, shuffle=False)) for rank in (0, 1)]
    [[0, 2, 4], [1, 3, 0]]
    """

    def __init__(
        self,
        dataset: Any,
        num_replicas: int | None = None,
        rank: int | None = None,
        shuffle: bool = True,
        seed: int = 0,
        drop_last: bool = False,
    ) -> None:
        if num_replicas is None or rank is None:
            from ndgrad.distributed import get_rank, get_world_size  # not needed if both are given

            num_replicas = get_world_size() if num_replicas is None else num_replicas
            rank = get_rank() if rank is None else rank
        if not 0 <= rank < num_replicas:
            raise ValueError(f"Invalid rank {rank}, rank should be in the interval [0, {num_replicas - 1}] [nd-rank]")
        self.dataset, self.num_replicas, self.rank = dataset, num_replicas, rank
        self.shuffle, self.seed, self.drop_last, self.epoch = shuffle, seed, drop_last, 0
        size = len(dataset)
        uneven = drop_last and size % num_replicas
        self.num_samples = math.ceil((size - num_replicas) / num_replicas) if uneven else math.ceil(size / num_replicas)
        self.total_size = self.num_samples * num_replicas

    def __iter__(self) -> Iterator[int]:
        size = len(self.dataset)
        if self.shuffle:
            indices = randperm(size, generator=Generator().manual_seed(self.seed + self.epoch)).tolist()
        else:
            indices = list(range(size))
        while indices and len(indices) < self.total_size:
            indices += indices[: self.total_size - len(indices)]
        return iter(indices[self.rank : self.total_size : self.num_replicas])

    def __len__(self) -> int:
        return self.num_samples

    def set_epoch(self, epoch: int) -> None:
        """Shuffle in another order from now on.

        Args:
            epoch: number of the epoch, which is added to the seed.
        """
        self.epoch = epoch
