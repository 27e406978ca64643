"""Convolution kernels against loops over every tap, and against each other as adjoints."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from itertools import product
from typing import Any, NamedTuple

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import ndgrad as nd
import ndgrad.nn.functional as F
from ndgrad._src.arrays import convolution, correlation, depthwise, native_kernels, threads


@pytest.fixture(autouse=True, scope="module")
def _on_numpy() -> Iterator[None]:
    """Run the tests of this file without native kernels, unless a test asks for them."""
    with native_kernels.kernels_in_use(False):
        yield


class Case(NamedTuple):
    x_shape: tuple[int, ...]
    w_shape: tuple[int, ...]
    stride: tuple[int, ...]
    padding: tuple[int, ...]
    dilation: tuple[int, ...]
    groups: int

    @property
    def settings(self) -> tuple[Any, ...]:
        return self.stride, self.padding, self.dilation, self.groups


def by_loops(x: np.ndarray, w: np.ndarray, case: Case) -> np.ndarray:
    """Compute the definition, output by output and tap by tap. Padding is a bounds check."""
    settings = list(zip(x.shape[2:], w.shape[2:], case.stride, case.padding, case.dilation, strict=True))
    sizes = [(size + 2 * pad - spread * (taps - 1) - 1) // step + 1 for size, taps, step, pad, spread in settings]
    x_grouped = x.reshape(len(x), case.groups, w.shape[1], *x.shape[2:])
    w_grouped = w.reshape(case.groups, len(w) // case.groups, *w.shape[1:])
    out = np.zeros((len(x), case.groups, len(w) // case.groups, *sizes), np.result_type(x, w))
    for place, tap in product(np.ndindex(*sizes), np.ndindex(*w.shape[2:])):
        read = [o * step + k * spread - pad for o, k, (_, _, step, pad, spread) in zip(place, tap, settings, strict=True)]
        if all(0 <= q < size for q, size in zip(read, x.shape[2:], strict=True)):
            out[(..., *place)] += np.einsum("ngc,gmc->ngm", x_grouped[(..., *read)], w_grouped[(..., *tap)])
    return out.reshape(len(x), len(w), *sizes)


@contextmanager
def small_blocks(on: bool) -> Iterator[None]:
    """Give scratch memory for only a few numbers, and work to every thread: small arrays then use the paths of large
    ones.
    """
    with pytest.MonkeyPatch.context() as patch:
        if on:
            patch.setattr(threads, "max_threads", 3)
            for module in (correlation, depthwise):
                patch.setattr(module, "SCRATCH_BYTES", 512)
                patch.setattr(module, "WORK_PER_THREAD", 16)
        yield


@st.composite
def cases(draw: st.DrawFn) -> Case:
    ndim = draw(st.integers(1, 3))
    groups = draw(st.sampled_from([1, 1, 2, 3]))
    channels, outputs = draw(st.integers(1, 3)), draw(st.integers(1, 3))
    x_shape, w_shape = [draw(st.integers(0, 3)), groups * channels], [groups * outputs, channels]
    settings: list[tuple[int, int, int]] = []
    for _ in range(ndim):
        taps, step = draw(st.integers(1, 4 if ndim < 3 else 3)), draw(st.integers(1, 4))
        pad, spread = draw(st.integers(0, 3)), draw(st.integers(1, 3))
        least = max(1, spread * (taps - 1) + 1 - 2 * pad)
        x_shape.append(draw(st.integers(least, least + (6 if ndim < 3 else 2))))
        w_shape.append(taps)
        settings.append((step, pad, spread))
    stride, padding, dilation = zip(*settings, strict=True)
    return Case(tuple(x_shape), tuple(w_shape), stride, padding, dilation, groups)


def normal(shape: tuple[int, ...], dtype: Any, seed: int) -> np.ndarray:
    generator = np.random.default_rng(seed)
    values = generator.standard_normal(shape)
    if np.dtype(dtype).kind == "c":
        values = values + 1j * generator.standard_normal(shape)
    return values.astype(dtype)


@given(cases(), st.booleans(), st.sampled_from([np.float64, np.complex128]))
def test_conv_equals_its_definition(case: Case, small: bool, dtype: Any) -> None:
    x, w = normal(case.x_shape, dtype, 0), normal(case.w_shape, dtype, 1)
    with small_blocks(small):
        out = convolution.conv(x, w, *case.settings)
    expected = by_loops(x, w, case)
    assert out.dtype == dtype
    assert out.flags.c_contiguous
    np.testing.assert_allclose(out, expected, rtol=1e-12, atol=1e-12)


@given(cases(), st.booleans(), st.sampled_from([np.float64, np.complex128]))
def test_the_three_functions_are_adjoints(case: Case, small: bool, dtype: Any) -> None:
    x, w = normal(case.x_shape, dtype, 0), normal(case.w_shape, dtype, 1)
    with small_blocks(small):
        out = convolution.conv(x, w, *case.settings)
        g = normal(out.shape, dtype, 2)
        x_grad = convolution.conv_input_grad(g, w, x.shape, *case.settings)
        w_grad = convolution.conv_weight_grad(g, x, w.shape, *case.settings)
    assert x_grad.shape == x.shape
    assert w_grad.shape == w.shape
    assert x_grad.dtype == w_grad.dtype == dtype
    form = (g * out).sum()  # bilinear, without conjugation
    np.testing.assert_allclose((x * x_grad).sum(), form, rtol=1e-10, atol=1e-10)
    np.testing.assert_allclose((w * w_grad).sum(), form, rtol=1e-10, atol=1e-10)


@pytest.mark.parametrize("small", [False, True])
@pytest.mark.parametrize(
    "case",
    [
        Case((2, 2, 7, 8), (3, 2, 3, 3), (1, 1), (1, 1), (1, 1), 1),
        Case((2, 3, 9, 10), (4, 3, 3, 2), (2, 3), (1, 0), (1, 2), 1),
        Case((2, 4, 9), (6, 2, 4), (3,), (2,), (2,), 2),
        Case((2, 3, 6, 6), (5, 3, 2, 2), (2, 2), (0, 0), (1, 1), 1),
        Case((2, 3, 5, 5), (4, 3, 2, 2), (4, 3), (1, 0), (1, 1), 1),
        Case((2, 4, 6, 7), (8, 1, 3, 3), (2, 1), (1, 1), (1, 2), 4),
        Case((1, 2, 4, 5, 4), (3, 2, 2, 3, 2), (1, 2, 1), (1, 1, 0), (2, 1, 1), 1),
        Case((2, 3, 5, 5), (4, 3, 1, 1), (1, 1), (0, 0), (1, 1), 1),
    ],
    ids=["plain", "strided", "grouped-1d", "tiling", "gaps", "depthwise", "3d", "pointwise"],
)
def test_adjoints_equal_the_matrix_transposed(case: Case, small: bool) -> None:
    """Compare every entry of both adjoints with the dense matrix of the loops. Inner products alone could hide a
    misplaced one.
    """
    x, w = normal(case.x_shape, float, 0), normal(case.w_shape, float, 1)
    g = normal(by_loops(x, w, case).shape, float, 2)
    units = np.eye(x[0].size).reshape(-1, *x.shape[1:])
    columns = by_loops(units, w, case).reshape(len(units), -1)
    x_grad, w_grad = (g.reshape(len(g), -1) @ columns.T).reshape(x.shape), np.empty_like(w)
    for place in np.ndindex(*w.shape):
        unit = np.zeros_like(w)
        unit[place] = 1
        w_grad[place] = (g * by_loops(x, unit, case)).sum()
    with small_blocks(small):
        np.testing.assert_allclose(convolution.conv_input_grad(g, w, x.shape, *case.settings), x_grad, atol=1e-12)
        np.testing.assert_allclose(convolution.conv_weight_grad(g, x, w.shape, *case.settings), w_grad, atol=1e-12)


# With these sizes tiles, deep products, grouped samples and cut planes all occur at the real thresholds.
LARGE = {
    "direct": Case((5, 8, 34, 34), (9, 8, 3, 3), (1, 1), (1, 1), (1, 1), 1),
    "side by side": Case((9, 20, 7, 7), (70, 20, 3, 3), (1, 1), (0, 0), (1, 1), 1),
    "deep": Case((2, 150, 9, 17), (10, 150, 3, 3), (1, 1), (1, 1), (1, 1), 1),
    "plane beyond the cache": Case((1, 16, 120, 90), (8, 16, 3, 3), (2, 1), (1, 1), (1, 1), 1),
    "long signal": Case((1, 3, 40000), (4, 3, 9), (1,), (4,), (1,), 1),
    "depthwise": Case((2, 40, 60, 60), (40, 1, 3, 3), (2, 2), (1, 1), (1, 1), 40),
}


@pytest.mark.parametrize("case", LARGE.values(), ids=LARGE.keys())
def test_large_arrays_agree_with_one_einsum_per_tap(case: Case) -> None:
    x, w = normal(case.x_shape, float, 0), normal(case.w_shape, float, 1)
    padded = np.pad(x, [(0, 0), (0, 0), *((p, p) for p in case.padding)])
    padded = padded.reshape(len(x), case.groups, -1, *padded.shape[2:])
    grouped = w.reshape(case.groups, -1, *w.shape[1:])
    out = convolution.conv(x, w, *case.settings)
    g = normal(out.shape, float, 2)
    g_grouped = g.reshape(len(x), case.groups, -1, *g.shape[2:])
    expected = np.zeros_like(g_grouped)
    x_grad, w_grad = np.zeros_like(padded), np.zeros_like(grouped)
    for tap in np.ndindex(*w.shape[2:]):
        reads = (
            ...,
            *(
                slice(k * d, k * d + (size - 1) * s + 1, s)
                for k, d, s, size in zip(tap, case.dilation, case.stride, out.shape[2:], strict=True)
            ),
        )
        expected += np.einsum("ngc...,gmc->ngm...", padded[reads], grouped[(..., *tap)])
        x_grad[reads] += np.einsum("ngm...,gmc->ngc...", g_grouped, grouped[(..., *tap)])
        flat = padded[reads].reshape(*padded.shape[:3], -1)
        w_grad[(..., *tap)] = np.einsum("ngmo,ngco->gmc", g_grouped.reshape(*g_grouped.shape[:3], -1), flat)
    inside = (..., *(slice(p, p + size) for p, size in zip(case.padding, x.shape[2:], strict=True)))
    np.testing.assert_allclose(out, expected.reshape(out.shape), rtol=1e-10, atol=1e-10)
    np.testing.assert_allclose(
        convolution.conv_input_grad(g, w, x.shape, *case.settings), x_grad[inside].reshape(x.shape), rtol=1e-10, atol=1e-10
    )
    np.testing.assert_allclose(convolution.conv_weight_grad(g, x, w.shape, *case.settings), w_grad.reshape(w.shape), rtol=1e-10, atol=1e-9)


@pytest.mark.parametrize("case", [LARGE["direct"], LARGE["depthwise"]], ids=["direct", "depthwise"])
def test_the_number_of_threads_does_not_change_a_bit(case: Case, monkeypatch: pytest.MonkeyPatch) -> None:
    x, w = normal(case.x_shape, np.float32, 0), normal(case.w_shape, np.float32, 1)
    results = []
    for count in (1, 3):
        monkeypatch.setattr(threads, "max_threads", count)
        out = convolution.conv(x, w, *case.settings)
        w_grad = convolution.conv_weight_grad(out, x, w.shape, *case.settings)
        results.append((convolution.conv_input_grad(out, w, x.shape, *case.settings), w_grad))
    for one, three in zip(*results, strict=True):
        assert np.array_equal(one, three)


def test_inputs_of_any_memory_layout_give_the_same_result() -> None:
    case = Case((3, 4, 6, 5), (4, 2, 3, 3), (2, 1), (1, 1), (1, 1), 2)
    x, w = normal(case.x_shape, float, 0), normal(case.w_shape, float, 1)
    out = convolution.conv(x, w, *case.settings)
    channels_last = np.ascontiguousarray(x.transpose(0, 2, 3, 1)).transpose(0, 3, 1, 2)
    every_other = np.repeat(w, 2, axis=3)[..., ::2]
    backwards = out[..., ::-1].copy()[..., ::-1]
    assert not channels_last.flags.c_contiguous
    np.testing.assert_allclose(convolution.conv(channels_last, every_other, *case.settings), out, rtol=1e-13)
    for given_g, given_w, given_x in [(out, w, x), (backwards, every_other, channels_last)]:
        x_grad = convolution.conv_input_grad(given_g, given_w, x.shape, *case.settings)
        w_grad = convolution.conv_weight_grad(given_g, given_x, w.shape, *case.settings)
        np.testing.assert_allclose((x_grad * x).sum(), (out * out).sum(), rtol=1e-12)
        np.testing.assert_allclose((w_grad * w).sum(), (out * out).sum(), rtol=1e-12)


def test_a_broadcast_input_is_not_written_to() -> None:
    x = np.broadcast_to(np.float64(2.0), (2, 3, 5, 5))
    out = convolution.conv(x, np.ones((1, 3, 3, 3)), (1, 1), (0, 0), (1, 1))
    assert np.array_equal(out, np.full((2, 1, 3, 3), 54.0))


def test_half_precision_sums_in_single_precision() -> None:
    """Sum 4096 ones: a sum in half precision stops at 2048, where adding 1 no longer changes it."""
    x = np.ones((1, 4096, 2), np.float16)
    w = np.ones((1, 4096, 1), np.float16)
    out = convolution.conv(x, w, (1,), (0,), (1,))
    assert out.dtype == np.float16
    assert out.tolist() == [[[4096.0, 4096.0]]]


def test_single_precision_is_as_exact_as_one_sum() -> None:
    """No algorithm trades accuracy for speed: errors are those of a sum of 576 products."""
    case = Case((4, 64, 16, 16), (64, 64, 3, 3), (1, 1), (1, 1), (1, 1), 1)
    x, w = normal(case.x_shape, np.float32, 0), normal(case.w_shape, np.float32, 1)
    out = convolution.conv(x, w, *case.settings)
    exact = convolution.conv(x.astype(float), w.astype(float), *case.settings)
    assert np.abs(out - exact).max() < 3e-6 * np.abs(exact).max()


@pytest.mark.parametrize("dtype", [np.float16, np.float32, np.float64, np.complex64, np.complex128, np.int64])
def test_results_keep_the_dtype(dtype: Any) -> None:
    x, w = np.ones((2, 2, 4, 4), dtype), np.ones((2, 2, 3, 3), dtype)
    out = convolution.conv(x, w, (1, 1), (1, 1), (1, 1))
    assert out.dtype == dtype
    assert out[0, 0, 1, 1] == 18
    assert convolution.conv_input_grad(out, w, x.shape, (1, 1), (1, 1), (1, 1)).dtype == dtype
    assert convolution.conv_weight_grad(out, x, w.shape, (1, 1), (1, 1), (1, 1)).dtype == dtype


def test_mixed_dtypes_promote() -> None:
    out = convolution.conv(np.ones((1, 1, 4), np.float32), np.ones((1, 1, 2), np.complex64), (1,), (0,), (1,))
    assert out.dtype == np.complex64


@pytest.mark.parametrize("outputs", [1, 4], ids=["depthwise", "windows"])
def test_a_value_spreads_no_further_than_its_windows(outputs: int) -> None:
    """Zeros of a padding or of a neighbour must not meet an infinity, because inf * 0 is NaN."""
    x = np.zeros((1, 1, 6, 6))
    x[0, 0, 0, 0] = np.inf
    out = convolution.conv(x, np.ones((outputs, 1, 3, 3)), (1, 1), (1, 1), (1, 1))
    assert np.array_equal(out[0, -1] == np.inf, np.outer([1, 1, 0, 0, 0, 0], [1, 1, 0, 0, 0, 0]).astype(bool))
    assert not np.isnan(out).any()


@pytest.mark.parametrize(
    ("x_shape", "w_shape", "settings", "message"),
    [
        ((1, 2, 5), (1, 2, 3, 3), ((1, 1), (0, 0), (1, 1), 1), "numbers of dimensions"),
        ((1, 2, 5), (1, 3, 3), ((1,), (0,), (1,), 1), "expects 3 channels"),
        ((1, 4, 5), (3, 2, 3), ((1,), (0,), (1,), 2), "equal groups"),
        ((1, 2, 5), (1, 2, 3), ((0,), (0,), (1,), 1), "at least 1"),
        ((1, 2, 5), (1, 2, 4), ((1,), (0,), (2,), 1), "spans 7 positions, but the padded input has 5"),
    ],
)
def test_what_does_not_fit_is_refused(x_shape: Any, w_shape: Any, settings: Any, message: str) -> None:
    with pytest.raises(ValueError, match=message):
        convolution.conv(np.ones(x_shape), np.ones(w_shape), *settings)


def test_a_cotangent_of_another_shape_is_refused() -> None:
    with pytest.raises(ValueError, match="cotangent has shape"):
        convolution.conv_input_grad(np.ones((1, 1, 4)), np.ones((1, 1, 3)), (1, 1, 5), (1,), (0,), (1,))


def test_an_error_in_a_helping_thread_reaches_the_caller(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(threads, "max_threads", 2)

    def worker(blocks: Iterator[int]) -> None:
        for block in blocks:
            if block:
                raise RuntimeError(f"block {block}")

    with pytest.raises(RuntimeError, match="block"):
        threads.share(range(100), worker, threads=2)


def test_each_block_is_taken_once(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(threads, "max_threads", 4)
    taken: list[int] = []
    threads.share(range(1000), taken.extend, threads=4)
    assert sorted(taken) == list(range(1000))


SMALL = {
    "plain": (lambda x, w: F.conv2d(x, w), [(2, 3, 5, 4), (4, 3, 2, 3)]),
    "padding, stride and dilation": (
        lambda x, w: F.conv2d(x, w, stride=(2, 1), padding=(2, 1), dilation=(1, 2)),
        [(1, 2, 7, 6), (3, 2, 3, 2)],
    ),
    "groups": (lambda x, w: F.conv1d(x, w, groups=2, padding=1), [(3, 4, 5), (6, 2, 3)]),
    "each channel": (lambda x, w: F.conv1d(x, w, groups=3), [(1, 3, 4), (3, 1, 2)]),
    "one pixel": (lambda x, w: F.conv2d(x, w), [(1, 1, 1, 1), (1, 1, 1, 1)]),
    "volume": (lambda x, w: F.conv3d(x, w, padding=1), [(1, 2, 3, 2, 4), (2, 2, 2, 3, 2)]),
    "transposed": (lambda x, w: F.conv_transpose2d(x, w, stride=2, padding=1), [(2, 3, 3, 4), (3, 2, 4, 3)]),
    "transposed with gaps": (lambda x, w: F.conv_transpose1d(x, w, stride=4), [(1, 2, 3), (2, 3, 2)]),
    "channels last": (lambda x, w: F.conv2d(x.permute(0, 3, 1, 2), w), [(2, 5, 4, 3), (4, 3, 2, 3)]),
    "reversed weight": (lambda x, w: F.conv2d(x, w.flip(2).mT), [(2, 3, 5, 4), (4, 3, 2, 3)]),
    "unfold": (
        lambda x: F.unfold(x, (2, 3), dilation=(2, 1), padding=(1, 2), stride=(1, 2)), [(2, 3, 6, 5)],
    ),
    "fold": (
        lambda x: F.fold(x, (4, 5), (2, 3), dilation=(2, 1), padding=(1, 2), stride=(1, 2)), [(2, 18, 16)],
    ),
    "fold of one sample": (lambda x: F.fold(x, (3, 3), 2), [(8, 4)]),
}  # fmt: skip


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
@pytest.mark.parametrize("name", SMALL)
def test_kernels_for_small_images_give_what_numpy_gives(name, dtype):
    pytest.importorskip("llvmlite")
    function, shapes = SMALL[name]
    r = np.random.default_rng(0)
    arrays = [r.standard_normal(shape) for shape in shapes]

    def run(dtype):
        tensors = [nd.tensor(a.astype(dtype), requires_grad=True) for a in arrays]
        y = function(*tensors)
        y.backward(nd.tensor(np.random.default_rng(1).standard_normal(tuple(y.shape)).astype(dtype)))
        return [y.detach().numpy(), *(t.grad.numpy() for t in tensors)]

    with native_kernels.kernels_in_use(True):
        found = run(dtype)
    with native_kernels.kernels_in_use(False):
        expected = run(np.float64)
    for a, b in zip(found, expected, strict=True):
        assert a.dtype == dtype
        np.testing.assert_allclose(a, b, rtol=0, atol=64 * np.finfo(dtype).eps * np.abs(b).max())


def test_kernels_for_small_images_keep_nan_and_infinity_in_their_windows():
    x = np.zeros((1, 1, 6))
    x[0, 0, 1], x[0, 0, 5] = np.nan, np.inf
    w = np.ones((1, 1, 2))
    pytest.importorskip("llvmlite")
    for wanted in (True, False):
        with native_kernels.kernels_in_use(wanted):
            out = convolution.conv(x, w, (1,), (0,), (1,))
        np.testing.assert_array_equal(out, [[[np.nan, np.nan, 0, 0, np.inf]]])
