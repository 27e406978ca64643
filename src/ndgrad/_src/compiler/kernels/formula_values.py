"""The values of a formula (ndgrad._src.ops.formulas) in a kernel that is being written, in LLVM's language or CUDA C++.

Ops are written by `operations.compute` with the writer of the language. All kernels of formulas share this: elementwise
loops, steps of optimizers, and kernels by rows or columns.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

from ndgrad._src.compiler.kernels.maths.values import Mask, Real, Writer
from ndgrad._src.compiler.kernels.operations import compute
from ndgrad._src.ops.formulas import NODE, Signature


class Values:
    """The values of a formula in a kernel that is being written.

    `load_input(n, at)` returns input n at a position. A position is an object of the backend, or None for a number per row.
    """

    def __init__(
        self,
        w: Writer,
        signature: Signature,
        load_input: Callable[[int, Any], Real | Mask],
        parameters: Sequence[Real],
    ) -> None:
        self.w = w
        self.signature = signature
        self.load_input = load_input
        self.parameters = parameters
        #: Numbers per row that are known.
        self.numbers: dict[int, Any] = {}

    def compute_at(self, position: Any, given: Mapping[int, Any] | None = None) -> Callable[[int], Any]:
        """Return the function that computes nodes at a position, each once. Some may be given."""
        known: dict[int, Any] = dict(given or {})

        def value(n: int) -> Any:
            if n in self.numbers:
                return self.numbers[n]
            if n not in known:
                known[n] = self._compute(n, position, value)
            return known[n]

        return value

    def _compute(self, n: int, position: Any, value: Callable[[int], Any]) -> Real | Mask:
        node = self.signature.nodes[n]
        if not node.op:
            return self.load_input(n, position)
        operands = [value(m) if kind == NODE else self.parameters[m] for kind, m in node.operands]
        numbers = {name: self.parameters[m] for name, m in node.numbers}
        return compute(self.w, node.op, operands, {**dict(node.settings), **numbers})


def write_formula(
    w: Writer, signature: Signature, inputs: Sequence[Real | Mask], numbers: Sequence[str]
) -> list[Real | Mask]:
    """Write an elementwise formula of operands in registers, and return its outputs."""
    loaded = dict(zip(signature.inputs, inputs, strict=True))
    values = Values(w, signature, lambda n, at: loaded[n], [w.real(name) for name in numbers])
    value = values.compute_at(None)
    for n in range(len(signature.nodes)):  # in order, which keeps the recursion flat
        value(n)
    return [value(n) for n in signature.outputs]
