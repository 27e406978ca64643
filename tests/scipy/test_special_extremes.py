"""Every function of ndgrad.scipy.special at ordinary and extreme arguments: values beside mpmath's and SciPy's, first and second
derivatives beside mpmath's."""

from __future__ import annotations

import warnings

import numpy as np
import pytest

import ndgrad.numpy as dnp
from ndgrad import func

mp = pytest.importorskip("mpmath")
scipys = pytest.importorskip("scipy.special")
from tests.scipy.special_references import LOOSE, SLOW, TABLE, ZEROS, derivative  # noqa: E402

from ndgrad.scipy import special  # noqa: E402

#: Relative errors that are allowed of the value and of the first and second derivative.
TOLERANCES = (1e-11, 1e-10, 1e-8)


@pytest.fixture(autouse=True)
def _forty_digits():
    with mp.workdps(40), warnings.catch_warnings(), np.errstate(all="ignore"):
        warnings.simplefilter("ignore")
        yield


def compute_ours(name, arguments, place, order):
    """Our value or derivative at each of the argument tuples."""
    base, _, part = name.partition("[")
    mine = getattr(special, base)
    whole = base.startswith("spherical")  # the order of these is one number

    def call(*xs):
        made = mine(*xs)
        made = made[int(part[:-1])] if part else made
        return made.real if np.dtype(made.dtype).kind == "c" else made

    if whole:
        return np.concatenate([_derivative(call, [n, np.array([x])], place, order) for n, x in arguments])
    return _derivative(call, [np.array(c) for c in zip(*arguments, strict=True)], place, order)


def _derivative(call, columns, place, order):
    given = [dnp.array(c) if isinstance(c, np.ndarray) and c.dtype.kind == "f" else c for c in columns]

    def total(x):
        return call(*given[:place], x, *given[place + 1 :]).sum()

    if order == 0:
        return call(*given).detach().numpy()
    first = func.grad(total)
    return (first if order == 1 else func.grad(lambda x: first(x).sum()))(given[place]).detach().numpy()


def compare(name, arguments):
    reference, _, places = TABLE[name]
    for order, tolerance in enumerate(TOLERANCES):
        for place in places if order else places[:1]:
            got = compute_ours(name, arguments, place, order)
            for at, value in zip(arguments, got, strict=True):
                want = derivative(reference, at, place, order)
                if want is None:
                    continue
                allowed = max(tolerance, LOOSE.get(name, 0.0)) * abs(want) + ZEROS.get(name, 0.0)
                if abs(want) < 1e-30:  # zero, but for mpmath's own rounding
                    allowed = 1e-13
                assert abs(value - want) <= allowed, (name, at, f"derivative {order} in argument {place}", value, want)


@pytest.mark.parametrize("name", [n for n in TABLE if n not in SLOW])
def test_function_at_extremes_beside_mpmath(name):
    arguments = TABLE[name][1]
    compare(name, arguments[:: max(1, len(arguments) // 12)])


@pytest.mark.slow
@pytest.mark.parametrize("name", TABLE)
def test_function_at_all_arguments_beside_mpmath(name):
    compare(name, TABLE[name][1])


@pytest.mark.parametrize("name", [n for n in TABLE if "[" not in n and not n.startswith("spherical") and hasattr(scipys, n)])
def test_values_at_extremes_are_scipys(name):
    columns = [np.array(c) for c in zip(*TABLE[name][1], strict=True)]
    mine, theirs = getattr(special, name)(*columns).numpy(), getattr(scipys, name)(*columns)
    # If SciPy's terms cancel and ours do not, the comparison with mpmath above decides.
    tolerance = {"kl_div": (1e-9, 1e-15), "hyp2f1": (1e-9, 0.0)}.get(name, (1e-11, 1e-14))
    np.testing.assert_allclose(mine, theirs, *tolerance)


def test_orders_that_carry_a_derivative_are_refused_by_name():
    n = dnp.array(2.0).requires_grad_()
    for name in ("expn", "yn", "polygamma", "jv", "eval_legendre", "eval_chebyt", "struve"):
        with pytest.raises(NotImplementedError, match=r"derivative of .* with respect to"):
            getattr(special, name)(n, dnp.array([0.3, 0.7])).sum().backward()


def test_poch_below_zero_is_a_polynomial_in_its_first_argument():
    """At a pole of gamma(x) and of gamma(x + m) both: x (x + 1) ... (x + m - 1)."""
    x = np.array([-2.0, -3.0, -1.0, 0.0])
    got = func.grad(lambda v: special.poch(v, 2.0).sum())(dnp.array(x)).numpy()
    np.testing.assert_allclose(got, 2 * x + 1, rtol=1e-12)
