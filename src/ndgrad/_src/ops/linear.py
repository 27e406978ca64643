"""The affine map x W^T + b as one op, the most expensive op of most networks.

One op replaces a transpose, a product and a sum. So the bias is added in place, and each of the three gradients is a
single BLAS call or a single reduction over all rows, for any number of leading dimensions.
"""

from __future__ import annotations

from math import prod
from typing import TYPE_CHECKING

from ndgrad._src.arrays import native_kernels
from ndgrad._src.arrays.library import is_on_device
from ndgrad._src.ops.product import multiply_matrices
from ndgrad._src.ops.table import op

if TYPE_CHECKING:
    from ndgrad._typing import Library, Payload, Vocabulary


def _rows(x: Payload, ops: Vocabulary) -> Payload:
    """Merge all leading dimensions, so that a product with a matrix is one BLAS call."""
    shape = tuple(x.shape)
    return x if len(shape) == 2 else ops.reshape(x, shape=(prod(shape[:-1]), shape[-1]))


def _transpose(w: Payload, ops: Vocabulary) -> Payload:
    return ops.permute(w, dims=(1, 0))


def _forward(np: Library, x: Payload, w: Payload, b: Payload) -> Payload:
    lead = x.shape[:-1]
    rows = x if x.ndim == 2 else x.reshape(prod(lead), x.shape[-1])
    out = multiply_matrices(rows, w.T)
    if b is not None:
        if np.result_type(out, b) == out.dtype:
            out += b
        else:
            out = out + b
    return out if x.ndim == 2 else out.reshape(*lead, w.shape[0])


def _grad_x(g: Payload, w: Payload, x_ndim: int, ops: Vocabulary) -> Payload:
    if ops.raw and is_on_device(g):  # device products take rows in any number of dimensions
        return ops.matmul(g, ops.conj(w))
    gx = ops.matmul(_rows(g, ops), ops.conj(w))
    return gx if x_ndim == 2 else ops.reshape(gx, shape=(*g.shape[:-1], w.shape[1]))


def _grad_w(g: Payload, x: Payload, ops: Vocabulary) -> Payload:
    if ops.raw and is_on_device(g):
        found = native_kernels.summed_product(g, ops.conj(x))
        if found is not None:
            return found
    return ops.matmul(_transpose(_rows(g, ops), ops), ops.conj(_rows(x, ops)))


def _grad_b(g: Payload, ops: Vocabulary) -> Payload:
    """Return the sum over all rows, as a product with ones, which takes a third of the time of NumPy's sum."""
    kernels = native_kernels.row_kernels(g) if ops.raw and is_on_device(g) and g.ndim > 1 else None
    if kernels is not None:
        return kernels.column_sum(g)
    if ops.raw and g.ndim > 1 and g.dtype.char in "fdFD" and g.flags.c_contiguous:
        rows = _rows(g, ops)
        return ops.np.ones(len(rows), g.dtype) @ rows
    return ops.sum(g, dim=tuple(range(len(g.shape) - 1)), keepdim=False)


def _jvp(x: Payload, w: Payload, x_t: Payload, w_t: Payload, b_t: Payload, ops: Vocabulary) -> Payload:
    terms = []
    if x_t is not None:
        terms.append(ops.linear(x_t, w, None))
    if w_t is not None:
        terms.append(ops.linear(x, w_t, None))
    if b_t is not None:
        # Another term determines the shape. If there is none, the caller broadcasts this one.
        terms.append(b_t)
    total = terms[0]
    for term in terms[1:]:
        total = total + term
    return total


def _batch(x: Payload, w: Payload, b: Payload, batched: tuple[bool, bool, bool], ops: Vocabulary, size: int) -> Payload:
    """Compute one product for any combination of batches: batched inputs are more rows, batched weights more
    outputs.
    """
    bx, bw, bb = batched
    if not bw and not bb:
        return ops.linear(x, w, b)
    if not bw:
        out = ops.linear(x, w, None)
        out = out if bx else ops.reshape(out, shape=(1, *out.shape))
    elif not bx:
        outputs, inputs = w.shape[1:]
        out = ops.linear(x, ops.reshape(w, shape=(size * outputs, inputs)), None)
        out = ops.reshape(out, shape=(*x.shape[:-1], size, outputs))
        n = len(x.shape)
        out = ops.permute(out, dims=(n - 1, *range(n - 1), n))
    else:
        lead = tuple(x.shape[1:-1])
        rows = ops.reshape(x, shape=(size, prod(lead), x.shape[-1]))
        out = ops.matmul(rows, ops.permute(w, dims=(0, 2, 1)))
        out = ops.reshape(out, shape=(size, *lead, w.shape[1]))
    if b is not None:
        out = out + (ops.reshape(b, shape=(size, *(1,) * (len(out.shape) - 2), b.shape[-1])) if bb else b)
    return out


# x (..., inputs), w (outputs, inputs), b (outputs,) or None.
linear = op(
    "linear", "x w b",
    _forward,
    vjp={"x": _grad_x, "w": _grad_w, "b": _grad_b},
    jvp=_jvp,
    batch=_batch,
    optional="b",
    saved_names={"x": "input", "w": "weight"}, kind="product",
    one_dtype="x w b",
    halves_on_device=True, memory_order="C",
)  # fmt: skip
