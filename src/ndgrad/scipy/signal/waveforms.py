"""Waveforms as functions of time and of their parameters."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING

import ndgrad.numpy as np
from ndgrad._src.ops.vocabulary import tensor_ops
from ndgrad.scipy._without_rules import floating

if TYPE_CHECKING:
    from ndgrad._typing import Array, ArrayLike

__all__ = ["chirp", "gausspulse", "sawtooth", "square", "sweep_poly"]


def _phase(t: ArrayLike, f0: ArrayLike, t1: ArrayLike, f1: ArrayLike, method: str, vertex_zero: bool) -> Array:
    t, f0, t1, f1 = (floating(v) for v in (t, f0, t1, f1))
    if method in ("linear", "lin", "li"):
        return 2.0 * math.pi * (f0 * t + 0.5 * (f1 - f0) / t1 * t * t)
    if method in ("quadratic", "quad", "q"):
        beta = (f1 - f0) / t1**2
        if vertex_zero:
            return 2.0 * math.pi * (f0 * t + beta * t**3 / 3.0)
        return 2.0 * math.pi * (f1 * t + beta * ((t1 - t) ** 3 - t1**3) / 3.0)
    if method in ("logarithmic", "log", "lo"):
        # The integral of f0 (f1 / f0)^(t / t1) is a quotient by log(f1 / f0), which is smooth where that vanishes.
        return 2.0 * math.pi * f0 * t * tensor_ops.exprel(np.log(f1 / f0) * (t / t1))
    if method in ("hyperbolic", "hyp"):
        # The integral of f0 / (1 + u t'/t) with u = (f0 - f1) t / (f1 t1). Beyond the pole, where 1 + u < 0, SciPy
        # takes the absolute value.
        u = (f0 - f1) * t / (f1 * t1)
        before = u > -1.0
        near, beyond = np.where(before, u, 0.0), np.where(before, -3.0, u)
        return 2.0 * math.pi * f0 * t * np.where(before, tensor_ops.log1prel(near), np.log(-1.0 - beyond) / beyond)
    raise ValueError(
        f"method must be 'linear', 'quadratic', 'logarithmic', or 'hyperbolic', but a value of {method!r} was given. "
        "[nd-option]"
    )


def chirp(
    t: ArrayLike, f0: ArrayLike, t1: ArrayLike, f1: ArrayLike, method: str = "linear", phi: ArrayLike = 0,
    vertex_zero: bool = True, *, complex: bool = False,
) -> Array:  # fmt: skip
    """A cosine whose frequency sweeps from f0 to f1.

    Args:
        t: times.
        f0: frequency at time 0.
        t1: time of the frequency `f1`.
        f1: frequency at time `t1`.
        method: course of the frequency: `"linear"`, `"quadratic"`, `"logarithmic"` or `"hyperbolic"`.
        phi: phase in degrees.
        vertex_zero: whether the vertex of a quadratic course is at time 0, instead of `t1`.
        complex: whether to return exp(i phase) instead of the cosine.

    >>> from ndgrad.scipy import signal
    >>> signal.chirp([0.0, 0.5, 1.0], f0=1.0, t1=1.0, f1=2.0).round(6)
    array([ 1.      , -0.707107, -1.      ])
    """
    phase = _phase(t, f0, t1, f1, method, vertex_zero) + floating(phi) * (math.pi / 180)
    return np.exp(1j * phase) if complex else np.cos(phase)


def sweep_poly(t: ArrayLike, poly: ArrayLike, phi: ArrayLike = 0) -> Array:
    """A cosine whose frequency is a polynomial of time, the highest coefficient first.

    Args:
        t: times.
        poly: coefficients of the frequency, the highest power first.
        phi: phase in degrees.

    >>> from ndgrad.scipy import signal
    >>> signal.sweep_poly([0.0, 0.25], [1.0, 1.0]).round(6)
    array([ 1.     , -0.19509])
    """
    coefficients = floating(poly)
    phase = 2.0 * math.pi * np.polyval(np.polyint(coefficients), floating(t))
    return np.cos(phase + floating(phi) * (math.pi / 180))


def gausspulse(
    t: ArrayLike, fc: ArrayLike = 1000, bw: ArrayLike = 0.5, bwr: ArrayLike = -6, tpr: ArrayLike = -60,
    retquad: bool = False, retenv: bool = False,
) -> Array | tuple[Array, ...]:  # fmt: skip
    """A cosine in a normal envelope.

    Args:
        t: times.
        fc: frequency of the cosine.
        bw: bandwidth as a share of `fc`.
        bwr: level in dB at which the bandwidth is measured.
        tpr: accepted as in SciPy; has no effect, because it belongs to `t="cutoff"`.
        retquad: whether the sine in the envelope is returned too.
        retenv: whether the envelope is returned too.

    >>> from ndgrad.scipy import signal
    >>> signal.gausspulse([0.0, 1e-3]).round(6)
    array([1.      , 0.409433])
    """
    times, centre, band = floating(t), floating(fc), floating(bw)
    reference = 10.0 ** (floating(bwr) / 20.0)
    a = -((math.pi * centre * band) ** 2) / (4.0 * np.log(reference))
    envelope = np.exp(-a * times * times)
    wave = envelope * np.cos(2.0 * math.pi * centre * times)
    made = [wave]
    if retquad:
        made.append(envelope * np.sin(2.0 * math.pi * centre * times))
    if retenv:
        made.append(envelope)
    return tuple(made) if len(made) > 1 else wave


def sawtooth(t: ArrayLike, width: ArrayLike = 1) -> Array:
    """A wave that rises from -1 to 1 over a share of each period of 2 pi, and falls over the rest; its jumps are
    ignored in the derivative.

    Args:
        t: times.
        width: share of a period over which the wave rises, from 0 to 1.

    >>> from ndgrad.scipy import signal
    >>> signal.sawtooth([0.0, 3.0])
    array([-1.        , -0.04507034])
    """
    times, w = floating(t), floating(width)
    turn = np.mod(times, 2 * math.pi)
    rising = turn < w * (2 * math.pi)
    up = turn / (math.pi * np.where(w > 0, w, 1.0)) - 1.0
    down = (math.pi * (w + 1.0) - turn) / (math.pi * np.where(w < 1, 1.0 - w, 1.0))
    return np.where(rising, up, down)


def square(t: ArrayLike, duty: ArrayLike = 0.5) -> Array:
    """A wave with values 1 over a share of each period of 2 pi and -1 over the rest; the derivative is zero.

    Args:
        t: times.
        duty: share of a period with the value 1, from 0 to 1.

    >>> from ndgrad.scipy import signal
    >>> signal.square([1.0, 4.0])
    array([ 1., -1.])
    """
    turn = np.mod(floating(t), 2 * math.pi)
    return np.where(turn < floating(duty) * (2 * math.pi), 1.0, -1.0)
