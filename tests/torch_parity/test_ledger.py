"""Each heading has the programs it must have, and the page that counts them is true."""

from __future__ import annotations

import ast
from pathlib import Path

import pytest

from tests.torch_parity.ledger import GROUPS, Group, Heading, bounds, count, read_table, repeated, table

HEADINGS = [heading for group in GROUPS for heading in group.headings]


@pytest.mark.parametrize("heading", HEADINGS, ids=lambda heading: heading.name)
def test_heading_has_programs_enough(heading: Heading) -> None:
    assert count(heading) >= heading.least
    assert [repeated(file) for file in heading.files] == [[]] * len(heading.files)


@pytest.mark.parametrize("group", GROUPS, ids=lambda group: group.name)
def test_group_has_programs_enough(group: Group) -> None:
    assert sum(map(count, group.headings)) >= group.least


def test_every_file_with_a_table_of_functions_is_counted() -> None:
    """A file that decorates its programs belongs to a heading."""
    decorated = {
        path.stem.removeprefix("test_")
        for path in Path(__file__).parent.glob("test_*.py")
        for node in ast.parse(path.read_text()).body
        if isinstance(node, ast.FunctionDef) and any(isinstance(d, ast.Name) and d.id == "program" for d in node.decorator_list)
    }
    assert decorated <= {file for heading in HEADINGS for file in heading.files}


def test_the_page_is_true_and_not_far_behind() -> None:
    (stated_text, stated), (text, counted) = bounds(read_table()), bounds(table())
    assert stated_text == text, "write it anew: python -m tests.torch_parity.ledger"
    assert all(fact - 50 <= claim <= fact for claim, fact in zip(stated, counted, strict=True)), (stated, counted)
