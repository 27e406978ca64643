"""Sharded checkpoints: saved on some ranks and placements, loaded on others; what is missing or broken."""

from __future__ import annotations

import json
import os
import tempfile
from pathlib import Path

import numpy as np
import pytest
from tests.distributed.on_ranks import close, on_ranks, values
from tests.distributed.programs.sharded import _sharded, _step, _whole
from tests.distributed.programs.training import _batch, _model

import ndgrad
import ndgrad.distributed as dist
import ndgrad.distributed.checkpoint as dcp
from ndgrad.distributed.checkpoint.format_utils import dcp_to_torch_save, torch_save_to_dcp
from ndgrad.distributed.checkpoint.state_dict import StateDictOptions, get_state_dict, set_state_dict
from ndgrad.distributed.fsdp import fully_shard
from ndgrad.distributed.optim import ZeroRedundancyOptimizer
from ndgrad.distributed.tensor import Replicate, Shard, distribute_tensor
from ndgrad.distributed.tensor.parallel import ColwiseParallel, RowwiseParallel, parallelize_module
from ndgrad.nn.parallel import DistributedDataParallel


def _folder():
    """A folder of all ranks, which the first one removes with everything that is temporary."""
    names = [tempfile.mkdtemp(prefix="ndgrad-checkpoint-") if dist.get_rank() == 0 else None]
    dist.broadcast_object_list(names)
    return Path(names[0])


def _remove(folder):
    dist.barrier()
    if dist.get_rank() == 0:
        for path in sorted(folder.rglob("*"), reverse=True):
            path.rmdir() if path.is_dir() else path.unlink()
        folder.rmdir()


@on_ranks(1, 2, 3, 4)
def tensors_come_back_in_other_placements_and_on_other_ranks():
    n, rank = dist.get_world_size(), dist.get_rank()
    folder = _folder()
    mesh = dist.init_device_mesh("cpu", (n,))
    whole = {"rows": values(1, 7, 3), "bytes": np.arange(5, dtype=np.int8), "complex": values(2, 4, 2) + 1j, "one": np.array(2.5)}
    spread = {
        "rows": distribute_tensor(ndgrad.tensor(whole["rows"]), mesh, [Shard(0)]),
        "bytes": distribute_tensor(ndgrad.tensor(whole["bytes"]), mesh, [Replicate()]),
        "complex": distribute_tensor(ndgrad.tensor(whole["complex"]), mesh, [Shard(1)]),
        "one": ndgrad.tensor(whole["one"]),
    }
    state = {"a": spread, "list": [ndgrad.tensor([1.0, 2.0]), 3], "betas": (0.9, 0.99), "name": "x", f"only {rank}": rank}
    made = dcp.save(state, checkpoint_id=folder)
    assert len(made.tensors["a", "rows"].chunks) == min(n, 7)
    assert len(made.tensors["a", "bytes"].chunks) == 1
    other = {
        "rows": distribute_tensor(ndgrad.zeros(7, 3, dtype=ndgrad.float64), mesh, [Shard(1)]),
        "bytes": distribute_tensor(ndgrad.zeros(5, dtype=ndgrad.int8), mesh, [Shard(0)]),
        "complex": ndgrad.zeros(4, 2, dtype=ndgrad.complex128),
        "one": ndgrad.tensor(0.0, dtype=ndgrad.float64),
    }
    found = {"a": other, "list": [ndgrad.zeros(2), 0], "betas": (0.0, 0.0), "name": "", "only 0": None}
    rows = other["rows"]
    dcp.load(found, checkpoint_id=folder)
    assert found["a"]["rows"] is rows
    for name, t in other.items():
        close(t.full_tensor() if hasattr(t, "full_tensor") else t, whole[name])
    close(found["list"][0], [1, 2])
    assert (found["list"][1], found["betas"], found["name"], found["only 0"]) == (3, (0.9, 0.99), "x", 0)
    if n > 2:  # on fewer ranks
        fewer = dist.DeviceMesh("cpu", range(n - 1))
        if rank < n - 1:
            fewer_rows = distribute_tensor(ndgrad.zeros(7, 3, dtype=ndgrad.float64), fewer, [Shard(0)])
            dcp.load({"a": {"rows": fewer_rows}}, checkpoint_id=folder, process_group=fewer.get_group())
            close(fewer_rows.full_tensor(), whole["rows"])
    # a rank alone reads all of it
    alone = {"a": {"rows": ndgrad.zeros(7, 3, dtype=ndgrad.float64)}}
    dcp.load(alone, checkpoint_id=folder, no_dist=True)
    close(alone["a"]["rows"], whole["rows"])
    _remove(folder)


def _train(net, opt, steps):
    losses = []
    for step in steps:
        opt.zero_grad()
        losses.append(_step(net, step))
        opt.step()
    return losses


@on_ranks(1, 2, 3)
def training_goes_on_as_another_strategy():
    """Two steps fully sharded; then two more as data parallel with a divided optimizer, and fully sharded on a part of the
    ranks: the same losses as without the interruption."""
    adam = ndgrad.optim.Adam
    folder = _folder()
    net = _sharded(reshard_after_forward=True)
    opt = adam(net.parameters(), lr=0.05)
    _train(net, opt, range(2))
    model_state, optim_state = get_state_dict(net, opt)
    dcp.save({"model": model_state, "optim": optim_state, "step": 2}, checkpoint_id=folder)
    want = _train(net, opt, range(2, 4))

    def resumed(model, optimizer, train):
        model_state, optim_state = get_state_dict(model, optimizer)
        state = {"model": model_state, "optim": optim_state, "step": 0}
        dcp.load(state, checkpoint_id=folder)
        set_state_dict(model, optimizer, model_state_dict=state["model"], optim_state_dict=state["optim"])
        found = train(model, optimizer, range(state["step"], 4))
        assert found == pytest.approx(want, rel=1e-12)

    other = DistributedDataParallel(_model(seed=3))
    resumed(other, ZeroRedundancyOptimizer(other.parameters(), adam, lr=0.1), _train)
    again = _sharded(seed=4, reshard_after_forward=False)
    resumed(again, adam(again.parameters(), lr=0.1), _train)
    # whole tensors, on every rank
    full = StateDictOptions(full_state_dict=True)
    model_state, optim_state = get_state_dict(again, adam(again.parameters()), options=full)
    assert model_state["0.weight"].shape == (8, 4) == optim_state["state"]["0.weight"]["exp_avg"].shape
    fresh = _sharded(seed=5)
    other = adam(fresh.parameters())
    set_state_dict(fresh, other, model_state_dict=model_state, optim_state_dict=optim_state, options=full)
    for p, q in zip(fresh.parameters(), again.parameters(), strict=True):
        close(_whole(p), _whole(q))
    # on one process, with the whole batch
    if dist.get_rank() == 0:
        alone = _model(seed=6)
        single = adam(alone.parameters(), lr=0.1)
        model_state, optim_state = get_state_dict(alone, single)
        dcp.load({"model": model_state, "optim": optim_state}, checkpoint_id=folder, no_dist=True)
        set_state_dict(alone, single, model_state_dict=model_state, optim_state_dict=optim_state)
        for step in range(2, 4):
            single.zero_grad()
            x, y = map(ndgrad.tensor, _batch(step))
            ((alone(x) - y) ** 2).mean().backward()
            single.step()
    else:
        alone = _model()
    for p, q in zip(net.parameters(), alone.parameters(), strict=True):
        found = _whole(p)
        if dist.get_rank() == 0:
            close(found, q.detach().numpy(), 1e-10)
    _remove(folder)


@on_ranks(1, 2)
def broken_missing_and_unfit_checkpoints_raise_on_every_rank_and_change_nothing():
    n, rank = dist.get_world_size(), dist.get_rank()
    folder = _folder()
    mesh = dist.init_device_mesh("cpu", (n,))

    def state(fill=1.0, rows=6, **more):
        return {"w": distribute_tensor(ndgrad.full((rows, 2), fill), mesh, [Shard(0)]), "b": ndgrad.full((2,), fill), **more}

    def refused(told, given=None, where=folder):
        given = state(7.0) if given is None else given
        with pytest.raises(dcp.CheckpointException, match=told):
            dcp.load(given, checkpoint_id=where)
        close(given["b"], [7.0, 7.0])
        close(given["w"].full_tensor(), np.full(given["w"].shape, 7.0))

    refused(r"metadata.json is not there: .* is no checkpoint", where=folder / "nowhere")
    dcp.save(state(2.0, epoch=1), checkpoint_id=folder)
    names = sorted(os.listdir(folder))
    assert len(names) == n + 1
    refused(r"v is not in the checkpoint, which has b, epoch, w", state(7.0, v=ndgrad.ones(1)))
    refused(r"w is of shape \[6, 2\] in the checkpoint, and \[3, 2\] here", state(7.0, rows=3))
    dist.barrier()
    victim = folder / names[-1]  # the last rank's
    whole = victim.read_bytes()
    dist.barrier()
    for damage, told in (
        (whole[:-3], r"is damaged, which has w"),
        (whole[:-1] + bytes([whole[-1] ^ 1]), r"is damaged: .* has another checksum than was saved"),
        (None, r"shard-\w+-0000\d.safetensors is missing, which has w"),
    ):
        if rank == 0:
            victim.unlink(missing_ok=True)
            if damage is not None:
                victim.write_bytes(damage)
        dist.barrier()
        refused(told)
        dist.barrier()
    table = (folder / "metadata.json").read_text()
    dist.barrier()
    for damage, told in (
        (table[:-9], r"metadata.json is damaged: JSONDecodeError: .* \[nd-file-damaged\]"),
        (table.replace('"version": 1', '"version": 99'), r"metadata.json is of another kind: .*, version 99, and .* \[nd-file-kind\]"),
    ):
        if rank == 0:
            (folder / "metadata.json").write_text(damage)
        dist.barrier()
        refused(told)
        dist.barrier()
    # a save that fails on one rank leaves the old checkpoint
    if rank == 0:
        victim.write_bytes(whole)
        (folder / "metadata.json").write_text(table)
    dist.barrier()
    bad = state(9.0, **({"x": object()} if rank == n - 1 else {}))
    with pytest.raises(dcp.CheckpointException, match=rf"could not be written: rank {n - 1}: TypeError: checkpoint: x is a object"):
        dcp.save(bad, checkpoint_id=folder)
    found = state(0.0, epoch=0)
    dcp.load(found, checkpoint_id=folder)
    close(found["w"].full_tensor(), np.full((6, 2), 2.0))
    # a later save takes its place, and leaves no files of the older one
    dcp.save(state(5.0, epoch=2), checkpoint_id=folder)
    dist.barrier()
    assert len(os.listdir(folder)) == n + 1
    assert not set(names[1:]) & set(os.listdir(folder))
    dcp.load(found, checkpoint_id=folder)
    assert found["epoch"] == 2
    close(found["w"].full_tensor(), np.full((6, 2), 5.0))
    _remove(folder)


@on_ranks(4)
def layers_that_are_divided_twice_come_back_on_one_process():
    folder = _folder()
    mesh = dist.init_device_mesh("cpu", (2, 2), mesh_dim_names=("data", "model"))
    nn = ndgrad.nn
    ndgrad.manual_seed(0)
    net = nn.Sequential(nn.Linear(3, 7), nn.Tanh(), nn.Linear(7, 5)).double()
    want = {name: t.detach().numpy().copy() for name, t in net.state_dict().items()}
    parallelize_module(net, mesh["model"], {"0": ColwiseParallel(), "2": RowwiseParallel()})
    fully_shard(net, mesh=mesh["data"])
    dcp.save({"net": net}, checkpoint_id=folder)
    alone = nn.Sequential(nn.Linear(3, 7), nn.Tanh(), nn.Linear(7, 5)).double()
    dcp.load({"net": alone}, checkpoint_id=folder, no_dist=True)
    for name, t in alone.state_dict().items():
        close(t, want[name])
    with ndgrad.no_grad():
        for p in net.parameters():
            p.zero_()
    dcp.load({"net": net}, checkpoint_id=folder)
    for name, t in net.state_dict().items():
        close(_whole(t), want[name])
    _remove(folder)


def _make_spread():
    mesh = dist.init_device_mesh("cpu", (dist.get_world_size(),))
    return distribute_tensor(ndgrad.tensor(values(0, 5, 2)), mesh, [Shard(0)])


@on_ranks(1, 2, 3)
def a_save_removes_the_files_of_one_that_was_killed():
    folder = _folder()
    x = _make_spread()
    dcp.save({"x": x}, checkpoint_id=folder)
    if dist.get_rank() == 0:
        for name in (".shard-0123abcd-00001.safetensors.k3j2.part", "shard-0123abcd-00000.safetensors", ".metadata.json.9x.part"):
            (Path(folder) / name).write_bytes(b"half")
        (Path(folder) / "notes.txt").write_text("mine")
    dist.barrier()
    dcp.load({"x": x}, checkpoint_id=folder)  # the checkpoint before is whole
    dcp.save({"x": x}, checkpoint_id=folder)
    dist.barrier()
    left = sorted(p.name for p in Path(folder).iterdir())
    assert [n for n in left if "0123abcd" in n or n.endswith(".part")] == []
    assert "notes.txt" in left
    _remove(folder)


@on_ranks(1, 2, 3)
def writers_and_readers_name_the_folder():
    folder = _folder()
    dcp.save({"x": _make_spread(), "epoch": 2}, storage_writer=dcp.FileSystemWriter(folder))
    state = {"x": _make_spread().zero_(), "epoch": 0}
    dcp.load(state, storage_reader=dcp.FileSystemReader(folder))
    close(state["x"].full_tensor(), values(0, 5, 2))
    assert state["epoch"] == 2
    assert dcp.FileSystemReader(folder).read_metadata().ranks == dist.get_world_size()
    with pytest.raises(RuntimeError, match="overwrite=False"):
        dcp.save({"x": _make_spread()}, storage_writer=dcp.FileSystemWriter(folder, overwrite=False))
    with pytest.raises(NotImplementedError, match="planners"):
        dcp.save({"x": _make_spread()}, checkpoint_id=folder, planner=object())
    _remove(folder)


@on_ranks(1, 2, 3)
def a_save_runs_while_the_program_changes_and_sends_tensors():
    folder, x = _folder(), _make_spread()
    futures = [dcp.async_save({"x": x, "step": i}, checkpoint_id=f"{folder}/{i}") for i in range(2)]
    x.zero_()
    for _ in range(20):
        dist.all_reduce(ndgrad.ones(3))
    for i, future in enumerate(futures):
        future.result(timeout=20)
        state = {"x": _make_spread().zero_(), "step": -1}
        dcp.load(state, checkpoint_id=f"{folder}/{i}")
        close(state["x"].full_tensor(), values(0, 5, 2))
        assert state["step"] == i
    _remove(folder)


@on_ranks(1, 2)
def a_load_may_leave_out_names_that_the_checkpoint_lacks():
    folder = _folder()
    dcp.save({"w": ndgrad.ones(2), "n": 3}, checkpoint_id=folder, planner=dcp.DefaultSavePlanner())
    state = {"w": ndgrad.zeros(2), "v": ndgrad.zeros(1), "n": 0, "more": {"k": 7}}
    with pytest.raises(dcp.CheckpointException):
        dcp.load(state, checkpoint_id=folder, planner=dcp.DefaultLoadPlanner())
    assert state["n"] == 0
    dcp.load(state, checkpoint_id=folder, planner=dcp.DefaultLoadPlanner(allow_partial_load=True))
    assert (state["w"].tolist(), state["v"].tolist(), state["n"], state["more"]) == ([1, 1], [0], 3, {"k": 7})
    with pytest.raises(NotImplementedError, match="layout"):
        dcp.DefaultSavePlanner(flatten_state_dict=False)
    _remove(folder)


@on_ranks(1)
def checkpoints_become_single_files_and_back():
    with tempfile.TemporaryDirectory() as folder:
        net = ndgrad.nn.Linear(3, 2)
        optimizer = ndgrad.optim.Adam(net.parameters())
        net(ndgrad.ones(1, 3)).sum().backward()
        optimizer.step()
        state = {"net": net.state_dict(), "optimizer": optimizer.state_dict(), "step": 5, "name": "a"}
        ndgrad.save(state, f"{folder}/first.pt")
        torch_save_to_dcp(f"{folder}/first.pt", f"{folder}/parts")
        dcp_to_torch_save(f"{folder}/parts", f"{folder}/second.pt")
        found = ndgrad.load(f"{folder}/second.pt")
        assert (found["step"], found["name"]) == (5, "a")
        assert found["optimizer"]["param_groups"] == json.loads(json.dumps(state["optimizer"]["param_groups"]))
        for i in (0, 1):
            close(found["optimizer"]["state"][i]["exp_avg"], state["optimizer"]["state"][i]["exp_avg"].numpy(), 0)
        close(found["net"]["weight"], net.weight.detach().numpy(), 0)
        ndgrad.optim.Adam(net.parameters()).load_state_dict(found["optimizer"])
        other = {"step": 0}
        dcp.load_state_dict(other, dcp.FileSystemReader(f"{folder}/parts"))
        assert other == {"step": 5}
        with pytest.raises(NotImplementedError, match="coordinator_rank=1"):
            dcp.save_state_dict(other, dcp.FileSystemWriter(f"{folder}/more"), coordinator_rank=1)
