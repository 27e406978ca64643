"""Options of SciPy's functions have SciPy's effect, or are refused: none is accepted and ignored."""

from __future__ import annotations

import numpy
import pytest

import ndgrad.numpy as np
from ndgrad.scipy import interpolate, linalg, ndimage, signal, sparse, special, stats

scipy = pytest.importorskip("scipy")
for _name in ("interpolate", "ndimage", "signal", "sparse", "stats"):
    pytest.importorskip(f"scipy.{_name}")


@pytest.mark.parametrize(
    ("name", "argument"),
    [
        ("diags_array", [[1.0, 2.0], [3.0]]),
        ("block_array", [[[[1.0]], None], [None, [[2.0]]]]),
        ("hstack", [numpy.eye(2), numpy.eye(2)]),
        ("vstack", [numpy.eye(2), numpy.eye(2)]),
        ("block_diag", [numpy.eye(2), numpy.ones((1, 2))]),
    ],
)
def test_dtype_of_a_sparse_matrix(name, argument):
    theirs = (
        argument
        if name in ("diags_array", "block_diag")
        else [scipy.sparse.coo_array(a) for a in argument]
        if name != "block_array"
        else [[None if b is None else scipy.sparse.coo_array(b) for b in line] for line in argument]
    )
    options = {"offsets": [0, 1]} if name == "diags_array" else {}
    want = getattr(scipy.sparse, name)(theirs, dtype=numpy.float32, **options)
    got = getattr(sparse, name)(argument, dtype=numpy.float32, **options)
    assert got.dtype == want.dtype == numpy.float32
    assert numpy.array_equal(numpy.asarray(got.toarray()), want.toarray())


def test_copies_of_sparse_matrices_have_their_own_entries():
    a = sparse.csr_array(([1.0, 2.0], ([0, 1], [1, 0])))
    for made in (a.tocsr(copy=True), a.transpose(copy=True), a.conj(), sparse.csr_array(a, copy=True)):
        made.data[...] = 7.0
    assert numpy.array_equal(numpy.asarray(a.data), [1.0, 2.0])
    shared = a.tocsr()
    shared.data[...] = 7.0
    assert numpy.array_equal(numpy.asarray(a.data), [7.0, 7.0])


def test_dense_form_of_a_sparse_matrix():
    a = sparse.csr_array([[1.0, 2.0, 0.0], [0.0, 3.0, 0.0]])
    assert numpy.asarray(a.toarray(order="F")).flags.f_contiguous
    with pytest.raises(NotImplementedError, match="out="):
        a.toarray(out=np.zeros((2, 3)))
    with pytest.raises(ValueError, match="axes"):
        a.transpose(axes=(0, 1))
    with pytest.raises(TypeError, match="[Cc]ast"):
        a.astype(numpy.int64, casting="safe")


@pytest.mark.parametrize("name", ["gmean", "hmean"])
def test_dtype_of_a_mean(name):
    x = numpy.array([1.0, 2.5, 4.0])
    want, got = getattr(scipy.stats, name)(x, dtype=numpy.float32), getattr(stats, name)(x, dtype=numpy.float32)
    assert numpy.asarray(got).dtype == want.dtype
    assert numpy.allclose(numpy.asarray(got), want)


@pytest.mark.parametrize(("name", "more"), [("fourier_gaussian", 0.5), ("fourier_shift", 1.0), ("fourier_uniform", 1.5)])
def test_output_of_a_spectral_filter(name, more):
    x = numpy.arange(4.0) + 1j
    want = numpy.zeros(4, complex)
    getattr(scipy.ndimage, name)(x, more, output=want)
    got = np.zeros(4, dtype=complex)
    assert getattr(ndimage, name)(x, more, output=got) is got
    assert numpy.allclose(numpy.asarray(got), want)


def test_responses_are_plotted():
    drawn = []
    w, h = signal.freqz([0.5, 0.5], worN=4, plot=lambda *a: drawn.append(a))
    v, g = signal.freqs([1.0], [1.0, 1.0], worN=[0.0, 1.0], plot=lambda *a: drawn.append(a))
    assert [a[0] is b and a[1] is c for a, b, c in zip(drawn, (w, v), (h, g), strict=True)] == [True, True]


def test_design_matrix_outside_of_the_knots():
    knots, points = [0.0, 0.0, 1.0, 2.0, 2.0], [0.5, 2.5]
    with pytest.raises(ValueError):
        scipy.interpolate.BSpline.design_matrix(points, knots, 1)
    with pytest.raises(ValueError, match="outside"):
        interpolate.BSpline.design_matrix(points, knots, 1)
    want = scipy.interpolate.BSpline.design_matrix(points, knots, 1, extrapolate=True).toarray()
    assert numpy.allclose(numpy.asarray(interpolate.BSpline.design_matrix(points, knots, 1, extrapolate=True)), want)


def two_by_two():
    return sparse.csr_array([[4.0, 1.0], [1.0, 3.0]])


@pytest.mark.parametrize(
    "call",
    [
        lambda: sparse.linalg.minres(two_by_two(), [1.0, 2.0], shift=2.0),
        lambda: sparse.linalg.cg(two_by_two(), [1.0, 2.0], rtoll=1e-3),
        lambda: sparse.linalg.lsqr(two_by_two(), [1.0, 2.0], damping=1.0),
        lambda: sparse.linalg.expm_multiply(two_by_two(), [1.0, 2.0], num=3),
        lambda: stats.ttest_ind([1.0, 2.0], [2.0, 3.5], trim=0.1),
        lambda: stats.ttest_1samp([1.0, 2.0], 0.0, keepdims=True),
        lambda: stats.ttest_rel([1.0, 2.0], [2.0, 3.5], keepdims=True),
        lambda: stats.f_oneway([1.0, 2.0], [2.0, 3.5], equal_var=False),
        lambda: stats.pearsonr([1.0, 2.0, 3.0], [2.0, 1.0, 3.0], method=scipy.stats.PermutationMethod()),
        lambda: stats.boxcox_llf(1.0, [1.0, 2.0], nan_policy="omit"),
        lambda: stats.yeojohnson_llf(1.0, [1.0, 2.0], nan_policy="omit"),
        lambda: special.factorial(3.0, extend="complex"),
        lambda: special.softplus(1.0, where=False),
        lambda: linalg.logm(numpy.eye(2), disp=False),
        lambda: linalg.sqrtm(numpy.eye(2), disp=False),
        lambda: linalg.signm(numpy.eye(2), disp=False),
        lambda: linalg.funm(numpy.eye(2), np.exp, disp=False),
        lambda: interpolate.splrep([0.0, 1.0, 2.0], [0.0, 2.0, 3.0], k=1, full_output=1),
        lambda: interpolate.splint(0.0, 1.0, interpolate.splrep([0.0, 1.0, 2.0], [0.0, 2.0, 3.0], k=1), full_output=1),
    ],
)
def test_options_without_a_rule_are_refused(call):
    with pytest.raises((TypeError, NotImplementedError), match=r"\[nd-(unsupported|no-derivative)\]"):
        call()
