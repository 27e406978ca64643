"""The loss of sequences without alignment: against sums over all alignments, in every mode, at the edges."""

from __future__ import annotations

from itertools import product

import numpy as np
import pytest

import ndgrad
from ndgrad.nn.functional import ctc_loss


def by_alignments(log_probs, target, blank=0):
    total = 0.0
    for path in product(range(log_probs.shape[1]), repeat=log_probs.shape[0]):
        read = [c for i, c in enumerate(path) if c != blank and (i == 0 or path[i - 1] != c)]
        if read == list(target):
            total += np.exp(sum(log_probs[t, c] for t, c in enumerate(path)))
    return -np.log(total) if total else np.inf


def scores(*shape):
    x = np.random.default_rng(0).standard_normal(shape)
    return x - np.log(np.exp(x).sum(-1, keepdims=True))


@pytest.mark.parametrize("blank", [0, 2])
def test_the_loss_is_minus_the_log_of_a_sum_over_alignments(blank):
    x = scores(5, 4, 3)
    others = [c for c in range(3) if c != blank]
    targets = [[others[0]], [others[0], others[0]], [others[1], others[0], others[1]], []]
    padded = np.full((4, 3), -7)
    for row, target in zip(padded, targets, strict=True):
        row[: len(target)] = target
    found = ctc_loss(ndgrad.tensor(x), ndgrad.tensor(padded), [5, 4, 5, 3], [1, 2, 3, 0], blank=blank, reduction="none")
    expected = [by_alignments(x[:n, i], t, blank) for i, (n, t) in enumerate(zip([5, 4, 5, 3], targets, strict=True))]
    np.testing.assert_allclose(found.numpy(), expected, rtol=1e-12)


def test_derivatives_of_two_orders_and_both_modes():
    x = ndgrad.tensor(scores(4, 2, 3)).requires_grad_()
    targets = ndgrad.tensor([[1, 2], [2, 2]])

    def f(x):
        return ctc_loss(x, targets, [4, 3], [2, 2], reduction="none")

    assert ndgrad.autograd.gradcheck(f, (x,), check_forward_ad=True, check_batched_grad=True)
    assert ndgrad.autograd.gradgradcheck(f, (x,))
    small = ndgrad.tensor(scores(3, 1, 2))
    hessian = ndgrad.func.hessian(lambda x: ctc_loss(x, targets[:1, :1], [3], [1], reduction="sum"))(small)
    again = ndgrad.func.jacrev(ndgrad.func.jacrev(lambda x: ctc_loss(x, targets[:1, :1], [3], [1], reduction="sum")))(small)
    np.testing.assert_allclose(hessian.numpy(), again.numpy(), atol=1e-12)


def test_the_gradient_is_minus_the_probability_of_each_class_at_each_step():
    x = ndgrad.tensor(scores(4, 1, 3)).requires_grad_()
    ctc_loss(x, ndgrad.tensor([[1, 2]]), [4], [2], reduction="sum").backward()
    np.testing.assert_allclose(x.grad.sum(-1).numpy(), -1.0, rtol=1e-12)
    np.testing.assert_allclose(x.grad[0, 0, 2].item(), 0.0, atol=1e-15)  # the second label cannot stand first


def test_impossible_targets_are_infinite_or_zero():
    x = ndgrad.tensor(scores(3, 2, 3)).requires_grad_()
    targets = ndgrad.tensor([[1, 1], [1, 2]])
    loss = ctc_loss(x, targets, [2, 3], [2, 2], reduction="none")
    assert loss[0] == np.inf
    (grad,) = ndgrad.autograd.grad(loss.sum(), x)
    assert grad[:2, 0, :2].isnan().all()
    assert not grad[:, 1].isnan().any()
    loss = ctc_loss(x, targets, [2, 3], [2, 2], reduction="none", zero_infinity=True)
    (grad,) = ndgrad.autograd.grad(loss.sum(), x)
    assert loss[0] == 0
    assert (grad[:, 0] == 0).all()


def test_classes_of_probability_zero():
    x = np.full((3, 1, 3), -np.inf)
    x[:, :, 1] = 0.0
    x = ndgrad.tensor(x).requires_grad_()
    loss = ctc_loss(x, ndgrad.tensor([[1]]), [3], [1], reduction="sum")
    loss.backward()
    assert loss == 0
    np.testing.assert_array_equal(x.grad[:, 0].numpy(), [[0, -1, 0]] * 3)


def test_long_inputs_do_not_underflow():
    x = ndgrad.tensor(scores(300, 1, 5).astype(np.float32) - 50).requires_grad_()
    loss = ctc_loss(x, ndgrad.tensor([[1, 2, 3, 4] * 5]), [300], [20], reduction="sum")
    loss.backward()
    assert np.isfinite(loss.item())
    np.testing.assert_allclose(x.grad.sum(-1).numpy(), -1.0, rtol=1e-5)


def test_a_batch_of_scores_and_of_targets_is_the_loop():
    x, targets = ndgrad.tensor(scores(2, 4, 2, 3)), ndgrad.tensor([[[1, 2], [2, 2]], [[2, 1], [1, 1]]])

    def f(x, targets):
        return ctc_loss(x, targets, [4, 3], [2, 2])

    each = ndgrad.stack([f(a, b) for a, b in zip(x, targets, strict=True)])
    np.testing.assert_allclose(ndgrad.func.vmap(f)(x, targets).numpy(), each.numpy(), rtol=1e-12)


@pytest.mark.parametrize("targets", [[[1, 3]], [[-1, 1]]])
def test_classes_that_do_not_exist_are_refused(targets):
    with pytest.raises(IndexError, match="class numbers from 0 to 2"):
        ctc_loss(ndgrad.tensor(scores(4, 1, 3)), ndgrad.tensor(targets), [4], [2])


def test_lengths_that_are_no_sequences_are_refused():
    with pytest.raises(TypeError, match="input_lengths must be a tensor or a sequence"):
        ctc_loss(ndgrad.tensor(scores(4, 1, 3)), ndgrad.tensor([[1]]), 4, [1])
