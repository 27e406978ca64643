"""The command line: choose workloads, libraries and patience; print the tables and write them to a folder."""

from __future__ import annotations

import argparse
import os
import sys
from pathlib import Path

import benchmarks.workloads  # noqa: F401  (fills the registry)
from benchmarks import footprint, growth
from benchmarks.interleave import Plan, compare_all
from benchmarks.libraries import LIBRARIES
from benchmarks.registry import WORKLOADS
from benchmarks.report import OpTable, Report

FOOTPRINTS = ("memory", "import", "wheel")


def _arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="python -m benchmarks", description=__doc__)
    programs = [name for name, workload in WORKLOADS.items() if workload.group == "program"]
    names, libraries = [*programs, *FOOTPRINTS], list(LIBRARIES)
    parser.add_argument("--only", nargs="+", choices=names, default=names, metavar="NAME", help=", ".join(names))
    parser.add_argument("--libraries", nargs="+", choices=libraries, default=libraries, metavar="NAME")
    parser.add_argument("--rounds", type=int, help="samples of each library on each workload (15)")
    parser.add_argument("--quick", action="store_true", help="few short samples, for a first look")
    parser.add_argument(
        "--each-op", action="store_true", help="instead: single ops on small arrays, ndgrad beside torch"
    )
    parser.add_argument(
        "--growth", action="store_true", help="instead: what reads and writes of parts cost as arrays grow"
    )
    parser.add_argument("--seed", type=int, default=1, help="of the chain of elementwise ops (1)")
    parser.add_argument("--output", type=Path, default=Path(__file__).parent / "results", metavar="FOLDER")
    return parser.parse_args()


def each_op(output: Path, rounds: int) -> None:
    """Measure single ops, print them and write them to `ops.md`."""
    plan = Plan(rounds=rounds, sample_seconds=0.02, budget_seconds=5.0, patience_seconds=0.0, settle_seconds=0.0)
    chosen = [workload for workload in WORKLOADS.values() if workload.group == "op"]
    with (output / "workers.log").open("w", encoding="utf-8") as log:
        table = OpTable(compare_all(chosen, ["torch", "ndgrad"], plan, log))
    print(table.text())
    path = output / "ops.md"
    path.write_text(table.markdown(), encoding="utf-8")
    print(f"written: {path}", file=sys.stderr)


def main() -> None:
    """Measure what was asked for and report it."""
    arguments = _arguments()
    os.environ["NDGRAD_BENCH_SEED"] = str(arguments.seed)
    if arguments.quick:
        plan = Plan(rounds=arguments.rounds or 5, sample_seconds=0.03, budget_seconds=5.0, patience_seconds=0.5)
    else:
        plan = Plan(rounds=arguments.rounds or 15)
    output: Path = arguments.output
    output.mkdir(parents=True, exist_ok=True)
    if arguments.each_op:
        each_op(output, arguments.rounds or 9)
        return
    if arguments.growth:
        growth.report(output, arguments.rounds or 3)
        return

    report = Report(arguments.libraries)
    chosen = [workload for name, workload in WORKLOADS.items() if name in arguments.only]
    log_path = output / "workers.log"
    if chosen:
        with log_path.open("w", encoding="utf-8") as log:
            report.comparisons = compare_all(chosen, arguments.libraries, plan, log)
    if "memory" in arguments.only:
        size = footprint.MEMORY_SIZE // (10 if arguments.quick else 1)
        report.memory = footprint.peak_memory([name for name in arguments.libraries if name != "numpy"], size)
    if "import" in arguments.only:
        report.imports = footprint.import_times(arguments.libraries, repetitions=3 if arguments.quick else 15)
    if "wheel" in arguments.only:
        report.wheels = footprint.wheel_size()

    print(report.text())
    if report.problems():
        print(f"tracebacks: {log_path}", file=sys.stderr)
    for path in report.write(output):
        print(f"written: {path}", file=sys.stderr)


if __name__ == "__main__":
    main()
