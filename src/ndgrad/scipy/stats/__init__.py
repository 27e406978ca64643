"""`scipy.stats` with derivatives: distributions, descriptive statistics, kernel densities.

Densities and distribution functions are differentiable in the point, in loc and scale and in the shapes; draws of
continuous distributions in all parameters. SciPy's other distributions work on constants.
"""

from __future__ import annotations

from typing import Any

from ndgrad.implicit.convergence import scipy_module
from ndgrad.scipy._without_rules import make_module_getattr, public_of
from ndgrad.scipy.stats import continuous, descriptive, discrete, multivariate
from ndgrad.scipy.stats.continuous import *  # noqa: F403
from ndgrad.scipy.stats.descriptive import *  # noqa: F403
from ndgrad.scipy.stats.discrete import *  # noqa: F403
from ndgrad.scipy.stats.distribution import wrap_member
from ndgrad.scipy.stats.kernel_density import gaussian_kde
from ndgrad.scipy.stats.multivariate import *  # noqa: F403

_DISTRIBUTIONS = [*continuous.__all__, *discrete.__all__, *multivariate.__all__]

_beyond = make_module_getattr(
    "stats",
    {
        "spearmanr": "pearsonr: ranks are whole numbers, which have no derivative",
        "kendalltau": "pearsonr: ranks are whole numbers, which have no derivative",
        "mode": "gaussian_kde",
        "boxcox": "special.boxcox(x, lmbda), and boxcox_llf for the likelihood",
        "yeojohnson": "yeojohnson_llf for the likelihood",
        "quantile": "ndgrad.numpy.quantile",
        "scoreatpercentile": "ndgrad.numpy.percentile",
        "median_abs_deviation": "ndgrad.numpy.median(abs(x - ndgrad.numpy.median(x)))",
        "ks_1samp": "wasserstein_distance",
        "ks_2samp": "wasserstein_distance",
        "fit": "ndgrad.scipy.optimize.minimize of -logpdf(...).sum()",
        "binned_statistic": "ndgrad.numpy.histogram with weights",
    },
    decisions="rankdata mode percentileofscore find_repeats",
)


class _OfConstants:
    """A SciPy distribution without rules here: its methods run on constants."""

    def __init__(self, name: str, theirs: Any) -> None:
        self.name, self._theirs = name, theirs

    def __getattr__(self, name: str) -> Any:
        near = "a distribution with rules: " + ", ".join(sorted(_DISTRIBUTIONS))
        return wrap_member(f"scipy.stats.{self.name}.{name}", getattr(self._theirs, name), near)

    def __call__(self, *args: Any, **kwds: Any) -> Any:
        return _OfConstants(self.name, self.__getattr__("__call__")(*args, **kwds))


def __getattr__(name: str) -> Any:
    if not name.startswith("_"):
        module = scipy_module("stats", "ndgrad.scipy.stats")
        theirs = getattr(module, name, None)
        if isinstance(theirs, (module.rv_continuous, module.rv_discrete)) or (
            hasattr(theirs, "rvs") and not isinstance(theirs, type) and theirs is not None
        ):
            return _OfConstants(name, theirs)
    return _beyond(name)


__dir__ = public_of(__name__)
__all__ = [*_DISTRIBUTIONS, *descriptive.__all__, "gaussian_kde"]
