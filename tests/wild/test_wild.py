"""Scientific programs that never heard of ndgrad, differentiated as they stand, against finite differences or the complex step."""

from __future__ import annotations

import pathlib
import re
from typing import Any

import numpy as np
import pytest

import ndgrad
import ndgrad.numpy as dnp
from ndgrad import func
from tests.wild.cases import CASES, Case

pytest.importorskip("scipy")

HERE = pathlib.Path(__file__).parent
BUFFERS = re.compile(
    r"indexed writes|\+=|-=|/=|buffer|np\.array|np\.empty|np\.zeros|np\.eye|std\(\)|var\(\)|written|filled|in place|swap|assembly"
)


def ids(cases: list[Case]) -> list[Any]:
    return [pytest.param(case, id=case.program) for case in cases]


def with_argument(case: Case, value: Any) -> Any:
    given = list(case.arguments)
    given[case.number] = value
    return case.function(*given)


def numeric_gradient(case: Case) -> Any:
    """By the complex step where the program takes complex numbers, else by central differences with one extrapolation."""
    start = np.asarray(case.arguments[case.number], float)
    found = np.zeros(start.shape)
    for place in np.ndindex(*start.shape):
        unit = np.zeros(start.shape)
        unit[place] = 1.0

        def move_along(step: Any, unit: Any = unit) -> Any:
            moved = start + step * unit
            return with_argument(case, moved if moved.ndim else moved[()])

        if case.oracle == "complex step":
            found[place] = move_along(1e-30j).imag / 1e-30
            continue
        h = 1e-4 * max(1.0, float(np.abs(start[place])))
        coarse, fine = ((move_along(s) - move_along(-s)) / (2 * s) for s in (h, h / 2))
        found[place] = (4 * fine - coarse) / 3
    return found


def differentiable(case: Case) -> Any:
    function = ndgrad.lift(case.function) if case.way == "lift" else case.function

    def of_one(x: Any) -> Any:
        given = list(case.arguments)
        given[case.number] = x
        return function(*given)

    return of_one


@pytest.mark.parametrize("case", ids(CASES))
def test_program_as_it_stands_has_the_right_gradient(case: Case) -> None:
    x = dnp.array(case.arguments[case.number]).requires_grad_()
    y = differentiable(case)(x)
    np.testing.assert_allclose(y.detach().numpy(), case.function(*case.arguments), rtol=1e-8)
    y.backward()
    expected = numeric_gradient(case)
    tolerance = 1e-11 if case.oracle == "complex step" else 2e-7
    np.testing.assert_allclose(x.grad.numpy(), expected, rtol=tolerance, atol=tolerance * np.abs(expected).max())


@pytest.mark.one_in(2)
@pytest.mark.parametrize("case", ids(CASES))
def test_program_in_a_transform_has_the_same_gradient(case: Case) -> None:
    x = dnp.array(case.arguments[case.number]).requires_grad_()
    run = differentiable(case)
    run(x).backward()
    np.testing.assert_allclose(func.grad(run)(x.detach()).numpy(), x.grad.numpy(), rtol=1e-9, atol=1e-12)


@pytest.mark.one_in(2)
@pytest.mark.parametrize("case", ids(CASES))
def test_program_in_forward_mode_agrees_with_reverse_mode(case: Case) -> None:
    x = dnp.array(case.arguments[case.number])
    direction = dnp.array(np.random.default_rng(5).standard_normal(x.shape))
    run = differentiable(case)
    _, tangent = func.jvp(run, (x,), (direction,))
    np.testing.assert_allclose(tangent.item(), (func.grad(run)(x) * direction).sum().item(), rtol=1e-8, atol=1e-10)


def test_the_programs_do_not_know_ndgrad() -> None:
    files = sorted((HERE / "programs").glob("*.py"))
    assert {f.stem for f in files} - {"__init__"} == {c.program.split(".")[0] for c in CASES}
    for file in files:
        if file.stem != "__init__":
            assert "ndgrad" not in file.read_text()


def test_there_are_enough_of_them_with_buffers() -> None:
    assert len(CASES) >= 24
    assert len([c for c in CASES if BUFFERS.search(c.habits)]) >= 15


def test_the_table_in_the_documentation_is_this_one() -> None:
    page = (HERE.parents[1] / "docs" / "lift.md").read_text()
    rows = re.findall(r"^\| ([^|]+) \| `([^`|]+)` \| ([^|]+) \| ([^|]+) \|$", page, re.MULTILINE)
    assert [tuple(map(str.strip, row)) for row in rows] == [(c.subject, c.program, c.way, c.habits) for c in CASES]
