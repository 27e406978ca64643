"""Pooling: maxima and means over windows, and the ops of their derivatives.

A maximum is linear once the winning element is known. So max pooling returns the winners' positions, and its
derivatives read (`take_pooled`) and write (`max_unpool`) there. Averages are linear. In both cases the derivative is a
pair of ops that are transposes of each other, and a batch is more samples.

x (N, C, *S). Positions count within a plane, in row-major order. Settings are tuples with one entry per spatial axis.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from ndgrad._src.arrays import pooling as kernels
from ndgrad._src.arrays.taps import transposed
from ndgrad._src.ops.composite import composite
from ndgrad._src.ops.table import op

if TYPE_CHECKING:
    from ndgrad._typing import Library, Payload, Vocabulary

Shape = tuple[int, ...]
WINDOW = {"kernel": (), "stride": (), "padding": (), "dilation": (), "ceil_mode": False}
AVERAGE = {
    "kernel": (),
    "stride": (),
    "padding": (),
    "ceil_mode": False,
    "count_include_pad": True,
    "divisor_override": None,
}


def _fold(x: Payload, ops: Vocabulary) -> Payload:
    """Reshape (B, N, ...) to (B N, ...)."""
    return ops.reshape(x, shape=(x.shape[0] * x.shape[1], *x.shape[2:]))


def _unfold(x: Payload, like: Payload, ops: Vocabulary) -> Payload:
    return ops.reshape(x, shape=(*like.shape[:2], *x.shape[1:]))


# ----- reading and writing at positions ------------------------------------------------------------------------------


def _take_pooled(np: Library, x: Payload, index: Payload) -> Payload:
    if getattr(x, "is_meta", False):
        return type(x)(index.shape, x.dtype)
    return kernels.take_pooled(x, index)


def _max_unpool(np: Library, x: Payload, index: Payload, *, sizes: Shape, distinct: bool) -> Payload:
    shape = (*x.shape[:2], *sizes)
    if getattr(x, "is_meta", False):
        return type(x)(shape, x.dtype)
    return kernels.max_pool_grad(x, index, shape, distinct=distinct) if x.size else np.zeros(shape, x.dtype)


# The elements at `index` in each plane of x.
take_pooled = op(
    "take_pooled", "x index",
    _take_pooled,
    vjp={"x": lambda g, index, x_shape, ops: ops.max_unpool(g, index, sizes=x_shape[2:], distinct=False)},
    jvp={"x": lambda t, index, ops: ops.take_pooled(t, index)},
    batch=lambda x, index, ops: _unfold(ops.take_pooled(_fold(x, ops), _fold(index, ops)), x, ops),
    backward_name="MaxUnpoolBackward0",
    may_raise=True, movement="gather",
)  # fmt: skip

# Planes of zeros with the elements of x added at `index`. With `distinct`, no position occurs twice, or the last one
# may win.
max_unpool = op(
    "max_unpool", "x index",
    _max_unpool,
    settings={"sizes": (), "distinct": False},
    vjp={"x": lambda g, index, ops: ops.take_pooled(g, index)},
    jvp={"x": lambda t, index, sizes, distinct, ops: ops.max_unpool(t, index, sizes=sizes, distinct=distinct)},
    batch=lambda x, index, sizes, distinct, ops: _unfold(
        ops.max_unpool(_fold(x, ops), _fold(index, ops), sizes=sizes, distinct=distinct), x, ops
    ),
    may_raise=True, movement="scatter",
)  # fmt: skip


def positions(sizes: Shape, kernel: Shape, stride: Shape, padding: Shape, dilation: Shape, ceil_mode: bool) -> Shape:
    """Return the number of windows along each axis.

    In ceil mode the last window may extend beyond the input, if it begins before the padding at the end.
    """
    out = []
    for n, k, s, p, d in zip(sizes, kernel, stride, padding, dilation, strict=True):
        count = (n + 2 * p - d * (k - 1) - 1 + (s - 1 if ceil_mode else 0)) // s + 1
        out.append(count - 1 if ceil_mode and (count - 1) * s >= n + p else count)
    return tuple(out)


def _places(np: Library, x: Payload, sizes: Shape) -> tuple[Any, Any]:
    """Return arrays without data for maxima and positions."""
    shape = (*x.shape[:2], *sizes)
    return type(x)(shape, x.dtype), type(x)(shape, np.dtype(np.int64))


# ----- maxima --------------------------------------------------------------------------------------------------------


def _max_pool(
    np: Library, x: Payload, *, kernel: Shape, stride: Shape, padding: Shape, dilation: Shape, ceil_mode: bool
) -> tuple[Any, Any]:
    if getattr(x, "is_meta", False):
        return _places(np, x, positions(x.shape[2:], kernel, stride, padding, dilation, ceil_mode))
    return kernels.max_pool(x, kernel, stride, padding, dilation, ceil_mode)


def _max_pool_x(
    g0: Payload, out1: Payload, x_shape: Shape, kernel: Shape, stride: Shape, dilation: Shape, ops: Vocabulary
) -> Payload:
    apart = all(s >= d * (k - 1) + 1 for s, k, d in zip(stride, kernel, dilation, strict=True))
    return ops.max_unpool(g0, out1, sizes=x_shape[2:], distinct=apart)


def _max_pool_batch(
    x: Payload, kernel: Shape, stride: Shape, padding: Shape, dilation: Shape, ceil_mode: bool, ops: Vocabulary
) -> tuple[Any, Any]:
    values, index = ops.max_pool(
        _fold(x, ops), kernel=kernel, stride=stride, padding=padding, dilation=dilation, ceil_mode=ceil_mode
    )
    return _unfold(values, x, ops), _unfold(index, x, ops)


# The largest element of each window (the first of equal ones) and its position.
max_pool = op(
    "max_pool", "x",
    _max_pool,
    settings=WINDOW,
    vjp={"x": _max_pool_x},
    jvp={"x": lambda t, out1, ops: (ops.take_pooled(t, out1), None)},
    batch=_max_pool_batch,
    outputs=2,
    discrete_outputs=(1,),
    backward_name="MaxPool2DWithIndicesBackward0",
    kind="extreme",
    moves_values=True,
)  # fmt: skip


def _adaptive_max_pool(np: Library, x: Payload, *, sizes: Shape) -> tuple[Any, Any]:
    if getattr(x, "is_meta", False):
        return _places(np, x, sizes)
    return kernels.adaptive_max_pool(x, sizes)


def _adaptive_max_pool_batch(x: Payload, sizes: Shape, ops: Vocabulary) -> tuple[Any, Any]:
    values, index = ops.adaptive_max_pool(_fold(x, ops), sizes=sizes)
    return _unfold(values, x, ops), _unfold(index, x, ops)


adaptive_max_pool = op(
    "adaptive_max_pool", "x",
    _adaptive_max_pool,
    settings={"sizes": ()},
    vjp={"x": lambda g0, out1, x_shape, ops: ops.max_unpool(g0, out1, sizes=x_shape[2:], distinct=False)},
    jvp={"x": lambda t, out1, ops: (ops.take_pooled(t, out1), None)},
    batch=_adaptive_max_pool_batch,
    outputs=2,
    discrete_outputs=(1,),
    backward_name="AdaptiveMaxPool2DBackward0",
    kind="extreme",
    moves_values=True,
)  # fmt: skip


def _fractional_max_pool(
    np: Library, x: Payload, samples: Payload, *, kernel: Shape, sizes: Shape
) -> tuple[Any, Any]:
    if getattr(x, "is_meta", False):
        return _places(np, x, sizes)
    return kernels.fractional_max_pool(x, samples, kernel, sizes)


def _fractional_max_pool_batch(
    x: Payload, samples: Payload, kernel: Shape, sizes: Shape, ops: Vocabulary
) -> tuple[Any, Any]:
    values, index = ops.fractional_max_pool(_fold(x, ops), _fold(samples, ops), kernel=kernel, sizes=sizes)
    return _unfold(values, x, ops), _unfold(index, x, ops)


# The maxima of windows with random steps, which `samples` (N, C, axes) in [0, 1) determine.
fractional_max_pool = op(
    "fractional_max_pool", "x samples",
    _fractional_max_pool,
    settings={"kernel": (), "sizes": ()},
    vjp={"x": lambda g0, out1, x_shape, ops: ops.max_unpool(g0, out1, sizes=x_shape[2:], distinct=False)},
    jvp={"x": lambda t, out1, ops: (ops.take_pooled(t, out1), None)},
    batch=_fractional_max_pool_batch,
    outputs=2,
    discrete_outputs=(1,),
    backward_name="FractionalMaxPool2DBackward0",
    kind="extreme",
)  # fmt: skip


# ----- means ---------------------------------------------------------------------------------------------------------


def _avg_pool(np: Library, x: Payload, **how: Any) -> Payload:
    if getattr(x, "is_meta", False):
        dilation = (1,) * len(how["kernel"])
        sizes = positions(x.shape[2:], how["kernel"], how["stride"], how["padding"], dilation, how["ceil_mode"])
        return type(x)((*x.shape[:2], *sizes), x.dtype)
    return kernels.avg_pool(x, **how)


def _avg_pool_backward(np: Library, x: Payload, *, sizes: Shape, **how: Any) -> Payload:
    if getattr(x, "is_meta", False):
        return type(x)((*x.shape[:2], *sizes), x.dtype)
    return kernels.avg_pool_grad(x, (*x.shape[:2], *sizes), **how)


def _setup(
    kernel: Shape, stride: Shape, padding: Shape, ceil_mode: bool, count_include_pad: bool, divisor_override: int | None
) -> Any:
    return {
        "kernel": kernel, "stride": stride, "padding": padding, "ceil_mode": ceil_mode,
        "count_include_pad": count_include_pad, "divisor_override": divisor_override,
    }  # fmt: skip


# The mean of each window. The settings determine the divisor.
avg_pool = op(
    "avg_pool", "x",
    _avg_pool,
    settings=AVERAGE,
    vjp={
        "x": lambda g, x_shape, kernel, stride, padding, ceil_mode, count_include_pad, divisor_override, ops: (
            ops.avg_pool_backward(
                g, sizes=x_shape[2:], **_setup(kernel, stride, padding, ceil_mode, count_include_pad, divisor_override)
            )
        )
    },
    jvp="linear",
    batch=lambda x, kernel, stride, padding, ceil_mode, count_include_pad, divisor_override, ops: _unfold(
        ops.avg_pool(_fold(x, ops), **_setup(kernel, stride, padding, ceil_mode, count_include_pad, divisor_override)),
        x, ops
    ),
    backward_name="AvgPool2DBackward0", adds_values=True,
)  # fmt: skip

# The transpose of avg_pool: each element of x is spread evenly over its window.
avg_pool_backward = op(
    "avg_pool_backward", "x",
    _avg_pool_backward,
    settings={"sizes": (), **AVERAGE},
    vjp={
        "x": lambda g, kernel, stride, padding, ceil_mode, count_include_pad, divisor_override, ops: ops.avg_pool(
            g, **_setup(kernel, stride, padding, ceil_mode, count_include_pad, divisor_override)
        )
    },
    jvp="linear",
    batch=lambda x, sizes, kernel, stride, padding, ceil_mode, count_include_pad, divisor_override, ops: _unfold(
        ops.avg_pool_backward(
            _fold(x, ops), sizes=sizes,
            **_setup(kernel, stride, padding, ceil_mode, count_include_pad, divisor_override)
        ), x, ops
    ), movement="scatter",
)  # fmt: skip


def _spread_adaptive(g: Payload, x_shape: Shape, ops: Vocabulary) -> Payload:
    """Return the transpose of adaptive_avg_pool. Windows of one size are those of avg_pool."""
    sizes = x_shape[2:]
    if all(m and n % m == 0 for n, m in zip(sizes, g.shape[2:], strict=True)):
        kernel = tuple([n // m for n, m in zip(sizes, g.shape[2:], strict=True)])
        how = _setup(kernel, kernel, (0,) * len(kernel), False, True, None)
        return ops.avg_pool_backward(g, sizes=sizes, **how)
    taps = kernels.adaptive_taps((1, 1, *sizes), tuple(g.shape[2:]))
    return ops.resample(g, dim=tuple(range(2, len(x_shape))), taps=transposed(taps))


def _adaptive_body(x: Payload, sizes: Shape, ops: Vocabulary) -> Payload:
    taps = kernels.adaptive_taps((1, 1, *x.shape[2:]), tuple(sizes))
    return ops.resample(x, dim=tuple(range(2, len(x.shape))), taps=taps)


# The means of windows, as many as `sizes` gives.
adaptive_avg_pool = composite(
    "adaptive_avg_pool", "x",
    _adaptive_body,
    settings={"sizes": ()},
    vjp={"x": _spread_adaptive},
    jvp="linear",
    batch=lambda x, sizes, ops: _unfold(ops.adaptive_avg_pool(_fold(x, ops), sizes=sizes), x, ops),
    backward_name="AdaptiveAvgPool2DBackward0", adds_values=True,
)  # fmt: skip
