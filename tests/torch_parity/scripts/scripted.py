import torch
from starting import draw, fill
from torch import nn


@torch.jit.script
def fused(x, y):
    return torch.sigmoid(x) * torch.tanh(y)


@torch.jit.ignore
def untouched(x):
    return x


class Gate(nn.Module):
    def __init__(self):
        super().__init__()
        self.linear = nn.Linear(3, 3)

    def forward(self, x):
        if torch.jit.is_scripting():
            return x
        return fused(self.linear(x), x)


model = fill(Gate(), scale=2.0).eval()
x = draw(2, 3)
traced = torch.jit.trace(model, x)
print(torch.allclose(traced(x), model(x)), [f"{v:.4f}" for v in traced(x).sum(0).tolist()])
print(torch.equal(untouched(x), x), torch.jit.is_scripting(), torch.jit.is_tracing())
