"""Programs that train and run neural networks."""

from __future__ import annotations

import math

from tests.torch_parity.programs.dialect import draw, program, raised

# ----- training loops -----------------------------------------------------------------------------------------------------


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
    params = [(draw(torch, i, m, n, grad=True), torch.zeros(m, requires_grad=True)) for i, (n, m) in enumerate(((4, 8), (8, 3)))]
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


# ----- networks -----------------------------------------------------------------------------------------------------------


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
