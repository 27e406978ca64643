import torch
import torch.nn.functional as F
from starting import draw, fill
from torch import nn


class VAE(nn.Module):
    def __init__(self):
        super().__init__()
        self.encoder = nn.Linear(10, 16)
        self.mu, self.logvar = nn.Linear(16, 2), nn.Linear(16, 2)
        self.decoder = nn.Sequential(nn.Linear(2, 16), nn.ReLU(), nn.Linear(16, 10))

    def reparameterize(self, mu, logvar, noise):
        return mu + noise * torch.exp(0.5 * logvar)

    def forward(self, x, noise):
        h = F.relu(self.encoder(x))
        mu, logvar = self.mu(h), self.logvar(h)
        return torch.sigmoid(self.decoder(self.reparameterize(mu, logvar, noise))), mu, logvar


def loss_function(recon, x, mu, logvar):
    bce = F.binary_cross_entropy(recon, x, reduction="sum")
    kld = -0.5 * torch.sum(1 + logvar - mu.pow(2) - logvar.exp())
    return bce, kld


model = fill(VAE(), scale=2.0)
optimizer = torch.optim.AdamW(model.parameters(), lr=1e-2)
x = (draw(20, 10) > 0).float()
for epoch in range(4):
    recon, mu, logvar = model(x, draw(20, 2, seed=epoch))
    bce, kld = loss_function(recon, x, mu, logvar)
    optimizer.zero_grad()
    (bce + kld).backward()
    optimizer.step()
    print(f"epoch {epoch} bce {bce.item():.3f} kld {kld.item():.4f}")
