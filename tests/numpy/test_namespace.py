"""ndgrad.numpy is NumPy's namespace: every public name is there or left out for a stated reason, and what makes arrays makes Arrays."""

from __future__ import annotations

import inspect
import pickle
from typing import Any

import numpy as onp
import pytest

import ndgrad
import ndgrad.numpy as dnp
from ndgrad.numpy.dispatch import dispatches
from ndgrad.numpy.reexports import LEFT_OUT

PUBLIC = sorted(n for n in dir(onp) if not n.startswith("_"))


def test_every_name_of_numpy_is_here_or_left_out_with_a_reason() -> None:
    missing = [n for n in PUBLIC if not hasattr(dnp, n) and n not in LEFT_OUT]
    assert not missing, f"new in NumPy {onp.__version__}: add them to ndgrad.numpy or to LEFT_OUT"
    assert not [n for n in LEFT_OUT if hasattr(dnp, n)]
    assert all(LEFT_OUT.values())
    assert set(dir(dnp)) <= {*PUBLIC, "Array"}


def test_names_left_out_say_why() -> None:
    with pytest.raises(AttributeError, match="use block"):
        dnp.bmat
    with pytest.raises(AttributeError, match="no attribute 'sine'"):
        dnp.sine


@pytest.mark.parametrize("module", ["linalg", "fft", "random", "emath"])
def test_submodules_have_every_function_of_numpys(module: str) -> None:
    theirs, ours = getattr(onp, module), getattr(dnp, module)
    names = [n for n in theirs.__all__ if n not in ("test", "bit_generator", "mtrand", "LinAlgError")]
    assert not [n for n in names if not hasattr(ours, n)]


def test_signatures_take_numpys_parameters() -> None:
    """Every parameter of NumPy's function is one of ours, in the same place."""
    skipped = {"like", "subok", "overwrite_input"}
    wrong = {}
    for name in PUBLIC:
        theirs, ours = getattr(onp, name), getattr(dnp, name, None)
        if ours is theirs or isinstance(theirs, (type, onp.ufunc)) or not (inspect.isroutine(theirs) or dispatches(theirs)):
            continue
        try:
            want, have = (list(inspect.signature(f).parameters.values()) for f in (theirs, ours))
        except (ValueError, TypeError):
            continue
        if any(p.kind is p.VAR_POSITIONAL for p in have):
            continue
        positional = [p.name for p in want if p.kind is p.POSITIONAL_OR_KEYWORD]
        ours_positional = [p.name for p in have if p.kind in (p.POSITIONAL_OR_KEYWORD, p.POSITIONAL_ONLY)]
        keywords = {p.name for p in have}
        takes_any = any(p.kind is p.VAR_KEYWORD for p in have)
        names = [p.name for p in want if p.kind not in (p.VAR_POSITIONAL, p.VAR_KEYWORD, p.POSITIONAL_ONLY)]
        lost = [n for n in names if n not in keywords and n not in skipped and not takes_any]
        if lost or [n for n in ours_positional if n in positional] != [n for n in positional if n in ours_positional]:
            wrong[name] = lost
    assert not wrong


def test_creation_makes_arrays_that_record() -> None:
    x = dnp.array([1.0, 2.0, 3.0]).requires_grad_()
    makers: list[Any] = [
        lambda: dnp.zeros(5),
        lambda: dnp.empty(5),
        lambda: dnp.ones(5),
        lambda: dnp.full(5, 2.0),
        lambda: dnp.zeros_like(onp.ones(5)),
        lambda: dnp.arange(5.0),
        lambda: dnp.linspace(0.0, 1.0, 5),
        lambda: dnp.array([0.0] * 5),
        lambda: dnp.asarray([1.0] * 5),
        lambda: dnp.fromfunction(lambda i: i * 1.0, (5,)),
        lambda: dnp.eye(5)[0],
        lambda: dnp.random.rand(5),
        lambda: dnp.hanning(5),
        lambda: dnp.frombuffer(bytes(40), float).copy(),
        lambda: dnp.repeat([1.0], 5),
        lambda: dnp.r_[0.0, onp.ones(4)],
        lambda: dnp.concatenate([onp.ones(2), onp.ones(3)]),
        lambda: dnp.sort(onp.ones(5)),
        lambda: dnp.fft.fft(onp.ones(5)).real.copy(),
    ]
    for make in makers:
        u = make()
        assert type(u) is dnp.Array
        u[1:4] = x * x
        (gradient,) = ndgrad.autograd.grad((u * u).sum(), x)
        assert gradient.tolist() == [4.0, 32.0, 108.0]


def test_creation_is_differentiable_in_its_arguments() -> None:
    a, b = dnp.array(0.5).requires_grad_(), dnp.array(2.0).requires_grad_()
    for make in (
        lambda np, a, b: np.arange(a, 3.0, b),
        lambda np, a, b: np.linspace(a, b, 4),
        lambda np, a, b: np.full((2, 2), a * b),
        lambda np, a, b: np.logspace(a, b, 3, base=b),
        lambda np, a, b: np.kaiser(4, b) * a,
        lambda np, a, b: np.array([[a, b], [1.0, a]]),
        lambda np, a, b: np.r_[a, 1.0:4.0, b],
        lambda np, a, b: np.c_[np.array([a, b]), np.array([b, a])],
        lambda np, a, b: np.fft.fftfreq(4, a) * b,
    ):
        values = [onp.float64(0.5), onp.float64(2.0)]
        made = make(dnp, a, b)
        onp.testing.assert_allclose(made.detach().numpy(), make(onp, *values), rtol=1e-12)
        weights = onp.random.default_rng(0).standard_normal(made.shape)
        found = ndgrad.autograd.grad((made * weights).sum(), (a, b), allow_unused=True)
        for k, gradient in enumerate(found):
            ahead, behind = ((make(onp, *(v + s * (j == k) for j, v in enumerate(values))) * weights).sum() for s in (1e-6, -1e-6))
            onp.testing.assert_allclose(0.0 if gradient is None else gradient.item(), (ahead - behind) / 2e-6, rtol=1e-6, atol=1e-8)


def test_strings_dates_and_objects_stay_numpys() -> None:
    assert type(dnp.array(["a", "b"])) is onp.ndarray
    assert type(dnp.array([None, 1], dtype=object)) is onp.ndarray
    assert type(dnp.zeros(2, "M8[D]")) is onp.ndarray
    assert dnp.concatenate([onp.array(["a"]), onp.array(["b"])]).tolist() == ["a", "b"]
    assert dnp.where(onp.array([True, False]), onp.array(["x", "x"]), onp.array(["y", "y"])).tolist() == ["x", "y"]


# ----- methods -----------------------------------------------------------------------------------------------------------------

#: Attributes of ndarray that Arrays do not have, and why.
NOT_METHODS = {
    "byteswap": "bytes, no numbers",
    "ctypes": "bare memory",
    "dump": "use pickle",
    "dumps": "use pickle",
    "getfield": "records",
    "setfield": "records",
    "setflags": "the memory's flags are NumPy's",
    "to_device": "use to()",
    "__array_finalize__": "no subclass of ndarray",
    "itemset": "gone since NumPy 2",
    "newbyteorder": "gone since NumPy 2",
    "ptp": "gone since NumPy 2",
    "tostring": "gone since NumPy 2",
    "__array_namespace__": "the array API's namespace is a subject of its own",
    "__array_struct__": "bare memory",
    "__class_getitem__": "typing",
    "__imatmul__": "x @= y makes a new array",
}


def test_arrays_have_ndarrays_methods() -> None:
    names = [n for n in dir(onp.ndarray) if not n.startswith("_") or n.startswith(("__array", "__i"))]
    assert not [n for n in names if not hasattr(dnp.Array, n) and n not in NOT_METHODS]


METHODS: dict[str, Any] = {
    "sum": lambda a: a.sum(axis=0, keepdims=True),
    "prod": lambda a: a.prod(1),
    "mean": lambda a: a.mean(),
    "std": lambda a: a.std(axis=1, ddof=1),
    "var": lambda a: a.var(),
    "max": lambda a: a.max(axis=0),
    "min": lambda a: a.min(),
    "cumsum": lambda a: a.cumsum(),
    "cumprod": lambda a: a.cumprod(1),
    "clip": lambda a: a.clip(-0.5, 0.5),
    "round": lambda a: a.round(1) + a,
    "dot": lambda a: a.dot(a.T),
    "trace": lambda a: a.trace(),
    "conj": lambda a: a.conj() * 2,
    "diagonal": lambda a: a.diagonal(1),
    "take": lambda a: a.take([0, 2], axis=1),
    "compress": lambda a: a.compress([True, False], 0),
    "choose": lambda a: (a > 0).choose([a, 2 * a]),
    "repeat": lambda a: a.repeat(2, 0),
    "reshape": lambda a: a.reshape(3, 2, order="F"),
    "ravel": lambda a: a.ravel("F"),
    "flatten": lambda a: a.flatten(),
    "transpose": lambda a: a.transpose(1, 0),
    "swapaxes": lambda a: a.swapaxes(0, 1),
    "squeeze": lambda a: a[:1].squeeze(),
    "astype": lambda a: a.astype(complex) * 1j,
    "copy": lambda a: a.copy("F") * 2,
    "sort": lambda a: (b := a.copy(), b.sort(axis=0))[0],
    "partition": lambda a: (b := a.copy(), b.partition(1))[0].max(),
    "put": lambda a: (b := a.copy(), b.put([0, 4], a[0, :2]))[0],
    "fill": lambda a: (b := a.copy(), b.fill(a[0, 0]))[0],
    "T": lambda a: a.T**2,
    "real": lambda a: a.real * 3,
    "imag": lambda a: a.imag + a,
    "flat": lambda a: a.flat[1:3] * 2,
    "mT": lambda a: a.mT * 2,
    "ndarray.view": lambda a: a.view() * 2,
}


@pytest.mark.parametrize("method", METHODS.values(), ids=METHODS)
def test_methods_mean_what_numpys_do(method: Any) -> None:
    x = onp.array([[0.3, -1.2, 0.8], [2.1, 0.4, -0.7]])
    t = dnp.array(x).requires_grad_()
    expected, found = method(x), method(t)
    assert type(found) is dnp.Array
    assert found.dtype == expected.dtype
    onp.testing.assert_allclose(found.detach().numpy(), expected, rtol=1e-12)
    rng = onp.random.default_rng(0)
    weights, way = rng.standard_normal(expected.shape), rng.standard_normal(x.shape)

    def loss(result: Any) -> Any:
        result = result * weights
        return (result.real + 2.0 * result.imag).sum() if result.dtype.kind == "c" else result.sum()

    loss(found).backward()
    slope = (loss(method(x + 1e-6 * way)) - loss(method(x - 1e-6 * way))) / 2e-6
    onp.testing.assert_allclose((t.grad.numpy() * way).sum(), slope, rtol=1e-6, atol=1e-8)


def test_descending_order_has_nan_last_and_is_stable() -> None:
    x = dnp.array([1.0, onp.nan, 3.0, 2.0, 3.0]).requires_grad_()
    assert dnp.argsort(x, descending=True).tolist() == [2, 4, 3, 0, 1]
    (dnp.sort(x, descending=True)[:4] * onp.array([1.0, 2.0, 3.0, 4.0])).sum().backward()
    assert x.grad.tolist() == [4.0, 0.0, 1.0, 3.0, 2.0]
    assert dnp.sort(dnp.array([1, 3, 2], onp.uint8), descending=True).tolist() == [3, 2, 1]


def test_discrete_methods() -> None:
    x = onp.array([[0.0, 2.0], [3.0, 1.0]])
    t = dnp.array(x).requires_grad_()
    assert t.argmax() == x.argmax()
    assert t.argsort(axis=0).tolist() == x.argsort(axis=0).tolist()
    assert [n.tolist() for n in t.nonzero()] == [n.tolist() for n in x.nonzero()]
    assert t[0].searchsorted(1.0) == x[0].searchsorted(1.0)
    assert t.argpartition(0)[0, 0] == 0
    assert t.strides == x.strides
    assert t.size == 4
    assert t.nbytes == 32
    assert t.itemsize == 8
    assert t.flags.c_contiguous
    assert t.detach().tobytes() == x.tobytes()
    assert pickle.loads(pickle.dumps(t.detach())).tolist() == x.tolist()


# ----- random --------------------------------------------------------------------------------------------------------------------


def test_draws_are_numpys_for_a_seed() -> None:
    ours, theirs = dnp.random.default_rng(3), onp.random.default_rng(3)
    for draw in (
        lambda g: g.normal(1.0, 2.0, 3), lambda g: g.integers(0, 10, 4), lambda g: g.random((2, 2)), lambda g: g.choice([1.0, 2.0, 3.0], 2),
        lambda g: g.permutation(5), lambda g: g.gamma(2.0, size=2), lambda g: g.uniform(-1.0, 1.0, 2), lambda g: g.standard_normal(2),
    ):  # fmt: skip
        found = draw(ours)
        assert type(found) is dnp.Array
        onp.testing.assert_array_equal(found.numpy(), draw(theirs))
    dnp.random.seed(5)
    first = dnp.random.normal(size=3)
    onp.random.seed(5)
    onp.testing.assert_array_equal(first.numpy(), onp.random.normal(size=3))


@pytest.mark.parametrize("name", ["normal", "uniform", "exponential", "laplace", "logistic", "gumbel", "rayleigh", "lognormal"])
def test_draws_are_differentiable_in_shift_and_scale(name: str) -> None:
    count = 1 if name in ("exponential", "rayleigh") else 2
    values = [onp.float64(0.3), onp.float64(1.7)][-count:]
    parameters = [dnp.array(v).requires_grad_() for v in values]
    draws = getattr(dnp.random.default_rng(1), name)(*parameters, size=4)
    onp.testing.assert_allclose(draws.detach().numpy(), getattr(onp.random.default_rng(1), name)(*values, size=4), rtol=1e-12)
    draws.sum().backward()
    for k, p in enumerate(parameters):
        ahead, behind = (
            getattr(onp.random.default_rng(1), name)(*(v + s * (j == k) for j, v in enumerate(values)), size=4).sum() for s in (1e-6, -1e-6)
        )
        onp.testing.assert_allclose(p.grad.item(), (ahead - behind) / 2e-6, rtol=1e-6)


def test_other_parameters_that_require_grad_are_refused() -> None:
    shape = dnp.array(2.0).requires_grad_()
    with pytest.raises(TypeError, match="gamma.*no derivative"):
        dnp.random.default_rng(0).gamma(shape)
    with pytest.raises(TypeError, match="probabilities"):
        dnp.random.default_rng(0).choice(2, p=dnp.array([0.5, 0.5]).requires_grad_())


def test_shuffled_and_picked_elements_keep_their_gradients() -> None:
    x = dnp.array([1.0, 2.0, 3.0, 4.0]).requires_grad_()
    u = x * 1.0
    dnp.random.default_rng(0).shuffle(u)
    plain = onp.array([1.0, 2.0, 3.0, 4.0])
    onp.random.default_rng(0).shuffle(plain)
    assert u.detach().tolist() == plain.tolist()
    (u * onp.array([1.0, 10.0, 100.0, 1000.0])).sum().backward()
    assert x.grad.tolist() == [10.0 ** plain.tolist().index(v) for v in (1.0, 2.0, 3.0, 4.0)]
    assert dnp.random.default_rng(0).permutation(x).requires_grad


# ----- functions of functions -----------------------------------------------------------------------------------------------------


def test_vectorize_is_differentiable() -> None:
    @dnp.vectorize
    def clipped(x: Any, top: Any) -> Any:
        return x * x if x < top else top

    x = dnp.array([[1.0, 2.0], [3.0, 4.0]]).requires_grad_()
    y = clipped(x, 2.5)
    assert y.detach().tolist() == [[1.0, 4.0], [2.5, 2.5]]
    y.sum().backward()
    assert x.grad.tolist() == [[2.0, 4.0], [0.0, 0.0]]
    rows = dnp.vectorize(lambda v, w: v @ w, signature="(n),(n)->()")
    assert rows(dnp.ones((3, 2)), dnp.array([1.0, 2.0])).tolist() == [3.0, 3.0, 3.0]
    two = dnp.vectorize(lambda v: (v, 2 * v), otypes=[float, float])
    assert two(dnp.array([1.0]))[1].tolist() == [2.0]
    with pytest.raises(ValueError, match="size 0"):
        clipped(dnp.zeros(0), 1.0)


def test_window_views_are_views() -> None:
    x = dnp.arange(5.0).requires_grad_()
    windows = onp.lib.stride_tricks.sliding_window_view(x, 3)
    assert windows.detach().tolist() == [[0.0, 1.0, 2.0], [1.0, 2.0, 3.0], [2.0, 3.0, 4.0]]
    windows.sum().backward()
    assert x.grad.tolist() == [1.0, 2.0, 3.0, 2.0, 1.0]
    y = dnp.arange(4.0)
    onp.lib.stride_tricks.as_strided(y, (2,), (16,))[1] = 9.0
    assert y.tolist() == [0.0, 1.0, 9.0, 3.0]


def test_extended_math_leaves_the_real_line_as_numpy_does() -> None:
    x = dnp.array([-1.0, 4.0]).requires_grad_()
    y = onp.emath.sqrt(x)
    onp.testing.assert_allclose(y.detach().numpy(), onp.emath.sqrt([-1.0, 4.0]))
    y.imag.sum().backward()
    onp.testing.assert_allclose(x.grad.numpy(), [-0.5, 0.0])
    for name in ("log", "log2", "log10", "arccos", "arcsin", "arctanh"):
        f = getattr(onp.emath, name)
        onp.testing.assert_allclose(f(dnp.array([-2.0, 0.5])).numpy(), f(onp.array([-2.0, 0.5])), rtol=1e-12)
    onp.testing.assert_allclose(onp.emath.power(dnp.array([-2.0]), 0.5).numpy(), onp.emath.power([-2.0], 0.5))
    onp.testing.assert_allclose(onp.emath.logn(2.0, dnp.array([8.0])).numpy(), [3.0])


@pytest.mark.parametrize("make", [
    lambda **where: dnp.zeros(2, **where), lambda **where: dnp.ones_like(onp.eye(2), **where), lambda **where: dnp.full(2, 1.0, **where),
    lambda **where: dnp.full_like(onp.eye(2), 2.0, **where), lambda **where: dnp.eye(2, **where), lambda **where: dnp.arange(3, **where),
    lambda **where: dnp.linspace(0.0, 1.0, 3, **where), lambda **where: dnp.linspace(dnp.array(0.0), 1.0, 3, **where),
    lambda **where: dnp.asarray([1.0], **where), lambda **where: dnp.astype(dnp.ones(2), int, **where),
    lambda **where: dnp.fft.fftfreq(4, **where),
])  # fmt: skip
def test_new_arrays_go_to_the_device_that_is_named(make: Any) -> None:
    assert make(device="meta").device.type == "meta"
    assert make(device="cpu").device.type == make().device.type == "cpu"
