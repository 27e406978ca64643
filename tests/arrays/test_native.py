"""Results of native kernels: equal to NumPy's up to the last digits, and reproducible."""

from __future__ import annotations

import os
import subprocess
import sys

import numpy as np
import pytest

import ndgrad as nd
import ndgrad.nn.functional as F
from ndgrad._src.arrays import native_kernels
from ndgrad._src.ops import scan, softmax

pytest.importorskip("llvmlite", reason="native kernels need llvmlite")

DTYPES = (np.float32, np.float64)


def _draw(dtype, *shapes):
    r = np.random.default_rng(0)
    return [r.standard_normal(shape).astype(dtype) for shape in shapes]


def _with_gradients(function, arrays):
    """Return the result and the gradients of a function of tensors."""
    tensors = [nd.tensor(a, requires_grad=True) for a in arrays]
    y = function(*tensors)
    g = np.random.default_rng(1).standard_normal(tuple(y.shape)).astype(arrays[0].dtype)
    y.backward(nd.tensor(g))
    return [y.detach().numpy(), *(t.grad.numpy() for t in tensors)]


def _compare(function, arrays, ulp):
    """Compare results with kernels to NumPy in double precision, and without kernels to the same program on NumPy."""
    with native_kernels.kernels_in_use(True):
        assert native_kernels.kernels() is not None
        found = _with_gradients(function, arrays)
        again = _with_gradients(function, arrays)
    with native_kernels.kernels_in_use(False):
        exact = _with_gradients(function, [a.astype(np.float64) for a in arrays])
    for a, b, c in zip(found, again, exact, strict=True):
        assert a.dtype == arrays[0].dtype
        np.testing.assert_array_equal(a, b)
        finite = c[np.isfinite(c)]
        largest = np.abs(finite).max() if finite.size else 0.0
        np.testing.assert_allclose(a, c, rtol=0, atol=ulp * np.finfo(a.dtype).eps * max(largest, 1.0))


ROWS = {
    "softmax": (lambda x: F.softmax(x, -1), [(37, 4, 71)]),
    "log_softmax": (lambda x: F.log_softmax(x, -1), [(37, 4, 71)]),
    "cross_entropy": (lambda x: F.cross_entropy(x, nd.arange(150) % 71, reduction="none"), [(150, 71)]),
    "layer_norm": (lambda x, w, b: F.layer_norm(x, (5, 19), w, b), [(101, 5, 19), (5, 19), (5, 19)]),
    "layer_norm without weights": (lambda x: F.layer_norm(x, (95,)), [(101, 95)]),
    "layer_norm with a shift": (lambda x, b: F.layer_norm(x, (95,), None, b), [(101, 95), (95,)]),
    "rms_norm": (lambda x, w: F.rms_norm(x, (5, 19), w), [(101, 5, 19), (5, 19)]),
    "rms_norm without weights": (lambda x: F.rms_norm(x, (95,), eps=1e-3), [(101, 95)]),
    "group_norm": (lambda x, w, b: F.group_norm(x, 3, w, b), [(5, 12, 9, 19), (12,), (12,)]),
    "instance_norm": (lambda x, w: F.instance_norm(x, weight=w), [(5, 12, 9, 19), (12,)]),
    "batch_norm": (lambda x, w, b: F.batch_norm(x, None, None, w, b, training=True), [(5, 12, 9, 19), (12,), (12,)]),
    "batch_norm by fixed statistics": (
        lambda x, w, b: F.batch_norm(x, nd.zeros(12, dtype=x.dtype) + 0.5, nd.ones(12, dtype=x.dtype) * 2, w, b),
        [(5, 12, 9, 19), (12,), (12,)],
    ),
    "sum of everything": (lambda x: x.sum(), [(1709, 307)]),
    "mean of rows": (lambda x: x.mean(1), [(1709, 307)]),
    "sum of first and last dimensions": (lambda x: x.sum((0, 2), keepdim=True), [(7, 241, 311)]),
    "attention": (lambda q, k, v: F.scaled_dot_product_attention(q, k, v), [(8, 41, 16), (8, 50, 16), (8, 50, 7)]),
    "causal attention": (
        lambda q, k, v: F.scaled_dot_product_attention(q, k, v, is_causal=True),
        [(8, 41, 16), (8, 41, 16), (8, 41, 7)],
    ),
}


SCANS = {
    "cumsum": (lambda x: nd.cumsum(x, -1), [(3, 101, 31)]),
    "cumprod": (lambda x: nd.cumprod(x * 0.1 + 1.0, -1), [(301, 31)]),
    "cumprod with zeros": (lambda x: nd.cumprod(x * (x > 0), -1), [(301, 31)]),
    "one long row": (lambda x: nd.cumsum(x * x, 0), [(9001,)]),
    "cumprod of short rows": (lambda x: nd.cumprod(x, -1), [(3001, 3)]),
    "cummax": (lambda x: nd.cummax(x, -1)[0], [(3, 101, 31)]),
    "cummin of columns": (lambda x: nd.cummin(x, 0)[0], [(31, 303)]),
    "logcumsumexp": (lambda x: nd.logcumsumexp(4 * x, -1), [(301, 31)]),
    "logcumsumexp of columns": (lambda x: nd.logcumsumexp(x, 1), [(3, 101, 31)]),
}
DISTANCES = {
    f"cdist of order {p}": (lambda x, y, p=p: nd.cdist(x, y, p=p), [(71, 5), (67, 5)]) for p in (1.0, 2.0, float("inf"))
}
ROWS |= SCANS | DISTANCES


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("name", ROWS)
def test_rows_give_what_numpy_gives(name, dtype):
    function, shapes = ROWS[name]
    _compare(function, _draw(dtype, *shapes), ulp=16)


ELEMENTWISE = {
    "gelu": F.gelu,
    "gelu by tanh": lambda x: F.gelu(x, approximate="tanh"),
    "silu": F.silu,
    "mish": F.mish,
    "elu": lambda x: F.elu(x, 0.7),
    "softplus": lambda x: F.softplus(x, 1.5, 3.0),
    "hardswish": F.hardswish,
    "leaky_relu": lambda x: F.leaky_relu(x, 0.1),
    "relu": nd.relu,
    "sigmoid": nd.sigmoid,
    "logsigmoid": F.logsigmoid,
    "erf": nd.erf,
    "sin": nd.sin,
    "sqrt of square": lambda x: (x * x + 0.1).sqrt(),
    "pow": lambda x: (x * x + 0.1) ** 1.5,
    "smooth_l1": lambda x, y: F.smooth_l1_loss(x, y, reduction="none", beta=0.7),
    "bce with logits": lambda x, y: F.binary_cross_entropy_with_logits(x, y, reduction="none"),
    "logaddexp": nd.logaddexp,
    "hypot": lambda x: nd.hypot(x, x * 2.0 - 1.0),
    "atan2": nd.atan2,
    "pow of two": lambda x, y: (x * x + 0.1) ** y,
    "fmod": lambda x, y: nd.fmod(x, y.abs() + 0.5),
    "lerp": lambda x, y: nd.lerp(x, y, 0.3),
    "where": lambda x, y: nd.where(x > y, x, y * y),
}


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("name", ELEMENTWISE)
def test_elementwise_functions_and_their_derivatives_give_what_numpy_gives(name, dtype):
    function = ELEMENTWISE[name]
    arrays = _draw(dtype, *[(97, 101)] * (2 if name in _OF_TWO else 1))
    if name == "fmod":  # two precisions may fall on different sides of a jump
        arrays = [np.round(a * 8) / 8 for a in arrays]
    _compare(function, arrays, ulp=16)


_OF_TWO = {"smooth_l1", "bce with logits", "logaddexp", "atan2", "pow of two", "fmod", "lerp", "where"}


@pytest.mark.parametrize("name", ["gelu", "silu", "hardswish", "softplus", "erf", "sigmoid"])
def test_special_values_are_what_numpy_makes_of_them(name):
    x = np.resize(np.array([np.nan, np.inf, -np.inf, 0.0, -0.0, 1e-310, 700.0, -700.0, 3.0, -3.0]), 9000)
    results = []
    for use in (True, False):
        with native_kernels.kernels_in_use(use), np.errstate(all="ignore"):
            t = nd.tensor(x, requires_grad=True)
            y = ELEMENTWISE[name](t)
            y.sum().backward()
            results.append((y.detach().numpy(), t.grad.numpy()))
    for a, b in zip(*results, strict=True):
        np.testing.assert_allclose(a, b, rtol=1e-14, atol=1e-300)


@pytest.mark.parametrize("reverse", [False, True])
def test_a_recurrence_is_what_it_says_step_by_step(reverse):
    a, b = _draw(np.float64, (101, 97), (101, 97))
    a[3, 5] = np.inf
    b[3, :5] = 0.0
    with native_kernels.kernels_in_use(True):
        h = scan.linear_recurrence.forward_for(np)(a, b, dim=1, reverse=reverse)
    steps, state = range(97)[:: -1 if reverse else 1], None
    expected = np.empty_like(b)
    with np.errstate(invalid="ignore"):
        for k in steps:
            state = b[:, k] if state is None else a[:, k] * state + b[:, k]
            expected[:, k] = state
    np.testing.assert_array_equal(h, expected)


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("reverse", [False, True])
@pytest.mark.parametrize("dim", [0, 1])
def test_scans_along_other_dimensions_than_the_last(dtype, reverse, dim):
    a, b = np.random.default_rng(0).uniform(0.5, 1.5, (2, 37, 21, 19)).astype(dtype)
    scans = scan
    for op, operands in ((scans.cumsum, [b]), (scans.cumprod, [b]), (scans.linear_recurrence, [a, b])):
        found = []
        for use in (True, False):
            with native_kernels.kernels_in_use(use):
                found.append(op.forward_for(np)(*operands, dim=dim, reverse=reverse))
        np.testing.assert_allclose(*found, rtol=100 * np.finfo(dtype).eps)


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("dim", [0, 1])
def test_running_extrema_of_nans_and_ties(dtype, dim):
    x = np.random.default_rng(0).integers(-9, 9, (120, 121)).astype(dtype)
    x[50, 60:70:3] = np.nan
    x[7, 3] = np.inf
    with native_kernels.kernels_in_use(True):
        found = [nd.cummax(nd.tensor(x), dim), nd.cummin(nd.tensor(x), dim)]
    for (values, places), choose in zip(found, (np.maximum, np.minimum), strict=True):
        expected = choose.accumulate(x, axis=dim)
        np.testing.assert_array_equal(values.numpy(), expected)
        np.testing.assert_array_equal(np.take_along_axis(x, places.numpy(), dim), expected)
        # Each position is the last so far with this value.
        k = np.arange(x.shape[dim]).reshape((-1, 1) if dim == 0 else (1, -1))
        is_newest = (x == expected) | np.isnan(x)
        np.testing.assert_array_equal(np.where(is_newest, places.numpy(), k), np.broadcast_to(k, x.shape))


def test_coordinates_share_the_gradient_of_a_maximum_distance():
    x, y = nd.zeros(100, 30, requires_grad=True), nd.zeros(100, 30)
    y[:, :2] = nd.tensor([3.0, -3.0])
    with native_kernels.kernels_in_use(True):
        nd.cdist(x, y, p=float("inf")).sum().backward()
    expected = np.zeros((100, 30))
    expected[:, :2] = -50.0, 50.0
    np.testing.assert_array_equal(x.grad.numpy(), expected)


def test_logcumsumexp_starts_behind_a_very_negative_number():
    x = np.full((100, 100), -1000.0)
    x[:, :2] = -np.inf, -2000.0
    with native_kernels.kernels_in_use(True):
        out = nd.logcumsumexp(nd.tensor(x), 1).numpy()
    np.testing.assert_allclose(out[:, 2:], -1000.0 + np.log(np.arange(1, 99)) * np.ones((100, 1)), rtol=1e-14)
    np.testing.assert_array_equal(out[:, :2], x[:, :2])


@pytest.mark.parametrize("dtype", [np.float32, np.float64, np.int32, np.bool_, np.uint8, np.complex64, np.complex128])
@pytest.mark.parametrize(("shape", "dim"), [((90, 110), 0), ((90, 110), 1), ((11, 30, 40), 1), ((4000, 3), 1), ((9000,), 0)])
def test_elements_by_an_index_along_a_dimension(dtype, shape, dim):
    r = np.random.default_rng(0)
    x = (r.standard_normal(shape) * 30).astype(dtype)
    long = (*shape[:dim], shape[dim] + 2, *shape[dim + 1 :])
    index, y = r.integers(0, shape[dim], long), (r.standard_normal(long) * 30).astype(dtype)
    one = r.integers(0, shape[dim], shape[dim] + 3)
    places = [*np.indices(long, sparse=True)]
    places[dim] = index
    written, added = x.copy(), x.copy()
    np.put_along_axis(written, index, y, dim)
    np.add.at(added, tuple(places), y)
    with native_kernels.kernels_in_use(True):
        t = nd.tensor(x)
        np.testing.assert_array_equal(nd.gather(t, dim, nd.tensor(index)).numpy(), np.take_along_axis(x, index, dim))
        np.testing.assert_array_equal(nd.index_select(t, dim, nd.tensor(one)).numpy(), x.take(one, axis=dim))
        np.testing.assert_array_equal(nd.scatter(t, dim, nd.tensor(index), nd.tensor(y)).numpy(), written)
        if dtype is not np.bool_:
            # The order of additions to an element is that of the index.
            np.testing.assert_array_equal(nd.scatter_add(t, dim, nd.tensor(index), nd.tensor(y)).numpy(), added)


@pytest.mark.parametrize("wrong", [-1, 100])
def test_an_index_outside_is_refused_and_not_read(wrong):
    x, index = nd.ones(100, 100), np.zeros((100, 100), np.int64)
    index[30, 40] = wrong
    with native_kernels.kernels_in_use(True):
        for call in (
            lambda: nd.gather(x, 1, nd.tensor(index)),
            lambda: nd.scatter(x, 1, nd.tensor(index), x),
            lambda: nd.scatter_add(x, 0, nd.tensor(index), x),
            lambda: nd.index_select(x, 1, nd.tensor(index[30])),
            lambda: nd.index_add(x, 1, nd.tensor(index[30]), x),
        ):
            with pytest.raises((IndexError, RuntimeError), match=str(wrong)):
                call()
    assert (x == 1).all()


@pytest.mark.parametrize("dtype", DTYPES)
def test_rows_of_infinities_and_nans(dtype):
    x = np.random.default_rng(0).standard_normal((300, 33)).astype(dtype)
    x[0, 5], x[1, :], x[2, 3], x[3, :] = np.inf, -np.inf, np.nan, 1e4
    for function in (lambda t: F.softmax(t, 1), lambda t: F.log_softmax(t, 1), lambda t: F.layer_norm(t, (33,))):
        results = []
        for use in (True, False):
            with native_kernels.kernels_in_use(use), np.errstate(all="ignore"):
                results.append(function(nd.tensor(x)).numpy())
        np.testing.assert_allclose(*results, rtol=64 * np.finfo(dtype).eps, atol=16 * np.finfo(dtype).eps)


def test_a_query_that_may_look_at_nothing_gives_zeros():
    q, k, v = (nd.tensor(a) for a in _draw(np.float64, (4, 60, 8), (4, 60, 8), (4, 60, 8)))
    mask = nd.ones(60, 60, dtype=nd.bool)
    mask[7] = False
    with native_kernels.kernels_in_use(True):
        out = F.scaled_dot_product_attention(q, k, v, attn_mask=mask)
    assert (out[:, 7] == 0).all()
    assert nd.isfinite(out).all()


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize(
    "pool",
    [
        lambda x: F.max_pool2d(x, 3, 2, 1),
        lambda x: F.avg_pool2d(x, 3, 2, 1, count_include_pad=False),
        lambda x: F.avg_pool2d(x, 2, ceil_mode=True),
        lambda x: F.adaptive_avg_pool2d(x, (3, 2)),
        lambda x: F.adaptive_max_pool2d(x, (3, 2)),
        lambda x: F.conv2d(x, nd.ones(6, 5, 3, 3, dtype=x.dtype), padding=1, stride=2),
    ],
    ids=["max", "average", "ceil", "adaptive average", "adaptive max", "convolution"],
)
def test_windows_give_what_numpy_gives(pool, dtype):
    _compare(pool, _draw(dtype, (4, 5, 25, 31)), ulp=64)


def test_adaptive_pooling_keeps_infinities_and_nans_where_they_are():
    x = _draw(np.float64, (2, 3, 50, 50))[0]
    x[0, 0, 3, 3], x[1, 1, 40, 40] = np.nan, np.inf
    out = F.adaptive_avg_pool2d(nd.tensor(x), 3).numpy()
    assert np.isnan(out[0, 0, 0, 0])
    assert np.isinf(out[1, 1, 2, 2])
    assert np.isfinite(out).sum() == out.size - 2
    best, places = F.adaptive_max_pool2d(nd.tensor(x), 3, return_indices=True)
    assert places[0, 0, 0, 0] == 3 * 50 + 3
    assert places[1, 1, 2, 2] == 40 * 50 + 40
    assert np.isnan(best.numpy()).sum() == 1


def test_strange_layouts_and_dtypes_stay_with_numpy():
    x = np.random.default_rng(0).standard_normal((200, 150))
    expected = np.exp(x) / np.exp(x).sum(1, keepdims=True)
    with native_kernels.kernels_in_use(True):
        for array in (np.asfortranarray(x), np.repeat(x, 2, 1)[:, ::2], x.astype(">f8"), x.astype(np.longdouble)):
            out = softmax.softmax.forward_for(np)(array, dim=1)
            np.testing.assert_allclose(np.asarray(out, np.float64), expected, rtol=1e-13)
        for dim in (0, 1):
            g = nd.tensor(x, requires_grad=True)
            F.softmax(g, dim).sum().backward()  # the gradient of a sum is one number, expanded
            np.testing.assert_allclose(g.grad.numpy(), 0, atol=1e-14)


def test_one_kernel_serves_all_values_of_a_setting():
    kernels = native_kernels.kernels()
    x = nd.tensor(np.random.default_rng(0).standard_normal(9000), requires_grad=True)
    F.elu(x, 0.5).sum().backward()
    before = kernels._elementwise.cache_info().currsize, kernels._formula.cache_info().currsize
    for alpha in (0.6, 0.7, 0.8):
        x.grad = None
        y = F.elu(x, alpha)
        y.sum().backward()
        array = x.detach().numpy()
        np.testing.assert_allclose(x.grad.numpy(), np.where(array > 0, 1.0, alpha * np.exp(array)), rtol=1e-14)
    assert (kernels._elementwise.cache_info().currsize, kernels._formula.cache_info().currsize) == before


def test_a_wrong_class_is_refused_and_not_read():
    with native_kernels.kernels_in_use(True), pytest.raises(IndexError):
        F.cross_entropy(nd.tensor(np.zeros((200, 50))), nd.tensor(np.full(200, 50)))


@pytest.mark.skipif(not hasattr(os, "fork"), reason="no fork here")
def test_a_forked_child_computes_the_same():
    x = _draw(np.float64, (300, 400))[0]
    with native_kernels.kernels_in_use(True):
        before = F.softmax(nd.tensor(x), 1).numpy()
        child = os.fork()
        if not child:
            os._exit(0 if (F.softmax(nd.tensor(x), 1).numpy() == before).all() else 1)
        assert os.waitpid(child, 0)[1] == 0


PROGRAM = """
import sys
import ndgrad as nd
from ndgrad import nn, optim
model = nn.Sequential(nn.Linear(3, 8), nn.GELU(), nn.Linear(8, 4))
optimizer = optim.AdamW(model.parameters())
model(nd.ones(5, 3)).softmax(-1).sum().backward()
optimizer.step()
print("llvmlite" in sys.modules)
nd.softmax(nd.ones(100, 100), -1)
print("llvmlite" in sys.modules)
"""


@pytest.mark.parametrize(("wish", "loaded"), [("1", "True"), ("0", "False")])
def test_a_small_program_loads_no_compiler_and_a_switch_keeps_it_away(wish, loaded):
    # without a cache on disk, whose kernels load without the compiler
    environment = {**os.environ, "NDGRAD_EAGER_KERNELS": wish, "NDGRAD_CACHE_DIR": ""}
    command = [sys.executable, "-c", PROGRAM]
    said = subprocess.run(command, env=environment, capture_output=True, text=True, check=True)
    assert said.stdout.split() == ["False", loaded]


def test_a_wish_that_makes_no_sense_is_refused(monkeypatch):
    monkeypatch.setenv("NDGRAD_EAGER_KERNELS", "maybe")
    with native_kernels.kernels_in_use(True), pytest.raises(ValueError, match="NDGRAD_EAGER_KERNELS"):
        native_kernels.kernels()


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
@pytest.mark.parametrize("name", ["tan", "atan", "asinh"])
def test_functions_of_large_arrays_are_accurate_at_all_magnitudes(name: str, dtype: type) -> None:
    random = np.random.default_rng(0)
    x = (random.standard_normal(9000) * 10.0 ** random.uniform(-6, 6, 9000)).astype(dtype)
    x[:3] = 0.0, np.nan, -0.0
    found = getattr(nd, name)(nd.tensor(x)).numpy()
    wanted = {"tan": np.tan, "atan": np.arctan, "asinh": np.arcsinh}[name](x.astype(np.longdouble))
    assert found.dtype == dtype
    np.testing.assert_allclose(found, wanted.astype(dtype), rtol=4 * np.finfo(dtype).eps)
    np.testing.assert_array_equal(np.signbit(found[[0, 2]]), [False, True])
