"""Fused kernels over rows.

    Rows        Some threads share a row and keep it in registers through all stages. The sums of one stage are known to
                all of them in the next. Sums over the rows, if there are any, are kept per thread, because a thread has
                the same columns in each of its rows.
    LongRows    One stage over rows too long for that: pieces of rows, which a second kernel combines.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from ndgrad._src.compiler.cuda.fused_columns import PIECES, join_parts, kept_in
from ndgrad._src.compiler.cuda.fused_form import THREADS, Form, Key, first_term, join_function, joining, unrolled
from ndgrad._src.compiler.cuda.fusion import Lines, computing_type, memory_type
from ndgrad._src.compiler.lower.steps import Item
from ndgrad._src.compiler.program.program import Value

#: Maximum number of pieces of a long row, and minimum number of elements of each.
ROW_PIECES, PIECE = 1024, 4096


class Rows(Form):
    """Form in which some threads share a row."""

    def outer_dims(self) -> int:
        return len(self.kernel.shape) - 1

    def write(self) -> None:
        kernel = self.kernel
        stages = [[i for i in self.items if i.stage == s] for s in range(kernel.stages)]
        elements = [[i for i in stage if not i.per_row] for stage in stages]
        again = self._read_again(elements)
        keeps = {v: self.fresh("e") for v in kernel.computed if v in kernel.scratch and v not in kernel.row_values}
        together, chunks = self._shared_among(len(again) + len(keeps) + len(kernel.targets))
        threads = max(together, 256 if kernel.targets else 128)
        groups = threads // together
        blocks = -(-self.rows // groups)
        if kernel.targets:
            blocks = min(blocks, PIECES // 2)
        count = chunks * self.width
        totals = {v: self.fresh("t") for v in kernel.targets}
        lines = [f"{computing_type(v.dtype)} {name}[{count}];" for v, name in totals.items()]
        for value, name in totals.items():
            lines += unrolled("i", count, [f"{name}[i] = {first_term(kernel.computed[value])};"])
        lines.append(f"const int lane = threadIdx.x % {together};")
        self._together, self._chunks = together, chunks
        body = self._row(elements, stages, keeps, totals, again)
        first = f"blockIdx.x * {groups}u + threadIdx.x / {together}"
        rounds = -(-self.rows // (blocks * groups))
        self._checks_rows = rounds * blocks * groups != self.rows
        lines += self._all_rows(body, first, rounds, blocks * groups)
        parts = {v: self.out.buffer(blocks * self.row * np.dtype(kept_in(v)).itemsize) for v in kernel.targets}
        lines += self._leave(totals, parts, groups)
        self.launch(lines, blocks, threads)
        join_parts(self, parts, blocks)

    def _read_again(self, elements: list[list[Item]]) -> list[Key]:
        """Return the reads that several stages make. Their values stay in registers."""
        used = {key: [s for s, items in enumerate(elements) if key in self.memory_reads(items)] for key in self.strides}
        return [
            k
            for k, s in used.items()
            if len(s) > 1 and k[0] not in self.affine and self.step(k) and (self.is_packed(k) or self.width == 1)
        ]

    def _all_rows(self, body: list[str], first: str, rounds: int, step: int) -> list[str]:
        """Return the loop over the rows of a thread, which starts at row `first`."""
        live = f"row_number < {self.rows}" if self._checks_rows else "true"
        row = [f"const bool live = {live};", f"const unsigned int row = live ? row_number : {self.rows - 1};", *body]
        if rounds == 1:
            return [f"const unsigned int row_number = {first};", *row]
        return [
            f"for (unsigned int round = 0; round < {rounds}; ++round) {{",
            f"const unsigned int row_number = {first} + round * {step}u;",
            *row,
            "}",
        ]

    def _shared_among(self, kept: int) -> tuple[int, int]:
        """Return the number of threads that share a row, and the packs of each."""
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
        for key, (_, inner) in self.strides.items():  # numbers per row are loaded once
            if not any(inner) and any(key in self.memory_reads(stage) for stage in stages):
                known[key] = self.fresh("r")
                lines.append(self.number_per_row(key, known[key], outer))
        held = {key: self.fresh("h") for key in again}
        for key, name in held.items():
            kind = self.pack(key[0]) if self.is_packed(key) else memory_type(key[0].dtype)
            lines.append(f"{kind} {name}[{self._chunks}];")
        count = self._chunks * width
        lines += [f"{computing_type(v.dtype)} {name}[{count}];" for v, name in keeps.items()]
        seen: set[Key] = set()
        for stage, items in zip(stages, elements, strict=True):
            reductions = [i for i in items if self.is_reduction(i) and i.instruction.result not in kernel.targets]
            sums = {i.instruction.result: self.fresh("s") for i in reductions}
            for i in reductions:
                name = sums[i.instruction.result]
                lines.append(f"{computing_type(i.instruction.result.dtype)} {name} = {first_term(i)};")
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
        """Write one pass over the row."""
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
        """Write the sums of the threads over their rows: a row per block."""
        lines: list[str] = []
        for value, name in totals.items():
            item, kind = self.kernel.computed[value], computing_type(value.dtype)
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
    """Return the least power of two that is not smaller."""
    return 1 << max(n - 1, 0).bit_length()


# ----- long rows ------------------------------------------------------------------------------------------------------


class LongRows(Form):
    """Form in which a block processes a piece of a row, in one stage."""

    def outer_dims(self) -> int:
        return len(self.kernel.shape) - 1

    def write(self) -> None:
        elements = [item for item in self.items if not item.per_row]
        reductions = [item for item in elements if self.is_reduction(item)]
        each = max(PIECE, -(-self.row // max(1, ROW_PIECES // self.rows)))
        packs = -(-each // self.width)  # packs of a piece
        pieces = -(-self.packs // packs)
        lines = [f"const unsigned int row = blockIdx.x / {pieces}, piece = blockIdx.x % {pieces};"]
        apart, outer = self.taken_apart("row", self.outer_sizes, "i")
        index, inner = self.inner_index("pack")
        sums = {item.instruction.result: self.fresh("s") for item in reductions}
        for item in reductions:
            name = sums[item.instruction.result]
            lines.append(f"{computing_type(item.instruction.result.dtype)} {name} = {first_term(item)};")
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
            kind = computing_type(value.dtype)
            parts[value] = self.out.buffer(self.rows * pieces * np.dtype(kept_in(value)).itemsize)
            lines.append(f"{name} = joined<{THREADS}>({name}, {join_function(item)});")
            lines.append(f"if (threadIdx.x == 0) (({kind}*){self.pointer(parts[value])})[blockIdx.x] = {name};")
        self.launch(lines, self.rows * pieces, THREADS)
        self._join(reductions, parts, pieces)

    def _join(self, reductions: list[Item], parts: dict[Value, int], pieces: int) -> None:
        """Write the function that combines pieces, and computes the numbers per row."""
        lines = ["const unsigned int row = blockIdx.x;"]
        apart, outer = self.taken_apart("row", self.outer_sizes, "i")
        lines += apart
        known: dict[Any, str] = {}
        for item in reductions:
            value, kind, name = item.instruction.result, computing_type(item.instruction.result.dtype), self.fresh("s")
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
