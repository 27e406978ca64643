"""Standalone pages: a picture with its data, style and script in one HTML file, which needs no network.

The page of a graph (`graph_page.js`) has every node and folds them itself, so graphs of any size are complete.
"""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from html import escape
from pathlib import Path
from typing import Any

from ndgrad._src.debug.drawing.contents import Box, Contents

_HERE = Path(__file__).parent

_GRAPH_BODY = """\
<header><h1>{title}</h1><span class="caption">{caption}</span>
<label>fold by <select id="fold"><option value="none">nothing</option><option value="line">line</option><option value="function">function</option>
<option value="module">module</option></select></label>
<label>colour <select id="heat"><option value="kind">kind</option><option value="bytes">saved bytes</option><option value="time">time</option></select></label>
<label>show <select id="view"><option value="forward">forward</option><option value="backward">backward</option><option value="both">side by side</option></select></label>
<label><input type="search" id="search" placeholder="search ( / )" aria-label="search"></label><span id="found" class="caption"></span>
<button id="fit" title="show all (0)">show all</button></header>
<main><div id="area"><canvas id="canvas" role="img" aria-label="{caption}"></canvas></div><aside id="panel"></aside></main>
<template id="help"><h2>{title}</h2><p>{caption}</p>
<p class="hint">Drag to move, wheel or pinch to zoom, click a box to read about it, double-click to fold or unfold what belongs to it.
Values flow down, gradients up.</p></template>"""


def page(title: str, body: str, style: str, script: str, data: Any) -> str:
    """Return one HTML file with everything in it."""
    text = json.dumps(data, separators=(",", ":")).replace("<", "\\u003c")  # no </script> inside
    return (
        f'<!doctype html>\n<html lang="en"><head><meta charset="utf-8"><meta name="viewport" content="width=device-width, initial-scale=1">'
        f"<title>{escape(title)}</title>\n<style>{style}</style></head>\n<body>{body}\n"
        f'<script type="application/json" id="data">{text}</script>\n<script>{script}</script></body></html>\n'
    )


def graph_page(contents: Contents, times: Mapping[int, tuple[float, float]] | None = None) -> str:
    """Return the page of a graph. `times` has microseconds forward and backward by the number of a node."""
    number = {box: i for i, box in enumerate(contents.boxes)}
    modules = _modules(contents.boxes)
    nodes = [_node(box, number, modules.get(box, ""), (times or {}).get(box.seq, (0.0, 0.0))) for box in contents.boxes]
    title = "Graph" + (f" of {contents.roots[0].label}" if contents.roots and contents.roots[0].label else "")
    body = _GRAPH_BODY.format(title=escape(title), caption=escape(contents.caption))
    return page(title, body, _read_file("graph_page.css"), _read_file("graph_page.js"), {"nodes": nodes})


def _read_file(name: str) -> str:
    return (_HERE / name).read_text(encoding="utf-8")


def _node(box: Box, number: Mapping[Box, int], module: str, times: tuple[float, float]) -> dict[str, Any]:
    place = box.place
    return {
        "title": box.title, "kind": box.kind, "names": box.label, "shape": box.what, "saved": box.saved_text, "bytes": box.saved_bytes,
        "hooks": box.hooks, "root": box.is_root, "module": module, "forward_us": times[0], "backward_us": times[1],
        "file": "" if place is None else place.filename, "line": 0 if place is None else place.line,
        "inside": "" if place is None else place.function, "source": "" if place is None else place.text,
        "inputs": [number[entry[0]] for entry in box.inputs if entry is not None and entry[0] in number],
    }  # fmt: skip


def _modules(boxes: list[Box]) -> dict[Box, str]:
    """Return the module of each node, inferred from parameters: that of the parameters it uses, or else that of the
    value it continues (a ReLU belongs to the layer before it)."""
    found: dict[Box, str] = {}
    for box in reversed(boxes):  # producers first
        if box.kind == "leaf":
            path = re.match(r"(.+)\.[^.]+$", box.names[0]) if box.names else None
            found[box] = path[1] if path else ""
            continue
        used = [found[e[0]] for e in box.inputs if e is not None and e[0].kind == "leaf" and found.get(e[0])]
        before = [found[e[0]] for e in box.inputs if e is not None and e[0].kind != "leaf" and found.get(e[0])]
        found[box] = (used or before or [""])[-1]
    return found
