"""Versions with version comparison: torch's `TorchVersion`."""

from __future__ import annotations

import re
from typing import Any

__all__ = ["TorchVersion"]

_FORM = re.compile(
    r"v?(?P<release>\d+(?:\.\d+)*)"
    r"(?P<pre>(?:[-_.]?(?:a|b|c|rc|alpha|beta|pre|dev|post)[-_.]?\d*)*)(?:\+(?P<local>.*))?",
    re.I,
)
_BEFORE, _AFTER = ("dev", "a", "alpha", "b", "beta", "c", "rc", "pre"), "post"


def _key(version: Any) -> tuple[Any, ...] | None:
    """Return the sort key of a version: the numbers, then whether it comes before or after the release, then the local
    part (`+cpu`), where numbers are above words.
    """
    if isinstance(version, (tuple, list)):
        version = ".".join(map(str, version))
    match = _FORM.fullmatch(str(version).strip())
    if match is None:
        return None
    numbers = [int(n) for n in match["release"].split(".")]
    while numbers and not numbers[-1]:
        numbers.pop()  # 2.1 is 2.1.0
    parts = re.findall(r"([a-z]+)[-_.]?(\d*)", match["pre"].lower())
    ranks = [(1 if kind == _AFTER else _BEFORE.index(kind) - len(_BEFORE), int(n or 0)) for kind, n in parts]
    local = re.split(r"[-_.]", (match["local"] or "").lower()) if match["local"] else []
    parts_of_local = tuple((1, int(p), "") if p.isdigit() else (0, 0, p) for p in local)
    return tuple(numbers), tuple(ranks) or ((0, 0),), parts_of_local


class TorchVersion(str):
    """A version string that compares with strings and tuples as versions.

    >>> from ndgrad.torch_version import TorchVersion
    >>> TorchVersion("2.13.0") > "2.9", TorchVersion("2.13.0") >= (2, 13), "2.13.0" > "2.9"
    (True, True, False)
    """

    __slots__ = ()

    def _compare(self, other: Any, method: str) -> Any:
        mine, others = _key(self), _key(other) if isinstance(other, (str, tuple, list)) else _key(str(other))
        if mine is None or others is None:  # not a version: compare as strings
            return getattr(super(), method)(other)
        return getattr(mine, method)(others)

    def __lt__(self, other: Any) -> Any:
        return self._compare(other, "__lt__")

    def __le__(self, other: Any) -> Any:
        return self._compare(other, "__le__")

    def __gt__(self, other: Any) -> Any:
        return self._compare(other, "__gt__")

    def __ge__(self, other: Any) -> Any:
        return self._compare(other, "__ge__")

    def __eq__(self, other: object) -> Any:
        return self._compare(other, "__eq__")

    def __ne__(self, other: object) -> Any:
        return not self == other

    __hash__ = str.__hash__
