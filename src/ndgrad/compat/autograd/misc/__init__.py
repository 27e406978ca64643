"""Tools around gradients: flattening structures, first-order optimizers, fixed points."""

from __future__ import annotations

from ndgrad.compat.autograd.misc import fixed_points, optimizers

# Imported after the module of that name, which it replaces, as in HIPS autograd.
from ndgrad.compat.autograd.misc.flatten import flatten

__all__ = ["fixed_points", "flatten", "optimizers"]
