"""Bessel functions of any real order, and related functions: Hankel, Airy, Kelvin, Struve, spherical Bessel and
parabolic cylinder functions.

Each family is closed under differentiation by its recurrences in the order. These avoid division by the argument if
possible, so derivatives of any order exist at 0 too. There is no rule for derivatives in the order. Values come from
SciPy.
"""

from __future__ import annotations

import cmath
import math
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

import numpy

from ndgrad._src.ops.error_function import _special
from ndgrad._src.ops.gamma import make_like, no_derivative, real_function
from ndgrad._src.ops.table import Op, elementwise

if TYPE_CHECKING:
    from ndgrad._typing import Library, Payload, Vocabulary


def any_function(name: str) -> Callable[..., Any]:
    """Return a forward function from scipy.special that also takes complex numbers."""
    return lambda np, *arguments: _special(np, name)(*arguments)


def nth_result(name: str, place: int) -> Callable[..., Any]:
    """Return a forward function for one of several results of a function from scipy.special."""
    return lambda np, *arguments: _special(np, name)(*arguments)[place]


def _define_order_op(name: str, slope: Callable[..., Any], forward: Callable[..., Any] | None = None) -> Op:
    return elementwise(
        name, any_function(name) if forward is None else forward, args="v z",
        v=lambda t: no_derivative(name, "v"),
        z=slope,
        inplace=False,
    )  # fmt: skip


jv = _define_order_op("jv", lambda t, v, z, ops: t * (ops.jv(v - 1, z) - ops.jv(v + 1, z)) * 0.5)
yv = _define_order_op("yv", lambda t, v, z, ops: t * (ops.yv(v - 1, z) - ops.yv(v + 1, z)) * 0.5)
iv = _define_order_op("iv", lambda t, v, z, ops: t * (ops.iv(v - 1, z) + ops.iv(v + 1, z)) * 0.5)
kv = _define_order_op("kv", lambda t, v, z, ops: t * (ops.kv(v - 1, z) + ops.kv(v + 1, z)) * -0.5)
hankel1 = _define_order_op("hankel1", lambda t, v, z, ops: t * (ops.hankel1(v - 1, z) - ops.hankel1(v + 1, z)) * 0.5)
hankel2 = _define_order_op("hankel2", lambda t, v, z, ops: t * (ops.hankel2(v - 1, z) - ops.hankel2(v + 1, z)) * 0.5)
# Scaled functions: times exp(-|z|) (for real z only, smooth except at 0), exp(z), exp(-iz), exp(iz).
ive = _define_order_op(
    "ive",
    lambda t, v, z, out, ops: t * ((ops.ive(v - 1, z) + ops.ive(v + 1, z)) * 0.5 - ops.sgn(z) * out),
    real_function("ive"),
)
kve = _define_order_op("kve", lambda t, v, z, out, ops: t * (out - (ops.kve(v - 1, z) + ops.kve(v + 1, z)) * 0.5))
hankel1e = _define_order_op(
    "hankel1e", lambda t, v, z, out, ops: t * ((ops.hankel1e(v - 1, z) - ops.hankel1e(v + 1, z)) * 0.5 - out * 1j)
)
hankel2e = _define_order_op(
    "hankel2e", lambda t, v, z, out, ops: t * ((ops.hankel2e(v - 1, z) - ops.hankel2e(v + 1, z)) * 0.5 + out * 1j)
)


def _struve_z(
    t: Payload, v: Payload, z: Payload, ops: Vocabulary, function: Callable[..., Any], sign: float
) -> Payload:
    """Return t H_v' with H_v' = (H_(v-1) - H_(v+1) + u) / 2, u = (z/2)^v / (sqrt(pi) gamma(v + 3/2)), and L_v' with a
    plus.

    Both formulas hold at 0, unlike H_v v/z. H_0' = u - H_1 is a separate case, because the derivative of H_(-1) does
    not exist at 0.
    """
    v = make_like(v, z, ops)
    middle = (z * 0.5) ** v * ops.rgamma(v + 1.5) * (1 / math.sqrt(math.pi))
    above = function(v + 1, z) * sign
    lowest = v == 0
    below = function(ops.where(lowest, 0.0, v - 1), z)
    return t * ops.where(lowest, middle + above, (below + above + middle) * 0.5)


struve = _define_order_op(
    "struve", lambda t, v, z, ops: _struve_z(t, v, z, ops, ops.struve, -1.0), real_function("struve")
)
modstruve = _define_order_op(
    "modstruve", lambda t, v, z, ops: _struve_z(t, v, z, ops, ops.modstruve, 1.0), real_function("modstruve")
)

# ----- spherical functions of integer order n -------------------------------------------------------------------------

# Derivative: f_n' = (n f_(n-1) -+ (n+1) f_(n+1)) / (2n+1), which for n = 0 is -+ f_1.
_LOWER = {"jn": 1.0, "yn": 1.0, "in": 1.0, "kn": -1.0}
_UPPER = {"jn": -1.0, "yn": -1.0, "in": 1.0, "kn": -1.0}


def _spherical(np: Library, z: Payload, *, kind: str, order: int) -> Payload:
    made = _special(np, f"spherical_{kind}")(order, z)
    return numpy.asarray(made) if np is numpy else made


def _spherical_z(t: Payload, z: Payload, kind: str, order: int, ops: Vocabulary) -> Payload:
    above = ops.spherical_bessel(z, kind=kind, order=order + 1) * (_UPPER[kind] * (order + 1) / (2 * order + 1))
    if order == 0:
        return t * above
    return t * (ops.spherical_bessel(z, kind=kind, order=order - 1) * (_LOWER[kind] * order / (2 * order + 1)) + above)


spherical_bessel = elementwise(
    "spherical_bessel", _spherical, args="z", settings={"kind": "jn", "order": 0}, z=_spherical_z, inplace=False
)

# ----- Airy: y'' = x y ------------------------------------------------------------------------------------------------

airy_ai = elementwise("airy_ai", nth_result("airy", 0), x=lambda t, x, ops: t * ops.airy_aip(x), inplace=False)
airy_aip = elementwise("airy_aip", nth_result("airy", 1), x=lambda t, x, ops: t * (x * ops.airy_ai(x)), inplace=False)
airy_bi = elementwise("airy_bi", nth_result("airy", 2), x=lambda t, x, ops: t * ops.airy_bip(x), inplace=False)
airy_bip = elementwise("airy_bip", nth_result("airy", 3), x=lambda t, x, ops: t * (x * ops.airy_bi(x)), inplace=False)

# ----- Kelvin: ber + i bei = J_0(x e^(3 pi i/4)), ker + i kei likewise; y'' + y'/x = i y ------------------------------

_TURN = cmath.exp(0.75j * math.pi)


def _kelvin_second(x: Payload, ops: Vocabulary) -> Payload:
    z = x * _TURN
    return (ops.jv(2, z) - ops.jv(0, z)) * (0.5 * _TURN * _TURN)


ber = elementwise("ber", real_function("ber"), x=lambda t, x, ops: t * ops.berp(x), inplace=False)
bei = elementwise("bei", real_function("bei"), x=lambda t, x, ops: t * ops.beip(x), inplace=False)
ker = elementwise("ker", real_function("ker"), x=lambda t, x, ops: t * ops.kerp(x), inplace=False)
kei = elementwise("kei", real_function("kei"), x=lambda t, x, ops: t * ops.keip(x), inplace=False)
# The quotient by x is 0/0 at 0, unlike J_0'' = (J_2 - J_0) / 2.
berp = elementwise(
    "berp", real_function("berp"), x=lambda t, x, ops: t * ops.real(_kelvin_second(x, ops)), inplace=False
)
beip = elementwise(
    "beip", real_function("beip"), x=lambda t, x, ops: t * ops.imag(_kelvin_second(x, ops)), inplace=False
)
kerp = elementwise("kerp", real_function("kerp"), x=lambda t, x, out, ops: t * -(ops.kei(x) + out / x), inplace=False)
keip = elementwise("keip", real_function("keip"), x=lambda t, x, out, ops: t * (ops.ker(x) - out / x), inplace=False)

# ----- parabolic cylinder functions: y'' = (x^2/4 - v - 1/2) y for D and V, y'' = (a - x^2/4) y for W -----------------


def _define_cylinder_ops(name: str, curvature: Callable[[Any, Any], Any]) -> tuple[Op, Op]:
    value = elementwise(
        f"{name}_value", nth_result(name, 0), args="v x",
        v=lambda t: no_derivative(name, "v"),
        x=lambda t, v, x, ops: t * getattr(ops, f"{name}_slope")(v, x),
        inplace=False,
    )  # fmt: skip
    slope = elementwise(
        f"{name}_slope", nth_result(name, 1), args="v x",
        v=lambda t: no_derivative(name, "v"),
        x=lambda t, v, x, ops: t * (curvature(v, x) * getattr(ops, f"{name}_value")(v, x)),
        inplace=False,
    )  # fmt: skip
    return value, slope


pbdv, pbdv_slope = _define_cylinder_ops("pbdv", lambda v, x: x * x * 0.25 - (v + 0.5))
pbvv, pbvv_slope = _define_cylinder_ops("pbvv", lambda v, x: x * x * 0.25 - (v + 0.5))
pbwa, pbwa_slope = _define_cylinder_ops("pbwa", lambda a, x: a - x * x * 0.25)
