"""ONNX writers of products, convolutions, pooling, normalisation and attention."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

import numpy as np

from ndgrad._src.arrays.pooling import adaptive_taps
from ndgrad._src.arrays.taps import Taps
from ndgrad._src.compiler.program.program import Instruction, Value
from ndgrad.onnx.arrays import write_reduction
from ndgrad.onnx.graph import Graph, OnnxExporterError
from ndgrad.onnx.writers import writes

# ----- products -------------------------------------------------------------------------------------------------------


def _transpose_matrices(g: Graph, x: str, ndim: int) -> str:
    """Write the transposes of a stack of matrices."""
    made: str = g.node("Transpose", x, perm=[*range(ndim - 2), ndim - 1, ndim - 2])
    return made


@writes("matmul")
def _matmul(g: Graph, i: Instruction) -> str:
    made: str = g.node("MatMul", *(g.argument(a, i.result.dtype) for a in i.arguments))
    return made


@writes("linear")
def _linear(g: Graph, i: Instruction) -> str:
    x, w, b = (*i.arguments, None)[:3]
    dtype = i.result.dtype
    weight = g.argument(w, dtype)
    made: str = g.node("MatMul", g.argument(x, dtype), _transpose_matrices(g, weight, 2) if w.ndim == 2 else weight)
    return made if b is None else g.node("Add", made, g.argument(b, dtype))


@writes("addmm", "baddbmm", "addmv")
def _addmm(g: Graph, i: Instruction) -> str:
    x, a, b = (g.argument(v, i.result.dtype) for v in i.arguments)
    beta, alpha = i.settings["beta"], i.settings["alpha"]
    product = g.node("MatMul", a, b)
    product = product if alpha == 1 else g.node("Mul", product, g.constant(np.asarray(alpha), i.result.dtype))
    if beta == 0:
        return str(product)
    x = x if beta == 1 else g.node("Mul", x, g.constant(np.asarray(beta), i.result.dtype))
    made: str = g.node("Add", x, product)
    return made


@writes("contract")
def _contract(g: Graph, i: Instruction) -> str:
    made: str = g.node(
        "Einsum", *(g.argument(a, i.result.dtype) for a in i.arguments), equation=i.settings["subscripts"]
    )
    return made


# ----- convolutions and pooling ---------------------------------------------------------------------------------------


@writes("convolution")
def _convolution(g: Graph, i: Instruction) -> str:
    given = [g.argument(a, i.result.dtype) for a in i.arguments if a is not None]
    made: str = g.node("Conv", *given, **_window(g, i), group=i.settings["groups"])
    return made


@writes("convolution_input")
def _transposed_convolution(g: Graph, i: Instruction) -> str:
    """Write the adjoint of a convolution as ONNX's transposed one; the size of its result determines the padding at the
    end.
    """
    y, w = i.arguments
    s = i.settings
    x_shape = [int(n) for n in g.require_fixed(g.shape(i.result)[2:], "the size of a transposed convolution")]
    added = [
        n - ((m - 1) * step - 2 * pad + gap * (k - 1) + 1)
        for n, m, k, step, pad, gap in zip(x_shape, y.shape[2:], w.shape[2:], s["stride"], s["padding"], s["dilation"])
    ]
    given = [g.argument(a, i.result.dtype) for a in (y, w)]
    made: str = g.node("ConvTranspose", *given, **_window(g, i), group=s["groups"], output_padding=added)
    return made


def _window(g: Graph, i: Instruction) -> dict[str, Any]:
    s = i.settings
    found = {
        "strides": g.require_fixed(s["stride"], "a stride"),
        "pads": g.require_fixed([*s["padding"], *s["padding"]], "a padding"),
    }
    if "dilation" in s:
        found["dilations"] = g.require_fixed(s["dilation"], "a dilation")
    if "kernel" in s:
        found["kernel_shape"] = g.require_fixed(s["kernel"], "the size of a window")
    return found


@writes("max_pool")
def _max_pool(g: Graph, i: Instruction) -> Any:
    """Write max pooling without its indices, which ONNX counts in another way."""
    return g.node("MaxPool", g.names[i.arguments[0]], **_window(g, i), ceil_mode=int(i.settings["ceil_mode"])), ""


@writes("avg_pool")
def _avg_pool(g: Graph, i: Instruction) -> str:
    s = i.settings
    if s["divisor_override"] is not None or s["ceil_mode"]:
        raise OnnxExporterError(
            "ndgrad.onnx.export: average pooling with divisor_override or ceil_mode is not written. [nd-onnx]"
        )
    made: str = g.node(
        "AveragePool", g.names[i.arguments[0]], **_window(g, i), count_include_pad=int(s["count_include_pad"])
    )
    return made


@writes("adaptive_avg_pool", "adaptive_max_pool")
def _adaptive(g: Graph, i: Instruction) -> Any:
    value, sizes = i.arguments[0], i.settings["sizes"]
    spatial = [int(n) for n in g.require_fixed(g.shape(value)[-len(sizes) :], "the size of an adaptive pooling")]
    is_mean = i.op.name == "adaptive_avg_pool"
    if any(n % m for n, m in zip(spatial, sizes)):
        if is_mean:
            dims = range(value.ndim - len(sizes), value.ndim)
            return _write_taps(g, i, dims, adaptive_taps((1, 1, *spatial), tuple(sizes)))
        raise OnnxExporterError(
            f"ndgrad.onnx.export: adaptive max pooling of {spatial} to {list(sizes)} has windows of different sizes, "
            "which ONNX has not. Choose sizes that divide the input's. [nd-onnx]"
        )
    window = [n // m for n, m in zip(spatial, sizes)]
    made = g.node("AveragePool" if is_mean else "MaxPool", g.names[value], kernel_shape=window, strides=window)
    return made if is_mean else (made, "")


# ----- normalisation and attention ------------------------------------------------------------------------------------


@writes("softmax", "log_softmax")
def _softmax(g: Graph, i: Instruction) -> str:
    kind = "Softmax" if i.op.name == "softmax" else "LogSoftmax"
    made: str = g.node(kind, g.argument(i.arguments[0], i.result.dtype), axis=i.settings["dim"])
    return made


@writes("native_layer_norm", "native_batch_norm", "rms_norm")
def _write_norm(g: Graph, i: Instruction) -> Any:
    value, *factors = i.arguments
    dtype, dims = i.results[0].dtype, [int(d) for d in i.settings["dim"]]
    x = g.argument(value, dtype)
    if i.op.name != "rms_norm":
        x = g.node("Sub", x, write_reduction(g, "ReduceMean", x, dims, True))
    spread = write_reduction(g, "ReduceMean", g.node("Mul", x, x), dims, True)
    made = g.node("Div", x, g.node("Sqrt", g.node("Add", spread, g.constant(np.asarray(i.settings["eps"]), dtype))))
    for kind, factor in zip(("Mul", "Add"), factors, strict=False):
        if factor is not None:
            made = g.node(kind, made, g.argument(factor, dtype))
    return (made, *[""] * (len(i.results) - 1)) if len(i.results) > 1 else made


@writes("attention", "attention_weights")
def _attention(g: Graph, i: Instruction) -> str:
    dtype = i.result.dtype
    mask = i.arguments[-1]
    q, k = i.arguments[0], i.arguments[1]
    key = _transpose_matrices(g, g.argument(k, dtype), k.ndim)
    scores = g.node("MatMul", g.argument(q, dtype), key)
    scores = g.node("Mul", scores, g.constant(np.asarray(i.settings["scale"]), dtype))
    low = g.constant(np.asarray(-math.inf), dtype)
    if i.settings["is_causal"]:
        ones = g.node("Expand", g.constant(np.asarray(1.0, np.float32)), g.numbers([g.shape(q)[-2], g.shape(k)[-2]]))
        scores = g.node("Where", g.cast(g.node("Trilu", ones, upper=0), np.bool_), scores, low)
    if isinstance(mask, Value) and mask.dtype == bool:
        scores = g.node("Where", g.names[mask], scores, low)
    elif mask is not None:
        scores = g.node("Add", scores, g.argument(mask, dtype))
    made: str = g.node("Softmax", scores, axis=-1)
    return made if i.op.name == "attention_weights" else g.node("MatMul", made, g.argument(i.arguments[2], dtype))


@writes("native_dropout")
def _dropout(g: Graph, i: Instruction) -> str:
    raise OnnxExporterError(
        "ndgrad.onnx.export: dropout draws random numbers. Put the module into eval mode. [nd-onnx]"
    )


@writes("resample")
def _resample(g: Graph, i: Instruction) -> str:
    dims = i.settings["dim"]
    for dim in dims:
        g.require_fixed(g.shape(i.arguments[0])[dim], "the size of an interpolation")
    return _write_taps(g, i, dims, i.settings["taps"])


def _write_taps(g: Graph, i: Instruction, dims: Sequence[int], taps: Sequence[Taps]) -> str:
    """Write a weighted sum along some dimensions as products with matrices of few entries."""
    value = i.arguments[0]
    made: str = g.names[value]
    for dim, along in zip(dims, taps, strict=True):
        order = [d for d in range(value.ndim) if d != dim] + [dim]
        product = g.node("MatMul", g.node("Transpose", made, perm=order), g.constant(along.matrix, i.result.dtype))
        made = g.node("Transpose", product, perm=np.argsort(order).tolist())
    return made
