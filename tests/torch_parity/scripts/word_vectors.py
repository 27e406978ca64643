import torch
import torch.nn as nn
from starting import fill, integers


class SkipGram(nn.Module):
    def __init__(self, vocab, dim):
        super().__init__()
        self.centre, self.context = nn.Embedding(vocab, dim), nn.Embedding(vocab, dim, padding_idx=0)

    def forward(self, centre, positive, negative):
        v = self.centre(centre)
        good = (v * self.context(positive)).sum(-1)
        bad = torch.bmm(self.context(negative), v.unsqueeze(2)).squeeze(2)
        return -(nn.functional.logsigmoid(good) + nn.functional.logsigmoid(-bad).sum(1)).mean()


model = fill(SkipGram(20, 6), scale=2.0)
optimizer = torch.optim.SGD(model.parameters(), lr=0.5)
for step in range(4):
    loss = model(integers(20, 16, seed=step), integers(20, 16, seed=step + 10), integers(20, 16, 5, seed=step + 20))
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
    print(f"{loss.item():.5f}")
nearest = torch.topk(torch.cdist(model.centre.weight[:1], model.centre.weight), 3, largest=False)
print(nearest.indices[0, 0].item(), f"{nearest.values.sum().item():.3f}")
