import torch
from starting import draw, fill, integers
from torch import nn
from torch.func import functional_call, grad, hessian, jacrev, jvp, vmap

model = fill(nn.Sequential(nn.Linear(4, 5), nn.ReLU(), nn.Linear(5, 3)), scale=2.0)
params = {k: v.detach() for k, v in model.named_parameters()}
x, y = draw(6, 4), integers(3, 6)


def loss(params, sample, target):
    out = functional_call(model, params, (sample.unsqueeze(0),))
    return nn.functional.cross_entropy(out, target.unsqueeze(0))


grads = vmap(grad(loss), in_dims=(None, 0, 0))(params, x, y)
norms = torch.stack([g.flatten(1).norm(dim=1) for g in grads.values()]).norm(dim=0)
print([round(n, 4) for n in norms.tolist()])
clipped = {k: (g / norms.clamp(min=1.0).view(-1, *[1] * (g.dim() - 1))).mean(0) for k, g in grads.items()}
print({k: round(g.sum().item(), 5) for k, g in clipped.items()})
jacobian = jacrev(lambda v: functional_call(model, params, (v,)))(x[0])
print(tuple(jacobian.shape), f"{jacobian.norm().item():.4f}")
h = hessian(lambda v: v.pow(3).sum())(x[0])
print(torch.allclose(h, torch.diag(6 * x[0]), atol=1e-5))
out, tangent = jvp(torch.sin, (x[0],), (torch.ones(4),))
print(torch.allclose(tangent, x[0].cos()))
