import torch
from starting import draw, fill
from torch import nn, optim

quantiles = torch.tensor([0.1, 0.5, 0.9])


def pinball(prediction, target):
    error = target.unsqueeze(-1) - prediction
    return torch.max(quantiles * error, (quantiles - 1) * error).mean()


model = fill(nn.Sequential(nn.Linear(1, 16), nn.SiLU(), nn.Linear(16, 3)), scale=2.0)
optimizer = optim.NAdam(model.parameters(), lr=0.02)
x = torch.linspace(-2, 2, 40).unsqueeze(1)
y = x.squeeze(1).sin() + 0.3 * draw(40)
for step in range(30):
    optimizer.zero_grad()
    loss = pinball(model(x), y)
    loss.backward()
    optimizer.step()
    if step % 10 == 0:
        print(f"{step}: {loss.item():.4f}")
with torch.no_grad():
    out = model(x)
print([f"{q:.3f}" for q in torch.quantile(y, quantiles).tolist()], bool((out[:, 0] <= out[:, 2]).float().mean() > 0.5))
