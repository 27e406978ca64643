"""functorch's names: what they compute, that each warns, and what they refuse."""

from __future__ import annotations

import numpy as np
import pytest

import ndgrad
from ndgrad import functorch

X = ndgrad.tensor([[1.0, 2.0], [3.0, 4.0]])


def square(x):
    return x * x


#: name -> (call, what it comes to)
TRANSFORMS = {
    "vmap": (lambda f: f(square)(X), X * X),
    "grad": (lambda f: f(lambda x: square(x).sum())(X), 2 * X),
    "grad_and_value": (lambda f: f(lambda x: square(x).sum())(X)[0], 2 * X),
    "vjp": (lambda f: f(square, X)[1](X)[0], 2 * X * X),
    "jvp": (lambda f: f(square, (X,), (X,))[1], 2 * X * X),
    "jacrev": (lambda f: f(square)(X[0]), ndgrad.diag(2 * X[0])),
    "jacfwd": (lambda f: f(square)(X[0]), ndgrad.diag(2 * X[0])),
    "hessian": (lambda f: f(lambda x: square(x).sum())(X[0]), 2 * ndgrad.eye(2)),
    "functionalize": (lambda f: f(square)(X), X * X),
}


@pytest.mark.parametrize("name", TRANSFORMS)
def test_a_transform_warns_and_does_what_its_successor_does(name):
    call, expected = TRANSFORMS[name]
    with pytest.warns(FutureWarning, match=f"`functorch.{name}` is deprecated"):
        found = call(getattr(functorch, name))
    assert ndgrad.allclose(found, expected)


@pytest.mark.filterwarnings("ignore:We've integrated functorch")
def test_a_module_as_a_function_of_its_parameters():
    net = ndgrad.nn.Linear(2, 1)
    f, params = functorch.make_functional(net)
    assert [type(p) for p in params] == [ndgrad.nn.Parameter] * 2
    assert params[0] is not net.weight
    assert ndgrad.equal(f(params, X), net(X))
    grads = ndgrad.func.grad(lambda p: f(p, X).sum())(params)
    assert np.allclose(grads[0].numpy(), X.sum(0).numpy())
    assert not any(p.requires_grad for p in functorch.make_functional(net, disable_autograd_tracking=True)[1])


@pytest.mark.filterwarnings("ignore:We've integrated functorch")
def test_shared_parameters_stay_shared():
    layer = ndgrad.nn.Linear(2, 2, bias=False)
    _, params = functorch.make_functional(ndgrad.nn.Sequential(layer, layer))
    assert len(params) == 2
    assert params[0] is params[1]


@pytest.mark.filterwarnings("ignore:We've integrated functorch")
def test_an_ensemble_of_modules_under_vmap():
    nets = [ndgrad.nn.BatchNorm1d(2).eval() for _ in range(3)]
    with ndgrad.no_grad():
        for k, net in enumerate(nets):
            net.weight.fill_(k + 1.0)
    f, params, buffers = functorch.combine_state_for_ensemble(nets)
    found = ndgrad.vmap(f, in_dims=(0, 0, None))(params, buffers, X)
    assert ndgrad.allclose(found, ndgrad.stack([net(X) for net in nets]))


@pytest.mark.filterwarnings("ignore:We've integrated functorch")
@pytest.mark.parametrize(
    ("call", "words"),
    [
        (lambda: functorch.make_functional(ndgrad.nn.BatchNorm1d(2)), "has buffers"),
        (lambda: functorch.combine_state_for_ensemble([]), "at least one model"),
        (lambda: functorch.combine_state_for_ensemble([ndgrad.nn.ReLU(), ndgrad.nn.Tanh()]), "same class.*ReLU, Tanh"),
        (lambda: functorch.combine_state_for_ensemble([ndgrad.nn.ReLU(), ndgrad.nn.ReLU().eval()]), "training/eval"),
    ],
)
def test_what_cannot_be_made_a_function_is_refused(call, words):
    with pytest.raises(RuntimeError, match=words):
        call()


@pytest.mark.filterwarnings("ignore:We've integrated functorch")
def test_a_wrong_number_of_parameters_is_named():
    f, params = functorch.make_functional(ndgrad.nn.Linear(2, 1))
    with pytest.raises(ValueError, match="1 parameters for the 2 it has.*weight, bias"):
        f(params[:1], X)
