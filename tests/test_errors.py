"""`ndgrad.errors`: the classes of errors, under a public name and as Python's own classes."""

from __future__ import annotations

import pickle

import pytest

import ndgrad
from ndgrad import errors


@pytest.mark.parametrize(
    ("call", "cls", "bases"),
    [
        (lambda: ndgrad.ones(2, 3) + ndgrad.ones(4), errors.ShapeError, (RuntimeError, ValueError)),
        (lambda: ndgrad.ones(2, dtype=ndgrad.bool) - ndgrad.ones(2, dtype=ndgrad.bool), errors.DtypeError, (RuntimeError, TypeError)),
    ],
)
def test_errors_have_public_classes_and_pythons(call, cls, bases):
    for base in (cls, *bases):
        with pytest.raises(base) as caught:
            call()
        assert type(caught.value) is cls
    assert cls.__module__ == "ndgrad.errors"


@pytest.mark.parametrize("name", errors.__all__)
def test_classes_show_a_path_that_leads_to_them_and_pickle(name):
    cls = getattr(errors, name)
    assert (cls.__module__, cls.__qualname__) == ("ndgrad.errors", name)
    assert pickle.loads(pickle.dumps(cls)) is cls


def test_fullgraph_raises_a_graph_break_that_does_not_claim_to_run_eagerly():
    def f(x):
        if float(x.sum()) > 0:
            return x * float(input())
        return x

    with pytest.raises(errors.GraphBreak, match=r"Without fullgraph=True, the function runs eagerly") as caught:
        ndgrad.compile(f, fullgraph=True)(ndgrad.ones(3))
    assert "runs eagerly instead" not in str(caught.value)
