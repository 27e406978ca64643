"""Custom functions beyond torch: saved intermediates, NumPy's namespace, lifetimes (torch_parity covers the common behaviour)."""

from __future__ import annotations

import gc
import weakref

import numpy as np
import pytest
from tests.core.functions import Cube, Square

import ndgrad
import ndgrad.numpy as dnp
from ndgrad._src.checkpoint import checkpoint
from ndgrad._src.interpreters import forward_ad


class Doubled(ndgrad.autograd.Function):
    """x², with its derivative computed and saved in the forward."""

    @staticmethod
    def forward(ctx, x):
        slope = 2 * x
        ctx.save_for_backward(slope)
        return x * x

    @staticmethod
    def backward(ctx, g):
        return ctx.saved_tensors[0] * g


def test_a_saved_intermediate_raises_in_a_double_backward_instead_of_being_taken_for_a_constant():
    x = ndgrad.tensor([1.0, 2.0], requires_grad=True)
    Doubled.apply(x).sum().backward()
    assert x.grad.tolist() == [2.0, 4.0]
    with pytest.raises(RuntimeError, match="save_constants"):
        ndgrad.autograd.grad(Doubled.apply(x).sum(), x, create_graph=True)


def test_a_saved_constant_may_be_read_in_a_double_backward():
    class Scaled(ndgrad.autograd.Function):
        @staticmethod
        def forward(ctx, x):
            weights = ndgrad.arange(1.0, 3.0)
            ctx.save_for_backward(x, weights)
            ctx.save_constants(weights)
            return x * x * weights

        @staticmethod
        def backward(ctx, g):
            x, weights = ctx.saved_tensors
            return 2 * x * weights * g

    x = ndgrad.tensor([1.0, 2.0], requires_grad=True)
    (g,) = ndgrad.autograd.grad(Scaled.apply(x).sum(), x, create_graph=True)
    (h,) = ndgrad.autograd.grad(g.sum(), x)
    assert h.tolist() == [2.0, 4.0]


def test_saved_values_survive_writes_on_numpys_class():
    x = dnp.array([1.0, 2.0]).requires_grad_()
    y = x * 1.0
    z = Square.apply(y)
    y[0] = 100.0
    z.sum().backward()
    assert x.grad.tolist() == [2.0, 4.0]


def test_the_graph_of_a_function_dies_by_reference_counting():
    gc.disable()
    try:
        x = ndgrad.ones(2, requires_grad=True)
        y = Square.apply(x)
        z = Square.apply(y)
        node, middle = weakref.ref(z.grad_fn), weakref.ref(y)
        del y, z
        assert node() is None
        assert middle() is None
    finally:
        gc.enable()


def test_a_saved_output_makes_no_cycle():
    class Exp(ndgrad.autograd.Function):
        @staticmethod
        def forward(ctx, x):
            y = x.exp()
            ctx.save_for_backward(y)
            return y

        @staticmethod
        def backward(ctx, g):
            return ctx.saved_tensors[0] * g

    gc.disable()
    try:
        x = ndgrad.zeros(2, requires_grad=True)
        y = Exp.apply(x)
        dead = weakref.ref(y)
        del y
        assert dead() is None
    finally:
        gc.enable()


def test_functions_agree_with_differences_through_every_mode():
    a = np.array([0.5, -1.5])
    x = ndgrad.tensor(a)
    func = ndgrad.func
    assert np.allclose(func.jvp(Cube.apply, (x,), (x,))[1].numpy(), 3 * a**3)
    assert np.allclose(func.jvp(func.grad(lambda y: Cube.apply(y).sum()), (x,), (x,))[1].numpy(), 6 * a**2)
    assert np.allclose(func.grad(lambda y: func.jvp(Cube.apply, (y,), (x,))[1].sum())(x).numpy(), 6 * a**2)
    # The function closes over a dual of an outer jvp.
    assert np.allclose(func.jvp(lambda c: func.grad(lambda y: Cube.apply(c * y).sum())(x), (x,), (x,))[1].numpy(), 9 * a**5)


def test_modes_are_restored_when_forward_raises():
    class Fails(ndgrad.autograd.Function):
        @staticmethod
        def forward(ctx, x):
            raise KeyError("mine")

    from ndgrad._src.core.modes import process, thread

    busy = len(process.busy)
    with pytest.raises(KeyError):
        Fails.apply(ndgrad.ones(1, requires_grad=True))
    assert thread.grad_enabled
    assert len(process.busy) == busy
    assert not thread.in_custom_forward


# ----- gradients with respect to outputs --------------------------------------------------------------------------------------------


@pytest.mark.parametrize("shape", [(), (3,), (2, 2), (1,), (0, 2)])
@pytest.mark.parametrize("apply", [Square.apply, Cube.apply, lambda x: checkpoint(lambda z: z * z, x, use_reentrant=True)])
def test_grad_with_respect_to_the_only_output_of_a_function_is_the_whole_of_it(shape, apply):
    x = ndgrad.tensor(np.arange(1.0, 1 + np.prod(shape)).reshape(shape), requires_grad=True)
    y = apply(x)
    loss, expected = (y * y * y).sum(), 3 * y.detach() * y.detach()
    grad = ndgrad.autograd.grad
    (plain,) = grad(loss, y, retain_graph=True)
    (of_edge,) = grad(loss, ndgrad.autograd.graph.get_gradient_edge(y), retain_graph=True)
    (recorded,) = grad(loss, y, create_graph=True)
    (of_both, _) = grad(loss, (y, loss), retain_graph=True)
    (batched,) = grad(loss, y, ndgrad.tensor([1.0, 2.0]), is_grads_batched=True, retain_graph=True)
    for found in (plain, of_edge, recorded.detach(), of_both, batched[0], batched[1] / 2):
        assert found.shape == y.shape
        np.testing.assert_allclose(found.numpy(), expected.numpy())
    (second,) = grad(recorded.sum(), y)
    np.testing.assert_allclose(second.numpy(), 6 * y.detach().numpy())


def test_grad_with_respect_to_one_of_several_outputs_of_a_function():
    class Both(ndgrad.autograd.Function):
        @staticmethod
        def forward(ctx, x):
            return x * 2, x * 3

        @staticmethod
        def backward(ctx, g, h):
            return 2 * g + 3 * h

    x = ndgrad.tensor([1.0, 2.0], requires_grad=True)
    a, b = Both.apply(x)
    assert [g.tolist() for g in ndgrad.autograd.grad((a * b).sum(), (b, x, a))] == [[2.0, 4.0], [12.0, 24.0], [3.0, 6.0]]


class Growth(ndgrad.autograd.Function):
    """exp, which saves its output."""

    @staticmethod
    def forward(x):
        return x.exp()

    @staticmethod
    def setup_context(ctx, inputs, output):
        ctx.save_for_backward(output)
        ctx.save_for_forward(output)

    @staticmethod
    def backward(ctx, g):
        return ctx.saved_tensors[0] * g

    @staticmethod
    def jvp(ctx, t):
        return ctx.saved_tensors[0] * t


@pytest.mark.parametrize("grow", [Growth.apply, np.exp])
def test_a_saved_output_that_is_overwritten_keeps_the_tangent_it_had(grow):
    x = dnp.array([0.6, -0.4]).requires_grad_()
    with forward_ad.dual_level():
        z = forward_ad.make_dual(x, dnp.array([1.0, 2.0])) * 1.0
        v = grow(z)
        v += z
        (g,) = ndgrad.autograd.grad(v.sum(), z, create_graph=True)
        slope = forward_ad.unpack_dual(g).tangent
    np.testing.assert_allclose(slope.detach().numpy(), np.exp([0.6, -0.4]) * [1.0, 2.0], rtol=1e-12)
