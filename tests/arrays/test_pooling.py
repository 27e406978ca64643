"""Pooling kernels against loops over windows, and averages against their adjoints."""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
import pytest
from hypothesis import assume, given
from hypothesis import strategies as st

from ndgrad._src.arrays import pooling, threads
from ndgrad._src.arrays.taps import transposed, weighted_sum
from ndgrad._src.ops.table import table
from ndgrad._src.ops.vocabulary import load_all

load_all()


def adaptive_avg_pool(x: Any, outs: tuple[int, ...]) -> Any:
    return table["adaptive_avg_pool"].forward_for(np)(x, sizes=outs)


def adaptive_avg_pool_grad(g: Any, shape: tuple[int, ...]) -> Any:
    return weighted_sum(np, g, tuple(range(2, g.ndim)), transposed(pooling.adaptive_taps(shape, g.shape[2:])))


class Case(NamedTuple):
    shape: tuple[int, ...]
    kernel: tuple[int, ...]
    stride: tuple[int, ...]
    padding: tuple[int, ...]
    dilation: tuple[int, ...]
    ceil_mode: bool

    @property
    def window(self) -> tuple[Any, ...]:
        return self.kernel, self.stride, self.padding, self.dilation, self.ceil_mode

    def sizes(self) -> tuple[int, ...]:
        """Count outputs one by one: a window must fit the padded axis, or in ceil mode begin before the padding at its
        end.
        """
        sizes = []
        for size, taps, step, pad, spread in zip(self.shape[2:], self.kernel, self.stride, self.padding, self.dilation, strict=True):
            reach = spread * (taps - 1) + 1
            out = 1
            while out * step + reach <= size + 2 * pad or (
                self.ceil_mode and (out - 1) * step + reach < size + 2 * pad and out * step < size + pad
            ):
                out += 1
            sizes.append(out)
        return tuple(sizes)


@st.composite
def cases(draw: st.DrawFn, dilated: bool) -> Case:
    ndim = draw(st.integers(1, 3))
    shape = [draw(st.integers(1, 3)), draw(st.integers(1, 2))]
    settings = []
    for _ in range(ndim):
        taps, step = draw(st.integers(1, 4 if ndim < 3 else 3)), draw(st.integers(1, 4))
        spread = draw(st.integers(1, 2)) if dilated else 1
        reach = spread * (taps - 1) + 1
        pad = draw(st.integers(0, taps // 2))
        least = max(1, reach - 2 * pad)
        shape.append(draw(st.integers(least, least + (7 if ndim < 3 else 3))))
        settings.append((taps, step, pad, spread))
    kernel, stride, padding, dilation = zip(*settings, strict=True)
    case = Case(tuple(shape), kernel, stride, padding, dilation, draw(st.booleans()))
    assume(all(window_of(case, place) for place in np.ndindex(*case.sizes())))
    return case


def window_of(case: Case, place: tuple[int, ...]) -> list[tuple[int, ...]]:
    """Return the positions inside the array that an output sees, in row-major order."""
    positions = []
    for tap in np.ndindex(*case.kernel):
        read = tuple(o * s + k * d - p for o, s, k, d, p in zip(place, case.stride, tap, case.dilation, case.padding, strict=True))
        if all(0 <= q < size for q, size in zip(read, case.shape[2:], strict=True)):
            positions.append(read)
    return positions


def max_by_loops(x: np.ndarray, case: Case) -> tuple[np.ndarray, np.ndarray]:
    sizes = case.sizes()
    values = np.empty((*x.shape[:2], *sizes), x.dtype)
    indices = np.empty(values.shape, np.int64)
    for n, c in np.ndindex(*x.shape[:2]):
        for place in np.ndindex(*sizes):
            seen = window_of(case, place)
            best = seen[0]
            for position in seen[1:]:
                if x[(n, c, *position)] > x[(n, c, *best)] or np.isnan(x[(n, c, *position)]):
                    best = position
            values[(n, c, *place)] = x[(n, c, *best)]
            indices[(n, c, *place)] = np.ravel_multi_index(best, case.shape[2:])
    return values, indices


@given(cases(dilated=True), st.sampled_from([np.float64, np.float16, np.int64]), st.integers(0, 2))
def test_max_pool_equals_its_definition(case: Case, dtype: Any, special: int) -> None:
    """Use few different values, so that ties are common, with -inf everywhere or NaN in some places."""
    generator = np.random.default_rng(0)
    x = generator.integers(-2, 3, case.shape).astype(dtype)
    if special and np.dtype(dtype).kind == "f":
        x[generator.random(case.shape) < (0.8 if special == 1 else 0.2)] = -np.inf if special == 1 else np.nan
    values, indices = pooling.max_pool(x, *case.window)
    expected, expected_indices = max_by_loops(x, case)
    assert values.dtype == dtype
    assert np.array_equal(values, expected, equal_nan=np.dtype(dtype).kind == "f")
    assert np.array_equal(indices, expected_indices)


@given(cases(dilated=True))
def test_reading_and_adding_at_indices_are_adjoints(case: Case) -> None:
    generator = np.random.default_rng(0)
    x = generator.standard_normal(case.shape)
    values, indices = pooling.max_pool(x, *case.window)
    assert np.array_equal(pooling.take_pooled(x, indices), values)
    g = generator.standard_normal(values.shape)
    grad = pooling.max_pool_grad(g, indices, x.shape)
    assert grad.shape == x.shape
    np.testing.assert_allclose((grad * x).sum(), (g * values).sum(), rtol=1e-12, atol=1e-12)
    for n, c in np.ndindex(*x.shape[:2]):
        plane = np.bincount(indices[n, c].ravel(), g[n, c].ravel(), minlength=x[n, c].size)
        np.testing.assert_allclose(grad[n, c].ravel(), plane, rtol=1e-12, atol=1e-12)
    if all(s >= d * (k - 1) + 1 for k, s, d in zip(case.kernel, case.stride, case.dilation, strict=True)):
        assert np.array_equal(pooling.max_pool_grad(g, indices, x.shape, distinct=True), grad)


@given(cases(dilated=False), st.booleans(), st.sampled_from([None, 3]), st.sampled_from([np.float64, np.complex128]))
def test_avg_pool_equals_its_definition(case: Case, include_pad: bool, divisor: int | None, dtype: Any) -> None:
    x = np.random.default_rng(0).standard_normal(case.shape).astype(dtype)
    how = (case.kernel, case.stride, case.padding, case.ceil_mode, include_pad, divisor)
    means = pooling.avg_pool(x, *how)
    assert means.shape == (*case.shape[:2], *case.sizes())
    assert means.dtype == dtype
    for place in np.ndindex(*case.sizes()):
        seen = window_of(case, place)
        # Positions of the window up to the end of the padding, including positions outside the array.
        within = [
            min(o * s - p + k, size + p) - (o * s - p)
            for o, s, p, k, size in zip(place, case.stride, case.padding, case.kernel, case.shape[2:], strict=True)
        ]
        count = divisor or (np.prod(within) if include_pad else len(seen))
        expected = sum(x[(..., *position)] for position in seen) / count
        np.testing.assert_allclose(means[(..., *place)], expected, rtol=1e-12, atol=1e-12)
    g = np.random.default_rng(1).standard_normal(means.shape).astype(dtype)
    grad = pooling.avg_pool_grad(g, x.shape, *how)
    assert grad.shape == x.shape
    np.testing.assert_allclose((grad * x).sum(), (g * means).sum(), rtol=1e-12, atol=1e-12)


adaptive_cases = st.integers(1, 3).flatmap(
    lambda ndim: st.tuples(
        st.tuples(*[st.integers(1, 9 if ndim < 3 else 5)] * ndim), st.tuples(*[st.integers(1, 7 if ndim < 3 else 4)] * ndim)
    )
)


def adaptive_window(sizes: tuple[int, ...], outs: tuple[int, ...], place: tuple[int, ...]) -> tuple[slice, ...]:
    return tuple(slice(i * s // o, -(-(i + 1) * s // o)) for i, s, o in zip(place, sizes, outs, strict=True))


@given(adaptive_cases)
def test_adaptive_pools_see_from_floor_to_ceiling(case: tuple[tuple[int, ...], tuple[int, ...]]) -> None:
    sizes, outs = case
    x = np.random.default_rng(0).integers(-3, 4, (2, 2, *sizes)).astype(float)
    means = adaptive_avg_pool(x, outs)
    values, indices = pooling.adaptive_max_pool(x, outs)
    numbers = np.arange(np.prod(sizes)).reshape(sizes)
    for place in np.ndindex(*outs):
        window = adaptive_window(sizes, outs, place)
        for n, c in np.ndindex(2, 2):
            seen = x[(n, c, *window)]
            np.testing.assert_allclose(means[(n, c, *place)], seen.mean(), rtol=1e-12, atol=1e-12)
            assert values[(n, c, *place)] == seen.max()
            assert indices[(n, c, *place)] == numbers[window].ravel()[seen.argmax()]
    g = np.random.default_rng(1).standard_normal(means.shape)
    grad = adaptive_avg_pool_grad(g, x.shape)
    expected = np.zeros_like(x)
    for place in np.ndindex(*outs):
        window = adaptive_window(sizes, outs, place)
        expected[(..., *window)] += g[(..., *place)].reshape(2, 2, *[1] * len(outs)) / numbers[window].size
    np.testing.assert_allclose(grad, expected, rtol=1e-12, atol=1e-12)


@pytest.mark.parametrize("size", [32, 33])
def test_two_by_two_of_many_planes_on_several_threads(size: int, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(threads, "max_threads", 3)
    x = np.maximum(np.random.default_rng(0).standard_normal((40, 30, size, size)), 0).astype(np.float32)
    values, indices = pooling.max_pool(x, (2, 2), (2, 2), (0, 0), (1, 1))
    half = size // 2
    tiles = x[..., : 2 * half, : 2 * half].reshape(40, 30, half, 2, half, 2).swapaxes(3, 4).reshape(40, 30, half, half, 4)
    assert np.array_equal(values, tiles.max(-1))
    best = tiles.argmax(-1)
    rows, columns = np.indices((half, half)) * 2
    assert np.array_equal(indices, (rows + best // 2) * size + columns + best % 2)
    g = np.random.default_rng(1).standard_normal(values.shape).astype(np.float32)
    grad = pooling.max_pool_grad(g, indices, x.shape, distinct=True)
    assert np.array_equal(pooling.take_pooled(grad, indices), g)
    np.testing.assert_allclose(grad.sum(dtype=float), g.sum(dtype=float), rtol=1e-6)
    means = pooling.avg_pool(x, (2, 2), (2, 2), (0, 0))
    np.testing.assert_allclose(means, tiles.mean(-1), rtol=1e-6)


def test_the_last_nan_of_a_window_is_pointed_at() -> None:
    values, indices = pooling.max_pool(np.array([[[np.nan, 1.0, np.nan, 9.0, 2.0, 3.0]]]), (3,), (3,), (0,), (1,))
    assert np.isnan(values[0, 0, 0])
    assert values[0, 0, 1] == 9
    assert indices.tolist() == [[[2, 3]]]


def test_a_lowest_value_beside_the_padding_is_pointed_at() -> None:
    _, indices = pooling.max_pool(np.full((1, 1, 2, 2), -np.inf), (2, 2), (2, 2), (1, 1), (1, 1))
    assert indices.tolist() == [[[[0, 1], [2, 3]]]]


def test_an_infinite_value_stays_within_its_windows() -> None:
    x = np.zeros((1, 1, 5))
    x[0, 0, 0] = np.inf
    assert adaptive_avg_pool(x, (3,)).tolist() == [[[np.inf, 0.0, 0.0]]]
    assert pooling.avg_pool(x, (2,), (1,), (0,)).tolist() == [[[np.inf, 0.0, 0.0, 0.0]]]


def test_half_precision_averages_are_summed_in_single_precision() -> None:
    x = np.full((1, 1, 4096), 17.0, np.float16)
    assert adaptive_avg_pool(x, (1,)).tolist() == [[[17.0]]]


@pytest.mark.parametrize("shape", [(0, 3, 4, 4), (2, 0, 4, 4)])
def test_no_samples_or_channels_give_empty_results(shape: tuple[int, ...]) -> None:
    x = np.ones(shape, np.float32)
    values, indices = pooling.max_pool(x, (2, 2), (2, 2), (0, 0), (1, 1))
    assert values.shape == indices.shape == (*shape[:2], 2, 2)
    assert pooling.max_pool_grad(values, indices, shape).shape == shape
    assert pooling.take_pooled(x, indices).shape == values.shape
    assert pooling.avg_pool(x, (2, 2), (2, 2), (0, 0)).shape == values.shape
    assert pooling.avg_pool_grad(values, shape, (2, 2), (2, 2), (0, 0)).shape == shape
    assert adaptive_avg_pool(x, (3, 3)).shape == (*shape[:2], 3, 3)
    assert adaptive_avg_pool_grad(np.ones((*shape[:2], 3, 3)), shape).shape == shape
    assert pooling.adaptive_max_pool(x, (3, 3))[0].shape == (*shape[:2], 3, 3)


def test_arrays_of_any_memory_layout_give_the_same_result() -> None:
    x = np.random.default_rng(0).standard_normal((3, 4, 7, 6))
    channels_last = np.ascontiguousarray(x.transpose(0, 2, 3, 1)).transpose(0, 3, 1, 2)
    for one, other in zip(
        pooling.max_pool(x, (3, 2), (2, 2), (1, 0), (1, 1)),
        pooling.max_pool(channels_last, (3, 2), (2, 2), (1, 0), (1, 1)),
        strict=True,
    ):
        assert np.array_equal(one, other)
    assert np.array_equal(adaptive_avg_pool(x, (3, 4)), adaptive_avg_pool(channels_last, (3, 4)))


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        (((2,), (2,), (0,), (1,)), "numbers of dimensions"),
        (((2, 2), (0, 2), (0, 0), (1, 1)), "at least 1"),
        (((2, 2), (2, 2), (2, 0), (1, 1)), "half the kernel"),
        (((2, 2), (1, 1), (0, 4), (1, 8)), "fall into the padding"),
        (((2, 6), (2, 2), (0, 0), (1, 1)), "spans 6 positions, but the padded array has 5"),
    ],
)
def test_what_does_not_fit_is_refused(settings: Any, message: str) -> None:
    with pytest.raises(ValueError, match=message):
        pooling.max_pool(np.ones((1, 1, 5, 5)), *settings)
