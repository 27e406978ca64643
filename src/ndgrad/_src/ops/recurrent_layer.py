"""A layer of a recurrent network over a whole sequence, as one op: LSTM, GRU and plain networks on a device.

A device computes a step in microseconds, so a loop of recorded ops spends its time in Python. This op runs the loop
over arrays: a product and one kernel per step in each direction. The products with weights of all steps, in reverse
mode, are one product.

`x` holds the rows of all steps, one step after another: the products of the inputs with their weights, of G gates of
size H. `sizes` has the number of rows of each step, which never rises (packed sequences). The state is an array of one
row per sequence. A step changes its first rows; so the last state of a sequence that has ended stays, and with
`reverse` a sequence joins with its first state. The results are the states of all steps, the last states, and values
for reverse mode: the gates, and the states and cells before each step.

The reverse rule is a second op on the kept values. If the gradients are differentiated again, the rule is composed of
the ops of single steps instead.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING, Any

from ndgrad._src.arrays import native_kernels
from ndgrad._src.foundations import registry
from ndgrad._src.ops import activation, join, product, reduce, shape, slices  # noqa: F401  # rules use these ops
from ndgrad._src.ops.errors import refuse_complex
from ndgrad._src.ops.recurrent import (
    _gru_gates,
    _gru_jvp,
    _gru_slopes,
    _lstm_gates,
    _lstm_jvp,
    _lstm_slopes,
    _sum_given,
)
from ndgrad._src.ops.table import NOT_DIFFERENTIABLE, op
from ndgrad._src.ops.vocabulary import raw_ops

if TYPE_CHECKING:
    from ndgrad._typing import Library, Payload, Vocabulary

#: Number of gates of a step, and of parts that are kept for reverse mode.
GATES = {"LSTM": 4, "GRU": 3, "RNN_TANH": 1, "RNN_RELU": 1}
KEPT = {"LSTM": 4, "GRU": 4, "RNN_TANH": 0, "RNN_RELU": 0}


def each_step(sizes: tuple[int, ...], reverse: bool) -> Iterator[tuple[int, int]]:
    """Return the first row and the number of rows of each step, in the order of the loop."""
    starts = [0]
    for size in sizes:
        starts.append(starts[-1] + size)
    pairs = list(zip(starts, sizes, strict=False))
    return iter(reversed(pairs) if reverse else pairs)


# ----- arrays ---------------------------------------------------------------------------------------------------------


def _layer(
    np: Library, x: Payload, first: Payload, cell: Payload, w: Payload, b: Payload, *, mode: str,
    sizes: tuple[int, ...], reverse: bool,
) -> tuple[Any, ...]:  # fmt: skip
    refuse_complex("recurrent_layer", *(a for a in (x, first, cell, w, b) if a is not None))
    kernels = native_kernels.recurrent_kernels(x, first, cell, w, b)
    if kernels is not None:
        found: tuple[Any, ...] = kernels.layer(mode, x, first, cell, w, b, tuple(each_step(sizes, reverse)))
        return found
    size, has_cell = first.shape[-1], mode == "LSTM"
    rows, before = np.empty((len(x), size), x.dtype), np.empty((len(x), size), x.dtype)
    kept = np.empty((len(x), KEPT[mode] * size), x.dtype)
    cells = np.empty((len(x), size) if has_cell else (0,), x.dtype)
    last, cell = np.array(first), np.array(cell) if has_cell else np.empty((0,), x.dtype)
    if getattr(x, "is_meta", False):
        return rows, last, cell, kept, before, cells
    ops = raw_ops(np)
    for start, count in each_step(sizes, reverse):
        part, state = slice(start, start + count), last[:count]
        hidden = state @ w.T if b is None else state @ w.T + b
        before[part] = state
        if has_cell:
            cells[part] = old = cell[:count]
            i, f, n, o = _lstm_gates(x[part], hidden, ops)
            new = f * old + i * n
            cell[:count], kept[part] = new, np.concatenate([i, f, n, o], axis=1)
            state = o * np.tanh(new)
        elif mode == "GRU":
            r, z, n, b_n = _gru_gates(x[part], hidden, ops)
            kept[part] = np.concatenate([r, z, n, b_n], axis=1)
            state = n + z * (state - n)
        else:
            state = np.tanh(x[part] + hidden) if mode == "RNN_TANH" else np.maximum(x[part] + hidden, 0)
        rows[part] = last[:count] = state
    return rows, last, cell, kept, before, cells


def _gradients(
    np: Library, g_out: Payload, g_last: Payload, g_cell: Payload, rows: Payload, kept: Payload, before: Payload,
    cells: Payload, w: Payload, *, mode: str, sizes: tuple[int, ...], reverse: bool,
) -> tuple[Any, ...]:  # fmt: skip
    kernels = native_kernels.recurrent_kernels(g_out, g_last, rows, kept, before, w)
    if kernels is not None:
        steps = tuple(each_step(sizes, not reverse))
        found: tuple[Any, ...] = kernels.gradients(mode, g_out, g_last, g_cell, rows, kept, before, cells, w, steps)
        return found
    (count, size), gates = rows.shape, GATES[mode]
    gx = np.empty((count, gates * size), rows.dtype)
    gs = np.empty((count, gates * size) if mode == "GRU" else (0,), rows.dtype)
    gh, gc = np.array(g_last), np.array(g_cell)
    if getattr(rows, "is_meta", False):
        return gx, gs, gh, gc
    for start, now in each_step(sizes, not reverse):
        part = slice(start, start + now)
        g = gh[:now] + g_out[part]
        if mode == "LSTM":
            i, f, n, o = np.split(kept[part], 4, axis=1)
            old = cells[part]
            out = np.tanh(f * old + i * n)
            e = gc[:now] + g * o * (1 - out * out)
            gx[part] = np.concatenate(
                [e * n * i * (1 - i), e * old * f * (1 - f), e * i * (1 - n * n), g * out * o * (1 - o)], axis=1
            )
            gc[:now] = e * f
            gh[:now] = gx[part] @ w
        elif mode == "GRU":
            r, z, n, b_n = np.split(kept[part], 4, axis=1)
            e = g * (1 - z) * (1 - n * n)
            e_r, e_z = e * b_n * r * (1 - r), g * (before[part] - n) * z * (1 - z)
            gx[part], gs[part] = np.concatenate([e_r, e_z, e], axis=1), np.concatenate([e_r, e_z, e * r], axis=1)
            gh[:now] = g * z + gs[part] @ w
        else:
            out = rows[part]
            gx[part] = g * (1 - out * out) if mode == "RNN_TANH" else np.where(out > 0, g, 0)
            gh[:now] = gx[part] @ w
    return gx, gs, gh, gc


# ----- rules ----------------------------------------------------------------------------------------------------------


def _rows(x: Payload, start: int, stop: int, ops: Vocabulary) -> Payload:
    return x if (start, stop) == (0, x.shape[0]) else ops.slice(x, dim=0, start=start, stop=stop, step=1)


def _replace_rows(state: Payload, first: Payload, ops: Vocabulary) -> Payload:
    """Return a state with other first rows."""
    count = first.shape[0]
    return first if count == state.shape[0] else ops.cat(first, _rows(state, count, state.shape[0], ops), dim=0)


def _swap(x: Payload, ops: Vocabulary) -> Payload:
    return ops.permute(x, dims=(1, 0))


def _hidden(state: Payload, w: Payload, b: Payload, ops: Vocabulary) -> Payload:
    out = ops.matmul(state, _swap(w, ops))
    return out if b is None else out + b


def _vjp(
    g0: Payload, g1: Payload, g2: Payload, x: Payload, first: Payload, cell: Payload, w: Payload, b: Payload,
    out0: Payload, out3: Payload, out4: Payload, out5: Payload, mode: str, sizes: tuple[int, ...], reverse: bool,
    needs: tuple[bool, ...], ops: Vocabulary,
) -> tuple[Any, ...]:  # fmt: skip
    if ops.raw or not registry.recorder.is_recording():
        settings = {"mode": mode, "sizes": sizes, "reverse": reverse}
        gx, gs, gh, gc = ops.recurrent_layer_gradients(g0, g1, g2, out0, out3, out4, out5, w, **settings)
        gs, before = (gs if mode == "GRU" else gx), out4
    else:
        gx, gs, gh, gc, before = _composed_gradients(g0, g1, g2, x, first, cell, w, b, mode, sizes, reverse, ops)
    return (
        gx,
        gh,
        None if cell is None else gc,
        ops.matmul(_swap(gs, ops), before) if needs[3] else None,
        None if b is None or not needs[4] else ops.sum(gs, dim=(0,), keepdim=False),
    )


def _composed_gradients(
    g0: Payload, g1: Payload, g2: Payload, x: Payload, first: Payload, cell: Payload, w: Payload, b: Payload, mode: str,
    sizes: tuple[int, ...], reverse: bool, ops: Vocabulary,
) -> tuple[Any, ...]:  # fmt: skip
    """Return the gradients of gates and first states, and the states before all steps, as recorded ops."""
    steps = []
    state = first
    for start, count in each_step(sizes, reverse):
        gates, old = _rows(x, start, start + count, ops), _rows(state, 0, count, ops)
        hidden, old_cell = _hidden(old, w, b, ops), None if cell is None else _rows(cell, 0, count, ops)
        if mode == "LSTM":
            new, new_cell = ops.lstm_cell(gates, hidden, old_cell)
            cell = _replace_rows(cell, new_cell, ops)
        elif mode == "GRU":
            new = ops.gru_cell(gates, hidden, old)
        else:
            new = (ops.tanh if mode == "RNN_TANH" else ops.relu)(gates + hidden)
        state = _replace_rows(state, new, ops)
        steps.append((start, count, gates, hidden, old, old_cell, new))
    gh, gc, found = g1, g2, []
    for start, count, gates, hidden, old, old_cell, new in reversed(steps):
        g = _rows(gh, 0, count, ops) + _rows(g0, start, start + count, ops)
        if mode == "LSTM":
            gx, slope = _lstm_slopes(g, _rows(gc, 0, count, ops), gates, hidden, old_cell, ops)
            gs, rest, gc = gx, None, _replace_rows(gc, slope, ops)
        elif mode == "GRU":
            gx, gs, rest = _gru_slopes(g, gates, hidden, old, ops)
        else:
            gx = g * (1.0 - new * new) if mode == "RNN_TANH" else ops.where(new > 0, g, 0.0)
            gs, rest = gx, None
        gh = _replace_rows(gh, _sum_given(ops.matmul(gs, w), rest), ops)
        found.append((start, gx, gs, old))
    found.sort(key=lambda parts: parts[0])
    all_gx, all_gs, before = (ops.cat(*[parts[k] for parts in found], dim=0) for k in (1, 2, 3))
    return all_gx, all_gs, gh, gc, before


def _jvp(
    x: Payload, first: Payload, cell: Payload, w: Payload, b: Payload, x_t: Payload, first_t: Payload,
    cell_t: Payload, w_t: Payload, b_t: Payload, mode: str, sizes: tuple[int, ...], reverse: bool, ops: Vocabulary,
) -> tuple[Any, ...]:  # fmt: skip
    def part_of(value: Any, start: int, stop: int) -> Any:
        return None if value is None else _rows(value, start, stop, ops)

    def zero_if_none(value: Any, like: Payload) -> Payload:
        return ops.zeros_like(like) if value is None else value

    state, found = first, []
    state_t, cell_t = zero_if_none(first_t, first), None if cell is None else zero_if_none(cell_t, cell)
    for start, count in each_step(sizes, reverse):
        gates, old = _rows(x, start, start + count, ops), _rows(state, 0, count, ops)
        gates_t, old_t = part_of(x_t, start, start + count), _rows(state_t, 0, count, ops)
        hidden = _hidden(old, w, b, ops)
        hidden_t = ops.matmul(old_t, _swap(w, ops))
        hidden_t = _sum_given(hidden_t, None if w_t is None else ops.matmul(old, _swap(w_t, ops)), b_t)
        if mode == "LSTM":
            old_cell, old_cell_t = part_of(cell, 0, count), part_of(cell_t, 0, count)
            new, new_cell = ops.lstm_cell(gates, hidden, old_cell)
            new_t, new_cell_t = _lstm_jvp(gates, hidden, old_cell, gates_t, hidden_t, old_cell_t, ops)
            cell, cell_t = _replace_rows(cell, new_cell, ops), _replace_rows(cell_t, new_cell_t, ops)
        elif mode == "GRU":
            new = ops.gru_cell(gates, hidden, old)
            new_t = _gru_jvp(gates, hidden, old, gates_t, hidden_t, old_t, ops)
        else:
            new = (ops.tanh if mode == "RNN_TANH" else ops.relu)(gates + hidden)
            sum_t = _sum_given(gates_t, hidden_t)
            new_t = sum_t * (1.0 - new * new) if mode == "RNN_TANH" else ops.where(new > 0, sum_t, 0.0)
        state, state_t = _replace_rows(state, new, ops), _replace_rows(state_t, new_t, ops)
        found.append((start, new_t))
    rows_t = ops.cat(*[t for _, t in sorted(found, key=lambda pair: pair[0])], dim=0)
    return rows_t, state_t, cell_t, None, None, None


# ----- samples, as a dimension in front of all arrays: the steps as ops, over all samples ----------------------------


def _steps_of(x: Payload, start: int, count: int, ops: Vocabulary) -> Payload:
    return ops.slice(x, dim=1, start=start, stop=start + count, step=1)


def _replace_first(state: Payload, first: Payload, ops: Vocabulary) -> Payload:
    count, total = first.shape[1], state.shape[1]
    return first if count == total else ops.cat(first, _steps_of(state, count, total - count, ops), dim=1)


def _parts(x: Payload, count: int, ops: Vocabulary) -> list[Payload]:
    size = x.shape[-1] // count
    return [ops.slice(x, dim=2, start=k * size, stop=(k + 1) * size, step=1) for k in range(count)]


def _in_order(parts: list[tuple[int, Any]], ops: Vocabulary) -> Payload:
    """Return the rows of all steps, each given with its first row."""
    return ops.cat(*[part for _, part in sorted(parts, key=lambda pair: pair[0])], dim=1)


def _batch(
    x: Payload, first: Payload, cell: Payload, w: Payload, b: Payload, mode: str, sizes: tuple[int, ...],
    reverse: bool, ops: Vocabulary,
) -> tuple[Any, ...]:  # fmt: skip
    state, has_cell = first, mode == "LSTM"
    found: dict[str, list[tuple[int, Any]]] = {name: [] for name in ("rows", "kept", "before", "cells")}
    across = ops.permute(w, dims=(0, 2, 1))
    for start, count in each_step(sizes, reverse):
        gates, old = _steps_of(x, start, count, ops), _steps_of(state, 0, count, ops)
        hidden = ops.matmul(old, across)
        if b is not None:
            hidden = hidden + ops.reshape(b, shape=(b.shape[0], 1, b.shape[1]))
        if has_cell:
            old_cell = _steps_of(cell, 0, count, ops)
            i, f, n, o = _lstm_gates(gates, hidden, ops)
            new_cell = f * old_cell + i * n
            new, cell = o * ops.tanh(new_cell), _replace_first(cell, new_cell, ops)
            found["kept"].append((start, ops.cat(i, f, n, o, dim=2)))
            found["cells"].append((start, old_cell))
        elif mode == "GRU":
            r, z, n, b_n = _gru_gates(gates, hidden, ops)
            new = n + z * (old - n)
            found["kept"].append((start, ops.cat(r, z, n, b_n, dim=2)))
        else:
            new = (ops.tanh if mode == "RNN_TANH" else ops.relu)(gates + hidden)
        found["rows"].append((start, new))
        found["before"].append((start, old))
        state = _replace_first(state, new, ops)
    rows = _in_order(found["rows"], ops)
    # Arrays without elements, for kinds that keep no gates or have no cell.
    nothing = ops.slice(rows, dim=2, start=0, stop=0, step=1)
    empty = ops.reshape(ops.slice(nothing, dim=1, start=0, stop=0, step=1), shape=(rows.shape[0], 0))
    kept = _in_order(found["kept"], ops) if KEPT[mode] else nothing
    cells = _in_order(found["cells"], ops) if has_cell else empty
    return rows, state, cell if has_cell else empty, kept, _in_order(found["before"], ops), cells


def _gradients_batch(
    g_out: Payload, g_last: Payload, g_cell: Payload, rows: Payload, kept: Payload, before: Payload, cells: Payload,
    w: Payload, mode: str, sizes: tuple[int, ...], reverse: bool, ops: Vocabulary,
) -> tuple[Any, ...]:  # fmt: skip
    gh, gc = g_last, g_cell
    of_input: list[tuple[int, Any]] = []
    of_state: list[tuple[int, Any]] = []
    for start, count in each_step(sizes, not reverse):
        g = _steps_of(gh, 0, count, ops) + _steps_of(g_out, start, count, ops)
        rest = None
        if mode == "LSTM":
            i, f, n, o = _parts(_steps_of(kept, start, count, ops), 4, ops)
            old = _steps_of(cells, start, count, ops)
            out = ops.tanh(f * old + i * n)
            e = _steps_of(gc, 0, count, ops) + g * o * (1.0 - out * out)
            slopes = (e * n * i * (1.0 - i), e * old * f * (1.0 - f), e * i * (1.0 - n * n), g * out * o * (1.0 - o))
            gx = gs = ops.cat(*slopes, dim=2)
            gc = _replace_first(gc, e * f, ops)
        elif mode == "GRU":
            r, z, n, b_n = _parts(_steps_of(kept, start, count, ops), 4, ops)
            e = g * (1.0 - z) * (1.0 - n * n)
            e_r, e_z = e * b_n * r * (1.0 - r), g * (_steps_of(before, start, count, ops) - n) * z * (1.0 - z)
            gx, gs, rest = ops.cat(e_r, e_z, e, dim=2), ops.cat(e_r, e_z, e * r, dim=2), g * z
        else:
            out = _steps_of(rows, start, count, ops)
            gx = gs = g * (1.0 - out * out) if mode == "RNN_TANH" else ops.where(out > 0, g, 0.0)
        gh = _replace_first(gh, _sum_given(ops.matmul(gs, w), rest), ops)
        of_input.append((start, gx))
        of_state.append((start, gs))
    gx = _in_order(of_input, ops)
    if mode == "GRU":
        gs = _in_order(of_state, ops)
    else:
        gs = ops.reshape(ops.slice(gx, dim=1, start=0, stop=0, step=1), shape=(gx.shape[0], 0))
    return gx, gs, gh, gc


# The states of all steps, the last states and cells, and the values kept for reverse mode, as described above.
recurrent_layer = op(
    "recurrent_layer", "x first cell w b",
    _layer,
    settings={"mode": "LSTM", "sizes": (), "reverse": False},
    vjp=_vjp,
    jvp=_jvp,
    batch=_batch,
    outputs=6,
    discrete_outputs=(3, 4, 5),
    optional="cell b",
    backward_name="CudnnRnnBackward0",
)  # fmt: skip

# The gradients of the gates from the input and (for GRU, where they differ) from the state, and of the first states.
recurrent_layer_gradients = op(
    "recurrent_layer_gradients", "g_out g_last g_cell rows kept before cells w",
    _gradients,
    settings={"mode": "LSTM", "sizes": (), "reverse": False},
    vjp=NOT_DIFFERENTIABLE,
    batch=_gradients_batch,
    outputs=4,
)  # fmt: skip
