"""Probability distributions, under torch's names: samples, densities, entropies, divergences, all differentiable.

One file per distribution, named as torch's, over `distribution.Distribution`. Samples that are differentiable in the
parameters (`rsample`) are functions of random numbers of a fixed distribution. For gamma, Dirichlet and related
distributions they are ops with a derivative at fixed probability (Note [Implicit reparametrisation] in
ndgrad._src.ops.random).
"""

from __future__ import annotations

from ndgrad.distributions import constraint_registry, constraints, kl, transforms, utils  # noqa: F401  # their names are public
from ndgrad.distributions.bernoulli import Bernoulli
from ndgrad.distributions.beta import Beta
from ndgrad.distributions.binomial import Binomial
from ndgrad.distributions.categorical import Categorical
from ndgrad.distributions.cauchy import Cauchy
from ndgrad.distributions.chi2 import Chi2
from ndgrad.distributions.constraint_registry import biject_to, transform_to
from ndgrad.distributions.continuous_bernoulli import ContinuousBernoulli
from ndgrad.distributions.dirichlet import Dirichlet
from ndgrad.distributions.distribution import Distribution
from ndgrad.distributions.exp_family import ExponentialFamily
from ndgrad.distributions.exponential import Exponential
from ndgrad.distributions.fishersnedecor import FisherSnedecor
from ndgrad.distributions.gamma import Gamma
from ndgrad.distributions.generalized_pareto import GeneralizedPareto
from ndgrad.distributions.geometric import Geometric
from ndgrad.distributions.gumbel import Gumbel
from ndgrad.distributions.half_cauchy import HalfCauchy
from ndgrad.distributions.half_normal import HalfNormal
from ndgrad.distributions.independent import Independent
from ndgrad.distributions.inverse_gamma import InverseGamma
from ndgrad.distributions.kl import kl_divergence, register_kl
from ndgrad.distributions.kumaraswamy import Kumaraswamy
from ndgrad.distributions.laplace import Laplace
from ndgrad.distributions.lkj_cholesky import LKJCholesky
from ndgrad.distributions.log_normal import LogNormal
from ndgrad.distributions.logistic_normal import LogisticNormal
from ndgrad.distributions.lowrank_multivariate_normal import LowRankMultivariateNormal
from ndgrad.distributions.mixture_same_family import MixtureSameFamily
from ndgrad.distributions.multinomial import Multinomial
from ndgrad.distributions.multivariate_normal import MultivariateNormal
from ndgrad.distributions.negative_binomial import NegativeBinomial
from ndgrad.distributions.normal import Normal
from ndgrad.distributions.one_hot_categorical import OneHotCategorical, OneHotCategoricalStraightThrough
from ndgrad.distributions.pareto import Pareto
from ndgrad.distributions.poisson import Poisson
from ndgrad.distributions.relaxed_bernoulli import RelaxedBernoulli
from ndgrad.distributions.relaxed_categorical import RelaxedOneHotCategorical
from ndgrad.distributions.studentT import StudentT
from ndgrad.distributions.transformed_distribution import TransformedDistribution
from ndgrad.distributions.transforms import (
    AbsTransform,
    AffineTransform,
    CatTransform,
    ComposeTransform,
    CorrCholeskyTransform,
    CumulativeDistributionTransform,
    ExpTransform,
    IndependentTransform,
    LowerCholeskyTransform,
    PositiveDefiniteTransform,
    PowerTransform,
    ReshapeTransform,
    SigmoidTransform,
    SoftmaxTransform,
    SoftplusTransform,
    StackTransform,
    StickBreakingTransform,
    TanhTransform,
    Transform,
    identity_transform,
)
from ndgrad.distributions.uniform import Uniform
from ndgrad.distributions.von_mises import VonMises
from ndgrad.distributions.weibull import Weibull
from ndgrad.distributions.wishart import Wishart

__all__ = [
    "Bernoulli", "Beta", "Binomial", "Categorical", "Cauchy", "Chi2", "ContinuousBernoulli", "Dirichlet",
    "Distribution", "Exponential", "ExponentialFamily", "FisherSnedecor", "Gamma", "GeneralizedPareto", "Geometric",
    "Gumbel", "HalfCauchy", "HalfNormal", "Independent", "InverseGamma", "Kumaraswamy", "LKJCholesky", "Laplace",
    "LogNormal", "LogisticNormal", "LowRankMultivariateNormal", "MixtureSameFamily", "Multinomial",
    "MultivariateNormal", "NegativeBinomial", "Normal", "OneHotCategorical", "OneHotCategoricalStraightThrough",
    "Pareto", "RelaxedBernoulli", "RelaxedOneHotCategorical", "StudentT", "Poisson", "Uniform", "VonMises", "Weibull",
    "Wishart", "TransformedDistribution", "biject_to", "kl_divergence", "register_kl", "transform_to", "AbsTransform",
    "AffineTransform", "CatTransform", "ComposeTransform", "CorrCholeskyTransform", "CumulativeDistributionTransform",
    "ExpTransform", "IndependentTransform", "LowerCholeskyTransform", "PositiveDefiniteTransform", "PowerTransform",
    "ReshapeTransform", "SigmoidTransform", "SoftplusTransform", "TanhTransform", "SoftmaxTransform", "StackTransform",
    "StickBreakingTransform", "Transform", "identity_transform",
]  # fmt: skip
