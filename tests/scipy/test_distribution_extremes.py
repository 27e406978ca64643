"""Every continuous distribution of ndgrad.scipy.stats from one tail to the other, at loc itself, and for shapes from tiny to large: values
and derivatives beside mpmath's; and what a gradient is at the ends of the support and beyond."""

from __future__ import annotations

import warnings

import numpy as np
import pytest

import ndgrad.numpy as dnp
from ndgrad import func

mp = pytest.importorskip("mpmath")
scipys = pytest.importorskip("scipy.stats")
from tests.scipy.distribution_references import CORNERS, TABLE, functions  # noqa: E402
from tests.scipy.special_references import derivative  # noqa: E402

from ndgrad.scipy import stats  # noqa: E402

TOLERANCES = (1e-10, 1e-8, 1e-6)
#: mpmath's distribution functions of these take seconds; the short run compares their densities alone.
SLOW = frozenset("skewnorm gennorm t f betaprime beta chi2 chi invgamma loggamma nakagami truncnorm exponnorm gamma erlang".split())
#: Second derivatives of the exponential of a logarithm, right at the end of the support.
LOOSE = {("truncnorm", 2): 1e-3}


@pytest.fixture(autouse=True)
def _digits():
    with mp.workdps(34), warnings.catch_warnings(), np.errstate(all="ignore"):
        warnings.simplefilter("ignore")
        yield


def points(name, shapes, probabilities):
    theirs = getattr(scipys, name)
    found = [*theirs.ppf(probabilities, *shapes), *theirs.isf(probabilities[:1], *shapes)]
    low, high = theirs.support(*shapes)
    found += [0.0] if low < 0 < high else []
    corners = CORNERS.get(name, lambda *s: [])(*shapes)
    # mpmath's steps are absolute, and its differences mean nothing next to a corner
    good = [v for v in found if (low < v < high and 1e-14 < abs(v) < 1e14) or v == 0]
    return np.array([v for v in good if all(abs(v - c) > 1e-9 for c in corners) or v == 0])


def ours(name, method, columns, place, order):
    function = getattr(getattr(stats, name), method)
    given = [dnp.array(c) for c in columns]
    if order == 0:
        return function(*given).detach().numpy()
    first = func.grad(lambda v: function(*given[:place], v, *given[place + 1 :]).sum())
    return (first if order == 1 else func.grad(lambda v: first(v).sum()))(given[place]).detach().numpy()


def compare(name, shapes, probabilities, methods, orders):
    x = points(name, shapes, probabilities)
    columns = [x, *(np.full(x.shape, s) for s in shapes)]
    cornered = bool(CORNERS.get(name, lambda *s: [])(*shapes))
    for method, reference in functions(name).items():
        if method not in methods:
            continue
        for order in orders:
            for place in range(len(columns)) if order else (0,):
                got = ours(name, method, columns, place, order)
                wanted = [derivative(reference, tuple(map(float, at)), place, order) for at in zip(*columns, strict=True)]
                usual = np.median([abs(w) for w in wanted if w is not None] or [0.0])
                for at, value, want, arguments in zip(x, got, wanted, zip(*columns, strict=True), strict=True):
                    if want is None or (at == 0 and cornered and (order == 2 or "pdf" in method)):
                        continue
                    zero = 1e-13 if abs(want) < 1e-30 else 1e-16
                    if abs(want) < 1e-30 and order == 2 and "log" in method:
                        # f''/f - (f'/f)^2: two terms of the size of the square of the slope cancel, each to rounding
                        slope = derivative(reference, tuple(map(float, arguments)), place, 1)
                        zero += 1e-14 * float(slope or 0.0) ** 2
                    allowed = LOOSE.get((name, order), TOLERANCES[order]) * abs(want) + 1e-12 * usual + zero
                    assert abs(value - want) <= allowed, (name, method, at, shapes, f"derivative {order} in {place}", value, want)


TO_SECOND_ORDER = ("genpareto", "genextreme", "logistic", "laplace", "norm")


def some(shapes):
    return [s for i, s in enumerate(shapes) if i in (0, 2, len(shapes) - 1)] if len(shapes) > 3 else shapes


@pytest.mark.parametrize("name", TABLE)
def test_distribution_from_tail_to_tail(name):
    methods = ("pdf", "logpdf") if name in SLOW else ("pdf", "logpdf", "cdf", "logcdf", "sf", "logsf")
    for shapes in some(TABLE[name][0]):
        compare(name, shapes, [1e-9, 0.3], methods, (0, 1, 2) if name in TO_SECOND_ORDER else (0, 1))


@pytest.mark.slow
@pytest.mark.parametrize("name", TABLE)
def test_distribution_to_second_order(name):
    for shapes in TABLE[name][0]:
        compare(name, shapes, [1e-12, 1e-3, 0.2, 0.5, 0.8, 0.999], tuple(functions(name)), (0, 1))
        # right at the end of a support, second derivatives are differences of terms in 1 / x^2
        compare(name, shapes, [1e-3, 0.2, 0.5, 0.8, 0.999], tuple(functions(name)), (2,))


@pytest.mark.parametrize("name", [n for n in TABLE if n not in ("skewnorm", "exponnorm", "invgauss", "vonmises")])
def test_quantiles_in_both_tails(name):
    """At x = ppf(q), dx/dq = 1/pdf(x), and along a shape it moves by -(dcdf/dshape)/pdf."""
    mine = getattr(stats, name)
    q = np.array([1e-15, 1e-4, 0.5, 0.9])
    for shapes in some(TABLE[name][0]):
        for method, tail, sign in (("ppf", "cdf", 1.0), ("isf", "sf", -1.0)):
            columns = [q, *(np.full(q.shape, s) for s in shapes)]
            x = ours(name, method, columns, 0, 0)
            wanted = getattr(getattr(scipys, name), method)(q, *shapes)
            ordinary = (q > 1e-5) & (abs(wanted) > 1e-250)
            np.testing.assert_allclose(x[ordinary], wanted[ordinary], rtol=1e-7, atol=1e-12, err_msg=f"{name}.{method} {shapes}")
            density = mine.pdf(x, *shapes).numpy()
            low, high = getattr(scipys, name).support(*shapes)
            ends = [abs(x - e) < 1e-9 * max(abs(e), 1e-300) for e in (low, high) if np.isfinite(e)]
            away = (abs(x) > 1e-250) & (abs(x) < 1e250) & ~np.any(ends, axis=0) if ends else abs(x) < 1e250
            usable = away & (density > 1e-250) & (density < 1e250)
            # SciPy's isf is ppf(1 - q) for many, and knows no small q: the way back decides
            back = ours(name, tail, [x, *columns[1:]], 0, 0)
            rounding = 1e-15 * density * abs(x)
            assert (abs(back - q) <= 1e-8 * q + rounding)[usable].all(), (name, method, shapes, back, q)
            slope = ours(name, method, columns, 0, 1)
            np.testing.assert_allclose(slope[usable], sign / density[usable], rtol=1e-6, err_msg=f"{name}.{method} {shapes}")
            for place in range(1, len(columns)):
                moved = ours(name, method, columns, place, 1)
                change = ours(name, tail, [x, *columns[1:]], place, 1)
                known = usable & (abs(x) > 1e-14)
                expected = -sign * change[known] / density[known]
                scale = 1e-6 * np.abs(expected) + 1e-9 * np.abs(x[known]) * (1 + np.abs(np.log(q[known])))
                assert (np.abs(moved[known] - expected) <= scale).all(), (name, method, shapes, place, moved[known], expected)


@pytest.mark.parametrize("name", TABLE)
def test_points_outside_the_support_have_no_part_in_any_gradient(name):
    mine, theirs = getattr(stats, name), getattr(scipys, name)
    for shapes in TABLE[name][0]:
        low, high = theirs.support(*shapes)
        outside = [e + d for e, d in ((low, -1.0), (high, 1.0)) if np.isfinite(e)]
        inside = float(theirs.ppf(0.4, *shapes))
        if not outside:
            continue
        for method in functions(name):
            both = [dnp.array(v).requires_grad_() for v in (np.array([*outside, inside]), *shapes, 0.0, 1.0)]
            alone = [dnp.array(v).requires_grad_() for v in (np.array([inside]), *shapes, 0.0, 1.0)]
            for given in (both, alone):
                _finite_sum(getattr(mine, method)(*given)).backward()
            assert not both[0].grad.numpy()[:-1].any()
            for g, e in zip(both[1:], alone[1:], strict=True):
                np.testing.assert_allclose(g.grad.numpy(), e.grad.numpy(), rtol=1e-9, atol=1e-300, err_msg=f"{name}.{method} {shapes}")


def _finite_sum(values):
    """The finite ones, chosen after the fact: the others take part in the graph."""
    return dnp.where(np.isfinite(values.detach().numpy()), values, 0.0).sum()
