"""Elementwise functions under torch's names."""

from __future__ import annotations

from ndgrad.ops import arithmetic, complex, exponential, selection, trigonometric  # noqa: F401 (fill the table)

ELEMENTWISE = ("exp", "log", "sqrt", "sin", "cos", "tanh", "neg")
ALIASES = {"negative": "neg"}
