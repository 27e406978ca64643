"""Exponentials, logarithms, roots."""

from __future__ import annotations

from ndgrad.ops.table import elementwise

exp = elementwise("exp", "exp", x=lambda t, out: t * out)

log = elementwise("log", "log", x=lambda t, x: t / x)

sqrt = elementwise("sqrt", "sqrt", x=lambda t, out: t / (2 * out))
