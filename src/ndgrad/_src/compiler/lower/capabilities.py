"""What kernels can do where a program runs, as grouping asks it: native code on the processor, or CUDA on a device.

Views, spaces of indices and rows mean the same everywhere. What differs is which dtypes and ops a kernel knows, which
sums over leading dimensions it takes, how long a row it goes through more than once, and which steps other than
kernels there are.
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

#: The longest row that native code goes through more than once, and the bytes of scratch rows of one kernel.
_LONGEST_ROW = 16384
_SCRATCH = 1 << 18


def _may_keep(row: int, scratch: int, count: int) -> bool:
    return row <= _LONGEST_ROW and scratch <= _SCRATCH


def _may_add(kernel: Kernel, dims: tuple[int, ...]) -> bool:
    return True


@dataclass(frozen=True)
class Abilities:
    """What kernels can do."""

    is_type: Callable[[np.dtype[Any]], bool] = pointwise.is_type
    is_pointwise: Callable[[Instruction], bool] = pointwise.is_pointwise
    is_reduction: Callable[[Instruction], bool] = pointwise.is_reduction
    #: whether rows of a length can be gone through again, with so many bytes, of so many values, kept from before
    may_keep: Callable[[int, int, int], bool] = _may_keep
    #: whether a kernel may add up some of its dimensions that are not the last
    may_add: Callable[[Kernel, tuple[int, ...]], bool] = _may_add
    #: the arrays that unrelated ops of one kernel read, at most (see ndgrad._src.compiler.lower.components)
    streams: int = STREAMS
    #: whether instructions come right before their first readers (ndgrad._src.compiler.cuda.scheduling)
    is_sunk: bool = False
    #: whether there are products, routines and loops of native code; else they are calls of the ops' functions
    has_routines: bool = True


NATIVE = Abilities()
