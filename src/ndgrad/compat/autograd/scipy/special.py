"""scipy.special, differentiable where ndgrad.scipy.special is."""

from __future__ import annotations

from ndgrad.compat.autograd.scipy.dispatch import finder

__getattr__, __dir__ = finder("special")
