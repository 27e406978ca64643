"""CUDA graphs: recorded steps do what steps do, and what cannot be recorded says so."""

from __future__ import annotations

import numpy as np
import pytest

import ndgrad
import ndgrad.nn.functional as F
from ndgrad import nn, optim
from tests.gpu.comparison import draw

cupy = pytest.importorskip("cupy")
if ndgrad._src.arrays.device_kernels.kernels() is None:
    pytest.skip("there are no kernels that can be recorded", allow_module_level=True)


def parts(name="AdamW", dtype=ndgrad.float32):
    model = nn.Sequential(nn.Linear(8, 16), nn.GELU(), nn.LayerNorm(16), nn.Linear(16, 3)).to("cuda").to(dtype)
    with ndgrad.no_grad():
        for p in model.parameters():
            p.copy_(ndgrad.tensor(draw(*p.shape), dtype=dtype))
    optimizer = getattr(optim, name)(model.parameters(), lr=0.05)
    x, y = ndgrad.tensor(draw(32, 8), dtype=dtype, device="cuda"), ndgrad.tensor(np.arange(32) % 3, device="cuda")

    def step():
        optimizer.zero_grad()
        loss = F.cross_entropy(model(x), y)
        loss.backward()
        optimizer.step()
        return loss

    return model, optimizer, x, y, step


@pytest.mark.parametrize("name", ["AdamW", "SGD", "NAdam", "RMSprop"])
def test_a_recorded_training_step_is_the_step(name):
    model, optimizer, x, _, step = parts(name)
    want_model, want_optimizer, want_x, _, want_step = parts(name)
    for _ in range(3):
        step()
        want_step()
    g = ndgrad.cuda.CUDAGraph()
    before = [p.detach().cpu().numpy().copy() for p in model.parameters()]
    with ndgrad.cuda.graph(g):
        loss = step()
    for p, b in zip(model.parameters(), before, strict=True):
        np.testing.assert_array_equal(p.detach().cpu().numpy(), b)  # recorded, not run
    for i in range(5):
        for one in (x, want_x):
            one.copy_(ndgrad.tensor(draw(32, 8) + i, dtype=ndgrad.float32, device="cuda"))
        for one in (optimizer, want_optimizer):
            one.param_groups[0]["lr"] = 0.05 / (1 + i)
        g.replay()
        want = want_step()
        assert abs(loss.item() - want.item()) < 1e-5
    for p, w in zip(model.parameters(), want_model.parameters(), strict=True):
        np.testing.assert_allclose(p.detach().cpu().numpy(), w.detach().cpu().numpy(), atol=2e-5)
    step()  # as it is, after replays: the state goes on where they have left it
    want_step()
    for p, w in zip(model.parameters(), want_model.parameters(), strict=True):
        np.testing.assert_allclose(p.detach().cpu().numpy(), w.detach().cpu().numpy(), atol=2e-5)


def test_convolution_and_attention_are_recorded():
    q = ndgrad.tensor(draw(2, 4, 64, 16), dtype=ndgrad.bfloat16, device="cuda", requires_grad=True)
    x = ndgrad.tensor(draw(2, 3, 16, 16), dtype=ndgrad.float32, device="cuda", requires_grad=True)
    w = ndgrad.tensor(draw(4, 3, 3, 3), dtype=ndgrad.float32, device="cuda", requires_grad=True)

    def step():
        q.grad = x.grad = w.grad = None
        out = F.scaled_dot_product_attention(q, q, q, is_causal=True).float().square().sum()
        out = out + F.max_pool2d(F.conv2d(x, w, padding=1), 2).sum()
        out.backward()
        return out, q.grad, w.grad

    want = [t.detach().float().cpu().numpy() for t in (step(), step())[1]]
    g = ndgrad.cuda.CUDAGraph()
    with ndgrad.cuda.graph(g):
        got = step()
    g.replay()
    for a, b in zip(got, want, strict=True):
        np.testing.assert_allclose(a.detach().float().cpu().numpy(), b, rtol=2e-2, atol=2e-2)


def test_what_cannot_be_recorded_says_so_and_leaves_all_as_it_was():
    model, _, x, _, step = parts()
    step()
    for wrong in (lambda: x.sum().item(), lambda: ndgrad.randn(3, device="cuda", generator=ndgrad.Generator()),
                  lambda: ndgrad.tensor([1.0]).to("cuda"), lambda: print(x)):  # fmt: skip
        with pytest.raises(RuntimeError), ndgrad.cuda.graph(ndgrad.cuda.CUDAGraph()):
            wrong()
        assert not ndgrad.cuda.is_current_stream_capturing()
        step()
    fresh = optim.Adam(model.parameters(), lr=0.1)
    with pytest.raises(RuntimeError, match="Run the step a few times first"), ndgrad.cuda.graph(ndgrad.cuda.CUDAGraph()):
        fresh.step()
    assert np.isfinite(step().item())


def test_an_index_out_of_bounds_in_a_replay_is_told():
    model, _, _, y, step = parts()
    step()
    g = ndgrad.cuda.CUDAGraph()
    with ndgrad.cuda.graph(g):
        step()
    g.replay()
    y.fill_(7)
    before = [p.detach().cpu().numpy().copy() for p in model.parameters()]
    g.replay()
    with pytest.raises(IndexError, match="Target 7 is out of bounds for 3 classes"):
        ndgrad.cuda.synchronize()
    for p, b in zip(model.parameters(), before, strict=True):
        np.testing.assert_array_equal(p.detach().cpu().numpy(), b)
    y.fill_(1)
    g.replay()
    ndgrad.cuda.synchronize()


def test_mistakes_in_use():
    g = ndgrad.cuda.CUDAGraph()
    with pytest.raises(RuntimeError, match="holds no recording"):
        g.replay()
    with pytest.raises(RuntimeError, match="without capture_begin"):
        g.capture_end()
    with pytest.raises(RuntimeError, match="non-default stream"):
        g.capture_begin()
