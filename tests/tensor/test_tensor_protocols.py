"""Python's protocols on tensors, and conversions to dtypes, NumPy and numbers."""

from __future__ import annotations

import warnings

import numpy as np
import pytest

import ndgrad
from ndgrad._src.transforms.transforms import grad, vmap


def test_iteration_gives_views_that_may_be_written():
    x = ndgrad.ones(3, 2, requires_grad=True)
    y = x * 1
    for i, row in enumerate(y):
        row.mul_(i)
    y.sum().backward()
    assert x.grad.tolist() == [[0.0, 0.0], [1.0, 1.0], [2.0, 2.0]]
    assert len(y) == 3
    assert [r.tolist() for r in reversed(y.detach())] == [[2.0, 2.0], [1.0, 1.0], [0.0, 0.0]]


@pytest.mark.parametrize("ask", [len, iter, list])
def test_a_tensor_without_dimensions_has_no_length(ask):
    with pytest.raises(TypeError, match=r"0-d tensor.*item\(\)"):
        ask(ndgrad.tensor(1.0))


def test_containment_compares_elements():
    x = ndgrad.tensor([[1.0, 2.0]])
    assert 2.0 in x
    assert ndgrad.tensor(1.0) in x
    assert 3 not in x
    with pytest.raises(RuntimeError, match=r"only supports Tensor or scalar.*any\(\)"):
        "a" in x


def test_truth_needs_exactly_one_element():
    assert ndgrad.tensor([[2.0]])
    assert not ndgrad.tensor(0)
    for many, says in ((ndgrad.ones(2), "more than one value"), (ndgrad.ones(0), "no values")):
        with pytest.raises(RuntimeError, match=f"{says} is ambiguous"):
            bool(many)


def test_numbers_leave_the_graph_with_a_warning():
    x = ndgrad.tensor(2.5, requires_grad=True)
    for convert, value in ((float, 2.5), (int, 2), (complex, 2.5 + 0j)):
        with pytest.warns(UserWarning, match=r"requires_grad=True to a scalar.*detach\(\)"):
            assert convert(x) == value
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        assert float(x.detach()) == x.item() == 2.5
    with pytest.raises(ValueError, match="only one element tensors"):
        float(ndgrad.ones(2))
    with pytest.raises(RuntimeError, match="imaginary part"):
        float(ndgrad.tensor(1 + 2j))
    with pytest.raises(RuntimeError, match="a Tensor with 2 elements cannot be converted to Scalar"):
        ndgrad.ones(2).item()


def test_integer_tensors_are_indices():
    assert [10, 20, 30][ndgrad.tensor(1)] == 20
    assert range(5)[ndgrad.tensor([3])] == 3
    for wrong in (ndgrad.tensor(1.0), ndgrad.arange(2)):
        with pytest.raises(TypeError, match="only integer tensors of a single element"):
            wrong.__index__()


@pytest.mark.parametrize(
    "ask",
    [
        lambda t: t.sum().item(),
        lambda t: float(t.sum()),
        lambda t: t if t.sum() > 0 else -t,
        lambda t: t.tolist(),
        lambda t: np.asarray(t),
        lambda t: ndgrad.tensor([t.sum(), t.sum()]),
        lambda t: list(range(t.sum().long())),
    ],
)
def test_vmap_refuses_what_would_look_at_one_value(ask):
    with pytest.raises(RuntimeError, match="vmap"):
        vmap(lambda t: (ask(t), t)[1])(ndgrad.ones(3, 2))


def test_values_inside_grad_are_seen():
    def f(t):
        assert t.sum().item() == 3.0
        assert t.tolist() == [1.0, 2.0]
        return (t * t.detach().numpy().sum()).sum()

    with ndgrad.no_grad():
        pass
    assert grad(f)(ndgrad.tensor([1.0, 2.0])).tolist() == [3.0, 3.0]


def test_format_is_the_numbers_for_single_values():
    assert f"{ndgrad.tensor(1.5):.3f}" == "1.500"
    assert f"{ndgrad.ones(2)}" == "tensor([1., 1.])"
    with pytest.raises(TypeError):
        f"{ndgrad.ones(2):.3f}"


def test_repr_shows_history_dtype_device_and_wrappers():
    x = ndgrad.ones(2, requires_grad=True)
    assert repr(x * 2) == "tensor([2., 2.], grad_fn=<MulBackward0>)"
    assert repr(ndgrad.ones(1, dtype=ndgrad.float16)) == "tensor([1.], dtype=ndgrad.float16)"
    assert repr(ndgrad.ones(2, 3, device="meta")) == "tensor(..., device='meta', size=(2, 3))"
    seen = []
    vmap(lambda t: (seen.append(repr(t)), t)[1])(ndgrad.ones(2, 2))
    vmap(grad(lambda t: (seen.append(repr(t)), t.sum())[1]))(ndgrad.ones(2, 2))
    assert seen[0].startswith("BatchedTensor(lvl=")
    assert "tensor([[1., 1.],\n" in seen[0]
    assert seen[1].startswith("GradTrackingTensor(lvl=")
    assert "BatchedTensor" in seen[1]


def test_dir_lists_methods_and_attributes():
    names = dir(ndgrad.ones(1))
    assert {"grad", "sum", "add_", "shape", "to"} <= set(names)
    assert "volatile" not in names


# ----- NumPy -------------------------------------------------------------------------------------------------------------


def test_numpy_shares_memory_and_refuses_to_drop_the_graph():
    x = ndgrad.ones(3, requires_grad=True)
    for take in (lambda: x.numpy(), lambda: np.asarray(x), lambda: np.array(x)):
        with pytest.raises(RuntimeError, match=r"requires grad.*detach\(\)\.numpy\(\)"):
            take()
    with ndgrad.no_grad():
        assert np.asarray(x).tolist() == [1.0, 1.0, 1.0]
    forced = x.numpy(force=True)
    forced[0] = 5.0
    assert x.tolist() == [5.0, 1.0, 1.0]


def test_array_follows_dtype_and_copy():
    x = ndgrad.ones(2)
    assert np.shares_memory(np.asarray(x), x.numpy())
    assert not np.shares_memory(np.array(x), x.numpy())
    assert np.asarray(x, np.float32).dtype == np.float32
    with pytest.raises(ValueError, match="copy=False forbids"):
        np.asarray(x, np.float32, copy=False)
    scalar = ndgrad.ones(2).sum()
    scalar.numpy()[...] = 7
    assert scalar.item() == 7.0


# ----- dtypes ------------------------------------------------------------------------------------------------------------

CASTS = {
    "half": "float16", "float": "float32", "double": "float64", "cfloat": "complex64", "cdouble": "complex128", "char": "int8",
    "byte": "uint8", "short": "int16", "int": "int32", "long": "int64", "bool": "bool",
}  # fmt: skip


@pytest.mark.parametrize(("method", "name"), CASTS.items())
def test_casts(method, name):
    x = ndgrad.tensor([0.0, 1.0, 2.0])
    y = getattr(x, method)()
    assert y.dtype is getattr(ndgrad, name)
    np.testing.assert_array_equal(y.numpy(), x.numpy().astype(name))
    assert getattr(y, method)() is y


def test_casts_carry_gradients_in_the_dtype_of_the_input():
    x = ndgrad.tensor([1.0, 2.0], dtype=ndgrad.float32, requires_grad=True)
    y = x.double() * 3
    y.to(ndgrad.complex128).abs().sum().backward()
    assert x.grad.dtype is ndgrad.float32
    assert x.grad.tolist() == [3.0, 3.0]
    assert not x.long().requires_grad


@pytest.mark.parametrize(
    ("args", "options"),
    [
        ((ndgrad.float32,), {}),
        (("cpu", ndgrad.float32), {}),
        (("cpu",), {"dtype": ndgrad.float32}),
        ((), {"device": "cpu", "dtype": ndgrad.float32}),
        ((ndgrad.zeros(1, dtype=ndgrad.float32),), {}),
        ((), {"other": ndgrad.zeros(1, dtype=ndgrad.float32)}),
        ((np.float32,), {}),
        (("float32",), {}),
        ((ndgrad.float32, False, True), {}),
        ((None, ndgrad.float32), {}),
    ],
)
def test_the_many_forms_of_to(args, options):
    assert ndgrad.ones(2).to(*args, **options).dtype is ndgrad.float32


def test_to_returns_the_tensor_itself_when_nothing_changes():
    x = ndgrad.ones(2, requires_grad=True)
    for same in (x.to("cpu"), x.to(ndgrad.float64), x.to(x), x.to(), x.cpu(), x.double(), x.type_as(x)):
        assert same is x
    copied = x.to(ndgrad.float64, copy=True)
    assert copied is not x
    assert copied.data_ptr() != x.data_ptr()
    with pytest.raises(TypeError, match="unexpected keyword argument 'color'"):
        x.to(color=1)


def test_a_gpu_without_cupy_says_what_to_install():
    pytest.importorskip("numpy")
    try:
        import cupy  # noqa: F401
    except ImportError:
        for ask in (lambda: ndgrad.ones(2).cuda(), lambda: ndgrad.ones(2).to("cuda:0"), lambda: ndgrad.zeros(2, device="cuda")):
            with pytest.raises(RuntimeError, match=r"CuPy.*pip install cupy-cuda12x"):
                ask()


def test_types_by_name_and_class():
    x = ndgrad.ones(2)
    assert x.type() == "ndgrad.DoubleTensor"
    assert ndgrad.ones(2, dtype=ndgrad.bool).type() == "ndgrad.BoolTensor"
    for wanted in ("torch.FloatTensor", "ndgrad.FloatTensor", ndgrad.FloatTensor, ndgrad.float32):
        assert x.type(wanted).dtype is ndgrad.float32
    with pytest.raises(ValueError, match="invalid type: 'Nonsense'"):
        x.type("Nonsense")
    assert isinstance(x, ndgrad.DoubleTensor)
    assert not isinstance(x, ndgrad.FloatTensor)
    assert not isinstance(3, ndgrad.FloatTensor)
