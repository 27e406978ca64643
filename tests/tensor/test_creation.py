"""Factories and tensors from data: dtypes, shapes, memory, options, errors. NumPy is the oracle."""

from __future__ import annotations

import contextlib

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import ndgrad
from ndgrad._src.transforms.transforms import grad, vmap

# ----- from data ---------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("data", "dtype"),
    [
        (1.5, "float64"), (3, "int64"), (True, "bool"), (1j, "complex128"), ([1, 2.5], "float64"), ([True, 2], "int64"),
        ([[1, 2], [3, 4j]], "complex128"), ([], "float64"), ([[], []], "float64"), (range(3), "int64"), ((1.0, 2.0), "float64"),
        (np.float32([1, 2]), "float32"), (np.int8(3), "int8"), ([np.float32(1), np.float32(2)], "float32"),
        ([np.arange(2), np.arange(2)], "int64"),
    ],
)  # fmt: skip
def test_dtype_and_values_come_from_the_data(data, dtype):
    t = ndgrad.tensor(data)
    assert t.dtype == dtype
    np.testing.assert_array_equal(t.numpy(), np.asarray(data))


def test_python_numbers_take_the_default_dtype_and_arrays_do_not():
    ndgrad.set_default_dtype(ndgrad.float32)
    assert ndgrad.tensor([1.0, 2]).dtype is ndgrad.float32
    assert ndgrad.tensor([1j]).dtype is ndgrad.complex64
    assert ndgrad.tensor(np.float64(1)).dtype is ndgrad.float64  # as in torch, though it is a Python float too
    assert ndgrad.tensor(np.ones(2)).dtype is ndgrad.float64
    assert ndgrad.tensor([np.ones(2), np.ones(2)]).dtype is ndgrad.float64
    assert ndgrad.tensor([1, 2]).dtype is ndgrad.int64
    for made in (ndgrad.zeros(2), ndgrad.rand(2), ndgrad.eye(2), ndgrad.linspace(0, 1, 3), ndgrad.Tensor(2), ndgrad.full((2,), 1.5)):
        assert made.dtype is ndgrad.float32
    ndgrad.set_default_tensor_type("ndgrad.DoubleTensor")
    assert ndgrad.zeros(2).dtype is ndgrad.float64


def test_tensor_copies_and_warns_about_tensors():
    a = np.zeros(2)
    t = ndgrad.tensor(a)
    t += 1
    assert a.tolist() == [0.0, 0.0]
    x = ndgrad.ones(2, requires_grad=True)
    with pytest.warns(UserWarning, match=r"detach\(\)\.clone\(\)"):
        y = ndgrad.tensor(x, dtype=ndgrad.float32)
    assert (y.requires_grad, y.is_leaf, y.dtype) == (False, True, ndgrad.float32)
    with pytest.warns(UserWarning, match="to a scalar"):
        assert ndgrad.tensor([x.sum(), x.sum() * 2]).tolist() == [2.0, 4.0]
    assert ndgrad.tensor([[ndgrad.tensor(1), 2], [3, ndgrad.tensor(4)]]).tolist() == [[1, 2], [3, 4]]


@pytest.mark.parametrize(
    ("data", "dtype", "error", "says"),
    [
        (None, None, RuntimeError, "Could not infer dtype of NoneType"),
        ("abc", None, TypeError, "invalid data type 'str'"),
        ([1, "a"], None, TypeError, "invalid data type 'str'"),
        ({}, None, RuntimeError, "Could not infer dtype of dict"),
        ([[1, 2], [3]], None, ValueError, "does not form an array.*equal length"),
        (2**70, None, ValueError, "does not fit into int64"),
        ([2**63], None, ValueError, "does not fit into int64"),
        (300, np.uint8, RuntimeError, "does not fit into uint8"),
        (1j, np.float64, TypeError, "cannot become a tensor of float64"),
        (np.array(["a"]), None, TypeError, "is not an element type"),
    ],
)
def test_data_that_is_no_tensor_is_refused(data, dtype, error, says):
    with pytest.raises(error, match=says):
        ndgrad.tensor(data, dtype=dtype)


def test_as_tensor_shares_what_it_can():
    a = np.zeros(2)
    ndgrad.as_tensor(a).add_(1)
    assert a.tolist() == [1.0, 1.0]
    x = ndgrad.ones(2, requires_grad=True)
    assert ndgrad.as_tensor(x) is x
    assert ndgrad.as_tensor(x, dtype=ndgrad.float32).requires_grad
    assert ndgrad.as_tensor([1, 2], dtype=ndgrad.float32).dtype is ndgrad.float32
    assert ndgrad.as_tensor(np.ones(2), dtype=np.float32).dtype is ndgrad.float32


def test_asarray_obeys_copy():
    a = np.zeros(2)
    ndgrad.asarray(a, copy=True).add_(1)
    assert a.tolist() == [0.0, 0.0]
    ndgrad.asarray(a, copy=False).add_(1)
    assert a.tolist() == [1.0, 1.0]
    x = ndgrad.ones(2, requires_grad=True)
    assert ndgrad.asarray(x) is x
    assert ndgrad.asarray(x, copy=True).grad_fn is not None
    with pytest.raises(ValueError, match="copy=False forbids"):
        ndgrad.asarray([1.0], copy=False)
    assert ndgrad.asarray([1.0], requires_grad=True).requires_grad


def test_from_numpy_takes_arrays_alone():
    with pytest.raises(TypeError, match=r"expected np.ndarray \(got list\)"):
        ndgrad.from_numpy([1.0])
    with pytest.raises(TypeError, match="is not an element type"):
        ndgrad.from_numpy(np.array(["a"]))
    strange = np.arange(6.0)[::-2]
    np.testing.assert_array_equal(ndgrad.from_numpy(strange).numpy(), strange)


def test_frombuffer_shares_bytes():
    b = bytearray(np.arange(4, dtype=np.int16).tobytes())
    t = ndgrad.frombuffer(b, dtype=ndgrad.int16, count=2, offset=2)
    assert t.tolist() == [1, 2]
    b[2] = 7
    assert t.tolist() == [7, 2]
    with pytest.raises(ValueError, match="cannot be read as"):
        ndgrad.frombuffer(bytearray(3), dtype=ndgrad.int16)


# ----- torch's old constructors ------------------------------------------------------------------------------------------


def test_tensor_as_a_constructor():
    assert ndgrad.Tensor(2, 3).shape == (2, 3)
    assert ndgrad.Tensor(ndgrad.Size([2, 3])).shape == (2, 3)
    assert ndgrad.Tensor().shape == (0,)
    assert ndgrad.Tensor([1, 2]).dtype is ndgrad.float64
    assert ndgrad.Tensor((1, 2)).tolist() == ndgrad.Tensor(np.array([1, 2])).tolist() == [1.0, 2.0]
    x = ndgrad.ones(2)
    assert ndgrad.Tensor(x).data_ptr() == x.data_ptr()
    assert ndgrad.Tensor(2, device="meta").is_meta
    for wrong in ((3.5,), (2, 1.5)):
        with pytest.raises(TypeError, match="takes sizes as ints or one sequence"):
            ndgrad.Tensor(*wrong)
    with pytest.raises(RuntimeError, match="negative dimension"):
        ndgrad.Tensor(-1)


def test_typed_constructors():
    assert ndgrad.LongTensor([1.5, 2]).tolist() == [1, 2]
    assert ndgrad.FloatTensor(2, 3).dtype is ndgrad.float32
    assert ndgrad.BoolTensor([1, 0]).tolist() == [True, False]
    assert type(ndgrad.HalfTensor(1)) is ndgrad.Tensor
    with pytest.raises(TypeError, match=r"given a tensor of float64.*float32.*\.to\(\)"):
        ndgrad.FloatTensor(ndgrad.ones(2))


# ----- one value -----------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("factory", [ndgrad.zeros, ndgrad.ones, ndgrad.empty])
def test_shapes_are_given_in_many_ways(factory):
    for made in (factory(2, 3), factory((2, 3)), factory([2, 3]), factory(size=(2, 3)), factory(ndgrad.tensor(2), np.int64(3))):
        assert made.shape == (2, 3)
    assert factory(()).shape == ()
    with pytest.raises(TypeError, match='missing the argument "size"'):
        factory()
    with pytest.raises(RuntimeError, match="negative dimension -1"):
        factory(2, -1)
    with pytest.raises(TypeError):
        factory(2.5)


@pytest.mark.parametrize("name", ["zeros", "ones"])
def test_factories_take_the_common_options(name):
    factory, oracle = getattr(ndgrad, name), getattr(np, name)
    for dtype in ("float32", "int64", "bool", "complex64"):
        t = factory(2, 3, dtype=getattr(ndgrad, dtype))
        assert t.dtype == dtype
        np.testing.assert_array_equal(t.numpy(), oracle((2, 3), dtype))
    assert factory(2, requires_grad=True).requires_grad
    out = ndgrad.full((2,), 7.0)
    assert factory(2, out=out) is out
    assert out.tolist() == oracle(2).tolist()
    assert out._version == 1
    with pytest.raises(RuntimeError, match="can require gradients"):
        factory(2, dtype=ndgrad.int64, requires_grad=True)
    if name == "zeros":
        assert factory(2, layout=ndgrad.sparse_coo).to_dense().tolist() == [0.0, 0.0]
    else:
        with pytest.raises(RuntimeError, match="layout ndgrad.sparse_coo"):
            factory(2, layout=ndgrad.sparse_coo)
    with pytest.raises(TypeError, match="unexpected keyword argument 'colour'"):
        factory(2, colour=1)
    assert factory(2, layout=ndgrad.strided, pin_memory=False, device="cpu").shape == (2,)


def test_full_takes_the_dtype_of_its_value():
    assert [ndgrad.full((2,), v).dtype.name for v in (True, 1, 1.5, 1j, 0)] == ["bool", "int64", "float64", "complex128", "int64"]
    assert ndgrad.full((2,), ndgrad.tensor(3, dtype=ndgrad.int8)).dtype is ndgrad.int8
    assert ndgrad.full((2,), 1.5, dtype=ndgrad.int64).tolist() == [1, 1]
    assert ndgrad.full((), 2.5).item() == 2.5


def test_like_keeps_dtype_shape_and_memory_order():
    x = ndgrad.ones(2, 3, dtype=ndgrad.float32).T
    for made, value in ((ndgrad.zeros_like(x), 0), (ndgrad.ones_like(x), 1), (ndgrad.full_like(x, 2.5), 2.5)):
        assert (made.dtype, made.stride()) == (ndgrad.float32, (1, 3))
        assert made.tolist() == [[value] * 2] * 3
    assert ndgrad.empty_like(x, memory_format=ndgrad.contiguous_format).stride() == (2, 1)
    assert ndgrad.zeros_like(ndgrad.ones(4, 3)[::2].T).stride() == (1, 3)
    assert ndgrad.zeros_like(ndgrad.ones(1, 3).expand(2, 3)).stride() == (3, 1)
    assert ndgrad.zeros_like(x, dtype=ndgrad.int64, device="meta").is_meta
    assert not ndgrad.ones_like(ndgrad.ones(2, requires_grad=True)).requires_grad
    assert ndgrad.ones_like(x, requires_grad=True).requires_grad


def test_new_takes_dtype_and_device_from_the_tensor():
    x = ndgrad.ones(2, dtype=ndgrad.float32)
    for made in (x.new_zeros(3), x.new_ones((3,)), x.new_empty(3), x.new_full((3,), 7), x.new_tensor([1, 2, 3])):
        assert (made.dtype, made.shape) == (ndgrad.float32, (3,))
    assert x.new_zeros(3, dtype=ndgrad.int8).dtype is ndgrad.int8
    assert ndgrad.ones(2, device="meta").new_zeros(3).is_meta
    assert x.new_empty_strided((2, 3), (1, 2)).stride() == (1, 2)


def test_strides_may_be_chosen():
    t = ndgrad.empty_strided((2, 3), (4, 1))
    assert (t.stride(), len(t.storage())) == ((4, 1), 7)
    t.fill_(1.0)
    assert ndgrad.empty_permuted((2, 3, 4), (2, 0, 1)).stride() == (3, 1, 6)
    with pytest.raises(RuntimeError, match="one stride per size"):
        ndgrad.empty_strided((2, 3), (1,))


# ----- ranges --------------------------------------------------------------------------------------------------------------


@given(st.integers(-20, 20), st.integers(-20, 20), st.integers(-7, 7))
def test_arange_of_ints_is_pythons_range(start, end, step):
    if step == 0 or (end - start) * step < 0:
        with pytest.raises(RuntimeError, match="arange"):
            ndgrad.arange(start, end, step)
    else:
        t = ndgrad.arange(start, end, step)
        assert t.dtype is ndgrad.int64
        assert t.tolist() == list(range(start, end, step))


@given(st.floats(-10, 10), st.floats(0, 10), st.floats(0.1, 3))
def test_arange_of_floats_is_numpys(start, length, step):
    expected = np.arange(start, start + length, step)
    np.testing.assert_allclose(ndgrad.arange(start, start + length, step).numpy(), expected, rtol=1e-12, atol=1e-12)


def test_arange_of_an_interval_that_vanishes_beside_the_step_has_one_element():
    assert ndgrad.arange(0.0, 5e-324, 2.0).tolist() == np.arange(0.0, 5e-324, 2.0).tolist() == [0.0]


def test_arange_arguments():
    assert ndgrad.arange(3).tolist() == ndgrad.arange(ndgrad.tensor(3)).tolist() == [0, 1, 2]
    assert ndgrad.arange(0, 1, 0.5).dtype is ndgrad.float64
    assert ndgrad.arange(3, dtype=ndgrad.float16).dtype is ndgrad.float16
    for wrong, says in (((0, 3, 0), "nonzero"), ((0, float("inf")), "unsupported range"), ((3, 0), "inconsistent")):
        with pytest.raises(RuntimeError, match=says):
            ndgrad.arange(*wrong)


@given(st.floats(-5, 5), st.floats(-5, 5), st.integers(0, 9))
def test_linspace_and_logspace_are_numpys(start, end, steps):
    # Both round steps of the size of the ends, so elements near zero agree only in absolute terms.
    atol = 1e-15 * max(abs(start), abs(end))
    np.testing.assert_allclose(
        ndgrad.linspace(start, end, steps).numpy(), np.linspace(start, end, steps), rtol=1e-13, atol=atol
    )
    np.testing.assert_allclose(ndgrad.logspace(start, end, steps).numpy(), np.logspace(start, end, steps), rtol=1e-12)


def test_spacing_of_other_dtypes():
    assert ndgrad.linspace(0, 9, 5, dtype=ndgrad.int64).tolist() == [0, 2, 4, 6, 9]
    assert ndgrad.linspace(0, 1j, 3).tolist() == [0j, 0.5j, 1j]
    assert ndgrad.linspace(ndgrad.tensor(0.0), 1, 3).tolist() == [0.0, 0.5, 1.0]
    with pytest.raises(RuntimeError, match="non-negative"):
        ndgrad.linspace(0, 1, -1)
    with pytest.warns(UserWarning, match="arange instead"):
        assert ndgrad.range(0, 3).tolist() == [0.0, 1.0, 2.0, 3.0]


def test_eye():
    np.testing.assert_array_equal(ndgrad.eye(2, 3, dtype=ndgrad.int8).numpy(), np.eye(2, 3, dtype=np.int8))
    assert ndgrad.eye(3, requires_grad=True).requires_grad
    with pytest.raises(RuntimeError, match="greater or equal to 0"):
        ndgrad.eye(-1)


# ----- modes, devices, transforms ----------------------------------------------------------------------------------------


def test_factories_note_the_mode_they_run_in():
    with ndgrad.inference_mode():
        made = [ndgrad.zeros(2), ndgrad.tensor([1.0]), ndgrad.rand(2), ndgrad.arange(2), ndgrad.zeros_like(ndgrad.ones(1))]
    assert all(map(ndgrad.is_inference, made))
    assert not ndgrad.is_inference(ndgrad.zeros(2))


def test_the_default_device_holds_for_factories():
    with ndgrad.device("meta"):
        for made in (ndgrad.zeros(2), ndgrad.tensor([1.0]), ndgrad.rand(2), ndgrad.arange(3), ndgrad.eye(2), ndgrad.full((2,), 1)):
            assert made.is_meta
        assert ndgrad.zeros(2, device="cpu").is_cpu


@pytest.mark.parametrize(
    "make", [ndgrad.zeros_like, ndgrad.empty_like, lambda t: t.new_zeros(2), lambda t: t.new_empty_strided((2,), (1,))]
)
@pytest.mark.parametrize("inner", [lambda f: f, lambda f: grad(f)], ids=["vmap", "vmap of grad"])
def test_what_is_made_like_a_batched_tensor_takes_batched_values(make, inner):
    def f(t):
        u = make(t)
        u.copy_(t * 2)
        u[0] += t[1]
        return u.sum()

    x = ndgrad.tensor([[1.0, 2.0], [3.0, 4.0]])
    got = vmap(inner(f))(x)
    expected = [8.0, 18.0] if got.ndim == 1 else [[2.0, 3.0], [2.0, 3.0]]
    assert got.tolist() == expected


# ----- settings ------------------------------------------------------------------------------------------------------------


def test_number_of_threads_is_a_setting():
    before = ndgrad.get_num_threads()
    try:
        ndgrad.set_num_threads(1)
        assert ndgrad.get_num_threads() == 1
        with pytest.raises(RuntimeError, match="positive integer"):
            ndgrad.set_num_threads(0)
        with pytest.raises(RuntimeError, match="expects an int"):
            ndgrad.set_num_threads(1.5)
    finally:
        ndgrad.set_num_threads(before)


def test_facts_about_tensors_as_functions():
    x = ndgrad.ones(2, 3)
    assert (ndgrad.numel(x), ndgrad.is_tensor(x), ndgrad.is_tensor(x.numpy())) == (6, True, False)
    assert (ndgrad.is_floating_point(x), ndgrad.is_complex(x), ndgrad.is_signed(ndgrad.ones(1, dtype=ndgrad.uint8))) == (True, False, False)
    assert ndgrad.is_same_size(x, x.T.T)
    assert ndgrad.is_nonzero(ndgrad.tensor([2]))
    assert ndgrad.result_type(ndgrad.ones(1, dtype=ndgrad.float32), 1.5) is ndgrad.float32
    assert ndgrad.result_type(ndgrad.arange(2), ndgrad.ones(1, dtype=ndgrad.float32)) is ndgrad.float32
    with pytest.raises(TypeError, match="must be Tensor, not int"):
        ndgrad.is_floating_point(3)


def test_masks_and_type_names():
    assert ndgrad._is_any_true(ndgrad.tensor([True, False]))
    assert not ndgrad._is_all_true(ndgrad.tensor([True, False]))
    with pytest.raises(RuntimeError, match="expected a boolean tensor"):
        ndgrad._is_any_true(ndgrad.ones(2))
    assert ndgrad.typename(ndgrad.ones(1)) == "ndgrad.DoubleTensor"
    assert ndgrad.typename(3) == "int"


@pytest.mark.parametrize("number", [np.float64(1.5), np.complex128(1 + 2j), np.int32(3), np.bool_(True)])
def test_a_tensor_of_a_numpy_scalar_has_memory(number):
    for mode in (contextlib.nullcontext(), ndgrad.inference_mode()):
        with mode:
            t = ndgrad.tensor(number)
            assert t.detach().numpy() == number
            assert t.numpy().dtype == number.dtype
