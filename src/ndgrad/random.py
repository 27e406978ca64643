"""`ndgrad.random`: seeds and states of the default generators, and a block that restores them."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING

from ndgrad._src.arrays.generator import (
    default_generator,
    default_on,
    defaults_of_devices,
    initial_seed,
    manual_seed,
    seed,
)
from ndgrad._src.arrays.gpus import device_number
from ndgrad._src.foundations.missing_names import refuse_absent as _refuse_absent
from ndgrad._src.tensor.functions.random import get_rng_state, set_rng_state

if TYPE_CHECKING:
    from ndgrad._typing import Device

__all__ = ["default_generator", "fork_rng", "get_rng_state", "initial_seed", "manual_seed", "seed", "set_rng_state"]


@contextmanager
def fork_rng(
    devices: Iterable[Device] | None = None, enabled: bool = True, device_type: str = "cuda"
) -> Iterator[None]:
    """Return a context that restores the default generators at its end: that of the CPU, and those of GPUs.

    Args:
        devices: GPUs whose generators are restored. The default is all.
        enabled: whether generators are restored.
        device_type: kind of `devices`. For other kinds than `"cuda"`, the generators of all GPUs are restored.

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
    if devices is None or device_type != "cuda":
        generators = defaults_of_devices()
    else:
        generators = [default_on(device_number("random.fork_rng()", d)) for d in devices]
    states = [(g, g.get_state()) for g in (default_generator, *generators)]
    try:
        yield
    finally:
        for generator, state in states:
            generator.set_state(state)


_refuse_absent(__name__)
