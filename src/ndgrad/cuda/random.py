"""Seeds of GPUs. One generator draws the numbers of all devices (docs/gpu.md), so these are about that one, where there
is a GPU; where there is none, they leave it alone, as torch's do."""

from __future__ import annotations

from collections.abc import Iterable
from typing import TYPE_CHECKING

from ndgrad.arrays.gpus import cupy_with_devices, devices_or_none
from ndgrad.generator import default_generator

if TYPE_CHECKING:
    from ndgrad._typing import Device, Tensor

__all__ = [
    "get_rng_state", "get_rng_state_all", "initial_seed", "manual_seed", "manual_seed_all", "seed", "seed_all",
    "set_rng_state", "set_rng_state_all",
]  # fmt: skip


def manual_seed(seed: int) -> None:
    """Start the GPU's random numbers from a seed.

    >>> import ndgrad
    >>> ndgrad.cuda.manual_seed(0)
    """
    seed = int(seed)
    if devices_or_none()[1]:
        default_generator.manual_seed(seed)


def manual_seed_all(seed: int) -> None:
    """Start the random numbers of all GPUs from a seed.

    >>> import ndgrad
    >>> ndgrad.cuda.manual_seed_all(0)
    """
    manual_seed(seed)


def seed() -> None:
    """Start the GPU's random numbers from a seed of the system's choosing."""
    if devices_or_none()[1]:
        default_generator.seed()


seed_all = seed


def initial_seed() -> int:
    """The seed that the GPU's random numbers started from; an error where there is no GPU."""
    cupy_with_devices("cuda.initial_seed()")
    return default_generator.initial_seed()


def get_rng_state(device: Device = "cuda") -> Tensor:
    """The state of the GPU's random numbers; an error where there is no GPU."""
    cupy_with_devices("cuda.get_rng_state()")
    return default_generator.get_state()


def get_rng_state_all() -> list[Tensor]:
    """The states of all GPUs: the same state for each."""
    return [default_generator.get_state() for _ in range(devices_or_none()[1])]


def set_rng_state(new_state: Tensor, device: Device = "cuda") -> None:
    """Continue from a state that `get_rng_state` returned; nothing where there is no GPU."""
    if devices_or_none()[1]:
        default_generator.set_state(new_state)


def set_rng_state_all(new_states: Iterable[Tensor]) -> None:
    """Continue from the states that `get_rng_state_all` returned."""
    for state in new_states:
        set_rng_state(state)
