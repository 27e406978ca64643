"""Capabilities of the processor, as found by NumPy."""

from __future__ import annotations

from typing import Any

import numpy as np

from ndgrad._src.foundations.missing_names import refuse_absent as _refuse_absent


def build() -> dict[str, Any]:
    """Return NumPy's build information."""
    told: dict[str, Any] = np.show_config(mode="dicts")  # type: ignore[assignment]  # as documented
    return told


def instruction_sets() -> dict[str, bool]:
    """Return the instruction sets that NumPy knows, and whether the processor has them."""
    told = build().get("SIMD Extensions", {})
    found = [*told.get("baseline", ()), *told.get("found", ())]
    return {**dict.fromkeys(told.get("not found", ()), False), **dict.fromkeys(found, True)}


def get_cpu_capability() -> str:
    """Return the widest vectors of the processor: 'AVX512', 'AVX2', 'NEON', ..., or 'DEFAULT'.

    >>> import ndgrad
    >>> isinstance(ndgrad.backends.cpu.get_cpu_capability(), str)
    True
    """
    has = {name.upper() for name, there in instruction_sets().items() if there}
    return next((name for name, marks in _WIDEST if has.intersection(marks)), "DEFAULT")


#: Vectors from the widest on, and the instruction sets that have them.
_WIDEST = (
    ("AVX512", ("AVX512F", "AVX512_SKX", "X86_V4")), ("AVX2", ("AVX2", "X86_V3")), ("SVE", ("SVE",)),
    ("NEON", ("NEON", "ASIMD")), ("VSX", ("VSX",)),
)  # fmt: skip


_refuse_absent(__name__)
