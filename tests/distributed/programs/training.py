"""Data parallel training and divided optimizers against one process with the whole batch."""

from __future__ import annotations

import numpy as np
import pytest
from tests.distributed.on_ranks import close, on_ranks, values

import ndgrad
import ndgrad.distributed as dist
from ndgrad.distributed import planning
from ndgrad.distributed.optim import ZeroRedundancyOptimizer
from ndgrad.distributed.tensor.debug import CommDebugMode
from ndgrad.nn.parallel import DistributedDataParallel


def _model(seed=0):
    ndgrad.manual_seed(seed)
    nn = ndgrad.nn
    return nn.Sequential(nn.Linear(4, 8), nn.Tanh(), nn.Linear(8, 8), nn.Tanh(), nn.Linear(8, 2)).double()


def _batch(step):
    size = dist.get_world_size()
    return values(100 + step, 3 * size, 4), values(200 + step, 3 * size, 2)


def _mine(array):
    rank = dist.get_rank()
    return ndgrad.tensor(array[3 * rank : 3 * rank + 3])


def _train_alone(optimizer=ndgrad.optim.Adam, steps=4):
    net = _model()
    opt = optimizer(net.parameters(), lr=0.05)
    losses = []
    for step in range(steps):
        x, y = map(ndgrad.tensor, _batch(step))
        opt.zero_grad()
        loss = ((net(x) - y) ** 2).mean()
        loss.backward()
        opt.step()
        losses.append(loss.item())
    return net, losses


def _mean_over_ranks(value):
    t = ndgrad.tensor(float(value), dtype=ndgrad.float64)
    dist.all_reduce(t, op=dist.ReduceOp.AVG)
    return t.item()


@on_ranks(1, 2, 3, 4)
def data_parallel_trains_as_one_process_with_the_whole_batch():
    alone, want = _train_alone()
    for cap, views in ((25, False), (0.0004, True)):  # one bucket, and several
        # All ranks get the first rank's.
        net = DistributedDataParallel(_model(seed=dist.get_rank()), bucket_cap_mb=cap, gradient_as_bucket_view=views)
        opt = ndgrad.optim.Adam(net.parameters(), lr=0.05)
        for step in range(4):
            x, y = _batch(step)
            opt.zero_grad()
            loss = ((net(_mine(x)) - _mine(y)) ** 2).mean()
            loss.backward()
            opt.step()
            assert _mean_over_ranks(loss.item()) == pytest.approx(want[step], rel=1e-12)
        for p, q in zip(net.module.parameters(), alone.parameters(), strict=True):
            close(p, q.detach().numpy(), 1e-10)
        assert next(iter(net.state_dict())) == "module.0.weight"


@on_ranks(2)
def messages_leave_while_backward_runs():
    net = DistributedDataParallel(_model(), bucket_cap_mb=0.0004)
    assert len(net._buckets) > 2
    order = []
    send, whole = net._send_full, net._next

    def send_and_note():
        before = net._next
        send()
        order.extend(("sent", i) for i in range(before, net._next))

    net._send_full = send_and_note
    first = next(net.module.parameters())
    first.register_post_accumulate_grad_hook(lambda p: order.append("last gradient"))
    net(_mine(_batch(0)[0])).sum().backward()
    assert whole == 0
    # all buckets but that of the layer which backward reaches last were under way before its gradient was there
    assert order.index("last gradient") > order.index(("sent", len(net._buckets) - 2))


@on_ranks(2)
def gradients_accumulated_without_sending():
    alone = _model()
    net = DistributedDataParallel(_model())
    batches = [_batch(0), _batch(1)]
    for x, y in batches:
        ((alone(ndgrad.tensor(x)) - ndgrad.tensor(y)) ** 2).mean().backward()
    with net.no_sync():
        x, y = batches[0]
        ((net(_mine(x)) - _mine(y)) ** 2).mean().backward()
    own = [p.grad.clone() for p in net.module.parameters()]
    x, y = batches[1]
    ((net(_mine(x)) - _mine(y)) ** 2).mean().backward()
    for p, q, before in zip(net.module.parameters(), alone.parameters(), own, strict=True):
        close(p.grad, q.grad.numpy(), 1e-10)
        assert not np.allclose(before.numpy(), p.grad.numpy())


class _Branches(ndgrad.nn.Module):
    def __init__(self):
        super().__init__()
        ndgrad.manual_seed(1)
        self.a, self.b, self.c = (ndgrad.nn.Linear(2, 2).double() for _ in range(3))

    def forward(self, x, which):
        return self.a(x) if which == 0 else self.b(x)


@on_ranks(2)
def parameters_that_a_rank_does_not_use():
    rank = dist.get_rank()
    net = DistributedDataParallel(_Branches(), find_unused_parameters=True)
    x = ndgrad.tensor(values(rank, 3, 2))
    net(x, rank).sum().backward()
    close(net.module.a.weight.grad, np.tile(values(0, 3, 2).sum(0), (2, 1)) / 2)
    close(net.module.b.weight.grad, np.tile(values(1, 3, 2).sum(0), (2, 1)) / 2)
    assert net.module.c.weight.grad is None  # no rank has used it
    strict = DistributedDataParallel(_Branches())
    with pytest.raises(RuntimeError, match=r"these parameters got no gradient: .*b\.weight.*find_unused_parameters=True"):
        strict(x, 0).sum().backward()


@on_ranks(1, 2, 3)
def the_state_of_an_optimizer_divided():
    for optimizer in (ndgrad.optim.Adam, ndgrad.optim.SGD):
        alone, _ = _train_alone(optimizer)
        net = DistributedDataParallel(_model())
        opt = ZeroRedundancyOptimizer(net.parameters(), optimizer, lr=0.05)
        for step in range(4):
            x, y = _batch(step)
            opt.zero_grad()
            ((net(_mine(x)) - _mine(y)) ** 2).mean().backward()
            opt.step()
        for p, q in zip(net.module.parameters(), alone.parameters(), strict=True):
            close(p, q.detach().numpy(), 1e-10)
        held = [sum(p.numel() for p in owned) for owned in opt.owned]
        assert max(held) - min(held) <= max(p.numel() for p in net.parameters())
        opt.consolidate_state_dict(to=0)
        if dist.get_rank() == 0:
            state = opt.state_dict()
            fresh = optimizer(_model().parameters(), lr=0.05)
            fresh.load_state_dict(state)  # what one process would load
            opt.load_state_dict(state)
        else:
            with pytest.raises(RuntimeError, match="has not been consolidated on this rank"):
                opt.state_dict()


@on_ranks(1, 2, 3, 4)
def the_bytes_of_averaging_and_of_a_divided_optimizer():
    n = dist.get_world_size()
    share = (n - 1) / n * sum(p.numel() * 8 for p in _model().parameters())
    net = DistributedDataParallel(_model())
    opt = ZeroRedundancyOptimizer(net.parameters(), ndgrad.optim.SGD, lr=0.05)
    for step in range(2):
        x, y = _batch(step)
        with CommDebugMode() as averaging:
            ((net(_mine(x)) - _mine(y)) ** 2).mean().backward()
        with CommDebugMode() as updating:
            opt.step()
        assert float(averaging.total()) == pytest.approx(2 * share)
        assert float(updating.total()) == pytest.approx(share)  # every rank's parameters to all others
        assert n == 1 or averaging.get_comm_counts() == {"all_reduce": 1}
    with net.no_sync(), CommDebugMode() as nothing:
        ((net(_mine(x)) - _mine(y)) ** 2).mean().backward()
    assert nothing.get_total_counts() == 0


@on_ranks(2)
def a_trace_shows_messages_inside_backward():
    net = DistributedDataParallel(_model(), bucket_cap_mb=0.0004)
    x, y = _batch(0)
    for _ in range(2):
        with ndgrad.profiler.profile(record_shapes=True) as seen:
            ((net(_mine(x)) - _mine(y)) ** 2).mean().backward()
    events = seen.events()
    layers = [e.time_range for e in events if e.name == "LinearBackward0"]
    sent = [e for e in events if e.name == "mpi:all_reduce"]
    assert len(sent) == len(net._buckets)
    assert [e.input_shapes for e in sent] == [[[b.array.size]] for b in net._buckets]
    # all but the last are begun before the layer that backward reaches last, and the first has not ended when it begins
    assert all(e.time_range.start < layers[-1].start for e in sent[:-1])
    assert sent[0].time_range.end > layers[1].start
    assert not {e.thread for e in sent} & {e.thread for e in events if not e.name.startswith("mpi:")}


@on_ranks(1, 2, 3, 4)
def seeds_differ_between_ranks_and_not_between_runs():
    n, rank = dist.get_world_size(), dist.get_rank()
    seeds = [None] * n
    dist.all_gather_object(seeds, dist.manual_seed_per_rank(3))
    draws = [None] * n
    dist.all_gather_object(draws, ndgrad.rand(2).tolist())
    assert len(set(seeds)) == len({tuple(d) for d in draws}) == n
    assert dist.manual_seed_per_rank(3) == seeds[rank]
    assert ndgrad.rand(2).tolist() == draws[rank]
    assert dist.manual_seed_per_rank(4) not in seeds
    own = dist.new_group([rank]) if n == 1 else [dist.new_group([r]) for r in range(n)][rank]
    alike = [None] * n
    dist.all_gather_object(alike, dist.manual_seed_per_rank(3, group=own))
    assert set(alike) == {seeds[0]}
@on_ranks(2, 3)
def a_step_is_recorded_and_the_machine_measured_alike_on_all_ranks():
    net = DistributedDataParallel(_model())
    x, y = _batch(0)
    job = planning.record(lambda: ((net(_mine(x)) - _mine(y)) ** 2).mean().backward(), repeats=2)
    assert job.sent == {"all_reduce": 8 * sum(p.numel() for p in net.parameters())}
    assert job.ranks == dist.get_world_size()
    machine = planning.measure(seconds=0.02)
    assert machine.ranks == dist.get_world_size()
    assert machine.slowdown(machine.ranks) == machine.crowding >= 1.0
    seen = [None] * dist.get_world_size()
    dist.all_gather_object(seen, (machine.inside, machine.overlap, machine.crowding))
    assert len(set(seen)) == 1
    assert job.predict(machine, 64).messages.seconds > job.predict(machine, 2).messages.seconds > 0


@on_ranks(1, 2)
def a_compiled_data_parallel_module_is_traced_once():
    nets = [DistributedDataParallel(_model()) for _ in range(3)]
    compiled = ndgrad.compile(nets[1])
    opts = [ndgrad.optim.SGD(net.parameters(), lr=0.05) for net in nets]

    def step(call, opt, x, y):
        opt.zero_grad()
        loss = ((call(x) - y) ** 2).mean()
        loss.backward()
        opt.step()
        return loss.detach()

    whole = ndgrad.compile(step)
    for i in range(4):
        x, y = (_mine(t) for t in _batch(i))
        want = step(nets[0], opts[0], x, y)
        close(step(compiled, opts[1], x, y), want.numpy(), 1e-10)
        close(whole(nets[2], opts[2], x, y), want.numpy(), 1e-10)
    assert compiled.traces == 1
    assert compiled.module is nets[1].module
    for other in nets[1:]:
        for p, q in zip(nets[0].parameters(), other.parameters(), strict=True):
            close(q.detach(), p.detach().numpy(), 1e-10)
    reason = ndgrad.compiler.explain(step, nets[2], opts[2], x, y).reason
    assert "sends gradients while backward runs" in str(reason)
