"""Autograd through nested tensors: leaves, hooks, custom functions, second derivatives, checkpoints, optimizers, gradient checks."""

from __future__ import annotations

import gc
import weakref

import numpy as np
import pytest

import ndgrad
from ndgrad._src.checkpoint import checkpoint
from tests.nested.components import arrays, nested


def test_the_gradient_of_a_nested_leaf_is_nested_and_adds_up():
    x = nested(arrays(3), True)
    for times in (1, 2, 3):
        (x * 2).sum().backward()
        assert x.grad.is_nested
        assert x.grad.shape == x.shape
        np.testing.assert_array_equal(x.grad.values().numpy(), 2.0 * times)


def test_a_leaf_that_is_used_several_times_gets_one_sum():
    x = nested(arrays(3), True)
    (x.sin() + x * x + x.sum(1, keepdim=True) * x).sum().backward()
    for g, p in zip(x.grad.unbind(), arrays(3), strict=True):
        np.testing.assert_allclose(g.numpy(), np.cos(p) + 2 * p + 2 * p.sum(0), rtol=1e-12)


def test_gradients_go_back_to_the_parts_of_a_list():
    parts = [ndgrad.tensor(a, requires_grad=True) for a in arrays(3)]
    (ndgrad.nested.as_nested_tensor(parts, layout=ndgrad.jagged) ** 3).sum().backward()
    for p in parts:
        np.testing.assert_allclose(p.grad.numpy(), 3 * p.detach().numpy() ** 2)


def test_hooks_see_nested_gradients_and_may_change_them():
    seen = []
    x = nested(arrays(3), True)
    y = x * 3
    y.retain_grad()
    y.register_hook(lambda g: seen.append(("y", g.shape)))
    x.register_hook(lambda g: (seen.append(("x", g.shape)), g * 2)[1])
    x.register_post_accumulate_grad_hook(lambda p: seen.append(("after", p.grad.is_nested)))
    (y * y).sum().backward()
    assert seen == [("y", x.shape), ("x", x.shape), ("after", True)]
    np.testing.assert_allclose(y.grad.values().numpy(), 6 * x.values().detach().numpy())
    np.testing.assert_allclose(x.grad.values().numpy(), 2 * 18 * x.values().detach().numpy())


def test_gradients_of_results_in_between():
    x = nested(arrays(3), True)
    y = x * x
    gx, gy = ndgrad.autograd.grad((y**2).sum(), (x, y))
    np.testing.assert_allclose(gy.values().numpy(), 2 * x.values().detach().numpy() ** 2)
    np.testing.assert_allclose(gx.values().numpy(), 4 * x.values().detach().numpy() ** 3)


def test_gradients_given_for_nested_outputs():
    x = nested(arrays(3), True)
    weights = ndgrad.randn_like(x)
    (x**2).backward(weights)
    np.testing.assert_allclose(x.grad.values().numpy(), (2 * x * weights).values().detach().numpy())
    with pytest.raises(RuntimeError, match=r"Mismatch in shape.*j\d+"):
        (x**2).backward(nested(arrays(3, lengths=(1, 1))))
    with pytest.raises(RuntimeError, match="scalar outputs"):
        (x**2).backward()


def test_a_custom_function_with_nested_and_dense_outputs():
    kinds = []

    class Both(ndgrad.autograd.Function):
        @staticmethod
        def forward(ctx, x):
            ctx.save_for_backward(x)
            return x * x, x.sum(1)

        @staticmethod
        def backward(ctx, g, h):
            kinds.append((g.is_nested, h.is_nested))
            (x,) = ctx.saved_tensors
            return 2 * g * x + h.unsqueeze(1)

    x = nested(arrays(3), True)
    y, s = Both.apply(x)
    (y.sin().sum() + (s**2).sum()).backward()
    z = nested(arrays(3), True)
    ((z * z).sin().sum() + (z.sum(1) ** 2).sum()).backward()
    np.testing.assert_allclose(x.grad.values().numpy(), z.grad.values().numpy(), rtol=1e-12)
    assert kinds == [(True, False)]


def test_a_custom_function_that_makes_nested_tensors_of_dense_ones_differentiated_twice():
    class Cut(ndgrad.autograd.Function):
        @staticmethod
        def forward(values):
            return ndgrad.nested.nested_tensor_from_jagged(values**2, ndgrad.tensor([0, 2, 5]))

        @staticmethod
        def setup_context(ctx, inputs, output):
            ctx.save_for_backward(*inputs)

        @staticmethod
        def backward(ctx, g):
            (values,) = ctx.saved_tensors
            return 2 * values * g.values()

    v = ndgrad.arange(1.0, 6.0, dtype=ndgrad.float64).requires_grad_()
    (g,) = ndgrad.autograd.grad(Cut.apply(v).sum(), v, create_graph=True)
    (h,) = ndgrad.autograd.grad((g**2).sum(), v)
    assert g.tolist() == (2 * v).tolist()
    assert h.tolist() == (8 * v).tolist()


@pytest.mark.parametrize("answer", [lambda g: g.values(), lambda g: nested(arrays(3, lengths=(1, 1)))], ids=["dense", "other lengths"])
def test_a_gradient_of_another_structure_is_refused(answer):
    class Wrong(ndgrad.autograd.Function):
        @staticmethod
        def forward(ctx, x):
            return x * 2

        @staticmethod
        def backward(ctx, g):
            return answer(g)

    x = nested(arrays(3), True)
    with pytest.raises(RuntimeError, match=r"invalid gradient at index 0 - got .* expected shape compatible with \[4, j\d+, 3\]"):
        Wrong.apply(x).sum().backward()
    assert x.grad is None


@pytest.mark.parametrize("reentrant", [False, True])
def test_checkpoints(reentrant):
    x = nested(arrays(3), True)
    w = ndgrad.ones(3, dtype=ndgrad.float64, requires_grad=True)
    checkpoint(lambda x: (x * w).softmax(1).sin(), x, use_reentrant=reentrant).sum().backward()
    y, v = nested(arrays(3), True), ndgrad.ones(3, dtype=ndgrad.float64, requires_grad=True)
    (y * v).softmax(1).sin().sum().backward()
    np.testing.assert_allclose(x.grad.values().numpy(), y.grad.values().numpy())
    np.testing.assert_allclose(w.grad.numpy(), v.grad.numpy())


def test_hooks_on_saved_tensors_see_dense_values():
    packed = []
    with ndgrad.autograd.graph.saved_tensors_hooks(lambda t: (packed.append(t.is_nested), t)[1], lambda t: t):
        x = nested(arrays(3), True)
        (x * x).sum().backward()
    assert packed
    np.testing.assert_allclose(x.grad.values().numpy(), 2 * x.values().detach().numpy())


def test_anomaly_mode_names_the_op_and_the_line():
    x = nested([[1.0, -1.0], [2.0]], True)
    with ndgrad.autograd.set_detect_anomaly(True), np.errstate(invalid="ignore"):
        y = x.sqrt()
        with pytest.raises(RuntimeError, match="SqrtBackward0"):
            y.sum().backward()


@pytest.mark.parametrize(
    "f",
    [
        lambda x: x.softmax(1),
        lambda x: x.sum(1),
        lambda x: (x.transpose(1, 2) @ x).sin(),
        lambda x: x.amax(1),
        lambda x: x.to_padded_tensor(0.0) ** 2,
        lambda x: x[1:].prod(2),
        lambda x: x.logsumexp((1, 2)),
        lambda x: x * x.mean(1, keepdim=True),
    ],
    ids=range(8),
)
def test_gradcheck_and_gradgradcheck_of_nested_inputs(f):
    x = nested(arrays(2, lengths=(2, 1)), True)
    assert ndgrad.autograd.gradcheck(f, (x,), check_forward_ad=True, check_batched_grad=True)
    assert ndgrad.autograd.gradgradcheck(f, (x,), fast_mode=True)


@pytest.mark.parametrize("name", ["SGD", "Adam", "AdamW", "RMSprop", "Adagrad", "NAdam", "Adamax"])
def test_optimizers_step_a_nested_parameter_as_they_step_its_values(name):
    options = {"momentum": 0.9} if name == "SGD" else {}
    x = nested(arrays(3), True)
    v = x.values().detach().clone().requires_grad_()
    ours, plain = (getattr(ndgrad.optim, name)([p], lr=0.1, **options) for p in (x, v))
    for _ in range(3):
        for optimizer, p in ((ours, x), (plain, v)):
            optimizer.zero_grad()
            (p**2).sum().backward()
            optimizer.step()
    np.testing.assert_allclose(x.values().detach().numpy(), v.detach().numpy(), rtol=1e-12)


def test_clipping_norms_of_nested_gradients():
    x, w = nested(arrays(3), True), ndgrad.ones(3, dtype=ndgrad.float64, requires_grad=True)
    ((x * w) ** 2).sum().backward()
    ndgrad.nn.utils.clip_grad_norm_([x, w], 1.0)
    assert (x.grad.norm() ** 2 + w.grad.norm() ** 2).item() == pytest.approx(1.0, rel=1e-5)


def test_what_nobody_holds_is_freed_at_once():
    gc.collect()
    gc.disable()
    try:
        x = nested(arrays(3), True)
        y = (x * 2).softmax(1)
        held = [weakref.ref(t) for t in (x, y, y._node)]
        del x, y
        assert [r() for r in held] == [None] * 3
    finally:
        gc.enable()


def test_no_grad_inference_and_detach():
    x = nested(arrays(3), True)
    with ndgrad.no_grad():
        assert not (x * 2).requires_grad
    with ndgrad.inference_mode():
        y = x * 2
        assert y.is_inference()
    assert not (x.detach() * 2).requires_grad
    assert not (x > 0).requires_grad
    x.grad = ndgrad.ones_like(x)
    with pytest.raises(RuntimeError, match="assign a gradient"):
        x.grad = ndgrad.ones(9, 3, dtype=ndgrad.float64)
    with pytest.raises(RuntimeError, match="floating point"):
        nested([[1, 2], [3]], True)
