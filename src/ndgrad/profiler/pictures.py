"""Pictures of a profile and of memory: a flame graph of times, and a timeline of memory by its holders.

Both are SVG, and as a page (`.html`) they also have the table of rows; neither keeps a tensor.
"""

from __future__ import annotations

import os
from dataclasses import dataclass, field
from html import escape
from typing import Any

from ndgrad._src.debug.drawing.contents import format_bytes
from ndgrad._src.debug.drawing.page import page

WIDTH, ROW = 1000.0, 19.0
_COLOURS = (
    "#7cb7e8",
    "#f2a65a",
    "#8fc97a",
    "#d68fd6",
    "#e9c46a",
    "#7ad1c4",
    "#e58a8a",
    "#a6a6e0",
    "#b8c46a",
    "#c9a58f",
)
_STYLE = """
:root { color-scheme: light dark; } body { font: 14px/1.5 system-ui, sans-serif; margin: 1rem auto; max-width: 1100px; padding: 0 1rem; }
svg { width: 100%; height: auto; } svg text { font: 11px ui-monospace, monospace; fill: CanvasText; pointer-events: none; }
table { border-collapse: collapse; } td, th { padding: .15rem .7rem .15rem 0; text-align: left; vertical-align: top; } td:first-child { text-align: right; white-space: nowrap; }
code { font: 12px ui-monospace, monospace; } .faint { color: GrayText; } .frame { cursor: pointer; } #where { min-height: 1.5em; } .scroll { overflow-x: auto; }
"""


class Picture:
    """A picture as SVG and as a page: a notebook shows it, `save` writes it, `str` describes it in a line.

    Args:
        svg: picture as SVG.
        caption: description in a line.
        rows: HTML below the picture.
        script: JavaScript of the page.
        data: data of the script, which become JSON.
    """

    title = "Picture"

    def __init__(self, svg: str, caption: str, rows: str = "", script: str = "", data: Any = None) -> None:
        self.svg, self.caption = svg, caption
        self._rows, self._script, self._data = rows, script, data

    @property
    def html(self) -> str:
        """Return one file with everything in it."""
        body = f'<h1>{self.title}</h1><p>{escape(self.caption)}</p><div class="scroll">{self.svg}</div><p id="where" class="faint"></p>{self._rows}'
        return page(self.title, body, _STYLE, self._script, self._data)

    def save(self, path: str | os.PathLike[str]) -> None:
        """Write it to a file: .html or .svg.

        Args:
            path: path of the file, which ends in `.html` or `.svg`.
        """
        kind = os.path.splitext(os.fspath(path))[1].lower()
        if kind not in (".html", ".svg"):
            raise ValueError(
                f"a picture cannot be written to {os.fspath(path)!r}: its ending names no format. "
                "End it in .html or .svg. [nd-path]"
            )
        with open(path, "w", encoding="utf-8") as file:
            file.write(self.html if kind == ".html" else self.svg)

    def __repr__(self) -> str:
        return f"<{self.title}: {self.caption}>"

    def _repr_html_(self) -> str:
        return f"<div>{self.svg}<div>{escape(self.caption)}</div></div>"


# ----- times ----------------------------------------------------------------------------------------------------------


class FlamePicture(Picture):
    """Calls inside calls, each as wide as its time."""

    title = "Flame view"


@dataclass
class Frame:
    """A call and its children, summed over all calls from the same place."""

    name: str
    microseconds: float = 0.0
    calls: int = 0
    inside: dict[str, Frame] = field(default_factory=dict)

    def child(self, name: str) -> Frame:
        found = self.inside.get(name)
        if found is None:
            found = self.inside[name] = Frame(name)
        return found


def frames(events: Any) -> Frame:
    """Return the calls of a profile as a tree; with `with_stack=True`, below the user's lines that made them."""
    root = Frame("all")
    for event in events:
        if event.cpu_parent is None and event.time_range.elapsed_us() > 0:
            at = root
            for line in reversed(event.stack):
                at = at.child(line)
            _add(at, event)
    _total(root)
    return root


def _add(above: Frame, event: Any) -> None:
    waiting = [(above, event)]
    while waiting:
        at, event = waiting.pop()
        frame = at.child(event.name)
        frame.calls += event.count
        frame.microseconds += event.time_range.elapsed_us()
        waiting += [(frame, inside) for inside in event.cpu_children]


def _total(frame: Frame) -> float:
    """Return the width: lines are as wide as their calls; a call is as wide as its time."""
    inside = sum(_total(child) for child in frame.inside.values())
    frame.microseconds = max(frame.microseconds, inside)
    return frame.microseconds


def flame(profile: Any) -> FlamePicture:
    """Return a flame graph of a profile: nested calls, each as wide as its time.

    In the page, a click on a call zooms to it, and a click on a call above it zooms out.

    Args:
        profile: profile after its block.

    >>> import ndgrad
    >>> with ndgrad.autograd.profiler.profile(with_stack=True) as p:
    ...     _ = ndgrad.ones(100).exp()
    >>> ndgrad.viz.flame(p)
    <Flame view: ...>
    """
    events = profile.events() if callable(getattr(profile, "events", None)) else profile.function_events
    root = frames(events)
    if not root.inside:
        raise ValueError(
            "there is nothing to draw: the profile has no calls. Leave its block before you draw it. [nd-too-few]"
        )
    placed: list[tuple[Frame, float, float, int]] = []
    waiting = [(root, 0.0, 1.0, 0)]
    while waiting:
        frame, left, width, depth = waiting.pop()
        placed.append((frame, left, width, depth))
        at = left
        for child in sorted(frame.inside.values(), key=lambda c: -c.microseconds):
            share = width * child.microseconds / frame.microseconds if frame.microseconds else 0.0
            if share > 0.0004:  # at least half a pixel
                waiting.append((child, at, share, depth + 1))
            at += share
    height = (max(depth for *_, depth in placed) + 1) * ROW
    parts = [
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {WIDTH:.0f} {height:.0f}" role="img" aria-label="flame view">'
    ]
    for frame, left, width, depth in placed:
        colour = _COLOURS[sum(map(ord, frame.name)) % len(_COLOURS)] if frame.calls else "#cfd4dc"
        text = escape(_fitting(frame.name, width * WIDTH))
        share = 100 * frame.microseconds / root.microseconds
        tip = f"{frame.name}: {_time(frame.microseconds)}, {share:.1f} %" + (
            f", {frame.calls} calls" if frame.calls else ""
        )
        parts.append(
            f'<g class="frame" data-x="{left:.6f}" data-w="{width:.6f}" data-d="{depth}" data-n="{escape(frame.name, quote=True)}"><title>{escape(tip)}</title>'
            f'<rect x="{left * WIDTH:.2f}" y="{depth * ROW:.1f}" width="{max(width * WIDTH - 0.6, 0.4):.2f}" height="{ROW - 1:.1f}" rx="2" fill="{colour}"/>'
            f'<text x="{left * WIDTH + 3:.2f}" y="{depth * ROW + 13:.1f}" style="fill:#10151c">{text}</text></g>'
        )
    caption = f"{_time(root.microseconds)} in {sum(1 for e in events)} calls"
    return FlamePicture("".join(parts) + "</svg>", caption, script=_FLAME_SCRIPT)


_FLAME_SCRIPT = """
const frames = [...document.querySelectorAll(".frame")], W = 1000;
document.body.dataset.frames = frames.length;
function zoom(left, width) {
  for (const g of frames) {
    const x = (+g.dataset.x - left) / width * W, w = +g.dataset.w / width * W, shown = x + w > 0 && x < W;
    g.style.display = shown ? "" : "none";
    if (!shown) continue;
    const from = Math.max(x, 0), to = Math.min(x + w, W), rect = g.querySelector("rect"), text = g.querySelector("text");
    rect.setAttribute("x", from); rect.setAttribute("width", Math.max(to - from - 0.6, 0.4));
    text.setAttribute("x", from + 3);
    const most = Math.floor((to - from - 6) / 6.7), name = g.dataset.n;
    text.textContent = most < 2 ? "" : name.length > most ? name.slice(0, most - 1) + "…" : name;
  }
  document.body.dataset.visible = frames.filter(g => g.style.display !== "none").length;
}
for (const g of frames) {
  g.addEventListener("click", () => zoom(+g.dataset.x, +g.dataset.w));
  g.addEventListener("mouseenter", () => { document.getElementById("where").textContent = g.querySelector("title").textContent; });
}
zoom(0, 1);
const wanted = new URLSearchParams(location.hash.slice(1)).get("zoom");
if (wanted) { const g = frames.find(f => f.dataset.n === wanted); if (g) zoom(+g.dataset.x, +g.dataset.w); }
"""


def _fitting(text: str, width: float) -> str:
    most = int((width - 6) / 6.7)
    return "" if most < 2 else text if len(text) <= most else text[: most - 1] + "…"


def _time(microseconds: float) -> str:
    return (
        f"{microseconds / 1e6:.2f} s"
        if microseconds >= 1e6
        else f"{microseconds / 1e3:.2f} ms"
        if microseconds >= 1e3
        else f"{microseconds:.0f} µs"
    )


# ----- memory by holder -----------------------------------------------------------------------------------------------


class MemoryPicture(Picture):
    """Bytes over time, by origin, and the holders at the peak."""

    title = "Memory timeline"


def memory(trace: Any, *, rows: int = 9) -> MemoryPicture:
    """Return the timeline of a `trace_allocations`: memory by holder over time, and an explanation of the peak.

    A band is one call on one line of the user's code; the `rows` largest at the peak have their own bands.

    Args:
        trace: `trace_allocations` after its block.
        rows: number of holders at the peak with a band of their own.

    >>> import ndgrad
    >>> with ndgrad.autograd.graph.trace_allocations() as trace:
    ...     y = ndgrad.ones(1000).exp().sum()
    >>> ndgrad.viz.memory(trace)
    <Memory timeline: ...>
    """
    log = list(trace._ledger.log)
    if not log:
        raise ValueError("there is nothing to draw: nothing was allocated inside the trace. [nd-too-few]")
    held: dict[str, list[Any]] = {}
    for made in trace.at_peak:
        held.setdefault(_maker(made), []).append(made)
    ranked = sorted(held, key=lambda name: -sum(m.nbytes for m in held[name]))
    bands = {name: i for i, name in enumerate(ranked[:rows])}
    levels = [0] * (len(bands) + 1)
    points: list[tuple[float, tuple[int, ...]]] = []
    for now, change, made in log:
        levels[bands.get(_maker(made), len(bands))] += change
        points.append((now, tuple(levels)))
    peak = max(range(len(points)), key=lambda i: sum(points[i][1]))
    most, end = max(sum(points[peak][1]), 1), max(points[-1][0], 1e-9)
    svg = _areas(_thin_out(points, peak), list(bands), most, end, points[peak][0])
    table = "".join(
        f'<tr><td>{format_bytes(sum(m.nbytes for m in held[name]))}</td><td><span style="color:{_COLOURS[i % len(_COLOURS)] if i < rows else "#98a2b3"}">■</span> '
        f"{len(held[name])} × {escape(name)}</td><td><code>{escape(_source(held[name][0]))}</code></td></tr>"
        for i, name in enumerate(ranked[:40])
    )
    caption = f"{format_bytes(most)} at the peak, after {points[peak][0] * 1e3:.1f} ms of {end * 1e3:.1f} ms; {len(trace.allocations):,} allocations"
    return MemoryPicture(svg, caption, f'<h2>At the peak</h2><div class="scroll"><table>{table}</table></div>')


def _maker(made: Any) -> str:
    place = made.place
    where = "" if place is None else f", {os.path.basename(place.filename)}:{place.line}"
    return f"{made.op}{' (backward)' if made.backward else ''}{where}"


def _source(made: Any) -> str:
    return "" if made.place is None else str(made.place.text)


def _thin_out(
    points: list[tuple[float, tuple[int, ...]]], peak: int, most: int = 1200
) -> list[tuple[float, tuple[int, ...]]]:
    """Reduce to as many points as there are pixels, including the peak: the highest of each interval."""
    if len(points) <= most:
        return points
    step = len(points) / most
    kept = {peak, len(points) - 1}
    for k in range(most):
        stretch = range(int(k * step), max(int((k + 1) * step), int(k * step) + 1))
        kept.add(max(stretch, key=lambda i: sum(points[i][1])))
    return [points[i] for i in sorted(kept)]


def _areas(points: list[tuple[float, tuple[int, ...]]], names: list[str], most: int, end: float, peak_at: float) -> str:
    height, top = 260.0, 16.0

    def x(now: float) -> float:
        return WIDTH * now / end

    def y(size: float) -> float:
        return top + (height - top) * (1 - size / most)

    parts = [
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {WIDTH:.0f} {height + 20:.0f}" role="img" aria-label="memory over time">'
    ]
    below = [0] * len(points)
    for band in range(len(points[0][1])):
        above = [low + levels[band] for low, (_, levels) in zip(below, points)]
        path = [f"M0 {y(below[0]):.1f}"]
        for (now, _), size in zip(points, above):
            path.append(f"H{x(now):.1f}V{y(size):.1f}")
        path.append(f"H{WIDTH:.0f}V{y(below[-1]):.1f}")
        for i in range(len(points) - 1, -1, -1):
            path.append(f"V{y(below[i]):.1f}H{x(points[i][0]):.1f}")
        is_rest = band == len(names)
        colour = "#98a2b3" if is_rest else _COLOURS[band % len(_COLOURS)]
        title = "everything else" if is_rest else names[band]
        parts.append(f'<path d="{"".join(path)}Z" fill="{colour}"><title>{escape(title)}</title></path>')
        below = above
    parts.append(
        f'<path d="M{x(peak_at):.1f} {top - 4}V{height}" stroke="currentColor" stroke-dasharray="3 3" fill="none"/>'
    )
    anchor = "end" if peak_at > 0.6 * end else "start"
    shift = -5 if anchor == "end" else 5
    parts.append(
        f'<text x="{x(peak_at) + shift:.1f}" y="11" text-anchor="{anchor}" style="font-size:11px">peak {format_bytes(most)}</text>'
    )
    for share, side in ((0.0, "start"), (0.25, "middle"), (0.5, "middle"), (0.75, "middle"), (1.0, "end")):
        parts.append(
            f'<text x="{share * WIDTH:.0f}" y="{height + 15:.0f}" text-anchor="{side}" style="font-size:11px; opacity:.7">'
            f"{_time(share * end * 1e6)}</text>"
        )
    return "".join(parts) + "</svg>"
