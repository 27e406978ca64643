"""The other process of a loader: it waits for tasks, makes batches and sends them, until it is stopped."""

from __future__ import annotations

import os
import pickle
import random
import signal
import traceback
from collections.abc import Callable
from dataclasses import dataclass
from multiprocessing.connection import Connection
from typing import Any

import numpy as np

from ndgrad._src.arrays.generator import manual_seed
from ndgrad.utils.data.fetch import Fetch
from ndgrad.utils.data.transport import pack

#: Seconds between checks that the parent process is still alive.
_WATCH = 5.0


@dataclass
class WorkerInfo:
    """Information for a dataset about its process, from `get_worker_info`.

    Args:
        id: number of the worker, from 0 on.
        num_workers: number of workers.
        seed: seed of the worker in this pass.
        dataset: the worker's copy of the dataset.

    >>> info = WorkerInfo(id=1, num_workers=2, seed=7, dataset=range(10))
    >>> list(info.dataset)[info.id :: info.num_workers]
    [1, 3, 5, 7, 9]
    """

    id: int
    num_workers: int
    seed: int
    dataset: Any


_info: WorkerInfo | None = None


def get_worker_info() -> WorkerInfo | None:
    """Return information about a loader's worker: its `id`, the number of workers (`num_workers`), its `seed` and its
    copy of the `dataset`. None in the main process.

    >>> import ndgrad
    >>> ndgrad.utils.data.get_worker_info() is None
    True
    """
    return _info


@dataclass
class Failure:
    """An exception in a worker: itself, if it can be sent, and its traceback as text."""

    pickled: bytes | None
    kind: str
    trace: str

    @classmethod
    def from_exception(cls, error: BaseException) -> Failure:
        try:
            pickled: bytes | None = pickle.dumps(error)
            pickle.loads(pickled)  # type: ignore[arg-type]  # it was made in the line above
        except Exception:
            pickled = None
        return cls(pickled, type(error).__name__, traceback.format_exc())

    def make_exception(self, number: int) -> BaseException:
        """Return the exception for the main process, with the worker's traceback."""
        said = f"Caught {self.kind} in DataLoader worker process {number}.\nOriginal {self.trace}[nd-worker]"
        if self.pickled is not None:
            original: BaseException = pickle.loads(self.pickled)
            try:
                return type(original)(said)
            except Exception:
                original.add_note(said)
                return original
        return RuntimeError(said)


@dataclass(frozen=True)
class Epoch:
    """The beginning of a pass over the data. Without a seed, the worker's random numbers go on."""

    seed: int | None


@dataclass(frozen=True)
class Setup:
    """Constructor arguments of a worker."""

    number: int
    count: int
    dataset: Any
    collates: bool
    collate_fn: Callable[[Any], Any]
    drop_last: bool
    init: Callable[[int], Any] | None
    prefix: str | None


def make_numpy_seed(seed: int, number: int) -> Any:
    """Return the seed of NumPy's global generator in a worker, from the seed of the pass and the worker's number."""
    return np.random.SeedSequence([number, seed & 0xFFFFFFFF, seed >> 32, 0]).generate_state(4)


def _generate_state(base_seed: int, worker_id: int) -> list[int]:
    """Return the four numbers of such a seed. Libraries with workers of their own call it."""
    return [int(number) for number in make_numpy_seed(base_seed, worker_id)]


def run(setup: Setup, connection: Connection, parent: int) -> None:
    """Run the loop of a worker: it answers `(number, task)` by `(number, message)`, and an Epoch by nothing."""
    global _info
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # the main process ends its workers
    # A spawned child loads it here, not on importing this file.
    from ndgrad._src.tensor.functions.describe import set_num_threads

    set_num_threads(1)
    fetch: Fetch | None = None
    failed: Failure | None = None
    started = False
    while True:
        while not connection.poll(_WATCH):
            if os.getppid() != parent:
                return
        try:
            task = connection.recv()
        except EOFError:
            return
        if task is None:
            return
        if isinstance(task, Epoch):
            if task.seed is not None:
                seed = (task.seed + setup.number) % 2**63
                _info = WorkerInfo(setup.number, setup.count, seed, setup.dataset)
                random.seed(seed)
                manual_seed(seed)
                # Users' code draws from it. The seed is torch's.
                np.random.seed(make_numpy_seed(task.seed, setup.number))  # noqa: NPY002
            fetch, failed = None, None
            try:
                if not started and setup.init is not None:
                    setup.init(setup.number)
                started = True
                fetch = Fetch(setup.dataset, setup.collates, setup.collate_fn, setup.drop_last)
            except Exception as error:
                failed = Failure.from_exception(error)
            continue
        number, wanted = task
        try:
            answer: Any = failed if fetch is None else fetch(wanted)
            message = pack(answer, setup.prefix)
        except Exception as error:
            message = pack(Failure.from_exception(error), None)
        try:
            connection.send((number, message))
        except (BrokenPipeError, ConnectionResetError):
            return
