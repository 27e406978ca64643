"""Views by strides: sliding windows, and as_strided with any geometry.

Here one element of memory may be several elements of the view. Writing to such a view would be ambiguous, so it is
read-only, and its gradient sums all contributions to one position.

Note [As strided]
as_strided is about memory, everything else in this library about values. Its settings therefore hold two geometries:
that of x when the op was called (`source`) and that of the result (`target`), both counted in elements from x's first
one. The forward makes a true view, and only of an array whose memory layout is `source`. The derivatives are about
values, and are a pair of linear maps: `strided_values` lays x out in a piece of memory and reads the result from it,
and `as_strided_backward` is its transpose. If x itself has several elements at one position (it was expanded), the
position holds their mean, so that the gradient is shared among them, as in torch. Positions that are no element of x
hold zero: they do not depend on x.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, NamedTuple

import numpy

from ndgrad._src.arrays.addresses import flat_bytes, is_dense, owner_of, pointer
from ndgrad._src.arrays.integers import as_places
from ndgrad._src.arrays.meta import zeros_on_same_device
from ndgrad._src.arrays.scatter import add_at
from ndgrad._src.ops.split import index_along
from ndgrad._src.ops.table import op

if TYPE_CHECKING:
    from ndgrad._typing import Library, Payload, Vocabulary


def strided_view(
    np: Library, x: Payload, sizes: tuple[int, ...], strides: tuple[int, ...], *, offset: int = 0, writable: bool = True
) -> Payload:
    """Return a view of the memory of x. Strides and the offset from x's first element are in bytes.

    The view's `base` is the array that owns the memory, which numpy.lib.stride_tricks would hide.
    """
    if getattr(x, "is_meta", False):
        return type(x)(sizes, x.dtype)
    if np.__name__ == "cupy":
        return np.ndarray(sizes, x.dtype, x.data + offset, strides)
    owner = owner_of(x)
    if 0 in sizes:
        return flat_bytes(owner)[:0].view(x.dtype).reshape(sizes)
    out = np.ndarray(sizes, x.dtype, flat_bytes(owner), offset + pointer(x) - pointer(owner), strides)
    if not (writable and x.flags.writeable):
        out.flags.writeable = False
    return out


# ----- sliding windows ------------------------------------------------------------------------------------------------


def _unfold(np: Library, x: Payload, *, dim: int, width: int, step: int) -> Payload:
    windows = (x.shape[dim] - width) // step + 1
    shape = (*x.shape[:dim], windows, *x.shape[dim + 1 :], width)
    strides = (*x.strides[:dim], x.strides[dim] * step, *x.strides[dim + 1 :], x.strides[dim])
    if isinstance(x, numpy.ndarray) and not is_dense(owner_of(x)):
        # The placeholder of a traced array, or memory of another library. Windows never leave the memory of x itself.
        is_writable = step >= width and x.flags.writeable
        return numpy.lib.stride_tricks.as_strided(x, shape, strides, writeable=is_writable)
    return strided_view(np, x, shape, strides, writable=step >= width)


unfold = op(
    "unfold", "x",
    _unfold,
    settings={"dim": 0, "width": 1, "step": 1},
    vjp={"x": lambda g, x_shape, dim, width, step, ops: ops.unfold_backward(g, shape=x_shape, dim=dim, width=width,
            step=step)},
    jvp="linear",
    batch="dims",
    view=True,
    saved_names={"dim": "dimension", "width": "size"}, moves_dims=True, movement="rearrange",
)  # fmt: skip


def _unfold_backward(np: Library, x: Payload, *, shape: tuple[int, ...], dim: int, width: int, step: int) -> Payload:
    """Add the windows at their positions, either window by window or element by element of the window, whichever is
    shorter.
    """
    out = zeros_on_same_device(np, x, shape, x.dtype)
    windows = x.shape[dim]
    if windows < width:
        for i in range(windows):
            out[index_along(dim, slice(i * step, i * step + width))] += np.moveaxis(x[index_along(dim, i)], -1, dim)
    else:
        for j in range(width):
            out[index_along(dim, slice(j, j + (windows - 1) * step + 1, step))] += x[..., j]
    return out


unfold_backward = op(
    "unfold_backward", "x",
    _unfold_backward,
    settings={"shape": (), "dim": 0, "width": 1, "step": 1},
    vjp={"x": lambda g, dim, width, step, ops: ops.unfold(g, dim=dim, width=width, step=step)},
    jvp="linear",
    batch=lambda x, shape, dim, width, step, ops: ops.unfold_backward(
        x, shape=(x.shape[0], *shape), dim=dim + 1, width=width, step=step
    ), movement="scatter",
)  # fmt: skip

# ----- any strides ----------------------------------------------------------------------------------------------------


class Geometry(NamedTuple):
    """The positions in memory of an array's elements, counted in elements."""

    sizes: tuple[int, ...]
    strides: tuple[int, ...]
    offset: int = 0

    def places(self, np: Library) -> Payload:
        """Return the position of each element."""
        out = np.full(self.sizes, self.offset, np.int64)
        for dim, (n, stride) in enumerate(zip(self.sizes, self.strides, strict=True)):
            out += (np.arange(n) * stride).reshape(n, *(1,) * (len(self.sizes) - dim - 1))
        return out

    def overlaps(self, np: Library) -> bool:
        """True if two elements have the same position."""
        if 0 in self.sizes:
            return False
        reach = 0
        for stride, n in sorted((abs(s), n) for n, s in zip(self.sizes, self.strides, strict=True) if n > 1):
            if stride <= reach:  # steps of this dimension may land between smaller ones, so positions are compared
                found = self.places(np).ravel()
                return bool(len(np.unique(found)) != found.size)
            reach += stride * (n - 1)
        return False

    def with_batch(self, size: int, stride: int) -> Geometry:
        """Return the geometry with a batch in front."""
        return Geometry((size, *self.sizes), (stride, *self.strides), self.offset)


def geometry_of(x: Any) -> Geometry:
    """Return the geometry of a tensor or array; under vmap, with the batch in front, that of one sample."""
    shape = tuple(x.shape)
    while hasattr(x, "_array"):
        x = x._array
    strides = getattr(x, "strides", ())
    return Geometry(shape, tuple(s // x.itemsize for s in strides[len(strides) - len(shape) :]))


def _as_strided(np: Library, x: Payload, *, source: Geometry, target: Geometry) -> Payload:
    item = x.itemsize
    if any(n > 1 and have != item * want for n, have, want in zip(x.shape, x.strides, source.strides, strict=True)):
        raise RuntimeError(
            f"as_strided: a tensor with strides {source.strides} was viewed by strides, but the view is now taken "
            f"of an array with strides {geometry_of(x).strides}, where the same places hold other elements. "
            "clone() before as_strided(). [nd-strides]"
        )
    strides = tuple(s * item for s in target.strides)
    return strided_view(np, x, target.sizes, strides, offset=target.offset * item, writable=not target.overlaps(np))


class _Layout:
    """A piece of memory that holds both geometries, with the positions of their elements."""

    def __init__(self, np: Library, source: Geometry, target: Geometry) -> None:
        x, y = source.places(np).ravel(), target.places(np).ravel()
        first = min((int(p.min()) for p in (x, y) if p.size), default=0)
        self.length = max((int(p.max()) for p in (x, y) if p.size), default=-1) + 1 - first
        self.source, self.target = x - first, y - first
        self.count = None
        if source.overlaps(np):
            self.count = np.bincount(as_places(self.source), minlength=self.length)[self.source]


def _move(np: Library, values: Payload, length: int, to: Any, back: Any) -> Payload:
    """Add the last dimension of `values` to zeros at the positions `to`, and read the memory at `back`."""
    memory = zeros_on_same_device(np, values, (length, *values.shape[:-1]), values.dtype)
    add_at(np, memory, to, np.moveaxis(values, -1, 0))
    return np.moveaxis(memory[back], 0, -1)


def _strided_values(np: Library, x: Payload, *, source: Geometry, target: Geometry) -> Payload:
    layout = _Layout(np, source, target)
    lead = x.shape[: len(x.shape) - len(source.sizes)]
    values = x.reshape(*lead, len(layout.source))
    if layout.count is not None:
        values = (values / layout.count).astype(x.dtype)
    return _move(np, values, layout.length, layout.source, layout.target).reshape((*lead, *target.sizes))


def _as_strided_backward(np: Library, x: Payload, *, source: Geometry, target: Geometry) -> Payload:
    layout = _Layout(np, source, target)
    lead = x.shape[: len(x.shape) - len(target.sizes)]
    found = _move(np, x.reshape(*lead, len(layout.target)), layout.length, layout.target, layout.source)
    if layout.count is not None:
        found = (found / layout.count).astype(x.dtype)
    return found.reshape((*lead, *source.sizes))


def _as_strided_batch(x: Payload, source: Geometry, target: Geometry, ops: Vocabulary) -> Payload:
    (size, *_), (stride, *_), _ = geometry_of(x)
    return ops.as_strided(x, source=source.with_batch(size, stride), target=target.with_batch(size, stride))


as_strided = op(
    "as_strided", "x",
    _as_strided,
    settings={"source": None, "target": None},
    vjp={"x": lambda g, source, target, ops: ops.as_strided_backward(g, source=source, target=target)},
    jvp={"x": lambda t, source, target, ops: ops.strided_values(t, source=source, target=target)},
    batch=_as_strided_batch,
    view=True,
)  # fmt: skip

strided_values = op(
    "strided_values", "x",
    _strided_values,
    settings={"source": None, "target": None},
    vjp={"x": lambda g, source, target, ops: ops.as_strided_backward(g, source=source, target=target)},
    jvp="linear",
    batch="leading",
)  # fmt: skip

as_strided_backward = op(
    "as_strided_backward", "x",
    _as_strided_backward,
    settings={"source": None, "target": None},
    vjp={"x": lambda g, source, target, ops: ops.strided_values(g, source=source, target=target)},
    jvp="linear",
    batch="leading",
)  # fmt: skip
