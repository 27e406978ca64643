"""Try many programs: python -m tests.programs --count 10000 [--seed 0] [--modes backward grad ...] [--jobs 2]

Prints a line now and then, at the end a table of modes and outcomes and what was refused how often, and each finding as
a short program.
"""

from __future__ import annotations

import argparse
import collections
import multiprocessing
import sys
import time
from functools import partial

from tests.programs.check import Result, examine, report
from tests.programs.modes import MODES

KINDS = ("right", "refused", "wrong", "crashed", "left open", "unknown")


class Tally:
    def __init__(self) -> None:
        self.programs = self.skipped = self.runs = 0
        self.outcomes: collections.Counter[tuple[str, str]] = collections.Counter()
        self.refusals: collections.Counter[str] = collections.Counter()
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
        # One finding per program: the modes are listed from plain to nested, and the plainest tells most.
        new = [result for result in results if result.outcome.is_finding][:1]
        self.findings += new
        return new

    def __str__(self) -> str:
        lines = [f"{'mode':34}" + "".join(f"{kind:>11}" for kind in KINDS)]
        for mode in MODES:
            counts = [self.outcomes[mode, kind] for kind in KINDS]
            if any(counts):
                lines.append(f"{mode:34}" + "".join(f"{n or '':>11}" for n in counts))
        lines += ["", "refused:"] + [f"{n:>8}  {message}" for message, n in self.refusals.most_common()]
        skipped = f"{self.skipped} skipped (no derivative where they were tried)"
        lines += ["", f"{self.programs} programs, {self.runs} runs, {skipped}, {len(self.findings)} with findings"]
        return "\n".join(lines)


def named(finding: Result) -> str:
    return f"seed {finding.seed}: {finding.mode}, through {finding.door}: {finding.outcome.kind}"


def main() -> int:
    parser = argparse.ArgumentParser(prog="python -m tests.programs", description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--count", type=int, default=1000)
    parser.add_argument("--seed", type=int, default=0, help="of the first program; the others follow")
    parser.add_argument(
        "--modes", nargs="*", default=list(MODES), choices=list(MODES), metavar="MODE", help=f"from: {', '.join(MODES)}"
    )
    parser.add_argument("--most", type=int, default=5, help="how many of the modes each program is run in")
    parser.add_argument("--jobs", type=int, default=1, help="processes")
    parser.add_argument(
        "--minimise", type=int, default=30, help="how many findings are made short; the others are named by their seeds"
    )
    parser.add_argument("--findings", help="a file for them")
    options = parser.parse_args()

    tally, begun, shown = Tally(), time.monotonic(), 0.0
    seeds = range(options.seed, options.seed + options.count)
    work = partial(examine, modes=options.modes, most=options.most)
    with multiprocessing.get_context("spawn").Pool(options.jobs, maxtasksperchild=5000) as pool:
        try:
            for results in pool.imap_unordered(work, seeds, chunksize=20):
                for finding in tally.add(results):
                    print(named(finding), file=sys.stderr, flush=True)
                if time.monotonic() - shown > 10:
                    shown = time.monotonic()
                    rate = tally.programs / (shown - begun)
                    counts = f"{tally.programs} of {options.count}, {len(tally.findings)} with findings"
                    print(f"{counts}, {rate:.1f} a second", file=sys.stderr, flush=True)
        except KeyboardInterrupt:  # what there is so far
            print(tally, flush=True)
            return 130
        print(tally, flush=True)
        texts: dict[str, str] = {}
        for text in pool.imap_unordered(report, tally.findings[: options.minimise]):
            texts.setdefault(text.split("def program", 1)[1].split("\n# ", 1)[0], text)
            print("\n" + text, flush=True)
    rest = [named(finding) for finding in tally.findings[options.minimise :]]
    print("\n".join(rest))
    if options.findings:
        with open(options.findings, "w") as file:
            file.write("\n\n".join([*texts.values(), *rest]) + "\n")
    return 1 if tally.findings else 0


if __name__ == "__main__":
    sys.exit(main())
