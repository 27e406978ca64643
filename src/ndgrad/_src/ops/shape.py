"""Shape ops: the same elements with other dimensions, as views of the same memory wherever NumPy can make one.

Dims are non-negative, and every forward also takes a NumPy scalar for a 0-d array. A view must be writable if its
source is: writes through it, and gradients added to its part of a base's gradient, go through the array made here.
"""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Any

from numpy import ndarray, nditer

from ndgrad._src.ops.table import NOT_DIFFERENTIABLE, Op, op

if TYPE_CHECKING:
    from ndgrad._typing import Library, Payload, Vocabulary

alias = op(
    "alias", "x",
    lambda np, x: x[...],
    vjp={"x": lambda g: g},
    jvp="linear",
    batch="leading",
    view=True,
    whole_view=True, core_dims=[0], movement="reshape",
)  # fmt: skip

detach = op(
    "detach", "x",
    lambda np, x: x,
    vjp=NOT_DIFFERENTIABLE,
    batch="leading",
    shares_storage=True, core_dims=[0], movement="reshape",
)  # fmt: skip

# ----- new sizes ------------------------------------------------------------------------------------------------------

reshape = op(
    "reshape", "x",
    lambda np, x, *, shape: x.reshape(shape),
    settings={"shape": ()},
    vjp={"x": lambda g, x_shape, ops: ops.reshape(g, shape=x_shape)},
    jvp="linear",
    batch=lambda x, shape, ops: ops.reshape(x, shape=(x.shape[0], *shape)),
    view=True,
    whole_view=True,
    backward_name="ViewBackward0", cost=1, movement="reshape",
)  # fmt: skip

# reshape if the strides allow no view: always a copy, so the original cannot be written through it.
unsafe_view = op(
    "unsafe_view", "x",
    lambda np, x, *, shape: x.copy(order="C").reshape(shape),
    settings={"shape": ()},
    vjp={"x": lambda g, x_shape, ops: ops.reshape(g, shape=x_shape)},
    jvp="linear",
    batch=lambda x, shape, ops: ops.unsafe_view(x, shape=(x.shape[0], *shape)),
    halves=True,
    moves_values=True, movement="reshape",
)  # fmt: skip


#: Flags of an iterator whose views are broadcast arrays.
_BROADCASTING: Any = ["multi_index", "refs_ok", "zerosize_ok"]
_READING: Any = [["readonly"]]


def _expand(np: Library, x: Payload, *, shape: tuple[int, ...]) -> Payload:
    """Broadcast x to `shape` as a writable view.

    NumPy makes a broadcast array read-only, but a part of it (`x.expand(2, 3)[0]`) may be written. Writes check the
    strides.
    """
    if x.size == math.prod(shape):
        return x.reshape(shape)
    if x.__class__ is ndarray:  # broadcast_to without its checks, which take half of its time
        out = nditer([x], _BROADCASTING, _READING, itershape=shape, order="C").itviews[0]
    else:
        out = np.broadcast_to(x, shape)
    if not getattr(out.flags, "writeable", True) and x.flags.writeable:
        out.flags.writeable = True
    return out


expand = op(
    "expand", "x",
    _expand,
    settings={"shape": ()},
    vjp={"x": lambda g, x_shape, ops: sum_to(g, x_shape, ops)},
    jvp="linear",
    batch=lambda x, shape, ops: ops.expand(pad_rank(x, len(shape) + 1, ops), shape=(x.shape[0], *shape)),
    view=True, cost=1, movement="copy",
)  # fmt: skip


def pad_rank(x: Payload, ndim: int, ops: Vocabulary) -> Payload:
    """Insert dimensions of size one after the batch dimension."""
    missing = ndim - len(x.shape)
    return ops.reshape(x, shape=(x.shape[0], *(1,) * missing, *x.shape[1:])) if missing else x


def sum_to(g: Payload, shape: tuple[int, ...], ops: Vocabulary) -> Payload:
    """Sum g to `shape`: the transpose of broadcasting `shape` to g's shape."""
    lead = len(g.shape) - len(shape)
    dims = tuple(range(lead)) + tuple(lead + i for i, n in enumerate(shape) if n == 1 and g.shape[lead + i] != 1)
    return ops.reshape(ops.sum(g, dim=dims, keepdim=False), shape=shape) if dims else g


def can_view(shape: tuple[int, ...], strides: tuple[int, ...], new: tuple[int, ...]) -> bool:
    """True if memory with these strides can be read in the shape `new` (with as many elements) without a copy.

    Dimensions that follow each other in memory form a run. A new dimension may split a run, but must not extend from
    one run into the next.
    """
    runs: list[int] = []
    expected = None
    for n, stride in zip(reversed(shape), reversed(strides), strict=True):
        if n == 0:
            return True
        if n == 1:
            continue
        if runs and stride == expected:
            runs[-1] *= n
        else:
            runs.append(n)
        expected = stride * n
    pieces = [n for n in new if n != 1]
    for run in runs:
        covered = 1
        while covered < run:
            covered *= pieces.pop()
        if covered != run:
            return False
    return True


# ----- dimensions of size one -----------------------------------------------------------------------------------------


def _define_squeeze(name: str, number: int) -> Op:
    """Define a squeeze op. torch has separate ops for no dim, an int and a tuple, which differ only in the name of the
    node.
    """
    return op(
        name, "x",
        lambda np, x, *, dims: x.reshape([n for i, n in enumerate(x.shape) if i not in dims]),
        settings={"dims": ()},  # only dimensions of size 1 are removed
        vjp={"x": lambda g, x_shape, ops: ops.reshape(g, shape=x_shape)},
        jvp="linear",
        batch="dims",
        view=True,
        whole_view=True,
        backward_name=f"SqueezeBackward{number}",
        aten_name="squeeze", movement="reshape",
    )  # fmt: skip


squeeze = _define_squeeze("squeeze", 0)
squeeze_dim = _define_squeeze("squeeze_dim", 1)
squeeze_dims = _define_squeeze("squeeze_dims", 2)

unsqueeze = op(
    "unsqueeze", "x",
    lambda np, x, *, dim: x.reshape(*x.shape[:dim], 1, *x.shape[dim:]),
    settings={"dim": 0},
    vjp={"x": lambda g, dim, ops: ops.squeeze_dim(g, dims=(dim,))},
    jvp="linear",
    batch="dims",
    view=True,
    whole_view=True, movement="reshape",
)  # fmt: skip

# ----- new order of dimensions ----------------------------------------------------------------------------------------

permute = op(
    "permute", "x",
    lambda np, x, *, dims: x.transpose(dims),
    settings={"dims": ()},
    vjp={"x": lambda g, dims, ops: ops.permute(g, dims=inverse_permutation(dims))},
    jvp="linear",
    batch=lambda x, dims, ops: ops.permute(x, dims=(0, *(d + 1 for d in dims))),
    view=True,
    whole_view=True, movement="rearrange",
)  # fmt: skip


def inverse_permutation(dims: tuple[int, ...]) -> tuple[int, ...]:
    out = [0] * len(dims)
    for i, d in enumerate(dims):
        out[d] = i
    return tuple(out)


# Equal dims are allowed, also for a 0-d array, which has no dimension 0 in NumPy.
transpose = op(
    "transpose", "x",
    lambda np, x, *, dim0, dim1: x[...] if dim0 == dim1 else x.swapaxes(dim0, dim1),
    settings={"dim0": 0, "dim1": 0},
    vjp={"x": lambda g, dim0, dim1, ops: ops.transpose(g, dim0=dim0, dim1=dim1)},
    jvp="linear",
    batch="dims",
    view=True,
    whole_view=True, movement="rearrange",
)  # fmt: skip

t = op(
    "t", "x",
    lambda np, x: x.transpose(),
    vjp={"x": lambda g, ops: ops.t(g)},
    jvp="linear",
    batch=lambda x, ops: ops.transpose(x, dim0=1, dim1=max(1, len(x.shape) - 1)),
    view=True,
    whole_view=True, movement="rearrange",
)  # fmt: skip

# ----- the same memory with another dtype -----------------------------------------------------------------------------


def _view_as_complex(np: Library, x: Payload) -> Payload:
    """Return a view if the pairs are adjacent in memory. Gradients in rules may have other layouts, which are
    copied.
    """
    if x.strides[-1] != x.itemsize:
        x = x.copy(order="C")
    return x.view(np.result_type(x.dtype, np.complex64))[..., 0]


# In torch's convention for gradients a complex number and its two parts are the same element, so the rules only
# reinterpret it.
view_as_real = op(
    "view_as_real", "x",
    lambda np, x: x[..., None].view(x.real.dtype),
    vjp={"x": lambda g, ops: ops.view_as_complex(g)},
    jvp="linear",
    batch="leading",
    view=True,
)  # fmt: skip

view_as_complex = op(
    "view_as_complex", "x",
    _view_as_complex,
    vjp={"x": lambda g, ops: ops.view_as_real(g)},
    jvp="linear",
    batch="leading",
    view=True, core_dims=[1],
)  # fmt: skip

view_dtype = op(
    "view_dtype", "x",
    lambda np, x, *, dtype: x.view(dtype),
    settings={"dtype": None},
    vjp=NOT_DIFFERENTIABLE,
    batch="leading",
    shares_storage=True, core_dims=[1],
)  # fmt: skip
