"""Recurrent networks: a step of LSTM and GRU after its products with weights, and a layer over time.

Gates are parts of one array along the last dimension. Composed of elementwise ops, a step would cost about a dozen
calls in each direction. As an op it is one kernel each way (Note [Parts of rows] in
ndgrad._src.compiler.lower.row_programs). The rules compute the gates again from the arguments, so a step saves no
intermediate values.

Derivation. The slopes are s' = s (1 - s) for a sigmoid s, and 1 - t^2 for t = tanh. For LSTM with new = f cell + i n
and h = o tanh(new), the gradient that arrives at `new` is e = g1 + g0 o (1 - tanh(new)^2). Those of the gates are
e n i', e cell f', e i (1 - n^2) and g0 tanh(new) o'; that of the cell is e f. For GRU with h' = n + z (h - n) and
n = tanh(a + r b), the gradient at the argument of n is e = g (1 - z) (1 - n^2). It is the gradient of a, and r e is
that of b. For complex numbers, the transpose of such a map is its application to conj(g), conjugated.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from ndgrad._src.ops import activation, join, product, shape, slices, split  # noqa: F401  # the bodies use these ops
from ndgrad._src.ops.composite import composite, fused_rule
from ndgrad._src.ops.matrix import transpose

if TYPE_CHECKING:
    from ndgrad._typing import Payload, Vocabulary


def _split(x: Payload, count: int, ops: Vocabulary) -> list[Payload]:
    """Return equal parts along the last dimension."""
    last, size = len(x.shape) - 1, x.shape[-1] // count
    return [ops.slice(x, dim=last, start=k * size, stop=(k + 1) * size, step=1) for k in range(count)]


def _join(parts: list[Payload], ops: Vocabulary) -> Payload:
    return ops.cat(*parts, dim=len(parts[0].shape) - 1)


def _sum_given(*terms: Any) -> Any:
    """Return the sum of the terms that are not None; None without any."""
    total = None
    for term in terms:
        if term is not None:
            total = term if total is None else total + term
    return total


# ----- LSTM -----------------------------------------------------------------------------------------------------------


def _lstm_gates(a: Payload, b: Payload, ops: Vocabulary) -> tuple[Payload, ...]:
    i, f, n, o = (x + y for x, y in zip(_split(a, 4, ops), _split(b, 4, ops), strict=True))
    return ops.sigmoid(i), ops.sigmoid(f), ops.tanh(n), ops.sigmoid(o)


def _lstm_body(a: Payload, b: Payload, cell: Payload, ops: Vocabulary) -> tuple[Payload, Payload]:
    i, f, n, o = _lstm_gates(a, b, ops)
    new = f * cell + i * n
    return o * ops.tanh(new), new


@fused_rule("a b cell g0 g1", small=True)
def _lstm_slopes(
    g0: Payload, g1: Payload, a: Payload, b: Payload, cell: Payload, ops: Vocabulary
) -> tuple[Payload, Payload]:
    """Return the gradient of the gates, and that of the cell."""
    i, f, n, o = _lstm_gates(a, b, ops)
    out = ops.tanh(f * cell + i * n)
    e = g1 + g0 * o * (1.0 - out * out)
    parts = [e * n * i * (1.0 - i), e * cell * f * (1.0 - f), e * i * (1.0 - n * n), g0 * out * o * (1.0 - o)]
    return _join(parts, ops), e * f


def _lstm_vjp(
    g0: Payload, g1: Payload, a: Payload, b: Payload, cell: Payload, needs: tuple[bool, ...], ops: Vocabulary
) -> tuple[Any, ...]:
    gates, slope = (ops.conj(x) for x in _lstm_slopes(ops.conj(g0), ops.conj(g1), a, b, cell, ops))
    return gates if needs[0] else None, gates if needs[1] else None, slope if needs[2] else None


def _lstm_jvp(
    a: Payload, b: Payload, cell: Payload, a_t: Payload, b_t: Payload, cell_t: Payload, ops: Vocabulary
) -> tuple[Payload, Payload]:
    i, f, n, o = _lstm_gates(a, b, ops)
    out = ops.tanh(f * cell + i * n)
    gates_t, new_t, out_t = _sum_given(a_t, b_t), None if cell_t is None else f * cell_t, None
    if gates_t is not None:
        i_t, f_t, n_t, o_t = _split(gates_t, 4, ops)
        new_t = _sum_given(new_t, i * (1.0 - i) * i_t * n + f * (1.0 - f) * f_t * cell + i * (1.0 - n * n) * n_t)
        out_t = o * (1.0 - o) * o_t * out
    return _sum_given(out_t, o * (1.0 - out * out) * new_t), new_t


# The state h and the cell after a step: a are the gates from the input, b those from the state, both (..., 4 H), in the
# order input, forget, new, output.
lstm_cell = composite(
    "lstm_cell", "a b cell",
    _lstm_body,
    fused=True,
    small=True,
    vjp=_lstm_vjp,
    jvp=_lstm_jvp,
    batch="leading",
    outputs=2,
    backward_name="ThnnFusedLstmCellBackward0",
)  # fmt: skip


# Note [A layer over time]
# A network of T steps as T ops costs T times the overhead of an op in each direction, more than the arithmetic of a
# small network. So a layer is one op, `lstm_layer` or `gru_layer`, whose rules loop over time. The backward pass
# computes the products of all states with the weight again, as one product for all steps. Then it goes back step by
# step, and only the gradient of the state is a product for each step: that of the weight is one product at the end.
#
# Shapes: gates from the input (..., T, N, count H), states (..., N, H), weight (..., count H, H). Dimensions in front
# are a batch, the same for all arguments. With `reverse` time runs backwards; results are in the order of time.


def _steps(x: Payload, ops: Vocabulary) -> list[Payload]:
    """Return the parts of x at each time."""
    return list(ops.unbind(x, dim=len(x.shape) - 3))


def _stack_steps(parts: list[Payload], ops: Vocabulary) -> Payload:
    return ops.stack(*parts, dim=len(parts[0].shape) - 2)


def _order(length: int, reverse: bool) -> range:
    return range(length - 1, -1, -1) if reverse else range(length)


def _states_before(first: Payload, states: Payload, reverse: bool, ops: Vocabulary) -> Payload:
    """Return the state before each step, from the first one and those after each step."""
    dim, length = len(states.shape) - 3, states.shape[-3]
    one_step = (*first.shape[:dim], 1, *first.shape[dim:])
    begin, end = (1, length) if reverse else (0, length - 1)
    rest = ops.slice(states, dim=dim, start=begin, stop=end, step=1)
    parts = [ops.reshape(first, shape=one_step), rest]
    return ops.cat(*(reversed(parts) if reverse else parts), dim=dim)


def _products(states: Payload, w: Payload, ops: Vocabulary) -> Payload:
    """Return the product of the states (..., T, N, H) of all steps with a weight, as one product of matrices."""
    length, rows = states.shape[-3:-1]
    flat = ops.reshape(states, shape=(*states.shape[:-3], length * rows, states.shape[-1]))
    out = ops.matmul(flat, transpose(w, ops))
    return ops.reshape(out, shape=(*states.shape[:-1], w.shape[-2]))


def _weight_gradient(slopes: Payload, before: Payload, ops: Vocabulary) -> Payload:
    """Return the gradient of the weight: the sum over steps and rows of slopes times states."""
    lead, count = slopes.shape[:-3], slopes.shape[-3] * slopes.shape[-2]
    left = ops.reshape(slopes, shape=(*lead, count, slopes.shape[-1]))
    return ops.matmul(transpose(left, ops), ops.reshape(before, shape=(*lead, count, before.shape[-1])))


def _lstm_layer_body(
    a: Payload, h: Payload, cell: Payload, w: Payload, reverse: bool, ops: Vocabulary
) -> tuple[Payload, Payload]:
    gates, across = _steps(a, ops), transpose(w, ops)
    states, cells = list(gates), list(gates)
    for t in _order(len(gates), reverse):
        h, cell = ops.lstm_cell(gates[t], ops.matmul(h, across), cell)
        states[t], cells[t] = h, cell
    return _stack_steps(states, ops), _stack_steps(cells, ops)


@fused_rule("a b cell g0 gh g1 gc", small=True)
def _lstm_step_slopes(
    g0: Payload, gh: Payload, g1: Payload, gc: Payload, a: Payload, b: Payload, cell: Payload, ops: Vocabulary
) -> tuple[Payload, Payload]:
    """Apply `_lstm_slopes` to sums: gradients of the results of a step, and those from the next step."""
    i, f, n, o = _lstm_gates(a, b, ops)
    out = ops.tanh(f * cell + i * n)
    g = g0 + gh
    e = g1 + gc + g * o * (1.0 - out * out)
    parts = [e * n * i * (1.0 - i), e * cell * f * (1.0 - f), e * i * (1.0 - n * n), g * out * o * (1.0 - o)]
    return _join(parts, ops), e * f


def _lstm_layer_vjp(
    g0: Payload, g1: Payload, a: Payload, h: Payload, cell: Payload, w: Payload, out0: Payload, out1: Payload,
    reverse: bool, needs: tuple[bool, ...], ops: Vocabulary,
) -> tuple[Any, ...]:  # fmt: skip
    before, cells = (_states_before(x, y, reverse, ops) for x, y in ((h, out0), (cell, out1)))
    products = _products(before, w, ops)
    parts = [_steps(x, ops) for x in (ops.conj(g0), ops.conj(g1), a, products, cells)]
    order = _order(len(parts[0]), reverse)
    gh: Any = None
    gc: Any = None
    slopes = list(parts[0])
    for t in reversed(order):
        step_g0, step_g1, step_a, step_b, step_cell = (part[t] for part in parts)
        if gh is None:
            slopes[t], gc = _lstm_slopes(step_g0, step_g1, step_a, step_b, step_cell, ops)
        else:
            slopes[t], gc = _lstm_step_slopes(step_g0, gh, step_g1, gc, step_a, step_b, step_cell, ops)
        if t != order[0] or needs[1]:
            gh = ops.matmul(slopes[t], w)
    gates = _stack_steps(slopes, ops)
    weight = ops.conj(_weight_gradient(gates, before, ops)) if needs[3] else None
    return (
        ops.conj(gates) if needs[0] else None,
        ops.conj(gh) if needs[1] else None,
        ops.conj(gc) if needs[2] else None,
        weight,
    )


def _product_tangent(h: Payload, w: Payload, h_t: Payload, w_t: Payload, ops: Vocabulary) -> Any:
    """Return the tangent of a state's product with the transposed weight; None without tangents."""
    return _sum_given(
        None if h_t is None else ops.matmul(h_t, transpose(w, ops)),
        None if w_t is None else ops.matmul(h, transpose(w_t, ops)),
    )


def _lstm_layer_jvp(
    a: Payload, h: Payload, cell: Payload, w: Payload, out0: Payload, out1: Payload, reverse: bool,
    a_t: Payload, h_t: Payload, cell_t: Payload, w_t: Payload, ops: Vocabulary,
) -> tuple[Payload, Payload]:  # fmt: skip
    before, cells = (_states_before(x, y, reverse, ops) for x, y in ((h, out0), (cell, out1)))
    parts = [_steps(x, ops) for x in (a, _products(before, w, ops), before, cells)]
    tangents = None if a_t is None else _steps(a_t, ops)
    states_t, cells_t = list(parts[0]), list(parts[0])
    for t in _order(len(parts[0]), reverse):
        step_a, step_b, step_h, step_cell = (part[t] for part in parts)
        b_t = _product_tangent(step_h, w, h_t, w_t, ops)
        h_t, cell_t = _lstm_jvp(step_a, step_b, step_cell, None if tangents is None else tangents[t], b_t, cell_t, ops)
        states_t[t], cells_t[t] = h_t, cell_t
    return _stack_steps(states_t, ops), _stack_steps(cells_t, ops)


# The states and cells of all steps: a are the gates from the input, h and cell the first state, w the weight of the
# state. See Note [A layer over time].
lstm_layer = composite(
    "lstm_layer", "a h cell w",
    _lstm_layer_body,
    settings={"reverse": False},
    vjp=_lstm_layer_vjp,
    jvp=_lstm_layer_jvp,
    batch="leading",
    outputs=2,
    backward_name="MkldnnRnnLayerBackward0",
)  # fmt: skip


# ----- GRU ------------------------------------------------------------------------------------------------------------


def _gru_gates(a: Payload, b: Payload, ops: Vocabulary) -> tuple[Payload, ...]:
    """Return the gates r, z and n, and the part of n that comes from the state."""
    (a_r, a_z, a_n), (b_r, b_z, b_n) = _split(a, 3, ops), _split(b, 3, ops)
    r = ops.sigmoid(a_r + b_r)
    return r, ops.sigmoid(a_z + b_z), ops.tanh(a_n + r * b_n), b_n


def _gru_body(a: Payload, b: Payload, h: Payload, ops: Vocabulary) -> Payload:
    _, z, n, _ = _gru_gates(a, b, ops)
    return n + z * (h - n)


@fused_rule("a b h g", small=True)
def _gru_slopes(g: Payload, a: Payload, b: Payload, h: Payload, ops: Vocabulary) -> tuple[Payload, Payload, Payload]:
    r, z, n, b_n = _gru_gates(a, b, ops)
    e = g * (1.0 - z) * (1.0 - n * n)
    e_r, e_z = e * b_n * r * (1.0 - r), g * (h - n) * z * (1.0 - z)
    return _join([e_r, e_z, e], ops), _join([e_r, e_z, e * r], ops), g * z


def _gru_vjp(
    g: Payload, a: Payload, b: Payload, h: Payload, needs: tuple[bool, ...], ops: Vocabulary
) -> tuple[Any, ...]:
    slopes = _gru_slopes(ops.conj(g), a, b, h, ops)
    return tuple(ops.conj(slope) if need else None for slope, need in zip(slopes, needs, strict=True))


def _gru_jvp(
    a: Payload, b: Payload, h: Payload, a_t: Payload, b_t: Payload, h_t: Payload, ops: Vocabulary
) -> Payload:
    r, z, n, b_n = _gru_gates(a, b, ops)
    total = None if h_t is None else z * h_t
    if a_t is None and b_t is None:
        return total
    from_a = (None, None, None) if a_t is None else _split(a_t, 3, ops)
    from_b = (None, None, None) if b_t is None else _split(b_t, 3, ops)
    r_t = r * (1.0 - r) * _sum_given(from_a[0], from_b[0])
    z_t = z * (1.0 - z) * _sum_given(from_a[1], from_b[1])
    n_t = (1.0 - n * n) * _sum_given(from_a[2], r_t * b_n, None if b_t is None else r * from_b[2])
    return _sum_given(total, (1.0 - z) * n_t + (h - n) * z_t)


# The state after a step: a are the gates from the input, b those from the state, both (..., 3 H), in the order reset,
# update, new.
gru_cell = composite(
    "gru_cell", "a b h",
    _gru_body,
    fused=True,
    small=True,
    vjp=_gru_vjp,
    jvp=_gru_jvp,
    batch="leading",
    backward_name="ThnnFusedGruCellBackward0",
)  # fmt: skip


def _gru_layer_body(
    a: Payload, h: Payload, w: Payload, b: Payload, reverse: bool, ops: Vocabulary
) -> Payload:
    gates, across = _steps(a, ops), transpose(w, ops)
    shift = ops.reshape(b, shape=(*b.shape[:-1], 1, b.shape[-1]))
    states = list(gates)
    for t in _order(len(gates), reverse):
        h = ops.gru_cell(gates[t], ops.matmul(h, across) + shift, h)
        states[t] = h
    return _stack_steps(states, ops)


def _gru_products(before: Payload, w: Payload, b: Payload, ops: Vocabulary) -> Payload:
    return _products(before, w, ops) + ops.reshape(b, shape=(*b.shape[:-1], 1, 1, b.shape[-1]))


def _gru_layer_vjp(
    g: Payload, a: Payload, h: Payload, w: Payload, b: Payload, out: Payload, reverse: bool,
    needs: tuple[bool, ...], ops: Vocabulary,
) -> tuple[Any, ...]:  # fmt: skip
    before = _states_before(h, out, reverse, ops)
    parts = [_steps(x, ops) for x in (ops.conj(g), a, _gru_products(before, w, b, ops), before)]
    order = _order(len(parts[0]), reverse)
    gh: Any = None
    slopes_a, slopes_b = list(parts[0]), list(parts[0])
    for t in reversed(order):
        step_g, step_a, step_b, step_h = (part[t] for part in parts)
        slopes_a[t], slopes_b[t], through = _gru_slopes(_sum_given(step_g, gh), step_a, step_b, step_h, ops)
        gh = through + ops.matmul(slopes_b[t], w)
    gates = _stack_steps(slopes_b, ops)
    n = len(gates.shape)
    return (
        ops.conj(_stack_steps(slopes_a, ops)) if needs[0] else None,
        ops.conj(gh) if needs[1] else None,
        ops.conj(_weight_gradient(gates, before, ops)) if needs[2] else None,
        ops.conj(ops.sum(gates, dim=(n - 3, n - 2), keepdim=False)) if needs[3] else None,
    )


def _gru_layer_jvp(
    a: Payload, h: Payload, w: Payload, b: Payload, out: Payload, reverse: bool,
    a_t: Payload, h_t: Payload, w_t: Payload, b_t: Payload, ops: Vocabulary,
) -> Payload:  # fmt: skip
    before = _states_before(h, out, reverse, ops)
    parts = [_steps(x, ops) for x in (a, _gru_products(before, w, b, ops), before)]
    tangents = None if a_t is None else _steps(a_t, ops)
    states_t = list(parts[0])
    for t in _order(len(parts[0]), reverse):
        step_a, step_b, step_h = (part[t] for part in parts)
        moved = _product_tangent(step_h, w, h_t, w_t, ops)
        if b_t is not None:
            shift = ops.reshape(b_t, shape=(*b_t.shape[:-1], 1, b_t.shape[-1]))
            moved = ops.expand(shift, shape=step_b.shape) if moved is None else moved + shift
        h_t = _gru_jvp(step_a, step_b, step_h, None if tangents is None else tangents[t], moved, h_t, ops)
        states_t[t] = h_t
    return _stack_steps(states_t, ops)


# The states of all steps: a are the gates from the input, h the first state, w and b the weight and the bias of the
# state. The bias is apart, because r multiplies its part of n. See Note [A layer over time].
gru_layer = composite(
    "gru_layer", "a h w b",
    _gru_layer_body,
    settings={"reverse": False},
    vjp=_gru_layer_vjp,
    jvp=_gru_layer_jvp,
    batch="leading",
    backward_name="MkldnnRnnLayerBackward0",
)  # fmt: skip
