"""Typical lines of torch and NumPy programs, as their users write them. mypy --strict and pyright must accept the whole file, and the
types that it claims (`assert_type`) must be those that they see; a test runs it too.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, assert_type

import ndgrad
import ndgrad as torch
import ndgrad.nn.functional as F
import ndgrad.numpy as np
from ndgrad import Tensor, nn, optim
from ndgrad.func import grad, hessian, jacfwd, jacrev, jvp, vjp, vmap
from ndgrad.numpy import Array


def making() -> None:
    x = torch.tensor([1.0, 2.0], requires_grad=True)
    assert_type(x, Tensor)
    assert_type(torch.zeros(2, 3), Tensor)
    assert_type(torch.ones((2, 3), dtype=torch.float64), Tensor)
    assert_type(torch.full((2,), 3.0), Tensor)
    assert_type(torch.arange(5), Tensor)
    assert_type(torch.arange(0, 1, 0.1), Tensor)
    assert_type(torch.linspace(0, 1, 5), Tensor)
    assert_type(torch.eye(3), Tensor)
    assert_type(torch.randn(2, 3), Tensor)
    assert_type(torch.rand(2), Tensor)
    assert_type(torch.randint(0, 10, (3,)), Tensor)
    assert_type(torch.empty(2, 3), Tensor)
    assert_type(torch.zeros_like(x), Tensor)
    assert_type(torch.as_tensor([1.0]), Tensor)
    assert_type(torch.manual_seed(0), torch.Generator)
    assert_type(x.new_zeros(3), Tensor)
    assert_type(torch.from_numpy(x.detach().numpy()), Tensor)


def arithmetic(x: Tensor, y: Tensor) -> None:
    assert_type(x + y, Tensor)
    assert_type(x * 2.0, Tensor)
    assert_type(2.0 * x, Tensor)
    assert_type(1 - x, Tensor)
    assert_type(1.0 / x, Tensor)
    assert_type(x**2, Tensor)
    assert_type(2**x, Tensor)
    assert_type(-x, Tensor)
    assert_type(x @ y, Tensor)
    assert_type(x // 2, Tensor)
    assert_type(x % 2, Tensor)
    assert_type(x > 0, Tensor)
    assert_type(x == y, Tensor)
    assert_type((x > 0) & (y > 0), Tensor)
    assert_type(~(x > 0), Tensor)
    assert_type(abs(x), Tensor)
    z = x.clone()
    z += y
    z *= 2
    assert_type(z, Tensor)
    assert_type(x.sin(), Tensor)
    assert_type(torch.sin(x), Tensor)
    assert_type(torch.exp(x).log(), Tensor)
    assert_type(torch.where(x > 0, x, 0.0), Tensor)
    assert_type(torch.where(x > 0, x, y), Tensor)
    assert_type(torch.clamp(x, min=0), Tensor)
    assert_type(x.clamp(0, 1), Tensor)
    assert_type(torch.maximum(x, y), Tensor)
    assert_type(torch.add(x, y, alpha=0.5), Tensor)
    assert_type(x.add_(1.0), Tensor)
    assert_type(x.mul_(y).sub_(1), Tensor)
    assert_type(torch.allclose(x, y), bool)


def reducing(x: Tensor) -> None:
    assert_type(x.sum(), Tensor)
    assert_type(x.sum(dim=0), Tensor)
    assert_type(x.sum((0, 1), keepdim=True), Tensor)
    assert_type(x.mean(-1), Tensor)
    assert_type(x.std(), Tensor)
    assert_type(torch.var(x, dim=0), Tensor)
    assert_type(x.max(), Tensor)
    assert_type(x.max(dim=0).indices, Tensor)
    assert_type(x.max(dim=0).values, Tensor)
    values, indices = x.min(0)
    assert_type(values, Tensor)
    assert_type(indices, Tensor)
    assert_type(x.argmax(dim=1), Tensor)
    assert_type(torch.logsumexp(x, dim=-1), Tensor)
    assert_type(x.norm(), Tensor)
    assert_type(torch.linalg.norm(x), Tensor)
    assert_type(x.cumsum(0), Tensor)
    assert_type(torch.topk(x, 2).values, Tensor)
    assert_type(torch.sort(x, descending=True).indices, Tensor)
    assert_type(x.any(), Tensor)
    assert_type(x.all(dim=0), Tensor)
    assert_type(torch.prod(x), Tensor)
    number: float = x.sum().item()
    assert_type(float(x.sum()), float)
    assert_type(bool(number), bool)


def shaping(x: Tensor) -> None:
    assert_type(x.shape, torch.Size)
    assert_type(x.shape[0], int)
    assert_type(x.size(), torch.Size)
    assert_type(x.size(0), int)
    assert_type(x.dim(), int)
    assert_type(x.ndim, int)
    assert_type(x.numel(), int)
    assert_type(x.reshape(-1), Tensor)
    assert_type(x.view(2, -1), Tensor)
    assert_type(x.T, Tensor)
    assert_type(x.mT, Tensor)
    assert_type(x.t(), Tensor)
    assert_type(x.transpose(0, 1), Tensor)
    assert_type(x.permute(1, 0), Tensor)
    assert_type(x.unsqueeze(0).squeeze(0), Tensor)
    assert_type(x.expand(2, 3), Tensor)
    assert_type(x.flatten(), Tensor)
    assert_type(torch.cat([x, x], dim=0), Tensor)
    assert_type(torch.stack((x, x)), Tensor)
    a, b = x.chunk(2)
    assert_type(a, Tensor)
    assert_type(torch.split(x, 1)[0], Tensor)
    assert_type(x.unbind(0)[0], Tensor)
    assert_type(x.repeat(2, 1), Tensor)
    assert_type(x.flip(0), Tensor)
    assert_type(x[0], Tensor)
    assert_type(x[:, None, 1:], Tensor)
    assert_type(x[x > 0], Tensor)
    assert_type(x[..., -1], Tensor)
    x[0] = 1.0
    x[x < 0] = 0
    assert_type(x.gather(1, torch.zeros(2, 1, dtype=torch.int64)), Tensor)
    assert_type(torch.einsum("ij,kj->ik", x, x), Tensor)
    assert_type(torch.tril(x), Tensor)
    assert_type(x.diagonal(), Tensor)
    assert_type(len(x), int)
    for row in x:
        assert_type(row, Tensor)
    del b


def metadata(x: Tensor) -> None:
    assert_type(x.dtype, torch.dtype)
    assert_type(x.device, torch.device)
    assert_type(x.is_contiguous(), bool)
    assert_type(x.stride(), tuple[int, ...])
    assert_type(x.to(torch.float64), Tensor)
    assert_type(x.to("cpu"), Tensor)
    assert_type(x.float().double().half(), Tensor)
    assert_type(x.contiguous(), Tensor)
    assert_type(x.requires_grad, bool)
    assert_type(x.is_leaf, bool)
    assert_type(torch.is_tensor(x), bool)
    assert_type(x.tolist(), Any)
    print(x.numpy().mean(), repr(x), f"{x.sum():.3f}")


def gradients(x: Tensor) -> None:
    y = (x * x).sum()
    y.backward(retain_graph=True)
    print(x.grad.sum())
    (g,) = torch.autograd.grad(y, [x], create_graph=True)
    assert_type(g, Tensor)
    with torch.no_grad():
        x -= 0.1 * x.grad
    x.grad = None
    assert_type(x.detach(), Tensor)
    assert_type(x.requires_grad_(), Tensor)
    handle = x.register_hook(lambda g: g * 2)
    handle.remove()

    @torch.no_grad()
    def evaluate(a: Tensor) -> Tensor:
        return a * 2

    assert_type(evaluate(x), Tensor)


class Cube(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, x: Tensor) -> Tensor:
        ctx.save_for_backward(x)
        return x**3

    @staticmethod
    def backward(ctx: Any, g: Tensor) -> Tensor:
        (x,) = ctx.saved_tensors
        return 3 * g * x**2


def transforms(x: Tensor) -> None:
    def f(a: Tensor) -> Tensor:
        return (a.sin() ** 2).sum()

    print(grad(f)(x), jacrev(f)(x), jacfwd(f)(x), hessian(f)(x), vmap(torch.sin)(x))
    out, pull = vjp(f, x)
    value, tangent = jvp(f, (x,), (torch.ones_like(x),))
    print(out, pull(torch.ones(())), value, tangent, Cube.apply(x))


class Net(nn.Module):
    def __init__(self, width: int) -> None:
        super().__init__()
        self.hidden = nn.Linear(width, 8)
        self.norm = nn.LayerNorm(8)
        self.out = nn.Sequential(nn.Linear(8, 8), nn.ReLU(), nn.Dropout(0.1), nn.Linear(8, 2))
        self.scale = nn.Parameter(torch.ones(8))
        self.act = torch.tanh

    def forward(self, x: Tensor) -> Tensor:
        x = self.act(self.norm(self.hidden(x)) * self.scale)
        return self.out(F.relu(x))


def training() -> None:
    net = Net(3)
    optimizer = optim.Adam(net.parameters(), lr=1e-2)
    scheduler = optim.lr_scheduler.StepLR(optimizer, step_size=10)
    criterion = nn.CrossEntropyLoss()
    inputs, targets = torch.randn(4, 3), torch.randint(0, 2, (4,))
    for _ in range(2):
        optimizer.zero_grad()
        loss = criterion(net(inputs), targets)
        loss.backward()
        nn.utils.clip_grad_norm_(net.parameters(), 1.0)
        optimizer.step()
        scheduler.step()
    net.eval()
    assert_type(nn.Linear(3, 4)(inputs), Tensor)
    assert_type(F.softmax(inputs, dim=-1), Tensor)
    assert_type(F.mse_loss(inputs, inputs), Tensor)
    assert_type(F.cross_entropy(net(inputs), targets), Tensor)
    assert_type(sum(p.numel() for p in net.parameters()), int)
    net.load_state_dict(net.state_dict())
    net.to(torch.float64)


def numpy_face() -> None:
    x = np.array([1.0, 2.0, 3.0]).requires_grad_()
    assert_type(np.zeros(3), Array)
    assert_type(np.ones((2, 3), dtype=np.float32), Array)
    assert_type(np.arange(3), Array)
    assert_type(np.linspace(0.0, 1.0, 5), Array)
    assert_type(np.eye(2), Array)
    assert_type(x + 1, Array)
    assert_type(2 * x, Array)
    assert_type(1 / x, Array)
    assert_type(x**2, Array)
    assert_type(x > 1, Array)
    assert_type(np.sin(x), Array)
    assert_type(np.exp(-x), Array)
    assert_type(np.where(x > 0, x, 0.0), Array)
    assert_type(np.maximum(x, 0.0), Array)
    assert_type(np.sum(x), Array)
    assert_type(x.sum(), Array)
    assert_type(x.mean(axis=0), Array)
    assert_type(np.std(x), Array)
    assert_type(x.max(), Array)
    assert_type(x.reshape(3, 1), Array)
    assert_type(x.T, Array)
    assert_type(x[1:], Array)
    assert_type(np.concatenate([x, x]), Array)
    assert_type(np.stack([x, x]), Array)
    assert_type(np.dot(x, x), Array)
    assert_type(x @ x, Array)
    assert_type(np.linalg.norm(x), Array)
    assert_type(np.cumsum(x), Array)
    assert_type(np.sort(x), Array)
    assert_type(np.clip(x, 0, 1), Array)
    assert_type(x.astype(np.float32), Array)
    assert_type(x.copy(), Array)
    assert_type(x.shape[0], int)
    assert_type(x.size, int)
    assert_type(x.ndim, int)
    u = np.zeros(4)
    u[0] = x[0]
    u[1:] += x * x
    u.sum().backward()
    print(x.grad, np.pi, np.float64, np.newaxis)


def lifting() -> None:
    import numpy

    def f(x: Any, n: int = 2) -> Any:
        return numpy.sum(x**n)

    lifted: Callable[..., Any] = ndgrad.lift(f)
    print(lifted(np.array([1.0, 2.0]), n=3))


def everything() -> None:
    making()
    arithmetic(torch.ones(2, 2), torch.ones(2, 2))
    reducing(torch.ones(3, 3))
    shaping(torch.ones(2, 3))
    metadata(torch.ones(2, 3))
    gradients(torch.ones(3, requires_grad=True))
    transforms(torch.ones(3))
    training()
    numpy_face()
    lifting()
