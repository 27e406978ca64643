"""The history of runs: a line per run in `results/history.jsonl`, and pictures of the last run and of all.

`make bench` adds a line if it measured the usual rows. The documentation shows both pictures.
"""

from __future__ import annotations

import datetime
import json
import math
import re
import subprocess
from html import escape
from pathlib import Path
from typing import Any

from ndgrad.viz import Chart
from ndgrad.viz.chart import frame_svg

RESULTS = Path(__file__).parent / "results"
#: Rows of the pictures, with short names, and the libraries shown next to ndgrad.
ROWS = {
    "chain-1": "200 ops on one number", "chain-100": "200 ops on 100 numbers", "ode": "Van der Pol, 1000 steps",
    "lstm": "LSTM, 100 steps", "mlp": "MLP", "transformer": "transformer block", "convnet": "convnet",
    "hessian-rosenbrock": "Hessian, n = 50", "per-sample": "per-sample gradients",
}  # fmt: skip
SHOWN = {"ndgrad": "ndgrad", "autograd": "HIPS autograd", "jax": "jax, op by op"}
#: Rows of the picture of compiled functions, by the beginning of their titles, with short names; and its columns.
COMPILED_ROWS = {
    "Van der Pol": "Van der Pol, 1000 steps", "diagonal LSTM": "diagonal LSTM",
    "200 drawn elementwise ops, size 100": "200 ops on 100 numbers",
    "Hessian of logistic regression": "Hessian, 100 parameters", "bundle adjustment": "bundle adjustment",
    "LSTM by hand": "LSTM, 100 steps",
    "Gaussian mixture, d 10": "Gaussian mixture", "convnet": "convnet", "MLP 784-256-256-10, batch 64": "MLP",
    "transformer block": "transformer block", "character transformer": "transformer, with AdamW",
    "ResNet-18": "ResNet-18, with AdamW",
}  # fmt: skip
COMPILED_SHOWN = {"ndgrad, compiled": "ndgrad.compile", "torch.compile": "torch.compile", "jax, jit": "jax.jit"}
FOLLOWED = ("chain-1", "ode", "lstm", "mlp", "transformer")


def entry(content: dict[str, Any], date: str, commit: str) -> dict[str, Any]:
    """Return the record of a run: medians and quartiles as ratios to torch, and their origin."""
    return {
        "date": date, "commit": commit, "machine": content["machine"], "versions": content["versions"],
        "ratios": {
            workload: {
                library: [float(f"{value:.3g}") for value in timing["ratio"]]
                for library, timing in row["libraries"].items()
                if timing["ratio"] and not timing["problem"] and library != "torch"
            }
            for workload, row in content["timings"].items()
        },
    }  # fmt: skip


def add(folder: Path, content: dict[str, Any]) -> None:
    """Add a run to the history of a folder, with today's date and the measured commit."""
    asked = ["git", "describe", "--always", "--dirty"]
    found = subprocess.run(asked, capture_output=True, text=True, cwd=Path(__file__).parent)
    made = entry(content, datetime.date.today().isoformat(), found.stdout.strip())
    with (folder / "history.jsonl").open("a", encoding="utf-8") as file:
        file.write(json.dumps(made, separators=(",", ":")) + "\n")


def runs(folder: Path = RESULTS) -> list[dict[str, Any]]:
    """Return all runs, the oldest first."""
    path = folder / "history.jsonl"
    return [json.loads(line) for line in path.read_text(encoding="utf-8").splitlines()] if path.is_file() else []


def speed(content: dict[str, Any]) -> str:
    """Draw the last run as dots on a logarithmic line, torch's time in the middle: left of it is faster."""
    rows: dict[str, list[float | None]] = {}
    for workload, title in ROWS.items():
        timings = [content["timings"][workload]["libraries"].get(library) or {} for library in SHOWN]
        rows[title] = [(timing.get("ratio") or [None])[0] for timing in timings]
    return _draw_dots(
        "Time of forward and backward, compared with torch eager",
        "ndgrad's time compared with torch's, HIPS autograd's and jax's",
        list(SHOWN.values()), rows, (0.2, 50.0), (0.25, 0.5, 1, 2, 5, 10, 20, 40),
    )  # fmt: skip


def compiled(table: dict[str, dict[str, str]]) -> str:
    """Draw compiled functions of ndgrad, torch and jax, from the rows of their table."""
    rows: dict[str, list[float | None]] = {}
    for start, name in COMPILED_ROWS.items():
        cells = next(row for title, row in table.items() if title.startswith(start))
        found = [re.match(r"[\d.]+", cells[column]) for column in COMPILED_SHOWN]
        rows[name] = [float(number[0]) if number else None for number in found]
    return _draw_dots(
        "Time of compiled forward and backward, compared with torch eager",
        "Times of ndgrad.compile, torch.compile and jax.jit compared with torch eager",
        list(COMPILED_SHOWN.values()), rows, (0.0001, 5.0), (0.001, 0.01, 0.1, 1),
    )  # fmt: skip


def _draw_dots(
    heading: str,
    title: str,
    names: list[str],
    rows: dict[str, list[float | None]],
    span: tuple[float, float],
    ticks: tuple[float, ...],
) -> str:
    """Draw a line of dots per row, one dot per library; smaller ratios are to the left."""
    left, right, top, step = 190.0, 620.0, 62.0, 24.0
    low, high = span
    height = top + step * len(rows) + 34

    def locate(ratio: float) -> float:
        return left + (right - left) * math.log(ratio / low) / math.log(high / low)

    parts = [f'<text class="nd-title" x="14" y="22">{escape(heading)}</text>']
    for number, name in enumerate(names):
        x = left + 120 * number
        parts.append(f'<circle class="nd-c{number}" cx="{x:g}" cy="42" r="5"/>')
        parts.append(f'<text class="nd-faint" x="{x + 10:g}" y="46">{name}</text>')
    bottom = top + step * len(rows)
    for ratio in ticks:
        label = "torch" if ratio == 1 else f"{ratio:g} ×"
        strong = ' style="stroke-opacity: 1"' if ratio == 1 else ""
        parts.append(
            f'<path class="nd-rule" d="M{locate(ratio):.1f} {top - 6:g}V{bottom:g}"{strong}/>'
            f'<text class="nd-faint" text-anchor="middle" x="{locate(ratio):.1f}" y="{bottom + 16:g}">{label}</text>'
        )
    for number, (name, ratios) in enumerate(rows.items()):
        y = top + step * (number + 0.5)
        parts.append(f'<text text-anchor="end" x="{left - 12:g}" y="{y + 4:.1f}">{escape(name)}</text>')
        for colour, found in enumerate(ratios):  # the smaller dots of the others stay visible on ndgrad's
            if found:
                radius = 6 if colour == 0 else 4.5
                parts.append(f'<circle class="nd-c{colour}" cx="{locate(found):.1f}" cy="{y:.1f}" r="{radius}"/>')
    return frame_svg((right + 30, height), title, "".join(parts)) + "\n"


def over_time(found: list[dict[str, Any]]) -> str:
    """Draw the ratios of a few workloads, run by run."""
    chart = Chart("ratio to torch eager, run by run", x="run", y="ratio", width=680, height=320)
    for workload in FOLLOWED:
        medians = [run["ratios"].get(workload, {}).get("ndgrad", [float("nan")])[0] for run in found]
        chart.line(range(1, len(found) + 1), medians, ROWS[workload])
    return chart.svg + "\n"


def draw(folder: Path = RESULTS) -> list[Path]:
    """Write both pictures from the results in a folder."""
    content = json.loads((folder / "latest.json").read_text(encoding="utf-8"))
    pictures = {folder / "history.svg": over_time(runs(folder))}
    if (folder / "runs.md").is_file():
        from benchmarks import readme  # a late import, because that module reads this one

        table = readme.compiled_rows((folder / "runs.md").read_text(encoding="utf-8"))
        pictures[folder / "compiled.svg"] = compiled(table)
    if set(ROWS) <= set(content["timings"]):
        pictures[folder / "speed.svg"] = speed(content)
    for path, text in pictures.items():
        path.write_text(text, encoding="utf-8")
    return list(pictures)


if __name__ == "__main__":
    for written in draw():
        print(f"written: {written}")
