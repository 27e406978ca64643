"""Programs of physics, graphs, signals and linear algebra."""

from __future__ import annotations

import math

from tests.torch_parity.programs.dialect import draw, draw_complex, program, raised

# ----- physics and geometry -----------------------------------------------------------------------------------------------


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
    return x, v, energy(x), torch.func.hessian(energy)(x.detach()).reshape(8, 8).diagonal()


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


# ----- graphs and indices -------------------------------------------------------------------------------------------------


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


# ----- signals, linear algebra, einsum ------------------------------------------------------------------------------------


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
