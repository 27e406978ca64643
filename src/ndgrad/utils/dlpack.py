"""torch's `utils.dlpack`: tensors of other libraries, without a copy."""

from __future__ import annotations

import enum
from typing import TYPE_CHECKING, Any

from ndgrad._src.foundations.missing_names import refuse_absent as _refuse_absent
from ndgrad._src.tensor.functions.dlpack import from_dlpack

if TYPE_CHECKING:
    from ndgrad._typing import Tensor

__all__ = ["DLDeviceType", "from_dlpack", "to_dlpack"]


class DLDeviceType(enum.IntEnum):
    """Numbers of device kinds in DLPack's protocol."""

    kDLCPU = 1
    kDLCUDA = 2
    kDLCUDAHost = 3
    kDLOpenCL = 4
    kDLVulkan = 7
    kDLMetal = 8
    kDLVPI = 9
    kDLROCM = 10
    kDLROCMHost = 11
    kDLExtDev = 12
    kDLCUDAManaged = 13
    kDLOneAPI = 14
    kDLWebGPU = 15
    kDLHexagon = 16
    kDLMAIA = 17


def to_dlpack(tensor: Tensor) -> Any:
    """Return a capsule with the tensor's memory, for libraries that take one.

    Newer libraries take the tensor itself: `numpy.from_dlpack(tensor)`.

    Args:
        tensor: tensor to share.

    >>> import ndgrad
    >>> type(ndgrad.utils.dlpack.to_dlpack(ndgrad.ones(2))).__name__
    'PyCapsule'
    """
    return tensor.__dlpack__()


_refuse_absent(__name__)
