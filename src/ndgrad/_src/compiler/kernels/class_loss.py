"""Losses of class numbers: one kernel forward and one backward, for any number of rows.

    cross entropy   (1 - s) w[t] (logsumexp(x) - x[t]) + s / C sum(w (logsumexp(x) - x))
    nll_loss        -w[t] x[t]
    margins         w[t] / C sum(max(0, margin - x[t] + x)^p) over the classes other than t

for a row of C scores x with target t, class weights w and smoothing s. The forward kernel writes the loss and the share
of each row, which is w[t], or 1 for margins. Rows with the ignored number have a loss and a share of 0. A target that is
no class gives NaN in both, and reads nothing outside of the row. So NaN in the sum of shares tells the caller to look
for such a target, and no separate check is needed.

Meanings and conditions are those of the device kernels (ndgrad._src.compiler.cuda.class_loss). `class_loss` of
ndgrad._src.ops.loss has the formulas as ops.
"""

from __future__ import annotations

import functools
import struct
from collections.abc import Callable
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ndgrad._src.arrays import threads as allowed
from ndgrad._src.compiler.kernels import maths
from ndgrad._src.compiler.kernels.activations import call
from ndgrad._src.compiler.kernels.maths.values import Real
from ndgrad._src.compiler.kernels.rows import EACH, HEAD, At, Row, row_function
from ndgrad._src.compiler.native import pool, target
from ndgrad._src.compiler.native.calls import address_reader
from ndgrad._src.compiler.native.ir import Vector, element_of, module

Array = NDArray[Any]

#: Elements of a chunk, and minimum number of elements for a second thread.
_CHUNK, _SHARED = 16384, 32768
_PARAMETERS = ("smoothing", "spread", "every")


class _Class:
    """The target of the current row."""

    def __init__(self, row: Row, weighted: bool) -> None:
        f = self.f = row.f
        self.row, self.weighted = row, weighted
        number = f.load(Vector("i64"), row.bases["target"])
        self.counts = f.compare("ne", number, f.load(Vector("i64"), row.bases["ignored"]))
        self.inside = f.compare("ult", number, row.length)
        self.place = f.choose(self.inside, number, 0)

    def choose(self, condition: str, a: Real | float, b: Real | float) -> Real:
        """Return one of two numbers of the row."""
        w, type = self.row.w, self.row.w.type
        return w.real(self.f.set(f"select i1 {condition}, {type} {w.real(a)}, {type} {w.real(b)}"))

    def element(self, name: str) -> tuple[Real, str]:
        """Return the element of an operand at the target, and its address."""
        one = Vector(self.row.w.type.element)
        pointer = self.f.address(one.element, self.row.bases[name], self.place)
        return self.row.broadcast(self.f.load(one, pointer)), pointer

    def share(self) -> Real:
        """Return the weight of the class."""
        return self.element("weight")[0] if self.weighted else self.row.w.real(1.0)


def _normalizer(row: Row) -> tuple[Real, Real]:
    """Return the largest score and the sum of exponentials of the differences to it."""
    (top,) = row.reduce("max", lambda at: [at["x"]])
    (total,) = row.reduce("sum", lambda at: [call("exp", at["x"] - top)])
    return top, total


def _excess(row: Row, own: Real, at: At) -> Real:
    """Return margin - x[t] + x where that is positive or NaN, else 0. `own` is margin - x[t]."""
    size = own + at["x"]
    return (size < 0.0).choose(0.0, size)


def _write_forward(row: Row, form: str, weighted: bool) -> None:
    there = _Class(row, weighted)
    share = there.share()
    chosen, _ = there.element("x")
    if form == "log":
        loss = share * -chosen
    elif form == "softmax" or form == "smooth":
        top, total = _normalizer(row)
        log_total = call("log", total)
        loss = share * (log_total - (chosen - top))
        if form == "smooth":
            def term(at: At) -> Real:
                difference = log_total - (at["x"] - top)
                return at["weight"] * difference if weighted else difference

            (spread,) = row.reduce("sum", lambda at: [term(at)])
            loss = loss * (1.0 - row["smoothing"]) + spread * row["spread"]
    else:
        own = row["smoothing"] - chosen

        def power(size: Real) -> Real:
            return size if form == "margin" else size * size

        (sum_of_all,) = row.reduce("sum", lambda at: [_other(row, there, at, power(_excess(row, own, at)))])
        loss = share * sum_of_all * row["spread"]
        share = row.w.real(1.0)
    bad = float("nan")
    row.store(there.choose(there.counts, there.choose(there.inside, loss, bad), 0.0), "out")
    row.store(there.choose(there.counts, there.choose(there.inside, share, bad), 0.0), "share")


def _other(row: Row, there: _Class, at: At, value: Real) -> Real:
    """Return a value, and 0 for the element of the class itself."""
    return at.is_at(there.place).choose(0.0, value)


def _write_backward(row: Row, form: str, weighted: bool) -> None:
    there = _Class(row, weighted)
    g = row["g"]
    one = there.choose(there.counts, g * there.share(), 0.0)

    def put(at: At, value: Real) -> None:
        at.write("out", there.choose(there.counts, value, 0.0))

    if form == "log":
        row.each(lambda at: at.write("out", row.w.real(0.0)))
        _, pointer = there.element("out")
        row.store(-one, pointer=pointer)
        return
    if form == "softmax" or form == "smooth":
        top, total = _normalizer(row)
        if form == "softmax":
            row.each(lambda at: put(at, call("exp", at["x"] - top) / total * one))
        else:
            one = one * (1.0 - row["smoothing"])
            each = g * row["spread"]
            scale = one + each * row["every"]

            def smooth(at: At) -> Real:
                return call("exp", at["x"] - top) / total * scale - (each * at["weight"] if weighted else each)

            row.each(lambda at: put(at, smooth(at)))
        chosen, pointer = there.element("out")
        row.store(chosen - one, pointer=pointer)
        return
    scale = one * row["spread"]
    own = row["smoothing"] - there.element("x")[0]

    def slope(at: At) -> Real:
        size = own + at["x"]
        if form == "margin":
            found = (size > 0.0).choose(scale, size.differs(size).choose(size, 0.0))
        else:
            found = (size > 0.0).choose(size * 2.0 * scale, size.differs(size).choose(size, 0.0))
        return at.write("out", there.choose(there.counts, _other(row, there, at, found), 0.0))

    (pull,) = row.reduce("sum", lambda at: [slope(at)])
    _, pointer = there.element("out")
    row.store(-pull, pointer=pointer)


@functools.cache
def _kernel(direction: str, form: str, weighted: bool, dtype: np.dtype[Any]) -> tuple[target.Code, int, struct.Struct]:
    operands = {"x": "element", "target": "place", "ignored": "place", **({"weight": "element"} if weighted else {})}
    results = {"out": "result", "share": "result"} if direction == "forward" else {"out": "element", "g": "number"}
    operands = {**results, **operands}
    write = _write_forward if direction == "forward" else _write_backward
    f = row_function(
        "class_loss", element_of(dtype), target.host(), operands, _PARAMETERS, lambda row: write(row, form, weighted)
    )
    code = target.Code(module([f, *maths.library(f.needed, target.host())]))
    return code, code.address("class_loss"), struct.Struct(f"{HEAD + EACH * len(operands)}q{len(_PARAMETERS)}d")


@functools.lru_cache(maxsize=64)
def _constant(number: int) -> NDArray[np.int64]:
    return np.array([number], np.int64)


def _run(
    direction: str, form: str, x: Array, weight: Array | None, smoothing: float, steps: tuple[int, ...], *arrays: Array
) -> None:
    if form == "softmax" and smoothing:
        form = "smooth"
    rows, length = x.shape
    every = float(length)
    if weight is not None:
        arrays, steps = (*arrays, weight), (*steps, 0)
        every = float(weight.sum()) if form == "smooth" else 0.0
    _, address, packed = _kernel(direction, form, weight is not None, x.dtype)
    places = [w for start, step in zip(address_reader()(*arrays), steps, strict=True) for w in (start, step, 0)]
    spread = (smoothing if form == "smooth" else 1.0) / length
    grain = max(1, min(_CHUNK // length, rows))
    words = packed.pack(rows, grain, 1, length, *places, smoothing, spread, every)
    threads = 1 if x.size < _SHARED else allowed.max_threads
    pool.pool()._run(address, words, -(-rows // grain), threads)


def class_loss(
    x: Array, labels: NDArray[np.int64], weight: Array | None, ignored: int, smoothing: float, reduction: str,
    error: Callable[[int], Exception], form: str = "softmax",
) -> tuple[Any, Any]:  # fmt: skip
    """Return the loss, and the sum of the shares of the rows that count; `error` makes the exception for a target that
    is no class. For margins, `smoothing` is the margin.
    """
    rows, length = x.shape
    loss, share = np.empty((2, rows), x.dtype)
    _run("forward", form, x, weight, smoothing, (1, 1, length, 1, 0), loss, share, x, labels, _constant(ignored))
    total = np.add.reduce(share)
    if total != total:
        wrong = ((labels < 0) | (labels >= length)) & (labels != ignored)
        if wrong.any():
            raise error(int(labels[wrong][0]))
    if reduction == "none":
        return loss, np.asarray(total)
    found = np.add.reduce(loss)
    return np.asarray(found / total if reduction == "mean" else found), np.asarray(total)


def class_loss_gradient(
    g: Array, x: Array, labels: NDArray[np.int64], weight: Array | None, total: Array, ignored: int, smoothing: float,
    reduction: str, form: str = "softmax",
) -> Array:  # fmt: skip
    """Return the gradient in x."""
    length = x.shape[1]
    out = np.empty(x.shape, x.dtype)
    if reduction == "mean":
        g = np.asarray(g / total, x.dtype)
    step = 1 if reduction == "none" else 0
    _run("backward", form, x, weight, smoothing, (length, step, length, 1, 0), out, g, x, labels, _constant(ignored))
    return out
