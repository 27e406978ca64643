"""The same programs in bfloat16 and float16 through torch and ndgrad: dtypes, values, gradients of first and second order.

Both compute a kernel in single precision and round at its end, so results differ by a unit of the last place or two, where kernels are cut
differently.
"""

from __future__ import annotations

import numpy as np
import pytest
import torch

import ndgrad
from ndgrad._src.arrays.precision import finfo
from tests.extreme_programs import BINARY, UNARY, function

HALVES = ("bfloat16", "float16")
POINTS = [[0.25, -0.5, 0.875, 0.125], [-0.75, 0.375, 0.0625, -0.9375], [0.5, 0.625, -0.125, 0.3125]]


def array(t):
    return t.detach().double().numpy()


def run(lib, program, half, order=1):
    """The value, and the gradient (of a weighted sum of the gradient) of a program of one tensor."""
    x = lib.tensor(POINTS, dtype=lib.float64).to(getattr(lib, half)).requires_grad_()
    y = program(lib, x)
    if not y.requires_grad:
        return y, None
    weights = lib.tensor(np.linspace(0.5, 1.5, int(np.prod(y.shape))).reshape(tuple(y.shape))).to(y.dtype)
    (g,) = lib.autograd.grad(y, x, weights, create_graph=order > 1)
    if order > 1:
        (g,) = lib.autograd.grad((g * x.detach().flip(0)).sum(), x)
    return y, g


def assert_same(program, half, units=3.0, order=1):
    with np.errstate(all="ignore"):
        (value, grad), (want, want_grad) = run(ndgrad, program, half, order), run(torch, program, half, order)
    eps = float(finfo(getattr(ndgrad, half).numpy).eps)
    for what, got, expected in (("value", value, want), ("gradient", grad, want_grad)):
        if expected is None:
            continue
        assert str(got.dtype).removeprefix("ndgrad.") == str(expected.dtype).removeprefix("torch."), what
        got, expected = array(got), array(expected)
        scale = np.abs(expected[np.isfinite(expected)]).max(initial=0.0)
        np.testing.assert_allclose(got, expected, rtol=units * eps, atol=units * eps * scale, err_msg=what)


#: torch computes these in several rounded steps.
ROUGH = {"nn.functional.softsign": 6, "nn.functional.tanhshrink": 40, "sinc": 8, "logit": 8, "special.ndtr": 6, "special.i1": 8}


@pytest.mark.parametrize("half", HALVES)
@pytest.mark.parametrize("path", [p for p in UNARY if p != "sgn"])
def test_elementwise_function(path, half):
    shift = 2.0 if path == "acosh" else 0.0

    def program(lib, x):
        y = function(lib, path)(x.abs() if path in ("rsqrt", "log", "log2", "log10") else x + shift if shift else x)
        return y.detach() if path.startswith("special.bessel") or "modified" in path else y  # torch has no derivative

    try:
        run(torch, program, half)
    except (RuntimeError, NotImplementedError):
        pytest.skip("torch has no kernel for it")
    assert_same(program, half, units=ROUGH.get(path, 3))


@pytest.mark.parametrize("half", HALVES)
@pytest.mark.parametrize("path", [p for p in BINARY if p not in ("ldexp", "pow")])
def test_elementwise_function_of_two(path, half):
    assert_same(lambda lib, x: function(lib, path)(x, x.flip(0)), half, units=6)


F = "nn.functional"
PROGRAMS = {
    "a cast keeps the graph": lambda lib, x: x.to(lib.float32) * 3,
    "a cast from float32": lambda lib, x: (x.float() * 1.5).to(x.dtype),
    "number": lambda lib, x: x * 2.5 + 1,
    "number on the left": lambda lib, x: 2.5 - x,
    "power": lambda lib, x: x.abs() ** 2.5,
    "power of a number": lambda lib, x: 2.0**x,
    "sum": lambda lib, x: x.sum(),
    "sum along": lambda lib, x: x.sum(0),
    "sum in float32": lambda lib, x: x.sum(dtype=lib.float32),
    "mean": lambda lib, x: x.mean(),
    "mean along": lambda lib, x: x.mean(1, keepdim=True),
    "prod": lambda lib, x: x.prod(1),
    "var": lambda lib, x: x.var(1),
    "std": lambda lib, x: x.std(),
    "norm": lambda lib, x: x.norm(),
    "norm of order 3": lambda lib, x: lib.linalg.vector_norm(x, 3, dim=1),
    "amax": lambda lib, x: x.amax(1),
    "max": lambda lib, x: x.max(0)[0],
    "median": lambda lib, x: x.median(1)[0],
    "sort": lambda lib, x: x.sort(1)[0],
    "topk": lambda lib, x: x.topk(2)[0],
    "cumsum": lambda lib, x: x.cumsum(1),
    "cumprod": lambda lib, x: x.cumprod(1),
    "logsumexp": lambda lib, x: lib.logsumexp(x, 1),
    "softmax": lambda lib, x: x.softmax(1),
    "log_softmax": lambda lib, x: x.log_softmax(1),
    "matmul": lambda lib, x: x @ x.T,
    "einsum": lambda lib, x: lib.einsum("ij,kj->ik", x, x),
    "vector": lambda lib, x: x[0] @ x[1],
    "broadcast": lambda lib, x: x + x[0] * x[:, :1],
    "index": lambda lib, x: x[[0, 0, 2], 1:],
    "gather": lambda lib, x: x.gather(1, lib.tensor([[0, 1], [2, 2], [3, 0]])),
    "index_add": lambda lib, x: lib.zeros_like(x).index_add(0, lib.tensor([0, 0, 1]), x),
    "cat and split": lambda lib, x: lib.cat(lib.cat([x, x * 2], 1).split(3, 1)[:2], 0),
    "where": lambda lib, x: lib.where(x > 0, x, x * 0.1),
    "masked_fill": lambda lib, x: x.masked_fill(x > 0.5, 0.25),
    "clamp": lambda lib, x: x.clamp(-0.5, 0.5),
    "pad": lambda lib, x: lib.nn.functional.pad(x, (1, 1), value=2.0),
    "layer_norm": lambda lib, x: lib.nn.functional.layer_norm(x, (4,)),
    "group_norm": lambda lib, x: lib.nn.functional.group_norm(x[..., None], 1),
    "batch_norm": lambda lib, x: lib.nn.functional.batch_norm(x, None, None, training=True),
    "rms_norm": lambda lib, x: lib.nn.functional.rms_norm(x, (4,)),
    "linear": lambda lib, x: lib.nn.functional.linear(x, x, x[:, 0]),
    "conv1d": lambda lib, x: lib.nn.functional.conv1d(x[None], x[None, :, :2], padding=1),
    "conv2d": lambda lib, x: lib.nn.functional.conv2d(x[None, None], x[None, None, :2, :2]),
    "max_pool1d": lambda lib, x: lib.nn.functional.max_pool1d(x[None], 2),
    "avg_pool1d": lambda lib, x: lib.nn.functional.avg_pool1d(x[None], 2),
    "attention": lambda lib, x: lib.nn.functional.scaled_dot_product_attention(x[None], x[None], x[None]),
    "cross_entropy": lambda lib, x: lib.nn.functional.cross_entropy(x, lib.tensor([0, 3, 1])),
    "mse_loss": lambda lib, x: lib.nn.functional.mse_loss(x, x.detach().flip(0)),
    "with_logits": lambda lib, x: lib.nn.functional.binary_cross_entropy_with_logits(x, (x.detach() > 0).to(x.dtype)),
    "embedding": lambda lib, x: lib.nn.functional.embedding(lib.tensor([0, 2, 0]), x),
}


@pytest.mark.parametrize("half", HALVES)
@pytest.mark.parametrize("name", PROGRAMS)
def test_program(name, half):
    assert_same(PROGRAMS[name], half, units=6)


@pytest.mark.parametrize("half", HALVES)
@pytest.mark.parametrize("name", ["power", "softmax", "layer_norm", "matmul", "cross_entropy", "var", "logsumexp", "norm"])
def test_second_derivative(name, half):
    # torch rounds each step of a double backward, so the last digits are not the same
    assert_same(PROGRAMS[name], half, units=16, order=2)


@pytest.mark.parametrize("half", HALVES)
def test_a_module_in_half_precision_learns(half):
    def losses(lib):
        model = lib.nn.Sequential(lib.nn.Linear(4, 3), lib.nn.Tanh(), lib.nn.LayerNorm(3), lib.nn.Linear(3, 1)).to(getattr(lib, half))
        with lib.no_grad():
            for p in model.parameters():
                p.copy_(lib.tensor(np.cos(np.arange(np.prod(tuple(p.shape)))).reshape(tuple(p.shape))).to(p.dtype))
        x = lib.tensor(POINTS, dtype=lib.float64).to(getattr(lib, half))
        y = x.sum(1, keepdim=True)
        optimizer = lib.optim.SGD(model.parameters(), lr=0.1)
        seen = []
        for _ in range(5):
            optimizer.zero_grad()
            loss = lib.nn.functional.mse_loss(model(x), y)
            loss.backward()
            assert all(p.grad.dtype == p.dtype for p in model.parameters())
            optimizer.step()
            seen.append(float(loss))
        return seen

    np.testing.assert_allclose(losses(ndgrad), losses(torch), rtol=0.1 if half == "bfloat16" else 0.02)
    assert losses(ndgrad)[-1] < losses(ndgrad)[0]


@pytest.mark.parametrize("half", HALVES)
@pytest.mark.parametrize("transform", ["jvp", "vmap of grad", "jacrev", "hessian"])
def test_transform(transform, half):
    def run(lib):
        x = lib.tensor([0.25, -0.5, 0.75], dtype=lib.float64).to(getattr(lib, half))

        def f(v):
            return (v.tanh() * v).sum() + v.softmax(0)[0] * 2.0

        if transform == "jvp":
            return lib.func.jvp(f, (x,), (lib.ones_like(x),))[1]
        if transform == "vmap of grad":
            return lib.vmap(lib.func.grad(f))(lib.stack([x, x * 0.5]))
        return (lib.func.jacrev if transform == "jacrev" else lib.func.hessian)(f)(x)

    got, want = run(ndgrad), run(torch)
    assert str(got.dtype).endswith(half)
    eps = float(finfo(getattr(ndgrad, half).numpy).eps)
    np.testing.assert_allclose(array(got), array(want), rtol=16 * eps, atol=16 * eps)
