"""Reductions and normalisations under masks, against NumPy's masked arrays and loops over unmasked elements."""

from __future__ import annotations

import numpy as np
import pytest

import ndgrad

r = np.random.default_rng(7)
X = r.standard_normal((4, 5))
MASK = r.random((4, 5)) < 0.6
MASK[0] = True


@pytest.mark.parametrize("name", ["sum", "prod", "mean", "amax", "amin"])
@pytest.mark.parametrize("dim", [0, 1, None])
def test_reductions_are_those_of_masked_arrays(name, dim):
    got = getattr(ndgrad.masked, name)(ndgrad.tensor(X), dim, mask=ndgrad.tensor(MASK)).numpy()
    want = getattr(np.ma.masked_array(X, ~MASK), name.removeprefix("a"))(axis=dim)
    np.testing.assert_allclose(got[~np.ma.getmaskarray(want)] if dim is not None else got, want.compressed() if dim is not None else want)


@pytest.mark.parametrize("correction", [0, 1])
def test_variances_are_those_of_what_is_kept(correction):
    got = ndgrad.masked.var(ndgrad.tensor(X), 1, correction=correction, mask=ndgrad.tensor(MASK)).numpy()
    want = [np.var(row[keep], ddof=correction) if keep.sum() > correction else np.nan for row, keep in zip(X, MASK, strict=True)]
    np.testing.assert_allclose(got, want)
    np.testing.assert_allclose(
        ndgrad.masked.std(ndgrad.tensor(X), 1, correction=correction, mask=ndgrad.tensor(MASK)).numpy(), np.sqrt(want)
    )


SMOOTH = ["sum", "mean", "prod", "var", "std", "logsumexp", "norm", "softmax", "log_softmax", "softmin", "normalize", "cumsum", "cumprod"]


@pytest.mark.parametrize("name", SMOOTH)
def test_what_is_masked_out_gets_no_gradient(name):
    x, mask = ndgrad.tensor(X[:2], requires_grad=True), ndgrad.tensor([[True, True, False, True, False]] * 2)
    extra = {"norm": (2.0, 1), "normalize": (2.0, 1)}.get(name, (1,))
    f = lambda x: (
        ndgrad.where(mask, getattr(ndgrad.masked, name)(x, *extra, mask=mask), 0.0)
        if name == "log_softmax"
        else getattr(ndgrad.masked, name)(x, *extra, mask=mask)
    )
    assert ndgrad.autograd.gradcheck(f, (x,), check_forward_ad=True)
    (g,) = ndgrad.autograd.grad((f(x) ** 2).sum(), x)
    assert (g[~mask] == 0).all()


def test_medians_and_positions():
    x, mask = ndgrad.tensor([[4, 1, 9, 3]]), ndgrad.tensor([[True, False, True, True]])
    assert ndgrad.masked.median(x, 1, mask=mask).tolist() == [4]
    assert ndgrad.masked.argmax(x, 1, mask=mask).tolist() == [2]
    assert ndgrad.masked.argmin(x, 1, mask=mask).tolist() == [3]
    with pytest.raises(ValueError, match="median"):
        ndgrad.masked.median(x, 1, mask=~mask & mask)


def test_masks_that_do_not_fit_are_refused():
    x = ndgrad.tensor(X)
    with pytest.raises(IndexError, match="dimensionality"):
        ndgrad.masked.sum(x, 1, mask=ndgrad.tensor(MASK)[None])
    with pytest.raises(RuntimeError):
        ndgrad.masked.sum(x, 1, mask=ndgrad.tensor(MASK)[:, :2])
    with pytest.raises(ValueError, match="floating"):
        ndgrad.masked.mean(ndgrad.tensor([1, 2]), 0)
