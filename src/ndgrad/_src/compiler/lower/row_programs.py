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

from collections.abc import Callable, Iterable, Sequence
from functools import partial
from math import prod
from typing import Any, NamedTuple

from ndgrad._src.compiler.kernels.columns import Column, Place
from ndgrad._src.compiler.kernels.formula_values import Values
from ndgrad._src.compiler.kernels.maths.functions import FORMULAS
from ndgrad._src.compiler.kernels.operations import operation_of
from ndgrad._src.compiler.kernels.rows import At, Row
from ndgrad._src.compiler.lower.pointwise import is_pointwise
from ndgrad._src.compiler.program.program import Instruction, Program, Value
from ndgrad._src.ops.formulas import NODE, Formula, Node, NoFormula, Signature, Symbol

#: Rows of elementwise programs are shorter if there would be fewer than this many, so that threads can share them.
_FEW_ROWS = 16


class Role(NamedTuple):
    """The part of a node in a program by rows."""

    #: True if it varies along the row.
    is_element: bool
    #: Number of passes over the row that must end before it is known.
    level: int
    #: True for a reduction: "sum" or "maximum".
    is_reduction: bool = False
    #: True for a number per segment: an input, or a sum that is a result.
    is_segment: bool = False
    #: True for an input that is the same in all columns.
    is_same: bool = False


class RowFormula(NamedTuple):
    """A program by rows, without its sizes and numbers.

    Its formula has reductions as ops of its own, "sum" and "maximum", and "first", the first element of each row.
    """

    signature: Signature
    roles: tuple[Role, ...]

    @property
    def results(self) -> list[tuple[int, Role]]:
        """Return the nodes of the results with their roles."""
        return [(n, self.roles[n]) for n in self.signature.outputs]

    @property
    def elements(self) -> list[tuple[int, int]]:
        """Return the results that vary along the row: their numbers among the results, and their nodes."""
        return [(k, n) for k, (n, role) in enumerate(self.results) if role.is_element]

    @property
    def segment_sums(self) -> list[tuple[int, int]]:
        """Return the results that are sums over segments, in the same form."""
        return [(k, n) for k, (n, role) in enumerate(self.results) if role.is_segment]

    @property
    def row_numbers(self) -> list[tuple[int, int]]:
        """Return the results that are numbers per row, in the same form."""
        return [(k, n) for k, (n, role) in enumerate(self.results) if not role.is_element and not role.is_segment]

    @property
    def levels(self) -> int:
        return max(role.level for role in self.roles if not (role.is_reduction and role.is_segment))

    def reductions(self, level: int) -> dict[str, list[int]]:
        """Return the reductions that are known after a pass, by their kinds."""
        found: dict[str, list[int]] = {}
        for n, (node, role) in enumerate(zip(self.signature.nodes, self.roles, strict=True)):
            if role.level == level and role.is_reduction and not role.is_segment:
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


def find_rows(program: Program) -> RowProgram | None:
    """Return a program by rows; None if it cannot be computed so. Its values have one floating dtype, or are booleans."""
    try:
        return _Reading(program).result()
    except NoFormula:
        return None


class _Reading:
    """Reads a program into a formula."""

    def __init__(self, program: Program) -> None:
        self.program = program
        self.formula = Formula()
        self.roles: list[Role] = []
        self.symbols: dict[Value, Symbol] = {}
        self.steps: list[tuple[int, ...]] = []
        self.expanded: list[tuple[int, ...] | None] = []
        self.slices = _find_slices(program)
        self.joins = _find_joins(program)
        self.sources: list[Part] = []
        whole = {i.arguments[0] for i in self.slices} | {i.result for i in self.joins}
        every = [*program.inputs, *(v for i in program.instructions for v in i.results)]
        every = [v for v in every if v not in whole]
        if not every or program.constants:
            raise NoFormula
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
                self._add_input(value, False)
            else:
                self._input(value)
        for instruction in program.instructions:
            if instruction not in self.slices and instruction not in self.joins:
                self._take(instruction)

    def result(self) -> RowProgram:
        joined = {i.result: i.arguments for i in self.joins}
        values = [v for out in self.program.outputs for v in joined.get(out, (out,))]
        for value in values:
            role = self._role(value)
            if role.is_element and (value.shape != self.shape or self.symbols[value].is_input):
                raise NoFormula
            segments = self.layout.segments if role.is_segment and isinstance(self.layout, Layout) else 1
            if not role.is_element and value.size != self.layout.rows * segments:
                raise NoFormula
        signature = self.formula.signature([self.symbols[v] for v in values])
        formula = RowFormula(signature, tuple(self.roles))
        shapes = tuple([v.shape for v in self.program.outputs])
        sums = {(NODE, n) for _, n in formula.segment_sums}
        if any(not sums.isdisjoint(node.operands) for node in signature.nodes):
            raise NoFormula
        parts = (*self._find_targets(formula), *self.sources) if self.slices or self.joins else ()
        return RowProgram(
            formula, self.layout, tuple(self.formula.numbers), tuple(self.steps), shapes, tuple(self.expanded), parts
        )

    def _find_targets(self, formula: RowFormula) -> list[Part]:
        """Return the part of a result that each output of the formula is."""
        joined = {i.result: len(i.arguments) for i in self.joins}
        found: list[Part] = []
        if not isinstance(self.layout, Layout) or self.layout.segments != 1:
            raise NoFormula
        for number, value in enumerate(self.program.outputs):
            for k in range(joined.get(value, 1)):
                is_element = formula.results[len(found)][1].is_element
                found.append(Part(number, k * self.layout.length, value.shape[-1] if is_element else 1))
        return found

    def _slice_input(self, number: int, value: Value) -> None:
        """Add the parts of an input, each as an element of its own."""
        self.expanded.append(None)
        for i in self.slices:
            start = _start_of_part(i) if i.arguments[0] is value else None
            if start is not None:
                if i.result.shape != self.shape or value.dtype.char not in "fd":
                    raise NoFormula
                self.sources.append(Part(number, start, value.shape[-1]))
                self.steps.append((value.shape[-1], 0))
                self._add_input(i.result, True)

    def _find_dims(self) -> tuple[tuple[int, ...], tuple[int, ...]]:
        """Return the dimensions of all reductions, and those within a segment: () if inputs and sums need none."""
        ndim = len(self.shape)
        found: set[tuple[int, ...]] = set()
        for i in self.program.instructions:
            if _reduction(i.op) is not None:
                if i.arguments[0].ndim != ndim or i.settings.get("dtype") is not None:
                    raise NoFormula
                found.add(tuple(sorted(d % ndim for d in i.settings.get("dim", ()))))
        if not found and ndim:
            return ((ndim - 1,) if self.slices or self.joins else self._find_constant()), ()
        if not found or () in found or len(found) > 2:
            raise NoFormula
        *few, dims = sorted(found, key=len)
        inner = few[0] if few else self._find_inner(dims)
        if inner and (inner != dims[len(dims) - len(inner) :] or dims[-1] != ndim - 1):
            raise NoFormula
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
        raise NoFormula

    def _is_full_or_constant(self, shape: tuple[int, ...], dims: tuple[int, ...]) -> bool:
        sizes = ((1,) * (len(self.shape) - len(shape)) + shape)[dims[0] :]
        return prod(sizes) == 1 or sizes == self.shape[dims[0] :]

    def _find_layout(self) -> Layout | Columns:
        shape, dims = self.shape, self.dims
        if dims[-1] != len(shape) - 1:
            first, last = dims[0], dims[-1] + 1
            if dims != tuple(range(first, last)):
                raise NoFormula
            return Columns(prod(shape[:first]), prod(shape[first:last]), prod(shape[last:]))
        inner = len(shape)
        while inner and inner - 1 in dims:
            inner -= 1
        outer = [d for d in dims if d < inner]
        if outer not in ([], [0]):
            raise NoFormula
        length = prod(shape[inner:])
        rows = prod(shape[len(outer) : inner])
        if self.inner:
            if outer:
                raise NoFormula
            part = prod([shape[d] for d in self.inner])
            return Layout(rows, length // part, part, length, part)
        return Layout(rows, shape[0] if outer else 1, length, length, rows * length if outer else 0)

    def _input(self, value: Value) -> None:
        """Add an input, by the dimensions along which it varies."""
        if value.ndim > len(self.shape) or value.dtype.char not in "fd":
            raise NoFormula
        shape = (1,) * (len(self.shape) - value.ndim) + value.shape
        self.expanded.append(None)
        if self.inner and self._is_per_segment(shape):
            assert isinstance(self.layout, Layout)
            kept = tuple([1 if d in self.inner else n for d, n in enumerate(self.shape)])
            self.expanded[-1] = None if shape == kept else kept
            self.steps.append((self.layout.segments, 1))
            self._add_input(value, True, is_segment=True)
            return
        along = self._varies(shape, self.dims)
        if isinstance(self.layout, Columns):
            before = self._varies(shape, range(self.dims[0]))
            after = self._varies(shape, range(self.dims[-1] + 1, len(shape)))
            inner = self.layout.inner if after else 1
            down = inner if along else 0
            block = inner * (self.layout.length if along else 1) if before else 0
            self.steps.append((block, down, int(after)))
            self._add_input(value, along, is_same=not after)
            return
        others = [d for d in range(len(shape)) if d not in self.dims]
        kept = _keep_dims(self.shape, self.dims)
        if not along and prod(shape) != 1 and shape != kept:
            self.expanded[-1] = kept
            self.steps.append((1, 0))
            self._add_input(value, False)
            return
        across = self._varies(shape, others)
        if not along:
            self.steps.append((int(across), 0))
        elif across or self.layout.rows == 1:
            self.steps.append((self.layout.row_step, self.layout.segment_step))
        elif self.layout.segments == 1 or self.inner:
            self.steps.append((0, self.layout.segment_step))
        else:
            raise NoFormula  # the same in all rows, with segments: its steps differ
        self._add_input(value, along)

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
        raise NoFormula

    def _role(self, value: Value) -> Role:
        return self.roles[self.symbols[value].number]

    def _add_input(self, value: Value, is_element: bool, is_segment: bool = False, is_same: bool = False) -> None:
        self.symbols[value] = self.formula.input()
        self.roles.append(Role(is_element, 0, is_segment=is_segment, is_same=is_same))

    def _add_reading(self, value: Value, op: str, x: Value, is_reduction: bool, is_segment: bool = False) -> None:
        """Add a number that an op reads from the elements of a row or segment."""
        self.symbols[value] = self.formula.node(Node(op, ((NODE, self.symbols[x].number),)))
        self.roles.append(Role(False, self._role(x).level + is_reduction, is_reduction, is_segment))

    def _take(self, instruction: Instruction) -> None:
        name = instruction.op.name
        if len(instruction.results) != 1:
            raise NoFormula
        if (how := _reduction(instruction.op)) is not None:
            (x,) = instruction.arguments
            if not self._role(x).is_element:
                raise NoFormula
            dims = tuple(sorted(d % x.ndim for d in instruction.settings["dim"]))
            is_segment = dims == self.inner != self.dims
            if is_segment and how != "sum":
                raise NoFormula
            self._add_reading(instruction.result, how, x, True, is_segment)
        elif instruction.op.movement == "reshape":
            self._rename(instruction)
        elif name == "getitem":
            self._first(instruction)
        else:
            self._elementwise(instruction)

    def _rename(self, instruction: Instruction) -> None:
        """Take numbers per row in another shape, with or without dimensions of length 1."""
        (x,), out = instruction.arguments, instruction.result
        if x.size != out.size or (self._role(x).is_element and x.shape != out.shape):
            raise NoFormula
        self.symbols[out] = self.symbols[x]

    def _first(self, instruction: Instruction) -> None:
        """Take the first element of each row."""
        (x,), index = instruction.arguments, instruction.settings["index"]
        wanted = [slice(0, 1, 1) if d in self.dims else slice(0, n, 1) for d, n in enumerate(self.shape)]
        if x.shape != self.shape or not self._role(x).is_element or len(index) != len(wanted):
            raise NoFormula
        if any(not isinstance(s, slice) or s.indices(m) != w.indices(m) for s, w, m in zip(index, wanted, self.shape)):
            raise NoFormula
        self._add_reading(instruction.result, "first", x, False)

    def _elementwise(self, instruction: Instruction) -> None:
        name = instruction.op.name
        operation = operation_of(name)
        if operation is None or "f" not in operation.kinds or not is_pointwise(instruction):
            raise NoFormula
        operands: list[Symbol | float] = []
        values: list[Value] = []
        for position, a in enumerate(instruction.arguments):
            if a.__class__ is Value:
                is_mask = position in operation.conditions or instruction.op.of_truths
                if (a.dtype.char == "?") != is_mask:
                    raise NoFormula
                operands.append(self.symbols[a])
                values.append(a)
            elif isinstance(a, (int, float)) and operation.takes_real(position):
                operands.append(float(a))
            else:
                raise NoFormula
        numbers_per_row = [v for v in values if not self._role(v).is_element]
        is_element = len(numbers_per_row) < len(values)
        # Numbers per row are combined with elements if they have kept their dimensions, else with numbers of one shape.
        different = {v.shape for v in numbers_per_row if v.size != 1}
        if (is_element or len(different) > 1) and not all(self._has_kept_dims(v) for v in numbers_per_row):
            raise NoFormula
        self.symbols[instruction.result] = self.formula.apply(name, *operands, **instruction.settings)
        level = max([self._role(v).level for v in values], default=0)
        self.roles.append(Role(is_element, level))

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
    kinds = {f"o{k}": "element" for k, _ in formula.elements}
    kinds |= {f"o{k}": "segment result" for k, _ in formula.segment_sums}
    kinds |= {f"o{k}": "result" for k, _ in formula.row_numbers}
    kinds = {f"o{k}": kinds[f"o{k}"] for k in range(len(kinds))}
    for n in formula.signature.inputs:
        role = formula.roles[n]
        kind = "segment number" if role.is_segment else "element" if role.is_element else "number"
        kinds[f"i{n}"] = f"same {kind}" if role.is_same else kind
    return kinds


def settle(values: Values, formula: RowFormula, level: int) -> None:
    """Compute the numbers per row that are known after so many passes."""
    for n, (node, role) in enumerate(zip(formula.signature.nodes, formula.roles, strict=True)):
        if role.is_element or n in values.numbers or role.level > level or (role.is_reduction and role.is_segment):
            continue
        if node.op == "first":
            values.numbers[n] = values.compute_at("first")(node.operands[0][1])
        elif not role.is_reduction:
            values.numbers[n] = values.compute_at(None)(n)


def terms_of(formula: RowFormula, reductions: Iterable[int]) -> list[int]:
    """Return the nodes that are reduced."""
    return [formula.signature.nodes[n].operands[0][1] for n in reductions]


def _find_kept(formula: RowFormula) -> int:
    """Return the node that the last reduction sums and that results need again, if it is costly; -1 for none.

    It is kept in the memory of the first result until that is written, as the exponentials of softmax are.
    """
    nodes, outputs = formula.signature.nodes, [n for _, n in formula.elements]
    needed, waiting = set(), [*outputs]
    while waiting:
        n = waiting.pop()
        if n not in needed and formula.roles[n].is_element:
            needed.add(n)
            waiting += [m for kind, m in nodes[n].operands if kind == NODE]
    last = [n for found in formula.reductions(formula.levels).values() for n in found]
    for term in terms_of(formula, last):
        if term in needed and term not in outputs and nodes[term].op in FORMULAS:
            return term
    return -1


def write_rows(formula: RowFormula) -> Callable[[Any], None]:
    """Return the function that writes the kernel of a formula, over rows or columns (ndgrad._src.compiler.kernels)."""

    def write(row: Row | Column) -> None:
        def load_input(n: int, at: Any) -> Any:
            name = f"i{n}"
            return row.first_element(name) if at == "first" else row[name] if at is None else at[name]

        signature, elements = formula.signature, formula.elements
        values = Values(row.w, signature, load_input, [row[f"p{n}"] for n in range(signature.numbers)])
        kept = _find_kept(formula)

        def terms_at(at: At | Place, terms: Sequence[int]) -> list[Any]:
            value = values.compute_at(at)
            if kept in terms:
                at.write(f"o{elements[0][0]}", value(kept))
            return [*map(value, terms)]

        for level in range(formula.levels + 1):
            for how, found in formula.reductions(level).items():
                made = row.reduce(how, partial(terms_at, terms=terms_of(formula, found)), len(found))
                values.numbers.update(zip(found, made, strict=True))
            settle(values, formula, level)

        def last_pass(at: At | Place) -> None:
            known = {} if kept < 0 else {kept: at[f"o{elements[0][0]}"]}
            value = values.compute_at(at, known)
            for k, n in elements:
                at.write(f"o{k}", value(n))

        if sums := formula.segment_sums:
            assert isinstance(row, Row)  # columns have no segments
            terms = terms_of(formula, [n for _, n in sums])
            row.reduce_segments(lambda at: [*map(values.compute_at(at), terms)], [f"o{k}" for k, _ in sums])
        if elements:
            row.each(last_pass)
        for k, n in formula.row_numbers:
            row.store(values.numbers[n], f"o{k}")

    return write
