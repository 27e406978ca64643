import math

import torch
from starting import draw, fill
from torch import nn


class Coupling(nn.Module):
    def __init__(self, flip):
        super().__init__()
        self.flip = flip
        self.net = nn.Sequential(nn.Linear(1, 8), nn.ReLU(), nn.Linear(8, 2))

    def forward(self, x):
        a, b = x.chunk(2, dim=1)
        if self.flip:
            a, b = b, a
        s, t = self.net(a).unbind(-1)
        s = torch.tanh(s)
        b = b * s.exp().unsqueeze(1) + t.unsqueeze(1)
        return torch.cat([b, a] if self.flip else [a, b], dim=1), s


flow = fill(nn.ModuleList([Coupling(i % 2 == 1) for i in range(4)]), scale=2.0)
optimizer = torch.optim.Adam(flow.parameters(), lr=1e-2)
data = draw(32, 2) * torch.tensor([2.0, 0.5]) + torch.tensor([1.0, -1.0])
for step in range(4):
    z, logdet = data, torch.zeros(32)
    for layer in flow:
        z, s = layer(z)
        logdet = logdet + s
    log_prob = -0.5 * (z**2).sum(1) - math.log(2 * math.pi) + logdet
    loss = -log_prob.mean()
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
    print(f"{loss.item():.5f}")
