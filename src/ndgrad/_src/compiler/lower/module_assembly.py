"""Collect the functions of a program's steps into one module.

A step is written into a function that takes a table of addresses, `%table`. The table has an address for each value in
memory, by its slot. After these come the buffer into which matrix products pack, and the sums of pieces of a row. Large
work is handed to the pool's workers in pieces.

A long program has many similar kernels: layers of one kind, the update of each parameter. LLVM takes some 20 ms for a
kernel. In a long program, the functions of kernels therefore take their own tables, with only the addresses of their
own values, and functions with the same text are merged.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Sequence
from typing import NamedTuple

from ndgrad._src.arrays import threads as allowed
from ndgrad._src.compiler.kernels import arrays, maths
from ndgrad._src.compiler.lower.epilogues import SHARED_COST, Block, block_of_images
from ndgrad._src.compiler.lower.loop_nests import Blocks, Nest
from ndgrad._src.compiler.lower.loops import Loop
from ndgrad._src.compiler.lower.products import Product, symbols
from ndgrad._src.compiler.lower.routines import Phase, Routine
from ndgrad._src.compiler.lower.steps import Call, Chain, Finished, Groups, Kernel, Step
from ndgrad._src.compiler.lower.templates import Sizes
from ndgrad._src.compiler.native import pool
from ndgrad._src.compiler.native.ir import Function, Vector, element_of, module
from ndgrad._src.compiler.native.target import Target
from ndgrad._src.compiler.program.program import Value

#: Maximum number of addresses in a kernel's own table.
_OWN = 254
#: Number of pieces of a wave of many steps. Minimum cost of a shared wave, in instructions on single elements (a third
#: of a nanosecond each), and the cost of a floating-point operation of a product.
_WAVE_PIECES = 64
_SHARED_WAVE = 60_000
_COST_OF_FLOP = 0.05
#: Minimum floating-point operations of a product that workers share.
_SHARED_FLOPS = 500_000
#: Cost of packing an element ahead of a product.
_COST_OF_PACKING = 0.5

Slots = dict[Value, int]


def threads_of(asked: int | None) -> int:
    """Return the number of threads that a program may use: the requested number, if allowed."""
    return allowed.max_threads if asked is None else min(asked, allowed.max_threads)


class _Task(NamedTuple):
    """Work for the pool: void work(ptr table, i64 chunk, i64 worker), the number of chunks, and the approximate number
    of instructions.
    """

    work: str
    pieces: int
    cost: int
    #: start of its own table in the memory of a wave; None for the program's table
    table: int | None = None
    nest: Nest | None = None


class Assembly:
    """A module under construction."""

    def __init__(
        self, target: Target, threads: int | None = None, sizes: Sizes = frozenset(), is_long: bool = False
    ) -> None:
        """Start a module; `sizes` vary between programs that share this code, and `is_long` favours compile time over
        some nanoseconds per step.
        """
        self.target = target
        self.sizes = sizes
        self.is_long = is_long
        #: the functions of kernels by their text, and the memory in which segments build tables for them
        self._alike: dict[str, str] = {}
        self._tables: dict[Function, str] = {}
        self._picks = False
        #: the threads that the program may use
        self.threads = threads_of(threads)
        self.functions: list[Function | str] = []
        self.kernels: list[Nest] = []
        self.products: list[Product] = []
        self.loops: list[Loop] = []
        self.routines: list[Routine] = []
        self.phases: set[str] = set()
        self.waves = self.chains = 0
        #: the addresses of functions of other modules
        self.outside: dict[str, int] = {}
        #: bytes for matrix products to pack into, and for the sums of pieces of a row
        self.buffer = self.sums = 0

    def text(self, entries: Collection[str]) -> str:
        """Return the text of the module; `entries` are the functions that others call."""
        own = [f for f in self.functions if isinstance(f, Function)]
        for f in own:
            if f.name not in entries:
                # Inline a function into its only caller, with the bounds of that call. In a long program LLVM would
                # merge the many functions into one, which takes longer than all of them.
                f.linkage, f.attributes = "internal", "noinline" if self.is_long else "alwaysinline"
        needed = [pair for f in own for pair in f.needed]
        return module([*self.functions, *maths.library(needed, self.target)])

    def function(self, name: str) -> Function:
        """Return a new function void name(ptr table)."""
        made = Function(name, "ptr %table")
        self.functions.append(made)
        return made

    def steps(self, f: Function, groups: Groups, slots: Slots) -> None:
        """Write steps, none of them a call of NumPy."""
        waiting = set(groups.cleared)
        for step in groups.steps:
            self.step(f, step, slots, waiting)

    def step(self, f: Function, step: Step, slots: Slots, waiting: set[Value]) -> None:
        """Write one step; `waiting` is the memory that must be cleared before its first step."""
        assert not isinstance(step, Call)
        self._clear_for(f, step, slots, waiting)
        if isinstance(step, Product):
            self._product(f, step, slots)
        elif isinstance(step, Routine):
            self._routine(f, step, slots)
        elif isinstance(step, Chain):
            self._chain(f, step, slots)
        elif isinstance(step, Finished):
            self._finished(f, step, slots)
        elif isinstance(step, Loop):
            self._loop(f, step, slots)
        else:
            self._kernel(f, step, slots)

    def wave(self, f: Function, steps: Sequence[Step], slots: Slots, waiting: set[Value]) -> None:
        """Write steps that can run at once (parallel_steps.py), or one after the other if that is quicker."""
        if len(steps) == 1 or self.threads == 1 or sum(map(_cost, steps)) < _SHARED_WAVE:
            for step in steps:
                self.step(f, step, slots, waiting)
            return
        for step in steps:
            self._clear_for(f, step, slots, waiting)
        nests = {step: self._nest(step, slots) for step in steps if isinstance(step, Kernel)}
        pieces = sum(nest.pieces for nest in nests.values())
        for nest in nests.values():
            nest.limit_pieces(max(1, nest.pieces * _WAVE_PIECES // max(pieces, _WAVE_PIECES)))
            nest.share_pieces(self.threads)
        products = [step for step in steps if isinstance(step, Product)]
        between = max([step.buffer_bytes for step in products], default=0)
        packed = self._pack_ahead(f, products, slots, between)
        tasks: list[_Task] = []
        words, sums = 2, 0
        for step in steps:
            if isinstance(step, Product):
                tasks.append(self._product_task(step, slots, between, packed=packed.get(step)))
            elif isinstance(step, Kernel):
                nest = nests[step]
                nest.sums_at, sums = sums, sums + -(-nest.piece_bytes * nest.pieces // 64) * 64
                own = None if nest.slots is slots else words
                words += 0 if own is None else len(nest.slots) + 4
                self._begin_sums(f, nest, slots)
                name = self._piece(nest, self._once(nest.function()))
                tasks.append(_Task(name, nest.pieces, _cost(step), own, nest))
        self.sums = max(self.sums, sums)
        table = self._wave_table(f, tasks, slots, words)
        self._share(f, self._wave_function(tasks, table != "%table"), self._share_of_thread(tasks) * self.threads, table)
        for task in tasks:
            if task.nest is not None and task.nest.piece_bytes:
                own_table = table if task.table is None else f.address("ptr", table, str(task.table))
                self._last(f, task.nest, own_table, pointer(f, len(slots) + 1))

    def _chain(self, f: Function, chain: Chain, slots: Slots) -> None:
        """Run the steps of a chain, index by index (chains.py)."""
        between = max([step.buffer_bytes for step in chain.steps if isinstance(step, Product)], default=0)
        tasks: list[_Task] = []
        words = 2
        for step in chain.steps:
            if isinstance(step, Product):
                tasks.append(self._product_task(step, slots, between, chain.extent))
                continue
            nest = self._nest(step, slots)
            nest.cut_into_pieces(chain.extent)
            own = None if nest.slots is slots else words
            words += 0 if own is None else len(nest.slots) + 4
            piece = self._piece(nest, self._once(nest.function()))
            tasks.append(_Task(piece, nest.pieces, step.cost, own, nest))
        table = self._wave_table(f, tasks, slots, words)
        work = Function(f"chain{self.chains}", "ptr %table, i64 %chunk, i64 %worker")
        self.chains += 1
        main = work.set("load ptr, ptr %table") if table != "%table" else table
        # Process several consecutive indices at a time if one is little work.
        several = max(1, _SHARED_WAVE * chain.extent // max(sum(task.cost for task in tasks), 1) // 4)
        begin = work.mul("%chunk", several)
        with work.loop(work.least(work.add(begin, several), chain.extent), start=begin) as index:
            for task in tasks:
                own_table = main if task.table is None else work.address("ptr", "%table", str(task.table))
                work.call_void(task.work, f"ptr {own_table}", f"i64 {index}", "i64 %worker")
        work.returns()
        self.functions.append(work)
        self._share(f, work.name, -(-chain.extent // several), table)

    def _wave_table(self, f: Function, tasks: list[_Task], slots: Slots, words: int) -> str:
        """Return the table for the pieces of a wave.

        It is the program's table, or memory that holds its address, followed by the own tables of kernels, each after
        its parameters.
        """
        if all(task.table is None for task in tasks):
            return "%table"
        memory = f.set(f"alloca [{words} x ptr], align 16")
        parameters = f.set(f"load ptr, ptr {f.address('ptr', '%table', '-1')}")
        f.do(f"store ptr {parameters}, ptr {memory}")
        table = f.address("ptr", memory, "1")
        f.do(f"store ptr %table, ptr {table}")
        for task in tasks:
            if task.nest is not None and task.table is not None:
                self._pick(f, task.nest, slots, f.address("ptr", memory, str(task.table)))
        return table

    def _share_of_thread(self, tasks: list[_Task]) -> int:
        """Return the number of pieces of a wave that are at home with each thread."""
        return sum(-(-task.pieces // self.threads) for task in tasks)

    def _wave_function(self, tasks: list[_Task], has_own: bool) -> str:
        """Write void wave(ptr table, i64 chunk, i64 worker): one piece of all.

        Each thread has its part of each step. The first pieces are at home with one thread, the next with another (Note
        [Each chunk has a home], in ndgrad._src.compiler.native.pool). A thread therefore meets the same data again in
        other steps and other calls. The assignment rotates from step to step, so that uneven parts do not always go to
        the same thread. Long pieces come first, so that threads that finish early find short ones.
        """
        f = Function(f"wave{self.waves}", "ptr %table, i64 %chunk, i64 %worker")
        self.waves += 1
        main = f.set("load ptr, ptr %table") if has_own else "%table"
        each = self._share_of_thread(tasks)
        thread, number = f.set(f"udiv i64 %chunk, {each}"), f.set(f"urem i64 %chunk, {each}")
        first = 0
        costs = [0] * self.threads
        for task in sorted(tasks, key=lambda task: -task.cost // task.pieces):
            part = -(-task.pieces // self.threads)
            # Threads with the least work so far get the larger parts.
            turn = costs.index(min(costs)) if task.pieces % self.threads else 0
            for t in range(self.threads):
                costs[(turn + t) % self.threads] += task.cost * min(max(task.pieces - t * part, 0), part) // task.pieces
            with f.when(f.compare("slt", number, first + part)):
                # Arithmetic stays even if it has no effect, because the text must be the same for other sizes.
                turned = f.set(f"add i64 {thread}, {self.threads - turn}")
                before = f.set(f"mul i64 {f.set(f'urem i64 {turned}, {self.threads}')}, {part}")
                piece = f.set(f"add i64 {before}, {f.set(f'sub i64 {number}, {first}')}")
                with f.when(f.compare("slt", piece, task.pieces)):
                    table = main if task.table is None else f.address("ptr", "%table", str(task.table))
                    f.call_void(task.work, f"ptr {table}", f"i64 {piece}", "i64 %worker")
                f.returns()
                f.label(f.fresh("never"))
            first += part
        f.returns()
        self.functions.append(f)
        return f.name

    def _nest(self, kernel: Kernel, slots: Slots) -> Nest:
        """Return the loops of a kernel, with a table of its own in a long program."""
        nest = Nest(kernel, f"kernel{len(self.kernels)}", self.target, self._own_slots(kernel, slots), self.sizes)
        self.kernels.append(nest)
        return nest

    def _own_slots(self, kernel: Kernel, slots: Slots) -> Slots:
        """Return the slots of a kernel's table."""
        own = {value: n for n, value in enumerate(kernel.touched())} if self.is_long else slots
        return slots if len(own) > _OWN else own

    def _kernel(self, f: Function, kernel: Kernel, slots: Slots) -> None:
        """Run a kernel at once, or in pieces by the workers."""
        nest = self._nest(kernel, slots)
        nest.share_pieces(self.threads)
        table = "%table"
        if nest.slots is not slots:
            table = self._own_table(f, nest, slots)
        name = self._once(nest.function())
        self._begin_sums(f, nest, slots)
        self.sums = max(self.sums, nest.piece_bytes * nest.pieces)
        sums = pointer(f, len(slots) + 1) if nest.piece_bytes else "null"
        if nest.pieces == 1 and not nest.any_extent:
            f.call_void(name, f"ptr {table}", "i64 0", f"i64 {nest.extent}", f"ptr {sums}")
        else:
            self._share(f, self._piece(nest, name), nest.pieces, table)
        if nest.piece_bytes:
            self._last(f, nest, table, sums)

    def _last(self, f: Function, nest: Nest, table: str, sums: str) -> None:
        """Add the sums of pieces."""
        f.call_void(
            self._once(nest.last_function()), f"ptr {table}", f"ptr {f.ahead(sums, nest.sums_at)}", f"i64 {nest.pieces}"
        )

    def _begin_sums(self, f: Function, nest: Nest, slots: Slots) -> None:
        """Initialise the memory of sums, unless pieces have sums of their own."""
        for value in nest.kernel.targets:
            if not (nest.splits_sums and value in nest.shared):
                nest.begin(f, pointer(f, slots[value]), value)

    def _piece(self, nest: Nest, name: str) -> str:
        """Write void name.piece(ptr table, i64 chunk, i64 worker): one piece of a kernel."""
        work = Function(f"{nest.name}.piece", "ptr %table, i64 %chunk, i64 %worker")
        begin = work.mul("%chunk", nest.grain)
        end = work.least(work.add(begin, nest.grain), nest.extent)
        place = "null"
        if nest.piece_bytes:
            place = work.ahead(pointer(work, len(nest.slots) + 1), work.mul("%chunk", nest.piece_bytes))
            place = work.ahead(place, nest.sums_at)
        work.call_void(name, "ptr %table", f"i64 {begin}", f"i64 {end}", f"ptr {place}")
        work.returns()
        return self._once(work)

    def _once(self, function: Function) -> str:
        """Return the name of a kernel's function. The function is added unless one with the same text exists."""
        if not self.is_long:
            self.functions.append(function)
            return function.name
        text = f"{function.parameters}\n{function.body()}"
        known = self._alike.setdefault(text, function.name)
        if known == function.name:
            self.functions.append(function)
        return known

    def _own_table(self, f: Function, nest: Nest, slots: Slots) -> str:
        """Build a table with the addresses of a kernel, for a function that a segment calls. It is valid until the next
        one.
        """
        memory = self._tables.get(f)
        if memory is None:
            memory = self._tables[f] = f.set(f"alloca [{_OWN + 4} x ptr], align 16")
        self._pick(f, nest, slots, memory)
        return f.address("ptr", memory, "1")

    def _pick(self, f: Function, nest: Nest, slots: Slots, memory: str) -> None:
        """Copy the addresses of a kernel into memory, after that of the parameters."""
        if not self._picks:
            self._picks = True
            self.functions.append(_picking())
        name, own = f"slots.{nest.name}", [*[slots[value] for value in nest.slots], len(slots), len(slots) + 1]
        numbers = ", ".join(f"i64 {n}" for n in own)
        self.functions.append(f"@{name} = internal constant [{len(own)} x i64] [{numbers}]")
        f.call_void("pick", "ptr %table", f"ptr @{name}", f"i64 {len(own)}", f"ptr {memory}")
        f.do(f"store ptr %table, ptr {f.address('ptr', memory, str(1 + len(own)))}")

    # ----- epilogues --------------------------------------------------------------------------------------------------

    def _finished(self, f: Function, step: Finished, slots: Slots) -> None:
        """Run a convolution whose pieces a kernel finishes."""
        name, own = f"kernel{len(self.kernels)}", self._own_slots(step.kernel, slots)
        nest = Blocks(step.kernel, name, self.target, own, self.sizes, step.producer.phases[-1].chunks)
        self.kernels.append(nest)
        table = "%table" if nest.slots is slots else self._own_table(f, nest, slots)
        self._begin_sums(f, nest, slots)
        self.sums = max(self.sums, nest.piece_bytes * nest.pieces)
        self._finished_routine(f, step.producer, nest, slots, table)
        if nest.piece_bytes:
            self._last(f, nest, table, pointer(f, len(slots) + 1))

    def _finished_routine(self, f: Function, routine: Routine, nest: Nest, slots: Slots, table: str) -> None:
        """Run a convolution whose last phase has a kernel that finishes each chunk."""
        kernel = self._once(nest.function())
        columns = nest.kernel.shape[-1]

        def run(inside: Function, argument: str, phase: Phase) -> None:
            chunk_of = self._phase_function(phase)
            if phase is routine.phases[-1]:
                work = Function(f"{nest.name}.finishing", "ptr %argument, i64 %chunk, i64 %worker")
                work.call_void(chunk_of, "ptr %argument", "i64 %chunk", "i64 %worker")
                own = work.set(f"load ptr, ptr {work.ahead('%argument', -8)}")
                self._finish(work, kernel, nest, block_of_images(work, phase, columns, "%chunk"), own)
                work.returns()
                self.functions.append(work)
                chunk_of = work.name
            self._run_phase(inside, argument, phase, chunk_of)

        self._routine(f, routine, slots, run, table)

    def _finish(self, f: Function, kernel: str, nest: Nest, block: Block, table: str) -> None:
        """Run a kernel over a block."""
        sums = "null"
        if nest.piece_bytes:
            sums = f.set(f"load ptr, ptr {f.address('ptr', table, str(len(nest.slots) + 1))}")
            sums = f.ahead(f.ahead(sums, nest.sums_at), f.mul(block.piece, nest.piece_bytes))
        ends = [f"i64 {n}" for n in (block.begin, block.end, block.first, block.past)]
        f.call_void(kernel, f"ptr {table}", *ends, f"ptr {sums}")

    # ----- products and routines --------------------------------------------------------------------------------------

    def _product(self, f: Function, step: Product, slots: Slots) -> None:
        packed = self._pack_ahead(f, [step], slots, step.buffer_bytes)
        task = self._product_task(step, slots, packed=packed.get(step))
        if task.pieces == 1:
            f.call_void(task.work, "ptr %table", "i64 0", "i64 0")
        else:
            self._share(f, task.work, task.pieces)

    def _pack_ahead(self, f: Function, steps: Sequence[Product], slots: Slots, between: int) -> dict[Product, int]:
        """Let workers pack the second matrices of products in advance (Note [B is packed ahead], in
        ndgrad._src.compiler.kernels.gemm).

        Return the offsets of the packed matrices. They follow the buffers of all workers, which are `between` bytes
        apart.
        """
        places: dict[Product, int] = {}
        tasks: list[_Task] = []
        end = between * self.threads
        for step in steps:
            if self._is_shared(step) and step.ahead_bytes:
                name = f"product{len(self.products)}.ahead{len(tasks)}"
                self.outside.update(symbols(step.element))
                self.functions.append(step.packing(name, slots, end))
                tasks.append(_Task(name, step.ahead_chunks, int(step.n * step.k * _COST_OF_PACKING)))
                places[step], end = end, end + step.ahead_bytes
        if tasks:
            self.buffer = max(self.buffer, end)
            self._share(f, self._wave_function(tasks, False), self._share_of_thread(tasks) * self.threads)
        return places

    def _is_shared(self, step: Product) -> bool:
        """True if workers share a product."""
        return step.chunks > 1 and step.flops >= _SHARED_FLOPS and self.threads > 1

    def _product_task(
        self,
        step: Product,
        slots: Slots,
        between: int | None = None,
        parts: int | None = None,
        packed: int | None = None,
    ) -> _Task:
        """Return a product as work.

        `between`: bytes between the buffers of workers that run other products, too. `parts`: number of pieces of a
        batch. `packed`: offset of the second matrix if it is packed ahead.
        """
        alone = parts is None and not self._is_shared(step)
        name = f"product{len(self.products)}"
        self.products.append(step)
        self.outside.update(symbols(step.element))
        self.functions += step.functions(name, slots, alone, between, parts, packed)
        self.buffer = max(self.buffer, (between or step.buffer_bytes) * self.threads)
        return _Task(name, 1 if alone else step.chunks, _cost(step))

    def _routine(
        self,
        f: Function,
        step: Routine,
        slots: Slots,
        run: Callable[[Function, str, Phase], None] | None = None,
        own: str = "null",
    ) -> None:
        """Run a routine; `own` is an address that the functions of its phases find before their arguments."""
        name = f"routine{len(self.routines)}"
        self.routines.append(step)
        self.buffer = max(self.buffer, step.buffer_bytes * self.threads)
        self.functions += step.functions(name, slots, run or self._phase)
        f.call_void(name, "ptr %table", f"ptr {own}")

    def _phase(self, f: Function, argument: str, phase: Phase) -> None:
        """Run a phase of a routine, whose words are at an address."""
        self._run_phase(f, argument, phase, self._phase_function(phase))

    def _phase_function(self, phase: Phase) -> str:
        """Return the name of a function of this module for a chunk of a phase. Its address can be taken."""
        outside = f"{phase.function}_{phase.element}"
        self.outside[outside] = arrays.code(phase.kind, phase.element).address(f"{phase.function}_work")
        work = f"{outside}.chunk"
        if work not in self.phases:
            self.phases.add(work)
            chunk = Function(work, "ptr %argument, i64 %chunk, i64 %worker")
            chunk.call_outside(outside, "ptr %argument", "i64 %chunk", "i64 %worker")
            chunk.returns()
            self.functions.append(chunk)
        return work

    def _run_phase(self, f: Function, argument: str, phase: Phase, work: str) -> None:
        """Run a phase by a function, at once or chunk by chunk by the workers."""
        if phase.chunks == 1 or phase.cost < SHARED_COST:
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
        """Let the workers run pieces of work."""
        self.outside.update(pool.symbols())
        f.call_outside("ndgrad_run", f"ptr @{work}", f"ptr {argument}", f"i64 {pieces}", f"i64 {self.threads}")

    def _clear_for(self, f: Function, step: Step, slots: Slots, waiting: set[Value]) -> None:
        """Clear memory if a step is the first that needs it cleared."""
        for value in sorted(step.touched() & waiting, key=slots.__getitem__):
            waiting.remove(value)
            self._clear(f, slots[value], value)

    def _clear(self, f: Function, slot: int, value: Value) -> None:
        """Fill memory with zeros."""
        start = pointer(f, slot)
        if value.size == 1:
            kind = Vector(element_of(value.dtype))
            f.store(kind, kind.constant(0), start)
        else:
            f.call_void("llvm.memset.p0.i64", f"ptr {start}", "i8 0", f"i64 {value.nbytes}", "i1 false")


def _cost(step: Step) -> int:
    """Return the approximate cost of a step in instructions on single elements."""
    if isinstance(step, Product):
        return int(step.flops * _COST_OF_FLOP)
    return step.cost if isinstance(step, Kernel) else 0


def _picking() -> Function:
    """Write void pick(table, slots, count, own), which copies some addresses of a table after that of the parameters.
    """
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
    """Load an address from the table."""
    return f.set(f"load ptr, ptr {f.address('ptr', '%table', str(slot))}")
