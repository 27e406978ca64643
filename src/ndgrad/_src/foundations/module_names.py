"""Names of torch's modules that have another name in ndgrad.

The table is module_names.txt in this folder: `torch's module = this package's module`, without the packages' names. It
is read when `import torch` means this package.
"""

from __future__ import annotations

import functools
from pathlib import Path


@functools.cache
def aliases() -> dict[str, str]:
    """Return torch's module names, with the names of the modules that hold their contents here."""
    lines = Path(__file__).with_suffix(".txt").read_text(encoding="utf-8").splitlines()
    pairs = (line.partition(" = ") for line in lines if line and not line.startswith("#"))
    return {theirs.strip(): ours.strip() for theirs, _, ours in pairs}


def resolve(name: str) -> str:
    """Return the name here of torch's module `name`. A submodule of a renamed module is looked for in the new place."""
    found = aliases().get(name)
    if found is not None:
        return found
    parent, _, last = name.rpartition(".")
    while parent:
        found = aliases().get(parent)
        if found not in (None, "."):
            return f"{found}.{last}"
        parent, _, middle = parent.rpartition(".")
        last = f"{middle}.{last}"
    return name
