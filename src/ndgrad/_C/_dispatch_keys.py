"""torch's dispatch keys, as names in sets. A block can exclude those of autocast; the others have no meaning here."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import AbstractContextManager, ExitStack
from enum import Enum
from typing import Any

DispatchKey = Enum(
    "DispatchKey",
    "Undefined CPU CUDA XPU Meta BackendSelect Python PythonTLSSnapshot FuncTorchDynamicLayerFrontMode "
    "FuncTorchDynamicLayerBackMode FuncTorchBatched FuncTorchVmapMode FuncTorchGradWrapper Functionalize Conjugate "
    "Negative ZeroTensor ADInplaceOrView AutogradOther AutogradFunctionality AutogradNestedTensor AutogradCPU "
    "AutogradCUDA AutogradXPU AutogradMeta Autograd AutocastCPU AutocastCUDA AutocastXPU CompositeExplicitAutograd "
    "CompositeImplicitAutograd NestedTensor Sparse SparseCPU SparseCUDA SparseCsrCPU SparseCsrCUDA PreDispatch",
    module=__name__,
)
_AUTOCAST = {
    DispatchKey["AutocastCPU"]: "cpu",
    DispatchKey["AutocastCUDA"]: "cuda",
    DispatchKey["AutocastXPU"]: "xpu",
}


class DispatchKeySet:
    """An immutable set of dispatch keys."""

    def __init__(self, keys: Any = ()) -> None:
        self._keys = frozenset((keys,) if isinstance(keys, DispatchKey) else keys)

    def __or__(self, other: DispatchKeySet) -> DispatchKeySet:
        return DispatchKeySet(self._keys | other._keys)

    def __and__(self, other: DispatchKeySet) -> DispatchKeySet:
        return DispatchKeySet(self._keys & other._keys)

    def __sub__(self, other: DispatchKeySet) -> DispatchKeySet:
        return DispatchKeySet(self._keys - other._keys)

    def __iter__(self) -> Iterator[Any]:
        return iter(sorted(self._keys, key=lambda key: key.value))

    def __eq__(self, other: object) -> bool:
        return isinstance(other, DispatchKeySet) and self._keys == other._keys

    def __hash__(self) -> int:
        return hash(self._keys)

    def __repr__(self) -> str:
        return f"DispatchKeySet({', '.join(key.name for key in self)})"

    def has(self, key: Any) -> bool:
        """True if a key is in the set."""
        return key in self._keys

    def add(self, key: Any) -> DispatchKeySet:
        """Return the set with another key."""
        return DispatchKeySet(self._keys | {key})

    def remove(self, key: Any) -> DispatchKeySet:
        """Return the set without a key."""
        return DispatchKeySet(self._keys - {key})


def _ExcludeDispatchKeyGuard(keys: DispatchKeySet) -> AbstractContextManager[Any]:
    """Return a block in which autocast is off, for the devices whose keys are excluded."""
    others = [key.name for key in keys if key not in _AUTOCAST]
    if others:
        raise NotImplementedError(
            f"_ExcludeDispatchKeyGuard: {', '.join(others)} cannot be excluded, because ops are not dispatched by keys "
            "here. Only the keys of autocast can. [nd-absent]"
        )
    from ndgrad.amp import autocast  # few programs need it

    stack = ExitStack()
    for key in keys:
        stack.enter_context(autocast(_AUTOCAST[key], enabled=False))
    return stack
