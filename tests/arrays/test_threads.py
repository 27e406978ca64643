"""Work shared among threads: each block runs once, errors and settings are passed on, and no helper is needed."""

import threading
import time
import weakref

import numpy as np
import pytest
from tests.threads import in_threads

from ndgrad._src.arrays import threads


@pytest.fixture(autouse=True)
def three_threads(monkeypatch):
    monkeypatch.setattr(threads, "max_threads", 3)


def _make_meeting(count):
    """Return a worker that needs `count` threads at once, and the blocks that each thread saw."""
    barrier, seen = threading.Barrier(count, timeout=20), {}

    def worker(blocks):
        barrier.wait()
        seen.setdefault(threading.get_ident(), []).extend(blocks)

    return worker, seen


def test_each_block_is_seen_once_whoever_takes_it():
    worker, seen = _make_meeting(3)
    threads.share(range(1000), worker, threads=3)
    assert len(seen) == 3
    assert sorted(block for blocks in seen.values() for block in blocks) == list(range(1000))


def test_an_error_of_a_helper_reaches_the_caller_when_nobody_works_any_more():
    main, barrier = threading.get_ident(), threading.Barrier(2, timeout=20)

    def worker(blocks):
        barrier.wait()
        if threading.get_ident() != main:
            raise ZeroDivisionError("in a helper")
        list(blocks)

    for _ in range(3):  # the helper survives its error
        with pytest.raises(ZeroDivisionError, match="in a helper"):
            threads.share(range(2), worker, threads=2)


def test_the_callers_own_error_comes_first_and_ends_the_work():
    main, barrier, raised, seen = threading.get_ident(), threading.Barrier(2, timeout=20), threading.Event(), []

    def worker(blocks):
        seen.append(next(blocks))
        barrier.wait()
        if threading.get_ident() == main:
            raised.set()
            raise KeyError("in the caller")
        raised.wait(20)
        time.sleep(0.2)
        seen.extend(blocks)

    with pytest.raises(KeyError, match="in the caller"):
        threads.share(range(100), worker, threads=2)
    assert len(seen) == 2  # blocks that no helper had started are not processed


def test_numpys_error_settings_hold_in_helpers():
    worker_settings = []
    worker, _ = _make_meeting(2)

    def recording(blocks):
        worker(blocks)
        worker_settings.append(np.geterr()["divide"])

    with np.errstate(divide="raise"):
        threads.share(range(2), recording, threads=2)
    assert worker_settings == ["raise", "raise"]


def test_all_is_done_by_the_caller_if_no_thread_can_be_started(monkeypatch):
    def refuse(self):
        raise RuntimeError("can't start new thread")

    monkeypatch.setattr(threads, "_helpers", [])
    monkeypatch.setattr(threading.Thread, "start", refuse)
    seen = []
    threads.share(range(5), seen.extend, threads=3)
    assert seen == [0, 1, 2, 3, 4]


def test_work_that_no_helper_took_up_is_let_go_of():
    held = threading.Event()

    def busy(blocks):
        for _ in blocks:
            if threading.get_ident() != main:
                held.wait(20)

    main = threading.get_ident()
    keeper = threading.Thread(target=lambda: threads.share(range(3), busy, threads=3))
    keeper.start()  # two helpers are busy from now on, and the caller waits for them
    try:
        array = np.zeros(3)
        gone = weakref.ref(array)
        threads.share(range(2), lambda blocks, array=array: list(blocks), threads=2)
        del array
        assert gone() is None
    finally:
        held.set()
        keeper.join()


def test_sharing_inside_shared_work_and_from_many_threads_ends():
    def outer(blocks):
        for block in blocks:
            threads.share(range(block, block + 4), totals.extend, threads=3)

    totals = []
    in_threads(8, lambda number: threads.share([100 * number] * 6, outer, threads=3))
    assert sorted(totals) == sorted(100 * number + i for number in range(8) for _ in range(6) for i in range(4))
