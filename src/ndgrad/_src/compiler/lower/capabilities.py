"""Features of kernels that grouping depends on: native code on the processor, or CUDA on a device.

Views, index spaces and rows mean the same everywhere. Backends differ in the dtypes and ops of kernels, the sums over
leading dimensions, the maximum length of a row that a kernel reads more than once, and the steps other than kernels.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from ndgrad._src.compiler.lower import pointwise
from ndgrad._src.compiler.lower.components import STREAMS
from ndgrad._src.compiler.program.program import Instruction

if TYPE_CHECKING:
    from ndgrad._src.compiler.lower.steps import Kernel

#: Maximum length of a row that native code reads more than once, and maximum bytes of scratch rows of one kernel.
_LONGEST_ROW = 16384
_SCRATCH = 1 << 18


def _may_keep(row: int, scratch: int, count: int) -> bool:
    return row <= _LONGEST_ROW and scratch <= _SCRATCH


def _may_add(kernel: Kernel, dims: tuple[int, ...]) -> bool:
    return True


@dataclass(frozen=True)
class Abilities:
    """Features of the kernels of a backend."""

    is_type: Callable[[np.dtype[Any]], bool] = pointwise.is_type
    is_pointwise: Callable[[Instruction], bool] = pointwise.is_pointwise
    is_reduction: Callable[[Instruction], bool] = pointwise.is_reduction
    #: true if rows of a length can be read again, with so many bytes of so many values kept
    may_keep: Callable[[int, int, int], bool] = _may_keep
    #: true if a kernel may sum over some of its dimensions other than the last
    may_add: Callable[[Kernel, tuple[int, ...]], bool] = _may_add
    #: maximum number of arrays that unrelated ops of one kernel read (see ndgrad._src.compiler.lower.components)
    streams: int = STREAMS
    #: true if instructions come right before their first readers (ndgrad._src.compiler.cuda.scheduling)
    is_sunk: bool = False
    #: true if native products, routines and loops exist; otherwise they are calls of the ops' functions
    has_routines: bool = True


NATIVE = Abilities()
