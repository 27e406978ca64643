"""Run all tests and all benchmark rows on a machine with a GPU: `python scripts/check_gpu.py FOLDER`.

The call ends within ten minutes. FOLDER receives the log of the tests, and the tables of single ops and of programs.
The exit status is that of the tests.
"""

from __future__ import annotations

import argparse
import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).parents[1]
#: Seconds for the tests, for single ops, and for programs. A program that has begun is finished.
TESTS, OPS, PROGRAMS = 150, 60, 240


def run_logged(path: Path, seconds: float, *arguments: str) -> int:
    """Run Python with arguments, its output in a file. Return the exit status, 124 after the time limit."""
    with path.open("w", encoding="utf-8") as log:
        try:
            command = [sys.executable, *arguments]
            return subprocess.run(command, cwd=ROOT, stdout=log, stderr=log, timeout=seconds, check=False).returncode
        except subprocess.TimeoutExpired:
            log.write(f"\nstopped after {seconds:.0f} s\n")
            return 124


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("folder", type=Path, help="folder for logs and tables")
    parser.add_argument("--workers", default="8", help="processes that run tests")
    arguments = parser.parse_args()
    folder = arguments.folder.resolve()
    folder.mkdir(parents=True, exist_ok=True)
    tests = ("tests/gpu", "tests/compiler/cuda")
    status = run_logged(folder / "tests.log", TESTS, "-m", "pytest", "-q", "-n", arguments.workers, *tests)
    for name, seconds, options in (("ops", OPS, ("--ops",)), ("programs", PROGRAMS, ("--compiled",))):
        command = ("-m", "benchmarks.gpu", *options, "--seconds", str(seconds), "--output", str(folder))
        run_logged(folder / f"{name}.log", 1.5 * seconds, *command)
    print((folder / "tests.log").read_text(encoding="utf-8").splitlines()[-1])
    return status


if __name__ == "__main__":
    sys.exit(main())
