"""Convolution and its two adjoints: three bilinear ops, each of which is the derivative of the others.

Write C(x, w) for the correlation of an input with a weight, I(g, w) for its adjoint in the input and W(g, x) for its
adjoint in the weight. All three come from the one trilinear form

    <g, C(x, w)> = <x, I(g, w)> = <w, W(g, x)>,

so the derivative of each in either argument is another of the three with an argument exchanged. The set is closed:
derivatives of any order stay within it. A transposed convolution is I. Over complex numbers the inner product
conjugates its left side, which conjugates the arguments that were not exchanged.

Shapes: x (N, C, *S), w (M, C / groups, *K), g (N, M, *O). Settings are tuples with one entry per spatial axis.

Note [Folding a batch into a convolution]. A batch of samples is more samples. A batch of weights alone is more outputs
(in C) or more inputs (in I). A batch of both arguments is more groups. So any batch of convolutions is one convolution.
Channels are ordered group first, so a batch dimension folded into the channels goes between the group and the rest.
"""

from __future__ import annotations

from functools import partial
from math import prod
from typing import TYPE_CHECKING, Any

from ndgrad._src.arrays import convolution as blocked
from ndgrad._src.arrays import native_kernels
from ndgrad._src.arrays.precision import is_half, run_in_single
from ndgrad._src.ops.patches import positions, reads
from ndgrad._src.ops.table import op

if TYPE_CHECKING:
    from ndgrad._typing import Library, Payload, Vocabulary

Shape = tuple[int, ...]
SETTINGS = {"stride": (), "padding": (), "dilation": (), "groups": 1}


# ----- forward: blocked kernels for NumPy, one product per tap for other libraries -----------------------------------


def _taps(x_shape: Shape, w_shape: Shape, stride: Shape, padding: Shape, dilation: Shape) -> Any:
    """Yield, for each tap of the kernel, its index and the slices of the padded input that it reads."""
    return reads(w_shape[2:], dilation, stride, positions(x_shape[2:], w_shape[2:], dilation, padding, stride))


def _pad(np: Library, x: Payload, padding: Shape) -> Payload:
    return np.pad(x, [(0, 0), (0, 0), *((p, p) for p in padding)]) if any(padding) else x


def _group(a: Any, axis: int, groups: int) -> Any:
    return a.reshape(*a.shape[:axis], groups, a.shape[axis] // groups, *a.shape[axis + 1 :])


def _flatten_space(a: Any) -> Any:
    """Merge all spatial axes into one."""
    return a.reshape(*a.shape[:3], prod(a.shape[3:]))


def _convolution(
    np: Library, x: Payload, w: Payload, b: Payload, *, stride: Shape, padding: Shape, dilation: Shape, groups: int
) -> Payload:
    out: Any = 0
    if getattr(x, "is_meta", False):
        sizes = positions(x.shape[2:], w.shape[2:], dilation, padding, stride)
        return type(x)((x.shape[0], w.shape[0], *sizes), np.result_type(x.dtype, w.dtype))
    kernels = native_kernels.window_kernels(x, w)
    if np.__name__ == "numpy":
        out = blocked.conv(x, w, stride, padding, dilation, groups)
    elif kernels is not None:
        out = kernels.conv(x, w, stride, padding, dilation, groups)
    elif is_half(x.dtype):
        how = {"stride": stride, "padding": padding, "dilation": dilation, "groups": groups}
        return run_in_single(partial(_convolution, np), (x, w, b), how)
    else:
        xp, w_grouped = _pad(np, x, padding), _group(w, 0, groups)
        for tap, inputs in _taps(x.shape, w.shape, stride, padding, dilation):
            out = out + np.einsum("ngc...,gmc->ngm...", _group(xp[(..., *inputs)], 1, groups), w_grouped[(..., *tap)])
        out = out.reshape(x.shape[0], w.shape[0], *out.shape[3:])
    if b is None or (kernels is not None and native_kernels.add_along(out, b, 1)):
        return out
    b = b.reshape(-1, *(1,) * (x.ndim - 2))
    if np.result_type(out, b) == out.dtype:
        out += b
        return out
    return out + b


def _convolution_input(
    np: Library, y: Payload, w: Payload, *, x_shape: Shape, stride: Shape, padding: Shape, dilation: Shape, groups: int
) -> Payload:
    if getattr(y, "is_meta", False):
        return type(y)(x_shape, np.result_type(y.dtype, w.dtype))
    if np.__name__ == "numpy":
        return blocked.conv_input_grad(y, w, x_shape, stride, padding, dilation, groups)
    kernels = native_kernels.window_kernels(y, w)
    if kernels is not None:
        return kernels.conv_input_grad(y, w, x_shape, stride, padding, dilation, groups)
    if is_half(y.dtype):
        how = {"x_shape": x_shape, "stride": stride, "padding": padding, "dilation": dilation, "groups": groups}
        return run_in_single(partial(_convolution_input, np), (y, w), how)
    sizes = tuple(s + 2 * p for s, p in zip(x_shape[2:], padding, strict=True))
    grad = np.zeros((*x_shape[:2], *sizes), np.result_type(y, w))
    y_grouped, w_grouped, grad_grouped = _group(y, 1, groups), _group(w, 0, groups), _group(grad, 1, groups)
    for tap, inputs in _taps(x_shape, w.shape, stride, padding, dilation):
        grad_grouped[(..., *inputs)] += np.einsum("ngm...,gmc->ngc...", y_grouped, w_grouped[(..., *tap)])
    return np.ascontiguousarray(grad[(..., *(slice(p, p + s) for p, s in zip(padding, x_shape[2:], strict=True)))])


def _convolution_weight(
    np: Library, y: Payload, x: Payload, *, w_shape: Shape, stride: Shape, padding: Shape, dilation: Shape, groups: int
) -> Payload:
    if getattr(y, "is_meta", False):
        return type(y)(w_shape, np.result_type(y.dtype, x.dtype))
    if np.__name__ == "numpy":
        return blocked.conv_weight_grad(y, x, w_shape, stride, padding, dilation, groups)
    kernels = native_kernels.window_kernels(y, x)
    if kernels is not None:
        return kernels.conv_weight_grad(y, x, w_shape, stride, padding, dilation, groups)
    if is_half(y.dtype):
        how = {"w_shape": w_shape, "stride": stride, "padding": padding, "dilation": dilation, "groups": groups}
        return run_in_single(partial(_convolution_weight, np), (y, x), how)
    grad = np.empty(w_shape, np.result_type(y, x))
    xp, y_grouped, grad_grouped = _pad(np, x, padding), _group(y, 1, groups), _group(grad, 0, groups)
    for tap, inputs in _taps(x.shape, w_shape, stride, padding, dilation):
        read = _group(xp[(..., *inputs)], 1, groups)
        grad_grouped[(..., *tap)] = np.einsum("ngmo,ngco->gmc", _flatten_space(y_grouped), _flatten_space(read))
    return grad


# ----- batching: see Note [Folding a batch into a convolution] -------------------------------------------------------


def _fold_samples(x: Payload, ops: Vocabulary) -> Payload:
    return ops.reshape(x, shape=(x.shape[0] * x.shape[1], *x.shape[2:]))


def _unfold_samples(x: Payload, size: int, ops: Vocabulary) -> Payload:
    return ops.reshape(x, shape=(size, x.shape[0] // size, *x.shape[1:]))


def _fold_channels(x: Payload, axis: int, groups: int, ops: Vocabulary) -> Payload:
    """Reshape (B, ..., groups * C, ...) to (..., groups * B * C, ...). `axis` does not count the batch."""
    shape = tuple(x.shape)
    each = shape[axis + 1] // groups
    split = ops.reshape(x, shape=(*shape[: axis + 1], groups, each, *shape[axis + 2 :]))
    n = len(shape) + 1
    split = ops.permute(split, dims=(*range(1, axis + 2), 0, *range(axis + 2, n)))
    return ops.reshape(split, shape=(*shape[1 : axis + 1], shape[0] * shape[axis + 1], *shape[axis + 2 :]))


def _unfold_channels(x: Payload, axis: int, groups: int, size: int, ops: Vocabulary) -> Payload:
    """Invert `_fold_channels`."""
    shape = tuple(x.shape)
    each = shape[axis] // (groups * size)
    split = ops.reshape(x, shape=(*shape[:axis], groups, size, each, *shape[axis + 1 :]))
    n = len(shape) + 2
    split = ops.permute(split, dims=(axis + 1, *range(axis + 1), *range(axis + 2, n)))
    return ops.reshape(split, shape=(size, *shape[:axis], groups * each, *shape[axis + 1 :]))


def _convolution_batch(
    x: Payload,
    w: Payload,
    b: Payload,
    stride: Shape,
    padding: Shape,
    dilation: Shape,
    groups: int,
    batched: tuple[bool, ...],
    ops: Vocabulary,
    size: int,
) -> Payload:
    bx, bw, bb = batched
    how = {"stride": stride, "padding": padding, "dilation": dilation}
    if bx and bw:
        folded = ops.convolution(_fold_channels(x, 1, 1, ops), _fold_samples(w, ops), None, groups=size * groups, **how)
        out = _unfold_channels(folded, 1, 1, size, ops)
    elif bx:
        if not bb:
            return _unfold_samples(ops.convolution(_fold_samples(x, ops), w, b, groups=groups, **how), size, ops)
        out = _unfold_samples(ops.convolution(_fold_samples(x, ops), w, None, groups=groups, **how), size, ops)
    elif bw:
        out = _unfold_channels(
            ops.convolution(x, _fold_channels(w, 0, groups, ops), None, groups=groups, **how), 1, groups, size, ops
        )
    else:
        out = ops.convolution(x, w, None, groups=groups, **how)
        out = ops.reshape(out, shape=(1, *out.shape))
    if b is not None:
        out = out + ops.reshape(b, shape=(*b.shape[:-1], 1, b.shape[-1], *(1,) * len(stride)))
    return out


def _input_batch(
    y: Payload,
    w: Payload,
    x_shape: Shape,
    stride: Shape,
    padding: Shape,
    dilation: Shape,
    groups: int,
    batched: tuple[bool, ...],
    ops: Vocabulary,
    size: int,
) -> Payload:
    how = {"stride": stride, "padding": padding, "dilation": dilation}
    n, channels, *spatial = x_shape
    wide = (n, size * channels, *spatial)
    if batched == (True, True):
        out = ops.convolution_input(
            _fold_channels(y, 1, 1, ops), _fold_samples(w, ops), x_shape=wide, groups=size * groups, **how
        )
        return _unfold_channels(out, 1, 1, size, ops)
    if batched[0]:
        long = (size * n, channels, *spatial)
        return _unfold_samples(
            ops.convolution_input(_fold_samples(y, ops), w, x_shape=long, groups=groups, **how), size, ops
        )
    out = ops.convolution_input(y, _fold_channels(w, 1, 1, ops), x_shape=wide, groups=groups, **how)
    return _unfold_channels(out, 1, groups, size, ops)


def _weight_batch(
    y: Payload,
    x: Payload,
    w_shape: Shape,
    stride: Shape,
    padding: Shape,
    dilation: Shape,
    groups: int,
    batched: tuple[bool, ...],
    ops: Vocabulary,
    size: int,
) -> Payload:
    how = {"stride": stride, "padding": padding, "dilation": dilation}
    outputs, inputs, *kernel = w_shape
    if batched == (True, True):
        shape = (size * outputs, inputs, *kernel)
        out = ops.convolution_weight(
            _fold_channels(y, 1, 1, ops), _fold_channels(x, 1, 1, ops), w_shape=shape, groups=size * groups, **how
        )
        return _unfold_samples(out, size, ops)
    if batched[0]:
        shape = (size * outputs, inputs, *kernel)
        out = ops.convolution_weight(_fold_channels(y, 1, groups, ops), x, w_shape=shape, groups=groups, **how)
        return _unfold_channels(out, 0, groups, size, ops)
    shape = (outputs, size * inputs, *kernel)
    out = ops.convolution_weight(y, _fold_channels(x, 1, groups, ops), w_shape=shape, groups=groups, **how)
    return _unfold_channels(out, 1, 1, size, ops)


# ----- the table -----------------------------------------------------------------------------------------------------


def _convolution_jvp(
    x: Payload,
    w: Payload,
    x_t: Payload,
    w_t: Payload,
    b_t: Payload,
    stride: Shape,
    padding: Shape,
    dilation: Shape,
    groups: int,
    ops: Vocabulary,
) -> Payload:
    how = {"stride": stride, "padding": padding, "dilation": dilation, "groups": groups}
    if x_t is None and w_t is None:
        return ops.reshape(b_t, shape=(-1, *(1,) * len(stride)))
    if x_t is None:
        return ops.convolution(x, w_t, b_t, **how)
    out = ops.convolution(x_t, w, b_t, **how)
    return out if w_t is None else out + ops.convolution(x, w_t, None, **how)


# C(x, w) + b with b of shape (M,) or None.
convolution = op(
    "convolution", "x w b",
    _convolution,
    settings=SETTINGS,
    vjp={
        "x": lambda g, w, x_shape, stride, padding, dilation, groups, ops: ops.convolution_input(
            g, ops.conj(w), x_shape=x_shape, stride=stride, padding=padding, dilation=dilation, groups=groups
        ),
        "w": lambda g, x, w_shape, stride, padding, dilation, groups, ops: ops.convolution_weight(
            g, ops.conj(x), w_shape=w_shape, stride=stride, padding=padding, dilation=dilation, groups=groups
        ),
        "b": lambda g, ops: ops.sum(g, dim=(0, *range(2, len(g.shape))), keepdim=False),
    },
    jvp=_convolution_jvp,
    batch=_convolution_batch,
    optional="b",
    saved_names={"x": "input", "w": "weight"},
    one_dtype="x w b",
    halves_on_device=True,
)  # fmt: skip

# I(y, w), where y has the shape of an output.
convolution_input = op(
    "convolution_input", "y w",
    _convolution_input,
    settings={"x_shape": (), **SETTINGS},
    vjp={
        "y": lambda g, w, stride, padding, dilation, groups, ops: ops.convolution(
            g, ops.conj(w), None, stride=stride, padding=padding, dilation=dilation, groups=groups
        ),
        "w": lambda g, y, w_shape, stride, padding, dilation, groups, ops: ops.convolution_weight(
            ops.conj(y), g, w_shape=w_shape, stride=stride, padding=padding, dilation=dilation, groups=groups
        ),
    },
    jvp="multilinear",
    batch=_input_batch,
    backward_name="ConvolutionBackward0",
    halves_on_device=True,
)  # fmt: skip

# W(y, x)
convolution_weight = op(
    "convolution_weight", "y x",
    _convolution_weight,
    settings={"w_shape": (), **SETTINGS},
    vjp={
        "y": lambda g, x, stride, padding, dilation, groups, ops: ops.convolution(
            ops.conj(x), g, None, stride=stride, padding=padding, dilation=dilation, groups=groups
        ),
        "x": lambda g, y, x_shape, stride, padding, dilation, groups, ops: ops.convolution_input(
            ops.conj(y), g, x_shape=x_shape, stride=stride, padding=padding, dilation=dilation, groups=groups
        ),
    },
    jvp="multilinear",
    batch=_weight_batch,
    backward_name="ConvolutionBackwardBackward0",
    halves_on_device=True,
)  # fmt: skip
