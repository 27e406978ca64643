import torch
import torch.nn as nn
from starting import draw, fill
from torch.amp import GradScaler, autocast

device_type = "cuda" if torch.cuda.is_available() else "cpu"
model = fill(nn.Sequential(nn.Linear(8, 32), nn.ReLU(), nn.Linear(32, 1)), scale=2.0)
optimizer = torch.optim.SGD(model.parameters(), lr=0.05)
scaler = GradScaler(device_type, init_scale=256.0, growth_interval=2)
criterion = nn.MSELoss()
for step in range(4):
    x = draw(16, 8, seed=step)
    optimizer.zero_grad()
    with autocast(device_type=device_type, dtype=torch.bfloat16):
        out = model(x)
        loss = criterion(out, x.sum(1, keepdim=True))
    scaler.scale(loss).backward()
    scaler.unscale_(optimizer)
    nn.utils.clip_grad_norm_(model.parameters(), 5.0)
    scaler.step(optimizer)
    scaler.update()
    print(f"{step} {loss.item():.2f} {str(out.dtype).split('.')[-1]} {str(loss.dtype).split('.')[-1]} scale {scaler.get_scale()}")
