import torch
import torch.nn.functional as F
from starting import draw, fill
from torch import nn

teacher = fill(nn.Sequential(nn.Linear(5, 16), nn.ReLU(), nn.Linear(16, 4)), 1, 3.0).eval()
student = fill(nn.Linear(5, 4), 2)
optimizer = torch.optim.Adadelta(student.parameters(), lr=1.0)
T = 2.0
for step in range(4):
    x = draw(8, 5, seed=step)
    with torch.no_grad():
        soft = F.softmax(teacher(x) / T, dim=-1)
    loss = F.kl_div(F.log_softmax(student(x) / T, dim=-1), soft, reduction="batchmean") * T * T
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
    print(f"{loss.item():.5f}")
