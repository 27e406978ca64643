"""Functions of `jit.script`: compiled only for kinds of arguments that repeat, and only for a few of them.

A library scripts many small functions and calls each with many shapes. A compilation takes 0.1 s or more, and an eager
call of such a function less than 1 ms. So a kind of arguments runs eagerly at first, and a function is compiled for a
limited number of kinds; all others stay eager. `ndgrad.compile` has no such limits.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, ClassVar

from ndgrad._src.compiler.runtime.function import CompiledFunction
from ndgrad._src.compiler.runtime.script_errors import as_script_error
from ndgrad._src.core.variable import Variable
from ndgrad._src.foundations.public_path import set_module

#: Number of eager calls before a kind of arguments is compiled.
EAGER_CALLS = 20
#: Number of kinds of arguments for which eager calls are counted. Further kinds are not remembered.
COUNTED_KINDS = 64


class Strategy:
    """Setting of `jit.set_fusion_strategy`: the greatest number of kinds of arguments compiled per function."""

    steps: ClassVar[list[tuple[str, int]]] = [("STATIC", 2)]

    @classmethod
    def count(cls) -> int:
        return sum(number for _, number in cls.steps)


@set_module("ndgrad.jit")
class ScriptFunction(CompiledFunction):
    """Compiled function that runs eagerly until a kind of arguments has been seen often enough.

    Args:
        function: function to compile.
        options: settings of `ndgrad.compile`.
    """

    def __init__(self, function: Callable[..., Any], **options: Any) -> None:
        super().__init__(function, **options)
        self._eager_calls: dict[Any, int] = {}
        self._compiled_kinds: set[Any] = set()

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        kind = (*map(_kind, args), *((name, _kind(value)) for name, value in kwargs.items()))
        try:
            if kind not in self._compiled_kinds and not self._is_due(kind):
                return self.function(*args, **kwargs)
            return super().__call__(*args, **kwargs)
        except Exception as error:
            if (found := as_script_error(error)) is error:
                raise
            raise found from found.__cause__

    def _is_due(self, kind: Any) -> bool:
        """Count an eager call. Return True if the kind is to be compiled from now on."""
        counts = self._eager_calls
        count = counts.get(kind, 0) + 1
        if count <= EAGER_CALLS:
            if count > 1 or len(counts) < COUNTED_KINDS:
                counts[kind] = count
            return False
        if len(self._compiled_kinds) >= Strategy.count():
            return False
        self._compiled_kinds.add(kind)
        counts.pop(kind, None)
        return True

    def reset(self) -> None:
        """Drop all programs and counts."""
        super().reset()
        self._eager_calls.clear()
        self._compiled_kinds.clear()


def _kind(value: Any) -> Any:
    """Return the properties of an argument for which programs are compiled anew."""
    if isinstance(value, Variable):
        return value.__class__, tuple(value.shape), value._array.dtype if hasattr(value._array, "dtype") else None
    if isinstance(value, (tuple, list)):
        return value.__class__, *map(_kind, value)
    return value.__class__
