import torch
from starting import fill
from torch import nn

net = fill(nn.Sequential(nn.Linear(1, 16), nn.Tanh(), nn.Linear(16, 16), nn.Tanh(), nn.Linear(16, 1)), scale=2.0)
x = torch.linspace(0, 1, 21).reshape(-1, 1).requires_grad_()
optimizer = torch.optim.LBFGS(net.parameters(), lr=0.5, max_iter=5, line_search_fn="strong_wolfe")


def residual():
    u = net(x)
    (du,) = torch.autograd.grad(u.sum(), x, create_graph=True)
    (ddu,) = torch.autograd.grad(du.sum(), x, create_graph=True)
    inside = ddu + torch.pi**2 * torch.sin(torch.pi * x)
    return inside.pow(2).mean() + 10 * (net(torch.tensor([[0.0], [1.0]]))).pow(2).sum()


def closure():
    optimizer.zero_grad()
    loss = residual()
    loss.backward()
    return loss


for step in range(3):
    loss = optimizer.step(closure)
    print(f"{step}: {loss.item():.3f}")
