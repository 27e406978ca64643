"""A layer of a recurrent network over a whole sequence, as one op: LSTM, GRU and plain networks.

A network of T steps as T recorded ops costs T times the overhead of an op in each direction, more than the arithmetic
of a small network. This op runs the loop over arrays: a product and one kernel per step in each direction. The gradient
of the weight is one product for all steps.

`x` holds the rows of all steps, one step after another: the products of the inputs with their weights, of G gates of
size H. `sizes` has the number of rows of each step, which never rises (packed sequences). The state is an array of one
row per sequence. A step changes its first rows; so the last state of a sequence that has ended stays, and with
`reverse` a sequence joins with its first state. The results are the states of all steps, the last states, and values
for reverse mode: the gates (on a device only), and the states and cells before each step. Dimensions in front are a
batch, the same for all arguments.

The loops are written once, over a vocabulary. On arrays each step is a kernel, and a device may have a kernel of its
own for the loop. The reverse rule is a second op on the kept values. If its gradients are differentiated again, both
loops run as recorded ops instead.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from ndgrad._src.arrays import native_kernels
from ndgrad._src.arrays.library import is_on_device
from ndgrad._src.arrays.meta import MetaArray
from ndgrad._src.foundations import registry
from ndgrad._src.ops import activation, join, product, reduce, shape, slices  # noqa: F401  # rules use these ops
from ndgrad._src.ops.errors import refuse_complex
from ndgrad._src.ops.matrix import transpose
from ndgrad._src.ops.recurrent import gru_jvp, gru_slopes, lstm_jvp, lstm_step_slopes, sum_given
from ndgrad._src.ops.table import NOT_DIFFERENTIABLE, op
from ndgrad._src.ops.vocabulary import raw_ops

if TYPE_CHECKING:
    from ndgrad._typing import Library, Payload, Vocabulary

#: Number of gates of a step, and of parts that are kept for reverse mode.
GATES = {"LSTM": 4, "GRU": 3, "RNN_TANH": 1, "RNN_RELU": 1}
KEPT = {"LSTM": 4, "GRU": 4, "RNN_TANH": 0, "RNN_RELU": 0}


def each_step(sizes: tuple[int, ...], reverse: bool) -> list[tuple[int, int]]:
    """Return the first row and the number of rows of each step, in the order of the loop."""
    pairs, start = [], 0
    for size in sizes:
        pairs.append((start, size))
        start += size
    return pairs[::-1] if reverse else pairs


# ----- loops ----------------------------------------------------------------------------------------------------------


def _rows(x: Payload, start: int, count: int, ops: Vocabulary) -> Payload:
    """Return rows of x; None for None."""
    if x is None or (start, count) == (0, x.shape[-2]):
        return x
    dim = len(x.shape) - 2
    if ops.raw:
        return x[..., start : start + count, :]
    return ops.slice(x, dim=dim, start=start, stop=start + count, step=1)


def _replace_rows(state: Payload, first: Payload, ops: Vocabulary) -> Payload:
    """Return a state with other first rows; None for None."""
    if first is None or first.shape[-2] == state.shape[-2]:
        return first
    dim = len(state.shape) - 2
    count, total = first.shape[dim], state.shape[dim]
    return ops.cat(first, _rows(state, count, total - count, ops), dim=dim)


def _without_elements(x: Payload, ops: Vocabulary) -> tuple[Payload, Payload]:
    """Return arrays without elements: one with the rows of x, and one without rows."""
    no_columns = ops.slice(x, dim=len(x.shape) - 1, start=0, stop=0, step=1)
    return no_columns, ops.reshape(_rows(no_columns, 0, 0, ops), shape=(*x.shape[:-2], 0))


def _join_steps(parts: list[Payload], reverse: bool, ops: Vocabulary) -> Payload:
    """Return the rows of all steps, given in the order of the loop."""
    return ops.cat(*(reversed(parts) if reverse else parts), dim=len(parts[0].shape) - 2)


def _hidden(state: Payload, across: Payload, shift: Payload, ops: Vocabulary) -> Payload:
    out = ops.matmul(state, across)
    return out if shift is None else out + shift


def _as_row(b: Payload, ops: Vocabulary) -> Payload:
    return None if b is None else ops.reshape(b, shape=(*b.shape[:-1], 1, b.shape[-1]))


def _step(
    mode: str, gates: Payload, hidden: Payload, state: Payload, cell: Payload, ops: Vocabulary
) -> tuple[Payload, Payload]:
    """Return the new state and the new cell."""
    if mode == "LSTM":
        out: tuple[Payload, Payload] = ops.lstm_cell(gates, hidden, cell)
        return out
    if mode == "GRU":
        return ops.gru_cell(gates, hidden, state), None
    return (ops.tanh if mode == "RNN_TANH" else ops.relu)(gates + hidden), None


def _plain_slopes(mode: str, g: Payload, out: Payload, ops: Vocabulary) -> Payload:
    return g * (1.0 - out * out) if mode == "RNN_TANH" else ops.where(out > 0, g, 0.0)


def _run_steps(
    x: Payload, first: Payload, cell: Payload, w: Payload, b: Payload, mode: str, sizes: tuple[int, ...],
    reverse: bool, ops: Vocabulary,
) -> tuple[Payload, ...]:  # fmt: skip
    across, shift, state = transpose(w, ops), _as_row(b, ops), first
    rows, before, cells = [], [], []
    for start, count in each_step(sizes, reverse):
        old, old_cell = _rows(state, 0, count, ops), _rows(cell, 0, count, ops)
        new, new_cell = _step(mode, _rows(x, start, count, ops), _hidden(old, across, shift, ops), old, old_cell, ops)
        rows.append(new)
        before.append(old)
        cells.append(old_cell)
        state, cell = _replace_rows(state, new, ops), _replace_rows(cell, new_cell, ops)
    all_rows = _join_steps(rows, reverse, ops)
    kept, empty = _without_elements(all_rows, ops)
    has_cell = mode == "LSTM"
    all_cells = _join_steps(cells, reverse, ops) if has_cell else empty
    return all_rows, state, cell if has_cell else empty, kept, _join_steps(before, reverse, ops), all_cells


def _run_back(
    g_out: Payload, g_last: Payload, g_cell: Payload, rows: Payload, before: Payload, cells: Payload,
    w: Payload, x: Payload, b: Payload, mode: str, sizes: tuple[int, ...], reverse: bool, ops: Vocabulary,
) -> tuple[Payload, ...]:  # fmt: skip
    """Return the gradients of the gates from the input and (for GRU, where they differ) from the state, and of the
    first states.

    The products of all states with the weight are computed again, as one product.
    """
    gh, gc, of_input, of_state = g_last, g_cell, [], []
    hidden = _hidden(before, transpose(w, ops), _as_row(b, ops), ops) if GATES[mode] > 1 else None
    for start, count in each_step(sizes, not reverse):
        g, g_state = _rows(g_out, start, count, ops), _rows(gh, 0, count, ops)
        parts = [_rows(part, start, count, ops) for part in (x, hidden, before)]
        rest = None
        if mode == "LSTM":
            old_cell = _rows(cells, start, count, ops)
            gs, slope = lstm_step_slopes(g, g_state, _rows(gc, 0, count, ops), *parts[:2], old_cell, ops)
            gc = _replace_rows(gc, slope, ops)
        elif mode == "GRU":
            gx, gs, rest = gru_slopes(g + g_state, *parts, ops)
            of_input.append(gx)
        else:
            gs = _plain_slopes(mode, g + g_state, _rows(rows, start, count, ops), ops)
        of_state.append(gs)
        gh = _replace_rows(gh, sum_given(ops.matmul(gs, w), rest), ops)
    gs = _join_steps(of_state, not reverse, ops)
    if mode == "GRU":
        return _join_steps(of_input, not reverse, ops), gs, gh, gc
    return gs, _without_elements(gs, ops)[1], gh, gc


# ----- the ops --------------------------------------------------------------------------------------------------------


def _layer(
    np: Library, x: Payload, first: Payload, cell: Payload, w: Payload, b: Payload, *, mode: str,
    sizes: tuple[int, ...], reverse: bool, keeps: bool,
) -> tuple[Any, ...]:  # fmt: skip
    refuse_complex("recurrent_layer", *(a for a in (x, first, cell, w, b) if a is not None))
    kernels = native_kernels.recurrent_kernels(x, first, cell, w, b) if x.ndim == 2 else None
    if kernels is not None:
        found: tuple[Any, ...] = kernels.layer(mode, x, first, cell, w, b, tuple(each_step(sizes, reverse)))
        return found
    found = _run_steps(x, first, cell, w, b, mode, sizes, reverse, raw_ops(np))
    if keeps and isinstance(x, MetaArray) and x.ndim == 2:  # the shape of the values that a device's kernels keep
        return (*found[:3], MetaArray((x.shape[0], KEPT[mode] * w.shape[-1]), x.dtype), *found[4:])
    return found


def _gradients(
    np: Library, g_out: Payload, g_last: Payload, g_cell: Payload, rows: Payload, kept: Payload, before: Payload,
    cells: Payload, w: Payload, x: Payload, b: Payload, *, mode: str, sizes: tuple[int, ...], reverse: bool,
) -> tuple[Any, ...]:  # fmt: skip
    if is_on_device(rows) and kept.shape[-1] == KEPT[mode] * w.shape[-1]:
        kernels = native_kernels.recurrent_kernels(g_out, g_last, rows, kept, before, w) if rows.ndim == 2 else None
        if kernels is not None:
            given, steps = (g_out, g_last, g_cell, rows, kept, before, cells, w), tuple(each_step(sizes, not reverse))
            found: tuple[Any, ...] = kernels.gradients(mode, *given, steps)
            return found
    return _run_back(g_out, g_last, g_cell, rows, before, cells, w, x, b, mode, sizes, reverse, raw_ops(np))


def _vjp(
    g0: Payload, g1: Payload, g2: Payload, x: Payload, first: Payload, cell: Payload, w: Payload, b: Payload,
    out0: Payload, out3: Payload, out4: Payload, out5: Payload, mode: str, sizes: tuple[int, ...], reverse: bool,
    needs: tuple[bool, ...], ops: Vocabulary,
) -> tuple[Any, ...]:  # fmt: skip
    if ops.raw or not registry.recorder.is_recording():
        settings, before = {"mode": mode, "sizes": sizes, "reverse": reverse}, out4
        found = ops.recurrent_layer_gradients(g0, g1, g2, out0, out3, before, out5, w, x, b, **settings)
    else:
        rows, _, _, _, before, cells = _run_steps(x, first, cell, w, b, mode, sizes, reverse, ops)
        found = _run_back(g0, g1, g2, rows, before, cells, w, x, b, mode, sizes, reverse, ops)
    gx, gs, gh, gc = found
    gs = gs if mode == "GRU" else gx
    return (
        gx,
        gh,
        None if cell is None else gc,
        ops.matmul(transpose(gs, ops), before) if needs[3] else None,
        None if b is None or not needs[4] else ops.sum(gs, dim=(len(gs.shape) - 2,), keepdim=False),
    )


def _jvp(
    x: Payload, first: Payload, cell: Payload, w: Payload, b: Payload, x_t: Payload, first_t: Payload,
    cell_t: Payload, w_t: Payload, b_t: Payload, mode: str, sizes: tuple[int, ...], reverse: bool, ops: Vocabulary,
) -> tuple[Any, ...]:  # fmt: skip
    def zero_if_none(value: Any, like: Payload) -> Payload:
        return ops.zeros_like(like) if value is None else value

    across, shift, shift_t = transpose(w, ops), _as_row(b, ops), _as_row(b_t, ops)
    across_t = None if w_t is None else transpose(w_t, ops)
    state, state_t, cell_t = first, zero_if_none(first_t, first), None if cell is None else zero_if_none(cell_t, cell)
    rows_t = []
    for start, count in each_step(sizes, reverse):
        gates, old, old_t = _rows(x, start, count, ops), _rows(state, 0, count, ops), _rows(state_t, 0, count, ops)
        gates_t = _rows(x_t, start, count, ops)
        hidden = _hidden(old, across, shift, ops)
        hidden_t = ops.matmul(old_t, across)
        hidden_t = sum_given(hidden_t, None if across_t is None else ops.matmul(old, across_t), shift_t)
        old_cell, old_cell_t = _rows(cell, 0, count, ops), _rows(cell_t, 0, count, ops)
        new, new_cell = _step(mode, gates, hidden, old, old_cell, ops)
        new_cell_t = None
        if mode == "LSTM":
            new_t, new_cell_t = lstm_jvp(gates, hidden, old_cell, gates_t, hidden_t, old_cell_t, ops)
        elif mode == "GRU":
            new_t = gru_jvp(gates, hidden, old, gates_t, hidden_t, old_t, ops)
        else:
            new_t = _plain_slopes(mode, sum_given(gates_t, hidden_t), new, ops)
        state, state_t = _replace_rows(state, new, ops), _replace_rows(state_t, new_t, ops)
        cell, cell_t = _replace_rows(cell, new_cell, ops), _replace_rows(cell_t, new_cell_t, ops)
        rows_t.append(new_t)
    return _join_steps(rows_t, reverse, ops), state_t, cell_t, None, None, None


# The states of all steps, the last states and cells, and the values kept for reverse mode, as described above. `keeps`
# is True if the kernels of a device run the layer, so that a trace knows the shape of the kept values.
recurrent_layer = op(
    "recurrent_layer", "x first cell w b",
    _layer,
    settings={"mode": "LSTM", "sizes": (), "reverse": False, "keeps": False},
    vjp=_vjp,
    jvp=_jvp,
    batch="leading",
    outputs=6,
    discrete_outputs=(3, 4, 5),
    optional="cell b",
    backward_name="CudnnRnnBackward0",
)  # fmt: skip

# The gradients of the gates from the input and (for GRU, where they differ) from the state, and of the first states.
recurrent_layer_gradients = op(
    "recurrent_layer_gradients", "g_out g_last g_cell rows kept before cells w x b",
    _gradients,
    settings={"mode": "LSTM", "sizes": (), "reverse": False},
    vjp=NOT_DIFFERENTIABLE,
    batch="leading",
    outputs=4,
    optional="b",
)  # fmt: skip
