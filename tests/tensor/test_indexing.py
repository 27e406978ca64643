"""x[...] read and written: values against NumPy, gradients against finite differences, and failures that change nothing."""

from __future__ import annotations

import numpy as np
import pytest
from tests.index_cases import random_case, random_value

import ndgrad
import ndgrad.numpy as ndnp
from ndgrad import func
from ndgrad._src.interpreters import forward_ad

A = np.random.default_rng(8).standard_normal((3, 4, 5))
I, J, MASK = np.array([0, 2, 2]), np.array([[1], [3]]), A > 0


def values(t):
    return np.asarray(t.detach().numpy())


def differences(f, array, step=1e-6):
    """Return the gradient of a scalar function of an array by central differences."""
    out = np.zeros_like(array)
    for i in np.ndindex(array.shape):
        moved = [array.copy(), array.copy()]
        moved[0][i] += step
        moved[1][i] -= step
        high, low = (float(f(m)) for m in moved)
        out[i] = (high - low) / (2 * step)
    return out


#: indices with the same meaning in torch and NumPy
INDICES = {
    "int": 1,
    "ints": (1, -2, 3),
    "slice": slice(1, None),
    "negative step": (slice(None), slice(None, None, -1)),
    "negative step and end": (slice(None, 0, -2), Ellipsis, slice(3, 1, -1)),
    "None": (slice(None), None, 1),
    "Ellipsis": (Ellipsis, 1),
    "empty slice": slice(2, 1),
    "array": I,
    "negative array": -I,
    "int8": I.astype(np.int8),
    "uint64": I.astype(np.uint64),
    "0-d array": (np.array(1), slice(1, 3)),
    "arrays": (I, J),
    "arrays apart": (I, slice(1, 3), I),
    "arrays and None": (I, None, slice(None), I),
    "array behind slice": (slice(None, None, 2), I),
    "mask": MASK,
    "mask behind slice": (slice(None), MASK[0]),
    "mask and array": (MASK[:, 0, 0], np.zeros(MASK[:, 0, 0].sum(), int)),
    "mask of nothing": A > 9,
    "list": [0, 2],
    "lists": ([0, 2], [1, 3]),
    "list of bools": [True, False, True],
    "empty list": [],
    "empty array": I[:0],
    "True": True,
    "False": False,
    "range": range(2),
}  # fmt: skip


def as_tensors(index):
    items = index if isinstance(index, tuple) else (index,)
    made = tuple(ndgrad.tensor(i) if isinstance(i, np.ndarray) else i for i in items)
    return made if isinstance(index, tuple) else made[0]


@pytest.mark.parametrize("name", INDICES)
@pytest.mark.parametrize("convert", [as_tensors, lambda index: index], ids=["tensors", "arrays"])
def test_reading_equals_numpy_and_its_gradient_finite_differences(name, convert):
    index = INDICES[name]
    x = ndgrad.tensor(A, requires_grad=True)
    part = x[convert(index)]
    np.testing.assert_array_equal(values(part), A[index])
    weights = np.cos(np.arange(part.numel())).reshape(tuple(part.shape))
    (part * ndgrad.tensor(weights)).sum().backward()
    np.testing.assert_allclose(values(x.grad), differences(lambda a: (a[index] * weights).sum(), A), atol=1e-8)


@pytest.mark.parametrize("name", INDICES)
@pytest.mark.parametrize("kind", ["number", "whole", "row"])
def test_writing_equals_numpy_and_its_gradients_finite_differences(name, kind):
    index = INDICES[name]
    shape = A[index].shape
    value = np.float64(0.7) if kind == "number" else np.sin(np.arange(np.prod(shape, dtype=int))).reshape(shape)
    if kind == "row" and shape and shape[0]:
        value = value[:1]

    def write_part(a, v):
        a = a.copy()
        a[index] = v
        return (a * np.cos(np.arange(60)).reshape(A.shape)).sum()

    x, y = ndgrad.tensor(A, requires_grad=True), ndgrad.tensor(value, requires_grad=True)
    z = x * 1.0
    z[as_tensors(index)] = y
    expected = A.copy()
    expected[index] = value
    np.testing.assert_array_equal(values(z), expected)
    (z * ndgrad.tensor(np.cos(np.arange(60)).reshape(A.shape))).sum().backward()
    np.testing.assert_allclose(values(x.grad), differences(lambda a: write_part(a, value), A), atol=1e-8)
    np.testing.assert_allclose(values(y.grad), differences(lambda v: write_part(A, v), np.asarray(value)), atol=1e-8)


def test_of_values_for_one_place_the_last_stays_and_gets_the_gradient():
    x, y = ndgrad.zeros(3), ndgrad.tensor([1.0, 2.0], requires_grad=True)
    x[ndgrad.tensor([1, 1])] = y
    assert values(x).tolist() == [0, 2, 0]
    x.sum().backward()
    assert values(y.grad).tolist() == [0, 1]


# NumPy 2.0 only warns about an index out of bounds if the result is empty.
@pytest.mark.filterwarnings("ignore:Out of bound index found:DeprecationWarning")
@pytest.mark.parametrize("start", range(0, 800, 100))
def test_random_indices_of_arrays_equal_numpy(start):
    for seed in range(start, start + 100):
        shape, index = random_case(seed, negative_steps=True)
        a = np.arange(float(np.prod(shape, dtype=int))).reshape(shape)
        x = ndnp.array(a)
        try:
            part = np.asarray(a[index])
        except IndexError:
            with pytest.raises(IndexError):
                x[index]
            with pytest.raises(IndexError):
                x[index] = 1.0
            np.testing.assert_array_equal(values(x), a)
            continue
        np.testing.assert_array_equal(values(x[index]), part)
        value = random_value(seed, part.shape)
        expected = a.copy()
        try:
            expected[index] = value
        except ValueError:
            with pytest.raises((RuntimeError, ValueError)):
                x[index] = value
        else:
            x[index] = value
        np.testing.assert_array_equal(values(x), expected)


# ----- failures ---------------------------------------------------------------------------------------------------------

BAD = {
    "int": (3, 0.0, IndexError),
    "ints": ((0, 0, 5), 0.0, IndexError),
    "too many": ((0, 0, 0, 0), 0.0, IndexError),
    "array": (np.array([0, 3]), 0.0, IndexError),
    "second array": ((np.array([0, 1]), np.array([0, -5])), 0.0, IndexError),
    "float array": (np.array([0.0]), 0.0, IndexError),
    "string": ("a", 0.0, IndexError),
    "two Ellipses": ((Ellipsis, Ellipsis), 0.0, IndexError),
    "mask": (MASK[:2], 0.0, IndexError),
    "arrays that do not broadcast": ((np.array([0, 1]), np.array([0, 1, 2])), 0.0, IndexError),
    "value for a view": (1, np.zeros((2, 5)), RuntimeError),
    "value for a 0-d array": (np.array(1), np.zeros((2, 5)), RuntimeError),
    "value for an array": (np.array([0, 1]), np.zeros((3, 4, 5)), RuntimeError),
    "value for a mask": (MASK, np.zeros(7), RuntimeError),
    "value for all of it": (slice(None), np.zeros((2, 5)), RuntimeError),
    "complex for a view": (1, 2j, RuntimeError),
    "complex for all of it": (slice(None), 2j, RuntimeError),
    "complex for an array": (np.array([0, 1]), 2j, RuntimeError),
    "complex for a mask": (MASK, 2j, RuntimeError),
    "list of tensors": (1, [ndgrad.zeros(5)] * 4, TypeError),
}  # fmt: skip


@pytest.mark.parametrize("name", BAD)
def test_a_write_that_fails_changes_nothing(name):
    index, value, error = BAD[name]
    x = ndgrad.tensor(A, requires_grad=True) * 1.0
    node, version = x.grad_fn, x._version
    with pytest.raises(error) as caught:
        x[index] = value
    assert len(str(caught.value)) > 30
    assert x.grad_fn is node
    assert x._version == version
    np.testing.assert_array_equal(values(x), A)


@pytest.mark.parametrize("index", [1, np.array([0, 1]), MASK], ids=["view", "array", "mask"])
def test_a_leaf_that_requires_grad_cannot_be_written(index):
    x = ndgrad.tensor(A, requires_grad=True)
    with pytest.raises(RuntimeError, match="leaf"):
        x[index] = 0.0
    np.testing.assert_array_equal(values(x), A)


# ----- side effects of reads and writes -------------------------------------------------------------------------------


def test_basic_indices_are_views_and_arrays_are_copies():
    x = ndgrad.tensor(A)
    assert x[::-1][1:]._is_view()
    assert x[..., None, 2]._is_view()
    assert not x[ndgrad.tensor([0, 1])]._is_view()
    assert not x[x > 0]._is_view()
    x[::-1][0] = 5.0
    assert values(x[2]).tolist() == np.full((4, 5), 5.0).tolist()


def test_versions_count_writes():
    x = ndgrad.zeros(3)
    x[0] = 1.0
    x[ndgrad.tensor([1])] = 1.0
    x[x > 0] = 2.0
    assert x._version == 3
    assert values(x).tolist() == [2, 2, 0]


@pytest.mark.parametrize("dtype", [np.float32, np.float16, np.complex64, np.int8])
def test_dtypes_are_kept(dtype):
    a = (np.abs(A) * 8).astype(dtype)
    x = ndgrad.tensor(a)
    for index in (1, np.array([0, 1]), MASK):
        assert x[index].dtype == dtype
        x[index] = 3
        assert x.dtype == dtype
        a[index] = 3
        np.testing.assert_array_equal(values(x), a)


def test_gradient_of_a_float32_tensor_with_a_float64_number_written():
    x = ndgrad.tensor(A.astype(np.float32), requires_grad=True)
    z = x * 1
    z[ndgrad.tensor([0, 1])] = 2.0
    z[1:] += x[ndgrad.tensor([0, 1])]
    z.sum().backward()
    assert x.grad.dtype == np.float32
    np.testing.assert_array_equal(values(x.grad)[:, 0, 0], [1, 1, 1])


def test_second_derivatives_through_writes_and_reads():
    def f(x):
        z = x * x
        z[ndgrad.tensor([0, 2])] = (x * x * x)[:2]
        z[z > 1] = x[0] * x[1]
        return (z[ndgrad.tensor([0, 0, 1, 2])] * z[1]).sum()

    a = np.array([0.5, 1.5, 0.8])
    hessian = values(func.hessian(f)(ndgrad.tensor(a)))

    def gradient(v):
        return values(func.grad(f)(ndgrad.tensor(v)))

    numeric = np.stack([(gradient(a + h) - gradient(a - h)) / 2e-5 for h in 1e-5 * np.eye(3)])
    np.testing.assert_allclose(hessian, numeric, atol=1e-7)


def test_tangents_follow_writes_even_beside_infinities():
    x, y = ndgrad.tensor([np.inf, 1.0, 2.0]), ndgrad.tensor([5.0])
    with forward_ad.dual_level():
        dual = forward_ad.make_dual(y, ndgrad.tensor([3.0]))
        out = ndgrad.index_put(x, (ndgrad.tensor([1]),), dual)
        assert values(forward_ad.unpack_dual(out).tangent).tolist() == [0, 3, 0]


def test_vmap_of_reading_and_writing_equals_a_loop():
    x, rows = ndgrad.tensor(A), ndgrad.tensor(np.array([[0, 2], [3, 3], [1, 0]]))

    def read_part(m, i):
        return m[i].sum(0) * m[:, 1:3].sum() + m[i, i]. sum()

    def write(m, i):
        z = m * 1.0
        z[i[0]] = 0.0
        z[:, i] = z[:, i] * 2.0
        return z

    for f in (read_part, write):
        batched = values(func.vmap(f)(x, rows))
        np.testing.assert_allclose(batched, np.stack([values(f(x[b], rows[b])) for b in range(3)]))


def test_index_tensors_that_are_written_afterwards_do_not_disturb_backward():
    x, i = ndgrad.tensor(A[0], requires_grad=True), ndgrad.tensor([0, 1])
    part = x[i]
    i[0] = 3
    with pytest.raises(RuntimeError, match="modified by an inplace operation"):
        part.sum().backward()
