"""What a library weighs: peak memory of one job, time to import, size of the wheel.

Each needs a fresh process per measurement, since memory that was once touched and modules that were once
imported do not go away. `python -m benchmarks.footprint memory torch` is the measured child.
"""

from __future__ import annotations

import compileall
import json
import re
import subprocess
import sys
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np

from benchmarks.libraries import LIBRARIES, Functional, child_environment
from benchmarks.workloads.chain import chain_functional_step, chain_step, inputs

ROOT = Path(__file__).resolve().parent.parent
MEMORY_SIZE, MEMORY_OPS = 10_000_000, 50
MEMORY_GOAL, IMPORT_GOAL, WHEEL_GOAL_BYTES = 1.0, 1.5, 3_000_000

IMPORT_PROGRAM = "import time; s = time.perf_counter(); import {0}; print(time.perf_counter() - s)"


def peak_memory(names: Sequence[str], size: int = MEMORY_SIZE) -> dict[str, dict[str, Any]]:
    """Bytes above the baseline, and seconds, of 50 elementwise ops in float32 forward and backward."""
    results: dict[str, dict[str, Any]] = {}
    for name in names:
        print(f"peak memory of {name} ...", file=sys.stderr, flush=True)
        finished = subprocess.run(
            [sys.executable, "-m", "benchmarks.footprint", "memory", name, str(size)],
            capture_output=True,
            text=True,
            env=child_environment(),
            check=False,
        )
        if finished.returncode == 0:
            results[name] = json.loads(finished.stdout.splitlines()[-1])
        else:
            results[name] = {"problem": (finished.stderr.strip().splitlines() or ["no output"])[-1]}
    return results


def import_times(names: Sequence[str], repetitions: int) -> dict[str, list[float] | None]:
    """Seconds of `import package` in fresh processes, in turn; None for a package that does not import."""
    packages = list(dict.fromkeys(["numpy", *(LIBRARIES[name].package for name in names)]))
    times: dict[str, list[float] | None] = {package: [] for package in packages}
    print("import times ...", file=sys.stderr, flush=True)
    compileall.compile_dir(ROOT / "src", quiet=2)  # as an installer does; the environment may forbid it at import
    for _ in range(repetitions + 1):
        for package in packages:
            known = times[package]
            if known is not None:
                finished = subprocess.run(
                    [sys.executable, "-c", IMPORT_PROGRAM.format(package)],
                    capture_output=True,
                    text=True,
                    env=child_environment(),
                    check=False,
                )
                times[package] = [*known, float(finished.stdout)] if finished.returncode == 0 else None
    # The first round reads cold files and writes bytecode.
    return {package: known and known[1:] for package, known in times.items()}


def wheel_size() -> dict[str, int]:
    """Bytes of each built wheel in dist/."""
    return {path.name: path.stat().st_size for path in sorted((ROOT / "dist").glob("*.whl"))}


# ----- the measured child ---------------------------------------------------------------------------------


def _status_bytes(field: str) -> int:
    found = re.search(rf"^{field}:\s+(\d+) kB", Path("/proc/self/status").read_text(), re.MULTILINE)
    if found is None:
        raise OSError(f"no field {field} in /proc/self/status: peak memory is measured on Linux only")
    return int(found[1]) * 1024


def _measure_memory(name: str, size: int) -> dict[str, Any]:
    namespace = LIBRARIES[name].load()

    def run(count: int) -> None:
        arrays = inputs(count, np.float32)
        if isinstance(namespace, Functional):
            chain_functional_step(namespace, arrays, MEMORY_OPS)()
        else:
            chain_step(namespace, arrays, MEMORY_OPS)()

    run(10)  # code that is loaded on first use belongs to the baseline
    baseline = _status_bytes("VmRSS")
    start = time.perf_counter()
    run(size)
    seconds = time.perf_counter() - start
    return {"elements": size, "bytes": _status_bytes("VmHWM") - baseline, "seconds": seconds}


if __name__ == "__main__":
    _, _, library, elements = sys.argv
    print(json.dumps(_measure_memory(library, int(elements))))
