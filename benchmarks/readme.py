"""The README's tables, from the results. `python -m benchmarks.readme` writes them, and a test checks them.

The first table comes from `results/latest.json`, the last whole run. The second comes from the table of compiled
functions in `results/runs.md`.
"""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import Any

from benchmarks.history import RESULTS
from benchmarks.report import significant

README = Path(__file__).parent.parent / "README.md"
EAGER = (
    "chain-1", "chain-100", "ode", "lstm", "mlp", "transformer", "convnet",
    "hessian-rosenbrock", "hessian-logistic", "per-sample",
)  # fmt: skip
#: Rows of the second table, by the beginning of their titles.
COMPILED = (
    "200 drawn elementwise ops, size 100", "mul, sub, abs, add, 50 times, size 100", "Van der Pol", "LSTM by hand",
    "MLP 784-256-256-10, batch 64", "transformer block",
    "convnet", "Gaussian mixture, d 10", "bundle adjustment", "diagonal LSTM", "Hessian of logistic regression",
    "character transformer", "ResNet-18",
)  # fmt: skip


def eager_table(content: dict[str, Any]) -> str:
    """Return ndgrad, jax and HIPS autograd compared with torch, op by op."""
    lines = ["| torch eager = 1 | ndgrad | jax, op by op | HIPS autograd |", "|---|---:|---:|---:|"]
    for name in EAGER:
        row = content["timings"][name]
        cells = [_cell(row["libraries"].get(library)) for library in ("ndgrad", "jax", "autograd")]
        lines.append(f"| {row['title']} | {' | '.join(cells)} |")
    weighed = content["memory"].get("chain", content["memory"])  # older runs measured one program
    peaks = {name: cell["bytes"] for name, cell in weighed.items() if "bytes" in cell}
    cells = [f"{peaks[name] / peaks['torch']:.2f}" if name in peaks else "" for name in ("ndgrad", "jax", "autograd")]
    title = next((cell["title"] for cell in weighed.values() if "title" in cell), "50 ops on 10M float32")
    lines.append(f"| peak memory of {title} | {' | '.join(cells)} |")
    return "\n".join(lines)


def compiled_table(runs: str) -> str:
    """Return ndgrad.compile, torch.compile and jax.jit compared with torch eager."""
    lines = ["| compiled, torch eager = 1 | ndgrad | torch.compile | jax, jit |", "|---|---:|---:|---:|"]
    found = compiled_rows(runs)
    for start in COMPILED:
        title = next(title for title in found if title.startswith(start))
        cells = [found[title][column].replace("–", "") for column in ("ndgrad, compiled", "torch.compile", "jax, jit")]
        lines.append(f"| {title} | {' | '.join(cells)} |")
    return "\n".join(lines)


def compiled_rows(runs: str) -> dict[str, dict[str, str]]:
    """Return the rows, by title, of the last table of `runs.md` that has compiled functions of all libraries."""
    tables = re.findall(r"(?:^\|.*\n)+", runs, re.MULTILINE)
    header = "| ndgrad, compiled | torch.compile | jax, jit |"
    lines = [table for table in tables if header in table][-1].splitlines()
    head, _, *rows = ([cell.strip() for cell in line.strip().strip("|").split("|")] for line in lines)
    return {row[0]: dict(zip(head, row)) for row in rows}


def _cell(timing: dict[str, Any] | None) -> str:
    if not timing or not timing["ratio"] or timing["problem"]:
        return ""
    ratio = timing["ratio"][0]
    return f"{ratio:.0f}" if ratio >= 9.95 else f"{ratio:.1f}" if ratio >= 2 else significant(ratio)


def replace_table(text: str, name: str, table: str) -> str:
    """Replace a table in the text."""
    place = re.compile(rf"(<!-- {name} -->\n).*?(<!-- end -->)", re.DOTALL)
    if not place.search(text):
        raise ValueError(f"README.md has no place for a table: <!-- {name} --> ... <!-- end -->")
    return place.sub(lambda found: found[1] + table + "\n" + found[2], text)


def update(text: str, folder: Path = RESULTS) -> str:
    """Return the README with the tables of the results."""
    content = json.loads((folder / "latest.json").read_text(encoding="utf-8"))
    text = replace_table(text, "eager", eager_table(content))
    return replace_table(text, "compiled", compiled_table((folder / "runs.md").read_text(encoding="utf-8")))


if __name__ == "__main__":
    README.write_text(update(README.read_text(encoding="utf-8")), encoding="utf-8")
