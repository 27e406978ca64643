"""Grouping: which instructions become one kernel.

Instructions are taken in order. Views become places. An elementwise op joins a kernel over the same space of indices, if what it reads is
either a register of that kernel, element by element, or memory that an earlier step has finished; so a chain of elementwise ops is one
kernel that reads its inputs once and writes its outputs once. A reduction joins the kernel that computes its argument. Ops without a
kernel are calls of NumPy's functions between kernels.

Steps run in the order of the list. A kernel may be joined later, when other steps stand behind it: they cannot depend on what joins.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

from ndgrad.compiler.lower import pointwise
from ndgrad.compiler.lower.products import Product, is_product, product
from ndgrad.compiler.lower.places import Place, contiguous, whole
from ndgrad.compiler.program import Instruction, Program, Value

#: Instructions in one kernel, beyond which compiling it takes too long.
_LONGEST = 4000


@dataclass(eq=False, slots=True)
class Kernel:
    """Elementwise ops and reductions over one space of indices."""

    shape: tuple[int, ...]
    body: list[Instruction] = field(default_factory=list)
    #: for each instruction, where its arguments are read: a place, or None for what is no value
    reads: dict[Instruction, list[Place | None]] = field(default_factory=dict)
    computed: set[Value] = field(default_factory=set)
    #: what of it is the result of a reduction, complete only when the kernel ends, and where it is added to
    reduced: dict[Value, Place] = field(default_factory=dict)
    #: what of it is read from memory later
    stores: list[Value] = field(default_factory=list)

    @property
    def size(self) -> int:
        n = 1
        for k in self.shape:
            n *= k
        return n


@dataclass(eq=False, slots=True)
class Call:
    """An op that NumPy runs."""

    instruction: Instruction
    reads: list[Place | None]


@dataclass(eq=False, slots=True)
class Fill:
    """Memory that begins as one number."""

    value: Value
    number: float = 0.0


@dataclass(eq=False, slots=True)
class Groups:
    """The steps of a program, and where each of its values lies."""

    steps: list[Kernel | Product | Call | Fill]
    places: dict[Value, Place]


def grouped(program: Program) -> Groups:
    """The steps of a program."""
    return _Grouping(program).done()


class _Grouping:
    def __init__(self, program: Program) -> None:
        self.program = program
        self.steps: list[Kernel | Product | Call | Fill] = []
        self.places: dict[Value, Place] = {v: whole(v) for v in (*program.inputs, *program.constants)}
        #: the step after which a root can be read from memory; -1 for what is there from the beginning
        self.ready: dict[Value, int] = dict.fromkeys((*program.inputs, *program.constants), -1)
        #: the kernel that has a root in a register, by its number
        self.kernel_of: dict[Value, int] = {}
        self.reduced: set[Value] = set()
        for instruction in program.instructions:
            self._take(instruction)

    def _take(self, instruction: Instruction) -> None:
        op = instruction.op
        if op.view or op.shares_storage or op.name in ("conj", "unsafe_view"):
            if self._view(instruction):
                return
        if pointwise.is_pointwise(instruction):
            self._join(instruction, instruction.result.shape)
            return
        if pointwise.is_reduction(instruction):
            (source,) = instruction.values()
            if source.size:
                self._join(instruction, source.shape, reduced_place(instruction))
                return
        if is_product(instruction):
            a, b = (self.places[v] for v in instruction.arguments)
            self._finish(product(instruction, a, b), instruction)
            return
        self._call(instruction)

    def _view(self, instruction: Instruction) -> bool:
        (source,) = list(instruction.values())[:1]
        if not source.size:
            return False
        found = [self.places[source].viewed(instruction, i) for i in range(len(instruction.results))]
        if any(place is None for place in found):
            return False
        for value, place in zip(instruction.results, found, strict=True):
            assert place is not None
            self.places[value] = place
        return True

    def _read(self, argument: Any, shape: tuple[int, ...]) -> Place | None:
        """Where an argument is read in a kernel over `shape`."""
        if argument.__class__ is not Value:
            return None
        return self.places[argument].broadcast(shape)

    def _join(self, instruction: Instruction, shape: tuple[int, ...], target: Place | None = None) -> None:
        """Put an instruction over a space of indices into a kernel: the first that may have it, or a new one. A reduction has a target."""
        reads = [self._read(a, shape) for a in instruction.arguments]
        earliest = 0
        for place in reads:
            if place is None:
                continue
            number = self.kernel_of.get(place.root)
            if number is None:
                earliest = max(earliest, self.ready[place.root] + 1)
            else:
                earliest = max(earliest, number if place.is_whole and place.root not in self.reduced else number + 1)
        number = next((i for i in range(earliest, len(self.steps)) if self._fits(self.steps[i], shape, [*reads, target])), None)
        if number is None:
            number = len(self.steps)
            self.steps.append(Kernel(shape))
        kernel = self.steps[number]
        assert isinstance(kernel, Kernel)
        result = instruction.result
        kernel.reads[instruction] = [_in_space(kernel, place) for place in reads]
        kernel.body.append(instruction)
        kernel.computed.add(result)
        if target is not None:
            kernel.reduced[result] = _in_space(kernel, target)
            self.reduced.add(result)
        self.places[result] = whole(result)
        self.kernel_of[result] = number

    def _fits(self, step: Any, shape: tuple[int, ...], places: list[Place | None]) -> bool:
        """Whether a kernel may have an instruction over a space of indices that reads and writes these places."""
        if not isinstance(step, Kernel) or len(step.body) >= _LONGEST:
            return False
        if step.shape == shape:
            return True
        if step.size != _size(shape):
            return False
        return all(p is None or p.root in step.computed or p.reshaped(step.shape) is not None for p in places)

    def _call(self, instruction: Instruction) -> None:
        reads = [self.places[a] if a.__class__ is Value else None for a in instruction.arguments]
        self._finish(Call(instruction, reads), instruction)

    def _finish(self, step: Product | Call, instruction: Instruction) -> None:
        """Add a step after which the results of an instruction are in memory."""
        number = len(self.steps)
        self.steps.append(step)
        for value in instruction.results:
            self.places[value] = whole(value)
            self.ready[value] = number

    def done(self) -> Groups:
        """Let each kernel store what is read from memory."""
        wanted: set[Value] = {self.places[v].root for v in self.program.outputs}
        for step in self.steps:
            if isinstance(step, Call):
                wanted.update(p.root for p in step.reads if p is not None)
            elif isinstance(step, Product):
                wanted.update((step.a.root, step.b.root))
            elif isinstance(step, Kernel):
                for reads in step.reads.values():
                    wanted.update(p.root for p in reads if p is not None and p.root not in step.computed)
        for step in self.steps:
            if isinstance(step, Kernel):
                step.stores = [i.result for i in step.body if i.result in wanted and i.result not in step.reduced]
        return Groups(self.steps, self.places)


def _in_space(kernel: Kernel, place: Place | None) -> Any:
    """A place over the space of a kernel. What is a register there is read element by element, whatever its shape."""
    if place is None or place.shape == kernel.shape or place.root in kernel.computed:
        return place
    return place.reshaped(kernel.shape)


def reduced_place(instruction: Instruction) -> Place:
    """Where each element of its argument is added to in the result of a reduction."""
    (source,) = instruction.values()
    dims = pointwise.reduced_dims(instruction)
    kept = [1 if d in dims else n for d, n in enumerate(source.shape)]
    strides = [0 if d in dims else s for d, s in enumerate(contiguous(tuple(kept)))]
    return Place(instruction.result, 0, source.shape, tuple(strides))


def _size(shape: tuple[int, ...]) -> int:
    n = 1
    for k in shape:
        n *= k
    return n
