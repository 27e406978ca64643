"""Changing dtype."""

from __future__ import annotations

from ndgrad.ops.table import op

# The engine brings a gradient back to the dtype of what it belongs to, so the reverse rule has nothing to do.
cast = op(
    "cast", "x",
    lambda np, x, *, dtype: x.astype(dtype),
    settings={"dtype": None},
    vjp={"x": lambda g: g},
    jvp="linear",
    batch="leading",
    may_be_discrete=True,
    backward_name="ToCopyBackward0",
)  # fmt: skip

# A copy of its own, in the memory order of the original.
clone = op(
    "clone", "x",
    lambda np, x: x.copy(order="K") if hasattr(x, "flags") else x,
    vjp={"x": lambda g: g},
    jvp="linear",
    batch="leading",
)  # fmt: skip
