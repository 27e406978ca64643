import torch
from starting import draw, fill
from torch import autograd, nn

critic = fill(nn.Sequential(nn.Linear(3, 8), nn.Tanh(), nn.Linear(8, 1)), scale=2.0)
optimizer = torch.optim.RMSprop(critic.parameters(), lr=1e-2)


def penalty(real, fake):
    alpha = torch.full((real.size(0), 1), 0.3)
    mixed = (alpha * real + (1 - alpha) * fake).requires_grad_(True)
    scores = critic(mixed)
    gradients = autograd.grad(outputs=scores, inputs=mixed, grad_outputs=torch.ones_like(scores), create_graph=True, retain_graph=True)[0]
    return ((gradients.norm(2, dim=1) - 1) ** 2).mean()


for step in range(4):
    real, fake = draw(8, 3, seed=step), draw(8, 3, seed=50 + step) * 0.5
    optimizer.zero_grad()
    loss = critic(fake).mean() - critic(real).mean() + 10 * penalty(real, fake)
    loss.backward()
    optimizer.step()
    print(f"{loss.item():.5f}")
