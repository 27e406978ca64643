"""Kernels for eager ops on a device, for ndgrad._src.arrays.device_kernels.

A kernel is made for a formula and a kind of operands at first use, and then cached. Without a kernel (integers, complex
numbers, mixed dtypes, ops without a formula) the result is None, and CuPy computes it.
"""

from __future__ import annotations

import functools
import math
import sys
import warnings
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from ndgrad._src.arrays import library
from ndgrad._src.compiler.cuda import (
    columns,
    copies,
    cublas,
    cudnn,
    cudnn_backend,
    cusolver,
    extrema,
    fourier,
    full_reductions,
    indexed,
    large_matrices,
    launch,
    moves,
    products,
    scans,
    small_matrices,
    sorting,
)
from ndgrad._src.compiler.cuda.attention import attention_for
from ndgrad._src.compiler.cuda.class_loss import class_loss_for
from ndgrad._src.compiler.cuda.columns import add_along, sum_over
from ndgrad._src.compiler.cuda.copies import cast, copy_into, copy_of, in_order, make_filled, scalar_one
from ndgrad._src.compiler.cuda.elementwise import (
    BYTES,
    LARGEST,
    MOST_DIMS,
    THREADS,
    Kind,
    can_be_written,
    result_dtypes,
    source,
    walked,
)  # fmt: skip
from ndgrad._src.compiler.cuda.in_place import (
    blend_into,
    formula_in_place,
    formula_memory,
    has_formula,
    later_numbers,
    rouse,
)
from ndgrad._src.compiler.cuda.index_faults import check, notes, refuse_later, rows, targets, wrap_index
from ndgrad._src.compiler.cuda.launchers import ARRAY, NUMBER, starter
from ndgrad._src.compiler.cuda.products import summed_product
from ndgrad._src.compiler.cuda.random_draws import draw
from ndgrad._src.compiler.cuda.recurrent import recurrent_for
from ndgrad._src.compiler.cuda.rows import rows_for
from ndgrad._src.compiler.cuda.small_matrices import cholesky_gradient
from ndgrad._src.compiler.cuda.values import COMPUTED
from ndgrad._src.compiler.cuda.windows import windows_for
from ndgrad._src.foundations.bounded_tables import make_room
from ndgrad._src.foundations.kernel_error import KernelError
from ndgrad._src.ops.formulas import Formula, Signature

__all__ = [
    "add_along", "attention_for", "blend_into", "cast", "check", "cholesky_gradient", "class_loss_for", "copy_into", "copy_of", "device_kernels", "draw", "formula_in_place",
    "formula_memory", "forward_of",
    "has_formula", "in_order", "indexed", "later_numbers", "make_filled", "notes", "planned", "prepare_stream", "recurrent_for", "refuse_later", "rouse", "rows", "rows_for",
    "scalar_one", "sum_over",
    "summed_product", "targets", "wrap_index",
    "windows_for",
]  # fmt: skip

#: Maximum number of kinds of operands of one op, and of arrays of one formula, that are remembered.
_MOST = 256


def device_kernels() -> Any:
    """Return this module if kernels can be used in this process."""
    return None if launch.problem() is not None else sys.modules[__name__]


def prepare_stream() -> None:
    """Create the library resources of the current stream, which cannot be created while it is recorded."""
    device = library.device_library.cuda.runtime.getDevice()
    cublas.handle(device)
    notes(device)
    if cusolver.is_in_use():
        cusolver.handle(device)
    if cudnn.front_end() is not None:
        cudnn.handle(device)
    elif cudnn_backend.functions() is not None:
        cudnn_backend.handle(device)


# ----- an op ----------------------------------------------------------------------------------------------------------

#: Ops that equal powers with a constant exponent.
_POWERS = {2: "square", 0.5: "sqrt", -1: "reciprocal", -0.5: "rsqrt", 1: "clone"}


def either_size(name: str) -> Callable[[tuple[Any, ...], dict[str, Any]], Any]:
    """Return the function for an op of small matrices, or of one large one."""
    small, large = getattr(small_matrices, name), getattr(large_matrices, name)

    def run(operands: tuple[Any, ...], settings: dict[str, Any]) -> Any:
        is_large = operands[0].ndim == 2 and len(operands[0]) > small_matrices.LARGEST_ORDER
        return (large if is_large else small)(operands, settings)

    return run


#: Other ops, as functions of operands and settings.
_OWN: dict[str, Callable[[tuple[Any, ...], dict[str, Any]], Any]] = {
    "cast": cast, "clone": copies.clone, "unsafe_view": copies.unsafe_view, "reshape": copies.reshape, "linear": products.linear,
    "matmul": products.matmul, "contract": products.contract, "sum": columns.sum_over, "mean": lambda operands, settings: mean_over(operands, settings),
    "sum_all": full_reductions.sum_all, "mean_all": full_reductions.mean_all,
    "keep": lambda operands, settings: keep(operands, settings),
    "cumsum": scans.cumsum, "cumprod": scans.cumprod, "linear_recurrence": scans.linear_recurrence,
    "logcumsumexp": scans.logcumsumexp, "cummax": scans.cummax, "cummin": scans.cummin,
    "sort": sorting.sort, "argsort": sorting.argsort, "topk": sorting.topk, "kthvalue": sorting.kthvalue,
    "median": sorting.median, "nanmedian": sorting.nanmedian, "median_all": sorting.median_all,
    "nanmedian_all": sorting.nanmedian_all, **extrema.OPS,
    **{name: either_size(name) for name in ("inv", "cholesky", "cofactor", "det", "slogdet", "solve", "solve_triangular")},
    "fft_c2c": fourier.c2c, "fft_r2c": fourier.r2c, "fft_c2r": fourier.c2r, "scale_bins": fourier.scale_bins,
    "im2col": moves.im2col, "col2im": moves.col2im, "tril": moves.tril, "triu": moves.triu,
    "pairs": moves.pairs, "from_pairs": moves.from_pairs, "cross": moves.cross,
    "cat": copies.cat, "stack": copies.stack, "flip": copies.flip, "rot90": copies.rot90, "roll": copies.roll,
    "repeat": copies.repeat, "repeat_interleave": copies.repeat_interleave,
    "slice_backward": copies.slice_backward, "select_backward": copies.select_backward,
}  # fmt: skip


@functools.lru_cache(maxsize=1024)
def forward_of(library: Any, op: Any) -> Callable[[tuple[Any, ...], dict[str, Any]], Any] | None:
    """Return the function that computes an op from its operands and settings, or returns None; None if there is no
    function.
    """
    if op.elementwise and op.outputs == 1 and not op.variadic:
        return Elementwise(library, op.name)
    return _OWN.get(op.name)


class Elementwise:
    """An op of the table on arrays of one floating dtype, booleans, and numbers."""

    def __init__(self, library: Any, op: str) -> None:
        self.library = library
        self.op = op
        #: (classes of operands, settings) -> the launcher, None if there is none, and the settings that it takes as
        #: numbers
        self._known: dict[Any, tuple[Callable[..., Any] | None, list[str]]] = {}

    def __call__(self, operands: tuple[Any, ...], settings: dict[str, Any]) -> Any:
        """Return the result; None if there is no kernel for such operands."""
        key: Any = tuple(map(type, operands))
        if settings:
            key = (*key, *[0.0 if v.__class__ is float else v for v in settings.values()])
        if self.op == "pow" and operands[1].__class__ in (float, int):
            key = (*key, operands[1])
        try:
            found = self._known.get(key)
        except TypeError:  # a setting that has no hash
            return None
        if found is None:
            make_room(self._known, _MOST)
            found = self._known[key] = self._planned(operands, settings)
        start, floats = found
        if start is None:
            return None
        return start(*operands, *[settings[name] for name in floats]) if floats else start(*operands)

    def write(self, array: Any, others: tuple[Any, ...]) -> bool:
        """Write the op of an array and others over the array. Return False if nothing was done.

        This needs operands of one layout and a kernel that has run before. Others may be the array itself, but must not
        overlap it in part.
        """
        if self.op == "add" and array.dtype.char in copies.COUNTS:
            return copies.count_up(array, others)
        begin, end = array.data.ptr, array.data.ptr + array.nbytes
        for x in others:
            if x.__class__ is self.library.ndarray and x.data.ptr != begin and x.data.ptr < end and begin < x.data.ptr + x.nbytes:
                return False
        key = (self.library.ndarray, *map(type, others))
        start = self._known.get(key, (None, None))[0]
        in_place = getattr(start, "in_place", None)
        return in_place is not None and in_place(array, *others)

    def directly(self, otherwise: Callable[..., Any]) -> Callable[..., Any]:
        """Return the op as a function of its operands, with minimal overhead.

        `otherwise` handles operands without a kernel, and operands of a new kind.
        """
        known = self._known
        nothing: tuple[Callable[..., Any] | None, list[str]] = (None, [])

        def run(*operands: Any) -> Any:
            start = known.get((*map(type, operands),), nothing)[0]
            out = None if start is None else start(*operands)
            return otherwise(*operands) if out is None else out

        return run

    def _planned(self, operands: tuple[Any, ...], settings: dict[str, Any]) -> Any:
        op, formula, given = self.op, Formula(), operands
        if op == "pow" and operands[1].__class__ in (float, int) and operands[1] in _POWERS:
            op, given = _POWERS[operands[1]], operands[:1]
        kinds = [_KINDS.get(x.__class__, ARRAY if x.__class__ is self.library.ndarray else "") for x in given]
        floats = [name for name, value in settings.items() if value.__class__ is float]
        if "" in kinds or ARRAY not in kinds:
            return None, []
        symbols = [0.0 if kind == NUMBER else formula.input() for kind in kinds]
        signature = formula.signature([formula.apply(op, *symbols, **settings)])
        if not can_be_written(signature, "f") and not can_be_written(signature, "F"):
            return None, []
        plan, every = Plan(signature), "".join(kinds) + NUMBER * len(floats)
        start: Any = plan.starter(every)
        if kinds[0] == ARRAY and not settings and op == self.op:
            start.in_place = starter(every, plan._alike, plan.run, True)
        return (start if given is operands else lambda x, exponent: start(x)), floats


#: The kinds of operands other than arrays, by their classes.
_KINDS = {float: NUMBER, int: NUMBER}


def mean_over(operands: tuple[Any, ...], settings: dict[str, Any]) -> Any:
    """Return the mean over first and last dimensions; None if it is over others, or left to CuPy."""
    total = None if operands[0].dtype.char in "eE" else sum_over(operands, settings)
    if total is None:
        return None
    return _divide()(total, operands[0].size // total.size)


@functools.lru_cache(maxsize=1)
def _divide() -> Callable[..., Any]:
    formula = Formula()
    return Plan(formula.signature([formula.apply("div", formula.input(), 0.0)])).starter(ARRAY + NUMBER)


def keep(operands: tuple[Any, ...], settings: dict[str, Any]) -> Any:
    """Return x where a mask is true, else 0; None if it is left to CuPy."""
    x, mask = operands
    if mask.dtype.char != "?" or x.__class__ is not mask.__class__:
        return None
    return _keep()(x, mask)


@functools.lru_cache(maxsize=1)
def _keep() -> Callable[..., Any]:
    formula = Formula()
    x, mask = formula.input(), formula.input()
    return Plan(formula.signature([formula.apply("keep", x, mask)])).starter(ARRAY * 2)


# ----- a formula ------------------------------------------------------------------------------------------------------


class Plan:
    """A formula with its compiled kernels, by the dtypes and layouts of its operands."""

    def __init__(self, signature: Signature) -> None:
        self.signature = signature
        self._kernels: dict[Any, tuple[launch.Kernel | None, list[np.dtype[Any]]]] = {}
        #: layouts of operands that differ -> result of `_lay_out`
        self._laid_out: dict[Any, tuple[Any, ...] | None] = {}
        #: launch data of kernels for operands with equal layouts (see ndgrad._src.compiler.cuda.launchers)
        self._alike: dict[Any, tuple[Any, ...]] = {}

    def starter(self, kinds: str) -> Callable[..., Any]:
        """Return the function that runs the formula on operands of these kinds, if it has one result."""
        return starter(kinds, self._alike, self.run)

    def run(self, arrays: Sequence[Any], numbers: Sequence[float]) -> Any:
        """Return the results of the formula for arrays that broadcast together; None if there is no kernel for them."""
        first = arrays[0]
        shape = first.shape
        key: list[Any] = [first.data.device_id]
        pointers, alignment, ordered = [], 0, True
        for a in arrays:
            p = a.data.ptr
            pointers.append(p)
            alignment |= p
            key.append(a.dtype.char)
            if not a._c_contiguous or a.shape != shape:
                ordered = False
        if not ordered:
            return self._broadcast(arrays, pointers, numbers)
        count = first.size
        if not count:
            return None
        key.append(alignment % BYTES == 0)
        found = self._kernels.get(tuple(key))
        if found is None:
            dtype = _common(self.signature, key[1:-1])
            if dtype is None:
                return None
            width = BYTES // _numpy_dtype(dtype).itemsize if key[-1] and dtype in COMPUTED else 1
            found = self._make_kernel(tuple(key), dtype, key[1:-1], 0, width)
            if found[0] is not None and len(found[1]) == 1:
                self._alike[tuple(key)] = (
                    found[0].address, found[0].pack, found[0].grain, found[1][0], found[1][0].itemsize
                )  # fmt: skip
        kernel, outputs = found
        if kernel is None:
            return None
        out = [launch.new(shape, dtype) for dtype in outputs]
        kernel(-(-count // kernel.grain), THREADS, count, *[o.data.ptr for o in out], *pointers, *numbers)
        return out[0] if len(out) == 1 else out

    def _broadcast(self, arrays: Sequence[Any], pointers: list[int], numbers: Sequence[float]) -> Any:
        key = (arrays[0].data.device_id, *[(a.shape, a.strides, a.dtype.char) for a in arrays])
        try:
            found = self._laid_out[key]
        except KeyError:
            make_room(self._laid_out, _MOST)
            found = self._laid_out[key] = self._lay_out(arrays)
        if found is None:
            return None
        kernel, outputs, shape, count, places = found
        out = [launch.new(shape, dtype) for dtype in outputs]
        kernel(-(-count // kernel.grain), THREADS, count, *[o.data.ptr for o in out], *pointers, *numbers, *places)
        return out[0] if len(out) == 1 else out

    def _lay_out(self, arrays: Sequence[Any]) -> tuple[Any, ...] | None:
        """Return the kernel for arrays of such layouts, the dtypes and the shape of its results, its elements, and the
        words that describe the operands' layouts; None if there is none.
        """
        chars = [a.dtype.char for a in arrays]
        dtype = _common(self.signature, chars)
        if dtype is None:
            return None
        try:
            shape = np.broadcast_shapes(*[a.shape for a in arrays])
        except ValueError:
            return None  # CuPy raises the error
        count = math.prod(shape)
        sizes, strides = walked(shape, arrays)
        if not count or count >= LARGEST or len(sizes) > MOST_DIMS:
            return None
        key = (arrays[0].data.device_id, len(sizes), *chars)
        kernel, outputs = self._kernels.get(key) or self._make_kernel(key, dtype, chars, len(sizes), 1)
        return None if kernel is None else (kernel, outputs, shape, count, (*sizes, *[s for row in strides for s in row]))

    def _make_kernel(self, key: tuple[Any, ...], dtype: str, inputs: Sequence[str], dims: int, width: int) -> Any:
        """Return the kernel and the dtypes of its results; (None, []) if it cannot be compiled, with a single warning.
        """
        signature = self.signature
        kind = Kind(signature, dtype, tuple(inputs), dims, width)
        outputs = result_dtypes(signature, dtype)
        # ends with a gap
        if {*inputs} == {"?"} and {*outputs} != {"?"}:
            self._kernels[key] = None, []
            return None, []
        words = f"{1 + len(outputs) + len(inputs)}q{signature.numbers}d{dims}I{len(inputs) * dims}i0q"
        kernel: Any = None
        try:
            kernel = launch.Kernel(source(kind), words, THREADS * width)
        except KernelError as error:
            outputs = []
            warnings.warn(f"{error} CuPy computes it instead.", RuntimeWarning, stacklevel=2)
        if len(self._kernels) >= _MOST:
            self._kernels.clear()
            self._alike.clear()
            self._laid_out.clear()
        found = self._kernels[key] = kernel, [_numpy_dtype(char) for char in outputs]
        return found


def planned(signature: Signature) -> Callable[..., Any] | None:
    """Return the function that runs a formula of one result on its arrays and numbers; None if it cannot be written."""
    if not can_be_written(signature, "f") and not can_be_written(signature, "F"):
        return None
    return Plan(signature).starter(ARRAY * len(signature.inputs) + NUMBER * signature.numbers)


def _common(signature: Signature, chars: Sequence[str]) -> str | None:
    """Return the only floating or complex dtype among operands, for which the formula can be written; None if there are
    several, or others than booleans in addition.
    """
    found = {*chars} - {"?"}
    if not found:
        return "f"  # a formula of truths has truths as its results, or no kernel
    if len(found) != 1:
        return None
    dtype = found.pop()
    if dtype in COMPUTED:
        return dtype if can_be_written(signature, "f") else None
    return dtype if "?" not in chars and can_be_written(signature, dtype) else None


def _numpy_dtype(char: str) -> np.dtype[Any]:
    if char == "E":
        import ml_dtypes  # only needed for its arrays

        return np.dtype(ml_dtypes.bfloat16)
    return np.dtype(char)
