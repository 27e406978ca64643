"""Modules as functions of their parameters: functional_call, ensembles and per-sample gradients as in torch.func."""

from __future__ import annotations

import numpy as np
import pytest

from tests.torch_parity.side_by_side import MODULES, attempt

pytestmark = [pytest.mark.usefixtures("float64_torch"), pytest.mark.filterwarnings("ignore")]


def library(t):
    """Vocabulary of the programs, in one library."""
    nn = t.nn

    class Tied(nn.Module):
        def __init__(self):
            super().__init__()
            self.a = nn.Parameter(t.zeros(()))
            self.b = self.a
            self.register_buffer("c", t.zeros(()))
            self.d = t.zeros(())

        def forward(self, x):
            return x + self.a + 10 * self.b + 100 * self.c + 1000 * self.d

    class Writing(nn.Module):
        def __init__(self):
            super().__init__()
            self.register_buffer("foo", t.zeros(()))
            self.register_buffer("bar", t.zeros(()))

        def forward(self, x):
            self.foo = self.foo + x
            self.bar.add_(1)
            return self.foo + self.bar

    class Failing(nn.Module):
        def __init__(self):
            super().__init__()
            self.w = nn.Parameter(t.zeros(1))

        def forward(self, x):
            raise ZeroDivisionError

    class Deleting(Failing):
        def forward(self, x):
            del self.w
            return x

    class Assigning(Failing):
        def forward(self, x):
            self.w = self.w + 1
            return x

    linear = nn.Linear(2, 3)
    linear.load_state_dict({"weight": t.tensor([[1.0, 2.0], [3.0, 4.0], [5.0, 6.0]]), "bias": t.tensor([1.0, 2.0, 3.0])})
    one = t.ones(())
    return {
        "t": t, "nn": nn, "call": t.func.functional_call, "stack": t.func.stack_module_state, "linear": linear, "tied": Tied(),
        "writing": Writing(), "failing": Failing(), "deleting": Deleting(), "assigning": Assigning(), "x": t.ones(1, 2), "w": t.ones(3, 2),
        "one": one, "zero": t.zeros(()),
    }  # fmt: skip


CALLS = [
    "call(linear, {'weight': w}, x)", "call(linear, {'weight': w}, (x,))", "call(linear, ({'weight': w}, {'bias': t.zeros(3)}), (x,))",
    "call(linear, [{'weight': w}], kwargs={'input': x})", "call(linear, ({'weight': w}, {'weight': w}), (x,))",
    "call(linear, {'nope': w}, x)", "call(linear, {'weight': w}, x, strict=True)",
    "call(linear, {'weight': w, 'bias': w, 'zz': w}, x, strict=True)", "call(linear, 3, x)", "call(3, {}, x)",
    "call(linear, {'weight': 3}, x)", "call(linear, {'training': w}, x)", "call(linear, {'': w}, x)", "call(linear, {'a.b': w}, x)",
    "call(linear, {}, x)", "call(linear, ({}, 3), x)", "call(tied, {'a': one}, zero)", "call(tied, {'b': one}, zero)",
    "call(tied, {'a': one}, zero, tie_weights=False)", "call(tied, {'b': one}, zero, tie_weights=False)",
    "call(tied, {'a': one, 'b': one}, zero)", "call(tied, {'a': one, 'b': one * 2}, zero)",
    "call(tied, {'a': one, 'b': one * 2}, zero, tie_weights=False)", "call(tied, {'d': one}, zero)",
    "call(tied, {'a': one, 'b': one}, zero, strict=True)", "call(tied, {'a': one, 'c': one}, zero, strict=True)",
    "call(tied, {'c': one}, zero)", "(lambda given: (call(writing, given, one), given))({'foo': t.zeros(()), 'bar': t.zeros(())})",
    "(lambda given: (call(writing, given, one), given))(({'foo': t.zeros(())}, {'bar': t.zeros(())}))",
    "(lambda given: (call(writing, given, one), given))({'foo': t.zeros(())})", "call(failing, {'w': t.ones(1)}, x)",
    "call(deleting, {'w': t.ones(1)}, x)", "call(assigning, {'w': t.ones(1)}, x)",
    "call(nn.Sequential(nn.Sequential(linear)), {'0.0.weight': w}, x)", "stack([])", "stack([nn.Linear(1, 1), nn.Linear(1, 1).eval()])",
    "stack([nn.Linear(1, 1), nn.ReLU()])", "stack([nn.Linear(1, 1), nn.Linear(1, 1).requires_grad_(False)])",
    "stack([nn.Linear(1, 2), nn.Linear(1, 1)])", "stack([linear, linear])", "stack((linear,))",
    "stack(nn.ModuleList([nn.BatchNorm1d(2), nn.BatchNorm1d(2)]))", "stack(3)", "stack([linear, linear])[0]['weight'].is_leaf",
    "stack([linear.requires_grad_(False)])[0]['weight'].requires_grad",
    "t.func.replace_all_batch_norm_modules_(nn.Sequential(nn.BatchNorm1d(2), nn.Sequential(nn.BatchNorm2d(2))))",
]  # fmt: skip


@pytest.mark.parametrize("program", CALLS)
def test_same_result_and_modules_left_alone(program):
    def outcome(t):
        names = library(t)
        before = {k: repr(m.state_dict()) for k, m in names.items() if isinstance(m, t.nn.Module) and k != "writing"}
        result = attempt(lambda: repr(eval(program, names)))
        after = {k: repr(m.state_dict()) for k, m in names.items() if isinstance(m, t.nn.Module) and k != "writing"}
        assert before == after
        assert all(isinstance(p, t.nn.Parameter) for k, m in names.items() if isinstance(m, t.nn.Module) for p in m.parameters())
        plain = result.replace("ndgrad.", "torch.").replace("LinearBackward0", "AddmmBackward0")
        return plain, repr(names["writing"].state_dict()).replace("ndgrad.", "torch.")

    want, got = (outcome(t) for t in MODULES)
    assert got == want


# ----- transforms ------------------------------------------------------------------------------------------------------

# name: module, shape of the inputs (the batch first; an integer array below 6 if it says so), loss and number of classes or outputs
MODELS = {
    "linear": (
        "nn.Sequential(nn.Linear(3, 4), nn.Tanh(), nn.LayerNorm(4), nn.Linear(4, 2))",
        (5, 3), "mse_loss", 2,
    ),
    "conv": (
        "nn.Sequential(nn.Conv2d(2, 4, 3, padding=1), nn.GroupNorm(2, 4), nn.ReLU(), nn.MaxPool2d(2), nn.Flatten(), nn.Linear(16, 3))",
        (5, 2, 4, 4), "cross_entropy", 3,
    ),
    "embedding": (
        "nn.Sequential(nn.Embedding(6, 4), nn.Flatten(), nn.Linear(12, 3))",
        (5, 3, "integers"), "cross_entropy", 3,
    ),
    "batch norm": (
        "replaced(nn.Sequential(nn.Conv1d(2, 3, 2), nn.BatchNorm1d(3), nn.Flatten(), nn.Linear(9, 1)))",
        (5, 2, 4), "mse_loss", 1,
    ),
    "batch norm in evaluation": (
        "nn.Sequential(nn.Conv1d(2, 3, 2), nn.BatchNorm1d(3), nn.Flatten(), nn.Linear(9, 1)).eval()",
        (5, 2, 4), "mse_loss", 1,
    ),
    "transposed": (
        "nn.Sequential(nn.ConvTranspose1d(2, 3, 2, 2), nn.InstanceNorm1d(3, affine=True), nn.AvgPool1d(2), nn.Flatten(), nn.Linear(12, 1))",
        (5, 2, 4), "mse_loss", 1,
    ),
    "activations": (
        "nn.Sequential(nn.Linear(3, 4), nn.PReLU(), nn.GELU(), nn.Softplus(), nn.RMSNorm(4), nn.Linear(4, 2))",
        (5, 3), "mse_loss", 2,
    ),
    "encoder": (
        "nn.Sequential(nn.TransformerEncoderLayer(4, 2, 8, 0.0, batch_first=True), nn.Flatten(), nn.Linear(12, 2))",
        (3, 3, 4), "mse_loss", 2,
    ),
}  # fmt: skip


def fill(t, module, seed):
    r = np.random.default_rng(seed)
    for name, value in module.state_dict().items():
        if value.is_floating_point():
            drawn = r.standard_normal(tuple(value.shape))
            value.copy_(t.tensor(np.abs(drawn) + 0.1 if "var" in name else drawn))
    return module


def data(t, shape, outputs, loss):
    r = np.random.default_rng(5)
    x = r.integers(0, 6, shape[:-1]) if shape[-1] == "integers" else r.standard_normal(shape)
    y = r.integers(0, outputs, len(x)) if loss == "cross_entropy" else r.standard_normal((len(x), outputs))
    return t.tensor(x), t.tensor(y)


@pytest.mark.parametrize("name", MODELS)
def test_per_sample_gradients(name):
    text, shape, loss, outputs = MODELS[name]
    found = []
    for t in MODULES:
        module = fill(t, eval(text, {"nn": t.nn, "replaced": t.func.replace_all_batch_norm_modules_}), 1)
        params = {k: p.detach() for k, p in module.named_parameters()}
        buffers = {k: b.detach() for k, b in module.named_buffers()}

        def loss_of_one(params, buffers, x, y, t=t, module=module):
            out = t.func.functional_call(module, (params, buffers), (x.unsqueeze(0),))
            return getattr(t.nn.functional, loss)(out, y.unsqueeze(0))

        grads = t.vmap(t.func.grad(loss_of_one), in_dims=(None, None, 0, 0))(params, buffers, *data(t, shape, outputs, loss))
        found.append({k: g.numpy() for k, g in grads.items()})
    assert list(found[0]) == list(found[1])
    for key, want in found[0].items():
        np.testing.assert_allclose(found[1][key], want, rtol=1e-7, atol=1e-9, err_msg=key)


@pytest.mark.parametrize("name", [n for n in MODELS if n != "batch norm"])
def test_ensemble_of_models(name):
    text, shape, loss, outputs = MODELS[name]
    found = []
    for t in MODULES:
        models = [fill(t, eval(text, {"nn": t.nn}), seed) for seed in range(3)]
        params, buffers = t.func.stack_module_state(models)
        x, _ = data(t, shape, outputs, loss)
        out = t.vmap(lambda p, b, t=t, models=models, x=x: t.func.functional_call(models[0], (p, b), (x,)))(params, buffers)
        for model, row in zip(models, out):
            np.testing.assert_allclose(row.detach().numpy(), model(x).detach().numpy(), rtol=1e-7, atol=1e-10)
        (out**2).sum().backward()
        found.append([out.detach().numpy(), *(p.grad.numpy() for p in params.values()), *(b.numpy() for b in buffers.values())])
    for got, want in zip(found[1], found[0]):
        np.testing.assert_allclose(got, want, rtol=1e-7, atol=1e-9)


def test_hessian_vector_product_through_a_module():
    found = []
    for t in MODULES:
        module = fill(t, t.nn.Sequential(t.nn.Linear(3, 4), t.nn.Tanh(), t.nn.Linear(4, 1)), 2)
        params = {k: p.detach() for k, p in module.named_parameters()}
        x = t.tensor(np.random.default_rng(3).standard_normal((5, 3)))

        def loss(params, t=t, module=module, x=x):
            return (t.func.functional_call(module, params, (x,)) ** 2).mean()

        _, product = t.func.jvp(t.func.grad(loss), (params,), ({k: t.ones_like(p) for k, p in params.items()},))
        found.append([v.numpy() for v in product.values()])
    for got, want in zip(found[1], found[0]):
        np.testing.assert_allclose(got, want, rtol=1e-8)


def test_dropout_under_vmap_follows_the_randomness():
    for t in MODULES:
        module = t.nn.Dropout(0.5)
        x = t.ones(64, 16)
        masks = {mode: (t.vmap(module, randomness=mode)(x) == 0).tolist() for mode in ("same", "different")}
        assert len({tuple(row) for row in masks["same"]}) == 1
        assert len({tuple(row) for row in masks["different"]}) > 32
        with pytest.raises(RuntimeError):
            t.vmap(module)(x)


def test_batch_norm_that_would_remember_under_vmap_raises_and_remembers_nothing():
    for t in MODULES:
        module = t.nn.BatchNorm1d(3)
        with pytest.raises(RuntimeError):
            t.vmap(module)(t.ones(4, 5, 3))
        assert module.running_mean.tolist() == [0.0] * 3
    assert int(module.num_batches_tracked) == 0
