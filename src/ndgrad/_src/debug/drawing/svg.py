"""A graph as an SVG picture, drawn without any other program or library.

The text is in a fixed-width font, so its width is known without a browser. Results are at the bottom, as in a
program; arrows follow the forward computation, and gradients flow against them. The picture has its own background
and colours and no script, so that it looks the same in a notebook, a page and a file.
"""

from __future__ import annotations

from html import escape

from ndgrad._src.debug.drawing.contents import Box, Contents, format_bytes
from ndgrad._src.debug.drawing.layout import Placed, Spot, place
from ndgrad._src.debug.drawing.text import details

#: Kind of box -> fill and line.
COLOURS = {
    "leaf": ("#ddf4ff", "#54aeff"),
    "op": ("#f6f8fa", "#8c959f"),
    "function": ("#fff8c5", "#d4a72c"),
    "write": ("#ffebe9", "#ff8182"),
    "fold": ("#eaeef2", "#6e7781"),
    "root": ("#dafbe1", "#4ac26b"),
    "constant": ("#ffffff", "#8c959f"),
    "backward": ("#fbefff", "#c297ff"),
    "loop": ("#fff1e5", "#fb8f44"),
}
_WORDS = {
    "leaf": "leaf", "function": "custom function", "write": "write into a part", "fold": "several nodes",
    "root": "result",
    "constant": "constant", "backward": "for gradients alone", "loop": "loop",
}  # fmt: skip

_TITLE, _SMALL = 13.0, 11.0
_PER_CHARACTER = 0.602  # character width of a fixed-width font, relative to its size
_PADDING = 9.0
_MARGIN = 16.0
_LONGEST = 44

_STYLE = """
  text { font-family: ui-monospace, "DejaVu Sans Mono", Menlo, Consolas, monospace; fill: #1f2328; white-space: pre; }
  .title { font-size: 13px; font-weight: 600; }
  .name { font-size: 13px; font-weight: 600; fill: #0550ae; }
  .fact { font-size: 11px; }
  .faint { font-size: 11px; fill: #59636e; }
  .line { font-size: 11px; fill: #8250df; }
  .paper { fill: #ffffff; }
  .edge { fill: none; stroke: #57606a; stroke-width: 1.2; }
  .head { fill: #57606a; }
  .on { stroke: #ffffff; stroke-width: 4px; paint-order: stroke; }
"""


def lines_of(box: Box) -> list[tuple[str, str]]:
    """Return the lines in a box with their styles."""
    lines: list[tuple[str, str]] = []
    if box.kind == "leaf":
        lines.append((_short(box.label), "name") if box.label else ("leaf", "title"))
    else:
        if box.label:
            lines.append((_short(box.label), "name"))
        lines.append((_short(box.title), "title"))
    if box.what:
        lines.append((_short(box.what), "fact"))
    for text in box.contained[:4]:
        lines.append((_short(text), "fact"))
    if box.absorbed:
        lines.append((_short("of " + ", ".join(dict.fromkeys(box.absorbed))), "fact"))
    if box.saved:
        lines.append((_short(_saved_line(box)), "faint"))
    if box.hooks:
        lines.append((f"{box.hooks} hook{'s' * (box.hooks != 1)}", "faint"))
    if box.place is not None:
        lines.append((_short(box.place_text), "line"))
        if box.source:
            lines.append((_short(box.source), "line"))
    return lines


def _saved_line(box: Box) -> str:
    if len(box.saved) <= 2 or box.count > 1:
        return f"saved: {box.saved_text}"
    return f"saved: {len(box.saved)} values, {format_bytes(box.saved_bytes)}"


def _short(text: str) -> str:
    return text if len(text) <= _LONGEST else text[: _LONGEST - 1] + "…"


class _Drawing:
    """The placed boxes and edges of a graph; those of loops are inside their boxes."""

    def __init__(self, contents: Contents) -> None:
        self.boxes = contents.boxes
        self.labels = edge_labels(contents)
        self.lines = {box: lines_of(box) for box in self.boxes}
        self.inside = {box: _Drawing(box.inner) for box in self.boxes if box.inner is not None and box.inner.boxes}
        sizes = {box: _size(self.lines[box]) for box in self.boxes}
        for box, drawing in self.inside.items():
            width, height = sizes[box]
            sizes[box] = max(width, drawing.width + 2 * _PADDING), height + drawing.height + _PADDING
        edges = [(entry[0], box) for box in self.boxes for entry in box.inputs if entry is not None]
        self.placed = place(self.boxes, edges, sizes)
        self.width: float = self.placed.width
        self.height: float = self.placed.height

    def parts(self) -> list[str]:
        """Return the elements in drawing order, background first."""
        parts = _edges(self.placed, self.labels)
        for box in self.boxes:
            spot = self.placed.spots[box]
            parts.append(_box(spot, self.lines[box]))
            drawing = self.inside.get(box)
            if drawing is not None:
                x, y = spot.x - drawing.width / 2, spot.y + spot.height - drawing.height - _PADDING
                parts += [f'<g transform="translate({x:.1f} {y:.1f})">', *drawing.parts(), "</g>"]
        return parts


def svg_text(contents: Contents) -> str:
    """Return the whole picture as one element."""
    drawing = _Drawing(contents)
    legend = _legend(contents)
    width = max(drawing.width, _text_width(contents.caption, _SMALL), legend[1]) + 2 * _MARGIN
    height = drawing.height + 2 * _MARGIN + 2 * 20
    shift = (width - drawing.width) / 2
    parts = [
        f'<svg xmlns="http://www.w3.org/2000/svg" width="{width:.0f}" height="{height:.0f}" '
        f'viewBox="0 0 {width:.0f} {height:.0f}" '
        'role="img">',
        f"<title>{contents.subject}: {escape(contents.caption)}</title>",
        f"<style>{_STYLE}</style>",
        f'<rect class="paper" width="{width:.0f}" height="{height:.0f}" rx="6"/>',
        f'<g transform="translate({shift:.1f} {_MARGIN:.1f})">',
    ]
    parts += [*drawing.parts(), "</g>"]
    bottom = drawing.height + 2 * _MARGIN + 10
    parts.append(f'<text class="faint" x="{_MARGIN:.0f}" y="{bottom:.1f}">{escape(contents.caption)}</text>')
    parts.append(f'<g transform="translate({_MARGIN:.0f} {bottom + 10:.1f})">{legend[0]}</g>')
    return "\n".join([*parts, "</svg>", ""])


def _text_width(text: str, size: float) -> float:
    return len(text) * size * _PER_CHARACTER


def _font(style: str) -> float:
    return _TITLE if style in ("title", "name") else _SMALL


def _size(lines: list[tuple[str, str]]) -> tuple[float, float]:
    width = max(_text_width(text, _font(style)) for text, style in lines) + 2 * _PADDING
    return max(width, 56.0), sum(_font(style) + 4 for _, style in lines) + 2 * _PADDING - 4


def _box(spot: Spot, lines: list[tuple[str, str]]) -> str:
    box = spot.box
    fill, line = COLOURS["root" if box.is_root and box.kind != "leaf" else box.kind]
    x, y = spot.x - spot.width / 2, spot.y
    corner = min(spot.height / 2, 14.0) if box.kind == "leaf" else 4.0
    dash = ' stroke-dasharray="4 3"' if box.kind == "fold" or box.is_copy else ""
    parts = [
        f"<g><title>{escape(_tip(box))}</title>",
        f'<rect x="{x:.1f}" y="{y:.1f}" width="{spot.width:.1f}" height="{spot.height:.1f}" rx="{corner:.0f}" '
        f'fill="{fill}" stroke="{line}"{dash}/>',
    ]
    baseline = y + _PADDING
    for text, style in lines:
        baseline += _font(style)
        parts.append(
            f'<text class="{style}" x="{spot.x:.1f}" y="{baseline - 2:.1f}" text-anchor="middle">{escape(text)}</text>'
        )
        baseline += 4
    return "".join([*parts, "</g>"])


def _tip(box: Box) -> str:
    facts = [f"{box.title} {box.label}".strip(), details(box)]
    if box.place is not None:
        facts.append(str(box.place))
    return "\n".join([*facts, *box.contained])


def edge_labels(contents: Contents) -> dict[tuple[Box, Box], str]:
    """Return the label of each edge between producer and consumer: the outputs used and their number of uses, unless
    it is the first output once."""
    uses: dict[tuple[Box, Box], list[int]] = {}
    for box in contents.boxes:
        for entry in box.inputs:
            if entry is not None:
                uses.setdefault((entry[0], box), []).append(entry[1])
    labels = {}
    for pair, outputs in uses.items():
        distinct = sorted(set(outputs))
        if distinct != [0]:
            labels[pair] = f"output{'s' * (len(distinct) > 1)} {', '.join(map(str, distinct))}"
        elif len(outputs) > 1:
            labels[pair] = f"{len(outputs)} times"
    return labels


def _edges(placed: Placed, labels: dict[tuple[Box, Box], str]) -> list[str]:
    """Draw curves that leave and arrive vertically. Several edges at one side of a box get a position each, in the
    order of their origins."""
    leaving = _ports([(run[0], run[1].x) for _, _, run in placed.runs])
    arriving = _ports([(run[-1], run[-2].x) for _, _, run in placed.runs])
    parts = []
    for number, (producer, consumer, run) in enumerate(placed.runs):
        start, end = run[0], run[-1]
        x, y = leaving[number], start.bottom
        path = [f"M{x:.1f} {start.y + start.height:.1f}V{y:.1f}"]
        for spot in run[1:]:
            to_x, to_y = arriving[number] if spot is end else spot.x, spot.top
            if spot is end and end.y - end.top < 6:
                to_y = end.y - 6  # space for the arrow's head
            middle = (y + to_y) / 2
            path.append(f"C{x:.1f} {middle:.1f} {to_x:.1f} {middle:.1f} {to_x:.1f} {to_y:.1f}")
            x, y = to_x, spot.bottom
            if spot is not end:
                path.append(f"V{y:.1f}")
        tip = end.y - 6
        path.append(f"V{tip:.1f}")
        parts.append(f'<path class="edge" d="{"".join(path)}"/>')
        parts.append(f'<path class="head" d="M{x - 4:.1f} {tip - 1:.1f}h8l-4 7z"/>')
        label = labels.get((producer, consumer))
        if label is not None:
            parts.append(f'<text class="on faint" x="{x + 7:.1f}" y="{tip - 2:.1f}">{label}</text>')
    return parts


def _ports(ends: list[tuple[Spot, float]]) -> list[float]:
    """Return the position of each edge on its box: spread over the middle of the side, ordered by the edge's origin."""
    by_spot: dict[Spot, list[int]] = {}
    for number, (spot, _) in enumerate(ends):
        by_spot.setdefault(spot, []).append(number)
    places = [0.0] * len(ends)
    for spot, numbers in by_spot.items():
        step = min(22.0, 0.7 * spot.width / len(numbers))
        for position, number in enumerate(sorted(numbers, key=lambda n: ends[n][1])):
            places[number] = spot.x + (position - (len(numbers) - 1) / 2) * step
    return places


def _legend(contents: Contents) -> tuple[str, float]:
    every = [
        *contents.boxes,
        *[inside for box in contents.boxes if box.inner is not None for inside in box.inner.boxes],
    ]
    kinds = {"root" if box.is_root and box.kind != "leaf" else box.kind for box in every}
    x, parts = 0.0, []
    for kind, word in _WORDS.items():
        if kind in kinds:
            fill, line = COLOURS[kind]
            parts.append(f'<rect x="{x:.0f}" y="0" width="12" height="12" rx="3" fill="{fill}" stroke="{line}"/>')
            parts.append(f'<text class="faint" x="{x + 18:.0f}" y="10">{word}</text>')
            x += 18 + _text_width(word, _SMALL) + 18
    return "".join(parts), x
