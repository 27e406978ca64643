"""Passes over graphs: the rewritten module computes the same, and facts about values are right."""

from __future__ import annotations

import operator

import numpy as np
import pytest

import ndgrad
import ndgrad.nn.functional as F
from ndgrad import fx, nn
from ndgrad.fx.experimental.optimization import fuse, remove_dropout
from ndgrad.fx.operator_schemas import create_type_hint, get_signature_for_torch_op, normalize_function, type_matches
from ndgrad.fx.passes.graph_drawer import FxGraphDrawer
from ndgrad.fx.passes.infra.pass_base import PassBase, PassResult
from ndgrad.fx.passes.infra.pass_manager import PassManager, this_before_that_pass_constraint
from ndgrad.fx.passes.shape_prop import ShapeProp
from ndgrad.fx.passes.split_module import split_module
from ndgrad.fx.passes.split_utils import getattr_recursive, setattr_recursive, split_by_tags
from ndgrad.fx.passes.tools_common import get_node_target, sort_nodes, stable_topological_sort
from ndgrad.fx.passes.utils.matcher_utils import SubgraphMatcher
from ndgrad.fx.subgraph_rewriter import replace_pattern_with_filters


def network(x, y):
    a = ndgrad.relu(x) + y
    b = F.softmax(a * 2, dim=-1)
    return (a @ b.transpose(0, 1)).sum(), b


@pytest.mark.parametrize("seed", range(8))
def test_any_split_into_parts_in_order_computes_the_same(seed):
    random = np.random.default_rng(seed)
    traced = fx.symbolic_trace(network)
    calls = [n for n in traced.graph.nodes if n.op.startswith("call")]
    cuts = dict(zip(calls, np.sort(random.integers(0, 4, len(calls))), strict=True))
    made = split_module(traced, traced, lambda node: cuts[node])
    x, y = ndgrad.randn(3, 4), ndgrad.randn(3, 4)
    for a, b in zip(made(x, y), network(x, y), strict=True):
        np.testing.assert_array_equal(a.numpy(), b.numpy())
    assert {n.target for n in made.graph.nodes if n.op == "call_module"} == {f"submod_{c}" for c in cuts.values()}
    made.graph.lint()


def test_parts_can_be_sorted_by_their_dependencies():
    traced = fx.symbolic_trace(lambda x: (x.sin() + 1, x.cos() * 2))
    made = split_module(traced, traced, lambda node: "a" if node.name in ("sin", "add") else "b")
    x = ndgrad.randn(3)
    np.testing.assert_array_equal(made(x)[1].numpy(), (x.cos() * 2).numpy())


def test_split_by_tags():
    traced = fx.symbolic_trace(nn.Sequential(nn.Linear(2, 3), nn.ReLU(), nn.Linear(3, 1)))
    for node in traced.graph.nodes:
        node.tag = "tail" if node.name == "_2" else "head"
    made, paths = split_by_tags(traced, ["head", "tail"], return_fqn_mapping=True)
    x = ndgrad.randn(4, 2)
    np.testing.assert_array_equal(made(x).detach().numpy(), traced(x).detach().numpy())
    assert paths == {"head.0": "0", "head.1": "1", "tail.2": "2"}
    with pytest.raises(AssertionError, match="tags"):
        split_by_tags(traced, ["head"])


def test_shapes_of_nested_results():
    traced = fx.symbolic_trace(lambda x: (x.max(0), x.shape))
    ShapeProp(traced).propagate(ndgrad.ones(2, 3))
    maximum = list(traced.graph.nodes)[1].meta["tensor_meta"]
    assert [tuple(m.shape) for m in maximum] == [(3,), (3,)]
    assert str(maximum[1].dtype).endswith("int64")


def test_shapes_without_values():
    traced = fx.symbolic_trace(nn.Sequential(nn.Linear(4, 2), nn.ReLU()).to("meta"))
    ShapeProp(traced).propagate(ndgrad.empty(3, 4, device="meta"))
    assert tuple(traced.graph.output_node().meta["tensor_meta"].shape) == (3, 2)


@pytest.mark.parametrize(
    ("pattern", "replacement", "function", "count"),
    [
        (lambda x: ndgrad.log(ndgrad.exp(x) + 1), lambda x: F.softplus(x), lambda x: ndgrad.log(ndgrad.exp(x * 2) + 1) + x, 1),
        (lambda a, b: a * b + b, lambda a, b: (a + 1) * b, lambda x: (x * x.sin() + x.sin()) * (x * x.cos() + x.cos()), 0),
        (lambda x: x.sin().square(), lambda x: 1 - x.cos().square(), lambda x: x.sin().square() + (x + 1).sin().square(), 2),
        (lambda x: x.add(0), lambda x: x, lambda x: x.add(0).add(0).sin(), 2),
    ],
)
def test_replacement_by_an_equal_expression_keeps_values(pattern, replacement, function, count):
    traced = fx.symbolic_trace(function)
    assert len(fx.replace_pattern(traced, pattern, replacement)) == count
    traced.graph.lint()
    x = ndgrad.rand(5)
    np.testing.assert_allclose(traced(x).numpy(), function(x).numpy(), rtol=1e-10)


def test_a_replacement_whose_inputs_come_late_is_put_in_order():
    def function(x):
        a = x.sin()
        early = a * 2
        b = x.cos()
        return early + b.exp()

    def pattern(a, b):
        return a * 2, b.exp()

    traced = fx.symbolic_trace(function)
    assert len(fx.replace_pattern(traced, pattern, lambda a, b: (a + a, (b / 2).exp() * (b / 2).exp()))) == 1
    traced.graph.lint()
    x = ndgrad.rand(5)
    np.testing.assert_allclose(traced(x).numpy(), function(x).numpy(), rtol=1e-10)


def test_a_replacement_depends_on_the_occurrence():
    traced = fx.symbolic_trace(lambda x: x.pow(2) + x.pow(3))

    def expand(match, graph, pattern):
        exponent = match.returning_nodes[0].args[1]
        return fx.symbolic_trace(lambda x: x * x if exponent == 2 else x * x * x).graph

    replace_pattern_with_filters(traced, lambda x: x.pow(0), ignore_literals=True, replacement_callback=expand)
    assert "pow" not in traced.code
    assert traced(3.0) == 36.0


def test_a_pattern_and_its_replacement_must_fit():
    traced = fx.symbolic_trace(lambda x: x.sin())
    with pytest.raises(AssertionError, match="2 inputs"):
        fx.replace_pattern(traced, lambda x, y: x.sin() + y, lambda x: x)


def test_matches_may_overlap_on_request():
    pattern = fx.symbolic_trace(lambda x: x.sin().sin()).graph
    graph = fx.symbolic_trace(lambda x: x.sin().sin().sin()).graph
    assert len(SubgraphMatcher(pattern).match(graph)) == 1
    pattern = fx.symbolic_trace(lambda x: x.sin()).graph
    assert len(SubgraphMatcher(pattern, match_placeholder=True).match(graph)) == 1


def test_keyword_and_positional_calls_match():
    graph = fx.symbolic_trace(lambda x: ndgrad.sum(x, dim=0)).graph
    assert len(SubgraphMatcher(fx.symbolic_trace(lambda x: ndgrad.sum(x, 0)).graph).match(graph)) == 1


@pytest.mark.parametrize("dims", [1, 2, 3])
def test_folded_batch_norm_has_the_same_values(dims):
    conv, norm = [nn.Conv1d, nn.Conv2d, nn.Conv3d][dims - 1], [nn.BatchNorm1d, nn.BatchNorm2d, nn.BatchNorm3d][dims - 1]
    model = nn.Sequential(conv(2, 3, 2), norm(3), nn.ReLU(), conv(3, 2, 1), norm(2))
    x = ndgrad.randn(4, 2, *[5] * dims)
    model(x)
    model.eval()
    made = fuse(model)
    assert not any(isinstance(m, norm) for m in made.modules())
    assert any(isinstance(m, norm) for m in model.modules())
    np.testing.assert_allclose(made(x).detach().numpy(), model(x).detach().numpy(), atol=1e-10)


def test_a_layer_whose_result_is_used_elsewhere_is_not_folded():
    class Branching(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.conv, self.norm = nn.Conv2d(1, 1, 1), nn.BatchNorm2d(1)

        def forward(self, x):
            y = self.conv(x)
            return self.norm(y) + y

    assert any(isinstance(m, nn.BatchNorm2d) for m in fuse(Branching().eval()).modules())


def test_dropout_is_removed():
    model = nn.Sequential(nn.Dropout(0.9), nn.Tanh())
    x = ndgrad.randn(5)
    np.testing.assert_array_equal(remove_dropout(model)(x).numpy(), np.tanh(x.numpy()))


def test_normalised_arguments_give_the_same_call():
    x = ndgrad.randn(3, 4)
    calls = [(ndgrad.sum, (x, 1), {}), (F.softmax, (x,), {"dim": 0}), (ndgrad.add, (x, x), {"alpha": 2}), (F.leaky_relu, (x, 0.3), {})]
    for function, args, kwargs in calls:
        for only in (False, True):
            found = normalize_function(function, args, kwargs, normalize_to_only_use_kwargs=only)
            assert not only or found.args == ()
            np.testing.assert_array_equal(function(*found.args, **found.kwargs).numpy(), function(*args, **kwargs).numpy())
    assert normalize_function(operator.add, (1, 2)) is None
    assert normalize_function(F.relu, (1, 2, 3, 4)) is None
    assert list(get_signature_for_torch_op(F.relu)[0].parameters) == ["input", "inplace"]


def test_types_of_arguments():
    assert str(create_type_hint([int, bool])) == "typing.List[int]"
    assert type_matches(list[int], list[int])
    assert not type_matches(list[int], list[str])


def test_nodes_are_sorted_by_their_inputs():
    traced = fx.symbolic_trace(lambda x: (x + 1) * 2)
    x, add, mul, output = traced.graph.nodes
    x.prepend(mul)
    assert list(stable_topological_sort(traced).graph.nodes) == [x, add, mul, output]
    add.args = (mul, 1)
    with pytest.raises(RuntimeError, match="cycles"):
        sort_nodes(list(traced.graph.nodes))


def test_targets_and_paths():
    traced = fx.symbolic_trace(nn.Sequential(nn.ReLU()))
    assert get_node_target(dict(traced.named_modules()), list(traced.graph.nodes)[1]).endswith("ReLU")
    setattr_recursive(traced, "a.b", nn.Tanh())
    assert isinstance(getattr_recursive(traced, "a.b"), nn.Tanh)


def test_pass_manager_runs_until_nothing_changes():
    seen = []

    class Remove(PassBase):
        def call(self, graph_module):
            seen.append("remove")
            return PassResult(graph_module, graph_module.graph.eliminate_dead_code())

    def check(graph_module):
        seen.append("check")
        return PassResult(graph_module, False)

    remove = Remove()
    manager = PassManager([check, remove], [this_before_that_pass_constraint(remove, check)], steps=5)
    with pytest.raises(RuntimeError, match="constraint violated"):
        manager.validate_constraints()
    result = manager(fx.symbolic_trace(lambda x: (x + 1, x)[1]))
    assert result.modified
    assert seen == ["remove", "check"] * 2


def test_pictures_show_nodes_edges_and_parameters(tmp_path):
    inner = fx.symbolic_trace(lambda x: x.sin())
    traced = fx.symbolic_trace(nn.Sequential(nn.Linear(2, 3)))
    traced.add_submodule("inner", inner)
    drawer = FxGraphDrawer(traced, "picture")
    text = drawer.get_dot_graph().to_string()
    assert '"input_1" -> "_0";' in text
    assert '"_0.weight" -> "_0";' in text
    assert text.count("{") == text.count("}")
    assert "sin" in drawer.get_dot_graph("inner").to_string()
    drawer.get_dot_graph().write_raw(tmp_path / "graph.dot")
    assert (tmp_path / "graph.dot").read_text() == text
