"""Train, save, and continue on another number of ranks.

    torchrun --standalone --nproc-per-node=2 resume.py saved 0 3
    torchrun --standalone --nproc-per-node=3 resume.py saved 3 6
    python -m ndgrad.distributed.run --standalone --nproc-per-node=2 resume.py saved 0 3     and so on

The arguments are the folder of the checkpoint, the first step and the last.
"""

import sys

import numpy as np
import torch
import torch.distributed as dist
import torch.distributed.checkpoint as dcp
from torch import nn
from torch.distributed.checkpoint.state_dict import get_state_dict, set_state_dict
from torch.distributed.device_mesh import init_device_mesh
from torch.distributed.fsdp import fully_shard


def main(folder, first, last):
    dist.init_process_group("gloo")
    rank, size = dist.get_rank(), dist.get_world_size()
    net = nn.Sequential(nn.Linear(8, 24), nn.Tanh(), nn.Linear(24, 1))
    rng = np.random.default_rng(0)
    with torch.no_grad():
        for p in net.parameters():
            p.copy_(torch.tensor(rng.normal(0, 0.3, tuple(p.shape)), dtype=torch.float32))
    fully_shard(net, mesh=init_device_mesh("cpu", (size,)))
    optimizer = torch.optim.Adam(net.parameters(), lr=0.02)
    if first:
        model_state, optimizer_state = get_state_dict(net, optimizer)
        dcp.load({"model": model_state, "optimizer": optimizer_state}, checkpoint_id=folder)
        set_state_dict(net, optimizer, model_state_dict=model_state, optim_state_dict=optimizer_state)
    for step in range(first, last):
        x = np.random.default_rng(100 + step).normal(size=(24, 8))
        mine = slice(rank * 24 // size, (rank + 1) * 24 // size)
        inputs, targets = (torch.tensor(a[mine], dtype=torch.float32) for a in (x, np.sin(x[:, :1])))
        optimizer.zero_grad()
        loss = nn.functional.mse_loss(net(inputs), targets)
        loss.backward()
        optimizer.step()
        mean = loss.detach().clone()
        dist.all_reduce(mean)
        if rank == 0:
            print(f"step {step}: loss {mean.item() / size:.5f}")
    model_state, optimizer_state = get_state_dict(net, optimizer)
    dcp.save({"model": model_state, "optimizer": optimizer_state}, checkpoint_id=folder)
    dist.destroy_process_group()


if __name__ == "__main__":
    main(sys.argv[1], int(sys.argv[2]), int(sys.argv[3]))
