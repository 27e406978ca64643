"""Special functions of the namespace: SciPy's values, at the borders of their domains too, and errors where a derivative is missing."""

from __future__ import annotations

import itertools
import math
from typing import Any

import numpy as np
import pytest

import ndgrad.array_api as xp
from ndgrad.numpy import Array

scipy_special = pytest.importorskip("scipy.special")

POINTS = np.array(
    [-3.5, -2.0, -1.0, -0.5, -0.0, 0.0, 1e-8, 0.1, 0.25, 0.5, 0.75, 1.0, 1.5, 2.0, 3.0, 10.0, 50.0, math.inf, -math.inf, math.nan]
)
PAIRS = np.array([-2.0, -0.5, 0.0, 0.3, 0.5, 1.0, 1.5, 2.0, 3.0, 7.0, math.nan])
TRIPLES = np.array([-1.0, 0.0, 0.3, 0.5, 1.0, 2.0, 3.0, math.nan])
WHOLE = np.array([0, 1, 2, 5])

#: Name -> what its arguments are: any numbers (x), or whole ones (k).
ARGUMENTS = {
    **dict.fromkeys(
        "betaln binom boxcox boxcox1p chdtr chdtrc chdtri gammainc gammaincc gammainccinv gammaincinv huber inv_boxcox inv_boxcox1p kl_div "
        "owens_t poch pseudo_huber rel_entr stdtr stdtrit xlog1py xlogy zeta".split(),
        "xx",
    ),
    **dict.fromkeys("betainc betaincc betainccinv betaincinv fdtr fdtrc fdtri gdtr gdtrc hyp1f1 radian".split(), "xxx"),
    **dict.fromkeys("expn pdtr pdtrc pdtri polygamma yn".split(), "kx"),
    **dict.fromkeys("bdtr bdtrc bdtri nbdtr nbdtrc nbdtri".split(), "kkx"),
    "lpmv": "kxx",
}
#: Points at which SciPy has an answer and ours is NaN: no trials, and no known delta.
EXCUSED = {"nbdtri": lambda k, n, y: n == 0, "pseudo_huber": lambda delta, r: np.isnan(delta)}


def grid(kinds: str) -> list[Any]:
    free = {1: POINTS, 2: PAIRS, 3: TRIPLES}[len(kinds)]
    columns = list(zip(*itertools.product(*(WHOLE if k == "k" else free for k in kinds)), strict=True))
    return [np.array(c, dtype=int if k == "k" else float) for c, k in zip(columns, kinds, strict=True)]


@pytest.mark.parametrize("name", sorted({*xp.special.__all__} - {"multigammaln"}))
def test_values_are_scipys(name: str) -> None:
    args = grid(ARGUMENTS.get(name, "x"))
    if name in EXCUSED:
        args = [a[~EXCUSED[name](*args)] for a in args]
    with np.errstate(all="ignore"):
        expected = getattr(scipy_special, name)(*args)
        made = getattr(xp.special, name)(*(xp.asarray(a) for a in args))
    assert type(made) is Array
    np.testing.assert_allclose(made.numpy(), expected, rtol=1e-11, atol=1e-300)


def test_multivariate_gamma() -> None:
    x = np.array([1.5, 3.0, 7.25])
    np.testing.assert_allclose(xp.special.multigammaln(xp.asarray(x), 3).numpy(), scipy_special.multigammaln(x, 3), rtol=1e-13)
    with pytest.raises(ValueError, match=r"a > 0\.5"):
        xp.special.multigammaln(xp.asarray([0.5]), 3)


def test_arguments_are_converted_as_in_numpy() -> None:
    assert xp.special.erf(xp.asarray([1, 2])).dtype == xp.float64
    assert xp.special.xlogy(xp.asarray([1.0], dtype=xp.float32), 2.0).dtype == xp.float32
    assert xp.special.betainc(1.5, 2, xp.asarray([0.25])).shape == (1,)
    with pytest.raises(TypeError, match="betaln"):
        xp.special.betaln(xp.asarray([1.0]))


def test_several_orders_of_polygamma() -> None:
    orders, x = np.array([[0], [1], [3]]), np.array([0.5, 2.0])
    t = xp.asarray(x).requires_grad_()
    made = xp.special.polygamma(xp.asarray(orders), t)
    np.testing.assert_allclose(made.detach().numpy(), scipy_special.polygamma(orders, x), rtol=1e-12)
    xp.sum(made).backward()
    np.testing.assert_allclose(t.grad.numpy(), scipy_special.polygamma(orders + 1, x).sum(0), rtol=1e-12)
    with pytest.raises(ValueError, match="whole numbers"):
        xp.special.polygamma(-1, t)


def test_transforms_are_smooth_where_lambda_passes_zero() -> None:
    """d/dl of (x^l - 1) / l at 0 is log(x)^2 / 2, and of its inverse exp(y) (-y^2 / 2)."""
    zero = xp.asarray(0.0).requires_grad_()
    xp.special.boxcox(xp.asarray(3.0), zero).backward()
    assert zero.grad.item() == pytest.approx(math.log(3) ** 2 / 2, rel=1e-14)
    zero.grad = None
    xp.special.inv_boxcox(xp.asarray(0.7), zero).backward()
    assert zero.grad.item() == pytest.approx(-math.exp(0.7) * 0.7**2 / 2, rel=1e-14)


@pytest.mark.parametrize(("name", "which"), [("hyp1f1", 0), ("hyp1f1", 1), ("lpmv", 1), ("zeta", 0)])
def test_missing_derivatives_are_errors(name: str, which: int) -> None:
    args: list[Any] = [1.5, 2.5, 0.5] if name != "zeta" else [2.5, 1.5]
    args[0] = 1.0 if name == "lpmv" else args[0]
    args = [xp.asarray(a) for a in args]
    args[which].requires_grad_()
    with pytest.raises(NotImplementedError, match=r"derivative.*not implemented"):
        getattr(xp.special, name)(*args).backward()
