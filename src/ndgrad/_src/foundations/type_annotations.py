"""Types of torch's `jit.annotations`: Python's own, and lists that a single number may stand for."""

from typing import Any, Dict, List, Optional, Tuple, Union  # noqa: UP035  # torch's names

__all__ = ["BroadcastingList1", "BroadcastingList2", "BroadcastingList3", "Dict", "List", "Optional", "Tuple", "Union"]


class _BroadcastingList:
    """The type `T | list[T]` for each `T`."""

    def __getitem__(self, kind: Any) -> Any:
        return Union[kind, List[kind]]  # noqa: UP006, UP007


BroadcastingList1 = BroadcastingList2 = BroadcastingList3 = _BroadcastingList()
