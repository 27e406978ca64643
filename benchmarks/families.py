"""Families of eager ops compared with torch: `python -m benchmarks.families`.

The expressions of `benchmarks.workloads.op_families`, forward and backward, on about 100,000 elements. For each family
the table has the geometric mean of ndgrad's time over torch's, by the fastest of alternating samples, and the slowest
ops.
"""

from __future__ import annotations

import argparse
import statistics
import sys
from collections.abc import Sequence
from pathlib import Path

from benchmarks.interleave import Comparison, Plan, compare_all
from benchmarks.registry import WORKLOADS
from benchmarks.report import ABSENT, machine_line, markdown_table, significant

#: Number of slowest ops listed for a family.
SLOWEST = 4


def ratios(comparisons: Sequence[Comparison]) -> list[tuple[float, Comparison]]:
    """Return the ratio of each op that ran, the largest first."""
    found = [(c.fastest_ratio("ndgrad"), c) for c in comparisons if c.timings["ndgrad"].problem is None]
    return sorted([(ratio, c) for ratio, c in found if ratio is not None], key=lambda pair: -pair[0])


def row(family: str, comparisons: Sequence[Comparison]) -> list[str]:
    """Return a row of the table."""
    found = ratios(comparisons)
    mean = significant(statistics.geometric_mean([ratio for ratio, _ in found])) if found else ABSENT
    slowest = ", ".join(f"`{c.workload.title}` {significant(ratio)}" for ratio, c in found[:SLOWEST])
    return [family, str(len(found)), mean, slowest]


def problems(comparisons: Sequence[Comparison]) -> list[str]:
    """Return the problems, op by op."""
    return [
        f"{c.workload.title}, {name}: {t.problem}" for c in comparisons for name, t in c.timings.items() if t.problem
    ]


def main() -> None:
    """Measure, print and write to `families.md`."""
    from benchmarks.workloads.op_families import FAMILIES, expressions, family_name  # the import fills the registry

    parser = argparse.ArgumentParser(
        prog="python -m benchmarks.families", description=__doc__, formatter_class=argparse.RawTextHelpFormatter
    )
    parser.add_argument(
        "--families",
        nargs="+",
        choices=list(FAMILIES),
        default=list(FAMILIES),
        metavar="NAME",
        help=", ".join(FAMILIES),
    )
    parser.add_argument("--rounds", type=int, default=7)
    parser.add_argument("--output", type=Path, default=Path(__file__).parent / "results", metavar="FOLDER")
    arguments = parser.parse_args()
    plan = Plan(
        rounds=arguments.rounds, sample_seconds=0.01, budget_seconds=2.0, patience_seconds=0.2, settle_seconds=0.02
    )
    arguments.output.mkdir(parents=True, exist_ok=True)
    rows, wrong = [["family", "ops", "ndgrad / torch eager", "slowest"]], []
    with (arguments.output / "workers.log").open("w", encoding="utf-8") as log:
        for family in arguments.families:
            workloads = [WORKLOADS[family_name(family, n)] for n in range(len(expressions(family)))]
            found = compare_all(workloads, ["torch", "ndgrad"], plan, log)
            rows.append(row(family, found))
            wrong += problems(found)
            print("\n".join([*[f"{significant(r)}  {c.workload.title}" for r, c in ratios(found)], *problems(found)]))
            print(f"{family}: {rows[-1][2]}", flush=True)
    parts = [machine_line(True), markdown_table(rows), "\n".join(f"* {line}" for line in wrong)]
    path = arguments.output / "families.md"
    path.write_text("\n\n".join(part for part in parts if part) + "\n", encoding="utf-8")
    print(f"written: {path}", file=sys.stderr)


if __name__ == "__main__":
    main()
