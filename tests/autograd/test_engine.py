"""The engine: order, accumulation, lanes, errors, lifetimes."""

from __future__ import annotations

import gc
import weakref

import numpy as np
import pytest

import ndgrad
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
    y = x
    for _ in range(100_000):
        y = y + x
    del y


def test_nodes_have_torchs_names_and_edges():
    x, w = leaf(1.0), leaf(2.0)
    y = (x * w).exp()
    assert y.grad_fn.name() == "ExpBackward0"
    (mul, number), = y.grad_fn.next_functions
    assert (mul.name(), number) == ("MulBackward0", 0)
    assert [n.name() for n, _ in mul.next_functions] == ["AccumulateGrad", "AccumulateGrad"]
    assert y.grad_fn._sequence_nr() > mul._sequence_nr()
