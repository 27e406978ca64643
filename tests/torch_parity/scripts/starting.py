"""Start of the scripts: weights and data from NumPy's generator, because each library draws numbers of its own."""

import numpy as np
import torch


def fill(module, seed=0, scale=0.5):
    """A module whose parameters are drawn from NumPy; those of one dimension stay as they are."""
    random = np.random.default_rng(seed)
    with torch.no_grad():
        for p in module.parameters():
            if p.dim() > 1:
                bound = scale / float(np.sqrt(p.shape[1]))
                p.copy_(torch.from_numpy(random.uniform(-bound, bound, tuple(p.shape)).astype(np.float32)))
            else:
                p.fill_(1.0 if "Norm" in type(module).__name__ else 0.01)
    return module


def draw(*shape, seed=0):
    return torch.from_numpy(np.random.default_rng(seed).standard_normal(shape).astype(np.float32))


def integers(high, *shape, seed=0):
    return torch.from_numpy(np.random.default_rng(seed).integers(0, high, shape))
