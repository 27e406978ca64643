"""torch's mark of stable functions, for libraries that use it as a decorator."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, TypeVar

T = TypeVar("T")


def compatibility(is_backward_compatible: bool) -> Callable[[T], T]:
    """Return a decorator that leaves its function as it is.

    >>> from ndgrad.fx._compatibility import compatibility
    >>> @compatibility(is_backward_compatible=False)
    ... def f(x: int) -> int:
    ...     return x
    >>> f(1)
    1
    """

    def mark(function: T) -> T:
        return function

    return mark


_BACK_COMPAT_OBJECTS: dict[Any, None] = {}
