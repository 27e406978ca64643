import torch
from starting import draw, fill
from torch import nn
from torch.distributions import Bernoulli, Independent, Normal, kl_divergence

encoder = fill(nn.Sequential(nn.Linear(8, 12), nn.Softplus(), nn.Linear(12, 4)), 1, 2.0)
decoder = fill(nn.Sequential(nn.Linear(2, 12), nn.Softplus(), nn.Linear(12, 8)), 2, 2.0)
optimizer = torch.optim.Adam([*encoder.parameters(), *decoder.parameters()], lr=1e-2)
x = (draw(16, 8) > 0).float()
prior = Independent(Normal(torch.zeros(2), torch.ones(2)), 1)
for step in range(4):
    loc, log_scale = encoder(x).chunk(2, dim=-1)
    posterior = Independent(Normal(loc, log_scale.exp()), 1)
    z = posterior.mean + posterior.base_dist.scale * draw(16, 2, seed=step)
    likelihood = Independent(Bernoulli(logits=decoder(z)), 1)
    elbo = likelihood.log_prob(x) - kl_divergence(posterior, prior)
    loss = -elbo.mean()
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
    print(f"{loss.item():.4f} {posterior.entropy().mean().item():.4f} {posterior.log_prob(z).mean().item():.4f}")
print(posterior.event_shape, posterior.batch_shape, tuple(posterior.rsample((3,)).shape))
