"""Choosing between values: where, comparisons, minimum and maximum, clamp."""

from __future__ import annotations

import operator

from ndgrad.ops.table import NOT_DIFFERENTIABLE, elementwise, op

where = op(
    "where", "condition x y",
    lambda np, condition, x, y: np.where(condition, x, y),
    vjp={
        "x": lambda g, condition, ops: ops.where(condition, g, 0.0),
        "y": lambda g, condition, ops: ops.where(condition, 0.0, g),
    },
    jvp={
        "x": lambda t, condition, ops: ops.where(condition, t, 0.0),
        "y": lambda t, condition, ops: ops.where(condition, 0.0, t),
    },
    batch="elementwise",
    elementwise=True,
)  # fmt: skip

eq = elementwise("eq", operator.eq, args="x y")
ge = elementwise("ge", operator.ge, args="x y")
