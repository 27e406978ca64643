"""Kernels for eager ops, on NumPy arrays, selected by `ndgrad._src.arrays.native_kernels`.

Each function means the same as its namesake among the ops, takes contiguous arrays of one floating dtype and returns
new ones. Code is compiled at the first use of a kernel, per dtype, and cached in the process and on disk. A builtin
returns the addresses of arrays, since asking NumPy for an address in Python takes longer than a small kernel.
"""

from __future__ import annotations

import functools
import math
import struct
import sys
from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from ndgrad._src.arrays import threads as allowed
from ndgrad._src.compiler.kernels import arrays, indexed_lines, maths, operations, scans
from ndgrad._src.compiler.kernels.elementwise import loop_function
from ndgrad._src.compiler.kernels.formula_code import in_place_function, supports, write_vectors
from ndgrad._src.compiler.kernels.maths.values import Writer
from ndgrad._src.compiler.kernels.row_formulas import ROW_KERNELS
from ndgrad._src.compiler.kernels.rows import EACH, HEAD, row_function
from ndgrad._src.compiler.native import pool, target
from ndgrad._src.compiler.native.calls import address_reader, is_available
from ndgrad._src.compiler.native.ir import Function, Vector, element_of, module
from ndgrad._src.compiler.native.selftest import difference, problem
from ndgrad._src.ops.formulas import Formula, Signature

Array = NDArray[Any]

#: Elements of a chunk, and minimum number of elements for a second thread.
_CHUNK = 16384
_SHARED = 32768
#: The starts of pieces are multiples of this many elements, so that no two threads write to one cache line.
_LINES = 256


def native_kernels() -> Any:
    """Return this module if kernels can be used in this process: there are C interfaces for it, and rows and formulas
    pass their check on this machine.
    """
    if not is_available():
        return None
    for dtype in (np.dtype(np.float32), np.dtype(np.float64)):
        code = _row_kernel("softmax", dtype)[0]
        if problem(f"kernels for eager ops in {dtype}", code, functools.partial(_check, dtype)) is not None:
            return None
    return sys.modules[__name__]


def _check(dtype: np.dtype[Any], code: target.Code) -> str | None:
    """Return the problem with rows and formulas on this machine, compared with NumPy."""
    x = np.random.default_rng(0).standard_normal((37, 61)).astype(dtype)
    wide = x.astype(np.float64)
    e = np.exp(wide - wide.max(1, keepdims=True))
    written = Formula()
    a, b = written.input(), written.input()
    moved = x.copy()
    signature = written.signature([a * 0.5 + (b * b).sqrt()])
    formula_in_place(signature, written.numbers, x.dtype, *formula_memory([[moved, moved, x]]))
    results = {
        "softmax": (softmax(x), e / e.sum(1, keepdims=True)),
        "formula": (moved, wide * 0.5 + np.abs(wide)),
    }
    for name, (found, wanted) in results.items():
        wrong = difference(name, found, wanted.astype(dtype), float(64 * np.finfo(dtype).eps))
        if wrong is not None:
            return wrong
    return None


@functools.cache
def _run() -> Any:
    return pool.pool()._run


def _code(functions: Sequence[Function | str]) -> target.Code:
    needed = [pair for f in functions if isinstance(f, Function) for pair in f.needed]
    return target.Code(module([*functions, *maths.library(needed, target.host())]))


@functools.cache
def convolutions(dtype: np.dtype[Any]) -> Any:
    """Return the module with convolutions, if they pass their check on this machine."""
    return arrays if arrays.available(dtype, ("conv",)) else None


@functools.cache
def pooling(dtype: np.dtype[Any]) -> Any:
    """Return the module with pooling over evenly spaced windows, if it passes its check on this machine."""
    return arrays if arrays.available(dtype, ("pool",)) else None


# ----- elementwise ----------------------------------------------------------------------------------------------------


@functools.cache
def _elementwise(
    op: str,
    dtype: np.dtype[Any],
    numbers: tuple[bool, ...],
    parameters: tuple[str, ...],
    settings: tuple[tuple[str, Any], ...],
) -> tuple[target.Code, int, struct.Struct]:
    name, type = dtype.name, Vector(element_of(dtype), 2 * target.host().lanes(element_of(dtype)))

    def write(f: Function, lanes: int, values: Sequence[str], constants: Sequence[str]) -> list[str]:
        w = Writer(f, type, fma=False)
        given = {name: w.real(value) for name, value in zip(parameters, constants, strict=True)}
        return [operations.emit(f, op, name, lanes, *values, **given, **dict(settings))]

    code = _code(
        [loop_function(op, type, [type.element], [(type.element, one) for one in numbers], len(parameters), write)]
    )
    return code, code.address(op), struct.Struct(f"{len(numbers) + 3}q{len(parameters)}d")


def elementwise(op: str, *operands: Array, **settings: Any) -> Array:
    """Apply an op of the table, with results of its operands' dtype, to arrays of one shape or of one element.

    One function serves all values of float settings.
    """
    x = operands[0]
    floats: tuple[str, ...] = ()
    if settings:
        floats = tuple([name for name, value in settings.items() if value.__class__ is float])
        others = tuple([(name, value) for name, value in settings.items() if value.__class__ is not float])
    else:
        others = ()
    _, address, packed = _elementwise(op, x.dtype, tuple([a.size == 1 for a in operands]), floats, others)
    out = np.empty(x.shape, x.dtype)
    places = address_reader()(out, *operands)
    words = packed.pack(x.size, _CHUNK, *places, *[settings[name] for name in floats])
    _run()(address, words, -(-x.size // _CHUNK), 1 if x.size < _SHARED else allowed.max_threads)
    return out


# ----- rows -----------------------------------------------------------------------------------------------------------


@functools.cache
def _row_kernel(name: str, dtype: np.dtype[Any]) -> tuple[target.Code, int, struct.Struct]:
    kernel = ROW_KERNELS[name]
    function = row_function(name, element_of(dtype), target.host(), kernel.operands, kernel.parameters, kernel.write)
    code = _code([function])
    return code, code.address(name), struct.Struct(f"{HEAD + EACH * len(kernel.operands)}q{len(kernel.parameters)}d")


def _grain(rows: int, length: int) -> int:
    """Return the number of rows of a chunk."""
    return max(1, min(-(-_CHUNK // max(length, 1)), rows))


class Geometry(NamedTuple):
    """The rows of an array: each has `segments` times `length` elements, at steps from row to row and segment to
    segment.
    """

    rows: int
    segments: int
    length: int
    row_step: int
    segment_step: int

    @property
    def elements(self) -> int:
        """Return the number of elements of a row."""
        return self.segments * self.length


def _over_rows(
    name: str, rows: Geometry, operands: Sequence[tuple[Array, int]], parameters: Sequence[float] = (), grain: int = 0
) -> None:
    """Run a kernel. Each operand is an array with its step from row to row. Operands with the step of the rows also
    advance by segments.
    """
    _, address, packed = _row_kernel(name, operands[0][0].dtype)
    grain = grain or _grain(rows.rows, rows.elements)
    addresses = address_reader()(*[array for array, _ in operands])
    places = [
        w
        for start, (_, step) in zip(addresses, operands, strict=True)
        for w in (start, step, rows.segment_step if step == rows.row_step else 0)
    ]
    words = packed.pack(rows.rows, grain, rows.segments, rows.length, *places, *parameters)
    threads = 1 if rows.rows * rows.elements < _SHARED else allowed.max_threads
    _run()(address, words, -(-rows.rows // grain), threads)


def _lines(name: str, *operands: Array) -> Array:
    """Run a kernel whose operands are all elements, along the last dimension."""
    x = operands[0]
    out, rows = np.empty(x.shape, x.dtype), _last(x, x.shape[-1])
    _over_rows(name, rows, [(a, rows.length) for a in (out, *operands)])
    return out


def _last(x: Array, length: int) -> Geometry:
    return Geometry(x.size // length, 1, length, length, 0)


def softmax(x: Array) -> Array:
    """Return softmax along the last dimension."""
    return _lines("softmax", x)


def softmax_slope(t: Array, y: Array, scale: float = 1.0, out: Array | None = None) -> Array:
    """Return (t - sum(t y)) y scale along the last dimension, in new memory or in that of t."""
    rows = _last(t, t.shape[-1])
    out = np.empty(t.shape, t.dtype) if out is None else out
    _over_rows("softmax_slope", rows, [(a, rows.length) for a in (out, t, y)], (scale,))
    return out


def exponentials(x: Array, masked: bool) -> Array:
    """Replace x by e^(x - top) along the last dimension, and return the sums.

    `masked`: a row of nothing but -inf becomes zeros, with the sum 1.
    """
    rows = _last(x, x.shape[-1])
    total = np.empty((*x.shape[:-1], 1), x.dtype)
    _over_rows("exponentials", rows, [(x, rows.length), (x, rows.length), (total, 1)], (float(masked),))
    return total


def cross_entropy(x: Array, target: NDArray[np.int64]) -> Array:
    """Return logsumexp(x) - x[target] of each row."""
    rows = _last(x, x.shape[1])
    out = np.empty(rows.rows, x.dtype)
    _over_rows("cross_entropy", rows, [(out, 1), (x, rows.length), (target, 1)])
    return out


def cross_entropy_gradient(x: Array, target: NDArray[np.int64], g: Array) -> Array:
    """Return (softmax(x) - one hot) g of each row."""
    out, rows = np.empty(x.shape, x.dtype), _last(x, x.shape[1])
    _over_rows("cross_entropy_gradient", rows, [(out, rows.length), (x, rows.length), (target, 1), (g, 1)])
    return out


# ----- normalisation --------------------------------------------------------------------------------------------------


def layer_norm_gradient(g: Array, x: Array, w: Array, eps: float) -> tuple[Array, Array, Array]:
    """Return the gradients in x, w and b, for w with the last sizes of x."""
    out, (grad_w, grad_b) = _norm_gradient("layer_norm_gradient", 2, g, x, w, eps)
    return out, grad_w, grad_b


def rms_norm_gradient(g: Array, x: Array, w: Array, eps: float) -> tuple[Array, Array]:
    """Return the gradients in x and w."""
    out, (grad_w,) = _norm_gradient("rms_norm_gradient", 1, g, x, w, eps)
    return out, grad_w


def _norm_gradient(name: str, weights: int, g: Array, x: Array, w: Array, eps: float) -> tuple[Array, Array]:
    """Return the gradient in x, and those in the weights."""
    rows = _last(x, w.size)
    # Sums over rows are taken in a few pieces. Their number depends only on the sizes, so the result does not depend on
    # threads.
    grain = max(_grain(rows.rows, rows.length), -(-rows.rows // 64))
    out = np.empty(x.shape, x.dtype)
    sums = np.zeros((weights, -(-rows.rows // grain), rows.length), x.dtype)
    elements = [(a, rows.length) for a in (out, g, x)]
    _over_rows(name, rows, [*elements, (w, 0), *((a, rows.length) for a in sums)], (1 / rows.length, eps), grain)
    return out, np.add.reduce(sums, axis=1).reshape(weights, *w.shape)


def moments(x: Array, rows: Geometry) -> tuple[Array, Array]:
    """Return the mean and the variance of each row."""
    mean, variance = np.empty(rows.rows, x.dtype), np.empty(rows.rows, x.dtype)
    _over_rows("moments", rows, [(mean, 1), (variance, 1), (x, rows.row_step)], (1 / rows.elements,))
    return mean, variance


def affine(x: Array, mean: Array, scale: Array, shift: Array, rows: Geometry) -> Array:
    """Return (x - mean) scale + shift; all but x are numbers per row."""
    out = np.empty(x.shape, x.dtype)
    _over_rows("affine", rows, [(out, rows.row_step), (x, rows.row_step), (mean, 1), (scale, 1), (shift, 1)])
    return out


def centred_sums(g: Array, x: Array, mean: Array, rows: Geometry) -> tuple[Array, Array]:
    """Return sum(g) and sum(g (x - mean)) of each row."""
    total, moment = np.empty(rows.rows, x.dtype), np.empty(rows.rows, x.dtype)
    _over_rows("norm_sums", rows, [(total, 1), (moment, 1), (g, rows.row_step), (x, rows.row_step), (mean, 1)])
    return total, moment


def combine_rows(g: Array, x: Array, mean: Array, scale: Array, slope: Array, shift: Array, rows: Geometry) -> Array:
    """Return g scale + (x - mean) slope + shift; all but g and x are numbers per row."""
    out = np.empty(x.shape, x.dtype)
    elements = [(a, rows.row_step) for a in (out, g, x)]
    _over_rows("norm_combine", rows, [*elements, *((a, 1) for a in (mean, scale, slope, shift))])
    return out


# ----- scans ----------------------------------------------------------------------------------------------------------


@functools.cache
def _scan(how: str, dtype: np.dtype[Any], abreast: int) -> tuple[target.Code, int]:
    code = _code([scans.scan_function(how, element_of(dtype), abreast)])
    return code, code.address(how)


def scan(how: str, reverse: bool, dim: int, *operands: Array) -> Array:
    """Return a running "sum" or "product" of x, or the "linear" recurrence of x and a, along a dimension."""
    out = np.empty(operands[0].shape, operands[0].dtype)
    _run_scan(how, reverse, dim, out, *operands)
    return out


def scan_extremum(how: str, dim: int, x: Array) -> tuple[Array, NDArray[np.int64]]:
    """Return the running "maximum" or "minimum" along a dimension, and its positions."""
    out, places = np.empty(x.shape, x.dtype), np.empty(x.shape, np.int64)
    _run_scan(how, False, dim, out, x, places)
    return out, places


def _run_scan(how: str, reverse: bool, dim: int, *operands: Array) -> None:
    x = operands[1]
    length = x.shape[dim]
    lines, inner = x.size // length, math.prod(x.shape[dim + 1 :])
    abreast = scans.ROWS if inner == 1 else scans.COLUMNS
    grain = max(abreast, -(-_CHUNK // length) // abreast * abreast)
    places = address_reader()(*operands)
    words = struct.pack(f"{5 + len(places)}q", lines, grain, length, -1 if reverse else 1, inner, *places)
    address = _scan(how, x.dtype, abreast)[1]
    _run()(address, words, -(-lines // grain), 1 if x.size < _SHARED else allowed.max_threads)


# ----- elements by an index along a dimension -------------------------------------------------------------------------

#: Columns of a chunk: enough for whole cache lines.
_COLUMNS = 256


@functools.cache
def _indexed(how: str, element: str, is_last: bool) -> tuple[target.Code, int]:
    code = _code([indexed_lines.line_function(how, element, is_last)])
    return code, code.address(how)


def move_by_index(how: str, dim: int, whole: Array, part: Array, index: NDArray[np.int64]) -> None:
    """Move elements between arrays by an index along a dimension: "read" the part, or "write" or "add" it to the whole.

    "kept" reads the part with zeros where a position occurs again.
    The index has the part's shape, with any steps. Reading and writing need elements of at most 8 bytes.
    """
    shape, size = part.shape, whole.shape[dim]
    outer, length, inner = math.prod(shape[:dim]), shape[dim], math.prod(shape[dim + 1 :])
    steps = _index_steps(index, dim)
    if steps is None:
        index = np.ascontiguousarray(index)
        steps = (length * inner, inner, 1)
    inner_grain = inner if inner <= _COLUMNS else max(_COLUMNS, _CHUNK // max(length, 1))
    pieces = -(-inner // inner_grain)
    outer_grain = max(1, _CHUNK // max(length * min(inner, inner_grain), 1)) if pieces == 1 else 1
    element = element_of(whole.dtype) if how == "add" else f"i{8 * whole.itemsize}"
    places = address_reader()(whole, part, index)
    words = struct.pack("13q", outer, outer_grain, inner, inner_grain, pieces, length, size, *steps, *places)
    threads = 1 if part.size < _SHARED else allowed.max_threads
    if how == "kept":
        room = -(-4 * size * inner_grain // 128) * 128
        words += struct.pack("2q", arrays.keep_scratch("noted", threads * room), room)
    _run()(_indexed(how, element, inner == 1)[1], words, -(-outer // outer_grain) * pieces, threads)


def _index_steps(index: NDArray[np.int64], dim: int) -> tuple[int, int, int] | None:
    """Return the steps of an index before, along and behind a dimension; None if a group has no common step."""
    found = []
    for dims in (range(dim), (dim,), range(dim + 1, index.ndim)):
        step, expected = 0, None
        for d in reversed(dims):
            if index.shape[d] == 1:
                continue
            if expected is None:
                step = index.strides[d]
            elif index.strides[d] != expected:
                return None
            expected = index.strides[d] * index.shape[d]
        found.append(step // 8)
    return found[0], found[1], found[2]


# ----- formulas -------------------------------------------------------------------------------------------------------


@functools.lru_cache(maxsize=256)
def _formula(
    signature: Signature, dtype: np.dtype[Any], ones: tuple[bool, ...]
) -> tuple[target.Code, int, struct.Struct] | None:
    if not supports(signature, dtype.name):
        return None
    type = Vector(element_of(dtype), 2 * target.host().lanes(element_of(dtype)))

    def write(f: Function, lanes: int, values: Sequence[str], constants: Sequence[str]) -> list[str]:
        return write_vectors(f, Vector(type.element, lanes), signature, values, constants)

    operands = [(type.element, one) for one in ones]
    code = _code([loop_function("formula", type, [type.element], operands, signature.numbers, write)])
    return code, code.address("formula"), struct.Struct(f"{len(ones) + 3}q{signature.numbers}d")


def formula(
    signature: Signature, numbers: Sequence[float], shape: tuple[int, ...], operands: Sequence[Array]
) -> Array | None:
    """Return the results of a formula, for operands of this shape or of one element; None if it has no native code."""
    dtype = operands[0].dtype
    found = _formula(signature, dtype, tuple([a.size == 1 for a in operands]))
    if found is None:
        return None
    out = np.empty(shape, dtype)
    words = found[2].pack(out.size, _CHUNK, *address_reader()(out, *operands), *numbers)
    _run()(found[1], words, -(-out.size // _CHUNK), 1 if out.size < _SHARED else allowed.max_threads)
    return out


@functools.lru_cache(maxsize=256)
def _in_place(signature: Signature, dtype: np.dtype[Any]) -> tuple[target.Code, int, struct.Struct]:
    function = in_place_function("formula", dtype.name, target.host().lanes(element_of(dtype)), signature)
    code = _code([function])
    return code, code.address("formula"), struct.Struct(f"2q{signature.numbers}d")


class Chunks(NamedTuple):
    """Pieces of many arrays: for each, the array, the first element, the number of elements."""

    pieces: NDArray[np.int64]
    threads: int


@functools.lru_cache(maxsize=64)
def _chunks(sizes: tuple[int, ...], threads: int) -> Chunks:
    """Return pieces of arrays of these sizes.

    Each thread has its part of each large array, and some of the small ones, so that it meets the same memory in each
    run (Note [Each chunk has a home], in ndgrad._src.compiler.native.pool). Empty pieces make parts equal.
    """
    threads = 1 if sum(sizes) < _SHARED else threads
    parts: list[list[tuple[int, int, int]]] = [[] for _ in range(threads)]
    work = [0] * threads
    for n, size in enumerate(sizes):
        count = -(-size // _CHUNK)
        if count < 2:
            least = work.index(min(work))
            parts[least] += [(n, 0, size)] * count
            work[least] += size
            continue
        each = -(-count // threads)
        length = -(-size // (each * threads * _LINES)) * _LINES
        for t, part in enumerate(parts):
            begins = [b for b in range(t * each * length, (t + 1) * each * length, length) if b < size]
            part += [(n, begin, min(length, size - begin)) for begin in begins]
            work[t] += sum(min(length, size - begin) for begin in begins)
    most = max(map(len, parts))
    pieces = [piece for part in parts for piece in (*part, *[(0, 0, 0)] * (most - len(part)))]
    return Chunks(np.array(pieces, np.int64).reshape(-1, 3), threads)


def has_formula(signature: Signature, dtype: np.dtype[Any]) -> bool:
    """True if `formula_in_place` supports a formula."""
    return supports(signature, dtype.name)


def formula_memory(sets: Sequence[Sequence[Array]]) -> tuple[NDArray[np.int64], Chunks]:
    """Return the addresses of sets of arrays, and the pieces of their processing, for `formula_in_place`.

    In each set the formula's outputs are written to the first arrays, and the others are its inputs. All are
    contiguous, of one dtype, and in each set of one size.
    """
    table = np.array([address_reader()(*arrays) for arrays in sets], np.int64)
    return table, _chunks(tuple([arrays[0].size for arrays in sets]), allowed.max_threads)


def rouse(chunks: Chunks) -> None:
    """Wake the workers, because a formula is about to run over these pieces."""
    if chunks.threads > 1:
        pool.pool().rouse(chunks.threads)


def formula_in_place(
    signature: Signature,
    numbers: Sequence[float],
    dtype: np.dtype[Any],
    table: NDArray[np.int64],
    chunks: Chunks,
    place: int = 0,
    others: Sequence[Array] = (),
) -> None:
    """Run a formula on the sets of arrays of a table, with other arrays at one position of each set if given."""
    if others:
        table[:, place] = address_reader()(*others)
    _, address, packed = _in_place(signature, dtype)
    words = packed.pack(*address_reader()(chunks.pieces, table), *numbers)
    _run()(address, words, len(chunks.pieces), min(chunks.threads, allowed.max_threads))
