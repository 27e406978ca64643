import numpy as np
import torch
import torch.nn as nn
import torch.nn.functional as F
from starting import fill
from torch.distributions import Categorical

rng = np.random.default_rng(0)


class ActorCritic(nn.Module):
    def __init__(self):
        super().__init__()
        self.body, self.action, self.value = nn.Linear(3, 16), nn.Linear(16, 4), nn.Linear(16, 1)

    def forward(self, x):
        x = F.relu(self.body(x))
        return Categorical(F.softmax(self.action(x), dim=-1)), self.value(x)


model = fill(ActorCritic(), scale=2.0)
optimizer = torch.optim.Adam(model.parameters(), lr=3e-2)
for episode in range(3):
    policy_losses, value_losses, entropies, ratios = [], [], [], []
    for _ in range(6):
        policy, value = model(torch.from_numpy(rng.standard_normal(3).astype(np.float32)))
        action = torch.tensor(int(rng.choice(4, p=policy.probs.detach().double().numpy() / policy.probs.detach().double().numpy().sum())))
        reward = 1.0 if action.item() % 2 == 0 else -0.5
        advantage = reward - value.item()
        policy_losses.append(-policy.log_prob(action) * advantage)
        value_losses.append(F.smooth_l1_loss(value, torch.tensor([reward])))
        entropies.append(policy.entropy())
        ratios.append(torch.exp(policy.log_prob(action) - policy.log_prob(action).detach()).clamp(0.8, 1.2))
    loss = torch.stack(policy_losses).sum() + torch.stack(value_losses).sum() - 0.01 * torch.stack(entropies).sum()
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
    print(f"{episode} {loss.item():.4f} {torch.stack(entropies).mean().item():.4f} {torch.stack(ratios).mean().item():.3f}")
