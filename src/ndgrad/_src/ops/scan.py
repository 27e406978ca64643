"""Running sums, products and extrema along one dimension.

The constraint that shaped this file: derivatives of running products must be right if factors are zero, to every order.
They are all instances of one op, the linear recurrence h[k] = a[k] h[k-1] + b[k], whose own derivatives are linear
recurrences again. So nothing is ever divided. `dim` is one non-negative int.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

import numpy

from ndgrad._src.arrays import native_kernels
from ndgrad._src.arrays.integers import choose_sum_dtype
from ndgrad._src.arrays.precision import is_floating
from ndgrad._src.ops.arithmetic import is_complex
from ndgrad._src.ops.reduce import divides_back
from ndgrad._src.ops.table import op
from ndgrad._src.ops.vocabulary import raw_ops

if TYPE_CHECKING:
    from ndgrad._typing import Library, Payload, Vocabulary


def _range_index(start: int, stop: int | None, dim: int) -> tuple[Any, ...]:
    """Return the index of a range along `dim`."""
    return (*(slice(None),) * dim, slice(start, stop))


def _reverse(x: Any, dim: int) -> Any:
    """Return a view of x with `dim` reversed."""
    return x[(*(slice(None),) * dim, slice(None, None, -1))]


def _double(np: Library, parts: list[Any], dim: int, combine: Callable[[list[Any], list[Any]], list[Any]]) -> list[Any]:
    """Return the running combination of an associative operation, in log2(n) steps over whole arrays.

    After the step of width w, element k holds the combination of elements k-2w+1 ... k. `parts` are overwritten.
    `combine` gets the range of the earlier elements and the range of the elements themselves.
    """
    n, width = parts[0].shape[dim], 1
    while width < n:
        earlier, later = (
            [p[_range_index(0, -width, dim)] for p in parts],
            [p[_range_index(width, None, dim)] for p in parts],
        )
        for p, value in zip(later, combine(earlier, later), strict=True):
            p[...] = value
        width *= 2
    return parts


# ----- shift: the neighbour's value -----------------------------------------------------------------------------------


def _shift(np: Library, x: Payload, *, dim: int, reverse: bool = False, fill: float = 0.0) -> Payload:
    out = np.empty(x.shape, x.dtype)
    one, rest = (
        (_range_index(-1, None, dim), _range_index(0, -1, dim))
        if reverse
        else (_range_index(0, 1, dim), _range_index(1, None, dim))
    )
    out[one] = fill
    out[rest] = x[_range_index(1, None, dim)] if reverse else x[_range_index(0, -1, dim)]
    return out


# Each element becomes the one before it along `dim` (after it, with `reverse`); the first becomes `fill`.
shift = op(
    "shift", "x",
    _shift,
    settings={"dim": 0, "reverse": False, "fill": 0.0},
    vjp={"x": lambda g, dim, reverse, ops: ops.shift(g, dim=dim, reverse=not reverse)},
    jvp={"x": lambda t, dim, reverse, ops: ops.shift(t, dim=dim, reverse=reverse)},
    batch="dims",
)  # fmt: skip


# ----- the linear recurrence ------------------------------------------------------------------------------------------


def _recurrence_pair(earlier: list[Any], later: list[Any]) -> list[Any]:
    """Compose the maps: h -> a h + b after h -> a' h + b' is h -> (a a') h + (a b' + b)."""
    (a, b), (c, d) = earlier, later
    return [c * a, c * b + d]


def _run_steps(np: Library, a: Payload, b: Payload, dim: int, dtype: Any) -> Payload:
    """Compute the recurrence directly, one step at a time.

    Doubling multiplies ranges of a before it knows their factors. A range that overflows or holds an infinity turns a
    zero into NaN, although the recurrence itself never multiplies the two.
    """
    h = np.array(b, dtype)
    steps, factors = np.moveaxis(h, dim, 0), np.moveaxis(a, dim, 0)
    for k in range(1, len(steps)):
        steps[k] += factors[k] * steps[k - 1]
    return h


def _linear_recurrence(np: Library, a: Payload, b: Payload, *, dim: int, reverse: bool = False) -> Payload:
    kernels = native_kernels.kernels_for_scan(dim, b, a) if a.shape == b.shape else None
    if kernels is not None:
        return kernels.scan("linear", reverse, dim, b, a)
    dtype = np.result_type(a, b)
    if reverse:
        a, b = _reverse(a, dim), _reverse(b, dim)
    with numpy.errstate(over="ignore", invalid="ignore"):  # products of a may overflow although h does not
        _, h = _double(np, [np.array(a, dtype), np.array(b, dtype)], dim, _recurrence_pair)
    if not np.isfinite(h).all():
        h = _run_steps(np, a, b, dim, dtype)
    return np.ascontiguousarray(_reverse(h, dim)) if reverse else h


def _linear_recurrence_vjp(
    g: Payload, a: Payload, out: Payload, dim: int, reverse: bool, needs: tuple[bool, bool], ops: Vocabulary
) -> tuple[Any, Any]:
    """Run the recurrence in the other direction: b[k] reaches h[k], then h[k+1] through a[k+1], and so on. a[k] scales
    h[k-1].
    """
    gb = ops.linear_recurrence(ops.shift(ops.conj(a), dim=dim, reverse=not reverse), g, dim=dim, reverse=not reverse)
    ga = gb * ops.conj(ops.shift(out, dim=dim, reverse=reverse)) if needs[0] else None
    return ga, gb


def _linear_recurrence_jvp(
    a: Payload, a_t: Payload, b_t: Payload, out: Payload, dim: int, reverse: bool, ops: Vocabulary
) -> Payload:
    source = None if a_t is None else a_t * ops.shift(out, dim=dim, reverse=reverse)
    if b_t is not None:
        source = b_t if source is None else source + b_t
    return ops.linear_recurrence(a, source, dim=dim, reverse=reverse)


# h[k] = a[k] h[k-1] + b[k] with h[-1] = 0, from the other end with `reverse`. Both arrays have the same shape.
linear_recurrence = op(
    "linear_recurrence", "a b",
    _linear_recurrence,
    settings={"dim": 0, "reverse": False},
    vjp=_linear_recurrence_vjp,
    jvp=_linear_recurrence_jvp,
    batch="dims",
)  # fmt: skip


# ----- cumsum and cumprod ---------------------------------------------------------------------------------------------


#: The dtypes in which running sums and products are computed. Unlike in a pairwise sum, an error persists to the end.
_ACCUMULATING = {"f": numpy.dtype(numpy.float64), "F": numpy.dtype(numpy.complex128)}


def _accumulate(np: Library, ufunc: Any, x: Payload, dim: int, reverse: bool, dtype: Any) -> Payload:
    dtype = choose_sum_dtype(x.dtype) if dtype is None else dtype
    wanted = x.dtype if dtype is None else numpy.dtype(dtype)
    kernels = native_kernels.kernels_for_scan(dim, x) if wanted == x.dtype else None
    if kernels is not None:
        return kernels.scan("sum" if ufunc is np.add else "product", reverse, dim, x)
    wide = _ACCUMULATING.get(wanted.char, dtype)
    out = ufunc.accumulate(_reverse(x, dim) if reverse else x, axis=dim, dtype=wide)
    out = out if wide is dtype else out.astype(wanted)
    return np.ascontiguousarray(_reverse(out, dim)) if reverse else out


def _cumsum(np: Library, x: Payload, *, dim: int, reverse: bool = False, dtype: Any = None) -> Payload:
    return _accumulate(np, np.add, x, dim, reverse, dtype)


cumsum = op(
    "cumsum", "x",
    _cumsum,
    settings={"dim": 0, "reverse": False, "dtype": None},
    vjp={"x": lambda g, dim, reverse, ops: ops.cumsum(g, dim=dim, reverse=not reverse)},
    jvp="linear",
    batch="dims",
    may_be_discrete=True, memory_order="C", adds_values=True,
)  # fmt: skip


def _cumprod(np: Library, x: Payload, *, dim: int, reverse: bool = False, dtype: Any = None) -> Payload:
    return _accumulate(np, np.multiply, x, dim, reverse, dtype)


def _cumprod_x(g: Payload, x: Payload, out: Payload, dim: int, reverse: bool, ops: Vocabulary) -> Payload:
    """Return the gradient from d out[n] / d x[k] = (product before k) (product of x[k+1] ... x[n]), for n >= k.

    The sum over n of g[n] times the second factor is s[k] = g[k] + x[k+1] s[k+1].
    """
    scaled = ops.cumsum(ops.conj(g) * out, dim=dim, reverse=not reverse) if ops.raw else None
    if divides_back(out, scaled, ops):
        return ops.conj(scaled / x)
    before = ops.shift(out, dim=dim, reverse=reverse, fill=1.0)
    following = ops.shift(x, dim=dim, reverse=not reverse)
    return ops.conj(before) * ops.linear_recurrence(ops.conj(following), g, dim=dim, reverse=not reverse)


def _cumprod_t(t: Payload, x: Payload, out: Payload, dim: int, reverse: bool, ops: Vocabulary) -> Payload:
    """Apply the product rule, one factor at a time: dy[n] = x[n] dy[n-1] + y[n-1] t[n]."""
    return ops.linear_recurrence(x, t * ops.shift(out, dim=dim, reverse=reverse, fill=1.0), dim=dim, reverse=reverse)


cumprod = op(
    "cumprod", "x",
    _cumprod,
    settings={"dim": 0, "reverse": False, "dtype": None},
    vjp={"x": _cumprod_x},
    jvp={"x": _cumprod_t},
    batch="dims",
    may_be_discrete=True, memory_order="C",
)  # fmt: skip


# ----- logcumsumexp ---------------------------------------------------------------------------------------------------


def _log_add_exp(np: Library, x: Payload, y: Payload) -> Payload:
    """Return log(e^x + e^y), also for complex numbers, scaled by the larger; -inf stands for log 0."""
    top = np.maximum(x.real, y.real)
    top = np.where(np.isfinite(top), top, np.zeros((), top.dtype))
    return top + np.log(np.exp(x - top) + np.exp(y - top))


def _logcumsumexp(np: Library, x: Payload, *, dim: int) -> Payload:
    if np is numpy and x.dtype.kind != "c":
        if native_kernels.kernels_for_scan(dim, x) is not None:
            with numpy.errstate(divide="ignore", over="ignore"):
                return _logcumsumexp_body(x, dim, raw_ops(np))
        return np.logaddexp.accumulate(x, axis=dim)
    return _double(np, [x.copy()], dim, lambda earlier, later: [_log_add_exp(np, earlier[0], later[0])])[0]


def _scaled_sums(x: Payload, dim: int, ops: Vocabulary) -> tuple[Any, Any, Any]:
    """Return e^(x[k] - m[k]), the factors e^(m[k-1] - m[k]) and the running sums of e^(x[j] - m[k]).

    Here m is the running maximum of x. With these, d out[n] / d x[k] = e^(x[k] - m[k]) e^(m[k] - m[k+1]) ... e^(m[n-1]
    - m[n]) / sums[n]. All exponents are at most 0 for real numbers, so nothing overflows. The formula e^(x[k] - out[n])
    would also work, but for large numbers `out` has lost the logarithm of the sums. m only scales, so it counts as a
    constant.
    """
    top = _finite_maximum(x, dim, ops)
    # An infinite maximum is replaced by 0, which may be larger than the next one; the sums are 0 or infinite there.
    step = ops.exp(ops.minimum(ops.shift(top, dim=dim, fill=-math.inf) - top, 0.0))
    parts = ops.exp(x - top)
    return parts, step, ops.linear_recurrence(step, parts, dim=dim)


def _finite_maximum(x: Payload, dim: int, ops: Vocabulary) -> Payload:
    top = ops.detach(ops.cummax(ops.real(x) if is_complex(x) else x, dim=dim)[0])
    return ops.where(abs(top) < math.inf, top, 0.0)


def _logcumsumexp_body(x: Payload, dim: int, ops: Vocabulary) -> Payload:
    return _finite_maximum(x, dim, ops) + ops.log(_scaled_sums(x, dim, ops)[2])


def _logcumsumexp_x(g: Payload, x: Payload, dim: int, ops: Vocabulary) -> Payload:
    parts, step, sums = _scaled_sums(x, dim, ops)
    following = ops.shift(step, dim=dim, reverse=True)
    return ops.conj(parts) * ops.linear_recurrence(following, g / ops.conj(sums), dim=dim, reverse=True)


def _logcumsumexp_t(t: Payload, x: Payload, dim: int, ops: Vocabulary) -> Payload:
    parts, step, sums = _scaled_sums(x, dim, ops)
    return ops.linear_recurrence(step, t * parts, dim=dim) / sums


logcumsumexp = op(
    "logcumsumexp", "x",
    _logcumsumexp,
    settings={"dim": 0},
    vjp={"x": _logcumsumexp_x},
    jvp={"x": _logcumsumexp_t},
    batch="dims",
)  # fmt: skip


# ----- cummax and cummin ----------------------------------------------------------------------------------------------


def accumulate_extremum(np: Library, choose: Any, x: Payload, dim: int) -> Payload:
    """Return the running maximum or minimum, also for CuPy, whose functions have no `accumulate`."""
    if np is numpy:
        return choose.accumulate(x, axis=dim)
    return _double(np, [x.copy()], dim, lambda earlier, later: [choose(earlier[0], later[0])])[0]


def _running_extremum(np: Library, x: Payload, dim: int, largest: bool) -> tuple[Any, Any]:
    """Return the running extremum and its last position. From the first NaN on, the extremum is NaN, at the last NaN so
    far.
    """
    kernels = native_kernels.kernels_for_scan(dim, x) if x.ndim else None
    if kernels is not None:
        return kernels.scan_extremum("maximum" if largest else "minimum", dim, x)
    values = accumulate_extremum(np, np.maximum if largest else np.minimum, x, dim)
    here = x == values
    if is_floating(x.dtype):
        here |= x != x
    places = np.arange(x.shape[dim], dtype=np.int64).reshape((-1, *(1,) * (len(x.shape) - dim - 1)))
    return values, accumulate_extremum(np, np.maximum, np.where(here, places, 0), dim)


def _place_extremum(g0: Payload, out1: Payload, x_shape: tuple[int, ...], dim: int, ops: Vocabulary) -> tuple[Any]:
    return (ops.place_along(g0, out1, dim=dim, size=x_shape[dim]),)


cummax = op(
    "cummax", "x",
    lambda np, x, *, dim: _running_extremum(np, x, dim, True),
    settings={"dim": 0},
    vjp=_place_extremum,
    jvp=lambda x_t, out1, dim, ops: (ops.pick_along(x_t, out1, dim=dim), None),
    batch="dims",
    outputs=2,
    discrete_outputs=(1,),
    saved_names={"out1": "indices"}, kind="extreme",
    moves_values=True,
)  # fmt: skip

cummin = op(
    "cummin", "x",
    lambda np, x, *, dim: _running_extremum(np, x, dim, False),
    settings={"dim": 0},
    vjp=_place_extremum,
    jvp=lambda x_t, out1, dim, ops: (ops.pick_along(x_t, out1, dim=dim), None),
    batch="dims",
    outputs=2,
    discrete_outputs=(1,),
    saved_names={"out1": "indices"}, kind="extreme",
    moves_values=True,
)  # fmt: skip
