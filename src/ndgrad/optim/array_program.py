"""A formula as a list of NumPy calls on existing memory: for steps without native kernels.

The rule of an optimizer, recorded as a formula (_src.ops.formulas), runs on each parameter by ufuncs. They write
into the parameter and its state as soon as the old values are no longer needed, else into scratch memory. Nothing is
allocated per call, and the arrays of one parameter are processed in blocks that stay in the cache. Each op is the one
that a tensor would run, so results are the same to the last bit.
"""

from __future__ import annotations

import functools
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ndgrad._src.ops.formulas import NODE, NUMBER, Node, NoFormula, Signature
from ndgrad._src.ops.vocabulary import find

Array = NDArray[Any]

#: Elements of a block: a handful of arrays of this size fit into a core's cache.
_BLOCK = 16384

Run = Callable[[Sequence[Sequence[Array]], Sequence[float]], None]


def _ufunc(node: Node) -> np.ufunc:
    found = np.absolute if node.op == "abs" else find(node.op).ufunc
    if found is None or node.settings or node.numbers:
        raise NoFormula(node.op)
    return found


class _Writer:
    """Writes the calls of a formula, one line each: o are memory that is written, a operands, n numbers, t and c
    scratch memory for values and for conditions.
    """

    def __init__(self, signature: Signature, targets: Sequence[int | None]) -> None:
        self.nodes = signature.nodes
        self.functions: dict[str, Any] = {"copyto": np.copyto}
        self.lines: list[str] = []
        self.inputs = signature.inputs
        self.places = {number: f"a{place}" for place, number in enumerate(self.inputs)}
        self.scratch = {"t": 0, "c": 0}
        self.free: dict[str, list[str]] = {"t": [], "c": []}
        self.last_read = self._last_reads(signature)
        self.owners = self._owners(signature, targets)
        for number, node in enumerate(self.nodes):
            if node.op:
                self._write(number, node)
        written: dict[int, str] = {number: f"o{place}" for number, place in self.owners.items()}
        overwritten = {self.inputs[t] for t in targets if t is not None}
        for place, number in enumerate(signature.outputs):
            if self.owners.get(number) == place:
                continue
            if number in overwritten and number not in written and targets[place] != self.inputs.index(number):
                raise NoFormula("a result is the old value of another")
            self.lines.append(f"copyto(o{place}, {self.places[number]})")

    def _last_reads(self, signature: Signature) -> dict[int, int]:
        last: dict[int, int] = {}
        for number, node in enumerate(self.nodes):
            for kind, operand in node.operands:
                if kind == NODE:
                    last[operand] = number
        last.update(dict.fromkeys(signature.outputs, len(self.nodes)))
        return last

    def _owners(self, signature: Signature, targets: Sequence[int | None]) -> dict[int, int]:
        """Return the nodes that can write directly into the memory of an output: its old value is not read
        afterwards.
        """
        owners: dict[int, int] = {}
        for place, number in enumerate(signature.outputs):
            target = targets[place]
            old = -1 if target is None else self.last_read.get(self.inputs[target], -1)
            if self.nodes[number].op and number not in owners and old <= number:
                owners[number] = place
        return owners

    def _operand(self, reference: tuple[int, int]) -> str:
        kind, number = reference
        return self.places[number] if kind == NODE else f"n{number}"

    def _write(self, number: int, node: Node) -> None:
        operands = [self._operand(reference) for reference in node.operands]
        for kind, read in node.operands:  # a value read for the last time may be overwritten by the same call
            place = self.places[read] if kind == NODE else ""
            if place[:1] in self.free and self.last_read.get(read) == number and place not in self.free[place[0]]:
                self.free[place[0]].append(place)
        if number in self.owners:
            place = f"o{self.owners[number]}"
        else:
            place = self._new("c" if find(node.op).returns_bool else "t")
        self.places[number] = place
        if node.op == "masked_fill" and node.operands[2][0] == NUMBER:
            value, mask, fill = operands
            if place != value:
                self.lines.append(f"copyto({place}, {value})")
            self.lines.append(f"copyto({place}, {fill}, where={mask})")
        else:
            self.functions[node.op] = _ufunc(node)
            self.lines.append(f"{node.op}({', '.join(operands)}, out={place})")

    def _new(self, kind: str) -> str:
        if self.free[kind]:
            return self.free[kind].pop()
        self.scratch[kind] += 1
        return f"{kind}{self.scratch[kind] - 1}"


@functools.lru_cache(maxsize=128)
def program(signature: Signature, targets: tuple[int | None, ...], dtype: np.dtype[Any]) -> Run:
    """Return a function that runs a formula on sets of arrays, outputs before inputs, given its numbers. `targets`
    gives, for each output, the input in the same memory.
    """
    writer = _Writer(signature, targets)
    arrays = [f"o{n}" for n in range(len(signature.outputs))] + [f"a{n}" for n in range(len(writer.inputs))]
    numbers = [f"n{n}" for n in range(signature.numbers)]
    scratch = [f"{kind}{n}" for kind, count in writer.scratch.items() for n in range(count)]
    names = ", ".join([*arrays, *numbers, *scratch])
    text = f"def block({names}):\n    " + "\n    ".join(writer.lines)
    space: dict[str, Any] = dict(writer.functions)
    # generated lines: only names of ufuncs and of arguments
    exec(compile(text, "<ndgrad generated step>", "exec"), space)
    block = space["block"]
    kinds = [np.dtype(bool) if name[0] == "c" else dtype for name in scratch]

    def run(sets: Sequence[Sequence[Array]], values: Sequence[float]) -> None:
        given = [np.array(value, dtype) for value in values]
        largest = min(max(arrays[0].size for arrays in sets), _BLOCK)
        scratch = [np.empty(largest, kind) for kind in kinds]
        fitting: dict[int, list[Array]] = {}
        for arrays in sets:
            size = arrays[0].size
            flat = [a if a.ndim == 1 else a.reshape(-1) for a in arrays]
            for begin in range(0, size, _BLOCK):
                count = min(size - begin, _BLOCK)
                if count not in fitting:
                    fitting[count] = [t[:count] for t in scratch]
                parts = flat if count == size else [a[begin : begin + count] for a in flat]
                block(*parts, *given, *fitting[count])

    return run
