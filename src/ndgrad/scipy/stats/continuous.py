"""The continuous distributions under SciPy's names."""

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

norm = Normal("norm", "The normal distribution.", "logpdf(0.0) -> array(-0.91893853)")
halfnorm = HalfNormal("halfnorm", "The absolute value of a normal variable.", "pdf(1.0) -> array(0.48394145)")
lognorm = LogNormal("lognorm", "A variable whose logarithm is normal.", "pdf(1.0, 0.5) -> array(0.79788456)")
truncnorm = TruncatedNormal(
    "truncnorm", "The normal distribution between a and b.",
    "pdf(0.0, -1.0, 1.0) -> array(0.58436857)",
)  # fmt: skip
skewnorm = SkewNormal("skewnorm", "The skewed normal distribution.", "pdf(1.0, 2.0) -> array(0.47293172)")
exponnorm = ExponentiallyModifiedNormal(
    "exponnorm", "The sum of a normal and an exponential variable.",
    "pdf(1.0, 2.0) -> array(0.23761737)",
)  # fmt: skip
invgauss = InverseGaussian("invgauss", "The inverse Gaussian distribution.", "pdf(1.0, 0.5) -> array(0.24197072)")
moyal = Moyal("moyal", "Moyal's distribution.", "pdf(1.0) -> array(0.20131624)")
uniform = Uniform("uniform", "The uniform distribution on [0, 1].", "cdf(0.25) -> array(0.25)")
loguniform = LogUniform(
    "loguniform", "A variable whose logarithm is uniform.",
    "pdf(2.0, 1.0, 4.0) -> array(0.36067376)",
)  # fmt: skip
reciprocal = LogUniform("reciprocal", "The same as loguniform.", "pdf(2.0, 1.0, 4.0) -> array(0.36067376)")
triang = Triangular("triang", "The triangular distribution on [0, 1] with mode c.", "pdf(0.25, 0.5) -> array(1.)")
powerlaw = PowerLaw("powerlaw", "The density a x^(a - 1) on [0, 1].", "pdf(0.5, 2.0) -> array(1.)")
arcsine = Arcsine("arcsine", "The arcsine distribution on [0, 1].", "pdf(0.5) -> array(0.63661977)")
expon = Exponential("expon", "The exponential distribution.", "pdf(1.0) -> array(0.36787944)")
gamma = Gamma("gamma", "The gamma distribution of shape a.", "pdf(1.0, 2.0) -> array(0.36787944)")
erlang = Gamma("erlang", "The gamma distribution by its older name.", "pdf(1.0, 2.0) -> array(0.36787944)")
chi2 = Chi2("chi2", "The chi-squared distribution.", "pdf(1.0, 2.0) -> array(0.30326533)")
chi = Chi("chi", "The square root of a chi-squared variable.", "pdf(1.0, 2.0) -> array(0.60653066)")
maxwell = Maxwell("maxwell", "Maxwell's distribution of speeds.", "pdf(1.0) -> array(0.48394145)")
invgamma = InverseGamma("invgamma", "The reciprocal of a gamma variable.", "pdf(1.0, 2.0) -> array(0.36787944)")
loggamma = LogGamma("loggamma", "The logarithm of a gamma variable.", "pdf(1.0, 2.0) -> array(0.4875893)")
nakagami = Nakagami("nakagami", "Nakagami's distribution.", "pdf(1.0, 2.0) -> array(1.08268227)")
gennorm = GeneralizedNormal(
    "gennorm", "The density proportional to exp(-|x|^beta).",
    "pdf(1.0, 2.0) -> array(0.20755375)",
)  # fmt: skip
beta = Beta("beta", "The beta distribution on [0, 1].", "pdf(0.5, 2.0, 2.0) -> array(1.5)")
betaprime = BetaPrime("betaprime", "x / (1 - x) of a beta variable.", "pdf(1.0, 2.0, 2.0) -> array(0.375)")
f = F("f", "Fisher's F distribution.", "pdf(1.0, 2.0, 4.0) -> array(0.2962963)")
t = StudentT("t", "Student's t distribution.", "pdf(0.0, 2.0) -> array(0.35355339)")
cauchy = Cauchy("cauchy", "Cauchy's distribution.", "cdf(1.0) -> array(0.75)")
halfcauchy = HalfCauchy("halfcauchy", "The absolute value of a Cauchy variable.", "cdf(1.0) -> array(0.5)")
levy = Levy("levy", "Levy's distribution.", "pdf(1.0) -> array(0.24197072)")
pareto = Pareto("pareto", "Pareto's distribution on [1, inf).", "sf(2.0, 1.0) -> array(0.5)")
lomax = Lomax("lomax", "Pareto's distribution shifted to 0.", "sf(1.0, 1.0) -> array(0.5)")
genpareto = GeneralizedPareto("genpareto", "The generalised Pareto distribution.", "sf(1.0, 0.5) -> array(0.44444444)")
gumbel_r = GumbelRight("gumbel_r", "Gumbel's distribution of largest values.", "cdf(0.0) -> array(0.36787944)")
gumbel_l = GumbelLeft("gumbel_l", "Gumbel's distribution of smallest values.", "cdf(0.0) -> array(0.63212056)")
weibull_min = WeibullMin(
    "weibull_min", "Weibull's distribution of smallest values.",
    "sf(1.0, 2.0) -> array(0.36787944)",
)  # fmt: skip
weibull_max = WeibullMax(
    "weibull_max", "Weibull's distribution of largest values.",
    "cdf(-1.0, 2.0) -> array(0.36787944)",
)  # fmt: skip
genextreme = GeneralizedExtreme(
    "genextreme", "The generalised distribution of extreme values.",
    "cdf(0.0, 0.5) -> array(0.36787944)",
)  # fmt: skip
logistic = Logistic("logistic", "The logistic distribution.", "cdf(0.0) -> array(0.5)")
halflogistic = HalfLogistic("halflogistic", "The absolute value of a logistic variable.", "pdf(0.0) -> array(0.5)")
laplace = Laplace("laplace", "Laplace's distribution.", "pdf(0.0) -> array(0.5)")
hypsecant = HyperbolicSecant("hypsecant", "The hyperbolic secant distribution.", "cdf(0.0) -> array(0.5)")
rayleigh = Rayleigh("rayleigh", "Rayleigh's distribution.", "sf(1.0) -> array(0.60653066)")
gompertz = Gompertz("gompertz", "Gompertz's distribution of lifetimes.", "pdf(0.0, 2.0) -> array(2.)")
fisk = Fisk("fisk", "Fisk's (log-logistic) distribution.", "cdf(1.0, 2.0) -> array(0.5)")
johnsonsu = JohnsonSU("johnsonsu", "Johnson's SU distribution.", "pdf(0.0, 0.0, 1.0) -> array(0.39894228)")
vonmises = VonMises("vonmises", "von Mises's distribution on the circle.", "pdf(0.0, 1.0) -> array(0.34171049)")

__all__ = [
    "norm", "halfnorm", "lognorm", "truncnorm", "skewnorm", "exponnorm", "invgauss", "moyal", "uniform", "loguniform",
    "reciprocal", "triang", "powerlaw", "arcsine", "expon", "gamma", "erlang", "chi2", "chi", "maxwell", "invgamma",
    "loggamma", "nakagami", "gennorm", "beta", "betaprime", "f", "t", "cauchy", "halfcauchy", "levy", "pareto", "lomax",
    "genpareto", "gumbel_r", "gumbel_l", "weibull_min", "weibull_max", "genextreme", "logistic", "halflogistic",
    "laplace", "hypsecant", "rayleigh", "gompertz", "fisk", "johnsonsu", "vonmises",
]  # fmt: skip
