"""Placements that plans choose, and the messages that they send; the whole tensor decides about values and gradients."""

from __future__ import annotations

import numpy as np
import pytest
from tests.distributed.on_ranks import close, everybody, mine, on_ranks, values

import ndgrad
import ndgrad.distributed as dist
from ndgrad.distributed.tensor import DTensor, Partial, Replicate, Shard, distribute_tensor
from ndgrad.distributed.tensor.debug import CommDebugMode


def line():
    return dist.init_device_mesh("cpu", (dist.get_world_size(),))


def distribute(array, *placements):
    return distribute_tensor(ndgrad.tensor(array), line(), placements)


@on_ranks(1, 2, 3)
def a_result_is_whole_where_an_op_needs_all_of_a_sharded_dimension():
    x = distribute(values(0, 6, 5), Shard(0))
    for f in (lambda t: t.softmax(0), lambda t: t.cumsum(0), lambda t: t.logsumexp(0), lambda t: t.sort(0)[0], lambda t: t.topk(2, 0)[0]):
        assert f(x).placements == (Replicate(),)
        close(f(x).full_tensor(), f(ndgrad.tensor(values(0, 6, 5))).numpy())
    assert x.softmax(1).placements == (Shard(0),)
    terms = DTensor.from_local(mine(6, 5), line(), [Partial()])
    assert terms.exp().placements == (Replicate(),)
    assert (terms.exp() * x).placements == (Shard(0),)


@on_ranks(2, 3)
def one_factor_of_two_sums_is_reduced():
    x, y = (DTensor.from_local(mine(3, 2, seed=seed, requires_grad=True), line(), [Partial()]) for seed in (1, 2))
    with CommDebugMode() as seen:
        product = x * y
    assert seen.get_comm_counts() == {"all_reduce": 1}
    assert product.placements == (Partial(),)
    wanted = everybody(3, 2, seed=1).sum(0), everybody(3, 2, seed=2).sum(0)
    close(product.full_tensor(), wanted[0] * wanted[1])
    product.full_tensor().sum().backward()
    close(x.grad.to_local(), wanted[1])
    close(y.grad.to_local(), wanted[0])


@on_ranks(1, 2, 3)
def extremes_of_terms_pass_through_monotone_functions():
    r = ndgrad.tensor(values(9, 4, 3), requires_grad=True)
    other = distribute_tensor(r, line(), [Replicate()])
    cases = (
        ("max", lambda t, r: t + r, "max"), ("min", lambda t, r: t - r, "min"), ("max", lambda t, r: r - t, "min"),
        ("max", lambda t, r: -t, "min"), ("min", lambda t, r: t.relu(), "min"), ("min", lambda t, r: ndgrad.maximum(t, r), "min"),
        ("max", lambda t, r: ndgrad.maximum(t, t * 1), "max"), ("max", lambda t, r: t.amax(1), "max"),
    )  # fmt: skip
    for kind, f, result in cases:
        local = mine(4, 3, seed=3, requires_grad=True)
        terms = DTensor.from_local(local, line(), [Partial(kind)])
        whole = ndgrad.tensor(everybody(4, 3, seed=3), requires_grad=True)
        plain, weight = ndgrad.tensor(values(9, 4, 3), requires_grad=True), None
        wanted = f(whole.amax(0) if kind == "max" else whole.amin(0), plain)
        other.grad = None
        found = f(terms, other)
        assert found.placements[0] in (Partial(result), Replicate()), found.placements
        weight = ndgrad.tensor(values(5, *wanted.shape))
        close(found.full_tensor(), wanted.detach().numpy())
        (found.full_tensor() * weight).sum().backward()
        (wanted * weight).sum().backward()
        close(local.grad, whole.grad.numpy()[dist.get_rank()])
        if plain.grad is not None:
            close(other.grad.full_tensor(), plain.grad.numpy())
    with CommDebugMode() as seen:
        assert (terms + other).placements == terms.neg().neg().placements == (Partial("max"),)
    assert seen.get_total_counts() == 0


@on_ranks(1, 2, 3)
def a_write_to_a_tensor_made_from_a_leaf_leaves_the_leaf():
    local = mine(3, 2, requires_grad=True)
    x = DTensor.from_local(local, line(), [Shard(0)])
    assert not x.is_leaf
    (x.mul_(2) * x).sum().backward()
    close(local, values(dist.get_rank(), 3, 2))
    close(local.grad, 8 * values(dist.get_rank(), 3, 2))
    y = distribute_tensor(local, line(), [Replicate()])
    assert y.is_leaf
    with pytest.raises(RuntimeError, match="leaf"):
        y.fill_(1.0)


@on_ranks(1, 2, 3)
def a_number_without_dimensions_is_spread():
    x = distribute_tensor(ndgrad.tensor(3.0, requires_grad=True), line(), [Replicate()])
    assert x.to_local().shape == x.shape == ()
    (x * x).backward()
    close(x.grad.to_local(), np.asarray(6.0))
