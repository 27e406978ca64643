"""Pipeline parallel training: every rank has some of the layers, and micro-batches follow each other.

    torchrun --standalone --nproc-per-node=2 pipeline.py
    python -m ndgrad.distributed.run --standalone --nproc-per-node=2 pipeline.py
"""

import numpy as np
import torch
import torch.distributed as dist
from torch import nn
from torch.distributed.pipelining import PipelineStage, Schedule1F1B


def main():
    dist.init_process_group("gloo")
    rank, size = dist.get_rank(), dist.get_world_size()
    rng = np.random.default_rng(0)
    layers = [nn.Sequential(nn.Linear(8, 8), nn.Tanh()) for _ in range(size)]
    with torch.no_grad():
        for layer in layers:
            for p in layer.parameters():
                p.copy_(torch.tensor(rng.normal(0, 0.5, tuple(p.shape)), dtype=torch.float32))
    stage = PipelineStage(layers[rank], rank, size, torch.device("cpu"))
    schedule = Schedule1F1B(stage, n_microbatches=4, loss_fn=nn.functional.mse_loss)
    optimizer = torch.optim.Adam(layers[rank].parameters(), lr=0.01)
    for step in range(6):
        x = rng.normal(size=(32, 8))
        inputs = torch.tensor(x, dtype=torch.float32)
        targets = torch.tensor(np.roll(np.tanh(x), 1, axis=1), dtype=torch.float32)
        optimizer.zero_grad()
        losses = []
        if rank == 0 and size > 1:
            schedule.step(inputs)
        elif rank == size - 1:
            schedule.step(*([inputs] if size == 1 else []), target=targets, losses=losses)
        else:
            schedule.step()
        optimizer.step()
        if rank == size - 1:
            print(f"step {step}: loss {sum(loss.item() for loss in losses) / len(losses):.5f}")
    dist.destroy_process_group()


if __name__ == "__main__":
    main()
