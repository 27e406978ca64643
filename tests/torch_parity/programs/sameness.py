"""Whether two results are the same but for the library: values, shapes, dtypes, structures, kinds of error."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
import torch

import ndgrad


def same(theirs: Any, ours: Any, where: str = "result", slack: float = 1.0) -> None:
    """`slack` multiplies the tolerances, where torch computes by approximations."""
    if isinstance(theirs, torch.Tensor):
        assert isinstance(ours, ndgrad.Tensor), f"{where}: torch {theirs!r}, ndgrad {ours!r}"
        assert tuple(ours.shape) == tuple(theirs.shape), f"{where}: shape {tuple(ours.shape)}, torch {tuple(theirs.shape)}"
        assert str(ours.dtype).split(".")[-1] == str(theirs.dtype).split(".")[-1], f"{where}: {ours.dtype}, torch {theirs.dtype}"
        assert ours.requires_grad == theirs.requires_grad, f"{where}: requires_grad"
        expected = theirs.detach().resolve_conj().resolve_neg().numpy()
        single = expected.dtype in (np.float32, np.complex64)
        rtol, atol = (1e-5, 1e-6) if single else (1e-8, 1e-10)
        np.testing.assert_allclose(ours.detach().numpy(), expected, err_msg=where, rtol=slack * rtol, atol=slack * atol)
    elif isinstance(theirs, dict):
        assert isinstance(ours, dict), f"{where}: torch {theirs!r}, ndgrad {ours!r}"
        assert list(ours) == list(theirs), f"{where}: torch {theirs!r}, ndgrad {ours!r}"
        for key in theirs:
            same(theirs[key], ours[key], f"{where}[{key!r}]", slack)
    elif isinstance(theirs, (tuple, list)):
        assert isinstance(ours, list if isinstance(theirs, list) else tuple), f"{where}: torch {theirs!r}, ndgrad {ours!r}"
        assert len(ours) == len(theirs), f"{where}: torch {theirs!r}, ndgrad {ours!r}"
        for i, (a, b) in enumerate(zip(theirs, ours, strict=True)):
            same(a, b, f"{where}[{i}]", slack)
    elif isinstance(theirs, BaseException):
        expected = ndgrad.linalg.LinAlgError if isinstance(theirs, torch.linalg.LinAlgError) else type(theirs)
        assert isinstance(ours, expected), f"{where}: torch {theirs!r}, ndgrad {ours!r}"
    elif isinstance(theirs, float):
        assert type(ours) is float, f"{where}: {ours!r}"
        assert ours == pytest.approx(theirs, rel=1e-9, nan_ok=True), where
    else:
        assert ours == theirs, f"{where}: torch {theirs!r}, ndgrad {ours!r}"
