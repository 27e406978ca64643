import torch
import torch.nn.functional as F
from starting import draw, fill
from torch import nn

encoder = fill(nn.Sequential(nn.Linear(6, 12), nn.PReLU(), nn.Linear(12, 4)), scale=2.0)
optimizer = torch.optim.Adamax(encoder.parameters(), lr=0.02)
for step in range(3):
    anchor, positive, negative = (F.normalize(encoder(draw(10, 6, seed=step * 3 + i)), dim=1) for i in range(3))
    loss = F.triplet_margin_loss(anchor, positive, negative, margin=0.5)
    similar = F.cosine_similarity(anchor, positive).mean()
    logits = anchor @ positive.t() / 0.1
    contrastive = (F.cross_entropy(logits, torch.arange(10)) + F.cross_entropy(logits.t(), torch.arange(10))) / 2
    optimizer.zero_grad()
    (loss + 0.1 * contrastive).backward()
    optimizer.step()
    print(f"{loss.item():.4f} {similar.item():.4f} {contrastive.item():.4f}")
