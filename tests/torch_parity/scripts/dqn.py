import copy
import random
from collections import deque, namedtuple

import numpy as np
import torch
from starting import fill
from torch import nn

Transition = namedtuple("Transition", "state action reward next_state done")
random.seed(1)
rng = np.random.default_rng(1)
memory = deque(maxlen=50)
for _ in range(40):
    s = rng.standard_normal(4).astype(np.float32)
    memory.append(Transition(s, int(rng.integers(2)), float(s.sum()), (s * 0.5).astype(np.float32), bool(rng.random() < 0.2)))

net = fill(nn.Sequential(nn.Linear(4, 16), nn.ReLU(), nn.Linear(16, 2)), scale=2.0)
target = copy.deepcopy(net).eval()
for p in target.parameters():
    p.requires_grad = False
optimizer = torch.optim.RMSprop(net.parameters(), lr=1e-3)
for step in range(4):
    batch = Transition(*zip(*random.sample(list(memory), 16)))
    states = torch.as_tensor(np.stack(batch.state))
    actions = torch.tensor(batch.action).unsqueeze(1)
    rewards, done = torch.tensor(batch.reward), torch.tensor(batch.done, dtype=torch.bool)
    with torch.no_grad():
        best = target(torch.as_tensor(np.stack(batch.next_state))).max(1)[0]
        best[done] = 0.0
    q = net(states).gather(1, actions).squeeze(1)
    loss = nn.SmoothL1Loss()(q, rewards + 0.99 * best)
    optimizer.zero_grad()
    loss.backward()
    for p in net.parameters():
        p.grad.data.clamp_(-1, 1)
    optimizer.step()
    with torch.no_grad():
        for t, p in zip(target.parameters(), net.parameters()):
            t.mul_(0.9).add_(p, alpha=0.1)
    print(f"{step} {loss.item():.5f} {q.mean().item():.4f}")
