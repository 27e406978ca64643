"""scipy.special, with derivatives from ndgrad.scipy.special."""

from __future__ import annotations

from ndgrad.compat.autograd.scipy.dispatch import finder

__getattr__, __dir__ = finder("special")
