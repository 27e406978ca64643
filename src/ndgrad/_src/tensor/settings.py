"""Settings of the whole library, under torch's names: repeatable results, precision of products, warnings.

On the CPU results are the same in every run, and products of float32 are computed in float32. So the first two
settings change nothing there; they exist for programs that query them.
"""

from __future__ import annotations

import importlib
from types import ModuleType
from typing import TYPE_CHECKING

from ndgrad._src.arrays import determinism
from ndgrad._src.arrays.gpus import devices_or_none
from ndgrad._src.foundations.devices import device as as_device
from ndgrad._src.foundations.public_path import set_module

if TYPE_CHECKING:
    from ndgrad._typing import Device

__all__ = [
    "are_deterministic_algorithms_enabled", "compiled_with_cxx11_abi", "get_deterministic_debug_mode",
    "get_device_module", "get_float32_matmul_precision", "is_deterministic_algorithms_warn_only_enabled",
    "is_vulkan_available", "is_warn_always_enabled", "set_deterministic_debug_mode", "set_float32_matmul_precision",
    "set_flush_denormal", "set_warn_always", "use_deterministic_algorithms",
]  # fmt: skip


# ----- repeatable results ---------------------------------------------------------------------------------------------


@set_module("ndgrad")
def use_deterministic_algorithms(mode: bool, *, warn_only: bool = False) -> None:
    """Make results the same in every run.

    CPU results are always repeatable. On a GPU, sums at repeated indices (docs/gpu.md) are then computed on the host.

    Args:
        mode: whether results must be repeatable.
        warn_only: accepted as in torch. It only changes the answers of queries, because no op has to be refused.

    >>> import ndgrad
    >>> ndgrad.use_deterministic_algorithms(True)
    >>> ndgrad.are_deterministic_algorithms_enabled()
    True
    >>> ndgrad.use_deterministic_algorithms(False)
    """
    determinism.demand = ("warn" if warn_only else "error") if mode else "no"


@set_module("ndgrad")
def are_deterministic_algorithms_enabled() -> bool:
    """True if results are the same in every run on a GPU, too.

    >>> import ndgrad
    >>> ndgrad.are_deterministic_algorithms_enabled()
    False
    """
    return determinism.demand != "no"


@set_module("ndgrad")
def is_deterministic_algorithms_warn_only_enabled() -> bool:
    """True if `use_deterministic_algorithms` was called with `warn_only`.

    >>> import ndgrad
    >>> ndgrad.is_deterministic_algorithms_warn_only_enabled()
    False
    """
    return determinism.demand == "warn"


_MODES = {"default": 0, "warn": 1, "error": 2}
_DEMANDS: tuple[determinism.Demand, ...] = ("no", "warn", "error")


@set_module("ndgrad")
def set_deterministic_debug_mode(debug_mode: int | str) -> None:
    """Set the option of `use_deterministic_algorithms` by a number or a word.

    Args:
        debug_mode: `"default"` (0), `"warn"` (1) or `"error"` (2).

    >>> import ndgrad
    >>> ndgrad.set_deterministic_debug_mode("default")
    """
    if not isinstance(debug_mode, (int, str)):
        raise TypeError(f"debug_mode must be str or int, but got {type(debug_mode)} [nd-type]")
    found = _MODES.get(debug_mode) if isinstance(debug_mode, str) else debug_mode
    if found not in (0, 1, 2):
        raise RuntimeError(
            f"invalid value of debug_mode, expected one of 'default', 'warn', 'error' or 0, 1, 2, "
            f"but got {debug_mode!r} [nd-option]"
        )
    determinism.demand = _DEMANDS[found]


@set_module("ndgrad")
def get_deterministic_debug_mode() -> int:
    """Return the mode of `set_deterministic_debug_mode` as a number.

    >>> import ndgrad
    >>> ndgrad.get_deterministic_debug_mode()
    0
    """
    return _DEMANDS.index(determinism.demand)


# ----- precision ------------------------------------------------------------------------------------------------------

_precision = "highest"


@set_module("ndgrad")
def set_float32_matmul_precision(precision: str) -> None:
    """Set the allowed rounding of float32 products. It has no effect, because products are computed in float32.

    Args:
        precision: `"highest"`, `"high"` or `"medium"`.

    >>> import ndgrad
    >>> ndgrad.set_float32_matmul_precision("highest")
    """
    global _precision
    if precision not in ("highest", "high", "medium"):
        raise RuntimeError(
            f"set_float32_matmul_precision: {precision!r} is not one of 'highest', 'high' and 'medium'. [nd-option]"
        )
    _precision = precision


@set_module("ndgrad")
def get_float32_matmul_precision() -> str:
    """Return the value of `set_float32_matmul_precision`.

    >>> import ndgrad
    >>> ndgrad.get_float32_matmul_precision()
    'highest'
    """
    return _precision


@set_module("ndgrad")
def set_flush_denormal(mode: bool) -> bool:
    """Return False: Python cannot make the processor flush very small numbers to 0, and nothing changes.

    Args:
        mode: accepted as in torch; has no effect here.

    >>> import ndgrad
    >>> ndgrad.set_flush_denormal(True)
    False
    """
    return False


# ----- the rest -------------------------------------------------------------------------------------------------------

_warns_always = False


@set_module("ndgrad")
def set_warn_always(b: bool) -> None:
    """Repeat warnings that torch gives once. This has no effect: Python's warning filters decide, see
    `warnings.simplefilter`.

    Args:
        b: value that `is_warn_always_enabled` returns.

    >>> import ndgrad
    >>> ndgrad.set_warn_always(False)
    """
    global _warns_always
    if not isinstance(b, bool):
        raise RuntimeError(f"set_warn_always expects a bool, but got {type(b).__name__}. [nd-type]")
    _warns_always = b


@set_module("ndgrad")
def is_warn_always_enabled() -> bool:
    """Return the value of `set_warn_always`.

    >>> import ndgrad
    >>> ndgrad.is_warn_always_enabled()
    False
    """
    return _warns_always


@set_module("ndgrad")
def compiled_with_cxx11_abi() -> bool:
    """True, as in torch's builds; ndgrad has no C++ extensions.

    >>> import ndgrad
    >>> ndgrad.compiled_with_cxx11_abi()
    True
    """
    return True


@set_module("ndgrad")
def is_vulkan_available() -> bool:
    """Return False: there are no Vulkan devices.

    >>> import ndgrad
    >>> ndgrad.is_vulkan_available()
    False
    """
    return False


@set_module("ndgrad")
def get_device_module(device: Device = None) -> ModuleType:
    """Return the namespace of a kind of device: `ndgrad.cuda`, `ndgrad.cpu`.

    Args:
        device: device, or kind of device. The default is `"cuda"` if there is a GPU, else `"cpu"`.

    >>> import ndgrad
    >>> ndgrad.get_device_module("cpu").__name__
    'ndgrad.cpu'
    """
    kind = ("cuda" if devices_or_none()[1] else "cpu") if device is None else as_device(device).type
    if kind not in ("cpu", "cuda"):
        raise RuntimeError(
            f"get_device_module: there is no module for devices of kind {kind!r}, only cpu and cuda. [nd-device]"
        )
    return importlib.import_module(f"ndgrad.{kind}")
