import math

import torch
from starting import draw

torch.set_default_dtype(torch.float64)
x = torch.linspace(0, 5, 12)
y = torch.sin(x) + 0.1 * draw(12).double()
raw = torch.nn.ParameterDict({k: torch.nn.Parameter(torch.tensor(v)) for k, v in (("length", 0.0), ("scale", 0.0), ("noise", -2.0))})
optimizer = torch.optim.Adam(raw.parameters(), lr=0.1)


def kernel(a, b):
    return raw["scale"].exp() * torch.exp(-0.5 * (a[:, None] - b[None, :]) ** 2 / raw["length"].exp() ** 2)


def nll():
    K = kernel(x, x) + raw["noise"].exp() * torch.eye(len(x))
    L = torch.linalg.cholesky(K)
    alpha = torch.cholesky_solve(y.unsqueeze(1), L)
    return 0.5 * (y @ alpha.squeeze(1)) + L.diagonal().log().sum() + 0.5 * len(x) * math.log(2 * math.pi)


for step in range(5):
    optimizer.zero_grad()
    loss = nll()
    loss.backward()
    optimizer.step()
    print(f"{loss.item():.6f}")
with torch.no_grad():
    z = torch.tensor([2.5])
    K = kernel(x, x) + raw["noise"].exp() * torch.eye(len(x))
    print(f"{(kernel(z, x) @ torch.linalg.solve(K, y)).item():.5f}", f"{torch.logdet(K).item():.5f}")
torch.set_default_dtype(torch.float32)
