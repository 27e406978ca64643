"""Wrappers of modules against one process with the whole batch: FullyShardedDataParallel, join, SyncBatchNorm, ZeRO."""

from __future__ import annotations

import numpy as np
import pytest
from tests.distributed.on_ranks import close, on_ranks, values

import ndgrad
import ndgrad.distributed as dist
from ndgrad import nn
from ndgrad.distributed.algorithms._checkpoint.checkpoint_wrapper import (
    CheckpointImpl,
    CheckpointWrapper,
    apply_activation_checkpointing,
    checkpoint_wrapper,
)
from ndgrad.distributed.algorithms.ddp_comm_hooks import default_hooks
from ndgrad.distributed.algorithms.join import Join, Joinable, JoinHook
from ndgrad.distributed.checkpoint.state_dict import get_model_state_dict
from ndgrad.distributed.fsdp import (
    FullyShardedDataParallel,
    MixedPrecision,
    ShardingStrategy,
    StateDictType,
    fully_shard,
)
from ndgrad.distributed.fsdp.wrap import ModuleWrapPolicy, size_based_auto_wrap_policy
from ndgrad.distributed.optim import ZeroRedundancyOptimizer
from ndgrad.distributed.tensor import Replicate
from ndgrad.nn.parallel import DistributedDataParallel


def network(seed=0):
    """A perceptron whose weights are the same on all ranks."""
    net = nn.Sequential(nn.Linear(4, 6), nn.Tanh(), nn.Linear(6, 6), nn.Tanh(), nn.Linear(6, 2)).double()
    for i, p in enumerate(net.parameters()):
        p.data.copy_(ndgrad.tensor(values(i, *p.shape, seed=seed)) / 2)
    return net


def batch(step, rank, rows=3):
    return ndgrad.tensor(values(rank, rows, 4, seed=50 + step)), ndgrad.tensor(values(rank, rows, 2, seed=80 + step))


def train_alone(steps=3):
    """Train in one process on the batches of all ranks."""
    net, ranks = network(), range(dist.get_world_size())
    optimizer = ndgrad.optim.Adam(net.parameters(), lr=0.05)
    for step in range(steps):
        x, y = (ndgrad.cat([batch(step, r)[k] for r in ranks]) for k in (0, 1))
        optimizer.zero_grad()
        nn.functional.mse_loss(net(x), y).backward()
        optimizer.step()
    return net


def train(net, optimizer, steps=3):
    for step in range(steps):
        x, y = batch(step, dist.get_rank())
        optimizer.zero_grad()
        nn.functional.mse_loss(net(x), y).backward()
        optimizer.step()


@on_ranks(1, 2, 3)
def the_older_fully_sharded_class_trains_as_one_process():
    wanted = {name: p.detach().numpy() for name, p in train_alone().named_parameters()}
    for strategy in (ShardingStrategy.FULL_SHARD, ShardingStrategy.SHARD_GRAD_OP, ShardingStrategy.NO_SHARD):
        for policy in (None, ModuleWrapPolicy({nn.Linear}), lambda **given: size_based_auto_wrap_policy(**given, min_num_params=35)):
            net = FullyShardedDataParallel(network(), sharding_strategy=strategy, auto_wrap_policy=policy)
            train(net, ndgrad.optim.Adam(net.parameters(), lr=0.05))
            state = net.state_dict()
            assert state.keys() == wanted.keys()
            for name, value in state.items():
                close(value, wanted[name], 1e-9)


@on_ranks(1, 2, 3)
def states_of_the_older_class_are_whole_or_divided():
    net = FullyShardedDataParallel(network(), auto_wrap_policy=ModuleWrapPolicy({nn.Linear}))
    assert [name for name, _ in net.named_parameters()] == [name for name, _ in network().named_parameters()]
    assert len(FullyShardedDataParallel.fsdp_modules(net)) == 4
    with FullyShardedDataParallel.state_dict_type(net, StateDictType.SHARDED_STATE_DICT):
        pieces = net.state_dict()
    assert all(hasattr(v, "placements") for v in pieces.values())
    other = FullyShardedDataParallel(network(seed=7))
    assert str(other.load_state_dict(net.state_dict())) == "<All keys matched successfully>"
    close(other.module[0].weight.full_tensor(), network()[0].weight.detach().numpy())
    with FullyShardedDataParallel.summon_full_params(net):
        assert net.module[0].module.weight.shape == (6, 4)
        net.module[0].module.weight.data.fill_(3.0)
    close(net.module[0].module.weight.full_tensor(), np.full((6, 4), 3.0))


@on_ranks(2)
def the_older_class_accumulates_clips_and_computes_in_other_dtypes():
    net = FullyShardedDataParallel(network(), mixed_precision=MixedPrecision(param_dtype=ndgrad.float32))
    x, _ = batch(0, dist.get_rank())
    assert net(x).dtype == ndgrad.float32
    with net.no_sync():
        net(x).sum().backward()
    net(x).sum().backward()
    plain = network()
    for r in range(2):
        (plain(batch(0, r)[0]).sum()).backward()  # twice the sum, over two ranks
    norm = float(np.sqrt(sum((p.grad**2).sum().item() for p in plain.parameters())))
    close(net.clip_grad_norm_(1.0), norm, 1e-5)


@on_ranks(2, 3)
def ranks_with_fewer_batches_join_the_averages_of_the_others():
    n, rank = dist.get_world_size(), dist.get_rank()
    for by_all in (True, False):
        net = DistributedDataParallel(network())
        optimizer = ndgrad.optim.SGD(net.parameters(), lr=0.1)
        with net.join(divide_by_initial_world_size=by_all):
            for step in range(1 + rank):  # the last rank has the most
                x, y = batch(step, rank)
                optimizer.zero_grad()
                nn.functional.mse_loss(net(x), y).backward()
                optimizer.step()
        plain = network()
        alone = ndgrad.optim.SGD(plain.parameters(), lr=0.1)
        for step in range(n):
            active = [r for r in range(n) if step < 1 + r]
            alone.zero_grad()
            losses = [nn.functional.mse_loss(plain(batch(step, r)[0]), batch(step, r)[1]) for r in active]
            (sum(losses) / (n if by_all else len(active))).backward()
            alone.step()
        for p, q in zip(net.parameters(), plain.parameters(), strict=True):
            close(p, q.detach().numpy(), 1e-10)


@on_ranks(2, 3)
def all_ranks_raise_when_one_has_no_more_batches():
    net = DistributedDataParallel(network())

    def train_in_block():
        with net.join(throw_on_early_termination=True):
            for step in range(1 + dist.get_rank()):
                nn.functional.mse_loss(net(batch(step, 0)[0]), batch(step, 0)[1]).backward()

    with pytest.raises(RuntimeError, match="exhausted inputs"):
        train_in_block()


@on_ranks(1, 2, 3)
def batch_normalisation_over_ranks_is_that_of_the_whole_batch():
    n, rank = dist.get_world_size(), dist.get_rank()
    x = values(0, 2 * n, 3, 4)
    whole = nn.Sequential(nn.BatchNorm1d(3)).double()
    sync = nn.SyncBatchNorm.convert_sync_batchnorm(nn.Sequential(nn.BatchNorm1d(3)).double())
    assert isinstance(sync[0], nn.SyncBatchNorm)
    for _ in range(2):
        a = ndgrad.tensor(x, requires_grad=True)
        b = ndgrad.tensor(x[2 * rank : 2 * rank + 2], requires_grad=True)
        out, mine = whole(a), sync(b)
        close(mine, out.detach().numpy()[2 * rank : 2 * rank + 2], 1e-10)
        weights = values(1, 2 * n, 3, 4)
        (out * ndgrad.tensor(weights)).sum().backward()
        (mine * ndgrad.tensor(weights[2 * rank : 2 * rank + 2])).sum().backward()
        close(b.grad, a.grad.numpy()[2 * rank : 2 * rank + 2], 1e-10)
    close(sync[0].running_mean, whole[0].running_mean.numpy(), 1e-12)
    close(sync[0].running_var, whole[0].running_var.numpy(), 1e-12)
    sync.eval(), whole.eval()
    close(sync(b.detach()), whole(a.detach()).detach().numpy()[2 * rank : 2 * rank + 2], 1e-10)


@on_ranks(1, 2, 3)
def a_divided_optimizer_takes_schedules_and_more_parameters():
    net, plain = network(), network()
    first, rest = list(net[0].parameters()), list(net[2:].parameters())
    optimizer = ZeroRedundancyOptimizer(first, ndgrad.optim.Adam, lr=0.1)
    optimizer.add_param_group({"params": rest, "lr": 0.01})
    alone = ndgrad.optim.Adam([{"params": list(plain[0].parameters())}, {"params": list(plain[2:].parameters()), "lr": 0.01}], lr=0.1)
    schedules = [ndgrad.optim.lr_scheduler.StepLR(o, 1, gamma=0.5) for o in (optimizer, alone)]
    for step in range(3):
        for m, o, s in ((net, optimizer, schedules[0]), (plain, alone, schedules[1])):
            o.zero_grad()
            nn.functional.mse_loss(m(batch(step, 0)[0]), batch(step, 0)[1]).backward()
            o.step()
            s.step()
    for p, q in zip(net.parameters(), plain.parameters(), strict=True):
        close(p, q.detach().numpy(), 1e-12)
    optimizer.consolidate_state_dict(to=0)
    if dist.get_rank() == 0:
        state = optimizer.state_dict()
        assert sorted(state["state"]) == list(range(6))
        assert [g["lr"] for g in state["param_groups"]] == [g["lr"] for g in alone.param_groups]


@on_ranks(2, 3)
def a_divided_optimizer_joins_the_steps_of_ranks_with_more_batches():
    rank = dist.get_rank()

    def train_with(make_optimizer):
        net = DistributedDataParallel(network())
        optimizer = make_optimizer(net)
        with Join([net, optimizer] if isinstance(optimizer, Joinable) else [net]):
            for step in range(2 + rank):
                x, y = batch(step, rank)
                nn.functional.mse_loss(net(x), y).backward()
                optimizer.step()
                optimizer.zero_grad()
        return net

    plain = train_with(lambda net: ndgrad.optim.Adam(net.parameters(), lr=0.05))
    divided = train_with(lambda net: ZeroRedundancyOptimizer(net.parameters(), ndgrad.optim.Adam, lr=0.05))
    for p, q in zip(divided.parameters(), plain.parameters(), strict=True):
        close(p, q.detach().numpy(), 1e-12)


class _Counter(Joinable):
    """Counts the steps of all ranks, with one collective per step."""

    def __init__(self):
        self.steps = ndgrad.zeros(1)
        self.ended = []

    def step(self):
        Join.notify_join_context(self)
        mine = ndgrad.ones(1)
        dist.all_reduce(mine)
        self.steps += mine

    def join_hook(self, **kwargs):
        counter = self

        class Hook(JoinHook):
            def main_hook(self):
                mine = ndgrad.zeros(1)
                dist.all_reduce(mine)
                counter.steps += mine

            def post_hook(self, is_last_joiner):
                counter.ended.append((is_last_joiner, kwargs))

        return Hook()

    join_device = property(lambda self: ndgrad.device("cpu"))
    join_process_group = property(lambda self: dist.group.WORLD)


@on_ranks(2, 3)
def own_objects_join_a_block_of_uneven_steps():
    n, rank = dist.get_world_size(), dist.get_rank()
    counter = _Counter()
    with Join([counter], setting=3):
        for _ in range(1 + rank):
            counter.step()
    assert counter.steps.item() == n * (n + 1) / 2
    assert counter.ended == [(rank == n - 1, {"setting": 3})]


@on_ranks(1, 2, 3)
def a_function_replaces_the_average_of_gradients():
    n, rank = dist.get_world_size(), dist.get_rank()

    def gradients(hook=None):
        net = DistributedDataParallel(network(), bucket_cap_mb=1e-4)
        if hook is not None:
            net.register_comm_hook(None, hook)
        nn.functional.mse_loss(net(batch(0, rank)[0]), batch(0, rank)[1]).backward()
        return [p.grad.numpy() for p in net.parameters()]

    wanted = gradients()
    seen = []

    def doubled(state, bucket):
        assert state is None
        assert len(bucket.gradients()) == len(bucket.parameters())
        seen.append((bucket.index(), bucket.is_last()))
        return default_hooks.allreduce_hook(None, bucket).then(lambda f: f.value() * 2)

    for found, want in zip(gradients(doubled), wanted, strict=True):
        close(ndgrad.tensor(found), 2 * want, 1e-12)
    assert [i for i, _ in seen] == list(range(len(seen)))
    assert [last for _, last in seen] == [False] * (len(seen) - 1) + [True]
    narrow = (
        (default_hooks.allreduce_hook, 1e-12), (default_hooks.fp16_compress_hook, 2e-3), (default_hooks.bf16_compress_hook, 2e-2),
        (default_hooks.fp16_compress_wrapper(default_hooks.allreduce_hook), 2e-3),
    )  # fmt: skip
    for hook, tolerance in narrow:
        for found, want in zip(gradients(hook), wanted, strict=True):
            assert found.dtype == np.float64
            close(ndgrad.tensor(found), want, tolerance)
    assert n == 1 or not np.array_equal(gradients(narrow[1][0])[0], wanted[0])  # it was sent in a narrower dtype
    net = DistributedDataParallel(network())
    with pytest.raises(TypeError, match="callable"):
        net.register_comm_hook(None, 3)
    net.register_comm_hook(None, lambda state, bucket: None)
    with pytest.raises(RuntimeError, match="once"):
        net.register_comm_hook(None, doubled)
    with pytest.raises(TypeError, match="Future"):
        net(batch(0, rank)[0]).sum().backward()


@on_ranks(1)
def wrapped_modules_compute_activations_again_under_the_names_of_the_model():
    plain = network()
    for kind in CheckpointImpl:
        net = network()
        calls = []
        net[2].register_forward_pre_hook(lambda *_, calls=calls: calls.append(1))
        apply_activation_checkpointing(net, lambda m, kind=kind: checkpoint_wrapper(m, kind), check_fn=lambda m: isinstance(m, nn.Linear))
        assert [isinstance(m, CheckpointWrapper) for m in net] == [True, False, True, False, True]
        assert list(net.state_dict()) == list(plain.state_dict())
        assert [name for name, _ in net[2].named_parameters()] == ["weight", "bias"]
        assert list(get_model_state_dict(net)) == list(plain.state_dict())
        net.load_state_dict(plain.state_dict())
        assert net[2].in_features == 6
        for m in (plain, net):
            m.zero_grad()
            nn.functional.mse_loss(m(batch(0, 0)[0]), batch(0, 0)[1]).backward()
        assert len(calls) == 2
        for p, q in zip(net.parameters(), plain.parameters(), strict=True):
            close(p.grad, q.grad.numpy(), 1e-14)


@on_ranks(1, 2)
def the_norm_of_divided_gradients_is_a_replicated_dtensor():
    mesh = dist.init_device_mesh("cpu", (dist.get_world_size(),))
    net = network()
    for layer in net:
        if isinstance(layer, nn.Linear):
            fully_shard(layer, mesh=mesh)
    x, y = batch(0, 0)
    nn.functional.mse_loss(net(x), y).backward()
    norm = nn.utils.clip_grad_norm_(net.parameters(), 1e9)
    assert norm.placements == (Replicate(),)
    plain = network()
    nn.functional.mse_loss(plain(x), y).backward()
    close(norm.full_tensor(), nn.utils.clip_grad_norm_(plain.parameters(), 1e9).numpy(), 1e-12)
    nn.utils.clip_grads_with_norm_(net.parameters(), norm.item() / 2, norm)
    close(nn.utils.get_total_norm([p.grad for p in net.parameters()]).full_tensor(), norm.item() / 2, 1e-5)
