"""ndgrad: PyTorch's autograd, whole, for the NumPy world."""

from __future__ import annotations

from ndgrad.api import convert, data, elementwise, fill, index, reduce
from ndgrad.api.install import install
from ndgrad.tensor import Tensor

for _module in (elementwise, reduce, index, data, convert, fill):
    install(_module, globals(), Tensor)

__all__ = ["Tensor", "tensor"]
