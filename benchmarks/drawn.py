"""Programs at random sizes, for which no code was tuned: `python -m benchmarks.drawn --seed S`.

The families of `benchmarks.workloads.drawn` at shapes, dtypes and layouts drawn by seed. For each family the table has
the geometric mean of ndgrad's time over that of the best peer, by the fastest samples, and the worst case. It also
lists wrong results, and compiled functions that ran eagerly.
"""

from __future__ import annotations

import argparse
import os
import statistics
import sys
from collections.abc import Sequence
from pathlib import Path

from benchmarks.interleave import Comparison, Plan, compare_all
from benchmarks.libraries import LIBRARIES
from benchmarks.registry import WORKLOADS
from benchmarks.report import ABSENT, machine_line, markdown_table, significant, text_table

OURS = ("ndgrad-compiled", "ndgrad")
PEERS = ("torch", "jax-jit", "torch-compiled")
GOAL = 1.1


def best_peer(comparison: Comparison) -> tuple[str, float] | None:
    """Return the fastest of the other libraries, and its least seconds."""
    found = {
        name: comparison.timings[name].fastest()
        for name in PEERS
        if name in comparison.timings and comparison.timings[name].seconds
    }
    return min(found.items(), key=lambda pair: pair[1]) if found else None


def ratios(comparisons: Sequence[Comparison], name: str) -> list[tuple[float, Comparison, str]]:
    """Return the time of a library over that of the best peer: (ratio, case, peer), the largest first."""
    found = []
    for comparison in comparisons:
        peer = best_peer(comparison)
        timing = comparison.timings.get(name)
        if peer is not None and timing is not None and timing.seconds and timing.problem is None:
            found.append((timing.fastest() / peer[1], comparison, peer[0]))
    return sorted(found, key=lambda entry: -entry[0])


def table(families: dict[str, list[Comparison]]) -> list[list[str]]:
    """Return a row per family, header first."""
    rows = [["family", "cases", "compiled / best peer", "worst", "eager / best peer", "wrong", "runs eagerly"]]
    for family, comparisons in families.items():
        compiled, eager = (ratios(comparisons, name) for name in OURS)
        worst = (
            f"{significant(compiled[0][0])} ({compiled[0][1].workload.title.partition(': ')[2]}; {compiled[0][2]})"
            if compiled
            else ABSENT
        )
        wrong = sum(c.timings[name].problem is not None for c in comparisons for name in OURS if name in c.timings)
        eagerly = sum(c.timings[name].eagerly is not None for c in comparisons for name in OURS if name in c.timings)
        rows.append([family, str(len(comparisons)), _mean(compiled), worst, _mean(eager), str(wrong), str(eagerly)])
    return rows


def _mean(entries: list[tuple[float, Comparison, str]]) -> str:
    return significant(statistics.geometric_mean([ratio for ratio, _, _ in entries])) if entries else ABSENT


def problems(comparisons: Sequence[Comparison]) -> list[str]:
    """Return wrong results, eager runs and missed goals, case by case."""
    lines = []
    for comparison in comparisons:
        for name, timing in comparison.timings.items():
            if timing.problem:
                lines.append(f"{comparison.workload.title}, {LIBRARIES[name].label}: {timing.problem}")
            if timing.eagerly:
                lines.append(f"{comparison.workload.title}: runs eagerly: {timing.eagerly}")
    for ratio, comparison, peer in ratios(comparisons, OURS[0]):
        if ratio > GOAL:
            own, other = (comparison.timings[name].fastest() * 1e3 for name in (OURS[0], peer))
            times = f"{own:.3g} and {other:.3g} ms"
            lines.append(f"{comparison.workload.title}: {significant(ratio)} of {LIBRARIES[peer].label} ({times})")
    return lines


def main() -> None:
    """Draw, measure, print and write to `drawn.md`."""
    from benchmarks.workloads.drawn import FAMILIES, drawn_name, register_drawn  # the import fills the registry

    parser = argparse.ArgumentParser(
        prog="python -m benchmarks.drawn", description=__doc__, formatter_class=argparse.RawTextHelpFormatter
    )
    parser.add_argument("--seed", type=int, required=True)
    parser.add_argument("--count", type=int, default=6, help="cases of each family (6)")
    parser.add_argument(
        "--families",
        nargs="+",
        choices=list(FAMILIES),
        default=list(FAMILIES),
        metavar="NAME",
        help=", ".join(FAMILIES),
    )
    parser.add_argument(
        "--torch-compile", action="store_true", help="torch.compile, too, which takes half a minute for each case"
    )
    parser.add_argument("--rounds", type=int, default=7)
    parser.add_argument("--markdown", action="store_true", help="print the table as Markdown")
    parser.add_argument("--output", type=Path, default=Path(__file__).parent / "results", metavar="FOLDER")
    arguments = parser.parse_args()
    os.environ["NDGRAD_BENCH_DRAWN"] = f"{arguments.seed},{arguments.count}"
    register_drawn(arguments.seed, arguments.count)
    names = ["torch", "ndgrad", "ndgrad-compiled", "jax-jit", *(["torch-compiled"] if arguments.torch_compile else [])]
    plan = Plan(rounds=arguments.rounds, sample_seconds=0.02, budget_seconds=5.0, patience_seconds=0.5)
    arguments.output.mkdir(parents=True, exist_ok=True)
    wanted = {
        family: [WORKLOADS[drawn_name(family, number)] for number in range(arguments.count)]
        for family in arguments.families
    }
    with (arguments.output / "workers.log").open("w", encoding="utf-8") as log:
        found = compare_all([w for workloads in wanted.values() for w in workloads], names, plan, log)
    families = {family: [c for c in found if c.workload in workloads] for family, workloads in wanted.items()}
    head = f"{machine_line(True)} Drawn by seed {arguments.seed}."
    lines = problems(found)
    markdown = "\n\n".join([head, markdown_table(table(families)), "\n".join(f"* {line}" for line in lines)]) + "\n"
    print(markdown if arguments.markdown else "\n\n".join([head, text_table(table(families)), "\n".join(lines)]))
    path = arguments.output / "drawn.md"
    path.write_text(markdown, encoding="utf-8")
    print(f"written: {path}", file=sys.stderr)


if __name__ == "__main__":
    main()
