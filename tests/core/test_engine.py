"""The engine: order, accumulation, paths, errors, lifetimes."""

from __future__ import annotations

import gc
import weakref
from typing import Any, ClassVar

import numpy as np
import pytest

import ndgrad
import ndgrad.numpy as dnp
from ndgrad import autograd


def leaf(*values):
    return ndgrad.tensor(np.array(values), requires_grad=True)


def test_backward_adds_to_grad_over_several_passes():
    x = leaf(1.0, 2.0)
    (x * x).sum().backward()
    (x * 3.0).sum().backward()
    assert x.grad.tolist() == [5.0, 7.0]


def test_leaves_never_share_the_array_of_their_gradients():
    a, b = leaf(1.0, 2.0), leaf(3.0, 4.0)
    (a + b).backward(ndgrad.tensor([1.0, 1.0]))
    a.grad._array[0] = 100.0
    assert b.grad.tolist() == [1.0, 1.0]


def test_the_given_gradient_is_not_aliased_by_grad():
    x, g = leaf(1.0, 2.0), ndgrad.tensor([1.0, 1.0])
    x.clone().backward(g)
    x.grad._array[0] = 100.0
    assert g.tolist() == [1.0, 1.0]


def test_second_backward_names_the_node_and_the_remedy():
    x = leaf(1.0)
    y = (x * x).sum()
    y.backward()
    with pytest.raises(RuntimeError, match=r"MulBackward0.*retain_graph=True"):
        y.backward()


def test_second_backward_with_retain_graph():
    x = leaf(2.0)
    y = (x * x).sum()
    y.backward(retain_graph=True)
    y.backward()
    assert x.grad.tolist() == [8.0]


def test_linear_ops_save_nothing_so_a_second_backward_is_allowed():
    x = leaf(2.0)
    y = (x + x).sum()
    y.backward()
    y.backward()
    assert x.grad.tolist() == [4.0]


def test_broadcasting_is_undone():
    x, y = leaf(1.0, 2.0, 3.0), ndgrad.tensor(np.ones((4, 1)), requires_grad=True)
    (x * y).sum().backward()
    assert x.grad.tolist() == [4.0, 4.0, 4.0]
    assert y.grad.tolist() == [[6.0]] * 4


def test_gradient_has_the_dtype_of_the_leaf():
    x = ndgrad.tensor(np.float32([1, 2]), requires_grad=True)
    y = ndgrad.tensor(np.array([1.0, 2.0]), requires_grad=True)
    (x * y).sum().backward()
    assert x.grad._array.dtype == np.float32
    assert y.grad._array.dtype == np.float64


def test_real_leaf_in_a_complex_program_gets_a_real_gradient():
    x = leaf(1.0, 2.0)
    z = x * ndgrad.tensor(np.array([1j, 2.0]))
    (z * z).real.sum().backward()
    assert x.grad._array.dtype == np.float64
    assert np.allclose(x.grad._array, [-2.0, 16.0])


def test_grad_returns_gradients_of_leaves_and_intermediates_without_touching_grad():
    x = leaf(1.0, 2.0)
    y = x * x
    z = (y * y).sum()
    gx, gy = autograd.grad(z, [x, y])
    assert np.allclose(gy._array, 2 * y._array)
    assert np.allclose(gx._array, 4 * x._array**3)
    assert x.grad is None


def test_grad_of_an_unused_input():
    x, y = leaf(1.0), leaf(2.0)
    with pytest.raises(RuntimeError, match="allow_unused"):
        autograd.grad((x * x).sum(), [x, y], retain_graph=True)
    assert autograd.grad((x * x).sum(), [x, y], allow_unused=True)[1] is None
    assert autograd.grad((x * x).sum(), [x, y], materialize_grads=True)[1].tolist() == [0.0]


def test_create_graph_gives_every_order():
    x = leaf(0.3)
    y = x.sin()
    for expected in (np.cos, lambda v: -np.sin(v), lambda v: -np.cos(v), np.sin):
        (y,) = autograd.grad(y.sum(), x, create_graph=True)
        assert np.allclose(y._array, expected(0.3))


def test_backward_with_inputs_reaches_only_those():
    x, y = leaf(1.0), leaf(2.0)
    z = x * y
    z.sum().backward(inputs=[x])
    assert x.grad.tolist() == [2.0]
    assert y.grad is None


def test_backward_from_a_vector_needs_a_gradient():
    with pytest.raises(RuntimeError, match=r"scalar outputs.*shape \(2,\)"):
        (leaf(1.0, 2.0) * 2.0).backward()


def test_backward_from_a_constant_says_what_to_do():
    with pytest.raises(RuntimeError, match=r"does not require grad.*requires_grad_\(\)"):
        (ndgrad.tensor([1.0]) * 2.0).backward()


def test_failed_backward_accumulates_nothing_and_leaves_the_graph_usable():
    x, w = leaf(1.0, 2.0), leaf(3.0, 4.0)
    y = x * w
    z = y.sin()
    handle = z.register_hook(lambda g: 1 / 0)
    loss = (z * w).sum()
    with pytest.raises(ZeroDivisionError):
        loss.backward(retain_graph=True)
    assert x.grad is None
    assert w.grad is None
    handle.remove()
    loss.backward()
    assert np.allclose(x.grad._array, w._array**2 * np.cos(x._array * w._array))


def test_graph_dies_by_reference_counting_alone():
    gc.collect()
    gc.disable()
    try:
        x = leaf(1.0, 2.0)
        y = (x.exp() * x).tanh()
        refs = [weakref.ref(y), weakref.ref(y._node)]
        y.sum().backward()
        del y
        assert [r() for r in refs] == [None, None]
        z = x.exp()[0] * x[1]
        refs = [weakref.ref(z), weakref.ref(z._node)]
        del z
        assert [r() for r in refs] == [None, None]
    finally:
        gc.enable()


def test_accumulator_is_held_weakly_by_the_leaf_and_strongly_by_the_graph():
    x = leaf(1.0)
    y = x * x
    accumulator = weakref.ref(y.grad_fn.next_functions[0][0])
    assert accumulator().variable is x
    del y
    assert accumulator() is None


def test_saved_values_are_freed_as_backward_passes_them():
    x = leaf(*np.arange(1000.0))
    y = x.exp()
    saved = weakref.ref(y._node.out)
    z = y.sum()
    del y
    z.backward()
    assert saved() is None


def test_create_graph_backward_warns_about_the_cycle():
    x = leaf(1.0)
    with pytest.warns(UserWarning, match="reference cycle"):
        autograd.backward((x * x).sum(), create_graph=True)


@pytest.mark.slow
def test_a_chain_of_a_million_ops_runs_and_dies():
    x = leaf(1.0)
    y = x
    for _ in range(1_000_000):
        y = y * 1.0
    y.sum().backward()
    assert x.grad.tolist() == [1.0]
    del y


def test_a_chain_of_a_hundred_thousand_ops_dies_without_backward():
    x = leaf(1.0)
    y = x + x
    first = weakref.ref(y.grad_fn)
    for _ in range(100_000):
        y = y + x
    assert first() is not None
    del y
    assert first() is None


def test_nodes_have_torchs_names_and_edges():
    x, w = leaf(1.0), leaf(2.0)
    y = (x * w).exp()
    assert y.grad_fn.name() == "ExpBackward0"
    ((mul, number),) = y.grad_fn.next_functions
    assert (mul.name(), number) == ("MulBackward0", 0)
    assert [n.name() for n, _ in mul.next_functions] == ["AccumulateGrad", "AccumulateGrad"]
    assert y.grad_fn._sequence_nr() > mul._sequence_nr()


# ----- requested gradients ---------------------------------------------------------------------------------------------


def test_edges_of_one_op_with_several_outputs_are_told_apart():
    x = ndgrad.tensor(np.ones((3, 2)), requires_grad=True)
    parts = (x * 1.0).unbind()
    edges = [autograd.graph.get_gradient_edge(p) for p in parts]
    found = autograd.grad((parts[0] * 2 + parts[2] * 3).sum(), edges, retain_graph=True, allow_unused=True)
    assert [None if g is None else g.tolist() for g in found] == [[2.0, 2.0], None, [3.0, 3.0]]
    autograd.backward(edges[1:], [ndgrad.ones(2) * 5, ndgrad.ones(2) * 7])
    assert x.grad.tolist() == [[0.0, 0.0], [5.0, 5.0], [7.0, 7.0]]


@pytest.mark.parametrize("hooked", [False, True], ids=["by age", "by count"])
def test_grad_runs_only_the_nodes_on_the_way_to_its_inputs(hooked):
    """With or without counting, nodes that are not needed keep their saved values, and their hooks do not run."""
    x, w, seen = leaf(1.0, 2.0), leaf(3.0, 4.0), []
    handle = leaf(1.0).register_hook(lambda g: None) if hooked else None
    keeper = leaf(1.0)
    keeper_handle = keeper.register_hook(lambda g: None) if hooked else None
    a, b = x.exp(), w.exp()
    b.register_hook(lambda g: seen.append("b"))
    y = (a * 2 + b * 3).sum()
    assert np.allclose(autograd.grad(y, x)[0].numpy(), 2 * np.exp([1.0, 2.0]))
    assert seen == []
    assert np.allclose(autograd.grad((b * 5).sum(), w)[0].numpy(), 5 * np.exp([3.0, 4.0]))
    autograd.grad(leaf(1.0) * 1.0, w, ndgrad.ones(1), allow_unused=True)
    for h in (handle, keeper_handle):
        if h is not None:
            h.remove()


def test_grad_of_a_leaf_reached_over_every_kind_of_node():
    x = leaf(1.0, 2.0, 3.0)
    y = x * 1.0
    y[0] = x[1] * 2
    first, second = (y * 2).split([1, 2])
    z = first.sum() + (second.view(2, 1) @ second.view(1, 2)).sum() + x[2]
    (found,) = autograd.grad(z, x, retain_graph=True)
    z.backward()
    # 4 x1 + (2 x1 + 2 x2)^2 + x2
    assert found.tolist() == x.grad.tolist() == [0.0, 4.0 + 4 * (2 * 2 + 2 * 3), 4 * (2 * 2 + 2 * 3) + 1]


def test_one_array_is_one_tensor_so_that_writes_are_seen():
    a, b = leaf(1.0, 2.0), leaf(3.0, 4.0)
    first, second = autograd.grad(a + b, [a, b], ndgrad.tensor([1.0, 1.0]))
    w = leaf(1.0, 1.0)
    y = (w * second).sum()
    first.mul_(10)
    with pytest.raises(RuntimeError, match="modified by an inplace operation"):
        y.backward()


class Silent(autograd.Function):
    @staticmethod
    def forward(ctx, x):
        return x * 2

    @staticmethod
    def backward(ctx, g):
        return None


class Noticing(autograd.Function):
    seen: ClassVar[list] = []

    @staticmethod
    def forward(ctx, x):
        return x * 2

    @staticmethod
    def backward(ctx, g):
        Noticing.seen.append(g.tolist())
        return g + 1


def test_no_gradient_is_not_a_zero_but_custom_functions_behind_it_run():
    x, w = leaf(1.0), leaf(2.0)
    (Silent.apply(x * 3) + w).sum().backward()
    assert x.grad is None
    assert w.grad.tolist() == [1.0]
    Noticing.seen.clear()
    Silent.apply(Noticing.apply(x * 3).exp().view(1).clone()).sum().backward()
    assert Noticing.seen == [[0.0]]
    assert x.grad.tolist() == [3.0]


def test_a_gradient_that_comes_after_none_counts():
    x = leaf(1.0)
    h = x * 3
    for y in (Silent.apply(h) + h, h + Silent.apply(h), (Silent.apply(h) * 2).sum() + (h * h).sum() * 0 + h.sum()):
        x.grad = None
        y.sum().backward(retain_graph=True)
        assert x.grad.tolist() == [3.0]


# ----- accumulation ----------------------------------------------------------------------------------------------------


def test_a_gradient_nobody_else_holds_is_not_copied():
    seen = []
    for hooked in (False, True):
        x = leaf(*np.arange(5000.0))
        y = x * ndgrad.tensor(np.arange(5000.0))
        if hooked:
            x.register_hook(lambda g: seen.append(g.data_ptr()))
        y.grad_fn.register_hook(lambda i, o: seen.append(i[0].data_ptr()))
        y.sum().backward()
        assert x.grad.data_ptr() in seen
        seen.clear()


@pytest.mark.parametrize("order", [(0, 1, 2), (2, 1, 0), (1, 2, 0), (0, 2, 1)])
def test_a_gradient_lies_in_memory_like_its_leaf(order):
    x = ndgrad.tensor(np.arange(24.0).reshape(2, 3, 4)).permute(*order).requires_grad_()
    (x * x).sum().backward()
    assert x.grad.stride() == x.stride()
    (x * x).sum().backward(create_graph=False)
    assert x.grad.stride() == x.stride()
    gaps = ndgrad.tensor(np.arange(24.0).reshape(4, 6))[::2, 1:].requires_grad_()
    (gaps * 2).sum().backward()
    assert gaps.grad.stride() == (5, 1)


def test_a_grad_in_memory_that_cannot_be_added_to_is_replaced():
    locked = np.zeros(2)
    locked.flags.writeable = False
    for grad in (ndgrad.zeros(1).expand(2), ndgrad.as_tensor(locked)):
        x = leaf(1.0, 2.0)
        x.grad = grad
        (x * 3).sum().backward()
        assert x.grad.tolist() == [3.0, 3.0]
        assert grad.tolist() == [0.0, 0.0]


def test_adding_to_a_grad_that_was_saved_is_noticed():
    x, w = leaf(1.0, 2.0), leaf(3.0, 4.0)
    (x * x).sum().backward()
    y = (w * x.grad).sum()
    (x * x).sum().backward()
    with pytest.raises(RuntimeError, match="AccumulateGrad"):
        y.backward()


def test_on_numpys_class_a_grad_that_was_saved_survives_being_added_to():
    import ndgrad.numpy as anp

    x, w = anp.array([1.0, 2.0]), anp.array([3.0, 4.0])
    x.requires_grad_()
    w.requires_grad_()
    (x * x).sum().backward()
    y = (w * x.grad).sum()
    (x * x).sum().backward()
    y.backward()
    assert w.grad.tolist() == [2.0, 4.0]


def test_backward_inside_vmap_does_not_put_a_batch_into_grad():
    x = leaf(1.0, 2.0)
    y = x * x
    with pytest.raises(RuntimeError, match=r"inside vmap.*autograd\.grad"):
        ndgrad.func.vmap(lambda v: y.backward(v, retain_graph=True))(ndgrad.eye(2))
    assert x.grad is None


# ----- queries from inside a pass --------------------------------------------------------------------------------------


def test_callbacks_come_last_and_may_queue_more():
    from ndgrad._src.engine.graph import current_graph_task_id, current_node, queue_callback

    x, events = leaf(1.0), []
    h = x * 2

    def callback():
        events.append(("callback", x.grad.tolist(), current_node(), current_graph_task_id() >= 0))
        queue_callback(lambda: events.append("another"))

    h.register_hook(lambda g: queue_callback(callback))
    h.sum().backward()
    assert events == [("callback", [2.0], None, True), "another"]
    with pytest.raises(RuntimeError, match="during backward"):
        queue_callback(callback)


def test_the_announced_order_is_the_order():
    x, w = leaf(1.0, 2.0), leaf(3.0, 4.0)
    a, b = x * w, x.sin()
    y = ((a + b) * (a - w)).sum()
    ran, announced = [], []
    for node in autograd.graph.walk(y):
        node.register_prehook(lambda o: ran.append(autograd.graph.current_node()))
    y.register_hook(lambda g: announced.extend(autograd.graph.current_execution_order()))
    for inputs in (None, [x], [b, w]):
        ran.clear()
        announced.clear()
        y.backward(inputs=inputs, retain_graph=True)
        assert [n.name() for n in ran] == [n.name() for n in announced]
        assert ran == announced


def test_sequence_numbers_that_were_changed_are_obeyed():
    x, events = leaf(1.0), []
    a, b = x * 2, x * 3
    c = a + b
    for name, t in (("a", a), ("b", b)):
        t.register_hook(lambda g, name=name: events.append(name))
    c.sum().backward(retain_graph=True)
    a.grad_fn._set_sequence_nr(c.grad_fn._sequence_nr() + 10)
    autograd.grad(c.sum(), x, retain_graph=True)
    assert events == ["b", "a", "a", "b"]
    # The sum is older than the node it now leads to: the search for nodes that lead to x must still find it.
    assert autograd.grad(c.sum(), x)[0].tolist() == [5.0]


def test_input_metadata_of_nodes():
    x = ndgrad.tensor(np.float32([[1, 2, 3]]), requires_grad=True)
    (known,) = (x * 2).grad_fn._input_metadata
    assert (tuple(known.shape), known.dtype, str(known.device)) == ((1, 3), ndgrad.float32, "cpu")
    assert [tuple(k.shape) for k in x.unbind(1)[0].grad_fn._input_metadata] == [(1,)] * 3


def test_a_node_that_only_undefined_gradients_reach_may_run_between_two_of_a_chain():
    x = dnp.array([1.0, 2.0]).requires_grad_()
    t = np.stack([2.0 * x[0], x[0]]).reshape(1, 2)
    part = np.hsplit(t, 2)[1]
    ((np.outer(part, t) * part).sum() + part.sum()).backward()  # 3 x0^3 + x0
    assert x.grad.tolist() == [10.0, 0.0]


@pytest.mark.parametrize("lies", ["C", "F", "with gaps"])
@pytest.mark.parametrize("compute", ["matmul", "sum", "select", "same"])
def test_requested_gradients_have_the_memory_layout_of_grad(compute: str, lies: str) -> None:
    functions: dict[str, Any] = {
        "matmul": lambda x: (x.T @ x.detach()).sin().sum(),
        "sum": lambda x: x.T.sum(0).sum(),
        "select": lambda x: ndgrad.stack([x, x.cos()], 2).square().sum(),
        "same": lambda x: (x.T + 0).T,
    }
    base = ndgrad.arange(24.0).reshape(4, 6) / 10
    x = {"C": base, "F": base.T.contiguous().T, "with gaps": base[:, ::2]}[lies].detach().requires_grad_()
    given = [ndgrad.ones(tuple(x.shape)[::-1]).T] if compute == "same" else None
    y = functions[compute](x)
    (g,) = ndgrad.autograd.grad(y, x, given, retain_graph=True)
    y.backward(*(given or []))
    assert g.stride() == x.grad.stride() == (x.stride() if lies != "with gaps" else (3, 1))
    assert g.tolist() == x.grad.tolist()
    vjp = ndgrad.func.vjp(functions[compute], x.detach())[1](*(given or [ndgrad.ones(())]))[0]
    assert vjp.stride() == g.stride()
    assert vjp.tolist() == g.tolist()
