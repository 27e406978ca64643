"""All passes together: programs traced from every op of the table and from random functions mean the same afterwards."""

from __future__ import annotations

from importlib import import_module
from pkgutil import iter_modules
from typing import Any

import numpy as np
import pytest

import ndgrad
from ndgrad._src.compiler import passes
from ndgrad._src.compiler.capture.graph_break import GraphBreak
from ndgrad._src.compiler.passes import simplify_program
from ndgrad._src.compiler.passes.broadcast import broadcasting
from ndgrad._src.compiler.passes.constant_folding import folding, splat_constants
from ndgrad._src.compiler.passes.cse import merge_repeated
from ndgrad._src.compiler.passes.dead_code import remove_dead_code
from ndgrad._src.compiler.passes.part_reads import read_parts
from ndgrad._src.compiler.passes.rewrite import Rules, Walk
from ndgrad._src.compiler.passes.simplify import no_arithmetic
from ndgrad._src.compiler.passes.views import canonical_views
from ndgrad._src.compiler.program.replay import Replay, written_out
from ndgrad._src.compiler.program.text import left_out, parse_program
from ndgrad._src.ops.table import table
from tests.compiler.traced import arrays_for, assert_same, random_function, traced
from tests.examples import few, in_a_long_run
from tests.op_programs import SAMPLES, program_of

PASSES = {
    "views": canonical_views,
    "parts": Rules(canonical_views, read_parts),
    "clean": no_arithmetic,
    "fold": lambda program: folding(splat_constants(program)),
    "broadcast": broadcasting,
    "cse": merge_repeated,
    "dead": remove_dead_code,
    "all": simplify_program,
}


@pytest.mark.parametrize("name", PASSES)
def test_random_programs_give_the_same_arrays(name: str) -> None:
    shorter = 0
    for seed in few(8 if name == "all" else 6, range(60 if name == "all" else 20)):
        function, arrays = random_function(seed)
        program = traced(function, arrays)
        other = PASSES[name](program)
        assert_same(program, other, arrays_for(program, arrays))
        shorter += len(other.instructions) < len(program.instructions)
    assert shorter or name in ("fold", "broadcast")


# SciPy draws random numbers for matrix_log when its shapes are asked for the first time, and other tests look at that.
@pytest.mark.parametrize("name", sorted(SAMPLES.keys() - {"matrix_log"}))
def test_programs_of_every_op_give_the_same_arrays(name: str) -> None:
    op = table[name]
    ran = False
    samples = [s for s in SAMPLES[name] if not any(isinstance(a, np.generic) for a in s.args)]
    for sample in samples[:2]:
        function, tensors = program_of(op, sample)
        arrays = [np.asarray(t._array) for t in tensors]
        try:
            program = traced(function, arrays)
        except (GraphBreak, RuntimeError, NotImplementedError, ValueError, np.linalg.LinAlgError):
            continue
        other = simplify_program(program)
        assert len(other.instructions) <= len(program.instructions) + 4 * len(program.outputs)
        given = arrays_for(program, arrays)
        assert_same(program, other, given, ulps=64)
        # its text is read back, and as a Python function it gives the same bits
        for each in (program, other):
            assert str(parse_program(str(each), left_out(each))) == str(each)
        with np.errstate(all="ignore"):
            for a, b in zip(written_out(program)(given), Replay(program).one_by_one(given), strict=True):
                np.testing.assert_array_equal(np.asarray(a), np.asarray(b))
        ran = True
        if not in_a_long_run():
            break  # One sample that can be traced.
    if not ran:
        pytest.skip("no sample of it can be traced")


#: Files that are no passes: what passes share.
SHARED = {"__init__", "rewrite", "expansion", "basic_index", "periods", "loop_building", "loop_parts", "complex_walk", "terms"}


@pytest.mark.parametrize("name", sorted({module.name for module in iter_modules(passes.__path__)} - SHARED))
def test_every_pass_says_whether_it_is_exact_or_reassociates(name: str) -> None:
    said = import_module(f"ndgrad._src.compiler.passes.{name}").__doc__ or ""
    assert "xact" in said or "eassociat" in said


def test_a_gradient_of_a_matrix_product_keeps_only_what_it_computes() -> None:
    def loss(x: Any, w: Any) -> Any:
        return (ndgrad.relu(x @ w) ** 2).sum()

    program = traced(loss, [np.ones((2, 3)), np.ones((3, 4))])
    assert [i.op.name for i in simplify_program(program).instructions] == [
        "matmul", "relu", "mul", "sum_all", "add", "mul", "keep", "permute", "matmul", "permute", "matmul",
    ]  # fmt: skip


def test_ordinary_arithmetic_is_none_that_a_rule_would_change(monkeypatch: pytest.MonkeyPatch) -> None:
    for seed in few(8, range(30)):
        function, arrays = random_function(seed, 25)
        program = traced(function, arrays)
        short = str(simplify_program(program))
        with monkeypatch.context() as patched:
            patched.setattr(Walk, "_is_ordinary", lambda self, instruction: False)
            assert str(simplify_program(program)) == short
