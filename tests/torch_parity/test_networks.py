"""Parametrizations, pruning, losses of sequences, averages of weights and the rest of torch's packages for networks, on both libraries."""

from __future__ import annotations

import copy
import importlib
import pickle
import warnings
from typing import Any

import numpy as np
import pytest
import torch

import ndgrad
from tests.torch_parity.differences import deliberate
from tests.torch_parity.programs.sameness import same
from tests.torch_parity.side_by_side import Programs, attempt

pytestmark = pytest.mark.usefixtures("float64_torch")

PROGRAMS = Programs()
program = PROGRAMS.enter


def wave(m: Any, *shape: int, at: float = 0.2, dtype: Any = None) -> Any:
    """Numbers that repeat nowhere."""
    return m.tensor(np.sin(np.arange(int(np.prod(shape))) * 1.3 + at).reshape(shape), dtype=dtype or m.float64)


def fill(m: Any, module: Any) -> Any:
    """A module in double precision with parameters that are the same in both libraries."""
    module = module.double()
    with m.no_grad():
        for number, p in enumerate(module.parameters()):
            p.copy_(wave(m, *p.shape, at=number))
    return module


def linear(m: Any, i: int = 3, o: int = 4) -> Any:
    return fill(m, m.nn.Linear(i, o))


def part(m: Any, path: str) -> Any:
    return importlib.import_module(f"{m.__name__}.{path}")


def state(module: Any) -> dict[str, Any]:
    return dict(module.state_dict())


def grads(module: Any) -> dict[str, Any]:
    return {name: p.grad for name, p in module.named_parameters()}


def backward(m: Any, module: Any, *shape: int) -> Any:
    (module(wave(m, *shape)) ** 2).sum().backward()
    return grads(module)


# ----- parametrizations -----------------------------------------------------------------------------------------------


def symmetric(m: Any) -> Any:
    class Symmetric(m.nn.Module):
        def forward(self, x):
            return x.triu() + x.triu(1).mT

        def right_inverse(self, x):
            return x.triu()

    return Symmetric()


def rank_one(m: Any) -> Any:
    class RankOne(m.nn.Module):
        def forward(self, x, y):
            return x.unsqueeze(-1) * y.unsqueeze(-2)

        def right_inverse(self, z):
            return z[:, 0], z[0]

    return RankOne()


@program
def a_parametrized_weight(m):
    P = part(m, "nn.utils.parametrize")
    module = P.register_parametrization(linear(m, 3, 3), "weight", symmetric(m))
    return [repr(module), type(module).__name__, state(module), module.weight, backward(m, module, 5, 3)]


@program
def parametrizations_are_composed(m):
    P = part(m, "nn.utils.parametrize")
    module = linear(m, 3, 3)
    for function in (symmetric(m), m.nn.Tanh(), m.nn.Identity()):
        P.register_parametrization(module, "weight", function)
    return [repr(module), module.weight, backward(m, module, 5, 3)]


@program
def assigning_goes_through_the_inverse(m):
    P = part(m, "nn.utils.parametrize")
    module = P.register_parametrization(linear(m, 3, 3), "weight", symmetric(m))
    kept = module.parametrizations.weight.original
    module.weight = m.ones(3, 3, dtype=m.float64)
    return [module.weight, module.parametrizations.weight.original is kept, kept.detach()]


@program
def a_weight_of_two_tensors(m):
    P = part(m, "nn.utils.parametrize")
    module = P.register_parametrization(linear(m, 3, 4), "weight", rank_one(m), unsafe=True)
    lists = module.parametrizations.weight
    return [lists.is_tensor, lists.ntensors, state(module), backward(m, module, 2, 3)]


@program
def the_optimizer_keeps_the_parameter(m):
    P = part(m, "nn.utils.parametrize")
    module = linear(m, 3, 3)
    optimizer = m.optim.SGD(module.parameters(), lr=0.1)
    P.register_parametrization(module, "weight", symmetric(m))
    backward(m, module, 5, 3)
    optimizer.step()
    return [module.weight, state(module)]


@program
def cached_parametrizations_are_computed_once(m):
    P = part(m, "nn.utils.parametrize")
    calls = []

    class Counting(m.nn.Module):
        def forward(self, x):
            calls.append(1)
            return x * 2

    module = P.register_parametrization(linear(m), "weight", Counting(), unsafe=True)
    calls.clear()
    with P.cached():
        inside = module.weight is module.weight
        with P.cached():
            inside = inside and module.weight is module.weight
        result = module(wave(m, 2, 3)) + module(wave(m, 2, 3))
    result.sum().backward()
    return [len(calls), inside, module.weight is module.weight, grads(module)]


@program
def removing_leaves_the_value_or_the_original(m):
    P = part(m, "nn.utils.parametrize")
    found = []
    for leave in (True, False):
        module = P.register_parametrization(linear(m, 3, 3), "weight", symmetric(m))
        original = module.parametrizations.weight.original
        P.remove_parametrizations(module, "weight", leave_parametrized=leave)
        found += [repr(module), state(module), module.weight is original, type(module) is m.nn.Linear]
    return found


@program
def removing_one_of_several(m):
    P = part(m, "nn.utils.parametrize")
    module = P.register_parametrization(linear(m, 3, 3), "weight", symmetric(m))
    P.register_parametrization(module, "bias", m.nn.Tanh())
    P.remove_parametrizations(module, "weight")
    P_many = P.register_parametrization(linear(m, 3, 4), "weight", rank_one(m), unsafe=True)
    P.remove_parametrizations(P_many, "weight")
    return [repr(module), P.is_parametrized(module), P.is_parametrized(module, "weight"), state(module), repr(P_many), state(P_many)]


@program
def wrong_parametrizations(m):
    P = part(m, "nn.utils.parametrize")

    class Making(m.nn.Module):
        def __init__(self, f, inverse=None):
            super().__init__()
            self.f = f
            if inverse is not None:
                self.right_inverse = inverse

        def forward(self, x):
            return self.f(x)

    found = []
    for function in (
        Making(lambda x: x[:1]),
        Making(lambda x: x.float()),
        Making(lambda x: 3),
        Making(lambda x: x, lambda x: 3),
        Making(lambda x: x, lambda x: x.float()),
        Making(lambda x: x, lambda x: (x, 3)),
    ):
        module = linear(m, 3, 3)
        before = module.weight.detach().clone()
        found.append(attempt(lambda module=module, function=function: P.register_parametrization(module, "weight", function)))
        found += [type(module).__name__, list(module._parameters), bool((module.weight == before).all())]
    module = P.register_parametrization(linear(m, 3, 3), "weight", m.nn.Tanh())
    found.append(attempt(lambda: P.register_parametrization(module, "weight", Making(lambda x: x[:1]))))
    found.append(attempt(lambda: P.register_parametrization(module, "absent", m.nn.Tanh())))
    found.append(attempt(lambda: setattr(module, "weight", m.ones(3, 3))))
    found.append(attempt(lambda: P.remove_parametrizations(module, "bias")))
    found.append(attempt(lambda: pickle.dumps(module)))
    found.append(attempt(lambda: P.ParametrizationList([], m.ones(2))))
    return found


@program
def parametrizations_are_copied_and_loaded(m):
    P = part(m, "nn.utils.parametrize")
    module = P.register_parametrization(linear(m, 3, 3), "weight", symmetric(m))
    other = copy.deepcopy(module)
    with m.no_grad():
        other.parametrizations.weight.original.mul_(2)
    module.load_state_dict(other.state_dict())
    return [type(other).__name__, module.weight, other.weight, type(module) is type(other)]


@program
def parametrizations_are_transferred(m):
    P = part(m, "nn.utils.parametrize")
    module = P.register_parametrization(linear(m, 3, 3), "weight", symmetric(m))
    other = P.transfer_parametrizations_and_params(module, linear(m, 3, 3))
    named = P.type_before_parametrizations(other) is m.nn.Linear
    return [repr(other), other.weight, named, repr(P.transfer_parametrizations_and_params(linear(m), linear(m)))]


@program
def a_parametrized_buffer(m):
    P = part(m, "nn.utils.parametrize")
    module = linear(m, 3, 3)
    module.register_buffer("mask", wave(m, 3, 3))
    P.register_parametrization(module, "mask", symmetric(m))
    return [state(module), [n for n, _ in module.named_buffers()], module.mask, module.mask.requires_grad]


@program
def modes_reach_parametrizations(m):
    P = part(m, "nn.utils.parametrize")
    module = P.register_parametrization(linear(m).eval(), "weight", m.nn.Dropout(1.0))
    first = module.weight
    module.train()
    return [first, module.weight, [part.training for part in module.modules()]]


# ----- norms and orthogonal weights -----------------------------------------------------------------------------------


@program
def weight_norm_as_a_parametrization(m):
    found = []
    for dim in (0, 1, None, -1):
        module = m.nn.utils.parametrizations.weight_norm(linear(m), dim=dim)
        found += [repr(module), state(module), module.weight, backward(m, module, 2, 3)]
    return found


@program
def weight_norm_of_convolutions(m):
    found = []
    for dim in range(4):
        module = m.nn.utils.parametrizations.weight_norm(fill(m, m.nn.Conv2d(2, 3, 2)), dim=dim)
        found += [state(module), backward(m, module, 1, 2, 4, 4)]
    return found


@program
def the_older_weight_norm(m):
    module = m.nn.utils.weight_norm(linear(m))
    first = [state(module), type(module.weight) is m.Tensor, backward(m, module, 2, 3)]
    m.nn.utils.remove_weight_norm(module)
    return [*first, state(module), module.weight.requires_grad, len(module._forward_pre_hooks)]


@program
def what_the_older_weight_norm_saved_is_loaded(m):
    old = m.nn.utils.weight_norm(linear(m))
    with m.no_grad():
        old.weight_g.mul_(2)
    new = m.nn.utils.parametrizations.weight_norm(linear(m))
    new.load_state_dict(old.state_dict())
    return [new.weight, state(new)]


@program
def wrong_weight_norms(m):
    utils = m.nn.utils
    twice = utils.weight_norm(linear(m))
    return [
        attempt(lambda: utils.weight_norm(twice)),
        attempt(lambda: utils.remove_weight_norm(linear(m))),
        attempt(lambda: utils.weight_norm(linear(m), "absent")),
        attempt(lambda: utils.parametrizations.weight_norm(linear(m), "absent")),
        attempt(lambda: utils.parametrizations.weight_norm(linear(m), dim=5)),
        attempt(lambda: utils.weight_norm(m.nn.LazyLinear(3))),
        attempt(lambda: utils.parametrizations.weight_norm(m.nn.LazyLinear(3))),
    ]


def settled(m: Any, module: Any) -> Any:
    """A module whose singular vectors begin alike in both libraries."""
    with m.no_grad():
        for buffer in module.buffers():
            buffer.copy_(wave(m, *buffer.shape) / wave(m, *buffer.shape).norm())
    return module


@program
def spectral_norm_as_a_parametrization(m):
    found = []
    for make in (lambda: linear(m), lambda: fill(m, m.nn.Conv1d(2, 3, 2)), lambda: fill(m, m.nn.ConvTranspose1d(2, 3, 2))):
        module = settled(m, m.nn.utils.parametrizations.spectral_norm(make(), n_power_iterations=2))
        shape = (2, 3) if isinstance(module, m.nn.Linear) else (2, 2, 4)
        found += [repr(module), backward(m, module, *shape), backward(m, module, *shape), state(module)]
        module.eval()
        found += [module.weight, module.weight]
    return found


@program
def spectral_norm_of_a_vector(m):
    module = m.nn.utils.parametrizations.spectral_norm(linear(m), "bias")
    return [module.bias, state(module), backward(m, module, 2, 3)]


@program
def the_older_spectral_norm(m):
    module = settled(m, m.nn.utils.spectral_norm(linear(m)))
    first = [list(state(module)), backward(m, module, 2, 3), state(module), dict(module.state_dict()._metadata[""])]
    module.eval()
    again = module(wave(m, 2, 3))
    m.nn.utils.remove_spectral_norm(module)
    return [*first, again, module(wave(m, 2, 3)), list(state(module))]


@program
def what_spectral_norm_saved_before_it_had_two_vectors(m):
    module = settled(m, m.nn.utils.spectral_norm(linear(m)))
    module(wave(m, 2, 3))
    saved = module.state_dict()
    saved["weight"] = module.weight.detach()
    del saved["weight_v"]
    saved._metadata = {}
    other = m.nn.utils.spectral_norm(linear(m)).eval()
    other.load_state_dict(saved)
    return [state(other), other(wave(m, 2, 3))]


@program
def wrong_spectral_norms(m):
    utils = m.nn.utils
    return [
        attempt(lambda: utils.spectral_norm(utils.spectral_norm(linear(m)))),
        attempt(lambda: utils.remove_spectral_norm(linear(m))),
        attempt(lambda: utils.spectral_norm(linear(m), n_power_iterations=0)),
        attempt(lambda: utils.parametrizations.spectral_norm(linear(m), n_power_iterations=0)),
        attempt(lambda: utils.parametrizations.spectral_norm(linear(m), "absent")),
        attempt(lambda: utils.parametrizations.spectral_norm(linear(m), dim=4)),
        attempt(lambda: utils.spectral_norm(m.nn.LazyLinear(3))),
    ]


def orthogonal_programs() -> None:
    for name in ("matrix_exp", "cayley", "householder"):
        for i, o in ((3, 3), (2, 4), (4, 2)):

            def run(m, name=name, i=i, o=o):
                module = m.nn.utils.parametrizations.orthogonal(linear(m, i, o), "weight", name, use_trivialization=False)
                return [list(state(module)), module.weight, backward(m, module, 5, i)]

            run.__name__ = f"orthogonal_weights_by_{name}_from_{i}_to_{o}"
            program(run)


orthogonal_programs()


@program
def orthogonal_weights_with_a_base(m):
    found = []
    for name in (None, "matrix_exp", "cayley", "householder"):
        module = m.nn.utils.parametrizations.orthogonal(linear(m, 3, 3), orthogonal_map=name)
        found += [state(module), module.weight, backward(m, module, 5, 3)]
        rotation = m.linalg.qr(wave(m, 3, 3, at=2.0))[0]
        module.weight = rotation
        found.append(module.weight - rotation)
    return found


@program
def orthogonal_weights_that_are_assigned(m):
    found = []
    for i, o in ((2, 4), (4, 2)):
        module = m.nn.utils.parametrizations.orthogonal(linear(m, i, o))
        tall = m.linalg.qr(wave(m, 4, 2, at=2.0))[0]
        module.weight = tall if o > i else tall.mT
        found.append(module.weight - (tall if o > i else tall.mT))
    return found


@program
def orthogonal_complex_weights(m):
    module = m.nn.Linear(3, 3, bias=False, dtype=m.complex128)
    with m.no_grad():
        module.weight.copy_(m.complex(wave(m, 3, 3), wave(m, 3, 3, at=1.0)))
    found = [attempt(lambda: m.nn.utils.parametrizations.orthogonal(module, orthogonal_map="householder"))]
    m.nn.utils.parametrizations.orthogonal(module, use_trivialization=False)
    return [*found, module.weight]


@program
def wrong_orthogonal_weights(m):
    orthogonal = m.nn.utils.parametrizations.orthogonal
    module = orthogonal(linear(m, 3, 3))
    free = orthogonal(linear(m, 3, 3), use_trivialization=False)
    return [
        attempt(lambda: orthogonal(linear(m), "bias")),
        attempt(lambda: orthogonal(linear(m), "absent")),
        attempt(lambda: orthogonal(linear(m), orthogonal_map="rotation")),
        attempt(lambda: setattr(module, "weight", m.ones(2, 2))),
        attempt(lambda: setattr(free, "weight", m.eye(3, dtype=m.float64))),
    ]


# ----- pruning --------------------------------------------------------------------------------------------------------


def pruned(m: Any, module: Any) -> list[Any]:
    return [state(module), module.weight, [n for n, _ in module.named_parameters()], [n for n, _ in module.named_buffers()]]


@program
def pruning_by_absolute_value(m):
    prune = part(m, "nn.utils.prune")
    module = prune.l1_unstructured(linear(m), "weight", amount=0.3)
    return [*pruned(m, module), backward(m, module, 2, 3)]


@program
def pruning_again_and_again(m):
    prune = part(m, "nn.utils.prune")
    module = prune.l1_unstructured(linear(m), "weight", amount=0.3)
    prune.ln_structured(module, "weight", amount=1, n=2, dim=0)
    first = pruned(m, module)
    prune.ln_structured(module, "weight", amount=0.5, n=float("inf"), dim=1)
    prune.l1_unstructured(module, "weight", amount=0.5)
    hook = next(iter(module._forward_pre_hooks.values()))
    return [*first, *pruned(m, module), [type(method).__name__ for method in hook], len(hook)]


@program
def pruning_made_permanent(m):
    prune = part(m, "nn.utils.prune")
    module = linear(m)
    weight = module.weight
    prune.l1_unstructured(module, "weight", amount=5)
    before = prune.is_pruned(module)
    prune.remove(module, "weight")
    return [before, prune.is_pruned(module), *pruned(m, module), module.weight is weight]


@program
def pruning_several_tensors_together(m):
    prune = part(m, "nn.utils.prune")
    net = m.nn.Sequential(linear(m), m.nn.ReLU(), linear(m, 4, 2))
    pairs = [(net[0], "weight"), (net[0], "bias"), (net[2], "weight")]
    prune.global_unstructured(pairs, prune.L1Unstructured, amount=5)
    first = state(net)
    prune.global_unstructured(pairs, prune.L1Unstructured, amount=0.5)
    return [first, state(net)]


@program
def pruning_by_scores_and_masks(m):
    prune = part(m, "nn.utils.prune")
    scores = m.arange(12.0).reshape(4, 3)
    return [
        pruned(m, prune.l1_unstructured(linear(m), "weight", 2, importance_scores=scores)),
        pruned(m, prune.ln_structured(linear(m), "weight", 1, 2, -1, importance_scores=scores)),
        pruned(m, prune.custom_from_mask(linear(m), "weight", m.tensor([[1, 0, 1]] * 4))),
        pruned(m, prune.identity(linear(m), "weight")),
        prune.L1Unstructured(amount=2).prune(m.tensor([3.0, -1.0, 2.0, 0.5]), default_mask=m.tensor([0.0, 1.0, 1.0, 1.0])),
    ]


@program
def a_pruning_method_of_ones_own(m):
    prune = part(m, "nn.utils.prune")

    class EverySecond(prune.BasePruningMethod):
        PRUNING_TYPE = "unstructured"

        def compute_mask(self, t, default_mask):
            mask = default_mask.clone()
            mask.view(-1)[::2] = 0
            return mask

    module = linear(m)
    found = []
    for _ in range(2):
        EverySecond.apply(module, "weight")
        found += pruned(m, module)
    return found


@program
def random_pruning_takes_as_many(m):
    prune = part(m, "nn.utils.prune")
    some = prune.random_unstructured(linear(m), "weight", 5).weight_mask.sum()
    rows = prune.random_structured(linear(m), "weight", 2, 0).weight_mask.sum(1).sort()[0]
    return [some, rows, prune.random_structured(linear(m), "weight", 0.5, -1).weight_mask.sum()]


@program
def wrong_prunings(m):
    prune = part(m, "nn.utils.prune")
    found = [attempt(lambda a=a: prune.l1_unstructured(linear(m), "weight", a)) for a in (-1, 1.5, "x", 20, None)]
    found = [f if isinstance(f, str) else "fine" for f in found]
    module = linear(m)
    return [
        *found,
        attempt(lambda: prune.ln_structured(linear(m), "bias", 1, 2, 0)),
        attempt(lambda: prune.ln_structured(linear(m), "weight", 1, 2, 5)),
        attempt(lambda: prune.ln_structured(linear(m), "weight", 9, 2, 0)),
        attempt(lambda: prune.l1_unstructured(module, "absent", 1)),
        attempt(lambda: prune.l1_unstructured(module, "weight", 1, m.ones(2))),
        attempt(lambda: prune.custom_from_mask(module, "weight", m.ones(2, 2))),
        attempt(lambda: prune.remove(linear(m), "weight")),
        attempt(lambda: prune.global_unstructured([(module, "weight")], prune.LnStructured, amount=1, n=2)),
        attempt(lambda: prune.PruningContainer().add_pruning_method(3)),
    ]


# ----- around modules -------------------------------------------------------------------------------------------------


@program
def batch_normalisation_fused_into_layers(m):
    found = []
    cases = [
        (m.nn.Conv2d(2, 3, 2), m.nn.BatchNorm2d(3), (1, 2, 4, 4), False),
        (m.nn.Conv1d(2, 3, 2, bias=False), m.nn.BatchNorm1d(3, affine=False), (1, 2, 4), False),
        (m.nn.ConvTranspose1d(2, 3, 2), m.nn.BatchNorm1d(3), (1, 2, 4), True),
    ]
    for layer, norm, shape, transposed in cases:
        layer, norm = fill(m, layer), fill(m, norm)
        norm(wave(m, 7, *layer(wave(m, *shape)).shape[1:]))
        fused = m.nn.utils.fuse_conv_bn_eval(layer.eval(), norm.eval(), transposed)
        found += [state(fused), fused(wave(m, *shape)), norm(layer(wave(m, *shape)))]
    layer, norm = linear(m), fill(m, m.nn.BatchNorm1d(4))
    norm(layer(wave(m, 7, 3)))
    found.append(attempt(lambda: m.nn.utils.fuse_linear_bn_eval(layer, norm)))
    return [*found, state(m.nn.utils.fuse_linear_bn_eval(layer.eval(), norm.eval()))]


@program
def modules_without_initial_values(m):
    module = m.nn.utils.skip_init(m.nn.Linear, 3, 2, bias=False)
    return [
        list(module.state_dict()),
        tuple(module.weight.shape),
        module.weight.requires_grad,
        attempt(lambda: m.nn.utils.skip_init(m.nn.ReLU)),
        attempt(lambda: m.nn.utils.skip_init(int)),
    ]


@program
def numbers_as_tuples_and_prefixes(m):
    utils = part(m, "nn.modules.utils")
    saved = {"module.weight": 1, "bias": 2, "module.a.b": 3}
    utils.consume_prefix_in_state_dict_if_present(saved, "module.")
    tuples = [utils._single(3), utils._pair(3), utils._triple((1, 2, 3)), utils._quadruple(0), utils._ntuple(2)("ab")]
    return [saved, tuples, utils._reverse_repeat_tuple((1, 2), 2), utils._list_with_default([None, 3], [7, 8, 9])]


@program
def weights_in_another_memory_format(m):
    net = m.nn.Sequential(fill(m, m.nn.Conv2d(2, 3, 2)), fill(m, m.nn.Conv1d(2, 3, 2)))
    m.nn.utils.convert_conv2d_weight_memory_format(net, m.channels_last)
    return [net[0].weight.stride(), net[1].weight.stride(), net[0].weight, net[0](wave(m, 1, 2, 4, 4))]


@program
def gradients_clipped_in_all_ways(m):
    found = []
    for clip in (
        lambda ps: m.nn.utils.clip_grad_norm_(ps, 1.0),
        lambda ps: m.nn.utils.clip_grad_norm_(ps, 1.0, norm_type=float("inf")),
        lambda ps: m.nn.utils.clip_grad_norm(ps, 0.5, norm_type=1),
        lambda ps: m.nn.utils.clip_grad_value_(ps, 0.3),
        lambda ps: m.nn.utils.clip_grads_with_norm_(ps, 1.0, m.tensor(4.0)),
        lambda ps: m.nn.utils.get_total_norm([p.grad for p in ps], 3.0),
        lambda ps: m.nn.utils.clip_grad_norm_(ps, 1.0, foreach=True),
    ):
        module = linear(m)
        backward(m, module, 2, 3)
        found += [clip(list(module.parameters())), grads(module)]
    return found


@program
def lazy_modules_learn_their_sizes(m):
    found = []
    for make, shape in (
        (lambda: m.nn.LazyLinear(2), (5, 3)),
        (lambda: m.nn.LazyConv2d(3, 2, stride=2), (1, 2, 4, 4)),
        (lambda: m.nn.LazyConvTranspose1d(3, 2), (1, 2, 4)),
        (lambda: m.nn.LazyBatchNorm1d(), (5, 3)),
        (lambda: m.nn.LazyInstanceNorm2d(affine=True), (1, 2, 4, 4)),
    ):
        module = make()
        first = [repr(module), module.has_uninitialized_params(), attempt(lambda module=module: module.weight.shape)]
        module(m.ones(*shape))
        found += [*first, repr(module), type(module).__name__, [tuple(t.shape) for t in module.state_dict().values()]]
    return found


# ----- losses and pools -----------------------------------------------------------------------------------------------

TARGETS = [[1, 2, 2], [3, 1, 0], [1, 1, 1]]


@program
def ctc_losses(m):
    found = []
    for read in ([6, 5, 6], [2, 5, 6], [0, 5, 6]):
        for written in ([3, 2, 3], [0, 1, 3]):
            for reduction in ("none", "mean", "sum"):
                for zero in (False, True):
                    scores = wave(m, 6, 3, 4).requires_grad_()
                    given = scores.log_softmax(-1), m.tensor(TARGETS), m.tensor(read), m.tensor(written)
                    loss = m.nn.functional.ctc_loss(*given, reduction=reduction, zero_infinity=zero)
                    loss.sum().backward()
                    found += [loss, scores.grad]
    return found


@program
def ctc_losses_of_other_forms(m):
    F, scores = m.nn.functional, wave(m, 6, 3, 4).log_softmax(-1)
    together = m.tensor([1, 2, 2, 3, 1, 1, 1, 1])
    return [
        F.ctc_loss(scores, together, (6, 5, 6), (3, 2, 3)),
        F.ctc_loss(scores, together.int(), m.tensor([6, 5, 6]).int(), m.tensor([3, 2, 3]).int()),
        F.ctc_loss(scores, m.tensor(TARGETS), [6, 5, 6], [3, 2, 2], blank=3),
        F.ctc_loss(scores[:, 0], m.tensor([1, 2]), m.tensor(6), m.tensor(2)),
        F.ctc_loss(scores[:, 0], m.tensor([1, 2]), [6], [2], reduction="none"),
        F.ctc_loss(scores.float(), m.tensor(TARGETS), [6, 5, 6], [3, 2, 3]),
        m.nn.CTCLoss(blank=0, reduction="sum", zero_infinity=True)(scores, m.tensor(TARGETS), [1, 5, 6], [3, 2, 3]),
        repr(m.nn.CTCLoss(1)),
    ]


@program
def ctc_losses_over_a_batch_of_scores(m):
    scores = wave(m, 2, 6, 3, 4).log_softmax(-1)
    return m.func.vmap(lambda x: m.nn.functional.ctc_loss(x, m.tensor(TARGETS), [6, 5, 6], [3, 2, 3]))(scores)


@program
def wrong_ctc_losses(m):
    F, scores, targets = m.nn.functional, wave(m, 6, 3, 4), m.tensor(TARGETS)

    def refused(*given, **settings):
        return attempt(lambda: F.ctc_loss(*given, **settings))

    lengths = [6, 5, 6], [3, 2, 3]
    return [
        refused(scores, targets, [7, 5, 6], [3, 2, 3]),
        refused(scores, targets, [-1, 5, 6], [3, 2, 3]),
        refused(scores, targets, [6, 5, 6], [4, 2, 3]),
        refused(scores, targets, [6, 5], [3, 2, 3]),
        refused(scores, targets, [6, 5, 6], [3, 2]),
        refused(scores, targets, *lengths, blank=4),
        refused(scores, targets, *lengths, blank=-1),
        refused(scores, targets, *lengths, reduction="all"),
        refused(scores, targets.reshape(1, 3, 3), *lengths),
        refused(scores, targets[:2], *lengths),
        refused(scores, m.tensor([1, 2, 2]), *lengths),
        refused(scores.long(), targets, *lengths),
        refused(scores, targets, m.tensor([6.0, 5.0, 6.0]), m.tensor([3, 2, 3])),
        refused(m.zeros(0, 3, 4), targets, [0, 0, 0], [3, 2, 3]),
    ]


@program
def fractional_max_pooling(m):
    F = m.nn.functional
    flat, solid = wave(m, 2, 2, 7, 9), wave(m, 2, 2, 6, 5, 4)
    found = []
    for x, size, samples, pool in (
        (flat, (3, 4), m.tensor(np.random.default_rng(1).random((2, 2, 2))), F.fractional_max_pool2d),
        (solid, (3, 2, 2), m.tensor(np.random.default_rng(1).random((2, 2, 3))), F.fractional_max_pool3d),
    ):
        x = x.clone().requires_grad_()
        out, places = pool(x, 2, output_size=size, _random_samples=samples, return_indices=True)
        (out**2).sum().backward()
        found += [out, places, x.grad, pool(x, 2, output_ratio=(0.6,) * len(size), _random_samples=samples)]
        found.append(pool(x[0], 2, output_size=2, _random_samples=samples[:1]))
    return found


@program
def fractional_pools_as_modules(m):
    nn, x = m.nn, wave(m, 2, 2, 7, 9)
    samples = m.tensor(np.random.default_rng(1).random((2, 2, 2)))
    module = nn.FractionalMaxPool2d(3, output_ratio=0.5, return_indices=True, _random_samples=samples)
    return [
        *module(x),
        repr(module),
        list(module.state_dict()),
        tuple(nn.FractionalMaxPool2d(2, output_size=(3, 5))(x).shape),
        tuple(nn.FractionalMaxPool3d(2, output_ratio=0.5)(wave(m, 1, 2, 6, 6, 6)).shape),
        attempt(lambda: nn.FractionalMaxPool2d(2)),
        attempt(lambda: nn.FractionalMaxPool2d(2, output_size=2, output_ratio=0.5)),
        attempt(lambda: nn.FractionalMaxPool2d(2, output_ratio=1.5)),
        attempt(lambda: m.nn.functional.fractional_max_pool2d(x, 8, output_size=2)),
        attempt(lambda: m.nn.functional.fractional_max_pool2d(x, 3, output_size=7)),
        attempt(lambda: m.nn.functional.fractional_max_pool2d(x, 2, output_size=2, _random_samples=samples.float())),
    ]


@program
def adaptive_softmax(m):
    found = []
    for settings in ({}, {"div_value": 2.0, "head_bias": True}):
        module = fill(m, m.nn.AdaptiveLogSoftmaxWithLoss(5, 12, [3, 7], **settings))
        x = wave(m, 6, 5).requires_grad_()
        result = module(x, m.tensor([0, 2, 3, 6, 11, 7]))
        result.loss.backward()
        found += [repr(module), result.output, result.loss, x.grad, grads(module), type(result).__name__]
        found += [module.log_prob(x), module.predict(x), module(x[0], m.tensor(4)).output, module.cutoffs]
    return found


@program
def wrong_adaptive_softmax(m):
    make = m.nn.AdaptiveLogSoftmaxWithLoss
    module = make(5, 12, [3, 7])
    x = m.ones(2, 5)
    return [attempt(lambda c=c: make(5, 12, c)) for c in ([], [3, 3], [7, 3], [0, 3], [3, 12], [3.5])] + [
        attempt(lambda: module(x, m.tensor([0, 12]))),
        attempt(lambda: module(x, m.tensor([0, -1]))),
        attempt(lambda: module(x, m.tensor([0, 1, 2]))),
        attempt(lambda: module(x, m.tensor([[0, 1]]))),
        attempt(lambda: module(x, m.tensor(0))),
    ]


@program
def normalisation_across_channels(m):
    found = []
    for size in (1, 2, 3, 4, 5, 7):
        module = m.nn.CrossMapLRN2d(size, alpha=0.1, beta=0.6, k=2.0)
        found += [repr(module), module(wave(m, 2, 4, 3, 3))]
    return [*found, attempt(lambda: module(wave(m, 4, 3, 3)))]


# ----- attention and gradients of convolutions ------------------------------------------------------------------------


@program
def attention_with_changed_scores(m):
    flex = part(m, "nn.attention.flex_attention").flex_attention
    q, k, v = wave(m, 2, 2, 5, 4), wave(m, 2, 2, 6, 4, at=1.0), wave(m, 2, 2, 6, 3, at=2.0)
    table = wave(m, 2, at=3.0)
    out, lse = flex(q, k, v, return_lse=True)
    return [
        out,
        lse,
        flex(q, k, v, score_mod=lambda s, b, h, i, j: s + (i - j) * 0.1),
        flex(q, k, v, score_mod=lambda s, b, h, i, j: s * table[h] + b),
        flex(q, k, v, score_mod=lambda s, b, h, i, j: m.where(i >= j, s, -float("inf"))),
        flex(q, k, v, scale=0.3),
        flex(wave(m, 2, 4, 5, 4), k, v, enable_gqa=True),
        attempt(lambda: flex(wave(m, 2, 4, 5, 4), k, v)),
        attempt(lambda: flex(q[0], k, v)),
    ]


@program
def attention_with_chosen_pairs(m):
    F = part(m, "nn.attention.flex_attention")
    q, k, v = wave(m, 2, 2, 5, 4), wave(m, 2, 2, 6, 4, at=1.0), wave(m, 2, 2, 6, 3, at=2.0)
    found = []
    for mask, sizes, block in (
        (lambda b, h, i, j: i >= j, (None, None), 2),
        (lambda b, h, i, j: (j < 3) & (i > 0), (2, 2), 4),
        (F.and_masks(lambda b, h, i, j: i >= j, lambda b, h, i, j: i - j < 2), (1, 2), (2, 3)),
        (F.or_masks(lambda b, h, i, j: i == j, lambda b, h, i, j: j == b), (2, None), 4),
    ):
        blocks = F.create_block_mask(mask, *sizes, 5, 6, device="cpu", BLOCK_SIZE=block)
        found += [tuple(blocks.shape), blocks.sparsity(), blocks.to_dense(), blocks.BLOCK_SIZE, blocks.numel()]
        found += [F.flex_attention(q, k, v, block_mask=blocks), F.create_mask(mask, *sizes, 5, 6, device="cpu")]
        found += [blocks.kv_num_blocks, blocks.full_kv_num_blocks]
    return [*found, F.create_mask(F.noop_mask, None, None, 2, 2, device="cpu"), attempt(lambda: F.and_masks(3))]


@program
def causal_masks_and_kinds_of_attention(m):
    attention, bias = part(m, "nn.attention"), part(m, "nn.attention.bias")
    q, k, v = wave(m, 2, 2, 5, 4), wave(m, 2, 2, 6, 4, at=1.0), wave(m, 2, 2, 6, 3, at=2.0)
    sdpa = m.nn.functional.scaled_dot_product_attention
    with attention.sdpa_kernel(attention.SDPBackend.MATH):
        found = [sdpa(q, k, v)]
    for mask in (bias.causal_upper_left(5, 6), bias.causal_lower_right(5, 6)):
        found += [type(mask).__name__, int(mask.variant), sdpa(q, k, v, attn_mask=mask)]

    def enter(given):
        with attention.sdpa_kernel(given):
            pass

    names = sorted(attention.SDPBackend.__members__)
    return [*found, names, attempt(lambda: enter("x")), attempt(lambda: bias.causal_upper_left(5))]


@program
def gradients_of_convolutions_as_functions(m):
    G, F = part(m, "nn.grad"), m.nn.functional
    found = []
    for axes, how in ((1, {"stride": 2, "groups": 2}), (2, {"padding": 1, "dilation": 2}), (3, {})):
        groups = how.get("groups", 1)
        x, w = wave(m, 2, 2 * groups, *(6,) * axes), wave(m, 4, 2, *(2,) * axes, at=1.0)
        g = getattr(F, f"conv{axes}d")(x, w, **how)
        found += [getattr(G, f"conv{axes}d_input")(x.shape, w, g, **how), getattr(G, f"conv{axes}d_weight")(x, w.shape, g, **how)]
    return found


@program
def keywords_of_factories(m):
    take = m.nn.factory_kwargs
    return [
        take(None),
        take({"factory_kwargs": {"device": "cpu"}, "dtype": None}),
        attempt(lambda: take({"x": 1})),
        attempt(lambda: take({"dtype": None, "factory_kwargs": {"dtype": None}})),
    ]


# ----- optimizers -----------------------------------------------------------------------------------------------------


def trained(m: Any, make: Any, steps: int = 5, shapes: Any = ((3, 4), (5,), (2, 3, 4))) -> list[Any]:
    params = [wave(m, *shape, at=float(n)).requires_grad_() for n, shape in enumerate(shapes)]
    optimizer = make(params)
    for step in range(steps):
        for p in params:
            p.grad = wave(m, *p.shape, at=step + 1.0)
        optimizer.step()
    return [[p.detach() for p in params], [dict(optimizer.state[p]) for p in params], sorted(optimizer.param_groups[0])]


@program
def adafactor_steps(m):
    found = []
    for settings in (
        {},
        {"lr": 0.1, "weight_decay": 0.3},
        {"lr": 0.2, "d": 1.5, "maximize": True},
        {"lr": 0.5, "eps": (1e-3, 1e-2), "beta2_decay": -0.5, "foreach": False},
    ):
        found += trained(m, lambda ps, settings=settings: m.optim.Adafactor(ps, **settings))
    return found


@program
def wrong_optimizers(m):
    ps = [m.ones(2, 2, requires_grad=True), m.ones(2, requires_grad=True)]
    optim = m.optim
    whole = [m.ones(2, dtype=m.complex64, requires_grad=True)]
    whole[0].grad = m.ones(2, dtype=m.complex64)
    dense = optim.SparseAdam(ps)
    ps[0].grad = m.ones(2, 2)
    wrong = {"lr": -1}, {"beta2_decay": 1}, {"eps": (-1, 1)}, {"eps": (1, -1)}, {"d": 0.5}
    return [
        *(attempt(lambda s=s: optim.Adafactor(ps, **s)) for s in wrong),
        attempt(optim.Adafactor(whole).step),
        attempt(lambda: optim.Muon(ps)),
        attempt(lambda: optim.Muon(ps[:1], adjust_lr_fn="x")),
        attempt(lambda: optim.Muon(ps[:1], momentum=-1)),
        attempt(optim.Muon(ps[:1], ns_steps=200).step),
        *(attempt(lambda s=s: optim.SparseAdam(ps, **s)) for s in ({"lr": 0}, {"eps": 0}, {"betas": (1.0, 0.9)})),
        attempt(dense.step),
        attempt(lambda: optim.SparseAdam(whole)),
    ]


@program
def sparse_adam_touches_the_rows_with_gradients(m):
    found = []
    for settings in ({"lr": 0.1}, {"lr": 0.1, "betas": (0.5, 0.6), "maximize": True}):
        table = m.nn.Embedding(6, 3, sparse=True, dtype=m.float64)
        with m.no_grad():
            table.weight.copy_(wave(m, 6, 3))
        optimizer = m.optim.SparseAdam(table.parameters(), **settings)
        for rows in ([1, 1, 4], [4], [0, 5]):
            optimizer.zero_grad()
            (table(m.tensor(rows)) ** 2).sum().backward()
            optimizer.step()
        kept = optimizer.state[table.weight]
        found += [table.weight.detach(), int(kept["step"]), kept["exp_avg"], kept["exp_avg_sq"]]
    return found


@program
def cyclic_learning_rates(m):
    S = m.optim.lr_scheduler
    found = []

    class Scale:
        def __init__(self):
            self.a = 2

        def __call__(self, x):
            return 1 / (self.a + x)

    for settings in (
        {"step_size_up": 3},
        {"step_size_up": 2, "step_size_down": 5},
        {"step_size_up": 3, "mode": "triangular2"},
        {"step_size_up": 3, "mode": "exp_range", "gamma": 0.9},
        {"step_size_up": 2, "scale_fn": Scale()},
        {"step_size_up": 2, "scale_fn": lambda x: 0.5**x, "scale_mode": "iterations"},
        {"step_size_up": 2, "cycle_momentum": False},
        {"step_size_up": 2, "base_momentum": 0.1, "max_momentum": 0.7},
    ):
        for make in (lambda ps: m.optim.SGD(ps, lr=0.5, momentum=0.9), lambda ps: m.optim.Adam(ps, lr=0.5)):
            optimizer = make([m.ones(2, requires_grad=True)])
            scheduler = S.CyclicLR(optimizer, 0.1, 1.0, **settings)
            for _ in range(9):
                group = optimizer.param_groups[0]
                found.append([group["lr"], group.get("momentum", 0.0), group.get("betas", (0.0,))[0]])
                optimizer.step()
                scheduler.step()
            saved = scheduler.state_dict()
            other = S.CyclicLR(optimizer, 0.1, 1.0, **settings)
            other.load_state_dict(saved)
            found.append(other.last_epoch)
    plain = m.optim.Adagrad([m.ones(2, requires_grad=True)])
    return [*found, attempt(lambda: S.CyclicLR(plain, 0.1, 1.0)), attempt(lambda: S.CyclicLR(optimizer, 0.1, 1.0, mode="x"))]


@program
def rates_of_weight_averaging(m):
    W, found = part(m, "optim.swa_utils"), []
    linearly = {"anneal_epochs": 3, "anneal_strategy": "linear"}
    for settings in ({}, {"anneal_epochs": 3}, linearly, {"anneal_epochs": 0}, {"anneal_epochs": 1}):
        optimizer = m.optim.SGD([m.ones(2, requires_grad=True)], lr=0.5)
        scheduler = W.SWALR(optimizer, 0.05, **settings)
        for _ in range(6):
            found.append(optimizer.param_groups[0]["lr"])
            optimizer.step()
            scheduler.step()
    wrong = ((-1, "cos"), (1.5, "cos"), (3, "x"))
    return [*found, *(attempt(lambda w=w: W.SWALR(optimizer, 0.1, *w)) for w in wrong), attempt(lambda: W.SWALR(optimizer, [0.1, 0.2]))]


@program
def averages_of_weights(m):
    W, found = part(m, "optim.swa_utils"), []
    for settings in (
        {},
        {"avg_fn": lambda average, value, count: 0.3 * average + 0.7 * value},
        {"multi_avg_fn": W.get_ema_multi_avg_fn(0.9)},
        {"multi_avg_fn": W.get_swa_multi_avg_fn()},
        {"use_buffers": True},
        {"avg_fn": W.get_ema_avg_fn(0.5)},
        {"avg_fn": W.get_swa_avg_fn()},
    ):
        net = m.nn.Sequential(linear(m), fill(m, m.nn.BatchNorm1d(4)))
        averaged = W.AveragedModel(net, **settings)
        optimizer = m.optim.SGD(net.parameters(), lr=0.1)
        for step in range(4):
            optimizer.zero_grad()
            (net(wave(m, 5, 3, at=float(step))) ** 2).sum().backward()
            optimizer.step()
            averaged.update_parameters(net)
        found.append(state(averaged))
        W.update_bn([(wave(m, 5, 3, at=float(n)), 0) for n in range(3)], averaged)
        found += [state(averaged), averaged.module[1].momentum, averaged(wave(m, 2, 3))]
    return [*found, attempt(lambda: W.get_ema_avg_fn(1.5)), attempt(lambda: W.AveragedModel(net, avg_fn=len, multi_avg_fn=len))]


@program
def every_optimizer_step_by_step(m):
    """All of `torch.optim`, with settings that change the rule, through enough parameters for steps over all of them at once."""
    found = []
    shapes = ((60, 100), (50,), (7, 11, 13), (9000,))
    for name, settings in (
        ("SGD", {"lr": 0.1}),
        ("SGD", {"lr": 0.1, "momentum": 0.9, "dampening": 0.1, "weight_decay": 0.01}),
        ("SGD", {"lr": 0.1, "momentum": 0.9, "nesterov": True, "maximize": True}),
        ("Adam", {"lr": 0.1, "amsgrad": True, "weight_decay": 0.1}),
        ("AdamW", {"lr": 0.1, "maximize": True}),
        ("Adamax", {"lr": 0.1, "weight_decay": 0.1}),
        ("NAdam", {"lr": 0.1, "decoupled_weight_decay": True, "weight_decay": 0.1}),
        ("RAdam", {"lr": 0.1, "betas": (0.9, 0.8)}),
        ("RMSprop", {"lr": 0.1, "momentum": 0.5, "centered": True}),
        ("Adagrad", {"lr": 0.1, "lr_decay": 0.1, "initial_accumulator_value": 0.5}),
        ("Adadelta", {"lr": 0.5, "weight_decay": 0.1}),
        ("ASGD", {"lr": 0.1, "t0": 2, "weight_decay": 0.1}),
        ("Rprop", {"lr": 0.1, "etas": (0.3, 2), "step_sizes": (0.05, 0.2)}),
    ):
        params, states, keys = trained(m, lambda ps, n=name, s=settings: getattr(m.optim, n)(ps, **s), shapes=shapes)
        found += [params, keys, [{k: v for k, v in s.items() if v is not None} for s in states]]
    return found


@program
def what_one_optimizer_saved_another_goes_on_with(m):
    found = []
    for name, settings in (("Adam", {"amsgrad": True}), ("SGD", {"momentum": 0.9}), ("ASGD", {}), ("Rprop", {}), ("Adafactor", {})):
        params = [wave(m, 100, 100).requires_grad_()]
        first = getattr(m.optim, name)(params, lr=0.1, **settings)
        for step in range(3):
            params[0].grad = wave(m, 100, 100, at=float(step))
            first.step()
        second = getattr(m.optim, name)(params, lr=0.7, **settings)
        second.load_state_dict(first.state_dict())
        second.step()
        found += [params[0].detach(), second.param_groups[0]["lr"], sorted(second.state[params[0]])]
    return found


@program
def steps_between_which_things_change(m):
    """A step finds the same parameters; then another rate, new memory, a missing gradient, a state that was written."""
    params = [wave(m, 60, 100, at=float(n)).requires_grad_() for n in range(3)]
    optimizer = m.optim.Adam(params, lr=0.1)

    def step(at):
        for p in params:
            p.grad = wave(m, 60, 100, at=at)
        optimizer.step()
        return [p.detach().clone() for p in params]

    found = [step(0.0), step(1.0)]
    optimizer.param_groups[0]["lr"] = 0.01
    found.append(step(2.0))
    params[0].data = wave(m, 60, 100, at=9.0)
    found.append(step(3.0))
    with m.no_grad():
        optimizer.state[params[1]]["exp_avg"].zero_()
    found.append(step(4.0))
    optimizer.state[params[2]]["step"] = m.tensor(50.0)
    found.append(step(5.0))
    params[1].grad = None
    optimizer.step()
    optimizer.add_param_group({"params": [wave(m, 9000, at=5.0).requires_grad_()], "lr": 0.3})
    found += [[p.detach().clone() for p in params], step(6.0)]
    del optimizer.state[params[0]]
    return [*found, step(7.0), [sorted(optimizer.state[p]) for p in params]]


@pytest.mark.parametrize("name", PROGRAMS)
@pytest.mark.filterwarnings("ignore")
def test_a_program_gives_the_same_with_both(name: str) -> None:
    results = []
    for m in (torch, ndgrad):
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            results.append(PROGRAMS[name](m))
    same(*results)


# ----- on purpose otherwise -------------------------------------------------------------------------------------------


def test_the_gradient_of_ctc_is_the_derivative_by_log_probabilities():
    assert deliberate("ctc-gradient")
    gradients = []
    for m in (torch, ndgrad):
        scores = wave(m, 6, 3, 4).log_softmax(-1).requires_grad_()
        loss = m.nn.functional.ctc_loss(scores, m.tensor(TARGETS), [6, 5, 6], [3, 2, 3], reduction="sum")
        gradients.append(m.autograd.grad(loss, scores)[0].numpy())
        found = m.autograd.gradcheck(
            lambda x, m=m: m.nn.functional.ctc_loss(x, m.tensor(TARGETS), [6, 5, 6], [3, 2, 3]), (scores,), raise_exception=False
        )
        assert found == (m is ndgrad)
    inside = np.arange(6)[:, None] < [6, 5, 6]
    np.testing.assert_allclose(gradients[1].sum(-1), -1.0 * inside, atol=1e-12)  # minus probabilities
    np.testing.assert_allclose(gradients[0].sum(-1), 0.0, atol=1e-12)  # gradients of normalised scores sum to 0


def test_the_gradient_of_normalisation_across_channels_is_the_derivative():
    assert deliberate("cross-map-gradient")
    for m in (torch, ndgrad):
        module = m.nn.CrossMapLRN2d(3, alpha=0.5)
        assert m.autograd.gradcheck(module, (wave(m, 1, 4, 2, 2).requires_grad_(),), raise_exception=False) == (m is ndgrad)


def test_muon_computes_in_the_precision_of_the_gradient():
    assert deliberate("muon-precision")
    found = []
    for m in (torch, ndgrad):
        p = wave(m, 6, 4).requires_grad_()
        p.grad = wave(m, 6, 4, at=1.0)
        m.optim.Muon([p], lr=0.1).step()
        found.append(p.detach().numpy())
    assert 0 < np.abs(found[0] - found[1]).max() < 0.05
