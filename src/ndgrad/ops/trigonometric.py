"""Trigonometric and hyperbolic functions and their inverses."""

from __future__ import annotations

from ndgrad.ops.table import elementwise

sin = elementwise("sin", "sin", x=lambda t, x, ops: t * ops.cos(x))

cos = elementwise("cos", "cos", x=lambda t, x, ops: t * -ops.sin(x))

tanh = elementwise("tanh", "tanh", x=lambda t, out: t - t * out * out)
