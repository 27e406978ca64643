"""Mixed precision on a GPU: autocast, custom functions, gradient scaling, halves that are summed in single precision, TF32."""

from __future__ import annotations

import numpy as np
import pytest

import ndgrad
import ndgrad.nn.functional as F
from ndgrad import nn, optim
from ndgrad._src.arrays import device_kernels
from tests.gpu.comparison import draw

cupy = pytest.importorskip("cupy")
HALVES = pytest.mark.parametrize("dtype", [ndgrad.float16, ndgrad.bfloat16], ids=str)


def parts(device, dtype):
    model = nn.Sequential(nn.Linear(8, 16), nn.GELU(), nn.LayerNorm(16), nn.Linear(16, 3)).to(device).float()
    with ndgrad.no_grad():
        for p in model.parameters():
            p.copy_(ndgrad.tensor(draw(*p.shape), dtype=ndgrad.float32))
    optimizer = optim.SGD(model.parameters(), lr=0.1)
    scaler = ndgrad.amp.GradScaler(device, init_scale=1024.0, enabled=dtype is ndgrad.float16)
    return model, optimizer, scaler


@HALVES
def test_training_under_autocast_follows_the_cpu(dtype):
    def train(device):
        model, optimizer, scaler = parts(device, dtype)
        x, y = ndgrad.tensor(draw(32, 8), dtype=ndgrad.float32, device=device), ndgrad.tensor(np.arange(32) % 3, device=device)
        losses = []
        for _ in range(5):
            optimizer.zero_grad()
            with ndgrad.autocast(device, dtype=dtype):
                scores = model(x)
                assert scores.dtype is dtype
                loss = F.cross_entropy(scores, y)
                assert loss.dtype is ndgrad.float32
            scaler.scale(loss).backward()
            scaler.step(optimizer)
            scaler.update()
            losses.append(loss.item())
        assert all(p.grad.dtype is ndgrad.float32 for p in model.parameters())
        return losses, [p.detach().cpu().numpy() for p in model.parameters()]

    got, want = train("cuda"), train("cpu")
    np.testing.assert_allclose(got[0], want[0], rtol=0.03)
    assert got[0][-1] < got[0][0]
    for g, w in zip(got[1], want[1], strict=True):
        np.testing.assert_allclose(g, w, atol=0.03)


def test_an_overflow_is_no_step_and_a_smaller_scale():
    w = ndgrad.ones(4, device="cuda", dtype=ndgrad.float32, requires_grad=True)
    optimizer, scaler = optim.SGD([w], lr=1.0), ndgrad.amp.GradScaler("cuda", init_scale=2.0**16)
    with ndgrad.autocast("cuda", dtype=ndgrad.float16):
        loss = (w.half() * 100.0).sum()
    scaler.scale(loss).backward()  # 6.5e6 is more than a half can hold
    scaler.step(optimizer)
    scaler.update()
    assert w.detach().cpu().tolist() == [1.0] * 4
    assert scaler.get_scale() == 2.0**15


@HALVES
def test_custom_functions_say_their_dtype(dtype):
    seen = []

    class Single(ndgrad.autograd.Function):
        @staticmethod
        @ndgrad.amp.custom_fwd(device_type="cuda", cast_inputs=ndgrad.float32)
        def forward(ctx, x):
            seen.append((x.dtype, ndgrad.is_autocast_enabled("cuda")))
            return x * 2

        @staticmethod
        @ndgrad.amp.custom_bwd(device_type="cuda")
        def backward(ctx, g):
            seen.append((g.dtype, ndgrad.is_autocast_enabled("cuda")))
            return g * 2

    x = ndgrad.ones(3, 3, device="cuda", dtype=ndgrad.float32, requires_grad=True)
    with ndgrad.autocast("cuda", dtype=dtype):
        y = x @ x
        assert y.dtype is dtype
        Single.apply(y).sum().backward()
    assert seen == [(ndgrad.float32, False), (ndgrad.float32, False)]
    assert x.grad.dtype is ndgrad.float32
    np.testing.assert_allclose(x.grad.cpu().numpy(), 12.0)


@HALVES
def test_halves_are_summed_in_single_precision(dtype):
    """4096 ones after a 4096 would be lost in either half, one by one."""
    x = ndgrad.ones(1 << 13, device="cuda", dtype=dtype)
    assert x.sum().item() == 1 << 13
    assert x.reshape(2, -1).sum(1).tolist() == [1 << 12] * 2
    assert x.reshape(-1, 2).sum(0).tolist() == [1 << 12] * 2
    assert x.mean().item() == 1.0
    assert (x.reshape(1, -1) @ x.reshape(-1, 1)).item() == 1 << 13
    assert F.layer_norm(x.reshape(2, -1), (1 << 12,)).abs().max().item() == 0.0
    assert F.softmax(x.reshape(2, -1).float() * 0, 1).sum().item() == 2.0


@pytest.mark.skipif(device_kernels.kernels() is None, reason="a matter of tensor cores")
def test_products_round_to_tf32_only_if_they_may():
    a, b = (ndgrad.tensor(draw(256, 300 + k)[:, :256], device="cuda", dtype=ndgrad.float32) for k in range(2))
    exact = a.cpu().double() @ b.cpu().double()
    errors = []
    for allowed in (False, True, False):
        ndgrad.backends.cuda.matmul.allow_tf32 = allowed
        try:
            made = (a @ b).cpu().double()
        finally:
            ndgrad.backends.cuda.matmul.allow_tf32 = False
        errors.append(float((made - exact).abs().max() / exact.abs().max()))
    assert max(errors[0], errors[2]) < 1e-6 < 1e-5 < errors[1] < 1e-2
