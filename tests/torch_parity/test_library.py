"""Registered ops: the same names, results and errors through torch.library and ndgrad.library."""

from __future__ import annotations

import pytest
import torch

import ndgrad
import ndgrad.fx
import ndgrad.library
from tests.torch_parity.library_programs import library_programs
from tests.torch_parity.test_fx import assert_same, outcome


@pytest.mark.parametrize("name", library_programs)
def test_program_is_the_same_on_both(name: str) -> None:
    theirs, ours = (outcome(library_programs[name], m) for m in (torch, ndgrad))
    assert not isinstance(theirs, tuple), theirs
    assert_same(theirs, ours)
