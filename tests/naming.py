"""Names of parametrised tests that are the same in every process."""

from __future__ import annotations

import re


def stable_id(value: object) -> str:
    """`repr`, without the address that tells objects of one process apart."""
    return re.sub(r" at 0x[0-9a-f]+", "", repr(value))
