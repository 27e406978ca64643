"""ONNX writers of reductions, shapes, indexing and joins."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from ndgrad._src.compiler.program.program import Instruction, Value
from ndgrad.onnx.graph import END, Graph, OnnxExporterError
from ndgrad.onnx.sizes import Varying
from ndgrad.onnx.writers import writes

# ----- reductions -----------------------------------------------------------------------------------------------------


def write_reduction(g: Graph, kind: str, x: str, dims: Sequence[int], keepdim: bool) -> str:
    made: str = g.node(kind, x, g.numbers(dims), keepdims=int(keepdim))
    return made


@writes("sum", "mean", "prod", "amax", "amin", "any", "all", "logsumexp")
@writes("sum_all", "mean_all", "prod_all", "max_all", "min_all")
def _reduction(g: Graph, i: Instruction) -> str:
    value, dtype = i.arguments[0], i.result.dtype
    dims, keepdim = _dims(i, value), i.settings.get("keepdim", False)
    if dtype.kind == "b":  # ONNX reduces only numbers
        x = g.cast(g.argument(value, np.dtype(bool)), np.uint8)
        return g.cast(write_reduction(g, f"Reduce{i.op.joins_pieces_by.title()}", x, dims, keepdim), dtype)
    x = g.argument(value, dtype)
    if not dims and "dim" in i.settings and value.ndim == 0:
        return x
    kind = "LogSumExp" if i.op.reduces == "logsumexp" else i.op.reduces.title()
    return write_reduction(g, f"Reduce{kind}", x, dims, keepdim)


def _dims(i: Instruction, value: Value) -> list[int]:
    given = i.settings.get("dim")
    dims = range(value.ndim) if given is None else [given] if isinstance(given, int) else given
    return [int(d) % max(value.ndim, 1) for d in dims]


@writes("var", "std", "var_mean", "std_mean")
def _variance(g: Graph, i: Instruction) -> Any:
    value, dtype = i.arguments[0], i.results[0].dtype
    dims, keepdim, correction = _dims(i, value), i.settings["keepdim"], i.settings["correction"]
    x = g.argument(value, dtype)
    middle = write_reduction(g, "ReduceMean", x, dims, True)
    off = g.node("Sub", x, middle)
    total = write_reduction(g, "ReduceSum", g.node("Mul", off, off), dims, keepdim)
    sizes = g.numbers([g.shape(value)[d] for d in dims])
    count = g.node("Squeeze", write_reduction(g, "ReduceProd", sizes, [0], True)) if dims else g.constant(np.asarray(1))
    degrees = g.node("Sub", g.cast(count, dtype), g.constant(np.asarray(correction), dtype))
    spread = g.node("Div", total, degrees)
    spread = g.node("Sqrt", spread) if i.op.name.startswith("std") else spread
    if len(i.results) == 1:
        return spread
    return spread, middle if keepdim else g.node("Squeeze", middle, g.numbers(dims))


@writes("vector_norm")
def _norm(g: Graph, i: Instruction) -> str:
    value, dtype = i.arguments[0], i.result.dtype
    kinds = {1.0: "ReduceL1", 2.0: "ReduceL2", float("inf"): "ReduceMax"}
    ord_, dims, keepdim = float(i.settings["ord"]), _dims(i, value), i.settings["keepdim"]
    x = g.argument(value, dtype)
    if ord_ in kinds:
        return write_reduction(g, kinds[ord_], g.node("Abs", x) if ord_ == float("inf") else x, dims, keepdim)
    powers = g.node("Pow", g.node("Abs", x), g.constant(np.asarray(ord_), dtype))
    total = write_reduction(g, "ReduceSum", powers, dims, keepdim)
    made: str = g.node("Pow", total, g.constant(np.asarray(1 / ord_), dtype))
    return made


@writes("argmax", "argmin")
def _argument_of(g: Graph, i: Instruction) -> str:
    kind = "ArgMax" if i.op.name == "argmax" else "ArgMin"
    made: str = g.node(kind, g.names[i.arguments[0]], axis=i.settings["dim"], keepdims=int(i.settings["keepdim"]))
    return made


@writes("max_at", "min_at", "pick_along")
def _write_pick(g: Graph, i: Instruction) -> str:
    """Write a read of the elements along a dimension at the indices of argmax."""
    value, index = i.arguments
    dim, keepdim = i.settings["dim"], i.settings.get("keepdim", True)
    places = g.names[index]
    if index.ndim < value.ndim:
        places = g.node("Unsqueeze", places, g.numbers([dim]))
    made: str = g.node("GatherElements", g.names[value], places, axis=dim)
    return made if keepdim and i.result.ndim == value.ndim else g.node("Squeeze", made, g.numbers([dim]))


@writes("cumsum")
def _cumsum(g: Graph, i: Instruction) -> str:
    x = g.argument(i.arguments[0], i.result.dtype)
    made: str = g.node(
        "CumSum", x, g.constant(np.asarray(i.settings["dim"], np.int64)), reverse=int(i.settings["reverse"])
    )
    return made


@writes("topk", "sort")
def _top(g: Graph, i: Instruction) -> Any:
    value, dim = i.arguments[0], i.settings["dim"]
    largest = i.settings["descending"] if i.op.name == "sort" else i.settings["largest"]
    count = g.shape(value)[dim] if i.op.name == "sort" else i.settings["k"]
    return g.node("TopK", g.names[value], g.numbers([count]), outputs=2, axis=dim, largest=int(largest), sorted=1)


@writes("argsort")
def _order(g: Graph, i: Instruction) -> Any:
    value, dim = i.arguments[0], i.settings["dim"]
    count = g.numbers([g.shape(value)[dim]])
    return g.node("TopK", g.names[value], count, outputs=2, axis=dim, largest=int(i.settings["descending"]), sorted=1)[
        1
    ]


# ----- shapes ---------------------------------------------------------------------------------------------------------


@writes("reshape", "unsafe_view", "squeeze", "squeeze_dim", "squeeze_dims", "unsqueeze")
def _reshape(g: Graph, i: Instruction) -> str:
    made: str = g.node("Reshape", g.names[i.arguments[0]], g.numbers(g.shape(i.result)), allowzero=1)
    return made


@writes("expand")
def _expand(g: Graph, i: Instruction) -> str:
    made: str = g.node("Expand", g.names[i.arguments[0]], g.numbers(g.shape(i.result)))
    return made


@writes("repeat")
def _repeat(g: Graph, i: Instruction) -> str:
    value, repeats = i.arguments[0], i.settings["repeats"]
    x = g.names[value]
    if len(repeats) > value.ndim:
        x = g.node("Unsqueeze", x, g.numbers(range(len(repeats) - value.ndim)))
    made: str = g.node("Tile", x, g.numbers(repeats))
    return made


@writes("permute")
def _permute(g: Graph, i: Instruction) -> str:
    made: str = g.node("Transpose", g.names[i.arguments[0]], perm=[int(d) for d in i.settings["dims"]])
    return made


@writes("transpose", "t")
def _transpose(g: Graph, i: Instruction) -> str:
    value = i.arguments[0]
    order = [*range(value.ndim)]
    a, b = (i.settings["dim0"], i.settings["dim1"]) if i.op.name == "transpose" else (0, value.ndim - 1)
    order[a], order[b] = order[b], order[a]
    made: str = g.node("Transpose", g.names[value], perm=order)
    return made


@writes("flip")
def _flip(g: Graph, i: Instruction) -> str:
    dims = [int(d) for d in i.settings["dims"]]
    return write_slice(g, g.names[i.arguments[0]], dims, [-1] * len(dims), [-END] * len(dims), [-1] * len(dims))


# ----- parts ----------------------------------------------------------------------------------------------------------


def write_slice(
    g: Graph, x: str, dims: Sequence[int], starts: Sequence[int], stops: Sequence[int], steps: Sequence[int]
) -> str:
    if not dims:
        return x
    made: str = g.node("Slice", x, g.numbers(starts), g.numbers(stops), g.numbers(dims), g.numbers(steps))
    return made


@writes("slice")
def _slice(g: Graph, i: Instruction) -> str:
    s = i.settings
    return write_slice(g, g.names[i.arguments[0]], [s["dim"]], [s["start"]], [s["stop"]], [s["step"]])


@writes("select")
def _select(g: Graph, i: Instruction) -> str:
    x, index = g.names[i.arguments[0]], i.settings["index"]
    place = g.node("Squeeze", g.numbers([index])) if isinstance(index, Varying) else g.constant(np.asarray(int(index)))
    made: str = g.node("Gather", x, place, axis=i.settings["dim"])
    return made


@writes("getitem", "element")
def _getitem(g: Graph, i: Instruction) -> str:
    """Write basic indexing: slices, integers, None and an ellipsis."""
    value, index = i.arguments[0], i.settings["index"]
    index = index if isinstance(index, tuple) else (index,)
    used = sum(1 for k in index if k is not None and k is not Ellipsis)
    full: list[Any] = []
    for k in index:
        full.extend([slice(None)] * (value.ndim - used) if k is Ellipsis else [k])
    dims, starts, stops, steps, dropped, dim = [], [], [], [], [], 0
    for k in full:
        if k is None:
            continue
        if isinstance(k, slice):
            step = 1 if k.step is None else k.step
            if k != slice(None):
                dims.append(dim)
                starts.append(k.start if k.start is not None else 0 if step > 0 else -1)
                stops.append(k.stop if k.stop is not None else END if step > 0 else -END)
                steps.append(step)
        else:
            dims.append(dim)
            starts.append(k)
            after = Varying(k + 1, k.constant + 1, k.factors) if isinstance(k, Varying) else k + 1
            stops.append(END if k == -1 else after)
            steps.append(1)
            dropped.append(dim)
        dim += 1
    x = write_slice(g, g.names[value], dims, starts, stops, steps)
    if None in full or dropped:
        x = g.node("Reshape", x, g.numbers(g.shape(i.result)), allowzero=1)
    return x


@writes("slice_scatter")
def _slice_scatter(g: Graph, i: Instruction) -> str:
    """Write a scatter into a part: the elements of the part, by their indices in the whole."""
    x, y = i.arguments
    shape = g.require_fixed(g.shape(x), "the shape of an array of which a part is written")
    places = np.arange(x.size).reshape(shape)[i.settings["index"]].reshape(-1)
    flat = g.node("Reshape", g.argument(x, i.result.dtype), g.numbers([-1]))
    part = g.node("Expand", g.argument(y, i.result.dtype), g.numbers(np.empty(shape)[i.settings["index"]].shape))
    made = g.node(
        "ScatterElements", flat, g.constant(places, np.int64), g.node("Reshape", part, g.numbers([-1])), axis=0
    )
    whole: str = g.node("Reshape", made, g.numbers(shape), allowzero=1)
    return whole


@writes("split", "split_with_sizes")
def _split(g: Graph, i: Instruction) -> Any:
    dim = i.settings["dim"]
    sizes = g.numbers([g.shape(r)[dim] for r in i.results])
    return g.node("Split", g.names[i.arguments[0]], sizes, outputs=len(i.results), axis=dim)


@writes("unbind")
def _unbind(g: Graph, i: Instruction) -> Any:
    x, dim = g.names[i.arguments[0]], i.settings["dim"]
    return [g.node("Gather", x, g.constant(np.asarray(k)), axis=dim) for k in range(len(i.results))]


@writes("index_select", "embedding", "rows")
def _write_gather(g: Graph, i: Instruction) -> str:
    value, index = i.arguments
    made: str = g.node("Gather", g.names[value], g.argument(index, np.dtype(np.int64)), axis=i.settings.get("dim", 0))
    return made


@writes("gather")
def _gather(g: Graph, i: Instruction) -> str:
    value, index = i.arguments
    if any(n > m for d, (n, m) in enumerate(zip(index.shape, value.shape)) if d != i.settings["dim"]):
        raise OnnxExporterError(
            "ndgrad.onnx.export: gather with an index that is larger than its input is not written. [nd-onnx]"
        )
    made: str = g.node("GatherElements", g.names[value], g.argument(index, np.dtype(np.int64)), axis=i.settings["dim"])
    return made


@writes("index")
def _index(g: Graph, i: Instruction) -> str:
    """Write advanced indexing by one array of integers."""
    value, *indices = i.arguments
    given = [(d, k) for d, k in enumerate(indices) if k is not None]
    if len(given) != 1 or given[0][1].dtype.kind not in "iu":
        raise OnnxExporterError(
            "ndgrad.onnx.export: an index with several arrays, or with a mask, is not written. Index one dimension "
            "at a time, or use where. [nd-onnx]"
        )
    dim, index = given[0]
    made: str = g.node("Gather", g.names[value], g.argument(index, np.dtype(np.int64)), axis=dim)
    return made


@writes("take")
def _take(g: Graph, i: Instruction) -> str:
    value, index = i.arguments
    flat = g.node("Reshape", g.names[value], g.numbers([-1]))
    made: str = g.node("Gather", flat, g.argument(index, np.dtype(np.int64)), axis=0)
    return made


@writes("triu", "tril")
def _triangle(g: Graph, i: Instruction) -> str:
    diagonal = g.constant(np.asarray(i.settings["diagonal"], np.int64))
    dtype = i.result.dtype  # runtimes support it for few dtypes
    known = dtype if dtype.kind in "f" else np.dtype(np.int64)
    made = g.node("Trilu", g.argument(i.arguments[0], known), diagonal, upper=int(i.op.name == "triu"))
    return made if known == dtype else g.cast(made, dtype)


# ----- joins ----------------------------------------------------------------------------------------------------------


@writes("cat")
def _cat(g: Graph, i: Instruction) -> str:
    dtype = i.result.dtype
    made: str = g.node("Concat", *(g.argument(a, dtype) for a in i.arguments), axis=i.settings["dim"])
    return made


@writes("stack")
def _stack(g: Graph, i: Instruction) -> str:
    dim, dtype = i.settings["dim"], i.result.dtype
    parts = [g.node("Unsqueeze", g.argument(a, dtype), g.numbers([dim])) for a in i.arguments]
    made: str = g.node("Concat", *parts, axis=dim)
    return made


@writes("constant_pad_nd")
def _pad(g: Graph, i: Instruction) -> str:
    value, pads = i.arguments[0], i.settings["pads"]
    x, dtype = g.names[value], i.result.dtype
    if any(n < 0 for pair in pads for n in pair):
        raise OnnxExporterError(
            "ndgrad.onnx.export: padding by a negative number is not written. Use a slice. [nd-onnx]"
        )
    widths = g.numbers([p[0] for p in pads] + [p[1] for p in pads])
    made: str = g.node("Pad", x, widths, g.constant(np.asarray(i.settings["value"]), dtype))
    return made
