"""The compiler's own ops, which stand for several of the table's: no user calls them, and no rule differentiates them.

    pieces      a sum of arrays of which each is a part somewhere and zero elsewhere
    overlaid    an array of which parts are written over, one after another
    loop        a program that is run again and again

They are in no table; `op_named` finds them beside those that are.
"""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import Any

import numpy as np

from ndgrad.compiler.program import Program
from ndgrad.ops.table import VARIABLE
from ndgrad.ops.vocabulary import find


class CompilerOp:
    """An op of programs alone. It has what the compiler asks of an op of the table."""

    view = shares_storage = elementwise = needs_values = rounds_numbers = False
    batch = None

    def __init__(self, name: str, forward: Callable[..., Any], outputs: int = 1) -> None:
        self.name = name
        self.forward = forward
        self.outputs = outputs

    def forward_for(self, library: Any) -> Callable[..., Any]:
        """Its function of NumPy's arrays, the only ones that a program has."""
        return self.forward

    def __repr__(self) -> str:
        return f"<op {self.name} of the compiler>"


# ----- parts -----------------------------------------------------------------------------------------------------------------


def _pieces(*parts: Any, shape: tuple[int, ...], index: tuple[Any, ...], common: tuple[Any, ...] | None) -> Any:
    out = np.zeros(shape, parts[0].dtype)
    if common is not None and out.dtype.kind == "f":
        out[common] = -0.0
    for part, place in zip(parts, index, strict=True):
        out[place] += part
    return out


#: The sum of embed(part, shape, index) over parts, in their order. `common` is the index of what all parts cover: a sum of negative zeros
#: is one there, and 0. wherever some part adds zeros. So elements start at -0. there, and at 0. elsewhere.
pieces = CompilerOp("pieces", _pieces)


def _overlaid(x: Any, *parts: Any, index: tuple[Any, ...]) -> Any:
    out = np.array(x)
    for part, place in zip(parts, index, strict=True):
        out[place] = part
    return out


#: x with parts written over it, in their order.
overlaid = CompilerOp("overlaid", _overlaid)

# ----- loop ------------------------------------------------------------------------------------------------------------------


@functools.lru_cache(maxsize=256)
def _replay(body: Program) -> Callable[[list[Any]], list[Any]]:
    from ndgrad.compiler.replay import Replay  # which runs ops, these among them

    return Replay(body)


def _loop(
    *arrays: Any, body: Program, count: int, carried: int, invariant: int, reads: tuple[tuple[int, int], ...], last: int
) -> tuple[Any, ...]:
    run = _replay(body)
    state = list(arrays[:carried])
    fixed = arrays[carried : carried + invariant]
    sequences = list(zip(arrays[carried + invariant :], reads, strict=True))
    stacks: list[Any] = []
    out: list[Any] = []
    for t in range(count):
        out = run([*state, *fixed, *[array[start + step * t] for array, (start, step) in sequences]])
        state = out[:carried]
        if not t:
            stacks = [np.empty((count, *np.shape(a)), a.dtype) for a in out[carried + last :]]
        for stack, a in zip(stacks, out[carried + last :], strict=True):
            stack[t] = a
    return (*state, *out[carried : carried + last], *stacks)


#: Run `body` `count` times. Arguments: `carried` values that it starts with, `invariant` values that stay, and arrays of which round t is
#: given row start + step * t, as `reads` says for each. The body takes as many; it gives the next of what is carried, then `last` values of
#: which the last round's are wanted, then values of which every round's is, in an array with a row for each. Results: these, in this order.
loop = CompilerOp("loop", _loop, VARIABLE)

OPS = {op.name: op for op in (pieces, overlaid, loop)}


@functools.cache
def op_named(name: str) -> Any:
    """The op of a name, one of the table's or of the compiler's own."""
    return OPS[name] if name in OPS else find(name)
