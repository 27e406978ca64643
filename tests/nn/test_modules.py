"""Modules by themselves: what they own, copies, hooks inside transforms, lazy layers, initial values, errors that change nothing."""

from __future__ import annotations

import copy
import gc
import importlib
import math
import pickle
import pkgutil
import sys
import threading
import warnings
import weakref

import numpy as np
import pytest

import ndgrad
from ndgrad import nn
from ndgrad.func import functional_call, grad, jvp


class Network(nn.Module):
    def __init__(self):
        super().__init__()
        self.first = nn.Linear(2, 3)
        self.second = nn.Linear(3, 1, bias=False)
        self.register_buffer("scale", ndgrad.tensor(2.0))

    def forward(self, x):
        return self.second(self.first(x).tanh()) * self.scale


# ----- parameters --------------------------------------------------------------------------------------------------------


def test_results_of_parameters_are_plain_tensors_and_gradients_reach_them():
    class Marked(nn.Parameter):
        pass

    p, q = nn.Parameter(ndgrad.ones(2)), Marked(ndgrad.ones(2))
    out = p * q + p[0]
    assert type(out) is type(p.detach()) is ndgrad.Tensor
    out.sum().backward()
    assert p.grad.tolist() == [3.0, 1.0]
    assert q.grad.tolist() == [1.0, 1.0]


def test_parameter_shares_memory_with_its_data():
    data = ndgrad.ones(2)
    p = nn.Parameter(data)
    data[0] = 5.0
    assert p.tolist() == [5.0, 1.0]


def test_write_into_a_parameter_that_was_saved_is_found():
    module = nn.Linear(2, 2)
    x = ndgrad.ones(1, 2, requires_grad=True)
    out = module(x).sum()
    with ndgrad.no_grad():
        module.weight.add_(1.0)
    with pytest.raises(RuntimeError):
        out.backward()


def test_parameters_keep_their_identity_through_conversions():
    module = Network()
    before = list(module.parameters())
    module(ndgrad.ones(1, 2)).sum().backward()
    module.float()
    assert all(a is b for a, b in zip(before, module.parameters()))
    assert {p.dtype for p in before} == {p.grad.dtype for p in before} == {ndgrad.float32}
    assert module.scale.dtype is ndgrad.float32
    module(ndgrad.ones(1, 2, dtype=ndgrad.float32)).sum().backward()


def test_integer_buffers_keep_their_dtype_unless_type_says_so():
    module = nn.BatchNorm1d(2).half()
    assert module.num_batches_tracked.dtype is ndgrad.int64
    assert module.running_mean.dtype is ndgrad.float16
    assert module.type(ndgrad.float64).num_batches_tracked.dtype is ndgrad.float64


def test_meta_modules_get_memory_later():
    module = nn.Linear(2, 3, device="meta")
    assert module.weight.is_meta
    module.to_empty(device="cpu").reset_parameters()
    assert module(ndgrad.ones(1, 2)).shape == (1, 3)


# ----- copies ------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("copied", [copy.deepcopy, lambda m: pickle.loads(pickle.dumps(m))], ids=["deepcopy", "pickle"])
def test_copy_computes_the_same_and_shares_nothing(copied):
    module = Network()
    module.tied = module.first
    x = ndgrad.rand(4, 2)
    other = copied(module)
    assert other(x).tolist() == module(x).tolist()
    assert other.tied is other.first
    with ndgrad.no_grad():
        other.first.weight.zero_()
    assert module.first.weight.abs().sum() > 0


def test_hooks_travel_with_copies_and_new_ones_do_not_replace_them():
    module = nn.Linear(2, 2)
    module.register_forward_hook(doubled)
    other = pickle.loads(pickle.dumps(module))
    for _ in range(5):
        other.register_forward_hook(doubled)
    assert len(other._forward_hooks) == 6
    x = ndgrad.ones(1, 2)
    np.testing.assert_allclose(other(x).tolist(), (module(x) * 2**5).tolist())


def doubled(module, args, out):
    return out * 2


def test_module_with_backward_hooks_dies_by_reference_counting():
    gc.collect()
    gc.disable()
    try:
        module = Network()
        module.register_full_backward_hook(lambda m, gi, go: None)
        module.first.register_full_backward_pre_hook(lambda m, go: None)
        module(ndgrad.ones(1, 2, requires_grad=True)).sum().backward()
        ref = weakref.ref(module)
        del module
        assert ref() is None
    finally:
        gc.enable()


# ----- hooks -------------------------------------------------------------------------------------------------------------


def test_backward_hooks_run_inside_transforms():
    module, seen = Network(), []
    x = ndgrad.rand(3, 1, 2)
    plain = ndgrad.vmap(grad(lambda row: module(row).sum()))(x)
    module.first.register_full_backward_hook(lambda m, gi, go: seen.append(tuple(gi[0].shape)) or (gi[0] * 2,))
    np.testing.assert_allclose(grad(lambda row: module(row).sum())(x[0]).tolist(), (plain[0] * 2).tolist())
    np.testing.assert_allclose(ndgrad.vmap(grad(lambda row: module(row).sum()))(x).tolist(), (plain * 2).tolist())
    assert seen == [(1, 2), (1, 2)]


def test_hooked_module_in_forward_mode_and_double_backward():
    module = Network()
    x, v = ndgrad.rand(3, 2), ndgrad.rand(3, 2)
    _, want = jvp(module, (x,), (v,))
    module.register_full_backward_hook(lambda m, gi, go: None)
    _, got = jvp(module, (x,), (v,))
    np.testing.assert_allclose(got.tolist(), want.tolist())
    leaf = x.clone().requires_grad_()
    (first,) = ndgrad.autograd.grad(module(leaf).sum(), leaf, create_graph=True)
    (second,) = ndgrad.autograd.grad((first**2).sum(), leaf)
    eps = 1e-6
    shifted = (leaf.detach() + eps * v).requires_grad_()
    (moved,) = ndgrad.autograd.grad(module(shifted).sum(), shifted)
    np.testing.assert_allclose(float((second * v).sum()), float(((moved**2).sum() - (first.detach() ** 2).sum()) / eps), rtol=1e-4)


def test_always_called_hook_runs_when_forward_fails():
    class Broken(nn.Module):
        def forward(self, x):
            raise ValueError("broken")

    module, seen = Broken(), []
    module.register_forward_hook(lambda m, a, o: seen.append("not me"))
    module.register_forward_hook(lambda m, a, o: seen.append(o), always_call=True)
    with pytest.raises(ValueError, match="broken"):
        module(1)
    assert seen == [None]


def test_error_of_an_always_called_hook_is_a_warning():
    class Broken(nn.Module):
        def forward(self, x):
            raise ValueError("broken")

    module = Broken()
    module.register_forward_hook(lambda m, a, o: 1 / 0, always_call=True)
    with pytest.warns(UserWarning, match="division"), pytest.raises(ValueError, match="broken"):
        module(1)


def test_gradient_around_the_output_is_right_and_no_hook_sees_it():
    class Leaky(nn.Module):
        def forward(self, x):
            self.kept = x
            return x * 2

    module, seen = Leaky(), []
    module.register_full_backward_hook(lambda m, gi, go: seen.append(gi))
    x = ndgrad.ones(2, requires_grad=True)
    module(x)
    module.kept.sum().backward()
    assert x.grad.tolist() == [1.0, 1.0]
    assert seen == []


def test_registration_hooks_see_and_replace():
    from ndgrad.nn.modules import module as everywhere

    seen = []
    handles = [
        everywhere.register_module_parameter_registration_hook(lambda m, name, p: seen.append(name)),
        everywhere.register_module_buffer_registration_hook(lambda m, name, b: b if b is None else b + 1),
        everywhere.register_module_module_registration_hook(lambda m, name, c: seen.append(name)),
    ]
    try:
        network = Network()
    finally:
        for handle in handles:
            handle.remove()
    assert {"first", "second", "weight", "bias"} <= set(seen)
    assert float(network.scale) == 3.0
    assert float(Network().scale) == 2.0


# ----- functional calls --------------------------------------------------------------------------------------------------


def test_functional_call_nests_and_restores():
    module = Network()
    own = dict(module.named_parameters())
    zeros = {k: ndgrad.zeros_like(p) for k, p in own.items()}
    ones = {k: ndgrad.ones_like(p) for k, p in own.items()}
    x = ndgrad.ones(1, 2)

    def inner(weights):
        return functional_call(module, weights, x) + functional_call(module, zeros, x)

    assert float(grad(lambda w: inner(w).sum())(ones)["second.weight"].sum()) == pytest.approx(6 * math.tanh(3.0))
    assert all(p is q for p, q in zip(own.values(), module.parameters()))


def test_threads_that_call_one_module_as_a_function_do_not_mix():
    module = nn.Sequential(*(nn.Linear(1, 1, bias=False) for _ in range(20)))
    names = [n for n, _ in module.named_parameters()]
    wrong = []

    def work(value):
        weights = {n: ndgrad.full((1, 1), value) for n in names}
        for _ in range(30):
            if functional_call(module, weights, ndgrad.ones(1, 1)).item() != value**20:
                wrong.append(value)

    threads = [threading.Thread(target=work, args=(v,)) for v in (1.0, 0.5, 2.0, 4.0)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert wrong == []


# ----- lazy layers -------------------------------------------------------------------------------------------------------


def test_lazy_module_learns_its_sizes_once():
    module = nn.LazyLinear(3)
    with pytest.raises(ValueError, match="uninitialized"):
        module.weight + 1
    with pytest.raises(RuntimeError, match="shape"):
        module.weight.shape
    weight = module.weight
    module.float()
    out = module(ndgrad.ones(2, 5, dtype=ndgrad.float32))
    assert type(module) is nn.Linear
    assert module.weight is weight
    assert (weight.shape, weight.dtype, out.shape) == ((3, 5), ndgrad.float32, (2, 3))
    out.sum().backward()
    assert weight.grad.shape == (3, 5)


def test_lazy_module_is_copied_saved_and_loaded():
    trained = nn.Linear(5, 3)
    for module in (nn.LazyLinear(3), copy.deepcopy(nn.LazyLinear(3)), pickle.loads(pickle.dumps(nn.LazyLinear(3)))):
        module.load_state_dict(trained.state_dict())
        x = ndgrad.rand(2, 5)
        assert module(x).tolist() == trained(x).tolist()


# ----- initial values ----------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("fill", "std", "bound"),
    [
        (lambda t: nn.init.xavier_uniform_(t, gain=2.0), 2 * math.sqrt(2 / 500), 2 * math.sqrt(6 / 500)),
        (lambda t: nn.init.xavier_normal_(t), math.sqrt(2 / 500), None),
        (lambda t: nn.init.kaiming_uniform_(t, a=math.sqrt(5)), 1 / math.sqrt(3 * 200), 1 / math.sqrt(200)),
        (lambda t: nn.init.kaiming_normal_(t, mode="fan_out", nonlinearity="relu"), math.sqrt(2 / 300), None),
        (lambda t: nn.init.uniform_(t, -2.0, 1.0), 3 / math.sqrt(12), 2.0),
        (lambda t: nn.init.normal_(t, 0.0, 3.0), 3.0, None),
        (lambda t: nn.init.trunc_normal_(t, 0.0, 1.0, -2.0, 2.0), 0.8796, 2.0),
    ],
)
def test_distribution_has_its_spread_and_bounds(fill, std, bound):
    t = fill(ndgrad.empty(300, 200))
    np.testing.assert_allclose(float(t.std()), std, rtol=0.02)
    if bound is not None:
        assert float(t.abs().max()) <= bound
        assert float(t.abs().max()) > 0.98 * bound


def test_orthogonal_and_sparse_matrices():
    wide = nn.init.orthogonal_(ndgrad.empty(3, 2, 4), gain=2.0).reshape(3, 8)
    np.testing.assert_allclose((wide @ wide.T).tolist(), 4 * np.eye(3), atol=1e-12)
    tall = nn.init.orthogonal_(ndgrad.empty(8, 3))
    np.testing.assert_allclose((tall.T @ tall).tolist(), np.eye(3), atol=1e-12)
    assert ((nn.init.sparse_(ndgrad.empty(10, 4), 0.3) == 0).sum(0) == 3).all()


def test_initialisation_is_not_recorded_and_follows_the_seed():
    ndgrad.manual_seed(3)
    first = nn.Linear(3, 3)
    ndgrad.manual_seed(3)
    assert first.weight.is_leaf
    assert nn.Linear(3, 3).weight.tolist() == first.weight.tolist()


# ----- layers against closed forms ---------------------------------------------------------------------------------------


@pytest.mark.parametrize("kind", [nn.RNN, nn.LSTM, nn.GRU])
def test_sequence_equals_its_cell_step_by_step(kind):
    whole, cell = kind(3, 4), {nn.RNN: nn.RNNCell, nn.LSTM: nn.LSTMCell, nn.GRU: nn.GRUCell}[kind](3, 4)
    cell.load_state_dict({k: whole.state_dict()[f"{k}_l0"] for k in cell.state_dict()})
    x = ndgrad.rand(6, 2, 3)
    out, _ = whole(x)
    state = None
    for step, want in zip(x, out):
        state = cell(step, state)
        np.testing.assert_allclose((state[0] if kind is nn.LSTM else state).tolist(), want.tolist())


def test_packed_sequences_equal_each_sequence_alone():
    from ndgrad.nn.utils.rnn import pack_sequence, unpack_sequence

    module = nn.LSTM(3, 4, 2, bidirectional=True)
    sequences = [ndgrad.rand(n, 3) for n in (2, 5, 3)]
    out, (h, c) = module(pack_sequence(sequences, enforce_sorted=False))
    for number, (sequence, got) in enumerate(zip(sequences, unpack_sequence(out))):
        want, (want_h, want_c) = module(sequence)
        np.testing.assert_allclose(got.tolist(), want.tolist())
        np.testing.assert_allclose(h[:, number].tolist(), want_h.tolist())
        np.testing.assert_allclose(c[:, number].tolist(), want_c.tolist())


def test_dropout_between_layers_of_a_recurrent_network():
    module = nn.GRU(3, 4, 2, dropout=0.5)
    x = ndgrad.rand(6, 2, 3)
    assert module(x)[0].tolist() != module(x)[0].tolist()
    module.eval()
    assert module(x)[0].tolist() == module(x)[0].tolist()


# ----- training ----------------------------------------------------------------------------------------------------------


def test_clipping_and_vectors():
    module = Network()
    module(ndgrad.ones(1, 2)).sum().backward()
    grads = nn.utils.parameters_to_vector([p.grad for p in module.parameters()])
    norm = nn.utils.clip_grad_norm_(module.parameters(), 0.1)
    np.testing.assert_allclose(float(norm), np.linalg.norm(grads.numpy()))
    clipped = nn.utils.parameters_to_vector([p.grad for p in module.parameters()])
    np.testing.assert_allclose(clipped.numpy(), grads.numpy() * 0.1 / (float(norm) + 1e-6))
    nn.utils.clip_grad_value_(module.parameters(), 0.01)
    assert max(float(p.grad.abs().max()) for p in module.parameters()) <= 0.01
    vector = nn.utils.parameters_to_vector(module.parameters())
    nn.utils.vector_to_parameters(vector * 0 + 3.0, module.parameters())
    assert all((p == 3.0).all() for p in module.parameters())
    with pytest.raises(RuntimeError, match="elements"):
        nn.utils.vector_to_parameters(ndgrad.ones(1), module.parameters())


def test_network_learns():
    ndgrad.manual_seed(0)
    x = ndgrad.linspace(-1, 1, 40).reshape(-1, 1)
    y = (3 * x).sin()
    module = nn.Sequential(nn.Linear(1, 16), nn.Tanh(), nn.Linear(16, 1))
    optimizer = ndgrad.optim.Adam(module.parameters(), lr=0.02)
    losses = []
    for _ in range(300):
        optimizer.zero_grad()
        loss = nn.MSELoss()(module(x), y)
        loss.backward()
        optimizer.step()
        losses.append(loss.item())
    assert losses[-1] < losses[0] / 50


def test_import_of_ndgrad_does_not_load_nn():
    import subprocess
    import sys

    code = "import ndgrad, sys; print([m for m in sys.modules if m.startswith(('ndgrad.nn', 'ndgrad.optim', 'ndgrad.serialization'))])"
    found = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True, env={"PYTHONPATH": ":".join(sys.path)})
    assert found.stdout.strip() == "[]"


def test_no_warnings_from_ordinary_use():
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        module = nn.Sequential(nn.Conv2d(1, 2, 3), nn.BatchNorm2d(2), nn.Flatten(), nn.Linear(8, 2))
        nn.CrossEntropyLoss()(module(ndgrad.rand(3, 1, 4, 4)), ndgrad.tensor([0, 1, 1])).backward()


def test_kinds_of_backward_hooks_for_all_modules_mix_only_one_after_the_other():
    # torch goes on refusing after the hook is gone (`accepted-beyond`)
    from ndgrad.nn.modules.module import register_module_backward_hook, register_module_full_backward_hook

    handle = register_module_full_backward_hook(lambda module, grad_input, grad_output: None)
    with pytest.raises(RuntimeError, match="Cannot use both"):
        register_module_backward_hook(lambda module, grad_input, grad_output: None)
    handle.remove()
    seen = []
    with register_module_backward_hook(lambda module, grad_input, grad_output: seen.append(grad_output)):
        nn.ReLU()(ndgrad.ones(1, requires_grad=True)).backward()
    assert len(seen) == 1
    with register_module_full_backward_hook(lambda module, grad_input, grad_output: seen.append(grad_input)):
        nn.ReLU()(ndgrad.ones(1, requires_grad=True)).backward()
    assert len(seen) == 2


# ----- names ---------------------------------------------------------------------------------------------------------


def public_names(package, exclude=()):
    """Return the names in `__all__` of each file of a package."""
    files = [importlib.import_module(f"{package.__name__}.{m.name}") for m in pkgutil.iter_modules(package.__path__)]
    return {name for file in files if file.__name__.rpartition(".")[2] not in exclude for name in getattr(file, "__all__", ())}


def test_literal_lists_of_names_agree_with_the_files():
    # lists that static tools can read, so that `nn.Linear` is known to them
    assert sorted(nn.functional.__all__) == sorted({*public_names(nn.functional, exclude=("native",)), "pdist"})
    assert sorted(nn.modules.__all__) == sorted({*public_names(nn.modules, exclude=("module", "utils")), "Module"})
    parameters = {"Buffer", "Parameter", "UninitializedBuffer", "UninitializedParameter"}
    rooms = {"attention", "common_types", "functional", "init", "modules", "parallel", "parameter", "utils"}
    assert sorted(nn.__all__) == sorted({*nn.modules.__all__, *parameters, *rooms, "DataParallel"})


# ----- state dicts of many modules ---------------------------------------------------------------------------------------


def test_calls_of_load_state_dict_are_proportional_to_the_number_of_modules():
    def count(n):
        module = nn.Sequential(*[nn.Linear(1, 1) for _ in range(n)])
        state, calls = module.state_dict(), 0

        def note(frame, event, arg):
            nonlocal calls
            calls += event in ("call", "c_call")

        sys.setprofile(note)
        try:
            module.load_state_dict(state)
        finally:
            sys.setprofile(None)
        return calls

    assert count(200) < 2.2 * count(100)


def test_load_state_dict_reports_keys_below_unknown_modules():
    module = nn.Sequential(nn.Linear(1, 1), nn.Sequential(nn.Linear(1, 1)))
    state = dict(module.state_dict())
    state["1.5.weight"] = state.pop("1.0.weight")
    state["10.weight"] = state["0.weight"]
    found = module.load_state_dict(state, strict=False)
    assert found.missing_keys == ["1.0.weight"]
    assert sorted(found.unexpected_keys) == ["1.5.weight", "10.weight"]
