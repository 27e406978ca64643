"""SciPy's functions on our arrays, with SCIPY_ARRAY_API=1: right values and gradients, or an error; and the page says which."""

from __future__ import annotations

import importlib
import re

import pytest

from tests.scipy_array_api import page
from tests.scipy_array_api.cases import GROUPS, SAME_NAME

scipy = pytest.importorskip("scipy", "1.17")


def test_gradients_are_right_or_the_call_raises(subtests: pytest.Subtests) -> None:
    same_version = scipy.__version__.startswith(page.version() + ".")
    for group, found in page.outcomes().items():
        with subtests.test(group):
            assert not {name: outcome for name, outcome in found.items() if outcome.startswith("wrong")}
            if same_version:  # another SciPy may raise elsewhere, but must not be wrong anywhere
                assert found == {name: case.raises for name, case in GROUPS[group].items()}
                assert page.section(group, found).strip() == page.written_sections()[group], "run: python -m tests.scipy_array_api.page"


@pytest.mark.parametrize("group", [g for g, cases in GROUPS.items() if any(c.instead == SAME_NAME for c in cases.values())])
def test_what_to_call_instead_exists(group: str) -> None:
    ours = importlib.import_module(f"ndgrad.scipy.{group}")
    assert {name for name, case in GROUPS[group].items() if case.instead == SAME_NAME} <= {*ours.__all__}


def test_the_page_counts_its_functions() -> None:
    sections = page.written_sections()
    assert list(sections) == list(GROUPS)
    differentiable = page.count(sections, "Differentiable")
    assert differentiable >= 140
    written = re.search(r"(\d+) functions are differentiable", page.PAGE.read_text())
    assert written is not None
    assert int(written.group(1)) == differentiable
