"""Items of a Python loop whose number is known before its first round."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np

from ndgrad._src.core.variable import Variable


class Items:
    """The items of a call of zip, enumerate or reversed."""

    def __init__(self, function: Any, args: tuple[Any, ...], kwargs: dict[str, Any]) -> None:
        self.function = function
        self.args = args
        self.kwargs = kwargs
        # A call with wrong arguments raises now, as the original does.
        self._made = function(*[iter(a) if isinstance(a, Items) else a for a in args], **kwargs)

    def __iter__(self) -> Iterator[Any]:
        return iter(self._made)

    def count(self) -> int:
        """Return the number of items; 0 if it is not known."""
        if self.function is enumerate:
            return count_items(self.args[0]) if len(self.args) == 1 else 0
        if self.function is zip:
            lengths = {count_items(a) for a in self.args}
            return 0 if len(lengths) > 1 and self.kwargs.get("strict") else min(lengths, default=0)
        return 0 if isinstance(self.args[0], Items) else count_items(self.args[0])


def count_items(items: Any) -> int:
    """Return the number of items if their kind is known, else 0."""
    if isinstance(items, Items):
        return items.count()
    if type(items) in (range, list, tuple):
        return len(items)
    if isinstance(items, np.ndarray) or (isinstance(items, Variable) and items.__class__ is items.tensor_type):
        return items.shape[0] if len(items.shape) else 0
    return 0
