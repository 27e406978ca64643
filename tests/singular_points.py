"""The table of docs/singular.md, as rows that a test can evaluate."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

PAGE = Path(__file__).resolve().parents[1] / "docs" / "singular.md"


class Row(NamedTuple):
    expression: str
    x: list[float]
    y: list[float] | None
    g: list[float]
    h: list[float] | None
    differs: bool


def rows() -> list[Row]:
    found = []
    for line in PAGE.read_text().splitlines():
        cells = [c.strip() for c in line.strip().strip("|").split("|")]
        if len(cells) == 5 and cells[0].startswith("`"):
            expression = re.match(r"`(.*)`", cells[0])
            assert expression is not None
            values = [eval(c.strip("`"), {"inf": np.inf, "nan": np.nan}) if c else None for c in cells[1:]]
            found.append(Row(expression[1], *values, differs=cells[0].endswith("*")))
    return found


def gradients(lib: Any, row: Row) -> list[list[float]]:
    """The gradients of a row's expression in a library."""
    x = lib.tensor(row.x, dtype=lib.float64, requires_grad=True)
    y = None if row.y is None else lib.tensor(row.y, dtype=lib.float64, requires_grad=True)
    with np.errstate(all="ignore"):
        out = eval(row.expression, {"lib": lib, "x": x, "y": y})
        if out.grad_fn is not None:
            out.sum().backward()
    leaves = [x] if y is None else [x, y]
    return [[0.0] * len(t) if t.grad is None else t.grad.tolist() for t in leaves]
