"""Programs by rows on a device (see ndgrad._src.compiler.lower.row_programs).

A block processes a row, or 32 adjacent columns. Its threads pass over them once for each level of reductions, after the
first time from caches, and once more for results that vary along the row. Sizes, steps and numbers are arguments of the kernel, so one
kernel serves all of them. Halves are computed in single precision and rounded when they are stored.
"""

from __future__ import annotations

import functools
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from math import prod
from typing import Any, NamedTuple

from ndgrad._src.compiler.cuda import launch
from ndgrad._src.compiler.cuda.columns import ALL_SUMS
from ndgrad._src.compiler.cuda.values import COMPUTED, PRELUDE, STORED, CudaWriter
from ndgrad._src.compiler.kernels.formula_values import Values
from ndgrad._src.compiler.kernels.maths.values import Mask, Real
from ndgrad._src.compiler.lower.row_programs import Columns, Layout, RowFormula, RowProgram, settle, terms_of

#: Maximum number of threads of a block.
_MOST_THREADS = 512
#: Maximum number of elements of a row: positions have 32 bits.
_LONGEST = 1 << 31
#: Columns of a block, one for each thread of a warp. The warps of a block divide the columns among them.
_WIDE = 32
#: A program is left to CuPy if it has fewer blocks than this, and each block more elements than this: most of the device
#: would be idle. One block needs some 1.3 ns for an element (an H200), so the limit stands for a few launches of CuPy.
_FEW_BLOCKS, _LONG_BLOCK = 64, 1 << 17


@dataclass(frozen=True)
class _Form:
    """The text of a kernel that depends on the layout of its rows."""

    #: The beginning of the kernel, the loop over the elements of a row, and the condition for storing results.
    begin: str
    each: str
    stores_numbers: str
    stores_elements: str
    #: The place of an element, a first element and a number of an operand, by the names of its steps.
    element: str
    first: str
    number: str
    #: Names of the steps of an operand.
    steps: tuple[str, ...]
    #: The place of a number per segment, and the loop over segments.
    segment: str = ""
    each_segment: str = ""
    #: Functions that combine the terms of all threads.
    across: str = ALL_SUMS


_ROWS = _Form(
    begin="const long long row = blockIdx.x; const unsigned length = a.length;",
    each="for (unsigned i = threadIdx.x; i < length; i += blockDim.x)",
    stores_numbers="if (threadIdx.x == 0)",
    stores_elements="",
    element="row * a.{0}_row + i",
    first="row * a.{0}_row",
    number="row * a.{0}_row",
    steps=("row", "segment"),
)
_SEGMENTS = replace(
    _ROWS,
    begin="const long long row = blockIdx.x; const unsigned length = a.length, elements = a.head * a.length;",
    each="for (unsigned k = threadIdx.x, s = k / length, i = k % length; k < elements; "
    "k += blockDim.x, s = k / length, i = k % length)",
    element="row * a.{0}_row + s * a.{0}_segment + i",
    segment="row * a.{0}_row + s * a.{0}_segment",
    each_segment="for (unsigned s = 0; s < a.head; ++s)",
)
_COLUMNS = _Form(
    begin="""const unsigned length = a.length, lane = threadIdx.x % 32, slices = blockDim.x / 32;
    const long long pieces = (a.head + 31) / 32, block = blockIdx.x / pieces, c = blockIdx.x % pieces * 32 + lane;
    const bool is_column = c < a.head;
    const long long column = is_column ? c : a.head - 1;""",
    each="for (unsigned i = threadIdx.x / 32; i < length; i += slices)",
    stores_numbers="if (threadIdx.x < 32 && is_column)",
    stores_elements="if (is_column)",
    element="block * a.{0}_block + i * a.{0}_down + column * a.{0}_across",
    first="block * a.{0}_block + column * a.{0}_across",
    number="block * a.{0}_block + column * a.{0}_across",
    steps=("block", "down", "across"),
    across="""
template <typename F> __device__ inline T joined(T x, F join) {
    __shared__ T kept[16][32];
    const unsigned lane = threadIdx.x % 32, slices = blockDim.x / 32;
    __syncthreads();
    kept[threadIdx.x / 32][lane] = x;
    __syncthreads();
    x = kept[0][lane];
    for (unsigned s = 1; s < slices; ++s) x = join(x, kept[s][lane]);
    return x;
}
__device__ inline T all_sum(T x) { return joined(x, [](T a, T b) { return a + b; }); }
__device__ inline T all_max(T x) { return joined(x, [](T a, T b) { return a != a || a > b ? a : b; }); }
""",
)


class _Reduction(NamedTuple):
    """The text of a reduction: its first value, a further term, and the function over all threads."""

    start: str
    join: str
    across: str


_SUM = _Reduction("T(0)", "{0} += {1};", "all_sum")
_MAXIMUM = _Reduction("-infinity", "{0} = {1} != {1} || {1} > {0} ? {1} : {0};", "all_max")


def form_of(layout: Layout | Columns) -> _Form:
    """Return the form of kernels for a layout."""
    return _COLUMNS if isinstance(layout, Columns) else _SEGMENTS if layout.segment_step else _ROWS


def row_source(formula: RowFormula, char: str, form: _Form) -> str:
    """Return the CUDA code of a formula, for arrays of a dtype."""
    writing = _Writing(formula, char, form)
    lines = "\n".join(f"    {line}" for line in writing.lines)
    return f"""{PRELUDE}typedef {COMPUTED[char]} T; typedef {STORED[char]} S;{form.across}
struct Arguments {{ long long head; long long length; {_fields(formula, form)} }};
extern "C" __global__ void kernel(const Arguments a) {{
    const T infinity = __int_as_float(0x7f800000);
    {form.begin}
{lines}
}}
"""


class _Writing:
    """Writes the lines of a kernel."""

    def __init__(self, formula: RowFormula, char: str, form: _Form) -> None:
        self.formula, self.form = formula, form
        self.w = CudaWriter(COMPUTED[char])
        self.lines: list[str] = []
        self._taken = 0
        numbers = [Real(self.w, f"T(a.p{n})") for n in range(formula.signature.numbers)]
        values = Values(self.w, formula.signature, self._load_input, numbers)
        for level in range(formula.levels + 1):
            for how, found in formula.reductions(level).items():
                self._reduce(values, how, found)
            settle(values, formula, level)
            self.lines += self._take()
        self._store(values)

    def _load_input(self, n: int, at: Any) -> Real:
        form = self.form
        role = self.formula.roles[n]
        is_number = at is None or not role.is_element
        place = form.number if is_number else form.first if at == "first" else form.element
        if role.is_segment:
            place = form.segment
        return Real(self.w, self.w.set(f"wide(a.i{n}[{place.format(f'i{n}')}])"))

    def _take(self) -> list[str]:
        """Take the lines that the writer has written since the last call."""
        found = self.w.lines[self._taken :]
        self._taken = len(self.w.lines)
        return found

    def _reduce(self, values: Values, how: str, found: Sequence[int]) -> None:
        terms = [*map(values.compute_at("element"), terms_of(self.formula, found))]
        reduction = _SUM if how == "sum" else _MAXIMUM
        joins = [reduction.join.format(f"r{n}", term) for n, term in zip(found, terms, strict=True)]
        self.lines += [f"T r{n} = {reduction.start};" for n in found]
        self.lines += [self.form.each + " {", *self._take(), *joins, "}"]
        self.lines += [f"const T n{n} = {reduction.across}(r{n});" for n in found]
        values.numbers.update({n: Real(self.w, f"n{n}") for n in found})

    def _store(self, values: Values) -> None:
        form, value, puts = self.form, values.compute_at("element"), []
        for k, n in self.formula.elements:
            puts.append(f"{form.stores_elements} put(a.o{k}[{form.element.format(f'o{k}')}], {_as_real(value(n))});")
        if puts:
            self.lines += [form.each + " {", *self._take(), *puts, "}"]
        self._sum_segments(values)
        for k, n in self.formula.row_numbers:
            result, place = _as_real(values.numbers[n]), form.number.format(f"o{k}")
            self.lines += [*self._take(), f"{form.stores_numbers} put(a.o{k}[{place}], {result});"]

    def _sum_segments(self, values: Values) -> None:
        """Write the sums over segments, one segment after another."""
        form, sums = self.form, self.formula.segment_sums
        if not sums:
            return
        terms = [*map(values.compute_at("element"), terms_of(self.formula, [n for _, n in sums]))]
        self.lines += [form.each_segment + " {", *[f"T r{n} = T(0);" for _, n in sums]]
        self.lines += ["for (unsigned i = threadIdx.x; i < length; i += blockDim.x) {", *self._take()]
        self.lines += [_SUM.join.format(f"r{n}", term) for (_, n), term in zip(sums, terms, strict=True)]
        self.lines += ["}", *[f"const T n{n} = all_sum(r{n});" for _, n in sums]]
        for k, n in sums:
            self.lines.append(f"{form.stores_numbers} put(a.o{k}[{form.segment.format(f'o{k}')}], n{n});")
        self.lines.append("}")


def _as_real(value: Real | Mask) -> Real:
    return value.choose(1.0, 0.0) if isinstance(value, Mask) else value


def _fields(formula: RowFormula, form: _Form) -> str:
    names = [(f"o{k}", "S*") for k in range(len(formula.results))]
    names += [(f"i{n}", "const S*") for n in formula.signature.inputs]
    fields = [f"{type} {name}; " + " ".join(f"long long {name}_{step};" for step in form.steps) for name, type in names]
    return " ".join([*fields, *[f"double p{n};" for n in range(formula.signature.numbers)]])


@functools.lru_cache(maxsize=512)
def _kernel(formula: RowFormula, char: str, form: _Form, device: int) -> launch.Kernel:
    signature = formula.signature
    words = 2 + (1 + len(form.steps)) * (len(signature.outputs) + len(signature.inputs))
    return launch.Kernel(row_source(formula, char, form), f"{words}q{signature.numbers}d")


def make_launcher(program: RowProgram, x: Any) -> Callable[[Sequence[Any]], list[Any]] | None:
    """Return the function that runs a program by rows on dense arrays of the dtype and device of x; None if CuPy is
    better.

    All words of the kernel's argument are known, except for the addresses.
    """
    rows = program.layout
    if isinstance(rows, Columns):
        head, elements = rows.inner, rows.length
        blocks = rows.outer * -(-rows.inner // _WIDE)
        threads = _WIDE * max(1, min(_MOST_THREADS // _WIDE, rows.length // 4))
        along: tuple[int, ...] = (rows.length * rows.inner, rows.inner, 1)
        once: tuple[int, ...] = (rows.inner, 0, 1)
        per_block = rows.length * min(rows.inner, _WIDE)
    else:
        head, elements, blocks = rows.segments, rows.segments * rows.length, rows.rows
        threads = min(_MOST_THREADS, max(32, 32 * (-(-elements // 128))))
        along, once = (rows.row_step, rows.segment_step), (1, 0)
        per_block = elements
    if elements >= _LONGEST or blocks >= _LONGEST or (blocks < _FEW_BLOCKS and per_block > _LONG_BLOCK):
        return None
    kernel = _kernel(program.formula, x.dtype.char, form_of(rows), x.data.device_id)
    segment = () if isinstance(rows, Columns) else (rows.segments, 1)
    roles = [role for _, role in program.formula.results]
    steps = [along if role.is_element else segment if role.is_segment else once for role in roles]
    dtype, shapes, made = x.dtype, program.shapes, len(program.shapes)
    parts: tuple[tuple[int, int], ...] = ()
    sizes = [prod(shape) * dtype.itemsize for shape in shapes]
    if program.parts:  # Note [Parts of rows]
        results = len(steps)
        steps = [(part.row_step, 0) for part in program.parts[:results]]
        firsts = [0] * results + [made] * (len(program.parts) - results)
        parts = tuple([(n + part.array, part.offset * dtype.itemsize) for part, n in zip(program.parts, firsts, strict=True)])
    known = [word for step in (*steps, *program.steps) for word in (0, *step)]
    words, each = [head, rows.length, *known, *program.numbers], 1 + len(form_of(rows).steps)
    first, end = 2, 2 + len(known)

    def run(arrays: Sequence[Any]) -> list[Any]:
        memory = [launch.allocate(size) for size in sizes]
        places = [*[m.ptr for m in memory], *[a.data.ptr for a in arrays]]
        if parts:
            places = [places[n] + offset for n, offset in parts]
        given = words.copy()
        given[first:end:each] = places
        kernel(blocks, threads, *given)
        return [launch.array(shape, dtype, m) for shape, m in zip(shapes, memory)]

    return run
