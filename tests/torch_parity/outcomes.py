"""The outcome of a program, on torch and on ndgrad: values that are compared as numbers, errors by their class."""

from __future__ import annotations

import warnings
from typing import Any

import numpy as np
import torch

import ndgrad

Outcome = tuple[str, Any]


def outcome(program: Any, m: Any) -> Outcome:
    """("value", nested lists) or ("error", name of the class)."""
    torch.manual_seed(0)
    ndgrad.manual_seed(0)
    before = torch.get_default_dtype()
    torch.set_default_dtype(torch.float64)
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            return "value", plain(program(m))
    except Exception as error:
        return "error", type(error).__name__
    finally:
        torch.set_default_dtype(before)


def plain(value: Any) -> Any:
    if isinstance(value, dict):
        return {k: plain(v) for k, v in value.items()}
    if isinstance(value, (tuple, list)):
        return [plain(v) for v in value]
    if hasattr(value, "detach"):
        value = value.detach()
        return np.asarray(value.resolve_conj().resolve_neg().numpy() if isinstance(value, torch.Tensor) else value._array)
    return value


def assert_same(theirs: Any, ours: Any, where: str = "") -> None:
    if isinstance(theirs, np.ndarray) and isinstance(ours, np.ndarray):
        assert theirs.shape == ours.shape, f"{where}: {theirs.shape} {ours.shape}"
        np.testing.assert_allclose(ours, theirs, rtol=1e-9, atol=1e-12, err_msg=where)
    elif isinstance(theirs, (list, tuple)) and isinstance(ours, (list, tuple)):
        assert len(theirs) == len(ours), f"{where}: {theirs} {ours}"
        for number, (a, b) in enumerate(zip(theirs, ours, strict=True)):
            assert_same(a, b, f"{where}[{number}]")
    else:
        assert theirs == ours, f"{where}: {theirs} {ours}"


def compare(program: Any) -> None:
    assert_same(outcome(program, torch), outcome(program, ndgrad), program.__name__)
