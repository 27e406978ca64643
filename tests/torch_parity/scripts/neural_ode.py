import torch
from starting import draw, fill
from torch import nn

field = fill(nn.Sequential(nn.Linear(2, 16), nn.Tanh(), nn.Linear(16, 2)), scale=2.0)


def rk4(f, y, t0, t1, steps):
    h = (t1 - t0) / steps
    path = [y]
    for _ in range(steps):
        k1 = f(y)
        k2 = f(y + h / 2 * k1)
        k3 = f(y + h / 2 * k2)
        k4 = f(y + h * k3)
        y = y + h / 6 * (k1 + 2 * k2 + 2 * k3 + k4)
        path.append(y)
    return torch.stack(path)


y0 = draw(5, 2)
with torch.no_grad():
    truth = rk4(lambda y: y**3 @ torch.tensor([[-0.1, 2.0], [-2.0, -0.1]]), y0 * 0.5, 0.0, 0.5, 10)
optimizer = torch.optim.RAdam(field.parameters(), lr=1e-2)
for step in range(3):
    loss = (rk4(field, y0 * 0.5, 0.0, 0.5, 10) - truth).abs().mean()
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
    print(f"{loss.item():.5f}")
