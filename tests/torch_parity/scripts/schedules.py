import torch
from torch import nn, optim
from torch.optim import lr_scheduler


def rates(make, steps=6, metric=None):
    net = nn.Linear(1, 1)
    optimizer = optim.SGD(net.parameters(), lr=0.1, momentum=0.9)
    scheduler = make(optimizer)
    found = []
    for step in range(steps):
        found.append(round(optimizer.param_groups[0]["lr"], 6))
        net(torch.ones(1, 1)).sum().backward()
        optimizer.step()
        scheduler.step(*(() if metric is None else (metric[step],)))
    return found


print("step", rates(lambda o: lr_scheduler.StepLR(o, step_size=2, gamma=0.5)))
print("multi", rates(lambda o: lr_scheduler.MultiStepLR(o, milestones=[2, 4], gamma=0.1)))
print("exp", rates(lambda o: lr_scheduler.ExponentialLR(o, 0.9)))
print("cosine", rates(lambda o: lr_scheduler.CosineAnnealingLR(o, 5, eta_min=0.01)))
print("restarts", rates(lambda o: lr_scheduler.CosineAnnealingWarmRestarts(o, 3)))
print("onecycle", rates(lambda o: lr_scheduler.OneCycleLR(o, max_lr=1.0, total_steps=8)))
print("lambda", rates(lambda o: lr_scheduler.LambdaLR(o, lambda epoch: 1 / (1 + epoch))))
print("linear", rates(lambda o: lr_scheduler.LinearLR(o, start_factor=0.5, total_iters=4)))
print("poly", rates(lambda o: lr_scheduler.PolynomialLR(o, total_iters=4, power=2.0)))
print("warmup", rates(lambda o: lr_scheduler.SequentialLR(
    o, [lr_scheduler.LinearLR(o, 0.1, total_iters=2), lr_scheduler.ExponentialLR(o, 0.5)], milestones=[2])))
print("plateau", rates(lambda o: lr_scheduler.ReduceLROnPlateau(o, patience=1, factor=0.1), metric=[1.0, 0.9, 0.9, 0.9, 0.9, 0.9]))
