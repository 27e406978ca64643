"""Arrays of parts that meet, cut into regions: the same array, to the sign of every zero."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from ndgrad._src.compiler.passes.basic_index import intersect, places, to_setting
from ndgrad._src.compiler.passes.regions import split_into_regions
from ndgrad._src.compiler.program.compiler_ops import op_named
from ndgrad._src.compiler.program.program import Instruction, Program, Value
from ndgrad._src.compiler.program.replay import Replay


def program_of(name: str, shape: tuple[int, ...], indices: list[Any], dtype: str = "float64") -> Program:
    """One instruction that puts parts together at these places."""
    kept = [places(index, shape) for index in indices]
    assert all(p is not None for p in kept)
    values = [Value(np.zeros(shape)[index].shape, np.dtype(dtype)) for index in indices]
    result = Value(shape, np.dtype(dtype))
    index = tuple([to_setting(p) for p in kept if p is not None])
    if name == "pieces":
        meet = intersect([p for p in kept if p is not None])
        settings: dict[str, Any] = {"shape": shape, "index": index, "common": None if meet is None else to_setting(meet)}
    else:
        values.insert(0, Value(shape, np.dtype(dtype)))
        settings = {"index": index if name == "overlaid" else index[0]}
    op = op_named(name)
    return Program(values, [result], [Instruction(op, tuple(values), settings, (result,))])


def numbers(program: Program, seed: int) -> list[Any]:
    """Small numbers, many of them zeros of either sign."""
    rng = np.random.default_rng(seed)
    return [(rng.integers(-2, 3, v.shape) * rng.choice([-0.0, 0.5], v.shape)).astype(v.dtype) for v in program.inputs]


S = np.s_
CASES = {
    "shifted": ((7,), [S[0:6,], S[1:7,]]),
    "shifted with all": ((7,), [S[0:7,], S[1:6,], S[0:6,], S[1:7,]]),
    "gaps": ((9,), [S[1:3,], S[2:4,], S[7:8,]]),
    "even and odd": ((9,), [S[::2,], S[1::2,], S[0:9,]]),
    "backwards": ((6,), [S[::-1,], S[4::-2,], S[1:3,]]),
    "single elements": ((5,), [S[2,], S[1:4,], S[4,]]),
    "one of two": ((4, 5), [S[1,], S[:, 2], S[1:3, 1:4]]),
    "five points": ((6, 7), [S[1:-1, 1:-1], S[:-2, 1:-1], S[2:, 1:-1], S[1:-1, :-2], S[1:-1, 2:]]),
    "three dimensions": ((3, 4, 5), [S[1:, :, ::2], S[:, 1:3], S[0, 0, 0]]),
    "nothing in one": ((4,), [S[2:2,], S[1:3,]]),
    "no dimensions": ((), [(), ()]),
}


@pytest.mark.parametrize("name", ["pieces", "overlaid", "slice_scatter"])
@pytest.mark.parametrize("case", CASES)
@pytest.mark.parametrize("dtype", ["float64", "int64"])
def test_regions_are_the_same_array(name: str, case: str, dtype: str) -> None:
    shape, indices = CASES[case]
    program = program_of(name, shape, indices if name != "slice_scatter" else indices[-1:], dtype)
    cut = split_into_regions(program)
    cut.check()
    assert [i.op.name for i in cut.instructions if i.op.name in ("pieces", "overlaid", "slice_scatter")] == []
    for seed in range(3):
        arrays = numbers(program, seed)
        (expected,), (found,) = Replay(program)(arrays), Replay(cut)(arrays)
        np.testing.assert_array_equal(found, expected)
        np.testing.assert_array_equal(np.signbit(found), np.signbit(expected))


def test_parts_drawn_at_random() -> None:
    rng = np.random.default_rng(7)
    for draw in range(60):
        shape = tuple(int(n) for n in rng.integers(1, 7, rng.integers(1, 4)))
        indices = []
        for _ in range(rng.integers(1, 5)):
            ends = [sorted(rng.integers(0, n + 1, 2)) for n in shape]
            indices.append(tuple([slice(int(a), int(b), int(rng.integers(1, 3))) for a, b in ends]))
        name = ["pieces", "overlaid"][draw % 2]
        program = program_of(name, shape, indices)
        cut = split_into_regions(program)
        arrays = numbers(program, draw)
        np.testing.assert_array_equal(np.signbit(Replay(cut)(arrays)[0]), np.signbit(Replay(program)(arrays)[0]))
        np.testing.assert_array_equal(Replay(cut)(arrays)[0], Replay(program)(arrays)[0])


def test_a_write_into_the_middle_copies_only_the_ends() -> None:
    program = program_of("slice_scatter", (40,), [S[1:39,]])
    assert str(split_into_regions(program)) == str(program).partition("\n")[0] + (
        "\n  %2: float64[2] = getitem(%0, index=(slice(0, 78, 39),))"
        "\n  %3: float64[40] = assembled(%2, %1, shape=(40,), index=((slice(0, 78, 39),), (slice(1, 39, 1),)))"
        "\n  return %3\n"
    )


MANY = {
    "every third and all": ((300,), [S[0:300,], S[::3,]]),
    "steps that meet at some": ((300,), [S[0:300,], S[1::4,], S[::3,]]),
    "steps of rows and of columns": ((70, 80), [S[::3, :], S[:, ::3], S[1:69, 1:79]]),
    "steps of which some cover nothing": ((200,), [S[::3,], S[::5,], S[2:2,]]),
    "backwards": ((300,), [S[::3,], S[::-1,], S[::5,]]),
    "many rows and all": ((400, 3), [S[k,] for k in range(0, 400, 2)] + [S[0:400, 0:2]]),
}


@pytest.mark.parametrize("case", MANY)
@pytest.mark.parametrize("dtype", ["float64", "int64"])
def test_too_many_regions_are_layers_of_parts_that_do_not_meet(case: str, dtype: str) -> None:
    shape, indices = MANY[case]
    program = program_of("pieces", shape, indices, dtype)
    cut = split_into_regions(program)
    cut.check()
    assert "pieces" not in {i.op.name for i in cut.instructions}
    assert "overlaid" in {i.op.name for i in cut.instructions}
    for seed in range(3):
        arrays = numbers(program, seed)
        (expected,), (found,) = Replay(program)(arrays), Replay(cut)(arrays)
        np.testing.assert_array_equal(found, expected)
        np.testing.assert_array_equal(np.signbit(found), np.signbit(expected))


def test_the_text_of_layers() -> None:
    program = program_of("pieces", (300,), [S[::3,], S[::5,]])
    program.instructions[0].settings["common"] = None  # as of parts that are not known to meet
    assert str(split_into_regions(program)).partition("\n")[2] == (
        "  %2: float64[100] = add(%0, 0.0)\n"
        "  %3: float64[300] = assembled(%2, shape=(300,), index=((slice(0, 300, 3),),))\n"
        "  %4: float64[60] = getitem(%3, index=(slice(0, 300, 5),))\n"
        "  %5: float64[60] = add(%4, %1)\n"
        "  %6: float64[300] = overlaid(%3, %5, index=((slice(0, 300, 5),),))\n"
        "  return %6\n"
    )


def test_more_parts_than_bits_of_a_word_have_regions() -> None:
    program = program_of("pieces", (5,), [S[k % 3 : 3 + k % 3,] for k in range(200)])
    cut = split_into_regions(program)
    assert [i.op.name for i in cut.instructions].count("assembled") == 1
    arrays = numbers(program, 0)
    np.testing.assert_array_equal(Replay(cut)(arrays)[0], Replay(program)(arrays)[0])


def test_what_has_many_regions_and_many_layers_stays_as_it_is() -> None:
    program = program_of("pieces", (400,), [S[k : k + 3,] for k in range(60)] + [S[::7,]])
    assert split_into_regions(program).instructions[0].op.name == "pieces"
