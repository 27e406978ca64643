"""Registry of functions that write ops of the table as ONNX nodes."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TypeAlias

from ndgrad._src.compiler.program.program import Instruction
from ndgrad.onnx.graph import Graph

#: Writes the nodes of an instruction; returns the name of its result, or a name per result ("" for a missing one).
Writer: TypeAlias = Callable[[Graph, Instruction], "str | Sequence[str]"]

WRITERS: dict[str, Writer] = {}


def writes(*names: str) -> Callable[[Writer], Writer]:
    """Register the writer of ops."""

    def register(writer: Writer) -> Writer:
        WRITERS.update(dict.fromkeys(names, writer))
        return writer

    return register
