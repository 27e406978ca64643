import contextlib
import copy

import torch
from starting import draw, fill
from torch import nn

torch.autograd.set_detect_anomaly(False)
torch.use_deterministic_algorithms(True)
model = fill(nn.Sequential(nn.Linear(4, 8), nn.Hardswish(), nn.Linear(8, 1)), scale=2.0)
ema = copy.deepcopy(model).requires_grad_(False)
for p in list(model.parameters())[:1]:
    p.requires_grad_(False)
optimizer = torch.optim.SGD(filter(lambda p: p.requires_grad, model.parameters()), lr=0.1, momentum=0.9)
accumulate, best, patience = 2, float("inf"), 0
for step in range(6):
    context = torch.enable_grad() if step >= 0 else contextlib.nullcontext()
    with context:
        loss = nn.functional.l1_loss(model(draw(4, 4, seed=step)), torch.ones(4, 1)) / accumulate
    loss.backward()
    if (step + 1) % accumulate == 0:
        nn.utils.clip_grad_value_(model.parameters(), 0.2)
        optimizer.step()
        optimizer.zero_grad()
        with torch.no_grad():
            for e, p in zip(ema.parameters(), model.parameters()):
                e.lerp_(p, 0.1)
    if loss.item() < best:
        best, patience = loss.item(), 0
    else:
        patience += 1
    print(f"{step} {loss.item():.5f} best {best:.5f} patience {patience}")
torch.use_deterministic_algorithms(False)
for group in optimizer.param_groups:
    group["lr"] *= 0.5
print(optimizer.param_groups[0]["lr"], [n for n, p in model.named_parameters() if not p.requires_grad])
print(f"{torch.nn.utils.parameters_to_vector(ema.parameters()).norm().item():.4f}")
