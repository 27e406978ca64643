"""The steps of a grouped program, and the places of the values that they read and write.

    Kernel      elementwise ops and reductions over one index space, as items
    Product, Routine, Loop    see products.py, routines.py, loops.py
    Chain       kernels and products that pass through a batch together (chains.py)
    Finished    a convolution with the kernel that finishes its pieces (epilogues.py)
    Call        an op that NumPy runs
"""

from __future__ import annotations

from collections.abc import Set as AbstractSet
from dataclasses import dataclass, field
from math import prod

from ndgrad._src.compiler.lower.loops import Loop
from ndgrad._src.compiler.lower.memory_places import Place
from ndgrad._src.compiler.lower.products import Product
from ndgrad._src.compiler.lower.routines import Routine
from ndgrad._src.compiler.program.program import Instruction, Value


@dataclass(eq=False, slots=True)
class Item:
    """An instruction in a kernel: the places of its arguments (None for non-values), and its stage."""

    instruction: Instruction
    reads: list[Place | None]
    stage: int = 0
    #: true for a number per row instead of an element
    per_row: bool = False


@dataclass(eq=False, slots=True)
class Kernel:
    """Elementwise ops and reductions over one index space."""

    shape: tuple[int, ...]
    #: number of leading dimensions that number the rows; None without reductions to rows
    rows: int | None = None
    items: list[Item] = field(default_factory=list)
    #: the values of the kernel, by the item that computes them
    computed: dict[Value, Item] = field(default_factory=dict)
    #: numbers per row: results of reductions, and values computed from them
    row_values: set[Value] = field(default_factory=set)
    #: values that are accumulated in memory, and the place to which each element is added
    targets: dict[Value, Place] = field(default_factory=dict)
    #: values that are read from memory later
    stores: list[Value] = field(default_factory=list)
    #: elements that are written into a part of another value's memory
    puts: list[tuple[Value, Place]] = field(default_factory=list)
    #: elements that a later stage reads
    scratch: set[Value] = field(default_factory=set)
    #: the components of its ops (components.py), and the number of arrays that they read
    parts: dict[Value, int] = field(default_factory=dict)

    @property
    def size(self) -> int:
        return prod(self.shape)

    @property
    def cost(self) -> int:
        """Return the approximate number of machine instructions on single elements."""
        return self.size * sum(item.instruction.op.cost for item in self.items)

    @property
    def row_shape(self) -> tuple[int, ...]:
        return self.shape[: self.rows]

    def touched(self) -> AbstractSet[Value]:
        """Return the values whose memory it reads or writes."""
        read = [p.root for item in self.items for p in item.reads if p is not None and p.root not in self.computed]
        return dict.fromkeys([*read, *self.stores, *self.targets, *[place.root for _, place in self.puts]]).keys()

    def written_values(self) -> AbstractSet[Value]:
        """Return the values whose memory it writes."""
        return dict.fromkeys([*self.stores, *self.targets, *[place.root for _, place in self.puts]]).keys()

    @property
    def stages(self) -> int:
        return 1 + max((item.stage for item in self.items), default=0)


@dataclass(eq=False, slots=True)
class Call:
    """An op that NumPy runs."""

    instruction: Instruction
    reads: list[Place | None]

    def touched(self) -> AbstractSet[Value]:
        return dict.fromkeys([*[p.root for p in self.reads if p is not None], *self.instruction.results]).keys()


@dataclass(eq=False, slots=True)
class Chain:
    """Kernels and products, and the number of indices that they pass through together (chains.py)."""

    steps: list[Kernel | Product]
    extent: int

    def touched(self) -> AbstractSet[Value]:
        """Return the values whose memory it reads or writes."""
        return dict.fromkeys(v for step in self.steps for v in step.touched()).keys()

    def written_values(self) -> AbstractSet[Value]:
        """Return the values whose memory it writes."""
        return dict.fromkeys(v for step in self.steps for v in step.written_values()).keys()

    @property
    def flops(self) -> int:
        """Return the floating-point operations of its products."""
        return sum(step.flops for step in self.steps if isinstance(step, Product))


@dataclass(eq=False, slots=True)
class Finished:
    """A convolution, and the kernel that processes each piece of its result while it is in the cache.

    The kernel's space is that of the result's rows and columns (epilogues.py).
    """

    producer: Routine
    kernel: Kernel

    def touched(self) -> AbstractSet[Value]:
        """Return the values whose memory it reads or writes."""
        return dict.fromkeys([*self.producer.touched(), *self.kernel.touched()]).keys()

    def written_values(self) -> AbstractSet[Value]:
        """Return the values whose memory it writes."""
        return dict.fromkeys([*self.producer.written_values(), *self.kernel.written_values()]).keys()


Step = Kernel | Product | Loop | Routine | Call | Chain | Finished


@dataclass(eq=False, slots=True)
class Groups:
    """The steps of a program, and the place of each of its values."""

    steps: list[Step]
    places: dict[Value, Place]
    #: memory that is zero before its first step, since parts are written into it
    cleared: set[Value]
