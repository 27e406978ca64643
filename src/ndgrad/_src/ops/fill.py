"""The values of in-place writes: the value of a source or of a number, in the shape of the target."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from ndgrad._src.arrays.meta import zeros_like_array, zeros_on_same_device
from ndgrad._src.arrays.precision import convert
from ndgrad._src.ops.table import NOT_DIFFERENTIABLE, op

if TYPE_CHECKING:
    from ndgrad._typing import Library, Payload, Vocabulary


def _copy(np: Library, x: Payload, y: Payload) -> Payload:
    return np.broadcast_to(np.asarray(y).astype(x.dtype, copy=False), x.shape)


def assign(np: Library, target: Payload, source: Payload) -> None:
    """Assign `target[...] = source`, if the source broadcasts to the target."""
    have, want = source.shape, target.shape
    if have != want and (
        len(have) > len(want) or any(h not in (1, w) for h, w in zip(have[::-1], want[::-1], strict=False))
    ):
        raise RuntimeError(
            f"the value of shape {list(have)} cannot be broadcast to the shape {list(want)} of the target. "
            "Give a value of that shape, or one that broadcasts to it. [nd-broadcast]"
        )
    target[...] = convert(source, target.dtype) if target.itemsize == 1 else source


def _copy_batch(x: Payload, y: Payload, ops: Vocabulary) -> Payload:
    """Align the source with the target after the batch dimension. The target is expanded, so it may take a batch of y
    alone.
    """
    missing = len(x.shape) - len(y.shape) if hasattr(y, "shape") else 0
    return ops.copy(x, ops.reshape(y, shape=(y.shape[0], *(1,) * missing, *y.shape[1:])) if missing else y)


# x becomes y. Nothing of the old x is left, so its gradient is zero.
copy = op(
    "copy", "x y",
    _copy,
    vjp={"x": lambda g, ops: ops.zeros_like(g), "y": lambda g: g},
    jvp={"y": lambda t, x_shape, x_dtype, ops: ops.expand(ops.cast(t, dtype=x_dtype), shape=x_shape)},
    batch=_copy_batch,
    elementwise=True,
    backward_name="CopyBackwards",
    write_kernel=assign,
    kind="overwrite", promotes="",
    may_be_discrete=True,
    moves_values=True, cost=1,
)  # fmt: skip

# The derivative of a value that does not depend on its input.
zeros_like = op(
    "zeros_like", "x",
    lambda np, x: zeros_like_array(np, x, x.dtype),
    vjp=NOT_DIFFERENTIABLE,
    batch="leading",
    moves_values=True, movement="fill", core_dims=[0], memory_order="kept",
)  # fmt: skip


def _full(np: Library, x: Payload, *, value: Any) -> Payload:
    out = zeros_on_same_device(np, x, x.shape, x.dtype)
    out[...] = value
    return out


def _fill_kernel(np: Library, target: Payload, *, value: Any) -> Payload:
    target[...] = value
    return target


# All elements of x become one number.
fill = op(
    "fill", "x",
    _full,
    settings={"value": 0},
    vjp={"x": lambda g, ops: ops.zeros_like(g)},
    jvp={"x": lambda t, ops: ops.zeros_like(t)},
    batch="leading",
    write_kernel=_fill_kernel,
    backward_name="FillBackward2",
    kind="overwrite",
    moves_values=True, movement="fill", core_dims=[0],
)  # fmt: skip

zero = op(
    "zero", "x",
    lambda np, x: zeros_on_same_device(np, x, x.shape, x.dtype),
    vjp={"x": lambda g, ops: ops.zeros_like(g)},
    jvp="linear",
    batch="leading",
    write_kernel=lambda np, target: target.fill(0),
    backward_name="ZeroBackward0",
    kind="overwrite",
    moves_values=True, movement="fill", core_dims=[0],
)  # fmt: skip

# All elements of x become the value of a 0-d tensor.
fill_with = op(
    "fill_with", "x value",
    lambda np, x, value: _full(np, x, value=value),
    vjp={
        "x": lambda g, ops: ops.zeros_like(g),
        "value": lambda g, ops: ops.sum(g, dim=tuple(range(len(g.shape))), keepdim=False),
    },
    jvp="linear",
    batch=lambda x, value, ops: ops.copy(x, ops.reshape(value, shape=(value.shape[0], *(1,) * (len(x.shape) - 1)))),
    backward_name="FillBackward3",
    kind="overwrite", aten_name="fill",
    may_be_discrete=True,
    moves_values=True, core_dims=[0],
)  # fmt: skip
