"""`scipy.spatial` with differentiable distances."""

from __future__ import annotations

from ndgrad.scipy._without_rules import make_module_getattr, public_of
from ndgrad.scipy.spatial import distance

__all__ = ["distance"]

__getattr__ = make_module_getattr("spatial", {})
__dir__ = public_of(__name__)
