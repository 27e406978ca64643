"""Programs computed row by row, as formulas whose sizes are known only when a kernel runs.

A body or rule that reduces over some dimensions, and is elementwise otherwise, needs a few passes over each row:
softmax, normalisation, variance, and their derivatives. `find_rows` turns such a program into a `RowFormula` and its
numbers. The formula contains no sizes and no numbers, so one kernel serves all of them. Kernels are written by
`write_rows` for native code, and in ndgrad._src.compiler.cuda.row_programs for a GPU.

Note [Rows of a program]
All reductions of a program go over the same dimensions, and the elements that are reduced together are a row. These
dimensions are the last ones, the first and the last ones (segmented rows, see Note [Operands of rows]), or adjacent
ones before the last (columns). A value either varies along the rows (an *element*), or is one number per row. An
argument may be the same in all rows. A program with other shapes has no formula, and runs as its ops do.

Note [Numbers per segment]
A weight may vary along the first dimensions of a row and be the same along the others: in group normalisation, a
channel is a segment of a row, and has one weight. Then rows are cut into segments at that dimension, and the weight is
one number per segment. Sums over the dimensions of a segment alone are results of the program (the gradient of such a
weight), and nothing else depends on them.

Note [Parts of rows]
The gates of a recurrent network are parts of one array along its last dimension. A program may slice such inputs into
parts, and may concatenate results into one array. Then rows are as long as a part. Each part is an operand of its own,
with an offset and the step of the whole array. Such a program needs no reductions.

Note [Rows without reductions]
An elementwise program whose arguments broadcast also has rows: the longest last dimensions along which each argument
either varies fully or not at all. In batch normalisation with fixed statistics they are the pixels of a channel. An
argument that is constant along rows, and varies along some of the other dimensions only, is expanded in memory to one
number per row.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from functools import partial
from math import prod
from typing import Any, NamedTuple

from ndgrad._src.compiler.kernels.columns import Column, Place
from ndgrad._src.compiler.kernels.maths.functions import FORMULAS
from ndgrad._src.compiler.kernels.operations import compute, operation_of
from ndgrad._src.compiler.kernels.rows import At, Row
from ndgrad._src.compiler.lower.pointwise import is_pointwise
from ndgrad._src.compiler.program.program import Instruction, Program, Value

#: An operand of a node: another node, or a number that the kernel receives.
NODE, NUMBER = 0, 1
#: Rows of elementwise programs are shorter if there would be fewer than this many, so that threads can share them.
_FEW_ROWS = 16


class Node(NamedTuple):
    """One op of a formula. Inputs have the op "", reductions the name of the reduction, and "first" is the first
    element of each row.
    """

    op: str
    operands: tuple[tuple[int, int], ...]
    settings: tuple[tuple[str, Any], ...]
    #: True if it varies along the row.
    is_element: bool
    #: Number of passes over the row that must end before it is known.
    level: int
    #: True for a reduction: "sum" or "maximum".
    is_reduction: bool = False
    #: True for a number per segment: an input, or a sum that is a result.
    is_segment: bool = False


class RowFormula(NamedTuple):
    """A program by rows, without its sizes and numbers."""

    nodes: tuple[Node, ...]
    outputs: tuple[int, ...]
    numbers: int

    @property
    def inputs(self) -> list[int]:
        return [n for n, node in enumerate(self.nodes) if not node.op]

    @property
    def levels(self) -> int:
        return max(node.level for node in self.nodes if not (node.is_reduction and node.is_segment))

    @property
    def segment_sums(self) -> list[int]:
        """The results that are sums over segments."""
        return [n for n, node in enumerate(self.nodes) if node.is_reduction and node.is_segment]

    def reductions(self, level: int) -> dict[str, list[int]]:
        """Return the reductions that are known after a pass, by their kinds."""
        found: dict[str, list[int]] = {}
        for n, node in enumerate(self.nodes):
            if node.level == level and node.is_reduction and not node.is_segment:
                found.setdefault(node.op, []).append(n)
        return found


class Layout(NamedTuple):
    """The rows of arrays: their number, the segments of each, the elements of a segment, and the steps."""

    rows: int
    segments: int
    length: int
    row_step: int
    segment_step: int


class Columns(NamedTuple):
    """The columns of arrays: the blocks of outer dimensions, the elements of a column, and the columns of a block."""

    outer: int
    length: int
    inner: int

    @property
    def rows(self) -> int:
        return self.outer * self.inner


class Part(NamedTuple):
    """An operand that is a part of an array: the number of the array, the first element, and the step of rows."""

    array: int
    offset: int
    row_step: int


class RowProgram(NamedTuple):
    """A formula with the sizes and numbers of one program."""

    formula: RowFormula
    layout: Layout | Columns
    numbers: tuple[float, ...]
    #: Steps of each input: from row to row and from segment to segment, or from block to block, down a column, and from
    #: column to column.
    steps: tuple[tuple[int, ...], ...]
    #: Shapes of the results.
    shapes: tuple[tuple[int, ...], ...]
    #: Shapes to which inputs are expanded in memory; None if they are read as they are.
    expanded: tuple[tuple[int, ...] | None, ...]
    #: The operands of the formula, results and inputs, as parts of arrays; () if operands are the arrays themselves.
    parts: tuple[Part, ...] = ()


class _NoRows(Exception):
    """The program cannot be computed by rows."""


def find_rows(program: Program) -> RowProgram | None:
    """Return a program by rows; None if it cannot be computed so. Its values have one floating dtype, or are booleans."""
    try:
        return _Reading(program).result()
    except _NoRows:
        return None


class _Reading:
    """Reads a program into a formula."""

    def __init__(self, program: Program) -> None:
        self.program = program
        self.nodes: list[Node] = []
        self.numbers: list[float] = []
        self.number_of: dict[Value, int] = {}
        self.steps: list[tuple[int, ...]] = []
        self.expanded: list[tuple[int, ...] | None] = []
        self.slices = _find_slices(program)
        self.joins = _find_joins(program)
        self.sources: list[Part] = []
        whole = {i.arguments[0] for i in self.slices} | {i.result for i in self.joins}
        every = [*program.inputs, *(v for i in program.instructions for v in i.results)]
        every = [v for v in every if v not in whole]
        if not every or program.constants:
            raise _NoRows
        self.shape = max((v.shape for v in every), key=lambda s: (prod(s), len(s)))
        self.dims, self.inner = self._find_dims()
        self.layout = self._find_layout()
        users = program.users()
        dropped = tuple([n for d, n in enumerate(self.shape) if d not in self.dims])
        for number, value in enumerate(program.inputs):
            if value in whole:
                self._slice_input(number, value)
                continue
            self.sources.append(Part(number, 0, 0))
            # Numbers per row without the dimensions of the rows are given them first.
            if value.shape == dropped and all(i.op.movement == "reshape" for i in users.get(value, ())):
                self.steps.append((1, 0) if isinstance(self.layout, Layout) else (self.layout.inner, 0, 1))
                self.expanded.append(None)
                self._add(value, "", (), (), False)
            else:
                self._input(value)
        for instruction in program.instructions:
            if instruction not in self.slices and instruction not in self.joins:
                self._take(instruction)

    def result(self) -> RowProgram:
        joined = {i.result: i.arguments for i in self.joins}
        values = [v for out in self.program.outputs for v in joined.get(out, (out,))]
        outputs = tuple([self.number_of[v] for v in values])
        for value, n in zip(values, outputs, strict=True):
            if self.nodes[n].is_element and (value.shape != self.shape or not self.nodes[n].op):
                raise _NoRows
            segments = self.layout.segments if self.nodes[n].is_segment and isinstance(self.layout, Layout) else 1
            if not self.nodes[n].is_element and value.size != self.layout.rows * segments:
                raise _NoRows
        formula = RowFormula(tuple(self.nodes), outputs, len(self.numbers))
        shapes = tuple([v.shape for v in self.program.outputs])
        used = [(NODE, n) in node.operands for node in self.nodes for n in formula.segment_sums]
        if any(used):
            raise _NoRows
        parts = (*self._find_targets(outputs), *self.sources) if self.slices or self.joins else ()
        return RowProgram(
            formula, self.layout, tuple(self.numbers), tuple(self.steps), shapes, tuple(self.expanded), parts
        )

    def _find_targets(self, outputs: Sequence[int]) -> list[Part]:
        """Return the part of a result that each output of the formula is."""
        joined = {i.result: len(i.arguments) for i in self.joins}
        found: list[Part] = []
        if not isinstance(self.layout, Layout) or self.layout.segments != 1:
            raise _NoRows
        for number, value in enumerate(self.program.outputs):
            for k in range(joined.get(value, 1)):
                is_element = self.nodes[outputs[len(found)]].is_element
                found.append(Part(number, k * self.layout.length, value.shape[-1] if is_element else 1))
        return found

    def _slice_input(self, number: int, value: Value) -> None:
        """Add the parts of an input, each as an element of its own."""
        self.expanded.append(None)
        for i in self.slices:
            start = _start_of_part(i) if i.arguments[0] is value else None
            if start is not None:
                if i.result.shape != self.shape or value.dtype.char not in "fd":
                    raise _NoRows
                self.sources.append(Part(number, start, value.shape[-1]))
                self.steps.append((value.shape[-1], 0))
                self._add(i.result, "", (), (), True)

    def _find_dims(self) -> tuple[tuple[int, ...], tuple[int, ...]]:
        """Return the dimensions of all reductions, and those within a segment: () if inputs and sums need none."""
        ndim = len(self.shape)
        found: set[tuple[int, ...]] = set()
        for i in self.program.instructions:
            if _reduction(i.op) is not None:
                if i.arguments[0].ndim != ndim or i.settings.get("dtype") is not None:
                    raise _NoRows
                found.add(tuple(sorted(d % ndim for d in i.settings.get("dim", ()))))
        if not found and ndim:
            return ((ndim - 1,) if self.slices or self.joins else self._find_constant()), ()
        if not found or () in found or len(found) > 2:
            raise _NoRows
        *few, dims = sorted(found, key=len)
        inner = few[0] if few else self._find_inner(dims)
        if inner and (inner != dims[len(dims) - len(inner) :] or dims[-1] != ndim - 1):
            raise _NoRows
        return dims, inner

    def _find_inner(self, dims: tuple[int, ...]) -> tuple[int, ...]:
        """Return the dimensions of a row along which an input that varies along others is the same."""
        if dims != tuple(range(len(self.shape) - len(dims), len(self.shape))):
            return ()
        for value in self.program.inputs:
            shape = (1,) * (len(self.shape) - value.ndim) + value.shape
            constant = tuple([d for d in dims if shape[d] == 1 != self.shape[d]])
            if constant and any(shape[d] != 1 for d in dims):
                return tuple([d for d in dims if d >= constant[0]])
        return ()

    def _find_constant(self) -> tuple[int, ...]:
        """Return the last dimensions along which each input varies or is constant (Note [Rows without reductions])."""
        ndim = len(self.shape)
        for first in range(ndim):
            dims = tuple(range(first, ndim))
            is_short = first < ndim - 1 and prod(self.shape[:first]) < _FEW_ROWS
            if not is_short and all(self._is_full_or_constant(v.shape, dims) for v in self.program.inputs):
                return dims
        raise _NoRows

    def _is_full_or_constant(self, shape: tuple[int, ...], dims: tuple[int, ...]) -> bool:
        sizes = ((1,) * (len(self.shape) - len(shape)) + shape)[dims[0] :]
        return prod(sizes) == 1 or sizes == self.shape[dims[0] :]

    def _find_layout(self) -> Layout | Columns:
        shape, dims = self.shape, self.dims
        if dims[-1] != len(shape) - 1:
            first, last = dims[0], dims[-1] + 1
            if dims != tuple(range(first, last)):
                raise _NoRows
            return Columns(prod(shape[:first]), prod(shape[first:last]), prod(shape[last:]))
        inner = len(shape)
        while inner and inner - 1 in dims:
            inner -= 1
        outer = [d for d in dims if d < inner]
        if outer not in ([], [0]):
            raise _NoRows
        length = prod(shape[inner:])
        rows = prod(shape[len(outer) : inner])
        if self.inner:
            if outer:
                raise _NoRows
            part = prod([shape[d] for d in self.inner])
            return Layout(rows, length // part, part, length, part)
        return Layout(rows, shape[0] if outer else 1, length, length, rows * length if outer else 0)

    def _input(self, value: Value) -> None:
        """Add an input, by the dimensions along which it varies."""
        if value.ndim > len(self.shape) or value.dtype.char not in "fd":
            raise _NoRows
        shape = (1,) * (len(self.shape) - value.ndim) + value.shape
        self.expanded.append(None)
        if self.inner and self._is_per_segment(shape):
            assert isinstance(self.layout, Layout)
            kept = tuple([1 if d in self.inner else n for d, n in enumerate(self.shape)])
            self.expanded[-1] = None if shape == kept else kept
            self.steps.append((self.layout.segments, 1))
            self._add(value, "", (), (), True, is_segment=True)
            return
        along = self._varies(shape, self.dims)
        if isinstance(self.layout, Columns):
            before = self._varies(shape, range(self.dims[0]))
            after = self._varies(shape, range(self.dims[-1] + 1, len(shape)))
            inner = self.layout.inner if after else 1
            down = inner if along else 0
            block = inner * (self.layout.length if along else 1) if before else 0
            self.steps.append((block, down, int(after)))
            self._add(value, "", (), () if after else (("same", True),), along)
            return
        others = [d for d in range(len(shape)) if d not in self.dims]
        kept = _keep_dims(self.shape, self.dims)
        if not along and prod(shape) != 1 and shape != kept:
            self.expanded[-1] = kept
            self.steps.append((1, 0))
            self._add(value, "", (), (), False)
            return
        across = self._varies(shape, others)
        if not along:
            self.steps.append((int(across), 0))
        elif across or self.layout.rows == 1:
            self.steps.append((self.layout.row_step, self.layout.segment_step))
        elif self.layout.segments == 1 or self.inner:
            self.steps.append((0, self.layout.segment_step))
        else:
            raise _NoRows  # the same in all rows, with segments: its steps differ
        self._add(value, "", (), (), along)

    def _is_per_segment(self, shape: tuple[int, ...]) -> bool:
        """True if a shape varies along the rows, and is the same along segments."""
        outer = [d for d in self.dims if d not in self.inner and self.shape[d] != 1]
        is_same = all(shape[d] == 1 for d in self.inner)
        return is_same and bool(outer) and all(shape[d] == self.shape[d] for d in outer)

    def _varies(self, shape: tuple[int, ...], dims: Iterable[int]) -> bool:
        """True if a shape has all sizes of some dimensions, False if it has none."""
        found = {(shape[d] == self.shape[d], shape[d] == 1) for d in dims if self.shape[d] != 1}
        if found <= {(True, False)}:
            return bool(found)
        if found == {(False, True)}:
            return False
        raise _NoRows

    def _add(
        self,
        value: Value,
        op: str,
        operands: Sequence[tuple[int, int]],
        settings: Sequence[Any],
        is_element: bool,
        is_reduction: bool = False,
        is_segment: bool = False,
    ) -> None:
        level = max([self.nodes[n].level for kind, n in operands if kind == NODE], default=0) + is_reduction
        self.number_of[value] = len(self.nodes)
        self.nodes.append(Node(op, tuple(operands), tuple(settings), is_element, level, is_reduction, is_segment))

    def _take(self, instruction: Instruction) -> None:
        name = instruction.op.name
        if len(instruction.results) != 1:
            raise _NoRows
        if (how := _reduction(instruction.op)) is not None:
            (x,) = instruction.arguments
            if not self.nodes[self.number_of[x]].is_element:
                raise _NoRows
            dims = tuple(sorted(d % x.ndim for d in instruction.settings["dim"]))
            is_segment = dims == self.inner != self.dims
            if is_segment and how != "sum":
                raise _NoRows
            self._add(instruction.result, how, [(NODE, self.number_of[x])], (), False, True, is_segment)
        elif instruction.op.movement == "reshape":
            self._rename(instruction)
        elif name == "getitem":
            self._first(instruction)
        else:
            self._elementwise(instruction)

    def _rename(self, instruction: Instruction) -> None:
        """Take numbers per row in another shape, with or without dimensions of length 1."""
        (x,), out = instruction.arguments, instruction.result
        n = self.number_of[x]
        if x.size != out.size or (self.nodes[n].is_element and x.shape != out.shape):
            raise _NoRows
        self.number_of[out] = n

    def _first(self, instruction: Instruction) -> None:
        """Take the first element of each row."""
        (x,), index = instruction.arguments, instruction.settings["index"]
        wanted = [slice(0, 1, 1) if d in self.dims else slice(0, n, 1) for d, n in enumerate(self.shape)]
        n = self.number_of[x]
        if x.shape != self.shape or not self.nodes[n].is_element or len(index) != len(wanted):
            raise _NoRows
        if any(not isinstance(s, slice) or s.indices(m) != w.indices(m) for s, w, m in zip(index, wanted, self.shape)):
            raise _NoRows
        self._add(instruction.result, "first", [(NODE, n)], (), False)

    def _elementwise(self, instruction: Instruction) -> None:
        name = instruction.op.name
        operation = operation_of(name)
        if operation is None or "f" not in operation.kinds or not is_pointwise(instruction):
            raise _NoRows
        operands: list[tuple[int, int]] = []
        numbers_per_row: list[Value] = []
        for position, a in enumerate(instruction.arguments):
            if a.__class__ is Value:
                is_mask = position in operation.conditions or instruction.op.of_truths
                if (a.dtype.char == "?") != is_mask:
                    raise _NoRows
                operands.append((NODE, self.number_of[a]))
                if not self.nodes[self.number_of[a]].is_element:
                    numbers_per_row.append(a)
            elif isinstance(a, (int, float)) and operation.takes_real(position):
                self.numbers.append(float(a))
                operands.append((NUMBER, len(self.numbers) - 1))
            else:
                raise _NoRows
        is_element = any(kind == NODE and self.nodes[n].is_element for kind, n in operands)
        # Numbers per row are combined with elements if they have kept their dimensions, else with numbers of one shape.
        different = {v.shape for v in numbers_per_row if v.size != 1}
        if (is_element or len(different) > 1) and not all(self._has_kept_dims(v) for v in numbers_per_row):
            raise _NoRows
        self._add(instruction.result, name, operands, sorted(instruction.settings.items()), is_element)


    def _has_kept_dims(self, value: Value) -> bool:
        """True if numbers per row broadcast to the shape of one number in each row."""
        kept = _keep_dims(self.shape, self.dims)
        shape = (1,) * (len(kept) - value.ndim) + value.shape
        return len(shape) == len(kept) and all(n in (1, size) for n, size in zip(shape, kept, strict=True))


def _find_slices(program: Program) -> list[Instruction]:
    """Return the instructions that take parts of inputs along the last dimension (Note [Parts of rows])."""
    users, found = program.users(), []
    for value in program.inputs:
        reads = users.get(value, ())
        if reads and value not in program.outputs and all(_is_part(i) for i in reads):
            found += reads
    return found


def _is_part(instruction: Instruction) -> bool:
    return _start_of_part(instruction) is not None


def _start_of_part(instruction: Instruction) -> int | None:
    """Return the first element that an instruction takes along the last dimension; None if it takes no such part."""
    if instruction.op.name != "getitem":
        return None
    (x,), index = instruction.arguments, instruction.settings["index"]
    if len(index) != x.ndim or not all(isinstance(s, slice) for s in index):
        return None
    *lead, last = [s.indices(n) for s, n in zip(index, x.shape, strict=True)]
    if last[2] != 1 or last[0] >= last[1] or lead != [(0, n, 1) for n in x.shape[:-1]]:
        return None
    return last[0] if last[1] - last[0] < x.shape[-1] else None


def _find_joins(program: Program) -> list[Instruction]:
    """Return the instructions that concatenate parts of equal shapes into results along the last dimension."""
    users = program.users()
    return [
        i
        for i in program.instructions
        if i.op.name == "cat"
        and i.settings["dim"] == i.result.ndim - 1
        and i.result in program.outputs
        and not users.get(i.result)
        and len({getattr(a, "shape", None) for a in i.arguments}) == 1
    ]


def _reduction(op: Any) -> str | None:
    """Return the reduction of rows that computes an op."""
    return "sum" if op.reduces == "sum" else "maximum" if op.reduces == "max" else None


def _keep_dims(shape: tuple[int, ...], dims: tuple[int, ...]) -> tuple[int, ...]:
    return tuple([1 if d in dims else n for d, n in enumerate(shape)])


# ----- native code ----------------------------------------------------------------------------------------------------


def operands_of(formula: RowFormula) -> dict[str, str]:
    """Return the operands of the kernel with their kinds: results first, then inputs."""
    kinds = {f"o{k}": "element" if formula.nodes[n].is_element else "result" for k, n in enumerate(formula.outputs)}
    for k, n in enumerate(formula.outputs):
        if formula.nodes[n].is_segment:
            kinds[f"o{k}"] = "segment result"
    for n in formula.inputs:
        node = formula.nodes[n]
        kind = "segment number" if node.is_segment else "element" if node.is_element else "number"
        kinds[f"i{n}"] = f"same {kind}" if formula.nodes[n].settings else kind
    return kinds


class Values:
    """The values of a formula in a kernel that is being written.

    `load_input(n, at)` returns input n at a position. A position is an object of the backend, or None for a number per row.
    """

    def __init__(self, formula: RowFormula, load_input: Callable[[int, Any], Any], parameters: Sequence[Any]) -> None:
        self.formula = formula
        self.load_input = load_input
        self.parameters = parameters
        #: Numbers per row that are known.
        self.numbers: dict[int, Any] = {}

    def compute_at(self, position: Any, given: Mapping[int, Any] | None = None) -> Callable[[int], Any]:
        """Return the function that computes nodes at a position, each once. Some may be given."""
        known: dict[int, Any] = dict(given or {})

        def value(n: int) -> Any:
            node = self.formula.nodes[n]
            if n in self.numbers:
                return self.numbers[n]
            if n not in known:
                operands = [self.parameters[m] if kind == NUMBER else value(m) for kind, m in node.operands]
                known[n] = compute(node.op, operands, dict(node.settings)) if node.op else self.load_input(n, position)
            return known[n]

        return value

    def settle(self, level: int, first: Any) -> None:
        """Compute the numbers per row that are known after so many passes. `first` is the first position of a row."""
        for n, node in enumerate(self.formula.nodes):
            if node.is_element or n in self.numbers or node.level > level or (node.is_reduction and node.is_segment):
                continue
            if node.op == "first":
                self.numbers[n] = self.compute_at(first)(node.operands[0][1])
            elif not node.is_reduction:
                self.numbers[n] = self.compute_at(None)(n)

    def terms(self, reductions: Sequence[int]) -> list[int]:
        """Return the nodes that are reduced."""
        return [self.formula.nodes[n].operands[0][1] for n in reductions]


def _find_kept(formula: RowFormula, outputs: Sequence[int]) -> int:
    """Return the node that the last reduction sums and that results need again, if it is costly; -1 for none.

    It is kept in the memory of the first result until that is written, as the exponentials of softmax are.
    """
    needed, waiting = set(), list(outputs)
    while waiting:
        n = waiting.pop()
        if n not in needed and formula.nodes[n].is_element:
            needed.add(n)
            waiting += [m for kind, m in formula.nodes[n].operands if kind == NODE]
    last = [n for found in formula.reductions(formula.levels).values() for n in found]
    for n in last:
        term = formula.nodes[n].operands[0][1]
        if term in needed and term not in outputs and formula.nodes[term].op in FORMULAS:
            return term
    return -1


def write_rows(formula: RowFormula) -> Callable[[Any], None]:
    """Return the function that writes the kernel of a formula, over rows or columns (ndgrad._src.compiler.kernels)."""

    def write(row: Row | Column) -> None:
        def load_input(n: int, at: Any) -> Any:
            name = f"i{n}"
            return row.first_element(name) if at == "first" else row[name] if at is None else at[name]

        values = Values(formula, load_input, [row[f"p{n}"] for n in range(formula.numbers)])
        elements = [(k, n) for k, n in enumerate(formula.outputs) if formula.nodes[n].is_element]
        kept = _find_kept(formula, [n for _, n in elements])

        def terms_at(at: At | Place, terms: Sequence[int]) -> list[Any]:
            value = values.compute_at(at)
            if kept in terms:
                at.write(f"o{elements[0][0]}", value(kept))
            return [*map(value, terms)]

        for level in range(formula.levels + 1):
            for how, found in formula.reductions(level).items():
                made = row.reduce(how, partial(terms_at, terms=values.terms(found)), len(found))
                values.numbers.update(zip(found, made, strict=True))
            values.settle(level, "first")

        def last_pass(at: At | Place) -> None:
            known = {} if kept < 0 else {kept: at[f"o{elements[0][0]}"]}
            value = values.compute_at(at, known)
            for k, n in elements:
                at.write(f"o{k}", value(n))

        sums = [(k, n) for k, n in enumerate(formula.outputs) if formula.nodes[n].is_segment]
        if sums:
            assert isinstance(row, Row)  # columns have no segments
            terms = values.terms([n for _, n in sums])
            row.reduce_segments(lambda at: [*map(values.compute_at(at), terms)], [f"o{k}" for k, _ in sums])
        if elements:
            row.each(last_pass)
        for k, n in enumerate(formula.outputs):
            if not formula.nodes[n].is_element and not formula.nodes[n].is_segment:
                row.store(values.numbers[n], f"o{k}")

    return write
