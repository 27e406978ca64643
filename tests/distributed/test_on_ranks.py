"""The programs in `programs/`, on 1 to 4 ranks of this machine; each is a test of its own, and one start of MPI serves
all of a count."""

from __future__ import annotations

import fcntl
import json
import os
import signal
import sys
import time
from pathlib import Path

import pytest

pytest.importorskip("mpi4py")

from tests.distributed.runner import Program, programs
from tests.examples import in_a_long_run

from ndgrad.launch import Job

#: Until then all programs of one count must have run, in seconds.
PATIENCE = 480.0
ROOT = Path(__file__).parents[2]
#: Measures the joint speed of ranks, and so needs a core for each.
TIMED = "training.a_step_is_recorded_and_the_machine_measured_alike_on_all_ranks"


def counts_of(program: Program) -> list[int]:
    """On how many ranks a program runs: in a short run on one if it can, and on three, among which more can differ than among two."""
    if in_a_long_run():
        return [*program.counts]
    several = 3 if 3 in program.counts and program.name != TIMED else max(n for n in program.counts if n != 3)
    return sorted({several, *program.counts} & {1, several})


CASES = [(p.name, n) for p in programs() for n in counts_of(p)]


def _run(count: int, directory: Path) -> None:
    """Run all programs of a count; what each rank says of each is in a file per rank."""
    paths = os.pathsep.join([str(ROOT / "src"), str(ROOT), os.environ.get("PYTHONPATH", "")])
    with (directory / "output").open("w") as output:
        job = Job(
            count, ["-m", "tests.distributed.runner", str(directory), *(name for name, n in CASES if n == count)],
            environment={**os.environ, "PYTHONPATH": paths, "OPENBLAS_NUM_THREADS": "1", "OMP_NUM_THREADS": "1"},
            stdout=output, stderr=output,
        )
        try:
            end = time.monotonic() + PATIENCE
            while job.poll() is None and time.monotonic() < end:
                time.sleep(0.02)
            if job.poll() is None:
                job.signal(signal.SIGUSR2)  # every rank writes where it is
                time.sleep(1.0)
        finally:
            job.close()


@pytest.fixture(scope="session")
def results(tmp_path_factory, worker_id="master"):
    """Reports of the ranks: by count, then by rank and program. The workers of pytest share one run of each count."""
    shared = tmp_path_factory.getbasetemp()
    if os.environ.get("PYTEST_XDIST_WORKER"):
        shared = shared.parent
    found: dict[int, tuple[list[dict[str, dict]], str]] = {}

    def run_ranks(count: int):
        if count not in found:
            directory = shared / f"ranks-{count}"
            directory.mkdir(exist_ok=True)
            with (directory / "lock").open("w") as lock:
                fcntl.flock(lock, fcntl.LOCK_EX)
                if not (directory / "output").exists():
                    _run(count, directory)
            said = []
            for rank in range(count):
                path = directory / f"{rank}.jsonl"
                lines = path.read_text().splitlines() if path.exists() else []
                said.append({entry["name"]: entry for entry in map(json.loads, lines)})
            found[count] = said, (directory / "output").read_text()
        return found[count]

    return run_ranks


@pytest.mark.skipif(sys.platform == "win32", reason="MPICH is not there")
@pytest.mark.parametrize(("name", "count"), CASES, ids=[f"{name}-{count}" for name, count in CASES])
def test_program(results, name, count):
    said, output = results(count)
    missing = [rank for rank in range(count) if name not in said[rank]]
    assert not missing, f"ranks {missing} did not finish {name}:\n{output[-6000:]}"
    told = [f"rank {rank}:\n{said[rank][name]['told']}" for rank in range(count) if said[rank][name]["told"]]
    assert not told, "\n".join(told)
