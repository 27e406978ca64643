"""The source of fused kernels: elementwise ops, rows with stages, and sums over leading dimensions, each one kernel.

    extern "C" __global__ void NAME(const Pointers<3> a)

Sizes, strides and numbers stand in the text, so that all a launch brings are addresses, and kernels of the same text
are one. There are three forms.

    flat        A thread takes a pack of neighbouring elements, 16 bytes of the narrowest operand.
    rows        Some threads take a row together and keep it in registers through all stages; what one stage has
                summed, all of them know in the next. Sums over the rows, if there are any, are kept per thread, for a
                thread has the same columns in each of its rows.
    long rows   One stage over rows too long for that: pieces of rows, which a second kernel joins.

Sums over rows leave a part per piece, which a second kernel adds up. How many pieces there are depends on sizes alone,
so a result is the same in every run.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from math import prod
from typing import Any

import numpy as np

from ndgrad.compiler.cuda.fusing import LONGEST_ROW, REDUCTIONS, Lines, computed, leading, stored
from ndgrad.compiler.cuda.values import PRELUDE
from ndgrad.compiler.lower.group import Item, Kernel
from ndgrad.compiler.lower.places import Place, whole
from ndgrad.compiler.program import Value

#: Threads of a block, and the bytes that one takes at a time.
THREADS = 256
BYTES = 16
#: Pieces of sums over rows, pieces of a long row, and the elements of one at least.
_PIECES, _ROW_PIECES, _PIECE = 528, 1024, 4096

HEAD = (
    PRELUDE.replace("sizeof(T) * N) Pack", "sizeof(T) * N > 16 ? 16 : sizeof(T) * N) Pack")
    + """
template <typename T> __device__ inline T wide(T x) { return x; }
template <typename S, typename T> __device__ inline void put(S& to, T x) { to = (S)x; }
template <typename S> __device__ inline float rounded(float x) { S s; put(s, x); return wide(s); }
template <typename T> struct Ends {
    static __device__ inline T lowest() { return (T)1 << (sizeof(T) * 8 - 1); }
    static __device__ inline T highest() { return ~((T)1 << (sizeof(T) * 8 - 1)); }
};
template <> struct Ends<float> {
    static __device__ inline float lowest() { return __int_as_float(0xff800000); }
    static __device__ inline float highest() { return __int_as_float(0x7f800000); }
};
template <> struct Ends<double> {
    static __device__ inline double lowest() { return __int_as_float(0xff800000); }
    static __device__ inline double highest() { return __int_as_float(0x7f800000); }
};
/* The terms of G threads that take a row together, joined: all of them get the result. */
template <int G, typename T, typename F> __device__ inline T joined(T x, F join) {
    #pragma unroll
    for (int d = (G < 32 ? G : 32) / 2; d; d >>= 1) x = join(x, (T)__shfl_xor_sync(0xffffffff, x, d));
    if (G > 32) {
        __shared__ T kept[32];
        __syncthreads();
        if (threadIdx.x % 32 == 0) kept[threadIdx.x / 32] = x;
        __syncthreads();
        const int first = threadIdx.x / G * (G / 32);
        x = kept[first];
        for (int i = 1; i < G / 32; ++i) x = join(x, kept[first + i]);
    }
    return x;
}
template <int N> struct Pointers { void* at[N]; };
/* Those of several kernels that are alike: from which block on each begins, and its packs. */
template <int K, int N> struct Many { long long count; long long first[K]; long long packs[K]; void* at[K][N]; };
"""
)



#: In the place of a pointer: that of the flag which is set once the device has noted a fault.
FLAG = -1

#: Where an element is read or written: the root, the offset, and the strides over a kernel's space.
Key = tuple[Value, int, tuple[int, ...]]


@dataclass(eq=False)
class Launch:
    """One kernel to be started: the text of its function (whose name is NAME), how many threads, and what its pointers
    are: values, the numbers of buffers that the step needs besides, or FLAG."""

    text: str
    blocks: int
    threads: int
    pointers: list[Value | int]


@dataclass(eq=False)
class Fused:
    """A kernel of a program as launches, one after another, and the bytes of the buffers between them."""

    launches: list[Launch] = field(default_factory=list)
    buffers: list[int] = field(default_factory=list)

    def buffer(self, size: int) -> int:
        """The number of a new buffer."""
        self.buffers.append(size)
        return len(self.buffers) - 1


class Affine:
    """Constants that need not be read: the numbers start + step i, of which an element's place in memory says i."""

    def __init__(self, constants: Mapping[Value, Any]) -> None:
        self.known: dict[Value, tuple[int, int]] = {}
        for value, array in constants.items():
            flat = np.asarray(array).reshape(-1)
            if value.dtype.kind in "iu" and flat.size > 1:
                start, step = int(flat[0]), int(flat[1]) - int(flat[0])
                if np.array_equal(flat, start + step * np.arange(flat.size)):
                    self.known[value] = start, step


def fused(kernel: Kernel, affine: Affine, guarded: bool = False) -> Fused:
    """A kernel of a program; `guarded`: it writes what stays, and does nothing once a fault was noted."""
    if kernel.rows is None and not kernel.targets:
        form: type[_Form] = _Flat
    elif kernel.rows is None:
        form = _Columns
    else:
        row, rows = kernel.shape[-1], prod(kernel.shape[:-1])
        few = kernel.stages == 1 and not kernel.targets and rows < 128 and row >= 4 * _PIECE
        form = _LongRows if row > LONGEST_ROW or few else _Rows
    made = form(kernel, affine, guarded)
    made.write()
    return made.out


# ----- what the forms share -------------------------------------------------------------------------------------------


class _Form:
    """Names, pointers, and how elements are read, computed and put. The space is cut in two: outer dimensions, of which
    a row or nothing is made, and inner ones, whose elements are taken by packs."""

    #: how many dimensions of the kernel are outer ones
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
        #: the strides of each access over both
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
        """All accesses to memory, element by element."""
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
        """The elements of a value in the order of the kernel's space."""
        found = whole(value).reshaped(self.kernel.shape)
        assert found is not None
        return found

    def _width(self) -> int:
        """Elements of a pack: as many as 16 bytes of the narrowest operand have, where all of them lie so."""
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
        """The name of a pointer among those of the function that is being written."""
        if value not in self.pointers:
            self.pointers.append(value)
        return f"p{self.pointers.index(value)}"

    def launch(self, lines: Sequence[str], blocks: int, threads: int) -> None:
        """Add a function of these lines, all of whose pointers are known."""
        kernel = self.kernel
        written = {*kernel.stores, *kernel.targets, *[place.root for _, place in kernel.puts]}
        text = [f'extern "C" __global__ void __launch_bounds__({threads}) NAME(const Pointers<COUNT> a) {{']
        pointers = list(self.pointers)
        if self.guarded:
            text.append(f"if (*(const unsigned long long*)a.at[{len(pointers)}]) return;")
            pointers.append(FLAG)
        for i, value in enumerate(self.pointers):
            kind = "unsigned char" if isinstance(value, int) else stored(value.dtype)
            const = "" if isinstance(value, int) or value in written else "const "
            restrict = "" if self.guarded or not const else " __restrict__"
            text.append(f"{const}{kind}*{restrict} const p{i} = ({const}{kind}*)a.at[{i}];")
        text = [line.replace("COUNT", str(max(len(pointers), 1))) for line in text]
        self.out.launches.append(Launch("\n".join([*text, *lines, "}"]), blocks, threads, pointers))
        self.pointers = []

    def taken_apart(self, name: str, sizes: Sequence[int], letter: str) -> tuple[list[str], list[str]]:
        """Lines that take an index over some sizes apart, and the names of its parts."""
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
        """Where an access finds an element, as an expression of indices."""
        strides = (*self.strides[key][0], *self.strides[key][1])
        terms = [f"{i} * {s}" if s != 1 else i for i, s in zip((*outer, *inner), strides, strict=True) if s]
        if any(s < 0 for s in strides):
            terms = [f"(long long){t}" for t in terms]
        return " + ".join([*terms, *([str(key[1])] if key[1] or not terms else [])])

    def inner_index(self, pack: str) -> tuple[list[str], list[str]]:
        """The indices of a pack's first element, from the pack's number."""
        sizes = [*self.inner_sizes[:-1], self.inner_sizes[-1] // self.width]
        lines, names = self.taken_apart(pack, sizes, "j")
        if self.width > 1:
            names = [*names[:-1], f"({names[-1]} * {self.width})"]
        return lines, names

    def step(self, key: Key) -> int:
        """The stride of an access along the innermost dimension."""
        return self.strides[key][1][-1]

    def pack(self, value: Value) -> str:
        return f"Pack<{stored(value.dtype)}, {self.width}>"

    def is_packed(self, key: Key) -> bool:
        return self.step(key) == 1 and self.width > 1

    def element(self, key: Key, kept: str, place: str) -> str:
        """Element k of a pack, of which `kept` is what was loaded."""
        root, step = key[0], self.step(key)
        if root in self.affine:
            start, by = self.affine[root]
            return f"({computed(root.dtype)})({start}ll + {by}ll * (long long)({place} + k * {step}))"
        if self.is_packed(key):
            return f"wide({kept}.at[k])"
        if step == 0 or self.width == 1:
            return f"wide({kept})"
        return f"wide({self.pointer(root)}[{place} + k * {step}])"

    def loaded(self, key: Key, place: str) -> str | None:
        """What an access loads once for a pack; None if nothing."""
        root = key[0]
        if root in self.affine:
            return None
        if self.is_packed(key):
            return f"*(const {self.pack(root)}*)({self.pointer(root)} + {place})"
        return f"{self.pointer(root)}[{place}]" if self.step(key) == 0 or self.width == 1 else None

    def number_per_row(self, key: Key, name: str, outer: Sequence[str]) -> str:
        """The line that reads what is the same along a row."""
        place, kind = self.place(key, outer, ["0"] * len(self.inner_sizes)), computed(key[0].dtype)
        if key[0] in self.affine:
            start, by = self.affine[key[0]]
            return f"const {kind} {name} = ({kind})({start}ll + {by}ll * (long long)({place}));"
        return f"const {kind} {name} = wide({self.pointer(key[0])}[{place}]);"

    def arguments(self, item: Item, known: Mapping[Any, str]) -> list[Any]:
        """The arguments of an item: (dtype, register), or numbers."""
        found: list[Any] = []
        for argument, place in zip(item.instruction.arguments, item.reads, strict=True):
            if place is None:
                found.append(argument)
            else:
                register = known[place.root] if place.root in self.kernel.computed else known[self.key(place)]
                found.append((place.root.dtype, register))
        return found

    def is_reduction(self, item: Item) -> bool:
        return item.instruction.op.name in REDUCTIONS

    def memory_reads(self, items: Sequence[Item]) -> list[Key]:
        """The accesses of some items, each once."""
        places = [p for item in items for p in item.reads if p is not None and p.root not in self.kernel.computed]
        return list(dict.fromkeys(self.key(p) for p in places))

    def computing(self, items: Sequence[Item], known: dict[Any, str], sums: Mapping[Value, str]) -> list[str]:
        """The lines that compute element k: registers of elements and numbers per row are known, terms are joined to
        the registers of sums."""
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
        """The values among some that are stored, and where."""
        kernel = self.kernel
        plain = [(v, self.key(self.all_of(v))) for v in values if v in kernel.stores and v not in kernel.row_values]
        return [*plain, *[(v, self.key(place)) for v, place in kernel.puts if v in values]]

    def storing(
        self, values: Sequence[Value], outer: Sequence[str], inner: Sequence[str]
    ) -> tuple[list[str], dict[Value, list[str]], list[str]]:
        """Lines before a pack, lines by value for element k (with %s for its register), and lines after the pack."""
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
        """The lines for one pack: loads, the elements one by one, stores. `keeps` are values whose elements stay, as
        `name[c]`, and `loaded` accesses that have been loaded before."""
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
                now[key] = reads.set(now[key], computed(key[0].dtype))
        inside = [*reads.lines, *self.computing(items, now, sums)]
        for value in made:
            inside += [line % now[value] for line in each.get(value, ())]
            if value in keeps:
                inside.append(f"{keeps[value]} = {now[value]};")
        return [*lines, *before, *unrolled("k", self.width, inside), *after]


def joining(item: Item, a: str, b: str) -> str:
    """Two terms of a reduction joined."""
    text = REDUCTIONS[item.instruction.op.name][0]
    return " ".join({"a": a, "b": b}.get(word, word) for word in text.split())


def join_function(item: Item) -> str:
    kind = computed(item.instruction.result.dtype)
    return f"[]({kind} a, {kind} b) -> {kind} {{ return {REDUCTIONS[item.instruction.op.name][0]}; }}"


def first_term(item: Item) -> str:
    """What is joined with the first term of a reduction."""
    kind, name = computed(item.instruction.result.dtype), REDUCTIONS[item.instruction.op.name][1]
    return f"Ends<{kind}>::{name}()" if name in ("lowest", "highest") else f"({kind}){name}"


def unrolled(name: str, count: int, lines: Sequence[str]) -> list[str]:
    if count == 1:
        return [f"{{ const int {name} = 0;", *lines, "}"]
    return ["#pragma unroll", f"for (int {name} = 0; {name} < {count}; ++{name}) {{", *lines, "}"]


def collapsed(shape: Sequence[int], strides: Sequence[Sequence[int]]) -> tuple[list[int], list[list[int]]]:
    """Sizes, and the strides of each access, with as few dimensions as can be, and at least one."""
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


# ----- flat -----------------------------------------------------------------------------------------------------------


class _Flat(_Form):
    """A thread takes a pack."""

    def write(self) -> None:
        lines, inner = self.inner_index("n")
        body = self.per_pack(self.items, ["0"], inner, {}, {}, {})
        start = f"const {self.index} n = ({self.index})blockIdx.x * {THREADS} + threadIdx.x;"
        self.launch([start, f"if (n >= {self.packs}) return;", *lines, *body], -(-self.packs // THREADS), THREADS)


@dataclass(eq=False)
class Line:
    """A kernel over operands that lie in one order without gaps, of which several that are alike can be one: its text for
    operands of any length, its pointers, and the packs that it takes."""

    text: str
    pointers: list[Value | int]
    packs: int


def as_line(kernel: Kernel, affine: Affine, guarded: bool = False) -> Line | None:
    """An elementwise kernel for operands of any length; None for one that goes by indices."""
    if kernel.rows is not None or kernel.targets or kernel.puts:
        return None
    form = _Flat(kernel, affine, guarded)
    if len(form.inner_sizes) > 1 or any(key[0] in form.affine or key[1] for key in form.strides):
        return None
    body = form.per_pack(form.items, ["0"], form.inner_index("n")[1], {}, {}, {})
    form.launch(body, 0, THREADS)
    (made,) = form.out.launches
    head = made.text.replace("NAME(const Pointers<", "NAME(const __grid_constant__ Many<ENTRIES, ", 1)
    head = head.replace("a.at[", "a.at[entry][")
    first, rest = head.split("\n", 1)
    search = [
        "int entry = 0, last = (int)a.count - 1;",
        "while (entry < last) {",
        "    const int middle = (entry + last + 1) / 2;",
        "    if (a.first[middle] <= blockIdx.x) entry = middle; else last = middle - 1;",
        "}",
        f"const {form.index} n = ({form.index})(blockIdx.x - a.first[entry]) * {THREADS} + threadIdx.x;",
        "if (n >= a.packs[entry]) return;",
    ]
    entries = entries_of(len(made.pointers))
    return Line("\n".join([first.replace("ENTRIES", str(entries)), *search, rest]), made.pointers, form.packs)


def entries_of(pointers: int) -> int:
    """How many kernels of so many pointers one launch can take: its argument has 4096 bytes."""
    return 500 // (pointers + 2)


# ----- rows -----------------------------------------------------------------------------------------------------------


class _Rows(_Form):
    """Some threads take a row together."""

    def outer_dims(self) -> int:
        return len(self.kernel.shape) - 1

    def write(self) -> None:
        kernel = self.kernel
        stages = [[i for i in self.items if i.stage == s] for s in range(kernel.stages)]
        elements = [[i for i in stage if not i.per_row] for stage in stages]
        used = {key: [s for s, items in enumerate(elements) if key in self.memory_reads(items)] for key in self.strides}
        #: what later stages read again stays in registers
        again = [
            k
            for k, s in used.items()
            if len(s) > 1 and k[0] not in self.affine and self.step(k) and (self.is_packed(k) or self.width == 1)
        ]
        keeps = {v: self.fresh("e") for v in kernel.computed if v in kernel.scratch and v not in kernel.row_values}
        together, chunks = self._shared_among(len(again) + len(keeps) + len(kernel.targets))
        threads = max(together, 256 if kernel.targets else 128)
        groups = threads // together
        blocks = -(-self.rows // groups)
        if kernel.targets:
            blocks = min(blocks, _PIECES // 2)
        count = chunks * self.width
        totals = {v: self.fresh("t") for v in kernel.targets}
        lines = [f"{computed(v.dtype)} {name}[{count}];" for v, name in totals.items()]
        for value, name in totals.items():
            lines += unrolled("i", count, [f"{name}[i] = {first_term(kernel.computed[value])};"])
        lines.append(f"const int lane = threadIdx.x % {together};")
        self._together, self._chunks = together, chunks
        body = self._row(elements, stages, keeps, totals, again)
        first = f"blockIdx.x * {groups}u + threadIdx.x / {together}"
        rounds = -(-self.rows // (blocks * groups))
        self._checks_rows = rounds * blocks * groups != self.rows
        live = f"row_number < {self.rows}" if self._checks_rows else "true"
        row = [f"const bool live = {live};", f"const unsigned int row = live ? row_number : {self.rows - 1};", *body]
        if rounds == 1:
            lines += [f"const unsigned int row_number = {first};", *row]
        else:
            lines += [
                f"for (unsigned int round = 0; round < {rounds}; ++round) {{",
                f"const unsigned int row_number = {first} + round * {blocks * groups}u;",
                *row,
                "}",
            ]
        parts = {v: self.out.buffer(blocks * self.row * np.dtype(_kept_in(v)).itemsize) for v in kernel.targets}
        lines += self._leave(totals, parts, groups)
        self.launch(lines, blocks, threads)
        join_parts(self, parts, blocks)

    def _shared_among(self, kept: int) -> tuple[int, int]:
        """How many threads take a row together, and how many packs each."""
        packs = self.packs
        if packs <= 128:
            together = min(32, _power(packs))
        else:
            together = min(1024, max(64, _power(-(-packs // 4))))
        while together < 1024 and -(-packs // together) * self.width * kept > 96 and packs > together:
            together *= 2
        return together, -(-packs // together)

    def _row(
        self,
        elements: list[list[Item]],
        stages: list[list[Item]],
        keeps: dict[Value, str],
        totals: dict[Value, str],
        again: list[Key],
    ) -> list[str]:
        kernel, width = self.kernel, self.width
        lines, outer = self.taken_apart("row", self.outer_sizes, "i")
        known: dict[Any, str] = {}
        for key, (_, inner) in self.strides.items():  # what is a number per row is loaded once
            if not any(inner) and any(key in self.memory_reads(stage) for stage in stages):
                known[key] = self.fresh("r")
                lines.append(self.number_per_row(key, known[key], outer))
        held = {key: self.fresh("h") for key in again}
        for key, name in held.items():
            kind = self.pack(key[0]) if self.is_packed(key) else stored(key[0].dtype)
            lines.append(f"{kind} {name}[{self._chunks}];")
        count = self._chunks * width
        lines += [f"{computed(v.dtype)} {name}[{count}];" for v, name in keeps.items()]
        seen: set[Key] = set()
        for stage, items in zip(stages, elements, strict=True):
            reductions = [i for i in items if self.is_reduction(i) and i.instruction.result not in kernel.targets]
            sums = {i.instruction.result: self.fresh("s") for i in reductions}
            for i in reductions:
                name = sums[i.instruction.result]
                lines.append(f"{computed(i.instruction.result.dtype)} {name} = {first_term(i)};")
            joined_to = {**sums, **{v: f"{name}[c * {width} + k]" for v, name in totals.items()}}
            now = {**known, **{v: f"{name}[c * {width} + k]" for v, name in keeps.items()}}
            if items:
                lines += self._pass(items, outer, now, joined_to, keeps, held, seen)
            for i in reductions:
                name = sums[i.instruction.result]
                lines.append(f"{name} = joined<{self._together}>({name}, {join_function(i)});")
                known[i.instruction.result] = name
            more = Lines(self.fresh)
            for item in stage:
                if item.per_row:
                    known[item.instruction.result] = more.item(item.instruction, self.arguments(item, known))
            lines += more.lines
        for value in kernel.stores:
            if value in kernel.row_values:
                lines.append(f"if (lane == 0 && live) put({self.pointer(value)}[row], {known[value]});")
        return lines

    def _pass(
        self,
        items: list[Item],
        outer: list[str],
        known: dict[Any, str],
        sums: dict[Value, str],
        keeps: dict[Value, str],
        held: dict[Key, str],
        seen: set[Key],
    ) -> list[str]:
        """One way through the row."""
        index, inner = self.inner_index("pack")
        kept = {v: f"{name}[c * {self.width} + k]" for v, name in keeps.items()}
        lines = list(index)
        loaded = {key: f"{name}[c]" for key, name in held.items()}
        for key in self.memory_reads(items):
            if key in held and key not in seen:
                seen.add(key)
                lines.append(f"{held[key]}[c] = {self.loaded(key, self.place(key, outer, inner))};")
        targets = [i for i in items if i.instruction.result in self.kernel.targets]
        lines += self.per_pack(items, outer, inner, known, sums, kept, loaded)
        needs_live = bool(targets) or any(self.writes([i.instruction.result]) for i in items)
        guards = [f"pack < {self.packs}"] if self.packs % self._together else []
        if needs_live:
            guards.append("live")
        test = [f"if ({' && '.join(guards)}) {{", *lines, "}"] if guards else lines
        return unrolled("c", self._chunks, [f"const {self.index} pack = lane + c * {self._together};", *test])

    def _leave(self, totals: dict[Value, str], parts: dict[Value, int], groups: int) -> list[str]:
        """Write what the threads have added up over their rows: a row per block."""
        lines: list[str] = []
        for value, name in totals.items():
            item, kind = self.kernel.computed[value], computed(value.dtype)
            target = f"(({kind}*){self.pointer(parts[value])})[(long long)blockIdx.x * {self.row} + at]"
            term = f"{name}[c * {self.width} + k]"
            at = f"const int at = (lane + c * {self._together}) * {self.width} + k;"
            if groups == 1:
                lines += self._all([at, f"{target} = {term};"])
                continue
            shared = self.fresh("shared")
            lines += [f"__shared__ {kind} {shared}[{self.row}];", f"for (int g = 0; g < {groups}; ++g) {{"]
            inside = f"{shared}[at] = g ? {joining(item, f'{shared}[at]', term)} : {term};"
            lines += [f"if (threadIdx.x / {self._together} == g) {{", *self._all([at, inside]), "}", "__syncthreads();", "}"]
            lines.append(f"for (int at = threadIdx.x; at < {self.row}; at += blockDim.x) {target} = {shared}[at];")
        return lines

    def _all(self, lines: list[str]) -> list[str]:
        guard = [f"if (lane + c * {self._together} < {self.packs}) {{", *lines, "}"]
        inside = guard if self.packs % self._together else lines
        return unrolled("c", self._chunks, unrolled("k", self.width, inside))


def _power(n: int) -> int:
    """The least power of two that is not smaller."""
    return 1 << max(n - 1, 0).bit_length()


def _kept_in(value: Value) -> np.dtype[Any]:
    """The dtype in which the terms of a reduction are kept."""
    return np.dtype(np.float32) if value.dtype.char in "eE" else value.dtype


def join_parts(form: _Form, buffers: Mapping[Value, int], pieces: int) -> None:
    """A function that joins the parts of all sums over rows, some blocks for each."""
    length = form.row
    each, lines = -(-length // 32), ["const int x = threadIdx.x % 32, y = threadIdx.x / 32;"]
    lines.append(f"const long long column = (long long)(blockIdx.x % {each}) * 32 + x;")
    for number, (value, buffer) in enumerate(buffers.items()):
        item, kind = form.kernel.computed[value], computed(value.dtype)
        parts, out, kept = form.pointer(buffer), form.pointer(value), form.fresh("kept")
        step = joining(item, "total", f"(({kind}*){parts})[(long long)i * {length} + column]")
        lines += [
            f"if (blockIdx.x / {each} == {number}) {{",
            f"__shared__ {kind} {kept}[8][32];",
            f"{kind} total = {first_term(item)};",
            f"if (column < {length}) for (int i = y; i < {pieces}; i += 8) total = {step};",
            f"{kept}[y][x] = total;",
            "__syncthreads();",
            f"if (y == 0 && column < {length}) {{",
            f"for (int i = 1; i < 8; ++i) total = {joining(item, 'total', f'{kept}[i][x]')};",
            f"put({out}[column], total);",
            "}",
            "}",
        ]
    if buffers:
        form.launch(lines, each * len(buffers), 256)


# ----- sums over leading dimensions -----------------------------------------------------------------------------------


class _Columns(_Form):
    """A thread takes a pack of columns through a piece of the rows."""

    def outer_dims(self) -> int:
        kernel = self.kernel
        return leading(kernel, next(iter(kernel.targets.values())).strides)

    def write(self) -> None:
        kernel, width = self.kernel, self.width
        pieces = max(1, min(_PIECES, self.rows // 8, -(-(1 << 17) // self.packs)))
        piece = -(-self.rows // pieces)
        pieces = -(-self.rows // piece)
        totals = {v: self.fresh("t") for v in kernel.targets}
        lines = [f"const {self.index} n = ({self.index})blockIdx.x * {THREADS} + threadIdx.x;"]
        lines += [f"if (n >= {self.packs * pieces}) return;", f"const {self.index} pack = n % {self.packs};"]
        lines.append(f"const unsigned int piece = n / {self.packs};")
        for value, name in totals.items():
            lines.append(f"{computed(value.dtype)} {name}[{width}];")
            lines += unrolled("k", width, [f"{name}[k] = {first_term(kernel.computed[value])};"])
        index, inner = self.inner_index("pack")
        apart, outer = self.taken_apart("row", self.outer_sizes, "i")
        body = self.per_pack(self.items, outer, inner, {}, {v: f"{name}[k]" for v, name in totals.items()}, {})
        last = f"piece * {piece}u + {piece}u < {self.rows}u ? piece * {piece}u + {piece}u : {self.rows}u"
        lines += [
            *index,
            f"const unsigned int last = {last};",
            "#pragma unroll 4",
            f"for (unsigned int row = piece * {piece}u; row < last; ++row) {{",
            *apart,
            *body,
            "}",
        ]
        parts: dict[Value, int] = {}
        for value, name in totals.items():
            if pieces == 1:
                inside = f"put({self.pointer(value)}[pack * {width} + k], {name}[k]);"
            else:
                parts[value] = self.out.buffer(pieces * self.row * np.dtype(_kept_in(value)).itemsize)
                target = f"(({computed(value.dtype)}*){self.pointer(parts[value])})"
                inside = f"{target}[(long long)piece * {self.row} + pack * {width} + k] = {name}[k];"
            lines += unrolled("k", width, [inside])
        self.launch(lines, -(-self.packs * pieces // THREADS), THREADS)
        join_parts(self, parts, pieces)


# ----- long rows ------------------------------------------------------------------------------------------------------


class _LongRows(_Form):
    """A block takes a piece of a row, in one stage."""

    def outer_dims(self) -> int:
        return len(self.kernel.shape) - 1

    def write(self) -> None:
        elements = [item for item in self.items if not item.per_row]
        reductions = [item for item in elements if self.is_reduction(item)]
        each = max(_PIECE, -(-self.row // max(1, _ROW_PIECES // self.rows)))
        packs = -(-each // self.width)  # of a piece
        pieces = -(-self.packs // packs)
        lines = [f"const unsigned int row = blockIdx.x / {pieces}, piece = blockIdx.x % {pieces};"]
        apart, outer = self.taken_apart("row", self.outer_sizes, "i")
        index, inner = self.inner_index("pack")
        sums = {item.instruction.result: self.fresh("s") for item in reductions}
        for item in reductions:
            name = sums[item.instruction.result]
            lines.append(f"{computed(item.instruction.result.dtype)} {name} = {first_term(item)};")
        end = f"piece * {packs}ll + {packs} < {self.packs} ? piece * {packs}ll + {packs} : {self.packs}ll"
        lines += [
            *apart,
            f"const long long last = {end};",
            f"for (long long pack = piece * {packs}ll + threadIdx.x; pack < last; pack += {THREADS}) {{",
            *index,
            *self.per_pack(elements, outer, inner, {}, sums, {}),
            "}",
        ]
        parts: dict[Value, int] = {}
        for item in reductions:
            value, name = item.instruction.result, sums[item.instruction.result]
            kind = computed(value.dtype)
            parts[value] = self.out.buffer(self.rows * pieces * np.dtype(_kept_in(value)).itemsize)
            lines.append(f"{name} = joined<{THREADS}>({name}, {join_function(item)});")
            lines.append(f"if (threadIdx.x == 0) (({kind}*){self.pointer(parts[value])})[blockIdx.x] = {name};")
        self.launch(lines, self.rows * pieces, THREADS)
        self._join(reductions, parts, pieces)

    def _join(self, reductions: list[Item], parts: dict[Value, int], pieces: int) -> None:
        """The function that joins pieces, and computes what is a number per row."""
        lines = ["const unsigned int row = blockIdx.x;"]
        apart, outer = self.taken_apart("row", self.outer_sizes, "i")
        lines += apart
        known: dict[Any, str] = {}
        for item in reductions:
            value, kind, name = item.instruction.result, computed(item.instruction.result.dtype), self.fresh("s")
            term = f"(({kind}*){self.pointer(parts[value])})[row * {pieces}u + i]"
            lines += [
                f"{kind} {name} = {first_term(item)};",
                f"for (unsigned int i = threadIdx.x; i < {pieces}; i += {THREADS}) {name} = {joining(item, name, term)};",
                f"{name} = joined<{THREADS}>({name}, {join_function(item)});",
            ]
            known[value] = name
        per_row = [item for item in self.items if item.per_row]
        for key in self.memory_reads(per_row):
            known[key] = self.fresh("r")
            lines.append(self.number_per_row(key, known[key], outer))
        more = Lines(self.fresh)
        for item in per_row:
            known[item.instruction.result] = more.item(item.instruction, self.arguments(item, known))
        lines += more.lines
        for value in self.kernel.stores:
            if value in self.kernel.row_values:
                lines.append(f"if (threadIdx.x == 0) put({self.pointer(value)}[row], {known[value]});")
        self.launch(lines, self.rows, THREADS)
