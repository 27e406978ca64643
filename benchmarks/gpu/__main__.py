"""Programs on a GPU, through torch and ndgrad in one process: `python -m benchmarks.gpu`.

Each row is one step, forward and backward (and an optimizer if the row says so), written once in the dialect of
both libraries. A sample is some steps between two waits for the device. Samples of the libraries alternate, and
the fastest of several counts. Both get the same numbers, and their losses are compared. `--compiled` adds the same
steps by `torch.compile` and `ndgrad.compile`, `--memory` the memory peaks of the eager steps, and `--ops` a table of
the single ops of `benchmarks.gpu.op_list` by family. `--all` is everything. The program prints Markdown tables, and
`--output` keeps them in files. All rows run eagerly first, and compiled then.

With `--output`, each measurement is a line of a file as soon as it is made. `--resume` continues such a file. A row at
which the process ended is not tried again, so `scripts/check_gpu.py` gets all others. The exit status is 3 if a fault
has ended the use of the device by the process.
"""

from __future__ import annotations

import argparse
import sys
import time
from pathlib import Path

import benchmarks.gpu.models
import benchmarks.gpu.networks  # noqa: F401  these imports fill the registry
from benchmarks.gpu import ops, rows
from benchmarks.gpu.notebook import Notebook
from benchmarks.gpu.table import head_of, line_of
from benchmarks.gpu.timing import LIBRARIES, Way, is_lost, measure, measure_memory

#: Exit status if a fault has ended the use of the device.
LOST = 3


def write(folder: Path | None, name: str, text: str) -> None:
    """Print a table, and keep it in a file."""
    print(text, flush=True)
    if folder is not None:
        folder.mkdir(parents=True, exist_ok=True)
        (folder / name).write_text(text + "\n", encoding="utf-8")


def run_programs(arguments: argparse.Namespace, end: float) -> int:
    """Measure the rows until the time is over, and write their table after each. Return the exit status."""
    wanted = [r for r in rows.ROWS if not arguments.only or r.name in arguments.only]
    notebook = Notebook(arguments.output, "programs", arguments.resume)
    kinds = (False, True) if arguments.compiled else (False,)
    for is_compiled in kinds:
        for row in wanted:
            if time.monotonic() > end or (is_compiled and row.is_recorded):
                continue
            key = f"{row.name} {'compiled' if is_compiled else 'eager'}"
            if notebook.begin(key):
                ways = measure(row, is_compiled)
                notebook.end(key, [vars(way) for way in ways])
                shown = [way.problem or f"{way.seconds * 1e3:.3f}" for way in ways]
                print(key, *shown, file=sys.stderr, flush=True)
                _write_programs(arguments, wanted, notebook)
                if any(is_lost(way.problem) for way in ways):
                    return LOST
    if arguments.memory:
        for row in wanted:
            ways = _ways_of(row, False, notebook)
            if time.monotonic() < end and all(way.seconds < float("inf") for way in ways):
                measure_memory(row, ways)
                notebook.end(f"{row.name} eager", [vars(way) for way in ways])
    _write_programs(arguments, wanted, notebook)
    print(_table(arguments, wanted, notebook), flush=True)
    return 0


def _ways_of(row: rows.Row, is_compiled: bool, notebook: Notebook) -> list[Way]:
    """Return what is known of a row."""
    found = notebook.result_of(f"{row.name} {'compiled' if is_compiled else 'eager'}")
    if found is None:
        problem = "" if is_compiled and row.is_recorded else "not measured"
        return [Way(name, is_compiled, problem=problem) for name in LIBRARIES]
    if isinstance(found, str):
        return [Way(name, is_compiled, problem=found) for name in LIBRARIES]
    return [Way(**way) for way in found]


def _table(arguments: argparse.Namespace, wanted: list[rows.Row], notebook: Notebook) -> str:
    lines = [head_of(arguments.compiled, arguments.memory)]
    for row in wanted:
        ways = _ways_of(row, False, notebook)
        if arguments.compiled and not row.is_recorded:
            ways += _ways_of(row, True, notebook)
        lines.append(line_of(row, ways, arguments.compiled, arguments.memory))
    return "\n".join(lines)


def _write_programs(arguments: argparse.Namespace, wanted: list[rows.Row], notebook: Notebook) -> None:
    if arguments.output is not None:
        (arguments.output / "programs.md").write_text(_table(arguments, wanted, notebook) + "\n", encoding="utf-8")


def run_ops(arguments: argparse.Namespace, end: float) -> int:
    """Measure single ops, and write the means of families and all ratios. Return the exit status."""
    notebook = Notebook(arguments.output, "ops", arguments.resume)
    found = ops.measure_all(end, arguments.size, notebook)
    write(arguments.output, "ops.md", ops.tabulate(found))
    return LOST if any(is_lost(r.problem) for r in found[-1:]) else 0


def main() -> int:
    parser = argparse.ArgumentParser(prog="python -m benchmarks.gpu", description=__doc__)
    parser.add_argument("--only", nargs="*", default=[], help="names of rows")
    parser.add_argument("--compiled", action="store_true", help="the steps by compile, too")
    parser.add_argument("--memory", action="store_true", help="the peaks of memory, too")
    parser.add_argument("--ops", action="store_true", help="single ops by family instead of programs")
    parser.add_argument("--size", type=int, choices=(0, 1, 2), default=1, help="of single ops")
    parser.add_argument("--all", action="store_true", help="programs, compiled too, with memory, and single ops")
    parser.add_argument("--seconds", type=float, default=3600.0, help="time after which no further row begins")
    parser.add_argument("--device", choices=("cuda", "cpu"), default="cuda", help="cpu: try the programs without a GPU")
    parser.add_argument("--output", type=Path, metavar="FOLDER", help="folder for the tables")
    parser.add_argument("--resume", action="store_true", help="continue the measurements in the folder")
    arguments = parser.parse_args()
    rows.DEVICE.name = arguments.device
    if arguments.memory and arguments.device == "cpu":
        parser.error("--memory needs a GPU")
    end = time.monotonic() + arguments.seconds
    if arguments.all:
        arguments.compiled = True
        arguments.memory = arguments.device != "cpu"
    status = run_ops(arguments, end) if arguments.ops or arguments.all else 0
    if not status and (arguments.all or not arguments.ops):
        status = run_programs(arguments, end)
    return status


if __name__ == "__main__":
    sys.exit(main())
