"""The functions of a program's steps, collected into one module.

A step is written into a function that is given a table of addresses, `%table`: one for each value that has memory, by
its slot, and behind them that of the buffer into which matrix products pack, and that of the sums of pieces of a row.
Work that is large enough is handed to the pool's workers in pieces.

A long program has many kernels that are alike: layers of one kind, the update of each parameter. LLVM takes some 20 ms
for a kernel, so there the functions of kernels are given tables of their own, with the addresses of their own values
alone, and those whose text is the same are one function.
"""

from __future__ import annotations

from ndgrad.arrays import threads as allowed
from ndgrad.compiler.kernels import arrays, maths
from ndgrad.compiler.lower.group import Call, Groups, Kernel, Step
from ndgrad.compiler.lower.loops import Loop
from ndgrad.compiler.lower.nests import Nest
from ndgrad.compiler.lower.products import Product, symbols
from ndgrad.compiler.lower.routines import Phase, Routine
from ndgrad.compiler.lower.templates import Sizes
from ndgrad.compiler.native import pool
from ndgrad.compiler.native.ir import Function, Vector, element_of, module
from ndgrad.compiler.native.target import Target
from ndgrad.compiler.program import Value

#: The floating-point operations of a matrix product from which on it is shared among threads.
_SHARED_FLOPS = 500_000
#: The machine instructions of a phase of a routine from which on it is.
_SHARED_COST = 100_000
#: The addresses in a kernel's own table, at most.
_OWN = 254

Slots = dict[Value, int]


class Assembly:
    """A module that is being written."""

    def __init__(
        self, target: Target, threads: int | None = None, sizes: Sizes = frozenset(), is_long: bool = False
    ) -> None:
        """`sizes`: those that vary between programs which share this code; `is_long`: whether the time of compiling
        counts more than some nanoseconds of each step."""
        self.target = target
        self.sizes = sizes
        self.is_long = is_long
        #: the functions of kernels by their text, and where segments build tables for them
        self._alike: dict[str, str] = {}
        self._tables: dict[Function, str] = {}
        #: the threads that the program may use
        self.threads = allowed.max_threads if threads is None else min(threads, allowed.max_threads)
        self.functions: list[Function | str] = []
        self.kernels: list[Nest] = []
        self.products: list[Product] = []
        self.loops: list[Loop] = []
        self.routines: list[Routine] = []
        self.phases: set[str] = set()
        #: the addresses of functions of other modules
        self.outside: dict[str, int] = {}
        #: bytes for matrix products to pack into, and for the sums of pieces of a row
        self.buffer = self.sums = 0

    def text(self) -> str:
        """The text of the module."""
        own = [f for f in self.functions if isinstance(f, Function)]
        if self.is_long:
            for f in own:  # LLVM would make long functions of short ones, which takes longer
                f.attributes = "noinline"
        needed = [pair for f in own for pair in f.needed]
        return module([*self.functions, *maths.library(needed, self.target)])

    def function(self, name: str) -> Function:
        """A new function void name(ptr table)."""
        made = Function(name, "ptr %table")
        self.functions.append(made)
        return made

    def steps(self, f: Function, groups: Groups, slots: Slots) -> None:
        """Write steps, none of them a call of NumPy's."""
        waiting = set(groups.cleared)
        for step in groups.steps:
            self.step(f, step, slots, waiting)

    def step(self, f: Function, step: Step, slots: Slots, waiting: set[Value]) -> None:
        """Write one step; `waiting` is the memory that is to be cleared before its first step."""
        assert not isinstance(step, Call)
        for value in sorted(step.touched() & waiting, key=slots.__getitem__):
            waiting.remove(value)
            self._clear(f, slots[value], value)
        if isinstance(step, Product):
            self._product(f, step, slots)
        elif isinstance(step, Routine):
            self._routine(f, step, slots)
        elif isinstance(step, Loop):
            self._loop(f, step, slots)
        else:
            self._kernel(f, step, slots)

    def _kernel(self, f: Function, kernel: Kernel, slots: Slots) -> None:
        """Run a kernel: at once, or in pieces by the workers."""
        own = {value: n for n, value in enumerate(kernel.touched())} if self.is_long else slots
        table = "%table"
        if len(own) > _OWN:
            own = slots
        elif own is not slots:
            table = self._own_table(f, [*[slots[value] for value in own], len(slots), len(slots) + 1])
        nest = Nest(kernel, f"kernel{len(self.kernels)}", self.target, own, self.sizes)
        self.kernels.append(nest)
        name = self._once(nest.function())
        for value in kernel.targets:
            if not (nest.splits_sums and value in nest.shared):
                nest.begin(f, pointer(f, slots[value]), value)
        pieces, stride = -(-nest.extent // nest.grain), nest.piece_bytes
        self.sums = max(self.sums, stride * pieces)
        sums = pointer(f, len(slots) + 1) if stride else "null"
        if pieces == 1 and not nest.any_extent:
            f.call_void(name, f"ptr {table}", "i64 0", f"i64 {nest.extent}", f"ptr {sums}")
        else:
            work = Function(f"{nest.name}.piece", "ptr %table, i64 %chunk, i64 %worker")
            begin = work.mul("%chunk", nest.grain)
            end = work.least(work.add(begin, nest.grain), nest.extent)
            place = work.ahead(pointer(work, len(own) + 1), work.mul("%chunk", stride)) if stride else "null"
            work.call_void(name, "ptr %table", f"i64 {begin}", f"i64 {end}", f"ptr {place}")
            work.returns()
            self._share(f, self._once(work), pieces, table)
        if stride:
            f.call_void(self._once(nest.last_function()), f"ptr {table}", f"ptr {sums}", f"i64 {pieces}")

    def _once(self, function: Function) -> str:
        """The name of a function of a kernel, which is added unless there is another of the same text."""
        if not self.is_long:
            self.functions.append(function)
            return function.name
        text = f"{function.parameters}\n{function.body()}"
        known = self._alike.setdefault(text, function.name)
        if known == function.name:
            self.functions.append(function)
        return known

    def _own_table(self, f: Function, slots: list[int]) -> str:
        """A table with some of the addresses, for a function that a segment calls; it lasts until the next one."""
        memory = self._tables.get(f)
        if memory is None:
            if not self._tables:
                self.functions.append(_picking())
            memory = self._tables[f] = f.set(f"alloca [{_OWN + 3} x ptr], align 16")
        name = f"slots{len(self.kernels)}"
        numbers = ", ".join(f"i64 {n}" for n in slots)
        self.functions.append(f"@{name} = internal constant [{len(slots)} x i64] [{numbers}]")
        f.call_void("pick", "ptr %table", f"ptr @{name}", f"i64 {len(slots)}", f"ptr {memory}")
        return f.address("ptr", memory, "1")

    def _product(self, f: Function, step: Product, slots: Slots) -> None:
        name = f"product{len(self.products)}"
        self.products.append(step)
        self.outside.update(symbols(step.element))
        alone = step.chunks == 1 or step.flops < _SHARED_FLOPS or self.threads == 1
        self.functions += step.functions(name, slots, alone)
        self.buffer = max(self.buffer, step.buffer_bytes * self.threads)
        if alone:
            f.call_void(name, "ptr %table", "i64 0", "i64 0")
        else:
            self._share(f, name, step.chunks)

    def _routine(self, f: Function, step: Routine, slots: Slots) -> None:
        name = f"routine{len(self.routines)}"
        self.routines.append(step)
        self.buffer = max(self.buffer, step.buffer_bytes * self.threads)
        self.functions += step.functions(name, slots, self._phase)
        f.call_void(name, "ptr %table")

    def _phase(self, f: Function, argument: str, phase: Phase) -> None:
        """Run a phase of a routine, whose words stand at an address: at once, or chunk by chunk by the workers."""
        outside = f"{phase.function}_{phase.element}"
        self.outside[outside] = arrays.code(phase.kind, phase.element).address(f"{phase.function}_work")
        work = f"{outside}.chunk"
        if work not in self.phases:  # a function of this module, whose address can be taken
            self.phases.add(work)
            chunk = Function(work, "ptr %argument, i64 %chunk, i64 %worker")
            chunk.call_outside(outside, "ptr %argument", "i64 %chunk", "i64 %worker")
            chunk.returns()
            self.functions.append(chunk)
        if phase.chunks == 1 or phase.cost < _SHARED_COST:
            with f.loop(str(phase.chunks)) as i:
                f.call_void(work, f"ptr {argument}", f"i64 {i}", "i64 0")
        else:
            self._share(f, work, phase.chunks, argument)

    def _loop(self, f: Function, step: Loop, slots: Slots) -> None:
        name = f"loop{len(self.loops)}"
        self.loops.append(step)
        body = self.function(f"{name}.body")
        self.steps(body, step.groups, step.slots)
        body.returns()
        around = self.function(name)
        step.write(around, body.name, slots)
        f.call_void(name, "ptr %table")

    def _share(self, f: Function, work: str, pieces: int, argument: str = "%table") -> None:
        """Let the workers do pieces of work."""
        self.outside.update(pool.symbols())
        f.call_outside("ndgrad_run", f"ptr @{work}", f"ptr {argument}", f"i64 {pieces}", f"i64 {self.threads}")

    def _clear(self, f: Function, slot: int, value: Value) -> None:
        """Let memory begin as zeros."""
        start = pointer(f, slot)
        if value.size == 1:
            kind = Vector(element_of(value.dtype))
            f.store(kind, kind.constant(0), start)
        else:
            f.call_void("llvm.memset.p0.i64", f"ptr {start}", "i8 0", f"i64 {value.nbytes}", "i1 false")


def _picking() -> Function:
    """void pick(table, slots, count, own): some of the addresses of a table, behind that of the parameters."""
    f = Function("pick", "ptr %all, ptr %slots, i64 %count, ptr %own")
    parameters = f.set(f"load ptr, ptr {f.address('ptr', '%all', '-1')}")
    f.do(f"store ptr {parameters}, ptr %own")
    first = f.address("ptr", "%own", "1")
    with f.loop("%count") as i:
        slot = f.set(f"load i64, ptr {f.address('i64', '%slots', i)}")
        address = f.set(f"load ptr, ptr {f.address('ptr', '%all', slot)}")
        f.do(f"store ptr {address}, ptr {f.address('ptr', first, i)}")
    f.returns()
    return f


def pointer(f: Function, slot: int) -> str:
    """An address in the table."""
    return f.set(f"load ptr, ptr {f.address('ptr', '%table', str(slot))}")
