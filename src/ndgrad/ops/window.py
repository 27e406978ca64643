"""Views by strides: sliding windows, and as_strided with any geometry.

Here one element of memory may be several elements of the view. Such a view must not be written (which of its elements
should win?), so it is read-only, and its gradient adds up what falls on one place.

Note [As strided]
as_strided speaks of memory, everything else in this library of values. The settings therefore hold both geometries in
elements: that of x when the op was called (`x_stride`) and that of the result (`size`, `stride`, and `offset` counted from
x's first element). The forward makes a true view, and only of an array with just those strides. The derivatives are about
values, and are a pair of linear maps: `strided_values` lays x out in a piece of memory and reads the result from it,
`as_strided_backward` is its transpose. Where x itself has several elements in one place (it was expanded), the place
holds their mean, so that the gradient is shared out among them, as torch does. Places that are no element of x hold
zero: they do not depend on x.
"""

from __future__ import annotations

from typing import Any

from ndgrad.ops.split import along
from ndgrad.ops.table import op


def strided_view(
    np: Any, x: Any, size: tuple[int, ...], stride: tuple[int, ...], *, offset: int = 0, writable: bool = True
) -> Any:
    """A view of the memory of x, strides in bytes, `offset` bytes after x's first element.

    The view's `base` is the array that owns the memory, which numpy.lib.stride_tricks would hide.
    """
    if np.__name__ == "cupy":
        return np.ndarray(size, x.dtype, x.data + offset, stride)
    owner = x
    while isinstance(owner.base, np.ndarray):
        owner = owner.base
    flat = owner.ravel("K")
    if flat.size and not np.may_share_memory(flat, owner):
        raise RuntimeError(
            f"an array of shape {x.shape} lies in memory with gaps that NumPy does not own, and cannot be viewed with strides "
            f"{stride}. Copy it first, with contiguous() or clone()."
        )
    offset += x.__array_interface__["data"][0] - owner.__array_interface__["data"][0]
    out = np.ndarray(size, x.dtype, flat, offset, stride)
    if not (writable and x.flags.writeable):
        out.flags.writeable = False
    return out


# ----- sliding windows -------------------------------------------------------------------------------------------------


def _unfold(np: Any, x: Any, *, dim: int, size: int, step: int) -> Any:
    windows = (x.shape[dim] - size) // step + 1
    shape = (*x.shape[:dim], windows, *x.shape[dim + 1 :], size)
    strides = (*x.strides[:dim], x.strides[dim] * step, *x.strides[dim + 1 :], x.strides[dim])
    return strided_view(np, x, shape, strides, writable=step >= size)


unfold = op(
    "unfold", "x",
    _unfold,
    settings={"dim": 0, "size": 1, "step": 1},
    vjp={"x": lambda g, x_shape, dim, size, step, ops: ops.unfold_backward(g, shape=x_shape, dim=dim, size=size, step=step)},
    jvp="linear",
    batch="dims",
    view=True,
)  # fmt: skip


def _unfold_backward(np: Any, x: Any, *, shape: tuple[int, ...], dim: int, size: int, step: int) -> Any:
    """Add the windows where they lie, either window by window or place by place in the window, whichever is shorter."""
    out = np.zeros(shape, x.dtype)
    windows = x.shape[dim]
    if windows < size:
        for i in range(windows):
            out[along(dim, slice(i * step, i * step + size))] += np.moveaxis(x[along(dim, i)], -1, dim)
    else:
        for j in range(size):
            out[along(dim, slice(j, j + (windows - 1) * step + 1, step))] += x[..., j]
    return out


unfold_backward = op(
    "unfold_backward", "x",
    _unfold_backward,
    settings={"shape": (), "dim": 0, "size": 1, "step": 1},
    vjp={"x": lambda g, dim, size, step, ops: ops.unfold(g, dim=dim, size=size, step=step)},
    jvp="linear",
    batch=lambda x, shape, dim, size, step, ops: ops.unfold_backward(
        x, shape=(x.shape[0], *shape), dim=dim + 1, size=size, step=step
    ),
)  # fmt: skip

# ----- any strides -----------------------------------------------------------------------------------------------------


def element_strides(x: Any) -> tuple[int, ...]:
    """The strides, in elements, of a tensor or array; of one sample, where vmap keeps the batch in front."""
    ndim = len(x.shape)
    while hasattr(x, "_array"):
        x = x._array
    strides = getattr(x, "strides", ())
    return tuple(s // x.itemsize for s in strides[len(strides) - ndim :])


def places(np: Any, size: tuple[int, ...], stride: tuple[int, ...], offset: int = 0) -> Any:
    """Where in memory each element of a geometry lies."""
    out = np.full(size, offset, np.int64)
    for dim, (n, s) in enumerate(zip(size, stride, strict=True)):
        out += (np.arange(n) * s).reshape(n, *(1,) * (len(size) - dim - 1))
    return out


def overlaps(np: Any, size: tuple[int, ...], stride: tuple[int, ...]) -> bool:
    """Whether two elements of a geometry are one place in memory."""
    if 0 in size:
        return False
    reach = 0
    for s, n in sorted((abs(s), n) for n, s in zip(size, stride, strict=True) if n > 1):
        if s <= reach:  # steps of this dimension may land among the smaller ones: look
            found = places(np, size, stride).ravel()
            return bool(len(np.unique(found)) != found.size)
        reach += s * (n - 1)
    return False


def _as_strided(
    np: Any, x: Any, *, size: tuple[int, ...], stride: tuple[int, ...], offset: int, x_stride: tuple[int, ...]
) -> Any:
    item = x.itemsize
    if any(n > 1 and s != item * known for n, s, known in zip(x.shape, x.strides, x_stride, strict=True)):
        raise RuntimeError(
            f"as_strided: a tensor with strides {x_stride} was viewed by strides, and the view is now to be taken of an array "
            f"with strides {element_strides(x)}, where the same places hold other elements. clone() before as_strided()."
        )
    writable = not overlaps(np, size, stride)
    return strided_view(np, x, size, tuple(s * item for s in stride), offset=offset * item, writable=writable)


class _Layout:
    """A piece of memory that holds x and the result: where each of their elements lies in it."""

    def __init__(
        self, np: Any, shape: tuple[int, ...], size: tuple[int, ...], stride: tuple[int, ...], offset: int, x_stride: tuple[int, ...]
    ) -> None:
        x = places(np, shape, x_stride).ravel()
        y = places(np, size, stride, offset).ravel()
        first = min((int(p.min()) for p in (x, y) if p.size), default=0)
        self.length = max((int(p.max()) for p in (x, y) if p.size), default=-1) + 1 - first
        self.x, self.y = x - first, y - first
        self.count = np.bincount(self.x, minlength=self.length) if overlaps(np, shape, x_stride) else None


def _add_at(np: Any, length: int, index: Any, values: Any) -> Any:
    """Memory of zeros (rows of `length`) with the last dimension of `values` added at `index`."""
    memory = np.zeros((length, *values.shape[:-1]), values.dtype)
    np.add.at(memory, index, np.moveaxis(values, -1, 0))
    return memory


def _strided_values(
    np: Any, x: Any, *, shape: tuple[int, ...], size: tuple[int, ...], stride: tuple[int, ...], offset: int, x_stride: tuple[int, ...]
) -> Any:
    layout = _Layout(np, shape, size, stride, offset, x_stride)
    lead = x.shape[: len(x.shape) - len(shape)]
    values = x.reshape(*lead, len(layout.x))
    if layout.count is not None:
        values = (values / layout.count[layout.x]).astype(x.dtype)
    memory = _add_at(np, layout.length, layout.x, values)
    return np.moveaxis(memory[layout.y], 0, -1).reshape(*lead, *size)


def _as_strided_backward(
    np: Any, x: Any, *, shape: tuple[int, ...], size: tuple[int, ...], stride: tuple[int, ...], offset: int, x_stride: tuple[int, ...]
) -> Any:
    layout = _Layout(np, shape, size, stride, offset, x_stride)
    lead = x.shape[: len(x.shape) - len(size)]
    memory = _add_at(np, layout.length, layout.y, x.reshape(*lead, len(layout.y)))
    found = np.moveaxis(memory[layout.x], 0, -1)
    if layout.count is not None:
        found = (found / layout.count[layout.x]).astype(x.dtype)
    return found.reshape(*lead, *shape)


def _as_strided_batch(
    x: Any, size: tuple[int, ...], stride: tuple[int, ...], offset: int, x_stride: tuple[int, ...], ops: Any
) -> Any:
    between = element_strides(x)[0]
    return ops.as_strided(x, size=(x.shape[0], *size), stride=(between, *stride), offset=offset, x_stride=(between, *x_stride))


as_strided = op(
    "as_strided", "x",
    _as_strided,
    settings={"size": (), "stride": (), "offset": 0, "x_stride": ()},
    vjp={
        "x": lambda g, x_shape, size, stride, offset, x_stride, ops: ops.as_strided_backward(
            g, shape=x_shape, size=size, stride=stride, offset=offset, x_stride=x_stride
        )
    },
    jvp={
        "x": lambda t, x_shape, size, stride, offset, x_stride, ops: ops.strided_values(
            t, shape=x_shape, size=size, stride=stride, offset=offset, x_stride=x_stride
        )
    },
    batch=_as_strided_batch,
    view=True,
)  # fmt: skip

strided_values = op(
    "strided_values", "x",
    _strided_values,
    settings={"shape": (), "size": (), "stride": (), "offset": 0, "x_stride": ()},
    vjp={
        "x": lambda g, shape, size, stride, offset, x_stride, ops: ops.as_strided_backward(
            g, shape=shape, size=size, stride=stride, offset=offset, x_stride=x_stride
        )
    },
    jvp="linear",
    batch="leading",
)  # fmt: skip

as_strided_backward = op(
    "as_strided_backward", "x",
    _as_strided_backward,
    settings={"shape": (), "size": (), "stride": (), "offset": 0, "x_stride": ()},
    vjp={
        "x": lambda g, shape, size, stride, offset, x_stride, ops: ops.strided_values(
            g, shape=shape, size=size, stride=stride, offset=offset, x_stride=x_stride
        )
    },
    jvp="linear",
    batch="leading",
)  # fmt: skip
