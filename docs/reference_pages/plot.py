"""A small picture of an elementwise op and its derivative, as SVG that takes its colours from the page."""

from __future__ import annotations

import math
import warnings
from typing import Any

import numpy as np

import ndgrad
from ndgrad._src.ops.table import Op

WIDTH, HEIGHT, EDGE = 240, 132, 6
#: Values of the other arguments while the first moves.
OTHERS = 1.5
_POINTS = 241


def plot(op: Op) -> str | None:
    """Draw an op over its first argument, and its derivative if it has one; None if there is nothing to draw."""
    if not op.elementwise or op.outputs != 1 or op.variadic or any(a not in ("x", "y") for a in op.args):
        return None
    for low, high in ((-4.0, 4.0), (-1.0, 1.0), (1.0, 5.0)):
        x = np.linspace(low, high, _POINTS)
        values, slopes = _curves(op, x)
        if values is not None and np.isfinite(values).sum() > 0.4 * len(x):
            return _svg(op, x, values, slopes)
    return None


def _curves(op: Op, x: Any) -> tuple[Any, Any]:
    with warnings.catch_warnings(), np.errstate(all="ignore"):
        warnings.simplefilter("ignore")
        try:
            t = ndgrad.tensor(x, dtype=ndgrad.float64, requires_grad=op.differentiable)
            y = op(t, *(ndgrad.tensor(OTHERS, dtype=ndgrad.float64) for _ in op.args[1:]))
            if tuple(y.shape) != x.shape or y.is_complex():
                return None, None
            slopes = None
            if op.differentiable and y.requires_grad:
                (slope,) = ndgrad.autograd.grad(y.sum(), t)
                slopes = np.asarray(slope.detach().numpy(), dtype=float)
            return np.asarray(y.detach().numpy(), dtype=float), slopes
        except (TypeError, ValueError, RuntimeError, NotImplementedError, AttributeError):
            return None, None


def _svg(op: Op, x: Any, values: Any, slopes: Any) -> str:
    seen = np.concatenate([v[np.isfinite(v)] for v in (values, slopes) if v is not None])
    low, high = (float(np.percentile(seen, q)) for q in (3, 97)) if seen.size else (-1.0, 1.0)
    low, high = max(min(low, 0.0), -6.0), min(max(high, 0.0), 6.0)
    if high - low < 1e-9:
        low, high = low - 1, high + 1
    margin = 0.08 * (high - low)
    low, high = low - margin, high + margin

    def column(value: float) -> float:
        return EDGE + (value - x[0]) / (x[-1] - x[0]) * (WIDTH - 2 * EDGE)

    def row(value: float) -> float:
        return HEIGHT - EDGE - (value - low) / (high - low) * (HEIGHT - 2 * EDGE)

    parts = [
        f'<svg class="op-plot" viewBox="0 0 {WIDTH} {HEIGHT}" width="{WIDTH}" height="{HEIGHT}" role="img" '
        f'aria-label="{op.name} and its derivative">'
    ]
    if low <= 0 <= high:
        parts.append(f'<path class="axis" d="M{EDGE} {row(0):.1f}H{WIDTH - EDGE}"/>')
    if x[0] <= 0 <= x[-1]:
        parts.append(f'<path class="axis" d="M{column(0):.1f} {EDGE}V{HEIGHT - EDGE}"/>')
    step = 10.0 ** math.floor(math.log10(high - low))
    for k in range(math.ceil(low / step), math.floor(high / step) + 1):
        if k and (high - low) / step < 8:
            at = column(max(x[0], 0.0))
            parts.append(f'<path class="axis" d="M{at - 2:.1f} {row(k * step):.1f}h4"/>')
            if abs(k) == 1 or k in (math.ceil(low / step), math.floor(high / step)):
                parts.append(f'<text x="{at + 4:.1f}" y="{row(k * step) + 3:.1f}">{_number(k * step)}</text>')
    level = min(max(row(0) + 10, 10), HEIGHT - 2)
    for end, anchor in ((x[0], "start"), (x[-1], "end")):
        parts.append(f'<text x="{column(end):.1f}" y="{level:.1f}" text-anchor="{anchor}">{_number(end)}</text>')
    for curve, name in ((values, "curve"), (slopes, "slope")):
        if curve is not None:
            parts.append(f'<path class="{name}" d="{_path(x, curve, low, high, column, row)}"/>')
    return "".join(parts) + "</svg>"


def _number(value: float) -> str:
    return f"{value:g}".replace("-", "\u2212")


def _path(x: Any, curve: Any, low: float, high: float, column: Any, row: Any) -> str:
    """Return the visible pieces of a curve: a point outside the frame, or a jump, interrupts it."""
    pieces: list[str] = []
    down, before = False, math.nan
    for position, value in zip(x, curve):
        visible = math.isfinite(value) and low <= value <= high
        jump = math.isfinite(before) and abs(value - before) > 0.5 * (high - low)
        if visible:
            pieces.append(f"{'L' if down and not jump else 'M'}{column(position):.1f} {row(value):.1f}")
        down, before = visible, value
    return "".join(pieces)
