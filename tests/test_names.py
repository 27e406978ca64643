"""Every public name of torch's exists here, or the error for it gives the reason."""

from __future__ import annotations

import functools
import importlib
import re
from pathlib import Path

import pytest

import ndgrad
from ndgrad._src.foundations import missing_names
from tests.torch_parity import names
from tests.torch_parity.names.__main__ import ABSENT, PARITY, parity_page

ANEW = "write it anew with `python -m tests.torch_parity.names`"
DIFFERENCES = "\n".join(p.read_text(encoding="utf-8") for p in (Path(__file__).parents[1] / "docs" / "differences").glob("*.md"))


def test_no_name_is_absent_without_a_reason():
    assert [name for name, state in names.standing().items() if state == "unknown"] == []


def test_what_is_here_is_of_the_same_kind():
    def fits(theirs, ours):
        # a function may be a class here, or an object that can be called, and the other way round: both are called
        return theirs == ours or {theirs, ours} == {"class", "function"} or name in OTHER_KINDS

    wrong = []
    for name, kind in names.listed().items():
        if names.standing()[name] in ("same", "differs") and not fits(kind, names.kind(names.here(name))):
            wrong.append((name, kind, names.kind(names.here(name))))
    assert wrong == []


#: Names that are another kind of thing, to the same effect.
OTHER_KINDS = frozenset(("torch.autograd.variable", "torch.types.FileLike"))


def test_names_that_differ_are_here_and_their_entries_exist():
    entries = set(re.findall(r"^\| `([\w-]+)`", DIFFERENCES, flags=re.MULTILINE))
    assert set(names.differing().values()) - entries == set()
    assert [name for name in names.differing() if names.standing().get(name) != "differs"] == []


def test_every_row_of_the_table_has_a_reason_an_alternative_and_a_name():
    for row in missing_names.table():
        assert row.reason.endswith("."), row
        assert row.instead.endswith("."), row
        assert row.patterns, row
        assert row.heading, row
    assert names.idle() == [], "no missing name fits: take the row out of absent.txt"


def test_pages_are_as_the_names_say():
    assert parity_page() == PARITY.read_text(encoding="utf-8"), ANEW
    assert names.absent_page() == ABSENT.read_text(encoding="utf-8"), ANEW


@pytest.mark.parametrize(
    ("path", "name", "words"),
    [
        ("ndgrad.distributed", "Reducer", "MPI"),
        ("ndgrad", "quantize_per_tensor", "Quantised"),
        ("ndgrad.utils", "cpp_extension", "C\\+\\+"),
        ("ndgrad.cuda", "temperature", "nvidia-smi"),
        ("ndgrad.compiler", "set_default_backend", "guards"),
        ("ndgrad.backends.cuda", "cufft_plan_cache", "CuPy"),
    ],
)
def test_a_name_that_is_not_here_says_why(path, name, words):
    module = importlib.import_module(path)
    with pytest.raises(AttributeError, match=f"module '{path}' has no attribute '{name}': .*{words}") as caught:
        getattr(module, name)
    assert caught.value.name == name
    assert not hasattr(module, name)


def test_a_misspelt_name_has_no_reason():
    with pytest.raises(AttributeError, match=r"^module 'ndgrad' has no attribute 'tensr'$"):
        ndgrad.tensr


def test_namespaces_show_no_names_of_this():
    assert not hasattr(ndgrad.linalg, "refuse_absent")
    assert not hasattr(ndgrad.nn.functional, "__wrapped__")


@pytest.mark.parametrize(
    "path",
    "grad hessian stop_gradient lax device_put func.jit func.custom_vjp func.tree_map random.PRNGKey autograd.jacobian".split(),
)
def test_names_of_jax_lead_to_names_that_exist(path):
    """The error for a name of jax names an alternative, and each name in it can be reached."""
    with pytest.raises(AttributeError, match=r"\[nd-absent\]$") as caught:
        functools.reduce(getattr, path.split("."), ndgrad)
    for name in re.findall(r"`ndgrad\.([\w.]+)", str(caught.value)):
        functools.reduce(getattr, name.split("."), ndgrad)
