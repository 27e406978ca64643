"""Names as pages group them and as a search splits them."""

import re

_PART = re.compile(r"[A-Z]+(?![a-z])|[A-Z]?[a-z]+|\d+")


def parts_of(name: str) -> str:
    """`THPEngine_run_backward` -> `thp engine run backward`"""
    return " ".join(_PART.findall(name)).lower()


def group_of(name: str) -> str:
    """The group of a name: its first two letters or digits, without leading underscores."""
    head = name.lstrip("_~").lower()[:2]
    return "".join(char if char.isascii() and char.isalnum() else "-" for char in head) or "-"
