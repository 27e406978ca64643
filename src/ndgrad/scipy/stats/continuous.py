"""The continuous distributions by SciPy's names."""

from __future__ import annotations

from ndgrad.scipy.stats.gamma_family import (
    Beta,
    BetaPrime,
    Chi,
    Chi2,
    Exponential,
    F,
    Gamma,
    GeneralizedNormal,
    InverseGamma,
    LogGamma,
    Maxwell,
    Nakagami,
    StudentT,
)
from ndgrad.scipy.stats.normal_family import (
    Arcsine,
    ExponentiallyModifiedNormal,
    HalfNormal,
    InverseGaussian,
    LogNormal,
    LogUniform,
    Moyal,
    Normal,
    PowerLaw,
    SkewNormal,
    Triangular,
    TruncatedNormal,
    Uniform,
)
from ndgrad.scipy.stats.tails import (
    Cauchy,
    Fisk,
    GeneralizedExtreme,
    GeneralizedPareto,
    Gompertz,
    GumbelLeft,
    GumbelRight,
    HalfCauchy,
    HalfLogistic,
    HyperbolicSecant,
    JohnsonSU,
    Laplace,
    Levy,
    Logistic,
    Lomax,
    Pareto,
    Rayleigh,
    VonMises,
    WeibullMax,
    WeibullMin,
)

ALL = {
    "norm": Normal, "halfnorm": HalfNormal, "lognorm": LogNormal, "truncnorm": TruncatedNormal, "skewnorm": SkewNormal,
    "exponnorm": ExponentiallyModifiedNormal, "invgauss": InverseGaussian, "moyal": Moyal, "uniform": Uniform, "loguniform": LogUniform,
    "reciprocal": LogUniform, "triang": Triangular, "powerlaw": PowerLaw, "arcsine": Arcsine, "expon": Exponential, "gamma": Gamma,
    "erlang": Gamma, "chi2": Chi2, "chi": Chi, "maxwell": Maxwell, "invgamma": InverseGamma, "loggamma": LogGamma, "nakagami": Nakagami,
    "gennorm": GeneralizedNormal, "beta": Beta, "betaprime": BetaPrime, "f": F, "t": StudentT, "cauchy": Cauchy, "halfcauchy": HalfCauchy,
    "levy": Levy, "pareto": Pareto, "lomax": Lomax, "genpareto": GeneralizedPareto, "gumbel_r": GumbelRight, "gumbel_l": GumbelLeft,
    "weibull_min": WeibullMin, "weibull_max": WeibullMax, "genextreme": GeneralizedExtreme, "logistic": Logistic,
    "halflogistic": HalfLogistic, "laplace": Laplace, "hypsecant": HyperbolicSecant, "rayleigh": Rayleigh, "gompertz": Gompertz,
    "fisk": Fisk, "johnsonsu": JohnsonSU, "vonmises": VonMises,
}  # fmt: skip
