"""`python -m ndgrad.launch -n 4 train.py ...`: start a program on several ranks of this machine.

In addition to calling `mpiexec`, it finds the `mpiexec` of this interpreter, puts the rank before each line of output,
and forwards signals. It notices a rank that dies and tells the others, which raise errors with its rank and the waiting
call. It limits the time until they end, and leaves no process behind. With `--max-restarts` a job that fails is started
again, and continues from its last checkpoint if the program loads one. torchrun's options are accepted. For several
machines use the cluster's own launcher (`srun`, `mpiexec -f hosts`): the program is the same.
"""

from __future__ import annotations

import argparse
import contextlib
import ctypes
import faulthandler
import io
import os
import runpy
import shutil
import signal
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Any, TextIO

#: Folder in which the ranks of a launched job and its launcher exchange information.
DIRECTORY = "NDGRAD_LAUNCH_DIR"
#: The process that started the job; ranks end when it has ended.
_STARTER = "NDGRAD_LAUNCH_PID"
#: Windows has no SIGKILL: there SIGTERM ends a process at once.
_KILL = getattr(signal, "SIGKILL", signal.SIGTERM)
#: Seconds between two checks of the processes above a rank.
_WATCH = 0.5
#: Seconds until the other ranks must end after one has died.
_GRACE = 10.0
_RANKS = ("PMI_RANK", "PMIX_RANK", "OMPI_COMM_WORLD_RANK", "SLURM_PROCID")
_SIZES = ("PMI_SIZE", "OMPI_COMM_WORLD_SIZE", "SLURM_NTASKS")


def find_mpiexec() -> str:
    """Return the program that starts MPI's processes: preferably the one next to this interpreter."""
    beside = Path(sys.executable).parent
    for name in ("mpiexec", "mpirun"):
        found = shutil.which(name, path=str(beside)) or shutil.which(name)
        if found:
            return found
    raise FileNotFoundError(
        f"no mpiexec was found beside {sys.executable} or on the PATH. Install one: pip install mpi4py mpich. "
        "[nd-install]"
    )


# ----- a rank ---------------------------------------------------------------------------------------------------------


class _Labelled:
    """A stream that puts the rank before each line, and writes whole lines."""

    def __init__(self, stream: TextIO, label: str) -> None:
        self._stream, self._label, self._rest = stream, label, ""

    def write(self, text: str) -> int:
        self._rest += text
        *lines, self._rest = self._rest.split("\n")
        if lines:
            self._stream.write("".join(f"{self._label}{line}\n" for line in lines))
            self._stream.flush()
        return len(text)

    def flush(self) -> None:
        if self._rest:
            self._stream.write(f"{self._label}{self._rest}")
            self._rest = ""
        self._stream.flush()

    def __getattr__(self, name: str) -> Any:
        return getattr(self._stream, name)


def _environment_number(names: Sequence[str]) -> int | None:
    return next((int(os.environ[n]) for n in names if os.environ.get(n, "").isdigit()), None)


def tell_environment(anew: bool = False) -> None:
    """Set the variables that torchrun sets, from those of MPI's launchers; programs read them before they initialise
    the process group. Variables that are set stay, unless they are to be set `anew`: a rank may start another job.
    """
    rank, size = _environment_number(_RANKS), _environment_number(_SIZES)
    if rank is None or size is None:
        return
    local = _environment_number(("MPI_LOCALRANKID", "OMPI_COMM_WORLD_LOCAL_RANK", "SLURM_LOCALID"))
    beside = _environment_number(("MPI_LOCALNRANKS", "OMPI_COMM_WORLD_LOCAL_SIZE"))
    told = {
        "RANK": rank, "WORLD_SIZE": size, "LOCAL_RANK": rank if local is None else local,
        "LOCAL_WORLD_SIZE": size if beside is None else beside, "GROUP_RANK": 0,
    }  # fmt: skip
    for name, value in told.items():
        if anew or name not in os.environ:
            os.environ[name] = str(value)
    os.environ.setdefault("MASTER_ADDR", "localhost")
    os.environ.setdefault("MASTER_PORT", "29500")


def _die_with_parent() -> None:
    """Ask Linux to end this process when its parent ends, for any reason. Other systems have no such request."""
    with contextlib.suppress(Exception):
        ctypes.CDLL(None).prctl(1, _KILL)


def _watch_parents(child: int) -> None:
    """Start a thread that ends a rank and its guard when their parent or the starter of the job has ended.

    Signals cannot tell a job that its starter was killed, and only Linux can end a process with its parent.
    """
    parent, starter = os.getppid(), _environment_number((_STARTER,))

    def watch() -> None:
        while os.getppid() == parent and (starter is None or _is_running(starter)):
            time.sleep(_WATCH)
        _send(child, _KILL)
        os._exit(128 + _KILL)

    threading.Thread(target=watch, daemon=True).start()


def _is_running(pid: int) -> bool:
    """True if there is a process of this id. (On Windows os.kill would end it; no caller runs there.)"""
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return False
    except PermissionError:
        return True
    return True


def _run_rank(arguments: list[str]) -> int:
    """Run the process that mpiexec starts for every rank: a guard, whose child is the rank. MPI's launchers kill a job
    as soon as one of their processes dies, before the others can report the waiting call; the guard gives them time.
    Without os.fork (Windows) the process is the rank itself, and a rank that crashes ends the job at once.
    """
    rank, size = _environment_number(_RANKS), _environment_number(_SIZES)
    directory = os.environ.get(DIRECTORY)
    if rank is None or directory is None:
        _run_program(arguments)
        return 0
    tell_environment(anew=True)
    if not hasattr(os, "fork"):
        try:
            _begin_rank(rank, directory)
            _run_program(arguments)
        finally:
            Path(directory, f"ended-{rank}").write_text("0")
        return 0
    _die_with_parent()
    child = os.fork()
    if not child:
        _die_with_parent()
        _begin_rank(rank, directory)
        _run_program(arguments)
        return 0
    for number in (signal.SIGINT, signal.SIGTERM):
        signal.signal(number, lambda n, frame: _send(child, n))
    _watch_parents(child)
    status = os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])
    Path(directory, f"ended-{rank}").write_text(str(status))
    if status < 0:
        with Path(directory, "dead").open("a") as file:
            file.write(f"{rank}\n")
        end = time.monotonic() + _GRACE
        while time.monotonic() < end and len(list(Path(directory).glob("ended-*"))) < (size or 1):
            time.sleep(0.05)
    return status if status >= 0 else 128 - status


def _begin_rank(rank: int, directory: str) -> None:
    """Tell the starter the process id of a rank, and label its output."""
    Path(directory, f"rank-{rank}").write_text(str(os.getpid()))
    if os.environ.get("NDGRAD_LAUNCH_LABELS") == "1":
        sys.stdout, sys.stderr = _Labelled(sys.stdout, f"[{rank}] "), _Labelled(sys.stderr, f"[{rank}] ")
    elif isinstance(sys.stdout, io.TextIOWrapper):  # lines stay whole among those of other ranks
        sys.stdout.reconfigure(line_buffering=True, write_through=False)


def _send(pid: int, number: int) -> None:
    with contextlib.suppress(OSError):  # it has ended; Windows has several errors for that
        os.kill(pid, number)


def _run_program(arguments: list[str]) -> None:
    if hasattr(faulthandler, "register"):
        faulthandler.register(signal.SIGUSR2, file=sys.__stderr__ or 2, all_threads=True)
    try:
        if arguments[0] == "-m":
            sys.argv = arguments[1:]
            runpy.run_module(arguments[1], run_name="__main__", alter_sys=True)
        else:
            sys.argv = arguments
            sys.path.insert(0, str(Path(arguments[0]).resolve().parent))
            runpy.run_path(arguments[0], run_name="__main__")
    finally:
        sys.stdout.flush()
        sys.stderr.flush()


# ----- the job --------------------------------------------------------------------------------------------------------


class Job:
    """Processes that were started together."""

    def __init__(
        self, count: int, program: Sequence[str], *, labels: bool = True, grace: float = 15.0, environment: Any = None,
        stdout: Any = None, stderr: Any = None,
    ) -> None:  # fmt: skip
        self.count, self.grace = count, grace
        self.directory = Path(tempfile.mkdtemp(prefix="ndgrad-launch-"))
        mpiexec = find_mpiexec()
        settings = {
            **(environment or os.environ),
            DIRECTORY: str(self.directory),
            _STARTER: str(os.getpid()),
            "NDGRAD_LAUNCH_LABELS": "1" if labels else "0",
        }
        settings.setdefault("PYTHONUNBUFFERED", "1")
        self.process = subprocess.Popen(
            [mpiexec, "-n", str(count), sys.executable, "-m", "ndgrad.launch", "--rank", *program],
            env=settings, start_new_session=True, stdout=stdout, stderr=stderr, stdin=subprocess.DEVNULL,
        )  # fmt: skip
        self._stopped_at: float | None = None
        self._stop_signal = 0
        self._told: set[int] = set()

    def pids(self) -> dict[int, int]:
        """Return the process ids of the ranks that have begun."""
        found = {}
        for path in self.directory.glob("rank-*"):
            with contextlib.suppress(OSError, ValueError):
                found[int(path.name[5:])] = int(path.read_text())
        return found

    def dead(self) -> list[int]:
        """Return the ranks that were killed, or crashed."""
        return _dead_in(self.directory)

    def poll(self) -> int | None:
        """Return the exit status when all have ended, else None. A job that was asked to stop has `grace` seconds to do
        so.
        """
        if self._stopped_at is not None:
            for pid in set(self.pids().values()) - self._told:  # including ranks that had not begun yet
                self._told.add(pid)
                _send(pid, self._stop_signal)
            if time.monotonic() - self._stopped_at > self.grace:
                self.kill()
        return self.process.poll()

    def wait(self) -> int:
        """Wait for the end of all ranks; return the exit status."""
        while (status := self.poll()) is None:
            time.sleep(0.02)
        return status

    def stop(self, number: int) -> None:
        """Send a signal to every rank, after which the job must end."""
        self._stopped_at, self._stop_signal = time.monotonic(), number
        self.poll()

    def signal(self, number: int) -> None:
        """Send a signal to every rank that has not ended: another process may have its id by then."""
        ended = {path.name[6:] for path in self.directory.glob("ended-*")}
        for rank, pid in self.pids().items():
            if str(rank) not in ended:
                _send(pid, number)

    def kill(self) -> None:
        """End all processes of the job."""
        self.signal(_KILL)
        if hasattr(os, "killpg"):  # the launcher of MPI leads its own session
            with contextlib.suppress(ProcessLookupError, PermissionError):
                os.killpg(self.process.pid, _KILL)
        else:
            self.process.kill()
        with contextlib.suppress(subprocess.TimeoutExpired):
            self.process.wait(10)

    def close(self) -> None:
        """Clean up."""
        if self.process.poll() is None:
            self.kill()
        self.signal(_KILL)
        shutil.rmtree(self.directory, ignore_errors=True)


def dead_ranks() -> list[int]:
    """Return the ranks of this job that its launcher has found dead; empty without this launcher."""
    directory = os.environ.get(DIRECTORY)
    if not directory:
        return []
    return _dead_in(Path(directory))


def _dead_in(directory: Path) -> list[int]:
    try:
        return [int(line) for line in (directory / "dead").read_text().split()]
    except OSError:
        return []


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the command."""
    given = list(sys.argv[1:] if arguments is None else arguments)
    if given[:1] == ["--rank"]:
        return _run_rank(given[1:])
    found = _parse(given)
    program = [*(["-m"] if found.module else []), found.program, *found.arguments]
    if found.as_torch:
        program = ["-m", "ndgrad.as_torch", *program]
    for attempt in range(found.max_restarts + 1):
        status, stopped = _run_job(found, program, attempt)
        if status == 0 or stopped or attempt == found.max_restarts:
            break
        left = found.max_restarts - attempt
        print(f"ndgrad.launch: the job ended with status {status}; it is started again ({left} left)", file=sys.stderr)
    return status


def _parse(given: list[str]) -> argparse.Namespace:
    parser = argparse.ArgumentParser(
        prog="python -m ndgrad.launch", description="Run a program on several ranks of this machine."
    )
    parser.add_argument(
        "-n", "--nproc-per-node", "--nproc_per_node", default=str(os.cpu_count() or 1),
        help="how many ranks: a number, or cpu, gpu, auto",
    )  # fmt: skip
    parser.add_argument("--no-labels", action="store_true", help="output as it is, without the rank before each line")
    parser.add_argument("-m", "--module", action="store_true", help="the program is a module")
    parser.add_argument(
        "--max-restarts", "--max_restarts", type=int, default=0,
        help="how often a job that fails is started again, with RESTART_COUNT in its environment",
    )  # fmt: skip
    parser.add_argument("--as-torch", action="store_true", help="`import torch` in the program imports ndgrad")
    parser.add_argument("--standalone", action="store_true", help="accepted as torchrun's: a job is always alone")
    parser.add_argument("--nnodes", default="1", help="machines: 1; use the cluster's launcher for several")
    for name in ("node-rank", "master-addr", "master-port", "rdzv-backend", "rdzv-endpoint", "rdzv-id"):
        parser.add_argument(f"--{name}", f"--{name.replace('-', '_')}", help="accepted as torchrun's: MPI needs none")
    parser.add_argument("program", help="a Python file, or a module with -m")
    parser.add_argument("arguments", nargs=argparse.REMAINDER)
    found = parser.parse_args(given)
    counts = {"cpu": os.cpu_count() or 1, "auto": os.cpu_count() or 1, "gpu": _gpu_count}
    count: Any = counts.get(found.nproc_per_node, found.nproc_per_node)
    try:
        found.nproc_per_node = int(count() if callable(count) else count)
    except ValueError:
        parser.error(f"-n {count}: give a number, or cpu, gpu or auto")
    if found.nproc_per_node < 1:
        parser.error(f"-n {found.nproc_per_node}: a job has at least one rank")
    if found.max_restarts < 0:
        parser.error(f"--max-restarts {found.max_restarts}: give 0 or more")
    if found.nnodes.partition(":")[0] != "1" or (found.node_rank or "0") != "0":
        parser.error(
            f"--nnodes {found.nnodes}: this launcher starts ranks on one machine. Use the cluster's own for several "
            "(srun, mpiexec -f hosts)"
        )
    return found


def _gpu_count() -> int:
    from ndgrad import cuda  # rarely needed

    return cuda.device_count()


def _run_job(found: argparse.Namespace, program: list[str], attempt: int) -> tuple[int, bool]:
    """Run the ranks once; return the exit status, and True if a signal stopped them."""
    environment = {**os.environ, "RESTART_COUNT": str(attempt), "TORCHELASTIC_RESTART_COUNT": str(attempt)}
    job = Job(found.nproc_per_node, program, labels=not found.no_labels, environment=environment)
    stopped: list[int] = []

    def forward(number: int, frame: Any) -> None:
        stopped.append(number)
        if len(stopped) > 1:
            job.kill()
        else:
            job.stop(number)

    before = {number: signal.signal(number, forward) for number in (signal.SIGINT, signal.SIGTERM)}
    try:
        status = job.wait()
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)
        dead = job.dead()
        job.close()
    for rank in dead if not stopped else ():
        print(f"ndgrad.launch: rank {rank} was killed, or crashed", file=sys.stderr)
    return (128 + stopped[0], True) if stopped else (status if 0 <= status < 256 else 1, False)


if __name__ == "__main__":
    sys.exit(main())
