"""Reasons for another trace, as a compiled function reports them in `last_reason`."""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import Any, Self

import numpy as np

from ndgrad._src.compiler.capture.captured_state import MISSING, CapturedSlots, is_plain

#: Facts of a tensor after its class, in the order of `get_facts`.
_FACTS = ("shape", "dtype", "strides", "is_inference()", "requires_grad", "names")
#: Dictionaries in which a module keeps its parts, which users read as attributes.
_PARTS_OF_MODULES = re.compile(r"\._(?:modules|parameters|buffers)\['(\w+)'\]")


class Reason(str):
    """A reason without values, so that repeated reasons are equal. `detail` is the text for users, with values."""

    __slots__ = ("detail",)

    detail: str

    def __new__(cls, cause: str, detail: str) -> Self:
        reason = super().__new__(cls, cause)
        reason.detail = detail
        return reason


def describe(reason: str) -> str:
    """Return the text of a reason for users."""
    return _PARTS_OF_MODULES.sub(r".\1", reason.detail if isinstance(reason, Reason) else reason)


def describe_facts(name: str, now: Sequence[Any], then: Sequence[Any]) -> str | None:
    """Return the first difference between the facts of two tensors in one place; None if they are equal."""
    if now[0] is not then[0]:
        return f"{name} is of class {now[0].__name__} instead of {then[0].__name__}"
    for fact, a, b in zip(_FACTS, now[1:], then[1:], strict=False):
        if a != b:
            return f"{name} has {fact} {shorten(a)} instead of {shorten(b)}"
    return None


def describe_items(slots: CapturedSlots, now: Sequence[Any]) -> Reason:
    """Return the reason that an object has gained or lost items."""
    cause, then = f"{slots.what} has other items", slots.then
    if slots.form is None or slots.form[0] != "entries":
        return Reason(cause, f"{slots.what} has {len(now)} items instead of {len(then)}")
    keys, known = now[: len(now) // 2], then[: len(then) // 2]
    new = [k for k in keys if not any(k is other or k == other for other in known)]
    if new:
        return Reason(cause, f"{slots.what} has the new entry {shorten(new[0])}")
    gone = [k for k in known if not any(k is other or k == other for other in keys)]
    return Reason(cause, f"{slots.what} lacks the entry {shorten(gone[0])}" if gone else cause)


def describe_value(label: str, now: Any, then: Any) -> Reason:
    """Return the reason that a slot holds another object."""
    cause = f"{label} has changed"
    if all(value is MISSING or is_plain(value) for value in (now, then)):
        return Reason(cause, f"{label} is {shorten(now)} instead of {shorten(then)}")
    return Reason(cause, cause)


def shorten(value: Any) -> str:
    text = str(value) if isinstance(value, np.dtype) else repr(value)
    return text if len(text) <= 40 else text[:37] + "..."
