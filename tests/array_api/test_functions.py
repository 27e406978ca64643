"""Every function of the namespace gives NumPy's values and data types, and the gradients that finite differences give."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import ndgrad
import ndgrad.array_api as xp
from ndgrad.numpy import Array
from tests.array_api.samples import DIFFERENTIABLE, DISCRETE
from tests.array_api.signatures import FFT, LINALG, MAIN


def cases(samples: dict[str, Any]) -> list[Any]:
    return [pytest.param(*call, id=f"{name}-{i}") for name, calls in samples.items() for i, call in enumerate(calls)]


def parts(result: Any) -> list[Any]:
    return [p for r in result for p in parts(r)] if isinstance(result, (tuple, list)) else [result]


def wrap_arrays(arrays: Any) -> list[Any]:
    return [xp.asarray(a) if isinstance(a, np.ndarray) else a for a in arrays]


def by_numpy(call: Any, arrays: Any) -> list[Any]:
    try:
        return parts(call(np, *arrays))
    except (AttributeError, TypeError):
        if np.lib.NumpyVersion(np.__version__) >= "2.1.0":
            raise
        pytest.skip("NumPy 2.0 does not know this call")


def test_every_function_has_samples() -> None:
    names = {p + n for p, group in (("", MAIN), ("linalg.", LINALG), ("fft.", FFT)) for names in group.values() for n in names.split()}
    assert {*DIFFERENTIABLE, *DISCRETE} == names
    assert not {*DIFFERENTIABLE} & {*DISCRETE}


@pytest.mark.parametrize(("call", "arrays"), cases(DISCRETE) + cases(DIFFERENTIABLE))
def test_values_and_types_are_numpys(call: Any, arrays: Any) -> None:
    ours, theirs = parts(call(xp, *wrap_arrays(arrays))), by_numpy(call, arrays)
    assert len(ours) == len(theirs)
    for a, b in zip(ours, theirs, strict=True):
        if not isinstance(b, (np.ndarray, np.generic)):
            assert a == b
            continue
        assert type(a) is Array
        assert (a.shape, a.dtype) == (b.shape, b.dtype)
        np.testing.assert_allclose(a.numpy(), b, rtol=1e-12, atol=1e-14)


def weighted(results: list[Any], module: Any) -> Any:
    """A real number that depends on all results; `module` computes it."""
    total: Any = 0.0
    for k, r in enumerate(results):
        weights = np.cos(np.arange(r.size) + k).reshape(r.shape)
        total = total + module.sum(module.real(r) * weights)
        if r.dtype.kind == "c":
            total = total + module.sum(module.imag(r) * (1.0 - weights))
    return total


def slopes(f: Any, arrays: list[Any], which: int) -> Any:
    """Central differences of a real function; of complex arguments the slope along 1 plus 1j times that along 1j, as backward gives."""
    x = arrays[which]
    found = np.zeros_like(x)
    for place in np.ndindex(x.shape):
        for unit in (1.0, 1j) if x.dtype.kind == "c" else (1.0,):
            values = []
            for step in (1e-6, -1e-6):
                moved = x.copy()
                moved[place] += step * unit
                values.append(f(*(moved if i == which else a for i, a in enumerate(arrays))))
            found[place] += unit * (values[0] - values[1]) / 2e-6
    return found


@pytest.mark.parametrize(("call", "arrays"), cases(DIFFERENTIABLE))
def test_gradients_are_those_of_finite_differences(call: Any, arrays: Any) -> None:
    inputs = [t.requires_grad_() for t in wrap_arrays(arrays)]
    results = parts(call(xp, *inputs))
    assert all(r.requires_grad for r in results)
    weighted(results, xp).backward()
    for k, t in enumerate(inputs):
        expected = slopes(lambda *values: weighted(by_numpy(call, values), np), list(arrays), k)
        np.testing.assert_allclose(t.grad.numpy(), expected, rtol=1e-5, atol=1e-7)


# ----- gaps of NumPy's own namespace --------------------------------------------------------------------------------------


@pytest.mark.parametrize("dtype", [xp.float64, xp.int16, xp.uint8])
def test_descending_order_is_stable(dtype: Any) -> None:
    x = xp.asarray([3, 1, 2, 3, 1], dtype=dtype)
    assert xp.argsort(x, descending=True).tolist() == [0, 3, 2, 1, 4]
    assert xp.sort(x, descending=True).tolist() == [3, 3, 2, 1, 1]


def test_clip_keeps_the_data_type_of_its_array() -> None:
    x = xp.asarray([1.0, 5.0], dtype=xp.float32)
    assert xp.clip(x, xp.asarray(2.0), None).dtype == xp.float32


def test_frequencies_take_a_data_type() -> None:
    assert xp.fft.fftfreq(4, dtype=xp.float32).dtype == xp.float32
    assert xp.fft.rfftfreq(4, d=2.0).tolist() == [0.0, 0.125, 0.25]


def test_limits_are_python_numbers() -> None:
    for limits in (xp.finfo(xp.float32), xp.finfo(xp.asarray(1j))):
        assert {type(v) for v in (limits.eps, limits.max, limits.min, limits.smallest_normal)} == {float}
    assert xp.finfo(xp.complex64).dtype == xp.float32
    assert type(xp.iinfo(xp.asarray([1], dtype=xp.int8)).max) is int


def test_complex_numbers_do_not_become_real_by_a_cast() -> None:
    with pytest.raises(TypeError, match="real\\(x\\) or imag\\(x\\)"):
        xp.astype(xp.asarray([1j]), xp.float64)


def test_take_and_nonzero_refuse_what_has_no_meaning() -> None:
    with pytest.raises(ValueError, match="axis="):
        xp.take(xp.ones((2, 2)), xp.asarray([0]))
    with pytest.raises(ValueError, match="0-d"):
        xp.nonzero(xp.asarray(1.0))
    with pytest.raises(ValueError, match="sizes 3 and 1"):
        xp.vecdot(xp.ones(3), xp.ones(1))


def test_small_integers_keep_a_data_type_that_was_asked_for() -> None:
    x = xp.asarray([200, 100], dtype=xp.uint8)
    assert (xp.sum(x).dtype, xp.sum(x, dtype=xp.uint8).dtype) == (np.dtype("uint64"), np.dtype("uint8"))
    assert int(xp.sum(x, dtype=xp.uint8)) == 44
    assert xp.prod(x, dtype=xp.uint8).dtype == xp.uint8
    assert xp.vecdot(x, x).dtype == xp.uint8


def test_no_axes_reduce_nothing() -> None:
    x = xp.asarray([1.0, 2.0])
    assert xp.std(x, axis=()).tolist() == [0.0, 0.0]
    assert xp.sum(x, axis=()).tolist() == [1.0, 2.0]


@pytest.mark.parametrize("dtype", [xp.int32, xp.float32])
def test_the_zeroth_power_is_the_identity(dtype: Any) -> None:
    made = xp.linalg.matrix_power(xp.ones((2, 3, 3), dtype=dtype), 0)
    assert (type(made), made.dtype) == (Array, np.dtype(dtype))
    assert made[1].tolist() == np.eye(3).tolist()


def test_empty_masks_select_nothing() -> None:
    x = xp.ones((2, 3)).requires_grad_()
    assert x[xp.asarray([], dtype=xp.bool)].shape == (0, 3)
    with pytest.raises(IndexError):
        x[xp.asarray([True])]


# ----- the graph ---------------------------------------------------------------------------------------------------------------


def test_ends_of_ranges_are_differentiable() -> None:
    start = xp.asarray(1.0).requires_grad_()
    xp.sum(xp.linspace(start, 3.0, 5)).backward()
    assert start.grad.item() == pytest.approx(2.5)
    step = xp.asarray(0.5).requires_grad_()
    xp.sum(xp.arange(0.0, 2.0, step)).backward()
    assert step.grad.item() == pytest.approx(6.0)


def test_filling_with_a_differentiable_number_keeps_its_graph() -> None:
    c = xp.asarray(2.0).requires_grad_()
    (xp.sum(xp.full((2, 3), c)) + xp.sum(xp.full_like(xp.ones(4), c))).backward()
    assert c.grad.item() == 10.0


def test_functions_compose_with_transforms() -> None:
    x = xp.asarray([0.5, 1.5, 2.5])
    f = lambda t: xp.linalg.vector_norm(xp.sin(t)) * xp.sum(t)
    once = ndgrad.func.grad(f)(x)
    eps = 1e-6
    steps = [(f(x + eps * xp.eye(3)[i, :]) - f(x - eps * xp.eye(3)[i, :])).item() / (2 * eps) for i in range(3)]
    np.testing.assert_allclose(once.numpy(), steps, rtol=1e-7)
    rows = ndgrad.vmap(lambda row: xp.mean(row) + xp.max(row))(xp.reshape(xp.arange(6.0), (2, 3)))
    assert rows.tolist() == [3.0, 9.0]
