"""Footprint of a library: peak memory of a job, time of the first call, time to import, size of the wheel.

Each measurement needs a fresh process, because touched memory and imported modules stay in a process.
`python -m benchmarks.footprint memory chain torch` runs one measured child.
"""

from __future__ import annotations

import compileall
import json
import re
import subprocess
import sys
import tempfile
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np

from benchmarks.libraries import LIBRARIES, Functional, child_environment
from benchmarks.registry import WORKLOADS, Step
from benchmarks.workloads.chain import SEED, chain_functional_step, chain_step, draw, inputs

ROOT = Path(__file__).resolve().parent.parent
MEMORY_SIZE, MEMORY_OPS = 10_000_000, 50
IMPORT_GOAL, WHEEL_GOAL_BYTES = 1.5, 3_000_000
#: By job and library: the largest allowed ratio to torch's peak.
MEMORY_GOALS = {
    ("chain", "ndgrad"): 1.0,
    ("chain", "ndgrad-compiled"): 0.06,
    ("chain-of-two", "ndgrad"): 1.0,
    ("transformer", "ndgrad-compiled"): 0.9,
}
#: Programs whose peak is measured: chains of one leaf and of two, and a workload.
MEMORY_JOBS = ("chain", "chain-of-two", "transformer")
#: Steps of a job: a compiled function may choose another program after the first calls.
STEPS = 5

IMPORT_PROGRAM = "import time; s = time.perf_counter(); import {0}; print(time.perf_counter() - s)"


def peak_memory(
    names: Sequence[str], jobs: Sequence[str], size: int = MEMORY_SIZE
) -> dict[str, dict[str, dict[str, Any]]]:
    """Return, by job and library, bytes above the baseline, and seconds. The jobs are 50 elementwise ops in float32, of
    one leaf and of two, and a transformer block, all forward and backward. Leaves count, but not the memory needed to
    make them: a leaf and its gradient are the minimum."""
    return {
        job: {name: _child(f"peak memory of {job}, {name}", "memory", job, name, str(size)) for name in names}
        for job in jobs
    }


def first_calls(names: Sequence[str], workloads: Sequence[str]) -> dict[str, dict[str, Any]]:
    """Return, by workload and library, seconds of the first step in a fresh process, by wall clock and of all its
    threads: with empty caches on disk, and again with the cache that ndgrad has written."""
    results: dict[str, dict[str, Any]] = {}
    _with_bytecode()
    for job in workloads:
        with tempfile.TemporaryDirectory() as cache:
            cells = {name: _child(f"first call of {job}, {name}", "first", job, name, cache=cache) for name in names}
            if "ndgrad-compiled" in names:
                cells["ndgrad, from its cache"] = _child(
                    f"first call of {job}, again", "first", job, "ndgrad-compiled", cache=cache
                )
        results[job] = {name: cell.get("problem", cell) for name, cell in cells.items()}
    return results


def _child(what: str, *arguments: str, cache: str | None = None) -> dict[str, Any]:
    """Run a fresh process. Return the last line that it prints, or its last error line."""
    print(f"{what} ...", file=sys.stderr, flush=True)
    extra = (
        {} if cache is None else {"NDGRAD_CACHE_DIR": f"{cache}/ndgrad", "TORCHINDUCTOR_CACHE_DIR": f"{cache}/torch"}
    )
    finished = subprocess.run(
        [sys.executable, "-m", "benchmarks.footprint", *arguments],
        capture_output=True,
        text=True,
        env={**child_environment(), **extra},
        check=False,
    )
    if finished.returncode == 0:
        found: dict[str, Any] = json.loads(finished.stdout.splitlines()[-1])
        return found
    return {"problem": (finished.stderr.strip().splitlines() or ["no output"])[-1]}


def import_times(names: Sequence[str], repetitions: int) -> dict[str, list[float] | None]:
    """Return the seconds of `import package` in fresh processes, in turn; None for a package that does not import."""
    packages = list(dict.fromkeys(["numpy", *(LIBRARIES[name].package for name in names)]))
    times: dict[str, list[float] | None] = {package: [] for package in packages}
    print("import times ...", file=sys.stderr, flush=True)
    _with_bytecode()
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
    # The first round reads cold files and writes bytecode, so it does not count.
    return {package: known and known[1:] for package, known in times.items()}


def _with_bytecode() -> None:
    """Compile the sources to bytecode, as an installer does; the environment may forbid it at import."""
    compileall.compile_dir(ROOT / "src", quiet=2)


def wheel_size() -> dict[str, int]:
    """Return the bytes of each built wheel in dist/."""
    return {path.name: path.stat().st_size for path in sorted((ROOT / "dist").glob("*.whl"))}


# ----- the measured child ---------------------------------------------------------------------------------


def _status_bytes(field: str) -> int:
    found = re.search(rf"^{field}:\s+(\d+) kB", Path("/proc/self/status").read_text(), re.MULTILINE)
    if found is None:
        raise OSError(f"no field {field} in /proc/self/status: peak memory is measured on Linux only")
    return int(found[1]) * 1024


def _measure_memory(job: str, name: str, size: int) -> dict[str, Any]:
    namespace = LIBRARIES[name].load()
    count = {"chain": 1, "chain-of-two": 2}.get(job)
    _chain(namespace, 10, count or 1)()  # code loaded on first use belongs to the baseline
    baseline = _status_bytes("VmRSS")
    start = time.perf_counter()
    step = WORKLOADS[job].build(namespace) if count is None else _chain(namespace, size, count)
    Path("/proc/self/clear_refs").write_text("5")  # resets the peak
    for _ in range(STEPS):
        step()
    seconds = time.perf_counter() - start
    leaves = "one leaf" if count == 1 else f"{count} leaves"
    title = WORKLOADS[job].title if count is None else f"{MEMORY_OPS} ops on {leaves} of {size / 1e6:g}M float32"
    return {"title": title, "bytes": _status_bytes("VmHWM") - baseline, "seconds": seconds}


def _chain(namespace: Any, size: int, leaves: int) -> Step:
    arrays, ops = inputs(size, np.float32, leaves), draw(MEMORY_OPS, SEED, leaves)
    if isinstance(namespace, Functional):
        return chain_functional_step(namespace, arrays, ops)
    return chain_step(namespace, arrays, ops)


def _measure_first(workload: str, name: str) -> dict[str, Any]:
    why = WORKLOADS[workload].skip.get(name)
    if why is not None:
        return {"problem": why}
    step = WORKLOADS[workload].build(LIBRARIES[name].load())
    start, used = time.perf_counter(), time.process_time()
    step()
    return {"seconds": time.perf_counter() - start, "processor": time.process_time() - used}


if __name__ == "__main__":
    match sys.argv[1:]:
        case ["memory", job, library, elements]:
            print(json.dumps(_measure_memory(job, library, int(elements))))
        case ["first", job, library]:
            print(json.dumps(_measure_first(job, library)))
