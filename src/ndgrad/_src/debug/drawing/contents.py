"""Contents of a picture of a graph: one box per node, one arrow per edge, and the facts in each box.

Text, DOT and SVG are three layouts of the same contents. A leaf and its accumulator are one box. Drawing changes
nothing: no saved value is unpacked, no view's history is replayed that `grad_fn` would not replay, and only the
picture itself stays alive afterwards, which is plain text and numbers.
"""

from __future__ import annotations

import os
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any, cast

import numpy as np

from ndgrad._src.core.node import FIRST, Node, edge_node, edge_number, output_count
from ndgrad._src.core.saved import RuleNode
from ndgrad._src.core.traversal import iterate_nodes
from ndgrad._src.core.variable import AccumulateGrad, Variable
from ndgrad._src.core.view import CopySlices
from ndgrad._src.debug.drawing.names import Names
from ndgrad._src.debug.saved_memory import Held, holdings, unique_bytes
from ndgrad._src.debug.source_lines import Place, place_of
from ndgrad._src.engine.graph import GradientEdge, get_gradient_edge


@dataclass(eq=False)
class Box:
    """One node of the graph in a picture."""

    number: int
    title: str
    #: "leaf", "op", "function" (a custom one), "write" (into a part of a tensor), "fold" (several nodes); in pictures
    #: of programs also "constant", "backward" (an op needed only for gradients) and "loop"
    kind: str
    names: list[str] = field(default_factory=list)
    shape: str = ""
    dtype: str = ""
    #: values that the node keeps for backward
    saved: list[Held] = field(default_factory=list)
    place: Place | None = None
    #: text of the line, in one of the boxes that it made
    source: str = ""
    hooks: int = 0
    is_root: bool = False
    #: targets of gradients: (box, output number), None for an input without gradient
    inputs: list[tuple[Box, int] | None] = field(default_factory=list)
    #: True for one of several boxes of the same leaf
    is_copy: bool = False
    #: number of nodes in this box
    count: int = 1
    #: the node's number, which its op also has in a profile
    seq: int = -1
    #: folded box: leaves not drawn on their own, and descriptions of the nodes inside
    absorbed: list[str] = field(default_factory=list)
    contained: list[str] = field(default_factory=list)
    #: loop: the repeated graph, drawn inside the box
    inner: Contents | None = None

    @property
    def saved_bytes(self) -> int:
        return unique_bytes(self.saved)

    @property
    def label(self) -> str:
        """Return the names of the tensor; empty if there are none."""
        return ", ".join(self.names)

    @property
    def what(self) -> str:
        """Return shape and dtype of the result."""
        return f"{self.shape} {self.dtype}".strip()

    @property
    def saved_text(self) -> str:
        """Describe the saved values; empty if there are none."""
        if self.count > 1 and len(self.saved) > 1:
            return f"{len(self.saved)} values, {format_bytes(self.saved_bytes)}"
        return ", ".join(_held_text(held) for held in self.saved)

    @property
    def place_text(self) -> str:
        """Return the user's line, with the last part of the file's path."""
        if self.place is None:
            return ""
        return f"{os.path.basename(self.place.filename)}:{self.place.line}"


@dataclass
class Contents:
    """The boxes of a graph from the roots on, each before those it depends on."""

    boxes: list[Box]
    roots: list[Box]
    node_count: int
    leaf_count: int
    saved_bytes: int

    #: subject of the picture
    subject = "Backward graph"

    @property
    def caption(self) -> str:
        leaves, nodes = self.leaf_count, self.node_count - self.leaf_count
        text = f"{nodes:,} node{'s' * (nodes != 1)}, {leaves:,} {'leaf' if leaves == 1 else 'leaves'}"
        return text + (f", {format_bytes(self.saved_bytes)} saved for backward" if self.saved_bytes else "")


def gather(roots: object, names: Names) -> Contents:
    """Collect the contents of a picture of the graph behind tensors, gradient edges or nodes."""
    starts = list(_roots(roots))
    nodes = list(iterate_nodes(dict.fromkeys(node for node, _, _ in starts)))
    boxes = {node: _box(node, number, names) for number, node in enumerate(sorted(nodes, key=lambda n: -n.seq))}
    for node, box in boxes.items():
        box.inputs = [None if e is None else (boxes[edge_node(e)], edge_number(e)) for e in node.next]
    root_boxes = []
    for node, number, given in starts:
        box = boxes[node]
        box.is_root = True
        name = given if number == 0 or given is None else f"{given} [{number}]"
        if name is not None and name not in box.names:
            box.names.append(name)
        if box not in root_boxes:
            root_boxes.append(box)
    ordered = _sort_boxes(root_boxes, len(boxes))
    saved = unique_bytes(held for box in ordered for held in box.saved)
    _show_lines_once(ordered)
    return Contents(ordered, root_boxes, len(nodes), sum(box.kind == "leaf" for box in ordered), saved)


def _show_lines_once(boxes: list[Box]) -> None:
    """Show a line's text only in the box nearest to the results, and its number in all boxes that it made."""
    seen = set()
    for box in boxes:
        if box.place is not None and box.place not in seen:
            seen.add(box.place)
            box.source = box.place.text


def _roots(roots: object) -> Iterator[tuple[Node, int, str | None]]:
    if isinstance(roots, Mapping):
        pairs: Iterable[tuple[Any, Any]] = roots.items()
    elif isinstance(roots, (Variable, GradientEdge, Node)):
        pairs = [(None, roots)]
    elif isinstance(roots, (list, tuple)):
        pairs = [(None, root) for root in roots]
    else:
        raise TypeError(
            "a picture needs a tensor, a gradient edge, a node, or a list or dict of them, "
            f"but got {type(roots).__name__}. [nd-type]"
        )
    found = False
    for name, root in pairs:
        found = True
        if isinstance(root, Node):
            yield root, 0, name
        elif isinstance(root, GradientEdge):
            yield root.node, root.output_nr, name
        elif isinstance(root, Variable):
            if not root.requires_grad:
                raise RuntimeError(
                    f"there is no graph behind a tensor of shape {tuple(root.shape)} that does not require grad. "
                    "Draw a result of a computation with requires_grad_() leaves; ndgrad.autograd.explain(y, x) "
                    "tells where a graph was cut. [nd-no-graph]"
                )
            edge = get_gradient_edge(cast(Any, root))
            yield edge.node, edge.output_nr, name
        else:
            raise TypeError(
                f"a picture needs tensors, gradient edges or nodes, but one root is {type(root).__name__}. [nd-type]"
            )
    if not found:
        raise ValueError("there is nothing to draw: no tensor was given. [nd-too-few]")


def _sort_boxes(roots: list[Box], count: int) -> list[Box]:
    """Sort consumers before producers, so that one pass can place every box. The graph has no cycles."""
    waiting = dict.fromkeys(roots, 0)
    stack = list(roots)
    while stack:
        for entry in stack.pop().inputs:
            if entry is not None:
                if entry[0] not in waiting:
                    waiting[entry[0]] = 0
                    stack.append(entry[0])
                waiting[entry[0]] += 1
    ready = [box for box in roots if not waiting[box]]
    order: list[Box] = []
    while ready:
        box = ready.pop()
        order.append(box)
        for entry in reversed(box.inputs):
            if entry is not None:
                waiting[entry[0]] -= 1
                if not waiting[entry[0]]:
                    ready.append(entry[0])
    assert len(order) == count
    return order


def _box(node: Node, number: int, names: Names) -> Box:
    box = Box(number, node.name(), _kind(node), seq=-1 if node.seq == FIRST else int(node.seq))
    if isinstance(node, AccumulateGrad):
        box.names = names.leaf_names(node.variable)
        box.shape, box.dtype = _shape(node.variable.shape), _dtype(node.dtype)
        box.hooks = len(node.variable._meta.hooks or ()) + len(node.variable._meta.post_accumulate_hooks or ())
        return box
    box.names = names.result_names(node)
    if output_count(node) == 1:
        box.shape, box.dtype = _shape(node.shape), _dtype(node.dtype)
    else:
        known = [k for k in getattr(node, "metadata_of_outputs", ()) if k is not None]
        shapes = list(dict.fromkeys(_shape(shape) for shape, _ in known))
        box.shape = (
            f"{output_count(node)} x {shapes[0]}"
            if len(shapes) == 1
            else ", ".join(shapes[:3]) + ("..." if len(shapes) > 3 else "")
        )
        box.dtype = ", ".join(dict.fromkeys(_dtype(dtype) for _, dtype in known))
    box.saved = list(holdings(node))
    box.place = place_of(node)
    if node.extra is not None:
        extra = node.extra
        box.hooks = (
            len(extra.pre_hooks or ())
            + len(extra.post_hooks or ())
            + sum(len(h or ()) for h in extra.tensor_hooks.values())
        )
    return box


def _held_text(held: Held) -> str:
    if held.state == "freed":
        return f"{held.name} freed"
    return f"{held.name} {format_bytes(held.nbytes)}" + (" packed" if held.state == "packed" else "")


def _kind(node: Node) -> str:
    if isinstance(node, AccumulateGrad):
        return "leaf"
    if isinstance(node, CopySlices):
        return "write"
    return "op" if isinstance(node, RuleNode) else "function"


def _shape(shape: Any) -> str:
    return str(tuple(int(n) for n in shape))


def _dtype(dtype: Any) -> str:
    return "" if dtype is None else str(np.dtype(dtype))


def format_bytes(count: float) -> str:
    """Format a size for readers: 24 B, 1.5 kB, 3.0 MB, in steps of 1000."""
    units = ["GB", "MB", "kB"]
    if count < 1000:
        return f"{count:.0f} B"
    count /= 1000
    unit = units.pop()
    while count >= 999.95 and units:
        count /= 1000
        unit = units.pop()
    return f"{count:.1f} {unit}"
