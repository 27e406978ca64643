"""Seeds and states of GPUs' random numbers. Each GPU has its own generator; without a GPU these functions do nothing,
as in torch.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import TYPE_CHECKING, overload

from ndgrad._src.arrays.generator import Generator, default_on, seed_devices
from ndgrad._src.arrays.gpus import cupy_with_devices, device_number, devices_or_none

if TYPE_CHECKING:
    from ndgrad._typing import Device, Tensor

__all__ = [
    "get_rng_state", "get_rng_state_all", "initial_seed", "manual_seed", "manual_seed_all", "seed", "seed_all",
    "set_rng_state", "set_rng_state_all",
]  # fmt: skip


class DefaultGenerators(Sequence[Generator]):
    """Generators for random functions on each GPU if none is given, by the GPU's number."""

    def __len__(self) -> int:
        return devices_or_none()[1]

    @overload
    def __getitem__(self, number: int) -> Generator: ...

    @overload
    def __getitem__(self, number: slice) -> list[Generator]: ...

    def __getitem__(self, number: int | slice) -> Generator | list[Generator]:
        numbers = range(len(self))[number]
        return default_on(numbers) if isinstance(numbers, int) else [default_on(n) for n in numbers]


def manual_seed(seed: int) -> None:
    """Seed the random numbers of the current GPU.

    Args:
        seed: any integer of 64 bits.

    >>> import ndgrad
    >>> ndgrad.cuda.manual_seed(0)
    """
    seed = int(seed)
    if devices_or_none()[1]:
        default_on(device_number("cuda.manual_seed()", None)).manual_seed(seed)


def manual_seed_all(seed: int) -> None:
    """Seed the random numbers of all GPUs.

    Args:
        seed: any integer of 64 bits.

    >>> import ndgrad
    >>> ndgrad.cuda.manual_seed_all(0)
    """
    seed = int(seed)
    if devices_or_none()[1]:
        seed_devices(seed)


def seed() -> None:
    """Seed the random numbers of the current GPU from the system."""
    if devices_or_none()[1]:
        default_on(device_number("cuda.seed()", None)).seed()


def seed_all() -> None:
    """Seed the random numbers of all GPUs with one seed from the system."""
    generators = DefaultGenerators()
    if generators:
        seed_devices(generators[0].seed())


def initial_seed() -> int:
    """Return the seed of the current GPU's random numbers; raise if there is no GPU."""
    cupy_with_devices("cuda.initial_seed()")
    return default_on(device_number("cuda.initial_seed()", None)).initial_seed()


def get_rng_state(device: Device = "cuda") -> Tensor:
    """Return the state of a GPU's random numbers; raise if there is no GPU.

    Args:
        device: number or name of a GPU.
    """
    cupy_with_devices("cuda.get_rng_state()")
    return default_on(device_number("cuda.get_rng_state()", device)).get_state()


def get_rng_state_all() -> list[Tensor]:
    """Return the states of all GPUs."""
    return [generator.get_state() for generator in DefaultGenerators()]


def set_rng_state(new_state: Tensor, device: Device = "cuda") -> None:
    """Continue from a state of `get_rng_state`; no effect without a GPU.

    Args:
        new_state: result of `get_rng_state`.
        device: number or name of a GPU.
    """
    if devices_or_none()[1]:
        default_on(device_number("cuda.set_rng_state()", device)).set_state(new_state)


def set_rng_state_all(new_states: Iterable[Tensor]) -> None:
    """Continue from the states of `get_rng_state_all`.

    Args:
        new_states: results of `get_rng_state_all`.
    """
    for number, state in enumerate(new_states):
        set_rng_state(state, number)
