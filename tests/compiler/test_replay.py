"""Programs on NumPy: the list of ops and the generated function give the same bits, and fail alike.

Programs of every op: passes/test_simplified.py.
"""

from __future__ import annotations

import gc
import weakref
from typing import Any

import numpy as np
import pytest

import ndgrad
from ndgrad._src.compiler.passes import simplify_program
from ndgrad._src.compiler.passes.loops import roll_loops
from ndgrad._src.compiler.program import replay
from ndgrad._src.compiler.program.replay import Replay, written_out
from ndgrad._src.compiler.program.text import parse_program
from tests.compiler.traced import arrays_for, random_function, traced

CHAIN = """
program f(%0: float32[3], %1: float32[3])
  %2: float32[3] = mul(%0, 1.1)
  %3: float32[3] = add(%2, %1)
  %4: float32[] = sum_all(%3, dtype=None)
  return %4, %3
"""


def assert_same_bits(found: list[Any], expected: list[Any]) -> None:
    for a, b in zip(found, expected, strict=True):
        a, b = np.asarray(a), np.asarray(b)
        assert (a.dtype, a.shape) == (b.dtype, b.shape)
        assert a.tobytes() == b.tobytes() or a.dtype.kind in "fc"  # a NaN may have another sign
        np.testing.assert_array_equal(a, b)


@pytest.mark.parametrize("seed", range(20))
def test_random_programs_written_out_give_the_same_bits(seed: int) -> None:
    function, arrays = random_function(seed)
    program = traced(function, arrays)
    given = arrays_for(program, arrays)
    for each in (program, simplify_program(program), roll_loops(simplify_program(program))):
        with np.errstate(all="ignore"):
            assert_same_bits(written_out(each)(given), Replay(each).one_by_one(given))


@pytest.mark.parametrize("dtype", ["float16", "bfloat16"])
def test_halves_are_rounded(dtype: str) -> None:
    program = parse_program(CHAIN.replace("float32", dtype))
    made = ndgrad.bfloat16.numpy if dtype == "bfloat16" else np.dtype(dtype)
    given = [np.array([0.1, 0.2, 3.7]).astype(made), np.array([1.0, 2.5, 300.0]).astype(made)]
    found, expected = written_out(program)(given), Replay(program).one_by_one(given)
    assert [np.asarray(a).dtype for a in found] == [made, made]
    assert [np.asarray(a).tobytes() for a in found] == [np.asarray(a).tobytes() for a in expected]


def test_a_number_too_large_for_the_dtype_is_left_to_numpy() -> None:
    program = parse_program(CHAIN.replace("1.1", "1e300"))
    with np.errstate(all="ignore"):
        out = written_out(program)([np.ones(3, np.float32), np.ones(3, np.float32)])
    assert out[0].dtype == np.float32
    assert np.isinf(out[0])


def test_the_second_call_is_by_a_function(monkeypatch: pytest.MonkeyPatch) -> None:
    run, given = Replay(parse_program(CHAIN)), [np.ones(3, np.float32)] * 2
    listed = []
    one_by_one = Replay.one_by_one
    monkeypatch.setattr(Replay, "one_by_one", lambda self, inputs: listed.append(1) or one_by_one(self, inputs))
    for _ in range(4):
        assert run(given)[0] == pytest.approx(6.3)
    assert len(listed) == 1
    monkeypatch.setattr(replay, "_LONGEST", 2)
    run = Replay(parse_program(CHAIN))
    for _ in range(4):
        run(given)
    assert len(listed) == 5  # too long for a generated function


def test_an_op_that_fails_says_what_it_says_in_the_list_and_the_program_stays_usable() -> None:
    program = parse_program(
        "program f(%0: float64[2,2], %1: float64[2])\n  %2: float64[2] = solve(%0, %1)\n  return %2\n"
    )
    run, good, bad = Replay(program), [np.eye(2) * 2, np.ones(2)], [np.zeros((2, 2)), np.ones(2)]
    for _ in range(3):
        np.testing.assert_array_equal(run(good)[0], [0.5, 0.5])
    with pytest.raises(Exception) as listed:  # any error
        run.one_by_one(bad)
    with pytest.raises(type(listed.value), match=str(listed.value)[:20]):
        run(bad)
    np.testing.assert_array_equal(run(good)[0], [0.5, 0.5])
    assert run._function is not None  # an error of the arguments does not concern the function


def test_values_are_dropped_after_their_last_use() -> None:
    kept: list[Any] = []

    class Noted(np.ndarray):
        pass

    program = parse_program(
        "program f(%0: float64[3])\n  %1: float64[3] = sin(%0)\n  %2: float64[3] = cos(%1)\n  %3: float64[3] = exp(%2)\n  return %3\n"
    )
    scope = written_out(program).__globals__
    for name, function in list(scope.items()):
        if isinstance(function, np.ufunc):

            def note(x: Any, function: Any = function) -> Any:
                alive = sum(r() is not None for r in kept)
                assert alive <= 1, "what is read, and nothing else"
                out = function(x).view(Noted)
                kept.append(weakref.ref(out))
                return out

            scope[name] = note
    gc.collect()
    scope["run"]([np.ones(3)])
    assert len(kept) == 3


def test_loops_of_a_function_stay_written_out_on_numpy(monkeypatch: pytest.MonkeyPatch) -> None:
    """Rounds of a loop are calls of a program, and stored rounds are copies. On NumPy both cost more than they save."""
    monkeypatch.setenv("NDGRAD_COMPILE_REPLAY", "1")

    def f(x: Any) -> Any:
        for _ in range(30):
            x = (x * 1.01).sin()
        return x.sum()

    x = ndgrad.linspace(0, 1, 4, dtype=ndgrad.float64).requires_grad_()
    compiled = ndgrad.compile(f, fullgraph=True)
    for _ in range(3):
        (slope,) = ndgrad.autograd.grad(compiled(x), x)
    assert "loop" not in str(compiled.graph(x).program)
    np.testing.assert_array_equal(slope, ndgrad.autograd.grad(f(x), x)[0])
