"""Conjugates and negatives say what they are, share nothing that can be written, and resolve into copies that can."""

from __future__ import annotations

import numpy as np
import pytest

import ndgrad
from ndgrad._src.interpreters import forward_ad

Z = np.array([[1 + 2j, 3 - 1j], [0.5j, -2.0]])


def z():
    return ndgrad.tensor(Z)


@pytest.mark.parametrize("make", [lambda t: t.conj(), lambda t: t.mH, lambda t: t.H, lambda t: t.adjoint(), ndgrad.conj])
def test_what_torch_has_as_a_lazy_conjugate_says_so(make):
    y = make(z())
    assert y.is_conj()
    assert ndgrad.is_conj(y[0])
    assert y.mT.is_conj()
    assert y.detach().is_conj()
    assert y[None].is_conj()
    assert not any(t.is_conj() for t in (z(), y.conj(), y * 1, y.clone(), y.resolve_conj(), y.conj_physical(), y.real))
    assert y.imag.is_neg()
    assert y.imag[:1].is_neg()
    assert not y.real.is_neg()
    assert not y.imag.clone().is_neg()


def test_values_are_those_of_numpy_however_they_are_asked_for():
    y = z().conj()
    assert np.array_equal(y.numpy(), Z.conj())
    assert np.array_equal(y.imag.resolve_neg().numpy(), -Z.imag)
    assert np.array_equal(y.conj().resolve_conj().numpy(), Z)
    assert np.array_equal(ndgrad._neg_view(z()).numpy(), -Z)


def test_a_negative_view_has_its_gradient_and_its_mark():
    x = ndgrad.tensor([1.0, -2.0], requires_grad=True)
    y = x._neg_view()
    assert y.is_neg()
    assert not y._neg_view().is_neg()
    assert not y.resolve_neg().is_neg()
    (y**3).sum().backward()
    assert np.allclose(x.grad.numpy(), -3 * np.array([1.0, 4.0]))
    with pytest.raises(RuntimeError, match="read-only"):
        ndgrad._neg_view(ndgrad.ones(2)).add_(1)


def test_real_numbers_have_no_conjugate():
    x = ndgrad.ones(2)
    assert x.conj() is x
    assert x.resolve_conj() is x
    assert x.resolve_neg() is x
    assert not x.is_conj()
    assert not x.is_neg()


@pytest.mark.parametrize(("primal", "tangent"), [("conj", "plain"), ("plain", "conj"), ("conj", "conj")])
def test_a_tangent_lies_as_its_primal_does(primal, tangent):
    made = {"plain": z, "conj": lambda: z().conj()}
    with forward_ad.dual_level():
        given = made[tangent]()
        found = forward_ad.unpack_dual(forward_ad.make_dual(made[primal](), given)).tangent
        assert found.is_conj() == (primal == "conj")
        assert np.array_equal(found.numpy(), given.numpy())
