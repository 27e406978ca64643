"""Folding of large graphs: side branches into their consumers, chains into one box, and the rest cut off
visibly.

Nothing vanishes: a box states the number of its nodes, and the part that is cut off is a box of its own.
"""

from __future__ import annotations

from collections import Counter
from dataclasses import replace

from ndgrad._src.debug.drawing.contents import Box, Contents

#: A side branch of at most this many nodes (a weight and its transpose) belongs to its consumer.
_TWIG = 3
#: A leaf with more consumers is repeated next to each: a weight used by every step would tangle the edges.
_SHARED = 4
#: Number of nodes that stay separate at either end of a chain.
_END = 3


def fold(contents: Contents, limit: int) -> Contents:
    """Return contents of at most `limit` boxes; unchanged if they already fit."""
    if len(contents.boxes) <= limit:
        return replace(contents, boxes=_repeat_leaves(contents.boxes))
    boxes = contents.boxes
    for step in (_absorb_twigs, _join_chains):
        if len(boxes) > limit:
            boxes = step(boxes)
    if len(boxes) > limit:
        boxes = _cut_off(contents.roots, boxes, limit)
    return replace(contents, boxes=boxes)


def _consumers(boxes: list[Box]) -> dict[Box, list[Box]]:
    found: dict[Box, list[Box]] = {box: [] for box in boxes}
    for box in boxes:
        for entry in box.inputs:
            if entry is not None:
                found[entry[0]].append(box)
    return found


def _repeat_leaves(boxes: list[Box]) -> list[Box]:
    consumers = _consumers(boxes)
    out = []
    for number, box in enumerate(boxes):
        users = list(dict.fromkeys(consumers[box]))
        if box.kind != "leaf" or len(users) <= _SHARED:
            out.append(box)
            continue
        names = box.names or [f"leaf {number}"]
        for user in users:
            copy = replace(box, names=names, is_copy=True)
            out.append(copy)
            user.inputs = [(copy, e[1]) if e is not None and e[0] is box else e for e in user.inputs]
    return out


def _absorb_twigs(boxes: list[Box]) -> list[Box]:
    consumers = _consumers(boxes)
    gone: set[Box] = set()
    for box in reversed(boxes):  # producers first, so that a twig of several nodes is absorbed as a whole
        users = list(dict.fromkeys(consumers[box]))
        if box.is_root or not users:
            continue
        if box.kind != "leaf":
            others = [e[0] for e in users[0].inputs if e is not None and e[0] is not box and e[0].kind != "leaf"]
            is_twig = 1 < box.count <= _TWIG and all(e is None for e in box.inputs)
            if not is_twig or len(users) > 1 or not others:
                continue  # The remaining nodes are the trunk.
        for position, user in enumerate(users):
            user.count += box.count if position == 0 else 0
            user.saved += box.saved
            user.absorbed += [box.label or f"a leaf {box.shape}"] if box.kind == "leaf" else box.absorbed
            user.inputs = [entry for entry in user.inputs if entry is None or entry[0] is not box]
        gone.add(box)
    return [box for box in boxes if box not in gone]


def _join_chains(boxes: list[Box]) -> list[Box]:
    consumers = _consumers(boxes)

    def is_link(box: Box) -> bool:
        return (
            not box.is_root
            and box.kind != "leaf"
            and len(consumers[box]) == 1
            and sum(e is not None for e in box.inputs) == 1
        )

    gone: set[Box] = set()
    for box in boxes:
        if box in gone or not is_link(box) or is_link(consumers[box][0]):
            continue  # A chain is found at its end nearest to the roots.
        chain = [box]
        while True:
            below = next(entry for entry in chain[-1].inputs if entry is not None)
            if not is_link(below[0]):
                break
            chain.append(below[0])
        chain = chain[_END:-_END]
        if len(chain) < 3:
            continue
        box = chain[0]
        merged = Box(box.number, f"{sum(b.count for b in chain)} nodes", "fold", count=sum(b.count for b in chain))
        merged.shape, merged.dtype = box.shape, box.dtype
        merged.contained = [
            f"{name} x {n}" if n > 1 else name for name, n in Counter(b.title for b in chain).most_common()
        ]
        for link in chain:
            merged.saved += link.saved
            merged.names += link.names
            merged.absorbed += link.absorbed
        merged.inputs = chain[-1].inputs
        (consumer,) = consumers[box]
        consumer.inputs = [(merged, e[1]) if e is not None and e[0] is box else e for e in consumer.inputs]
        gone.update(chain)
        boxes = [merged if b is box else b for b in boxes]
    return [box for box in boxes if box not in gone]


def _cut_off(roots: list[Box], boxes: list[Box], limit: int) -> list[Box]:
    """Keep the boxes nearest to the roots, and put all others into one box."""
    kept = dict.fromkeys(roots)
    row = list(roots)
    while row and len(kept) < limit - 1:
        following = []
        for box in row:
            for entry in box.inputs:
                if entry is not None and entry[0] not in kept and len(kept) < limit - 1:
                    kept[entry[0]] = None
                    following.append(entry[0])
        row = following
    beyond = [box for box in boxes if box not in kept]
    count = sum(box.count for box in beyond)
    rest = Box(-1, f"{count:,} more nodes", "fold", count=count)
    for box in beyond:
        rest.saved += box.saved
    rest.contained = [f"{name} x {n}" if n > 1 else name for name, n in Counter(b.title for b in beyond).most_common(6)]
    for box in kept:
        to_rest = False
        inputs: list[tuple[Box, int] | None] = []
        for entry in box.inputs:
            if entry is None or entry[0] in kept:
                inputs.append(entry)
            elif not to_rest:
                inputs.append((rest, 0))
                to_rest = True
        box.inputs = inputs
    return [box for box in boxes if box in kept] + [rest]
