"""Programs of statistics: likelihoods, variational losses, and the losses of classification, regression and ranking."""

from __future__ import annotations

import math

from tests.torch_parity.programs.dialect import draw, program, raised

# ----- probabilistic models -----------------------------------------------------------------------------------------------


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


# ----- losses -------------------------------------------------------------------------------------------------------------


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
