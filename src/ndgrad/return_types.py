"""Named results of functions that return several tensors: `x.max(dim=0).values`.

One class per function, as in torch, so that a result says where it came from when printed and a program can tell them apart.
"""

from __future__ import annotations

from collections import namedtuple
from typing import Any


def _text(self: Any) -> str:
    """One field to a line."""
    lines = ",\n".join(f"{name}={value!r}" for name, value in zip(self._fields, self))
    return f"{__name__}.{type(self).__name__}(\n{lines})"


def _named(function: str, fields: str) -> Any:
    made = namedtuple(function, fields, module=__name__)  # type: ignore[misc]  # noqa: PYI024 (made by name, for the list below)
    return type(function, (made,), {"__slots__": (), "__repr__": _text, "__module__": __name__})


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
