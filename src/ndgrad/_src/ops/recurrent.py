"""Steps of recurrent networks: LSTM and GRU after their products with weights.

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

from ndgrad._src.ops import activation, join, slices  # noqa: F401  # the bodies use these ops
from ndgrad._src.ops.composite import composite, fused_rule

if TYPE_CHECKING:
    from ndgrad._typing import Payload, Vocabulary


def _split(x: Payload, count: int, ops: Vocabulary) -> list[Payload]:
    """Return equal parts along the last dimension."""
    last, size = len(x.shape) - 1, x.shape[-1] // count
    return [ops.slice(x, dim=last, start=k * size, stop=(k + 1) * size, step=1) for k in range(count)]


def _join(parts: list[Payload], ops: Vocabulary) -> Payload:
    return ops.cat(*parts, dim=len(parts[0].shape) - 1)


def sum_given(*terms: Any) -> Any:
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


@fused_rule("a b cell g0 gh g1", small=True)
def lstm_step_slopes(
    g0: Payload, gh: Payload, g1: Payload, a: Payload, b: Payload, cell: Payload, ops: Vocabulary
) -> tuple[Payload, Payload]:
    """Apply `_lstm_slopes` to a step of a layer, whose state has a gradient from the next step, too."""
    found: tuple[Payload, Payload] = _lstm_slopes(g0 + gh, g1, a, b, cell, ops)
    return found


def _lstm_vjp(
    g0: Payload, g1: Payload, a: Payload, b: Payload, cell: Payload, needs: tuple[bool, ...], ops: Vocabulary
) -> tuple[Any, ...]:
    gates, slope = (ops.conj(x) for x in _lstm_slopes(ops.conj(g0), ops.conj(g1), a, b, cell, ops))
    return gates if needs[0] else None, gates if needs[1] else None, slope if needs[2] else None


def lstm_jvp(
    a: Payload, b: Payload, cell: Payload, a_t: Payload, b_t: Payload, cell_t: Payload, ops: Vocabulary
) -> tuple[Payload, Payload]:
    i, f, n, o = _lstm_gates(a, b, ops)
    out = ops.tanh(f * cell + i * n)
    gates_t, new_t, out_t = sum_given(a_t, b_t), None if cell_t is None else f * cell_t, None
    if gates_t is not None:
        i_t, f_t, n_t, o_t = _split(gates_t, 4, ops)
        new_t = sum_given(new_t, i * (1.0 - i) * i_t * n + f * (1.0 - f) * f_t * cell + i * (1.0 - n * n) * n_t)
        out_t = o * (1.0 - o) * o_t * out
    return sum_given(out_t, o * (1.0 - out * out) * new_t), new_t


# The state h and the cell after a step: a are the gates from the input, b those from the state, both (..., 4 H), in the
# order input, forget, new, output.
lstm_cell = composite(
    "lstm_cell", "a b cell",
    _lstm_body,
    fused=True,
    small=True,
    vjp=_lstm_vjp,
    jvp=lstm_jvp,
    batch="leading",
    outputs=2,
    backward_name="ThnnFusedLstmCellBackward0",
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
def gru_slopes(g: Payload, a: Payload, b: Payload, h: Payload, ops: Vocabulary) -> tuple[Payload, Payload, Payload]:
    """Return the gradients of the gates from the input, of those from the state, and of the state itself."""
    r, z, n, b_n = _gru_gates(a, b, ops)
    e = g * (1.0 - z) * (1.0 - n * n)
    e_r, e_z = e * b_n * r * (1.0 - r), g * (h - n) * z * (1.0 - z)
    return _join([e_r, e_z, e], ops), _join([e_r, e_z, e * r], ops), g * z


def _gru_vjp(
    g: Payload, a: Payload, b: Payload, h: Payload, needs: tuple[bool, ...], ops: Vocabulary
) -> tuple[Any, ...]:
    slopes = gru_slopes(ops.conj(g), a, b, h, ops)
    return tuple(ops.conj(slope) if need else None for slope, need in zip(slopes, needs, strict=True))


def gru_jvp(
    a: Payload, b: Payload, h: Payload, a_t: Payload, b_t: Payload, h_t: Payload, ops: Vocabulary
) -> Payload:
    r, z, n, b_n = _gru_gates(a, b, ops)
    total = None if h_t is None else z * h_t
    if a_t is None and b_t is None:
        return total
    from_a = (None, None, None) if a_t is None else _split(a_t, 3, ops)
    from_b = (None, None, None) if b_t is None else _split(b_t, 3, ops)
    r_t = r * (1.0 - r) * sum_given(from_a[0], from_b[0])
    z_t = z * (1.0 - z) * sum_given(from_a[1], from_b[1])
    n_t = (1.0 - n * n) * sum_given(from_a[2], r_t * b_n, None if b_t is None else r * from_b[2])
    return sum_given(total, (1.0 - z) * n_t + (h - n) * z_t)


# The state after a step: a are the gates from the input, b those from the state, both (..., 3 H), in the order reset,
# update, new.
gru_cell = composite(
    "gru_cell", "a b h",
    _gru_body,
    fused=True,
    small=True,
    vjp=_gru_vjp,
    jvp=gru_jvp,
    batch="leading",
    backward_name="ThnnFusedGruCellBackward0",
)  # fmt: skip
