"""Whole small programs in torch's dialect, run with `import torch` and with `import ndgrad as torch`.

A program returns whatever a reader would print at its end: tensors, numbers, the errors it provoked. Both runs must return the
same, dtypes included.
"""

from __future__ import annotations

import warnings
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
import torch as original

import ndgrad
from tests.torch_parity.programs import autodiff, learning, probability, science
from tests.torch_parity.programs.dialect import PROGRAMS


def same(theirs: Any, ours: Any, where: str = "result") -> None:
    if isinstance(theirs, original.Tensor):
        assert isinstance(ours, ndgrad.Tensor), f"{where}: {type(ours)}"
        assert tuple(ours.shape) == tuple(theirs.shape), where
        assert str(ours.dtype).split(".")[-1] == str(theirs.dtype).split(".")[-1], f"{where}: {ours.dtype}, torch {theirs.dtype}"
        assert ours.requires_grad == theirs.requires_grad, f"{where}: requires_grad"
        expected = theirs.detach().resolve_conj().resolve_neg().numpy()
        np.testing.assert_allclose(ours.detach().numpy(), expected, rtol=1e-8, atol=1e-10, err_msg=where)
    elif isinstance(theirs, dict):
        assert list(ours) == list(theirs), where
        for key in theirs:
            same(theirs[key], ours[key], f"{where}[{key!r}]")
    elif isinstance(theirs, (tuple, list)):
        assert len(ours) == len(theirs), where
        for i, (a, b) in enumerate(zip(theirs, ours, strict=True)):
            same(a, b, f"{where}[{i}]")
    elif isinstance(theirs, BaseException):
        expected = ndgrad.linalg.LinAlgError if isinstance(theirs, original.linalg.LinAlgError) else type(theirs)
        assert isinstance(ours, expected), f"{where}: torch {theirs!r}, ndgrad {ours!r}"
    elif isinstance(theirs, float):
        assert type(ours) is float, where
        assert ours == pytest.approx(theirs, rel=1e-9, nan_ok=True), where
    else:
        assert ours == theirs, where


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
