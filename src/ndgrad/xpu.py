"""torch's `xpu` namespace: Intel's GPUs, which are not used here."""

from __future__ import annotations

from typing import TYPE_CHECKING, NoReturn

from ndgrad._src.foundations.missing_names import refuse_absent as _refuse_absent

if TYPE_CHECKING:
    from ndgrad._typing import Device


def is_available() -> bool:
    """False.

    >>> import ndgrad
    >>> ndgrad.xpu.is_available(), ndgrad.xpu.device_count()
    (False, 0)
    """
    return False


def device_count() -> int:
    """0."""
    return 0


def is_initialized() -> bool:
    """False."""
    return False


def manual_seed(seed: int) -> None:
    """Nothing: there is no device to seed."""


def manual_seed_all(seed: int) -> None:
    """Nothing: there is no device to seed."""


def seed() -> None:
    """Nothing: there is no device to seed."""


def seed_all() -> None:
    """Nothing: there is no device to seed."""


def empty_cache() -> None:
    """Nothing: no memory is held there."""


def memory_allocated(device: Device = None) -> int:
    """0."""
    return 0


def max_memory_allocated(device: Device = None) -> int:
    """0."""
    return 0


def is_bf16_supported(including_emulation: bool = True) -> bool:
    """False."""
    return False


def _refuse(what: str) -> NoReturn:
    raise RuntimeError(
        f"xpu.{what}() needs a device of kind 'xpu', and none is used here. Ask xpu.is_available() first. [nd-gpu]"
    )


def current_device() -> int:
    """An error: there is none."""
    _refuse("current_device")


def set_device(device: Device) -> None:
    """An error: there is none."""
    _refuse("set_device")


def synchronize(device: Device = None) -> None:
    """An error: there is none."""
    _refuse("synchronize")


_refuse_absent(__name__)
