import torch
from starting import draw, fill, integers
from torch import nn, optim
from torch.optim.lr_scheduler import CosineAnnealingLR


class Block(nn.Module):
    def __init__(self, cin, cout, stride=1):
        super().__init__()
        self.conv = nn.Sequential(
            nn.Conv2d(cin, cout, 3, stride=stride, padding=1, bias=False),
            nn.BatchNorm2d(cout),
            nn.ReLU(inplace=True),
            nn.Conv2d(cout, cout, 3, padding=1, bias=False),
            nn.BatchNorm2d(cout),
        )
        self.skip = nn.Identity() if cin == cout and stride == 1 else nn.Conv2d(cin, cout, 1, stride=stride, bias=False)

    def forward(self, x):
        return torch.relu(self.conv(x) + self.skip(x))


model = nn.Sequential(Block(3, 8), nn.MaxPool2d(2), Block(8, 16, 2), nn.AdaptiveAvgPool2d(1), nn.Flatten(), nn.Linear(16, 4))
for module in model.modules():
    if isinstance(module, (nn.Conv2d, nn.Linear)):
        fill(module, scale=2.0)
images, labels = draw(16, 3, 16, 16), integers(4, 16)
optimizer = optim.SGD(model.parameters(), lr=0.05, momentum=0.9, nesterov=True, weight_decay=5e-4)
scheduler = CosineAnnealingLR(optimizer, T_max=4)
for epoch in range(4):
    optimizer.zero_grad()
    out = model(images)
    loss = nn.functional.cross_entropy(out, labels)
    loss.backward()
    optimizer.step()
    scheduler.step()
    print(f"{epoch} {loss.item():.4f} lr {scheduler.get_last_lr()[0]:.5f}")
model.eval()
with torch.inference_mode():
    print("eval", f"{model(images).softmax(-1).max().item():.3f}", model[0].conv[1].num_batches_tracked.item())
