"""Try many programs in several processes: `python -m tests.programs --world`."""

from __future__ import annotations

import collections
import os
import sys
import time
import warnings
from dataclasses import dataclass
from functools import partial

from tests.programs.workers import Lost, in_processes
from tests.programs.world import cases
from tests.programs.world.cases import CASES
from tests.programs.world.generate import NATIVE, generate
from tests.programs.world.known_differences import KNOWN_DIFFERENCES
from tests.programs.world.run import Outcome, check
from tests.programs.world.shrink import Finding, report, shrink


@dataclass(frozen=True)
class Examined:
    """The outcome of a seed, and the finding if there is a difference."""

    seed: int
    outcome: Outcome
    labels: tuple[str, ...]
    finding: Finding | None = None
    #: True if eager differs from itself
    is_unstable: bool = False


def begin_process() -> None:
    """One thread, nothing left on disk, and an error where a program cannot be lowered."""
    warnings.simplefilter("ignore")
    os.environ.update({"NDGRAD_COMPILE_RAISE": "1", "NDGRAD_CACHE_DIR": ""})
    os.environ.setdefault("NDGRAD_NUM_THREADS", "1")


def examine(seed: int, is_new: bool = False, native: int = NATIVE) -> Examined | None:
    """The outcome of a seed; with `is_new`, None if its program has a kind with a known difference."""
    program = generate(seed, native)
    if is_new and not KNOWN_DIFFERENCES.isdisjoint(program.labels):
        return None
    outcome = check(program.source, program.is_native)
    if outcome.difference is None:
        return Examined(seed, outcome, program.labels)
    if check(program.source, program.is_native, lambda f, **options: f).difference is not None:
        return Examined(seed, outcome, program.labels, is_unstable=True)
    finding = shrink(Finding(seed, program, outcome.difference), is_quick=True)
    return Examined(seed, outcome, program.labels, finding)


def shortened(finding: Finding) -> str:
    return report(shrink(finding))


class Tally:
    """Counts of all programs, and findings by their signatures."""

    def __init__(self) -> None:
        self.programs = self.calls = self.compiled = self.traces = self.broken = self.unstable = 0
        self.eager_s = self.compiled_s = 0.0
        self.seen: collections.Counter[str] = collections.Counter()
        self.never_compiled: collections.Counter[str] = collections.Counter()
        self.groups: dict[tuple[str, ...], list[Finding]] = {}
        self.lost: list[str] = []

    def add(self, examined: Examined) -> None:
        outcome = examined.outcome
        self.programs += 1
        self.calls += outcome.calls
        self.compiled += outcome.compiled
        self.traces += outcome.traces
        self.eager_s += outcome.eager_s
        self.compiled_s += outcome.compiled_s
        self.broken += bool(outcome.error)
        self.unstable += examined.is_unstable
        self.seen.update(examined.labels)
        if outcome.calls and not outcome.compiled:
            self.never_compiled.update(examined.labels)
        if examined.finding is not None:
            self.groups.setdefault(examined.finding.signature, []).append(examined.finding)

    def counts(self) -> str:
        differing = sum(map(len, self.groups.values()))
        calls = max(self.calls, 1)
        return (
            f"{self.programs} programs, {differing} differ ({len(self.groups)} signatures), {len(self.lost)} lost, {self.broken} broken, "
            f"{self.unstable} unstable; {self.calls} calls, "
            f"{100 * self.compiled / calls:.0f} % compiled, {self.traces / calls:.2f} traces a call, "
            f"{1e3 * self.eager_s / calls:.2f} ms a call eager, {1e3 * self.compiled_s / calls:.2f} ms compiled; "
            f"{len(self.seen)} kinds"
        )

    def culprits(self) -> dict[str, int]:
        """Kinds by how many findings need them alone."""
        found: collections.Counter[str] = collections.Counter()
        for signature, findings in self.groups.items():
            found[" + ".join(signature[1:]) or "no kind"] += len(findings)
        return dict(found.most_common())


def run_kinds(names: list[str], jobs: int) -> int:
    """Run the fixed programs of all kinds, or of those named; print each difference, and the list of differing kinds."""
    differing, eager = [], []
    calls = compiled = 0
    for found in in_processes(cases.examine, names or list(CASES), jobs, begin_process):
        case = cases.Case(found.item, found.how, 0, 0) if isinstance(found, Lost) else found
        calls, compiled = calls + case.calls, compiled + case.compiled
        if not case.compiled:
            eager.append(case.label)
        if case.difference is not None:
            differing.append(case.label)
            print(f"# {case.label}\n# {case.difference}", flush=True)
        elif names:
            print(f"{case.label}: no difference, {case.compiled} of {case.calls} calls compiled\n{CASES[case.label][0]}")
    print("never compiled:", *sorted(eager), sep="\n    ")
    print("KNOWN_DIFFERENCES = [", *[f"    {label!r}," for label in sorted(differing)], "]", sep="\n")
    print(
        f"{len(differing)} of {len(names or CASES)} kinds differ, {len(eager)} never run compiled; {compiled} of {calls} calls ran compiled"
    )
    return 1 if differing else 0


def run(
    first: int, count: int, minutes: float | None, jobs: int, most: int, path: str | None, is_new: bool = False, native: int = NATIVE
) -> int:
    """Try the programs of seeds, print what was found; with `is_new`, leave out kinds with known differences."""
    tally, begun, shown = Tally(), time.monotonic(), 0.0
    try:
        work = partial(examine, is_new=is_new, native=native)
        for examined in in_processes(work, range(first, first + count), jobs, begin_process):
            if isinstance(examined, Lost):
                tally.lost.append(f"seed {examined.item}: {examined.how}")
                print(tally.lost[-1], file=sys.stderr, flush=True)
                continue
            if examined is None:
                continue
            if examined.finding is not None and examined.finding.signature not in tally.groups:
                print(f"seed {examined.seed}: {' | '.join(examined.finding.signature)}", file=sys.stderr, flush=True)
            tally.add(examined)
            spent = time.monotonic() - begun
            if spent - shown > 20:
                shown = spent
                print(f"{tally.programs / spent:.1f} a second: {tally.counts()}", file=sys.stderr, flush=True)
            if minutes is not None and spent > 60 * minutes:
                break
    except KeyboardInterrupt:
        pass
    lines = [tally.counts(), "", "kinds by findings:", *[f"{n:>6}  {name}" for name, n in tally.culprits().items()]]
    lines += ["", "kinds in programs that never ran compiled, of how many:"]
    lines += [f"{n:>6} of {tally.seen[name]:>6}  {name}" for name, n in tally.never_compiled.most_common(60)]
    print("\n".join(lines), flush=True)
    groups = sorted(tally.groups.values(), key=len, reverse=True)
    texts = []
    for text in in_processes(shortened, [findings[0] for findings in groups[:most]], jobs, begin_process):
        texts.append(text if isinstance(text, str) else f"# seed {text.item.seed}: while it was being made short, {text.how}")
        print("\n" + texts[-1], flush=True)
    rest = [f"# {' | '.join(findings[0].signature)}: seeds {[f.seed for f in findings[:5]]}" for findings in groups[most:]]
    print("\n".join([*rest, *tally.lost]))
    if path:
        with open(path, "w") as file:
            file.write("\n\n".join(["\n".join(lines), *texts, *rest, *tally.lost]) + "\n")
    print(f"{tally.counts()}; seeds from {first}, {time.monotonic() - begun:.0f} s on {jobs} processes")
    return 1 if tally.groups or tally.lost else 0
