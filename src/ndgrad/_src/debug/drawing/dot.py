"""A graph in the language of Graphviz, for its programs: `dot -Tsvg graph.dot`."""

from __future__ import annotations

from ndgrad._src.debug.drawing.contents import Box, Contents
from ndgrad._src.debug.drawing.svg import COLOURS, edge_labels, lines_of


def dot_text(contents: Contents) -> str:
    """Return the source of a directed graph; arrows follow the forward computation."""
    out = [
        "digraph {",
        '  graph [rankdir=TB, fontname="monospace", fontsize=10];',
        '  node [shape=box, style="rounded,filled", fontname="monospace", fontsize=10];',
        '  edge [fontname="monospace", fontsize=9, color="#57606a"];',
        f"  label={_quote(contents.caption)};",
    ]
    return "\n".join([*out, *_statements(contents, "n"), "}", ""])


def _statements(contents: Contents, stem: str) -> list[str]:
    """Return the nodes and edges of a graph. A loop is a node in a frame, next to its own graph."""
    out: list[str] = []
    names = {box: f"{stem}{position}" for position, box in enumerate(contents.boxes)}
    for box in contents.boxes:
        fill, line = COLOURS["root" if box.is_root else box.kind]
        text = "\n".join(line for line, _ in lines_of(box))
        node = f'  {names[box]} [label={_quote(text)}, fillcolor="{fill}", color="{line}"{_tooltip(box)}];'
        if box.inner is None:
            out.append(node)
        else:
            out += [f"  subgraph cluster_{names[box]} {{", node, *_statements(box.inner, names[box] + "_"), "  }"]
    labels = edge_labels(contents)
    for pair in dict.fromkeys((entry[0], box) for box in contents.boxes for entry in box.inputs if entry is not None):
        label = f" [label={_quote(labels[pair])}]" if pair in labels else ""
        out.append(f"  {names[pair[0]]} -> {names[pair[1]]}{label};")
    return out


def _tooltip(box: Box) -> str:
    return f", tooltip={_quote(str(box.place))}" if box.place is not None else ""


def _quote(text: str) -> str:
    return '"' + text.replace("\\", "\\\\").replace('"', '\\"').replace("\n", "\\n") + '"'
