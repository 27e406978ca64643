"""torch's older module of `functional_call`; the function itself is `ndgrad.func.functional_call`."""

from __future__ import annotations

from ndgrad.nn.utils.functional_call import functional_call

__all__ = ["functional_call"]
