"""Group instructions into kernels.

Instructions are taken in order. Views become places. An elementwise op joins a kernel over the same index space if each
of its operands is a register of that kernel, element by element, or memory that an earlier step has finished. A chain
of elementwise ops is therefore one kernel that reads its inputs once and writes its outputs once. Ops without a kernel
are calls of NumPy's functions between kernels.

Note [Rows]
A reduction of trailing dimensions divides the space of a kernel into rows. Its result is a number per row, known at the
end of the row. Values that depend on it, whether numbers per row or elements, can join the same kernel in a later
*stage*: the row is read again while it is in the cache. So softmax, layer norm, cross entropy and their gradients are
one kernel each. Elements that a later stage reads are kept in a scratch row. Other reductions are accumulated in
memory, and complete when the kernel ends.

Steps run in the order of the list. An instruction may join a kernel that other steps already follow, since these cannot
depend on it.
"""

from __future__ import annotations

from math import prod

from ndgrad._src.compiler.lower import pointwise
from ndgrad._src.compiler.lower.capabilities import NATIVE, Abilities
from ndgrad._src.compiler.lower.components import Components
from ndgrad._src.compiler.lower.image_layouts import kept_in_order, needed_in_order
from ndgrad._src.compiler.lower.loops import Loop, can_read, lowered_loop
from ndgrad._src.compiler.lower.memory_places import Place, contiguous, whole
from ndgrad._src.compiler.lower.products import Product, is_product, product
from ndgrad._src.compiler.lower.routines import Images, Routine, last_order, routine
from ndgrad._src.compiler.lower.steps import Call, Groups, Item, Kernel, Step
from ndgrad._src.compiler.lower.value_assembly import Parts, parts_of
from ndgrad._src.compiler.program.program import Instruction, Program, Value
from ndgrad._src.ops.vocabulary import find

#: Maximum number of instructions in one kernel, because of its compile time.
_LONGEST = 4000
#: Maximum number of recent steps that an instruction may join.
_NEWEST = 512


def grouped(program: Program, abilities: Abilities = NATIVE) -> Groups:
    """Return the steps of a program, for kernels with these features."""
    return _Grouping(program, abilities).done()


class _Grouping:
    def __init__(self, program: Program, abilities: Abilities) -> None:
        self.program = program
        self.abilities = abilities
        self.steps: list[Step] = []
        self.places: dict[Value, Place] = {v: whole(v) for v in (*program.inputs, *program.constants)}
        #: the step after which a root can be read from memory; -1 for roots that exist from the beginning
        self.ready: dict[Value, int] = dict.fromkeys((*program.inputs, *program.constants), -1)
        #: the number of the kernel that computes a root
        self.kernel_of: dict[Value, int] = {}
        self.cleared: set[Value] = set()
        #: the number of the last step that is a call
        self.last_call = -1
        #: the order of dimensions in memory, for values that are stored in another order
        self.orders: dict[Value, tuple[int, ...]] = {}
        self.in_order = needed_in_order(program) if abilities.has_routines else set()
        #: copies made by reshapes, by the place that they read
        self.copies: dict[Place, Value] = {}
        self.definitions = program.definitions()
        self.components = Components(program, abilities.is_pointwise)
        for instruction in _numbers_first(program, abilities):
            self._take(instruction)
        if abilities.has_routines:
            self._own_outputs()

    def _take(self, instruction: Instruction) -> None:
        op, can = instruction.op, self.abilities
        if (op.view or op.shares_storage or op.name in ("conj", "unsafe_view")) and self._view(instruction):
            return
        if can.is_pointwise(instruction) and instruction.result.size:
            self._join(instruction, instruction.result.shape)
        elif can.is_reduction(instruction) and self._reduce(instruction):
            pass
        elif (
            op.name in ("reshape", "unsafe_view")
            and can.is_type(instruction.result.dtype)
            and instruction.result.size
        ):
            self._copy_in_order(instruction)
        elif (parts := parts_of(instruction, can.is_type)) is not None:
            self._assemble(instruction, parts)
        elif not can.has_routines:
            self._call(instruction)
        elif (op.name == "loop" or (op.name == "while" and "most" in instruction.settings)) and self._loop(
            instruction
        ):
            pass
        elif is_product(instruction):
            a, b = (self.places[v] for v in instruction.arguments)
            self._add(product(instruction, a, b), instruction)
        elif (step := routine(instruction, self._images())) is not None:
            self._add(step, instruction)
            self.places.update(step.places)
            for place in step.places.values():
                self.ready[place.root] = len(self.steps) - 1
                if not place.is_whole:
                    self.orders[place.root] = last_order(len(place.shape))
        else:
            self._call(instruction)

    def _call(self, instruction: Instruction) -> None:
        reads = [self.places[a] if a.__class__ is Value else None for a in instruction.arguments]
        self.last_call = len(self.steps)
        self._add(Call(instruction, reads), instruction)

    def _copy_in_order(self, instruction: Instruction) -> None:
        """Add a reshape that strides cannot express: a copy, or a view of an earlier copy."""
        source = next(instruction.values())
        place = self.places[source]
        known = self.copies.get(place)
        if known is None:
            self._join(instruction, source.shape, tuple(range(source.ndim)))
            self.copies[place] = instruction.result
            return
        found = self.places[known].reshaped(instruction.result.shape)
        assert found is not None  # a copy is contiguous
        self.places[instruction.result] = found

    def _view(self, instruction: Instruction) -> bool:
        source = next(instruction.values())
        if not source.size:
            return False
        found = [self.places[source].viewed(instruction, i) for i in range(len(instruction.results))]
        for value, place in zip(instruction.results, found, strict=True):
            if place is None:
                return False
            self.places[value] = place
        return True

    def _own_outputs(self) -> None:
        """Give each output memory of its own, in the order of its dimensions.

        An output in another order, a part, or memory of an input or another output is copied by a kernel, not by Python
        after the call.
        """
        taken = {*self.program.inputs, *self.program.constants}
        for value in self.program.outputs:
            place = self.places[value]
            if place.is_whole and place.root not in taken:
                taken.add(place.root)
            elif place.root in self.orders or (self.abilities.is_type(value.dtype) and value.size):
                if place.root in self.orders or not self._put_in_order(value):
                    self.places[value] = self.places[self._copied(value, tuple(range(value.ndim)))]
                taken.add(self.places[value].root)

    def _put_in_order(self, value: Value) -> bool:
        """Let the kernel that computes an output in another order of dimensions also write it in its own order, so that
        no other kernel has to read it again.
        """
        place = self.places[value]
        number = self.kernel_of.get(place.root)
        order = sorted(range(value.ndim), key=lambda d: -place.strides[d])
        if number is None or place.is_whole or not place.permuted(order).is_whole:
            return False
        kernel, copied = self.steps[number], Value(value.shape, value.dtype)
        assert isinstance(kernel, Kernel)
        target = whole(copied).permuted(order).reshaped(kernel.shape)
        if target is None or place.root in kernel.targets or place.root in kernel.row_values:
            return False
        kernel.puts.append((place.root, target))
        self.places[value] = whole(copied)
        return True

    # ----- orders of dimensions ---------------------------------------------------------------------------------------

    def _images(self) -> Images:
        return Images(self._memory, self._lies_last, lambda value: value not in self.in_order, self.definitions.get)

    def _lies_last(self, value: Value) -> bool:
        place = self.places[value]
        return not place.is_whole and place.permuted(last_order(value.ndim)).is_whole

    def _memory(self, value: Value, last: bool) -> Value:
        """Return memory that holds all of a value in the order of its dimensions, or with channels last: its own, or
        that of a copy.
        """
        order = last_order(value.ndim) if last else tuple(range(value.ndim))
        place = self.places[value]
        if place.permuted(order).is_whole:
            return place.root
        return self.places[self._copied(value, order)].root

    def _copied(self, value: Value, order: tuple[int, ...]) -> Value:
        """Return a copy of a value, with its dimensions in a given order in memory."""
        copied = Value(value.shape, value.dtype)
        self._join(Instruction(find("clone"), (value,), {}, (copied,)), value.shape, order)
        return copied

    def _order(self, reads: list[Place | None], shape: tuple[int, ...]) -> tuple[int, ...]:
        """Return the order of dimensions in which an elementwise op reads its arguments and stores its result."""
        for place in reads:
            if place is not None and place.root in self.orders and place.shape == shape:
                order = self.orders[place.root]
                if len(order) == len(shape) and place.permuted(order).is_whole:
                    return order
        return tuple(range(len(shape)))

    def _add(self, step: Product | Loop | Routine | Call, instruction: Instruction) -> None:
        """Add a step that leaves the results of an instruction in memory."""
        for value in instruction.results:
            self.places[value] = whole(value)
            self.ready[value] = len(self.steps)
        self.steps.append(step)

    def _loop(self, instruction: Instruction) -> bool:
        """Add a native loop, after bringing its arguments into an order that the body can read."""
        settings = instruction.settings
        rows = settings["carried"] + settings["invariant"]
        if any(a.__class__ is not Value or not a.size for a in instruction.arguments):
            return False
        reads = [self.places[a] for a in instruction.arguments]
        loop = lowered_loop(instruction, reads, grouped)
        if loop is None:
            return False
        for i, value in enumerate(instruction.arguments):
            if not can_read(reads[i], i >= rows):
                loop.reads[i] = self.places[self._copied(value, tuple(range(value.ndim)))]
        self._add(loop, instruction)
        return True

    def _assemble(self, instruction: Instruction, parts: Parts) -> None:
        """Write values into parts of a result, in the kernels that compute them if possible."""
        result, last = instruction.result, -1
        if not parts.covers:
            self.cleared.add(result)
        self.places[result] = whole(result)
        for value, target in parts.values:
            last = max(last, self._put_part(value, target, last + 1 if parts.in_order else 0))
        self.ready[result] = last

    def _put_part(self, value: Value, target: Place, earliest: int) -> int:
        """Write a value into a part of another. Return the number of the step that does."""
        place = self.places[value].broadcast(target.shape)
        number = self.kernel_of.get(place.root)
        if number is not None and number >= earliest and place.is_whole:
            kernel = self.steps[number]
            assert isinstance(kernel, Kernel)
            moved = target if target.shape == kernel.shape else target.reshaped(kernel.shape)
            if moved is not None and place.root not in kernel.row_values and place.root not in kernel.targets:
                kernel.puts.append((place.root, moved))
                return number
        copied = Value(target.shape, value.dtype)
        item = Item(Instruction(find("clone"), (value,), {}, (copied,)), [place])
        number = self._beside(target, place, earliest)
        if number is None:
            number = len(self.steps)
            self.steps.append(Kernel(target.shape))
        self._put(number, item)
        kernel = self.steps[number]
        assert isinstance(kernel, Kernel)
        kernel.puts.append((copied, target))
        return number

    def _beside(self, target: Place, place: Place, earliest: int) -> int | None:
        """Return the kernel that writes the elements between those of a part, if it may read a place.

        Both are then written as whole vectors, as with the parts of complex numbers.
        """
        if not target.strides or target.strides[-1] != 2:
            return None
        for number in range(max(earliest, self._earliest([place])), len(self.steps)):
            kernel = self.steps[number]
            if isinstance(kernel, Kernel) and kernel.shape == target.shape and place.root not in kernel.computed:
                if any(put.root is target.root and put.strides == target.strides for _, put in kernel.puts):
                    return number
        return None

    # ----- kernels ----------------------------------------------------------------------------------------------------

    def _join(self, instruction: Instruction, shape: tuple[int, ...], order: tuple[int, ...] | None = None) -> None:
        """Add an elementwise op to the first kernel that can take it, or to a new one, with its dimensions in a given
        order or in that of its arguments.
        """
        reads = [self.places[a].broadcast(shape) if a.__class__ is Value else None for a in instruction.arguments]
        order = self._order(reads, shape) if order is None else order
        if order != tuple(range(len(shape))):
            shape = tuple([shape[d] for d in order])
            reads = [None if place is None else place.permuted(order) for place in reads]
            result, root = instruction.result, Value(shape, instruction.result.dtype)
            self._place(
                Instruction(instruction.op, instruction.arguments, instruction.settings, (root,), instruction.where),
                shape,
                reads,
            )
            self.orders[root] = order
            self.places[result] = whole(root).permuted(tuple([order.index(d) for d in range(len(order))]))
            return
        self._place(instruction, shape, reads)

    def _place(self, instruction: Instruction, shape: tuple[int, ...], reads: list[Place | None]) -> None:
        part = self.components.of(instruction.result)
        streams = self.components.streams.get(part, 1)
        for number in self._candidates(reads):
            kernel = self.steps[number]
            if isinstance(kernel, Kernel) and len(kernel.items) < _LONGEST and self._may_have(kernel, part, streams, reads):
                item = self._as_row(kernel, instruction, reads) or self._as_element(kernel, instruction, shape, reads)
                if item is not None:
                    kernel.parts[part] = streams
                    self._put(number, item)
                    return
        self.steps.append(Kernel(shape, parts={part: streams}))
        self._put(len(self.steps) - 1, Item(instruction, reads))

    def _may_have(self, kernel: Kernel, part: Value, streams: int, reads: list[Place | None]) -> bool:
        """True if an op shares a component with a kernel, or if the kernel has few other ops."""
        if part in kernel.parts or any(place is not None and place.root in kernel.computed for place in reads):
            return True
        return sum(kernel.parts.values()) + streams <= self.abilities.streams

    def _reduce(self, instruction: Instruction) -> bool:
        """Add a reduction to the kernel that computes its argument, or to a new one. Return False if neither is
        possible.
        """
        source = next(instruction.values())
        shape, dims = source.shape, pointwise.reduced_dims(instruction)
        place = self.places[source]
        order = self._order([place], shape)
        if order != tuple(range(len(shape))) and kept_in_order(order, dims):
            place, shape, dims = (
                place.permuted(order),
                tuple([shape[d] for d in order]),
                tuple(sorted(order.index(d) for d in dims)),
            )
        kept = len(shape) - len(dims)
        trailing = all(d >= kept or shape[d] == 1 for d in dims) and all(
            d in dims or shape[d] == 1 for d in range(kept, len(shape))
        )
        if trailing:
            rows = (*shape[:kept], prod(shape[kept:]))
            read = place.reshaped(rows) if len(dims) != 1 else place
            if read is not None:
                self._reduce_rows(instruction, rows, read)
                return True
        return self._add_along(instruction, shape, dims, place)

    def _reduce_rows(self, instruction: Instruction, rows: tuple[int, ...], read: Place) -> None:
        """Add a reduction of trailing dimensions, which `rows` merges to one, to a kernel."""
        kept = len(rows) - 1
        for number in self._candidates([read]):
            kernel = self.steps[number]
            if isinstance(kernel, Kernel) and kernel.rows in (None, kept) and _reshape(kernel, rows):
                item = self._as_element(kernel, instruction, rows, [read])
                if item is not None:
                    kernel.rows = kept
                    kernel.row_values.add(instruction.result)
                    self._put(number, item)
                    return
        self.steps.append(Kernel(rows, kept, row_values={instruction.result}))
        self._put(len(self.steps) - 1, Item(instruction, [read]))

    def _add_along(
        self, instruction: Instruction, shape: tuple[int, ...], dims: tuple[int, ...], place: Place
    ) -> bool:
        """Add a reduction of other dimensions to a kernel, which accumulates in memory. Return False if there is none.
        """
        may_add = self.abilities.may_add
        if pointwise.is_float_product(instruction) or not may_add(Kernel(shape), dims):
            return False
        target = _target(instruction, shape, dims)
        for number in self._candidates([place]):
            kernel = self.steps[number]
            if not isinstance(kernel, Kernel) or not self._has_space(kernel, shape):
                continue
            if may_add(kernel, dims):
                item = self._as_element(kernel, instruction, shape, [place])
                if item is not None:
                    kernel.targets[instruction.result] = target
                    self._put(number, item)
                    return True
        self.steps.append(Kernel(shape, targets={instruction.result: target}))
        self._put(len(self.steps) - 1, Item(instruction, [place]))
        return True

    def _candidates(self, reads: list[Place | None]) -> range:
        """Return the steps that readers of these places could join, the preferred ones first.

        If instructions are sunk, the latest step comes first, and none before the last call, because a result would lie
        in memory between that call and here. Only the newest of very many steps are considered, since a full search
        takes quadratic time.
        """
        earliest, end = self._earliest(reads), len(self.steps)
        if not self.abilities.is_sunk:
            return range(max(earliest, end - _NEWEST), end)
        return range(end - 1, max(earliest, self.last_call + 1) - 1, -1)

    def _has_space(self, kernel: Kernel, shape: tuple[int, ...]) -> bool:
        """True if a kernel has the index space of a shape, or can take it."""
        return kernel.shape == shape or (self.abilities.is_sunk and _reshape(kernel, shape))

    def _earliest(self, reads: list[Place | None]) -> int:
        """Return the first step that readers of these places could join: the one that computes them, or the next."""
        earliest = 0
        for place in reads:
            if place is not None:
                number = self.kernel_of.get(place.root)
                earliest = max(earliest, self.ready[place.root] + 1 if number is None else number)
        return earliest

    def _as_element(
        self, kernel: Kernel, instruction: Instruction, shape: tuple[int, ...], reads: list[Place | None]
    ) -> Item | None:
        """Return an instruction as an item over all indices of a kernel; None if it cannot be one."""
        if kernel.size != prod(shape):
            return None
        stage = 0
        placed: list[Place | None] = []
        for place in reads:
            if place is None:
                placed.append(None)
                continue
            before = kernel.computed.get(place.root)
            if before is None:
                if place.shape != kernel.shape:
                    place = place.reshaped(kernel.shape)
                    if place is None:
                        return None
            elif place.root in kernel.targets:
                return None
            elif place.root in kernel.row_values:
                found = place if place.shape == kernel.shape else place.reshaped(kernel.shape)
                if found is None or not _is_per_row(kernel, found):
                    return None
                stage = max(stage, before.stage + 1)
            elif not place.is_whole:
                return None
            else:
                stage = max(stage, before.stage)
            placed.append(place)
        if stage and not self._may_wait(kernel, stage, placed):
            return None
        return Item(instruction, placed, stage)

    def _may_wait(self, kernel: Kernel, stage: int, reads: list[Place | None]) -> bool:
        """True if the rows of a kernel are short enough to be read again."""
        row = kernel.shape[-1]
        earlier = {
            p.root for p in reads if p is not None and p.root in kernel.computed and p.root not in kernel.row_values
        }
        earlier = {v for v in earlier if kernel.computed[v].stage < stage} | kernel.scratch
        return self.abilities.may_keep(row, sum(row * v.dtype.itemsize for v in earlier), len(earlier))

    def _as_row(self, kernel: Kernel, instruction: Instruction, reads: list[Place | None]) -> Item | None:
        """Return an instruction as an item over the rows of a kernel, computed from its numbers per row."""
        if kernel.rows is None or instruction.result.size != prod(kernel.row_shape):
            return None
        if not any(place is not None and place.root in kernel.row_values for place in reads):
            return None
        stage = 0
        placed: list[Place | None] = []
        for argument in instruction.arguments:
            if argument.__class__ is not Value:
                placed.append(None)
                continue
            place = self.places[argument]
            if place.root in kernel.computed:
                if place.root not in kernel.row_values or not place.is_whole:
                    return None
                stage = max(stage, kernel.computed[place.root].stage)
                placed.append(place)
                continue
            found = place.broadcast(instruction.result.shape).reshaped(kernel.row_shape)
            if found is None:
                return None
            placed.append(Place(found.root, found.offset, kernel.shape, (*found.strides, 0)))
        return Item(instruction, placed, stage, per_row=True)

    def _put(self, number: int, item: Item) -> None:
        kernel = self.steps[number]
        assert isinstance(kernel, Kernel)
        result = item.instruction.result
        kernel.items.append(item)
        kernel.computed[result] = item
        if item.per_row:
            kernel.row_values.add(result)
        for place in item.reads:
            if place is not None and place.root in kernel.computed and place.root not in kernel.row_values:
                if kernel.computed[place.root].stage < item.stage:
                    kernel.scratch.add(place.root)
        self.places[result] = whole(result)
        self.kernel_of[result] = number

    def done(self) -> Groups:
        """Let each kernel store the values that are read from memory, and return the groups."""
        wanted: set[Value] = {self.places[v].root for v in self.program.outputs}
        for step in self.steps:
            if isinstance(step, Call):
                wanted.update(p.root for p in step.reads if p is not None)
            elif isinstance(step, Product):
                wanted.update((step.a.root, step.b.root))
            elif isinstance(step, Loop):
                wanted.update(p.root for p in step.reads)
            elif isinstance(step, Routine):
                wanted.update(step.reads)
            elif isinstance(step, Kernel):
                wanted.update(
                    p.root for item in step.items for p in item.reads if p is not None and p.root not in step.computed
                )
        for step in self.steps:
            if isinstance(step, Kernel):
                step.stores = [v for v in step.computed if v in wanted and v not in step.targets]
        return Groups(self.steps, self.places, self.cleared)


def _numbers_first(program: Program, abilities: Abilities) -> list[Instruction]:
    """Move single numbers that depend on nothing else to the front, so that a kernel need not wait for them."""
    known = {*program.inputs, *program.constants}
    first, rest = [], []
    for instruction in program.instructions:
        values = list(instruction.values())
        is_number = all(v.size == 1 for v in (*values, *instruction.results)) and abilities.is_pointwise(instruction)
        if is_number and known.issuperset(values):
            first.append(instruction)
            known.update(instruction.results)
        else:
            rest.append(instruction)
    return [*first, *rest]


def _is_per_row(kernel: Kernel, place: Place) -> bool:
    """True if a place over a kernel's space reads a number per row in the order of the rows."""
    if place.offset or place.root.size != prod(kernel.row_shape):
        return False
    expected = [*contiguous(kernel.row_shape), 0]
    return all(n == 1 or s == e for n, s, e in zip(kernel.shape, place.strides, expected, strict=True))


def _reshape(kernel: Kernel, shape: tuple[int, ...]) -> bool:
    """Give a kernel another space of as many indices, if all its reads and writes allow it."""
    if kernel.shape == shape:
        return True
    if kernel.size != prod(shape) or kernel.rows is not None or kernel.targets:
        return False
    moved = []
    for item in kernel.items:
        reads = []
        for place in item.reads:
            if place is not None and place.root not in kernel.computed:
                place = place.reshaped(shape)
                if place is None:
                    return False
            reads.append(place)
        moved.append(reads)
    puts = [(value, place.reshaped(shape)) for value, place in kernel.puts]
    if any(place is None for _, place in puts):
        return False
    kernel.puts = puts  # type: ignore[assignment]  # none is None
    for item, reads in zip(kernel.items, moved, strict=True):
        item.reads = reads
    kernel.shape = shape
    return True


def _target(instruction: Instruction, shape: tuple[int, ...], dims: tuple[int, ...]) -> Place:
    """Return the place in the result of a reduction to which each element of its argument is added."""
    kept = [1 if d in dims else n for d, n in enumerate(shape)]
    strides = [0 if d in dims else s for d, s in enumerate(contiguous(tuple(kept)))]
    return Place(instruction.result, 0, shape, tuple(strides))
