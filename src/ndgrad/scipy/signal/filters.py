"""Digital filters applied to signals: lfilter and its variants, forward and backward filters, second order sections,
resampling filters.

A filter b/a is a moving average (a convolution) followed by the recursive part (the op `recursive_filter`);
an initial state adds to the first few numbers in between. So everything is differentiable in the signal, in
b, in a and in the state.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, overload

import numpy

import ndgrad.numpy as np
from ndgrad._src.core.variable import np_dtype
from ndgrad._src.ops.filter import recursive_filter
from ndgrad._src.ops.vocabulary import tensor_ops
from ndgrad._src.tensor.storage import batch_dims
from ndgrad.numpy.coercion import one_axis, operands, values_of
from ndgrad.scipy._without_rules import floating, refuse_active
from ndgrad.scipy.linalg.structured import companion
from ndgrad.scipy.linalg.systems import solve

if TYPE_CHECKING:
    from ndgrad._typing import Array, ArrayLike

__all__ = [
    "decimate", "filtfilt", "lfilter", "lfilter_zi", "lfiltic", "resample_poly", "sosfilt", "sosfilt_zi", "sosfiltfilt",
    "upfirdn",
]  # fmt: skip


def _average(b: Array, x: Array) -> Array:
    """Return the sum over k of b[k] x[n - k] along the last axis, from rest."""
    count = b.shape[0]
    if count == 1:
        return x * b[0]
    lead = x.shape[:-1]
    padded = np.pad(x.reshape((-1, 1, x.shape[-1])), [(0, 0), (0, 0), (count - 1, 0)])
    made = tensor_ops.convolution(
        padded, b[::-1].reshape((1, 1, count)), None, stride=(1,), padding=(0,), dilation=(1,), groups=1
    )
    return made.reshape((*lead, x.shape[-1]))


def _latest(x: Array, count: int) -> Array:
    """Return the last `count` numbers along the last axis, with zeros before the first."""
    n = x.shape[-1]
    return x[..., n - count :] if n >= count else np.pad(x, [(0, 0)] * (x.ndim - 1) + [(count - n, 0)])


def _final_state(b: Array, a: Array, x: Array, y: Array, state: Array, order: int) -> Array:
    """Return the state after the last sample, in SciPy's (transposed direct) form."""
    newest_x, newest_y = _latest(x, order)[..., ::-1], _latest(y, order)[..., ::-1]
    parts = []
    for i in range(order):
        weights_b, weights_a = b[i + 1 :], a[i + 1 :]
        parts.append(
            (newest_x[..., : order - i] * weights_b).sum(axis=-1)
            - (newest_y[..., : order - i] * weights_a).sum(axis=-1)
        )
    made = np.stack(parts, axis=-1) if order else np.zeros((*x.shape[:-1], 0), dtype=np_dtype(y))
    n = x.shape[-1]
    if n < order:  # the rest of the initial state
        made = made + np.pad(state[..., n:], [(0, 0)] * (state.ndim - 1) + [(0, n)])
    return made


def _normalize_filter(b: ArrayLike, a: ArrayLike) -> tuple[Array, Array, int]:
    b, a = np.atleast_1d(floating(b)), np.atleast_1d(floating(a))
    if b.ndim != 1 or a.ndim != 1:
        raise ValueError(f"lfilter: b and a must be 1-D, but have shapes {b.shape} and {a.shape}. [nd-ndim]")
    b, a = b / a[0], a / a[0]
    order = max(b.shape[0], a.shape[0]) - 1
    return np.pad(b, (0, order + 1 - b.shape[0])), np.pad(a, (0, order + 1 - a.shape[0])), order


@overload
def lfilter(b: ArrayLike, a: ArrayLike, x: ArrayLike, axis: int = -1, zi: None = None) -> Array: ...
@overload
def lfilter(b: ArrayLike, a: ArrayLike, x: ArrayLike, axis: int = -1, *, zi: ArrayLike) -> tuple[Array, Array]: ...
def lfilter(b: ArrayLike, a: ArrayLike, x: ArrayLike, axis: int = -1, zi: ArrayLike | None = None) -> Any:
    """Apply the filter b/a to a signal; with the state `zi`, also return the state after the last sample.

    Args:
        b: coefficients of the numerator.
        a: coefficients of the denominator.
        x: signal.
        axis: axis of the signal.
        zi: state before the first sample, with one element less than the longer of b and a along `axis`. None means
            zero.

    Returns:
        The filtered signal, and with `zi` the state after the last sample.

    >>> from ndgrad.scipy import signal
    >>> signal.lfilter([1.0], [1.0, -0.5], [1.0, 0.0, 0.0])
    array([1.  , 0.5 , 0.25])
    """
    numerator, denominator, order = _normalize_filter(b, a)
    t = np.atleast_1d(floating(x))
    d = one_axis(axis, t.ndim)
    numerator, denominator, t = operands(numerator, denominator, t)
    t = np.moveaxis(t, d, -1)
    fed = _average(numerator, t)
    if zi is None:
        made = recursive_filter(fed, denominator[1:]) if order else fed
        return np.moveaxis(made, -1, d)
    state = np.moveaxis(floating(zi), d, -1) if floating(zi).ndim == t.ndim else floating(zi)
    if state.shape[-1] != order:
        raise ValueError(
            f"Unexpected shape for zi: expected {order} along the axis of the filter, found {state.shape}. [nd-shape]"
        )
    state = np.broadcast_to(state, (*t.shape[:-1], order))
    n = t.shape[-1]
    head = state[..., :n] if n < order else np.pad(state, [(0, 0)] * (state.ndim - 1) + [(0, n - order)])
    made = recursive_filter(fed + head, denominator[1:]) if order else fed
    final = _final_state(numerator, denominator, t, made, state, order)
    return np.moveaxis(made, -1, d), np.moveaxis(final, -1, d)


def leading_zeros(a: Array) -> int:
    """Return the number of leading zero coefficients; inside vmap, where values cannot decide, zero."""
    if batch_dims(a):
        return 0
    found = numpy.flatnonzero(values_of(a.detach()))
    if not found.size:
        raise ValueError("There must be at least one nonzero `a` coefficient. [nd-values]")
    return int(found[0])


def lfilter_zi(b: ArrayLike, a: ArrayLike) -> Array:
    """The state for which a step's response is steady from the start.

    Args:
        b: coefficients of the numerator.
        a: coefficients of the denominator.

    >>> from ndgrad.scipy import signal
    >>> signal.lfilter_zi([1.0], [1.0, -0.5])
    array([1.])
    """
    b, a = np.atleast_1d(floating(b)), np.atleast_1d(floating(a))
    a = a[leading_zeros(a) :]
    b, a, order = _normalize_filter(b, a)
    return solve(np.eye(order) - companion(a).T, b[1:] - a[1:] * b[0])


def lfiltic(b: ArrayLike, a: ArrayLike, y: ArrayLike, x: ArrayLike | None = None) -> Array:
    """The state after earlier outputs and inputs, the newest first.

    Args:
        b: coefficients of the numerator.
        a: coefficients of the denominator.
        y: earlier outputs, the newest first.
        x: earlier inputs, the newest first. The default is zero.

    >>> from ndgrad.scipy import signal
    >>> signal.lfiltic([1.0], [1.0, -0.5], y=[4.0])
    array([2.])
    """
    b, a = np.atleast_1d(floating(b)), np.atleast_1d(floating(a))
    count_a, count_b = a.shape[0] - 1, b.shape[0] - 1
    order = max(count_a, count_b)
    numerator, denominator, _ = _normalize_filter(b, a)
    outputs = _fit_length(floating(y), count_a)
    inputs = _fit_length(np.zeros(count_b) if x is None else floating(x), count_b)
    outputs, inputs = (np.pad(v, (0, order - v.shape[0])) for v in (outputs, inputs))
    parts = [
        (numerator[m + 1 :] * inputs[: order - m]).sum() - (denominator[m + 1 :] * outputs[: order - m]).sum()
        for m in range(order)
    ]
    return np.stack(parts) if parts else np.zeros((0,))


def _fit_length(v: Array, count: int) -> Array:
    return v[:count] if v.shape[0] >= count else np.pad(v, (0, count - v.shape[0]))


# ----- forward and backward -------------------------------------------------------------------------------------------


def _extend_ends(x: Array, edge: int, kind: str | None) -> Array:
    """Extend the signal beyond both ends of the last axis: rotated about its ends, mirrored, or constant."""
    if kind is None or edge == 0:
        return x
    n = x.shape[-1]
    if edge > n - 1:
        raise ValueError(f"The length of the input vector x must be greater than padlen, which is {edge}. [nd-range]")
    first, last = x[..., :1], x[..., -1:]
    before, after = x[..., edge:0:-1], x[..., -2 : -(edge + 2) : -1]
    if kind == "odd":
        return np.concatenate([2.0 * first - before, x, 2.0 * last - after], axis=-1)
    if kind == "even":
        return np.concatenate([before, x, after], axis=-1)
    if kind == "constant":
        ends = [np.broadcast_to(e, (*x.shape[:-1], edge)) for e in (first, last)]
        return np.concatenate([ends[0], x, ends[1]], axis=-1)
    raise ValueError(
        f"Unknown value '{kind}' given to padtype. padtype must be 'even', 'odd', 'constant', or None. [nd-option]"
    )


def filtfilt(
    b: ArrayLike, a: ArrayLike, x: ArrayLike, axis: int = -1, padtype: str | None = "odd", padlen: int | None = None,
    method: str = "pad", irlen: int | None = None,
) -> Array:  # fmt: skip
    """Apply the filter forwards and backwards, for zero phase.

    Args:
        b: coefficients of the numerator.
        a: coefficients of the denominator.
        x: signal.
        axis: axis of the signal.
        padtype: extension at the ends: `"odd"`, `"even"`, `"constant"` or None.
        padlen: number of samples of the extension. The default is three times the length of the filter.
        method: `"pad"`. `"gust"` raises NotImplementedError, because it has no derivative.
        irlen: accepted as in SciPy; has no effect, because it belongs to the method `"gust"`.

    >>> from ndgrad.scipy import signal
    >>> signal.filtfilt([0.5, 0.5], [1.0], [0.0, 1.0, 2.0, 3.0, 5.0, 8.0, 9.0, 9.0])
    array([0.  , 1.  , 2.  , 3.25, 5.25, 7.5 , 8.75, 9.  ])
    """
    if method != "pad":
        refuse_active("filtfilt(method='gust')", (b, a, x), "filtfilt(method='pad')")
        raise NotImplementedError("filtfilt(method='gust') has no rule here. Use method='pad'. [nd-no-derivative]")
    b, a = np.atleast_1d(floating(b)), np.atleast_1d(floating(a))
    t = floating(x)
    d = one_axis(axis, t.ndim)
    t = np.moveaxis(t, d, -1)
    edge = 0 if padtype is None else (3 * max(a.shape[0], b.shape[0]) if padlen is None else padlen)
    extended = _extend_ends(t, edge, padtype)
    zi = lfilter_zi(b, a)
    forward, _ = lfilter(b, a, extended, zi=zi * extended[..., :1])
    backward, _ = lfilter(b, a, forward[..., ::-1], zi=zi * forward[..., -1:])
    made = backward[..., ::-1]
    return np.moveaxis(made[..., edge:-edge] if edge else made, -1, d)


def _sections(sos: ArrayLike) -> Array:
    t = np.atleast_2d(floating(sos))
    if t.ndim != 2 or t.shape[1] != 6:
        raise ValueError(f"sos array must be shape (n_sections, 6), but has shape {t.shape}. [nd-shape]")
    if not batch_dims(t) and not (values_of(t.detach())[:, 3] == 1).all():
        raise ValueError("sos[:, 3] should be all ones: divide each section by it. [nd-values]")
    return t


@overload
def sosfilt(sos: ArrayLike, x: ArrayLike, axis: int = -1, zi: None = None) -> Array: ...
@overload
def sosfilt(sos: ArrayLike, x: ArrayLike, axis: int = -1, *, zi: ArrayLike) -> tuple[Array, Array]: ...
def sosfilt(sos: ArrayLike, x: ArrayLike, axis: int = -1, zi: ArrayLike | None = None) -> Any:
    """Apply second order sections to a signal, one after the other; a state has the shape (n_sections, ..., 2).

    Args:
        sos: second order sections, of shape (n_sections, 6), each with b0, b1, b2, a0, a1, a2.
        x: signal.
        axis: axis of the signal.
        zi: states before the first sample, of shape (n_sections, ..., 2). None means zero.

    Returns:
        The filtered signal, and with `zi` the states after the last sample.

    >>> from ndgrad.scipy import signal
    >>> signal.sosfilt([[1.0, 0.0, 0.0, 1.0, -0.5, 0.0]], [1.0, 0.0, 0.0])
    array([1.  , 0.5 , 0.25])
    """
    sections = _sections(sos)
    t = floating(x)
    d = one_axis(axis, t.ndim)
    t = np.moveaxis(t, d, -1)
    finals = []
    state = None if zi is None else np.moveaxis(floating(zi), d + 1, -1)
    for i in range(sections.shape[0]):
        b, a = sections[i, :3], sections[i, 3:]
        if state is None:
            t = lfilter(b, a, t)
        else:
            t, final = lfilter(b, a, t, zi=state[i])
            finals.append(final)
    made = np.moveaxis(t, -1, d)
    return made if zi is None else (made, np.moveaxis(np.stack(finals), -1, d + 1))


def sosfilt_zi(sos: ArrayLike) -> Array:
    """The states of the sections for which a step's response is steady from the start.

    Args:
        sos: second order sections, of shape (n_sections, 6), each with b0, b1, b2, a0, a1, a2.

    >>> from ndgrad.scipy import signal
    >>> signal.sosfilt_zi([[1.0, 0.0, 0.0, 1.0, -0.5, 0.0]])
    array([[1., 0.]])
    """
    sections = _sections(sos)
    states = []
    scale: Any = 1.0
    for i in range(sections.shape[0]):
        b, a = sections[i, :3], sections[i, 3:]
        states.append(scale * lfilter_zi(b, a))
        scale = scale * (b.sum() / a.sum())
    return np.stack(states)


def sosfiltfilt(
    sos: ArrayLike, x: ArrayLike, axis: int = -1, padtype: str | None = "odd", padlen: int | None = None,
) -> Array:  # fmt: skip
    """Apply second order sections to a signal forwards and backwards, for zero phase.

    Args:
        sos: second order sections, of shape (n_sections, 6), each with b0, b1, b2, a0, a1, a2.
        x: signal.
        axis: axis of the signal.
        padtype: extension at the ends: `"odd"`, `"even"`, `"constant"` or None.
        padlen: number of samples of the extension. The default is three times the length of the filter.

    >>> from ndgrad.scipy import signal
    >>> signal.sosfiltfilt([[0.5, 0.5, 0.0, 1.0, 0.0, 0.0]], [0.0, 1.0, 2.0, 3.0, 5.0, 8.0, 9.0, 9.0])
    array([0.  , 1.  , 2.  , 3.25, 5.25, 7.5 , 8.75, 9.  ])
    """
    sections = _sections(sos)
    t = floating(x)
    d = one_axis(axis, t.ndim)
    t = np.moveaxis(t, d, -1)
    plain = values_of(sections.detach())
    taps = 2 * len(plain) + 1 - min(int((plain[:, 2] == 0).sum()), int((plain[:, 5] == 0).sum()))
    edge = 0 if padtype is None else (3 * taps if padlen is None else padlen)
    extended = _extend_ends(t, edge, padtype)
    zi = sosfilt_zi(sections).reshape((len(plain), *(1,) * (t.ndim - 1), 2))
    forward, _ = sosfilt(sections, extended, zi=zi * extended[..., :1])
    backward, _ = sosfilt(sections, forward[..., ::-1], zi=zi * forward[..., -1:])
    made = backward[..., ::-1]
    return np.moveaxis(made[..., edge:-edge] if edge else made, -1, d)


# ----- changing the rate ----------------------------------------------------------------------------------------------


_PADS = {"constant": "constant", "edge": "edge", "symmetric": "symmetric", "reflect": "reflect", "wrap": "wrap"}


def _extend_by_mode(x: Array, margin: int, mode: str, cval: ArrayLike) -> Array:
    """Extend the signal on both sides of the last axis."""
    if mode == "line":
        n = x.shape[-1]
        first, slope = x[..., :1], (x[..., -1:] - x[..., :1]) / (n - 1)
        before, after = (first + slope * numpy.arange(low, low + margin) for low in (-margin, n))
        return np.concatenate([before, x, after], axis=-1)
    if mode not in _PADS:
        raise NotImplementedError(
            f"mode={mode!r} has no rule here. Choose one of {', '.join(_PADS)} or 'line', or pad the signal before. "
            "[nd-no-derivative]"
        )
    more = {"constant_values": cval} if mode == "constant" else {}
    return np.pad(x, [(0, 0)] * (x.ndim - 1) + [(margin, margin)], mode=_PADS[mode], **more)


def upfirdn(
    h: ArrayLike, x: ArrayLike, up: int = 1, down: int = 1, axis: int = -1, mode: str = "constant", cval: ArrayLike = 0,
) -> Array:  # fmt: skip
    """Insert zeros between the samples, apply a moving average, and take every `down`-th sample; differentiable in h
    and x.

    Args:
        h: coefficients of the filter, of shape (n,).
        x: signal.
        up: number of samples for each one of the input, before the filter.
        down: distance of the samples that are kept after the filter.
        axis: axis of the signal.
        mode: values beyond the ends: `"constant"`, `"zero"`, or another mode of SciPy.
        cval: value beyond the ends in mode `"constant"`.

    >>> from ndgrad.scipy import signal
    >>> signal.upfirdn([1.0, 1.0], [1.0, 2.0], up=2)
    array([1., 1., 2., 2.])
    """
    taps, t = operands(floating(h), floating(x))
    if taps.ndim != 1 or taps.size == 0:
        raise ValueError("h must be 1-D with non-zero length [nd-ndim]")
    d = one_axis(axis, t.ndim)
    t = np.moveaxis(t, d, -1)
    n, count = t.shape[-1], taps.shape[0]
    length = _length(count, n, up, down)
    skip = 0
    if mode not in ("constant", "zero") or cval != 0:
        # Add as many samples as the filter can see, in whole steps of the result.
        margin = -(-(count // up + 1) // down) * down
        t = _extend_by_mode(t, margin, mode, cval)
        skip, n = margin * up // down, n + 2 * margin
    spread = np.concatenate([t[..., None], np.zeros((*t.shape, up - 1), dtype=np_dtype(t))], axis=-1).reshape(
        (*t.shape[:-1], n * up)
    )
    spread = spread[..., : (n - 1) * up + 1]
    made = _average(taps, np.pad(spread, [(0, 0)] * (t.ndim - 1) + [(0, count - 1)]))
    return np.moveaxis(made[..., ::down][..., skip : skip + length], -1, d)


def resample_poly(
    x: ArrayLike, up: int, down: int, axis: int = 0, window: str | tuple[Any, ...] | ArrayLike = ("kaiser", 5.0),
    padtype: str | None = None, cval: ArrayLike | None = None,
) -> Array:  # fmt: skip
    """Resample to another rate, by a moving average over the signal with inserted zeros; `window` may be the
    coefficients.

    Args:
        x: signal.
        up: factor of the rate.
        down: divisor of the rate.
        axis: axis of the signal.
        window: window for the design of the filter, or its coefficients.
        padtype: values beyond the ends: `"constant"`, `"mean"`, `"median"`, `"maximum"`, `"minimum"`, or a mode of
            `upfirdn`.
        cval: value beyond the ends for `"constant"`. The default is 0.

    >>> from ndgrad.scipy import signal
    >>> signal.resample_poly([1.0, 2.0, 3.0, 4.0], 1, 2).shape
    (2,)
    """
    from math import gcd

    t = floating(x)
    d = one_axis(axis, t.ndim)
    common = gcd(int(up), int(down))
    up, down = int(up) // common, int(down) // common
    if up == down == 1:
        return t.copy()
    n = t.shape[d]
    out = n * up // down + bool(n * up % down)
    if isinstance(window, (list, numpy.ndarray)) or hasattr(window, "detach"):
        taps = floating(window)
        half = (taps.shape[0] - 1) // 2
    else:
        import scipy.signal

        rate = max(up, down)
        half = 10 * rate
        taps = floating(scipy.signal.firwin(2 * half + 1, 1.0 / rate, window=window))
    taps = taps * up
    before = down - half % down
    skip = (half + before) // down
    after = 0
    while _length(taps.shape[0] + before + after, n, up, down) < out + skip:
        after += 1
    taps = np.pad(taps, (before, after))
    level: Any = 0.0
    mode = padtype or "constant"
    if mode in ("mean", "median", "maximum", "minimum"):
        level = getattr(np, {"maximum": "max", "minimum": "min"}.get(mode, mode))(t, axis=d, keepdims=True)
        t, mode = t - level, "constant"
    made = upfirdn(taps, t, up, down, d, mode, 0 if cval is None else cval)
    return np.take(made, numpy.arange(skip, skip + out), axis=d) + level


def _length(taps: int, n: int, up: int, down: int) -> int:
    return ((n - 1) * up + taps - 1) // down + 1


def decimate(
    x: ArrayLike, q: int, n: int | None = None, ftype: str | object = "iir", axis: int = -1, zero_phase: bool = True,
) -> Array:  # fmt: skip
    """Every q-th sample of the signal after an anti-aliasing filter.

    Args:
        x: signal.
        q: distance of the samples that are kept.
        n: order of the filter. The default is 8 for `"iir"`, and 20 q for `"fir"`.
        ftype: `"iir"` for a Chebyshev filter, or `"fir"` for a Hamming window.
        axis: axis of the signal.
        zero_phase: whether the phase of the filter is undone.

    >>> from ndgrad.scipy import signal
    >>> signal.decimate(list(range(40)), 4).shape
    (10,)
    """
    import scipy.signal

    t = floating(x)
    d = one_axis(axis, t.ndim)
    if ftype == "fir":
        b = scipy.signal.firwin((20 * q if n is None else n) + 1, 1.0 / q, window="hamming")
        if zero_phase:
            return resample_poly(t, 1, q, axis=d, window=floating(b / b.sum()))
        made = upfirdn(floating(b), t, 1, q, d)
        return np.take(made, numpy.arange(t.shape[d] // q + bool(t.shape[d] % q)), axis=d)
    if ftype != "iir":
        raise NotImplementedError(
            "decimate: ftype must be 'iir' or 'fir'. Filter the signal yourself, then take x[::q]. [nd-option]"
        )
    sos = scipy.signal.cheby1(8 if n is None else n, 0.05, 0.8 / q, output="sos")
    made = sosfiltfilt(sos, t, d) if zero_phase else sosfilt(sos, t, d)
    return np.take(made, numpy.arange(0, t.shape[d], q), axis=d)
