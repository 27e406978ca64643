"""Words of a table in memory, by name."""

from __future__ import annotations

from collections.abc import Sequence

from ndgrad._src.compiler.native.ir import Function


class Fields:
    """The i64 words at a pointer, loaded where this object is made. (LLVM removes the loads of unused words.)"""

    def __init__(self, f: Function, pointer: str, names: Sequence[str]) -> None:
        self._values = {name: f.set(f"load i64, ptr {f.ahead(pointer, 8 * n)}") for n, name in enumerate(names)}

    def __getitem__(self, name: str) -> str:
        return self._values[name]
