"""Errors of a tensor in a SciPy function name that function and its replacement."""

from __future__ import annotations

import numpy as np
import pytest

import ndgrad
import ndgrad.numpy as dnp

pytest.importorskip("scipy")
import scipy.integrate
import scipy.interpolate
import scipy.linalg
import scipy.ndimage
import scipy.optimize
import scipy.signal
import scipy.spatial.distance
import scipy.stats

CALLS = {
    "signal.lfilter": lambda x: scipy.signal.lfilter([1.0], [1.0, 0.2], x),
    "signal.welch": lambda x: scipy.signal.welch(x, nperseg=8),
    "signal.detrend": lambda x: scipy.signal.detrend(x),
    "stats.norm.logpdf": lambda x: scipy.stats.norm.logpdf(x),
    "stats.gamma.cdf": lambda x: scipy.stats.gamma(2.0).cdf(x),
    "linalg.solve": lambda x: scipy.linalg.solve(np.eye(8), x),
    "linalg.expm": lambda x: scipy.linalg.expm(x.reshape(2, 4)[:, :2]),
    "spatial.distance.cdist": lambda x: scipy.spatial.distance.cdist(x[:, None], x[:, None]),
    "interpolate.CubicSpline": lambda x: scipy.interpolate.CubicSpline(np.arange(8.0), x),
    "ndimage.gaussian_filter": lambda x: scipy.ndimage.gaussian_filter(x, 1.0),
    "integrate.solve_ivp": lambda x: scipy.integrate.solve_ivp(lambda t, y: -y, (0, 1), x),
}


@pytest.mark.parametrize("name", list(CALLS))
@pytest.mark.parametrize(
    "make", [lambda: dnp.arange(8.0).requires_grad_(), lambda: ndgrad.arange(8.0, requires_grad=True)], ids=["Array", "Tensor"]
)
def test_refused_calls_name_what_to_use(name, make):
    with pytest.raises(RuntimeError, match=rf"The call is scipy\.{name}: use ndgrad\.scipy\.{name}") as caught:
        CALLS[name](make())
    assert "ndgrad.lift" in str(caught.value)


def test_functions_without_a_derivative_say_so():
    with pytest.raises(RuntimeError, match=r"The call is scipy\.signal\.butter, which has no replacement"):
        scipy.signal.butter(2, dnp.array(0.3).requires_grad_())


def test_nobody_is_named_where_scipy_did_not_ask():
    with pytest.raises(RuntimeError) as caught:
        np.asarray(dnp.ones(2).requires_grad_())
    assert "scipy." not in str(caught.value)


def test_function_that_a_transform_called_is_named_and_can_be_lifted():
    rosen = scipy.optimize.rosen
    with pytest.raises(RuntimeError) as caught:
        scipy.optimize.minimize(ndgrad.func.value_and_grad(rosen), np.zeros(3), jac=True)
    assert "scipy.optimize.minimize" not in str(caught.value)
    assert "ndgrad.lift(scipy.optimize.rosen)(...)" in str(caught.value)
    value, gradient = ndgrad.func.value_and_grad(ndgrad.lift(rosen))(np.zeros(3))
    assert value == 2.0
    assert np.allclose(gradient, scipy.optimize.rosen_der(np.zeros(3)))
