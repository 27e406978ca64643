"""cuDNN, which is not used: `benchmark`, `deterministic` and the like can be set and change nothing."""

from __future__ import annotations

from contextlib import AbstractContextManager
from typing import TYPE_CHECKING

from ndgrad.backends.switching import module_of_switches

if TYPE_CHECKING:
    from ndgrad._typing import Tensor

_switches = module_of_switches(
    __name__, enabled=True, benchmark=False, benchmark_limit=10, deterministic=False, allow_tf32=False,
    fp32_precision="none",
)  # fmt: skip


def is_available() -> bool:
    """False.

    >>> import ndgrad
    >>> ndgrad.backends.cudnn.is_available()
    False
    """
    return False


def version() -> int | None:
    """None: there is no cuDNN."""
    return None


def is_acceptable(tensor: Tensor) -> bool:
    """Whether cuDNN would compute with a tensor: never."""
    return False


def set_flags(
    _enabled: bool | None = None, _benchmark: bool | None = None, _benchmark_limit: int | None = None,
    _deterministic: bool | None = None, _allow_tf32: bool | None = None,
) -> tuple[bool, bool, int, bool, bool]:  # fmt: skip
    """Set several switches, and say what they were."""
    before = _switches.set(
        enabled=_enabled, benchmark=_benchmark, benchmark_limit=_benchmark_limit, deterministic=_deterministic,
        allow_tf32=_allow_tf32,
    )  # fmt: skip
    return tuple(before.values())  # in the order of the arguments


def flags(
    enabled: bool = False, benchmark: bool = False, benchmark_limit: int = 10, deterministic: bool = False,
    allow_tf32: bool = True,
) -> AbstractContextManager[None]:  # fmt: skip
    """A block in which the switches are set.

    >>> import ndgrad
    >>> with ndgrad.backends.cudnn.flags(deterministic=True):
    ...     ndgrad.backends.cudnn.deterministic
    True
    """
    return _switches.during(
        enabled=enabled, benchmark=benchmark, benchmark_limit=benchmark_limit, deterministic=deterministic,
        allow_tf32=allow_tf32,
    )  # fmt: skip
