import os
import tempfile

import torch
from starting import draw, fill
from torch import nn, optim


def make():
    model = fill(nn.Sequential(nn.Linear(4, 8), nn.BatchNorm1d(8), nn.ReLU(), nn.Linear(8, 1)), scale=2.0)
    optimizer = optim.Adam(model.parameters(), lr=0.01)
    return model, optimizer, optim.lr_scheduler.StepLR(optimizer, 2)


def train(model, optimizer, scheduler, epochs):
    for epoch in epochs:
        loss = (model(draw(8, 4, seed=epoch)) - 1).square().mean()
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        scheduler.step()
        print(f"epoch {epoch} {loss.item():.5f}")


straight = make()
train(*straight, range(6))
first = make()
train(*first, range(3))
with tempfile.TemporaryDirectory() as folder:
    path = os.path.join(folder, "checkpoint.pt")
    model, optimizer, scheduler = first
    torch.save({"epoch": 3, "model": model.state_dict(), "optimizer": optimizer.state_dict(), "scheduler": scheduler.state_dict()}, path)
    checkpoint = torch.load(path, map_location=torch.device("cpu"), weights_only=True)
second = make()
second[0].load_state_dict(checkpoint["model"])
second[1].load_state_dict(checkpoint["optimizer"])
second[2].load_state_dict(checkpoint["scheduler"])
train(*second, range(checkpoint["epoch"], 6))
same = all(torch.equal(a, b) for a, b in zip(straight[0].state_dict().values(), second[0].state_dict().values()))
print("same as without stopping:", same)
print(second[0].load_state_dict({"0.weight": torch.zeros(8, 4)}, strict=False).unexpected_keys)
