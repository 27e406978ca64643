"""Fully sharded training: parameters, gradients and the optimizer's state are divided among the ranks.

    torchrun --standalone --nproc-per-node=2 fsdp.py
    python -m ndgrad.distributed.run --standalone --nproc-per-node=2 fsdp.py
"""

import numpy as np
import torch
import torch.distributed as dist
from torch import nn
from torch.distributed.device_mesh import init_device_mesh
from torch.distributed.fsdp import fully_shard


class Block(nn.Module):
    def __init__(self, width):
        super().__init__()
        self.norm, self.up, self.down = nn.LayerNorm(width), nn.Linear(width, 4 * width), nn.Linear(4 * width, width)

    def forward(self, x):
        return x + self.down(nn.functional.gelu(self.up(self.norm(x))))


def main():
    dist.init_process_group("gloo")
    rank, size = dist.get_rank(), dist.get_world_size()
    mesh = init_device_mesh("cpu", (size,))
    net = nn.Sequential(nn.Linear(8, 16), Block(16), Block(16), nn.Linear(16, 1))
    rng = np.random.default_rng(0)
    with torch.no_grad():
        for p in net.parameters():
            p.copy_(torch.tensor(rng.normal(0, 0.2, tuple(p.shape)), dtype=torch.float32))
    for part in net:
        fully_shard(part, mesh=mesh)
    fully_shard(net, mesh=mesh)
    optimizer = torch.optim.AdamW(net.parameters(), lr=0.01)
    for step in range(6):
        x = rng.normal(size=(24, 8))
        y = np.cos(x[:, :1])
        mine = slice(rank * 24 // size, (rank + 1) * 24 // size)
        inputs, targets = (torch.tensor(a[mine], dtype=torch.float32) for a in (x, y))
        loss = nn.functional.mse_loss(net(inputs), targets)
        loss.backward()
        norm = nn.utils.clip_grad_norm_(net.parameters(), 1.0)
        norm = norm.full_tensor() if hasattr(norm, "full_tensor") else norm
        optimizer.step()
        optimizer.zero_grad()
        mean = loss.detach().clone()
        dist.all_reduce(mean)
        if rank == 0:
            print(f"step {step}: loss {mean.item() / size:.5f}, norm {norm.item():.4f}")
    if rank == 0:
        print("the first weight is", tuple(net[0].weight.to_local().shape), "of", tuple(net[0].weight.shape))
    dist.destroy_process_group()


if __name__ == "__main__":
    main()
