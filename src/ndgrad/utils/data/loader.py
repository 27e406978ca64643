"""DataLoader: batches of a dataset, made here or by workers.

Each worker has its own pipe. Tasks (indices of samples) are sent in turn, a few ahead of demand, and batches come back.
They are returned in the order of their tasks, unless `in_order=False`. The main process waits for pipes and for the
ends of processes together, so the death of a worker is noticed at once.
"""

from __future__ import annotations

import multiprocessing
import os
import secrets
import time
import weakref
from collections import deque
from collections.abc import Callable, Iterable, Iterator, Sized
from contextlib import suppress
from itertools import count
from multiprocessing.connection import wait
from multiprocessing.reduction import ForkingPickler
from typing import Any, Generic, Protocol, Self, TypeVar, cast

from ndgrad._src.arrays.generator import Generator
from ndgrad.utils.data.collate import default_collate, default_convert
from ndgrad.utils.data.dataset import Dataset, IterableDataset
from ndgrad.utils.data.fetch import END, Fetch
from ndgrad.utils.data.sampler import BatchSampler, RandomSampler, SequentialSampler, draw_seed
from ndgrad.utils.data.transport import forget, has_shared_memory, sweep, unpack
from ndgrad.utils.data.worker import Epoch, Failure, Setup, run

T_co = TypeVar("T_co", covariant=True)

# torch's names of these types, which libraries import.
_collate_fn_t = Callable[[list[Any]], Any]
_worker_init_fn_t = Callable[[int], None]


class Samples(Protocol[T_co]):
    """Samples by index, of a class that need not be a Dataset."""

    def __getitem__(self, index: Any, /) -> T_co: ...


#: Number of bytes of unread tasks in the pipe of a worker: fewer than every pipe holds.
_PIPE = 1 << 14


class DataLoader(Generic[T_co]):
    """Batches of a dataset, in the order of a sampler.

    Args:
        dataset: dataset by index, or a stream (`IterableDataset`).
        batch_size: number of samples in a batch. None returns samples without collation.
        shuffle: whether a new random order is drawn for each pass.
        sampler: iterable of indices, in place of `shuffle`.
        batch_sampler: iterable of lists of indices, in place of `batch_size`, `shuffle`, `sampler` and `drop_last`.
        num_workers: number of processes that make batches. With 0 this process makes them.
        collate_fn: function from a list of samples to a batch. The default is `default_collate`.
        pin_memory, pin_memory_device: accepted as in torch; have no effect here.
        drop_last: whether a smaller batch at the end is left out.
        timeout: largest number of seconds to wait for a batch of workers. 0 waits without limit.
        worker_init_fn: function of the worker's number that each worker calls at its start.
        multiprocessing_context: name of a start method, or a context of `multiprocessing`.
        generator: source of the order and of the workers' seeds. Worker k is seeded with a number drawn from it, plus
            k.
        prefetch_factor: number of batches that each worker makes ahead of demand. The default is 2.
        persistent_workers: whether workers are kept from pass to pass.
        in_order: whether batches come in the order of the sampler. False returns each as soon as it is ready.

    Raises:
        ValueError: if settings exclude each other.

    >>> import ndgrad
    >>> from ndgrad.utils.data import DataLoader, TensorDataset
    >>> data = TensorDataset(ndgrad.arange(5.0), ndgrad.tensor([0, 1, 0, 1, 0]))
    >>> for x, y in DataLoader(data, batch_size=3):
    ...     print(x, y)
    tensor([0., 1., 2.]) tensor([0, 1, 0])
    tensor([3., 4.]) tensor([1, 0])
    """

    def __init__(
        self,
        dataset: Dataset[T_co] | Iterable[T_co] | Samples[T_co],
        batch_size: int | None = 1,
        shuffle: bool | None = None,
        sampler: Iterable[Any] | None = None,
        batch_sampler: Iterable[Any] | None = None,
        num_workers: int = 0,
        collate_fn: Callable[[list[Any]], Any] | None = None,
        pin_memory: bool = False,
        drop_last: bool = False,
        timeout: float = 0,
        worker_init_fn: Callable[[int], Any] | None = None,
        multiprocessing_context: Any = None,
        generator: Generator | None = None,
        *,
        prefetch_factor: int | None = None,
        persistent_workers: bool = False,
        pin_memory_device: str = "",
        in_order: bool = True,
    ) -> None:
        self.dataset: Any = dataset
        self.is_stream = isinstance(dataset, IterableDataset)
        _check_numbers(num_workers, timeout, prefetch_factor, persistent_workers)
        _check_order(self.is_stream, shuffle, sampler, batch_sampler, batch_size, drop_last)
        if sampler is None and not self.is_stream:
            sized = cast("Sized", dataset)
            sampler = RandomSampler(sized, generator=generator) if shuffle else SequentialSampler(sized)
        if batch_sampler is not None:
            batch_size = None
        elif batch_size is not None and not self.is_stream:
            batch_sampler = BatchSampler(sampler or (), batch_size, drop_last)
        self.batch_size = batch_size
        self.sampler = sampler
        self.batch_sampler = batch_sampler
        self.drop_last = drop_last
        self.num_workers = num_workers
        self.pin_memory = pin_memory
        self.pin_memory_device = pin_memory_device
        self.timeout = timeout
        self.worker_init_fn = worker_init_fn
        self.generator = generator
        self.prefetch_factor = 2 if prefetch_factor is None and num_workers else prefetch_factor
        self.persistent_workers = persistent_workers
        self.in_order = in_order
        self.multiprocessing_context = multiprocessing_context
        self.collates = batch_sampler is not None or batch_size is not None
        self.collate_fn = collate_fn or (default_collate if self.collates else default_convert)
        self._kept: _Workers | None = None

    def __iter__(self) -> Iterator[Any]:
        if not self.num_workers:
            draw_seed(self.generator)  # without workers too, as in torch
            return _SingleProcessDataLoaderIter(self)
        if not self.persistent_workers:
            return _MultiProcessingDataLoaderIter(self, _Workers(self), draw_seed(self.generator))
        seed = None  # workers that persist go on with their random numbers
        if self._kept is None or self._kept.is_closed:
            seed = draw_seed(self.generator)
            self._kept = _Workers(self)
        self._kept.start_over()
        return _MultiProcessingDataLoaderIter(self, self._kept, seed)

    def __len__(self) -> int:
        if self.is_stream:
            count = len(self.dataset)
            if self.batch_size is None:
                return count
            return count // self.batch_size if self.drop_last else -(-count // self.batch_size)
        return len(self.batch_sampler if self.batch_sampler is not None else self.sampler)  # type: ignore[arg-type]

    @property
    def _auto_collation(self) -> bool:
        """True if samples are collated into batches: torch's name."""
        return self.batch_sampler is not None

    @property
    def _index_sampler(self) -> Any:
        """The sampler of batches, or of samples if they are not collated: torch's name."""
        return self.batch_sampler if self._auto_collation else self.sampler

    def _get_iterator(self) -> Iterator[Any]:
        """Return a new pass over the data: torch's name."""
        return self.__iter__()

    def tasks(self) -> Iterator[Any]:
        """Yield the tasks of one pass (see Fetch)."""
        if self.is_stream:
            while True:
                yield self.batch_size
        yield from (self.batch_sampler if self.collates else self.sampler) or ()


class _BaseDataLoaderIter(Iterator[Any]):
    """A pass over the data of a loader."""

    loader: DataLoader[Any]

    def __iter__(self) -> Self:
        return self

    def __len__(self) -> int:
        return len(self.loader)


class _SingleProcessDataLoaderIter(_BaseDataLoaderIter):
    """A pass over the data in this process."""

    def __init__(self, loader: DataLoader[Any]) -> None:
        self.loader = loader
        self._batches = _make_batches(loader)

    def __next__(self) -> Any:
        return next(self._batches)


def _make_batches(loader: DataLoader[Any]) -> Iterator[Any]:
    """Yield the batches, made in this process."""
    fetch = Fetch(loader.dataset, loader.collates, loader.collate_fn, loader.drop_last)
    for task in loader.tasks():
        batch = fetch(task)
        if isinstance(batch, str) and batch == END and loader.is_stream:
            return
        yield batch


class _Workers:
    """The processes of a loader, and their pipes."""

    def __init__(self, loader: DataLoader[Any]) -> None:
        context = loader.multiprocessing_context
        if context is None or isinstance(context, str):
            context = multiprocessing.get_context(context)
        self.prefix = f"ndgrad-{os.getpid()}-{secrets.token_hex(6)}-" if has_shared_memory() else None
        self.connections: list[Any] = []
        self.processes: list[Any] = []
        self.numbers = count()  # task numbers in all passes: identify answers to old tasks
        self.epoch = 0
        self.is_closed = False
        self.end = weakref.finalize(self, _stop, self.processes, self.connections, self.prefix)
        for number in range(loader.num_workers):
            ours, theirs = context.Pipe()
            setup = Setup(
                number, loader.num_workers, loader.dataset, loader.collates, loader.collate_fn, loader.drop_last,
                loader.worker_init_fn, self.prefix,
            )  # fmt: skip
            process = context.Process(target=run, args=(setup, theirs, os.getpid()), daemon=True)
            process.start()
            theirs.close()
            self.connections.append(ours)
            self.processes.append(process)

    def start_over(self) -> None:
        """Begin a new pass: an abandoned one gets nothing more."""
        self.epoch += 1

    def close(self) -> None:
        self.is_closed = True
        self.end()


def _stop(processes: list[Any], connections: list[Any], prefix: str | None) -> None:
    for connection in connections:
        with suppress(OSError):
            connection.send(None)
    deadline = time.monotonic() + 5
    for connection, process in zip(connections, processes, strict=False):
        while process.is_alive() and time.monotonic() < deadline:
            process.join(0.01)
            with suppress(EOFError, OSError):
                while connection.poll(0):  # a worker may wait until its last batch is received
                    forget(connection.recv()[1])
        if process.is_alive():
            process.terminate()
            process.join(1)
        connection.close()
    if prefix is not None:
        sweep(prefix)


class _MultiProcessingDataLoaderIter(_BaseDataLoaderIter):
    """A pass over the data by workers."""

    def __init__(self, loader: DataLoader[Any], workers: _Workers, seed: int | None) -> None:
        self.loader = loader
        self.workers = workers
        self.epoch = workers.epoch
        self.tasks = zip(workers.numbers, loader.tasks(), strict=False)
        self.timeout = loader.timeout
        every = range(loader.num_workers)
        self.open = [True for _ in every]  # a stream may end in one worker before others
        self.waiting: list[deque[tuple[Any, bytes]]] = [deque() for _ in every]
        self.in_pipe: list[dict[Any, int]] = [{} for _ in every]
        self.owner: dict[int, int] = {}
        self.ready: dict[int, Any] = {}
        self.turn = 0
        self.is_over = False
        for number in every:
            self._send(number, None, Epoch(seed))
        for _ in range((loader.prefetch_factor or 2) * loader.num_workers):
            self._ask()

    def __next__(self) -> Any:
        if self.is_over:
            raise StopIteration
        if self.epoch != self.workers.epoch:
            raise RuntimeError(
                "a new pass over this DataLoader, whose workers persist, was begun: this one is over. [nd-call-order]"
            )
        try:
            return self._following()
        except BaseException as error:
            self.is_over = True
            if not (isinstance(error, StopIteration) and self.loader.persistent_workers):
                self.workers.close()
            raise

    def _following(self) -> Any:
        while True:
            if not self.owner:
                raise StopIteration
            number = next(iter(self.owner))  # they were sent in their order
            if not self.loader.in_order:
                number = next(iter(self.ready), number)
            if number not in self.ready:
                self._receive()
                continue
            worker, message = self.owner.pop(number), self.ready.pop(number)
            answer = unpack(message)
            if isinstance(answer, Failure):
                raise answer.make_exception(worker)
            if self.loader.is_stream and isinstance(answer, str) and answer == END:
                self.open[worker] = False
                self._ask()
                continue
            self._ask()
            return answer

    # ----- tasks ------------------------------------------------------------------------------------------------------

    def _ask(self) -> None:
        """Send one more task, to the next worker in turn."""
        if not any(self.open):
            return
        found = next(self.tasks, None)
        if found is None:
            return
        while not self.open[self.turn]:
            self.turn = (self.turn + 1) % len(self.open)
        worker, (number, _) = self.turn, found
        self.turn = (self.turn + 1) % len(self.open)
        self.owner[number] = worker
        self._send(worker, number, found)

    def _send(self, worker: int, number: int | None, task: Any) -> None:
        self.waiting[worker].append((number, bytes(ForkingPickler.dumps(task))))
        self._flush(worker)

    def _flush(self, worker: int) -> None:
        """Write only as much as the pipe surely takes: a worker that is busy sending does not read, and the write would
        block.
        """
        held, unread = self.waiting[worker], self.in_pipe[worker]
        while held and (not unread or sum(unread.values()) + len(held[0][1]) <= _PIPE):
            number, text = held.popleft()
            try:
                self.workers.connections[worker].send_bytes(text)
            except (BrokenPipeError, ConnectionResetError):
                self._look_for_the_dead()
                raise
            if number is not None:
                unread[number] = len(text)

    # ----- answers ----------------------------------------------------------------------------------------------------

    def _receive(self) -> None:
        """Wait for a batch from any worker."""
        processes, connections = self.workers.processes, self.workers.connections
        places = {id(c): i for i, c in enumerate(connections)}
        found = wait([*connections, *(p.sentinel for p in processes)], self.timeout or None)
        if not found:
            raise RuntimeError(
                f"DataLoader timed out after {self.timeout} seconds, while it waited for a batch of its workers. "
                "Give a longer timeout, or look at what the dataset waits for. [nd-worker]"
            )
        for c in found:
            worker = places.get(id(c))
            if worker is None:
                continue
            try:
                number, message = connections[worker].recv()
            except (EOFError, ConnectionResetError):
                self._look_for_the_dead()
                raise
            if self.in_pipe[worker].pop(number, None) is None or number not in self.owner:
                forget(message)  # from an abandoned pass
            else:
                self.ready[number] = message
            self._flush(worker)
        if not any(id(c) in places for c in found):
            self._look_for_the_dead()

    def _look_for_the_dead(self) -> None:
        for number, process in enumerate(self.workers.processes):
            process.join(0.1)
            if not process.is_alive():
                code = process.exitcode
                how = f"was killed by signal {-code}" if code is not None and code < 0 else f"exited with code {code}"
                raise RuntimeError(
                    f"DataLoader worker (pid {process.pid}) exited unexpectedly: worker {number} {how}. Look for what "
                    "ends the process (memory, a crash in a library); num_workers=0 runs the same in this one. "
                    "[nd-worker]"
                )


def _check_numbers(num_workers: int, timeout: float, prefetch_factor: int | None, persistent_workers: bool) -> None:
    if num_workers < 0:
        raise ValueError(f"DataLoader: num_workers is {num_workers}. Use 0 to make batches in this process. [nd-range]")
    if timeout < 0:
        raise ValueError(f"DataLoader: timeout is {timeout}. Use 0 to wait as long as it takes. [nd-range]")
    if prefetch_factor is not None and (num_workers == 0 or prefetch_factor < 0):
        raise ValueError(
            f"DataLoader: prefetch_factor is {prefetch_factor} with {num_workers} workers. It says how far workers are "
            "ahead: give num_workers too. [nd-loader]"
        )
    if persistent_workers and num_workers == 0:
        raise ValueError("DataLoader: persistent_workers needs workers. Give num_workers too. [nd-loader]")


def _check_order(
    is_stream: bool, shuffle: bool | None, sampler: Any, batch_sampler: Any, batch_size: int | None, drop_last: bool
) -> None:
    if is_stream and (shuffle or sampler is not None or batch_sampler is not None):
        raise ValueError(
            "DataLoader: an IterableDataset decides itself about its order, and there is a shuffle, a sampler or a "
            "batch_sampler. Leave them out, and shuffle in the dataset. [nd-loader]"
        )
    if sampler is not None and shuffle:
        raise ValueError(
            "DataLoader: sampler option is mutually exclusive with shuffle. Leave one of them out. [nd-exclusive]"
        )
    if batch_sampler is not None and (batch_size != 1 or shuffle or sampler is not None or drop_last):
        raise ValueError(
            "DataLoader: batch_sampler option is mutually exclusive with batch_size, shuffle, sampler and drop_last: "
            "it says all that they do. [nd-exclusive]"
        )
    if batch_size is None and drop_last:
        raise ValueError(
            "DataLoader: batch_size=None gives single samples, of which drop_last drops none. Leave it out. "
            "[nd-exclusive]"
        )
