"""Whole small programs in torch's dialect, run with `import torch` and with `import ndgrad as torch`.

A program is a function of the module. It returns whatever a reader would print at its end: tensors, numbers, the errors it
provoked. Both runs must return the same, dtypes included; the data come from NumPy, so that seeds play no part.
"""

from __future__ import annotations

import math
import warnings
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
import torch as original

import ndgrad

PROGRAMS: list[Callable[[Any], Any]] = []


def program(f: Callable[[Any], Any]) -> Callable[[Any], Any]:
    PROGRAMS.append(f)
    return f


def draw(torch: Any, seed: int, *shape: int, grad: bool = False, low: float = -1.0, high: float = 1.0) -> Any:
    return torch.tensor(np.random.default_rng(seed).uniform(low, high, shape), requires_grad=grad)


def draw_complex(torch: Any, seed: int, *shape: int, grad: bool = False) -> Any:
    random = np.random.default_rng(seed)
    return torch.tensor(random.normal(size=shape) + 1j * random.normal(size=shape), requires_grad=grad)


def raised(f: Callable[[], Any]) -> BaseException | None:
    """The error that f() raises."""
    try:
        f()
    except Exception as error:
        return error
    return None


def same(theirs: Any, ours: Any, where: str = "result") -> None:
    if isinstance(theirs, original.Tensor):
        assert isinstance(ours, ndgrad.Tensor), f"{where}: {type(ours)}"
        assert tuple(ours.shape) == tuple(theirs.shape), where
        assert str(ours.dtype).split(".")[-1] == str(theirs.dtype).split(".")[-1], f"{where}: {ours.dtype}, torch {theirs.dtype}"
        assert ours.requires_grad == theirs.requires_grad, f"{where}: requires_grad"
        expected = theirs.detach().resolve_conj().resolve_neg().numpy()
        np.testing.assert_allclose(ours.detach().numpy(), expected, rtol=1e-8, atol=1e-10, err_msg=where)
    elif isinstance(theirs, dict):
        assert list(ours) == list(theirs), where
        for key in theirs:
            same(theirs[key], ours[key], f"{where}[{key!r}]")
    elif isinstance(theirs, (tuple, list)):
        assert len(ours) == len(theirs), where
        for i, (a, b) in enumerate(zip(theirs, ours, strict=True)):
            same(a, b, f"{where}[{i}]")
    elif isinstance(theirs, BaseException):
        assert isinstance(ours, type(theirs)), f"{where}: torch {theirs!r}, ndgrad {ours!r}"
    elif isinstance(theirs, float):
        assert type(ours) is float, where
        assert ours == pytest.approx(theirs, rel=1e-9, nan_ok=True), where
    else:
        assert ours == theirs, where


@pytest.fixture
def float64_torch() -> Any:
    before = original.get_default_dtype()
    original.set_default_dtype(original.float64)
    yield
    original.set_default_dtype(before)


def run(f: Callable[[Any], Any], torch: Any) -> Any:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        return f(torch)


# ----- training loops ------------------------------------------------------------------------------------------------------


@program
def linear_regression_by_hand(torch):
    x, true = draw(torch, 0, 20, 3), torch.tensor([1.0, -2.0, 0.5])
    y = x @ true + 0.1
    w, b = torch.zeros(3, requires_grad=True), torch.zeros(1, requires_grad=True)
    losses = []
    for _ in range(20):
        loss = ((x @ w + b - y) ** 2).mean()
        loss.backward()
        with torch.no_grad():
            w -= 0.3 * w.grad
            b -= 0.3 * b.grad
        w.grad.zero_()
        b.grad = None
        losses.append(loss.item())
    return losses, w, b, w._version


@program
def mlp_with_momentum(torch):
    F = torch.nn.functional
    x, target = draw(torch, 0, 16, 4), torch.arange(16) % 3
    sizes = [4, 8, 3]
    params = [(draw(torch, i, m, n, grad=True), torch.zeros(m, requires_grad=True)) for i, (n, m) in enumerate(zip(sizes, sizes[1:]))]
    flat = [p for pair in params for p in pair]
    velocity = [torch.zeros_like(p) for p in flat]
    for _ in range(5):
        h = x
        for i, (w, b) in enumerate(params):
            h = F.linear(h, w, b)
            if i + 1 < len(params):
                h = F.relu(h)
        loss = F.cross_entropy(h, target)
        grads = torch.autograd.grad(loss, flat)
        with torch.no_grad():
            for p, v, g in zip(flat, velocity, grads):
                v.mul_(0.9).add_(g)
                p.sub_(v, alpha=0.1)
    return loss, flat, (h.argmax(-1) == target).sum().item()


@program
def adam_by_hand_with_gradient_clipping(torch):
    p = draw(torch, 1, 5, 5, grad=True)
    m, v = torch.zeros_like(p), torch.zeros_like(p)
    for step in range(1, 6):
        loss = (torch.linalg.det(p @ p.T + torch.eye(5)).log() + p.sin().sum() * 10.0)
        loss.backward()
        total = torch.linalg.vector_norm(torch.stack([torch.linalg.vector_norm(q.grad) for q in [p]]))
        p.grad.mul_(torch.clamp(1.0 / (total + 1e-6), max=1.0))
        with torch.no_grad():
            m.lerp_(p.grad, 1 - 0.9)
            v.mul_(0.999).addcmul_(p.grad, p.grad, value=1 - 0.999)
            p.addcdiv_(m / (1 - 0.9**step), (v / (1 - 0.999**step)).sqrt().add_(1e-8), value=-0.01)
        p.grad = None
    return p, m, v, total


@program
def exponential_average_of_weights(torch):
    w = draw(torch, 2, 4, grad=True)
    average = w.detach().clone()
    for _ in range(4):
        (w.exp().sum() + w.prod()).backward()
        with torch.no_grad():
            w.add_(w.grad, alpha=-0.05)
            w.grad.zero_()
            average.mul_(0.9).add_(w, alpha=0.1)
    return average, w, average.requires_grad, w.is_leaf


@program
def weight_decay_and_learning_rate_schedule(torch):
    w = draw(torch, 3, 3, 3, grad=True)
    for step in range(6):
        rate = 0.1 * 0.5 * (1 + math.cos(math.pi * step / 6))
        loss = torch.trace(w @ w.t()) + torch.tanh(w).sum() + 0.5e-2 * w.square().sum()
        (g,) = torch.autograd.grad(loss, w)
        w.data -= rate * g
    return w, loss


@program
def gradient_accumulation_over_microbatches(torch):
    w = draw(torch, 4, 3, grad=True)
    x = draw(torch, 5, 12, 3)
    for batch in x.split(4):
        ((batch @ w).sigmoid().mean() / 3).backward()
    accumulated = w.grad.clone()
    w.grad = None
    torch.cat([(b @ w).sigmoid() for b in x.chunk(3)]).mean().backward()
    return accumulated, w.grad


@program
def logistic_regression_by_newton(torch):
    x, y = draw(torch, 6, 30, 3), (draw(torch, 7, 30) > 0).to(torch.float64)
    loss = lambda w: torch.nn.functional.binary_cross_entropy_with_logits(x @ w, y) + 0.01 * (w * w).sum()
    w = torch.zeros(3)
    for _ in range(4):
        w = w - torch.linalg.solve(torch.func.hessian(loss)(w), torch.func.grad(loss)(w))
    return w, loss(w), torch.func.grad(loss)(w).abs().max() < 1e-10


@program
def alternating_generator_and_critic(torch):
    g, d = draw(torch, 8, 2, 2, grad=True), draw(torch, 9, 2, grad=True)
    z, real = draw(torch, 10, 6, 2), draw(torch, 11, 6, 2)
    F = torch.nn.functional
    for _ in range(3):
        fake = z @ g
        critic = F.softplus(-(real @ d)).mean() + F.softplus(fake.detach() @ d).mean()
        critic.backward()
        with torch.no_grad():
            d.sub_(0.1 * d.grad)
        untouched = g.grad is None
        d.grad = None
        maker = F.softplus(-(fake @ d)).mean()
        maker.backward(inputs=[g])
        with torch.no_grad():
            g.sub_(0.1 * g.grad)
        g.grad = None
    return g, d, untouched, d.grad is None


@program
def meta_learning_through_an_inner_step(torch):
    w, rate = draw(torch, 12, 3, grad=True), torch.tensor(0.1, requires_grad=True)
    x, y = draw(torch, 13, 8, 3), draw(torch, 14, 8)
    inner = ((x[:4] @ w - y[:4]) ** 2).mean()
    (g,) = torch.autograd.grad(inner, w, create_graph=True)
    outer = ((x[4:] @ (w - rate * g) - y[4:]) ** 2).mean()
    outer.backward()
    return outer, w.grad, rate.grad


@program
def gradient_penalty(torch):
    x, w = draw(torch, 15, 6, 3, grad=True), draw(torch, 16, 3, grad=True)
    score = torch.tanh(x @ w)
    (g,) = torch.autograd.grad(score, x, grad_outputs=torch.ones_like(score), create_graph=True)
    penalty = ((g.norm(2, dim=1) - 1) ** 2).mean()
    penalty.backward()
    return penalty, w.grad, x.grad


# ----- networks ------------------------------------------------------------------------------------------------------------


@program
def attention_block_by_hand(torch):
    x = draw(torch, 20, 2, 5, 8, grad=True)
    wqkv, wo = draw(torch, 21, 8, 24, grad=True), draw(torch, 22, 8, 8, grad=True)
    q, k, v = (t.view(2, 5, 2, 4).transpose(1, 2) for t in (x @ wqkv).chunk(3, dim=-1))
    scores = q @ k.transpose(-2, -1) / math.sqrt(4)
    mask = torch.triu(torch.ones(5, 5, dtype=torch.bool), diagonal=1)
    weights = scores.masked_fill(mask, float("-inf")).softmax(dim=-1)
    out = x + (weights @ v).transpose(1, 2).contiguous().view(2, 5, 8) @ wo
    builtin = torch.nn.functional.scaled_dot_product_attention(q, k, v, is_causal=True)
    out.pow(2).mean().backward()
    return out, weights, x.grad, wqkv.grad, wo.grad, torch.allclose(builtin, weights @ v)


@program
def layer_norm_by_hand(torch):
    x, gain, bias = draw(torch, 23, 4, 6, grad=True), draw(torch, 24, 6, grad=True), draw(torch, 25, 6, grad=True)
    mean, var = x.mean(-1, keepdim=True), x.var(-1, unbiased=False, keepdim=True)
    y = (x - mean) * torch.rsqrt(var + 1e-5) * gain + bias
    agrees = torch.allclose(y, torch.nn.functional.layer_norm(x, (6,), gain, bias))
    (y * draw(torch, 26, 4, 6)).sum().backward()
    return y, x.grad, gain.grad, bias.grad, agrees


@program
def recurrent_network_through_time(torch):
    wx, wh, b = draw(torch, 27, 5, 3, grad=True), draw(torch, 28, 5, 5, grad=True), torch.zeros(5, requires_grad=True)
    x, h = draw(torch, 29, 7, 2, 3), torch.zeros(2, 5)
    states = []
    for t in range(x.size(0)):
        h = torch.tanh(x[t] @ wx.t() + h @ wh.t() + b)
        states.append(h)
    loss = torch.stack(states).pow(2).mean() + states[-1].sum()
    loss.backward()
    return loss, wx.grad, wh.grad, b.grad


@program
def lstm_with_truncated_backpropagation(torch):
    w, u = draw(torch, 30, 16, 3, grad=True), draw(torch, 31, 16, 4, grad=True)
    h, c = torch.zeros(2, 4), torch.zeros(2, 4)
    losses = []
    for t, x in enumerate(draw(torch, 32, 6, 2, 3)):
        i, f, g, o = (x @ w.T + h @ u.T).chunk(4, 1)
        c = f.sigmoid() * c + i.sigmoid() * g.tanh()
        h = o.sigmoid() * c.tanh()
        if t % 3 == 2:
            loss = h.square().sum()
            loss.backward()
            losses.append(loss.detach())
            h, c = h.detach(), c.detach()
    return torch.stack(losses), w.grad, u.grad


@program
def gru_cell_with_out_of_place_gates(torch):
    w = draw(torch, 33, 3, 4, 4, grad=True)
    h = draw(torch, 34, 2, 4)
    for _ in range(3):
        r, z = torch.sigmoid(h @ w[0]), torch.sigmoid(h @ w[1])
        h = torch.lerp(torch.tanh((r * h) @ w[2]), h, z)
    h.norm().backward()
    return h, w.grad


@program
def small_convolutional_network(torch):
    F = torch.nn.functional
    x = draw(torch, 35, 2, 1, 8, 8, grad=True)
    k1, k2, w = draw(torch, 36, 3, 1, 3, 3, grad=True), draw(torch, 37, 4, 3, 3, 3, grad=True), draw(torch, 38, 5, 16, grad=True)
    h = F.max_pool2d(F.relu(F.conv2d(x, k1, padding=1)), 2)
    h = F.avg_pool2d(F.gelu(F.conv2d(h, k2, stride=1, padding="same")), 2).flatten(1)
    loss = F.nll_loss(F.log_softmax(h @ w.T, dim=1), torch.tensor([1, 3]))
    loss.backward()
    return loss, x.grad, k1.grad, k2.grad, w.grad


@program
def convolution_through_unfold(torch):
    F = torch.nn.functional
    x, k = draw(torch, 39, 2, 3, 6, 6, grad=True), draw(torch, 40, 4, 3, 3, 3, grad=True)
    columns = F.unfold(x, (3, 3), padding=1, stride=2)
    y = (k.view(4, -1) @ columns).view(2, 4, 3, 3)
    y.square().sum().backward()
    windows = x.detach().unfold(2, 3, 2).unfold(3, 3, 2)
    return y, torch.allclose(y, F.conv2d(x, k, padding=1, stride=2)), x.grad, k.grad, windows.shape, windows.sum((1, 4, 5))


@program
def batch_norm_training_and_evaluation(torch):
    F = torch.nn.functional
    x, w, b = draw(torch, 41, 4, 3, 5, grad=True), torch.ones(3, requires_grad=True), torch.zeros(3, requires_grad=True)
    mean, var = torch.zeros(3), torch.ones(3)
    for _ in range(2):
        F.batch_norm(x, mean, var, w, b, training=True, momentum=0.1).pow(3).sum().backward()
    y = F.batch_norm(x, mean, var, w, b, training=False)
    return mean, var, y, x.grad, w.grad, b.grad


@program
def dropout_that_drops_nothing_or_everything(torch):
    F = torch.nn.functional
    x = draw(torch, 42, 4, 4, grad=True)
    y = F.dropout(x, 0.0) + F.dropout(x, 0.5, training=False) + F.dropout(x, 1.0)
    y.exp().sum().backward()
    return y, x.grad, raised(lambda: F.dropout(x, 1.5))


@program
def residual_mlp_mixer(torch):
    F = torch.nn.functional
    x = draw(torch, 43, 2, 4, 6, grad=True)
    token, channel = draw(torch, 44, 4, 4, grad=True), draw(torch, 45, 6, 6, grad=True)
    y = x + (F.layer_norm(x, [6]).mT @ token).mT
    y = y + F.silu(F.layer_norm(y, [6]) @ channel)
    loss = F.mse_loss(F.adaptive_avg_pool1d(y.mT, 1).squeeze(-1), torch.ones(2, 6), reduction="sum")
    loss.backward()
    return loss, x.grad, token.grad, channel.grad


@program
def embedding_bag_and_tied_output(torch):
    F = torch.nn.functional
    table = draw(torch, 46, 10, 4, grad=True)
    words, offsets = torch.tensor([1, 2, 4, 5, 4, 3, 2, 9]), torch.tensor([0, 4])
    bags = F.embedding_bag(words, table, offsets, mode="mean")
    logits = bags @ table.t()
    loss = F.cross_entropy(logits, torch.tensor([3, 7]), label_smoothing=0.1)
    loss = loss + F.embedding(torch.tensor([[0, 1], [1, 1]]), table, padding_idx=0).sum()
    loss.backward()
    return loss, bags, table.grad


@program
def autoencoder_with_transposed_convolution(torch):
    F = torch.nn.functional
    x, k = draw(torch, 47, 1, 2, 6, 6), draw(torch, 48, 3, 2, 2, 2, grad=True)
    code = F.leaky_relu(F.conv2d(x, k, stride=2), 0.2)
    back = F.interpolate(F.conv_transpose2d(code, k, stride=2), scale_factor=2, mode="nearest")
    loss = F.l1_loss(back[..., ::2, ::2], x) + code.abs().mean()
    loss.backward()
    return loss, k.grad


@program
def mixture_of_experts_routed_by_topk(torch):
    x, experts, gate = draw(torch, 49, 6, 3), draw(torch, 50, 4, 3, 3, grad=True), draw(torch, 51, 3, 4, grad=True)
    weights, chosen = torch.topk((x @ gate).softmax(-1), 2, dim=-1)
    weights = weights / weights.sum(-1, keepdim=True)
    y = torch.einsum("nk,nkij,nj->ni", weights, experts[chosen], x)
    y.square().sum().backward()
    return y, chosen, experts.grad, gate.grad


# ----- probabilistic models ------------------------------------------------------------------------------------------------


@program
def variational_autoencoder_loss(torch):
    F = torch.nn.functional
    x, noise = draw(torch, 60, 5, 4, low=0.0), draw(torch, 61, 5, 2)
    enc, dec = draw(torch, 62, 4, 4, grad=True), draw(torch, 63, 2, 4, grad=True)
    mu, logvar = (x @ enc).split(2, dim=1)
    z = mu + torch.exp(0.5 * logvar) * noise
    kl = -0.5 * torch.sum(1 + logvar - mu.pow(2) - logvar.exp())
    loss = F.binary_cross_entropy(torch.sigmoid(z @ dec), x, reduction="sum") + kl
    loss.backward()
    return loss, kl, enc.grad, dec.grad


@program
def gaussian_process_likelihood(torch):
    x, y = draw(torch, 64, 8, 1), draw(torch, 65, 8)
    scale, noise = torch.tensor(0.0, requires_grad=True), torch.tensor(-1.0, requires_grad=True)
    kernel = torch.exp(-0.5 * torch.cdist(x, x).pow(2) / scale.exp() ** 2) + noise.exp() * torch.eye(8)
    factor = torch.linalg.cholesky(kernel)
    alpha = torch.cholesky_solve(y.unsqueeze(-1), factor).squeeze(-1)
    likelihood = -0.5 * y.dot(alpha) - factor.diagonal().log().sum() - 4 * math.log(2 * math.pi)
    likelihood.backward()
    return likelihood, scale.grad, noise.grad, raised(lambda: torch.linalg.cholesky(-kernel))


@program
def gumbel_softmax_with_fixed_noise(torch):
    logits = draw(torch, 66, 4, 5, grad=True)
    gumbel = -torch.log(-torch.log(draw(torch, 67, 4, 5, low=0.01, high=0.99)))
    soft = ((logits + gumbel) / 0.5).softmax(-1)
    hard = torch.zeros_like(logits).scatter_(-1, soft.max(-1, keepdim=True)[1], 1.0)
    straight = hard - soft.detach() + soft
    (straight * torch.arange(5.0)).sum().backward()
    return straight, logits.grad


@program
def normalizing_flow_of_planar_layers(torch):
    z, logdet = draw(torch, 68, 6, 2), torch.zeros(6)
    layers = [(draw(torch, 69 + i, 2, grad=True), draw(torch, 72 + i, 2, grad=True)) for i in range(2)]
    for u, w in layers:
        a = torch.tanh(z @ w)
        logdet = logdet + torch.log(torch.abs(1 + (1 - a**2) * (u @ w)))
        z = z + a[:, None] * u
    loss = (0.5 * z.pow(2).sum(1) - logdet).mean()
    loss.backward()
    return loss, [p.grad for pair in layers for p in pair]


@program
def hidden_markov_forward_algorithm(torch):
    start, step, emit = draw(torch, 75, 3, grad=True), draw(torch, 76, 3, 3, grad=True), draw(torch, 77, 3, 4, grad=True)
    seen = torch.tensor([0, 2, 1, 3, 3])
    log_a, log_b = step.log_softmax(-1), emit.log_softmax(-1)
    alpha = start.log_softmax(0) + log_b[:, seen[0]]
    for o in seen[1:]:
        alpha = torch.logsumexp(alpha.unsqueeze(1) + log_a, dim=0) + log_b[:, o]
    alpha.logsumexp(0).backward()
    return alpha, start.grad, step.grad, emit.grad


@program
def student_t_and_gamma_log_densities(torch):
    x, df = draw(torch, 78, 6), torch.tensor(3.5, requires_grad=True)
    t = torch.lgamma((df + 1) / 2) - torch.lgamma(df / 2) - 0.5 * torch.log(df * math.pi) - (df + 1) / 2 * torch.log1p(x**2 / df)
    shape = torch.tensor([0.5, 2.0, 7.0], requires_grad=True)
    gamma = torch.xlogy(shape - 1, torch.tensor(1.3)) - 1.3 - torch.special.gammaln(shape)
    (t.sum() + gamma.sum()).backward()
    return t, gamma, df.grad, shape.grad, torch.digamma(shape.detach())


@program
def kalman_filter_likelihood(torch):
    a, q, r = torch.tensor([[1.0, 0.1], [0.0, 1.0]]), torch.tensor(0.1, requires_grad=True), torch.tensor(0.5, requires_grad=True)
    h, m, p, total = torch.tensor([[1.0, 0.0]]), torch.zeros(2, 1), torch.eye(2), torch.zeros(())
    for y in draw(torch, 79, 5):
        m, p = a @ m, a @ p @ a.T + q * torch.eye(2)
        s = h @ p @ h.T + r
        k = torch.linalg.solve(s, h @ p).T
        residual = y - h @ m
        total = total - 0.5 * (torch.logdet(s) + (residual.T @ torch.inverse(s) @ residual).squeeze())
        m, p = m + k @ residual, (torch.eye(2) - k @ h) @ p
    total.backward()
    return total, m, p, q.grad, r.grad


@program
def policy_gradient_with_discounted_returns(torch):
    w = draw(torch, 80, 4, 3, grad=True)
    states, actions, rewards = draw(torch, 81, 6, 4), torch.tensor([0, 1, 2, 1, 0, 2]), draw(torch, 82, 6)
    returns, running = torch.empty(6), torch.zeros(())
    for t in reversed(range(6)):
        running = rewards[t] + 0.9 * running
        returns[t] = running
    returns = (returns - returns.mean()) / (returns.std() + 1e-8)
    logp = (states @ w).log_softmax(-1).gather(1, actions.unsqueeze(1)).squeeze(1)
    entropy = -(logp.exp() * logp).sum()
    loss = -(logp * returns).sum() - 0.01 * entropy
    loss.backward()
    return returns, loss, w.grad


# ----- losses --------------------------------------------------------------------------------------------------------------


@program
def masked_loss_over_padded_sequences(torch):
    logits, lengths = draw(torch, 90, 3, 5, 4, grad=True), torch.tensor([5, 2, 3])
    target = torch.arange(15).view(3, 5) % 4
    mask = torch.arange(5)[None, :] < lengths[:, None]
    F = torch.nn.functional
    by_mask = (F.cross_entropy(logits.transpose(1, 2), target, reduction="none") * mask).sum() / mask.sum()
    by_index = F.cross_entropy(logits[mask], target[mask])
    by_ignore = F.cross_entropy(logits.reshape(-1, 4), target.masked_fill(~mask, -100).reshape(-1))
    (by_mask + 2 * by_index + 3 * by_ignore).backward()
    return by_mask, by_index, by_ignore, logits.grad


@program
def quantile_loss_and_empirical_quantiles(torch):
    y, p = draw(torch, 91, 20), draw(torch, 92, 3, grad=True)
    q = torch.tensor([0.1, 0.5, 0.9])
    e = y[:, None] - p
    loss = torch.max(q * e, (q - 1) * e).mean()
    x = draw(torch, 93, 4, 7, grad=True)
    levels = torch.quantile(x, q, dim=1)
    (loss + (levels * q[:, None]).sum() + x.median(dim=1)[0].sum()).backward()
    return loss, levels, p.grad, x.grad


@program
def triplet_and_contrastive_losses(torch):
    F = torch.nn.functional
    x = draw(torch, 94, 6, 4, grad=True)
    z = F.normalize(x, dim=-1)
    similarity = z @ z.t() / 0.2
    similarity = similarity.masked_fill(torch.eye(6, dtype=torch.bool), -1e9)
    contrastive = F.cross_entropy(similarity, torch.tensor([1, 0, 3, 2, 5, 4]))
    triplet = torch.clamp(torch.cdist(x[:2], x[2:4]).diagonal() - F.pairwise_distance(x[:2], x[4:]) + 1.0, min=0).mean()
    (contrastive + triplet + F.cosine_similarity(x[:3], x[3:]).sum()).backward()
    return contrastive, triplet, x.grad


@program
def ranking_loss_by_sorting(torch):
    s = draw(torch, 95, 3, 6, grad=True)
    ordered, places = torch.sort(s, dim=1, descending=True)
    gains = torch.arange(6.0).flip(0).expand(3, 6).gather(1, places)
    dcg = (gains / torch.log2(torch.arange(6) + 2.0) * ordered.sigmoid()).sum()
    hinge = (1 - ordered.diff(dim=1)).relu().sum()
    top, _ = s.topk(2, dim=1, largest=False)
    (dcg + hinge + top.prod(1).sum() + s.kthvalue(3, dim=1).values.sum()).backward()
    return ordered, places, dcg, s.grad


@program
def robust_losses_at_their_corners(torch):
    F = torch.nn.functional
    x, y = torch.tensor([-2.0, -1.0, 0.0, 1.0, 2.0], requires_grad=True), torch.zeros(5)
    losses = [
        F.huber_loss(x, y, reduction="none"), F.smooth_l1_loss(x, y, reduction="none", beta=0.5), F.l1_loss(x, y, reduction="none"),
        F.hinge_embedding_loss(x, torch.tensor([1.0, -1, 1, -1, 1]), reduction="none"), F.kl_div(x, y.exp(), reduction="none"),
    ]  # fmt: skip
    torch.stack(losses).mul(torch.arange(1.0, 6.0)[:, None]).sum().backward()
    return losses, x.grad


@program
def soft_dice_and_focal_losses(torch):
    x = draw(torch, 96, 2, 3, 4, 4, grad=True)
    truth = torch.nn.functional.one_hot(torch.arange(32).view(2, 4, 4) % 3, 3).permute(0, 3, 1, 2)
    p = x.softmax(1)
    dice = 1 - (2 * (p * truth).sum((2, 3)) + 1) / (p.sum((2, 3)) + truth.sum((2, 3)) + 1)
    focal = -torch.where(truth.bool(), (1 - p) ** 2 * p.log(), torch.zeros(())).mean()
    (dice.mean() + focal).backward()
    return dice, focal, x.grad, truth.dtype is torch.int64


# ----- physics and geometry ------------------------------------------------------------------------------------------------


@program
def pendulum_by_runge_kutta(torch):
    state, length = torch.tensor([0.5, 0.0], requires_grad=True), torch.tensor(1.2, requires_grad=True)
    f = lambda s: torch.stack([s[1], -9.81 / length * torch.sin(s[0])])
    s, h = state, 0.05
    for _ in range(20):
        k1 = f(s)
        k2 = f(s + h / 2 * k1)
        k3 = f(s + h / 2 * k2)
        k4 = f(s + h * k3)
        s = s + h / 6 * (k1 + 2 * k2 + 2 * k3 + k4)
    s[0].backward()
    return s, state.grad, length.grad


@program
def lennard_jones_forces_and_energy_drift(torch):
    x = (torch.stack(torch.meshgrid(torch.arange(2.0), torch.arange(2.0), indexing="ij"), -1).reshape(-1, 2) * 1.2).requires_grad_()
    i, j = torch.triu_indices(4, 4, 1)

    def energy(x):
        r6 = (x[i] - x[j]).square().sum(-1) ** -3
        return 4 * (r6**2 - r6).sum()

    v = torch.zeros(4, 2)
    for _ in range(3):
        (force,) = torch.autograd.grad(-energy(x), x)
        v = v + 0.01 * force
        x = (x + 0.01 * v).detach().requires_grad_()
    return x, v, energy(x), torch.autograd.functional.hessian(energy, x).reshape(8, 8).diagonal()


@program
def heat_equation_by_shifted_slices(torch):
    u0, k = draw(torch, 97, 10, grad=True), torch.tensor(0.2, requires_grad=True)
    u = u0
    for _ in range(5):
        u = torch.nn.functional.pad(u[1:-1] + k * (u[2:] - 2 * u[1:-1] + u[:-2]), (1, 1))
    u.square().sum().backward()
    return u, u0.grad, k.grad


@program
def wave_equation_in_a_buffer_that_torch_refuses(torch):
    c = torch.tensor(0.5, requires_grad=True)
    u = torch.zeros(4, 6)
    u[0, 2] = 1.0
    for t in range(1, 4):
        u[t] = u[t - 1] * c + torch.roll(u[t - 1], 1)
    return u, u._version, raised(lambda: u.sum().backward())


@program
def rotations_and_cross_products(torch):
    axis, point = draw(torch, 98, 3, grad=True), draw(torch, 99, 5, 3)
    angle = torch.linalg.norm(axis)
    k = axis / angle
    turned = (
        point * torch.cos(angle)
        + torch.linalg.cross(k.expand_as(point), point) * torch.sin(angle)
        + k * (point @ k)[:, None] * (1 - torch.cos(angle))
    )
    skew = torch.zeros(3, 3)
    skew[[0, 1, 2], [1, 2, 0]] = -axis[[2, 0, 1]]
    skew = skew - skew.T
    by_exponential = point @ torch.linalg.matrix_exp(skew).T
    (turned[:, 0].sum() + by_exponential[:, 1].sum()).backward()
    return turned, by_exponential, axis.grad


@program
def implicit_function_by_fixed_point(torch):
    a = torch.tensor(0.7, requires_grad=True)
    with torch.no_grad():
        z = torch.zeros(())
        for _ in range(60):
            z = torch.cos(a * z)
    z = z.clone().requires_grad_()
    residual = z - torch.cos(a * z)
    (dz,) = torch.autograd.grad(residual, z, retain_graph=True)
    (da,) = torch.autograd.grad(residual, a)
    return z, -da / dz


# ----- graphs and indices --------------------------------------------------------------------------------------------------


@program
def graph_network_step_by_gather_and_scatter(torch):
    h, w = draw(torch, 110, 5, 3, grad=True), draw(torch, 111, 6, 3, grad=True)
    source, target = torch.tensor([0, 1, 2, 3, 4, 0, 2]), torch.tensor([1, 2, 3, 4, 0, 2, 0])
    messages = torch.relu(torch.cat([h[source], h.index_select(0, target)], 1) @ w)
    summed = torch.zeros(5, 3).index_add_(0, target, messages)
    degree = torch.zeros(5).scatter_add(0, target, torch.ones(7))
    largest = torch.full((5, 3), -1e3).scatter_reduce(0, target[:, None].expand(-1, 3), messages, "amax", include_self=False)
    (summed / degree[:, None] + largest).sin().sum().backward()
    return summed, degree, largest, h.grad, w.grad


@program
def pagerank_by_matrix_power(torch):
    logits = draw(torch, 112, 4, 4, grad=True)
    p = 0.85 * logits.softmax(0) + 0.15 / 4
    rank = torch.linalg.matrix_power(p, 12) @ torch.full((4,), 0.25)
    rank[0].log().backward()
    return rank, logits.grad


@program
def sparse_update_with_index_put_and_masks(torch):
    x, v = draw(torch, 113, 4, 4, grad=True), draw(torch, 114, 3, grad=True)
    y = x.clone()
    y[torch.tensor([0, 1, 3]), torch.tensor([3, 1, 0])] = v
    y.index_put_((torch.tensor([2, 2]), torch.tensor([1, 1])), v[:2], accumulate=True)
    y = y.masked_scatter(y > 0.9, v.repeat(6)[:16])
    y[y < -0.8] = 0.0
    (y * y.detach()).sum().backward()
    return y, x.grad, v.grad


@program
def one_hot_confusion_matrix_and_bincount(torch):
    guess, truth = torch.tensor([0, 1, 2, 1, 0]), torch.tensor([0, 2, 2, 1, 1])
    matrix = torch.zeros(3, 3, dtype=torch.int64).index_put_((truth, guess), torch.ones(5, dtype=torch.int64), accumulate=True)
    values, inverse, counts = torch.unique(truth, return_inverse=True, return_counts=True)
    return matrix, torch.bincount(truth, minlength=4), values, inverse, counts, matrix.diag().sum() / matrix.sum()


@program
def dynamic_time_warping_by_lists(torch):
    a, b = draw(torch, 115, 4, grad=True), draw(torch, 116, 5, grad=True)
    cost = (a[:, None] - b[None, :]).abs()
    table = [[torch.tensor(math.inf)] * 6 for _ in range(5)]
    table[0][0] = torch.tensor(0.0)
    for i in range(1, 5):
        for j in range(1, 6):
            before = torch.stack([table[i - 1][j], table[i][j - 1], table[i - 1][j - 1]])
            table[i][j] = cost[i - 1, j - 1] - 0.1 * torch.logsumexp(-before / 0.1, 0)
    table[4][5].backward()
    return table[4][5], a.grad, b.grad


# ----- transforms of functions -----------------------------------------------------------------------------------------------


@program
def per_sample_gradients(torch):
    w, x, y = draw(torch, 120, 3), draw(torch, 121, 6, 3), draw(torch, 122, 6)
    loss = lambda w, x, y: (torch.tanh(x @ w) - y) ** 2
    each = torch.func.vmap(torch.func.grad(loss), in_dims=(None, 0, 0))(w, x, y)
    norms, value = torch.func.vmap(torch.func.grad_and_value(loss), (None, 0, 0))(w, x, y)
    return each, norms, value, each.mean(0)


@program
def jacobians_forward_and_reverse(torch):
    x, w = draw(torch, 123, 3), draw(torch, 124, 4, 3)
    f = lambda x, w: {"y": torch.tanh(w @ x), "n": (x.norm(), w.sum() * x)}
    forward, reverse = torch.func.jacfwd(f)(x, w), torch.func.jacrev(f)(x, w)
    both = torch.func.jacrev(lambda p: f(*p)["y"])((x, w))
    classic = torch.autograd.functional.jacobian(lambda x: torch.tanh(w @ x), x)
    return forward, reverse, both, classic


@program
def hessian_vector_products_in_three_ways(torch):
    x, v = draw(torch, 125, 4, grad=True), draw(torch, 126, 4)
    f = lambda x: (x.sin() * x.roll(1)).sum() + x.prod()
    (g,) = torch.autograd.grad(f(x), x, create_graph=True)
    (reverse,) = torch.autograd.grad(g, x, v)
    x = x.detach()
    _, forward = torch.func.jvp(torch.func.grad(f), (x,), (v,))
    _, pull = torch.func.vjp(torch.func.grad(f), x)
    return reverse, forward, pull(v), torch.func.hessian(f)(x) @ v


@program
def laplacian_by_nested_transforms(torch):
    w = draw(torch, 127, 5, 2)
    f = lambda x: torch.tanh(w @ x).sum()
    points = draw(torch, 128, 7, 2)
    trace = lambda x: torch.func.hessian(f)(x).diagonal().sum()
    divergence = lambda x: torch.trace(torch.func.jacfwd(torch.func.grad(f))(x))
    return torch.func.vmap(trace)(points), torch.vmap(divergence)(points), torch.func.grad(trace)(points[0])


@program
def ensembles_by_vmap_over_parameters(torch):
    params = {"w": draw(torch, 129, 3, 4, 2), "b": draw(torch, 130, 3, 2)}
    x = draw(torch, 131, 5, 4)
    model = lambda p, x: torch.nn.functional.softmax(x @ p["w"] + p["b"], dim=-1)
    out = torch.func.vmap(model, in_dims=(0, None))(params, x)
    loss = lambda p: model(p, x).square().sum()
    return out, torch.func.vmap(torch.func.grad(loss))(params), out.var(0)


@program
def forward_mode_dual_numbers(torch):
    x, t = draw(torch, 132, 3), draw(torch, 133, 3)
    with torch.autograd.forward_ad.dual_level():
        dual = torch.autograd.forward_ad.make_dual(x, t)
        y = (dual * dual.exp()).cumsum(0)
        value, tangent = torch.autograd.forward_ad.unpack_dual(y)
    return value, tangent


@program
def batched_linear_solves_with_chunks(torch):
    a, b = draw(torch, 134, 6, 3, 3) + 3 * torch.eye(3), draw(torch, 135, 6, 3)
    solve = torch.func.vmap(torch.linalg.solve, chunk_size=4)
    g = torch.func.grad(lambda a: torch.func.vmap(torch.linalg.solve)(a, b).square().sum())(a)
    return solve(a, b), g, raised(lambda: torch.func.vmap(lambda x: x.item())(b[0]))


# ----- custom functions and the graph ----------------------------------------------------------------------------------------


@program
def straight_through_estimator(torch):
    class Round(torch.autograd.Function):
        @staticmethod
        def forward(ctx, x, levels):
            ctx.save_for_backward(x)
            ctx.levels = levels
            return torch.round(x * levels) / levels

        @staticmethod
        def backward(ctx, g):
            (x,) = ctx.saved_tensors
            return g * (x.abs() <= 1), None

    x = draw(torch, 140, 6, low=-1.5, high=1.5, grad=True)
    y = Round.apply(x, 4)
    y.square().sum().backward()
    return y, x.grad, type(y.grad_fn).__name__, ctx_needs(torch)


def ctx_needs(torch):
    seen = []

    class Product(torch.autograd.Function):
        @staticmethod
        def forward(a, b):
            return a * b, a + b

        @staticmethod
        def setup_context(ctx, inputs, output):
            ctx.save_for_backward(*inputs)
            ctx.mark_non_differentiable(output[1])

        @staticmethod
        def backward(ctx, g, _):
            seen.append(ctx.needs_input_grad)
            a, b = ctx.saved_tensors
            return g * b, g * a

    a, b = draw(torch, 141, 3, grad=True), draw(torch, 142, 3)
    p, s = Product.apply(a, b)
    p.sum().backward()
    return seen, a.grad, s.requires_grad, raised(lambda: Product.apply(a))


@program
def reversing_gradients_with_hooks(torch):
    x = draw(torch, 143, 4, grad=True)
    seen = []
    h = x.tanh()
    h.register_hook(lambda g: -2.0 * g)
    h.retain_grad()
    x.register_post_accumulate_grad_hook(lambda p: seen.append(p.grad.clone()))
    handle = x.register_hook(lambda g: g.clamp(min=-1.0, max=1.0))
    (h * torch.arange(4.0)).sum().backward()
    handle.remove()
    return x.grad, h.grad, seen


@program
def second_backward_and_retained_graphs(torch):
    x = draw(torch, 144, 3, grad=True)
    y = (x.exp() * x).sum()
    y.backward(retain_graph=True)
    y.backward()
    return x.grad, raised(y.backward), raised(lambda: (x * 2).backward()), raised(lambda: torch.tensor([1, 2], requires_grad=True))


@program
def frozen_layers_and_detached_targets(torch):
    a, b = draw(torch, 145, 3, 3, grad=True), draw(torch, 146, 3, 3, grad=True)
    b.requires_grad_(False)
    x = draw(torch, 147, 2, 3)
    target = (x @ a).detach()
    loss = ((x @ a @ b - target) ** 2).sum()
    loss.backward()
    unused = raised(lambda: torch.autograd.grad((a * 2).sum(), draw(torch, 148, 2, grad=True)))
    return loss, a.grad, b.grad is None, target.requires_grad, unused


@program
def saved_tensor_hooks_that_pack_to_lower_precision(torch):
    x = draw(torch, 149, 3, grad=True)
    packed = []

    def pack(t):
        packed.append(tuple(t.shape))
        return t.to(torch.float32)

    with torch.autograd.graph.saved_tensors_hooks(pack, lambda t: t.to(torch.float64)):
        y = (x * x).exp().sum()
    y.backward()
    return len(packed), x.grad.to(torch.float32)


# ----- views and state --------------------------------------------------------------------------------------------------------


@program
def state_updates_through_views(torch):
    x = draw(torch, 150, 3, 4, grad=True)
    state = torch.zeros(3, 4)
    left, right = state[:, :2], state[:, 2:]
    left.copy_(x[:, :2] * 2)
    right.add_(x[:, 2:].exp())
    state.t()[0].mul_(x[:, 3])
    state.diagonal().add_(1.0)
    (state * torch.arange(12.0).view(3, 4)).sum().backward()
    return state, left, right, x.grad, state._version, left._version, left._base is state


@program
def in_place_errors(torch):
    x = draw(torch, 151, 3, grad=True)
    y = x.exp()
    y.mul_(2)
    a, _ = (x * 2).split([1, 2])
    return (
        raised(lambda: y.sum().backward()), raised(lambda: x.add_(1)), raised(lambda: x[0].zero_()), raised(lambda: a.add_(1)),
        raised(lambda: x.numpy()), raised(lambda: torch.zeros(3).add_(torch.zeros(2, 3))), raised(lambda: torch.arange(3).mul_(0.5)),
    )  # fmt: skip


@program
def ring_buffer_of_recent_values(torch):
    w, memory = torch.tensor(0.5, requires_grad=True), torch.zeros(3, 2)
    total = torch.zeros(())
    for t in range(5):
        memory = memory.roll(1, 0)
        memory = torch.cat([(torch.full((1, 2), float(t + 1)) * w).sin(), memory[1:]])
        total = total + memory.mean()
    total.backward()
    return memory, total, w.grad


@program
def shapes_strides_and_layout(torch):
    x = torch.arange(24.0).view(2, 3, 4)
    y = x.permute(2, 0, 1)
    return (
        y.stride(), y.is_contiguous(), y.contiguous().stride(), x.unflatten(2, (2, 2)).shape, x.flatten(0, 1).shape, y.storage_offset(),
        x[1, ::2].storage_offset(), x.expand(5, 2, 3, 4).stride(), raised(lambda: y.view(-1)), raised(lambda: x.view(5, 5)),
        x.movedim(0, -1).shape, x.swapaxes(0, 1)[0], torch.broadcast_tensors(x, torch.zeros(1, 1, 1))[1].stride(), x.numel(), x.dim(),
    )  # fmt: skip


# ----- signals, linear algebra, einsum -----------------------------------------------------------------------------------------


@program
def spectral_filter_of_a_real_signal(torch):
    x, gain = draw(torch, 160, 16, grad=True), draw(torch, 161, 9, grad=True)
    spectrum = torch.fft.rfft(x, norm="ortho") * torch.exp(1j * gain)
    y = torch.fft.irfft(spectrum, n=16, norm="ortho")
    power = spectrum.abs().pow(2)
    (y.cumsum(0).sum() + power[1:-1].log().sum()).backward()
    return y, spectrum, torch.fft.fftfreq(16), x.grad, gain.grad


@program
def complex_signals_and_phase(torch):
    z = draw_complex(torch, 162, 2, 8, grad=True)
    w = torch.fft.fftshift(torch.fft.fft2(z))
    loss = w.real.sum() + w.angle().sin().sum() + (z * z.conj()).real.sum() + torch.view_as_real(z)[..., 1].exp().sum()
    loss.backward()
    return w, loss, z.grad, raised(lambda: (z * 2).sum().backward()), torch.polar(z.abs(), z.angle()).detach()


@program
def convolution_theorem(torch):
    a, b = draw(torch, 163, 8, grad=True), draw(torch, 164, 8)
    circular = torch.fft.ifft(torch.fft.fft(a) * torch.fft.fft(b)).real
    padded = torch.nn.functional.pad(a[None, None], (7, 0), mode="circular")
    direct = torch.nn.functional.conv1d(padded, b.flip(0)[None, None]).flatten()
    circular.square().sum().backward()
    return circular, torch.allclose(circular, direct), a.grad


@program
def tensor_network_by_einsum(torch):
    a, b, c = draw(torch, 165, 2, 3, 4, grad=True), draw(torch, 166, 4, 3, 5, grad=True), draw(torch, 167, 5, 2, grad=True)
    full = torch.einsum("ijk,kjl,li->", a, b, c)
    batch = torch.einsum("...ij,...jk->...ik", a, b[:, :, :4].permute(1, 0, 2)[:2].mT.mT[..., :4])
    trace, outer = torch.einsum("ii", c[:2] @ c[:2].T), torch.einsum("i,j->ij", c[:, 0], c[:, 1])
    (full + batch.sin().sum() + trace + outer.sum() + torch.tensordot(a, b, dims=([2, 1], [0, 1])).sum()).backward()
    return full, batch, trace, outer, a.grad, b.grad, c.grad, raised(lambda: torch.einsum("ij,jk->ik", a, b))


@program
def principal_components_and_whitening(torch):
    x = draw(torch, 168, 12, 3, grad=True)
    centred = x - x.mean(0)
    covariance = centred.T @ centred / 11
    values, vectors = torch.linalg.eigh(covariance)
    whitening = vectors @ torch.diag(values.rsqrt()) @ vectors.T
    singular = torch.linalg.svdvals(centred)
    (whitening.sin().sum() + singular[0] + torch.linalg.slogdet(covariance).logabsdet).backward()
    return values, whitening, singular, torch.allclose(covariance, torch.cov(x.T)), x.grad


@program
def least_squares_in_four_ways(torch):
    a, b = draw(torch, 169, 6, 3, grad=True), draw(torch, 170, 6, grad=True)
    q, r = torch.linalg.qr(a)
    ways = [
        torch.linalg.lstsq(a, b[:, None]).solution[:, 0], torch.linalg.pinv(a) @ b, torch.linalg.inv(a.mT @ a) @ a.mT @ b,
        torch.linalg.solve_triangular(r, (q.mT @ b)[:, None], upper=True)[:, 0],
    ]  # fmt: skip
    sum(i * w.sum() for i, w in enumerate(ways, start=1)).backward()
    return ways, a.grad, b.grad, raised(lambda: torch.linalg.solve(torch.zeros(2, 2), torch.ones(2)))


# ----- dtypes ------------------------------------------------------------------------------------------------------------------


@program
def dtypes_that_both_promote_alike(torch):
    i, f, d = torch.arange(4, dtype=torch.int64), torch.ones(4, dtype=torch.float32), torch.ones(4)
    c, m = torch.ones(4, dtype=torch.complex128), i > 1
    return (
        f + 1.5, f * 2, i + 1, i * 0.5, i / 2, i // 2, d + f, d * c, f.mean(), m + i, m.sum(), i.sum(dtype=torch.float32), d * m,
        i.to(torch.int32) + i, f**2, 2**i, torch.where(m, f, 0.0), i.double().mean(), raised(i.mean), torch.cat([d, f]), i % 3, -i,
        i.float() @ f, m & ~m, i << 1, torch.result_type(f, 1.0) == torch.float32, f.new_zeros(2), torch.ones_like(i), f.half().sum(),
    )  # fmt: skip


@program
def gradients_in_the_dtype_of_their_leaf(torch):
    f, d = torch.ones(3, dtype=torch.float32, requires_grad=True), draw(torch, 171, 3, grad=True)
    c = draw_complex(torch, 172, 3, grad=True)
    y = (f * d * c).abs().sum() + f.double().sum()
    y.backward()
    return y, f.grad, d.grad, c.grad, raised(lambda: setattr(f, "grad", torch.ones(3)))


@program
def quantised_weights_and_integer_codes(torch):
    w = draw(torch, 173, 4, 4)
    scale = w.abs().amax(dim=1, keepdim=True) / 127
    codes = torch.clamp(torch.round(w / scale), -128, 127).to(torch.int8)
    back = codes.to(torch.float64) * scale
    return codes, back, (w - back).abs().max() <= scale.max() / 2 + 1e-12, codes.sum(), torch.bitwise_and(codes, 3)


@pytest.mark.parametrize("f", PROGRAMS, ids=lambda f: f.__name__)
@pytest.mark.usefixtures("float64_torch")
def test_program_gives_the_same_with_ndgrad_as_with_torch(f: Callable[[Any], Any]) -> None:
    same(run(f, original), run(f, ndgrad))
