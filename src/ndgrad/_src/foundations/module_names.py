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


def find_own_name(theirs: str) -> str:
    """Return the name here of a module of torch. A submodule of a module with another name is found inside that one."""
    known, outer, inner = aliases(), theirs, ""
    while outer:
        if outer in known:
            return f"{known[outer]}{inner}"
        outer, _, last = outer.rpartition(".")
        inner = f".{last}{inner}"
    return theirs
