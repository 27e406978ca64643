"""The compiler's programs as graphs, and back: the same ops, the same values."""

from __future__ import annotations

import pickle

import numpy as np
import pytest

import ndgrad
import ndgrad.nn.functional as F
from ndgrad import fx, nn
from ndgrad._src.compiler.program.replay import Replay
from ndgrad.fx.experimental.proxy_tensor import make_fx
from ndgrad.fx.proxy import TraceError

FUNCTIONS = {
    "elementwise": lambda x: (x.sin() * 2 + x.cos() / 3).exp(),
    "reductions": lambda x: (x.sum(0), x.mean(), x.max(1)),
    "gradient": lambda x: ndgrad.func.grad(lambda x: ((x @ x).relu() ** 2).sum())(x),
    "hessian": lambda x: ndgrad.func.hessian(lambda x: (x[0] ** 3).sum())(x),
    "batched": lambda x: ndgrad.func.vmap(lambda row: row.softmax(0) * row[0])(x),
    "indices": lambda x: (x[1:, ::2], x[ndgrad.tensor([0, 2])], x.gather(1, ndgrad.tensor([[0], [1], [2]]))),
    "views": lambda x: x.reshape(9).view(3, 3).transpose(0, 1).unsqueeze(0).expand(2, 3, 3),
    "constants": lambda x: x + ndgrad.arange(3.0) * ndgrad.eye(3),
    "joined": lambda x: ndgrad.cat([x, x.square()], dim=1).split(2, dim=1)[1],
    "written": lambda x: x.clone().mul_(2).add_(x),
    "layers": lambda x: F.layer_norm(F.linear(x, x), (3,)),
    "sorted": lambda x: x.sort(1),
    "solved": lambda x: ndgrad.linalg.solve(x + 5 * ndgrad.eye(3), x),
}


def leaves(value):
    return ndgrad.pytree.tree_leaves(value)


def assert_equal(found, expected):
    assert len(leaves(found)) == len(leaves(expected))
    for a, b in zip(leaves(found), leaves(expected), strict=True):
        assert a.dtype == b.dtype
        np.testing.assert_allclose(a.detach().numpy(), b.detach().numpy(), rtol=1e-12, atol=1e-12)


@pytest.mark.parametrize("name", FUNCTIONS)
def test_program_becomes_a_graph_and_the_same_program_again(name):
    program = ndgrad.compiler.graph(FUNCTIONS[name], ndgrad.randn(3, 3)).traced.program
    module = fx.from_program(program)
    module.graph.lint()
    again = fx.to_program(module)
    assert str(again) == str(program)
    x = ndgrad.randn(3, 3)
    # The outputs of a program are the values behind the function's results, some of which are views of them.
    expected = [ndgrad.tensor(array) for array in Replay(program)([x.numpy()])]
    assert_equal(module(x), expected)
    assert_equal([ndgrad.tensor(array) for array in Replay(again)([x.numpy()])], expected)


@pytest.mark.parametrize("name", FUNCTIONS)
def test_ops_of_a_function_have_its_structure_values_and_gradients(name):
    function = FUNCTIONS[name]
    module = make_fx(function)(ndgrad.randn(3, 3))
    assert {n.op for n in module.graph.nodes} <= {"placeholder", "get_attr", "call_function", "output"}
    x = ndgrad.randn(3, 3)
    assert_equal(module(x), function(x))
    assert_equal(pickle.loads(pickle.dumps(module))(x), function(x))

    def loss(f):
        return lambda x: sum(o.square().sum() for o in leaves(f(x)) if o.is_floating_point())

    assert_equal(ndgrad.func.grad(loss(module))(x), ndgrad.func.grad(loss(function))(x))


def test_a_traced_module_becomes_a_program_with_its_weights():
    model = nn.Sequential(nn.Linear(3, 4), nn.ReLU(), nn.LayerNorm(4))
    program = fx.to_program(fx.symbolic_trace(model), ndgrad.ones(2, 3))
    x = ndgrad.randn(2, 3)
    assert len(program.inputs) == 1
    np.testing.assert_allclose(Replay(program)([x.numpy()])[0], model(x).detach().numpy(), rtol=1e-12)
    assert_equal(fx.from_program(program)(x), (model(x),))


def test_a_changed_graph_becomes_the_changed_program():
    module = fx.from_program(ndgrad.compiler.graph(lambda x: x.sin() + 1, ndgrad.ones(3)).traced)
    for node in module.graph.nodes:
        if node.name == "sin":
            node.target = ndgrad.ops.aten.cos.default
    module.recompile()
    x = ndgrad.randn(3)
    assert_equal(module(x), (x.cos() + 1,))
    assert "cos" in str(fx.to_program(module))
    np.testing.assert_array_equal(Replay(fx.to_program(module, ndgrad.ones(5)))([np.zeros(5)])[0], np.full(5, 2.0))


def test_loops_keep_their_bodies():
    def function(x):
        return ndgrad.func.fori_loop(0, 5, lambda i, c: c * 1.5 + i, x)

    x = ndgrad.randn(3)
    program = ndgrad.compiler.graph(function, x).traced.program
    module = fx.from_program(program)
    assert_equal(module(x), (function(x),))
    assert str(fx.to_program(module)) == str(program)
    if any(type(n.target).__name__ == "ProgramOp" for n in module.graph.nodes):
        with pytest.raises(RuntimeError, match="no derivative"):
            module(x.requires_grad_())


def test_ops_of_a_module_read_its_parameters():
    model = nn.Linear(3, 2)
    module = make_fx(lambda x: model(x))(ndgrad.ones(1, 3))
    assert module._param_constant0 is model.weight
    module(ndgrad.ones(1, 3)).sum().backward()
    assert model.bias.grad.tolist() == [1.0, 1.0]


def test_a_tensor_given_twice_is_two_inputs():
    x = ndgrad.ones(2)
    assert make_fx(lambda a, b: a - 2 * b)(x, x)(x + 3, x).tolist() == [2.0, 2.0]


@pytest.mark.parametrize(
    "function", [lambda x: x if x.sum() > 0 else -x, lambda x: x * float(x.sum()), lambda x: x[x > 0], lambda x: x.sum().item()]
)
def test_functions_of_values_are_refused(function):
    with pytest.raises(TraceError, match="nd-fx-trace"):
        make_fx(function)(ndgrad.ones(2))


def test_open_sizes_and_decompositions_are_refused():
    with pytest.raises(NotImplementedError, match="sizes"):
        make_fx(lambda x: x, tracing_mode="symbolic")
    with pytest.raises(NotImplementedError, match="decomposed"):
        make_fx(lambda x: x, decomposition_table={ndgrad.ops.aten.sin: None})
