"""`torch.utils._foreach_utils`: tensors in groups for the `_foreach_*` functions, for optimizers of other libraries."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from ndgrad._src.foundations.missing_names import refuse_absent as _refuse_absent
from ndgrad._src.tensor.tensor_class import Tensor

if TYPE_CHECKING:
    from ndgrad._src.arrays.dtypes import dtype
    from ndgrad._src.foundations.devices import device

_Lists = list[list["Tensor | None"]]


def _group_tensors_by_device_and_dtype(
    tensorlistlist: Sequence[Sequence[Tensor | None]], with_indices: bool = False
) -> dict[tuple[device, dtype], tuple[_Lists, list[int]]]:
    """Return lists of one length in groups by the device and dtype of the tensors of the first list.

    Each group has its part of every list and, with `with_indices`, the positions of its tensors.
    """
    groups: dict[tuple[device, dtype], tuple[_Lists, list[int]]] = {}
    for position, (first, *others) in enumerate(zip(*tensorlistlist, strict=True)):
        if first is None:
            raise RuntimeError(f"the first list has no tensor at position {position}. Leave it out of all. [nd-type]")
        lists, positions = groups.setdefault((first.device, first.dtype), ([[] for _ in tensorlistlist], []))
        for values, value in zip(lists, (first, *others), strict=True):
            values.append(value)
        if with_indices:
            positions.append(position)
    return groups


def _get_foreach_kernels_supported_devices() -> list[str]:
    """Return the kinds of devices on which lists of tensors are quicker than loops."""
    return ["cuda"]


def _get_fused_kernels_supported_devices() -> list[str]:
    """Return the kinds of devices with fused optimizers."""
    return ["cuda", "cpu"]


def _device_has_foreach_support(device: device) -> bool:
    """True if `_foreach_*` functions run on a device."""
    return device.type in ("cuda", "cpu")


def _has_foreach_support(tensors: Sequence[Tensor | None], device: device) -> bool:
    """True if `_foreach_*` functions run on a list of tensors."""
    return _device_has_foreach_support(device) and all(t is None or type(t) is Tensor for t in tensors)


_refuse_absent(__name__)
