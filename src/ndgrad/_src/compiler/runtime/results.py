"""Results of a compiled call, assembled as eager code would return them.

Each leaf of the result is a new tensor, an argument itself, a view of an argument, a view of memory that several
results share, or a plain value. New memory comes from the program. Views are taken eagerly by their ops, so that later
writes and gradients go through them.

Note [Order of results]
A result has the memory order of the eager one, because a later reshape is a view or a copy depending on its strides. A
program returns arrays in C order. So a dense result in another order leaves the program with its dimensions permuted,
and is permuted back. A view that is not dense, such as `x[:, 0]` or `x.expand(...)`, is taken from the whole memory,
which the program then returns. Gradients that a backward pass inside returns have the order of the inputs. A trace does
not see the order of other results of derivative rules, such as a gradient that a hook keeps, so a function that returns
one runs eagerly.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from ndgrad._src.arrays.placement import CPU
from ndgrad._src.compiler.capture.number_tape import LateNumbers
from ndgrad._src.compiler.capture.traced_arrays import Step
from ndgrad._src.compiler.program.program import Value
from ndgrad._src.core.variable import meta_of, wrap
from ndgrad._src.core.versions import storage_of
from ndgrad._src.foundations.devices import device
from ndgrad._src.ops.vocabulary import tensor_ops


@dataclass(slots=True)
class New:
    """Memory that a call makes: the class of its tensor, and whether it has a history."""

    tensor_type: Any
    differentiable: bool
    #: Device of the memory.
    place: device = CPU
    #: Permutation of the dimensions of the program's array; None if there is none.
    dims: tuple[int, ...] | None = None
    #: Number of writes by eager code, and the op of the last one.
    writes: int = 0
    writer: str | None = None


@dataclass(slots=True)
class Leaf:
    """Origin of one leaf of the result."""

    #: NEW (new memory `number`), INPUT (the program's input `number`), PLAIN (`value` itself), NUMBER (number `number`
    #: computed by Python, of class `value`) or SAME (leaf `number` once more).
    kind: int
    number: int = 0
    #: Views that lead from there to the leaf.
    path: tuple[Step, ...] = ()
    value: Any = None
    #: Creation mode of a view (see ndgrad._src.core.view); None for other tensors.
    creation: str | None = None


NEW, INPUT, PLAIN, NUMBER, SAME = range(5)


@dataclass(frozen=True)
class LateResults:
    """Numbers that Python computes after the program."""

    function: LateNumbers
    #: Positions of the numbers that it takes, among the inputs and among the new memory.
    inputs: list[int]
    new: list[int]


@dataclass(frozen=True)
class Results:
    """Origins of the leaves of a function's result (see ndgrad._src.compiler.runtime.result_analysis)."""

    leaves: list[Leaf]
    #: New memory, and its values in the program.
    new: list[New]
    values: list[Value]
    late: LateResults | None
    #: True if the leaves are exactly the new tensors, in order.
    is_made: bool

    def wrap_arrays(self, arrays: Sequence[Any], node: Any) -> list[Any]:
        """Return the tensors over the new memory of a call. `arrays` starts with their arrays, and `node` is their
        history.
        """
        made, number = [], 0
        for new, array in zip(self.new, arrays):
            t = wrap(new.tensor_type, array if new.dims is None else array.transpose(new.dims))
            if new.writes:
                note_writes(t, new.writes, new.writer)
            if node is not None and new.differentiable:
                t._node = node
                if node.outputs != 1:
                    meta_of(t).output_nr = number
                number += 1
            made.append(t)
        return made

    def permute_back(self, made: Sequence[Any]) -> list[Any]:
        """Return tensors over new memory, made by ops as in the program, with the dimensions of the results."""
        return [
            t if new.dims is None else tensor_ops.permute(t, dims=new.dims)
            for new, t in zip(self.new, made, strict=True)
        ]

    def kinds(self) -> list[tuple[Any, Any]]:
        """Return the class of each leaf, and the dtype of a new tensor; None for inputs and views."""
        return [
            (leaf.value.__class__, getattr(leaf.value, "dtype", None))
            if leaf.kind == PLAIN
            else (leaf.value, None)
            if leaf.kind == NUMBER
            else (self.new[leaf.number].tensor_type, self.values[leaf.number].dtype)
            if leaf.kind == NEW and not leaf.path
            else (None, None)
            for leaf in self.leaves
        ]

    def numbers(self, inputs: Sequence[Any], arrays: Sequence[Any]) -> Sequence[Any]:
        """Return the numbers that Python computes after the program, from its inputs and its new memory."""
        if self.late is None:
            return ()
        return self.late.function.compute(
            [inputs[i]._array.item() for i in self.late.inputs], [arrays[i].item() for i in self.late.new]
        )

    def assemble(self, inputs: Sequence[Any], made: Sequence[Any], numbers: Sequence[Any]) -> list[Any]:
        """Return the leaves of a call. `inputs` are its tensors, `made` those over new memory, `numbers` those computed
        by Python.
        """
        found: list[Any] = []
        for leaf in self.leaves:
            if leaf.kind == NEW or leaf.kind == INPUT:
                t = (made if leaf.kind == NEW else inputs)[leaf.number]
                found.append(_apply_views(t, leaf.path, leaf.creation) if leaf.path or leaf.creation is not None else t)
            elif leaf.kind == SAME:
                found.append(found[leaf.number])
            else:
                found.append(leaf.value if leaf.kind == PLAIN else numbers[leaf.number])
        return found


def note_writes(t: Any, count: int, writer: str | None) -> None:
    """Set the version of a new tensor's memory to that after so many writes."""
    version = storage_of(t).version
    version.number = version.values = count
    version.writer = writer


def _apply_views(t: Any, path: tuple[Step, ...], creation: str | None) -> Any:
    for step in path:
        shown = step.op(t, **step.settings)
        t = shown if step.op.outputs == 1 else shown[step.number]
    if creation is not None and t._meta is not None and t._meta.view is not None:
        t._meta.view.creation = creation  # the function may have made the view in another mode
    return t
