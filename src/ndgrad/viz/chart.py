"""Charts: curves, points, bands and images as SVG, with nothing but NumPy.

This is enough to look at a result without a plotting library: the gallery and its notebooks use it. Colours follow the
surrounding page, or the viewer's preference for a separate file.
"""

from __future__ import annotations

import base64
import math
import struct
import zlib
from collections.abc import Callable
from html import escape
from typing import Any

import numpy as np

from ndgrad.profiler.pictures import Picture

__all__ = ["Chart", "beside"]

LEFT, RIGHT, TOP, BOTTOM = 52.0, 14.0, 34.0, 40.0
COLOURS = 5
_STYLE = """
.nd-chart text { font: 12px system-ui, sans-serif; fill: var(--color-foreground-primary, #24292f); }
.nd-chart .nd-paper { fill: var(--color-background-primary, #fff); }
.nd-chart .nd-title { font-weight: 600; font-size: 13px; }
.nd-chart .nd-faint { fill: var(--color-foreground-secondary, #6e7781); font-size: 11px; }
.nd-chart .nd-rule { stroke: #8c959f; stroke-opacity: .3; }
.nd-chart polyline { fill: none; stroke-width: 2; stroke-linejoin: round; }
.nd-chart .nd-dashed { stroke-dasharray: 5 4; }
.nd-chart polygon { stroke: none; fill-opacity: .22; }
.nd-chart image { image-rendering: pixelated; }
.nd-c0 { stroke: #2f7fd1; fill: #2f7fd1; } .nd-c1 { stroke: #e0751b; fill: #e0751b; } .nd-c2 { stroke: #2e9e5b; fill: #2e9e5b; }
.nd-c3 { stroke: #a05bd1; fill: #a05bd1; } .nd-c4 { stroke: #8c959f; fill: #8c959f; }
@media (prefers-color-scheme: dark) { svg.nd-chart:root { --color-foreground-primary: #e6edf3; --color-background-primary: #0d1117; --color-foreground-secondary: #8b949e; } }
"""
# Colours from the lowest value to the highest; and with white in the middle, for values of both signs.
_SEQUENTIAL = ((17, 24, 66), (44, 94, 170), (70, 160, 170), (150, 205, 130), (250, 236, 120))
_SIGNED = ((33, 82, 160), (130, 175, 220), (247, 247, 247), (240, 160, 100), (180, 60, 10))


class Chart(Picture):
    """A chart of numbers over numbers. Each method adds one element and returns the chart.

    `x` and `y` name the axes; `log_y` makes the second one logarithmic; `equal` gives both the same scale; `width` and
    `height` are in pixels. Tensors, arrays and lists are accepted.

    Args:
        caption: title of the chart.
        x, y: names of the axes.
        log_y: whether the second axis is logarithmic.
        equal: whether both axes have the same scale.
        width, height: size in pixels.

    >>> chart = ndgrad.viz.Chart("a parabola", x="x").line([0, 1, 2], [0, 1, 4], "x²").points([1], [1])
    >>> chart.save("parabola.svg")
    >>> chart
    <Chart: a parabola>
    """

    title = "Chart"

    def __init__(
        self,
        caption: str,
        *,
        x: str = "",
        y: str = "",
        log_y: bool = False,
        equal: bool = False,
        width: float = 460,
        height: float = 300,
    ) -> None:
        self._names, self._log, self._equal, self._size = (x, y), log_y, equal, (float(width), float(height))
        self._marks: list[Callable[[Callable[..., tuple[float, float]]], str]] = []
        self._labels: list[tuple[str, int, str]] = []
        self._x: list[float] = []
        self._y: list[float] = []
        self._axes = True
        self._colour = 0
        super().__init__("", caption)
        self._draw()

    def line(self, x: Any, y: Any, label: str = "", *, dashed: bool = False) -> Chart:
        """Add straight lines from point to point, interrupted at values that are not finite.

        Args:
            x, y: coordinates of the points.
            label: text in the legend. The empty string means none.
            dashed: whether the line is dashed.

        >>> ndgrad.viz.Chart("loss", log_y=True).line(range(3), [1.0, 0.1, 0.01])
        <Chart: loss>
        """
        xs, ys = self._numbers(x, y)
        colour = self._next(label, "dashed" if dashed else "line")
        shape = f'class="nd-c{colour}{" nd-dashed" if dashed else ""}"'

        def mark(at: Callable[..., tuple[float, float]]) -> str:
            return "".join(f'<polyline {shape} points="{_path(at, part)}"/>' for part in _pieces(xs, ys, self._log))

        return self._add(mark)

    def points(self, x: Any, y: Any, label: str = "", *, size: float = 2.5) -> Chart:
        """Add a dot for each pair of numbers.

        Args:
            x, y: coordinates of the points.
            label: text in the legend. The empty string means none.
            size: radius of a dot in pixels.

        >>> ndgrad.viz.Chart("data").points([0, 1], [1, 0], size=4)
        <Chart: data>
        """
        xs, ys = self._numbers(x, y)
        colour = self._next(label, "dot")

        def mark(at: Callable[..., tuple[float, float]]) -> str:
            places = [at(*p) for part in _pieces(xs, ys, self._log) for p in part]
            dots = "".join(f'<circle cx="{px:.1f}" cy="{py:.1f}" r="{size:g}"/>' for px, py in places)
            return f'<g class="nd-c{colour}" stroke="none" fill-opacity=".75" style="stroke: none">{dots}</g>'

        return self._add(mark)

    def band(self, x: Any, low: Any, high: Any, label: str = "") -> Chart:
        """Add the area between two curves.

        Args:
            x: coordinates along the first axis.
            low, high: lower and upper curve.
            label: text in the legend. The empty string means none.

        >>> ndgrad.viz.Chart("spread").band([0, 1], [0, 0], [1, 2], "what is likely")
        <Chart: spread>
        """
        xs, lows = self._numbers(x, low)
        _, highs = self._numbers(x, high)
        colour = self._next(label, "band")

        def mark(at: Callable[..., tuple[float, float]]) -> str:
            edge = [*zip(xs.tolist(), highs.tolist()), *reversed(list(zip(xs.tolist(), lows.tolist())))]
            return f'<polygon class="nd-c{colour}" style="stroke: none" points="{_path(at, edge)}"/>'

        return self._add(mark)

    def image(self, values: Any, *, low: float | None = None, high: float | None = None, signed: bool = False) -> Chart:
        """Add a matrix as colours, its first row on top. Other elements then use pixels as coordinates.

        Args:
            values: matrix of real numbers.
            low, high: values of the first and the last colour. None means the smallest and the largest element.
            signed: whether zero is white, for values of both signs.

        >>> ndgrad.viz.Chart("a matrix").image([[0.0, 1.0], [1.0, 0.0]])
        <Chart: a matrix>
        """
        shown = _plain(values)
        if shown.ndim != 2 or shown.size == 0:
            raise ValueError(
                f"an image is a matrix, and this has shape {shown.shape}. Reshape it, or pick one of a stack. [nd-ndim]"
            )
        rows, columns = shown.shape
        self._equal, self._axes = True, False
        self._x += [0.0, float(columns)]
        self._y += [0.0, -float(rows)]
        data = base64.b64encode(_png(shown, low, high, signed)).decode()

        def mark(at: Callable[..., tuple[float, float]]) -> str:
            (x0, y0), (x1, y1) = at(0.0, 0.0), at(float(columns), -float(rows))
            return (
                f'<image x="{x0:.1f}" y="{y0:.1f}" width="{x1 - x0:.1f}" height="{y1 - y0:.1f}" preserveAspectRatio="none" '
                f'href="data:image/png;base64,{data}"/>'
            )

        return self._add(mark)

    # ----- inside -----------------------------------------------------------------------------------------------------

    def _numbers(self, x: Any, y: Any) -> tuple[Any, Any]:
        xs, ys = _plain(x).reshape(-1), _plain(y).reshape(-1)
        if xs.size != ys.size:
            raise ValueError(f"a chart needs as many x as y, but was given {xs.size} and {ys.size}. [nd-shape]")
        good = np.isfinite(xs) & np.isfinite(ys) & ((ys > 0) if self._log else True)
        self._x += xs[good].tolist()
        self._y += ys[good].tolist()
        return xs, ys

    def _next(self, label: str, form: str) -> int:
        colour = self._colour % COLOURS
        self._colour += 1
        if label:
            self._labels.append((form, colour, label))
        return colour

    def _add(self, mark: Callable[[Callable[..., tuple[float, float]]], str]) -> Chart:
        self._marks.append(mark)
        self._draw()
        return self

    def _draw(self) -> None:
        width, height = self._size
        top = TOP + (18 if self._labels else 0)
        left, bottom = (LEFT, BOTTOM) if self._axes else (10.0, 10.0)
        x0, x1 = _ends(self._x, 0.0 if not self._axes else 0.02)
        y0, y1 = _ends([math.log10(v) for v in self._y] if self._log else self._y, 0.0 if not self._axes else 0.05)
        wide, high = width - left - RIGHT, height - top - bottom
        across, up = wide / (x1 - x0), high / (y1 - y0)
        if self._equal:
            across = up = min(across, up)
            if self._axes:  # extend the range along the longer side
                x0, x1 = (x0 + x1 - wide / across) / 2, (x0 + x1 + wide / across) / 2
                y0, y1 = (y0 + y1 - high / up) / 2, (y0 + y1 + high / up) / 2
            else:
                left += (wide - (x1 - x0) * across) / 2

        def map_point(x: float, y: float) -> tuple[float, float]:
            return left + (x - x0) * across, top + (y1 - (math.log10(y) if self._log else y)) * up

        parts = [f'<text class="nd-title" x="{LEFT if self._axes else 10:g}" y="20">{escape(self.caption)}</text>']
        parts += self._legend(LEFT if self._axes else 10.0)
        if self._axes:
            parts += self._grid(map_point, (x0, x1), (y0, y1), (left, top, wide, high))
        self._inside = "".join(parts) + "".join(mark(map_point) for mark in self._marks)
        self.svg = frame_svg(self._size, self.caption, self._inside)

    def _legend(self, x: float) -> list[str]:
        parts = []
        for form, colour, label in self._labels:
            key = {
                "line": f'<path class="nd-c{colour}" stroke-width="2.5" d="M{x:.1f} 36h16"/>',
                "dashed": f'<path class="nd-c{colour} nd-dashed" stroke-width="2.5" d="M{x:.1f} 36h16"/>',
                "dot": f'<circle class="nd-c{colour}" cx="{x + 8:.1f}" cy="36" r="3.5"/>',
                "band": f'<rect class="nd-c{colour}" style="stroke: none" fill-opacity=".3" x="{x:.1f}" y="31" width="16" height="10"/>',
            }[form]
            parts.append(f'{key}<text class="nd-faint" x="{x + 21:.1f}" y="40">{escape(label)}</text>')
            x += 36 + 5.7 * len(label)
        return parts

    def _grid(self, at: Any, xs: tuple[float, float], ys: tuple[float, float], box: tuple[float, ...]) -> list[str]:
        left, top, wide, high = box
        parts = []
        for tick in _ticks(*xs, most=7):
            px = at(tick, 1.0)[0]
            parts.append(f'<text class="nd-faint" text-anchor="middle" x="{px:.1f}" y="{top + high + 15:.1f}">{_label(tick)}</text>')
        for tick in _ticks(*ys, most=6, whole=self._log):
            value = 10.0**tick if self._log else tick
            py = at(0.0, value)[1]
            parts.append(
                f'<line class="nd-rule" x1="{left:g}" x2="{left + wide:g}" y1="{py:.1f}" y2="{py:.1f}"/>'
                f'<text class="nd-faint" text-anchor="end" x="{left - 6:g}" y="{py + 4:.1f}">{_label(value)}</text>'
            )
        across, up = self._names
        if across:
            parts.append(f'<text class="nd-faint" text-anchor="middle" x="{left + wide / 2:.1f}" y="{top + high + 32:.1f}">{escape(across)}</text>')
        if up:
            parts.append(f'<text class="nd-faint" text-anchor="middle" transform="translate(12 {top + high / 2:.1f}) rotate(-90)">{escape(up)}</text>')
        return parts


def beside(*charts: Chart) -> Picture:  # a public name  # prose: ok
    """Return charts side by side, as one picture.

    Args:
        *charts: charts, from left to right.

    >>> blurred, sharp = (ndgrad.viz.Chart(name, width=150, height=160).image(np.eye(4)) for name in ("blurred", "sharp"))
    >>> ndgrad.viz.beside(blurred, sharp)
    <Picture: blurred, sharp>
    """
    if not charts:
        raise ValueError("beside needs a chart at least. [nd-too-few]")
    width, parts = 0.0, []
    for chart in charts:
        parts.append(f'<g transform="translate({width:g} 0)">{chart._inside}</g>')
        width += chart._size[0]
    caption = ", ".join(chart.caption for chart in charts)
    return Picture(frame_svg((width, max(chart._size[1] for chart in charts)), caption, "".join(parts)), caption)


# ----- numbers ----------------------------------------------------------------------------------------------------------


def _plain(values: Any) -> Any:
    """Return numbers of any form as a real ndarray."""
    detached = values.detach() if hasattr(values, "detach") else values
    found = np.asarray(detached.numpy() if hasattr(detached, "numpy") else detached)
    if found.dtype.kind not in "biuf":
        raise TypeError(
            f"a chart shows real numbers, but was given {found.dtype}. Take .real, abs() or angle() of complex ones. "
            "[nd-complex]"
        )
    return found.astype(np.float64)


def _pieces(xs: Any, ys: Any, log: bool) -> list[list[tuple[float, float]]]:
    """Return the points in unbroken runs."""
    runs: list[list[tuple[float, float]]] = [[]]
    for x, y in zip(xs.tolist(), ys.tolist()):
        if math.isfinite(x) and math.isfinite(y) and not (log and y <= 0):
            runs[-1].append((x, y))
        elif runs[-1]:
            runs.append([])
    return [run for run in runs if run]


def _path(at: Callable[..., tuple[float, float]], points: Any) -> str:
    return " ".join(f"{px:.1f},{py:.1f}" for px, py in (at(x, y) for x, y in points))


def _ends(values: list[float], margin: float) -> tuple[float, float]:
    low, high = (min(values), max(values)) if values else (0.0, 1.0)
    pad = margin * (high - low) or (0.0 if high > low else 0.5 * (abs(high) or 1.0))
    return low - pad, high + pad


def _ticks(low: float, high: float, most: int, whole: bool = False) -> list[float]:
    """Return at most so many round numbers between two; integers for exponents of ten."""
    rough = (high - low) / most
    power = 10.0 ** math.floor(math.log10(rough))
    step = next(power * f for f in (1, 2, 5, 10) if power * f >= rough * 0.999999)
    step = max(1.0, round(step)) if whole else step
    return [step * n for n in range(math.ceil(low / step - 1e-9), math.floor(high / step + 1e-9) + 1)]


def _label(value: float) -> str:
    text = f"{value:.3g}" if 1e-3 <= abs(value) < 1e4 or value == 0 else f"{value:.0e}".replace("e-0", "e-").replace("e+0", "e")
    return text.replace("-", "\u2212")


# ----- files ------------------------------------------------------------------------------------------------------------


def frame_svg(size: tuple[float, float], title: str, inside: str) -> str:
    """Return drawn elements as a complete SVG, with the colours of charts."""
    width, height = size
    return (
        f'<svg class="nd-chart" xmlns="http://www.w3.org/2000/svg" width="{width:g}" height="{height:g}" viewBox="0 0 {width:g} {height:g}" '
        f'role="img" aria-label="{escape(title, quote=True)}"><style>{_STYLE}</style>'
        f'<rect class="nd-paper" width="{width:g}" height="{height:g}" rx="4"/>{inside}</svg>'
    )


def _png(values: Any, low: float | None, high: float | None, signed: bool) -> bytes:
    """Return a PNG file of eight bits per colour; values that are not finite are grey."""
    finite = np.isfinite(values)
    some = values[finite] if finite.any() else np.zeros(1)
    if signed:
        reach = max(abs(float(some.min() if low is None else low)), abs(float(some.max() if high is None else high))) or 1.0
        low, high = -reach, reach
    low, high = float(some.min() if low is None else low), float(some.max() if high is None else high)
    share = np.clip((np.where(finite, values, low) - low) / ((high - low) or 1.0), 0.0, 1.0)
    anchors = np.array(_SIGNED if signed else _SEQUENTIAL, dtype=float)
    at = np.linspace(0.0, 1.0, len(anchors))
    pixels = np.stack([np.interp(share, at, anchors[:, c]) for c in range(3)], -1).round().astype(np.uint8)
    pixels[~finite] = 128
    rows, columns = values.shape
    lines = np.concatenate([np.zeros((rows, 1), np.uint8), pixels.reshape(rows, -1)], 1).tobytes()  # filter 0 in front of each row

    def chunk(kind: bytes, data: bytes) -> bytes:
        return struct.pack(">I", len(data)) + kind + data + struct.pack(">I", zlib.crc32(kind + data))

    head = struct.pack(">IIBBBBB", columns, rows, 8, 2, 0, 0, 0)
    return b"\x89PNG\r\n\x1a\n" + chunk(b"IHDR", head) + chunk(b"IDAT", zlib.compress(lines, 9)) + chunk(b"IEND", b"")
