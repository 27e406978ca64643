"""ndgrad: PyTorch's autograd, whole, for the NumPy world."""

from __future__ import annotations

from ndgrad.api import comparison, convert, data, elementwise, extremum, fill, index, join, norm, rearrange, reduce, scan, shape, split, statistics, triangle
from ndgrad.api.install import install
from ndgrad.tensor import Tensor

for _module in (elementwise, comparison, reduce, index, data, convert, fill, shape, split, join, rearrange, triangle, extremum, norm, scan, statistics):
    install(_module, globals(), Tensor)

__all__ = ["Tensor", "tensor"]
