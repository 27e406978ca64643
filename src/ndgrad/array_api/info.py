"""Inspection of the namespace: `__array_namespace_info__()`."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from ndgrad._src.foundations import devices
from ndgrad.array_api.data_types import KINDS

if TYPE_CHECKING:
    from ndgrad._typing import Device


def _graphics_cards() -> int:
    """Return the number of GPUs that CuPy can use."""
    try:
        import cupy

        return int(cupy.cuda.runtime.getDeviceCount())
    except Exception:  # no CuPy, no driver or no card: each has its own error, and all mean none
        return 0


class Info:
    """The standard's inspection functions of `ndgrad.array_api`.

    >>> import ndgrad.array_api as xp
    >>> xp.__array_namespace_info__().capabilities()["boolean indexing"]
    True
    """

    def capabilities(self) -> dict[str, bool | int]:
        """Return the capabilities of the namespace.

        >>> import ndgrad.array_api as xp
        >>> xp.__array_namespace_info__().capabilities()["max dimensions"]
        64
        """
        return {"boolean indexing": True, "data-dependent shapes": True, "max dimensions": 64}

    def default_device(self) -> devices.device:
        """Return the default device of arrays.

        >>> import ndgrad.array_api as xp
        >>> xp.__array_namespace_info__().default_device()
        device(type='cpu')
        """
        return devices.get_default_device()

    def devices(self) -> list[devices.device]:
        """Return the CPU and the GPUs. The device "meta", whose arrays have no values, is accepted too but not listed.

        >>> import ndgrad.array_api as xp
        >>> xp.__array_namespace_info__().devices()[0]
        device(type='cpu')
        """
        return [devices.device("cpu"), *(devices.device("cuda", k) for k in range(_graphics_cards()))]

    def default_dtypes(self, *, device: Device = None) -> dict[str, np.dtype[Any]]:
        """Return the default data types of numbers, the same on every device.

        >>> import ndgrad.array_api as xp
        >>> xp.__array_namespace_info__().default_dtypes()["integral"]
        dtype('int64')
        """
        return {
            "real floating": np.dtype("float64"),
            "complex floating": np.dtype("complex128"),
            "integral": np.dtype("int64"),
            "indexing": np.dtype("int64"),
        }

    def dtypes(self, *, device: Device = None, kind: str | tuple[str, ...] | None = None) -> dict[str, np.dtype[Any]]:
        """Return name -> data type, of all kinds or of the given ones.

        >>> import ndgrad.array_api as xp
        >>> xp.__array_namespace_info__().dtypes(kind="bool")
        {'bool': dtype('bool')}
        """
        kinds = ("bool", "numeric") if kind is None else kind if isinstance(kind, tuple) else (kind,)
        for k in kinds:
            if k not in KINDS:
                raise ValueError(
                    f"dtypes(): {k!r} is no kind of data type. Choose from {', '.join(map(repr, KINDS))}. [nd-option]"
                )
        return {name: np.dtype(name) for k in kinds for name in KINDS[k]}


def __array_namespace_info__() -> Info:
    """Return capabilities, devices and data types.

    >>> import ndgrad.array_api as xp
    >>> xp.__array_namespace_info__().default_dtypes()["real floating"]
    dtype('float64')
    """
    return Info()
