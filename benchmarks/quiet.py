"""A probe for other work on the machine: the share of the cores that a two-thread job gets.

Ratios are robust against slow drift, but not against other load. With more runnable threads than cores, a library whose
threads spin at barriers (torch's OpenMP) loses whole time slices and looks a hundred times slower than it is. So each
round first waits for a quiet machine, and the report names the rounds that waited without success.
"""

from __future__ import annotations

import hashlib
import threading
import time

from benchmarks.libraries import THREADS

QUIET_SHARE = 0.9
_BLOCK = bytes(1 << 20)
_PROBE_SECONDS = 0.03


def share_of_cores() -> float:
    """Return CPU time over wall time times threads, for a short job that hashes (without the GIL) in every thread."""

    def work(deadline: float) -> None:
        while time.perf_counter() < deadline:
            hashlib.sha256(_BLOCK)

    start, cpu_start = time.perf_counter(), time.process_time()
    threads = [threading.Thread(target=work, args=(start + _PROBE_SECONDS,)) for _ in range(THREADS)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    return (time.process_time() - cpu_start) / (time.perf_counter() - start) / THREADS


def wait_for_quiet(patience_seconds: float) -> float:
    """Probe until the machine is quiet or patience ends. Return the last share."""
    deadline = time.perf_counter() + patience_seconds
    while (share := share_of_cores()) < QUIET_SHARE and time.perf_counter() < deadline:
        time.sleep(0.2)
    return share
