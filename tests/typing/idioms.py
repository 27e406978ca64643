"""Typical lines of torch and NumPy programs, as their users write them. mypy --strict and pyright must accept the whole file, and the
types that it claims (`assert_type`) must be those that they see; a test runs it too.
"""

from __future__ import annotations

from typing import Any, assert_type

import ndgrad
import ndgrad as torch
import ndgrad.nn.functional as F
import ndgrad.numpy as np
from ndgrad import Tensor, nn, optim
from ndgrad.autograd.function import Context, FunctionCtx
from ndgrad.func import grad, hessian, jacfwd, jacrev, jvp, vjp, vmap
from ndgrad.numpy import Array
from ndgrad.utils.checkpoint import checkpoint
from ndgrad.utils.data import DataLoader, TensorDataset


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
    assert_type(x.sum().item(), int | float | bool)
    losses: list[float] = []
    losses.append(x.sum().item())
    best = min(losses)
    if x.mean().item() < best and round(x.max().item(), 3) > 0:
        print(f"{x.sum().item():.3f}", int(x.argmax().item()), abs(x.min().item()))
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
        x: Tensor = ctx.saved_tensors[0]
        return 3 * g * x**2


class Scale(torch.autograd.Function):
    @staticmethod
    def forward(ctx: FunctionCtx, x: Tensor, factor: float) -> Tensor:
        ctx.save_for_backward(x)
        ctx.factor = factor
        return x * factor

    @staticmethod
    def backward(ctx: FunctionCtx, g: Tensor) -> tuple[Tensor | None, None]:
        assert_type(ctx.saved_tensors, tuple[Tensor, ...])
        assert_type(ctx.needs_input_grad, tuple[bool, ...])
        (x,) = ctx.saved_tensors
        assert_type(x, Tensor)
        return (g * ctx.factor if ctx.needs_input_grad[0] else None), None


class Halve(torch.autograd.Function):
    @staticmethod
    def forward(x: Tensor) -> Tensor:
        return x / 2

    @staticmethod
    def setup_context(ctx: Context, inputs: tuple[Tensor], output: Tensor) -> None:
        ctx.save_for_backward(output)
        ctx.shape = output.shape

    @staticmethod
    def backward(ctx: Context, g: Tensor) -> Tensor:
        assert_type(ctx.saved_tensors, tuple[Tensor, ...])
        return g.reshape(ctx.shape) / 2


def transforms(x: Tensor) -> None:
    def f(a: Tensor) -> Tensor:
        return (a.sin() ** 2).sum()

    def power(a: Tensor, n: int = 2) -> Tensor:
        return (a**n).sum()

    def of_weights(weights: dict[str, Tensor], a: Tensor) -> Tensor:
        return (weights["w"] * a).sum()

    assert_type(grad(f)(x), Tensor)
    assert_type(grad(power)(x, 3), Tensor)
    assert_type(grad(of_weights)({"w": x}, x), dict[str, Tensor])
    assert_type(grad(grad(lambda a: a**3))(torch.tensor(2.0)), Any)
    assert_type(torch.func.grad_and_value(f)(x), tuple[Tensor, Tensor])
    assert_type(jacrev(f)(x), Tensor)
    assert_type(jacfwd(f)(x), Tensor)
    assert_type(hessian(f)(x), Tensor)
    assert_type(vmap(f)(x), Tensor)
    assert_type(vmap(power, in_dims=(0, None))(x, 3), Tensor)
    assert_type(vmap(torch.sin)(x), Tensor)
    out, pull = vjp(f, x)
    assert_type(out, Tensor)
    assert_type(pull(torch.ones(())), tuple[Tensor])
    value, tangent = jvp(f, (x,), (torch.ones_like(x),))
    assert_type(tangent, Tensor)
    assert_type(torch.func.hvp(f, (x,), (x,)), Tensor)
    print(value, Cube.apply(x), vmap(grad(lambda a, b: (a * b).sum()), in_dims=(0, None))(x, torch.tensor(2.0)))


def domains(x: Tensor) -> None:
    assert_type(torch.fft.fft(x), Tensor)
    assert_type(torch.fft.irfft(torch.fft.rfft(x), n=4), Tensor)
    assert_type(torch.fft.fft2(torch.ones(2, 2), norm="ortho"), Tensor)
    assert_type(torch.fft.fftfreq(4), Tensor)
    assert_type(torch.fft.fftshift(x), Tensor)
    assert_type(torch.special.erf(x), Tensor)
    assert_type(torch.special.gammaln(x), Tensor)
    assert_type(torch.special.expit(x), Tensor)
    assert_type(torch.special.xlogy(x, x), Tensor)
    a = torch.eye(3) * 2
    assert_type(torch.linalg.inv(a), Tensor)
    assert_type(torch.linalg.solve(a, x[:3]), Tensor)
    assert_type(torch.linalg.cholesky(a), Tensor)
    assert_type(torch.linalg.svd(a).S, Tensor)
    assert_type(torch.linalg.eigh(a).eigenvalues, Tensor)
    u, s, vh = torch.linalg.svd(a, full_matrices=False)
    assert_type(u @ torch.diag(s) @ vh, Tensor)
    assert_type(torch.linalg.qr(a).Q, Tensor)
    assert_type(torch.linalg.det(a), Tensor)
    assert_type(torch.linalg.slogdet(a).logabsdet, Tensor)
    assert_type(torch.linalg.matrix_norm(a), Tensor)


def numpy_names(x: Tensor) -> None:
    assert_type(x.sum(axis=0), Tensor)
    assert_type(x.mean(axis=(0, 1), keepdims=True), Tensor)
    assert_type(torch.sum(x, axis=1), Tensor)
    assert_type(x.max(axis=0).values, Tensor)
    assert_type(torch.stack([x, x], axis=1), Tensor)
    assert_type(torch.absolute(x), Tensor)
    assert_type(torch.concat([x, x]), Tensor)


def modules(x: Tensor) -> None:
    images = torch.randn(2, 3, 8, 8)
    assert_type(nn.Conv2d(3, 4, kernel_size=3, padding=1)(images), Tensor)
    assert_type(nn.MaxPool2d(2)(images), Tensor)
    assert_type(nn.BatchNorm2d(3)(images), Tensor)
    assert_type(nn.Flatten()(images), Tensor)
    assert_type(nn.Embedding(10, 4)(torch.tensor([1, 2])), Tensor)
    sequence = torch.randn(5, 2, 3)
    output, (h, c) = nn.LSTM(3, 4)(sequence)
    assert_type(output, Tensor)
    assert_type(h, Tensor)
    assert_type(c, Tensor)
    steps, last = nn.GRU(3, 4)(sequence)
    assert_type(last, Tensor)
    attended, weights = nn.MultiheadAttention(4, 2)(steps, steps, steps)
    assert_type(attended, Tensor)
    assert_type(nn.MSELoss()(x, x), Tensor)
    assert_type(nn.Sequential(nn.Linear(3, 4), nn.Tanh())(x), Tensor)
    assert_type(len(nn.ModuleList([nn.Linear(3, 3)])), int)
    assert_type(nn.Linear(3, 4).weight, nn.Parameter)
    assert_type(F.conv2d(images, torch.ones(4, 3, 3, 3)), Tensor)
    assert_type(F.one_hot(torch.tensor([0, 1]), 3), Tensor)
    assert_type(F.scaled_dot_product_attention(steps, steps, steps), Tensor)
    assert_type(F.dropout(x, 0.5, training=True), Tensor)
    assert_type(F.layer_norm(x, (3,)), Tensor)
    assert_type(nn.init.xavier_uniform_(torch.empty(3, 3)), Tensor)
    print(weights)


def saving(x: Tensor) -> None:
    def block(a: Tensor) -> Tensor:
        return a.sin().cos()

    assert_type(checkpoint(block, x, use_reentrant=False), Tensor)

    def pack(t: Tensor) -> Tensor:
        return t

    with torch.autograd.graph.saved_tensors_hooks(pack, pack):
        y = (x * x).sum()
    y.backward()
    assert y.grad_fn.name() == "SumBackward0"
    print(y.grad_fn.next_functions[0][0].name())
    with torch.autograd.forward_ad.dual_level():
        dual = torch.autograd.forward_ad.make_dual(x.detach(), torch.ones_like(x))
        print(torch.autograd.forward_ad.unpack_dual(dual).tangent)
    assert_type(torch.autograd.gradcheck(block, (torch.ones(2, requires_grad=True),)), bool)
    with torch.set_grad_enabled(False), torch.inference_mode():
        assert_type(x * 2, Tensor)


@torch.no_grad
def plain(a: Tensor) -> Tensor:
    return a * 2


def fitting() -> None:
    """A loop by hand, and one with a closure."""
    w = nn.Parameter(torch.zeros(2))
    inputs, targets = torch.randn(8, 2), torch.randn(8)

    def loss_of() -> Tensor:
        return ((inputs @ w - targets) ** 2).mean()

    optimizer = optim.LBFGS([w], max_iter=3)

    def closure() -> Tensor:
        optimizer.zero_grad()
        loss = loss_of()
        loss.backward()
        return loss

    optimizer.step(closure)
    for other in (optim.SGD([w], lr=0.1, momentum=0.9), optim.AdamW([{"params": [w], "lr": 0.1}]), optim.RMSprop([w])):
        other.zero_grad(set_to_none=True)
        loss_of().backward()
        other.step()
        other.load_state_dict(other.state_dict())
    losses = [loss_of().item() for _ in range(2)]
    print(losses[-1], plain(w))
    for step in range(2):
        loss = loss_of()
        loss.backward()
        with torch.no_grad():
            w -= 0.1 * w.grad
            w.grad.zero_()
        print(step, f"{loss:.3f}", loss.item())


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


def numpy_type() -> None:
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


def numpy_modules(x: Array) -> None:
    a = np.eye(2) * 2
    assert_type(np.linalg.inv(a), Array)
    assert_type(np.linalg.solve(a, x[:2]), Array)
    assert_type(np.linalg.det(a), Array)
    assert_type(np.linalg.svd(a).S, Array)
    assert_type(np.linalg.eigh(a).eigenvalues, Array)
    assert_type(np.linalg.cholesky(a), Array)
    assert_type(np.fft.fft(x), Array)
    assert_type(np.fft.irfft(np.fft.rfft(x)), Array)
    assert_type(np.random.default_rng(0).normal(size=3), Array)
    assert_type(np.random.randn(3), Array)
    assert_type(np.einsum("i,i->", x, x), Array)
    assert_type(np.outer(x, x), Array)
    assert_type(np.mean(x, axis=0, keepdims=True), Array)
    assert_type(np.argmax(x), Array)
    assert_type(np.allclose(x, x), bool)
    assert_type(np.meshgrid(x, x)[0], Array)
    assert_type(np.add.reduce(x), Array)
    assert_type(np.split(x, 3)[0], Array)
    assert_type(np.vstack([x, x]), Array)
    assert_type(np.tensordot(x, x, axes=1), Array)
    assert_type(np.interp(x, x, x), Array)
    assert_type(np.diff(x), Array)
    assert_type(x.detach(), Array)
    assert_type(x.requires_grad, bool)
    assert_type(x.dot(x), Array)
    assert_type(x.grad is None, bool)

    def energy(a: Array) -> Array:
        return (a**2).sum()

    assert_type(grad(energy)(x), Array)
    assert_type(hessian(energy)(x), Array)


def lifting() -> None:
    import numpy

    def f(x: Any, n: int = 2) -> float:
        return float(numpy.sum(x**n))

    def same(a: list[float], n: int = 2) -> float:
        return sum(a) * n

    lifted = ndgrad.lift(f)
    assert_type(lifted(np.array([1.0, 2.0]), n=3), float)
    assert_type(ndgrad.lift(same)([1.0], 3), float)

    @ndgrad.lift
    def decorated(k: float) -> float:
        return float(numpy.sin(k))

    assert_type(decorated(1.0), float)


def compiling() -> None:
    def scaled(x: Tensor, n: int = 2) -> Tensor:
        return x * n

    compiled = ndgrad.compile(scaled)
    assert_type(compiled(torch.ones(2), 3), Tensor)
    assert_type(compiled.traces, int)
    assert_type(ndgrad.compile(nn.Linear(2, 1)), nn.Linear)

    @ndgrad.compile(fullgraph=True)
    def whole(x: Tensor) -> Tensor:
        return x.sum()

    assert_type(whole(torch.ones(2)), Tensor)

    class Model:
        @ndgrad.compile
        def step(self, x: Tensor) -> Tensor:
            return x + 1

    assert_type(Model().step(torch.ones(2)), Tensor)
    assert_type(grad(ndgrad.compile(scaled))(torch.ones(())), Tensor)


def loading(x: Tensor) -> None:
    data = TensorDataset(x, x)
    loader = DataLoader(data, batch_size=2, shuffle=True)
    for inputs, targets in loader:
        (inputs - targets).sum()
    assert len(DataLoader([1, 2, 3])) == 3


def everything() -> None:
    making()
    arithmetic(torch.ones(2, 2), torch.ones(2, 2))
    reducing(torch.ones(3, 3))
    shaping(torch.ones(2, 3))
    metadata(torch.ones(2, 3))
    gradients(torch.ones(3, requires_grad=True))
    transforms(torch.ones(3))
    domains(torch.ones(4))
    numpy_names(torch.ones(2, 3))
    modules(torch.ones(2, 3))
    saving(torch.ones(3, requires_grad=True))
    fitting()
    training()
    numpy_type()
    numpy_modules(np.array([1.0, 2.0, 3.0]))
    lifting()
    compiling()
    loading(torch.ones(4, 2))
