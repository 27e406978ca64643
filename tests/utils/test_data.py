"""ndgrad.utils.data: datasets, samplers, collating, and loaders with and without workers."""

from __future__ import annotations

import collections
import os
import random
import time
from typing import Any, NamedTuple

import numpy as np
import pytest

import ndgrad
import ndgrad.numpy as dnp
from ndgrad.utils import data
from ndgrad.utils.data import transport


class Pair(NamedTuple):
    x: Any
    y: Any


class Numbers(data.Dataset):
    def __init__(self, count, shape=(2,)):
        self.count, self.shape = count, shape

    def __len__(self):
        return self.count

    def __getitem__(self, index):
        return ndgrad.full(self.shape, float(index)), index


class Stream(data.IterableDataset):
    def __iter__(self):
        info = data.get_worker_info()
        return iter(range(13) if info is None else range(info.id, 13, info.num_workers))


class Failing(Numbers):
    """Raises, ends its process or waits at the third sample."""

    def __init__(self, what):
        super().__init__(6)
        self.what = what

    def __getitem__(self, index):
        if index == 2:
            self.what()
        return index


class Drawn(Numbers):
    def __getitem__(self, index):
        info = data.get_worker_info()
        return random.random(), np.random.rand(), ndgrad.rand(1).item(), info.seed - info.id, info.id


class Odd(Exception):
    def __init__(self, a, b):
        super().__init__(a, b)


# ----- datasets -------------------------------------------------------------------------------------------------------


def test_datasets_made_of_others():
    both = data.ConcatDataset([Numbers(3), Numbers(2)])
    assert [both[i][1] for i in range(5)] == [0, 1, 2, 0, 1]
    assert both[-1][1] == 1
    assert len(Numbers(3) + Numbers(2)) == 5
    with pytest.raises(IndexError, match="index 5 is out of range for 5"):
        both[5]
    assert list(Stream() + Stream()) == [*range(13), *range(13)]
    assert data.StackDataset([1, 2], "ab")[1] == (2, "b")
    part = data.Subset(Numbers(10), [7, 3])
    assert [part[i][1] for i in range(2)] == [7, 3]
    assert [sample[1] for sample in part.__getitems__([1, 0])] == [3, 7]


def test_random_split_is_a_partition_and_follows_its_generator():
    parts = data.random_split(range(10), [0.5, 0.25, 0.25], ndgrad.Generator().manual_seed(1))
    assert [len(p) for p in parts] == [6, 2, 2]
    assert sorted(i for p in parts for i in p) == list(range(10))
    again = data.random_split(range(10), [6, 2, 2], ndgrad.Generator().manual_seed(1))
    assert [list(p) for p in parts] == [list(p) for p in again]
    with pytest.raises(ValueError, match="does not equal the length"):
        data.random_split(range(10), [5, 4])


@pytest.mark.parametrize(
    ("make", "words"),
    [
        (lambda: data.TensorDataset(ndgrad.ones(2), ndgrad.ones(3)), r"\[2, 3\] rows"),
        (lambda: data.TensorDataset(), "at least one"),
        (lambda: data.StackDataset([1], [1, 2]), r"\[1, 2\] samples"),
        (lambda: data.ConcatDataset([]), "no dataset"),
        (lambda: data.Dataset()[0], "has no __getitem__"),
        (lambda: data.RandomSampler("ab", num_samples=0), "positive integer"),
        (lambda: data.WeightedRandomSampler([1.0, -1.0], 2), "none of them negative"),
        (lambda: data.WeightedRandomSampler([1.0, 0.0], 2, replacement=False), "2 different samples of 1"),
        (lambda: data.BatchSampler(range(3), 0, False), "positive integer"),
        (lambda: data.DataLoader([1], shuffle=True, sampler=[0]), "mutually exclusive with shuffle"),
        (lambda: data.DataLoader([1], batch_sampler=[[0]], batch_size=2), "mutually exclusive with batch_size"),
        (lambda: data.DataLoader([1], batch_size=None, drop_last=True), "drop_last"),
        (lambda: data.DataLoader(Stream(), shuffle=True), "IterableDataset decides itself"),
        (lambda: data.DataLoader([1], num_workers=-1), "num_workers is -1"),
        (lambda: data.DataLoader([1], prefetch_factor=2), "num_workers"),
        (lambda: data.DataLoader([1], persistent_workers=True), "needs workers"),
        (lambda: data.DataLoader([1], timeout=-1), "timeout is -1"),
    ],
)
def test_bad_input_is_refused(make, words):
    with pytest.raises((ValueError, TypeError, NotImplementedError), match=words):
        make()


# ----- samplers -------------------------------------------------------------------------------------------------------


def test_samplers():
    assert sorted(data.RandomSampler(range(5))) == list(range(5))
    assert len(list(data.RandomSampler(range(5), num_samples=12))) == 12
    assert set(data.RandomSampler(range(2), replacement=True, num_samples=50)) == {0, 1}
    assert list(data.BatchSampler(range(5), 2, drop_last=True)) == [[0, 1], [2, 3]]
    assert len(data.BatchSampler(range(5), 2, drop_last=False)) == 3
    counts = collections.Counter(data.WeightedRandomSampler([1.0, 0.0, 3.0], 4000))
    assert counts[1] == 0
    assert abs(counts[2] / 4000 - 0.75) < 0.05
    one, two = (list(data.RandomSampler(range(9), generator=ndgrad.Generator().manual_seed(s))) for s in (1, 1))
    assert one == two


# ----- batches --------------------------------------------------------------------------------------------------------


def test_collating_keeps_structures():
    batch = data.default_collate([{"x": (1.5, [np.ones(2), "a"])}, {"x": (2.5, [np.zeros(2), "b"])}])
    numbers, (arrays, words) = batch["x"]
    assert numbers.dtype is ndgrad.float64
    assert numbers.tolist() == [1.5, 2.5]
    assert arrays.tolist() == [[1.0, 1.0], [0.0, 0.0]]
    assert words == ("a", "b")
    pair = data.default_collate([Pair(1, True), Pair(2, False)])
    assert isinstance(pair, Pair)
    assert pair.x.tolist() == [1, 2]
    assert isinstance(data.default_collate([dnp.ones(2), dnp.ones(2)]), dnp.ndarray)
    for bad, words in (([ndgrad.ones(1), ndgrad.ones(2)], "equal size"), ([[1], [1, 2]], "equal size"), ([None], "NoneType")):
        with pytest.raises((RuntimeError, TypeError), match=words):
            data.default_collate(bad)


def test_a_table_collates_classes_of_the_program(monkeypatch):
    class Words(str):
        pass

    def join(batch, *, collate_fn_map):
        return "-".join(batch)

    monkeypatch.setitem(data.collate.default_collate_fn_map, Words, join)
    assert data.default_collate([(Words("a"), 1), (Words("b"), 2)])[0] == "a-b"
    assert data.default_collate([("a", 1), ("b", 2)])[0] == ("a", "b")
    only_ints = {int: lambda batch, collate_fn_map: sum(batch)}
    assert data.collate.collate([{"x": [1, 2]}, {"x": [3, 4]}], collate_fn_map=only_ints) == {"x": [4, 6]}
    with pytest.raises(TypeError, match="float"):
        data.collate.collate([1.5, 2.5], collate_fn_map=only_ints)


# ----- loaders --------------------------------------------------------------------------------------------------------

WORKERS = [0, 2]


@pytest.mark.parametrize("workers", WORKERS)
def test_batches_come_in_order(workers):
    loader = data.DataLoader(Numbers(7), batch_size=3, num_workers=workers)
    for _ in range(2):
        assert [(x[:, 0].tolist(), y.tolist()) for x, y in loader] == [([0, 1, 2], [0, 1, 2]), ([3, 4, 5], [3, 4, 5]), ([6], [6])]
    assert len(loader) == 3
    assert [y for _, y in data.DataLoader(Numbers(4), batch_size=None, num_workers=workers)] == [0, 1, 2, 3]
    assert len(list(data.DataLoader(Numbers(7), batch_size=3, drop_last=True, num_workers=workers))) == 2
    assert list(data.DataLoader([], num_workers=workers)) == []


@pytest.mark.parametrize("workers", WORKERS)
def test_streams(workers):
    batches = [b.tolist() for b in data.DataLoader(Stream(), batch_size=3, num_workers=workers)]
    assert sorted(i for b in batches for i in b) == list(range(13))
    assert max(len(b) for b in batches) == 3
    assert sorted(data.DataLoader(Stream(), batch_size=None, num_workers=workers)) == list(range(13))


@pytest.mark.parametrize("workers", WORKERS)
def test_shuffling_follows_the_generator(workers):
    def passes(seed):
        loader = data.DataLoader(
            range(20), batch_size=6, shuffle=True, num_workers=workers, generator=ndgrad.Generator().manual_seed(seed)
        )
        return [[i for b in loader for i in b.tolist()] for _ in range(2)]

    first, second = passes(3)
    assert sorted(first) == sorted(second) == list(range(20))
    assert first != second
    assert [first, second] == passes(3)


def test_large_batches_go_through_shared_memory_that_is_freed():
    loader = data.DataLoader(Numbers(6, (150, 150)), batch_size=2, num_workers=2)
    batches = [x for x, _ in loader]
    assert [float(x[1, 0, 0]) for x in batches] == [1.0, 3.0, 5.0]
    batches[0][...] = 7.0  # it may be written, and no other object shares it
    assert float(batches[1].max()) == 3.0
    if transport.has_shared_memory():
        assert not list(transport.PLACE.glob(f"ndgrad-{os.getpid()}-*"))


def test_a_pass_that_is_left_leaves_nothing_behind():
    loader = data.DataLoader(Numbers(40, (150, 150)), batch_size=2, num_workers=2, persistent_workers=True)
    for _ in range(2):
        seen = next(iter(loader))
        assert seen[1].tolist() == [0, 1]
    assert [y.tolist()[0] for _, y in loader] == list(range(0, 40, 2))
    old = iter(loader)
    new = iter(loader)
    assert next(new)[1].tolist() == [0, 1]
    with pytest.raises(RuntimeError, match="this one is over"):
        next(old)
    processes = loader._kept.processes
    del new, old
    loader._kept.close()
    assert not any(p.is_alive() for p in processes)
    if transport.has_shared_memory():
        assert not list(transport.PLACE.glob(f"ndgrad-{os.getpid()}-*"))


def test_workers_have_seeds_of_their_own():
    def draw():
        ndgrad.manual_seed(5)
        return list(data.DataLoader(Drawn(4), batch_size=None, num_workers=2))

    samples = draw()
    assert samples == draw()
    assert len({tuple(s[:3]) for s in samples}) == 4
    assert len({s[3] for s in samples}) == 1
    assert [s[4] for s in samples] == [0, 1, 0, 1]


def test_order_of_arrival_and_own_functions():
    loader = data.DataLoader(Numbers(9), batch_size=2, num_workers=2, in_order=False, collate_fn=len, prefetch_factor=3)
    assert sorted(loader) == [1, 2, 2, 2, 2]
    started = data.DataLoader(Numbers(2), num_workers=1, worker_init_fn=lambda k: random.seed(k), batch_size=None)
    assert len(list(started)) == 2


def test_many_indices_at_once():
    loader = data.DataLoader(range(30_000), batch_size=10_000, num_workers=1, prefetch_factor=3)
    assert [b.sum().item() for b in loader] == [sum(range(k, k + 10_000)) for k in (0, 10_000, 20_000)]


# ----- faults ---------------------------------------------------------------------------------------------------------


def _raise():
    raise KeyError("the third")


def _raise_odd():
    raise Odd(1, 2)


def test_an_error_in_a_worker_is_raised_here_with_its_traceback():
    batches = iter(data.DataLoader(Failing(_raise), num_workers=2))
    assert [next(batches).item(), next(batches).item()] == [0, 1]
    with pytest.raises(KeyError, match="Caught KeyError in DataLoader worker process 0"):
        next(batches)
    assert list(batches) == []
    with pytest.raises(Odd) as caught:  # it cannot be made with another message
        list(data.DataLoader(Failing(_raise_odd), num_workers=1))
    assert "Caught Odd in DataLoader worker process 0" in caught.value.__notes__[0]
    with pytest.raises(RuntimeError, match="graphs do not leave a process"):
        list(data.DataLoader([ndgrad.ones(2, requires_grad=True) * 2], num_workers=1))


def test_a_worker_that_dies_is_noticed():
    begun = time.monotonic()
    with pytest.raises(RuntimeError, match="exited unexpectedly: worker 0 exited with code 3"):
        list(data.DataLoader(Failing(lambda: os._exit(3)), num_workers=2))
    assert time.monotonic() - begun < 30


def test_a_timeout():
    loader = data.DataLoader(Failing(lambda: time.sleep(4)), num_workers=1, timeout=0.3)
    with pytest.raises(RuntimeError, match="timed out after 0.3 seconds"):
        list(loader)


def test_pinning_reaches_the_tensors_of_containers():
    from ndgrad.utils.data.pinning import pin_memory

    class Batch:
        def pin_memory(self, device=None):
            return ("pinned", device)

    class Pair(NamedTuple):
        a: object
        b: object

    x = ndgrad.ones(2)
    found = pin_memory({"x": [x, Batch()], "y": (Pair(Batch(), "text"), 3)}, "cuda")
    assert found["x"][1] == ("pinned", "cuda")
    assert found["y"] == (Pair(("pinned", "cuda"), "text"), 3)
    assert pin_memory([x])[0].tolist() == [1, 1]


def test_the_state_of_a_workers_seed():
    from ndgrad.utils.data.worker import _generate_state

    assert _generate_state(123456789012345, 3) == [3999280408, 2418223825, 1775828080, 3641838301]  # torch's
