"""Datasets: samples by index (`Dataset`) or as a stream (`IterableDataset`), and datasets built from others."""

from __future__ import annotations

import bisect
import math
from collections.abc import Iterable, Iterator, Sequence
from itertools import accumulate, pairwise
from typing import Any, Generic, TypeVar

from ndgrad._src.arrays.generator import Generator, default_generator
from ndgrad._src.ops.random import source_of
from ndgrad._src.tensor.tensor_class import Tensor

T_co = TypeVar("T_co", covariant=True)
T = TypeVar("T")


class Dataset(Generic[T_co]):
    """Samples by index. A subclass has `__getitem__`, and `__len__` if a sampler or a loader needs it. With
    `__getitems__`, which takes a list of indices, a loader gets a batch by one call.

    >>> import ndgrad
    >>> class Squares(ndgrad.utils.data.Dataset):
    ...     def __len__(self):
    ...         return 4
    ...     def __getitem__(self, index):
    ...         return index**2
    >>> [Squares()[i] for i in range(4)]
    [0, 1, 4, 9]
    """

    def __getitem__(self, index: Any) -> T_co:
        raise NotImplementedError(
            f"{type(self).__name__} has no __getitem__, by which a dataset gives samples. Define it. [nd-define]"
        )

    def __add__(self, other: Dataset[Any]) -> ConcatDataset[Any]:
        return ConcatDataset([self, other])


class IterableDataset(Dataset[T_co], Iterable[T_co]):
    """Samples as a stream: a file, a generator. A subclass has `__iter__`. Each worker of a loader iterates from the
    beginning, so the dataset must divide the work by `get_worker_info`.

    >>> import ndgrad
    >>> class Count(ndgrad.utils.data.IterableDataset):
    ...     def __iter__(self):
    ...         return iter(range(3))
    >>> list(Count())
    [0, 1, 2]
    """

    def __iter__(self) -> Iterator[T_co]:
        raise NotImplementedError(
            f"{type(self).__name__} has no __iter__, by which it gives samples. Define it. [nd-define]"
        )

    def __add__(self, other: Dataset[Any]) -> ChainDataset:  # type: ignore[override]  # streams follow each other
        return ChainDataset([self, other])


class TensorDataset(Dataset[tuple[Any, ...]]):
    """The rows of tensors with equal numbers of rows.

    Args:
        *tensors: tensors with equal sizes of the first dimension.

    >>> import ndgrad
    >>> data = ndgrad.utils.data.TensorDataset(ndgrad.arange(6).reshape(3, 2), ndgrad.tensor([0, 1, 0]))
    >>> len(data), data[1]
    (3, (tensor([2, 3]), tensor(1)))
    """

    tensors: tuple[Tensor, ...]

    def __init__(self, *tensors: Tensor) -> None:
        sizes = [int(t.shape[0]) for t in tensors]
        if not tensors or len(set(sizes)) > 1:
            raise ValueError(
                f"TensorDataset: the tensors have {sizes} rows. "
                "Give at least one, and all of the same first dimension. [nd-loader]"
            )
        self.tensors = tensors

    def __getitem__(self, index: Any) -> tuple[Any, ...]:
        return tuple([t[index] for t in self.tensors])

    def __len__(self) -> int:
        return int(self.tensors[0].shape[0])


class StackDataset(Dataset[Any]):
    """Samples of several datasets combined, as a tuple, or for datasets given by name as a dict.

    Args:
        *args: datasets of equal length, whose samples become tuples.
        **kwargs: datasets by name instead, whose samples become dicts.

    >>> import ndgrad
    >>> ndgrad.utils.data.StackDataset(x=[1, 2], y="ab")[1]
    {'x': 2, 'y': 'b'}
    """

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        if bool(args) == bool(kwargs):
            raise ValueError("StackDataset: give datasets by position, or by name, and at least one. [nd-loader]")
        self.datasets: Any = args or kwargs
        every = list(args or kwargs.values())
        self._length = len(every[0])
        if any(len(d) != self._length for d in every):
            raise ValueError(
                f"StackDataset: the datasets have {[len(d) for d in every]} samples. Give equally many. [nd-loader]"
            )

    def __getitem__(self, index: Any) -> Any:
        if isinstance(self.datasets, dict):
            return {name: dataset[index] for name, dataset in self.datasets.items()}
        return tuple([dataset[index] for dataset in self.datasets])

    def __len__(self) -> int:
        return self._length


class ConcatDataset(Dataset[T_co]):
    """Concatenated datasets.

    Args:
        datasets: datasets with lengths.

    >>> import ndgrad
    >>> both = ndgrad.utils.data.ConcatDataset([[1, 2], [3]])
    >>> len(both), both[2], both[-3]
    (3, 3, 1)
    """

    def __init__(self, datasets: Iterable[Any]) -> None:
        self.datasets = list(datasets)
        if not self.datasets:
            raise ValueError("ConcatDataset: there is no dataset. Give at least one. [nd-loader]")
        if any(isinstance(d, IterableDataset) for d in self.datasets):
            raise TypeError(
                "ConcatDataset: an IterableDataset has no indices. Use ChainDataset, or `+`, for those. [nd-loader]"
            )
        self.cumulative_sizes = list(accumulate(len(d) for d in self.datasets))

    def __getitem__(self, index: int) -> Any:
        length = len(self)
        if not -length <= index < length:
            raise IndexError(f"ConcatDataset: index {index} is out of range for {length} samples. [nd-index]")
        index %= length
        which = bisect.bisect_right(self.cumulative_sizes, index)
        return self.datasets[which][index - (self.cumulative_sizes[which - 1] if which else 0)]

    def __len__(self) -> int:
        return self.cumulative_sizes[-1]


class ChainDataset(IterableDataset[Any]):
    """Concatenated streams.

    Args:
        datasets: streams, one after another.

    >>> import ndgrad
    >>> list(ndgrad.utils.data.ChainDataset([range(2), range(1)]))
    [0, 1, 0]
    """

    def __init__(self, datasets: Iterable[Any]) -> None:
        self.datasets = datasets

    def __iter__(self) -> Iterator[Any]:
        for dataset in self.datasets:
            yield from dataset

    def __len__(self) -> int:
        return sum(len(dataset) for dataset in self.datasets)


class Subset(Dataset[T_co]):
    """The samples of a dataset at some indices.

    Args:
        dataset: dataset to read.
        indices: indices of the samples in it.

    >>> import ndgrad
    >>> list(ndgrad.utils.data.Subset("abcd", [3, 1]))
    ['d', 'b']
    """

    def __init__(self, dataset: Any, indices: Sequence[int]) -> None:
        self.dataset = dataset
        self.indices = indices

    def __getitem__(self, index: Any) -> Any:
        if isinstance(index, list):
            return self.dataset[[self.indices[i] for i in index]]
        return self.dataset[self.indices[index]]

    def __getitems__(self, indices: list[int]) -> list[Any]:
        named = [self.indices[i] for i in indices]
        several = getattr(self.dataset, "__getitems__", None)
        return list(several(named)) if callable(several) else [self.dataset[i] for i in named]

    def __len__(self) -> int:
        return len(self.indices)


def random_split(
    dataset: Any, lengths: Sequence[float], generator: Generator | None = default_generator
) -> list[Subset[Any]]:
    """Split a dataset at random into parts.

    Args:
        dataset: dataset with a length.
        lengths: sizes of the parts, or fractions that add up to one. Fractions are rounded down, and the first parts
            get one of the remaining samples each.
        generator: source of random numbers. The default is the global generator.

    >>> import ndgrad
    >>> [len(part) for part in ndgrad.utils.data.random_split(range(10), [0.5, 0.25, 0.25])]
    [6, 2, 2]
    """
    count = len(dataset)
    if lengths and math.isclose(sum(lengths), 1) and sum(lengths) <= 1 and all(0 <= part <= 1 for part in lengths):
        sizes = [math.floor(count * part) for part in lengths]
        for i in range(count - sum(sizes)):
            sizes[i % len(sizes)] += 1
    else:
        sizes = [int(n) for n in lengths]
    if sum(sizes) != count or any(n < 0 for n in sizes):
        raise ValueError(
            f"random_split: lengths {list(lengths)} of a dataset of {count}. Sum of input lengths does not equal "
            "the length of the input dataset: give lengths that add up to it, or fractions that add up to one. "
            "[nd-shape]"
        )
    order = source_of(generator).permutation((count,)).tolist()
    ends = [0, *accumulate(sizes)]
    return [Subset(dataset, order[start:stop]) for start, stop in pairwise(ends)]
