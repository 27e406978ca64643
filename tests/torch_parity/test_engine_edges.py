"""The gradients that a pass computes, and its arguments: edges, subsets of inputs, callbacks, nodes; torch and ndgrad alike."""

from __future__ import annotations

import weakref
from typing import Any

import pytest
import torch

import ndgrad
from tests.torch_parity.differences import deliberate
from tests.torch_parity.side_by_side import Programs, attempt, leaf, node_names, on_both, ones, plain

PROGRAMS = Programs()
program = PROGRAMS.enter


# ----- edges as roots and inputs ----------------------------------------------------------------------------------------


@program
def an_edge_as_root_of_a_scalar(m):
    x = leaf(m, 2)
    edge = m.autograd.graph.get_gradient_edge((x * 2).sum())
    m.autograd.backward(edge)
    return x.grad


@program
def an_edge_as_root_without_a_gradient_for_a_vector(m):
    m.autograd.backward(m.autograd.graph.get_gradient_edge(leaf(m, 2) * 2))


@program
def an_edge_as_root_with_a_gradient_of_another_shape(m):
    m.autograd.backward(m.autograd.graph.get_gradient_edge(leaf(m, 2) * 2), ones(m, 3))


@program
def edges_as_inputs_beside_tensors(m):
    x = leaf(m, 2)
    h = x * 2
    edge = m.autograd.graph.get_gradient_edge(h)
    return m.autograd.grad((h * h).sum(), [edge, h, x])


@program
def an_edge_of_a_result_as_input_of_backward(m):
    x = leaf(m, 2)
    h = x * 2
    (h * h).sum().backward(inputs=m.autograd.graph.get_gradient_edge(h))
    return h.grad, x.grad


@program
def an_edge_of_a_leaf_as_input_of_backward(m):
    x, w = leaf(m, 2), leaf(m, 2)
    (x * w).sum().backward(inputs=[m.autograd.graph.get_gradient_edge(x)])
    return x.grad, w.grad


@program
def an_edge_that_is_not_in_the_graph(m):
    x, w = leaf(m, 2), leaf(m, 2)
    edge = m.autograd.graph.get_gradient_edge(w * 2)
    y = (x * x).sum()
    return (
        attempt(lambda: m.autograd.grad(y, [edge], retain_graph=True)),
        m.autograd.grad(y, [edge], allow_unused=True, retain_graph=True),
        attempt(lambda: m.autograd.grad(y, [edge], materialize_grads=True)),
    )


@program
def an_edge_of_a_constant(m):
    m.autograd.graph.get_gradient_edge(ones(m, 2))


@program
def the_fields_of_an_edge(m):
    x = leaf(m, 2)
    edge = m.autograd.graph.get_gradient_edge(x)
    again = m.autograd.graph.get_gradient_edge(x)
    return edge._fields, edge == again, edge.node is again.node, edge.output_nr, edge.ownership_token, node_names([edge.node])


@program
def an_edge_keeps_the_graph_and_not_the_tensor(m):
    x = leaf(m, 2)
    h = x * 2
    ref = weakref.ref(h)
    edge = m.autograd.graph.get_gradient_edge(h)
    del h
    gone = ref() is None
    m.autograd.backward(edge, ones(m, 2))
    return gone, x.grad


# ----- subsets of inputs ------------------------------------------------------------------------------------------------


@program
def inputs_that_are_results_retain_their_gradient(m):
    x = leaf(m, 2)
    h = x * 2
    (h * h).sum().backward(inputs=[h], retain_graph=True)
    first = h.grad
    (h * 3).sum().backward(inputs=[h])
    return h.retains_grad, h.grad is first, first, h.grad, x.grad


@program
def inputs_that_are_results_run_their_node(m):
    x = leaf(m, 2)
    h = x * 2
    events = []
    h.grad_fn.register_prehook(lambda o: events.append("pre"))
    h.grad_fn.register_hook(lambda i, o: events.append("post"))
    (h * h).sum().backward(inputs=[h])
    return events, h.grad


@program
def inputs_with_hooks_that_replace(m):
    x = leaf(m, 2)
    h = x * 2
    h.register_hook(lambda g: g * 10)
    (h * h).sum().backward(inputs=[h, x])
    return h.grad, x.grad


@program
def inputs_given_as_a_dict(m):
    x, w = leaf(m, 2), leaf(m, 2)
    m.autograd.backward((x * w).sum(), inputs={"x": x})
    found = m.autograd.grad((x * x).sum(), {"x": x, "w": w}, allow_unused=True)
    return x.grad, w.grad, list(found), plain(found["x"]), found["w"]


@program
def an_empty_dict_of_inputs(m):
    m.autograd.grad(leaf(m, 2).sum(), {})


@program
def inputs_from_a_generator(m):
    x = leaf(m, 2)
    return m.autograd.grad((x * x).sum(), (t for t in [x]))


@program
def inputs_of_no_tensors(m):
    y = leaf(m, 2).sum()
    return [attempt(lambda v=v: m.autograd.grad(y, v)) for v in ([None], [leaf(m, 2), 3.0], 3.0)]


@program
def a_leaf_that_the_graph_does_not_reach(m):
    x, w = leaf(m, 2), leaf(m, 2)
    (x * 2).sum().backward(inputs=[w])
    return x.grad, w.grad


@program
def views_taken_after_the_forward_are_not_in_the_graph(m):
    x = leaf(m, 2)
    y = (x * x).sum()
    return attempt(lambda: m.autograd.grad(y, x.view(2)))


@program
def no_roots(m):
    m.autograd.backward([])
    return attempt(lambda: m.autograd.grad([], [leaf(m, 2)]))


@program
def roots_that_are_no_tensors(m):
    return attempt(lambda: m.autograd.backward(3.0))


# ----- callbacks and introspection --------------------------------------------------------------------------------------


@program
def callbacks_run_at_the_end_in_order(m):
    events: list[Any] = []
    x = leaf(m, 2)
    queue = m.autograd.Variable._execution_engine.queue_callback

    def first():
        events.append(("first", plain(x.grad), m.is_grad_enabled(), m._C._current_graph_task_id() >= 0))
        queue(lambda: events.append("queued by the first"))

    def hook(g):
        queue(first)
        queue(lambda: events.append("second"))

    y = x * 2
    y.register_hook(hook)
    x.register_post_accumulate_grad_hook(lambda t: events.append("accumulated"))
    y.sum().backward()
    return events


@program
def callbacks_under_create_graph_and_grad(m):
    events: list[Any] = []
    x = leaf(m, 2)
    y = x * x
    y.register_hook(lambda g: m.autograd.Variable._execution_engine.queue_callback(lambda: events.append(m.is_grad_enabled())))
    m.autograd.grad(y.sum(), x, create_graph=True)
    m.autograd.grad(y.sum(), x)
    return events


@program
def callbacks_outside_of_backward(m):
    m.autograd.Variable._execution_engine.queue_callback(lambda: None)


@program
def callbacks_that_raise(m):
    events: list[Any] = []
    x = leaf(m, 2)
    queue = m.autograd.Variable._execution_engine.queue_callback
    y = x * 2

    def fail():
        raise LookupError

    y.register_hook(lambda g: (queue(fail), queue(lambda: events.append("second")), None)[-1])
    return attempt(lambda: y.sum().backward()), events, x.grad, attempt(lambda: queue(fail))


@program
def callbacks_of_a_pass_that_fails(m):
    events: list[Any] = []
    x = leaf(m, 2)
    y = x * 2

    def fail(g):
        raise LookupError

    y.register_hook(lambda g: m.autograd.Variable._execution_engine.queue_callback(lambda: events.append("ran")))
    x.register_hook(fail)
    return attempt(lambda: y.sum().backward()), events


@program
def callbacks_belong_to_their_pass(m):
    events: list[Any] = []
    x = leaf(m, 2)
    queue = m.autograd.Variable._execution_engine.queue_callback

    def hook(g):
        queue(lambda: events.append("outer"))
        with m.enable_grad():
            inner = leaf(m, 2) * 2
            inner.register_hook(lambda g: queue(lambda: events.append("inner")))
            inner.sum().backward()
        events.append("after the inner pass")

    y = x * 2
    y.register_hook(hook)
    y.sum().backward()
    return events


@program
def a_checkpoint_is_valid_unless_inputs_are_named(m):
    valid = m.autograd.Variable._execution_engine.is_checkpoint_valid
    events = [valid()]
    x = leaf(m, 2)
    y = x * 2
    y.register_hook(lambda g: events.append(valid()))
    y.sum().backward()
    m.autograd.grad(y.sum(), x)
    y.sum().backward(inputs=[x])
    return events


@program
def the_number_of_the_pass(m):
    current = m._C._current_graph_task_id
    x = leaf(m, 2)
    ids = [current()]

    def hook(g):
        ids.append(current())
        with m.enable_grad():
            inner = leaf(m, 2) * 2
            inner.register_hook(lambda g: ids.append(current()))
            inner.sum().backward()
        ids.append(current())

    y = x * 2
    y.register_hook(hook)
    y.sum().backward()
    outside, before, inner, after = ids
    return outside, before == after, inner > before, current()


@program
def the_current_node(m):
    current = m._C._current_autograd_node
    events = [current()]
    x = leaf(m, 2)
    y = x * 2
    z = y.exp()
    y.register_hook(lambda g: events.append(node_names([current()])))
    z.grad_fn.register_prehook(lambda o: events.append(node_names([current()])))
    z.grad_fn.register_hook(lambda i, o: events.append(node_names([current()])))
    x.register_post_accumulate_grad_hook(lambda t: events.append(node_names([current()])))
    z.sum().backward()
    return events, current()


@program
def the_current_node_in_a_custom_backward(m):
    events = []

    class Double(m.autograd.Function):
        @staticmethod
        def forward(ctx, x):
            return x * 2

        @staticmethod
        def backward(ctx, g):
            events.append(node_names([m._C._current_autograd_node()]))
            return g * 2

    Double.apply(leaf(m, 2) * 1).sum().backward()
    return events


@program
def the_current_node_in_an_unpack_hook(m):
    events = []

    def unpack(t):
        events.append(node_names([m._C._current_autograd_node()]))
        return t

    x = leaf(m, 2)
    with m.autograd.graph.saved_tensors_hooks(lambda t: t, unpack):
        y = (x.exp() + x.sin()).tanh()
    y.sum().backward()
    return events


@program
def the_order_of_execution(m):
    events = []
    x, w = leaf(m, 2), leaf(m, 2)
    y = x * w
    z = y + w.exp()
    z.register_hook(lambda g: events.append(node_names(m._C._current_graph_task_execution_order())))
    with m.autograd.set_multithreading_enabled(False):
        m.autograd.grad(z, [x], ones(m, 2), retain_graph=True)
        z.backward(ones(m, 2), inputs=[x], retain_graph=True)
        z.backward(ones(m, 2), inputs=[y], retain_graph=True)
        u = x * x
        u.register_hook(lambda g: events.append(node_names(m._C._current_graph_task_execution_order())))
        u.backward(ones(m, 2))
    return events


@program
def the_order_of_execution_outside_of_backward(m):
    m._C._current_graph_task_execution_order()


@program
def multithreading_can_be_switched_off(m):
    seen = [m.autograd.is_multithreading_enabled()]
    with m.autograd.set_multithreading_enabled(False):
        seen.append(m.autograd.is_multithreading_enabled())
        x = leaf(m, 2)
        (x * x).sum().backward()
    m.autograd.set_multithreading_enabled(False)
    seen.append(m.autograd.is_multithreading_enabled())
    m.autograd.set_multithreading_enabled(True)
    return seen, m.autograd.is_multithreading_enabled(), x.grad


# ----- nodes and their read-only attributes -----------------------------------------------------------------------------


@program
def what_a_node_tells(m):
    x = leaf(m, 2, 3)
    y = x * x
    node = y.grad_fn
    node.metadata["mine"] = 1
    (accumulator, number) = node.next_functions[0]
    known = node._input_metadata
    pair = x.unbind()[1].grad_fn._input_metadata
    return (
        node.metadata,
        isinstance(node, m.autograd.graph.Node),
        [list(k.shape) for k in known],
        str(known[0].dtype).split(".")[-1],
        str(known[0].device),
        [list(k.shape) for k in pair],
        node_names([accumulator]),
        number,
        accumulator.variable is x,
        accumulator._sequence_nr() > node._sequence_nr(),
        accumulator.next_functions,
        node is y.grad_fn,
    )


@program
def nodes_of_deeper_expressions(m):
    x, w = leaf(m, 2), leaf(m, 2)
    y = ((x * w).exp() + x.sin() * 2).sum()

    def tree(node):
        return None if node is None else (node_names([node])[0], [(tree(n), k) for n, k in node.next_functions])

    return tree(y.grad_fn)


@program
def sequence_numbers_grow_with_age(m):
    x = leaf(m, 2)
    a = x * 2
    b = x.exp()
    c = a + b
    return a.grad_fn._sequence_nr() < b.grad_fn._sequence_nr() < c.grad_fn._sequence_nr()


@program
def calling_a_node(m):
    x = leaf(m, 2)
    y = x * x
    events = []
    y.grad_fn.register_hook(lambda i, o: events.append("post"))
    found = y.grad_fn(ones(m, 2))
    accumulator = y.grad_fn.next_functions[0][0]
    accumulator(ones(m, 2) * 5)
    return plain(found), events, x.grad


@program
def what_may_not_be_set(m):
    y = leaf(m, 2) * 2
    found = []
    for name, value in (("grad_fn", None), ("is_leaf", True), ("output_nr", 1), ("_grad_fn", y.grad_fn)):
        found.append(attempt(lambda name=name, value=value: setattr(y, name, value)))
    found.append(attempt(lambda: setattr(y.grad_fn, "next_functions", ())))
    y._grad_fn = None
    return found, y.requires_grad


@program
def the_old_name_of_tensors(m):
    variable = m.autograd.Variable
    x = variable(ones(m, 2), requires_grad=True)
    (x * x).sum().backward()
    return isinstance(x, variable), isinstance(3, variable), x.grad, variable(x).requires_grad, attempt(lambda: variable([1.0]))


@pytest.mark.parametrize("program", PROGRAMS.values(), ids=PROGRAMS)
def test_program(program: Any) -> None:
    """Both give the same, or raise the same class of error."""
    theirs, ours = on_both(program)
    assert ours == theirs


def test_the_order_of_execution_can_be_asked_for_anywhere() -> None:
    assert deliberate("execution-order")
    x = leaf(ndgrad, 2)
    y = x * 2
    events: list[Any] = []
    y.register_hook(lambda g: events.append(node_names(ndgrad._C._current_graph_task_execution_order())))
    y.sum().backward()
    assert events == [["SumBackward0", "MulBackward0", "AccumulateGrad"]]
    t = leaf(torch, 2)
    u = t * 2
    u.register_hook(lambda g: torch._C._current_graph_task_execution_order())
    assert attempt(lambda: u.sum().backward()) == "RuntimeError"
