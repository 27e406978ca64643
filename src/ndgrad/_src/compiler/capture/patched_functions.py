"""Python functions that accept placeholders for numbers during a trace: those of `math`, `min`, `max` and `sum`.

They are written in C and would ask a placeholder for its number. So while any thread traces, `math.cos` is an object
that calls `math.cos`, unless an argument is a placeholder. Other threads see no other difference. A function in a
captured slot of the traced code (`from math import cos`) is replaced there as well. If that is impossible, the function
is not replaced at all, because code may compare functions by identity.
"""

from __future__ import annotations

import builtins
import math
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from typing import Any

from ndgrad._src.compiler.capture.number_placeholders import (
    MATH,
    NumberPlaceholder,
    apply_extreme,
    apply_math,
    sum_numbers,
)
from ndgrad._src.compiler.capture.side_effects import register_replacement
from ndgrad._src.foundations.locks import make_lock


class PatchedFunction:
    """Replacement of a Python function during traces."""

    def __init__(self, module: Any, name: str, compute: Callable[..., Any]) -> None:
        self.module = module
        self.original = getattr(module, name)
        self.__name__ = self.__qualname__ = name
        self.__module__ = module.__name__
        self.__doc__ = self.original.__doc__
        self._compute = compute

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        for a in args:
            if type(a) is NumberPlaceholder:
                if kwargs:
                    a.refuse()
                return self._compute(self.__name__, self.original, args)
        return self.original(*args, **kwargs)

    def __repr__(self) -> str:
        return repr(self.original)


class PatchedSum(PatchedFunction):
    """Replacement of `sum`, whose items may be placeholders."""

    def __init__(self) -> None:
        super().__init__(builtins, "sum", apply_math)

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        if not 1 <= len(args) <= 2 or (kwargs and (len(args) == 2 or kwargs.keys() != {"start"})):
            return self.original(*args, **kwargs)  # raises
        start = args[1] if len(args) == 2 else kwargs.get("start", 0)
        items = tuple(args[0])
        if type(start) is NumberPlaceholder or any(type(a) is NumberPlaceholder for a in items):
            return sum_numbers(self.original, items, start)
        return self.original(items, start)


#: Replacements by the identity of the original.
PATCHED: dict[int, PatchedFunction] = {
    id(made.original): made
    for made in (
        *[PatchedFunction(math, name, apply_math) for name in MATH],
        PatchedFunction(builtins, "min", apply_extreme),
        PatchedFunction(builtins, "max", apply_extreme),
        PatchedSum(),
    )
}

for _made in PATCHED.values():
    register_replacement(_made, _made.original)
_lock = make_lock()
_at_work: Counter[int] = Counter()


@contextmanager
def patching(functions: Sequence[PatchedFunction]) -> Iterator[None]:
    """Context in which functions accept placeholders."""
    with _lock:
        for made in functions:
            _at_work[id(made)] += 1
            if getattr(made.module, made.__name__) is made.original:  # the user may have replaced it
                setattr(made.module, made.__name__, made)
    try:
        yield
    finally:
        with _lock:
            for made in functions:
                _at_work[id(made)] -= 1
                if not _at_work[id(made)] and getattr(made.module, made.__name__) is made:
                    setattr(made.module, made.__name__, made.original)
