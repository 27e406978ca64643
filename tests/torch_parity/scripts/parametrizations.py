import torch
import torch.nn.utils.parametrize as parametrize
from starting import draw, fill
from torch import nn
from torch.nn.utils.parametrizations import orthogonal, weight_norm


class Symmetric(nn.Module):
    def forward(self, X):
        return X.triu() + X.triu(1).transpose(-1, -2)

    def right_inverse(self, A):
        return A.triu()


layer = fill(nn.Linear(3, 3), scale=2.0)
parametrize.register_parametrization(layer, "weight", Symmetric())
print(torch.allclose(layer.weight, layer.weight.T), parametrize.is_parametrized(layer), type(layer).__name__)
optimizer = torch.optim.SGD(layer.parameters(), lr=0.1)
for _ in range(3):
    loss = layer(draw(4, 3)).square().sum()
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
    print(f"{loss.item():.4f}", torch.allclose(layer.weight, layer.weight.T))
normed = weight_norm(fill(nn.Linear(4, 2), scale=2.0))
print(sorted(n for n, _ in normed.named_parameters()), f"{normed(draw(1, 4)).sum().item():.4f}")
square = orthogonal(fill(nn.Linear(3, 3), scale=2.0))
print(torch.allclose(square.weight @ square.weight.T, torch.eye(3), atol=1e-5))
parametrize.remove_parametrizations(layer, "weight")
print(parametrize.is_parametrized(layer), sorted(dict(layer.named_parameters())))
