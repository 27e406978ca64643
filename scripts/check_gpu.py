"""Run all tests and all benchmark rows on a machine with a GPU: `python scripts/check_gpu.py FOLDER`.

The call ends within ten minutes. FOLDER receives files that grow as results come, so an interrupted call leaves those
that it has. The order is that of importance:

    tests.log               tests of a GPU, those of kernels that have never run on a device first
    programs.md, .jsonl     programs beside torch, eager and then compiled
    ops.md, .jsonl          single ops beside torch
    models.md, .jsonl       models of transformers beside torch, if it can be imported

A fault of a kernel ends the use of the device by a process, so a stage goes on in a new process behind the failed row.
The exit status is that of the tests.
"""

from __future__ import annotations

import argparse
import signal
import subprocess
import sys
import time
from pathlib import Path

ROOT = Path(__file__).parents[1]
#: Shares of the time for the tests, eager programs, single ops, compiled programs, and models of transformers.
SHARES = {"tests": 0.27, "programs": 0.14, "ops": 0.13, "compiled": 0.3, "models": 0.16}
#: Seconds in which a process ends after it was asked to, and the most processes of a stage.
ENDING, MOST_PROCESSES = 10.0, 8
#: Files of tests that run first.
FIRST = ("tests/gpu/test_table.py", "tests/gpu/test_compile.py", "tests/gpu/test_programs.py")


def run_logged(path: Path, end: float, *arguments: str) -> int:
    """Run Python with arguments, its output appended to a file. Return the exit status, 124 after the time limit."""
    with path.open("a", encoding="utf-8") as log:
        process = subprocess.Popen([sys.executable, *arguments], cwd=ROOT, stdout=log, stderr=log)
        try:
            return process.wait(max(1.0, end - time.monotonic()))
        except subprocess.TimeoutExpired:
            process.send_signal(signal.SIGINT)  # pytest then prints the failures so far
            try:
                process.wait(ENDING)
            except subprocess.TimeoutExpired:
                process.kill()
                process.wait()
            log.write("\nstopped at the time limit\n")
            return 124


def run_rows(folder: Path, name: str, end: float, *options: str) -> None:
    """Run rows of the benchmark, in further processes as long as faults end them."""
    for _ in range(MOST_PROCESSES):
        left = end - time.monotonic()
        if left < 2 * ENDING:
            return
        limits = ("--resume", "--seconds", str(left - ENDING), "--output", str(folder))
        status = run_logged(folder / f"{name}.log", end + ENDING, "-m", "benchmarks.gpu", *options, *limits)
        if status in (0, 124):
            return


def run_models(folder: Path, end: float) -> None:
    """Run models of transformers in both libraries, one after the other."""
    log, program = folder / "models.log", ("-m", "benchmarks.gpu.library_models", "--output", str(folder))
    for library, share in (("torch", 0.5), ("ndgrad", 1.0)):
        left = (end - time.monotonic()) * share
        options = ("--library", library, "--seconds", str(max(0.0, left - ENDING)))
        run_logged(log, time.monotonic() + left, *program, *options)
    run_logged(log, time.monotonic() + ENDING, *program, "--join")


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("folder", type=Path, help="folder for logs and tables")
    parser.add_argument("--workers", default="8", help="processes that run tests")
    parser.add_argument("--seconds", type=float, default=560.0, help="time of the whole call")
    parser.add_argument("--stages", nargs="+", choices=SHARES, default=list(SHARES), help="parts to run, in order")
    arguments = parser.parse_args()
    folder = arguments.folder.resolve()
    folder.mkdir(parents=True, exist_ok=True)
    for old in (*folder.glob("*.jsonl"), *folder.glob("*.log")):
        old.unlink()
    end = time.monotonic() + arguments.seconds
    status, left = 0, sum(SHARES[stage] for stage in arguments.stages)
    for stage in arguments.stages:
        # Time that a stage has not used is shared among the later ones.
        now = time.monotonic()
        limit = now + (end - now) * SHARES[stage] / left
        left -= SHARES[stage]
        print(f"{stage}: at most {limit - now:.0f} s", flush=True)
        if stage == "tests":
            tests = (*FIRST, "tests/gpu", "tests/compiler/cuda")
            options = ("-v", "-n", arguments.workers, "--tb=short")
            status = run_logged(folder / "tests.log", limit, "-m", "pytest", *options, *tests)
            print((folder / "tests.log").read_text(encoding="utf-8").rstrip().rpartition("\n")[2], flush=True)
        elif stage == "models":
            run_models(folder, limit)
        else:
            run_rows(folder, stage, limit, *{"programs": (), "ops": ("--ops",), "compiled": ("--compiled",)}[stage])
        print(f"{stage}: {time.monotonic() - now:.0f} s", flush=True)
    return status


if __name__ == "__main__":
    sys.exit(main())
