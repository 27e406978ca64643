"""Samplers: the order of samples, as single indices or batches of them."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence, Sized
from typing import Any, Generic, TypeVar

import numpy as np

from ndgrad._src.arrays.generator import Generator
from ndgrad._src.arrays.host_draws import multinomial, random
from ndgrad._src.ops.random import source_of

T_co = TypeVar("T_co", covariant=True)

INT64 = np.dtype(np.int64)


def draw_seed(generator: Generator | None = None) -> int:
    """Return a random seed of 63 bits."""
    return int(random(source_of(generator), (), INT64, low=0, high=1 << 63))


class Sampler(Generic[T_co]):
    """Base class: yields indices of samples by `__iter__`; a subclass of known length has `__len__`.

    >>> import ndgrad
    >>> class Backwards(ndgrad.utils.data.Sampler):
    ...     def __init__(self, data):
    ...         self.data = data
    ...     def __iter__(self):
    ...         return iter(reversed(range(len(self.data))))
    >>> list(Backwards("abc"))
    [2, 1, 0]
    """

    def __iter__(self) -> Iterator[T_co]:
        raise NotImplementedError(
            f"{type(self).__name__} has no __iter__, by which a sampler gives indices. Define it. [nd-define]"
        )


class SequentialSampler(Sampler[int]):
    """The indices in order.

    Args:
        data_source: dataset, or any object with a length.

    >>> import ndgrad
    >>> list(ndgrad.utils.data.SequentialSampler("abc"))
    [0, 1, 2]
    """

    def __init__(self, data_source: Sized) -> None:
        self.data_source = data_source

    def __iter__(self) -> Iterator[int]:
        return iter(range(len(self.data_source)))

    def __len__(self) -> int:
        return len(self.data_source)


class RandomSampler(Sampler[int]):
    """The indices in a random order.

    Args:
        data_source: dataset, or any object with a length.
        replacement: whether indices are drawn one by one, so that some may occur twice.
        num_samples: number of indices. The default is the length of the dataset. Without replacement, a larger number
            gives several orders in succession.
        generator: source of random numbers. The default is a new generator for each pass, seeded by the global one.

    >>> import ndgrad
    >>> sorted(ndgrad.utils.data.RandomSampler("abc"))
    [0, 1, 2]
    """

    def __init__(
        self,
        data_source: Sized,
        replacement: bool = False,
        num_samples: int | None = None,
        generator: Generator | None = None,
    ) -> None:
        _check_bool("RandomSampler", "replacement", replacement)
        if num_samples is not None:
            _check_positive("RandomSampler", "num_samples", num_samples)
        self.data_source = data_source
        self.replacement = replacement
        self.generator = generator
        self._num_samples = num_samples

    @property
    def num_samples(self) -> int:
        return len(self.data_source) if self._num_samples is None else self._num_samples

    def __iter__(self) -> Iterator[int]:
        generator, count, left = self.generator, len(self.data_source), self.num_samples
        if generator is None:
            generator = Generator().manual_seed(draw_seed())
        source = source_of(generator)
        if self.replacement:
            while left > 0:  # in torch's portions
                yield from random(source, (min(left, 32),), INT64, low=0, high=count).tolist()
                left -= 32
            return
        for _ in range(left // count if count else 0):
            yield from source.permutation((count,)).tolist()
        if count:  # drawn even if nothing is left, as in torch
            yield from source.permutation((count,))[: left % count].tolist()

    def __len__(self) -> int:
        return self.num_samples


class SubsetRandomSampler(Sampler[int]):
    """Given indices, in a random order.

    Args:
        indices: indices to choose from.
        generator: source of random numbers. The default is the global generator.

    >>> import ndgrad
    >>> sorted(ndgrad.utils.data.SubsetRandomSampler([4, 2]))
    [2, 4]
    """

    def __init__(self, indices: Sequence[int], generator: Generator | None = None) -> None:
        self.indices = indices
        self.generator = generator

    def __iter__(self) -> Iterator[int]:
        for i in source_of(self.generator).permutation((len(self.indices),)).tolist():
            yield self.indices[i]

    def __len__(self) -> int:
        return len(self.indices)


class WeightedRandomSampler(Sampler[int]):
    """Indices drawn with the given weights, which need not add up to one.

    Args:
        weights: weights of the indices, at least 0, which need not add up to one.
        num_samples: number of indices.
        replacement: whether an index may be drawn twice.
        generator: source of random numbers. The default is the global generator.

    >>> import ndgrad
    >>> list(ndgrad.utils.data.WeightedRandomSampler([0.0, 3.0, 0.0], 2))
    [1, 1]
    """

    def __init__(
        self, weights: Any, num_samples: int, replacement: bool = True, generator: Generator | None = None
    ) -> None:
        _check_positive("WeightedRandomSampler", "num_samples", num_samples)
        _check_bool("WeightedRandomSampler", "replacement", replacement)
        self.weights = np.asarray(weights, np.float64)
        if self.weights.ndim != 1 or not np.all(self.weights >= 0) or not 0 < self.weights.sum() < np.inf:
            raise ValueError(
                f"WeightedRandomSampler: weights of shape {self.weights.shape} must be finite numbers in one "
                "dimension, none of them negative and not all zero. [nd-values]"
            )
        if not replacement and num_samples > np.count_nonzero(self.weights):
            raise ValueError(
                f"WeightedRandomSampler: {num_samples} different samples of {np.count_nonzero(self.weights)} that have "
                "a weight. Ask for fewer, or draw with replacement. [nd-range]"
            )
        self.num_samples = num_samples
        self.replacement = replacement
        self.generator = generator

    def __iter__(self) -> Iterator[int]:
        source, weights = source_of(self.generator), self.weights
        given: dict[str, Any] = {"num_samples": self.num_samples, "replacement": self.replacement}
        yield from multinomial(source, weights, weights.dtype, **given).tolist()

    def __len__(self) -> int:
        return self.num_samples


class BatchSampler(Sampler[list[int]]):
    """Batches of the indices of another sampler.

    Args:
        sampler: iterable of indices.
        batch_size: number of indices in a batch.
        drop_last: whether a smaller batch at the end is left out.

    >>> import ndgrad
    >>> list(ndgrad.utils.data.BatchSampler(range(5), 2, drop_last=False))
    [[0, 1], [2, 3], [4]]
    """

    def __init__(self, sampler: Iterable[Any], batch_size: int, drop_last: bool) -> None:
        _check_positive("BatchSampler", "batch_size", batch_size)
        _check_bool("BatchSampler", "drop_last", drop_last)
        self.sampler = sampler
        self.batch_size = batch_size
        self.drop_last = drop_last

    def __iter__(self) -> Iterator[list[Any]]:
        batch: list[Any] = []
        for index in self.sampler:
            batch.append(index)
            if len(batch) == self.batch_size:
                yield batch
                batch = []
        if batch and not self.drop_last:
            yield batch

    def __len__(self) -> int:
        count = len(self.sampler)  # type: ignore[arg-type]  # an iterable without a length raises, as it should
        return count // self.batch_size if self.drop_last else -(-count // self.batch_size)


def _check_positive(who: str, name: str, value: Any) -> None:
    if isinstance(value, bool) or not isinstance(value, (int, np.integer)) or value <= 0:
        raise ValueError(f"{who}: {name} should be a positive integer value, but got {name}={value!r}. [nd-range]")


def _check_bool(who: str, name: str, value: Any) -> None:
    if not isinstance(value, bool):
        raise TypeError(f"{who}: {name} should be a boolean value, but got {name}={value!r}. [nd-type]")
