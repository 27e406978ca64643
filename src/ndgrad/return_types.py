"""Named results of functions that return several tensors: `x.max(dim=0).values`.

One class per function, as in torch, so that a result says where it came from when printed and a program can tell them apart.
"""

from __future__ import annotations

from collections import namedtuple
from typing import Any


def _named(function: str, fields: str) -> Any:
    """A tuple class whose instances print one field to a line."""
    made: Any = namedtuple(function, fields, module=__name__)  # noqa: PYI024 (made by name, for the list below)

    def text(self: Any) -> str:
        lines = ",\n".join(f"{name}={value!r}" for name, value in zip(self._fields, self))
        return f"{__name__}.{function}(\n{lines})"

    made.__repr__ = text
    made.__doc__ = f"What {function}() returns: {', '.join(fields.split())}."
    return made


max = _named("max", "values indices")
min = _named("min", "values indices")
aminmax = _named("aminmax", "min max")
median = _named("median", "values indices")
nanmedian = _named("nanmedian", "values indices")
mode = _named("mode", "values indices")
cummax = _named("cummax", "values indices")
cummin = _named("cummin", "values indices")
sort = _named("sort", "values indices")
topk = _named("topk", "values indices")
kthvalue = _named("kthvalue", "values indices")
