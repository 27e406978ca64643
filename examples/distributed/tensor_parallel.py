"""Tensor parallel training: every layer is divided among the ranks, and all have the whole batch.

    torchrun --standalone --nproc-per-node=2 tensor_parallel.py
    python -m ndgrad.distributed.run --standalone --nproc-per-node=2 tensor_parallel.py
"""

import numpy as np
import torch
import torch.distributed as dist
from torch import nn
from torch.distributed.device_mesh import init_device_mesh
from torch.distributed.tensor.parallel import ColwiseParallel, RowwiseParallel, parallelize_module


class FeedForward(nn.Module):
    def __init__(self, width):
        super().__init__()
        self.gate, self.up = nn.Linear(width, 4 * width, bias=False), nn.Linear(width, 4 * width, bias=False)
        self.down = nn.Linear(4 * width, width, bias=False)

    def forward(self, x):
        return x + self.down(nn.functional.silu(self.gate(x)) * self.up(x))


def main():
    dist.init_process_group("gloo")
    mesh = init_device_mesh("cpu", (dist.get_world_size(),))
    net = nn.Sequential(FeedForward(8), FeedForward(8), nn.Linear(8, 1))
    rng = np.random.default_rng(0)
    with torch.no_grad():
        for p in net.parameters():
            p.copy_(torch.tensor(rng.normal(0, 0.2, tuple(p.shape)), dtype=torch.float32))
    plan = {"gate": ColwiseParallel(), "up": ColwiseParallel(), "down": RowwiseParallel()}
    for i in range(2):
        parallelize_module(net[i], mesh, plan)
    optimizer = torch.optim.SGD(net.parameters(), lr=0.05, momentum=0.9)
    for step in range(6):
        x = rng.normal(size=(32, 8))
        inputs = torch.tensor(x, dtype=torch.float32)
        targets = torch.tensor(np.sin(x).sum(1, keepdims=True), dtype=torch.float32)
        optimizer.zero_grad()
        loss = nn.functional.mse_loss(net(inputs), targets)
        loss.backward()
        optimizer.step()
        if dist.get_rank() == 0:
            print(f"step {step}: loss {loss.item():.5f}")
    if dist.get_rank() == 0:
        print("the gate is", net[0].gate.weight.placements, tuple(net[0].gate.weight.to_local().shape))
    dist.destroy_process_group()


if __name__ == "__main__":
    main()
