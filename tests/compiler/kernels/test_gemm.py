"""Matrix products of any size and stride equal NumPy's in float64; epilogues, batches, chunks, and processors other than this one."""

from __future__ import annotations

import threading
from functools import cache

import numpy as np
import pytest

pytest.importorskip("llvmlite", reason="native code needs llvmlite")

from tests.compiler.kernels.products import Product, aligned, error_bound
from tests.examples import in_a_long_run

from ndgrad._src.compiler.kernels import gemm
from ndgrad._src.compiler.kernels.tiles import Tile, TileShape, tile_kernel
from ndgrad._src.compiler.native.ir import SIZES, Vector, module
from ndgrad._src.compiler.native.target import assembly, host, processor

DTYPES = ["float32", "float64"]
PLAIN = processor("generic")


@cache
def product(dtype: str, kind: str = "host") -> Product:
    element = {"float32": "float", "float64": "double"}[dtype]
    if kind == "host":
        return Product(dtype)
    if kind == "small blocks":  # small matrices then have several blocks in every dimension
        tile = gemm.tile_shape(host(), element)
        return Product(dtype, plan=gemm.Blocking(tile, 16, 2 * tile.rows, 4 * tile.columns, pack_above=1))
    if kind == "avx2":  # 32-byte vectors, 16 registers
        if host().architecture == "aarch64" or host().vector_bytes < 32:
            pytest.skip("this processor has no such vectors")
        return Product(dtype, processor("haswell"))
    if kind == "plain":  # 16-byte vectors, no multiply-add instruction
        return Product(dtype, PLAIN)
    if kind == "many registers":
        return Product(dtype, PLAIN, plan=gemm.blocking(TileShape(8, 3, Vector(element, PLAIN.lanes(element)))))
    # The tile of AVX-512. LLVM splits vectors that are longer than the registers of this machine.
    return Product(dtype, plan=gemm.blocking(TileShape(8, 3, Vector(element, 64 // SIZES[element]))))


def matrix(r: np.random.Generator, m: int, n: int, dtype: str) -> np.ndarray:
    """A matrix of one of the layouts that views have."""

    def draw(*shape: int) -> np.ndarray:
        return r.standard_normal(shape).astype(dtype)

    layouts = [
        lambda: draw(m, n),
        lambda: draw(n, m).T,
        lambda: draw(m, 2 * n + 1)[:, 1::2],
        lambda: draw(m + 3, n + 5)[3:, 5:],
        lambda: draw(m, n)[::-1, ::-1],
        lambda: draw(n + 1, m + 3).T[3:, 1:],
        lambda: np.broadcast_to(draw(1, n), (m, n)),
        lambda: np.broadcast_to(draw(m, 1), (m, n)),
    ]
    return layouts[r.integers(len(layouts))]()


def compare(run: Product, r: np.random.Generator, m: int, n: int, k: int) -> None:
    dtype = run.dtype
    a, b = matrix(r, m, k, dtype.name), matrix(r, k, n, dtype.name)
    whole = np.full((m + 2, n + 7), 7, dtype)
    c = whole[1 : m + 1, 3 : n + 3]
    accumulate = bool(r.integers(2))
    run(a, b, c, accumulate, order=r if r.integers(2) else None)
    expected = a.astype(np.float64) @ b.astype(np.float64) + (7 if accumulate else 0)
    error, allowed = np.abs(c - expected), error_bound(a, b, dtype) + 8 * np.finfo(dtype).eps * 7
    assert (error <= allowed).all(), (m, n, k, a.strides, b.strides, accumulate)
    c[...] = 7
    assert (whole == 7).all(), f"wrote outside of C: {m} x {k} x {n}"


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("kind", ["host", "small blocks", "plain", "many registers", "avx2", "avx512 tiles"])
def test_products_of_random_sizes_and_strides(dtype: str, kind: str) -> None:
    r = np.random.default_rng(5)
    for turn in range(150 if in_a_long_run() else 50):
        m, n, k = (int(x) for x in r.integers(0, r.choice([4, 20, 70]), 3))
        compare(product(dtype, kind), r, m, n, k * (5 if turn % 7 == 0 else 1))


@pytest.mark.parametrize("dtype", DTYPES)
def test_larger_products_with_several_chunks_and_blocks_of_k(dtype: str) -> None:
    r = np.random.default_rng(6)
    for sizes in [(300, 200, 1100), (97, 1203, 130), (1201, 65, 70), (2, 900, 1300), (900, 3, 1300), (1, 1, 5000), (700, 500, 3)]:
        compare(product(dtype), r, *sizes)


def sizes_packed_ahead(plan: gemm.Blocking) -> list[tuple[int, int, int]]:
    """(M, N, K) of products that pack B ahead: several blocks of k; M much larger than N; several blocks of columns; and
    an M that is barely large enough. No N is a whole number of strips."""
    rows, columns = gemm._AHEAD_TILES * plan.tile.rows, 2 * plan.tile.columns
    sizes = [
        (2 * rows + 22, 5 * columns + 10, 2 * plan.k + 100),
        (7 * rows + 92, columns + 5, 1),
        (rows + 56, plan.columns + 52, 21),
        (rows + 2, 2 * columns + 7, 771),
    ]
    return [(m, n, max(k, -(-gemm._AHEAD // (m * n)))) for m, n, k in sizes]


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("kind", ["host", "plain", "avx512 tiles"])
def test_a_matrix_that_is_packed_ahead_gives_the_same_bits(dtype: str, kind: str) -> None:
    """In any order of chunks, for each layout of it, with blocks of k and columns that are no whole strips."""
    run, r = product(dtype, kind), np.random.default_rng(12)
    for m, n, k in sizes_packed_ahead(run.plan):
        assert run.ahead(m, n, k)
        for _ in range(2):
            a, b = matrix(r, m, k, dtype), matrix(r, k, n, dtype)
            c, other = np.empty((m, n), dtype), np.empty((m, n), dtype)
            run(a, b, c, order=r)
            run(a, b, other)
            np.testing.assert_array_equal(c, other)


@pytest.mark.parametrize(("m", "n"), [(64, 784), (1024, 256), (784, 100), (61, 1000)])
def test_pieces_are_even(m: int, n: int) -> None:
    """As even as tiles allow: two threads that share them end together."""
    run = product("float32")
    for ahead in {0, run.ahead(m, n, 300)}:
        count = run.chunks(m, n, 300, ahead)
        done = np.zeros(count)
        a, b = np.ones((m, 300), "f"), np.ones((300, n), "f")
        for chunk in range(count):
            c = np.zeros((m, n), "f")
            one_chunk(run, a, b, c, chunk, ahead)
            done[chunk] = (c != 0).sum()
        assert done.sum() == m * n
        halves = done[: count // 2].sum(), done[count // 2 :].sum()
        tile = gemm.tile_shape(host(), "float")
        assert count % 2 or abs(halves[0] - halves[1]) <= max(tile.rows * n, tile.columns * m)


def one_chunk(run: Product, a: np.ndarray, b: np.ndarray, c: np.ndarray, chunk: int, ahead: int) -> None:
    (m, k), n = a.shape, b.shape[1]
    (_memory, buffer, _), (_other, packed, _) = aligned(run.bytes(m, n, k)), aligned(ahead)
    if ahead:
        run.pack(n, k, b.ctypes.data, n, 1, packed, 0, run.ahead_chunks(n))
    head = (m, n, k, a.ctypes.data, k, 1, b.ctypes.data, n, 1, c.ctypes.data, n, 0, 0, packed if ahead else None)
    run.run(*head, buffer, chunk, chunk + 1)


@pytest.mark.parametrize("dtype", DTYPES)
def test_every_edge_of_tiles(dtype: str) -> None:
    run, r = product(dtype), np.random.default_rng(7)
    for m in range(1, 14):
        for n in [*range(1, 20), 33]:
            a, b, c = r.standard_normal((m, 9)).astype(dtype), r.standard_normal((9, n)).astype(dtype), np.empty((m, n), dtype)
            run(a, b, c)
            assert (np.abs(c - a.astype(np.float64) @ b) <= error_bound(a, b, dtype)).all(), (m, n)


@pytest.mark.parametrize("dtype", DTYPES)
def test_no_k_gives_zeros_or_what_was_there(dtype: str) -> None:
    run = product(dtype)
    c = np.full((9, 21), np.nan, dtype)
    run(np.empty((9, 0), dtype), np.empty((0, 21), dtype), c)
    assert (c == 0).all()
    c[...] = 3
    run(np.empty((9, 0), dtype), np.empty((0, 21), dtype), c, accumulate=True)
    assert (c == 3).all()


@pytest.mark.parametrize("shape", [(40, 50, 60), (40, 1, 60), (1, 90, 60), (3, 200, 3)])
def test_special_values_reach_only_their_rows_and_columns(shape: tuple[int, int, int]) -> None:
    m, n, k = shape
    r = np.random.default_rng(8)
    a, b = r.standard_normal((m, k)), r.standard_normal((k, n))
    a[m // 2, 1], b[2, n // 2] = np.inf, np.nan
    c = np.empty((m, n))
    product("float64")(a, b, c)
    np.testing.assert_array_equal(np.isnan(c), np.isnan(a @ b))
    np.testing.assert_array_equal(np.isinf(c), np.isinf(a @ b))


def test_batches_of_any_dimensions_with_repeated_matrices() -> None:
    r = np.random.default_rng(9)
    for dtype in DTYPES:
        for m, n, k in [(5, 7, 3), (64, 80, 90), (1, 9, 20)]:
            a = r.standard_normal((4, 1, m, k)).astype(dtype)
            b = r.standard_normal((3, k, n)).astype(dtype)
            a, b = np.broadcast_to(a, (4, 3, m, k)), np.broadcast_to(b, (4, 3, k, n))
            for pieces in (1, 5):
                c = np.empty((4, 3, m, n), dtype)
                product(dtype).batch(a, b, c, pieces)
                assert (np.abs(c - a.astype(np.float64) @ b) <= error_bound(a, b, dtype)).all()


def test_chunks_on_two_threads() -> None:
    run, r = product("float32"), np.random.default_rng(10)
    a, b = r.standard_normal((310, 170)).astype("f"), r.standard_normal((170, 290)).astype("f")
    c = np.empty((310, 290), "f")
    count = run.chunks(310, 290, 170, 0)
    assert count > 1

    def work(begin: int, end: int) -> None:
        buffer = np.empty(run.bytes(310, 290, 170) + 64, np.uint8)
        place = buffer.ctypes.data + -buffer.ctypes.data % 64
        run.run(310, 290, 170, a.ctypes.data, 170, 1, b.ctypes.data, 290, 1, c.ctypes.data, 290, 0, 0, None, place, begin, end)

    threads = [threading.Thread(target=work, args=(i * count // 2, (i + 1) * count // 2)) for i in (0, 1)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert (np.abs(c - a.astype("d") @ b) <= error_bound(a, b, "f")).all()


def _bias_relu_times(tile: Tile) -> None:
    """max(sums + bias[column], 0) * other[row, column]; the context holds both pointers and the row stride of `other` in bytes."""
    f = tile.f
    bias, other = (f.set(f"load ptr, ptr {f.ahead('%context', 8 * n)}") for n in (0, 1))
    stride = f.set(f"load i64, ptr {f.ahead('%context', 16)}")
    offset = f.mul(tile.column, 4)
    for v in range(tile.vectors):
        added = tile.load(f.ahead(bias, offset), v)
        for i in range(tile.rows):
            value = f.set(f"fadd {tile.type} {tile.values[i, v]}, {added}")
            value = f.call(tile.type, f"llvm.maxnum.{tile.type.suffix}", f"{tile.type} {value}", f"{tile.type} zeroinitializer")
            row = f.ahead(f.ahead(other, f.mul(f.add(tile.row, i), stride)), offset)
            tile.values[i, v] = f.set(f"fmul {tile.type} {value}, {tile.load(row, v)}")


def test_epilogue_runs_once_per_element_on_finished_sums() -> None:
    tile = gemm.tile_shape(host(), "float")
    plan = gemm.Blocking(tile, 16, 2 * tile.rows, 4 * tile.columns, pack_above=1)
    run, r = Product("float32", plan=plan, epilogue=_bias_relu_times), np.random.default_rng(11)
    for m, n, k in [(1, 1, 1), (13, 37, 50), (40, 70, 0), (2, 100, 40), (60, 1, 33), (200, 150, 90)]:
        a, b, bias = r.standard_normal((m, k)).astype("f"), r.standard_normal((k, n)).astype("f"), r.standard_normal(n).astype("f")
        other, c = r.standard_normal((m, n)).astype("f"), np.empty((m, n), "f")
        context = np.array([bias.ctypes.data, other.ctypes.data, other.strides[0]], np.int64)
        run(a, b, c, context=context.ctypes.data, order=r)
        expected = np.maximum(a.astype("d") @ b + bias, 0) * other
        assert np.abs(c - expected).max() < 1e-4, (m, n, k)


@pytest.mark.parametrize("near", ["", "p", "k"])
@pytest.mark.parametrize(("name", "spilt"), [("haswell", "ymm"), ("skylake-avx512", "zmm"), ("armv8", "q")])
def test_sums_of_a_whole_tile_stay_in_registers(name: str, spilt: str, near: str) -> None:
    """In the innermost loop of the largest tile nothing is stored: all sums, and what they are made of, have registers."""
    target = processor(name)
    tile = gemm.tile_shape(target, "float")
    if (tile.rows, tile.vectors, False, near) not in gemm._tile_sizes(tile):
        pytest.skip("this processor has no such kernel")
    kernel = tile_kernel("tile", tile.type, tile.rows, tile.vectors, masked=False, near=near)
    text = module([kernel]).replace("internal ", "")
    lines = assembly(text, target, level=0).splitlines()
    multiplies = [n for n, line in enumerate(lines) if "fmadd" in line or "fmla" in line]
    assert len(multiplies) >= tile.rows * tile.vectors
    loop = lines[multiplies[0] : multiplies[-1]]
    moved = [line for line in loop if ("str" in line or "mov" in line) and spilt in line and ("sp" in line)]
    assert not moved, "\n".join(loop)
