"""Several processes that run one function: `spawn`, and the handling of their errors."""

from __future__ import annotations

import multiprocessing
import signal
import sys
import traceback
from collections.abc import Callable
from multiprocessing import connection
from typing import Any

__all__ = [
    "ProcessContext", "ProcessExitedException", "ProcessRaisedException", "SpawnContext", "spawn", "start_processes",
]  # fmt: skip


class ProcessException(Exception):
    """A process failed."""

    def __init__(self, msg: str, error_index: int, pid: int) -> None:
        super().__init__(msg)
        self.msg, self.error_index, self.pid = msg, error_index, pid

    def __reduce__(self) -> tuple[Any, ...]:
        return type(self), (self.msg, self.error_index, self.pid)


class ProcessRaisedException(ProcessException):
    """The function raised; the message has its traceback."""


class ProcessExitedException(ProcessException):
    """Error of a process that ended by a signal or with an exit code.

    Args:
        msg: text of the error.
        error_index: number of the process.
        error_pid: its id in the system.
        exit_code: its exit code.
        signal_name: name of the signal that ended it, if any.
    """

    def __init__(
        self, msg: str, error_index: int, error_pid: int, exit_code: int, signal_name: str | None = None
    ) -> None:
        super().__init__(msg, error_index, error_pid)
        self.exit_code, self.signal_name = exit_code, signal_name

    def __reduce__(self) -> tuple[Any, ...]:
        return type(self), (self.msg, self.error_index, self.pid, self.exit_code, self.signal_name)


def _run(fn: Callable[..., Any], i: int, args: tuple[Any, ...], errors: Any) -> None:
    try:
        fn(i, *args)
    except KeyboardInterrupt:
        pass  # the parent has been interrupted too
    except Exception:
        errors.put(traceback.format_exc())
        sys.exit(1)


class ProcessContext:
    """Processes that were started.

    Args:
        processes: the processes.
        error_queues: queue of each process, with the text of its error.
    """

    def __init__(self, processes: list[Any], error_queues: list[Any]) -> None:
        self.processes, self.error_queues = processes, error_queues
        self.sentinels = {process.sentinel: i for i, process in enumerate(processes)}

    def pids(self) -> list[int | None]:
        """Return the process ids."""
        return [process.pid for process in self.processes]

    def join(self, timeout: float | None = None, grace_period: float | None = None) -> bool:
        """Wait for one to end; return True if all have. If one failed, the others are ended, and this raises.

        Args:
            timeout: seconds to wait. None means no limit.
            grace_period: seconds that the others have to end, if one failed. None means no limit.
        """
        if not self.sentinels:
            return True
        ready = connection.wait(list(self.sentinels), timeout)
        failed = None
        for sentinel in ready:
            i = self.sentinels.pop(sentinel)
            process = self.processes[i]
            process.join()
            if process.exitcode != 0 and failed is None:
                failed = i
        if failed is None:
            return not self.sentinels
        for process in self.processes:
            if process.is_alive():
                process.terminate()
        for process in self.processes:
            process.join(grace_period)
            if process.is_alive():
                process.kill()
                process.join()
        raise self._error(failed)

    def _error(self, i: int) -> ProcessException:
        process, errors = self.processes[i], self.error_queues[i]
        if not errors.empty():
            return ProcessRaisedException(
                f"\n\n-- Process {i} terminated with the following error:\n{errors.get()}[nd-worker]", i, process.pid
            )
        code = process.exitcode
        if code < 0:
            name = signal.Signals(-code).name
            return ProcessExitedException(
                f"process {i} terminated with signal {name} [nd-worker]", i, process.pid, code, name
            )
        return ProcessExitedException(f"process {i} terminated with exit code {code} [nd-worker]", i, process.pid, code)


SpawnContext = ProcessContext


def start_processes(
    fn: Callable[..., Any], args: tuple[Any, ...] = (), nprocs: int = 1, join: bool = True, daemon: bool = False,
    start_method: str = "spawn",
) -> ProcessContext | None:  # fmt: skip
    """Run `fn(i, *args)` in processes i = 0, 1, ..., and wait for them, or with join=False return their context.

    Args:
        fn: function `fn(i, *args)`, which can be pickled.
        args: further arguments of the function.
        nprocs: number of processes.
        join: whether to wait for all of them.
        daemon: whether processes end with this one.
        start_method: `"spawn"`, `"fork"` or `"forkserver"`.
    """
    start: Any = multiprocessing.get_context(start_method)
    processes, queues = [], []
    for i in range(nprocs):
        errors = start.SimpleQueue()
        process = start.Process(target=_run, args=(fn, i, args, errors), daemon=daemon)
        process.start()
        processes.append(process)
        queues.append(errors)
    context = ProcessContext(processes, queues)
    if not join:
        return context
    while not context.join():
        pass
    return None


def spawn(
    fn: Callable[..., Any], args: tuple[Any, ...] = (), nprocs: int = 1, join: bool = True, daemon: bool = False,
    start_method: str = "spawn",
) -> ProcessContext | None:  # fmt: skip
    """Run `fn(i, *args)` in newly started processes i = 0, 1, ..., and wait for them.

    An error in one ends the others and is raised here, with its traceback.

    Args:
        fn: function `fn(i, *args)`, which can be pickled.
        args: further arguments of the function.
        nprocs: number of processes.
        join: whether to wait for all of them.
        daemon: whether processes end with this one.
        start_method: `"spawn"`, `"fork"` or `"forkserver"`.
    """
    return start_processes(fn, args, nprocs, join, daemon, start_method)
