import torch
import torch.nn as nn
from starting import draw, fill

latent, size = 4, 6
generator = fill(nn.Sequential(nn.Linear(latent, 16), nn.LeakyReLU(0.2), nn.Linear(16, size), nn.Tanh()), 1, 2.0)
discriminator = fill(nn.Sequential(nn.Linear(size, 16), nn.LeakyReLU(0.2), nn.Linear(16, 1)), 2, 2.0)
opt_g = torch.optim.Adam(generator.parameters(), lr=2e-3, betas=(0.5, 0.999))
opt_d = torch.optim.Adam(discriminator.parameters(), lr=2e-3, betas=(0.5, 0.999))
criterion = nn.BCEWithLogitsLoss()
for step in range(5):
    real = draw(12, size, seed=step).clamp(-1, 1)
    ones, zeros = torch.ones(12, 1), torch.zeros(12, 1)
    noise = draw(12, latent, seed=100 + step)
    fake = generator(noise)

    opt_d.zero_grad()
    loss_d = criterion(discriminator(real), ones) + criterion(discriminator(fake.detach()), zeros)
    loss_d.backward()
    opt_d.step()

    for p in discriminator.parameters():
        p.requires_grad_(False)
    opt_g.zero_grad()
    loss_g = criterion(discriminator(fake), ones)
    loss_g.backward()
    opt_g.step()
    for p in discriminator.parameters():
        p.requires_grad_(True)
    print(f"[{step}] D {loss_d.item():.4f} G {loss_g.item():.4f}")
