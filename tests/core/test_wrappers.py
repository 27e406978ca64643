"""Tensors without memory that hold another tensor in a slot: derivatives of every kind, against closed forms."""

from __future__ import annotations

import copy

import numpy as np
import pytest

import ndgrad
from ndgrad._src.checkpoint import checkpoint
from ndgrad._src.engine.graph import saved_tensors_hooks
from ndgrad._src.interpreters import forward_ad
from ndgrad.autograd import functional
from ndgrad.utils._pytree import tree_map

A = np.array([0.3, -1.2, 2.0])
V = np.array([1.0, 2.0, -0.5])


class Held(ndgrad.Tensor):
    """Computes with the tensor in its slot."""

    __slots__ = ("__inner", "elem")

    @staticmethod
    def __new__(cls, elem, requires_grad=False):
        made = ndgrad.Tensor._make_wrapper_subclass(cls, elem.shape, dtype=elem.dtype, requires_grad=requires_grad)
        made.elem = elem
        made.__inner = "kept"
        return made

    def inner(self):
        return self.__inner

    @classmethod
    def __torch_dispatch__(cls, func, types, args=(), kwargs=None):
        def opened(t):
            return t.elem if isinstance(t, Held) else t

        out = func(*tree_map(opened, args), **tree_map(opened, kwargs or {}))
        return tree_map(lambda t: Held(t) if isinstance(t, ndgrad.Tensor) else t, out)


def make_held(values=A, **options):
    return Held(ndgrad.tensor(values), **options)


def f(x):
    return x.exp() * x


def loss(x):
    return f(x).sum()


SLOPE = np.exp(A) * (1 + A)
CURVE = np.exp(A) * (2 + A)

#: name -> (derivative of f or of its sum, expected value)
DERIVATIVES = {
    "func.grad": (lambda: ndgrad.func.grad(loss)(make_held()), SLOPE),
    "func.vjp": (lambda: ndgrad.func.vjp(f, make_held())[1](make_held(V))[0], SLOPE * V),
    "func.jvp": (lambda: ndgrad.func.jvp(f, (make_held(),), (make_held(V),))[1], SLOPE * V),
    "func.jacrev": (lambda: ndgrad.func.jacrev(f)(make_held()), np.diag(SLOPE)),
    "func.jacfwd": (lambda: ndgrad.func.jacfwd(f)(make_held()), np.diag(SLOPE)),
    "func.hessian": (lambda: ndgrad.func.hessian(loss)(make_held()), np.diag(CURVE)),
    "vmap of grad": (lambda: ndgrad.vmap(ndgrad.func.grad(f))(make_held()), SLOPE),
    "grad of grad": (lambda: ndgrad.func.grad(lambda x: ndgrad.func.grad(loss)(x).sum())(make_held()), CURVE),
    "functional.jacobian": (lambda: functional.jacobian(f, make_held()), np.diag(SLOPE)),
    "functional.jacobian, vectorized": (lambda: functional.jacobian(f, make_held(), vectorize=True), np.diag(SLOPE)),
    "functional.hessian, vectorized": (lambda: functional.hessian(loss, make_held(), vectorize=True), np.diag(CURVE)),
    "functional.hvp": (lambda: functional.hvp(loss, make_held(), make_held(V))[1], CURVE * V),
    "functional.jvp": (lambda: functional.jvp(f, make_held(), make_held(V))[1], SLOPE * V),
}


@pytest.mark.parametrize("name", DERIVATIVES)
def test_derivatives_of_wrappers_are_wrappers(name):
    compute, expected = DERIVATIVES[name]
    found = compute()
    assert type(found) is Held
    assert found.inner() == "kept"
    assert np.allclose(found.elem.numpy(), expected)


def test_a_dual_wrapper_computes_with_what_it_holds():
    with forward_ad.dual_level():
        primal, tangent = forward_ad.unpack_dual(f(forward_ad.make_dual(make_held(), make_held(V))))
        assert type(primal) is type(tangent) is Held
        assert np.allclose(tangent.elem.numpy(), SLOPE * V)


def test_saved_results_of_wrappers_pass_through_hooks():
    packed, x = [], make_held(requires_grad=True)
    with saved_tensors_hooks(lambda t: packed.append(type(t)) or t, lambda t: t):
        y = x.exp()
    y.backward(make_held(V))
    assert packed == [Held]
    assert np.allclose(x.grad.elem.numpy(), np.exp(A) * V)


def test_slots_survive_copies_and_checkpoints():
    x = make_held()
    assert copy.deepcopy(x).inner() == copy.copy(x).inner() == "kept"
    assert np.allclose(copy.deepcopy(x).elem.numpy(), A)
    w = make_held(requires_grad=True)
    checkpoint(loss, w, use_reentrant=False).backward()
    assert np.allclose(w.grad.elem.numpy(), SLOPE)


def test_a_wrapper_is_asked_for_its_number():
    assert float(make_held().sum()) == make_held().sum().item() == A.sum()
    assert bool(make_held(np.array([2.0])))
    with pytest.raises(RuntimeError, match="2 elements|3 elements"):
        make_held().item()


@pytest.mark.parametrize("entry", ["numpy", "tolist"])
def test_a_wrapper_has_no_values_to_hand_out(entry):
    with pytest.raises(RuntimeError, match=f"{entry}.. is not supported for tensor subclasses"):
        getattr(make_held(), entry)()
