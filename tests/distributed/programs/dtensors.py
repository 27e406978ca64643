"""DTensor programs against the same program in one process, forward and gradient."""

from __future__ import annotations

import itertools
import pickle

import numpy as np
import pytest
from tests.distributed.on_ranks import close, on_ranks, values

import ndgrad
import ndgrad.distributed as dist
from ndgrad.distributed.tensor import DTensor, Partial, Replicate, Shard, distribute_module, distribute_tensor, explain
from ndgrad.distributed.tensor import ones as dones
from ndgrad.distributed.tensor import randn as drandn
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
    with pytest.raises(NotImplementedError, match=r"block_diag: it is not known how.*redistribute\(placements=\[Replicate\(\)\]"):
        ndgrad.block_diag(x, x)
    assert ndgrad.block_diag(x.redistribute(placements=[Replicate()])).shape == (2, 3)
    with pytest.raises(RuntimeError, match="a plain tensor of shape .* beside a DTensor"):
        x + ndgrad.ones(2, 3)
    with pytest.raises(RuntimeError, match="not every rank has all of the tensor"):
        x.sum().item()
    with pytest.raises(NotImplementedError, match="a part of a DTensor cannot be written"):
        x[0] = 1.0
    with pytest.raises(NotImplementedError, match="it is not known how ranks would write"):
        x.resize_(3)
    with pytest.raises(RuntimeError, match="leaf Variable that requires grad"):
        distribute_tensor(ndgrad.ones(2, requires_grad=True), mesh, [Shard(0)]).add_(1)
    with pytest.raises(NotImplementedError, match="a DTensor inside a transform"):
        ndgrad.vmap(lambda _: x * x)(ndgrad.ones(2))
    whole = x.redistribute(placements=[Replicate()])
    assert (whole * whole).placements == (Replicate(),)  # what all have is not divided unasked
    with pytest.raises(TypeError, match="cannot be pickled"):
        pickle.dumps(x)


@on_ranks(2)
def explain_says_what_is_sent():
    mesh = _row()
    x = distribute_tensor(ndgrad.ones(4, 6), mesh, [Shard(1)])
    w = distribute_tensor(ndgrad.ones(6, 8), mesh, [Shard(0)])
    told = explain(lambda: (x @ w).relu())
    assert "result: [Partial(sum)]" in told
    # 4 x 8 numbers of 4 bytes, of which a rank sends the half that is not its own
    assert "reduce_scatter (Partial(sum) -> Shard(dim=0) along mesh dimension 0, 64 bytes)" in told
    assert told.endswith("64 bytes are sent")


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
