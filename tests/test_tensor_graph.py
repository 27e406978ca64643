"""A tensor's place in the graph: grad, requires_grad, data, detach, versions, views, names."""

from __future__ import annotations

import gc
import warnings
import weakref

import numpy as np
import pytest

import ndgrad
from ndgrad._src.transforms.transforms import grad, vmap


@pytest.fixture
def x():
    return ndgrad.tensor([[1.0, 2.0, 3.0], [4.0, 5.0, 6.0]], requires_grad=True)


# ----- grad ------------------------------------------------------------------------------------------------------------


def test_reading_grad_of_a_result_warns_unless_it_retains_it(x):
    y = x * 2
    with pytest.warns(UserWarning, match=r"not a leaf Tensor.*MulBackward0.*retain_grad"):
        assert y.grad is None
    y.retain_grad()
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        assert y.grad is None
        assert x.grad is None


@pytest.mark.parametrize(
    ("value", "error", "says"),
    [
        (3, TypeError, r"Tensor or None but got grad of type int.*as_tensor"),
        (ndgrad.ones(3), RuntimeError, r"size '\[3\]' to a tensor of size '\[2, 3\]'"),
        (ndgrad.ones(2, 3, dtype=ndgrad.float32), RuntimeError, r"float32.*grad_dtype ndgrad.float64.*\.to\(\)"),
        (ndgrad.ones(2, 3, device="meta"), RuntimeError, r"device type 'meta' to a tensor with device type 'cpu'"),
    ],
)
def test_a_grad_that_does_not_fit_is_refused_and_changes_nothing(x, value, error, says):
    before = x.grad = ndgrad.zeros(2, 3)
    with pytest.raises(error, match=says):
        x.grad = value
    assert x.grad is before


def test_a_tensor_is_not_its_own_grad(x):
    with pytest.raises(RuntimeError, match="its own grad"):
        x.grad = x


def test_grad_is_cleared_by_none_and_by_del(x):
    x.grad = ndgrad.ones(2, 3)
    x.grad = None
    assert x.grad is None
    x.grad = ndgrad.ones(2, 3)
    del x.grad
    assert x.grad is None


def test_grad_dtype_decides_what_backward_leaves(x):
    x.grad_dtype = ndgrad.float32
    (x * 2).sum().backward()
    assert x.grad.dtype is ndgrad.float32
    assert x.grad.tolist() == [[2.0] * 3] * 2
    with pytest.raises(RuntimeError, match="already a gradient with dtype ndgrad.float32"):
        x.grad_dtype = ndgrad.float64
    x.grad = None
    x.grad_dtype = None
    x.grad = ndgrad.ones(2, 3, dtype=ndgrad.float16)
    assert x.grad_dtype is None


def test_grad_dtype_belongs_to_leaves(x):
    y = x * 2
    with pytest.raises(RuntimeError, match="only be accessed on leaf"):
        y.grad_dtype
    with pytest.raises(RuntimeError, match="only be set on leaf"):
        y.grad_dtype = ndgrad.float32


# ----- requires_grad ---------------------------------------------------------------------------------------------------


def test_only_floating_and_complex_tensors_require_grad():
    for integer in (ndgrad.arange(3), ndgrad.tensor([True])):
        with pytest.raises(RuntimeError, match=r"floating point and complex dtype can require gradients.*\.double\(\)"):
            integer.requires_grad = True
        assert not integer.requires_grad
    assert ndgrad.ones(2, dtype=ndgrad.complex64).requires_grad_().requires_grad


def test_requires_grad_of_a_result_cannot_be_cleared(x):
    y = x * 2
    with pytest.raises(RuntimeError, match=r"leaf variables.*detach\(\)"):
        y.requires_grad_(False)
    with pytest.raises(RuntimeError, match="leaf variables"):
        y.requires_grad = True
    assert y.requires_grad_() is y


@pytest.mark.parametrize("transform", [grad, vmap, lambda f: vmap(grad(f))], ids=["grad", "vmap", "vmap of grad"])
@pytest.mark.parametrize("name", ["requires_grad_", "retain_grad"])
def test_transforms_refuse_to_change_the_graph(transform, name):
    def f(t):
        getattr(t, name)()
        return t.sin().sum()

    with pytest.raises(RuntimeError, match=rf"Tensor.{name}\(\)"):
        transform(f)(ndgrad.ones(3, 2))


# ----- data and detach -------------------------------------------------------------------------------------------------


def test_data_is_the_same_memory_with_a_version_of_its_own(x):
    x.data += 1
    assert x.tolist()[0] == [2.0, 3.0, 4.0]
    assert x._version == 0
    x.detach().add_(1)
    assert x._version == 1
    assert not x.data.requires_grad
    assert ndgrad.tensor(2.0).exp().data.add_(1)._version == 1  # a 0-d result, kept as a NumPy scalar until now


def test_assigning_data_keeps_version_views_and_identity(x):
    with ndgrad.no_grad():
        x.add_(1)
    view, version = x.detach()[0], x._version
    x.data = ndgrad.zeros(4)
    assert (x._version, tuple(x.shape), x.requires_grad, x.is_leaf) == (version, (4,), True, True)
    with ndgrad.no_grad():
        x.add_(1)
    assert x._version == view._version == version + 1
    (x * x).sum().backward()
    assert x.grad.tolist() == [2.0] * 4


def test_assigning_data_that_does_not_fit_is_refused(x):
    with pytest.raises(RuntimeError, match="floating point or complex"):
        x.data = ndgrad.arange(3)
    with pytest.raises(TypeError, match="has to be a tensor, but got list"):
        x.data = [1.0]
    assert x.tolist() == [[1.0, 2.0, 3.0], [4.0, 5.0, 6.0]]


def test_data_under_vmap_is_refused():
    def read_data(t):
        return t.data

    def write(t):
        t.data = ndgrad.ones(3)
        return t

    for f, says in ((read_data, "accessing `data` under vmap"), (write, "mutating directly with `.data` under vmap")):
        with pytest.raises(RuntimeError, match=says):
            vmap(f)(ndgrad.ones(3, 3))


def test_detach_in_place_leaves_the_graph_but_not_for_views(x):
    y = x * 2
    with pytest.raises(RuntimeError, match=r"Can't detach views in-place.*detach\(\) instead"):
        y[0].detach_()
    assert y.detach_() is y
    assert (y.requires_grad, y.grad_fn, y.is_leaf) == (False, None, True)
    y += 1


@pytest.mark.parametrize("transform", [grad, lambda f: vmap(grad(f)), lambda f: grad(lambda t: grad(f)(t).sum())])
def test_detach_in_place_inside_transforms(transform):
    def f(t):
        y = t * 2
        y.detach_()
        return (y * t).sum()

    def g(t):
        return ((t * 2).detach() * t).sum()

    t = ndgrad.rand(2, 3)
    assert transform(f)(t).tolist() == transform(g)(t).tolist()


def test_setting_the_grad_fn_to_none_detaches(x):
    y = x * 2
    with pytest.raises(RuntimeError, match="can be only set to None"):
        y._grad_fn = (x * 3).grad_fn
    y._grad_fn = None
    assert y.is_leaf


# ----- versions and views --------------------------------------------------------------------------------------------


def test_views_know_their_base_and_share_its_version(x):
    y = x * 1
    v = y[0][1:]
    assert v._base is y
    assert v._is_view()
    assert not y._is_view()
    assert not y.detach()._is_view()
    v.mul_(2)
    assert y._version == v._version == 1


def test_view_func_replays_a_view_on_another_base(x):
    v = (x * 1).T[1:]
    other = ndgrad.tensor([[0.0, 1.0, 2.0], [3.0, 4.0, 5.0]])
    again = v._view_func(other)
    assert again._base is other
    assert again.tolist() == other.T[1:].tolist()
    assert x._view_func(other) is None


def test_the_inverse_of_a_view_puts_it_back(x):
    base = ndgrad.tensor([[0.0, 1.0, 2.0], [3.0, 4.0, 5.0]])
    v = base.T[1:]
    back = v._rev_view_func_unsafe(v * 10)
    assert back.tolist() == [[0.0, 10.0, 20.0], [3.0, 40.0, 50.0]]
    assert base.tolist() == [[0.0, 1.0, 2.0], [3.0, 4.0, 5.0]]


def test_output_numbers_and_leaves(x):
    values, indices = x.max(1)
    assert (values.output_nr, values.is_leaf, indices.is_leaf) == (0, False, True)
    parts = x.unbind(0)
    assert [p.output_nr for p in parts] == [0, 1]
    assert x.output_nr == 0


def test_inference_tensors_have_no_version():
    with ndgrad.inference_mode():
        t = ndgrad.ones(2)
    assert ndgrad.is_inference(t)
    with pytest.raises(RuntimeError, match="do not track version"):
        t._version
    with pytest.raises(RuntimeError, match=r"Setting requires_grad=True on inference tensor.*clone\(\)"):
        t.requires_grad_()


# ----- parts, names, life ----------------------------------------------------------------------------------------------


def test_writing_to_parts_of_a_complex_tensor_is_recorded():
    z = ndgrad.tensor([1 + 2j, 3 + 4j], requires_grad=True)
    t = ndgrad.tensor([5.0, 6.0], requires_grad=True)
    y = z * 1
    y.real = t
    y.imag *= 2
    (y.real * y.real + y.imag * y.imag).sum().backward()
    assert t.grad.tolist() == [10.0, 12.0]
    assert z.grad.tolist() == [16j, 32j]
    with pytest.raises(RuntimeError, match="non-complex dtypes"):
        t.detach().imag = 2


def test_transposes():
    z = ndgrad.tensor(np.arange(12).reshape(2, 2, 3) * (1 + 1j))
    np.testing.assert_array_equal(z.mT.numpy(), z.numpy().swapaxes(1, 2))
    np.testing.assert_array_equal(z.mH.numpy(), z.numpy().swapaxes(1, 2).conj())
    np.testing.assert_array_equal(z[0].H.numpy(), z.numpy()[0].T.conj())
    with pytest.warns(UserWarning, match="deprecated on 3-D"):
        np.testing.assert_array_equal(z.T.numpy(), z.numpy().T)
    with pytest.raises(RuntimeError, match=r"tensor.H is only supported on matrices.*tensor.mH"):
        z.H


def test_names_are_kept():
    t = ndgrad.ones(2, 3)
    assert t.names == (None, None)
    assert not t.has_names()
    named = t.rename("rows", "columns")
    assert named.names == ("rows", "columns")
    assert named.rename(rows="r").names == ("r", "columns")
    assert named.rename(None).names == t.refine_names(None, None).names == (None, None)
    assert t.refine_names(..., "columns").names == (None, "columns")
    assert "names=('rows', 'columns')" in repr(named)
    t.names = ("a", "b")
    assert t.names == ("a", "b")
    for wrong in (("a",), ("a", "a")):
        with pytest.raises(RuntimeError, match="the 2 dimensions once"):
            t.names = wrong
    with pytest.raises(RuntimeError, match="cannot coerce"):
        t.refine_names("b", "b")


def test_tensors_hash_by_identity_and_can_be_weakly_held(x):
    assert {x: 1}[x] == 1
    assert len({x, ndgrad.ones(1), x}) == 2
    y = x * 2
    y.note = "kept"
    seen = weakref.ref(y)
    assert seen().note == "kept"
    gc.disable()
    try:
        del y
        assert seen() is None
    finally:
        gc.enable()


@pytest.mark.parametrize(
    "call",
    [
        lambda x: float(x),
        lambda x: ndgrad.tensor(x),
        lambda x: ndgrad.range(1, 2),
        lambda x: ndgrad.meshgrid(x, x),
        lambda x: ndgrad.cross(ndgrad.ones(3), ndgrad.ones(3)),
        lambda x: ndgrad.ones(2, 2, 2).T,
    ],
)
def test_warning_points_at_the_line_of_the_program(call):
    with pytest.warns(UserWarning, match="scalar|copy construct|range|meshgrid|cross|deprecated") as caught:
        call(ndgrad.ones(1, requires_grad=True))
    assert [w.filename for w in caught] == [__file__]
