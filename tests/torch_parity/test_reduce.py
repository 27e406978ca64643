"""Reductions: the same program through torch and through ndgrad gives the same values, dtypes, gradients and errors."""

from __future__ import annotations

import math
import warnings

import numpy as np
import pytest

torch = pytest.importorskip("torch")

import ndgrad  # noqa: E402

inf, nan = math.inf, math.nan
r = np.random.default_rng(5)
A = r.standard_normal((3, 4))
CUBE = r.standard_normal((2, 3, 4))
Z = A + 1j * r.standard_normal((3, 4))
TIES = np.array([[1.0, 3.0, 3.0, 2.0], [2.0, 2.0, 2.0, 2.0], [0.0, -1.0, 0.0, -1.0]])
ZEROS = np.array([[2.0, 0.0, 3.0, 0.0], [1.5, -2.0, 0.0, 3.0], [1.0, 2.0, 3.0, 0.5]])
NANS = np.where(A > 0.8, nan, A)
EMPTY = np.empty((0, 3))
SCALAR = np.array(1.5)
INT, BOOL, BYTE = np.arange(12).reshape(3, 4) % 5, A > 0, (np.arange(12).reshape(3, 4) % 5).astype(np.uint8)


@pytest.fixture(autouse=True)
def float64():
    before = torch.get_default_dtype()
    torch.set_default_dtype(torch.float64)
    with warnings.catch_warnings(), np.errstate(all="ignore"):
        warnings.simplefilter("ignore")
        yield
    torch.set_default_dtype(before)


# A program is text, so that its name in a failing test says what it does; `t` is the library, x and y its tensors.
OVER_DIMS = [f"x.{f}({a})" for f in ("sum", "mean", "nansum", "nanmean") for a in ("", "0", "-1", "(0, 1)", "1, True", "dim=0, keepdim=True", "axis=1, keepdims=True", "()")]
EXTREMA = [f"x.{f}({a})" for f in ("max", "min") for a in ("", "0", "1", "-1, True", "dim=0", "x * 0.5")] + [
    f"x.{f}({a})" for f in ("amax", "amin") for a in ("", "0", "(0, 1)", "-1, True", "()")
] + ["t.aminmax(x)", "t.aminmax(x, dim=1)", "t.aminmax(x, dim=0, keepdim=True)", "t.max(x, other=-x)", "x.max() + x.min()"]
PLACES = [f"x.{f}({a})" for f in ("argmax", "argmin") for a in ("", "0", "1, True", "dim=None, keepdim=True")]
SPREAD = [f"x.{f}({a})" for f in ("var", "std") for a in ("", "0", "False", "0, False", "1, False, True", "(0, 1)", "0, unbiased=False", "correction=0", "1, correction=0.5", "dim=None, keepdim=True", "correction=None")]
SPREAD += [f"t.{f}(x{a})" for f in ("var_mean", "std_mean") for a in ("", ", 0", ", False", ", 1, False", ", dim=0, correction=2, keepdim=True")]
SCANS = [f"x.{f}({a})" for f in ("cumsum", "cumprod", "logcumsumexp", "cummax", "cummin") for a in ("0", "-1", "dim=1")]
SOFT = ["x.softmax(0)", "x.softmax(-1)", "t.softmax(x, 1)", "x.log_softmax(0)", "t.log_softmax(x, dim=-1)", "x.logsumexp(0)", "x.logsumexp((0, 1))", "x.logsumexp(-1, True)"]
ORDER = ["x.median()", "x.median(0)", "x.median(1, True)", "x.nanmedian()", "x.nanmedian(0)", "x.nanmedian(dim=1, keepdim=True)", "x.mode()", "x.mode(0, True)"]
QUANTILES = [f"t.{f}(x, {q}{a}, interpolation='{i}')" for f in ("quantile", "nanquantile") for q in ("0.4", "t.tensor([0.0, 0.3, 1.0])") for a in ("", ", 0", ", dim=-1, keepdim=True") for i in ("linear", "lower", "higher", "midpoint", "nearest")]
NORMS = [f"t.linalg_vector_norm(x, {p}{a})" for p in ("2", "1", "3", "0.5", "1.5", "-1", "-2", "inf", "-inf") for a in ("", ", 0", ", (0, 1), True")]
NORMS += ["x.norm()", "x.norm(1)", "x.norm(2, 0)", "t.norm(x, 'fro')", "t.norm(x, 'fro', dim=0)", "t.norm(x, inf, 1, True)", "t.norm(x, 3, dim=(0, 1))", "x.norm(p=None)", "x.norm(2, None, True)", "t.norm(x, 0)"]
NORMS += ["t.dist(x, x * 0.5)", "t.dist(x, x[0], 1)", "t.dist(x, x[0] * 0, inf)", "t.renorm(x, 2, 0, 1.0)", "t.renorm(x, 1, -1, 2.0)", "x.renorm(3, 1, 0.5)"]
MATRIX = [f"t.linalg_matrix_norm(x, {p}{a})" for p in ("'fro'", "1", "-1", "inf", "-inf", "'nuc'", "2", "-2") for a in ("", ", dim=(1, 0)", ", keepdim=True")]
MATRIX += ["t.linalg_norm(x)", "t.linalg_norm(x, 1)", "t.linalg_norm(x, 2, 0)", "t.linalg_norm(x, 'nuc')", "t.linalg_norm(x, inf, (0, 1))", "t.norm(x, 'nuc')", "t.linalg_norm(x, keepdim=True)", "t.linalg_norm(x[0], 3)"]
DIFFERENCES = ["t.diff(x)", "x.diff(2)", "x.diff(1, 0)", "x.diff(0)", "x.diff(n=9)", "t.diff(x, prepend=x[:, :2])", "t.diff(x, dim=0, append=x[:1], prepend=x[1:])"]
DIFFERENCES += [f"t.{f}({a})" for f in ("trapezoid", "cumulative_trapezoid") for a in ("x", "x, dx=2.0", "x, dim=0", "x, x[0]", "x, x[:, 0], dim=0", "x, x * x", "x[:, :1]", "x[:, :0]")] + ["t.trapz(x)"]
PRODUCTS = [f"x.prod({a})" for a in ("", "0", "1, True", "dim=-1")]
OTHERS = ["t.cov(x)", "t.cov(x, correction=0)", "t.cov(x[0])", "t.cov(x, fweights=t.tensor([1, 2, 1, 3]))", "t.cov(x, aweights=x[0] * x[0])", "t.corrcoef(x)", "t.corrcoef(x[0])"]

PROGRAMS = (
    [(p, a) for p in OVER_DIMS for a in (A, NANS) if a is A or p.startswith("x.nan")]
    + [(p, a) for p in EXTREMA for a in (A, TIES)]
    + [(p, a) for p in SPREAD + SOFT + SCANS + ORDER + PRODUCTS + DIFFERENCES + OTHERS for a in (A,)]
    + [(p, a) for p in SCANS + PRODUCTS for a in (ZEROS,)]
    + [(p, CUBE) for p in ("x.sum((0, 2))", "x.prod(1)", "x.std((0, 2))", "x.amax((0, 2))", "x.logsumexp((0, 2), True)", "x.max(1)", "x.softmax(1)", "x.cumprod(1)", "t.linalg_matrix_norm(x, 1, dim=(0, 2))", "t.linalg_matrix_norm(x, 2, dim=(2, 0), keepdim=True)", "t.quantile(x, t.tensor([0.2, 0.7]), dim=1)")]
    + [(p, Z) for p in ("x.sum(0)", "x.mean()", "x.prod(1)", "x.prod()", "x.var()", "x.std(0)", "t.var_mean(x)", "x.cumsum(0)", "x.cumprod(1)", "x.logcumsumexp(0)", "x.logsumexp(1)", "t.linalg_vector_norm(x, 3, 0)", "x.norm()", "t.norm(x, 1)", "t.norm(x, inf)", "t.linalg_matrix_norm(x, 'nuc')", "t.linalg_matrix_norm(x, 1)", "t.renorm(x, 2, 0, 1.0)", "t.cov(x)", "x.diff()", "t.dist(x, x * 1j)")]
    + [(p, a) for p in QUANTILES for a in (A, NANS)]
    + [(p, a) for p in NORMS for a in (A, ZEROS)]
    + [(p, a) for p in MATRIX for a in (A,)]
    + [(p, NANS) for p in ("x.max()", "x.max(0)", "x.amax(1)", "x.median()", "x.median(0)", "x.nanmedian()", "x.nanmedian(1)", "x.cummax(0)", "x.cummin(1)", "x.sum()", "x.prod(0)", "x.logsumexp(0)", "x.min()", "t.aminmax(x)")]
    + [(p, SCALAR) for p in ("x.sum()", "x.sum(0)", "x.sum(-1, True)", "x.mean(0)", "x.prod(0)", "x.max()", "x.max(0)", "x.max(0, True)", "x.amax(0)", "x.cumsum(0)", "x.cumprod(-1)", "x.cummax(0)", "x.softmax(0)", "x.log_softmax(-1)", "x.logsumexp(0)", "x.median()", "x.median(0)", "x.mode()", "x.std(correction=0)", "t.aminmax(x, dim=0)", "t.linalg_vector_norm(x)", "x.norm()", "t.linalg_norm(x)", "t.quantile(x, 0.5)", "t.quantile(x, 0.5, dim=0)", "t.cov(x, correction=0)")]
    + [(p, EMPTY) for p in ("x.sum()", "x.sum(0)", "x.mean(1)", "x.mean(0)", "x.prod()", "x.prod(0)", "x.amax(1)", "x.max(1)", "x.var(0)", "x.logsumexp(0)", "x.logsumexp(1)", "x.softmax(0)", "x.cumsum(0)", "x.cumprod(1)", "x.cummax(0)", "t.linalg_vector_norm(x)", "t.linalg_vector_norm(x, 1, 0)", "x.norm()", "x.median(1)", "x.mode(1)", "t.linalg_matrix_norm(x, 1)", "t.linalg_matrix_norm(x, 2)", "t.linalg_matrix_norm(x)", "t.trapezoid(x, dim=0)")]
    # singular points
    + [(p, np.array(v)) for v in ([0.0, 0.0], [0.0, 1.0], [1.0, 1.0], [-2.0, 1.0]) for p in ("x.std()", *(f"t.linalg_vector_norm(x, {q})" for q in ("2", "1", "3", "0.5", "1.5", "-1", "-2", "inf", "-inf")))]
    + [(p, np.array(v)) for v in ([1.0], [1.0, 1.0], [1.0, 2.0]) for p in ("x.var()", "x.std()", "x.var(correction=2)", "t.std_mean(x)", "x.var(correction=3)")]
    + [(p, np.array(v)) for v in ([-inf, -inf], [inf, 1.0], [inf, inf], [-inf, 1.0], [nan, 1.0]) for p in ("x.logsumexp(0)", "x.softmax(0)", "x.log_softmax(0)", "x.logcumsumexp(0)")]
)  # fmt: skip


class Torch:
    """torch, with names for what lies in its linalg namespace."""

    linalg_vector_norm = torch.linalg.vector_norm
    linalg_matrix_norm = torch.linalg.matrix_norm
    linalg_norm = torch.linalg.norm

    def __getattr__(self, name):
        return getattr(torch, name)


class Ours:
    def __getattr__(self, name):
        from ndgrad.api import norm

        if name.startswith("linalg_"):
            return getattr(norm, norm.LINALG[name.removeprefix("linalg_")])
        return getattr(ndgrad, name)


def run(program, library, make, array):
    """Outputs and gradient of a program, as arrays; or the class of the error."""
    x = make(array)
    smooth = array.dtype.kind in "fc"
    if smooth:
        x.requires_grad_()
    names = {"t": library, "x": x, "inf": inf, "nan": nan}
    result = eval(program, names)
    outs = tuple(result) if isinstance(result, tuple) else (result,)
    loss = 0.0
    weight = 1.0
    for o in outs:
        if o.requires_grad:
            flat = o.abs() * o.abs() if "complex" in str(o.dtype) else o
            loss = loss + (flat * weight).sum()
            weight = 0.7
    grad = None
    if smooth and not isinstance(loss, float):
        loss.backward()
        grad = None if x.grad is None else to_numpy(x.grad)
    fields = getattr(result, "_fields", None) or ([n for n in dir(result) if n in ("values", "indices", "min", "max")] if hasattr(result, "n_fields") else None)
    return [to_numpy(o) for o in outs], grad, fields and sorted(fields)


def to_numpy(t):
    t = t.detach()
    return np.asarray((t.resolve_conj() if isinstance(t, torch.Tensor) else t).numpy())


def compare(program, array):
    want, want_grad, want_fields = run(program, Torch(), lambda a: torch.tensor(a), array)
    got, got_grad, got_fields = run(program, Ours(), lambda a: ndgrad.tensor(a), array)
    assert got_fields == want_fields
    assert len(got) == len(want)
    for g, w in zip(got, want, strict=True):
        assert g.shape == w.shape
        assert g.dtype == w.dtype
        np.testing.assert_allclose(g, w, rtol=1e-9, atol=1e-12)
    if want_grad is None:
        # torch has no graph where a result is constant, or empty
        assert got_grad is None or not got_grad.any()
    else:
        np.testing.assert_allclose(got_grad, want_grad, rtol=1e-7, atol=1e-10)


@pytest.mark.parametrize(("program", "array"), PROGRAMS, ids=[f"{i}-{p}" for i, (p, _) in enumerate(PROGRAMS)])
def test_values_and_gradients(program, array):
    compare(program, array)


DISCRETE = [
    (p, a)
    for a in (INT, BOOL, BYTE)
    for p in ("x.sum()", "x.sum(0)", "x.prod(1)", "x.prod()", "x.cumsum(0)", "x.cumprod(1)", "x.all()", "x.any(0)", "x.all(1, True)", "x.any((0, 1))", "x.all(dim=())", "t.count_nonzero(x)", "t.count_nonzero(x, dim=0)", "x.max()", "x.min(0)", "x.amax(1)", "x.cummax(0)", "x.nansum()", "x.logsumexp(0)", "x.sum(dtype=t.float64)", "x.mean(dtype=t.float64)", "x.sum(0, dtype=t.int32)", "x.diff()")
] + [
    ("x.softmax(0, dtype=t.float64)", INT), ("x.argmax()", INT), ("x.argmin(1)", BYTE), ("x.median()", INT), ("x.median(0)", INT), ("x.mode(0)", INT), ("t.bincount(x.reshape(-1))", INT),
    ("t.bincount(x[0], t.tensor([0.5, 1.0, 2.0, 3.0]))", INT), ("t.bincount(x[0], minlength=9)", INT), ("t.bincount(x[0], x[1])", INT), ("t.cov(x)", INT), ("t.trapezoid(x)", INT),
    ("t.histc(x, 4)", A), ("t.histc(x, 5, -1, 1)", A), ("t.histc(x, bins=3, min=0, max=9)", A), ("t.histc(x[:0], 3)", A), ("t.histc(x * 0 + 1, 3)", A),
]  # fmt: skip


@pytest.mark.parametrize(("program", "array"), DISCRETE + [(p, A) for p in PLACES], ids=lambda v: v if isinstance(v, str) else str(v.dtype))
def test_integers_bools_and_counts(program, array):
    compare(program, array)


@pytest.mark.parametrize("dtype", [np.float32, np.float16, np.complex64])
@pytest.mark.parametrize("program", ["x.sum()", "x.sum(0)", "x.mean()", "x.prod(1)", "x.var()", "x.std(0)", "x.norm()", "x.norm(1)", "x.logsumexp(0)", "x.cumsum(0)", "x.softmax(0)", "x.max()", "x.amax(0)", "x.logcumsumexp(1)"])  # fmt: skip
def test_narrow_dtypes_stay(program, dtype):
    if dtype is np.complex64 and any(f in program for f in ("softmax", "max")):
        pytest.skip("complex numbers have no order")
    array = (Z if dtype is np.complex64 else A).astype(dtype)
    want, want_grad, _ = run(program, Torch(), lambda a: torch.tensor(a), array)
    got, got_grad, _ = run(program, Ours(), lambda a: ndgrad.tensor(a), array)
    assert got[0].dtype == want[0].dtype
    assert got_grad.dtype == want_grad.dtype
    tolerance = 2e-2 if dtype is np.float16 else 2e-5
    np.testing.assert_allclose(got[0], want[0], rtol=tolerance, atol=tolerance)
    np.testing.assert_allclose(got_grad, want_grad, rtol=tolerance, atol=tolerance)


ERRORS = [
    (p, a)
    for f in ("sum", "mean", "amax", "var", "max", "softmax", "cumsum", "argmax", "median", "logsumexp", "all", "mode")
    for p, a in ((f"x.{f}(5)", A), (f"x.{f}(-3)", A), (f"x.{f}(1)", SCALAR))
] + [
    ("x.sum((0, 0))", A), ("x.amax((0, -2))", A), ("x.std((1, 1))", A),
    ("x.max()", EMPTY), ("x.min(0)", EMPTY), ("x.amax()", EMPTY), ("x.amin(0)", EMPTY), ("t.aminmax(x)", EMPTY), ("t.aminmax(x, dim=0)", EMPTY),
    ("x.argmax()", EMPTY), ("x.argmax(0)", EMPTY), ("x.median(0)", EMPTY), ("x.mode(0)", EMPTY), ("t.quantile(x, 0.5)", EMPTY),
    ("t.linalg_vector_norm(x, inf)", EMPTY), ("t.linalg_vector_norm(x, -1)", EMPTY),
    ("x.mean()", INT), ("x.mean(0)", BOOL), ("x.nanmean()", INT), ("x.var()", INT), ("x.std(0)", INT), ("x.softmax(0)", INT), ("x.logcumsumexp(0)", INT),
    ("x.norm()", INT), ("t.quantile(x, 0.5)", INT), ("t.histc(x, 3)", INT), ("x.argmax()", BOOL), ("x.argmax()", Z), ("x.max()", Z), ("x.amax(0)", Z), ("x.cummax(0)", Z), ("x.softmax(0)", Z), ("x.median()", Z),
    ("x.std(0, unbiased=True, correction=1)", A), ("x.max((0, 1))", A), ("x.max(x, 1)", A), ("x.softmax(None)", A), ("x.softmax()", A), ("x.cumsum()", A),
    ("x.logsumexp()", A), ("t.quantile(x, 1.5)", A), ("t.quantile(x, 0.5, interpolation='cubic')", A), ("t.quantile(x, t.ones(1, 1))", A), ("t.quantile(x, t.tensor([1]))", A),
    ("t.diff(x)", SCALAR), ("t.diff(x, -1)", A), ("t.diff(x, prepend=x[:1])", A), ("t.trapezoid(x)", SCALAR), ("t.trapezoid(x, x[0, :2])", A), ("t.trapezoid(x, x, dx=1.0)", A),
    ("t.histc(x, 0)", A), ("t.histc(x, 3, 2, 1)", A), ("t.histc(x, 3)", NANS), ("t.bincount(x)", A), ("t.bincount(x)", INT), ("t.bincount(-x[0])", INT),
    ("t.cov(x)", CUBE), ("t.corrcoef(x)", CUBE), ("t.cov(x, fweights=x[0])", A), ("t.cov(x, aweights=t.tensor([1, 2, 3, 4]))", A), ("t.cov(x, aweights=x[0, :2])", A),
    ("t.renorm(x, 2, 5, 1.0)", A), ("t.renorm(x[0], 2, 0, 1.0)", A), ("t.renorm(x, 0, 0, 1.0)", A), ("t.renorm(x, 2, 0, -1.0)", A),
    ("t.norm(x, 'max')", A), ("t.norm(x, dtype=t.float32)", A), ("t.linalg_vector_norm(x, 'fro')", A), ("t.linalg_matrix_norm(x, 3)", A), ("t.linalg_matrix_norm(x[0])", A),
    ("t.linalg_matrix_norm(x, dim=(0, 0))", A), ("t.linalg_norm(x, 2)", CUBE), ("t.linalg_norm(x, 'fro', dim=0)", A), ("t.linalg_norm(x, 3, dim=(0, 1))", A),
    ("x.cumsum_(0, dtype=t.float32)", A), ("t.sum(3)", A), ("t.sum(x, 0, out=t.empty(0))", A),
]  # fmt: skip


@pytest.mark.parametrize(("program", "array"), ERRORS, ids=[f"{i}-{p}" for i, (p, _) in enumerate(ERRORS)])
def test_errors_are_of_torchs_class(program, array):
    with pytest.raises(Exception) as theirs:  # noqa: B017, PT011 (whatever torch raises)
        run(program, Torch(), lambda a: torch.tensor(a), array)
    with pytest.raises(type(theirs.value)) as ours:
        run(program, Ours(), lambda a: ndgrad.tensor(a), array)
    assert len(str(ours.value)) > 20


def test_second_derivative_of_products_with_zeros():
    """d^2 (prod x) / dx_i dx_j is the product of all others, whatever is zero."""
    for values in ([0.0, 2.0, 3.0], [0.0, 0.0, 3.0], [0.0, 0.0, 0.0], [1.0, 2.0, 3.0]):
        for program in ("x.prod()", "x.prod(0)", "x.cumprod(0)[-1]"):
            hessians = []
            for library, x in ((torch, torch.tensor(values)), (ndgrad, ndgrad.tensor(values))):
                x.requires_grad_()
                y = eval(program, {"x": x})
                (g,) = library.autograd.grad(y, x, create_graph=True)
                rows = [library.autograd.grad(g[i], x, retain_graph=True)[0] for i in range(3)]
                hessians.append(np.stack([np.asarray(row.numpy()) for row in rows]))
            np.testing.assert_allclose(hessians[1], hessians[0], atol=1e-12)


@pytest.mark.parametrize("program", ["x.sum()", "x.sum(0)", "x.mean()", "x.mean(0)", "x.prod()", "x.prod(0)", "x.max()", "x.max(0)[0]", "x.amax()", "x.median()", "x.median(0)[0]", "x.nanmedian()", "x.mode()[0]", "x.var()", "x.std(0)", "x.cumsum(0)", "x.cummin(0)[0]", "x.logsumexp(0)", "x.softmax(0)", "x.log_softmax(0)", "x.norm()", "x.nansum()", "x.logcumsumexp(0)", "x.cumprod(0)"])  # fmt: skip
def test_backward_nodes_have_torchs_names(program):
    theirs = eval(program, {"x": torch.tensor(A).requires_grad_()}).grad_fn.name()
    assert eval(program, {"x": ndgrad.tensor(A).requires_grad_()}).grad_fn.name() == theirs
