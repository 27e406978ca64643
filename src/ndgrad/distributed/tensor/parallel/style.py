"""torch's name for the module of parallel styles."""

from __future__ import annotations

from ndgrad._src.foundations.missing_names import refuse_absent as _refuse_absent
from ndgrad.distributed.tensor.parallel.styles import (
    ColwiseParallel,
    ParallelStyle,
    PrepareModuleInput,
    PrepareModuleInputOutput,
    PrepareModuleOutput,
    RowwiseParallel,
    SequenceParallel,
)

__all__ = [
    "ColwiseParallel", "ParallelStyle", "PrepareModuleInput", "PrepareModuleInputOutput", "PrepareModuleOutput",
    "RowwiseParallel", "SequenceParallel",
]  # fmt: skip

_refuse_absent(__name__)
