"""Programs on a GPU, through torch and ndgrad in one process: `python -m benchmarks.gpu`.

Each row is one step, forward and backward (and an optimizer if the row says so), written once in the dialect of
both libraries. A sample is some steps between two waits for the device. Samples of the libraries alternate, and
the fastest of several counts. Both get the same numbers, and their losses are compared. `--compiled` adds the same
steps by `torch.compile` and `ndgrad.compile`, `--memory` the memory peaks of the eager steps, and `--ops` a table of
the single ops of `benchmarks.gpu.op_list` by family. `--all` is everything. The program prints Markdown tables, and
`--output` keeps them in files.
"""

from __future__ import annotations

import argparse
import json
import sys
import time
from pathlib import Path

import benchmarks.gpu.models
import benchmarks.gpu.networks  # noqa: F401  these imports fill the registry
from benchmarks.gpu import ops, rows
from benchmarks.gpu.table import head_of, line_of
from benchmarks.gpu.timing import measure, measure_memory


def write(folder: Path | None, name: str, text: str) -> None:
    """Print a table, and keep it in a file."""
    print(text, flush=True)
    if folder is not None:
        folder.mkdir(parents=True, exist_ok=True)
        (folder / name).write_text(text + "\n", encoding="utf-8")


def run_programs(arguments: argparse.Namespace, end: float) -> None:
    """Measure the rows until the time is over, and write their table after each."""
    found = []
    left_out = []
    for wanted in [r for r in rows.ROWS if not arguments.only or r.name in arguments.only]:
        if time.monotonic() > end:
            left_out.append(wanted.title)
            continue
        found.append((wanted, measure(wanted, arguments.compiled)))
        print(line_of(*found[-1], arguments.compiled, False), file=sys.stderr, flush=True)
    if arguments.memory:
        for wanted, ways in found:
            measure_memory(wanted, ways)
    lines = [head_of(arguments.compiled, arguments.memory)]
    lines += [line_of(wanted, ways, arguments.compiled, arguments.memory) for wanted, ways in found]
    if left_out:
        lines.append(f"\nNot measured, for lack of time: {', '.join(left_out)}.")
    write(arguments.output, "programs.md", "\n".join(lines))


def run_ops(arguments: argparse.Namespace, end: float) -> None:
    """Measure single ops, and write the means of families and all ratios."""
    found = ops.measure_all(end, arguments.size)
    write(arguments.output, "ops.md", ops.tabulate(found))
    if arguments.output is not None:
        values = [[r.family, r.name, r.torch, r.ndgrad, r.problem] for r in found]
        (arguments.output / "ops.json").write_text(json.dumps(values, indent=0), encoding="utf-8")


def main() -> None:
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
    arguments = parser.parse_args()
    rows.DEVICE.name = arguments.device
    if arguments.memory and arguments.device == "cpu":
        parser.error("--memory needs a GPU")
    end = time.monotonic() + arguments.seconds
    if arguments.all:
        arguments.compiled = True
        arguments.memory = arguments.device != "cpu"
    if arguments.ops or arguments.all:
        run_ops(arguments, end)
    if arguments.all or not arguments.ops:
        run_programs(arguments, end)


if __name__ == "__main__":
    main()
