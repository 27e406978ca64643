"""Data parallel training: every rank has the model and a part of each batch.

    torchrun --standalone --nproc-per-node=2 ddp.py
    python -m ndgrad.distributed.run --standalone --nproc-per-node=2 ddp.py

Both print the same losses: the data and the first weights come from NumPy.
"""

import numpy as np
import torch
import torch.distributed as dist
from torch import nn
from torch.nn.parallel import DistributedDataParallel
from torch.utils.data import DataLoader, DistributedSampler, TensorDataset


def make_model():
    net = nn.Sequential(nn.Linear(8, 32), nn.Tanh(), nn.Linear(32, 1))
    rng = np.random.default_rng(0)
    with torch.no_grad():
        for p in net.parameters():
            p.copy_(torch.tensor(rng.normal(0, 0.3, tuple(p.shape)), dtype=torch.float32))
    return net


def main():
    dist.init_process_group("gloo")
    rng = np.random.default_rng(1)
    x = rng.normal(size=(96, 8))
    y = np.sin(x.sum(1, keepdims=True))
    data = TensorDataset(torch.tensor(x, dtype=torch.float32), torch.tensor(y, dtype=torch.float32))
    sampler = DistributedSampler(data, shuffle=False)
    net = DistributedDataParallel(make_model())
    optimizer = torch.optim.Adam(net.parameters(), lr=0.01)
    for epoch in range(5):
        sampler.set_epoch(epoch)
        for inputs, targets in DataLoader(data, batch_size=48 // dist.get_world_size(), sampler=sampler):
            optimizer.zero_grad()
            loss = nn.functional.mse_loss(net(inputs), targets)
            loss.backward()
            optimizer.step()
        mean = loss.detach().clone()
        dist.all_reduce(mean)
        if dist.get_rank() == 0:
            print(f"epoch {epoch}: loss {mean.item() / dist.get_world_size():.5f}")
    dist.destroy_process_group()


if __name__ == "__main__":
    main()
