"""Worker processes: every item once, the first failure with its cause, and no worker left behind."""

import os
import signal
import time

import pytest

from repobook import workers
from repobook.workers import WorkerError

ITEMS = list(range(200))


def _start() -> None:
    """Nothing to prepare."""


def _square(number: int) -> int:
    return number * number


def _fail_at_77(number: int) -> int:
    return 1 // (number - 77)


def _missing(number: int) -> int:
    with open(f"/no/such/place/{number}"):
        return number


def _end_at_77(number: int) -> int:
    if number == 77:
        os.kill(os.getpid(), signal.SIGKILL)
    return number


def _refuse() -> None:
    raise ValueError("no such book")


@pytest.mark.parametrize("jobs", [1, 2, 500])
def test_every_item_is_done_once(jobs: int) -> None:
    assert sorted(workers.run(_square, ITEMS, jobs, _start, (), 7)) == [number * number for number in ITEMS]


@pytest.mark.parametrize("jobs", [1, 2])
def test_a_failing_task_is_reported_once_with_its_item(jobs: int) -> None:
    with pytest.raises(WorkerError, match=r"^repobook: internal error at item 77: ZeroDivisionError: .*$"):
        list(workers.run(_fail_at_77, ITEMS, jobs, _start, (), describe="item {}".format))


def test_an_error_of_the_system_keeps_its_kind() -> None:
    with pytest.raises(FileNotFoundError):
        list(workers.run(_missing, ITEMS, 2, _start, ()))


def test_a_worker_that_cannot_start_is_reported_and_not_started_again() -> None:
    begun = time.monotonic()
    with pytest.raises(WorkerError, match="could not start: ValueError: no such book"):
        list(workers.run(_square, ITEMS, 2, _refuse, ()))
    assert time.monotonic() - begun < 60


def test_a_worker_that_is_killed_ends_the_run() -> None:
    with pytest.raises(WorkerError, match="a worker process ended before its work did"):
        list(workers.run(_end_at_77, ITEMS, 2, _start, ()))


def test_a_run_that_is_abandoned_leaves_no_worker() -> None:
    found = workers.run(lambda _: os.getpid(), ITEMS, 1, _start, ())
    assert next(found) == os.getpid()
    found.close()
    running = workers.run(_pid, ITEMS, 2, _start, ())
    worker = next(running)
    running.close()
    with pytest.raises(ProcessLookupError):
        os.kill(worker, 0)


def _pid(_: int) -> int:
    time.sleep(0.01)
    return os.getpid()
