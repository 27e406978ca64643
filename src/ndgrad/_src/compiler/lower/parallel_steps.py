"""Group steps that run at once.

    kernel0: reads a, writes b
    kernel1: reads a, writes c        one wave: the workers take the pieces of both, and synchronise once
    product0: reads b, writes d       the next

Workers that share a step synchronise at its end, and each piece of a small step is short. The updates of a hundred
parameters would need a hundred barriers. Consecutive steps, none of which reads or writes another's results, therefore
form a wave: one list of pieces, longer than those of a single step.

The memory plan is per wave, not per step: memory of any step of a wave is reserved for the whole wave.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TypeGuard

from ndgrad._src.compiler.lower.products import Product
from ndgrad._src.compiler.lower.steps import Kernel, Step
from ndgrad._src.compiler.program.program import Value

#: Maximum number of steps of a wave, because all their memory is needed at once.
_MOST = 64


def waves(steps: Sequence[Step], memory: Mapping[Value, Value], first: int = -1) -> list[list[Step]]:
    """Return the steps in order, grouped if they can run at once.

    `memory`: the inputs whose memory some values use; `first`: the number of a step before which all others must have
    ended.
    """
    found: list[list[Step]] = []
    touched: set[Value] = set()
    written: set[Value] = set()
    for number, step in enumerate(steps):
        if not _can_join(step):
            found.append([step])
            continue
        reads = {memory.get(v, v) for v in step.touched()}
        writes = {memory.get(v, v) for v in step.written()}
        joins = number != first and bool(found) and len(found[-1]) < _MOST and _can_join(found[-1][0])
        if joins and not reads & written and not writes & touched:
            found[-1].append(step)
            touched |= reads
            written |= writes
        else:
            found.append([step])
            touched, written = reads, writes
    return found


def _can_join(step: Step) -> TypeGuard[Kernel | Product]:
    """True if a step consists of pieces of work without an order."""
    return isinstance(step, (Kernel, Product))
