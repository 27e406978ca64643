"""`ndgrad.signal.windows`: window functions, as torch.signal.windows."""

from __future__ import annotations

from ndgrad._src.tensor.functions.windows import (
    bartlett,
    blackman,
    cosine,
    exponential,
    gaussian,
    general_cosine,
    general_hamming,
    hamming,
    hann,
    kaiser,
    nuttall,
)
from ndgrad._src.tensor.public import publish_namespace as _publish_namespace

__all__ = [
    "bartlett",
    "blackman",
    "cosine",
    "exponential",
    "gaussian",
    "general_cosine",
    "general_hamming",
    "hamming",
    "hann",
    "kaiser",
    "nuttall",
]

_publish_namespace(globals())
