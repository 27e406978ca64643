"""Steps of optimizers on a GPU: one kernel for all parameters, with the result of the CPU's."""

from __future__ import annotations

import numpy as np
import pytest

import ndgrad
from ndgrad import optim
from tests.gpu.comparison import draw

cupy = pytest.importorskip("cupy")

SHAPES = [(7,), (33, 5), (4096,), (130, 64)]
OPTIMIZERS = {
    "SGD": {"lr": 0.1}, "SGD momentum": {"lr": 0.1, "momentum": 0.9, "nesterov": True}, "Adam": {"lr": 0.01, "amsgrad": True},
    "AdamW": {"lr": 0.01, "maximize": True}, "Adagrad": {"lr": 0.1}, "RMSprop": {"lr": 0.01, "centered": True},
    "Adadelta": {}, "Adamax": {"lr": 0.01}, "NAdam": {"lr": 0.01}, "Rprop": {"lr": 0.01},
}  # fmt: skip


def trained(name, device, dtype, steps=4, **more):
    parameters = [ndgrad.tensor(draw(*shape), dtype=dtype, device=device).requires_grad_() for shape in SHAPES]
    optimizer = getattr(optim, name.split()[0])(parameters, **OPTIMIZERS[name], **more)
    for step in range(steps):
        optimizer.zero_grad()
        sum(((p - step) * p.detach().cos()).square().sum() for p in parameters).backward()
        optimizer.step()
    return optimizer, parameters


@pytest.mark.parametrize("dtype", [ndgrad.float32, ndgrad.float64], ids=str)
@pytest.mark.parametrize("name", OPTIMIZERS)
def test_steps_are_those_of_the_cpu(name, dtype):
    optimizer, got = trained(name, "cuda", dtype)
    _, want = trained(name, "cpu", dtype)
    tolerance = 1e-12 if dtype == ndgrad.float64 else 2e-4
    for g, w in zip(got, want, strict=True):
        np.testing.assert_allclose(g.detach().cpu().numpy(), w.detach().numpy(), rtol=tolerance, atol=tolerance)
    if ndgrad._src.arrays.device_kernels.kernels() is not None:
        assert optimizer._plans, "no kernel was used"


def test_halves_are_rounded_once():
    _, got = trained("AdamW", "cuda", ndgrad.bfloat16)
    _, want = trained("AdamW", "cpu", ndgrad.float32)
    for g, w in zip(got, want, strict=True):
        np.testing.assert_allclose(g.detach().cpu().float().numpy(), w.detach().numpy(), rtol=0.03, atol=0.03)


def test_parameters_that_overlap_take_the_ordinary_way():
    whole = ndgrad.tensor(draw(64), device="cuda")
    parts = [whole[:40].requires_grad_(), whole[20:].detach().requires_grad_()]
    optimizer = optim.SGD(parts, lr=0.5)
    for p in parts:
        p.grad = ndgrad.ones_like(p)
    before = whole.detach().cpu().numpy().copy()
    optimizer.step()
    expected = before.copy()
    expected[:40] -= 0.5
    expected[20:] -= 0.5
    np.testing.assert_allclose(whole.detach().cpu().numpy(), expected)
