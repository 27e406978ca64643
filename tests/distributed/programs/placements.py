"""Placements of gradients, kinds of terms, other dtypes in messages, and DTensors without values; closed forms decide."""

from __future__ import annotations

import io
import itertools

import numpy as np
import pytest
from tests.distributed.on_ranks import close, everybody, mine, on_ranks, values

import ndgrad
import ndgrad.distributed as dist
from ndgrad.distributed import _functional_collectives as functional
from ndgrad.distributed.tensor import DTensor, Partial, Replicate, Shard, distribute_tensor, zeros
from ndgrad.distributed.tensor._api import _shard_tensor
from ndgrad.distributed.tensor._collective_utils import pad_tensor, shard_dim_alltoall, unpad_tensor
from ndgrad.distributed.tensor._dtensor_spec import DTensorSpec, TensorMeta
from ndgrad.distributed.tensor._utils import compute_global_tensor_info, compute_local_shape_and_global_offset
from ndgrad.distributed.tensor.debug import CommDebugMode
from ndgrad.distributed.tensor.experimental import implicit_replication, local_map
from ndgrad.distributed.tensor.parallel import ColwiseParallel, parallelize_module


def line():
    return dist.init_device_mesh("cpu", (dist.get_world_size(),))


@on_ranks(1, 2, 3)
def gradients_of_a_local_tensor_may_be_terms():
    n = dist.get_world_size()
    for take in (DTensor.to_local, DTensor.full_tensor):
        x = distribute_tensor(ndgrad.ones(3, dtype=ndgrad.float64, requires_grad=True), line(), [Replicate()])
        (take(x, grad_placements=[Partial()]) * (1.0 + dist.get_rank())).sum().backward()
        close(x.grad.to_local(), np.full(3, n * (n + 1) / 2))
    x = distribute_tensor(ndgrad.ones(2 * n, 2, dtype=ndgrad.float64, requires_grad=True), line(), [Shard(0)])
    x.full_tensor(grad_placements=[Partial()]).sum().backward()
    close(x.grad.full_tensor(), np.full((2 * n, 2), float(n)))


@on_ranks(1, 2, 4)
def terms_of_the_gradient_of_a_gathered_tensor_go_to_its_pieces_at_once():
    n = dist.get_world_size()
    x = distribute_tensor(ndgrad.ones(2 * n, 2, dtype=ndgrad.float64, requires_grad=True), line(), [Shard(0)])
    with CommDebugMode() as seen:
        (x.full_tensor(grad_placements=[Partial()]) * (1.0 + dist.get_rank())).sum().backward()
    close(x.grad.full_tensor(), np.full((2 * n, 2), n * (n + 1) / 2))
    assert seen.get_comm_counts() == {"all_gather": 1, "reduce_scatter": 1}
    whole = x.redistribute(placements=[Replicate()])
    total = whole.to_local(grad_placements=[Partial()]).sum() * (1.0 + dist.get_rank()) + whole.to_local().sum()
    x.grad = None
    total.backward()
    close(x.grad.full_tensor(), np.full((2 * n, 2), n * (n + 1) / 2 + 1))
    with pytest.raises(RuntimeError, match="before the tensor is used"):
        whole.retain_grad()


@on_ranks(4)
def terms_along_some_dimensions_of_a_mesh():
    mesh = dist.init_device_mesh("cpu", (2, 2))
    for given in ([Shard(0), Shard(1)], [Shard(0), Shard(0)], [Replicate(), Shard(0)]):
        for terms in ([Partial(), Partial()], [Partial(), Replicate()], [Replicate(), Partial()]):
            x = distribute_tensor(ndgrad.ones(4, 6, dtype=ndgrad.float64, requires_grad=True), mesh, given)
            factor, wanted = 1.0, 1.0
            for i, p in enumerate(terms):
                if p.is_partial():
                    factor, wanted = factor * (1.0 + mesh.get_local_rank(i)), wanted * 3.0
            (x.full_tensor(grad_placements=terms) * factor).sum().backward()
            close(x.grad.full_tensor(), np.full((4, 6), wanted))


@on_ranks(1, 3, 4)
def a_table_is_divided_by_rows():
    n = dist.get_world_size()
    embed = ndgrad.nn.functional.embedding
    index = ndgrad.tensor(np.random.default_rng(0).integers(0, 5, (6, 4)))
    factor = ndgrad.tensor(np.random.default_rng(1).standard_normal((6, 4, 3)))
    for rows, options in itertools.product((5, 8), ({}, {"padding_idx": 2}, {"scale_grad_by_freq": True})):
        table = ndgrad.tensor(np.random.default_rng(2).standard_normal((rows, 3)), requires_grad=True)
        wanted = embed(index, table, **options)
        (wanted * factor).sum().backward()
        for place_table, place_index in ((Shard(0), Replicate()), (Shard(0), Shard(0)), (Shard(1), Shard(1)), (Replicate(), Shard(0))):
            spread = distribute_tensor(table.detach(), line(), [place_table]).requires_grad_()
            spread_index = distribute_tensor(index, line(), [place_index])
            with CommDebugMode() as seen:
                found = embed(spread_index, spread, **options)
            (found * distribute_tensor(factor, line(), [Replicate()])).sum().backward()
            close(found.full_tensor(), wanted.detach().numpy())
            close(spread.grad.full_tensor(), table.grad.numpy())
            if place_table == Shard(0) and place_index == Replicate() and "scale_grad_by_freq" not in options:
                assert seen.get_total_counts() == 0  # the table stays in its place
    if n > 1:
        with pytest.raises(IndexError, match="index 8 is out of bounds for dimension 0 with size 8"):
            embed(distribute_tensor(index + 4, line(), [Replicate()]), distribute_tensor(ndgrad.ones(8, 3), line(), [Shard(0)]))


@on_ranks(1, 2, 3)
def gradients_of_the_tensor_behind_from_local_may_be_terms():
    local = mine(4, requires_grad=True)
    d = DTensor.from_local(local, line(), [Replicate()], grad_placements=[Partial()])
    (d * 3.0).sum().backward()
    total = local.grad.clone()
    dist.all_reduce(total)
    close(total, np.full(4, 3.0))


@on_ranks(1, 2, 3)
def second_derivatives_pass_through_given_placements():
    n = dist.get_world_size()
    x = distribute_tensor(ndgrad.full((2,), 2.0, dtype=ndgrad.float64, requires_grad=True), line(), [Replicate()])
    y = (x.to_local(grad_placements=[Partial()]) ** 3).sum()
    (g,) = ndgrad.autograd.grad(y, [x._local], create_graph=True)
    close(g, np.full(2, 12.0 * n))
    (h,) = ndgrad.autograd.grad(g.sum(), [x._local])
    close(h, np.full(2, 12.0 * n))


@on_ranks(1, 2, 3)
def a_redistribution_sends_in_other_dtypes():
    n = dist.get_world_size()
    x = distribute_tensor(ndgrad.full((n, 2), 1 / 3, requires_grad=True), line(), [Shard(0)])
    y = x.redistribute(placements=[Replicate()], forward_dtype=ndgrad.bfloat16)
    assert y.dtype == ndgrad.bfloat16
    y.float().sum().backward()
    assert x.grad.dtype == ndgrad.float32
    terms = DTensor.from_local(ndgrad.full((2 * n,), 1 / 3, requires_grad=True), line(), [Partial()])
    with CommDebugMode() as seen:
        whole = terms.redistribute(placements=[Shard(0)], backward_dtype=ndgrad.float64)
        whole.backward(DTensor.from_local(ndgrad.full((2,), 1 / 3), line(), [Shard(0)]))
    if n > 1:
        assert seen.sent["all_gather"] == (n - 1) * 2 * 8  # two numbers of double precision to each of the others
    close(whole.full_tensor(), np.full(2 * n, n / 3), 1e-6)


@on_ranks(1, 2, 3)
def terms_of_averages_and_products_become_whole_with_their_gradients():
    n, every = dist.get_world_size(), everybody(3)
    for kind, wanted, slope in (
        ("avg", every.mean(0), np.full(3, 1 / n)),
        ("product", every.prod(0), np.prod(np.delete(every, dist.get_rank(), 0), 0)),
    ):
        local = mine(3, requires_grad=True)
        whole = DTensor.from_local(local, line(), [Partial(kind)]).redistribute(placements=[Replicate()])
        close(whole.to_local(), wanted)
        whole.sum().backward()
        close(local.grad, slope)
        close(DTensor.from_local(mine(3), line(), [Partial(kind)]).redistribute(placements=[Shard(0)]).full_tensor(), wanted)
    same = distribute_tensor(ndgrad.tensor(values(0, 3)), line(), [Replicate()]).requires_grad_()
    terms = same.redistribute(placements=[Partial("avg")])
    shifted = terms * 2.0 + 1.0  # a number is added to every term of an average
    assert shifted.placements == (Partial("avg"),)
    close(shifted.full_tensor(), 2 * values(0, 3) + 1)
    shifted.full_tensor().sum().backward()
    close(same.grad.full_tensor(), np.full(3, 2.0))
    with pytest.raises(ValueError, match="product"):
        same.redistribute(placements=[Partial("product")])


@on_ranks(1, 2, 3)
def a_product_over_a_sharded_dimension_has_factors_on_the_ranks():
    x = values(0, 5, 2)
    d = distribute_tensor(ndgrad.tensor(x, requires_grad=True), line(), [Shard(0)])
    out = d.prod(0)
    assert out.placements == ((Partial("product"),) if dist.get_world_size() > 1 else out.placements)
    close(out.full_tensor(), x.prod(0))
    close(d.prod().full_tensor(), x.prod())
    out.full_tensor().sum().backward()
    close(d.grad.full_tensor(), x.prod(0) / x)


@on_ranks(1, 2, 3)
def functions_that_compare_write_and_make_tensors_know_dtensors():
    x = distribute_tensor(ndgrad.tensor(values(0, 4, 3)), line(), [Shard(0)])
    y = x.clone()
    assert ndgrad.equal(x, y)
    assert ndgrad.allclose(x, y)
    if dist.get_rank() == 0:
        y.to_local().add_(1.0)
    assert not ndgrad.equal(x, y)  # on all ranks, though one rank's part differs
    out = zeros(4, 3, device_mesh=line(), placements=[Replicate()], dtype=ndgrad.float64)
    assert ndgrad.add(x, x, out=out) is out
    close(out.to_local(), 2 * values(0, 4, 3))
    with pytest.raises(RuntimeError, match="resized"):
        ndgrad.add(x, x, out=zeros(2, device_mesh=line(), dtype=ndgrad.float64))
    assert ndgrad.nn.init.eye_(out).full_tensor().sum() == 3
    ndgrad.zero_(out)
    assert not out.full_tensor().any()
    assert x.new_full((4, 3), 7.0).placements == (Shard(0),)
    assert x.new_ones(2).placements == (Replicate(),)
    # Each rank has a row: an empty part does not know the order of its dimensions.
    assert x.new_empty_strided((6, 3), (1, 6)).stride() == (1, 6)


@on_ranks(1, 2, 3)
def each_rank_saves_and_loads_its_part():
    x = distribute_tensor(ndgrad.tensor(values(0, 4, 3), requires_grad=True), line(), [Shard(1)])
    file = io.BytesIO()
    ndgrad.save({"x": x}, file)
    file.seek(0)
    loaded = ndgrad.load(file)["x"]
    assert loaded.placements == (Shard(1),)
    assert loaded.requires_grad
    assert loaded.device_mesh == x.device_mesh
    close(loaded.full_tensor(), values(0, 4, 3))


@on_ranks(1, 2, 3)
def a_model_is_initialised_in_pieces_and_never_held_whole():
    ndgrad.manual_seed(5)
    plain = ndgrad.nn.Linear(4, 6)
    plain.reset_parameters()
    ndgrad.manual_seed(5)
    ndgrad.nn.Linear(4, 6)
    layer = parallelize_module(ndgrad.nn.Linear(4, 6, device="meta"), line(), ColwiseParallel())
    assert layer.weight.is_meta
    assert layer.weight.to_local().is_meta
    layer.to_empty(device="cpu")
    layer.reset_parameters()
    close(layer.weight.full_tensor(), plain.weight.detach().numpy())


@on_ranks(1, 2, 3)
def dropout_of_pieces_is_that_of_the_whole():
    ndgrad.manual_seed(3)
    wanted = ndgrad.nn.functional.dropout(ndgrad.ones(7, 2), 0.5).numpy()
    for placement in (Shard(0), Shard(1), Replicate()):
        ndgrad.manual_seed(3)
        x = distribute_tensor(ndgrad.ones(7, 2), line(), [placement])
        close(ndgrad.nn.functional.dropout(x, 0.5).full_tensor(), wanted)


@on_ranks(1, 2, 3)
def draws_do_not_depend_on_the_memory_of_a_piece():
    local = ndgrad.ones(5, 4).t()  # 4 rows and 5 columns, the columns one after the other
    n = dist.get_world_size()
    ndgrad.manual_seed(3)
    wanted = ndgrad.nn.functional.dropout(ndgrad.ones(4 * n, 5), 0.5).numpy()
    ndgrad.manual_seed(3)
    close(ndgrad.nn.functional.dropout(DTensor.from_local(local, line(), [Shard(0)]), 0.5).full_tensor(), wanted)


@on_ranks(1, 2, 3)
def plain_tensors_count_as_replicated_where_the_program_says_so():
    x = distribute_tensor(ndgrad.tensor(values(0, 4, 3)), line(), [Shard(0)])
    with pytest.raises(RuntimeError, match="plain tensor"):
        x + ndgrad.tensor(values(1, 4, 3))
    with implicit_replication():
        close((x + ndgrad.tensor(values(1, 4, 3))).full_tensor(), values(0, 4, 3) + values(1, 4, 3))


@on_ranks(1, 2, 3)
def local_map_runs_a_function_on_the_pieces():
    x = distribute_tensor(ndgrad.tensor(values(0, 6, 3)), line(), [Shard(0)])
    w = distribute_tensor(ndgrad.tensor(values(1, 3, 2), requires_grad=True), line(), [Replicate()])

    @local_map(out_placements=[Shard(0)], in_placements=([Shard(0)], [Replicate()]), in_grad_placements=(None, [Partial()]))
    def product(x, w):
        return x @ w

    out = product(x, w)
    close(out.full_tensor(), values(0, 6, 3) @ values(1, 3, 2))
    out.full_tensor().sum().backward()
    close(w.grad.full_tensor(), np.tile(values(0, 6, 3).sum(0)[:, None], 2))
    with pytest.raises(ValueError, match="redistribute_inputs"):
        product(x.redistribute(placements=[Replicate()]), w)


@on_ranks(2, 3, 4)
def a_mesh_is_made_of_groups():
    n = dist.get_world_size()
    mesh = dist.DeviceMesh.from_group(dist.group.WORLD, "cpu")
    assert mesh.mesh.tolist() == list(range(n))
    assert mesh.get_group() is dist.group.WORLD
    with pytest.raises(ValueError, match="Invalid mesh"):
        dist.DeviceMesh.from_group(dist.group.WORLD, "cpu", mesh=list(reversed(range(n))))
    own = dist.new_group([dist.get_rank()], use_local_synchronization=True)
    both = dist.DeviceMesh.from_group([dist.group.WORLD, own], "cpu", mesh=[[r] for r in range(n)])
    assert both.shape == (n, 1)
    close(distribute_tensor(ndgrad.tensor(values(0, n)), both, [Shard(0), Replicate()]).full_tensor(), values(0, n))


@on_ranks(4)
def dimensions_of_a_mesh_are_flattened():
    mesh = dist.init_device_mesh("cpu", (2, 2), mesh_dim_names=("data", "model"))
    flat = mesh["data", "model"]._flatten("all")
    assert flat.shape == (4,)
    assert mesh["all"] is flat
    x = ndgrad.tensor(values(0, 8))
    close(distribute_tensor(x, flat, [Shard(0)]).full_tensor(), values(0, 8))


@on_ranks(3, 4)
def members_alone_make_a_group():
    rank = dist.get_rank()
    if rank < 2:
        pair = dist.new_group([0, 1], use_local_synchronization=True)
        t = ndgrad.tensor([float(rank)])
        dist.all_reduce(t, group=pair)
        assert t.item() == 1.0
    else:
        with pytest.raises(ValueError, match="not a member"):
            dist.new_group([0, 1], use_local_synchronization=True)
    every = dist.new_group()  # the groups of some ranks do not disturb those of all
    t = ndgrad.ones(1)
    dist.all_reduce(t, group=every)
    assert t.item() == dist.get_world_size()


@on_ranks(4)
def groups_of_neighbours_divide_a_group():
    own, every = dist.new_subgroups(2, group_desc="a pair")
    assert (own.size(), own.group_desc, len(every)) == (2, "a pair", 2)
    alone, both = dist.new_subgroups(1, group=own)
    assert alone.ranks == (dist.get_rank(),)
    assert len(both) == 2


@on_ranks(1, 2, 3)
def numbers_that_decide_whether_an_op_is_linear_are_part_of_its_plan():
    terms = DTensor.from_local(mine(2, 3), line(), [Partial()])
    whole = everybody(2, 3).sum(0)
    pad = ndgrad.nn.functional.pad
    for value in (0.0, 1.0, 0.0, 2.5):
        out = pad(terms, [1, 1], value=value)
        close(out.full_tensor(), np.pad(whole, ((0, 0), (1, 1)), constant_values=value))
        assert (out.placements == (Partial(),)) == (value == 0.0)


@on_ranks(1, 2, 3)
def grad_takes_and_returns_dtensors():
    x = distribute_tensor(ndgrad.tensor(values(0, 4, 3), requires_grad=True), line(), [Shard(0)])
    w = distribute_tensor(ndgrad.tensor(values(1, 3), requires_grad=True), line(), [Replicate()])
    gx, gw = ndgrad.autograd.grad((x * w).square().sum(), [x, w], create_graph=True)
    assert (gx.placements, gw.placements) == ((Shard(0),), (Replicate(),))
    close(gx.full_tensor(), 2 * values(0, 4, 3) * values(1, 3) ** 2)
    close(gw.full_tensor(), 2 * (values(0, 4, 3) ** 2).sum(0) * values(1, 3))
    (second,) = ndgrad.autograd.grad(gw.full_tensor().sum(), w)  # a plain root, a spread input
    close(second.full_tensor(), 2 * (values(0, 4, 3) ** 2).sum(0))
    y = x * 2.0
    ndgrad.autograd.backward([y], [distribute_tensor(ndgrad.ones(4, 3, dtype=ndgrad.float64), line(), [Replicate()])], inputs=[x])
    close(x.grad.full_tensor(), np.full((4, 3), 2.0))
    assert w.grad is None


@on_ranks(1, 2, 3)
def parts_of_a_dtensor_are_written():
    wanted = values(0, 5, 3)
    x = distribute_tensor(ndgrad.tensor(wanted), line(), [Shard(0)])
    column = distribute_tensor(ndgrad.tensor(values(1, 5)), line(), [Shard(0)])
    for index, value in ((slice(1, 3), 7.0), ((slice(None), 0), values(1, 5)), ([0, 4], -1.0), ((..., -1), 2.0)):
        x[index] = column if isinstance(value, np.ndarray) else value
        wanted[index] = value
        close(x.full_tensor(), wanted)
    x[x < 0] = 100.0
    wanted[wanted < 0] = 100.0
    close(x.full_tensor(), wanted)
    assert x.placements == (Shard(0),)
    with pytest.raises(RuntimeError, match="plain tensor"):
        x[0] = ndgrad.ones(3, dtype=ndgrad.float64)
    square = distribute_tensor(ndgrad.zeros(3, 3, dtype=ndgrad.float64), line(), [Shard(1)])
    ones = distribute_tensor(ndgrad.ones(3, dtype=ndgrad.float64), line(), [Replicate()])
    close(ndgrad.diagonal_scatter(square, ones).full_tensor(), np.eye(3))
    index = distribute_tensor(ndgrad.tensor([0, 0, 2]), line(), [Replicate()])
    source = distribute_tensor(ndgrad.tensor(values(2, 3, 3)), line(), [Shard(1)])
    plain = ndgrad.zeros(3, 3, dtype=ndgrad.float64).index_reduce(0, ndgrad.tensor([0, 0, 2]), ndgrad.tensor(values(2, 3, 3)), "amax")
    close(square.index_reduce(0, index, source, "amax").full_tensor(), plain.numpy())


@on_ranks(2)
def decisions_and_meshes_of_one_rank_send_no_data():
    x = distribute_tensor(ndgrad.tensor(values(0, 4, 3)), line(), [Shard(0)])
    index = distribute_tensor(ndgrad.zeros(4, 1, dtype=ndgrad.int64), line(), [Shard(0)])
    with CommDebugMode() as seen:
        x.gather(1, index)
    assert seen.get_total_counts() == 0
    mesh = dist.init_device_mesh("cpu", (2, 1))
    terms = DTensor.from_local(mine(4, 2), mesh, [Shard(0), Partial()])
    with CommDebugMode() as seen:
        whole = terms.redistribute(placements=[Shard(0), Shard(1)])
    assert seen.get_total_counts() == 0
    close(whole.to_local(), values(dist.get_rank(), 4, 2))
    assert terms.contiguous() is terms
    assert ndgrad.empty_like(terms).placements == ndgrad.zeros_like(terms).placements == terms.placements
    assert terms.new_empty(terms.shape).placements == terms.placements
    assert terms.new_zeros(terms.shape).placements == (Shard(0), Replicate())
    assert ndgrad.ones_like(terms).placements == (Shard(0), Replicate())


@on_ranks(1, 2, 3, 4)
def a_tensor_is_spread_from_the_values_of_one_rank():
    n = dist.get_world_size()
    meshes = [line()] + ([dist.init_device_mesh("cpu", (2, 2))] if n == 4 else [])
    for mesh in meshes:
        kinds = (Shard(0), Shard(1), Replicate(), Partial(), Partial("avg"))
        for placements in itertools.product(kinds, repeat=mesh.ndim):
            for source in (0, 1):
                d = distribute_tensor(mine(5, 3), mesh, placements, src_data_rank=source)
                first = source if mesh.ndim == 1 and source < n else 3 if mesh.ndim == 2 and source else 0
                close(d.full_tensor(), values(first, 5, 3))
                assert d.placements == placements
    with CommDebugMode() as seen:
        distribute_tensor(mine(4 * n, 3), line(), [Shard(0)])
    assert seen.get_comm_counts()["scatter"] == (n > 1)


@on_ranks(2)
def assert_close_compares_placements_and_parts():
    x = distribute_tensor(ndgrad.tensor(values(0, 4)), line(), [Shard(0)])
    ndgrad.testing.assert_close(x, x.clone())
    with pytest.raises(AssertionError, match="placements"):
        ndgrad.testing.assert_close(x, x.redistribute(placements=[Replicate()]))
    with pytest.raises(AssertionError, match="types"):
        ndgrad.testing.assert_close(x, ndgrad.tensor(values(0, 4)))
    with pytest.raises(AssertionError, match="not close"):
        ndgrad.testing.assert_close(x, x + 1)


def _second_derivatives(f, *arrays, place=None):
    """Return f, its gradients, and the gradients of the sum of their squares. `place` spreads the leaves."""
    leaves = [ndgrad.tensor(a, dtype=ndgrad.float64, requires_grad=True) for a in arrays]
    if place is not None:
        leaves = [distribute_tensor(t, p[0], p[1]) for t, p in zip(leaves, place, strict=True)]
    out = f(*leaves)
    first = ndgrad.autograd.grad(out, leaves, create_graph=True)
    second = ndgrad.autograd.grad(sum((g * g).sum() for g in first), leaves)
    return [t.full_tensor().detach() if isinstance(t, DTensor) else t.detach() for t in (out, *first, *second)]


@on_ranks(1, 2, 3, 4)
def second_derivatives_of_divided_work_are_those_of_one_process():
    n, mesh = dist.get_world_size(), line()
    x, u, v = (np.random.default_rng(k).standard_normal(s) for k, s in ((0, (2 * n, 3)), (1, (3, n + 1)), (2, (n + 1, 2))))

    def layers(x, u, v):
        hidden = (x @ u).tanh()
        return ((hidden @ v) ** 3).mean() + (hidden.exp().sum(0) ** 2).sum() + (x.amax(1) * hidden.mean(1)).sum()

    want = _second_derivatives(layers, x, u, v)
    choices = ([Replicate()], [Shard(0)], [Shard(1)])
    for chosen in itertools.product(choices, repeat=3):
        found = _second_derivatives(layers, x, u, v, place=[(mesh, p) for p in chosen])
        for a, b in zip(found, want, strict=True):
            close(a, b.numpy(), 1e-9)


@on_ranks(1, 2, 3)
def second_derivatives_of_terms_are_those_of_their_reduction():
    n, mesh = dist.get_world_size(), line()
    terms = everybody(2, n + 1)
    for name, reduce in (("sum", lambda t: t.sum(0)), ("avg", lambda t: t.mean(0)), ("max", lambda t: t.amax(0))):
        whole = ndgrad.tensor(terms, requires_grad=True)
        (first,) = ndgrad.autograd.grad((reduce(whole) ** 3).sum(), [whole], create_graph=True)
        (second,) = ndgrad.autograd.grad((first * first).sum(), [whole])
        for target in (Replicate(), Shard(1)):
            local = mine(2, n + 1, requires_grad=True)
            d = DTensor.from_local(local, mesh, [Partial(name)]).redistribute(placements=[target])
            (first,) = ndgrad.autograd.grad((d**3).sum(), [local], create_graph=True)
            (own,) = ndgrad.autograd.grad((first * first).sum(), [local])
            close(own, second[dist.get_rank()].numpy())
    for kept in ("sum", "avg"):  # a whole tensor as terms, which work is divided on
        x = ndgrad.tensor(terms[0], requires_grad=True)
        d = distribute_tensor(x.detach().requires_grad_(), mesh, [Replicate()])
        (want,) = ndgrad.autograd.grad((x**3).sum(), [x], create_graph=True)
        (want,) = ndgrad.autograd.grad((want**2).sum(), [x])
        (first,) = ndgrad.autograd.grad(
            (d.redistribute(placements=[Partial(kept)]).redistribute(placements=[Shard(1)]) ** 3).sum(), [d],
            create_graph=True,
        )  # fmt: skip
        (second,) = ndgrad.autograd.grad((first**2).sum(), [d])
        close(second.full_tensor(), want.numpy())


@on_ranks(1, 2, 3)
def torchs_internal_names_describe_and_cut_tensors():
    n, r, mesh = dist.get_world_size(), dist.get_rank(), line()
    whole = ndgrad.arange(2.0 * (n + 1)).reshape(n + 1, 2)
    pieces, missing = Shard(0)._split_tensor(whole, n)
    sizes = [len(p) for p in whole.chunk(n)]
    sizes += [0] * (n - len(sizes))
    assert missing == [sizes[0] - k for k in sizes]
    assert {tuple(p.shape) for p in pieces} == {(sizes[0], 2)}
    assert unpad_tensor(pieces[r], 0, missing[r]).tolist() == whole[sum(sizes[:r]) :][: sizes[r]].tolist()
    assert pad_tensor(whole, 1, 2).shape == (n + 1, 4)
    part = _shard_tensor(whole, [Shard(0)], mesh)
    shape, offset = compute_local_shape_and_global_offset(whole.shape, mesh, part.placements)
    assert part.to_local().shape == shape
    assert part.to_local().tolist() == whole[offset[0] :][: shape[0]].tolist()
    spec = DTensorSpec(mesh, part.placements, TensorMeta(whole.shape, whole.stride(), whole.dtype))
    made = DTensor(part.to_local(), spec, requires_grad=True)
    assert made.requires_grad
    assert made.full_tensor().tolist() == whole.tolist()
    with pytest.raises(ValueError, match="Give the spec of the whole"):
        DTensor(whole[:, :1], spec, requires_grad=False)
    square = ndgrad.arange(float(n * n)).reshape(n, n)
    column = shard_dim_alltoall(square[r : r + 1], 0, 1, mesh, 0)
    assert column.tolist() == square[:, r : r + 1].tolist()
    assert shard_dim_alltoall(square[r : r + 1].to("meta"), 0, 1, mesh, 0).shape == column.shape
    shape, strides = compute_global_tensor_info(column, mesh, [Shard(1)])
    assert (shape, strides) == ([n, n], [n, 1])


@on_ranks(2, 3)
def collectives_that_return_new_tensors():
    n, r, mesh = dist.get_world_size(), dist.get_rank(), line()
    every = everybody(n, 3)
    x = mine(n, 3, requires_grad=True)
    for group in (mesh, (mesh, 0), list(range(n)), dist.group.WORLD):
        close(functional.all_reduce(x, "sum", group), every.sum(0))
    for name, reduce in (("avg", np.mean), ("max", np.max), ("min", np.min), ("product", np.prod)):
        close(functional.all_reduce(x, name, mesh), reduce(every, 0))
        close(functional.reduce_scatter_tensor(x, name, 0, mesh), reduce(every, 0)[r : r + 1])
    close(functional.all_gather_tensor(x, 1, mesh), np.concatenate(list(every), 1))
    close(functional.all_to_all_single(x, None, None, mesh), every[:, r])
    close(functional.permute_tensor(x, [(i + 1) % n for i in range(n)], mesh), every[r - 1])
    close(functional.broadcast(x, 1, mesh), every[1])
    first, second = functional.reduce_scatter_tensor_coalesced([x, x * 2.0], "sum", [0, 0], mesh)
    close(second, 2 * first.detach().numpy())
    bits = functional.all_reduce(ndgrad.tensor([1 << r]), "bor", mesh)
    assert bits.tolist() == [2**n - 1]
    (functional.all_gather_tensor_autograd(x, 0, mesh) * (1.0 + r)).sum().backward()
    close(x.grad, np.full((n, 3), n * (n + 1) / 2))
    pair = functional.all_reduce(ndgrad.ones(1), "sum", [r])
    assert pair.tolist() == [1.0]
    with pytest.raises(ValueError, match="a reduction is one of"):
        functional.all_reduce(x, "mean", mesh)
    with pytest.raises(ValueError, match="must be a multiple"):
        functional.reduce_scatter_tensor(ndgrad.ones(n + 1), "sum", 0, mesh)
    with pytest.raises(ValueError, match="no permutation"):
        functional.permute_tensor(x, [0] * n, mesh)


@on_ranks(2)
def collectives_replace_the_values_of_parameters():
    p = ndgrad.nn.Parameter(mine(3))
    dist.broadcast(p, 1)
    close(p, values(1, 3))
    dist.all_reduce(p)
    close(p, 2 * values(1, 3))
    assert p.is_leaf
    assert p.requires_grad


@on_ranks(2)
def plain_tensors_of_one_element_count_as_replicated():
    x = distribute_tensor(ndgrad.arange(4.0), line(), [Shard(0)])
    close((x * ndgrad.tensor([2.0])).full_tensor(), 2 * np.arange(4.0))
    with pytest.raises(RuntimeError, match="plain tensor"):
        x * ndgrad.tensor([2.0], requires_grad=True)
