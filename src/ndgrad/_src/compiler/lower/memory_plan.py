"""Plan the memory of a program: one arena, in which two values share bytes if no step needs both."""

from __future__ import annotations

from collections.abc import Mapping

from ndgrad._src.compiler.program.program import Value

_ALIGNMENT = 64


def planned(spans: Mapping[Value, tuple[int, int]]) -> tuple[dict[Value, int], int]:
    """Return the offset of each value and the size of the arena, from the first and the last step that needs each.

    The largest come first, each at the lowest address that is free during its lifetime.
    """
    offsets: dict[Value, int] = {}
    placed: list[tuple[int, int, int, int]] = []  # (first step, last step, begin, end)
    total = 0
    for value in sorted(spans, key=lambda v: (-v.nbytes, spans[v])):
        first, last = spans[value]
        size = -(-max(value.nbytes, 1) // _ALIGNMENT) * _ALIGNMENT
        begin = 0
        for low, high in sorted((b, e) for f, u, b, e in placed if f <= last and first <= u):
            if begin + size <= low:
                break
            begin = max(begin, high)
        offsets[value] = begin
        placed.append((first, last, begin, begin + size))
        total = max(total, begin + size)
    return offsets, total
