"""Every ufunc of the installed NumPy on Arrays: values and dtypes are NumPy's, gradients those of finite differences, and each keyword
and method means what it means in NumPy.
"""

from __future__ import annotations

import functools
import inspect
from typing import Any

import numpy as onp
import pytest

import ndgrad
import ndgrad.numpy as dnp
from ndgrad.numpy.ufunc_objects import FUNCTIONS
from ndgrad.numpy.ufuncs import IMPLEMENTATIONS, REFUSED, ufuncs

UFUNCS = ufuncs()
PLAIN = sorted(n for n, f in UFUNCS.items() if f in IMPLEMENTATIONS and f.signature is None)
DTYPES = "?bBhiqQefdFD"

#: Arguments of each ufunc: inside its domain, away from jumps.
DOMAINS = {"arccosh": (1.2, 3.0), "arccos": (-0.8, 0.8), "arcsin": (-0.8, 0.8), "arctanh": (-0.8, 0.8)}
#: Ufuncs whose results are constant between jumps or no numbers: they have no derivative to speak of.
DISCRETE = {
    n for n in UFUNCS
    if n.startswith(("is", "bitwise", "logical", "less", "greater")) or n in (
        "equal", "not_equal", "signbit", "invert", "left_shift", "right_shift", "gcd", "lcm", "spacing")
}  # fmt: skip


def plain(x: Any) -> Any:
    return x.detach().numpy() if isinstance(x, ndgrad.Tensor) else onp.asarray(x)


def operands(name: str, shape: tuple[int, ...] = (5,), seed: int = 1) -> list[Any]:
    rng = onp.random.default_rng(seed)
    low, high = DOMAINS.get(name, (0.3, 2.7))
    values = [low + (high - low) * rng.random(shape) for _ in range(UFUNCS[name].nin)]
    if name == "ldexp":
        values[1] = onp.array([1, 2, 0, -1, 3])
    return values


def together(results: Any) -> tuple[Any, ...]:
    return results if isinstance(results, tuple) else (results,)


def test_every_ufunc_is_implemented_or_refused() -> None:
    assert not [n for n, f in UFUNCS.items() if f not in IMPLEMENTATIONS and n not in REFUSED]


@pytest.mark.parametrize("name", sorted(REFUSED))
def test_refused_ufuncs_say_what_works(name: str) -> None:
    with pytest.raises(TypeError, match="isnan"):
        UFUNCS[name](dnp.array([1.0]))


@pytest.mark.parametrize("name", PLAIN)
def test_values_and_dtypes_are_numpys_for_every_dtype(name: str) -> None:
    ufunc = UFUNCS[name]
    checked = 0
    # NumPy 2.0 makes floats of integers here; later ones, and ndgrad over all of them, leave them alone
    floats_only = name in ("ceil", "floor", "trunc") and onp.__version__.startswith("2.0.")
    for kinds in "efd" if floats_only else DTYPES if ufunc.nin == 1 else [a + b for a in DTYPES for b in "?iqfdD"]:
        inputs = [onp.array([1, 2, 1, 2], k) for k in kinds]
        with onp.errstate(all="ignore"):
            try:
                expected = together(ufunc(*inputs))
            except TypeError:
                with pytest.raises(TypeError):
                    ufunc(*map(dnp.array, inputs))
                continue
            # twice: the first call goes through the general way, the second straight to the op
            for _ in range(2):
                found = together(ufunc(*map(dnp.array, inputs)))
                for f, e in zip(found, expected, strict=True):
                    assert type(f) is dnp.Array
                    assert f.dtype == e.dtype, kinds
                    onp.testing.assert_allclose(plain(f), e, rtol=2e-3 if "e" in kinds else 1e-6)
        checked += 1
    assert checked


@pytest.mark.parametrize("name", PLAIN)
@pytest.mark.parametrize("number", [2, 2.5])
def test_python_numbers_have_no_say_in_the_dtype(name: str, number: float) -> None:
    ufunc = UFUNCS[name]
    if ufunc.nin != 2:
        return
    for kind in "qfd":
        x = onp.array([1, 2, 3], kind)
        for numpys, ours in (((x, number), (dnp.array(x), number)), ((number, x), (number, dnp.array(x)))):
            try:
                expected = together(ufunc(*numpys))
            except TypeError:
                with pytest.raises(TypeError):
                    ufunc(*ours)
                continue
            for f, e in zip(together(ufunc(*ours)), expected, strict=True):
                assert f.dtype == e.dtype
                onp.testing.assert_allclose(plain(f), e, rtol=1e-6)


@pytest.mark.parametrize("name", [n for n in PLAIN if n not in DISCRETE])
def test_gradients_are_finite_differences(name: str) -> None:
    ufunc, inputs = UFUNCS[name], operands(name)
    tensors = [dnp.array(x).requires_grad_() if x.dtype.kind == "f" else dnp.array(x) for x in inputs]
    results = together(ufunc(*tensors))
    step = 1e-6
    for k, x in enumerate(inputs):
        if x.dtype.kind != "f":
            continue
        total = sum(r.sum() for r in results if r.dtype.kind == "f")
        (found,) = ndgrad.autograd.grad(total, tensors[k], retain_graph=True)
        ahead, behind = (
            sum(r for r in together(ufunc(*(y + s if j == k else y for j, y in enumerate(inputs)))) if r.dtype.kind == "f")
            for s in (step, -step)
        )
        onp.testing.assert_allclose(plain(found), (ahead - behind) / (2 * step), rtol=1e-5, atol=1e-7)


@pytest.mark.parametrize(
    "name", ["exp", "sqrt", "log", "sin", "multiply", "divide", "power", "reciprocal", "conjugate", "absolute", "square"]
)
def test_complex_gradients_are_finite_differences(name: str) -> None:
    rng = onp.random.default_rng(0)
    inputs = [rng.standard_normal(3) + 1.5 + 1j * rng.standard_normal(3) for _ in range(UFUNCS[name].nin)]
    way = rng.standard_normal(3) + 1j * rng.standard_normal(3)
    tensors = [dnp.array(x).requires_grad_() for x in inputs]

    def loss(values: Any) -> Any:
        return onp.sum(onp.real(values * (1.0 + 2.0j)))

    (gradient,) = ndgrad.autograd.grad(loss(UFUNCS[name](*tensors)), tensors[0])
    ahead, behind = (loss(UFUNCS[name](inputs[0] + s * way, *inputs[1:])) for s in (1e-6, -1e-6))
    onp.testing.assert_allclose(onp.sum(onp.real(onp.conj(plain(gradient)) * way)), (ahead - behind) / 2e-6, rtol=1e-6)


# ----- keywords ------------------------------------------------------------------------------------------------------------


def test_out_array_takes_the_history() -> None:
    x = dnp.array([1.0, 2.0, 3.0]).requires_grad_()
    u = dnp.zeros(3)
    assert onp.multiply(x, x, out=u) is u
    assert onp.sin(u, u) is u
    u.sum().backward()
    onp.testing.assert_allclose(plain(x.grad), onp.cos(onp.array([1.0, 4.0, 9.0])) * [2.0, 4.0, 6.0])


@pytest.mark.parametrize("np", [onp, dnp], ids=["numpy", "ndgrad.numpy"])
def test_out_by_position_means_the_same_in_every_call(np: Any) -> None:
    """A ufunc that was called without it has a quick way for the calls to come."""
    for _ in range(2):
        x = dnp.array([1.0, 2.0, 3.0]).requires_grad_()
        u = x * 1.0
        assert np.negative(u, u) is u
        u = np.negative(np.negative(u))
        assert np.multiply(u, u, u) is u
        u.sum().backward()
        onp.testing.assert_allclose(plain(x.grad), [2.0, 4.0, 6.0])


def test_out_part_of_a_buffer_and_overlap() -> None:
    x = dnp.array([1.0, 2.0, 3.0, 4.0]).requires_grad_()
    u = x * 1.0
    onp.add(u[1:], u[:-1], out=u[1:])
    onp.testing.assert_array_equal(plain(u), [1.0, 3.0, 5.0, 7.0])
    (u * u).sum().backward()
    onp.testing.assert_allclose(plain(x.grad), [8.0, 16.0, 24.0, 14.0])


def test_out_ndarray_takes_values_and_refuses_history() -> None:
    out = onp.zeros(2)
    constant, x = dnp.array([1.0, 2.0]), dnp.array([1.0, 2.0]).requires_grad_()
    assert onp.exp(constant, out=out) is out
    onp.testing.assert_allclose(out, onp.exp([1.0, 2.0]))
    with pytest.raises(RuntimeError, match="ndgrad.numpy"):
        onp.exp(x, out=out)
    with pytest.raises(RuntimeError, match="x = x \\+ y"):
        out += x
    onp.testing.assert_allclose(out, onp.exp([1.0, 2.0]))
    with ndgrad.no_grad():
        out += x
    onp.testing.assert_allclose(out, onp.exp([1.0, 2.0]) + [1.0, 2.0])


def test_out_must_hold_the_result() -> None:
    x = dnp.array([1.0, 2.0])
    with pytest.raises(TypeError, match="same_kind"):
        onp.add(x, 1.0, out=dnp.zeros(2, int))
    with pytest.raises(ValueError, match="shape"):
        onp.add(x, 1.0, out=dnp.zeros(3))
    assert plain(onp.add(x, 1.6, out=dnp.zeros(2, int), casting="unsafe")).tolist() == [2, 3]


def test_where_computes_only_what_is_chosen() -> None:
    x = dnp.array([0.0, 1.0, 4.0]).requires_grad_()
    mask = onp.array([False, True, True])
    y = onp.log(x, where=mask, out=dnp.full(3, 7.0))
    onp.testing.assert_allclose(plain(y), [7.0, 0.0, onp.log(4.0)])
    y.sum().backward()
    onp.testing.assert_allclose(plain(x.grad), [0.0, 1.0, 0.25])


def test_where_keeps_the_history_of_out() -> None:
    x, y = dnp.array([1.0, 2.0]).requires_grad_(), dnp.array([3.0, 4.0]).requires_grad_()
    out = y * 1.0
    onp.square(x, out=out, where=[True, False])
    out.sum().backward()
    assert plain(x.grad).tolist() == [2.0, 0.0]
    assert plain(y.grad).tolist() == [0.0, 1.0]


def test_dtype_and_casting() -> None:
    x = dnp.array([1.0, 2.0], onp.float32).requires_grad_()
    y = onp.multiply(x, 0.1, dtype=onp.float64)
    assert y.dtype == onp.float64
    onp.testing.assert_array_equal(plain(y), onp.multiply(onp.array([1.0, 2.0], onp.float32), 0.1, dtype=onp.float64))
    y.sum().backward()
    assert x.grad.dtype == onp.float32
    with pytest.raises(TypeError, match="float64"):
        onp.sin(dnp.array([1.0]), dtype=onp.int64)
    with pytest.raises(TypeError):
        onp.add(dnp.array([1.0]), 1.0, dtype=onp.float32, casting="no")


def test_lists_and_lists_of_arrays_are_operands() -> None:
    x = dnp.array(2.0).requires_grad_()
    y = onp.add(dnp.array([1.0, 2.0]), [x, x * x])
    assert type(y) is dnp.Array
    y.sum().backward()
    assert x.grad.item() == 5.0


# ----- methods -------------------------------------------------------------------------------------------------------------

BINARY = [n for n in PLAIN if UFUNCS[n].nin == 2 and UFUNCS[n].nout == 1 and n not in DISCRETE and n != "ldexp"]


def compare(run: Any, *inputs: Any, oracle: Any = None) -> None:
    """Values as NumPy's, gradients as finite differences along a direction."""
    oracle = oracle or run
    expected = oracle(*inputs)
    tensors = [dnp.array(x).requires_grad_() for x in inputs]
    found = run(*tensors)
    assert type(found) is dnp.Array
    assert found.dtype == expected.dtype
    onp.testing.assert_allclose(plain(found), expected, rtol=1e-12)
    rng = onp.random.default_rng(2)
    w = rng.standard_normal(expected.shape)
    (found * w).sum().backward()
    for k, x in enumerate(inputs):
        way = rng.standard_normal(x.shape)
        ahead, behind = ((oracle(*(y + s * way if j == k else y for j, y in enumerate(inputs))) * w).sum() for s in (1e-6, -1e-6))
        onp.testing.assert_allclose((plain(tensors[k].grad) * way).sum(), (ahead - behind) / 2e-6, rtol=1e-4, atol=1e-6)


@pytest.mark.parametrize("name", BINARY)
def test_reduce_accumulate_outer_and_reduceat(name: str) -> None:
    ufunc = UFUNCS[name]
    x = operands(name, (4, 3), seed=4)[0]
    # NumPy's own reduce of power and arctan2 skips elements on some processors, so the oracle is what the words mean
    fold = lambda parts: functools.reduce(ufunc, parts)
    compare(lambda a: ufunc.reduce(a), x, oracle=lambda a: fold(a))
    compare(lambda a: ufunc.reduce(a, axis=1, keepdims=True), x, oracle=lambda a: fold(a.T)[:, None])
    compare(lambda a: ufunc.accumulate(a, axis=1), x, oracle=lambda a: onp.stack([fold(a.T[: i + 1]) for i in range(3)], 1))
    compare(lambda a: ufunc.reduceat(a, [0, 2, 1], axis=0), x, oracle=lambda a: onp.stack([fold(a[:2]), a[2], fold(a[1:])]))
    compare(lambda a, b: ufunc.outer(a, b), x[0], x[2:])


@pytest.mark.parametrize("name", ["add", "multiply", "maximum", "minimum", "logaddexp", "hypot", "fmax"])
def test_reduce_with_initial_where_axes_and_out(name: str) -> None:
    ufunc = UFUNCS[name]
    x = operands(name, (2, 3, 4), seed=5)[0]
    mask = onp.random.default_rng(1).random((2, 3, 4)) > 0.4
    if name != "fmax":
        compare(lambda a: ufunc.reduce(a, axis=(0, 2)), x)
        compare(lambda a: ufunc.reduce(a, axis=None), x)
    compare(lambda a: ufunc.reduce(a, axis=1, initial=0.5), x)
    compare(lambda a: ufunc.reduce(a, axis=1, initial=0.5, where=mask), x)
    t, out = dnp.array(x).requires_grad_(), dnp.zeros((2, 4))
    assert ufunc.reduce(t, axis=1, out=out) is out
    assert out.requires_grad


def test_reduce_of_nothing() -> None:
    empty = dnp.zeros((0, 3))
    assert plain(onp.add.reduce(empty)).tolist() == [0.0, 0.0, 0.0]
    assert plain(onp.multiply.reduce(empty)).tolist() == [1.0, 1.0, 1.0]
    with pytest.raises(ValueError, match="identity"):
        onp.maximum.reduce(empty)
    with pytest.raises(ValueError, match="initial"):
        onp.maximum.reduce(dnp.ones(3), where=[True, False, True])
    with pytest.raises(ValueError, match="reorderable"):
        onp.subtract.reduce(dnp.ones((2, 2)), axis=(0, 1))


def test_integer_reductions_have_numpys_dtypes() -> None:
    for kind in "?bBhiq":
        x = onp.array([1, 1, 1], kind)
        for ufunc in (onp.add, onp.multiply, onp.maximum, onp.logical_and, onp.bitwise_or):
            assert ufunc.reduce(dnp.array(x)).dtype == ufunc.reduce(x).dtype
    assert onp.add.reduce(dnp.array([1, 2]), dtype=float).dtype == float


@pytest.mark.parametrize("name", ["add", "subtract", "multiply", "divide", "maximum", "power", "hypot"])
def test_at_counts_repeated_places(name: str) -> None:
    ufunc = UFUNCS[name]
    places, values = onp.array([0, 2, 0, 3, 0]), operands(name, (5,), seed=6)[0]
    base = operands(name, (4,), seed=8)[0]

    def run(a: Any, v: Any) -> Any:
        u = a * 1.0
        ufunc.at(u, places, v)
        return u

    compare(run, base, values)


def test_at_of_unary_ufuncs_slices_and_plain_memory() -> None:
    compare(lambda a: (u := a * 1.0, onp.negative.at(u, [0, 0, 1]))[0], onp.array([1.0, 2.0, 3.0]))
    compare(lambda a: (u := a * 1.0, onp.add.at(u, (slice(None), 1), 2.0))[0], onp.ones((2, 3)))
    with pytest.raises(RuntimeError, match="ndgrad.numpy"):
        onp.add.at(onp.zeros(3), [0], dnp.array([1.0]).requires_grad_())


# ----- gufuncs -------------------------------------------------------------------------------------------------------------


def test_gufuncs_and_their_axes() -> None:
    rng = onp.random.default_rng(0)
    a, b, v = rng.standard_normal((2, 3, 4)), rng.standard_normal((4, 5)), rng.standard_normal(4)
    compare(onp.matmul, a, b)
    compare(lambda x, y: onp.matmul(x, y, axes=[(1, 0), (-2, -1), (-1, -2)]), rng.standard_normal((4, 3)), b)
    compare(onp.vecdot, a, v)
    compare(lambda x, y: onp.vecdot(x, y, axis=1, keepdims=True), a, rng.standard_normal((2, 3, 4)))
    if hasattr(onp, "matvec"):
        compare(onp.matvec, a, v)
        compare(onp.vecmat, v, b)
    with pytest.raises((ValueError, RuntimeError), match="dimension"):
        onp.matmul(dnp.array(1.0), dnp.ones(3))


# ----- tensor classes and foreigners ----------------------------------------------------------------------------------------------------


def test_faces_of_results() -> None:
    t = ndgrad.tensor([1.0, 2.0])
    assert type(onp.sin(t)) is dnp.Array
    assert type(onp.add(t, 1.0)) is dnp.Array
    # NumPy does not tell an operator from a function: an ndarray on the left leaves torch's tensor class as it is
    assert type(onp.ones(2) + t) is ndgrad.Tensor
    assert type(onp.float64(2.0) * t) is ndgrad.Tensor
    assert type(onp.ones(2) < t) is ndgrad.Tensor
    assert type(onp.ones(2) + dnp.array([1.0, 2.0])) is dnp.Array


def test_ufuncs_made_of_python_functions_are_refused() -> None:
    twice = onp.frompyfunc(lambda x: 2 * x, 1, 1)
    with pytest.raises(TypeError, match="vectorize"):
        twice(dnp.array([1.0]))


def test_special_functions_of_scipy_record() -> None:
    special = pytest.importorskip("scipy.special")
    x = dnp.array([0.3, 1.2, 2.5]).requires_grad_()
    for name in ("gammaln", "erf", "expit", "i0", "ndtr", "digamma", "j0"):
        f = getattr(special, name)
        y = f(x)
        onp.testing.assert_allclose(plain(y), f(plain(x)), rtol=1e-12)
        (gradient,) = ndgrad.autograd.grad(y.sum(), x)
        onp.testing.assert_allclose(plain(gradient), (f(plain(x) + 1e-6) - f(plain(x) - 1e-6)) / 2e-6, rtol=1e-6)
    with pytest.raises(TypeError, match="airye"):
        special.airye(x)


def test_ufuncs_work_in_transforms() -> None:
    x = onp.array([[0.3, 1.2], [0.4, 0.1]])
    row = ndgrad.func.vmap(ndgrad.func.grad(lambda v: onp.sum(onp.sin(v) * onp.exp(v))))(dnp.array(x))
    onp.testing.assert_allclose(plain(row), onp.exp(x) * (onp.sin(x) + onp.cos(x)))
    second = ndgrad.func.hessian(lambda v: onp.add.reduce(onp.power(v, 3.0)))(dnp.array([1.0, 2.0]))
    onp.testing.assert_allclose(plain(second), onp.diag([6.0, 12.0]))


# ----- the ufuncs of ndgrad.numpy --------------------------------------------------------------------------------------------------


def test_our_ufuncs_make_arrays_of_anything_and_numbers_of_numbers() -> None:
    assert type(dnp.sin([0.0, 1.0])) is dnp.Array
    assert type(dnp.sin(onp.ones(2))) is dnp.Array
    assert isinstance(dnp.sin(0.5), float)
    assert type(dnp.add.reduce([1.0, 2.0])) is dnp.Array
    assert type(dnp.multiply.outer([1.0, 2.0], [3.0])) is dnp.Array
    assert dnp.add.identity == 0
    assert dnp.add.nin == 2
    assert dnp.abs is dnp.absolute
    assert dnp.equal(onp.array(["a", "b"]), "a").tolist() == [True, False]


def test_our_ufuncs_survive_pickling() -> None:
    import pickle

    assert pickle.loads(pickle.dumps(dnp.add)) is dnp.add


def test_every_ufunc_of_numpy_is_declared_with_a_docstring() -> None:
    theirs = {name: f for name, f in vars(onp).items() if isinstance(f, onp.ufunc)}
    assert set(FUNCTIONS) == set(theirs)
    for name, f in theirs.items():
        ours = FUNCTIONS[name]
        assert ours.ufunc is f, name
        assert f">>> np.{f.__name__}(" in (ours.__doc__ or "")
        assert list(inspect.signature(ours).parameters)[: f.nin + 1] == [*(["x"] if f.nin == 1 else ["x1", "x2"]), "out"]


def test_dates_have_their_ufunc() -> None:
    assert dnp.isnat(onp.array(["NaT", "2020-01-01"], "datetime64[D]")).tolist() == [True, False]
    with pytest.raises(TypeError, match="isnan"):
        dnp.isnat(dnp.array([1.0]))
