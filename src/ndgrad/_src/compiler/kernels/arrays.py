"""The kernels on NumPy arrays: products, convolutions and pooling on the threads of the pool.

Arrays are float32 or float64, all of one dtype and contiguous (except for products, which take any strides). Outputs
are new. Each function means the same as its namesake in ndgrad._src.arrays, and expects settings that were checked
there. `available(dtype)` is True if they can be used here: llvmlite is installed, and the kernels agree with NumPy on
this machine.
"""

from __future__ import annotations

import ctypes
import functools
import struct
import threading
from collections.abc import Sequence
from math import prod
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from ndgrad._src.arrays import threads as allowed
from ndgrad._src.compiler.kernels import convolution, gemm, pooling, slices, windows
from ndgrad._src.compiler.kernels.tiles import TileShape, tile_shape
from ndgrad._src.compiler.native import pool, target
from ndgrad._src.compiler.native.calls import address_reader
from ndgrad._src.compiler.native.ir import TYPES, module
from ndgrad._src.compiler.native.phases import phase
from ndgrad._src.compiler.native.selftest import difference, problem
from ndgrad._src.foundations.bounded_tables import make_room
from ndgrad._src.foundations.locks import make_lock

Array = NDArray[Any]

_LIBRARIES = {"product": gemm.library, "conv": convolution.library, "pool": pooling.library, "slices": slices.library}


_codes: dict[tuple[str, str], target.Code] = {}
_making = make_lock()


def code(kind: str, element: str) -> target.Code:
    """Return the compiled library of one kind of kernels ("product", "conv", "pool", "slices") for an LLVM type."""
    made = _codes.get((kind, element))
    if made is None:
        with phase("LLVM"), _making:  # a second thread waits for the first one's library
            made = _codes.get((kind, element))
            if made is None:
                made = target.Code(module(_LIBRARIES[kind](kind, element, target.host())), level=0)
                _codes[kind, element] = made
    return made


@functools.cache
def _address(kind: str, element: str, name: str) -> int:
    return code(kind, element).address(name)


@functools.cache
def tile(element: str) -> TileShape:
    """Return the tile of an LLVM type on this machine."""
    return tile_shape(target.host(), element)


@functools.cache
def available(dtype: np.dtype[Any], kinds: tuple[str, ...] = ("product", "conv")) -> bool:
    """True if the kernels of these kinds can be used for a dtype on this machine. Their results are compared with NumPy
    once.
    """
    if not target.available() or dtype not in (np.float32, np.float64) or not dtype.isnative:
        return False
    element = TYPES[dtype.name]
    checks = {"product": _check_products, "conv": _check_convolutions, "pool": _check_pooling, "slices": _check_slices}
    return all(problem(kind, code(kind, element), functools.partial(checks[kind], dtype)) is None for kind in kinds)


# ----- memory and threads -----

_own = threading.local()


class _Scratch(NamedTuple):
    """Memory of a thread: its size, and the address of its first cache line."""

    memory: Array
    bytes: int
    address: int


def keep_scratch(name: str, count: int) -> int:
    """Return the address of `count` bytes, aligned to a cache line, that this thread keeps. Fresh memory costs more
    than a small product.
    """
    held: _Scratch | None = getattr(_own, name, None)
    if held is None or held.bytes < count:
        memory = np.empty(count + 64, np.uint8)
        at = memory.ctypes.data
        held = _Scratch(memory, count, int(at + -at % 64))
        setattr(_own, name, held)
    return held.address


def _threads(chunks: int) -> int:
    return 1 if chunks == 1 else max(1, min(chunks, allowed.max_threads))


_THREE, _SIX, _SEVEN = (struct.Struct(f"{n}q").pack for n in (3, 6, 7))


def _run(kind: str, element: str, name: str, words: Sequence[int], chunks: int, scratch: int = -1) -> None:
    """Run chunks of a kernel on the pool. With `scratch`, each worker has so many bytes, whose address precedes the
    last word.
    """
    if chunks <= 0:
        return
    threads = _threads(chunks)
    if scratch >= 0:
        step = -(-scratch // 128) * 128
        words = [*words, keep_scratch("buffer", threads * step), step]
    argument = (ctypes.c_int64 * len(words))(*words)
    pool.run(_address(kind, element, f"{name}_work"), ctypes.addressof(argument), chunks, threads)


# ----- products -----


class ProductSizes(NamedTuple):
    """The division of a product into pieces."""

    chunks: int
    #: the numbers of chunks along its rows and its columns
    down: int
    across: int
    #: bytes of the buffer of each worker
    buffer: int
    #: bytes of a matrix that is packed ahead (0: it is not), and the pieces of that packing
    ahead: int
    ahead_chunks: int


@functools.lru_cache(maxsize=4096)
def product_sizes(element: str, m: int, n: int, k: int, ahead: bool) -> ProductSizes:
    """Return the division of a product; `ahead`: True if B may be packed ahead."""

    def ask(what: str, *sizes: int) -> int:
        function = code("product", element).function(f"product_{what}", ctypes.c_int64, *[ctypes.c_int64] * len(sizes))
        return int(function(*sizes))

    packed = ask("ahead", m, n, k) if ahead else 0
    chunks, down, across = (ask(what, m, n, k, packed) for what in ("chunks", "down", "across"))
    return ProductSizes(chunks, down, across, ask("bytes", m, n, k), packed, ask("ahead_chunks", n))


def matmul(a: Array, b: Array, out: Array | None = None, accumulate: bool = False) -> Array:
    """Return the product of matrices (..., M, K) and (..., K, N), like np.matmul; `out` has contiguous rows."""
    (m, k), n = a.shape[-2:], b.shape[-1]
    if b.shape[-2] != k or a.dtype != b.dtype:
        raise ValueError(
            f"the product of matrices {a.shape} {a.dtype} and {b.shape} {b.dtype}: "
            "the inner sizes or the dtypes differ. Transpose or convert one of them first. [nd-compiler]"
        )
    lead = np.broadcast_shapes(a.shape[:-2], b.shape[:-2])
    if out is None:
        out = np.empty((*lead, m, n), a.dtype)
    a, b = np.broadcast_to(a, (*lead, m, k)), np.broadcast_to(b, (*lead, k, n))
    element, size = TYPES[a.dtype.name], a.itemsize
    sizes = product_sizes(element, m, n, k, not lead and allowed.max_threads > 1)
    (ra, ca), (rb, cb) = (tuple(s // size for s in x.strides[-2:]) for x in (a, b))
    words = [
        m,
        n,
        k,
        a.ctypes.data,
        ra,
        ca,
        b.ctypes.data,
        rb,
        cb,
        out.ctypes.data,
        out.strides[-2] // size,
        int(accumulate),
        0,
        keep_scratch("packed", sizes.ahead) if sizes.ahead else 0,
    ]
    if sizes.ahead:
        _run("product", element, "product_ahead_pack", [n, k, *words[6:9], words[-1]], sizes.ahead_chunks)
    if not lead:
        _run("product", element, "product", words, sizes.chunks, sizes.buffer)
        return out
    lines = [[length, *(x.strides[d] // size for x in (a, b, out))] for d, length in enumerate(lead)]
    table = np.array(lines, np.int64)
    chunks = sizes.chunks * prod(lead)
    _run("product", element, "product_batch", [len(lead), table.ctypes.data, *words], chunks, sizes.buffer)
    return out


class _Product(NamedTuple):
    """A product of given sizes and strides."""

    address: int
    #: The words before and between the addresses of the operands.
    sizes: tuple[int, int, int]
    steps: tuple[int, int, int, int, int]
    division: ProductSizes
    threads: int
    #: Bytes from the buffer of one worker to the next.
    buffer_step: int


_products: dict[Any, _Product | None] = {}
#: Maximum number of launches that are kept.
_MOST_PRODUCTS = 4096
_WORDS, _AHEAD_WORDS = struct.Struct("16q").pack, struct.Struct("6q").pack


def multiply(a: Array, b: Array) -> Array | None:
    """Return the product of two matrices of one floating dtype with any strides; None if there are no kernels for them.

    Such a call starts the pool some two microseconds after its beginning.
    """
    key = a.dtype.char, a.shape, b.shape, a.strides, b.strides, allowed.max_threads
    try:
        launch = _products[key]
    except KeyError:
        make_room(_products, _MOST_PRODUCTS)
        launch = _products[key] = _make_product(a, b)
    if launch is None:
        return None
    m, n, _ = launch.sizes
    out = np.empty((m, n), a.dtype)
    at_a, at_b, at_out = address_reader()(a, b, out)
    division, (ra, ca, rb, cb, rc) = launch.division, launch.steps
    packed = 0
    run = pool.pool()._run
    if division.ahead:
        packed = keep_scratch("packed", division.ahead)
        words = _AHEAD_WORDS(n, launch.sizes[2], at_b, rb, cb, packed)
        run(_ahead_address(a.dtype), words, division.ahead_chunks, allowed.max_threads)
    buffer = keep_scratch("buffer", launch.threads * launch.buffer_step)
    words = _WORDS(*launch.sizes, at_a, ra, ca, at_b, rb, cb, at_out, rc, 0, 0, packed, buffer, launch.buffer_step)
    run(launch.address, words, division.chunks, launch.threads)
    return out


def _make_product(a: Array, b: Array) -> _Product | None:
    if not available(a.dtype, ("product",)):
        return None
    (m, k), n, size = a.shape, b.shape[1], a.itemsize
    strides = (*a.strides, *b.strides)
    if any(s % size for s in strides):
        return None
    element = TYPES[a.dtype.name]
    division = product_sizes(element, m, n, k, allowed.max_threads > 1)
    threads = 1 if division.chunks == 1 else max(1, min(division.chunks, allowed.max_threads))
    ra, ca, rb, cb = (s // size for s in strides)
    address = code("product", element).address("product_work")
    return _Product(address, (m, n, k), (ra, ca, rb, cb, n), division, threads, -(-division.buffer // 128) * 128)


def _ahead_address(dtype: np.dtype[Any]) -> int:
    return code("product", TYPES[dtype.name]).address("product_ahead_pack_work")


# ----- convolutions -----


@functools.lru_cache(maxsize=1024)
def window_table(
    what: str,
    sizes: tuple[int, int, int, int],
    axes: tuple[windows.Axis, ...],
    element: str,
    size: int,
    in_last: bool = False,
    out_last: bool = False,
) -> windows.Table:
    """Return the table of a convolution ("forward"), its "input gradient" or its "weight gradient", for images in
    either order.
    """
    shape = tile(element)
    make = windows.input_gradient if what == "input gradient" else windows.forward
    of_weight = shape.rows if what == "weight gradient" else 0
    return windows.table(make(*sizes, axes), shape.type.lanes, shape.columns, size, in_last, out_last, of_weight)


def conv_sizes(x_shape: Sequence[int], w_shape: Sequence[int], groups: int) -> tuple[int, int, int, int]:
    """Return the number of images and groups, and the channels of a group in and out."""
    return (x_shape[0], groups, w_shape[1], w_shape[0] // groups)


def conv_axes(
    x: Sequence[int], w: Sequence[int], stride: Sequence[int], padding: Sequence[int], dilation: Sequence[int]
) -> tuple[windows.Axis, ...]:
    """Return the windows of a convolution along each axis, from the shapes of images and weight."""
    settings = zip(x[2:], w[2:], stride, padding, dilation, strict=True)
    return tuple(windows.Axis(n, k, s, d, p, (n + 2 * p - d * (k - 1) - 1) // s + 1) for n, k, s, p, d in settings)


#: Minimum number of multiplications for a second thread.
_SHARED = 1 << 18


class _Convolution(NamedTuple):
    """A convolution or one of its adjoints for one combination of shapes and settings."""

    table: windows.Table
    #: The address of the table.
    words: int
    #: The shape of the result.
    shape: tuple[int, ...]
    #: Addresses of the two functions, and their chunks.
    first: int
    second: int
    first_chunks: int
    second_chunks: int
    #: Bytes of packed weights or of partial sums, and of the buffer of a thread.
    packed: int
    scratch: int
    #: True if the work is shared among threads.
    is_shared: bool

    def threads(self, chunks: int) -> int:
        return _threads(chunks) if self.is_shared else 1


@functools.lru_cache(maxsize=1024)
def _convolution(
    what: str,
    x_shape: tuple[int, ...],
    w_shape: tuple[int, ...],
    settings: tuple[tuple[int, ...], tuple[int, ...], tuple[int, ...], int],
    dtype: np.dtype[Any],
) -> _Convolution:
    axes, element = conv_axes(x_shape, w_shape, *settings[:3]), TYPES[dtype.name]
    table = window_table(what, conv_sizes(x_shape, w_shape, settings[3]), axes, element, dtype.itemsize)
    if what == "weight gradient":
        shape, names = w_shape, ("conv_weight_gradient", "conv_weight_sum")
        chunks = (table.chunks, weight_sum_chunks(w_shape, element))
    else:
        forward = (x_shape[0], w_shape[0], *[a.out for a in axes])
        shape, names = (forward if what == "forward" else x_shape), ("conv_weights", "conv_correlate")
        chunks = (table.strips, table.chunks)
    first, second = (_address("conv", element, f"{name}_work") for name in names)
    words, size = table.words.ctypes.data, dtype.itemsize
    is_shared = x_shape[0] * prod(a.out for a in axes) * prod(w_shape) >= _SHARED
    bytes = (table.packed * size, table.scratch * size)
    return _Convolution(table, words, shape, first, second, *chunks, *bytes, is_shared)


def conv(
    x: Array, w: Array, stride: Sequence[int], padding: Sequence[int], dilation: Sequence[int], groups: int = 1
) -> Array:
    """Cross-correlate x (N, C, *S) with w (M, C / groups, *K), giving (N, M, *O)."""
    settings = (tuple(stride), tuple(padding), tuple(dilation), groups)
    if not (x.size and w.size):
        axes = conv_axes(x.shape, w.shape, *settings[:3])
        return np.zeros((x.shape[0], w.shape[0], *[a.out for a in axes]), x.dtype)
    return _correlate(x, w, _convolution("forward", x.shape, w.shape, settings, x.dtype))


def conv_input_grad(
    g: Array,
    w: Array,
    x_shape: Sequence[int],
    stride: Sequence[int],
    padding: Sequence[int],
    dilation: Sequence[int],
    groups: int = 1,
) -> Array:
    """Return the adjoint of `conv` in x: g (N, M, *O) and w give (N, C, *S)."""
    shape = tuple(x_shape)
    if not (g.size and w.size and prod(shape)):
        return np.zeros(shape, g.dtype)
    settings = (tuple(stride), tuple(padding), tuple(dilation), groups)
    return _correlate(g, w, _convolution("input gradient", shape, w.shape, settings, g.dtype))


def _correlate(x: Array, w: Array, plan: _Convolution) -> Array:
    out = np.empty(plan.shape, x.dtype)
    if not out.size:
        return out
    packed, words = keep_scratch("packed", plan.packed), plan.words
    from_x, from_w, to = address_reader()(x, w, out)
    run = pool.pool()._run
    run(plan.first, _THREE(words, from_w, packed), plan.first_chunks, plan.threads(plan.first_chunks))
    threads = plan.threads(plan.second_chunks)
    step = -(-plan.scratch // 128) * 128
    buffer = keep_scratch("buffer", threads * step)
    run(plan.second, _SEVEN(words, from_x, packed, to, 0, buffer, step), plan.second_chunks, threads)
    return out


def conv_weight_grad(
    g: Array,
    x: Array,
    w_shape: Sequence[int],
    stride: Sequence[int],
    padding: Sequence[int],
    dilation: Sequence[int],
    groups: int = 1,
) -> Array:
    """Return the adjoint of `conv` in w: g (N, M, *O) and x (N, C, *S) give (M, C / groups, *K)."""
    shape = tuple(w_shape)
    if not (x.size and g.size and prod(shape)):
        return np.zeros(shape, x.dtype)
    settings = (tuple(stride), tuple(padding), tuple(dilation), groups)
    plan = _convolution("weight gradient", x.shape, shape, settings, x.dtype)
    out = np.empty(shape, x.dtype)
    parts, words = keep_scratch("packed", plan.packed), plan.words
    from_x, from_g, to = address_reader()(x, g, out)
    run, threads = pool.pool()._run, plan.threads(plan.first_chunks)
    step = -(-plan.scratch // 128) * 128
    buffer = keep_scratch("buffer", threads * step)
    run(plan.first, _SIX(words, from_x, from_g, parts, buffer, step), plan.first_chunks, threads)
    run(plan.second, _THREE(words, parts, to), plan.second_chunks, plan.threads(plan.second_chunks))
    return out


def weight_sum_chunks(w_shape: Sequence[int], element: str) -> int:
    """Return the number of chunks in which the parts of a weight's gradient are added."""
    return -(-prod(w_shape[1:]) // tile(element).type.lanes)


# ----- pooling -----


@functools.lru_cache(maxsize=1024)
def _pooling_table(axes: tuple[windows.Axis, ...]) -> NDArray[np.int64]:
    return pooling.pooling_table(axes)


def max_pool(x: Array, axes: Sequence[windows.Axis]) -> tuple[Array, NDArray[np.int64]]:
    """Return the maxima of x (N, C, *S) over windows, and their places in the planes."""
    shape = (*x.shape[:2], *(a.out for a in axes))
    out, places = np.empty(shape, x.dtype), np.empty(shape, np.int64)
    words = [_pooling_table(tuple(axes)).ctypes.data, x.ctypes.data, out.ctypes.data, places.ctypes.data]
    _run("pool", TYPES[x.dtype.name], "pool_max", words, prod(x.shape[:2]) if out.size else 0)
    return out, places


def max_pool_grad(g: Array, places: NDArray[np.int64], axes: Sequence[windows.Axis]) -> Array:
    """Add each g (N, C, *O) at its place, giving (N, C, *S)."""
    out = np.empty((*g.shape[:2], *(a.size for a in axes)), g.dtype)
    words = [_pooling_table(tuple(axes)).ctypes.data, g.ctypes.data, places.ctypes.data, out.ctypes.data]
    _run("pool", TYPES[g.dtype.name], "pool_max_gradient", words, prod(g.shape[:2]) if out.size else 0)
    return out


def avg_pool(x: Array, axes: Sequence[windows.Axis], counts: NDArray[np.int64]) -> Array:
    """Return the means of x (N, C, *S) over windows, with the divisors of pooling.average_counts."""
    out = np.empty((*x.shape[:2], *(a.out for a in axes)), x.dtype)
    words = [_pooling_table(tuple(axes)).ctypes.data, counts.ctypes.data, x.ctypes.data, out.ctypes.data]
    _run("pool", TYPES[x.dtype.name], "pool_average", words, prod(x.shape[:2]) if out.size else 0)
    return out


def avg_pool_grad(g: Array, axes: Sequence[windows.Axis], counts: NDArray[np.int64]) -> Array:
    """Return the adjoint of `avg_pool`: g (N, C, *O) gives (N, C, *S)."""
    out = np.empty((*g.shape[:2], *(a.size for a in axes)), g.dtype)
    words = [_pooling_table(tuple(axes)).ctypes.data, counts.ctypes.data, g.ctypes.data, out.ctypes.data]
    _run("pool", TYPES[g.dtype.name], "pool_average_gradient", words, prod(g.shape[:2]) if out.size else 0)
    return out


def pooling_counts(counts: Sequence[NDArray[np.intp]], override: int | None = None) -> NDArray[np.int64]:
    """Return the divisors of averages, from the counts of each axis for each of its outputs, or a given number for all.
    """
    return pooling.average_counts(counts, override)


# ----- slices -----


def take_slices(x: Array, index: NDArray[np.int64], dim: int = 0) -> Array:
    """Return the slices of x along a dimension that an index within it names."""
    out = np.empty((*x.shape[:dim], *index.shape, *x.shape[dim + 1 :]), x.dtype)
    if not out.size:
        return out
    sizes = slices.slices_table(x.shape, dim, index.size, x.itemsize)
    words = [sizes.table.ctypes.data, x.ctypes.data, index.ctypes.data, out.ctypes.data]
    _run("slices", TYPES[x.dtype.name], "slices_take", words, sizes.take)
    return out


def put_slices(
    x: Array | None, g: Array, index: NDArray[np.int64], length: int, dim: int = 0, adds: bool = True
) -> Array:
    """Return x, or zeros with `length` along a dimension, with the slices of g added or written in the order of the
    index.
    """
    out = np.empty((*g.shape[:dim], length, *g.shape[dim + index.ndim :]), g.dtype)
    if not (out.size and g.size):
        return np.zeros_like(out) if x is None else x.copy()
    element, start = TYPES[g.dtype.name], 0 if x is None else x.ctypes.data
    sizes = slices.slices_table(out.shape, dim, index.size, g.itemsize, adds)
    table = sizes.table.ctypes.data
    _run("slices", element, "slices_begin", [table, start, out.ctypes.data], sizes.begin)
    _run("slices", element, "slices_put", [table, g.ctypes.data, index.ctypes.data, out.ctypes.data], sizes.put)
    return out


# ----- checks before the first use -----


def _check_products(dtype: np.dtype[Any], library: target.Code) -> str | None:
    r = np.random.default_rng(0)
    for m, n, k in [(1, 1, 1), (13, 37, 50), (61, 1, 90), (2, 300, 40), (150, 70, 600), (7, 9, 0)]:
        a, b = r.standard_normal((m, k)).astype(dtype), r.standard_normal((n, k)).astype(dtype).T
        for left, right in ((a, b), (np.asfortranarray(a), np.ascontiguousarray(b))):
            expected = (left.astype(np.float64) @ right).astype(dtype)
            wrong = difference(
                f"a product of {m} x {k} and {k} x {n}", matmul(left, right), expected, _tolerance(dtype, k)
            )
            if wrong is not None:
                return wrong
    return None


def _check_convolutions(dtype: np.dtype[Any], library: target.Code) -> str | None:
    r = np.random.default_rng(0)
    x, w = r.standard_normal((2, 5, 9, 11)).astype(dtype), r.standard_normal((7, 5, 3, 2)).astype(dtype)
    settings = ((2, 1), (1, 1), (1, 2))
    padded = np.pad(x.astype(np.float64), ((0, 0), (0, 0), (1, 1), (1, 1)))
    patches = np.lib.stride_tricks.sliding_window_view(padded, (3, 3), (2, 3))[:, :, ::2, :, :, ::2]
    expected = np.einsum("ncyxij,ocij->noyx", patches, w)
    g = r.standard_normal(expected.shape).astype(dtype)
    # The adjoint in x: <conv(x, w), g> = <x, input_gradient(g, w)>.
    adjoint = np.sum(conv_input_grad(g, w, x.shape, *settings).astype(np.float64) * x)
    results = {
        "convolution": (conv(x, w, *settings), expected),
        "gradient of a convolution's weight": (
            conv_weight_grad(g, x, w.shape, *settings),
            np.einsum("ncyxij,noyx->ocij", patches, g),
        ),
        "gradient of a convolution's input": (adjoint[None], np.sum(expected * g)[None]),
    }
    for name, (found, wanted) in results.items():
        wrong = difference(f"a {name}", found, wanted.astype(found.dtype), _tolerance(dtype, 300))
        if wrong is not None:
            return wrong
    return None


def _check_pooling(dtype: np.dtype[Any], library: target.Code) -> str | None:
    r = np.random.default_rng(0)
    x = r.integers(-9, 9, (2, 11, 9, 23)).astype(dtype)
    axes = [windows.Axis(9, 2, 2, 1, 0, 4), windows.Axis(23, 3, 1, 1, 1, 23)]
    padded = np.pad(x, ((0, 0), (0, 0), (0, 0), (1, 1)), constant_values=-100)
    expected = np.lib.stride_tricks.sliding_window_view(padded, (2, 3), (2, 3))[:, :, ::2].max((4, 5))
    found, places = max_pool(x, axes)
    at_places = np.take_along_axis(x.reshape(2, 11, -1), places.reshape(2, 11, -1), 2).reshape(found.shape)
    summed = np.zeros((22, x[0, 0].size), dtype)
    np.add.at(summed, (np.repeat(np.arange(22), places[0, 0].size), places.reshape(-1)), found.reshape(-1))
    results = {
        "maximum of windows": (found, expected),
        "maximum's place": (at_places, expected),
        "gradient of maxima": (max_pool_grad(found, places, axes), summed.reshape(x.shape)),
    }
    for name, (given, wanted) in results.items():
        wrong = difference(f"a {name}", given, wanted, 0.0)
        if wrong is not None:
            return wrong
    return None


def _check_slices(dtype: np.dtype[Any], library: target.Code) -> str | None:
    r = np.random.default_rng(0)
    x, index = r.integers(-9, 9, (3, 40, 37)).astype(dtype), r.integers(0, 40, 200)
    g = r.integers(-9, 9, (3, 200, 37)).astype(dtype)
    added = np.zeros((40, 3, 37), dtype)
    np.add.at(added, index, g.swapaxes(0, 1))
    written = x.copy()
    for place, j in enumerate(index):
        written[:, j] = g[:, place]
    wrong = difference("slices of an array", take_slices(x, index, 1), x[:, index], 0.0)
    wrong = wrong or difference("sums of slices", put_slices(None, g, index, 40, 1), added.swapaxes(0, 1), 0.0)
    return wrong or difference("slices put somewhere", put_slices(x, g, index, 40, 1, False), written, 0.0)


def _tolerance(dtype: np.dtype[Any], terms: int) -> float:
    return float(8 * np.finfo(dtype).eps * (terms + 8))
