"""Each kind of place and effect in fixed programs, and random programs of fixed seeds: compiled equals eager.

`python -m tests.programs --world` looks for more, and `--world --kinds` lists the kinds that differ.
"""

from __future__ import annotations

import ast
import math
import os
import sys
import warnings
from typing import Any

import pytest

import ndgrad
from tests.programs.world.cases import CASES, examine
from tests.programs.world.effects import EFFECTS
from tests.programs.world.generate import FORMS, generate
from tests.programs.world.known_differences import KNOWN_DIFFERENCES, KNOWN_EAGER, KNOWN_SEEDS
from tests.programs.world.places import PLACES
from tests.programs.world.run import check, compare, in_context
from tests.programs.world.shrink import Finding, shrink


def case(value: object, known: frozenset[Any]) -> object:
    marks = [pytest.mark.xfail(reason="a known difference", raises=AssertionError, strict=True)] if value in known else []
    return pytest.param(value, id=str(value), marks=marks)


@pytest.mark.one_in(4)
@pytest.mark.parametrize("label", [case(label, KNOWN_DIFFERENCES) for label in CASES])
def test_a_kind_of_place_or_effect_is_the_same_compiled(label: str) -> None:
    found = examine(label)
    assert found.difference is None, found.difference


@pytest.mark.one_in(4)
@pytest.mark.parametrize("seed", [case(seed, KNOWN_SEEDS) for seed in range(60)])
def test_random_programs_of_the_world_are_the_same_compiled(seed: int) -> None:
    program = generate(seed)
    if not KNOWN_DIFFERENCES.isdisjoint(program.labels):
        pytest.skip("a kind of it has a known difference")
    outcome = check(program.source)
    assert outcome.difference is None, f"{outcome.difference}\n{program.source}"


#: Kinds that every program has: their calls run compiled, so safety is not bought by running eagerly.
COMPILED = (
    "place: closure cell", "place: global", "place: global of another module", "place: instance attribute",
    "place: class attribute", "place: slot", "place: property", "place: SimpleNamespace", "place: dataclass",
    "place: frozen dataclass", "place: named tuple", "place: dict", "place: nested dict", "place: list", "place: tuple of lists",
    "place: set", "place: NumPy array", "place: captured tensor", "place: default argument", "place: partial",
    "place: user's function replaced", "place: dispatch table", "place: parameter replaced", "place: buffer replaced",
    "place: training flag", "place: forward hook of a module", "place: ndgrad.rand", "place: grad mode", "place: module list",
    "effect: captured tensor written", "effect: argument written in place", "effect: tensor kept in a dict",
    "effect: running average, tensor", "effect: backward inside", "effect: optimizer step", "effect: Adam step",
    "effect: buffer updated", "effect: batch norm",
)  # fmt: skip


def test_calls_of_common_kinds_run_compiled() -> None:
    shares = {label: (case.compiled, case.calls) for label in COMPILED for case in [examine(label)]}
    eager = {label: share for label, share in shares.items() if 2 * share[0] < share[1]}
    assert set(eager) == KNOWN_EAGER, eager


# ----- the machinery --------------------------------------------------------------------------------------------------


def test_there_are_enough_kinds() -> None:
    assert len({kind.name for kind in PLACES}) == len(PLACES) >= 40
    assert len({kind.name for kind in EFFECTS}) == len(EFFECTS) >= 30
    assert set(CASES) >= KNOWN_DIFFERENCES


def test_a_seed_always_gives_the_same_program() -> None:
    for seed in range(50):
        assert generate(seed).source == generate(seed).source
        ast.parse(generate(seed).source)
    assert {generate(seed).form for seed in range(100)} == set(FORMS)


BROKEN = """
import ndgrad
scale = 2.0
def main(compile, call, change, watch):
    global scale
    def step(x):
        return x * scale
    f = compile(step)
    watch('scale', lambda: scale)
    call(f, ndgrad.ones(2))
    scale = {value}
    call(f, ndgrad.ones(2))
"""


def test_each_respect_is_compared() -> None:
    """A second world that differs in one respect is told from the first one."""
    eager = in_context(BROKEN.format(value="3.0"), lambda f: f)
    for change, where, respect in (
        (lambda f: lambda x: f(x) + 1, "result", "values"),
        (lambda f: lambda x: f(x).double(), "result", "dtype"),
        (lambda f: lambda x: f(x).requires_grad_(), "result", "requires_grad"),
        (lambda f: lambda x: [f(x)], "result", "type"),
        (lambda f: lambda x: print("a") or f(x), "stdout", "text"),
        (lambda f: lambda x: (f(x), x.add_(1))[0], "argument 0", "values"),
        (lambda f: lambda x: 1 // 0, "error", "raised"),
        (lambda f: lambda x: x, "result", "values"),
    ):
        found = compare(eager, in_context(BROKEN.format(value="3.0"), change))  # type: ignore[arg-type]
        assert found is not None
        assert (found.where, found.respect) == (where, respect)
    other = compare(eager, in_context(BROKEN.format(value="4.0"), lambda f: f))
    assert other is not None
    assert other.turn == 1
    assert compare(eager, in_context(BROKEN.format(value="3.0"), lambda f: f)) is None


def test_a_program_leaves_the_process_as_it_was() -> None:
    def state() -> tuple[object, ...]:
        filters = list(warnings.filters)
        return math.floor, os.getcwd(), dict(os.environ), list(sys.argv), filters, sys.getrecursionlimit()

    before = state()
    for label in ("place: function of math replaced", "place: current folder", "place: environment variable", "place: sys attribute",
                  "place: warning filters", "place: recursion limit", "place: hook of all modules"):  # fmt: skip
        for source in CASES[label]:
            in_context(source, lambda f: f)
    assert before == state()


def test_a_finding_is_made_short(monkeypatch: pytest.MonkeyPatch) -> None:
    """With a compiler that keeps the first result, each program that reads a changing place differs; one part is left."""

    def frozen(f: object, **options: object) -> object:
        kept: list[object] = []

        def run(*args: object, **kwargs: object) -> object:
            if not kept:
                kept.append(f(*args, **kwargs))  # type: ignore[operator]
            return kept[0]

        return run

    monkeypatch.setattr(ndgrad, "compile", frozen)
    program = next(p for p in map(generate, range(200)) if len(p.parts) > 2 and (d := check(p.source).difference) and d.where == "result")
    difference = check(program.source).difference
    assert difference is not None
    short = shrink(Finding(0, program, difference))
    assert len(short.program.parts) == 1
    assert len(short.program.steps) <= 2
