"""A pool of native workers: a loop over chunks, shared among the cores, that starts in a tenth of a microsecond.

Work is a function `void work(ptr argument, i64 chunk, i64 worker)`. It is called once for every chunk from 0 to chunks
- 1, each on one of the threads. `worker` numbers the threads of this run from 0 (the caller) and is less than
`threads`; it selects a thread's scratch memory. A function that does not need it may be declared with two parameters,
since calling conventions let it ignore a third.

    run(work, argument, chunks, threads)                  # from Python, addresses as integers

    call void @ndgrad_run(ptr @work, ptr %argument, i64 %chunks, i64 %threads)
                                                          # from native code, linked by Code(text, symbols=symbols())

threads = 0 means as many as `ndgrad.set_num_threads` allows. A sleeping worker takes some 10 us to wake up. Code that
expects a run soon may call `call void @ndgrad_rouse(i64 %threads)`, which costs a few ns if no worker sleeps.

Note [How a run goes]
The state is a few words, each group in a cache line of its own.

    busy      1 during a run; another caller then does its chunks alone: a second Python thread, a run inside a run
    epoch     counts runs; a worker spins on it for some 200 us and then sleeps until it changes
    gate      open (bit 32) | places left (bits 16-31) | workers inside (bits 0-15), one atomic word
    ranges    per home: the first remaining chunk (bits 0-31) and the end (bits 32-63), one atomic word

A caller takes `busy`, writes the job, opens the gate with threads - 1 places, raises the epoch and wakes sleepers. It
takes chunks like the workers until there are none (Note [Each chunk has a home]). Then it closes the gate and waits for
the workers that are inside. A worker enters with a compare and exchange, so only while the gate is open and has a
place. A late worker finds it closed and goes back. So no caller waits for a worker that has not begun. No worker can
see a finished job either: the job is not overwritten before the workers inside have left.

Note [Each chunk has a home]
Chunks are cut into as many ranges as there are threads: the caller's is the first, and each worker has a permanent one.
Each thread processes its own range from the front, and then helps others from the back of theirs. A worker that is late
or slow therefore costs nothing. Repeated runs on the same memory (parameters and the state of an optimizer, the values
between two kernels of a program) find it in the cache of the core that used it last. If two cores share no cache,
reading data that the other has written takes three times as long as reading its own. This is the main factor in the
speed of a second thread. Work should therefore be cut so that each thread's chunks are the same part of the memory
every time.

Sleeping: a worker counts itself among the sleepers, then sleeps if the epoch is still the one it saw. A caller raises
the epoch, then looks for sleepers. Both happen in one total order, so either the caller sees the sleeper or the sleeper
the epoch.

If the system puts two threads on one core, the spinning one keeps the other from working. So waiting threads yield the
core (sched_yield) now and then: a worker every 64 pauses, the caller after about 2 us.

Note [Lives of the workers]
Workers are threads of the system and not of Python. The first run that needs them starts them, from native code, with
all signals blocked (the interpreter handles Ctrl-C). They do not use the interpreter lock. A forked child has none: its
state is reset, and its own first run starts others. At exit they end with the process. The code and the state of the
pool are therefore never freed, since a worker may be inside them until then.
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

#: Seconds that a worker waits for the next run before it sleeps. It is longer than Python takes between two calls, or
#: one thread for the unshared steps of a program. It is short enough not to burden other processes.
SPIN = 200e-6

_Run = ctypes.CFUNCTYPE(None, ctypes.c_void_p, ctypes.c_void_p, ctypes.c_int64, ctypes.c_int64)
_Rouse = ctypes.CFUNCTYPE(None, ctypes.c_int64)


def _way_to_sleep() -> str:
    if sys.platform == "win32":
        return "windows"
    return "futex" if sys.platform == "linux" and platform.machine().lower() in pool_code.FUTEX else "condition"


class Pool:
    """Workers, and the state that they share with their callers."""

    def __init__(self, sleep: str | None = None, spin: float = SPIN) -> None:
        kind = sleep or _way_to_sleep()
        text = pool_code.source(kind, host().architecture)
        self._code = Code(text, symbols=_windows_symbols() if kind == "windows" else None)
        ctypes.pythonapi.Py_IncRef(ctypes.py_object(self))  # Note [Lives of the workers]
        self._use = self._code.function("use", None, ctypes.c_void_p)
        self._stop = self._code.function("stop", None, ctypes.c_void_p)
        #: addresses for code that calls the pool
        self.symbols = {name: self._code.address(name) for name in ("ndgrad_run", "ndgrad_rouse")}
        self._run = _Run(self.symbols["ndgrad_run"])
        self._rouse = _Rouse(self.symbols["ndgrad_rouse"])
        self._spins = self._pauses_in(spin)
        self._states: list[ctypes.Array[ctypes.c_int64]] = []
        self.renew()

    def run(self, function: int, argument: int | None, chunks: int, threads: int = 0) -> None:
        """Call the function at an address for every chunk; see the module docstring."""
        self._run(function, argument, chunks, threads)

    def rouse(self, threads: int = 0) -> None:
        """Wake sleeping workers, because a run is near."""
        self._rouse(threads)

    @property
    def workers(self) -> int:
        """Return the number of workers."""
        return self._state[pool_code.WORKERS]

    def limit(self, threads: int) -> None:
        """Return the maximum number of threads of a run with threads = 0."""
        self._state[pool_code.LIMIT] = threads

    def close(self) -> None:
        """Stop the workers, and wait for their end. The next run starts others."""
        state, at = self._state, self._at
        self.renew()
        self._stop(at)
        while state[pool_code.WORKERS]:
            time.sleep(0.0002)

    def renew(self) -> None:
        """Reset the state, without workers: at first, and in a forked child, in which only the forking thread is left.
        """
        memory = (ctypes.c_int64 * (pool_code.WORDS + 16))()
        self._states.append(memory)
        self._at = -(-ctypes.addressof(memory) // 128) * 128
        self._state = (ctypes.c_int64 * pool_code.WORDS).from_address(self._at)
        self._state[pool_code.LIMIT] = allowed.max_threads
        self._state[pool_code.SPINS] = self._spins
        self._use(self._at)

    def _pauses_in(self, seconds: float) -> int:
        """Return the number of a worker's waiting turns in some seconds. A pause takes 10 to 150 cycles, depending on
        the processor.
        """
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
    """Return the pool of this process."""
    if not _made:
        with _making:  # a second thread waits for the first one's pool
            if not _made:
                made = Pool()
                allowed.add_listener(made.limit)
                if hasattr(os, "register_at_fork"):
                    os.register_at_fork(after_in_child=made.renew)
                _made.append(made)
    return _made[0]


def run(function: int, argument: int | None, chunks: int, threads: int = 0) -> None:
    """Call a native function for every chunk on the pool of this process; see the module docstring."""
    pool().run(function, argument, chunks, threads)


def symbols() -> dict[str, int]:
    """Return the symbols to link with code that calls `@ndgrad_run` or `@ndgrad_rouse`."""
    return pool().symbols
