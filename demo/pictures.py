"""The two pictures of the demo: the training loss, and the gradients of predictions with respect to the text."""

from __future__ import annotations

import math
from collections.abc import Sequence
from pathlib import Path

from demo.svg import Drawing


def draw_loss(path: Path, losses: Sequence[float], guess: float, held_out: float) -> None:
    """Draw the loss at every step, its moving mean, and the loss of a uniform guess for scale."""
    left, top, width, height = 60.0, 60.0, 620.0, 280.0
    drawing = Drawing(left + width + 30, top + height + 60, "Loss while training")
    high = math.ceil(2 * max(*losses, guess)) / 2

    def point(step: float, loss: float) -> tuple[float, float]:
        return left + width * step / max(len(losses) - 1, 1), top + height * (1 - loss / high)

    drawing.text(left, 30, "Loss while training, nats per character", "title")
    for half in range(int(2 * high) + 1):
        _, y = point(0, half / 2)
        drawing.line(left, y, left + width, y, "rule")
        drawing.text(left - 8, y + 4, f"{half / 2:.1f}", "faint right")
    for step in range(0, len(losses) + 1, round_stride(len(losses) / 6)):
        drawing.text(point(step, 0)[0], top + height + 20, str(step), "faint middle")
    drawing.text(left + width / 2, top + height + 42, "step", "faint middle")

    for level, label in ((guess, "guessing uniformly"), (held_out, "held-out text, at the end")):
        (x1, y), (x2, _) = point(0, level), point(len(losses) - 1, level)
        drawing.line(x1, y, x2, y, "dashed")
        drawing.text(x2 - 4, y + 15, f"{label}: {level:.2f}", "second right")
    drawing.curve([point(*pair) for pair in enumerate(losses)], "raw")
    drawing.curve([point(*pair) for pair in enumerate(moving_mean(losses, 10))], "curve")
    drawing.write(path)


def moving_mean(values: Sequence[float], reach: int) -> list[float]:
    """Return the mean of each value and its neighbours up to `reach` steps away."""
    windows = [values[max(i - reach, 0) : i + reach + 1] for i in range(len(values))]
    return [sum(window) / len(window) for window in windows]


def round_stride(stride: float) -> int:
    """Return the smallest of 1, 2, 5, 10, 20, 50 ... that is not below `stride`."""
    power = 10 ** math.floor(math.log10(max(stride, 1.0)))
    return next(power * factor for factor in (1, 2, 5, 10) if power * factor >= stride)


def draw_saliency(path: Path, text: str, strengths: Sequence[Sequence[float]]) -> None:
    """Draw a table: row i, column j is the dependence of the prediction after character i on character j."""
    side, left, top = 13.0, 60.0, 96.0
    count = len(strengths)
    extent = side * count + 40
    drawing = Drawing(left + extent, top + extent, "Gradient of each prediction by each character")
    shown = [character if character.isprintable() else "¶" for character in text]
    subtitle = "size of the gradient of the row's prediction by the column's character; rows scaled to their largest"
    drawing.text(left, 30, "What each prediction depends on", "title")
    drawing.text(left, 50, subtitle, "faint")
    for j in range(count):
        drawing.text(left + side * (j + 0.5), top - 8, shown[j], "letter")
    for i, row in enumerate(strengths):
        y = top + side * i
        drawing.text(left - 30, y + 10, shown[i], "letter")
        drawing.text(left - 12, y + 10, f"→{shown[i + 1]}", "letter faint")
        strongest = max(row)
        for j, strength in enumerate(row):
            if strength > 0:
                x = left + side * j
                tip = f"{shown[i + 1]!r} after {shown[i]!r}, by {shown[j]!r}: {strength:.2e}"
                drawing.cell(x + 0.5, y + 0.5, side - 1, 0.04 + 0.96 * strength / strongest, tip)
    drawing.write(path)
