"""For programs of several ranks: on how many each runs, and numbers that differ from rank to rank and from run to run
not at all."""

from __future__ import annotations

import numpy as np

import ndgrad
import ndgrad.distributed as dist


def on_ranks(*counts):
    """Run the function on each of these numbers of ranks."""

    def mark(function):
        function.rank_counts = counts
        return function

    return mark


def values(rank, *shape, seed=0):
    """Return the values of a rank. Every rank can compute those of all others."""
    return np.random.default_rng(1000 * seed + rank).standard_normal(shape)


def mine(*shape, seed=0, requires_grad=False):
    """This rank's values as a tensor of double precision."""
    return ndgrad.tensor(values(dist.get_rank(), *shape, seed=seed), dtype=ndgrad.float64, requires_grad=requires_grad)


def everybody(*shape, seed=0):
    """The values of all ranks, stacked."""
    return np.stack([values(r, *shape, seed=seed) for r in range(dist.get_world_size())])


def close(found, wanted, tolerance=1e-12):
    """Assert that a tensor has these values."""
    array = np.asarray(found.detach().numpy() if hasattr(found, "detach") else found)
    np.testing.assert_allclose(array, wanted, rtol=tolerance, atol=tolerance)
