"""Histories of arrays: parts that were written and added to, read back without the writes in between."""

from __future__ import annotations

import random
from typing import Any

import numpy as np
import pytest

from ndgrad._src.compiler.passes import simplify_program, write_histories
from ndgrad._src.compiler.passes.dead_code import remove_dead_code
from ndgrad._src.compiler.passes.part_reads import read_parts
from ndgrad._src.compiler.passes.rewrite import Rules
from ndgrad._src.compiler.passes.views import canonical_views
from ndgrad._src.compiler.program.compiler_ops import op_named
from ndgrad._src.compiler.program.inference import infer
from ndgrad._src.compiler.program.program import Instruction, Program, Value
from ndgrad._src.compiler.program.replay import Replay
from tests.compiler.traced import becomes

both = Rules(canonical_views, read_parts)


class Writing:
    """A program that is written op by op."""

    def __init__(self, inputs: list[Value]) -> None:
        self.program = Program(inputs, [])

    def emit(self, name: str, *arguments: Any, **settings: Any) -> Value:
        op = op_named(name)
        settings = {**op.settings, **settings} if name in ("sum_all",) else settings
        _, ((shape, dtype),) = infer(op, arguments, settings)
        value = Value(shape, dtype)
        self.program.instructions.append(Instruction(op, arguments, settings, (value,)))
        return value


def test_a_sum_of_parts_is_read_where_it_is_added_to() -> None:
    becomes(
        both,
        """program p(%0: float64[4,3], %1: float64[3])
  %2: float64[4,3] = embed(%1, shape=(4, 3), index=(1, slice(0, 3, 1)))
  %3: float64[4,3] = add(%0, %2)
  %4: float64[3] = getitem(%3, index=(1, slice(0, 3, 1)))
  return %4
""",
        """program p(%0: float64[4,3], %1: float64[3])
  %2: float64[3] = getitem(%0, index=(1, slice(0, 3, 1)))
  %3: float64[3] = add(%2, %1)
  return %3
""",
    )


def test_a_part_that_nothing_is_added_to_gets_a_zero() -> None:
    becomes(
        both,
        """program p(%0: float64[4,3], %1: float64[3])
  %2: float64[4,3] = embed(%1, shape=(4, 3), index=(1, slice(0, 3, 1)))
  %3: float64[4,3] = add(%0, %2)
  %4: float64[3] = getitem(%3, index=(2, slice(0, 3, 1)))
  return %4
""",
        """program p(%0: float64[4,3], %1: float64[3])
  %2: float64[3] = getitem(%0, index=(2, slice(0, 3, 1)))
  %3: float64[3] = add(%2, 0.0)
  return %3
""",
    )


def test_a_number_that_has_a_history_of_its_own_is_added_everywhere() -> None:
    becomes(
        both,
        """program p(%0: float64[], %1: float64[])
  %2: float64[] = slice_scatter(%0, %1, index=())
  %3: float64[4] = embed(%1, shape=(4,), index=(2,))
  %4: float64[4] = add(%2, %3)
  %5: float64[] = getitem(%4, index=(2,))
  return %5
""",
        """program p(%0: float64[], %1: float64[])
  %2: float64[] = add(%1, %1)
  return %2
""",
    )


def place(draw: random.Random, shape: tuple[int, ...], is_row: bool) -> tuple[Any, ...]:
    found: list[Any] = []
    for n in shape:
        kind = draw.random()
        if is_row or kind < 0.4:
            found.append(draw.randrange(n))
        elif kind < 0.6:
            found.append(slice(0, n, 1))
        else:
            start = draw.randrange(n)
            step = draw.choice([1, 1, 2, -1])
            count = draw.randint(1, len(range(start, n, step)) if step > 0 else start + 1)
            stop = start + count * step
            found.append(slice(start, stop if stop >= 0 else None, step))
    return tuple(found)


def drawn_program(seed: int) -> tuple[Program, list[Any]]:
    """A program of writes to parts of two arrays, additions to parts and reads, and arrays for it with zeros of both signs."""
    draw = random.Random(seed)
    shape = draw.choice([(5,), (4, 3), (40,), (2, 3, 2)])
    is_row = draw.random() < 0.4
    dtype = np.dtype(draw.choice(["f8", "f8", "f4", "i8"]))
    base, part, number = Value(shape, dtype), Value(shape, dtype), Value((), dtype)
    writing = Writing([base, part, number])
    arrays = [base]
    outputs: list[Value] = []
    for _ in range(draw.randint(5, 30)):
        x = arrays[-1] if draw.random() < 0.8 else draw.choice(arrays)
        index = place(draw, shape, is_row)
        source = part if draw.random() < 0.7 else draw.choice(arrays)
        y = writing.emit("getitem", source, index=index)
        if outputs and draw.random() < 0.2 and outputs[-1].shape == y.shape:
            y = outputs[-1]
        match draw.randrange(6):
            case 0 | 1:
                arrays.append(writing.emit("slice_scatter", x, y, index=index))
            case 2 | 3:
                arrays.append(writing.emit("add", x, writing.emit("embed", y, shape=shape, index=index)))
            case 4:
                few = writing.emit("embed", y, shape=shape, index=index)
                other = place(draw, shape, is_row)
                more = writing.emit("embed", writing.emit("getitem", part, index=other), shape=shape, index=other)
                arrays.append(writing.emit("add", writing.emit("add", few, more), x))
            case _:
                arrays.append(writing.emit("embed", y, shape=shape, index=index))
        outputs.append(writing.emit("getitem", draw.choice(arrays[-3:]), index=place(draw, shape, is_row)))
    writing.program.outputs = [*outputs, arrays[-1]]
    numbers = np.random.default_rng(seed)
    values = [np.asarray(numbers.choice([-1.5, -0.0, 0.0, 2.0, 0.1], v.shape)).astype(dtype) for v in (base, part, number)]
    return writing.program, values


@pytest.mark.parametrize("block", range(4))
def test_every_part_has_the_same_bits(block: int) -> None:
    for seed in range(30 * block, 30 * block + 30):
        program, arrays = drawn_program(seed)
        expected = Replay(program)(arrays)
        for shorter in (remove_dead_code(both(program)), simplify_program(program)):
            shorter.check()
            for a, b in zip(Replay(shorter)(arrays), expected, strict=True):
                assert np.asarray(a).dtype == np.asarray(b).dtype, seed
                assert np.asarray(a).tobytes() == np.asarray(b).tobytes(), seed


def looked_at(rounds: int, monkeypatch: pytest.MonkeyPatch) -> int:
    """Return the number of places compared for a buffer that is written and read in this many rounds."""
    count = 0
    disjoint = write_histories.are_disjoint

    def counting(*indices: Any) -> bool:
        nonlocal count
        count += 1
        return disjoint(*indices)

    monkeypatch.setattr(write_histories, "are_disjoint", counting)
    x = Value((rounds + 1,), np.dtype("f8"))
    writing = Writing([x])
    u = x
    for i in range(rounds):
        read = writing.emit("getitem", u, index=(i // 2,))
        u = writing.emit("slice_scatter", u, writing.emit("sin", read), index=(i + 1,))
        added = writing.emit("embed", read, shape=x.shape, index=(i,))
        u = writing.emit("add", u, added)
    writing.program.outputs = [writing.emit("getitem", u, index=(0,))]
    both(writing.program)
    monkeypatch.undo()
    return count


def test_reads_do_not_go_through_all_writes(monkeypatch: pytest.MonkeyPatch) -> None:
    short, long = looked_at(100, monkeypatch), looked_at(600, monkeypatch)
    assert 0 < long < 9 * short
