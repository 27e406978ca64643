"""The tables: plain text for the terminal, Markdown for the README, JSON with every sample.

Ratios are to torch eager, below 1 is faster; the bracket holds the quartiles over rounds.
"""

from __future__ import annotations

import importlib.metadata
import json
import os
import platform
import statistics
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from benchmarks import history
from benchmarks.footprint import IMPORT_GOAL, MEMORY_GOALS, WHEEL_GOAL_BYTES
from benchmarks.interleave import Comparison
from benchmarks.libraries import LIBRARIES, REFERENCE, THREADS

ABSENT = "–"
BUSY = "(!)"
COLOURING_GOAL = 50


@dataclass
class Report:
    """All measurements of one run."""

    libraries: Sequence[str]
    comparisons: list[Comparison] = field(default_factory=list)
    memory: dict[str, dict[str, Any]] = field(default_factory=dict)
    imports: dict[str, list[float] | None] = field(default_factory=dict)
    wheels: dict[str, int] = field(default_factory=dict)
    #: Seconds of the first call by workload and library, by wall clock and processor; or the reason for their absence.
    first_calls: dict[str, dict[str, Any]] = field(default_factory=dict)
    #: True for ratios of the fastest samples instead of medians over rounds.
    fastest: bool = False

    def tables(self) -> list[list[list[str]]]:
        """Return the tables as rows of cells, header first; tables without measurements are left out."""
        tables = [
            self._ratios(),
            self._colouring(),
            *self._memories(),
            self._first_calls(),
            self._imports(),
            self._wheels(),
        ]
        return [rows for rows in tables if len(rows) > 1]

    def problems(self) -> list[str]:
        """Return the reasons for cells that are empty or unreliable."""
        found: dict[tuple[str, str], list[str]] = {}
        for comparison in self.comparisons:
            for name, timing in comparison.timings.items():
                if timing.problem:
                    found.setdefault((name, timing.problem), []).append(comparison.workload.name)
                if timing.eagerly:
                    found.setdefault((name, f"runs eagerly: {timing.eagerly}"), []).append(comparison.workload.name)
        timings = [f"{name} on {', '.join(where)}: {problem}" for (name, problem), where in found.items()]
        weighed = [(job, name, cell) for job, cells in self.memory.items() for name, cell in cells.items()]
        memory = [f"memory of {job}, {name}: {cell['problem']}" for job, name, cell in weighed if "problem" in cell]
        calls = [(job, name, cell) for job, cells in self.first_calls.items() for name, cell in cells.items()]
        first = [f"first call of {job}, {name}: {cell}" for job, name, cell in calls if isinstance(cell, str)]
        return [*timings, *memory, *first, *self._crowding()]

    def _crowding(self) -> list[str]:
        if not any(comparison.busy for comparison in self.comparisons):
            return []
        return [f"{BUSY} other work ran on the machine: not to be quoted, measure again when it is idle"]

    # ----- tables ------------------------------------------------------------------------------------------

    def _ratios(self) -> list[list[str]]:
        others = [name for name in self.libraries if name != REFERENCE]
        reference = LIBRARIES[REFERENCE].label
        goals = ["goal", "goal, compiled"] if "ndgrad-compiled" in others else ["goal"]
        rows = [
            [
                "forward + backward",
                reference,
                *(LIBRARIES[name].label for name in others),
                "the machine's limit",
                *goals,
            ]
        ]
        for comparison in self.comparisons:
            timing = comparison.timings.get(REFERENCE)
            taken = (
                None if timing is None or not timing.seconds else timing.fastest() if self.fastest else timing.median()
            )
            cells = [_ratio_cell(comparison, name, self.fastest) for name in others]
            title = comparison.workload.title + (f" {BUSY}" if comparison.busy else "")
            goals = [_goal(goal) for goal in (comparison.workload.goal, comparison.workload.compiled_goal)][
                : len(goals)
            ]
            rows.append(
                [title, ABSENT if taken is None else _duration(taken), *cells, _limit(comparison.limit, taken), *goals]
            )
        return rows

    def _first_calls(self) -> list[list[str]]:
        names = list(dict.fromkeys(name for cells in self.first_calls.values() for name in cells))
        labels = [LIBRARIES[name].label if name in LIBRARIES else name for name in names]
        rows = [["first call (seconds of all threads)", *labels]]
        for job, cells in self.first_calls.items():
            shown = [cells.get(name) for name in names]
            rows.append([job, *[_first_call(cell) if isinstance(cell, dict) else ABSENT for cell in shown]])
        return rows

    def _colouring(self) -> list[list[str]]:
        """Return the banded Jacobian, dense and by colouring."""
        rows = [["Jacobian in ndgrad", "dense", "through colouring", "times quicker", "goal"]]
        found = {comparison.workload.name: comparison.timings.get("ndgrad") for comparison in self.comparisons}
        dense, coloured = found.get("jacobian-dense"), found.get("jacobian-coloured")
        if dense and coloured and dense.seconds and coloured.seconds:
            slow, quick = dense.median(), coloured.median()
            rows.append(
                ["banded, n = 1000", _duration(slow), _duration(quick), f"{slow / quick:.0f}", f"≥ {COLOURING_GOAL}"]
            )
        return rows

    def _memories(self) -> list[list[list[str]]]:
        return [self._memory(job, cells) for job, cells in self.memory.items()]

    def _memory(self, job: str, cells: dict[str, dict[str, Any]]) -> list[list[str]]:
        title = next((cell["title"] for cell in cells.values() if "title" in cell), job)
        rows = [[f"peak memory: {title}", "above baseline", "ratio", "seconds", "goal"]]
        reference = cells.get(REFERENCE, {}).get("bytes")
        for name, cell in cells.items():
            if "bytes" in cell:
                peak = f"{cell['bytes'] / 1e6:,.0f} MB"
                ratio = f"{cell['bytes'] / reference:.2f}" if reference else ABSENT
                rows.append(
                    [LIBRARIES[name].label, peak, ratio, f"{cell['seconds']:.2f}", _goal(MEMORY_GOALS.get((job, name)))]
                )
        return rows

    def _imports(self) -> list[list[str]]:
        rows = [["import", "median", "ratio to numpy", "goal"]]
        numpy_times = self.imports.get("numpy")
        for package, times in self.imports.items():
            if times and numpy_times:
                ratio = statistics.median(times) / statistics.median(numpy_times)
                goal = _goal(IMPORT_GOAL if package == "ndgrad" else None)
                rows.append([package, _duration(statistics.median(times)), f"{ratio:.2f}", goal])
        return rows

    def _wheels(self) -> list[list[str]]:
        rows = [["wheel", "size", "goal"]]
        for name, size in self.wheels.items():
            rows.append([name, f"{size / 1000:,.0f} kB", f"< {WHEEL_GOAL_BYTES / 1000:,.0f} kB"])
        return rows

    # ----- forms -------------------------------------------------------------------------------------------

    def text(self) -> str:
        """Return the tables for the terminal."""
        parts = [text_table(rows) for rows in self.tables()]
        parts += ["\n".join(f"  {line}" for line in self.problems())] if self.problems() else []
        return "\n\n".join([machine_line(self.fastest), *parts]) + "\n"

    def markdown(self, with_problems: bool = False) -> str:
        """Return the tables for the README; on request with the reasons for missing cells."""
        parts = [markdown_table(rows) for rows in self.tables()]
        notes = (
            ["\n".join(f"* {line}" for line in self.problems())]
            if with_problems and self.problems()
            else self._crowding()
        )
        return "\n\n".join([machine_line(self.fastest), *parts, *notes]) + "\n"

    def json(self) -> str:
        """Return every sample, with the versions and the machine, as JSON."""
        timings = {
            comparison.workload.name: {
                "title": comparison.workload.title,
                "goal": comparison.workload.goal,
                "compiled_goal": comparison.workload.compiled_goal,
                "limit": comparison.limit,
                "shares_of_cores": comparison.shares_of_cores,
                "libraries": {
                    name: {
                        "problem": timing.problem,
                        "iterations": timing.iterations,
                        "seconds": timing.seconds,
                        "ratio": comparison.ratio(name),
                        "fastest_ratio": comparison.fastest_ratio(name),
                        "first": timing.first,
                        "eagerly": timing.eagerly,
                    }
                    for name, timing in comparison.timings.items()
                },
            }
            for comparison in self.comparisons
        }
        content = {
            "machine": {
                "cpu": _cpu(),
                "cores": os.cpu_count(),
                "threads": THREADS,
                "system": platform.platform(),
            },
            "versions": versions(),
            "timings": timings,
            "memory": self.memory,
            "first_calls": self.first_calls,
            "imports": self.imports,
            "wheels": self.wheels,
        }
        return json.dumps(content, indent=1)

    def write(self, folder: Path) -> list[Path]:
        """Write `latest.json` and `latest.md`, add whole runs to the history, and return the paths."""
        folder.mkdir(parents=True, exist_ok=True)
        contents = {folder / "latest.json": self.json(), folder / "latest.md": self.markdown()}
        for path, content in contents.items():
            path.write_text(content, encoding="utf-8")
        pictures: list[Path] = []
        if {comparison.workload.name for comparison in self.comparisons} >= set(history.ROWS) and not self._crowding():
            history.add(folder, json.loads(self.json()))
            pictures = history.draw(folder)
        return [*contents, *pictures]


@dataclass
class OpTable:
    """Single ops, the most expensive relative to torch first."""

    comparisons: list[Comparison]

    def ratios(self) -> dict[str, float]:
        """Return the ratios of forward and backward together, by op."""
        found = {comparison.workload.title: comparison.ratio("ndgrad") for comparison in self.comparisons}
        return {
            op: ratio[0]
            for op, ratio in sorted(found.items(), key=lambda pair: -(pair[1] or (0.0,))[0])
            if ratio is not None
        }

    def rows(self) -> list[list[str]]:
        """Return the rows, header first."""
        times = {comparison.workload.title: comparison.timings for comparison in self.comparisons}
        rows = [["op, forward + backward()", "torch eager", "ndgrad", "ratio"]]
        for op, ratio in self.ratios().items():
            both = [f"{times[op][name].median() * 1e6:.0f} µs" for name in (REFERENCE, "ndgrad")]
            rows.append([f"`{op}`", *both, significant(ratio)])
        return rows

    def summary(self) -> str:
        """Return the geometric mean, the number of ops that are cheaper in ndgrad, and the ops without a comparison."""
        ratios = list(self.ratios().values())
        below = sum(ratio < 1 for ratio in ratios)
        mean = statistics.geometric_mean(ratios) if ratios else float("nan")
        problems = [
            f"{c.workload.title}: {t.problem}" for c in self.comparisons for t in c.timings.values() if t.problem
        ]
        line = (
            f"Geometric mean of {len(ratios)} ops: {mean:.2f} of torch's time; {below} of them cost less than in torch."
        )
        return "\n".join([line, *problems])

    def text(self) -> str:
        """Return the table for the terminal."""
        return "\n\n".join([machine_line(), text_table(self.rows()), self.summary()]) + "\n"

    def markdown(self) -> str:
        """Return the table for `ops.md`."""
        return "\n\n".join([machine_line(), self.summary(), markdown_table(self.rows())]) + "\n"


def versions() -> dict[str, str]:
    """Return the installed versions of all libraries."""
    found = {"python": platform.python_version()}
    for package in ("numpy", *dict.fromkeys(library.package for library in LIBRARIES.values())):
        try:
            found[package] = importlib.metadata.version(package)
        except importlib.metadata.PackageNotFoundError:
            continue
    return found


def machine_line(fastest: bool = False) -> str:
    """Return one sentence about the machine and the measurement."""
    named = ", ".join(f"{package} {version}" for package, version in versions().items())
    what = "fastest samples" if fastest else "median, quartiles in brackets"
    return f"Ratios to torch eager ({what}), {THREADS} threads, {_cpu()}; {named}."


def _cpu() -> str:
    try:
        lines = Path("/proc/cpuinfo").read_text().splitlines()
    except OSError:
        lines = []
    models = [line.split(":", 1)[1].strip() for line in lines if line.startswith("model name")]
    return models[0] if models else platform.processor() or platform.machine()


def _ratio_cell(comparison: Comparison, name: str, fastest: bool) -> str:
    ratio = comparison.ratio(name) if name in comparison.timings else None
    if ratio is None or comparison.timings[name].problem:
        return ABSENT
    least = comparison.fastest_ratio(name)
    if fastest and least is not None:
        return significant(least)
    middle, low, high = (significant(value) for value in ratio)
    return f"{middle} [{low}, {high}]"


def significant(value: float) -> str:
    """Format a ratio with two digits."""
    return f"{value:.2f}" if value >= 0.1 else f"{value:.2g}"


def _limit(limit: float | None, taken: float | None) -> str:
    """Format the least seconds of a row, as a ratio and in seconds."""
    if limit is None or taken is None:
        return ABSENT
    return f"{significant(limit / taken)} ({_duration(limit)})"


def _goal(goal: float | None) -> str:
    return f"≤ {goal}" if goal is not None else ""


def _first_call(cell: dict[str, float]) -> str:
    return f"{cell['seconds']:.2f} ({cell['processor']:.2f})"


def _duration(seconds: float) -> str:
    return f"{seconds * 1e3:.3g} ms" if seconds < 1 else f"{seconds:.3g} s"


def text_table(rows: list[list[str]]) -> str:
    """Format rows of cells for a terminal."""
    widths = [max(len(row[column]) for row in rows) for column in range(len(rows[0]))]
    padded = [[cell.ljust(width) for cell, width in zip(row, widths, strict=True)] for row in rows]
    padded.insert(1, ["-" * width for width in widths])
    return "\n".join("  ".join(cells).rstrip() for cells in padded)


def markdown_table(rows: list[list[str]]) -> str:
    """Format rows of cells as Markdown."""
    lines = ["| " + " | ".join(row) + " |" for row in rows]
    rule = "|" + "|".join([" --- ", *[" ---: "] * (len(rows[0]) - 1)]) + "|"
    return "\n".join([lines[0], rule, *lines[1:]])
