"""`ndgrad.random`: the default generator's seed and state, and a block that leaves them as they were."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING

from ndgrad.absent import refuse_absent as _refuse_absent
from ndgrad.api.random import get_rng_state, set_rng_state
from ndgrad.generator import default_generator, initial_seed, manual_seed, seed

if TYPE_CHECKING:
    from ndgrad._typing import Device

__all__ = ["default_generator", "fork_rng", "get_rng_state", "initial_seed", "manual_seed", "seed", "set_rng_state"]


@contextmanager
def fork_rng(devices: Iterable[Device] | None = None, enabled: bool = True, device_type: str = "cpu") -> Iterator[None]:
    """A block after which the default generator continues as if nothing had been drawn in it.

    There is one default generator, for all devices: `devices` and `device_type` choose nothing.

    >>> import ndgrad
    >>> _ = ndgrad.manual_seed(0)
    >>> with ndgrad.random.fork_rng():
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

_refuse_absent(__name__)
