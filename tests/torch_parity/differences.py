"""The closed list of deliberate differences from torch, as the docs state it."""

from __future__ import annotations

import re
from pathlib import Path

PAGES = sorted((Path(__file__).resolve().parents[2] / "docs" / "differences").glob("*.md"))
IDS = frozenset(found for page in PAGES for found in re.findall(r"^\| `([a-z0-9-]+)` \|", page.read_text(), flags=re.MULTILINE))


def deliberate(name: str) -> str:
    """Name a deliberate difference in a comparison; an unknown name fails."""
    if name not in IDS:
        raise AssertionError(f"{name!r} is not in docs/differences/: a difference from torch that is not on the list is a bug")
    return name
