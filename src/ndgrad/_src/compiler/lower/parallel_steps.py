"""Steps that run at once.

    kernel0: reads a, writes b
    kernel1: reads a, writes c        one wave: the workers take the pieces of both, and meet once
    product0: reads b, writes d       the next

Workers that share a step meet at its end, and each piece of a small step is short. The updates of a hundred
parameters would be a hundred meetings. Steps that follow one another, of which none reads or writes what another
writes, are therefore a wave: one list of pieces, longer ones than those of a step alone.

The memory plan knows waves, not steps: what the steps of a wave need, it needs from beginning to end.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TypeGuard

from ndgrad._src.compiler.lower.products import Product
from ndgrad._src.compiler.lower.steps import Kernel, Step
from ndgrad._src.compiler.program.program import Value

#: Steps of a wave, at most: the memory that they need is all there at once.
_MOST = 64


def waves(steps: Sequence[Step], memory: Mapping[Value, Value], first: int = -1) -> list[list[Step]]:
    """The steps in order, those together that can run at once.

    `memory`: the inputs in whose memory some values lie; `first`: the number of a step before which all others must
    have ended.
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
    """Whether a step is pieces of work without an order."""
    return isinstance(step, (Kernel, Product))
