"""Main program of each rank of a test job: all programs for its number of ranks, one after the other, each with its own
verdict.

One start serves many tests, since starting costs more than running. A rank that fails goes on to the next program; the
others, if they waited for it, are released by the timeout of the groups, and all begin the next with groups of their
own.
"""

from __future__ import annotations

import importlib
import json
import sys
import time
import traceback
from datetime import timedelta
from pathlib import Path

MODULES = (
    "collectives", "derivatives", "faults", "dtensors", "placements", "plans", "strided", "wrappers", "training", "sharded",
    "tensor_parallel", "pipelines", "rings", "checkpoints", "remote", "on_gpus",
)  # fmt: skip
#: Longest wait of a rank for the others, in seconds.
PATIENCE = 20.0


class Program:
    def __init__(self, module, function, counts):
        self.name, self.function, self.counts = f"{module}.{function.__name__}", function, counts


def programs() -> list[Program]:
    found = []
    for module in MODULES:
        loaded = importlib.import_module(f"tests.distributed.programs.{module}")
        for function in vars(loaded).values():
            if hasattr(function, "rank_counts") and function.__module__ == loaded.__name__:
                found.append(Program(module, function, function.rank_counts))
    return found


def main() -> None:
    results, wanted = Path(sys.argv[1]), set(sys.argv[2:])
    from mpi4py import MPI

    import ndgrad.distributed as dist

    world = MPI.COMM_WORLD.Dup()
    with (results / f"{world.rank}.jsonl").open("w") as file:
        for program in programs():
            if world.size not in program.counts or (wanted and program.name not in wanted):
                continue
            begun, told = time.perf_counter(), ""
            dist.init_process_group(timeout=timedelta(seconds=PATIENCE))
            try:
                program.function()
            except BaseException:
                told = traceback.format_exc()
            file.write(json.dumps({"name": program.name, "told": told, "seconds": time.perf_counter() - begun}) + "\n")
            file.flush()
            together = world.Ibarrier()
            while not together.Test():
                time.sleep(0.001)
            dist.destroy_process_group()


if __name__ == "__main__":
    main()
