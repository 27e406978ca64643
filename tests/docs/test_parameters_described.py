"""The docstrings of public functions describe their parameters."""

import pytest

pytest.importorskip("pygments")

from docs.reference_pages import markup
from scripts import check_reference

import ndgrad


def test_every_parameter_of_a_public_function_is_described():
    found = [
        f"{name}: {finding}"
        for name, value, drop_first in check_reference.public_callables()
        for finding in check_reference.check(value, drop_first)
    ]
    assert found == []


def test_missing_and_unknown_descriptions_are_found(monkeypatch):
    def f(a, b, *, c=1):
        """Return nothing.

        Args:
            a, c: two numbers,
                described together.
            d: a parameter that was removed.

        >>> f(1, 2)
        """

    monkeypatch.setattr(check_reference.entries, "source_of", lambda value: ("file.py", 1))
    assert check_reference.check(f, False) == ["no description of b", "describes d, which it does not take"]
    assert markup.arguments(f.__doc__.replace("\n        ", "\n")) == [
        (["a", "c"], "two numbers,\n    described together."), (["d"], "a parameter that was removed.")
    ]  # fmt: skip


def test_a_method_that_is_a_function_does_not_list_its_object(monkeypatch):
    def total(a, axis):
        """Return a sum.

        Args:
            a: array,
                of numbers.
            axis: axis to sum over.

        Returns:
            A number.
        """

    monkeypatch.setattr(check_reference.entries, "source_of", lambda value: ("file.py", 1))
    assert check_reference.check(total, True) == []
    text = check_reference.entries.docstring(total)
    assert markup.arguments(markup.without_argument(text, "a")) == [(["axis"], "axis to sum over.")]
    assert markup.without_argument(text, "b") == text
    assert "Returns:\n    A number." in markup.without_argument(text, "a")


def test_in_place_function_takes_the_descriptions_of_its_function():
    text = check_reference.entries.docstring(ndgrad.Tensor.addcmul_)
    assert [names for names, _ in markup.arguments(text)] == [["self"], ["tensor1"], ["tensor2"], ["value"]]
