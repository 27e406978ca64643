"""Locks of the package, and values that are computed once for all threads."""

from __future__ import annotations

import threading
import time

from ndgrad._src.foundations.locks import compute_once


def test_threads_that_ask_at_once_get_the_one_result() -> None:
    made: list[object] = []
    ready = threading.Barrier(4)

    @compute_once
    def make(key: int) -> object:
        time.sleep(0.01)  # let the others in
        made.append(object())
        return made[-1]

    def ask() -> None:
        ready.wait(30)
        found.append(make(1))

    found: list[object] = []
    threads = [threading.Thread(target=ask) for _ in range(4)]
    for t in threads:
        t.start()
    for t in threads:
        t.join(30)
    assert found == [made[0]] * 4
    assert len(made) == 1
    make.cache_clear()
    assert make(1) is made[1]
