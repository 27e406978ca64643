"""The command line: choose workloads, libraries and sample sizes; print the tables and write them to a folder.

python -m benchmarks                            the usual rows, few short samples
python -m benchmarks --thorough                 the same with more and longer samples
python -m benchmarks --group adbench model      other rows: ADBench's problems, whole training steps, optimizer steps
python -m benchmarks --only mlp memory          rows by name
python -m benchmarks --only first-call          first calls in fresh processes: wall-clock and processor seconds
python -m benchmarks --all --thorough --fastest --markdown      everything, as a table for results/runs.md
python -m benchmarks.drawn --seed 1             random sizes, for which no code was tuned
"""

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

GROUPS = ("program", "adbench", "optimizer", "model")
FOOTPRINTS = ("memory", "first-call", "import", "wheel")
#: Footprints that are measured by default.
USUAL = ("memory", "import", "wheel")
#: Workloads whose first call is timed: those that jax can compile, too.
FIRST_CALLS = (
    "chain-1", "chain-100", "elementwise-4m", "ode", "mlp", "lstm", "transformer", "convnet", "embedding",
    "mixture-small", "mixture-large", "bundle", "sequence",
)  # fmt: skip


def _arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(
        prog="python -m benchmarks", description=__doc__, formatter_class=argparse.RawTextHelpFormatter
    )
    rows = [name for name, workload in WORKLOADS.items() if workload.group in GROUPS]
    names, libraries = [*rows, *FOOTPRINTS], list(LIBRARIES)
    parser.add_argument("--only", nargs="+", choices=names, metavar="NAME", help=", ".join(names))
    parser.add_argument("--group", nargs="+", choices=GROUPS, metavar="GROUP", help=", ".join(GROUPS))
    parser.add_argument("--all", action="store_true", help="all groups and footprints")
    parser.add_argument(
        "--libraries", nargs="+", choices=libraries, default=libraries, metavar="NAME", help=", ".join(libraries)
    )
    parser.add_argument("--rounds", type=int, help="samples of each library on each workload (5; 15 with --thorough)")
    parser.add_argument(
        "--thorough", action="store_true", help="more and longer samples, and patience until the machine is quiet"
    )
    parser.add_argument("--fastest", action="store_true", help="ratios of the fastest samples instead of medians")
    parser.add_argument("--markdown", action="store_true", help="print the tables as Markdown")
    parser.add_argument(
        "--each-op", action="store_true", help="instead: single ops on small arrays, ndgrad compared with torch"
    )
    parser.add_argument(
        "--growth", action="store_true", help="instead: the cost of reading and writing parts of growing arrays"
    )
    parser.add_argument("--seed", type=int, default=1, help="of the chain of elementwise ops (1)")
    parser.add_argument("--output", type=Path, default=Path(__file__).parent / "results", metavar="FOLDER")
    return parser.parse_args()


def chosen_names(only: list[str] | None, groups: list[str] | None, everything: bool) -> list[str]:
    """Return the names of the workloads to measure, in the order of the table."""
    if everything:
        groups, only = list(GROUPS), list(FOOTPRINTS)
    elif only is None and groups is None:
        groups, only = ["program"], list(USUAL)
    wanted = {*(only or ()), *(name for name, workload in WORKLOADS.items() if workload.group in (groups or ()))}
    return [name for name in (*WORKLOADS, *FOOTPRINTS) if name in wanted]


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
    """Measure the chosen workloads and report them."""
    arguments = _arguments()
    os.environ["NDGRAD_BENCH_SEED"] = str(arguments.seed)
    if arguments.thorough:
        plan = Plan(rounds=arguments.rounds or 15)
    else:
        plan = Plan(rounds=arguments.rounds or 5, sample_seconds=0.03, budget_seconds=5.0, patience_seconds=0.5)
    output: Path = arguments.output
    output.mkdir(parents=True, exist_ok=True)
    if arguments.each_op:
        each_op(output, arguments.rounds or 9)
        return
    if arguments.growth:
        growth.report(output, arguments.rounds or 3)
        return

    report = Report(arguments.libraries, fastest=arguments.fastest)
    wanted = chosen_names(arguments.only, arguments.group, arguments.all)
    chosen = [WORKLOADS[name] for name in wanted if name in WORKLOADS]
    log_path = output / "workers.log"
    if chosen:
        with log_path.open("w", encoding="utf-8") as log:
            report.comparisons = compare_all(chosen, arguments.libraries, plan, log)
    others = [name for name in arguments.libraries if name != "numpy"]
    if "memory" in wanted:
        size = footprint.MEMORY_SIZE // (1 if arguments.thorough else 10)
        report.memory = footprint.peak_memory(others, footprint.MEMORY_JOBS, size)
    if "first-call" in wanted:
        compilers = [name for name in others if name in ("ndgrad-compiled", "torch-compiled", "jax-jit")]
        report.first_calls = footprint.first_calls(compilers, FIRST_CALLS)
    if "import" in wanted:
        report.imports = footprint.import_times(arguments.libraries, repetitions=15 if arguments.thorough else 3)
    if "wheel" in wanted:
        report.wheels = footprint.wheel_size()

    print(report.markdown(with_problems=True) if arguments.markdown else report.text())
    if report.problems():
        print(f"tracebacks: {log_path}", file=sys.stderr)
    for path in report.write(output):
        print(f"written: {path}", file=sys.stderr)


if __name__ == "__main__":
    main()
