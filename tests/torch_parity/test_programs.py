"""Whole small programs in torch's dialect, run with `import torch` and with `import ndgrad as torch`.

A program returns whatever a reader would print at its end: tensors, numbers, the errors it provoked. Both runs must return the
same, dtypes included.
"""

from __future__ import annotations

import warnings
from collections.abc import Callable
from typing import Any

import pytest
import torch as original

import ndgrad
from tests.torch_parity.programs import autodiff, learning, probability, science
from tests.torch_parity.programs.dialect import PROGRAMS
from tests.torch_parity.programs.sameness import same


@pytest.fixture
def float64_torch() -> Any:
    before = original.get_default_dtype()
    original.set_default_dtype(original.float64)
    yield
    original.set_default_dtype(before)


def run(f: Callable[[Any], Any], torch: Any) -> Any:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        return f(torch)


@pytest.mark.parametrize("f", PROGRAMS, ids=lambda f: f.__name__)
@pytest.mark.usefixtures("float64_torch")
def test_program_gives_the_same_with_ndgrad_as_with_torch(f: Callable[[Any], Any]) -> None:
    same(run(f, original), run(f, ndgrad))


def test_every_file_of_programs_is_run() -> None:
    homes = {f.__module__ for f in PROGRAMS}
    assert homes == {m.__name__ for m in (autodiff, learning, probability, science)}
    assert len(PROGRAMS) >= 40
