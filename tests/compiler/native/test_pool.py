"""The pool of native workers runs every chunk once, also if callers fork, are interrupted or leave."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from ctypes import c_int64, c_void_p

import numpy as np
import pytest

pytest.importorskip("llvmlite")

import ndgrad
from ndgrad._src.arrays import threads as allowed
from ndgrad._src.compiler.native import pool as pools
from ndgrad._src.compiler.native import pool_code, target

#: Work on an array of i64. `count` adds one to the element of its chunk; `slow` takes some microseconds for that, and
#: counts the chunks of each worker from element 1000 on; `inside` adds one if two workers have one number; `nested`
#: runs `count` over ten chunks of its own.
WORK = """
declare void @ndgrad_run(ptr, ptr, i64, i64)
declare void @ndgrad_rouse(i64)
define void @count(ptr %a, i64 %chunk) {
  %p = getelementptr i64, ptr %a, i64 %chunk
  %old = atomicrmw add ptr %p, i64 1 monotonic
  ret void
}
define void @slow(ptr %a, i64 %chunk, i64 %worker) {
entry:
  br label %turn
turn:
  %i = phi i64 [0, %entry], [%j, %turn]
  fence seq_cst
  %j = add i64 %i, 1
  %more = icmp slt i64 %j, 300
  br i1 %more, label %turn, label %done
done:
  %p = getelementptr i64, ptr %a, i64 %chunk
  %old = atomicrmw add ptr %p, i64 1 monotonic
  %behind = add i64 %worker, 1000
  %q = getelementptr i64, ptr %a, i64 %behind
  %had = atomicrmw add ptr %q, i64 1 monotonic
  ret void
}
define void @inside(ptr %a, i64 %chunk, i64 %worker) {      ; fails if two are in with one number
  %behind = add i64 %worker, 1000
  %p = getelementptr i64, ptr %a, i64 %behind
  %others = atomicrmw add ptr %p, i64 1 seq_cst
  %clash = icmp ne i64 %others, 0
  %c = zext i1 %clash to i64
  %q = getelementptr i64, ptr %a, i64 %chunk
  %old = atomicrmw add ptr %q, i64 %c monotonic
  fence seq_cst
  %gone = atomicrmw sub ptr %p, i64 1 seq_cst
  ret void
}
define void @nested(ptr %a, i64 %chunk) {
  %from = mul i64 %chunk, 10
  %p = getelementptr i64, ptr %a, i64 %from
  call void @ndgrad_run(ptr @count, ptr %p, i64 10, i64 4)
  ret void
}
define void @rouse(i64 %threads) {
  call void @ndgrad_rouse(i64 %threads)
  ret void
}
define void @many(ptr %a, i64 %times, i64 %chunks, i64 %threads) {
entry:
  br label %turn
turn:
  %i = phi i64 [0, %entry], [%j, %turn]
  call void @ndgrad_run(ptr @count, ptr %a, i64 %chunks, i64 %threads)
  %j = add i64 %i, 1
  %more = icmp slt i64 %j, %times
  br i1 %more, label %turn, label %done
done:
  ret void
}
"""


class Work:
    """A pool, and work for it."""

    def __init__(self, pool: pools.Pool) -> None:
        self.pool = pool
        self.code = target.Code(WORK, symbols=pool.symbols)

    def run(self, name: str, a: np.ndarray, chunks: int, threads: int = 0) -> None:
        self.pool.run(self.code.address(name), a.ctypes.data, chunks, threads)


@pytest.fixture(params=["futex", "condition"])
def work(request: pytest.FixtureRequest) -> Iterator[Work]:
    if request.param == "futex" and pools._way_to_sleep() != "futex":
        pytest.skip("no futex on this system")
    if os.name != "posix":
        pytest.skip("no condition variables of this kind")
    made = Work(pools.Pool(request.param))
    yield made
    made.pool.close()


@pytest.fixture(scope="module")
def shared_work() -> Work:
    return Work(pools.pool())


@pytest.mark.parametrize("threads", [0, 1, 2, 5])
@pytest.mark.parametrize("chunks", [0, 1, 2, 3, 100, 1000])
def test_every_chunk_is_done_once(work: Work, chunks: int, threads: int):
    a = np.zeros(1001, np.int64)
    for _ in range(20):
        work.run("count", a, chunks, threads)
    np.testing.assert_array_equal(a[:chunks], 20)
    assert not a[chunks:].any()


def test_runs_in_quick_succession_from_native_code(work: Work):
    a = np.zeros(1000, np.int64)
    many = work.code.function("many", None, c_void_p, c_int64, c_int64, c_int64)
    many(a.ctypes.data, 20_000, 7, 3)
    np.testing.assert_array_equal(a[:7], 20_000)


def test_runs_after_the_workers_fell_asleep(work: Work):
    a = np.zeros(2000, np.int64)
    for _ in range(30):
        work.run("slow", a, 40, 3)
        time.sleep(0.001)
    np.testing.assert_array_equal(a[:40], 30)


@pytest.mark.parametrize("threads", [0, 1, 3])
def test_workers_that_are_roused_find_nothing_to_do(work: Work, threads: int):
    a = np.zeros(2000, np.int64)
    rouse = work.code.function("rouse", None, c_int64)
    rouse(threads)  # no worker is there
    for _ in range(20):
        work.run("slow", a, 40, 3)
        time.sleep(0.001)
        rouse(threads)
        rouse(threads)
    np.testing.assert_array_equal(a[:40], 20)


def test_the_work_is_shared(work: Work):
    a = np.zeros(2000, np.int64)
    late = time.monotonic() + 20  # the other core may be busy for a while
    while not a[1001] and time.monotonic() < late:
        work.run("slow", a, 1000, 2)
    assert a[1001] > 0
    assert a[1000] + a[1001] == a[:1000].sum()
    assert not a[1002:].any()
    assert work.pool.workers == 1


def test_no_two_workers_of_a_run_have_one_number(work: Work):
    a = np.zeros(2000, np.int64)
    for _ in range(50):
        work.run("inside", a, 1000, 4)
    assert not a.any()


def test_a_run_inside_a_run_is_done_alone(work: Work):
    a = np.zeros(1000, np.int64)
    for _ in range(20):
        work.run("nested", a, 100, 3)
    np.testing.assert_array_equal(a, 20)


def test_python_threads_that_call_at_once(work: Work):
    arrays = [np.zeros(2000, np.int64) for _ in range(4)]

    def call(a: np.ndarray) -> None:
        for _ in range(100):
            work.run("slow", a, 20, 3)

    threads = [threading.Thread(target=call, args=(a,)) for a in arrays]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    for a in arrays:
        np.testing.assert_array_equal(a[:20], 100)


def test_workers_end_when_the_pool_is_closed_and_come_back(work: Work):
    a = np.zeros(2000, np.int64)
    for done in range(1, 4):
        work.run("slow", a, 200, 4)
        work.pool.close()
        assert work.pool.workers == 0
        np.testing.assert_array_equal(a[:200], done)


def test_set_num_threads_is_heeded(shared_work: Work):
    before = ndgrad.get_num_threads()
    a = np.zeros(2000, np.int64)
    try:
        ndgrad.set_num_threads(1)
        for _ in range(50):
            shared_work.run("slow", a, 100)
        assert a[1000] == 5000
        ndgrad.set_num_threads(3)
        assert shared_work.pool._state[pool_code.LIMIT] == 3
    finally:
        ndgrad.set_num_threads(before)


def test_the_environment_says_how_many_threads(monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setenv("NDGRAD_NUM_THREADS", "3")
    assert allowed._usable_cores() == 3
    monkeypatch.setenv("NDGRAD_NUM_THREADS", "")
    assert allowed._usable_cores() == (
        len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count()
    )
    for wish in ("none", "0", "-1", "2.5"):
        monkeypatch.setenv("NDGRAD_NUM_THREADS", wish)
        with pytest.raises(ValueError, match="no number of threads"):
            allowed._usable_cores()


# ----- processes and signals -----


@pytest.mark.skipif(not hasattr(os, "fork"), reason="no fork on this system")
def test_a_forked_child_has_workers_of_its_own(shared_work: Work):
    a = np.zeros(2000, np.int64)
    shared_work.run("slow", a, 100, 2)
    for _ in range(3):
        child = os.fork()
        if child == 0:
            good = shared_work.pool.workers == 0
            late = time.monotonic() + 20
            while not shared_work.pool.workers and time.monotonic() < late:
                b = np.zeros(2000, np.int64)
                shared_work.run("slow", b, 500, 2)
                good = good and bool((b[:500] == 1).all())
            os._exit(7 if good and shared_work.pool.workers == 1 else 1)
        shared_work.run("slow", a, 100, 2)  # the parent goes on
        assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 7
    np.testing.assert_array_equal(a[:100], 4)


@pytest.mark.skipif(not hasattr(os, "fork"), reason="no fork on this system")
def test_a_child_forked_during_a_run_can_run(shared_work: Work):
    stop = threading.Event()
    a = np.zeros(2000, np.int64)

    def run_forever() -> None:
        while not stop.is_set():
            shared_work.run("slow", a, 100, 2)

    thread = threading.Thread(target=run_forever)
    thread.start()
    try:
        for _ in range(5):
            child = os.fork()
            if child == 0:
                b = np.zeros(2000, np.int64)
                for _ in range(5):
                    shared_work.run("slow", b, 100, 2)
                os._exit(7 if (b[:100] == 5).all() else 1)
            assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 7
    finally:
        stop.set()
        thread.join()


@pytest.mark.skipif(not hasattr(signal, "setitimer"), reason="no timers on this system")
def test_an_interrupt_reaches_python_and_leaves_the_pool_whole(shared_work: Work):
    def interrupt(*_: object) -> None:
        raise KeyboardInterrupt

    def run_forever() -> None:
        signal.setitimer(signal.ITIMER_REAL, 0.01)
        while True:
            shared_work.run("slow", a, 50, 2)

    a = np.zeros(2000, np.int64)
    before = signal.signal(signal.SIGALRM, interrupt)
    try:
        for _ in range(5):
            with pytest.raises(KeyboardInterrupt):
                run_forever()
    finally:
        signal.setitimer(signal.ITIMER_REAL, 0)
        signal.signal(signal.SIGALRM, before)
    assert len(set(a[:50])) == 1  # no run was left in the middle
    a[:] = 0
    shared_work.run("slow", a, 1000, 2)
    np.testing.assert_array_equal(a[:1000], 1)


@pytest.mark.parametrize("busy", [False, True])
def test_the_interpreter_exits_with_workers_about(busy: bool):
    program = f"""
import threading, numpy as np
from tests.compiler.native.test_pool import Work, pools
work, a = Work(pools.pool()), np.zeros(2000, np.int64)
def forever():
    while True:
        work.run("slow", a, 1000, 3)
if {busy}:
    threading.Thread(target=forever, daemon=True).start()
for _ in range(200):
    work.run("slow", a, 100, 3)
print("bye")
"""
    env = {**os.environ, "PYTHONPATH": os.pathsep.join([*sys.path, os.getcwd()])}
    done = subprocess.run([sys.executable, "-c", program], env=env, timeout=60, capture_output=True, text=True)
    assert (done.returncode, done.stdout, done.stderr) == (0, "bye\n", "")


# ----- other systems -----


@pytest.mark.parametrize("processor", ["x86-64", "armv8"])
@pytest.mark.parametrize("sleep", ["futex", "condition", "windows"])
def test_the_code_of_every_system_compiles(sleep: str, processor: str):
    chosen = target.processor(processor)
    text = target.assembly(pool_code.source(sleep, chosen.architecture), chosen)
    wanted = {"futex": "syscall", "condition": "pthread_cond_wait", "windows": "WaitOnAddress"}[sleep]
    assert wanted in text
    assert ("yield" if chosen.architecture == "aarch64" else "pause") in text


def test_chunks_have_a_home_and_those_of_a_late_worker_are_done_from_the_back(work: Work):
    chunks, runs = 64, 200
    code = target.Code(
        """
define void @who(ptr %a, i64 %chunk, i64 %worker) {
entry:
  br label %turn
turn:
  %i = phi i64 [0, %entry], [%j, %turn]
  fence seq_cst
  %j = add i64 %i, 1
  %more = icmp slt i64 %j, 300
  br i1 %more, label %turn, label %done
done:
  %p = getelementptr i64, ptr %a, i64 %chunk
  store i64 %worker, ptr %p
  ret void
}
"""
    )
    own_of_caller = 0
    for _ in range(runs):
        a = np.full(chunks, -1, np.int64)
        work.pool.run(code.address("who"), a.ctypes.data, chunks, 2)
        own, other = a[: chunks // 2], a[chunks // 2 :]
        assert {*a.tolist()} <= {0, 1}
        # each begins at the front of its own range, and comes into the other's from its back
        assert (np.diff(own) >= 0).all()
        assert (np.diff(other) <= 0).all()
        own_of_caller += int((own == 0).sum())
    assert own_of_caller > runs * chunks // 8  # the caller is there at once
