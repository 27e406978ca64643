"""Strided divisions of a dimension, and the views that make them; the whole tensor decides."""

from __future__ import annotations

import io
import itertools

import numpy as np
from tests.distributed.on_ranks import close, on_ranks

import ndgrad
import ndgrad.distributed as dist
from ndgrad.distributed.tensor import DTensor, Partial, Replicate, Shard, distribute_tensor
from ndgrad.distributed.tensor._utils import compute_local_shape_and_global_offset
from ndgrad.distributed.tensor.debug import CommDebugMode
from ndgrad.distributed.tensor.placement_types import _StridedShard


def line():
    return dist.init_device_mesh("cpu", (dist.get_world_size(),))


def table(*shape):
    return np.arange(float(np.prod(shape))).reshape(shape)


def distribute(array, mesh, *placements):
    return distribute_tensor(ndgrad.tensor(array, requires_grad=True), mesh, placements)


@on_ranks(1, 3, 4)
def a_strided_piece_becomes_every_other_placement_with_its_gradient():
    mesh, n = line(), dist.get_world_size()
    targets = (Replicate(), Shard(0), Shard(1), _StridedShard(0, split_factor=3), _StridedShard(-2, split_factor=4))
    for length, parts in itertools.product((1, 3, 9, 13), (1, 2, 5)):
        values = table(length, 2)
        for target in targets:
            x = distribute(values, mesh, _StridedShard(0, split_factor=parts))
            y = x.redistribute(placements=[target])
            close(y.full_tensor(), values)
            (y * y * (distribute(values, mesh, target) + 1)).sum().backward()
            close(x.grad.full_tensor(), 2 * values * (values + 1))
            terms = DTensor.from_local(ndgrad.tensor(values * (1 + dist.get_rank())), mesh, [Partial()])
            close(terms.redistribute(placements=[target]).full_tensor(), values * n * (n + 1) / 2)


@on_ranks(4)
def strided_pieces_on_two_dimensions_of_a_mesh():
    mesh = dist.init_device_mesh("cpu", (2, 2))
    kinds = (Replicate(), Shard(0), _StridedShard(0, split_factor=2), _StridedShard(0, split_factor=3))
    for length in (8, 5):
        values = table(length, 2)
        for given, target in itertools.product(itertools.product(kinds, repeat=2), itertools.product(kinds[:3], repeat=2)):
            x = distribute(values, mesh, *given)
            y = x.redistribute(placements=target)
            assert y.to_local().shape == y._spec.local_shape()
            close(y.full_tensor(), values)
            (y * y).sum().backward()
            close(x.grad.full_tensor(), 2 * values)


@on_ranks(4)
def pieces_cut_from_the_right_are_strided_from_the_left():
    mesh = dist.init_device_mesh("cpu", (2, 2))
    x = distribute(table(8, 1), mesh, _StridedShard(0, split_factor=2), Shard(0))
    row, column = mesh.get_coordinate()
    close(x.to_local(), table(8, 1).reshape(2, 2, 2, 1)[column, row])
    assert compute_local_shape_and_global_offset((8, 1), mesh, x.placements) == ((2, 1), (4 * column + 2 * row, 0))


@on_ranks(1, 3, 4)
def joined_dimensions_keep_their_pieces_without_messages():
    mesh, n = line(), dist.get_world_size()
    for shape in ((3, 2 * n), (2, 5, n + 1), (n, n, 3), (1, 3, 5), (n, 1, 7)):
        values = table(*shape)
        for dim, (first, last) in itertools.product(range(len(shape)), itertools.combinations(range(len(shape)), 2)):
            x = distribute(values, mesh, Shard(dim))
            flat = x.flatten(first, last)
            plain = ndgrad.tensor(values).flatten(first, last)
            close(flat.full_tensor(), plain.numpy())
            for f in (lambda t: t * 2, lambda t: t.sum(0), lambda t: t.amax(-1), lambda t: t.softmax(0), lambda t: t.cumsum(-1),
                      lambda t: t.mean(), lambda t: t[..., 1:], lambda t: t.flip(0)):  # fmt: skip
                close(f(flat).full_tensor(), f(plain).numpy())
            again = flat.unflatten(first, shape[first : last + 1])
            (again * again).sum().backward()
            close(x.grad.full_tensor(), 2 * values)
    x = distribute(table(3, 2 * n), mesh, Shard(1))
    with CommDebugMode() as seen:
        flat = x.flatten()
        again = (flat * 2).unflatten(0, (3, 2 * n))
    assert seen.get_total_counts() == 0
    assert flat.placements == (_StridedShard(0, split_factor=3),) or n == 1
    assert again.placements == x.placements


@on_ranks(1, 3)
def a_strided_tensor_is_saved_and_loaded():
    x = distribute(table(7, 2), line(), _StridedShard(0, split_factor=2))
    file = io.BytesIO()
    ndgrad.save(x, file)
    file.seek(0)
    again = ndgrad.load(file)
    assert again.placements == x.placements
    close(again.full_tensor(), table(7, 2))
