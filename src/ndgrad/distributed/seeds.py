"""Random numbers of ranks: different on each, and the same in every run."""

from __future__ import annotations

from typing import Any

import numpy as np

from ndgrad.distributed.groups import get_rank, group_of
from ndgrad.random import manual_seed


def manual_seed_per_rank(seed: int, group: Any = None) -> int:
    """Seed this process's random numbers from `seed` and its rank in a group, and return the derived seed. Ranks draw
    independently, and runs with the same seed and rank draw the same numbers.

    On a mesh, give the group along which draws should differ. With `mesh.get_group("data")`, ranks that divide a model
    and share their part of the batch draw the same masks.

    Args:
        seed: seed of the run.
        group: group in which ranks differ. The default is the world.

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
    # SeedSequence separates close numbers: rank 1 of seed 7 differs from rank 0 of seed 8.
    derived = int(np.random.SeedSequence([seed, place]).generate_state(1, np.uint64)[0] >> np.uint64(1))
    manual_seed(derived)
    return derived
