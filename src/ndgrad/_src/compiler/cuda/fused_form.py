"""The common base of all forms of fused kernels: names, pointers, and code to read, compute and store elements.

Sizes, strides and numbers are part of the text. A launch therefore passes only addresses, and kernels of the same text
are shared. The forms themselves are in ndgrad._src.compiler.cuda.fused_flat, fused_rows and fused_columns.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from math import prod
from typing import Any

import numpy as np

from ndgrad._src.compiler.cuda.fusion import REDUCTIONS, Lines, computing_type, memory_type
from ndgrad._src.compiler.lower.memory_places import Place, whole
from ndgrad._src.compiler.lower.steps import Item, Kernel
from ndgrad._src.compiler.program.program import Value

#: Threads of a block, and the bytes that each processes at a time.
THREADS = 256
BYTES = 16

#: Placeholder for the pointer to the flag that is set once the device has noted a fault.
FLAG = -1

#: An access: the root, the offset, and the strides over a kernel's space.
Key = tuple[Value, int, tuple[int, ...]]


@dataclass(eq=False)
class Launch:
    """One kernel to start: the text of its function (named NAME), the number of threads, and its pointers.

    Pointers are values, numbers of temporary buffers, or FLAG.
    """

    text: str
    blocks: int
    threads: int
    pointers: list[Value | int]


@dataclass(eq=False)
class Fused:
    """A kernel of a program as consecutive launches, and the bytes of the buffers between them."""

    launches: list[Launch] = field(default_factory=list)
    buffers: list[int] = field(default_factory=list)

    def buffer(self, size: int) -> int:
        """Return the number of a new buffer."""
        self.buffers.append(size)
        return len(self.buffers) - 1


class Affine:
    """Constants start + step i that need not be read, because i follows from an element's position in memory."""

    def __init__(self, constants: Mapping[Value, Any]) -> None:
        self.known: dict[Value, tuple[int, int]] = {}
        for value, array in constants.items():
            flat = np.asarray(array).reshape(-1)
            if value.dtype.kind in "iu" and flat.size > 1:
                start, step = int(flat[0]), int(flat[1]) - int(flat[0])
                if np.array_equal(flat, start + step * np.arange(flat.size)):
                    self.known[value] = start, step


class Form:
    """Base of the forms. The space has two parts: outer dimensions, which are rows or nothing, and inner ones,
    processed by packs.
    """

    #: number of outer dimensions of the kernel
    outer = 0

    def __init__(self, kernel: Kernel, affine: Affine, guarded: bool) -> None:
        self.kernel = kernel
        self.affine = affine.known
        self.guarded = guarded
        self.out = Fused()
        self.pointers: list[Value | int] = []
        self._names = 0
        self.items = sorted(kernel.items, key=lambda item: item.stage)
        self.outer = self.outer_dims()
        keys = self._keys()
        shape, cut = kernel.shape, self.outer
        self.outer_sizes, outer = collapsed(shape[:cut], [key[2][:cut] for key in keys])
        self.inner_sizes, inner = collapsed(shape[cut:], [key[2][cut:] for key in keys])
        #: the strides of each access over both parts
        self.strides = {key: (o, i) for key, o, i in zip(keys, outer, inner, strict=True)}
        self.rows, self.row = prod(shape[:cut]), prod(shape[cut:])
        self.width = self._width()
        self.packs = self.row // self.width
        self.index = "unsigned int" if kernel.size < 1 << 31 else "long long"

    def outer_dims(self) -> int:
        return 0

    def write(self) -> None:
        raise NotImplementedError

    def _keys(self) -> list[Key]:
        """Return all accesses to memory, element by element."""
        kernel = self.kernel
        found: dict[Key, None] = {}
        for item in kernel.items:
            for place in item.reads:
                if place is not None and place.root not in kernel.computed:
                    found[self.key(place)] = None
        for value in kernel.stores:
            if value not in kernel.row_values:
                found[self.key(self.all_of(value))] = None
        for _, place in kernel.puts:
            found[self.key(place)] = None
        return list(found)

    @staticmethod
    def key(place: Place) -> Key:
        return place.root, place.offset, place.strides

    def all_of(self, value: Value) -> Place:
        """Return the access to all elements of a value in the order of the kernel's space."""
        found = whole(value).reshaped(self.kernel.shape)
        assert found is not None
        return found

    def _width(self) -> int:
        """Return the elements of a pack: as many as 16 bytes of the narrowest operand, if all operands are aligned."""
        in_line = [key for key, (_, inner) in self.strides.items() if inner[-1] == 1 and key[0] not in self.affine]
        width = min(BYTES // min([key[0].dtype.itemsize for key in in_line], default=BYTES), 8)
        while width > 1:
            lies = all(
                key[1] % width == 0 and all(s % width == 0 for s in (*self.strides[key][0], *self.strides[key][1][:-1]))
                for key in in_line
            )
            if lies and self.inner_sizes[-1] % width == 0:
                break
            width //= 2
        return width

    # ----- text -----

    def fresh(self, letter: str = "v") -> str:
        self._names += 1
        return f"{letter}{self._names}"

    def pointer(self, value: Value | int) -> str:
        """Return the name of a pointer of the function under construction."""
        if value not in self.pointers:
            self.pointers.append(value)
        return f"p{self.pointers.index(value)}"

    def launch(self, lines: Sequence[str], blocks: int, threads: int) -> None:
        """Add a function of these lines, whose pointers are all known."""
        kernel = self.kernel
        written = {*kernel.stores, *kernel.targets, *[place.root for _, place in kernel.puts]}
        text = [f'extern "C" __global__ void __launch_bounds__({threads}) NAME(const Pointers<COUNT> a) {{']
        pointers = list(self.pointers)
        if self.guarded:
            text.append(f"if (*(const unsigned long long*)a.at[{len(pointers)}]) return;")
            pointers.append(FLAG)
        for i, value in enumerate(self.pointers):
            kind = "unsigned char" if isinstance(value, int) else memory_type(value.dtype)
            const = "" if isinstance(value, int) or value in written else "const "
            restrict = "" if self.guarded or not const else " __restrict__"
            text.append(f"{const}{kind}*{restrict} const p{i} = ({const}{kind}*)a.at[{i}];")
        text = [line.replace("COUNT", str(max(len(pointers), 1))) for line in text]
        self.out.launches.append(Launch("\n".join([*text, *lines, "}"]), blocks, threads, pointers))
        self.pointers = []

    def taken_apart(self, name: str, sizes: Sequence[int], letter: str) -> tuple[list[str], list[str]]:
        """Return lines that split an index over some sizes, and the names of its parts."""
        if len(sizes) <= 1:
            return [], [name] * len(sizes)
        lines: list[str] = []
        names: list[str] = []
        rest = name
        for size in reversed(sizes[1:]):
            part, next_rest = self.fresh(letter), self.fresh(letter)
            lines.append(f"const {self.index} {part} = {rest} % {size}, {next_rest} = {rest} / {size};")
            names.insert(0, part)
            rest = next_rest
        return lines, [rest, *names]

    def place(self, key: Key, outer: Sequence[str], inner: Sequence[str]) -> str:
        """Return the position of an access as an expression of indices."""
        strides = (*self.strides[key][0], *self.strides[key][1])
        terms = [f"{i} * {s}" if s != 1 else i for i, s in zip((*outer, *inner), strides, strict=True) if s]
        if any(s < 0 for s in strides):
            terms = [f"(long long){t}" for t in terms]
        return " + ".join([*terms, *([str(key[1])] if key[1] or not terms else [])])

    def inner_index(self, pack: str) -> tuple[list[str], list[str]]:
        """Return the indices of a pack's first element, from the pack's number."""
        sizes = [*self.inner_sizes[:-1], self.inner_sizes[-1] // self.width]
        lines, names = self.taken_apart(pack, sizes, "j")
        if self.width > 1:
            names = [*names[:-1], f"({names[-1]} * {self.width})"]
        return lines, names

    def step(self, key: Key) -> int:
        """Return the stride of an access along the innermost dimension."""
        return self.strides[key][1][-1]

    def pack(self, value: Value) -> str:
        return f"Pack<{memory_type(value.dtype)}, {self.width}>"

    def is_packed(self, key: Key) -> bool:
        return self.step(key) == 1 and self.width > 1

    def element(self, key: Key, kept: str, place: str) -> str:
        """Return element k of a pack, whose loaded value is `kept`."""
        root, step = key[0], self.step(key)
        if root in self.affine:
            start, by = self.affine[root]
            return f"({computing_type(root.dtype)})({start}ll + {by}ll * (long long)({place} + k * {step}))"
        if self.is_packed(key):
            return f"wide({kept}.at[k])"
        if step == 0 or self.width == 1:
            return f"wide({kept})"
        return f"wide({self.pointer(root)}[{place} + k * {step}])"

    def loaded(self, key: Key, place: str) -> str | None:
        """Return the expression that an access loads once for a pack; None if there is none."""
        root = key[0]
        if root in self.affine:
            return None
        if self.is_packed(key):
            return f"*(const {self.pack(root)}*)({self.pointer(root)} + {place})"
        return f"{self.pointer(root)}[{place}]" if self.step(key) == 0 or self.width == 1 else None

    def number_per_row(self, key: Key, name: str, outer: Sequence[str]) -> str:
        """Return the line that reads a value that is constant along a row."""
        place, kind = self.place(key, outer, ["0"] * len(self.inner_sizes)), computing_type(key[0].dtype)
        if key[0] in self.affine:
            start, by = self.affine[key[0]]
            return f"const {kind} {name} = ({kind})({start}ll + {by}ll * (long long)({place}));"
        return f"const {kind} {name} = wide({self.pointer(key[0])}[{place}]);"

    def arguments(self, item: Item, known: Mapping[Any, str]) -> list[Any]:
        """Return the arguments of an item: (dtype, register), or numbers."""
        found: list[Any] = []
        for argument, place in zip(item.instruction.arguments, item.reads, strict=True):
            if place is None:
                found.append(argument)
            else:
                register = known[place.root] if place.root in self.kernel.computed else known[self.key(place)]
                found.append((place.root.dtype, register))
        return found

    def is_reduction(self, item: Item) -> bool:
        return item.instruction.op.reduces in REDUCTIONS

    def memory_reads(self, items: Sequence[Item]) -> list[Key]:
        """Return the accesses of some items, each once."""
        places = [p for item in items for p in item.reads if p is not None and p.root not in self.kernel.computed]
        return list(dict.fromkeys(self.key(p) for p in places))

    def computing(self, items: Sequence[Item], known: dict[Any, str], sums: Mapping[Value, str]) -> list[str]:
        """Return the lines that compute element k.

        Registers of elements and numbers per row are known. Terms are combined with the registers of sums.
        """
        lines = Lines(self.fresh)
        for item in items:
            result, arguments = item.instruction.result, self.arguments(item, known)
            if self.is_reduction(item):
                dtype, register = arguments[0]
                term = lines.cast(register, dtype, result.dtype)
                lines.lines.append(f"{sums[result]} = {joining(item, sums[result], term)};")
            else:
                known[result] = lines.item(item.instruction, arguments)
        return lines.lines

    def writes(self, values: Sequence[Value]) -> list[tuple[Value, Key]]:
        """Return the stored values among some, and their places."""
        kernel = self.kernel
        plain = [(v, self.key(self.all_of(v))) for v in values if v in kernel.stores and v not in kernel.row_values]
        return [*plain, *[(v, self.key(place)) for v, place in kernel.puts if v in values]]

    def storing(
        self, values: Sequence[Value], outer: Sequence[str], inner: Sequence[str]
    ) -> tuple[list[str], dict[Value, list[str]], list[str]]:
        """Return lines before a pack, lines by value for element k (with %s for its register), and lines after the
        pack.
        """
        before: list[str] = []
        each: dict[Value, list[str]] = {}
        after: list[str] = []
        for value, key in self.writes(values):
            place, pointer = self.place(key, outer, inner), self.pointer(key[0])
            if self.is_packed(key):
                name = self.fresh("w")
                before.append(f"{self.pack(key[0])} {name};")
                each.setdefault(value, []).append(f"put({name}.at[k], %s);")
                after.append(f"*({self.pack(key[0])}*)({pointer} + {place}) = {name};")
            else:
                each.setdefault(value, []).append(f"put({pointer}[{place} + k * {self.step(key)}], %s);")
        return before, each, after

    def per_pack(
        self,
        items: Sequence[Item],
        outer: Sequence[str],
        inner: Sequence[str],
        known: Mapping[Any, str],
        sums: Mapping[Value, str],
        keeps: Mapping[Value, str],
        loaded: Mapping[Key, str] | None = None,
    ) -> list[str]:
        """Return the lines for one pack: loads, the elements one by one, stores.

        `keeps` are values whose elements stay, as `name[c]`, and `loaded` are accesses that have been loaded before.
        """
        now, lines = dict(known), []
        for key in self.memory_reads(items):
            if key in now:
                continue
            place = self.place(key, outer, inner)
            name = (loaded or {}).get(key)
            if name is None:
                text = self.loaded(key, place)
                name = self.fresh("r")
                if text is not None:
                    lines.append(f"const auto {name} = {text};")
            now[key] = self.element(key, name, place)
        made = [item.instruction.result for item in items if not self.is_reduction(item)]
        before, each, after = self.storing(made, outer, inner)
        reads = Lines(self.fresh)
        for key in self.memory_reads(items):
            if key not in known:
                now[key] = reads.set(now[key], computing_type(key[0].dtype))
        inside = [*reads.lines, *self.computing(items, now, sums)]
        for value in made:
            inside += [line % now[value] for line in each.get(value, ())]
            if value in keeps:
                inside.append(f"{keeps[value]} = {now[value]};")
        return [*lines, *before, *unrolled("k", self.width, inside), *after]


def joining(item: Item, a: str, b: str) -> str:
    """Return the combination of two terms of a reduction."""
    text = REDUCTIONS[item.instruction.op.reduces][0]
    return " ".join({"a": a, "b": b}.get(word, word) for word in text.split())


def join_function(item: Item) -> str:
    kind = computing_type(item.instruction.result.dtype)
    return f"[]({kind} a, {kind} b) -> {kind} {{ return {REDUCTIONS[item.instruction.op.reduces][0]}; }}"


def first_term(item: Item) -> str:
    """Return the neutral element of a reduction."""
    kind, name = computing_type(item.instruction.result.dtype), REDUCTIONS[item.instruction.op.reduces][1]
    return f"Ends<{kind}>::{name}()" if name in ("lowest", "highest") else f"({kind}){name}"


def unrolled(name: str, count: int, lines: Sequence[str]) -> list[str]:
    if count == 1:
        return [f"{{ const int {name} = 0;", *lines, "}"]
    return ["#pragma unroll", f"for (int {name} = 0; {name} < {count}; ++{name}) {{", *lines, "}"]


def collapsed(shape: Sequence[int], strides: Sequence[Sequence[int]]) -> tuple[list[int], list[list[int]]]:
    """Return sizes, and the strides of each access, with as few dimensions as possible, and at least one."""
    sizes: list[int] = []
    kept: list[list[int]] = [[] for _ in strides]
    for d, n in enumerate(shape):
        if n == 1:
            continue
        if sizes and all(k[-1] == s[d] * n for k, s in zip(kept, strides, strict=True)):
            sizes[-1] *= n
            for k, s in zip(kept, strides, strict=True):
                k[-1] = s[d]
            continue
        sizes.append(n)
        for k, s in zip(kept, strides, strict=True):
            k.append(s[d])
    return (sizes, kept) if sizes else ([1], [[0] for _ in strides])
