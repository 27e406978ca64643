"""Functions that write into their argument what lies in it: the result is NumPy's, which reads some values when their turn comes."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as onp
import pytest

import ndgrad.numpy as dnp
from ndgrad import func

START = onp.random.default_rng(5).normal(size=(3, 3))
MASK = onp.array([[False, True, True], [True, False, True], [True, True, False]])

VIEWS: dict[str, Callable[[Any], Any]] = {
    "itself": lambda v: v,
    "columns reversed": lambda v: v[..., ::-1],
    "rows reversed": lambda v: v[::-1],
    "transpose": lambda v: v.T,
    "row": lambda v: v[0],
    "column": lambda v: v[:, 1],
    "line": lambda v: v.reshape(-1)[1:],
    "rest": lambda v: v[1:],
}
WRITES: dict[str, Callable[[Any, Any, Any], Any]] = {
    "fill_diagonal": lambda np, v, w: np.fill_diagonal(v, w),
    "place": lambda np, v, w: np.place(v, MASK, w),
    "putmask": lambda np, v, w: np.putmask(v, MASK, w),
    "put": lambda np, v, w: np.put(v, [4, 1, 7, 2], w),
    "flat": lambda np, v, w: v.flat.__setitem__(slice(1, None, 2), w),
    "flat by places": lambda np, v, w: v.flat.__setitem__([4, 1, 7, 2], w),
    "all of flat": lambda np, v, w: setattr(v, "flat", w),
    "copyto": lambda np, v, w: np.copyto(v, w),
    "slice": lambda np, v, w: v.__setitem__(..., w),
    # Older versions of NumPy overwrite values before they read them, so the oracle copies them first.
    "rows": lambda np, v, w: v.__setitem__([2, 0, 1], w.copy() if np is onp else w),
    "concatenate": lambda np, v, w: np.concatenate([w[:1], w[:2]], out=v),
    "stack": lambda np, v, w: np.stack([w[0], w[1], w[0]], out=v),
    "matmul": lambda np, v, w: v.__imatmul__(w),
    "accumulate": lambda np, v, w: np.add.accumulate(w, axis=0, out=v),
}


def program(np: Any, x: Any, write: str, view: str) -> Any:
    v = x * 1.0
    seen = v[...]
    WRITES[write](np, v, VIEWS[view](v))
    return seen


@pytest.mark.parametrize("view", VIEWS)
@pytest.mark.parametrize("write", WRITES)
def test_values_that_lie_in_what_is_written(write: str, view: str) -> None:
    try:
        expected = program(onp, START, write, view)
    except (IndexError, ValueError, TypeError):
        pytest.skip("NumPy refuses the shapes")
    if onp.shape(VIEWS[view](START)) != (3, 3) and write == "accumulate":
        pytest.skip("NumPy overlooks an out= of another shape when it overlaps")
    ours = lambda x: program(dnp, x, write, view)
    x = dnp.array(START)
    onp.testing.assert_allclose(onp.asarray(ours(x)), expected, rtol=1e-14)
    h = 1e-6
    for direction in (onp.cos(onp.arange(9.0)).reshape(3, 3), onp.eye(3)):
        above, below = (program(onp, START + s * h * direction, write, view) for s in (1, -1))
        slope = (above - below) / (2 * h)
        onp.testing.assert_allclose(onp.asarray(func.jvp(ours, (x,), (dnp.array(direction),))[1]), slope, atol=1e-8)
        gradient = onp.asarray(func.grad(lambda x: (ours(x) * START).sum())(x))
        onp.testing.assert_allclose((gradient * direction).sum(), (slope * START).sum(), atol=1e-7)


@pytest.mark.parametrize("reduce", ["sum", "mean", "max", "std", "median", "ptp", "cumsum", "trace"])
def test_out_of_another_shape_is_refused_where_numpy_refuses_it(reduce: str) -> None:
    for np, make in ((onp, onp.array), (dnp, dnp.array)):
        with pytest.raises(ValueError):
            getattr(np, reduce)(make(START), **({} if reduce == "trace" else {"axis": 0}), out=make(onp.zeros((2, 3, 3))))


def test_matrix_multiplication_in_place_is_seen_by_who_has_the_array() -> None:
    def f(np: Any, x: Any) -> Any:
        v = x * 1.0
        w = v
        v @= x
        return w

    x = dnp.array(START)
    onp.testing.assert_allclose(onp.asarray(f(dnp, x)), START @ START)
    tangent = func.jvp(lambda x: f(dnp, x), (x,), (dnp.ones((3, 3)),))[1]
    ones = onp.ones((3, 3))
    onp.testing.assert_allclose(onp.asarray(tangent), ones @ START + START @ ones)
    for make in (onp.array, dnp.array):
        v = make(START[0])
        with pytest.raises(ValueError, match="at least two dimensions"):
            v @= make(START[0])
