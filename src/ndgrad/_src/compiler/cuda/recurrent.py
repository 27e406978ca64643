"""Layers of LSTM, GRU and plain recurrent networks on a device (ndgrad._src.ops.recurrent_layer): for each step a
product by cuBLAS, and one kernel for all gates, forward and backward.

A step changes the first rows of the state in place. The kernel keeps the state before the step, the cell and the
gates, from which the gradients are computed without repeating the loop.
"""

from __future__ import annotations

import functools
import sys
from typing import Any

from ndgrad._src.compiler.cuda import launch, products
from ndgrad._src.compiler.cuda.copies import in_order
from ndgrad._src.compiler.cuda.cublas import handle
from ndgrad._src.compiler.cuda.values import PRELUDE

_THREADS = 256
_TYPES = {"f": "float", "d": "double"}
_GATES = {"LSTM": 4, "GRU": 3, "RNN_TANH": 1, "RNN_RELU": 1}
_KEPT = {"LSTM": 4, "GRU": 4, "RNN_TANH": 0, "RNN_RELU": 0}

# The arguments point to the rows of one step; `state`, `cell` and `hidden` to their first row.
_HEAD = """
struct Arguments {
    long long count, size;
    const T *x, *b; T *hidden, *state, *cell, *rows, *kept, *before, *cells;
    const T *g; T *gx, *gs;
};
#define AT(p, k, parts) p[row * (parts) * a.size + (k) * a.size + unit]
#define GATE(k, parts) (AT(a.x, k, parts) + HIDDEN(k, parts))
#define HIDDEN(k, parts) (AT(a.hidden, k, parts) + (a.b ? a.b[(k) * a.size + unit] : T(0)))
extern "C" __global__ void __launch_bounds__(256) kernel(const Arguments a) {
    const long long i = (long long)blockIdx.x * 256 + threadIdx.x;
    if (i >= a.count) return;
    const long long row = i / a.size, unit = i % a.size;
"""
_FORWARD = {
    "LSTM": """
    const T in = sigmoid(GATE(0, 4)), forget = sigmoid(GATE(1, 4)), fresh = tanh(GATE(2, 4)), out = sigmoid(GATE(3, 4));
    const T old = a.cell[i], made = forget * old + in * fresh;
    AT(a.kept, 0, 4) = in; AT(a.kept, 1, 4) = forget; AT(a.kept, 2, 4) = fresh; AT(a.kept, 3, 4) = out;
    a.cells[i] = old;
    a.cell[i] = made;
    const T h = out * tanh(made);
""",
    "GRU": """
    const T part = HIDDEN(2, 3), reset = sigmoid(GATE(0, 3)), update = sigmoid(GATE(1, 3));
    const T fresh = tanh(AT(a.x, 2, 3) + reset * part);
    AT(a.kept, 0, 4) = reset; AT(a.kept, 1, 4) = update; AT(a.kept, 2, 4) = fresh; AT(a.kept, 3, 4) = part;
    const T h = fresh + update * (a.state[i] - fresh);
""",
    "RNN_TANH": "    const T h = tanh(GATE(0, 1));\n",
    # A NaN stays NaN.
    "RNN_RELU": "    const T sum = GATE(0, 1), h = sum < 0 ? T(0) : sum;\n",
}
_STORE = """
    a.before[i] = a.state[i];
    a.rows[i] = a.state[i] = h;
}
"""
# `state` and `cell` hold gradients here.
_BACKWARD = {
    "LSTM": """
    const T g = a.state[i] + a.g[i];
    const T in = AT(a.kept, 0, 4), forget = AT(a.kept, 1, 4), fresh = AT(a.kept, 2, 4), out = AT(a.kept, 3, 4);
    const T old = a.cells[i], top = tanh(forget * old + in * fresh), e = a.cell[i] + g * out * (1 - top * top);
    AT(a.gx, 0, 4) = e * fresh * in * (1 - in);
    AT(a.gx, 1, 4) = e * old * forget * (1 - forget);
    AT(a.gx, 2, 4) = e * in * (1 - fresh * fresh);
    AT(a.gx, 3, 4) = g * top * out * (1 - out);
    a.cell[i] = e * forget;
}
""",
    "GRU": """
    const T g = a.state[i] + a.g[i];
    const T reset = AT(a.kept, 0, 4), update = AT(a.kept, 1, 4), fresh = AT(a.kept, 2, 4), part = AT(a.kept, 3, 4);
    const T e = g * (1 - update) * (1 - fresh * fresh), of_reset = e * part * reset * (1 - reset);
    const T of_update = g * (a.before[i] - fresh) * update * (1 - update);
    AT(a.gx, 0, 3) = AT(a.gs, 0, 3) = of_reset;
    AT(a.gx, 1, 3) = AT(a.gs, 1, 3) = of_update;
    AT(a.gx, 2, 3) = e;
    AT(a.gs, 2, 3) = e * reset;
    a.state[i] = g * update;
}
""",
    "RNN_TANH": "    a.gx[i] = (a.state[i] + a.g[i]) * (1 - a.rows[i] * a.rows[i]);\n}\n",
    "RNN_RELU": "    a.gx[i] = a.rows[i] > 0 ? a.state[i] + a.g[i] : T(0);\n}\n",
}
_LAYOUT = "14q"


def source(mode: str, char: str, backward: bool) -> str:
    """Return the text of the kernel of a step."""
    body = _BACKWARD[mode] if backward else _FORWARD[mode] + _STORE
    return f"{PRELUDE}typedef {_TYPES[char]} T;\n{_HEAD}{body}"


@functools.lru_cache(maxsize=64)
def _kernel(mode: str, char: str, backward: bool, device: int) -> launch.Kernel:
    return launch.Kernel(source(mode, char, backward), _LAYOUT)


def recurrent_for(x: Any, *others: Any) -> Any:
    """Return this module if it supports these arrays: singles or doubles, all of one dtype, and None."""
    given = [a for a in others if a is not None]
    if x.dtype.char not in _TYPES or not x.size or any(a.__class__ is not x.__class__ or a.dtype != x.dtype for a in given):
        return None
    return sys.modules[__name__]


class _Product:
    """The product of the first rows of an array with a matrix, into given memory."""

    def __init__(self, w: Any, transposed: bool, adds: bool) -> None:
        char = w.dtype.char
        rows, columns = w.shape
        self._type, self._double = products._TYPES[char], int(char == "d")
        self._wide, self._deep = (rows, columns) if transposed else (columns, rows)
        # cuBLAS counts columns first, so a row-major matrix is its transpose.
        self._order, self._step, self._at = int(transposed), columns, w.data.ptr
        self._scale = (products._ONE if adds else products._ZERO)[self._double]
        self._gemm, self._precision = handle(w.data.device_id).gemm, products._precision(char)

    def __call__(self, rows: int, given: int, to: int) -> None:
        """Multiply rows at one address, to another one."""
        kind = self._type
        self._gemm(
            self._order, 0, self._wide, rows, self._deep, products._ONE[self._double], self._at, kind, self._step, given, kind,
            self._deep, self._scale, to, kind, self._wide, self._precision, -1,
        )  # fmt: skip


def _copy(x: Any) -> Any:
    found = in_order(x)
    return found.copy() if found is x else found


def layer(mode: str, x: Any, h: Any, c: Any, w: Any, b: Any, steps: tuple[tuple[int, int], ...]) -> tuple[Any, ...]:
    """Run a layer over steps (first row, number of rows). Return the states, the last ones, and kept values."""
    x, w = in_order(x), in_order(w)
    b = None if b is None else in_order(b)
    (total, width), size, dtype = x.shape, h.shape[1], x.dtype
    has_cell = mode == "LSTM"
    rows, before = launch.new((total, size), dtype), launch.new((total, size), dtype)
    kept = launch.new((total, _KEPT[mode] * size), dtype)
    cells = launch.new((total, size) if has_cell else (0,), dtype)
    state, cell = _copy(h), _copy(c) if has_cell else launch.new((0,), dtype)
    hidden = launch.new((h.shape[0], width), dtype)
    kernel = _kernel(mode, dtype.char, False, x.data.device_id)
    multiply = _Product(w, True, False)
    item = dtype.itemsize
    line, line_x, line_kept = size * item, width * item, _KEPT[mode] * size * item
    at_x, at_b, at_hidden = x.data.ptr, 0 if b is None else b.data.ptr, hidden.data.ptr
    at_state, at_cell, at_rows, at_kept = state.data.ptr, cell.data.ptr, rows.data.ptr, kept.data.ptr
    at_before, at_cells = before.data.ptr, cells.data.ptr
    for start, count in steps:
        multiply(count, at_state, at_hidden)
        elements, offset = count * size, start * line
        kernel(
            -(-elements // _THREADS), _THREADS, elements, size, at_x + start * line_x, at_b, at_hidden, at_state, at_cell,
            at_rows + offset, at_kept + start * line_kept, at_before + offset, at_cells + offset, 0, 0, 0,
        )  # fmt: skip
    return rows, state, cell, kept, before, cells


def gradients(
    mode: str, g0: Any, g1: Any, g2: Any, rows: Any, kept: Any, before: Any, cells: Any, w: Any,
    steps: tuple[tuple[int, int], ...],
) -> tuple[Any, ...]:  # fmt: skip
    """Run a layer backwards. Return the gradients of the gates from the input and from the state, and of the states."""
    g0, w, rows, kept, before, cells = (in_order(a) for a in (g0, w, rows, kept, before, cells))
    (total, size), dtype, width = rows.shape, rows.dtype, _GATES[mode] * rows.shape[1]
    gx = launch.new((total, width), dtype)
    gs = launch.new((total, width) if mode == "GRU" else (0,), dtype)
    state, cell = _copy(g1), _copy(g2) if g2.size else launch.new((0,), dtype)
    kernel = _kernel(mode, dtype.char, True, rows.data.device_id)
    multiply = _Product(w, False, mode == "GRU")
    item = dtype.itemsize
    line, line_x, line_kept = size * item, width * item, _KEPT[mode] * size * item
    at_state, at_cell, at_rows, at_kept = state.data.ptr, cell.data.ptr, rows.data.ptr, kept.data.ptr
    at_before, at_cells, at_g, at_gx, at_gs = (a.data.ptr for a in (before, cells, g0, gx, gs))
    at_gates = at_gs if mode == "GRU" else at_gx
    for start, count in steps:
        elements, offset = count * size, start * line
        kernel(
            -(-elements // _THREADS), _THREADS, elements, size, 0, 0, 0, at_state, at_cell, at_rows + offset,
            at_kept + start * line_kept, at_before + offset, at_cells + offset, at_g + offset, at_gx + start * line_x,
            at_gs + start * line_x,
        )  # fmt: skip
        multiply(count, at_gates + start * line_x, at_state)
    return gx, gs, state, cell
