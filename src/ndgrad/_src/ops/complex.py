"""Complex numbers: parts, conjugates, modulus and argument.

These functions are not holomorphic, so their rules are given for each mode. Gradients follow torch's convention: the
gradient of a real function is the direction of steepest ascent, df/dRe + i df/dIm.
"""

from __future__ import annotations

import builtins
from typing import TYPE_CHECKING, Any

from ndgrad._src.arrays.precision import is_floating
from ndgrad._src.arrays.scalar_operands import as_operands
from ndgrad._src.ops.table import elementwise, op

if TYPE_CHECKING:
    from ndgrad._typing import Library, Payload, Vocabulary

# ----- parts ----------------------------------------------------------------------------------------------------------


# For real numbers conj is a copy. Rules need no copy: `ops.conj` of a real value is the value itself (see
# _src.ops.vocabulary).
conj = elementwise(
    "conj", "conjugate",
    vjp={"x": lambda g, ops: ops.conj(g)},
    jvp={"x": lambda t, ops: ops.conj(t)},
    inplace=False,
    moves_values=True, rounds_once=True, linear_in=["x"],
)  # fmt: skip

# The parts of a complex array are views: writing to them writes to the array.
real = op(
    "real", "x", lambda np, x: x.real,
    vjp={"x": lambda g, x_dtype, ops: ops.cast(g, dtype=x_dtype)},
    jvp={"x": lambda t, ops: ops.real(t)},
    batch="elementwise",
    view=True,
    partial_view=True,
    backward_name="SelectBackward0", linear_in=["x"], core_dims=[0],
)  # fmt: skip

imag = op(
    "imag", "x", lambda np, x: x.imag,
    vjp={"x": lambda g: g * 1j},
    jvp={"x": lambda t, ops: ops.imag(t)},
    batch="elementwise",
    view=True,
    partial_view=True,
    backward_name="SelectBackward0", linear_in=["x"], core_dims=[0],
)  # fmt: skip

# ----- modulus and argument -------------------------------------------------------------------------------------------


def _project(t: Payload, direction: Any, dtype: Any, ops: Vocabulary) -> Payload:
    """Return the component of t along a complex direction: Re(conj(direction) t)."""
    return ops.real(ops.conj(direction) * t) if dtype.kind == "c" else direction * t


abs = elementwise(
    "abs", builtins.abs,
    vjp={"x": lambda g, x, ops: g * ops.sgn(x)},
    jvp={"x": lambda t, x, x_dtype, ops: _project(t, ops.sgn(x), x_dtype, ops)},
    moves_values=True, rounds_once=True, cost=1,
)  # fmt: skip


def _replace_zeros(size: Payload, ops: Vocabulary) -> Payload:
    """Replace zero divisors by 1 where the quotient is masked afterwards.

    The derivatives of a quotient by 0 would be NaN, and so would 0 times them.
    """
    return ops.where(size == 0, 1.0, size)


def _sgn_rule(t: Payload, x: Payload, x_dtype: Any, ops: Vocabulary) -> Payload:
    """Return (t - s Re(conj(s) t)) / |z|, the derivative of s = z / |z|.

    Only the part of t at right angles to z turns s. The map is symmetric, so both modes share it. For real numbers it
    is zero.
    """
    if x_dtype.kind != "c":
        return ops.zeros_like(t)
    s, size = ops.sgn(x), ops.abs(x)
    return ops.keep((t - s * ops.real(ops.conj(s) * t)) / _replace_zeros(size, ops), size)


sgn = elementwise(
    "sgn", "sign",
    vjp={"x": lambda g, x, x_dtype, ops: _sgn_rule(g, x, x_dtype, ops)},
    jvp={"x": _sgn_rule},
    kind="step",
    moves_values=True,
)  # fmt: skip


def _angle(np: Library, x: Payload) -> Payload:
    if x.dtype.kind == "c":
        return np.arctan2(x.imag, x.real)
    out = np.where(x < 0, np.asarray(np.pi, x.dtype if is_floating(x.dtype) else float), 0.0)
    return np.where(x == x, out, x)


def _turn(x: Payload, ops: Vocabulary) -> Payload:
    """Return i z / |z|^2, the gradient of the angle of z; 0 at the origin."""
    size = ops.abs(x)
    return ops.keep(ops.sgn(x) * 1j / _replace_zeros(size, ops), size)


def _angle_vjp(g: Payload, x: Payload, x_dtype: Any, ops: Vocabulary) -> Payload:
    return g * _turn(x, ops) if x_dtype.kind == "c" else ops.zeros_like(g)


def _angle_jvp(t: Payload, x: Payload, x_dtype: Any, ops: Vocabulary) -> Payload:
    return _project(t, _turn(x, ops), x_dtype, ops) if x_dtype.kind == "c" else ops.zeros_like(t)


angle = elementwise("angle", _angle, vjp={"x": _angle_vjp}, jvp={"x": _angle_jvp}, inplace=False)

# ----- from parts -----------------------------------------------------------------------------------------------------


def _complex(np: Library, real: Any, imag: Any) -> Payload:
    """Return real + i imag without complex arithmetic, in which an infinite part would make the other part NaN."""
    if getattr(real, "is_meta", False) or getattr(imag, "is_meta", False):
        return real + imag * 1j
    shape = np.broadcast_shapes(np.shape(real), np.shape(imag))
    out = np.empty(shape, np.result_type(real, imag, np.complex64))
    out.real, out.imag = real, imag
    return out


complex = elementwise(
    "complex", _complex, args="real imag",
    vjp={"real": lambda g, ops: ops.real(g), "imag": lambda g, ops: ops.imag(g)},
    jvp={"real": lambda t, ops: ops.complex(t, ops.zeros_like(t)),
        "imag": lambda t, ops: ops.complex(ops.zeros_like(t), t)},
    inplace=False,
    moves_values=True, linear_in=["real imag"], memory_order="C",
)  # fmt: skip


def _polar(np: Library, abs: Any, angle: Any) -> Payload:
    abs, angle = as_operands(np, abs, angle)
    return _complex(np, abs * np.cos(angle), abs * np.sin(angle))


polar = elementwise(
    "polar", _polar, args="abs angle",
    vjp={
        "abs": lambda g, angle, ops: ops.real(g) * ops.cos(angle) + ops.imag(g) * ops.sin(angle),
        "angle": lambda g, out, ops: ops.imag(g) * ops.real(out) - ops.real(g) * ops.imag(out),
    },
    jvp={
        "abs": lambda t, angle, ops: ops.complex(t * ops.cos(angle), t * ops.sin(angle)),
        "angle": lambda t, out, ops: ops.complex(-(t * ops.imag(out)), t * ops.real(out)),
    },
    inplace=False, memory_order="C",
)  # fmt: skip
