"""Function transforms of and over nested tensors: they enter and leave by their values; vmap maps over components."""

from __future__ import annotations

import numpy as np
import pytest

import ndgrad
from ndgrad.func import grad, grad_and_value, jvp, vjp, vmap
from tests.nested.components import agree, arrays, nested


def test_grad_of_a_function_of_nested_tensors():
    x = nested(arrays(3))
    g = grad(lambda x: (x.softmax(1) ** 2).sum())(x)
    leaf = nested(arrays(3), True)
    (leaf.softmax(1) ** 2).sum().backward()
    assert g.shape == x.shape
    np.testing.assert_allclose(g.values().numpy(), leaf.grad.values().numpy(), rtol=1e-12)


def test_grad_and_value_with_dense_and_nested_arguments_and_aux():
    x, w = nested(arrays(3)), ndgrad.ones(3, dtype=ndgrad.float64)
    (gx, gw), (value, aux) = grad_and_value(lambda x, w: (((x * w) ** 2).sum(), x * w), argnums=(0, 1), has_aux=True)(x, w)
    np.testing.assert_allclose(gx.values().numpy(), 2 * x.values().numpy())
    np.testing.assert_allclose(gw.numpy(), 2 * (x.values() ** 2).sum(0).numpy())
    assert value.item() == pytest.approx((x**2).sum().item())
    assert aux.is_nested
    assert not aux.requires_grad


def test_grad_of_grad():
    x, s = nested(arrays(3)), ndgrad.tensor(2.0, dtype=ndgrad.float64)
    assert grad(grad(lambda s: ((x * s) ** 3).sum()))(s).item() == pytest.approx((6 * s * (x**3).sum()).item())
    g = grad(lambda x: (grad(lambda y: (y**3).sum())(x) ** 2).sum())(x)
    np.testing.assert_allclose(g.values().numpy(), 36 * x.values().numpy() ** 3)


def test_vjp_is_the_transpose_of_jvp():
    x, t = nested(arrays(3)), nested(arrays(3, low=-1.0))

    def f(x):
        return x.softmax(1) * x.sum(2, keepdim=True)

    out, tangent = jvp(f, (x,), (t,))
    value, pull = vjp(f, x)
    cotangent = ndgrad.randn_like(value)
    (back,) = pull(cotangent)
    np.testing.assert_allclose(out.values().numpy(), value.values().numpy())
    assert (tangent * cotangent).sum().item() == pytest.approx((back * t).sum().item(), rel=1e-10)
    step = 1e-6
    difference = (f(x + t * step) - f(x - t * step)) / (2 * step)
    np.testing.assert_allclose(tangent.values().numpy(), difference.values().numpy(), rtol=1e-5, atol=1e-8)


def test_jvp_needs_tangents_of_the_same_structure():
    with pytest.raises(RuntimeError, match="structure"):
        jvp(lambda x: x * 2, (nested(arrays(3)),), (nested(arrays(3, lengths=(1, 1))),))


# ----- vmap: a function of one component --------------------------------------------------------------------------------------------

COMPONENTS = {
    "elementwise": lambda c: c.sin() * c.shape[0],
    "to numbers": lambda c: (c @ c.T).trace(),
    "to rows": lambda c: c @ c.T.sum(1),
    "to vectors": lambda c: c.mean(0),
    "other lengths": lambda c: ndgrad.cat([c, c]),
    "cumsum": lambda c: c.cumsum(0),
    "determinant": lambda c: ndgrad.linalg.det(c.T @ c + ndgrad.eye(3, dtype=c.dtype)),
}


@pytest.mark.parametrize("name", COMPONENTS)
def test_vmap_maps_over_components(name):
    f = COMPONENTS[name]
    parts = arrays(3)
    found = vmap(f)(nested(parts))
    expected = [f(ndgrad.tensor(p)) for p in parts]
    if not expected[0].ndim:
        np.testing.assert_allclose(found.numpy(), [e.item() for e in expected])
    else:
        assert found.is_nested
        agree(found, [e[None] for e in expected])


@pytest.mark.parametrize("name", COMPONENTS)
def test_backward_through_vmap_over_components(name):
    f = COMPONENTS[name]
    x = nested(arrays(3), True)
    vmap(f)(x).sin().sum().backward()
    for g, p in zip(x.grad.unbind(), arrays(3), strict=True):
        c = ndgrad.tensor(p, requires_grad=True)
        f(c).sin().sum().backward()
        np.testing.assert_allclose(g.numpy(), c.grad.numpy(), rtol=1e-9, atol=1e-12)


def test_vmap_with_dense_arguments_and_several_structures():
    a, b = nested(arrays(3)), nested(arrays(3, lengths=(1, 4, 2, 2)))
    scale = ndgrad.arange(4.0, dtype=ndgrad.float64)
    found, number = vmap(lambda x, y, s, w: (x * s + w, (x @ y.T).sum()), in_dims=(0, 0, 0, None))(
        a, b, scale, ndgrad.ones(3, dtype=ndgrad.float64)
    )
    agree(found, [ndgrad.tensor((x * s + 1)[None]) for x, s in zip(arrays(3), range(4), strict=True)])
    expected = [(x @ y.T).sum() for x, y in zip(arrays(3), arrays(3, lengths=(1, 4, 2, 2)), strict=True)]
    np.testing.assert_allclose(number.numpy(), expected)


def test_vmap_of_grad_and_grad_of_vmap():
    x = nested(arrays(3))
    g = vmap(grad(lambda c: (c**2).sum() * c.shape[0]))(x)
    h = grad(lambda x: vmap(lambda c: (c**2).sum() * c.shape[0])(x).sum())(x)
    expected = np.concatenate([2 * p * len(p) for p in arrays(3)])
    np.testing.assert_allclose(g.values().numpy(), expected)
    np.testing.assert_allclose(h.values().numpy(), expected)


def test_nested_tensors_as_constants_inside_vmap():
    x = nested(arrays(3))
    found = vmap(lambda s: (x * s).softmax(1).amax(1).sum())(ndgrad.tensor([1.0, 2.0], dtype=ndgrad.float64))
    expected = [(x * s).softmax(1).amax(1).sum().item() for s in (1.0, 2.0)]
    np.testing.assert_allclose(found.numpy(), expected)


def test_what_vmap_refuses():
    x = nested(arrays(3))
    with pytest.raises(NotImplementedError, match="out_dims"):
        vmap(lambda c: c, out_dims=1)(x)
    with pytest.raises(ValueError, match="dimension 0"):
        vmap(lambda c: c, in_dims=2)(x)
    with pytest.raises(RuntimeError, match="one ragged dimension"):
        vmap(lambda c: c @ c.T)(x)
    with pytest.raises(ValueError, match="same size"):
        vmap(lambda c, s: c * s)(x, ndgrad.ones(3))
    with ndgrad.autograd.forward_ad.dual_level(), pytest.raises(RuntimeError, match="values"):
        ndgrad.autograd.forward_ad.make_dual(x, x)
