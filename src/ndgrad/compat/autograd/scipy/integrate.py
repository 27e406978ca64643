"""scipy.integrate, with derivatives from ndgrad.scipy.integrate."""

from __future__ import annotations

from ndgrad.compat.autograd.scipy.dispatch import finder

__getattr__, __dir__ = finder("integrate")
