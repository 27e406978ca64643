"""Derivatives of collectives: what is differentiated is the sum over the ranks of what each computes."""

from __future__ import annotations

import numpy as np
import pytest
from tests.distributed.on_ranks import close, everybody, mine, on_ranks, values

import ndgrad
import ndgrad.distributed as dist
from ndgrad.distributed.nn import functional as F


def _sum_over_ranks(value):
    total = ndgrad.tensor(float(value), dtype=ndgrad.float64)
    dist.all_reduce(total)
    return total.item()


def _check(function, *shape, positive=False):
    """The gradient of every rank's argument against differences of the sum over the ranks; forward mode and second
    derivatives with it."""
    x = mine(*shape, seed=3)
    if positive:
        x = x.abs() + 0.5
    weights = values(dist.get_rank(), *function(x).shape, seed=4)

    def scalar(x):
        out = function(x)
        return (out * out * ndgrad.tensor(weights)).sum()

    x.requires_grad_()
    (gradient,) = ndgrad.autograd.grad(scalar(x), x)
    direction = mine(*shape, seed=5)
    along = _sum_over_ranks((gradient * direction).sum())
    step = 1e-6
    with ndgrad.no_grad():
        up, down = scalar(x + step * direction), scalar(x - step * direction)
    close(np.array(along), _sum_over_ranks(up - down) / (2 * step), 1e-6)
    # forward mode is the transpose of reverse mode, over all ranks together
    _, tangent = ndgrad.func.jvp(function, (x.detach(),), (direction,))
    cotangent = ndgrad.tensor(weights)
    _, pull = ndgrad.func.vjp(function, x.detach())
    close(np.array(_sum_over_ranks((tangent * cotangent).sum())), _sum_over_ranks((pull(cotangent)[0] * direction).sum()), 1e-9)
    # second derivatives, by differences of the first
    (first,) = ndgrad.autograd.grad(scalar(x), x, create_graph=True)
    (second,) = ndgrad.autograd.grad((first * direction).sum(), x)
    moved = [(x.detach() + s * step * direction).requires_grad_() for s in (1, -1)]
    firsts = [ndgrad.autograd.grad(scalar(m), m)[0] for m in moved]
    close(second, ((firsts[0] - firsts[1]) / (2 * step)).numpy(), 1e-5)


@on_ranks(1, 2, 3)
def all_reduce_and_its_kin():
    _check(F.all_reduce, 3)
    _check(lambda x: F.all_reduce(x, dist.ReduceOp.AVG), 2, 2)
    _check(lambda x: F.all_reduce(x, dist.ReduceOp.MAX), 4)
    _check(lambda x: F.all_reduce(x, dist.ReduceOp.MIN), 4)
    _check(lambda x: F.all_reduce(x, dist.ReduceOp.PRODUCT), 3)
    _check(lambda x: F.broadcast(x, dist.get_world_size() - 1), 3)
    _check(lambda x: F.reduce(x, 0), 3)


@on_ranks(1, 2, 3)
def gathering_scattering_and_exchanging():
    size = dist.get_world_size()
    _check(lambda x: ndgrad.cat(F.all_gather(x)), 2, 3)
    _check(lambda x: F.reduce_scatter(ndgrad.empty_like(x[0]), list(x.unbind(0))), size, 2)
    _check(lambda x: F.reduce_scatter(ndgrad.empty_like(x[0]), list(x.unbind(0)), dist.ReduceOp.AVG), size, 2)
    _check(lambda x: F.all_to_all_single(ndgrad.empty_like(x), x), size, 2)
    _check(lambda x: ndgrad.stack(F.gather(x, 0)), 3)
    _check(lambda x: F.scatter(list(x.unbind(0)), size - 1), size, 3)
    _check(lambda x: F.shift(x), 2, 2)
    _check(lambda x: F.shift(x.sin(), -1) * x, 3)


@on_ranks(2, 3)
def pieces_of_different_sizes():
    rank, size = dist.get_rank(), dist.get_world_size()
    ops = dist.collectives.ops
    sizes = tuple(range(1, size + 1))
    world = dist.group.WORLD
    _check(lambda x: ops.all_gather(x, group=world, dim=1, sizes=sizes), 2, rank + 1)
    _check(lambda x: ops.reduce_scatter(x, group=world, dim=1, sizes=sizes), 2, sum(sizes))
    widths = tuple(range(2, size + 2))
    _check(lambda x: ops.all_to_all(x, group=world, split=0, join=1, sent=sizes, received=widths), sum(sizes), rank + 2)
    _check(
        lambda x: F.all_to_all_single(ndgrad.empty_like(x), x, [rank + k + 1 for k in range(size)], [rank + k + 1 for k in range(size)]),
        sum(rank + k + 1 for k in range(size)),
    )


@on_ranks(2)
def under_vmap_and_jacobians():
    x = mine(2, 3)
    out = ndgrad.vmap(lambda row: F.all_reduce(row))(x)
    close(out, everybody(2, 3).sum(0))
    close(ndgrad.vmap(lambda row: ndgrad.cat(F.all_gather(row)))(x), np.concatenate(everybody(2, 3), axis=1))
    close(ndgrad.vmap(lambda row: F.shift(row))(x), values(1 - dist.get_rank(), 2, 3))
    jacobian = ndgrad.func.jacfwd(lambda v: F.all_reduce(v * v))(x[0])
    close(jacobian, np.diag(2 * everybody(2, 3).sum(0)[0]))  # every rank pushes its basis vectors forward


@on_ranks(2)
def a_message_carries_its_gradient_back():
    if dist.get_rank() == 0:
        x = mine(3, requires_grad=True)
        sent = F.send(x * 2, 1)
        sent.sum().backward()
        close(x.grad, 2 * 3 * values(1, 3))
    else:
        y = F.recv((3,), 0, dtype=ndgrad.float64)
        close(y, 2 * values(0, 3))
        (3 * y * mine(3)).sum().backward()


@on_ranks(2)
def writing_collectives_record_what_they_do():
    w = mine(3, requires_grad=True)
    y = w * 2
    dist.all_reduce(y)
    (y * y).sum().backward()
    total = 2 * everybody(3).sum(0)
    close(w.grad, 2 * 2 * 2 * total)  # both ranks' sums of squares
    w.grad = None
    out = ndgrad.empty(2, 3, dtype=ndgrad.float64)
    dist.all_gather_into_tensor(out, w * 1)
    (out[0] * (dist.get_rank() + 1)).sum().backward()
    close(w.grad, [3.0, 3.0, 3.0] if dist.get_rank() == 0 else [0.0, 0.0, 0.0])
    with pytest.raises(RuntimeError, match="the graph cannot wait"):
        dist.all_reduce(w * 2, async_op=True)
    with pytest.raises(RuntimeError, match="a message carries none back"):
        dist.send(w * 2, 1 - dist.get_rank())
    with ndgrad.no_grad():
        dist.all_reduce(w)
    close(w, everybody(3).sum(0))


@on_ranks(2)
def complex_numbers():
    rank = dist.get_rank()
    z = ndgrad.tensor(values(rank, 3) + 1j * values(rank, 3, seed=1), requires_grad=True)
    out = F.all_reduce(z * 1j)
    out.abs().sum().backward()
    total = (everybody(3) + 1j * everybody(3, seed=1)).sum(0)
    want = 2 * np.conj(1j) * (1j * total) / abs(total)
    close(z.grad, want)
