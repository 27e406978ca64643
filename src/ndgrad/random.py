"""`ndgrad.random`: the default generator's seed and state, and a block that leaves them as they were."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from ndgrad.api.random import get_rng_state, set_rng_state
from ndgrad.generator import default_generator, initial_seed, manual_seed, seed

__all__ = ["default_generator", "fork_rng", "get_rng_state", "initial_seed", "manual_seed", "seed", "set_rng_state"]


@contextmanager
def fork_rng(devices: Any = None, enabled: bool = True, device_type: str = "cpu") -> Iterator[None]:
    """A block after which the default generator continues as if nothing had been drawn in it.

    >>> import ndgrad
    >>> _ = manual_seed(0)
    >>> with fork_rng():
    ...     inside = ndgrad.rand(2)
    >>> bool((ndgrad.rand(2) == inside).all())
    True
    """
    if not enabled:
        yield
        return
    state = get_rng_state()
    try:
        yield
    finally:
        set_rng_state(state)
