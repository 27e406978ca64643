"""Tensors of modules that are computed from others: what is kept, what is shared, what is refused; weights with laws."""

from __future__ import annotations

import copy
import threading

import numpy as np
import pytest

import ndgrad
from ndgrad import nn
from ndgrad.nn.utils import parametrize, prune
from ndgrad.nn.utils.parametrizations import orthogonal, spectral_norm, weight_norm


class Doubled(nn.Module):
    def forward(self, x):
        return x * 2

    def right_inverse(self, x):
        return x / 2


def layer(i=3, o=4):
    return nn.Linear(i, o, dtype=ndgrad.float64)


def test_the_value_stays_where_there_is_an_inverse_and_the_parameter_is_the_same_object():
    module = layer()
    weight, value = module.weight, module.weight.detach().clone()
    parametrize.register_parametrization(module, "weight", Doubled())
    assert module.parametrizations.weight.original is weight
    assert bool((module.weight == value).all())
    assert bool((weight == value / 2).all())


def test_a_refused_parametrization_leaves_the_module_and_its_values_alone():
    class Shrinking(Doubled):
        def forward(self, x):
            return x[:1]

    module = layer()
    value = module.weight.detach().clone()
    with pytest.raises(ValueError, match="may not change the shape"):
        parametrize.register_parametrization(module, "weight", Shrinking())
    assert type(module) is nn.Linear
    assert bool((module.weight == value).all())


def test_gradients_reach_the_original():
    module = parametrize.register_parametrization(layer(), "weight", nn.Tanh())
    original = module.parametrizations.weight.original

    def loss(w, x):
        return (ndgrad.nn.functional.linear(x, w.tanh(), module.bias) ** 2).sum()

    x = ndgrad.randn(5, 3, dtype=ndgrad.float64)
    (module(x) ** 2).sum().backward()
    expected = ndgrad.func.grad(loss)(original.detach(), x).detach()  # the bias has a graph outside
    np.testing.assert_allclose(original.grad.numpy(), expected.numpy(), rtol=1e-12)


def test_cached_tensors_belong_to_the_thread_and_end_with_the_block():
    module = parametrize.register_parametrization(layer(), "weight", nn.Tanh())
    seen = []
    with parametrize.cached():
        first = module.weight
        thread = threading.Thread(target=lambda: seen.append(module.weight is first))
        thread.start()
        thread.join()
        assert module.weight is first
        with pytest.raises(KeyError), parametrize.cached():
            raise KeyError("an error inside")
        assert module.weight is first
    assert seen == [False]
    assert module.weight is not first


def test_parametrized_modules_inside_transforms():
    module = parametrize.register_parametrization(layer(), "weight", nn.Tanh())
    params = {name: p.detach() for name, p in module.named_parameters()}
    x = ndgrad.randn(5, 3, dtype=ndgrad.float64)

    def loss(params, x):
        return (ndgrad.func.functional_call(module, params, (x,)) ** 2).sum()

    whole = ndgrad.func.grad(loss)(params, x)
    each = ndgrad.func.vmap(ndgrad.func.grad(loss), in_dims=(None, 0))(params, x)
    for name in params:
        np.testing.assert_allclose(each[name].sum(0).numpy(), whole[name].numpy(), rtol=1e-10)


def test_a_copy_has_parameters_of_its_own():
    module = parametrize.register_parametrization(layer(), "weight", Doubled())
    other = copy.deepcopy(module)
    with ndgrad.no_grad():
        other.parametrizations.weight.original.zero_()
    assert module.weight.abs().sum() > 0
    assert other.weight.abs().sum() == 0


@pytest.mark.parametrize("shape", [(3, 3), (2, 5), (5, 2)])
@pytest.mark.parametrize("name", ["matrix_exp", "cayley", "householder"])
@pytest.mark.parametrize("base", [True, False])
def test_orthogonal_weights_stay_orthogonal_while_they_are_learned(name, shape, base):
    module = orthogonal(layer(*shape), orthogonal_map=name, use_trivialization=base)
    optimizer = ndgrad.optim.SGD(module.parameters(), lr=0.1)
    for _ in range(3):
        optimizer.zero_grad()
        (module(ndgrad.randn(4, shape[0], dtype=ndgrad.float64)) ** 3).sum().backward()
        optimizer.step()
    weight = module.weight.detach().numpy()
    tall = weight if weight.shape[0] >= weight.shape[1] else weight.T
    np.testing.assert_allclose(tall.T @ tall, np.eye(tall.shape[1]), atol=1e-12)
    assert module.parametrizations.weight.original.grad.abs().sum() > 0


def test_assigned_orthogonal_weights_are_found_again():
    rng = np.random.default_rng(0)
    for shape in ((4, 4), (2, 5), (5, 2)):
        for name in ("matrix_exp", "cayley", "householder"):
            rotation = np.linalg.qr(rng.standard_normal((max(shape), min(shape))))[0]
            wanted = rotation if shape[0] <= shape[1] else rotation.T
            module = orthogonal(layer(*shape), orthogonal_map=name)
            module.weight = ndgrad.tensor(wanted)
            np.testing.assert_allclose(module.weight.detach().numpy(), wanted, atol=1e-12)


def test_spectral_norm_comes_to_the_largest_singular_value():
    module = spectral_norm(layer(6, 5), n_power_iterations=20)
    for _ in range(5):
        module(ndgrad.zeros(1, 6, dtype=ndgrad.float64))
    original = module.parametrizations.weight.original.detach().numpy()
    expected = original / np.linalg.svd(original)[1][0]
    np.testing.assert_allclose(module.weight.detach().numpy(), expected, rtol=1e-5)
    module.eval()
    u = module.parametrizations.weight[0]._u.clone()
    module(ndgrad.zeros(1, 6, dtype=ndgrad.float64))
    assert bool((module.parametrizations.weight[0]._u == u).all())


def test_two_forwards_of_a_spectrally_normed_layer_can_be_differentiated_together():
    module = spectral_norm(layer())
    x = ndgrad.randn(2, 3, dtype=ndgrad.float64)
    (module(x) + module(x)).sum().backward()
    assert module.parametrizations.weight.original.grad is not None


@pytest.mark.parametrize("dim", [0, 1, None])
def test_weight_norm_is_right_to_second_order(dim):
    module = weight_norm(layer(), dim=dim)
    g, v = (getattr(module.parametrizations.weight, f"original{n}").detach().requires_grad_() for n in (0, 1))
    assert ndgrad.autograd.gradcheck(module.parametrizations.weight[0], (g, v))
    assert ndgrad.autograd.gradgradcheck(module.parametrizations.weight[0], (g, v))


def test_a_refused_pruning_leaves_the_module_as_it_was():
    module = layer()
    for wrong in ({"amount": 100}, {"amount": 1, "importance_scores": ndgrad.ones(2)}):
        with pytest.raises((ValueError, AssertionError)):
            prune.l1_unstructured(module, "weight", **wrong)
    assert list(module.state_dict()) == ["weight", "bias"]
    prune.l1_unstructured(module, "weight", 2)
    with pytest.raises(ValueError, match="smaller than the number"):
        prune.l1_unstructured(module, "weight", 100)
    assert int(module.weight_mask.sum()) == 10
    assert len(module._forward_pre_hooks) == 1


def test_names_of_functions_win_over_files():
    assert callable(nn.utils.weight_norm)
    assert callable(nn.utils.spectral_norm)
    from ndgrad.nn.utils.weight_norm import WeightNorm

    assert callable(nn.utils.weight_norm)
    assert WeightNorm.__name__ == "WeightNorm"
