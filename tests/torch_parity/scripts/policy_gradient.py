import numpy as np
import torch
import torch.nn as nn
import torch.nn.functional as F
from starting import fill

rng = np.random.default_rng(3)
policy = fill(nn.Sequential(nn.Linear(2, 8), nn.Tanh(), nn.Linear(8, 2)), scale=2.0)
optimizer = torch.optim.Adam(policy.parameters(), lr=0.05)


def episode():
    state, log_probs, rewards = np.zeros(2, dtype=np.float32), [], []
    for _ in range(8):
        log_p = F.log_softmax(policy(torch.from_numpy(state.copy())), dim=-1)
        action = int(rng.random() > log_p.exp()[0].item())
        log_probs.append(log_p[action])
        state = state * 0.9 + np.array([0.2, -0.1], dtype=np.float32) * (1 if action else -1)
        rewards.append(-float(np.abs(state - 0.5).sum()))
    return torch.stack(log_probs), rewards


for i in range(4):
    log_probs, rewards = episode()
    returns, R = [], 0.0
    for r in reversed(rewards):
        R = r + 0.95 * R
        returns.insert(0, R)
    returns = torch.tensor(returns)
    returns = (returns - returns.mean()) / (returns.std() + 1e-6)
    loss = -(log_probs * returns).sum()
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
    print(f"episode {i} reward {sum(rewards):.4f} loss {loss.item():.4f}")
