"""What in-place writes leave behind: the value of the source, or of a number, in the shape of the target."""

from __future__ import annotations

from typing import Any

from ndgrad.ops.table import op


def _copy(np: Any, x: Any, y: Any) -> Any:
    return np.broadcast_to(np.asarray(y).astype(x.dtype, copy=False), x.shape)


# x becomes y: nothing of the old x is left, so it gets no gradient.
copy = op(
    "copy", "x y",
    _copy,
    vjp={"x": lambda g: None, "y": lambda g: g},
    jvp={"y": lambda t, x_shape, x_dtype, ops: ops.expand(ops.cast(t, dtype=x_dtype), shape=x_shape)},
    batch="elementwise",
    elementwise=True,
    backward_name="CopyBackwards",
)  # fmt: skip
