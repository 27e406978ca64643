"""`torch.return_types`: named results of functions that return several tensors."""

from __future__ import annotations

from ndgrad._src.tensor.return_types import (
    aminmax as aminmax,
)
from ndgrad._src.tensor.return_types import (
    cummax as cummax,
)
from ndgrad._src.tensor.return_types import (
    cummin as cummin,
)
from ndgrad._src.tensor.return_types import (
    frexp as frexp,
)
from ndgrad._src.tensor.return_types import (
    geqrf as geqrf,
)
from ndgrad._src.tensor.return_types import (
    histogram as histogram,
)
from ndgrad._src.tensor.return_types import (
    histogramdd as histogramdd,
)
from ndgrad._src.tensor.return_types import (
    kthvalue as kthvalue,
)
from ndgrad._src.tensor.return_types import (
    max as max,
)
from ndgrad._src.tensor.return_types import (
    median as median,
)
from ndgrad._src.tensor.return_types import (
    min as min,
)
from ndgrad._src.tensor.return_types import (
    mode as mode,
)
from ndgrad._src.tensor.return_types import (
    nanmedian as nanmedian,
)
from ndgrad._src.tensor.return_types import (
    sort as sort,
)
from ndgrad._src.tensor.return_types import (
    topk as topk,
)

__all__ = [
    "aminmax",
    "cummax",
    "cummin",
    "frexp",
    "geqrf",
    "histogram",
    "histogramdd",
    "kthvalue",
    "max",
    "median",
    "min",
    "mode",
    "nanmedian",
    "sort",
    "topk",
]
