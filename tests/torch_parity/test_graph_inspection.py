"""Inspection of a graph: nodes, their names, edges, metadata, numbers, and walks over it, on torch and on ndgrad alike."""

from __future__ import annotations

import gc
import itertools
import weakref
from typing import Any

import pytest

from tests.torch_parity.differences import deliberate
from tests.torch_parity.side_by_side import MODULES, Programs, attempt, leaf, on_both

PROGRAMS = Programs()
program = PROGRAMS.enter


def name(node):
    """A node's name without the namespace that torch gives to accumulators."""
    return None if node is None else node.name().split("::")[-1]


def shape_of_graph(y):
    """The graph as nested lists: [name, [(producer, output number), ...]], shared nodes written out."""

    def describe(node):
        return None if node is None else [name(node), [[describe(n), number] for n, number in node.next_functions]]

    return describe(y.grad_fn)


def walk(root):
    """The names of all nodes behind one, each once, in the order of a search by depth."""
    seen, out, stack = set(), [], [root]
    while stack:
        node = stack.pop()
        if node is None or node in seen:
            continue
        seen.add(node)
        out.append(name(node))
        stack.extend(n for n, _ in node.next_functions)
    return out


# -- graph shapes --


@program
def a_chain(m):
    return shape_of_graph(leaf(m, 3).exp().sin().sum())


@program
def a_sum_of_products(m):
    x, y = leaf(m, 3), leaf(m, 3)
    return shape_of_graph((x * y + x / y).mean())


@program
def a_shared_intermediate(m):
    h = leaf(m, 3).tanh()
    return shape_of_graph(h * h - h)


@program
def constants_have_no_edge(m):
    x, c = leaf(m, 3), m.ones(3, dtype=m.float64)
    return shape_of_graph(x * c + 1), shape_of_graph(c - x), shape_of_graph(m.where(c > 0, x, c))


@program
def numbers_have_no_edge(m):
    x = leaf(m, 3)
    return [shape_of_graph(y) for y in (2 * x, x * 2, 2 + x, x - 1, x / 2)]


@program
def detach_ends_the_graph(m):
    x = leaf(m, 3)
    return shape_of_graph(x.exp().detach() * x), (x * 2).detach().grad_fn


@program
def no_grad_ends_the_graph(m):
    x = leaf(m, 3)
    with m.no_grad():
        y = x * 2
    return y.grad_fn, shape_of_graph(y * x)


@program
def names_of_elementwise_nodes(m):
    x = leaf(m, 3) / 10
    functions = (
        "abs acos asin atan cos cosh exp expm1 log log1p log2 neg reciprocal relu rsqrt sigmoid sin sinh sqrt square tan tanh erf lgamma"
    )
    return [name(getattr(x, f)().grad_fn) for f in functions.split()]


@program
def names_of_two_argument_nodes(m):
    x, y = leaf(m, 3), leaf(m, 3)
    made = [x + y, x - y, x * y, x / y, m.maximum(x, y), m.minimum(x, y), m.atan2(x, y), m.where(x > y, x, y), m.lerp(x, y, 0.5)]
    return [name(t.grad_fn) for t in made]


@program
def names_of_reductions(m):
    x = leaf(m, 2, 3)
    made = [x.sum(), x.sum(0), x.mean(), x.mean(1), x.prod(), x.prod(1), x.max(), x.min(), x.var(), x.std(), x.logsumexp(0), x.cumsum(0)]
    return [name(t.grad_fn) for t in made]


@program
def names_of_shape_nodes(m):
    x = leaf(m, 2, 3) * 1
    made = [x.reshape(6), x.view(3, 2), x.transpose(0, 1), x.permute(1, 0), x.unsqueeze(0), x.expand(4, 2, 3), x[0], x[:, 1:], x.t()]
    made += [x.unsqueeze(0).squeeze(0), x.flip(0), m.cat([x, x]), m.stack([x, x]), x.clone(), x.narrow(0, 0, 1), x.diagonal()]
    return [name(t.grad_fn) for t in made]


@program
def names_of_in_place_nodes(m):
    x = leaf(m, 3)
    out = []
    for f in ("mul_", "add_", "sub_", "div_"):
        y = x * 1
        getattr(y, f)(2.0)
        out.append(shape_of_graph(y))
    for f in ("exp_", "relu_", "neg_", "zero_"):
        y = x * 1
        getattr(y, f)()
        out.append(shape_of_graph(y))
    return out


@program
def a_write_through_a_view(m):
    base = leaf(m, 2, 3) * 1
    part = base[0]
    part.mul_(2)
    return shape_of_graph(base)[0], len(base.grad_fn.next_functions), part.grad_fn is not None


@program
def an_assignment_to_a_part(m):
    base = leaf(m, 3) * 1
    base[0:2] = leaf(m, 2)
    return shape_of_graph(base)


# -- outputs and edges --


@program
def output_numbers(m):
    x = leaf(m, 4, 2)
    parts = x.unbind()
    return [p.output_nr for p in parts], [p.output_nr for p in x.split(1)], (x * 2).output_nr, x.output_nr


@program
def output_numbers_of_values_and_indices(m):
    values, indices = leaf(m, 2, 3).sort()
    top = leaf(m, 5).topk(2)
    return values.output_nr, indices.requires_grad, indices.grad_fn, top.values.output_nr, name(top.values.grad_fn)


@program
def edges_into_a_node_of_several_outputs(m):
    a, _b, c = leaf(m, 3, 2).unbind()
    y = c * a
    return [[name(n), number] for n, number in y.grad_fn.next_functions], y.grad_fn.next_functions[0][0] is a.grad_fn


@program
def var_mean_has_one_node(m):
    var, mean = m.var_mean(leaf(m, 4))
    return var.output_nr, mean.output_nr, var.grad_fn is mean.grad_fn, name(var.grad_fn)


@program
def gradient_edge_of_a_leaf_and_of_a_result(m):
    x = leaf(m, 3)
    y = x * 2
    edges = [m.autograd.graph.get_gradient_edge(t) for t in (x, y)]
    return [[name(e.node), e.output_nr] for e in edges], edges[1].node is y.grad_fn, [len(e) for e in edges]


@program
def gradient_edge_of_a_constant(m):
    m.autograd.graph.get_gradient_edge(m.ones(3))


@program
def gradient_edge_is_a_tuple(m):
    x = leaf(m, 3)
    node, number = m.autograd.graph.get_gradient_edge(x * 2)[:2]
    edge = m.autograd.graph.GradientEdge(node, number)
    return m.autograd.grad(edge, x, m.ones(3, dtype=m.float64)), edge.output_nr


@program
def gradient_edge_keeps_the_graph_but_not_the_tensor(m):
    x = leaf(m, 3)
    y = x.exp()
    tensor = weakref.ref(y)
    edge = m.autograd.graph.get_gradient_edge(y)
    del y
    gc.collect()
    return tensor() is None, walk(edge.node)


@program
def the_accumulator_of_a_leaf_is_one_object(m):
    x = leaf(m, 3)
    y = x * 2
    accumulators = [y.grad_fn.next_functions[0][0], (x * 3).grad_fn.next_functions[0][0], m.autograd.graph.get_gradient_edge(x).node]
    return accumulators[0] is accumulators[1] is accumulators[2], accumulators[0].variable is x


@program
def next_functions_are_the_same_objects_each_time(m):
    y = leaf(m, 3).exp().sum()
    return y.grad_fn is y.grad_fn, y.grad_fn.next_functions[0][0] is y.grad_fn.next_functions[0][0], type(y.grad_fn.next_functions).__name__


@program
def a_leaf_and_a_view_of_a_leaf(m):
    x = leaf(m, 3)
    return x.grad_fn, x.is_leaf, name(x[0].grad_fn), name(x.detach().grad_fn), x.detach().requires_grad_().is_leaf


# -- numbers and metadata --


@program
def sequence_numbers_grow_with_age(m):
    x = leaf(m, 3)
    nodes = [(x * 2).grad_fn, x.exp().grad_fn, (x + x).grad_fn]
    numbers = [n._sequence_nr() for n in nodes]
    return [b - a for a, b in itertools.pairwise(numbers)], (x * 1).grad_fn.next_functions[0][0]._sequence_nr()


@program
def ops_without_a_graph_take_no_number(m):
    x = leaf(m, 3)
    a = (x * 2).grad_fn._sequence_nr()
    with m.no_grad():
        _ = x * 3
    x.detach() * 4
    return (x * 5).grad_fn._sequence_nr() - a


@program
def metadata_is_a_dict_of_the_users(m):
    y = leaf(m, 3) * 2
    y.grad_fn.metadata["color"] = "red"
    return dict(y.grad_fn.metadata), type(y.grad_fn.metadata).__name__


@program
def metadata_in_anomaly_mode_has_the_traceback(m):
    with m.autograd.set_detect_anomaly(True):
        y = leaf(m, 3) * 2
    trace = y.grad_fn.metadata["traceback_"]
    return isinstance(trace, list), "test_graph_inspection.py" in "".join(trace), "y = leaf(m, 3) * 2" in "".join(trace)


@program
def input_metadata_of_one_output(m):
    y = leaf(m, 2, 3).sum(0)
    (entry,) = y.grad_fn._input_metadata
    return list(entry.shape), str(entry.dtype).split(".")[1], str(entry.device), entry.is_nested_tensor


@program
def input_metadata_of_several_outputs(m):
    a, _ = leaf(m, 2, 3).unbind()
    return [list(e.shape) for e in a.grad_fn._input_metadata], len(leaf(m, 5).split(2)[0].grad_fn._input_metadata)


@program
def input_metadata_of_complex_and_single(m):
    x = m.ones(2, dtype=m.complex64, requires_grad=True)
    return [str(e.dtype).split(".")[1] for t in (x * 2, x.real, x.abs()) for e in t.grad_fn._input_metadata]


@program
def input_metadata_of_a_custom_function(m):
    class Two(m.autograd.Function):
        @staticmethod
        def forward(ctx, x):
            return x * 2, x.sum()

        @staticmethod
        def backward(ctx, g, h):
            return g

    a, b = Two.apply(leaf(m, 3))
    return [list(e.shape) for e in a.grad_fn._input_metadata], name(a.grad_fn), a.grad_fn is b.grad_fn, [a.output_nr, b.output_nr]


# -- custom functions, classes, calls --


@program
def a_custom_function_in_the_graph(m):
    class Middle(m.autograd.Function):
        @staticmethod
        def forward(ctx, x, factor, y):
            return x * factor + y

        @staticmethod
        def backward(ctx, g):
            return g, None, g

    x, y = leaf(m, 3), leaf(m, 3)
    return shape_of_graph(Middle.apply(x.exp(), 2.0, y) * 2)


@program
def nodes_are_instances_of_node(m):
    class Same(m.autograd.Function):
        @staticmethod
        def forward(ctx, x):
            return x.clone()

        @staticmethod
        def backward(ctx, g):
            return g

    x = leaf(m, 3)
    nodes = [(x * 2).grad_fn, (x * 2).grad_fn.next_functions[0][0], Same.apply(x).grad_fn]
    return (
        [isinstance(n, m.autograd.graph.Node) for n in nodes],
        isinstance(x, m.autograd.graph.Node),
        issubclass(int, m.autograd.graph.Node),
    )


@program
def classes_of_nodes_have_their_names(m):
    x = leaf(m, 3)
    return [type(t.grad_fn).__name__ for t in (x * 2, x.sum(), x.exp())]


@program
def a_node_can_be_called(m):
    x = leaf(m, 3)
    g = m.ones(3, dtype=m.float64)
    both = (x * x).grad_fn(g)
    return x.exp().grad_fn(g), both


@program
def nodes_can_be_keys(m):
    x = leaf(m, 3)
    y = x * 2
    table = {y.grad_fn: "mul", y.grad_fn.next_functions[0][0]: "leaf"}
    return table[(y).grad_fn], table[m.autograd.graph.get_gradient_edge(x).node], y.grad_fn == (x * 2).grad_fn


@program
def a_grad_fn_cannot_be_set(m):
    y = leaf(m, 3) * 2
    y.grad_fn = None


# -- walks --


@program
def a_walk_by_next_functions(m):
    x, w = leaf(m, 3), leaf(m, 3)
    return walk(((x * w).exp() + x.sin() * w).sum().grad_fn)


@program
def a_walk_of_a_double_backward(m):
    x = leaf(m, 3)
    (g,) = m.autograd.grad((x * x * x).sum(), x, create_graph=True)
    return sorted(set(walk(g.grad_fn)) & {"AccumulateGrad", "AddBackward0", "MulBackward0"}), g.requires_grad


@program
def the_graph_stands_after_backward(m):
    x = leaf(m, 3)
    y = (x.exp() * x).sum()
    before = walk(y.grad_fn)
    y.backward()
    return before == walk(y.grad_fn), attempt(lambda: y.grad_fn.next_functions[0][0].next_functions[0][0]._saved_result)


@program
def nodes_die_with_their_tensors(m):
    y = leaf(m, 3).exp().sin()
    refs = [weakref.ref(y.grad_fn.next_functions[0][0].next_functions[0][0])] if m is not MODULES[0] else []
    z = weakref.ref(y)
    del y
    return z() is None, [r() is None for r in refs] in ([], [True])


@program
def requires_grad_follows_the_graph(m):
    x, c = leaf(m, 3), m.ones(3, dtype=m.float64)
    made = (x * c, c * c, x.detach(), x > 0, x.argmax(), x.exp().round())
    return [t.requires_grad for t in made], [name(t.grad_fn) for t in made]


@pytest.mark.parametrize("program", PROGRAMS.values(), ids=PROGRAMS)
def test_program(program: Any) -> None:
    """Both give the same, or raise the same class of error."""
    theirs, ours = on_both(program)
    assert ours == theirs


def test_products_of_matrices_are_one_node() -> None:
    assert deliberate("composite-nodes")
    found = []
    for m in MODULES:
        y = leaf(m, 2, 3) @ leaf(m, 3, 2)
        found.append(name(y.grad_fn))
    assert found == ["MmBackward0", "MatmulBackward0"]


def test_names_that_torch_gives_to_overloads_and_replayed_views() -> None:
    assert deliberate("node-names")
    found = []
    for m in MODULES:
        x = leaf(m, 3)
        base = x * 1
        part = base[0]
        part.mul_(2)
        found.append([name((x**x).grad_fn), name((x**2).grad_fn), len((x**2).grad_fn.next_functions), name(part.grad_fn)])
    assert found == [["PowBackward1", "PowBackward0", 1, "AsStridedBackward0"], ["PowBackward0", "PowBackward0", 2, "SelectBackward0"]]
