"""A graph as text: results first, their inputs below.

A node with one producer has it on the next line, in the same column; a node with several has a branch for each. So the
indentation counts branches, not depth, and a long chain stays a column. A node shared by several consumers is printed
once, at its first position, with a number that the others refer to.
"""

from __future__ import annotations

from ndgrad._src.debug.drawing.contents import Box, Contents

_WIDEST = 60


def text_tree(contents: Contents, limit: int | None) -> str:
    """Return the whole tree, or its first `limit` lines and the number of nodes left out."""
    uses: dict[Box, int] = {}
    for box in contents.boxes:
        for entry in box.inputs:
            if entry is not None:
                uses[entry[0]] = uses.get(entry[0], 0) + 1
    numbers: dict[Box, int] = {}
    printed: set[Box] = set()
    rows: list[tuple[str, str]] = []
    # (box, output number, prefix of its line, prefix of the lines below it)
    stack: list[tuple[Box, int, str, str]] = [(root, 0, "", "") for root in reversed(contents.roots)]
    while stack and (limit is None or len(rows) < limit):
        box, output, first, rest = stack.pop()
        label = f"{first}{_title(box)}" + (f" [{output}]" if output else "")
        if box in printed:
            rows.append((f"{label} *{numbers[box]}", "above" if box.kind != "leaf" else ""))
            continue
        printed.add(box)
        if uses.get(box, 0) > 1:
            numbers[box] = len(numbers) + 1
            label += f" *{numbers[box]}"
        rows.append((label, details(box)))
        inputs = [entry for entry in box.inputs if entry is not None]
        if len(inputs) == 1:
            stack.append((*inputs[0], rest, rest))
            continue
        for position, entry in reversed(list(enumerate(inputs))):
            is_last = position == len(inputs) - 1
            stack.append((*entry, rest + ("└─ " if is_last else "├─ "), rest + ("   " if is_last else "│  ")))
    width = min(max(len(label) for label, _ in rows), _WIDEST)
    lines = [f"{label:{width}}  {text}".rstrip() for label, text in rows]
    left = len(contents.boxes) - len(printed)
    if left:
        lines.append(f"... {left:,} more node{'s' * (left != 1)}: limit=None prints all")
    return "\n".join([*lines, contents.caption])


def _title(box: Box) -> str:
    return f"{box.title} {box.label}" if box.label else box.title


def details(box: Box) -> str:
    """Return the facts of a box in one line."""
    parts = [box.what]
    if box.saved:
        parts.append(f"saved: {box.saved_text}")
    if box.hooks:
        parts.append(f"{box.hooks} hook{'s' * (box.hooks != 1)}")
    if box.place is not None:
        parts.append(box.place_text + (f": {box.source}" if box.source else ""))
    return "   ".join(parts)
