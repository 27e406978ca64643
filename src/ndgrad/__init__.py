"""ndgrad: PyTorch's autograd, whole, for the NumPy world."""

from __future__ import annotations

from ndgrad.api import elementwise, index, reduce
from ndgrad.api.install import install
from ndgrad.tensor import Tensor, tensor

for _module in (elementwise, reduce, index):
    install(_module, globals(), Tensor)

__all__ = ["Tensor", "tensor"]
