"""Parts of an array along one dimension: one index, a slice, or all parts at once.

A part is a view. Its gradient is the transpose: zeros of the whole shape with the part set. The two are each other's
reverse rules, so both save only sizes.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy

from ndgrad._src.arrays.device_kernels import copy_to
from ndgrad._src.arrays.meta import zeros_on_same_device
from ndgrad._src.ops.table import VARIABLE, op

if TYPE_CHECKING:
    from ndgrad._typing import Library, Payload


def index_along(dim: int, item: Any) -> tuple[Any, ...]:
    """Return the index that applies `item` to one dimension. The ellipsis makes NumPy return a view even of one
    element.
    """
    return (*(slice(None),) * dim, item, ...)


# ----- one index ------------------------------------------------------------------------------------------------------

select = op(
    "select", "x",
    lambda np, x, *, dim, index: x[index_along(dim, index)],
    settings={"dim": 0, "index": 0},
    vjp={"x": lambda g, x_shape, dim, index, ops: ops.select_backward(g, shape=x_shape, dim=dim, index=index)},
    jvp="linear",
    batch="dims",
    view=True,
    partial_view=True,
    known_as="indexing", movement="rearrange",
)  # fmt: skip


def _embed(np: Library, g: Payload, shape: tuple[int, ...], index: tuple[Any, ...]) -> Payload:
    out = zeros_on_same_device(np, g, shape, g.dtype)
    if np is numpy:
        out[index] = g
    else:
        copy_to(out[index], g)
    return out


select_backward = op(
    "select_backward", "x",
    lambda np, x, *, shape, dim, index: _embed(np, x, shape, index_along(dim, index)),
    settings={"shape": (), "dim": 0, "index": 0},
    vjp={"x": lambda g, dim, index, ops: ops.select(g, dim=dim, index=index)},
    jvp="linear",
    batch=lambda x, shape, dim, index, ops: ops.select_backward(x, shape=(x.shape[0], *shape), dim=dim + 1,
        index=index),
    halves=True,
    moves_values=True, movement="place", memory_order="C",
)  # fmt: skip

# ----- a range of indices ---------------------------------------------------------------------------------------------

slice_ = op(
    "slice", "x",
    lambda np, x, *, dim, start, stop, step: x[index_along(dim, slice(start, stop, step))],
    settings={"dim": 0, "start": 0, "stop": 0, "step": 1},
    vjp={
        "x": lambda g, x_shape, dim, start, stop, step, ops: ops.slice_backward(
            g, shape=x_shape, dim=dim, start=start, stop=stop, step=step
        )
    },
    jvp="linear",
    batch="dims",
    view=True,
    partial_view=True,
    saved_names={"stop": "end"}, known_as="indexing", movement="rearrange",
)  # fmt: skip

slice_backward = op(
    "slice_backward", "x",
    lambda np, x, *, shape, dim, start, stop, step: _embed(np, x, shape, index_along(dim, slice(start, stop, step))),
    settings={"shape": (), "dim": 0, "start": 0, "stop": 0, "step": 1},
    vjp={"x": lambda g, dim, start, stop, step, ops: ops.slice(g, dim=dim, start=start, stop=stop, step=step)},
    jvp="linear",
    batch=lambda x, shape, dim, start, stop, step, ops: ops.slice_backward(
        x, shape=(x.shape[0], *shape), dim=dim + 1, start=start, stop=stop, step=step
    ),
    halves=True,
    moves_values=True, movement="place", memory_order="C",
)  # fmt: skip

# ----- all parts ------------------------------------------------------------------------------------------------------


def _split(np: Library, x: Payload, *, split_size: int, dim: int) -> tuple[Any, ...]:
    """Split into at least one part, even if x is empty. The last part may be smaller."""
    starts = range(0, x.shape[dim], split_size) if x.shape[dim] else (0,)
    lead = (slice(None),) * dim
    return tuple([x[(*lead, slice(start, start + split_size))] for start in starts])


split = op(
    "split", "x",
    _split,
    settings={"split_size": 1, "dim": 0},
    vjp={"x": lambda gs, dim, ops: ops.cat(*gs, dim=dim)},
    jvp="linear",
    batch="dims",
    outputs=VARIABLE,
    view=True, movement="rearrange",
)  # fmt: skip


def _split_with_sizes(np: Library, x: Payload, *, sizes: tuple[int, ...], dim: int) -> tuple[Any, ...]:
    parts, start = [], 0
    for size in sizes:
        parts.append(x[index_along(dim, slice(start, start + size))])
        start += size
    return tuple(parts)


split_with_sizes = op(
    "split_with_sizes", "x",
    _split_with_sizes,
    settings={"sizes": (), "dim": 0},
    vjp={"x": lambda gs, dim, ops: ops.cat(*gs, dim=dim)},
    jvp="linear",
    batch="dims",
    outputs=VARIABLE,
    view=True, movement="rearrange",
)  # fmt: skip

unbind = op(
    "unbind", "x",
    lambda np, x, *, dim: tuple(x[index_along(dim, index)] for index in range(x.shape[dim])),
    settings={"dim": 0},
    vjp={"x": lambda gs, dim, ops: ops.stack(*gs, dim=dim)},
    jvp="linear",
    batch="dims",
    outputs=VARIABLE,
    view=True, movement="rearrange",
)  # fmt: skip
