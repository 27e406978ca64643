"""Hooks registered while their node runs, gradients that nodes' hooks see, and nodes called by hand."""

from __future__ import annotations

import warnings
import weakref

import pytest

import ndgrad
from ndgrad.autograd.graph import current_node, saved_tensors_hooks


@pytest.mark.parametrize("function", [lambda x: x**2, lambda x: ndgrad.var_mean(x, dim=0)[0]])
def test_a_hook_registered_while_a_saved_value_is_unpacked_runs(function):
    x = ndgrad.tensor([1.0, 2.0, 4.0], requires_grad=True)
    function(x).sum().backward()
    plain, x.grad = x.grad, None
    seen = []

    def halve(made, received):
        seen.append(received)
        return tuple(None if g is None else g / 2 for g in made)

    def unpack(t):
        if not seen:
            current_node().register_hook(halve)
            seen.append("registered")
        return t

    with saved_tensors_hooks(lambda t: t, unpack):
        y = function(x).sum()
    y.backward()
    assert all(g is None for g in seen[1])  # the node has used its gradients up
    assert x.grad.tolist() == (plain / 2).tolist()


def test_hooks_of_an_accumulator_see_the_gradient_after_post_accumulate_hooks():
    x = ndgrad.ones(3, requires_grad=True)
    accumulator = x.view_as(x).grad_fn.next_functions[0][0]

    def scale(made, received):
        x.grad = received[0] * 10

    def add(t):
        t.grad.add_(0.5)

    x.register_post_accumulate_grad_hook(add)
    accumulator.register_hook(scale)
    x.sum().backward()
    assert x.grad.tolist() == [15.0] * 3


def test_a_node_takes_one_gradient_per_output():
    y = ndgrad.ones(1, requires_grad=True) ** 2
    for grads in ((), (ndgrad.ones(1), ndgrad.ones(1))):
        with pytest.raises(TypeError, match="expected 1 arguments, got"):
            y.grad_fn(*grads)
    assert y.grad_fn(ndgrad.ones(1))[0].tolist() == [2.0]


def test_materialized_zeros_can_be_differentiated_again():
    x = ndgrad.tensor(0.5, requires_grad=True)
    a = ndgrad.tensor(1.0, requires_grad=True)
    (first,) = ndgrad.autograd.grad(x * a, x, create_graph=True)
    second = ndgrad.autograd.grad(first, x, create_graph=True, materialize_grads=True)
    assert ndgrad.autograd.grad(second, x, materialize_grads=True)[0].item() == 0.0


def test_a_warning_turned_into_an_error_does_not_replace_the_failure(capsys):
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        with ndgrad.autograd.detect_anomaly():
            x = ndgrad.ones(2, requires_grad=True) + 1
            y = (x**2).sum()
            x += 1
            warnings.simplefilter("error")
            with pytest.raises(RuntimeError, match="modified by an inplace operation"):
                y.backward()
    assert "Error detected in PowBackward0" in capsys.readouterr().err


def test_one_element_of_an_expanded_tensor_can_be_written():
    x = ndgrad.zeros(1).expand(3)
    x[0] = 2
    assert x.tolist() == [2.0] * 3
    with pytest.raises(RuntimeError, match="single memory location"):
        x[:] = 1


def test_an_overwritten_value_is_named_by_the_op_that_made_it():
    x = ndgrad.ones(3, requires_grad=True) + 1
    y = x * x
    with ndgrad.no_grad():
        x += 1
    with pytest.raises(RuntimeError, match="output 0 of Add,"):
        y.sum().backward()


def test_boxed_gradients_are_released_by_the_backward_that_empties_the_box():
    freed = []

    class Double(ndgrad.autograd.Function):
        boxed_grads_call = True

        @staticmethod
        def forward(ctx, x):
            return x * 2

        @staticmethod
        def backward(ctx, grads):
            made, ref = grads[0] * 2, weakref.ref(grads[0])
            grads.clear()
            freed.append(ref() is None)
            return made

    x = ndgrad.ones(2, requires_grad=True)
    Double.apply(x).sum().backward()
    assert freed == [True]
    assert x.grad.tolist() == [2.0, 2.0]


def test_jvp_must_write_the_tangent_of_an_input_that_forward_writes():
    class Scale(ndgrad.autograd.Function):
        @staticmethod
        def forward(ctx, x):
            ctx.mark_dirty(x)
            return x.mul_(2)

        @staticmethod
        def jvp(ctx, t):
            return t

    with ndgrad.autograd.forward_ad.dual_level():
        x = ndgrad.autograd.forward_ad.make_dual(ndgrad.ones(1), ndgrad.ones(1))
        with pytest.raises(RuntimeError, match="must modify the corresponding gradient inplace"):
            Scale.apply(x)


def test_a_view_that_is_no_input_cannot_be_marked_dirty():
    class Wrong(ndgrad.autograd.Function):
        @staticmethod
        def forward(ctx, x):
            out = x.clone().view_as(x)
            ctx.mark_dirty(out)
            return out

    with pytest.raises(RuntimeError, match="received a tensor that was not an input"):
        Wrong.apply(ndgrad.ones(1, requires_grad=True))
