"""Time and memory of a row in each library."""

from __future__ import annotations

import gc
import importlib
import time
from collections.abc import Callable
from dataclasses import dataclass

from benchmarks.gpu.rows import DEVICE, Row, Step

#: Number of samples of each variant, many and short, so that some are undisturbed; seconds of one; steps before them.
SAMPLES, SECONDS, BEFORE = 21, 0.05, 4
LIBRARIES = ("torch", "ndgrad")


@dataclass
class Way:
    """One variant of a row's step: a library, compiled or not."""

    library: str
    is_compiled: bool
    #: Seconds of the fastest sample per step, the loss of the first step, or the reason for their absence.
    seconds: float = float("inf")
    loss: float = float("nan")
    problem: str = ""
    #: Peak bytes in use during an eager step, above the bytes in use before the model was made.
    peak: int = 0


def find_wait(name: str) -> Callable[[], None]:
    """Return a function that waits until the device has finished the work of a library."""
    if DEVICE.name == "cpu":
        return lambda: None
    if name == "torch":
        wait: Callable[[], None] = importlib.import_module("torch").cuda.synchronize
        return wait
    cupy = importlib.import_module("cupy")
    return lambda: cupy.cuda.get_current_stream().synchronize()


def prepare(wanted: Row, way: Way) -> tuple[Step, int] | None:
    """Run a step once. Return it with the number of steps in a sample; None if there is a problem, which is noted."""
    torch = importlib.import_module(way.library)
    wait = find_wait(way.library)
    try:
        step = wanted.make(torch)
        step = torch.compile(step) if way.is_compiled else step
        way.loss = float(step().detach().float().sum())
        for _ in range(BEFORE):
            step()
        wait()
        start = time.perf_counter()
        step()
        wait()
        return step, max(1, min(300, int(SECONDS / (time.perf_counter() - start))))
    except Exception as error:  # the other rows still run
        way.problem = f"{type(error).__name__}: {str(error)[:160]}"
        return None


def sample(way: Way, step: Step, count: int) -> None:
    """Time some steps between two waits."""
    wait = find_wait(way.library)
    start = time.perf_counter()
    for _ in range(count):
        step()
    wait()
    way.seconds = min(way.seconds, (time.perf_counter() - start) / count)


def measure(wanted: Row, is_compiled: bool) -> list[Way]:
    """Time a row in both libraries, compiled or not. Their samples alternate, so that disturbances affect both."""
    ways = [Way(name, is_compiled) for name in LIBRARIES]
    steps = [(way, made) for way in ways if (made := prepare(wanted, way)) is not None]
    gc.collect()
    gc.disable()  # as `timeit` does
    for _ in range(SAMPLES):
        for way, (step, count) in steps:
            sample(way, step, count)
    gc.enable()
    first, second = ways
    if not (first.problem or second.problem):
        if not abs(first.loss - second.loss) <= wanted.tolerance * max(1.0, abs(first.loss)):
            second.problem = f"other loss: {second.loss} for {first.loss}"
    del steps
    for name in LIBRARIES:
        # Compiled functions of a row are not used again, and torch keeps at most eight of a function.
        importlib.import_module(name)._dynamo.reset()
    release()
    return ways


def is_lost(problem: str) -> bool:
    """True if a problem has ended the use of the device by this process, such as an illegal address in a kernel."""
    return any(word in problem.lower() for word in ("illegal", "misaligned", "launch failure", "launchfailure"))


def release() -> None:
    """Free the memory of a row."""
    gc.collect()
    if DEVICE.name != "cpu":
        for name in LIBRARIES:
            importlib.import_module(name).cuda.empty_cache()


def measure_memory(wanted: Row, ways: list[Way]) -> None:
    """Note the peaks of eager steps. This comes after all timing, because counting allocations slows them down."""
    for way in ways:
        if way.is_compiled or way.problem or wanted.is_recorded:  # a graph holds all its memory at any time
            continue
        cuda = importlib.import_module(way.library).cuda
        before = cuda.memory_allocated()
        step = wanted.make(importlib.import_module(way.library))
        step()
        find_wait(way.library)()
        cuda.reset_peak_memory_stats()
        for _ in range(2):
            step()
        way.peak = cuda.max_memory_allocated() - before
        del step
        release()
