"""Diagrams of the pages as SVG: boxes in rows, arrows from those that depend to those that they depend on.

The page loads no script for it, and a list of the same relations stands below for readers without a picture.
"""

import re
from html import escape
from itertools import pairwise
from typing import NamedTuple

_CLASS = re.compile(r'\s*class (c\d+)\["(.*)"\]')
_DERIVED = re.compile(r"\s*(c\d+) <\|-- (c\d+)")
_BOX = re.compile(r'\s*(p\d+)\["(.*)"\]')
_ARROW = re.compile(r"\s*(p\d+) -->\|(\d+)\| (p\d+)")
_LETTER, _PAD, _HEIGHT, _GAP, _STEP, _WIDEST = 7.6, 22, 32, 22, 78, 880


class Arrow(NamedTuple):
    start: str
    end: str
    weight: int  # 0 if the relation has no number


def render(lines: list[str]) -> str:
    """A class diagram or flowchart of Mermaid as our pages write it."""
    names: dict[str, str] = {}
    arrows: list[Arrow] = []
    for line in lines:
        box, derived, arrow = _CLASS.match(line) or _BOX.match(line), _DERIVED.match(line), _ARROW.match(line)
        if box:
            names[box[1]] = box[2]
        elif derived:
            arrows.append(Arrow(derived[2], derived[1], 0))
        elif arrow:
            arrows.append(Arrow(arrow[1], arrow[3], int(arrow[2])))
    arrows = [arrow for arrow in arrows if arrow.start in names and arrow.end in names]
    return f'<div class="wide picture">{_draw(names, arrows)}</div>{_list(names, arrows)}' if arrows else ""


def _list(names: dict[str, str], arrows: list[Arrow]) -> str:
    rows = "".join(
        f"<li><code>{escape(names[arrow.start])}</code> → <code>{escape(names[arrow.end])}</code>"
        + (f" ({arrow.weight})" if arrow.weight else "")
        + "</li>"
        for arrow in arrows
    )
    return f'<details><summary>As a list</summary><ul class="diagram">{rows}</ul></details>'


def _rows(names: dict[str, str], arrows: list[Arrow]) -> list[list[str]]:
    """The boxes in rows, so that arrows lead down; of arrows in a circle the lightest lead up."""
    below: dict[str, set[str]] = {name: set() for name in names}

    def reaches(start: str, goal: str) -> bool:
        seen, open_ = {start}, [start]
        while open_:
            for following in below[open_.pop()]:
                if following == goal:
                    return True
                if following not in seen:
                    seen.add(following)
                    open_.append(following)
        return False

    for arrow in sorted(arrows, key=lambda arrow: (-arrow.weight, arrow.start, arrow.end)):
        if arrow.start != arrow.end and not reaches(arrow.end, arrow.start):
            below[arrow.start].add(arrow.end)
    depth = dict.fromkeys(names, 0)
    for _ in names:
        for name, following in below.items():
            for other in following:
                depth[other] = max(depth[other], depth[name] + 1)
    rows: list[list[str]] = [[] for _ in range(max(depth.values()) + 1)]
    for name in names:
        rows[depth[name]].append(name)
    return _wrap(_untangle(rows, below), names)


def _untangle(rows: list[list[str]], below: dict[str, set[str]]) -> list[list[str]]:
    """Order each row by the places of the boxes above that lead to it."""
    for above, row in pairwise(rows):
        place = {name: at for at, name in enumerate(above)}
        middle = {}
        for name in row:
            places = [place[other] for other in above if name in below[other]]
            middle[name] = sum(places) / len(places) if places else len(above) / 2
        row.sort(key=lambda name: (middle[name], name))
    return rows


def _wrap(rows: list[list[str]], names: dict[str, str]) -> list[list[str]]:
    """Break rows that are wider than a page."""
    found: list[list[str]] = []
    for row in rows:
        found.append([])
        width = 0.0
        for name in row:
            width += _width(names[name]) + _GAP
            if width > _WIDEST and found[-1]:
                found.append([])
                width = _width(names[name]) + _GAP
            found[-1].append(name)
    return found


def _width(label: str) -> float:
    return len(label) * _LETTER + _PAD


def _draw(names: dict[str, str], arrows: list[Arrow]) -> str:
    rows = _rows(names, arrows)
    widths = [sum(_width(names[name]) + _GAP for name in row) - _GAP for row in rows]
    width = max(widths) + 8
    height = (len(rows) - 1) * _STEP + _HEIGHT + 8
    places: dict[str, tuple[float, float]] = {}  # middle of a box, and its top
    boxes = []
    for at, row in enumerate(rows):
        left = (width - widths[at]) / 2
        top = at * _STEP + 4
        for name in row:
            wide = _width(names[name])
            places[name] = (left + wide / 2, top)
            boxes.append(
                f'<rect x="{left:.0f}" y="{top}" width="{wide:.0f}" height="{_HEIGHT}" rx="6"/>'
                f'<text x="{left + wide / 2:.0f}" y="{top + 21}" text-anchor="middle">{escape(names[name])}</text>'
            )
            left += wide + _GAP
    most = max((arrow.weight for arrow in arrows), default=1) or 1
    lines = [_line(places, arrow, 1 + 2.5 * arrow.weight / most, names) for arrow in arrows]
    return (
        f'<svg viewBox="0 0 {width:.0f} {height:.0f}" width="{width:.0f}" height="{height:.0f}" role="img" '
        f'aria-label="Diagram of {len(names)} boxes and {len(arrows)} arrows; the list below says the same">'
        f"{''.join(lines)}{''.join(boxes)}</svg>"
    )


def _line(places: dict[str, tuple[float, float]], arrow: Arrow, wide: float, names: dict[str, str]) -> str:
    (x1, y1), (x2, y2) = places[arrow.start], places[arrow.end]
    if y2 > y1:
        y1 += _HEIGHT
    elif y2 < y1:
        y2 += _HEIGHT
    level = y1 == y2  # arrows within a row pass above it
    bend = -_STEP / 2 if level else (y2 - y1) / 2
    ends = y2 + bend if level else y2 - bend
    kind = "" if y2 > y1 else ' class="up"'
    said = f"{names[arrow.start]} → {names[arrow.end]}" + (f": {arrow.weight}" if arrow.weight else "")
    # Curves end upright, so their tips are upright too.
    back = y2 - 8 if bend > 0 or level else y2 + 8
    return (
        f'<path{kind} d="M{x1:.0f} {y1:.0f}C{x1:.0f} {y1 + bend:.0f} {x2:.0f} {ends:.0f} {x2:.0f} {y2:.0f}" '
        f'stroke-width="{wide:.1f}"><title>{escape(said)}</title></path>'
        f'<path class="tip" d="M{x2 - 4:.0f} {back:.0f}h8L{x2:.0f} {y2:.0f}z"/>'
    )
