"""Losses of class numbers by one kernel each way: equal to the ops that they replace, for every form and option."""

from __future__ import annotations

import numpy as np
import pytest

import ndgrad as nd
import ndgrad.nn.functional as F
from ndgrad._src.arrays import native_kernels

pytest.importorskip("llvmlite", reason="native kernels need llvmlite")

FORMS = {
    "nll": F.nll_loss,
    "cross entropy": F.cross_entropy,
    "smoothed": lambda x, t, **k: F.cross_entropy(x, t, label_smoothing=0.2, **k),
    "margin": lambda x, t, ignore_index=None, **k: F.multi_margin_loss(x, t, margin=0.7, **k),
    "square margin": lambda x, t, ignore_index=None, **k: F.multi_margin_loss(x, t, p=2, **k),
}


def _run(form, x, labels, weight, reduction, wanted):
    with native_kernels.kernels_in_use(wanted):
        scores = nd.tensor(x, requires_grad=True)
        given = None if weight is None else nd.tensor(weight)
        loss = FORMS[form](scores, nd.tensor(labels), weight=given, ignore_index=2, reduction=reduction)
        g = nd.tensor(np.linspace(0.5, 1.5, loss.numel(), dtype=x.dtype).reshape(tuple(loss.shape)))
        loss.backward(g, retain_graph=True)  # the rule on arrays
        (first,) = nd.autograd.grad(loss, scores, g, create_graph=True)
        second = nd.zeros_like(first)
        if first.requires_grad:
            (second,) = nd.autograd.grad((first * first).sum(), scores)
    return [loss, scores.grad, first, second]


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
@pytest.mark.parametrize("form", FORMS)
def test_kernels_equal_the_ops(form, dtype):
    r = np.random.default_rng(0)
    for rows, classes in ((1, 3), (5, 4), (33, 70)):
        x, labels = r.standard_normal((rows, classes)).astype(dtype), r.integers(0, classes, rows)
        labels[0] = 1
        if form.endswith("margin"):
            labels[labels == 2] = 0
        weight = r.uniform(0.1, 2, classes).astype(dtype)
        for given in (None, weight):
            for reduction in ("none", "sum", "mean"):
                found, expected = (_run(form, x, labels, given, reduction, wanted) for wanted in (True, False))
                for a, b in zip(found, expected, strict=True):
                    scale = max(1.0, np.abs(b.detach().numpy()).max())
                    np.testing.assert_allclose(
                        a.detach().numpy(), b.detach().numpy(), rtol=0, atol=32 * np.finfo(dtype).eps * scale
                    )


@pytest.mark.parametrize("form", FORMS)
def test_nan_stays_in_its_row_and_ignored_rows_have_gradient_zero(form):
    x = np.zeros((4, 5), np.float32)
    x[1], x[2, 3] = np.nan, np.nan
    labels = np.array([0, 1 if form.endswith("margin") else 2, 1, 4])
    (loss, gradient, *_), (expected, *_) = (_run(form, x, labels, None, "none", wanted) for wanted in (True, False))
    np.testing.assert_allclose(loss.detach().numpy(), expected.detach().numpy(), rtol=1e-6)
    gradient = gradient.numpy()
    assert np.isfinite(gradient[[0, 3]]).all()
    assert form == "nll" or np.isnan(gradient[2]).any()
    assert form.endswith("margin") or (gradient[1] == 0).all()


@pytest.mark.parametrize("form", FORMS)
def test_target_outside_of_the_classes_raises_and_reads_nothing(form):
    for wrong in (-1, 5, 1 << 40):
        with pytest.raises(IndexError, match=rf"Target {wrong} is out of bounds for 5 classes"):
            _run(form, np.zeros((3, 5), np.float32), np.array([0, wrong, 2]), None, "mean", True)


def test_classes_with_weight_nan_are_no_wrong_targets():
    weight = nd.tensor([1.0, float("nan")])
    assert F.nll_loss(nd.zeros(2, 2), nd.tensor([0, 1]), weight).isnan()
