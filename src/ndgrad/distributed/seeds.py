"""Random numbers of ranks: different on each, and the same in every run."""

from __future__ import annotations

from typing import Any

import numpy as np

from ndgrad.distributed.groups import get_rank, group_of
from ndgrad.random import manual_seed


def manual_seed_per_rank(seed: int, group: Any = None) -> int:
    """Seed this process's random numbers by `seed` and its place in a group, and return what it was seeded with. Ranks
    draw independently, and every run with the same seed and the same rank draws the same.

    On a mesh, give the group along which draws are to differ: with `mesh.get_group("data")`, ranks that share their
    part of the batch, and divide a model, draw the same masks.

    >>> import ndgrad
    >>> ndgrad.distributed.init_process_group()
    >>> _ = ndgrad.distributed.manual_seed_per_rank(7)
    >>> first = ndgrad.rand(2)
    >>> _ = ndgrad.distributed.manual_seed_per_rank(7)
    >>> bool((first == ndgrad.rand(2)).all())
    True
    >>> ndgrad.distributed.destroy_process_group()
    """
    found = group_of(group)
    place = get_rank() if found is None else found.rank()
    # two numbers that are close make seeds that are not: rank 1 of seed 7 is not rank 0 of seed 8
    derived = int(np.random.SeedSequence([seed, place]).generate_state(1, np.uint64)[0] >> np.uint64(1))
    manual_seed(derived)
    return derived
