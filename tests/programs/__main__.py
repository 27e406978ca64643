"""Try many programs: python -m tests.programs --count 10000 [--seed 0] [--modes backward grad ...] [--jobs 2]

Prints a line now and then, at the end a table of modes and outcomes, what was refused how often and why compiled
functions ran eagerly, each finding as a short program, and the counts.

`--compiled` tries what is compiled, against the same oracle: programs of the grammar in the modes that compile, and every
fourth one of `kernels` (tensors of other sizes and dtypes, as torch programs have them) or of `loops` (scan and its like),
against eager. `--minutes` ends it in time: seeds go up one by one, so that a run goes on where another ended.

`--world` tries programs that read and change many kinds of places, with changes between calls, compiled against eager
(see tests.programs.world). `--kinds` runs the fixed programs of each kind instead, and lists those that differ.
"""

from __future__ import annotations

import argparse
import collections
import sys
import time
from functools import partial

from tests.programs.check import Outcome, Result, examine
from tests.programs.compiled import COMPILING, LOOPS, WAYS, begin_process, examine_any, report_any
from tests.programs.modes import MODES
from tests.programs.workers import Lost, in_processes

KINDS = ("right", "refused", "wrong", "crashed", "left open", "unknown")


class Tally:
    def __init__(self) -> None:
        self.programs = self.skipped = self.runs = 0
        self.outcomes: collections.Counter[tuple[str, str]] = collections.Counter()
        self.refusals: collections.Counter[str] = collections.Counter()
        self.eager: collections.Counter[str] = collections.Counter()
        self.findings: list[Result] = []

    def add(self, results: list[Result]) -> list[Result]:
        """Count what the modes made of one program; the finding, if there is one."""
        self.programs += 1
        self.skipped += not results
        self.runs += len(results)
        for result in results:
            self.outcomes[result.mode, result.outcome.kind] += 1
            if result.outcome.kind in ("refused", "unknown"):
                self.refusals[result.outcome.message] += 1
            if result.outcome.eager:
                self.eager[result.outcome.eager] += 1
        # One finding per program: the modes are listed from plain to nested, and the plainest tells most.
        new = [result for result in results if result.outcome.is_finding][:1]
        self.findings += new
        return new

    def __str__(self) -> str:
        lines = [f"{'mode':34}" + "".join(f"{kind:>11}" for kind in KINDS)]
        for mode in [*MODES, *WAYS, *LOOPS]:
            counts = [self.outcomes[mode, kind] for kind in KINDS]
            if any(counts):
                lines.append(f"{mode:34}" + "".join(f"{n or '':>11}" for n in counts))
        lines += ["", "refused:"] + [f"{n:>8}  {message}" for message, n in self.refusals.most_common()]
        if self.eager:
            lines += ["", "compiled functions that ran eagerly:"]
            lines += [f"{n:>8}  {reason}" for reason, n in self.eager.most_common(40)]
        return "\n".join([*lines, "", self.counts()])

    def counts(self) -> str:
        skipped = f"{self.skipped} skipped (no derivative where they were tried)"
        eager = f"{sum(self.eager.values())} eagerly, " if self.eager else ""
        return f"{self.programs} programs, {self.runs} runs, {eager}{skipped}, {len(self.findings)} with findings"


def describe(finding: Result) -> str:
    what = f": {finding.outcome.message}" if finding.mode == "any" else ""
    return f"seed {finding.seed}: {finding.mode}, through {finding.entry}: {finding.outcome.kind}{what}"


def main() -> int:
    parser = argparse.ArgumentParser(prog="python -m tests.programs", description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--count", type=int, default=1000)
    parser.add_argument("--seed", type=int, default=0, help="of the first program; the others follow")
    parser.add_argument("--compiled", action="store_true", help="compiled programs of all kinds")
    parser.add_argument("--minutes", type=float, help="end after so many, with what was found")
    parser.add_argument(
        "--modes", nargs="*", choices=list(MODES), metavar="MODE", help=f"from: {', '.join(MODES)}"
    )
    parser.add_argument("--most", type=int, help="how many of the modes each program is run in (5; compiled: 2)")
    parser.add_argument("--jobs", "--workers", type=int, default=1, help="processes")
    parser.add_argument(
        "--minimise", type=int, default=30, help="how many findings are made short; the others are named by their seeds"
    )
    parser.add_argument("--findings", help="a file for them")
    parser.add_argument("--world", action="store_true", help="programs that read and change many kinds of places")
    parser.add_argument("--kinds", nargs="*", help="with --world: the fixed programs of kinds such as 'place: global', or of all")
    parser.add_argument("--new", action="store_true", help="with --world: no kinds with known differences")
    parser.add_argument("--native", type=int, default=10, help="with --world: one in so many programs as native code")
    options = parser.parse_args()
    if options.world and options.kinds is not None:
        from tests.programs.world import runner  # it is not needed otherwise

        return runner.run_kinds(options.kinds, options.jobs)
    if options.world:
        from tests.programs.world import runner  # it is not needed otherwise

        count = 10**9 if options.minutes is not None and "--count" not in sys.argv else options.count
        return runner.run(
            options.seed, count, options.minutes, options.jobs, options.minimise, options.findings, options.new,
            options.native,
        )  # fmt: skip

    tally, begun, shown = Tally(), time.monotonic(), 0.0
    seeds = range(options.seed, options.seed + options.count)
    modes, most = options.modes or (COMPILING if options.compiled else list(MODES)), options.most or (2 if options.compiled else 5)
    work = partial(examine_any if options.compiled else examine, modes=modes, most=most)
    begin = begin_process if options.compiled else None
    try:
        for results in in_processes(work, seeds, options.jobs, begin):
            if isinstance(results, Lost):
                results = [Result(results.item, "any", "any", Outcome("crashed", results.how))]
            for finding in tally.add(results):
                print(describe(finding), file=sys.stderr, flush=True)
            spent = time.monotonic() - begun
            if spent - shown > 10:
                shown = spent
                counts = f"{tally.programs} of {options.count}, {len(tally.findings)} with findings"
                print(f"{counts}, {tally.programs / spent:.1f} a second", file=sys.stderr, flush=True)
            if options.minutes is not None and spent > 60 * options.minutes:
                break
    except KeyboardInterrupt:  # what there is so far
        print(tally, flush=True)
        return 130
    print(tally, flush=True)
    texts: dict[str, str] = {}
    short = [finding for finding in tally.findings if finding.mode != "any"][: options.minimise]
    for text in in_processes(report_any, short, options.jobs, begin):
        if isinstance(text, Lost):
            text = f"# {describe(text.item)}; while it was being made short, {text.how}"
        texts.setdefault(text.partition("def program")[2].split("\n# ", 1)[0] or text, text)
        print("\n" + text, flush=True)
    rest = [describe(finding) for finding in tally.findings if finding not in short]
    print("\n".join(rest))
    if options.findings:
        with open(options.findings, "w") as file:
            file.write("\n\n".join([*texts.values(), *rest]) + "\n")
    print(f"{tally.counts()}; seeds from {options.seed}, {time.monotonic() - begun:.0f} s on {options.jobs} processes")
    return 1 if tally.findings else 0


if __name__ == "__main__":
    sys.exit(main())
