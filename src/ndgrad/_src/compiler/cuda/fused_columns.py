"""Fused kernels of sums over leading dimensions: a thread processes a pack of columns in a piece of the rows, and a
second kernel adds the pieces.

Their number depends only on sizes, so a result is the same in every run.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np

from ndgrad._src.compiler.cuda.fused_form import THREADS, Form, first_term, joining, unrolled
from ndgrad._src.compiler.cuda.fusion import computed, leading
from ndgrad._src.compiler.program.program import Value

#: Maximum number of pieces of sums over rows.
PIECES = 528


class Columns(Form):
    """Form in which a thread processes a pack of columns in a piece of the rows."""

    def outer_dims(self) -> int:
        kernel = self.kernel
        return leading(kernel, next(iter(kernel.targets.values())).strides)

    def write(self) -> None:
        kernel, width = self.kernel, self.width
        pieces = max(1, min(PIECES, self.rows // 8, -(-(1 << 17) // self.packs)))
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
                parts[value] = self.out.buffer(pieces * self.row * np.dtype(kept_in(value)).itemsize)
                target = f"(({computed(value.dtype)}*){self.pointer(parts[value])})"
                inside = f"{target}[(long long)piece * {self.row} + pack * {width} + k] = {name}[k];"
            lines += unrolled("k", width, [inside])
        self.launch(lines, -(-self.packs * pieces // THREADS), THREADS)
        join_parts(self, parts, pieces)


def kept_in(value: Value) -> np.dtype[Any]:
    """Return the dtype in which the terms of a reduction are kept."""
    return np.dtype(np.float32) if value.dtype.char in "eE" else value.dtype


def join_parts(form: Form, buffers: Mapping[Value, int], pieces: int) -> None:
    """Write a function that combines the parts of all sums over rows, with some blocks for each."""
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
