"""DTensor programs against the same program in one process, forward and gradient."""

from __future__ import annotations

import itertools
import pickle
import zlib

import hypothesis
import hypothesis.strategies as st
import numpy as np
import pytest
from tests.distributed.on_ranks import close, on_ranks, values

import ndgrad
import ndgrad.distributed as dist
from ndgrad.distributed.tensor import DTensor, Partial, Replicate, Shard, distribute_module, distribute_tensor, explain
from ndgrad.distributed.tensor import ones as dones
from ndgrad.distributed.tensor import randn as drandn
from ndgrad.distributed.tensor.experimental import local_map
from ndgrad.distributed.tensor.redistribution import steps


def _row():
    return dist.init_device_mesh("cpu", (dist.get_world_size(),))


def _same(program, *arrays, placements, mesh=None, tolerance=1e-10):
    """A program on DTensors as on plain tensors: its value, and the gradients of its arguments."""
    mesh = mesh or _row()
    plain = [ndgrad.tensor(a, dtype=ndgrad.float64, requires_grad=True) for a in arrays]
    spread = [
        distribute_tensor(ndgrad.tensor(a, dtype=ndgrad.float64, requires_grad=True), mesh, p)
        for a, p in zip(arrays, placements, strict=True)
    ]
    want, found = program(*plain), program(*spread)
    assert isinstance(found, DTensor)
    assert tuple(found.shape) == tuple(want.shape)
    assert found.dtype is want.dtype
    close(found.full_tensor(), want.detach().numpy(), tolerance)
    weights = values(9, *want.shape)
    (want * ndgrad.tensor(weights)).sum().backward()
    w = distribute_tensor(ndgrad.tensor(weights), mesh, [Replicate()] * mesh.ndim)
    (found * w).sum().backward()
    for s, p in zip(spread, plain, strict=True):
        assert s.grad.placements == tuple(Replicate() if q.is_partial() else q for q in s.placements)
        close(s.grad.full_tensor(), p.grad.numpy(), tolerance)


PROGRAMS = {
    "elementwise": lambda x, y: (x * y).tanh() + x - 2 * y,
    "broadcast": lambda x, y: x * y[0] + y[:, :1],
    "sum": lambda x, y: (x + y).sum(0),
    "mean": lambda x, y: (x * y).mean(1, keepdim=True) + (x * x).mean(),
    "extreme": lambda x, y: (x - y).amax(1) + (x + y).amin(0)[0],
    "softmax": lambda x, y: x.softmax(1) * y.log_softmax(0),
    "matmul": lambda x, y: x @ y.T @ x,
    "views": lambda x, y: x.reshape(-1).reshape(y.shape).T.unsqueeze(1).expand(-1, 2, -1) * y.T.unsqueeze(1),
    "join": lambda x, y: ndgrad.cat([x, y * 2], dim=1).cumsum(0),
    "index": lambda x, y: x[1:, :2] * y[0, 1] + y[2:, 1:3].sum(),
    "norm": lambda x, y: ndgrad.nn.functional.layer_norm(x, (x.shape[1],)) * y,
    "linear": lambda x, y: ndgrad.nn.functional.linear(x, y, y[:, 0]).relu(),
    "var": lambda x, y: x.var(0) + y.std(1)[0],
    "sort": lambda x, y: x.sort(1).values * y.flip(1),
    "where": lambda x, y: ndgrad.where(x > y, x * 3, y) / (1 + y * y),
    "einsum": lambda x, y: ndgrad.einsum("ij,kj->ik", x, y),
}


@on_ranks(1, 2, 3, 4)
def programs_equal_those_of_one_process():
    for (name, program), seed in zip(PROGRAMS.items(), itertools.count()):
        x, y = values(0, 5, 4, seed=seed), values(1, 5, 4, seed=seed)
        every = list(itertools.product([Shard(0), Shard(1), Replicate()], repeat=2))
        # half of the combinations on two ranks, each with half of the programs; fewer on the others
        for a, b in every[seed % 2 :: 2] if dist.get_world_size() == 2 else every[seed % 5 :: 5]:
            try:
                _same(program, x, y, placements=[[a], [b]])
            except AssertionError as error:
                raise AssertionError(f"{name} with {a} and {b}: {error}") from error


@on_ranks(4)
def on_a_mesh_of_two_dimensions():
    mesh = dist.init_device_mesh("cpu", (2, 2), mesh_dim_names=("data", "model"))
    choices = [(Shard(0), Shard(1)), (Shard(1), Shard(0)), (Shard(0), Shard(0)), (Replicate(), Shard(1)), (Shard(0), Replicate())]
    for number, name in enumerate(("elementwise", "matmul", "mean", "softmax", "linear")):
        for a, b in zip(choices, choices[number:] + choices[:number], strict=True):
            _same(PROGRAMS[name], values(0, 5, 4), values(1, 5, 4), placements=[a, b], mesh=mesh)
    assert mesh["model"].size() == 2
    assert mesh.get_group("data").ranks == ((0, 2) if dist.get_rank() % 2 == 0 else (1, 3))


@on_ranks(2, 3, 4)
def redistribution_between_all_placements():
    size = dist.get_world_size()
    meshes = [_row()] + ([dist.init_device_mesh("cpu", (2, 2))] if size == 4 else [])
    whole = values(0, 5, 3)
    for mesh in meshes:
        single = [Shard(0), Shard(1), Replicate(), Partial()]
        every = list(itertools.product(single, repeat=mesh.ndim))
        for number, before in enumerate(every):
            for after in every if mesh.ndim == 1 else every[number % 5 :: 5]:
                start = distribute_tensor(ndgrad.tensor(whole, requires_grad=True), mesh, [Replicate()] * mesh.ndim)
                x = start.redistribute(placements=before)
                y = x.redistribute(placements=after)
                assert y.placements == after
                assert tuple(y.to_local().shape) == y.spec.local_shape()
                close(y.full_tensor(), whole)
                weights = values(8, 5, 3)
                (y.full_tensor() * ndgrad.tensor(weights)).sum().backward()
                close(start.grad.full_tensor(), weights)
                if mesh.ndim == 1:
                    twice = after[0].is_partial() and not before[0].is_replicate()
                    assert len(steps(x.spec, after)) == (0 if before == after else 2 if twice else 1)


@on_ranks(2)
def from_local_and_back():
    mesh, rank = _row(), dist.get_rank()
    piece = ndgrad.tensor(values(rank, 2, 3), requires_grad=True)
    x = DTensor.from_local(piece, mesh, [Shard(0)])
    assert tuple(x.shape) == (4, 3)
    (x * x).sum().backward()
    close(piece.grad, 2 * values(rank, 2, 3))
    uneven = DTensor.from_local(ndgrad.ones(2 - rank, 3), mesh, [Shard(0)], shape=(3, 3))
    assert tuple(uneven.shape) == (3, 3)
    assert uneven.sum().full_tensor().item() == 9
    with pytest.raises(RuntimeError, match="this rank's part of a tensor of shape"):
        DTensor.from_local(ndgrad.ones(2, 3), mesh, [Shard(0)], shape=(7, 3))
    terms = DTensor.from_local(ndgrad.ones(2) * (rank + 1), mesh, [Partial()])
    close(terms.full_tensor(), [3.0, 3.0])
    close((terms * 2 + terms).full_tensor(), [9.0, 9.0])
    close((terms * terms).full_tensor(), [9.0, 9.0])
    assert (terms * 2).placements == (Partial(),)


@on_ranks(2)
def what_has_no_rule_says_so_and_gathers_nothing():
    mesh = _row()
    x = distribute_tensor(ndgrad.arange(6.0).reshape(2, 3), mesh, [Shard(0)])
    with pytest.raises(NotImplementedError, match=r"median.*: it is not known how.*redistribute\(placements=\[Replicate\(\)\]"):
        ndgrad.median(x)
    # The dimensions of one problem must be whole, so its matrices are gathered.
    close(ndgrad.block_diag(x, x).full_tensor(), ndgrad.block_diag(x.full_tensor(), x.full_tensor()))
    for refused in (ndgrad.median, ndgrad.unique, ndgrad.nonzero, lambda x: ndgrad.poisson(x.exp())):
        with pytest.raises(NotImplementedError, match=r"it is not known how.*redistribute\(placements=\[Replicate\(\)\]"):
            refused(x)
    close(ndgrad.nn.functional.one_hot(x.argmax(1)).full_tensor(), [[0, 0, 1]] * 2)  # its number of classes is agreed on
    assert ndgrad.block_diag(x.redistribute(placements=[Replicate()])).shape == (2, 3)
    with pytest.raises(RuntimeError, match="a plain tensor of shape .* beside a DTensor"):
        x + ndgrad.ones(2, 3)
    with pytest.raises(RuntimeError, match="not every rank has all of the tensor"):
        x.sum().item()
    with pytest.raises(NotImplementedError, match="it is not known how ranks would write"):
        x.resize_(3)
    with pytest.raises(RuntimeError, match="leaf Variable that requires grad"):
        distribute_tensor(ndgrad.ones(2, requires_grad=True), mesh, [Shard(0)]).add_(1)
    with pytest.raises(NotImplementedError, match="a DTensor inside a transform"):
        ndgrad.vmap(lambda _: x * x)(ndgrad.ones(2))
    whole = x.redistribute(placements=[Replicate()])
    assert (whole * whole).placements == (Replicate(),)  # what all have is not divided unasked
    assert ndgrad.equal(pickle.loads(pickle.dumps(x)), x)


@on_ranks(2)
def explain_says_what_is_sent():
    mesh = _row()
    x = distribute_tensor(ndgrad.ones(4, 6), mesh, [Shard(1)])
    w = distribute_tensor(ndgrad.ones(6, 8), mesh, [Shard(0)])
    told = explain(lambda: (x @ w).relu())
    assert "result: [Partial(sum)]" in told
    # 4 x 8 numbers of 4 bytes, of which a rank sends a half twice
    assert "all_reduce (Partial(sum) -> Replicate() along mesh dimension 0, 128 bytes)" in told
    assert told.endswith("128 bytes are sent")


@on_ranks(2, 3)
def second_derivatives_and_forward_mode():
    mesh = _row()
    x0 = values(0, 4, 3)

    def f(x, w):
        return ((x @ w).tanh() ** 2).sum()

    def second(x, w):
        (g,) = ndgrad.autograd.grad(f(x, w), w, create_graph=True)
        return g

    w0 = values(1, 3, 2)
    plain = ndgrad.tensor(w0, requires_grad=True)
    (g,) = ndgrad.autograd.grad(f(ndgrad.tensor(x0), plain), plain, create_graph=True)
    (g * g).sum().backward()
    x = distribute_tensor(ndgrad.tensor(x0), mesh, [Shard(0)])
    w = distribute_tensor(ndgrad.tensor(w0, requires_grad=True), mesh, [Replicate()])
    loss = f(x, w)
    loss.backward(create_graph=True)
    g = w.grad
    close(g.full_tensor(), second(ndgrad.tensor(x0), ndgrad.tensor(w0, requires_grad=True)).detach().numpy())
    first = DTensor.from_local(g.to_local(), mesh, [Replicate()])
    w._local.grad = None
    (first * first).sum().backward()
    close(w.grad.full_tensor(), plain.grad.numpy())


@on_ranks(1, 2, 3)
def a_module_trains_as_in_one_process():
    mesh = _row()

    def model():
        ndgrad.manual_seed(0)
        return ndgrad.nn.Sequential(ndgrad.nn.Linear(4, 6), ndgrad.nn.Tanh(), ndgrad.nn.Linear(6, 3)).double()

    x, target = ndgrad.tensor(values(0, 6, 4)), ndgrad.tensor(values(1, 6, 3))
    plain = model()

    def shard(name, part, mesh):
        if isinstance(part, ndgrad.nn.Linear):
            column = name == "0"
            part.weight = ndgrad.nn.Parameter(distribute_tensor(part.weight.detach(), mesh, [Shard(0 if column else 1)]))
            part.bias = ndgrad.nn.Parameter(distribute_tensor(part.bias.detach(), mesh, [Shard(0) if column else Replicate()]))

    spread = distribute_module(model(), mesh, shard)
    assert all(isinstance(p, DTensor) and isinstance(p, ndgrad.nn.Parameter) for p in spread.parameters())
    losses = []
    for net, inputs in ((plain, (x, target)), (spread, [distribute_tensor(t, mesh, [Replicate()]) for t in (x, target)])):
        optimizer = ndgrad.optim.Adam(net.parameters(), lr=0.05)
        trace = []
        for _ in range(4):
            optimizer.zero_grad()
            loss = ((net(inputs[0]) - inputs[1]) ** 2).mean()
            loss.backward()
            optimizer.step()
            trace.append((loss.full_tensor() if isinstance(loss, DTensor) else loss).item())
        losses.append(trace)
    close(np.array(losses[1]), losses[0], 1e-10)


@on_ranks(2)
def factories_and_writes():
    mesh = _row()
    ndgrad.manual_seed(3)
    x = drandn(5, 2, device_mesh=mesh, placements=[Shard(0)])
    ndgrad.manual_seed(3)
    close(x.full_tensor(), ndgrad.randn(5, 2).numpy())  # what one process draws
    y = dones(5, 2, device_mesh=mesh, placements=[Shard(0)])
    y += x
    y.mul_(2).sub_(1)
    close(y.full_tensor(), 2 * (1 + x.full_tensor().numpy()) - 1, 1e-6)
    y.zero_()
    assert y.sum().full_tensor().item() == 0
    z = ndgrad.zeros_like(x) + 1
    assert z.placements == (Shard(0),)
    y.copy_(z.redistribute(placements=[Replicate()]))
    assert y.placements == (Shard(0),)
    assert y.sum().full_tensor().item() == 10


@on_ranks(2, 3)
def random_numbers_are_those_of_one_process():
    mesh, rank = _row(), dist.get_rank()
    plain = ndgrad.tensor(values(0, 5, 4))
    draws = {
        "rand": ndgrad.rand_like, "randn": ndgrad.randn_like, "randint": lambda t: ndgrad.randint_like(t, 9),
        "bernoulli": lambda t: ndgrad.bernoulli(t.sigmoid()), "normal": lambda t: ndgrad.normal(t, t.exp()),
        "uniform_": lambda t: t.clone().uniform_(-1, to=2.0), "normal_": lambda t: t.clone().normal_(1.0, 2.0),
        "exponential_": lambda t: t.clone().exponential_(), "cauchy_": lambda t: t.clone().cauchy_(1.0, 2.0),
        "log_normal_": lambda t: t.clone().log_normal_(), "geometric_": lambda t: t.clone().geometric_(0.3),
        "bernoulli_": lambda t: t.clone().bernoulli_(0.3), "multinomial": lambda t: ndgrad.multinomial(t.exp(), 2),
        "replaced": lambda t: ndgrad.multinomial(t.exp(), 3, replacement=True),
        "complex": lambda t: ndgrad.randn_like(ndgrad.complex(t, t)).abs(), "own": lambda t: ndgrad.rand_like(t, generator=g),
    }  # fmt: skip
    for (name, draw), placement in itertools.product(draws.items(), [Shard(0), Shard(1), Replicate()]):
        g = ndgrad.Generator().manual_seed(4)
        ndgrad.manual_seed(3)
        want = draw(plain)
        g = ndgrad.Generator().manual_seed(4)
        ndgrad.manual_seed(3)
        found = draw(distribute_tensor(plain, mesh, [placement]))
        close(found.full_tensor(), want.numpy())
        assert ndgrad.equal(ndgrad.rand(2), _after(draw, plain)), name  # all generators are where that of one process is
    ndgrad.manual_seed(rank)
    with pytest.raises(dist.DistBackendError, match=r"uniform of a DTensor: the ranks' random numbers would differ.*manual_seed"):
        ndgrad.rand_like(distribute_tensor(plain, mesh, [Shard(0)]))


def _after(draw, plain):
    """Return the next draw of a process."""
    ndgrad.manual_seed(3)
    draw(plain)
    return ndgrad.rand(2)


@on_ranks(2)
def checks_of_values_see_all_ranks():
    """Decisions by values are the same on all ranks."""
    mesh = _row()
    x = distribute_tensor(ndgrad.tensor(values(0, 4, 3)), mesh, [Shard(0)])
    target = distribute_tensor(ndgrad.tensor([0, 1, 2, -100]), mesh, [Shard(0)])
    want = ndgrad.nn.functional.cross_entropy(ndgrad.tensor(values(0, 4, 3)), ndgrad.tensor([0, 1, 2, -100]))
    close(ndgrad.nn.functional.cross_entropy(x, target).full_tensor(), want.numpy())
    wrong = distribute_tensor(ndgrad.tensor([0, 1, 2, 7]), mesh, [Shard(0)])
    with pytest.raises(IndexError, match="7"):
        ndgrad.nn.functional.cross_entropy(x, wrong)
    with pytest.raises(RuntimeError, match="expects probabilities"):
        ndgrad.bernoulli(distribute_tensor(ndgrad.tensor([0.0, 0.5, 0.1, 1.5]), mesh, [Shard(0)]))


@on_ranks(2)
def hooks_see_spread_gradients():
    mesh = _row()
    x = distribute_tensor(ndgrad.ones(4, requires_grad=True), mesh, [Shard(0)])
    seen = []
    y = x * 3
    y.register_hook(lambda g: seen.append(g.placements) or g * 2)
    x.register_post_accumulate_grad_hook(lambda leaf: seen.append(leaf is x))
    y.sum().backward()
    assert seen == [(Shard(0),), True]
    close(x.grad.full_tensor(), [6.0] * 4)


# ----- programs, shapes and meshes drawn at random --------------------------------------------------------------------

F = ndgrad.nn.functional


def _eye_like(x):
    return ndgrad.diag_embed(ndgrad.ones_like(x).sum(-1)) * 3.0


def _dropped(x, y):
    ndgrad.manual_seed(7)
    return F.dropout(x, 0.4) * y + F.dropout1d(y, 0.5)


def _draw_numbers(x, y):
    ndgrad.manual_seed(8)
    return x * ndgrad.rand_like(y) + ndgrad.bernoulli(y.sigmoid()) + ndgrad.normal(x, y.exp()).detach()


#: On tensors of three dimensions.
DRAWN = {
    "arithmetic": lambda x, y: (x * y).tanh() / (1 + y * y) - x.maximum(y),
    "sums": lambda x, y: x.sum(1, keepdim=True) * y.mean(0) + x.amax(2, keepdim=True),
    "scans": lambda x, y: x.cumsum(0) * y.cumprod(2) + x.logcumsumexp(1),
    "sorting": lambda x, y: x.sort(1).values + y.sort(0, descending=True).values + x.topk(1, dim=2).values,
    "median": lambda x, y: x.median(1).values * y.kthvalue(1, dim=0).values.sum(),
    "fourier": lambda x, y: ndgrad.fft.fft(x, dim=1).abs() + ndgrad.fft.irfft(ndgrad.fft.rfft(y, dim=2), n=y.shape[2], dim=2),
    "complex": lambda x, y: ndgrad.view_as_real(ndgrad.complex(x, y).exp()) * 2,
    "padding": lambda x, y: F.pad(x * y, (1, 2)) + F.pad(F.pad(y, (2, 1)), (1, 1))[..., 1:-1],
    "moving": lambda x, y: x.roll(1, 1).flip(0) + y.repeat(1, 2, 1)[:, : y.shape[1]] + ndgrad.rot90(x, 2, (1, 2)),
    "matrices": lambda x, y: ndgrad.linalg.solve(x @ x.mT + _eye_like(x), y) + ndgrad.linalg.inv(y @ y.mT + _eye_like(y)) @ x,
    "decompositions": lambda x, y: ndgrad.linalg.cholesky(x @ x.mT + _eye_like(x)) @ y
    + ndgrad.linalg.det(y @ y.mT + _eye_like(y))[:, None, None],
    "triangles": lambda x, y: x.tril() + y.triu(1) + x.diagonal(dim1=1, dim2=2).sum(-1)[:, None, None],
    "products": lambda x, y: ndgrad.einsum("aij,akj->aik", x, y) + ndgrad.baddbmm(x @ y.mT, x, y.mT),
    "depthwise": lambda x, y: F.conv1d(x, y.sum((0, 2)).reshape(-1, 1, 1), groups=x.shape[1]),
    "convolution": lambda x, y: F.conv1d(x, y.sum(0)[:, :1].unsqueeze(1) * x.sum((0, 2)).unsqueeze(1)),
    "pooling": lambda x, y: F.avg_pool1d(F.pad(x, (1, 1)), 2) + F.max_pool1d(F.pad(y, (1, 1)), 2),
    "losses": lambda x, y: F.mse_loss(x, y) + F.smooth_l1_loss(x, y, reduction="sum") + F.huber_loss(x, y)
    + F.binary_cross_entropy_with_logits(x, y.sigmoid()),
    "cross entropy": lambda x, y: F.cross_entropy(x, y.argmax(1), reduction="none") + F.nll_loss(y.log_softmax(1), x.argmax(1)),
    "gathers": lambda x, y: x.gather(1, y.argsort(1)) * ndgrad.take_along_dim(y, x.argsort(2), 2),
    "scatters": lambda x, y: x.scatter_add(1, y.argsort(1), y) + x.scatter(2, y.argsort(2), y),
    "attention": lambda x, y: F.scaled_dot_product_attention(x, y, x * y),
    "norms": lambda x, y: F.layer_norm(x, x.shape[2:]) + F.normalize(y, dim=1) + x.norm(dim=2, keepdim=True),
    "batch norm": lambda x, y: F.batch_norm(F.pad(x * y, (0, 1)), None, None, training=True),
    "distances": lambda x, y: ndgrad.cdist(x, y) + ndgrad.logsumexp(x, 2, keepdim=True),
    "windows": lambda x, y: x.unfold(2, 1, 1).squeeze(-1) * y.cummax(1).values,
    "dropout": _dropped,
    "random": _draw_numbers,
}


#: Number of shapes, meshes and placements tried with each program, by the number of ranks.
EXAMPLES = {1: 1, 2: 2, 3: 1, 4: 1}


@on_ranks(1, 2, 3, 4)
def drawn_programs_equal_those_of_one_process():
    """Hypothesis draws the same on all ranks, and does not go back to shorten what fails."""
    size = dist.get_world_size()
    shapes = [(size,), (1, size), (size, 1)] + [(2, size // 2)] * (size == 4)
    meshes = {shape: dist.init_device_mesh("cpu", shape) for shape in shapes}

    def check(name):
        @hypothesis.settings(
            database=None, deadline=None, max_examples=EXAMPLES[size], phases=[hypothesis.Phase.generate],
            suppress_health_check=list(hypothesis.HealthCheck),
        )
        @hypothesis.seed(zlib.crc32(name.encode()) + size)
        @hypothesis.given(st.data())
        def draw(data):
            mesh = meshes[data.draw(st.sampled_from(shapes))]
            shape = data.draw(st.tuples(*(st.sampled_from([3, 2, 5, 4, 6, 1]),) * 3))
            one = st.sampled_from([Shard(0), Shard(1), Shard(2), Replicate(), Partial()])
            before, after = (data.draw(st.tuples(*(one,) * mesh.ndim)) for _ in range(2))
            x, y = values(0, *shape), values(1, *shape)
            try:
                _same(DRAWN[name], x, y, placements=[before, after], mesh=mesh, tolerance=1e-8)
            except BaseException as error:
                raise AssertionError(f"{name} of {shape} as {before} and {after} on {mesh}: {error!r}") from error

        draw()

    for name in sorted(DRAWN):
        check(name)


class _Square(ndgrad.autograd.Function):
    @staticmethod
    def forward(ctx, x):
        ctx.save_for_backward(x)
        return x * x

    @staticmethod
    def backward(ctx, g):
        (x,) = ctx.saved_tensors
        return 2 * x * g


@on_ranks(1, 2)
def custom_functions_take_local_tensors():
    x = distribute_tensor(ndgrad.arange(4.0, requires_grad=True), dist.init_device_mesh("cpu", (dist.get_world_size(),)), [Shard(0)])
    with pytest.raises(NotImplementedError, match=r"_Square.apply: an argument is a DTensor that requires grad"):
        _Square.apply(x)  # its result would have no history
    with ndgrad.no_grad():
        close(_Square.apply(x).full_tensor(), [0, 1, 4, 9])
    local_map(_Square.apply, out_placements=[Shard(0)])(x).sum().backward()
    close(x.grad.full_tensor(), [0, 2, 4, 6])
