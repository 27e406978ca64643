"""A pool of native workers: one loop over chunks, shared among the cores, begun in a tenth of a microsecond.

Work is a function `void work(ptr argument, i64 chunk, i64 worker)`; it is called once for every chunk from 0 to
chunks - 1, each on one of the threads. `worker` numbers the threads of this run from 0 (the caller) and is less than
`threads`: whoever needs scratch memory takes the piece of that number. A function that has no use for it may be
declared with two parameters: calling conventions let it ignore a third.

    run(work, argument, chunks, threads)                  # from Python, addresses as integers

    call void @ndgrad_run(ptr @work, ptr %argument, i64 %chunks, i64 %threads)
                                                          # from native code, linked by Code(text, symbols=symbols())

threads = 0 means as many as `ndgrad.set_num_threads` allows. A worker that sleeps takes some 10 us to come; code that
knows early that a run is near may say `call void @ndgrad_rouse(i64 %threads)`, which costs a few ns if nobody sleeps.

Note [How a run goes]
The state is a few words, each group in a cache line of its own.

    busy      1 while somebody runs; who finds it so does the chunks alone: a second Python thread, a run inside a run
    epoch     counts runs; a worker spins on it for some 200 us and then sleeps until it changes
    gate      open (bit 32) | places left (bits 16-31) | workers inside (bits 0-15), one atomic word
    ranges    per home: the first chunk that is left (bits 0-31) and the end (bits 32-63), one atomic word

A caller takes `busy`, writes the job, opens the gate with threads - 1 places, raises the epoch, wakes sleepers, and
takes chunks like everybody else until there are none (Note [Each chunk has a home]). Then it shuts the gate and waits
for the workers that are inside. A worker enters with a compare and exchange, so only while the gate is open and has a
place; a late one finds it shut and goes back. So nobody waits for a worker that has not begun, and no worker can see a
job that is over: the job is not written again before those inside have left.

Note [Each chunk has a home]
Chunks are cut into as many ranges as there are threads: the caller's is the first, and each worker has one for good.
Everybody goes through the own range from its front, and then helps others from the back of theirs, so a worker that
comes late, or is slow, costs nothing. What is run again and again on the same memory (parameters and what an
optimizer remembers, the values between two kernels of a program) finds it in the cache of the core that had it last.
Where two cores have no cache in common, reading what the other one has written takes three times as long as reading
what is one's own, so this decides more than anything else how quick a second thread is. Whoever cuts work into chunks
should therefore cut so that each thread's part of them is the same part of the memory every time.

Sleeping: a worker counts itself among the sleepers, then sleeps if the epoch is still what it saw; a caller raises
the epoch, then looks for sleepers. Both in one total order, so either the caller sees the sleeper or the sleeper the
epoch.

Where the system puts two threads on one core, the one that spins keeps the other from working. So whoever waits gives
the core away (sched_yield) now and then: a worker every 64 pauses, the caller after about 2 us.

Note [Lives of the workers]
Workers are threads of the system and not of Python: the first run that wants them starts them, from native code, with
all signals blocked (Ctrl-C is the interpreter's business), and they know nothing of the interpreter lock. A forked
child has none: its state is made anew, and its own first run starts others. At exit they end with the process; so the
code and the state of the pool are never given back, since a worker may be inside them until then.
"""

from __future__ import annotations

import ctypes
import os
import platform
import sys
import time

from ndgrad._src.arrays import threads as allowed
from ndgrad._src.compiler.native import pool_code
from ndgrad._src.compiler.native.target import Code, host
from ndgrad._src.foundations.locks import make_lock

#: How long a worker waits for the next run before it sleeps, in seconds: more than Python takes between two calls, or one
#: thread for those steps of a program that are not shared; and little enough to be no burden on those who share the machine.
SPIN = 200e-6

_Run = ctypes.CFUNCTYPE(None, ctypes.c_void_p, ctypes.c_void_p, ctypes.c_int64, ctypes.c_int64)
_Rouse = ctypes.CFUNCTYPE(None, ctypes.c_int64)


def _way_to_sleep() -> str:
    if sys.platform == "win32":
        return "windows"
    return "futex" if sys.platform == "linux" and platform.machine().lower() in pool_code.FUTEX else "condition"


class Pool:
    """Workers, and the state that they share with whoever calls them."""

    def __init__(self, sleep: str | None = None, spin: float = SPIN) -> None:
        kind = sleep or _way_to_sleep()
        text = pool_code.source(kind, host().architecture)
        self._code = Code(text, symbols=_windows_symbols() if kind == "windows" else None)
        ctypes.pythonapi.Py_IncRef(ctypes.py_object(self))  # Note [Lives of the workers]
        self._use = self._code.function("use", None, ctypes.c_void_p)
        self._stop = self._code.function("stop", None, ctypes.c_void_p)
        #: for code that calls the pool
        self.symbols = {name: self._code.address(name) for name in ("ndgrad_run", "ndgrad_rouse")}
        self._run = _Run(self.symbols["ndgrad_run"])
        self._rouse = _Rouse(self.symbols["ndgrad_rouse"])
        self._spins = self._pauses_in(spin)
        self._states: list[ctypes.Array[ctypes.c_int64]] = []
        self.renew()

    def run(self, function: int, argument: int | None, chunks: int, threads: int = 0) -> None:
        """Call the function at an address for every chunk; see the head of this file."""
        self._run(function, argument, chunks, threads)

    def rouse(self, threads: int = 0) -> None:
        """Wake workers that sleep: a run is near."""
        self._rouse(threads)

    @property
    def workers(self) -> int:
        """How many workers there are."""
        return self._state[pool_code.WORKERS]

    def limit(self, threads: int) -> None:
        """The most threads of a run that asks for as many as are allowed."""
        self._state[pool_code.LIMIT] = threads

    def close(self) -> None:
        """Let the workers end, and wait until they have; the next run starts others."""
        state, at = self._state, self._at
        self.renew()
        self._stop(at)
        while state[pool_code.WORKERS]:
            time.sleep(0.0002)

    def renew(self) -> None:
        """Begin with a fresh state and no workers: at first, and in a forked child, where only the thread that forked
        is left."""
        memory = (ctypes.c_int64 * (pool_code.WORDS + 16))()
        self._states.append(memory)
        self._at = -(-ctypes.addressof(memory) // 128) * 128
        self._state = (ctypes.c_int64 * pool_code.WORDS).from_address(self._at)
        self._state[pool_code.LIMIT] = allowed.max_threads
        self._state[pool_code.SPINS] = self._spins
        self._use(self._at)

    def _pauses_in(self, seconds: float) -> int:
        """How many turns of a worker's waiting take so long: a pause is 10 to 150 cycles, as the processor likes."""
        pauses, count, best = self._code.function("pauses", None, ctypes.c_int64), 1000, 1.0
        for _ in range(5):
            start = time.perf_counter()
            pauses(count)
            best = min(best, time.perf_counter() - start)
        return max(64, int(seconds / (best / count)))


def _windows_symbols() -> dict[str, int]:
    library = ctypes.WinDLL("api-ms-win-core-synch-l1-2-0.dll")  # type: ignore[attr-defined,unused-ignore]
    names = ("WaitOnAddress", "WakeByAddressAll")
    return {name: ctypes.cast(getattr(library, name), ctypes.c_void_p).value or 0 for name in names}


_made: list[Pool] = []
_making = make_lock()


def pool() -> Pool:
    """The pool of this process."""
    if not _made:
        with _making:  # a second thread waits for what the first one makes
            if not _made:
                made = Pool()
                allowed.on_change(made.limit)
                if hasattr(os, "register_at_fork"):
                    os.register_at_fork(after_in_child=made.renew)
                _made.append(made)
    return _made[0]


def run(function: int, argument: int | None, chunks: int, threads: int = 0) -> None:
    """Call a native function for every chunk on the pool of this process; see the head of this file."""
    pool().run(function, argument, chunks, threads)


def symbols() -> dict[str, int]:
    """What code that calls `@ndgrad_run` or `@ndgrad_rouse` is linked with."""
    return pool().symbols
