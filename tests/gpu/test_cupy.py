"""The same programs on CuPy arrays: values and gradients equal those on NumPy's. Needs CuPy and a GPU."""

from __future__ import annotations

import numpy as np
import pytest

import ndgrad
from ndgrad import func

cupy = pytest.importorskip("cupy")

X = np.random.default_rng(0).standard_normal((4, 3))


def gradients(program, device):
    x = ndgrad.tensor(X, device=device, requires_grad=True)
    out = program(x)
    (g,) = ndgrad.autograd.grad(out, x, create_graph=True)
    (h,) = ndgrad.autograd.grad((g * g).sum(), x) if g.requires_grad else (g * 0.0,)
    return [np.asarray(t.detach().cpu().numpy()) for t in (out, g, h)]


def buffer(x):
    u = ndgrad.zeros(4, device=x.device)
    u[0] = x[0, 0] * 2.0
    u[1:3] = x[1:3, 1].exp()
    return (u * x[:, 2]).sum()


def inplace(x):
    y = x * 1.0
    y[0].mul_(3.0)
    y.add_(1.0)
    return (y.sin() * x).sum()


PROGRAMS = {
    "elementwise": lambda x: (x.sin() * x.exp() + x.tanh() / (x * x + 1.0)).sum(),
    "reduction": lambda x: (x.mean(0) * x.sum(0).sigmoid()).sum() + x.logsumexp(1).sum() + x.amax(),
    "view": lambda x: (x.t().reshape(2, 6)[1] ** 2.0).sum(),
    "matmul": lambda x: (x @ x.t() @ x).sum(),
    "indexing": lambda x: (x[ndgrad.tensor([0, 2, 2], device=x.device)] ** 3.0).sum(),
    "write": buffer,
    "in place": inplace,
    "several outputs": lambda x: sum((a * b).sum() for a, b in zip(x.unbind(0), x.unbind(0)[::-1], strict=True)),
    "softmax": lambda x: (x.softmax(1) * x).sum(),
    "where": lambda x: ndgrad.where(x > 0, x * x, x.exp()).sum(),
}


@pytest.mark.parametrize("name", PROGRAMS)
def test_program_on_the_gpu_equals_the_cpu(name):
    for got, want in zip(gradients(PROGRAMS[name], "cuda"), gradients(PROGRAMS[name], "cpu"), strict=True):
        np.testing.assert_allclose(got, want, rtol=1e-9, atol=1e-9)


def test_transforms_on_the_gpu():
    x = ndgrad.tensor(X, device="cuda")

    def f(row):
        return (row.sin() * row.cumsum(0)).sum()

    got = func.vmap(func.hessian(f))(x).cpu().numpy()
    want = func.vmap(func.hessian(f))(x.cpu()).numpy()
    np.testing.assert_allclose(got, want, rtol=1e-9, atol=1e-9)


def test_random_numbers_and_backward_accumulate_on_the_gpu():
    x = ndgrad.randn(5, device="cuda", requires_grad=True)
    for _ in range(2):
        (x * x).sum().backward()
    assert x.grad.device.type == "cuda"
    np.testing.assert_allclose(x.grad.cpu().numpy(), 4 * x.detach().cpu().numpy())
