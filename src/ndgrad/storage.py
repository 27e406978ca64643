"""`torch.storage`: the memory of tensors as an object."""

from __future__ import annotations

from ndgrad._src.tensor.storage import TypedStorage, UntypedStorage, is_storage

__all__ = ["TypedStorage", "UntypedStorage", "is_storage"]
