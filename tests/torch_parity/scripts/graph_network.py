import torch
import torch.nn as nn
from starting import draw, fill, integers

nodes, edges = 10, integers(10, 2, 24)


class Conv(nn.Module):
    def __init__(self, cin, cout):
        super().__init__()
        self.linear = nn.Linear(cin, cout, bias=False)

    def forward(self, x, edge_index):
        src, dst = edge_index
        degree = torch.zeros(nodes).scatter_add_(0, dst, torch.ones(dst.numel())).clamp(min=1)
        x = self.linear(x)
        return torch.zeros(nodes, x.size(1)).index_add(0, dst, x[src]) / degree.unsqueeze(1) + x


class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.a, self.b = Conv(4, 8), Conv(8, 3)

    def forward(self, x):
        return self.b(torch.relu(self.a(x, edges)), edges)


model = fill(Net(), scale=2.0)
optimizer = torch.optim.Adam(model.parameters(), lr=0.05, amsgrad=True)
x, labels, mask = draw(nodes, 4), integers(3, nodes), torch.arange(nodes) < 6
for epoch in range(4):
    out = model(x)
    loss = nn.functional.cross_entropy(out[mask], labels[mask])
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
    accuracy = (out.argmax(1)[~mask] == labels[~mask]).float().mean()
    print(f"{loss.item():.4f} {accuracy:.2f}")
