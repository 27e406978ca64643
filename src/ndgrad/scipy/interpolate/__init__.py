"""`scipy.interpolate` with derivatives: splines, piecewise cubics, grids, scattered data.

Interpolants are differentiable in the data, in the points of evaluation and, if possible, in the sites and knots.
"""

from __future__ import annotations

from ndgrad.scipy._without_rules import make_module_getattr, public_of
from ndgrad.scipy.interpolate import bsplines, grids, piecewise, scattered
from ndgrad.scipy.interpolate.bsplines import *  # noqa: F403
from ndgrad.scipy.interpolate.grids import *  # noqa: F403
from ndgrad.scipy.interpolate.piecewise import *  # noqa: F403
from ndgrad.scipy.interpolate.scattered import *  # noqa: F403

_KNOTS = "make_interp_spline, or make_lsq_spline with knots of your own: smoothing splines choose theirs by values"

__getattr__ = make_module_getattr(
    "interpolate",
    {
        **dict.fromkeys(
            (
                "UnivariateSpline",
                "LSQUnivariateSpline",
                "make_smoothing_spline",
                "make_splrep",
                "make_splprep",
                "splprep",
                "generate_knots",
                "bisplrep",
                "SmoothBivariateSpline",
                "LSQBivariateSpline",
                "SmoothSphereBivariateSpline",
                "LSQSphereBivariateSpline",
            ),
            _KNOTS,
        ),
        **dict.fromkeys(
            ("bisplev", "BivariateSpline", "RectSphereBivariateSpline", "NdBSpline"),
            "RectBivariateSpline or RegularGridInterpolator",
        ),
        **dict.fromkeys(("CloughTocher2DInterpolator", "Rbf"), "RBFInterpolator or LinearNDInterpolator"),
        **dict.fromkeys(("BPoly", "NdPPoly"), "PPoly"),
        **dict.fromkeys(("FloaterHormannInterpolator", "AAA", "pade"), "BarycentricInterpolator"),
        **dict.fromkeys(("sproot", "spalde", "insert"), "splev, splder, or optimize.brentq"),
        "interp2d": "RectBivariateSpline",
        "approximate_taylor_polynomial": "ndgrad.func.jet",
    },
)
__dir__ = public_of(__name__)

__all__ = [name for module in (bsplines, grids, piecewise, scattered) for name in module.__all__]
