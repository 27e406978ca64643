"""scipy.integrate, differentiable where ndgrad.scipy.integrate is."""

from __future__ import annotations

from ndgrad.compat.autograd.scipy.dispatch import finder

__getattr__, __dir__ = finder("integrate")
