"""Pipelines against the same model on one process: losses, gradients, bytes, and what is refused."""

from __future__ import annotations

import numpy as np
import pytest
from tests.distributed.on_ranks import close, on_ranks, values

import ndgrad
import ndgrad.distributed as dist
from ndgrad.distributed.pipelining import (
    PipelineStage,
    Schedule1F1B,
    ScheduleGPipe,
    ScheduleInterleaved1F1B,
    ScheduleInterleavedZeroBubble,
    ScheduleLoopedBFS,
    SplitPoint,
    pipe_split,
    pipeline,
)
from ndgrad.distributed.pipelining.microbatch import TensorChunkSpec, merge_chunks, split_args_kwargs_into_chunks
from ndgrad.distributed.tensor.debug import CommDebugMode

nn = ndgrad.nn
loss_fn = nn.functional.mse_loss


def _layers(count):
    ndgrad.manual_seed(0)
    return [nn.Sequential(nn.Linear(4, 4), nn.Tanh()).double() for _ in range(count)]


def _batch(step, size=12):
    return ndgrad.tensor(values(10 + step, size, 4)), ndgrad.tensor(values(50 + step, size, 4))


def _train_alone(count, steps):
    net = nn.Sequential(*_layers(count))
    opt = ndgrad.optim.Adam(net.parameters(), lr=0.05)
    losses = []
    for step in range(steps):
        x, y = _batch(step)
        opt.zero_grad()
        loss = loss_fn(net(x), y)
        loss.backward()
        opt.step()
        losses.append(loss.item())
    return net, losses


def _stages(per_rank):
    n, rank = dist.get_world_size(), dist.get_rank()
    layers = _layers(n * per_rank)
    return [PipelineStage(layers[rank + i * n], rank + i * n, n * per_rank) for i in range(per_rank)]


@on_ranks(1, 2, 3, 4)
def pipelines_train_as_one_process():
    n, rank = dist.get_world_size(), dist.get_rank()
    for schedule_class, per_rank, count in (
        (ScheduleGPipe, 1, 4), (Schedule1F1B, 1, 6), (Schedule1F1B, 1, 2),
        (ScheduleInterleaved1F1B, 2, 12), (ScheduleLoopedBFS, 2, 3), (ScheduleInterleavedZeroBubble, 2, 6),
    ):  # fmt: skip
        alone, want = _train_alone(n * per_rank, 2)
        stages = _stages(per_rank)
        schedule = schedule_class(stages if per_rank > 1 else stages[0], count, loss_fn=loss_fn)
        params = [p for stage in stages for p in stage.submod.parameters()]
        opt = ndgrad.optim.Adam(params, lr=0.05)
        for step in range(2):
            x, y = _batch(step)
            opt.zero_grad()
            losses = []
            out = schedule.step(*((x,) if rank == 0 else ()), target=y if rank == n - 1 else None, losses=losses)
            opt.step()
            if rank == n - 1:
                assert len(losses) == count
                assert np.mean([loss.item() for loss in losses]) == pytest.approx(want[step], rel=1e-12)
                assert out.shape == (12, 4)
            else:
                assert out is None
        for stage in stages:
            for p, q in zip(stage.submod.parameters(), alone[stage.stage_index].parameters(), strict=True):
                close(p, q.detach().numpy(), 1e-10)


@on_ranks(2, 3, 4)
def activations_and_their_gradients_are_all_that_is_sent():
    n, rank = dist.get_world_size(), dist.get_rank()
    (stage,) = _stages(1)
    schedule = Schedule1F1B(stage, 4, loss_fn=loss_fn)
    x, y = _batch(0)
    for _ in range(2):
        with CommDebugMode() as seen:
            schedule.step(*((x,) if rank == 0 else ()), target=y if rank == n - 1 else None)
        each = 12 * 4 * 8
        told = len('[[[3, 4], "float64", true]]') + 8  # the announced shapes, once a step
        assert seen.total() == (rank < n - 1) * (each + told) + (rank > 0) * each


class _Two(nn.Module):
    """Two results, one of which has no gradient."""

    def __init__(self):
        super().__init__()
        ndgrad.manual_seed(5)
        self.inner = nn.Linear(4, 4).double()

    def forward(self, x, mask=None):
        mask = (x > 0).to(ndgrad.int64) if mask is None else mask
        return self.inner(x) * mask, mask


@on_ranks(2, 3)
def several_results_with_and_without_gradients():
    n, rank = dist.get_world_size(), dist.get_rank()
    x, _ = _batch(0)
    alone = [_Two() for _ in range(n)]
    out = (x,)
    for part in alone:
        out = part(*out)
    out[0].square().mean().backward()
    stage = PipelineStage(_Two(), rank, n)
    schedule = Schedule1F1B(stage, 3, loss_fn=lambda out, target: out[0].square().mean())
    found = schedule.step(*((x,) if rank == 0 else ()), target=x if rank == n - 1 else None)
    for p, q in zip(stage.submod.parameters(), alone[rank].parameters(), strict=True):
        close(p.grad, q.grad.numpy(), 1e-12)
    if rank == n - 1:
        close(found[0], out[0].detach().numpy(), 1e-12)
        close(found[1], out[1].numpy())
    schedule.step(*((x,) if rank == 0 else ()), target=x if rank == n - 1 else None)  # gradients are added
    for p, q in zip(stage.submod.parameters(), alone[rank].parameters(), strict=True):
        close(p.grad, 2 * q.grad.numpy(), 1e-12)
    only = schedule.eval(*((x,) if rank == 0 else ()), target=x if rank == n - 1 else None)
    if rank == n - 1:
        close(only[0], out[0].detach().numpy(), 1e-12)


@on_ranks(2)
def what_does_not_fit_is_refused():
    rank = dist.get_rank()
    (stage,) = _stages(1)
    schedule = Schedule1F1B(stage, 5, loss_fn=loss_fn)
    with pytest.raises(ValueError, match="a batch of 12 cannot be divided into 5 micro-batches of one size"):
        schedule.step(_batch(0)[0], target=_batch(0)[1])
    with pytest.raises(ValueError, match=f"stage {1 - rank} lies on rank {1 - rank} of the group, and this is rank {rank}"):
        PipelineStage(nn.ReLU(), 1 - rank, 2)
    with pytest.raises(ValueError, match="3 stages cannot be dealt to 2 ranks"):
        PipelineStage(nn.ReLU(), 0, 3)
    with pytest.raises(ValueError, match=r"this rank has the stages \[\d, \d\] of 4, but got"):
        ScheduleInterleaved1F1B([PipelineStage(nn.ReLU(), rank, 4)], 2)


@on_ranks(4)
def a_pipeline_of_data_parallel_stages():
    """Two pipelines of two stages; each stage's gradients are averaged over the pipelines."""
    mesh = dist.init_device_mesh("cpu", (2, 2), mesh_dim_names=("data", "pipe"))
    data, pipe = mesh.get_local_rank("data"), mesh.get_local_rank("pipe")
    alone, want = _train_alone(2, 2)
    stage = PipelineStage(_layers(2)[pipe], pipe, 2, group=mesh.get_group("pipe"))
    schedule = Schedule1F1B(stage, 3, loss_fn=loss_fn)
    opt = ndgrad.optim.Adam(stage.submod.parameters(), lr=0.05)
    for step in range(2):
        x, y = (t[6 * data : 6 * data + 6] for t in _batch(step))
        opt.zero_grad()
        losses = []
        schedule.step(*((x,) if pipe == 0 else ()), target=y if pipe == 1 else None, losses=losses)
        for p in stage.submod.parameters():
            dist.all_reduce(p.grad, dist.ReduceOp.AVG, group=mesh.get_group("data"))
        opt.step()
        if pipe == 1:
            mean = ndgrad.stack(losses).mean()
            dist.all_reduce(mean, dist.ReduceOp.AVG, group=mesh.get_group("data"))
            assert mean.item() == pytest.approx(want[step], rel=1e-12)
    for p, q in zip(stage.submod.parameters(), alone[pipe].parameters(), strict=True):
        close(p, q.detach().numpy(), 1e-10)


class Skipping(nn.Module):
    """A network whose first layer is used again by its last stage."""

    def __init__(self):
        super().__init__()
        self.begin, self.middle, self.end = nn.Linear(4, 4), nn.Sequential(nn.Tanh(), nn.Linear(4, 4)), nn.Linear(4, 4)
        self.scale = nn.Parameter(ndgrad.ones(4))

    def forward(self, x):
        first = self.begin(x) * self.scale
        return self.end(self.middle(first).relu() + first) * self.scale


@on_ranks(1, 2, 3)
def a_traced_module_is_divided_where_the_program_says():
    n, rank = dist.get_world_size(), dist.get_rank()
    ndgrad.manual_seed(0)
    net = Skipping().double()
    x, y = _batch(0)
    loss_fn(net(x), y).backward()
    want = {name: p.grad.numpy().copy() for name, p in net.named_parameters()}
    net.zero_grad()
    cuts = dict([("middle.1", SplitPoint.BEGINNING), ("end", SplitPoint.BEGINNING)][: n - 1])
    pipe = pipeline(net, (x[:3],), split_spec=cuts)
    assert pipe.num_stages == n
    stage = pipe.build_stage(rank)
    losses = []
    Schedule1F1B(stage, 4, loss_fn=loss_fn).step(*([x] if rank == 0 else []), target=y, losses=losses)
    total = {name: np.zeros_like(g) for name, g in want.items()}
    for name, p in stage.submod.named_parameters():
        total[name] = np.zeros_like(want[name]) if p.grad is None else p.grad.numpy()
    for name, mine in total.items():
        found = ndgrad.tensor(mine)
        dist.all_reduce(found)  # a parameter that two stages use has a term on each
        close(found, want[name], 1e-10)


@on_ranks(1, 2)
def gradients_of_weights_follow_those_of_inputs():
    from ndgrad.distributed.pipelining.split_backward import SplitBackward

    shared = nn.Linear(4, 4).double()
    for net in (nn.Sequential(nn.Linear(4, 4), nn.Tanh(), nn.Linear(4, 4)).double(), nn.Sequential(shared, nn.Tanh(), shared)):
        x, y = (ndgrad.tensor(values(i, 3, 4), requires_grad=not i) for i in (0, 1))
        wanted = ndgrad.autograd.grad(loss_fn(net(x), y), [x, *net.parameters()])
        parts = SplitBackward([loss_fn(net(x), y)], [None], [x])
        close(parts.run_inputs()[0], wanted[0].numpy())
        assert all(p.grad is None for p in net.parameters())
        parts.run_weights(list(net.parameters()))
        for p, g in zip(net.parameters(), wanted[1:], strict=True):
            close(p.grad, g.numpy())
        net.zero_grad()


class _Marked(nn.Module):
    """A network that says itself where its stages end, once inside a submodule."""

    class Block(nn.Module):
        def __init__(self):
            super().__init__()
            self.first, self.last = nn.Linear(4, 4), nn.Linear(4, 4)

        def forward(self, x):
            x = self.first(x).tanh()
            pipe_split()
            return self.last(x)

    def __init__(self):
        super().__init__()
        self.block, self.scale = self.Block(), nn.Parameter(ndgrad.full((4,), 2.0))

    def forward(self, x):
        y = self.block(x * self.scale)
        pipe_split()
        return y * self.scale + x


@on_ranks(1, 3)
def stages_end_where_the_module_says():
    n, rank = dist.get_world_size(), dist.get_rank()
    ndgrad.manual_seed(0)
    net = _Marked().double()
    x, y = (ndgrad.tensor(values(i, 6, 4)) for i in (0, 1))
    want = loss_fn(net(x), y)  # marks have no effect outside of `pipeline`
    pipe = pipeline(net, (x[:3],))
    assert pipe.num_stages == 3
    close(loss_fn(pipe(x)[0], y).detach(), want.item())
    with pytest.raises(ValueError, match="Give one of the two"):
        pipeline(net, (x,), split_spec={"block": SplitPoint.END})
    if n == 3:
        losses = []
        ScheduleGPipe(pipe.build_stage(rank), 2, loss_fn=loss_fn).step(*([x] if rank == 0 else []), target=y, losses=losses)
        if rank == 2:
            close(ndgrad.stack(losses).mean(), want.item())


@on_ranks(1)
def micro_batches_are_divided_along_given_dimensions():
    x = ndgrad.tensor(values(0, 3, 4))
    args, kwargs = split_args_kwargs_into_chunks((x, 5), {"y": x.T}, 2, (TensorChunkSpec(1), None), {"y": TensorChunkSpec(0)})
    close(args[1][0], x.numpy()[:, 2:])
    close(kwargs[0]["y"], x.numpy().T[:2])
    assert [a[1] for a in args] == [5, 5]
    close(merge_chunks([a[0] for a in args], TensorChunkSpec(1)), x.numpy())
    with pytest.raises(ValueError, match="cannot be divided into 2"):
        split_args_kwargs_into_chunks((x,), None, 2)
    with pytest.raises(ValueError, match="1 values, and the spec"):
        split_args_kwargs_into_chunks((x,), None, 1, TensorChunkSpec.from_tuple((0, 1)))

    class Columns(nn.Module):
        def forward(self, x):
            return 2 * x

    schedule = ScheduleGPipe(
        PipelineStage(Columns(), 0, 1), 2, args_chunk_spec=TensorChunkSpec.from_tuple((1,)), output_merge_spec=TensorChunkSpec(1)
    )
    close(schedule.step(x), 2 * x.numpy())
