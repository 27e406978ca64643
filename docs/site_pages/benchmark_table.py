"""The table of all measurements on the page of benchmarks: one row per program, with a filter and sorting by columns.

The rows come from `benchmarks/results`: the last whole run, the table of compiled functions, and single ops. The script
`_static/table.js` filters and sorts them. Without it the table shows all rows.
"""

from __future__ import annotations

import json
import re
from html import escape
from pathlib import Path

from benchmarks import readme
from docutils import nodes
from docutils.parsers.rst import Directive

RESULTS = Path(__file__).resolve().parents[2] / "benchmarks" / "results"
#: Titles of columns, with the library and its key in `latest.json`.
COLUMNS = {
    "torch eager": "torch", "ndgrad": "ndgrad",
    "ndgrad, compiled": "ndgrad-compiled", "torch.compile": "torch-compiled",
    "jax, jit": "jax-jit",
    "jax, op by op": "jax", "HIPS autograd": "autograd",
}  # fmt: skip


class BenchmarkTable(Directive):
    """The directive `{benchmark-table}`."""

    has_content = False

    def run(self) -> list[nodes.Node]:
        env = self.state.document.settings.env
        for name in ("latest.json", "runs.md", "ops.md"):
            env.note_dependency(str(RESULTS / name))
        return [nodes.raw("", table_html(), format="html")]


def rows() -> list[tuple[str, str, dict[str, str]]]:
    """Return (kind, program, column -> text) of each row; ratios to torch eager, and torch's own time."""
    content = json.loads((RESULTS / "latest.json").read_text(encoding="utf-8"))
    found: dict[str, dict[str, str]] = {}
    for row in content["timings"].values():
        found[row["title"]] = cells = {}
        for column, library in COLUMNS.items():
            timing = row["libraries"].get(library)
            if timing and timing["ratio"] and not timing["problem"]:
                cells[column] = _ratio(timing["ratio"][0])
        seconds = list((row["libraries"]["torch"].get("seconds") or {}).values())
        if seconds:
            cells["torch eager"] = _time(sorted(seconds)[len(seconds) // 2])
    made = [("whole run", title, cells) for title, cells in found.items()]
    compiled = readme.compiled_rows((RESULTS / "runs.md").read_text(encoding="utf-8"))
    for title, row in compiled.items():
        cells = {column: row[column].partition(" ")[0] for column in COLUMNS if row.get(column, "–") not in ("", "–")}
        cells["torch eager"] = row.get("torch eager", "")
        made.append(("compiled", title, cells))
    return made + [("single op", title, cells) for title, cells in _ops()]


def _ops() -> list[tuple[str, dict[str, str]]]:
    text = (RESULTS / "ops.md").read_text(encoding="utf-8")
    found = re.findall(r"^\| `(.+?)` \| ([^|]+) \| ([^|]+) \| ([\d.]+) \|", text, flags=re.MULTILINE)
    return [(title, {"torch eager": theirs.strip(), "ndgrad": ratio}) for title, theirs, _, ratio in found]


def _ratio(value: float) -> str:
    return f"{value:.2g}" if value < 1 else f"{value:.3g}" if value < 10 else f"{value:.0f}"


def _time(seconds: float) -> str:
    for unit, factor in (("s", 1.0), ("ms", 1e3)):
        if seconds * factor >= 1:
            return f"{seconds * factor:.3g} {unit}"
    return f"{seconds * 1e6:.3g} µs"


def table_html() -> str:
    """Return the table with its filter, as HTML."""
    every = rows()
    kinds = list(dict.fromkeys(kind for kind, _, _ in every))
    options = "".join(f'<option value="{kind}">{kind}s</option>' for kind in kinds)
    head = "".join(f'<th scope="col">{escape(title)}</th>' for title in ("program", *COLUMNS))
    body = "".join(
        f'<tr data-kind="{kind}"><td>{_program(kind, title)}</td>'
        + "".join(f"<td>{escape(cells.get(column, ''))}</td>" for column in COLUMNS)
        + "</tr>"
        for kind, title, cells in every
    )
    return (
        '<div class="bench"><p class="bench-controls">'
        '<input type="search" placeholder="Filter: LSTM, Hessian, conv ..." aria-label="Filter the table">'
        f'<select aria-label="Kind of measurement"><option value="">all measurements</option>{options}</select>'
        '<span class="bench-count" role="status"></span></p>'
        f'<div class="bench-scroll"><table class="docutils bench-table"><thead><tr>{head}</tr></thead>'
        f"<tbody>{body}</tbody></table></div></div>"
        '<script src="_static/table.js"></script>'
    )


def _program(kind: str, title: str) -> str:
    return f"<code>{escape(title)}</code>" if kind == "single op" else escape(title)
