"""Bodies and rules of ops as single kernels for eager calls.

A body or rule runs on terms once for each combination of shapes and settings, which takes a millisecond. If its program
can be computed by rows (ndgrad._src.compiler.lower.row_programs), later calls start one kernel. The kernel depends on
the formula and the dtype alone, so new sizes compile nothing.

The choice depends only on the function, the dtype, the shapes and the settings, never on earlier calls (Note [When
kernels are used] in ndgrad._src.arrays.native_kernels).
"""

from __future__ import annotations

import struct
from collections.abc import Callable, Mapping, Sequence
from types import SimpleNamespace
from typing import Any, NamedTuple

import numpy as np

from ndgrad._src.arrays import native_kernels
from ndgrad._src.arrays import threads as allowed
from ndgrad._src.arrays.device_kernels import copy_to
from ndgrad._src.arrays.library import is_on_device, library_of
from ndgrad._src.compiler.kernels import columns, maths
from ndgrad._src.compiler.kernels.columns import column_function
from ndgrad._src.compiler.kernels.rows import EACH, HEAD, row_function
from ndgrad._src.compiler.lower.row_programs import Columns, RowFormula, RowProgram, find_rows, operands_of, write_rows
from ndgrad._src.compiler.native import pool, target
from ndgrad._src.compiler.native.calls import Input, Output, address_reader, make_call
from ndgrad._src.compiler.native.ir import Function, element_of, module
from ndgrad._src.compiler.passes import simplify_program
from ndgrad._src.compiler.passes.decompose import decompose
from ndgrad._src.compiler.passes.terms import write_program
from ndgrad._src.foundations.bounded_tables import make_room
from ndgrad._src.foundations.locks import compute_once

#: A function of a vocabulary, array arguments and settings.
Formula = Callable[[Any, Sequence[Any], Mapping[str, Any]], Any]

#: Maximum number of calls that are remembered.
_MOST = 4096
#: Minimum number of elements for a second thread, and elements of a chunk.
_SHARED, _CHUNK = 32768, 16384
#: The columns of a chunk are a multiple of this number, so that no two threads write to one cache line.
_LINE = 64
_SINGLE = np.dtype(np.float32)


class _Launch(NamedTuple):
    """The arguments of a kernel for one program, except for addresses."""

    code: target.Code
    address: int
    packed: struct.Struct
    #: The words of the kernel, with zeros for the addresses of operands, which are `each` words apart from `first` on.
    words: list[Any]
    first: int
    end: int
    each: int
    #: Offsets of operands in bytes and the numbers of their arrays; None if operands are the arrays themselves.
    parts: tuple[tuple[int, int], ...] | None
    chunks: int
    is_large: bool


class _Plan(NamedTuple):
    """The program of a function for one combination of shapes and settings."""

    rows: RowProgram
    #: True for each result of the function that is not None; None if it returns a single result.
    results: tuple[bool, ...] | None
    #: True if inputs are expanded in memory.
    expands: bool
    #: The arguments of the native kernel; None on a device.
    launch: _Launch | None
    #: The functions that start the kernel, by device; None if CuPy is better.
    on_device: dict[int, Callable[[Sequence[Any]], list[Any]] | None]


_plans: dict[Any, _Plan | None] = {}


def run_fused(function: Formula, arrays: Sequence[Any], settings: Mapping[str, Any]) -> Any:
    """Return the result of a function on dense arrays of one floating dtype by one kernel; None if it has no kernel.

    An argument may be None.
    """
    x = arrays[0]
    # The class of x tells the device: native code and device kernels have different plans.
    key = (function, x.__class__, x.dtype.char, *[a if a is None else a.shape for a in arrays], *settings.values())
    try:
        plan = _plans[key]
    except KeyError:
        plan = _make_plan(function, arrays, settings)
        make_room(_plans, _MOST)
        _plans[key] = plan
        if plan is not None and plan.launch is not None and not plan.expands:
            call = make_builtin(plan.rows, plan.launch, [a for a in arrays if a is not None])
            native_kernels.remember_call(function, arrays, settings, plan.results, call)
    except TypeError:  # a setting without a hash
        return None
    if plan is None:
        return None
    given = [a for a in arrays if a is not None]
    if plan.expands:
        given = [a if s is None else _expand(a, s) for a, s in zip(given, plan.rows.expanded, strict=True)]
    if is_on_device(x):
        device = x.data.device_id
        if device not in plan.on_device:
            from ndgrad._src.compiler.cuda.row_programs import make_launcher  # needed on devices only

            plan.on_device[device] = make_launcher(plan.rows, x)
        run = plan.on_device[device]
        found = None if run is None else run(given)
    else:
        found = run_rows(plan.rows, given, plan.launch)
    if found is None or plan.results is None:
        return found if found is None else found[0]
    waiting = iter(found)
    return tuple([next(waiting) if is_given else None for is_given in plan.results])


def _expand(x: Any, shape: tuple[int, ...]) -> Any:
    """Return a copy of an array in a shape that it broadcasts to."""
    out = library_of(x).empty(shape, x.dtype)
    copy_to(out, x)
    return out


def _make_plan(function: Formula, arrays: Sequence[Any], settings: Mapping[str, Any]) -> _Plan | None:
    results: list[tuple[bool, ...] | None] = []

    def run(ops: Any, *terms: Any) -> Any:
        out = function(ops, terms, settings)
        results.append(tuple([t is not None for t in out]) if isinstance(out, tuple) else None)
        return out

    # Halves are computed in single precision.
    inputs = [
        a if a is None else SimpleNamespace(shape=a.shape, dtype=a.dtype if a.dtype.char in "fd" else _SINGLE)
        for a in arrays
    ]
    try:
        program, checks = decompose(write_program("fused", run, inputs))
    except Exception:  # the op itself raises the error, with its own text
        return None
    found = None if checks else find_rows(simplify_program(program))
    if found is None:
        return None
    x = next(a for a in arrays if a is not None)
    launch = None if is_on_device(x) else _make_launch(found, x.dtype)
    return _Plan(found, results[0], any(shape is not None for shape in found.expanded), launch, {})


@compute_once
def _kernel(
    formula: RowFormula, dtype: np.dtype[Any], by_columns: bool
) -> tuple[target.Code, int, struct.Struct]:
    operands, parameters = operands_of(formula), [f"p{n}" for n in range(formula.signature.numbers)]
    make, head, each = (column_function, columns.HEAD, columns.EACH) if by_columns else (row_function, HEAD, EACH)
    f = make("rows", element_of(dtype), target.host(), operands, parameters, write_rows(formula))
    code = target.Code(module([f, *maths.library(f.needed, target.host())]))
    return code, code.address("rows"), struct.Struct(f"{head + each * len(operands)}q{len(parameters)}d")


def _make_launch(program: RowProgram, dtype: np.dtype[Any]) -> _Launch:
    rows = program.layout
    by_columns = isinstance(rows, Columns)
    code, address, packed = _kernel(program.formula, dtype, by_columns)
    if isinstance(rows, Columns):
        along: tuple[int, ...] = (rows.length * rows.inner, rows.inner, 1)
        once: tuple[int, ...] = (rows.inner, 0, 1)
        grain = max(_LINE, min(-(-_CHUNK // rows.length // _LINE) * _LINE, rows.inner))
        pieces = -(-rows.inner // grain)
        head, chunks, elements = (rows.inner, grain, pieces, rows.length), rows.outer * pieces, rows.length
    else:
        along, once, elements = (rows.row_step, rows.segment_step), (1, 0), rows.segments * rows.length
        grain = max(1, min(-(-_CHUNK // elements), rows.rows))
        head, chunks = (rows.rows, grain, rows.segments, rows.length), -(-rows.rows // grain)
    segment = () if isinstance(rows, Columns) else (rows.segments, 1)
    roles = [role for _, role in program.formula.results]
    steps = [along if role.is_element else segment if role.is_segment else once for role in roles]
    parts = None
    if program.parts:  # Note [Parts of rows]
        steps = [(part.row_step, 0) for part in program.parts[: len(roles)]]
        arrays = [0] * len(roles) + [len(program.shapes)] * (len(program.parts) - len(roles))
        parts = tuple([(p.offset * dtype.itemsize, n + p.array) for p, n in zip(program.parts, arrays, strict=True)])
    words = [word for step in (*steps, *program.steps) for word in (0, *step)]
    each = columns.EACH if by_columns else EACH
    return _Launch(
        code,
        address,
        packed,
        [*head, *words, *program.numbers],
        len(head),
        len(head) + len(words),
        each,
        parts,
        chunks,
        rows.rows * elements >= _SHARED,
    )


#: Words of the description of a launch, before a pair of words for each operand: the number of its array among inputs
#: and outputs, and its offset in bytes.
_WORK, _WORDS, _COUNT, _CHUNKS, _THREADS, _FIRST, _EACH, _OPERANDS, _PAIRS = range(9)


@compute_once
def _launcher(arrays: int) -> target.Code:
    """Return code that starts a kernel with the addresses of so many arrays, as `make_call` demands.

    The words of the kernel are copied to the stack, so that calls of several threads do not disturb each other.
    """
    f = Function("launch", "ptr %pointers", "i64")

    def word(number: int | str, kind: str = "i64") -> str:
        return f.set(f"load {kind}, ptr {f.address('i64', description, str(number))}")

    description = f.set(f"load ptr, ptr {f.address('i64', '%pointers', str(arrays))}")
    count, source = word(_COUNT), word(_WORDS, "ptr")
    words = f.set(f"alloca i64, i64 {count}")
    with f.loop(count) as i:
        value = f.set(f"load i64, ptr {f.address('i64', source, i)}")
        f.do(f"store i64 {value}, ptr {f.address('i64', words, i)}")
    first, each = word(_FIRST), word(_EACH)
    with f.loop(word(_OPERANDS)) as i:
        pair = f.add(f.mul(i, 2), _PAIRS)
        start = f.set(f"load i64, ptr {f.address('i64', '%pointers', word(pair))}")
        place = f.address("i64", words, f.add(first, f.mul(i, each)))
        f.do(f"store i64 {f.add(start, word(f.add(pair, 1)))}, ptr {place}")
    run = [f"ptr {word(_WORK, 'ptr')}", f"ptr {words}", f"i64 {word(_CHUNKS)}", f"i64 {word(_THREADS)}"]
    f.call_outside("ndgrad_run", *run)
    f.returns("i64 0")
    return target.Code(module([f]), symbols=pool.symbols())


def make_builtin(program: RowProgram, launch: _Launch, arrays: Sequence[Any]) -> Callable[..., Any]:
    """Return a builtin that takes arrays like these and returns the tuple of results, or None if an array differs."""
    dtype = arrays[0].dtype
    inputs = [Input(dtype, a.shape) for a in arrays]
    outputs = [Output(dtype, shape) for shape in program.shapes]
    made = len(outputs)
    parts = launch.parts or [(0, n) for n in range(made + len(inputs))]
    # The pointers of a call begin with the inputs, the operands of a kernel with the results.
    pairs = [w for offset, n in parts for w in (n + len(inputs) if n < made else n - made, offset)]
    words = np.frombuffer(launch.packed.pack(*launch.words), np.int64)
    threads = 0 if launch.is_large else 1
    description = np.array(
        [launch.address, words.ctypes.data, words.size, launch.chunks, threads, launch.first, launch.each, len(parts)]
        + pairs,
        np.int64,
    )
    code = _launcher(len(inputs) + made)
    return make_call(
        "fused",
        inputs,
        outputs,
        code.address("launch"),
        [description.ctypes.data],
        release=launch.is_large,
        keeps=(code, launch.code, words, description),
    )


def run_rows(program: RowProgram, arrays: Sequence[Any], launch: _Launch | None = None) -> list[Any]:
    """Return the results of a program by rows, for dense NumPy arrays of one dtype."""
    dtype = arrays[0].dtype
    launch = launch or _make_launch(program, dtype)
    out = [np.empty(shape, dtype) for shape in program.shapes]
    addresses = address_reader()(*out, *arrays)
    if launch.parts is not None:
        addresses = tuple([addresses[n] + offset for offset, n in launch.parts])
    words = launch.words.copy()
    words[launch.first : launch.end : launch.each] = addresses
    threads = allowed.max_threads if launch.is_large else 1
    pool.pool()._run(launch.address, launch.packed.pack(*words), launch.chunks, threads)
    return out
