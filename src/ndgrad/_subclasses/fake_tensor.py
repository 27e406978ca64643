"""`torch._subclasses.fake_tensor`: programs ask whether a tensor has values. Here shapes are computed on meta tensors.

Tracers of this package pass real values, so no tensor is fake.
"""

from __future__ import annotations

from typing import Self

from ndgrad._src.foundations.missing_names import refuse_absent as _refuse_absent
from ndgrad._src.tensor.tensor_class import Tensor

__all__ = ["FakeTensor", "is_fake"]


class FakeTensor(Tensor):
    """A class without instances, for `isinstance`. Tensors without values are on the device "meta"."""

    def __new__(cls, *args: object, **kwargs: object) -> Self:
        raise RuntimeError("FakeTensor: there are none here. Use a tensor on device='meta'. [nd-absent]")


def is_fake(x: object) -> bool:
    """True if a tensor stands for another one without its values; False for every tensor here."""
    return isinstance(x, FakeTensor)


_refuse_absent(__name__)
