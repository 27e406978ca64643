"""Formulas computed row by row: softmax and its variants, cross entropy, normalisation, with their derivatives.

The ops have the derivations (ndgrad._src.ops.softmax, loss, normalization). Names are those of `Row` kernels, operands
as in Note [Operands of rows].
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field

from ndgrad._src.compiler.kernels.activations import call
from ndgrad._src.compiler.kernels.maths.values import Real, sqrt
from ndgrad._src.compiler.kernels.rows import At, Row


@dataclass(frozen=True)
class RowKernel:
    """A kernel: its operands with their kinds, its parameters, and the function that writes it."""

    write: Callable[[Row], None]
    operands: dict[str, str]
    parameters: tuple[str, ...] = field(default=())


def _kernel(write: Callable[[Row], None], operands: str, parameters: str = "") -> RowKernel:
    """Return a decorator that registers a kernel, with operands such as "out:element x:element"."""
    return RowKernel(write, dict(operand.split(":", 1) for operand in operands.split()), tuple(parameters.split()))


def _exp(x: Real) -> Real:
    return call("exp", x)


# ----- softmax --------------------------------------------------------------------------------------------------------


def _top(row: Row) -> Real:
    (top,) = row.reduce("max", lambda at: [at["x"]])
    return top


def _softmax(row: Row) -> None:
    top = _top(row)
    (total,) = row.reduce("sum", lambda at: [at.write("out", _exp(at["x"] - top))])
    row.each(lambda at: at.write("out", at["out"] / total))


def _softmax_slope(row: Row) -> None:
    """Write (t - sum(t y)) y scale."""
    (along,) = row.reduce("sum", lambda at: [at["t"] * at["y"]])
    row.each(lambda at: at.write("out", (at["t"] - along) * at["y"] * at["scale"]))


def _exponentials(row: Row) -> None:
    """Write exp(x - top) and their sums. If `masked` is not 0, a row of nothing but -inf gives zeros, and the sum 1."""
    top = _top(row)
    empty = top.equals(float("-inf")) & row["masked"].differs(0.0)
    top = empty.choose(0.0, top)
    (total,) = row.reduce("sum", lambda at: [at.write("out", _exp(at["x"] - top))])
    row.store(empty.choose(1.0, total), "total")


def _cross_entropy(row: Row) -> None:
    """Write log sum exp(x - top) - (x[target] - top)."""
    top = _top(row)
    (total,) = row.reduce("sum", lambda at: [_exp(at["x"] - top)])
    chosen, _ = row.select_element("x", "target")
    row.store(call("log", total) - (chosen - top), "out")


def _cross_entropy_gradient(row: Row) -> None:
    """Write (softmax - one hot) g."""
    top = _top(row)
    (total,) = row.reduce("sum", lambda at: [at.write("out", _exp(at["x"] - top))])
    row.each(lambda at: at.write("out", at["out"] / total * row["g"]))
    chosen, pointer = row.select_element("out", "target")
    row.store(chosen - row["g"], pointer=pointer)


# ----- normalisation --------------------------------------------------------------------------------------------------


def _moments(row: Row) -> tuple[Real, Real]:
    """Return the mean and the variance, from the differences to the mean."""
    (total,) = row.reduce("sum", lambda at: [at["x"]])
    mean = total * row["share"]
    (squares,) = row.reduce("sum", lambda at: [_square(at["x"] - mean)])
    return mean, squares * row["share"]


def _square(x: Real) -> Real:
    return x * x


def _inverse_deviation(row: Row, variance: Real) -> Real:
    """Return (variance + eps)^(-1/2); NaN for a variance that has overflowed, since 0 would look like a result."""
    return 1.0 / sqrt(variance + row["eps"]) + variance * 0.0


def _layer_norm_gradient(row: Row) -> None:
    """Write r (h - mean(h) - y mean(h y)) with h = g w, and the terms of the sums g y and g over the rows."""
    mean, variance = _moments(row)
    r = _inverse_deviation(row, variance)
    sum_h, sum_hc = row.reduce("sum", lambda at: [at["g"] * at["w"], at["g"] * at["w"] * (at["x"] - mean)], 2)
    shift, slope = sum_h * row["share"], sum_hc * row["share"] * r * r

    def body(at: At) -> None:
        g, centred = at["g"], at["x"] - mean
        at.write("out", (g * at["w"] - shift - centred * slope) * r)
        at.add("grad_w", g * centred * r)
        at.add("grad_b", g)

    row.each(body)


def _root_mean_square(row: Row) -> Real:
    """Return (mean(x^2) + eps)^(-1/2)."""
    (squares,) = row.reduce("sum", lambda at: [_square(at["x"])])
    return _inverse_deviation(row, squares * row["share"])


def _rms_norm_gradient(row: Row) -> None:
    """Write r (h - y mean(h y)) with h = g w and y = x r, and the terms of the sum g y over the rows."""
    r = _root_mean_square(row)
    (along,) = row.reduce("sum", lambda at: [at["g"] * at["w"] * at["x"]])
    slope = along * row["share"] * r * r

    def body(at: At) -> None:
        at.write("out", (at["g"] * at["w"] - at["x"] * slope) * r)
        at.add("grad_w", at["g"] * at["x"] * r)

    row.each(body)


def _statistics(row: Row) -> None:
    mean, variance = _moments(row)
    row.store(mean, "mean")
    row.store(variance, "variance")


def _affine(row: Row) -> None:
    """Write (x - mean) scale + shift; all but x are numbers of the row."""
    row.each(lambda at: at.write("out", (at["x"] - at["mean"]) * at["scale"] + at["shift"]))


def _sums(row: Row) -> None:
    """Write sum(g) and sum(g (x - mean)); the mean is a number of the row."""
    total, moment = row.reduce("sum", lambda at: [at["g"], at["g"] * (at["x"] - at["mean"])], 2)
    row.store(total, "total")
    row.store(moment, "moment")


def _combine(row: Row) -> None:
    """Write g scale + (x - mean) slope + shift; all but g and x are numbers of the row."""
    row.each(lambda at: at.write("out", at["g"] * at["scale"] + (at["x"] - at["mean"]) * at["slope"] + at["shift"]))


_ROW = "out:element x:element"

ROW_KERNELS: dict[str, RowKernel] = {
    "softmax": _kernel(_softmax, _ROW),
    "softmax_slope": _kernel(_softmax_slope, "out:element t:element y:element", "scale"),
    "exponentials": _kernel(_exponentials, "out:element x:element total:result", "masked"),
    "cross_entropy": _kernel(_cross_entropy, "out:result x:element target:place"),
    "cross_entropy_gradient": _kernel(_cross_entropy_gradient, "out:element x:element target:place g:number"),
    "layer_norm_gradient": _kernel(
        _layer_norm_gradient, "out:element g:element x:element w:element grad_w:columns grad_b:columns", "share eps"
    ),
    "rms_norm_gradient": _kernel(
        _rms_norm_gradient, "out:element g:element x:element w:element grad_w:columns", "share eps"
    ),
    "moments": _kernel(_statistics, "mean:result variance:result x:element", "share"),
    "affine": _kernel(_affine, f"{_ROW} mean:number scale:number shift:number"),
    "norm_sums": _kernel(_sums, "total:result moment:result g:element x:element mean:number"),
    "norm_combine": _kernel(
        _combine, "out:element g:element x:element mean:number scale:number slope:number shift:number"
    ),
}
