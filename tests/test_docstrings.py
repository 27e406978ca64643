"""Docstrings of generated functions."""

from __future__ import annotations

import subprocess
import sys

import pytest

import ndgrad.array_api as xp
from ndgrad._src.foundations import docstrings
from ndgrad.array_api.naming import like

TEXT = """Return a sum.

Args:
    a, b: two arrays,
        added to each other.
    *rest: others.

Raises:
    ValueError: if `rest` is empty.

Returns:
    An array like `a`.

>>> f(1, 2)
3"""


def test_a_composed_docstring_splits_into_its_parts():
    purpose, sections, example = docstrings.split(TEXT)
    assert (purpose, list(sections), example) == ("Return a sum.", ["Args", "Raises", "Returns"], ">>> f(1, 2)\n3")
    texts = docstrings.described(sections["Args"])
    both = "two arrays, added to each other."
    assert texts == {"a": both, "b": both, "rest": "others."}
    made = docstrings.compose(purpose, {"a, b": both}, example, [sections["Raises"]])
    assert docstrings.split(made)[1]["Args"] == f"Args:\n    a, b: {both}"


def test_parameters_of_another_name_keep_their_description():
    def ours(a, b, *rest):
        """See TEXT."""

    ours.__doc__ = TEXT

    @like(ours, limit="a bound.")
    def add(x1, x2, *, limit):
        pass

    _, sections, _ = docstrings.split(add.__doc__)
    assert docstrings.described(sections["Args"])["x2"] == "two arrays, added to each other."
    assert docstrings.described(sections["Args"])["limit"] == "a bound."
    assert sections["Returns"] == "Returns:\n    An array like `x1`."
    assert "Raises" not in sections  # it is about a parameter that is gone


@pytest.mark.parametrize("name", ["sum", "clip", "where"])
def test_functions_of_the_standard_do_not_describe_numpys_parameters(name):
    texts = docstrings.described(docstrings.split(getattr(xp, name).__doc__)[1]["Args"])
    assert not {"a", "out", "initial", "options", "values"} & texts.keys()


def test_modules_load_without_docstrings():
    code = "import ndgrad.array_api as xp; assert xp.sum.__doc__ is None"
    subprocess.run([sys.executable, "-OO", "-c", code], check=True)
