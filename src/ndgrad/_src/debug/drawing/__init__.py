"""Pictures of graphs: as text, in Graphviz's language, and as SVG, for a terminal, a file and a notebook.

    tree(y)         text
    to_dot(y)       Graphviz
    to_svg(y)       SVG
    show(y)         an object that notebooks draw and terminals print
    draw(y, path)   a file in the format of its ending

All of them need nothing but Python. Without given names, tensors are named after the variables of the calling
code.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Mapping
from types import FrameType
from typing import Any

from ndgrad._src.debug.drawing.contents import Contents, gather
from ndgrad._src.debug.drawing.dot import dot_text
from ndgrad._src.debug.drawing.fold import fold
from ndgrad._src.debug.drawing.names import Names
from ndgrad._src.debug.drawing.page import graph_page
from ndgrad._src.debug.drawing.svg import svg_text
from ndgrad._src.debug.drawing.text import text_tree
from ndgrad._src.foundations.public_path import set_module

__all__ = ["GraphPicture", "draw", "show", "to_dot", "to_svg", "tree"]

#: Larger graphs are folded, because more boxes are unreadable.
LARGEST = 300


@set_module("ndgrad.autograd.graph")
class GraphPicture:
    """A picture of a graph at the time of its creation: `str` is the text tree, and a notebook shows the SVG.

    It holds only text and numbers, no tensor and no node. `text`, `dot`, `svg` and `html` (an interactive page) are its
    forms; `save` writes one of them.

    Args:
        contents: nodes and edges as text and numbers.
        limit: largest number of boxes. None means the default.
        times: times of the nodes in a profile.
    """

    def __init__(
        self, contents: Contents, limit: int | None, times: Mapping[int, tuple[float, float]] | None = None
    ) -> None:
        self._contents = contents
        self._limit = limit
        self._times = times

    @property
    def caption(self) -> str:
        """The numbers of nodes and leaves, and the bytes they keep."""
        return self._contents.caption

    @property
    def text(self) -> str:
        return text_tree(self._contents, self._limit)

    @property
    def dot(self) -> str:
        return dot_text(self._contents)

    @property
    def svg(self) -> str:
        return svg_text(fold(self._contents, LARGEST if self._limit is None else self._limit))

    def save(self, path: str | os.PathLike[str]) -> None:
        """Write the picture to a file: .svg, .html, .dot (or .gv) or .txt.

        Args:
            path: path of the file, whose ending selects the format.

        Raises:
            ValueError: if the ending names no format.
        """
        kind = os.path.splitext(os.fspath(path))[1].lower()
        forms = {".svg": "svg", ".dot": "dot", ".gv": "dot", ".txt": "text", ".html": "html"}
        if kind not in forms:
            raise ValueError(
                f"a picture cannot be written to {os.fspath(path)!r}: its ending names no format. "
                f"End it in {', '.join(forms)}; "
                "for PNG or PDF, write .dot and run Graphviz's dot, or convert the .svg. [nd-path]"
            )
        text = getattr(self, forms[kind])
        with open(path, "w", encoding="utf-8") as file:
            file.write(text)

    @property
    def html(self) -> str:
        """An interactive page with zoom, folding, search and heat colours; it has every node and needs no network."""
        return graph_page(self._contents, self._times)

    def __str__(self) -> str:
        return self.text

    __repr__ = __str__

    def _repr_svg_(self) -> str:
        return self.svg

    def _repr_html_(self) -> str:
        return f'<div style="overflow: auto; max-height: 80vh">{self.svg}</div>'

    def _repr_pretty_(self, printer: Any, cycle: bool) -> None:
        printer.text("..." if cycle else self.text)


def picture_of(
    roots: object,
    params: object,
    frame: FrameType,
    limit: int | None,
    times: Mapping[int, tuple[float, float]] | None = None,
) -> GraphPicture:
    """Return the picture that `show` makes, with names from a given frame and, for its page, microseconds per node."""
    if limit is not None and limit < 2:
        raise ValueError(
            f"limit is {limit}: a picture needs at least 2 boxes. Leave limit out, or give a larger one. [nd-range]"
        )
    return GraphPicture(gather(roots, Names(params, frame)), limit, times)


@set_module("ndgrad.autograd.graph")
def show(roots: object, params: object = None, *, limit: int | None = LARGEST) -> GraphPicture:
    """Return the graph behind tensors, as an object that a notebook draws and a terminal prints.

    `roots` is a tensor, a gradient edge, a node, or a list or a dict (name -> tensor) of them. `params` gives names to
    leaves: a dict, a module, or pairs such as `model.named_parameters()`; otherwise tensors are named after the
    caller's variables. A picture has at most `limit` boxes: beyond that, parameters join the op that uses
    them, chains become one box, and the rest is cut off visibly.

    Under `ndgrad.autograd.debug()` ops store the user's lines, and the picture shows them.

    Args:
        roots: tensor, gradient edge, node, or a list or dict of them.
        params: names of leaves: a dict, a module, or pairs of a name and a tensor. None uses the caller's variables.
        limit: largest number of boxes. None means all.

    >>> import ndgrad
    >>> w, x = ndgrad.ones(3, requires_grad=True), ndgrad.ones(3)
    >>> loss = (w * x).exp().sum()
    >>> ndgrad.autograd.graph.show(loss)
    SumBackward0 loss  () float32
    ExpBackward0       (3,) float32   saved: result 12 B
    MulBackward0       (3,) float32   saved: other 12 B
    AccumulateGrad w   (3,) float32
    3 nodes, 1 leaf, 24 B saved for backward
    """
    return picture_of(roots, params, sys._getframe(1), limit)


@set_module("ndgrad.autograd.graph")
def tree(roots: object, params: object = None, *, limit: int | None = LARGEST) -> str:
    """Return the graph behind tensors as text (see `show` for the arguments); `limit` counts lines, None prints all.

    Args:
        roots: tensor, gradient edge, node, or a list or dict of them.
        params: names of leaves: a dict, a module, or pairs of a name and a tensor. None uses the caller's variables.
        limit: largest number of lines. None means all.

    >>> import ndgrad
    >>> a, b = ndgrad.ones(2, requires_grad=True), ndgrad.ones(2, requires_grad=True)
    >>> print(ndgrad.autograd.graph.tree(a * b + a))
    AddBackward0               (2,) float32
    ├─ MulBackward0            (2,) float32   saved: self 8 B, other 8 B
    │  ├─ AccumulateGrad a *1  (2,) float32
    │  └─ AccumulateGrad b     (2,) float32
    └─ AccumulateGrad a *1
    2 nodes, 2 leaves, 16 B saved for backward
    """
    return picture_of(roots, params, sys._getframe(1), limit).text


@set_module("ndgrad.autograd.graph")
def to_dot(roots: object, params: object = None) -> str:
    """Return the graph behind tensors in the language of Graphviz (see `show` for the arguments).

    Args:
        roots: tensor, gradient edge, node, or a list or dict of them.
        params: names of leaves: a dict, a module, or pairs of a name and a tensor. None uses the caller's variables.
    """
    return picture_of(roots, params, sys._getframe(1), None).dot


@set_module("ndgrad.autograd.graph")
def to_svg(roots: object, params: object = None, *, limit: int | None = LARGEST) -> str:
    """Return the graph behind tensors as an SVG picture (see `show` for the arguments).

    Args:
        roots: tensor, gradient edge, node, or a list or dict of them.
        params: names of leaves: a dict, a module, or pairs of a name and a tensor. None uses the caller's variables.
        limit: largest number of boxes. None means the default.
    """
    return picture_of(roots, params, sys._getframe(1), limit).svg


@set_module("ndgrad.autograd.graph")
def draw(roots: object, path: str | os.PathLike[str], params: object = None, *, limit: int | None = LARGEST) -> None:
    """Write the graph behind tensors to a file: .svg, .html, .dot or .txt (see `show` for the other arguments).

    Args:
        roots: tensor, gradient edge, node, or a list or dict of them.
        path: path of the file, whose ending selects the format.
        params: names of leaves: a dict, a module, or pairs of a name and a tensor. None uses the caller's variables.
        limit: largest number of boxes. None means the default.
    """
    picture_of(roots, params, sys._getframe(1), limit).save(path)
