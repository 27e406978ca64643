"""utils.data beside torch's: what does not depend on random numbers."""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
import pytest
import torch

import ndgrad


class Pair(NamedTuple):
    x: Any
    y: Any


def plain(value):
    if isinstance(value, (torch.Tensor, ndgrad.Tensor)):
        return (str(value.dtype).rpartition(".")[2], value.tolist())
    if isinstance(value, dict):
        return {k: plain(v) for k, v in value.items()}
    if isinstance(value, (list, tuple)):
        return (type(value).__name__, [plain(v) for v in value])
    return value


SAMPLES = [
    lambda m: [1, 2],
    lambda m: [1.5, 2.5],
    lambda m: [True, False],
    lambda m: ["a", "b"],
    lambda m: [m.ones(2), m.zeros(2)],
    lambda m: [np.ones(2), np.zeros(2)],
    lambda m: [np.float32(1.5), np.float32(2.5)],
    lambda m: [(1, "a"), (2, "b")],
    lambda m: [[1, 2.0], [3, 4.0]],
    lambda m: [Pair(1, 2.0), Pair(3, 4.0)],
    lambda m: [{"x": 1, "y": (2.0, m.ones(1))}, {"x": 3, "y": (4.0, m.zeros(1))}],
]


@pytest.mark.parametrize("number", range(len(SAMPLES)))
def test_collate_and_convert(number):
    make = SAMPLES[number]
    ndgrad.set_default_dtype(ndgrad.float32)
    for name in ("default_collate", "default_convert"):
        assert plain(getattr(ndgrad.utils.data, name)(make(ndgrad))) == plain(getattr(torch.utils.data, name)(make(torch)))


@pytest.mark.parametrize("options", [{}, {"drop_last": True}, {"batch_size": None}, {"batch_size": 4}, {"sampler": [3, 1, 2]}])
@pytest.mark.parametrize("workers", [0, 1])
def test_loaders(options, workers):
    def batches(m):
        data = m.utils.data.TensorDataset(m.arange(10).reshape(5, 2), m.arange(5))
        loader = m.utils.data.DataLoader(data, **{"batch_size": 2, **options}, num_workers=workers)
        return len(loader), [plain(list(b)) for b in loader]

    assert batches(ndgrad) == batches(torch)
