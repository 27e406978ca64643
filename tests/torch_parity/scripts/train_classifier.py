import torch
import torch.nn as nn
import torch.nn.functional as F
import torch.optim as optim
from starting import draw, fill
from torch.utils.data import DataLoader, TensorDataset

torch.manual_seed(0)
if torch.cuda.is_available():
    torch.cuda.manual_seed_all(0)
torch.backends.cudnn.deterministic = True
torch.backends.cudnn.benchmark = False
device = torch.device("cuda" if torch.cuda.is_available() else "cpu")


class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.fc1 = nn.Linear(8, 16)
        self.dropout = nn.Dropout(0.0)
        self.fc2 = nn.Linear(16, 3)

    def forward(self, x):
        x = F.relu(self.fc1(x))
        x = self.dropout(x)
        return self.fc2(x)


def train(model, loader, optimizer, criterion):
    model.train()
    total = 0.0
    for batch_idx, (data, target) in enumerate(loader):
        data, target = data.to(device, non_blocking=True), target.to(device)
        optimizer.zero_grad(set_to_none=True)
        output = model(data)
        loss = criterion(output, target)
        loss.backward()
        optimizer.step()
        total += loss.item() * data.size(0)
        if batch_idx == 0:
            print(f"first batch {loss.item():.4f}")
    return total / len(loader.dataset)


@torch.no_grad()
def test(model, loader):
    model.eval()
    correct = 0
    for data, target in loader:
        pred = model(data.to(device)).argmax(dim=1, keepdim=True)
        correct += pred.eq(target.to(device).view_as(pred)).sum().item()
    return 100.0 * correct / len(loader.dataset)


x = draw(96, 8)
y = (x[:, :3] + 0.5 * x[:, 3:6]).argmax(1)
train_loader = DataLoader(TensorDataset(x[:64], y[:64]), batch_size=16, shuffle=False, num_workers=0, pin_memory=False)
test_loader = DataLoader(TensorDataset(x[64:], y[64:]), batch_size=32)
model = fill(Net().to(device), scale=1.5)
optimizer = optim.Adam(model.parameters(), lr=0.02, weight_decay=1e-4)
criterion = nn.CrossEntropyLoss(label_smoothing=0.1)
for epoch in range(1, 4):
    print(f"epoch {epoch}: loss {train(model, train_loader, optimizer, criterion):.4f}, accuracy {test(model, test_loader):.1f}%")
print(sum(p.numel() for p in model.parameters() if p.requires_grad), "parameters on", next(model.parameters()).device)
if torch.cuda.is_available():
    torch.cuda.empty_cache()
