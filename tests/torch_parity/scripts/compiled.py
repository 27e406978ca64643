import torch
from starting import draw, fill
from torch import nn

torch.set_float32_matmul_precision("high")
model = fill(nn.Sequential(nn.Linear(6, 12), nn.GELU(), nn.LayerNorm(12), nn.Linear(12, 3)), scale=2.0)
try:
    import torch._dynamo as dynamo

    dynamo.reset()
except ImportError:
    pass
fast = torch.compile(model, backend="eager")
optimizer = torch.optim.Adam(model.parameters(), lr=1e-2)


@torch.compile(backend="eager")
def loss_fn(out, target):
    return torch.nn.functional.huber_loss(out, target) + 1e-3 * out.abs().mean()


for step in range(3):
    loss = loss_fn(fast(draw(5, 6, seed=step)), torch.ones(5, 3))
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
    print(f"{loss.item():.5f}")
print(torch.compiler.is_compiling())
