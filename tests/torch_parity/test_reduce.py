"""Reductions: the same program through torch and through ndgrad gives the same values, dtypes, gradients and errors."""

from __future__ import annotations

import math

import numpy as np
import pytest
import torch

import ndgrad
from ndgrad._src.tensor.functions import norm

pytestmark = [pytest.mark.usefixtures("float64_torch"), pytest.mark.filterwarnings("ignore")]

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
def quiet_numpy():
    with np.errstate(all="ignore"):
        yield


# Programs are text, so that the name of a failing test says what it does; `t` is the library, x its tensor.


def programs(text):
    return [program.strip() for program in text.replace("\n", " ").split(";")]


def forms(functions, arguments):
    """Every function with every form of its arguments, which go where the … is."""
    return [f.replace("…", a) for f in programs(functions) for a in programs(arguments)]


OVER_DIMS = forms(
    "x.sum(…); x.mean(…); x.nansum(…); x.nanmean(…)",
    "; 0; -1; (0, 1); 1, True; dim=0, keepdim=True; axis=1, keepdims=True; ()",
)
PRODUCTS = forms("x.prod(…)", "; 0; 1, True; dim=-1")
EXTREMA = (
    forms("x.max(…); x.min(…)", "; 0; 1; -1, True; dim=0; x * 0.5")
    + forms("x.amax(…); x.amin(…)", "; 0; (0, 1); -1, True; ()")
    + forms("t.aminmax(x…)", "; , dim=1; , dim=0, keepdim=True")
    + programs("t.max(x, other=-x); x.max() + x.min()")
)
PLACES = forms("x.argmax(…); x.argmin(…)", "; 0; 1, True; dim=None, keepdim=True")
SPREAD = forms(
    "x.var(…); x.std(…)",
    """; 0; False; 0, False; 1, False, True; (0, 1); 0, unbiased=False; correction=0; 1, correction=0.5; dim=None, keepdim=True;
    correction=None""",
) + forms("t.var_mean(x…); t.std_mean(x…)", "; , 0; , False; , 1, False; , dim=0, correction=2, keepdim=True")
SCANS = forms("x.cumsum(…); x.cumprod(…); x.logcumsumexp(…); x.cummax(…); x.cummin(…)", "0; -1; dim=1")
SOFT = programs(
    """x.softmax(0); x.softmax(-1); t.softmax(x, 1); x.log_softmax(0); t.log_softmax(x, dim=-1); x.logsumexp(0);
    x.logsumexp((0, 1)); x.logsumexp(-1, True)"""
)
ORDER = programs(
    """x.median(); x.median(0); x.median(1, True); x.nanmedian(); x.nanmedian(0); x.nanmedian(dim=1, keepdim=True);
    x.mode(); x.mode(0, True)"""
)
QUANTILES = [
    f"t.{f}(x, {q}{a}, interpolation='{i}')"
    for f in ("quantile", "nanquantile")
    for q in ("0.4", "t.tensor([0.0, 0.3, 1.0])")
    for a in ("", ", 0", ", dim=-1, keepdim=True")
    for i in ("linear", "lower", "higher", "midpoint", "nearest")
]
ORDERS = programs("2; 1; 3; 0.5; 1.5; -1; -2; inf; -inf")
NORMS = [f"t.vector_norm(x, {p}{a})" for p in ORDERS for a in ("", ", 0", ", (0, 1), True")] + programs(
    """x.norm(); x.norm(1); x.norm(2, 0); t.norm(x, 'fro'); t.norm(x, 'fro', dim=0); t.norm(x, inf, 1, True);
    t.norm(x, 3, dim=(0, 1)); x.norm(p=None); x.norm(2, None, True); t.norm(x, 0); t.dist(x, x * 0.5); t.dist(x, x[0], 1);
    t.dist(x, x[0] * 0, inf); t.renorm(x, 2, 0, 1.0); t.renorm(x, 1, -1, 2.0); x.renorm(3, 1, 0.5)"""
)
MATRIX = [
    f"t.matrix_norm(x, {p}{a})"
    for p in programs("'fro'; 1; -1; inf; -inf; 'nuc'; 2; -2")
    for a in ("", ", dim=(1, 0)", ", keepdim=True")
] + programs(
    """t.linalg_norm(x); t.linalg_norm(x, 1); t.linalg_norm(x, 2, 0); t.linalg_norm(x, 'nuc'); t.linalg_norm(x, inf, (0, 1));
    t.norm(x, 'nuc'); t.linalg_norm(x, keepdim=True); t.linalg_norm(x[0], 3)"""
)
DIFFERENCES = programs(
    """t.diff(x); x.diff(2); x.diff(1, 0); x.diff(0); x.diff(n=9); t.diff(x, prepend=x[:, :2]);
    t.diff(x, dim=0, append=x[:1], prepend=x[1:]); t.trapz(x)"""
) + [
    f"t.{f}({a})"
    for f in ("trapezoid", "cumulative_trapezoid")
    for a in programs("x; x, dx=2.0; x, dim=0; x, x[0]; x, x[:, 0], dim=0; x, x * x; x[:, :1]; x[:, :0]")
]
OTHERS = programs(
    """t.cov(x); t.cov(x, correction=0); t.cov(x[0]); t.cov(x, fweights=t.tensor([1, 2, 1, 3])); t.cov(x, aweights=x[0] * x[0]);
    t.corrcoef(x); t.corrcoef(x[0])"""
)

PROGRAMS = [
    (program, array)
    for array, text in [
        (A, OVER_DIMS + EXTREMA + SPREAD + SOFT + SCANS + ORDER + PRODUCTS + DIFFERENCES + OTHERS + QUANTILES + NORMS + MATRIX),
        (TIES, EXTREMA),
        (ZEROS, SCANS + PRODUCTS + NORMS),
        (NANS, [p for p in OVER_DIMS if "nan" in p] + QUANTILES),
        (
            NANS,
            """x.max(); x.max(0); x.amax(1); x.median(); x.median(0); x.nanmedian(); x.nanmedian(1); x.cummax(0); x.cummin(1); x.sum();
            x.prod(0).detach(); x.logsumexp(0); x.min(); t.aminmax(x)""",  # the gradient of prod is a deliberate difference
        ),
        (
            CUBE,
            """x.sum((0, 2)); x.prod(1); x.std((0, 2)); x.amax((0, 2)); x.logsumexp((0, 2), True); x.max(1); x.softmax(1); x.cumprod(1);
            t.matrix_norm(x, 1, dim=(0, 2)); t.matrix_norm(x, 2, dim=(2, 0), keepdim=True); t.quantile(x, t.tensor([0.2, 0.7]), dim=1)""",
        ),
        (
            Z,
            """x.sum(0); x.mean(); x.prod(1); x.prod(); x.var(); x.std(0); t.var_mean(x); x.cumsum(0); x.cumprod(1); x.logcumsumexp(0);
            x.logsumexp(1); t.vector_norm(x, 3, 0); x.norm(); t.norm(x, 1); t.norm(x, inf); t.matrix_norm(x, 'nuc'); t.matrix_norm(x, 1);
            t.renorm(x, 2, 0, 1.0); t.cov(x); x.diff(); t.dist(x, x * 1j)""",
        ),
        (
            SCALAR,
            """x.sum(); x.sum(0); x.sum(-1, True); x.mean(0); x.prod(0); x.max(); x.max(0); x.max(0, True); x.amax(0); x.cumsum(0);
            x.cumprod(-1); x.cummax(0); x.softmax(0); x.log_softmax(-1); x.logsumexp(0); x.median(); x.median(0); x.mode();
            x.std(correction=0); t.aminmax(x, dim=0); t.vector_norm(x); x.norm(); t.linalg_norm(x); t.quantile(x, 0.5);
            t.quantile(x, 0.5, dim=0); t.cov(x, correction=0)""",
        ),
        (
            EMPTY,
            """x.sum(); x.sum(0); x.mean(1); x.mean(0); x.prod(); x.prod(0); x.amax(1); x.max(1); x.var(0); x.logsumexp(0); x.logsumexp(1);
            x.softmax(0); x.cumsum(0); x.cumprod(1); x.cummax(0); t.vector_norm(x); t.vector_norm(x, 1, 0); x.norm(); x.median(1);
            x.mode(1); t.matrix_norm(x, 1); t.matrix_norm(x, 2); t.matrix_norm(x); t.trapezoid(x, dim=0)""",
        ),
        # singular points
        *(
            (np.array(v), ["x.std()", *(f"t.vector_norm(x, {p})" for p in ORDERS)])
            for v in ([0.0, 0.0], [0.0, 1.0], [1.0, 1.0], [-2.0, 1.0])
        ),
        *(
            (np.array(v), "x.var(); x.std(); x.var(correction=2); t.std_mean(x); x.var(correction=3)")
            for v in ([1.0], [1.0, 1.0], [1.0, 2.0])
        ),
        *(
            (np.array(v), "x.logsumexp(0); x.softmax(0); x.log_softmax(0); x.logcumsumexp(0)")
            for v in ([-inf, -inf], [inf, 1.0], [inf, inf], [-inf, 1.0], [nan, 1.0])
        ),
    ]
    for program in (programs(text) if isinstance(text, str) else text)
]


class Torch:
    """torch, with names for what lies in its linalg namespace."""

    vector_norm = torch.linalg.vector_norm
    matrix_norm = torch.linalg.matrix_norm
    linalg_norm = torch.linalg.norm

    def __getattr__(self, name):
        return getattr(torch, name)


class Ours:
    def __getattr__(self, name):
        return getattr(norm if name in norm.LINALG.values() else ndgrad, name)


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
    fields = [n for n in ("values", "indices", "min", "max") if type(result) not in (tuple, type(x)) and hasattr(result, n)]
    return [to_numpy(o) for o in outs], grad, fields


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
    (program, array)
    for arrays, text in [
        (
            (INT, BOOL, BYTE),
            """x.sum(); x.sum(0); x.prod(1); x.prod(); x.cumsum(0); x.cumprod(1); x.all(); x.any(0); x.all(1, True); x.any((0, 1));
            x.all(dim=()); t.count_nonzero(x); t.count_nonzero(x, dim=0); x.max(); x.min(0); x.amax(1); x.cummax(0); x.nansum();
            x.logsumexp(0); x.sum(dtype=t.float64); x.mean(dtype=t.float64); x.sum(0, dtype=t.int32); x.diff()""",
        ),
        (
            (INT,),
            """x.softmax(0, dtype=t.float64); x.argmax(); x.argmin(1); x.median(); x.median(0); x.mode(0); t.bincount(x.reshape(-1));
            t.bincount(x[0], t.tensor([0.5, 1.0, 2.0, 3.0])); t.bincount(x[0], minlength=9); t.bincount(x[0], x[1]); t.cov(x);
            t.trapezoid(x)""",
        ),
        (
            (A,),
            """t.histc(x, 4); t.histc(x, 5, -1, 1); t.histc(x, bins=3, min=0, max=9); t.histc(x[:0], 3); t.histc(x * 0 + 1, 3);"""
            + ";".join(PLACES),
        ),
    ]
    for array in arrays
    for program in programs(text)
]


@pytest.mark.parametrize(("program", "array"), DISCRETE, ids=lambda v: v if isinstance(v, str) else str(v.dtype))
def test_integers_bools_and_counts(program, array):
    compare(program, array)


ANY_NUMBERS = programs(
    "x.sum(); x.sum(0); x.mean(); x.prod(1); x.var(); x.std(0); x.norm(); x.norm(1); x.logsumexp(0); x.cumsum(0); x.logcumsumexp(1)"
)
NARROW = [(p, a) for p in [*ANY_NUMBERS, "x.softmax(0)", "x.max()", "x.amax(0)"] for a in (A.astype(np.float32), A.astype(np.float16))]
NARROW += [(p, Z.astype(np.complex64)) for p in ANY_NUMBERS]


@pytest.mark.parametrize(("program", "array"), NARROW, ids=lambda v: v if isinstance(v, str) else str(v.dtype))
def test_narrow_dtypes_stay(program, array):
    want, want_grad, _ = run(program, Torch(), lambda a: torch.tensor(a), array)
    got, got_grad, _ = run(program, Ours(), lambda a: ndgrad.tensor(a), array)
    assert got[0].dtype == want[0].dtype
    assert got_grad.dtype == want_grad.dtype
    tolerance = 2e-2 if array.dtype == np.float16 else 2e-5
    np.testing.assert_allclose(got[0], want[0], rtol=tolerance, atol=tolerance)
    np.testing.assert_allclose(got_grad, want_grad, rtol=tolerance, atol=tolerance)


ERRORS = [
    (program, array)
    for array, text in [
        *(
            (array, [f"x.{f}({dim})" for f in programs("sum; mean; amax; var; max; softmax; cumsum; argmax; median; logsumexp; all; mode")])
            for array, dim in ((A, 5), (A, -3), (SCALAR, 1))
        ),
        (
            EMPTY,
            """x.max(); x.min(0); x.amax(); x.amin(0); t.aminmax(x); t.aminmax(x, dim=0); x.argmax(); x.argmax(0); x.median(0); x.mode(0);
            t.quantile(x, 0.5); t.vector_norm(x, inf); t.vector_norm(x, -1)""",
        ),
        (
            INT,
            """x.mean(); x.nanmean(); x.var(); x.std(0); x.softmax(0); x.logcumsumexp(0); x.norm(); t.quantile(x, 0.5); t.histc(x, 3);
            t.bincount(x); t.bincount(-x[0])""",
        ),
        (BOOL, "x.mean(0); x.argmax()"),
        (Z, "x.argmax(); x.max(); x.amax(0); x.cummax(0); x.softmax(0); x.median()"),
        (SCALAR, "t.diff(x); t.trapezoid(x)"),
        (CUBE, "t.cov(x); t.corrcoef(x); t.linalg_norm(x, 2)"),
        (NANS, "t.histc(x, 3)"),
        (
            A,
            """x.sum((0, 0)); x.amax((0, -2)); x.std((1, 1)); x.std(0, unbiased=True, correction=1); x.max((0, 1)); x.max(x, 1);
            x.softmax(None); x.softmax(); x.cumsum(); x.logsumexp(); t.quantile(x, 1.5); t.quantile(x, 0.5, interpolation='cubic');
            t.quantile(x, t.ones(1, 1)); t.quantile(x, t.tensor([1])); t.diff(x, -1); t.diff(x, prepend=x[:1]);
            t.trapezoid(x, x[0, :2]); t.trapezoid(x, x, dx=1.0); t.histc(x, 0); t.histc(x, 3, 2, 1); t.bincount(x);
            t.cov(x, fweights=x[0]); t.cov(x, aweights=t.tensor([1, 2, 3, 4])); t.cov(x, aweights=x[0, :2]); t.renorm(x, 2, 5, 1.0);
            t.renorm(x[0], 2, 0, 1.0); t.renorm(x, 0, 0, 1.0); t.renorm(x, 2, 0, -1.0); t.norm(x, 'max'); t.norm(x, dtype=t.float32);
            t.vector_norm(x, 'fro'); t.matrix_norm(x, 3); t.matrix_norm(x[0]); t.matrix_norm(x, dim=(0, 0));
            t.linalg_norm(x, 'fro', dim=0); t.linalg_norm(x, 3, dim=(0, 1)); x.cumsum_(0, dtype=t.float32); t.sum(3);
            t.sum(x, 0, out=t.empty(0))""",
        ),
    ]
    for program in (programs(text) if isinstance(text, str) else text)
]


@pytest.mark.parametrize(("program", "array"), ERRORS, ids=[f"{i}-{p}" for i, (p, _) in enumerate(ERRORS)])
def test_errors_are_of_torchs_class(program, array):
    with pytest.raises(Exception) as theirs:  # any error of torch's
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


@pytest.mark.parametrize(
    "program",
    programs(
        """x.sum(); x.sum(0); x.mean(); x.mean(0); x.prod(); x.prod(0); x.max(); x.max(0)[0]; x.amax(); x.median(); x.median(0)[0];
        x.nanmedian(); x.mode()[0]; x.var(); x.std(0); x.cumsum(0); x.cummin(0)[0]; x.logsumexp(0); x.softmax(0); x.log_softmax(0);
        x.norm(); x.nansum(); x.logcumsumexp(0); x.cumprod(0)"""
    ),
)
def test_backward_nodes_have_torchs_names(program):
    theirs = eval(program, {"x": torch.tensor(A).requires_grad_()}).grad_fn.name()
    assert eval(program, {"x": ndgrad.tensor(A).requires_grad_()}).grad_fn.name() == theirs
