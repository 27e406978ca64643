"""Small tools around gradients: flattening structures, first-order optimizers, fixed points."""

from __future__ import annotations

from ndgrad.compat.autograd.misc import fixed_points, optimizers

# after the module of that name, whose place it takes, as in HIPS autograd
from ndgrad.compat.autograd.misc.flatten import flatten

__all__ = ["fixed_points", "flatten", "optimizers"]
