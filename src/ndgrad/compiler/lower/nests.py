"""A kernel as a nest of loops.

    kernel(table, begin, end):
        for i in begin ... end:                the outermost dimension, in chunks for the workers
            ...
                for j in 0 ... n, by vectors:  loads, the instructions of the body, stores; then the rest of n one by one

Dimensions that all reads and writes step through alike are one (`_collapsed`), so a kernel over contiguous arrays is a single loop. Along
the innermost dimension an argument is read as a vector (stride 1), once before the loop and in all lanes (stride 0), or lane by lane.

A reduction whose result does not move along the innermost dimension is summed in a register, block by block: sixteen vectors are added up
lane by lane, the lanes are added in a tree, and the sums of the blocks with the error of each addition kept (Neumaier). So it is at least as
accurate as NumPy's pairwise sum. One whose result does move is added to in memory, row by row, as NumPy does.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from ndgrad.compiler.lower import pointwise
from ndgrad.compiler.lower.group import Kernel
from ndgrad.compiler.lower.places import Place, whole
from ndgrad.compiler.native.ir import TYPES, Function, Vector
from ndgrad.compiler.native.target import Target
from ndgrad.compiler.program import Value

#: Vectors that are added up before their sum is added to the others'.
_BLOCK = 16

#: Vectors that fit into registers beside constants and addresses, and on the stack without leaving the first-level cache: a kernel of so
#: many values that they do not stay in registers anyway may as well have more of them on the stack.
_REGISTERS = 12
_STACK = 700


@dataclass(slots=True)
class Access:
    """A place in a kernel's loops: its stride along each of them."""

    root: Value
    offset: int
    strides: list[int]


class Nest:
    """The loops of one kernel, and its text."""

    def __init__(self, kernel: Kernel, name: str, target: Target, slots: dict[Value, int]) -> None:
        self.kernel = kernel
        self.name = name
        self.slots = slots
        self.loads: dict[tuple[Value, int, tuple[int, ...]], Access] = {}
        self.stores: dict[Value, Access] = {}
        self.targets: dict[Value, Access] = {}
        self._collect()
        self.shape = self._collapsed()
        self.lanes = self._lanes(target)
        #: vectors that go through the body side by side, so that the processor need not wait for one to end
        self.abreast = self._abreast()
        #: how many pieces of work the kernel can be cut into
        self.extent = self.shape[0] if self.shape else 1

    def _collect(self) -> None:
        kernel = self.kernel
        for instruction in kernel.body:
            for place in kernel.reads[instruction]:
                if place is not None and place.root not in kernel.computed:
                    self.loads.setdefault((place.root, place.offset, place.strides), _access(place))
        for value in kernel.stores:
            found = whole(value).reshaped(kernel.shape)
            assert found is not None
            self.stores[value] = _access(found)
        self.targets = {value: _access(place) for value, place in kernel.reduced.items()}

    def _collapsed(self) -> list[int]:
        """The lengths of the loops, after dimensions that everything steps through alike have become one."""
        shape = list(self.kernel.shape)
        every = [*self.loads.values(), *self.stores.values(), *self.targets.values()]
        for a in every:
            a.strides = [s for s, n in zip(a.strides, shape, strict=True) if n != 1]
        shape = [n for n in shape if n != 1]
        d = len(shape) - 2
        while d >= 0:
            if all(a.strides[d] == a.strides[d + 1] * shape[d + 1] for a in every):
                shape[d : d + 2] = [shape[d] * shape[d + 1]]
                for a in every:
                    del a.strides[d]
            d -= 1
        return shape

    def _lanes(self, target: Target) -> int:
        """How many elements a vector of this kernel has: a register full of its widest numbers, or a short row at once."""
        kinds = [TYPES[v.dtype.name] for v in self.kernel.computed] + [TYPES[a.root.dtype.name] for a in self.loads.values()]
        floats = [k for k in kinds if k in ("float", "double")]
        full = min(target.lanes(k) for k in floats or kinds or ["double"])
        inner = self.shape[-1] if self.shape else 1
        return inner if inner <= 2 * full else full

    def _abreast(self) -> int:
        """As many as registers allow, and as make sense for so many elements."""
        if not self.shape or len(self.kernel.body) > 1000:
            return 1
        alive = _most_alive(self.kernel)
        for count in (4, 2):
            fits = alive * count <= _REGISTERS or (alive > _REGISTERS and alive * count <= _STACK)
            if fits and self.shape[-1] >= 2 * count * self.lanes:
                return count
        return 1

    # ----- text ----------------------------------------------------------------------------------------------------------

    def function(self) -> Function:
        """The kernel: void name(ptr table, i64 begin, i64 end)."""
        f = self.f = Function(self.name, "ptr %table, i64 %begin, i64 %end")
        roots = {a.root for a in (*self.loads.values(), *self.stores.values(), *self.targets.values())}
        self.bases = {}
        for root in sorted(roots, key=self.slots.__getitem__):
            slot = f.set(f"getelementptr ptr, ptr %table, i64 {self.slots[root]}")
            self.bases[root] = f.set(f"load ptr, ptr {slot}")
        every = [*self.loads.values(), *self.stores.values(), *self.targets.values()]
        starts = {id(a): self._offset(self.bases[a.root], a, a.offset) for a in every}
        self._loops(0, starts)
        f.returns()
        return f

    def _offset(self, base: str, access: Access, elements: int | str) -> str:
        if elements == 0:
            return base
        return self.f.address(TYPES[access.root.dtype.name], base, str(elements))

    def _loops(self, depth: int, bases: dict[int, str]) -> None:
        """The loops from `depth` inwards; `bases` are the addresses that the outer ones have arrived at."""
        f, shape = self.f, self.shape
        if depth >= len(shape) - 1:
            self._inner(bases)
            return
        start, stop = ("%begin", "%end") if depth == 0 else ("0", str(shape[depth]))
        with f.loop(stop, start) as i:
            moved = {}
            for a in (*self.loads.values(), *self.stores.values(), *self.targets.values()):
                step = a.strides[depth]
                if step == 0:
                    moved[id(a)] = bases[id(a)]
                else:
                    by = i if step == 1 else f.set(f"mul i64 {i}, {step}")
                    moved[id(a)] = self._offset(bases[id(a)], a, by)
            self._loops(depth + 1, moved)

    def _inner(self, bases: dict[int, str]) -> None:
        """The innermost loop."""
        f, shape, lanes = self.f, self.shape, self.lanes
        sums = [(v, a) for v, a in self.targets.items() if not shape or a.strides[-1] == 0]
        if not shape:
            self._turn(bases, "0", 1, {v: None for v, _ in sums})
            return
        start, stop = ("%begin", "%end") if len(shape) == 1 else ("0", str(shape[-1]))
        if len(shape) > 1 and shape[-1] == lanes:
            found = self._turn(bases, "0", lanes, dict.fromkeys([v for v, _ in sums]))
            for v, a in sums:
                self._add(v, bases[id(a)], self._total(found[v], v, lanes))
            return
        if sums:
            self._summing(bases, start, stop, sums)
            return
        for width in dict.fromkeys([lanes * self.abreast, lanes, 1]):
            end = self._whole_vectors(start, stop, width)
            with f.loop(end, start, str(width)) as i:
                self._turn(bases, i, width, {})
            start = end

    def _whole_vectors(self, start: str, stop: str, lanes: int) -> str:
        """Where the last whole vector from `start` on ends."""
        f = self.f
        if lanes == 1:
            return stop
        length = f.set(f"sub i64 {stop}, {start}")
        rest = f.set(f"urem i64 {length}, {lanes}")
        return f.set(f"sub i64 {stop}, {rest}")

    def _summing(self, bases: dict[int, str], start: str, stop: str, sums: list[tuple[Value, Access]]) -> None:
        """The innermost loop with sums in registers, in blocks."""
        f, lanes = self.f, self.lanes * self.abreast
        totals = {v: (f.carried(TYPES[v.dtype.name], _zero(v)), f.carried(TYPES[v.dtype.name], _zero(v))) for v, _ in sums}
        block = lanes * _BLOCK
        vectors = self._whole_vectors(start, stop, lanes) if lanes > 1 else start
        if lanes > 1:
            with f.loop(vectors, start, str(block), [c for pair in totals.values() for c in pair]) as i:
                limit = f.set(f"add i64 {i}, {block}")
                limit = f.call("i64", "llvm.smin.i64", f"i64 {limit}", f"i64 {vectors}")
                partial = {v: f.carried(Vector(TYPES[v.dtype.name], lanes), "zeroinitializer") for v, _ in sums}
                with f.loop(limit, i, str(lanes), list(partial.values())) as j:
                    found = self._turn(bases, j, lanes, {v: c.name for v, c in partial.items()})
                    for v, c in partial.items():
                        c.next = found[v]
                for v, (total, error) in totals.items():
                    total.next, error.next = self._compensated(v, total.name, error.name, self._total(partial[v].name, v, lanes))
        rest = {v: (f.carried(TYPES[v.dtype.name], t.name), f.carried(TYPES[v.dtype.name], e.name)) for v, (t, e) in totals.items()}
        if lanes == 1:
            rest = {v: (f.carried(TYPES[v.dtype.name], _zero(v)), f.carried(TYPES[v.dtype.name], _zero(v))) for v, _ in sums}
        with f.loop(stop, vectors, "1", [c for pair in rest.values() for c in pair]) as i:
            found = self._turn(bases, i, 1, {v: _zero(v) for v in rest})
            for v, (total, error) in rest.items():
                total.next, error.next = self._compensated(v, total.name, error.name, found[v])
        for v, a in sums:
            kind = TYPES[v.dtype.name]
            total, error = rest[v]
            self._add(v, bases[id(a)], f.set(f"fadd {kind} {total}, {error}"))

    def _compensated(self, v: Value, total: str, error: str, term: str) -> tuple[str, str]:
        """total + term, and the error so far with what that addition lost. An infinite sum has no error."""
        f, kind = self.f, TYPES[v.dtype.name]
        new = f.set(f"fadd {kind} {total}, {term}")
        part = f.set(f"fsub {kind} {new}, {total}")
        left = f.set(f"fsub {kind} {total}, {f.set(f'fsub {kind} {new}, {part}')}")
        lost = f.set(f"fadd {kind} {left}, {f.set(f'fsub {kind} {term}, {part}')}")
        summed = f.set(f"fadd {kind} {error}, {lost}")
        finite = f.set(f"fcmp ord {kind} {f.set(f'fsub {kind} {new}, {new}')}, {_zero(v)}")
        return new, f.set(f"select i1 {finite}, {kind} {summed}, {kind} {_zero(v)}")

    def _total(self, value: Any, v: Value, lanes: int) -> str:
        """The sum of the lanes, in a tree."""
        f, kind = self.f, TYPES[v.dtype.name]
        parts = [str(value)] if lanes == 1 else [f.set(f"extractelement {Vector(kind, lanes)} {value}, i64 {k}") for k in range(lanes)]
        while len(parts) > 1:
            pairs = [f.set(f"fadd {kind} {a}, {b}") for a, b in zip(parts[::2], parts[1::2], strict=False)]
            parts = pairs + parts[len(pairs) * 2 :]
        return parts[0]

    def _add(self, v: Value, pointer: str, term: str) -> None:
        kind = Vector(TYPES[v.dtype.name])
        self.f.store(kind, self.f.set(f"fadd {kind} {self.f.load(kind, pointer)}, {term}"), pointer)

    def _turn(self, bases: dict[int, str], index: str, lanes: int, sums: dict[Value, Any]) -> dict[Value, str]:
        """One turn of the innermost loop: loads, the body, stores. The sums with what is added to them."""
        f, kernel = self.f, self.kernel
        registers: dict[Value, str] = {}
        loaded: dict[tuple[Value, int, tuple[int, ...]], str] = {}
        found: dict[Value, str] = {}
        for instruction in kernel.body:
            arguments: list[Any] = []
            for argument, place in zip(instruction.arguments, kernel.reads[instruction], strict=True):
                if place is None:
                    arguments.append(argument)
                    continue
                if place.root in kernel.computed:
                    arguments.append((place.root.dtype, registers[place.root]))
                    continue
                key = (place.root, place.offset, place.strides)
                if key not in loaded:
                    loaded[key] = self._load(self.loads[key], bases, index, lanes)
                arguments.append((place.root.dtype, loaded[key]))
            result = instruction.result
            if result in kernel.reduced:
                dtype, value = arguments[0]
                term = pointwise.convert(f, value, dtype, result.dtype, lanes)
                found[result] = self._reduce(result, term, bases, index, lanes, sums)
            else:
                registers[result] = pointwise.emit(f, instruction, arguments, lanes)
        for value, access in self.stores.items():
            self._store(access, value, registers[value], bases, index, lanes)
        return found

    def _reduce(self, v: Value, term: str, bases: dict[int, str], index: str, lanes: int, sums: dict[Value, Any]) -> str:
        f, access = self.f, self.targets[v]
        kind = Vector(TYPES[v.dtype.name], lanes)
        if v in sums:
            if sums[v] is None and not self.shape:
                self._add(v, bases[id(access)], term)
                return term
            return term if sums[v] is None else f.set(f"fadd {kind} {sums[v]}, {term}")
        before = self._load(access, bases, index, lanes)
        self._store(access, v, f.set(f"fadd {kind} {before}, {term}"), bases, index, lanes)
        return term

    def _load(self, access: Access, bases: dict[int, str], index: str, lanes: int) -> str:
        f, base = self.f, bases[id(access)]
        element = TYPES[access.root.dtype.name]
        step = access.strides[-1] if access.strides else 0
        if step == 0:
            return f.splat(f.load(Vector(element), base), Vector(element, lanes))
        if step == 1:
            return f.load(Vector(element, lanes), f.address(element, base, index))
        at = f.set(f"mul i64 {index}, {step}")
        if lanes == 1:
            return f.load(Vector(element), f.address(element, base, at))
        gathered = "poison"
        start = f.address(element, base, at)
        for k in range(lanes):
            one = f.load(Vector(element), f.address(element, start, str(k * step)))
            gathered = f.set(f"insertelement {Vector(element, lanes)} {gathered}, {element} {one}, i64 {k}")
        return gathered

    def _store(self, access: Access, value: Value, register: str, bases: dict[int, str], index: str, lanes: int) -> None:
        f, base = self.f, bases[id(access)]
        element = TYPES[value.dtype.name]
        step = access.strides[-1] if access.strides else 1
        if step == 1 or lanes == 1:
            at = index if step == 1 else f.set(f"mul i64 {index}, {step}")
            f.store(Vector(element, lanes), register, f.address(element, base, at))
            return
        start = f.address(element, base, f.set(f"mul i64 {index}, {step}"))
        for k in range(lanes):
            one = f.set(f"extractelement {Vector(element, lanes)} {register}, i64 {k}")
            f.store(Vector(element), one, f.address(element, start, str(k * step)))


def _most_alive(kernel: Kernel) -> int:
    """How many values of a kernel are in registers at once, at most."""
    last = {p.root: n for n, i in enumerate(kernel.body) for p in kernel.reads[i] if p is not None and p.root in kernel.computed}
    last.update(dict.fromkeys(kernel.stores, len(kernel.body)))
    alive: set[Value] = set()
    most = 0
    for n, instruction in enumerate(kernel.body):
        alive = {v for v in alive if last[v] >= n}
        most = max(most, len(alive) + 1)
        if instruction.result in last:
            alive.add(instruction.result)
    return most


def _access(place: Place) -> Access:
    return Access(place.root, place.offset, list(place.strides))


def _zero(v: Value) -> str:
    return Vector(TYPES[v.dtype.name]).constant(np.float64(0.0))
