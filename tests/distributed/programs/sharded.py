"""Fully sharded modules (ZeRO 2 and 3) against one process with the whole batch."""

from __future__ import annotations

import copy

import numpy as np
import pytest
from tests.distributed.on_ranks import close, on_ranks, values
from tests.distributed.programs.tensor_parallel import _PLAN, _loss, _Model, _tokens
from tests.distributed.programs.training import _batch, _mean_over_ranks, _mine, _model, _train_alone

import ndgrad
import ndgrad.distributed as dist
from ndgrad._src.checkpoint import checkpoint
from ndgrad.distributed.fsdp import (
    CPUOffloadPolicy,
    FSDPModule,
    MixedPrecisionPolicy,
    fully_shard,
    register_fsdp_forward_method,
)
from ndgrad.distributed.tensor.debug import CommDebugMode
from ndgrad.distributed.tensor.parallel import ColwiseParallel, parallelize_module


def _sharded(seed=0, **settings):
    """The model of `training`, each layer a unit."""
    net = _model(seed)
    for layer in net:
        if isinstance(layer, ndgrad.nn.Linear):
            fully_shard(layer, **settings)
    return fully_shard(net, **settings)


def _step(net, step):
    x, y = _batch(step)
    loss = ((net(_mine(x)) - _mine(y)) ** 2).mean()
    loss.backward()
    return loss.item()


def _whole(p):
    return p.detach().full_tensor().numpy()


@on_ranks(1, 2, 3, 4)
def fully_sharded_modules_train_as_one_process_with_the_whole_batch():
    adam, sgd = ndgrad.optim.Adam, ndgrad.optim.SGD
    for optimizer, reshard in ((adam, True), (sgd, False), (sgd, None)):
        alone, want = _train_alone(optimizer, steps=3)
        net = _sharded(seed=dist.get_rank(), reshard_after_forward=reshard)  # all ranks get the first rank's
        assert isinstance(net, FSDPModule)
        assert type(net).__name__ == "FSDPSequential"
        opt = optimizer(net.parameters(), lr=0.05)
        for step in range(3):
            opt.zero_grad()
            assert _mean_over_ranks(_step(net, step)) == pytest.approx(want[step], rel=1e-12)
            opt.step()
        for (name, p), (other, q) in zip(net.named_parameters(), alone.named_parameters(), strict=True):
            assert name == other
            close(_whole(p), q.detach().numpy(), 1e-10)


@on_ranks(2)
def messages_are_under_way_while_backward_computes():
    net = _sharded(reshard_after_forward=True)
    _step(net, 0)
    with ndgrad.profiler.profile() as seen:
        _step(net, 1)
    events = seen.events()
    nodes = [e.time_range for e in events if e.name == "LinearBackward0"]
    for name in ("mpi:reduce_scatter", "mpi:all_gather"):
        sent = [e.time_range for e in events if e.name == name]
        # begun before a later layer's backward has begun, and seen to end after it
        assert any(m.start < node.start and node.start < m.end for m in sent for node in nodes), name


def _bytes(net):
    return sum(p.numel() * p.element_size() for p in net.parameters())


@on_ranks(1, 2, 3, 4)
def the_bytes_of_a_step_are_those_of_the_formula():
    n = dist.get_world_size()
    total = _bytes(_model())
    for reshard, times in ((True, 3), (False, 2)):  # gathered twice and scattered once, or once each
        net = _sharded(reshard_after_forward=reshard)
        for step in range(2):
            with CommDebugMode() as seen:
                _step(net, step)
            # a rank sends its pieces to all others, and its gradients but for its own pieces
            mine = sum(p.to_local().numel() * p.element_size() for p in net.parameters())
            gathered = seen.sent.get("all_gather", 0)
            assert gathered == (times - 1) * (n - 1) * mine
            assert seen.sent.get("reduce_scatter", 0) * n == (n - 1) * total
            assert "all_reduce" not in seen.calls
        every = [None] * n
        dist.all_gather_object(every, seen.total())
        assert sum(every) == pytest.approx(times * (n - 1) * total)


def _retained(net, opt):
    """The bytes of parameters, gradients and state that this rank holds."""
    held = {}
    for p in net.parameters():
        tensors = [p, p.grad, *(v for v in opt.state[p].values() if isinstance(v, ndgrad.Tensor) and v.ndim)]
        for t in tensors:
            array = (t.to_local() if hasattr(t, "to_local") else t).detach().numpy()
            while array.base is not None and isinstance(array.base, np.ndarray):
                array = array.base  # what is alive, if it is a part of something larger
            held[id(array)] = array
    return sum(array.nbytes for array in held.values())


@on_ranks(1, 2, 3, 4)
def memory_per_rank_falls_as_one_over_n():
    n = dist.get_world_size()
    ndgrad.manual_seed(0)
    net = ndgrad.nn.Sequential(*(ndgrad.nn.Linear(48, 48) for _ in range(4)))
    whole = 4 * sum(p.numel() * 4 for p in net.parameters())  # parameter, gradient and two of Adam's
    for layer in net:
        fully_shard(layer, reshard_after_forward=True)
    fully_shard(net)
    opt = ndgrad.optim.Adam(net.parameters())
    for _ in range(2):
        opt.zero_grad()
        net(ndgrad.ones(2, 48)).sum().backward()
        opt.step()
    assert _retained(net, opt) == whole / n
    units = [m._fsdp_state.units[0] for m in net if isinstance(m, FSDPModule)]
    assert all(unit.block is None and not unit.gradients for unit in units)
    # between forward and backward nothing is whole either, the graph included
    out = net(ndgrad.ones(2, 48)).sum()
    assert all(unit.block is None for unit in units)
    out.backward()


@on_ranks(2)
def at_most_two_units_are_whole_at_a_time():
    net = _sharded(reshard_after_forward=True)
    units = [m._fsdp_state.units[0] for m in net if isinstance(m, FSDPModule)]
    most = []
    for layer in net:
        if isinstance(layer, FSDPModule):
            layer.register_forward_hook(lambda *_: most.append(sum(u.block is not None for u in units)))
            layer.register_full_backward_hook(lambda *_: most.append(sum(u.block is not None for u in units)))
    for step in range(3):
        _step(net, step)
    assert len(most) == 18
    assert max(most) <= 2


@on_ranks(2)
def gradients_of_micro_batches_are_sent_once():
    alone = _model()
    batches = [_batch(0), _batch(1), _batch(2)]
    for x, y in batches:
        ((alone(ndgrad.tensor(x)) - ndgrad.tensor(y)) ** 2).mean().backward()
    net = _sharded()
    with CommDebugMode() as seen:
        for i in range(3):
            net.set_requires_gradient_sync(i == 2)
            _step(net, i)
            assert all((p.grad is None) == (i < 2) for p in net.parameters())
    assert seen.get_comm_counts()["reduce_scatter"] == 3  # one for each unit
    for p, q in zip(net.parameters(), alone.parameters(), strict=True):
        close(_whole(p.grad), q.grad.numpy(), 1e-10)
    again = _sharded()  # here pieces are sent each time, and summed
    for i in range(3):
        _step(again, i)
    for p, q in zip(again.parameters(), alone.parameters(), strict=True):
        close(_whole(p.grad), q.grad.numpy(), 1e-10)


@on_ranks(2)
def several_forward_passes_before_backward():
    alone, net = _model(), _sharded()
    (x, _), (z, _) = _batch(0), _batch(1)
    (alone(ndgrad.tensor(x)).sin().mean() + alone(ndgrad.tensor(z)).cos().mean()).backward()
    (net(_mine(x)).sin().mean() + net(_mine(z)).cos().mean()).backward()
    for p, q in zip(net.parameters(), alone.parameters(), strict=True):
        close(_whole(p.grad), q.grad.numpy(), 1e-10)
    net.zero_grad()
    first, second = net(_mine(x)).sin().mean(), net(_mine(z)).cos().mean()
    first.backward(retain_graph=True)
    second.backward()
    for p, q in zip(net.parameters(), alone.parameters(), strict=True):
        close(_whole(p.grad), q.grad.numpy(), 1e-10)
    first.backward()
    alone(ndgrad.tensor(x)).sin().mean().backward()
    for p, q in zip(net.parameters(), alone.parameters(), strict=True):
        close(_whole(p.grad), q.grad.numpy(), 1e-10)


class _Experts(ndgrad.nn.Module):
    """Each rank uses another part of it, and no rank the last."""

    def __init__(self):
        super().__init__()
        ndgrad.manual_seed(1)
        self.experts = ndgrad.nn.ModuleList(ndgrad.nn.Linear(2, 2).double() for _ in range(dist.get_world_size() + 1))

    def forward(self, x, which):
        outs = [expert(x) for expert in self.experts]
        return outs[which]


@on_ranks(2, 3)
def parameters_that_only_some_ranks_use():
    n, rank = dist.get_world_size(), dist.get_rank()
    net = _Experts()
    for expert in net.experts:
        fully_shard(expert, reshard_after_forward=True)
    fully_shard(net)
    for _ in range(2):
        net.zero_grad()
        net(ndgrad.tensor(values(rank, 3, 2)), rank).sum().backward()
        for r in range(n):
            close(_whole(net.experts[r].weight.grad), np.tile(values(r, 3, 2).sum(0), (2, 1)) / n)
        assert net.experts[n].weight.grad is None


class _Block(ndgrad.nn.Module):
    def __init__(self, inside):
        super().__init__()
        self.first, self.second = ndgrad.nn.Linear(4, 6).double(), ndgrad.nn.Linear(6, 4).double()
        self.inside = inside

    def forward(self, x):
        if self.inside == "checkpoint":
            return checkpoint(self._compute, x, use_reentrant=False)
        return self._compute(x)

    def _compute(self, x):
        return ndgrad.nn.functional.linear(self.first(x).tanh(), self.second.weight.T.T, self.second.bias)


@on_ranks(2)
def checkpoints_views_and_hooks_around_sharded_modules():
    x = values(5, 6, 4)
    for way in ("plain", "checkpoint", "around", "hooks"):
        ndgrad.manual_seed(0)
        alone = ndgrad.nn.Sequential(_Block("plain"), _Block("plain"))
        alone(ndgrad.tensor(x)).square().mean().backward()
        ndgrad.manual_seed(0)
        net = ndgrad.nn.Sequential(_Block(way), _Block(way))
        for block in net:
            fully_shard(block, reshard_after_forward=True)
        fully_shard(net)
        given = ndgrad.tensor(x)
        if way == "around":
            out = checkpoint(net[1], checkpoint(net[0], given, use_reentrant=False), use_reentrant=False)
        elif way == "hooks":
            with ndgrad.autograd.graph.saved_tensors_hooks(lambda t: t.numpy(force=True).copy(), ndgrad.tensor):
                out = net(given)
        else:
            out = net(given)
        out.square().mean().backward()
        for p, q in zip(net.parameters(), alone.parameters(), strict=True):
            close(_whole(p.grad), q.grad.numpy(), 1e-10)


@on_ranks(2)
def parameters_written_between_forward_and_backward_are_noticed():
    net = _sharded(reshard_after_forward=True)
    opt = ndgrad.optim.SGD(net.parameters(), lr=0.1)
    _step(net, 0)
    loss = net(_mine(_batch(0)[0])).sum()
    opt.step()
    with pytest.raises(RuntimeError, match="modified by an inplace operation: the sharded parameters .*weight.* were written"):
        loss.backward()
    opt.zero_grad()
    alone = _model()
    for p, q in zip(net.parameters(), alone.parameters(), strict=True):
        q.data = p.detach().full_tensor()
    x, y = _batch(3)
    ((alone(ndgrad.tensor(x)) - ndgrad.tensor(y)) ** 2).mean().backward()
    _step(net, 3)  # nothing is left of the failed pass
    for p, q in zip(net.parameters(), alone.parameters(), strict=True):
        close(_whole(p.grad), q.grad.numpy(), 1e-10)


@on_ranks(3)
def frozen_tied_and_wanted_parameters():
    def make():
        net = _model()
        net[0].weight.requires_grad_(False)
        net[4] = ndgrad.nn.Linear(8, 8).double()
        net[4].weight = net[2].weight  # tied
        return net

    x = values(7, 6, 4)
    alone, net = make(), fully_shard(make(), reshard_after_forward=True)
    alone(ndgrad.tensor(x)).square().mean().backward()
    net(ndgrad.tensor(x)).square().mean().backward()
    assert net[4].weight is net[2].weight
    for p, q in zip(net.parameters(), alone.parameters(), strict=True):
        assert (p.grad is None) == (q.grad is None)
        if q.grad is not None:
            close(_whole(p.grad), q.grad.numpy(), 1e-10)
    # gradients of certain tensors alone
    bias = net[0].bias
    (found,) = ndgrad.autograd.grad(net(ndgrad.tensor(x)).square().mean(), [bias.to_local()])
    size = bias.to_local().shape[0]
    start = -(-8 // dist.get_world_size()) * dist.get_rank()
    close(found, alone[0].bias.grad.numpy()[start : start + size], 1e-10)
    with pytest.raises(NotImplementedError, match="create_graph=True"):
        net(ndgrad.tensor(x)).square().mean().backward(create_graph=True)


@on_ranks(2, 3)
def norms_are_clipped_over_all_pieces():
    alone, net = _model(), _sharded()
    x, y = _batch(0)
    ((alone(ndgrad.tensor(x)) - ndgrad.tensor(y)) ** 2).mean().backward()
    _step(net, 0)
    for order in (2.0, 1.0, float("inf")):
        want = ndgrad.nn.utils.clip_grad_norm_(alone.parameters(), 0.1, norm_type=order)
        with CommDebugMode() as seen:
            found = ndgrad.nn.utils.clip_grad_norm_(net.parameters(), 0.1, norm_type=order)
        assert float(found) == pytest.approx(float(want), rel=1e-12)
        assert seen.get_comm_counts() == {"all_gather": 1}
        for p, q in zip(net.parameters(), alone.parameters(), strict=True):
            close(_whole(p.grad), q.grad.numpy(), 1e-10)


@on_ranks(4)
def replicas_of_shards():
    mesh = dist.init_device_mesh("cpu", (2, 2), mesh_dim_names=("replicas", "pieces"))
    alone, want = _train_alone()
    net = _sharded(seed=dist.get_rank(), mesh=mesh)
    opt = ndgrad.optim.Adam(net.parameters(), lr=0.05)
    for step in range(4):
        opt.zero_grad()
        assert _mean_over_ranks(_step(net, step)) == pytest.approx(want[step], rel=1e-12)
        opt.step()
    for p, q in zip(net.parameters(), alone.parameters(), strict=True):
        close(_whole(p), q.detach().numpy(), 1e-10)
        assert [str(s) for s in p.placements] == ["Replicate()", "Shard(dim=0)"]


@on_ranks(2)
def mixed_precision_keeps_pieces_and_sums_as_they_were():
    policy = MixedPrecisionPolicy(param_dtype=ndgrad.bfloat16, reduce_dtype=ndgrad.float32, output_dtype=ndgrad.float32)
    ndgrad.manual_seed(0)
    net = fully_shard(ndgrad.nn.Linear(4, 2), mp_policy=policy)
    seen = []
    net.register_forward_pre_hook(lambda m, args: seen.append((m.weight.dtype, args[0].dtype)))
    rank = dist.get_rank()
    with CommDebugMode() as traffic:
        out = net(ndgrad.tensor(values(rank, 3, 4), dtype=ndgrad.float32))
    assert seen == [(ndgrad.bfloat16, ndgrad.bfloat16)]
    assert traffic.sent["all_gather"] == net.weight.to_local().numel() * 2 + net.bias.to_local().numel() * 2
    assert out.dtype == ndgrad.float32
    out.sum().backward()
    assert net.weight.dtype == net.weight.grad.dtype == ndgrad.float32
    both = np.mean([values(r, 3, 4).sum(0) for r in range(2)], axis=0)
    close(_whole(net.weight.grad), np.tile(both, (2, 1)), 3e-2)


@on_ranks(2)
def what_cannot_be_sharded_is_refused():
    scalar = ndgrad.nn.Module()
    scalar.p = ndgrad.nn.Parameter(ndgrad.tensor(1.0))
    with pytest.raises(ValueError, match="Change p to a 1D tensor"):
        fully_shard(scalar)
    net = fully_shard(ndgrad.nn.Linear(2, 2))
    with pytest.raises(ValueError, match="fully sharded already"):
        fully_shard(net)
    with pytest.raises(TypeError, match="takes a module"):
        fully_shard(3)
    mesh = dist.init_device_mesh("cpu", (2,))
    with pytest.raises(NotImplementedError, match="the parameter 'weight' is already a DTensor, .*Shard.dim=0"):
        fully_shard(parallelize_module(ndgrad.nn.Linear(2, 2), mesh, ColwiseParallel()), mesh=mesh)


@on_ranks(2)
def unshard_and_reshard_by_hand():
    net = fully_shard(_model()[0])
    want = _model()[0].weight.detach().numpy()
    net.unshard()
    close(net.weight, want)
    net.reshard()
    assert net.weight.to_local().shape == (4, 4)
    handle = net.unshard(async_op=True)
    handle.wait()
    close(net.weight, want)
    with ndgrad.no_grad():
        close(net(ndgrad.ones(1, 4, dtype=ndgrad.float64)), want.sum(1)[None] + _model()[0].bias.detach().numpy())
    net.reshard()


@on_ranks(2)
def parameters_that_are_converted_or_replaced():
    net = _sharded()
    net.float()
    x = _mine(_batch(0)[0])
    assert net(x.float()).dtype == ndgrad.float32
    net.double()
    net(x).sum().backward()
    assert net[0].weight.dtype == net[0].weight.grad.dtype == net[0].weight.to_local().dtype == ndgrad.float64
    other = _sharded(seed=1)
    net.load_state_dict(other.state_dict(), assign=True)  # spread alike: they take the place of those before
    close(net(x), other(x).detach().numpy())
    net[0].weight = ndgrad.nn.Parameter(ndgrad.zeros(8, 4, dtype=ndgrad.float64))
    with pytest.raises(RuntimeError, match=r"the parameter 'weight' of a fully sharded module was replaced by another"):
        net(x)


@on_ranks(4)
def tensor_parallel_layers_fully_sharded():
    """A transformer whose layers two ranks divide; each half is divided once more by two ranks with other batches."""
    mesh = dist.init_device_mesh("cpu", (2, 2), mesh_dim_names=("data", "model"))
    alone = _Model()
    net = parallelize_module(_Model(), mesh["model"], _PLAN)
    for block in net.blocks:
        fully_shard(block, mesh=mesh["data"], reshard_after_forward=True)
    fully_shard(net, mesh=mesh["data"])
    first, second = (ndgrad.optim.Adam(m.parameters(), lr=0.01) for m in (alone, net))
    half = mesh.get_local_rank("data")
    for step in range(2):
        tokens, targets = _tokens(step)
        first.zero_grad()
        want = _loss(alone(tokens), targets)
        want.backward()
        second.zero_grad()
        loss = _loss(net(tokens[half : half + 1]), targets[half : half + 1])
        loss.backward()
        assert _mean_over_ranks(loss.item()) == pytest.approx(want.item(), rel=1e-10)
        norms = [ndgrad.nn.utils.clip_grad_norm_(m.parameters(), 0.5).item() for m in (alone, net)]
        assert norms[1] == pytest.approx(norms[0], rel=1e-9)
        first.step()
        second.step()
    for (name, p), q in zip(net.named_parameters(), alone.parameters(), strict=True):
        np.testing.assert_allclose(_whole(p), q.detach().numpy(), rtol=1e-6, atol=1e-8, err_msg=name)
    up = net.blocks[0].up
    assert up.weight.to_local().shape == (6, 12)  # the whole is (24, 12)
    assert up.bias.to_local().shape == (6,)
    assert [str(p) for p in net.blocks[0].down.weight.placements] == ["Shard(dim=1)", "Shard(dim=0)"]


@on_ranks(1, 2, 3)
def a_model_on_the_meta_device_is_divided_before_it_is_allocated():
    with ndgrad.device("meta"):
        net = ndgrad.nn.Sequential(ndgrad.nn.Linear(4, 6), ndgrad.nn.ReLU(), ndgrad.nn.Linear(6, 1))
    for layer in (net[0], net[2]):
        fully_shard(layer, offload_policy=CPUOffloadPolicy())
    fully_shard(net)
    assert net[0].weight.is_meta
    with pytest.raises(RuntimeError, match="materialized from meta device"):
        net(ndgrad.ones(2, 4))
    net.to_empty(device="cpu")
    with ndgrad.no_grad():
        for p in net.parameters():
            p.fill_(0.5)
    assert net[0].weight.to_local().shape[0] == net[0].weight.spec.local_shape()[0]
    out = net(ndgrad.ones(2, 4))
    assert out.tolist() == [[8.0], [8.0]]  # 6 hidden values of 2.5, times 0.5, plus 0.5
    out.sum().backward()
    assert net[2].bias.grad.full_tensor().tolist() == [2.0]
    with pytest.raises(ValueError, match="do not implement forward"):
        fully_shard(ndgrad.nn.ModuleList([ndgrad.nn.Linear(2, 2)]))


@on_ranks(2, 3)
def micro_batches_are_summed_in_the_dtype_of_the_reduction():
    ndgrad.manual_seed(0)
    net, alone = (ndgrad.nn.Linear(8, 4, bias=False) for _ in range(2))
    alone.load_state_dict(net.state_dict())
    half = copy.deepcopy(alone).half()
    fully_shard(net, mp_policy=MixedPrecisionPolicy(param_dtype=ndgrad.float16, reduce_dtype=ndgrad.float32))
    total = np.zeros((4, 8), np.float32)
    x = ndgrad.tensor(values(0, 5, 6, 8), dtype=ndgrad.float16)  # the same on all ranks
    for i, batch in enumerate(x):
        net.set_requires_gradient_sync(i == 4)
        net(batch).sum().backward()
        half.zero_grad()
        half(batch).sum().backward()
        total += half.weight.grad.numpy().astype(np.float32)
    np.testing.assert_allclose(_whole(net.weight.grad), total, rtol=1e-6)  # float16 has 5e-4


@on_ranks(2, 4)
def averages_in_float16_are_divided_before_and_after_their_sum():
    net = ndgrad.nn.Linear(4, 2, bias=False)
    fully_shard(net, mp_policy=MixedPrecisionPolicy(param_dtype=ndgrad.float16, reduce_dtype=ndgrad.float16))
    (net(ndgrad.ones(1, 4, dtype=ndgrad.float16)) * 30000.0).sum().backward()
    close(_whole(net.weight.grad), np.full((2, 4), 30000.0), 1e-3)  # the sum is not finite


def _tall(seed=0):
    ndgrad.manual_seed(seed)
    return ndgrad.nn.Sequential(*(ndgrad.nn.Linear(4, 4) for _ in range(4))).double()


@on_ranks(2, 3)
def several_modules_are_gathered_as_one():
    x = ndgrad.tensor(values(dist.get_rank(), 5, 4))
    alone = _tall()
    (alone(x) ** 2).sum().backward()
    for reshard in (True, False):
        net = _tall()
        fully_shard([net[0], net[2]], reshard_after_forward=reshard)  # net[1] is called between them
        with pytest.raises(RuntimeError, match="single root module"):
            net[0](x)
        fully_shard([net[1], ndgrad.nn.Linear(1, 1).double()], reshard_after_forward=reshard)  # one is never called
        fully_shard(net)
        for _ in range(2):
            net.zero_grad()
            with CommDebugMode() as forward:
                loss = (net(x) ** 2).sum()
            with CommDebugMode() as backward:
                loss.backward()
            assert forward.get_comm_counts()["all_gather"] == 3
            assert backward.get_comm_counts()["all_gather"] == 2 * reshard
            for p, q in zip(net.parameters(), alone.parameters(), strict=True):
                total = q.grad.clone()
                dist.all_reduce(total)
                close(_whole(p.grad), total.numpy() / dist.get_world_size())
    with pytest.raises(ValueError, match="inside another"):
        fully_shard([alone, alone[0]])
    with pytest.raises(ValueError, match="empty"):
        fully_shard([])


@on_ranks(2)
def modules_are_gathered_ahead_as_the_program_says():
    x = ndgrad.tensor(values(dist.get_rank(), 5, 4))
    net = _tall()
    for layer in net:
        fully_shard(layer)
    fully_shard(net)
    net(x).sum().backward()
    wanted = [p.grad.full_tensor().numpy() for p in net.parameters()]
    ahead = []
    units = [layer._fsdp_state.units[0] for layer in net]
    net[0].set_modules_to_forward_prefetch([net[1], net[2]])
    net[3].set_modules_to_backward_prefetch([net[1]])

    def count(*_):
        ahead.append([u.block is not None or u._gathering is not None for u in units])

    net[0].register_forward_hook(count)
    net.zero_grad()
    out = net(x)
    assert ahead.pop() == [True, True, True, False]
    out.sum().backward()
    for p, want in zip(net.parameters(), wanted, strict=True):
        close(p.grad.full_tensor(), want)
    net.set_gradient_divide_factor(1.0)
    for layer in net:
        layer.set_gradient_divide_factor(1.0)
    net.zero_grad()
    net(x).sum().backward()
    for p, want in zip(net.parameters(), wanted, strict=True):
        close(p.grad.full_tensor(), 2 * want)
    with pytest.raises(TypeError, match="takes fully sharded modules"):
        net[0].set_modules_to_forward_prefetch([ndgrad.nn.Linear(1, 1)])


class _Tied(ndgrad.nn.Module):
    """A network whose last layer has the table of its first, and a second method that computes."""

    def __init__(self):
        super().__init__()
        self.table, self.out = ndgrad.nn.Embedding(7, 4), ndgrad.nn.Linear(4, 7, bias=False)
        self.out.weight = self.table.weight

    def forward(self, ids):
        return self.scores(ids).sum()

    def scores(self, ids):
        return self.out(self.table(ids))


@on_ranks(2)
def tied_parameters_are_one_unit_or_an_error():
    ids = ndgrad.tensor([dist.get_rank(), 3, 6])
    alone, net = _Tied(), _Tied()
    for p in alone.parameters():
        dist.broadcast(p.data, 0)
    net.load_state_dict(alone.state_dict())
    fully_shard([net.table, net.out])
    net.table.unshard()  # before the root is called
    close(net.table.weight.detach(), alone.table.weight.detach().numpy())
    net.table.reshard()
    fully_shard(net)
    alone(ids).backward()
    net(ids).backward()
    dist.all_reduce(alone.table.weight.grad, dist.ReduceOp.AVG)
    close(_whole(net.table.weight.grad), alone.table.weight.grad.numpy(), 1e-6)
    apart = _Tied()
    fully_shard(apart.table)
    fully_shard(apart.out)
    fully_shard(apart)
    with pytest.raises(ValueError, match=r"already managed by another.*'weight' of Embedding"):
        apart(ids)


@on_ranks(2)
def another_method_gathers_parameters_too():
    ids, alone, net = ndgrad.tensor([1, 2]), _Tied(), _Tied()
    net.load_state_dict(alone.state_dict())
    dist.broadcast(alone.table.weight.data, 0)
    fully_shard(net)
    register_fsdp_forward_method(net, "scores")
    out = net.scores(ids)
    close(out.detach(), alone.scores(ids).detach().numpy(), 1e-6)
    out.sum().backward()
    assert net.table.weight.grad.full_tensor().shape == (7, 4)
    register_fsdp_forward_method(alone, "nothing")  # not fully sharded: no effect
    with pytest.raises(ValueError, match="no method 'nothing'"):
        register_fsdp_forward_method(net, "nothing")


@on_ranks(4)
def replicas_are_summed_at_the_last_micro_batch():
    mesh = dist.init_device_mesh("cpu", (2, 2), mesh_dim_names=("replicas", "pieces"))
    alone, net = _model(0), _model(0)
    fully_shard(net, mesh=mesh)
    for last in (False, True):
        x = ndgrad.tensor(values(10 * last + dist.get_rank(), 4, _batch(0)[0].shape[1]))
        alone(x).square().mean().backward()
        net.set_requires_all_reduce(last)
        with CommDebugMode() as seen:
            net(x).square().mean().backward()
        assert seen.calls["all_reduce"] == last
        assert all((p.grad is not None) == last for p in net.parameters())
    for p, q in zip(net.parameters(), alone.parameters(), strict=True):
        dist.all_reduce(q.grad, dist.ReduceOp.AVG)
        close(_whole(p.grad), q.grad.numpy(), 1e-10)


@on_ranks(2)
def a_hook_gets_averages_before_they_are_gradients():
    net, plain = _sharded(), _sharded()
    seen = []
    net[0].set_all_reduce_hook(lambda pieces: (seen.append(tuple(pieces.shape)), pieces.mul_(2.0)))
    _step(net, 0)
    _step(plain, 0)
    assert len(seen) == 1
    for i, (p, q) in enumerate(zip(net.parameters(), plain.parameters(), strict=True)):
        close(_whole(p.grad), (2 if i < 2 else 1) * _whole(q.grad))
