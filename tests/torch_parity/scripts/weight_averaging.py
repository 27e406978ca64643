import torch
from starting import draw, fill
from torch import nn
from torch.optim.swa_utils import SWALR, AveragedModel, get_ema_multi_avg_fn, update_bn
from torch.utils.data import DataLoader

model = fill(nn.Sequential(nn.Linear(4, 6), nn.BatchNorm1d(6), nn.ReLU(), nn.Linear(6, 1)), scale=2.0)
averaged, ema = AveragedModel(model), AveragedModel(model, multi_avg_fn=get_ema_multi_avg_fn(0.9))
optimizer = torch.optim.SGD(model.parameters(), lr=0.05)
schedule = torch.optim.lr_scheduler.CyclicLR(optimizer, 0.01, 0.1, step_size_up=2)
swa = SWALR(optimizer, swa_lr=0.02, anneal_epochs=2)
for epoch in range(6):
    loss = (model(draw(8, 4, seed=epoch)) - 0.5).abs().mean()
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
    if epoch >= 3:
        averaged.update_parameters(model)
        swa.step()
    else:
        schedule.step()
    ema.update_parameters(model)
    print(f"{epoch} {loss.item():.3f} lr {optimizer.param_groups[0]['lr']:.4f}")
update_bn(DataLoader(draw(16, 4), batch_size=8), averaged)
print(averaged.n_averaged.item(), ema.n_averaged.item())
