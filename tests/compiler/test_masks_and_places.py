"""Writes by masks, at computed indices and by `ufunc.at`: parts of a program, with the derivatives of eager code."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import ndgrad
import ndgrad.numpy as dnp
from ndgrad._src.foundations.pytree import tree_flatten
from ndgrad.func import grad, vmap

RNG = np.random.default_rng(0)
X, Y = RNG.standard_normal((2, 3, 4))
MASK = X > 0
PLACES = np.array([0, 2, 5, 2])

Form = Callable[[Any, Any, Any], Any]


def write_copy(change: Callable[[Any, Any, Any, Any], None]) -> Form:
    """Return a function that changes a copy of x."""

    def f(np: Any, x: Any, y: Any) -> Any:
        a = x * 1
        change(np, a, x, y)
        return (a * a * y).sum()

    return f


def set_item(index: Callable[[Any, Any], Any], value: Callable[[Any], Any]) -> Form:
    return write_copy(lambda np, a, x, y: a.__setitem__(index(x, y), value(y)))


def two_results(np: Any, x: Any, y: Any) -> Any:
    whole, part = np.zeros_like(x), np.zeros_like(x)
    np.modf(x, out=(part, whole))
    return (part * y + whole).sum()


FORMS: dict[str, Form] = {
    # Ufuncs.
    "where= with out=": lambda np, x, y: np.add(x, y * x, where=x > 0, out=np.zeros_like(x)).sum(),
    "where= outside the domain": lambda np, x, y: (np.sqrt(x, where=x > 0, out=np.zeros((3, 4))) * y).sum(),
    "where= that broadcasts": lambda np, x, y: (np.multiply(x, y, where=x[0] > 0, out=x * 2) ** 2).sum(),
    "where= a constant": lambda np, x, y: (np.add(x, y, where=MASK, out=x * 2) ** 2).sum(),
    "where= nowhere": lambda np, x, y: (np.log(x, where=x > 100, out=x * y)).sum(),
    "where= and no out=": lambda np, x, y: np.multiply(x, y, where=np.ones((3, 4), bool)).sum(),
    "out= twice": write_copy(lambda np, a, x, y: np.multiply(np.exp(x, out=a), y, out=a)),
    "two results": two_results,
    "at": write_copy(lambda np, a, x, y: np.add.at(a, np.argmax(y, 0), y[0] * x[0, 0])),
    "at, multiplied": write_copy(lambda np, a, x, y: np.multiply.at(a.reshape(-1), PLACES, y[0])),
    "reduce where= and initial=": lambda np, x, y: (np.add.reduce(x * y, axis=0, where=x > 0, initial=2.0) ** 2).sum(),
    "maximum.reduce where=": lambda np, x, y: np.maximum.reduce(x * y, axis=1, where=x > 0, initial=-9.0).sum(),
    "accumulate out=": write_copy(lambda np, a, x, y: np.multiply.accumulate(x, axis=1, out=a)),
    "outer": lambda np, x, y: (np.hypot.outer(x[0], y[1]) ** 3).sum(),
    "mean where=": lambda np, x, y: np.mean(x * y, axis=0, where=x > -100).prod(),
    # Masks.
    "putmask": write_copy(lambda np, a, x, y: np.putmask(a, x > 0, y)),
    "putmask, too few": write_copy(lambda np, a, x, y: np.putmask(a, x > 0, y[0, :3] ** 2)),
    "place": write_copy(lambda np, a, x, y: np.place(a, x > 0, y[0] ** 2)),
    "copyto": write_copy(lambda np, a, x, y: np.copyto(a, y * y, where=x > 0)),
    "a number by a mask": set_item(lambda x, y: x > 0, lambda y: y[0, 0]),
    "rows by a mask": set_item(lambda x, y: x[:, 0] > 0, lambda y: 0.5),
    "rows by a mask, a row": set_item(lambda x, y: x[:, 0] > 0, lambda y: y[0] * 2),
    "columns by a mask": set_item(lambda x, y: (slice(1, None), x[0] > 0), lambda y: y[1:, :1]),
    "a column's part by a mask": set_item(lambda x, y: (x[:, 0] > 0, 1), lambda y: y[0, 0]),
    "all or none by one truth": set_item(lambda x, y: x[0, 0] > 0, lambda y: y[0, 0]),
    "a row of all or none": set_item(lambda x, y: x[0, 0] > y[0, 0], lambda y: y[:1] * 2),
    "by a constant mask": set_item(lambda x, y: MASK, lambda y: y[MASK] * 2),
    "read by a constant mask": lambda np, x, y: ((x * y)[MASK] ** 2).sum(),
    "extract by a constant": lambda np, x, y: (np.extract(MASK, x * y) ** 2).sum(),
    "compress by a constant": lambda np, x, y: (np.compress([True, False, True], x * y, axis=0) ** 2).sum(),
    # Indices.
    "put": write_copy(lambda np, a, x, y: np.put(a, PLACES, y[0])),
    "put at computed places": write_copy(lambda np, a, x, y: np.put(a, np.argmax(y, 0) * 4 - 2, y[0] * 2)),
    "put, clipped": write_copy(lambda np, a, x, y: np.put(a, np.argmax(y, 0) * 40, y[0], mode="clip")),
    "put far away": write_copy(lambda np, a, x, y: np.put(a, np.argmax(y) * 9, 1.0)),
    "put_along_axis": write_copy(lambda np, a, x, y: np.put_along_axis(a, np.argmax(x, 1)[:, None], y[:, :1], 1)),
    "unravel_index": lambda np, x, y: x[np.unravel_index(np.argmax(x), x.shape)] * y[1, 1] ** 2,
    "unravel_index, columns first": lambda np, x, y: x[np.unravel_index(np.argsort(x, axis=None), (3, 4), order="F")] @ np.arange(12.0),
    "ravel_multi_index": lambda np, x, y: (x.ravel()[np.ravel_multi_index((np.argmax(x, 0), np.arange(4)), (3, 4))] ** 2).sum(),
    "choose": lambda np, x, y: (np.choose((x > 0).astype(int), [x * x, y * x])).sum(),
    "choose by a constant": lambda np, x, y: (np.choose((np.arange(12).reshape(3, 4) % 2 == 1).astype(int), [x * x, y * x])).sum(),
    "digitize": lambda np, x, y: (np.digitize(x, [-1.0, 0.0, 1.0]) * x * y).sum(),
    "digitize, falling": lambda np, x, y: (np.digitize(x, [1.0, 0.0, -1.0], right=True) * x * y).sum(),
    "bincount": lambda np, x, y: (np.bincount(np.argmax(x, 1), weights=y[:, 0], minlength=4) ** 2).sum(),
    # Reads of values that are constant or not needed.
    "einsum": lambda np, x, y: (np.einsum("ij,kj->ik", x, y) ** 2).sum(),
    "percentile": lambda np, x, y: (np.percentile(x * y, [30, 60], axis=0) ** 2).sum(),
    "lstsq": lambda np, x, y: (np.linalg.lstsq(x.T, y[0], rcond=None)[0] ** 2).sum(),
    "polyfit": lambda np, x, y: (np.polyfit(Y[1], x[0], 1) ** 2).sum(),
    "average": lambda np, x, y: np.average(x, weights=y * y) ** 2,
    "nanmax": lambda np, x, y: np.nanmax(x * y, axis=0) @ y[0],
}  # fmt: skip


@pytest.fixture(autouse=True)
def on_numpy(monkeypatch: pytest.MonkeyPatch) -> None:
    """Use the trace only. Other tests cover the execution of programs."""
    monkeypatch.setenv("NDGRAD_COMPILE_REPLAY", "1")


def close(found: Any, expected: Any) -> None:
    for a, b in zip(tree_flatten(found)[0], tree_flatten(expected)[0], strict=True):
        np.testing.assert_allclose(a.detach().numpy(), b.detach().numpy(), rtol=1e-10, atol=1e-12)


DERIVATIVES: dict[str, Callable[[Any], Any]] = {
    "values": lambda f: f,
    "gradients": lambda f: grad(f, argnums=(0, 1)),
    "second derivatives": lambda f: grad(lambda x, y: (grad(f)(x, y) * (Y + 1)).sum(), argnums=(0, 1)),
}


@pytest.mark.parametrize("name", [name for name in FORMS if name != "put far away"])
def test_forms_are_compiled_with_the_derivatives_of_eager_code(name: str) -> None:
    f = lambda x, y: FORMS[name](dnp, x, y)
    for derivative in DERIVATIVES.values():
        compiled = ndgrad.compile(derivative(f), fullgraph=True)
        for x, y in ((X, Y), (-X, Y + 0.1)):
            args = dnp.array(x), dnp.array(y)
            close(compiled(*args), derivative(f)(*args))


def test_numpys_own_functions_of_traced_arrays() -> None:
    for name in ("where= that broadcasts", "putmask", "copyto", "at", "unravel_index", "einsum"):
        f = lambda x, y, name=name: FORMS[name](np, x, y)
        args = dnp.array(X), dnp.array(Y)
        close(ndgrad.compile(grad(f), fullgraph=True)(*args), grad(f)(*args))


@pytest.mark.parametrize(
    "name",
    [
        "where= outside the domain", "all or none by one truth", "putmask", "place", "put at computed places", "choose", "rows by a mask",
        "digitize",
    ],
)
def test_forms_inside_vmap(name: str) -> None:
    f = lambda x, y: FORMS[name](dnp, x, y)
    xs, ys = (dnp.array(np.stack([a, -a, a * 0.5])) for a in (X, Y))
    close(vmap(grad(f))(xs, ys), dnp.stack([grad(f)(x, y) for x, y in zip(xs, ys, strict=True)]))


TENSORS: dict[str, Callable[[Any, Any], Any]] = {
    "rows by a mask": lambda a, y: a.__setitem__(a[:, 0] > 0, y[0]),
    "an item of rows": lambda a, y: a.__setitem__((a[:, 0] > 0, 1), 2.0),
    "the last dimension by a mask": lambda a, y: a.__setitem__((..., a[0] > 0), 2.0),
    "a new dimension": lambda a, y: a.__setitem__((None, a[:, 0] > 0), y[:1]),
}


@pytest.mark.parametrize("name", TENSORS)
def test_masks_of_parts_on_torchs_class(name: str) -> None:
    def f(x: Any, y: Any) -> Any:
        a = x * 1
        TENSORS[name](a, y)
        return (a * a * y).sum()

    explanation = ndgrad.compiler.explain(f, ndgrad.tensor(X), ndgrad.tensor(Y))
    assert explanation.compiled or "depends on values" in str(explanation.reason)
    for x in (X, -X):
        args = ndgrad.tensor(x), ndgrad.tensor(Y)
        for derivative in DERIVATIVES.values():
            g = derivative(f) if derivative is not DERIVATIVES["second derivatives"] else grad(lambda x, y: grad(f)(x, y).sum(), (0, 1))
            close(ndgrad.compile(g)(*args), g(*args))


@pytest.mark.parametrize(
    ("f", "error"),
    [
        (lambda x: dnp.unravel_index(dnp.argmax(x) + 99, (3, 4))[0], ValueError),
        (lambda x: dnp.ravel_multi_index((dnp.argmax(x), 1), (3, 4)), ValueError),
        (lambda x: dnp.choose(dnp.argmax(x), [x, x]), (ValueError, IndexError)),
        (lambda x: FORMS["put far away"](dnp, x, x), IndexError),
    ],
)
def test_places_out_of_range_raise_as_in_eager_code(f: Any, error: Any) -> None:
    x = dnp.array(np.where(np.arange(12).reshape(3, 4) == 11, 9.0, X))
    for g in (f, ndgrad.compile(f)):
        with pytest.raises(error):
            g(x)


@pytest.mark.parametrize(
    "f",
    [
        lambda x: dnp.extract(x > 0, x).sum(),
        lambda x: dnp.compress(x[:, 0] > 0, x, axis=0).sum(),
        lambda x: x[x > 0].sum(),
        lambda x: dnp.nonzero(x)[0],
    ],
)
def test_shapes_that_depend_on_values_run_eagerly_and_say_so(f: Any) -> None:
    explanation = ndgrad.compiler.explain(f, dnp.array(X))
    assert "depends on values" in str(explanation.reason)
    for x in (X, -X):
        close(ndgrad.compile(f)(dnp.array(x)), f(dnp.array(x)))


# ----- arrays from outside -------------------------------------------------------------------------------------------------


def test_a_large_array_from_outside_is_kept_once() -> None:
    data = RNG.standard_normal((100, 20))
    f = ndgrad.compile(lambda w: ((data @ w) ** 2).sum() + (data * w).sum() + dnp.tanh(data).sum(), fullgraph=True)
    w = dnp.array(RNG.standard_normal(20))
    expected = f.function(w)
    close(f(w), expected)
    program = f.entries[-1].specialisation.plan.program
    assert len([a for a in program.constants.values() if a.shape == data.shape]) == 1
    data[3, 4] = 7.0
    close(f(w), f.function(w))
    assert f(w).item() != expected.item()


@pytest.mark.parametrize("dtype", ["f8", "f4", "c16", "i8", "?"])
@pytest.mark.parametrize("order", ["C", "F", "strided"])
def test_contents_are_compared_bit_by_bit(dtype: str, order: str) -> None:
    from ndgrad._src.compiler.capture.captured_state import Contents

    array = np.asarray(RNG.standard_normal((300, 200)).astype(dtype), order="F" if order == "F" else "C")
    array = array[::2, ::3] if order == "strided" else array
    known = Contents(array)
    assert known.are_in(array)
    for change in (0, 0.0 if dtype == "?" else -1):
        array[-1, -1] = change + 1
        known = Contents(array)
        array[-1, -1] = change
        assert not known.are_in(array)
    if dtype in ("f8", "f4"):
        array[-1, -1] = np.nan
        assert Contents(array).are_in(array)
        array[-1, -1] = 0.0
        known = Contents(array)
        array[-1, -1] = -0.0
        assert not known.are_in(array)
