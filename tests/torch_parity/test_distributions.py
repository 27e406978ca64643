"""Distributions beside torch's: densities and their gradients, moments, entropies, divergences, transforms, constraints, shapes, texts,
errors. Random results are compared by shapes here, and by its distribution in tests/distributions."""

from __future__ import annotations

import re
import warnings
from typing import Any

import numpy as np
import pytest
import torch

import ndgrad
from tests.torch_parity.differences import deliberate
from tests.torch_parity.errors import without_code
from tests.torch_parity.programs.sameness import same
from tests.torch_parity.side_by_side import Programs

PROGRAMS = Programs()
program = PROGRAMS.enter


def tried(f: Any) -> Any:
    """The value of f(), or the kind of error it raises."""
    try:
        return f()
    except Exception as error:
        return type(error).__name__


def text(thing: Any) -> str:
    """A text without the library's name."""
    return re.sub(r"\b(torch|ndgrad)\.", "", repr(thing))


def tensor(m: Any, values: Any, grad: bool = False, dtype: Any = np.float64) -> Any:
    return m.tensor(np.asarray(values, dtype), requires_grad=grad)


def gradients(result: Any, params: list[Any]) -> Any:
    """Those of the sum of the finite results."""
    if not getattr(result, "requires_grad", False):
        return None
    m = torch if isinstance(result, torch.Tensor) else ndgrad
    return list(m.autograd.grad(result[result.isfinite()].sum(), params, allow_unused=True, retain_graph=True))


ATTRIBUTES = ("mean", "mode", "variance", "stddev")


def account(m: Any, make: Any, params: Any, values: Any, dtype: Any, without: Any) -> dict[str, Any]:
    """All that a distribution says of itself without drawing; `without` names what torch does not have or does otherwise."""
    leaves = [tensor(m, p, grad=True, dtype=dtype) for p in params]
    d = make(m.distributions, *leaves)
    x = tensor(m, values, dtype=dtype)
    n = len(d.batch_shape)
    found: dict[str, Any] = {
        "text": text(d), "shapes": (tuple(d.batch_shape), tuple(d.event_shape)), "kind": (bool(d.has_rsample), d.has_enumerate_support),
        "support": (tried(lambda: d.support.event_dim), tried(lambda: d.support.is_discrete)),
        "constraints": [(k, text(v)) for k, v in d.arg_constraints.items()],
        "bases": [c.__name__ for c in type(d).__mro__ if c.__name__ in torch.distributions.__all__],
    }  # fmt: skip
    for name in ATTRIBUTES:
        value = tried(lambda name=name: getattr(d, name))
        found[name] = value if isinstance(value, str) else value.detach()
        found["gradients of " + name] = None if isinstance(value, str) or name == "mode" else gradients(value, leaves)
    for name, call in {
        "log_prob": lambda: d.log_prob(x), "entropy": lambda: d.entropy(), "perplexity": lambda: d.perplexity(), "cdf": lambda: d.cdf(x),
        "icdf": lambda: d.icdf(tensor(m, np.linspace(0.1, 0.9, 3).reshape((3, *[1] * n)), dtype=dtype)),
        "enumerate": lambda: d.enumerate_support(), "enumerate without expanding": lambda: d.enumerate_support(expand=False),
    }.items():  # fmt: skip
        value = tried(call)
        found[name] = value if isinstance(value, str) else value.detach()
        if f"gradients of {name}" not in without:
            found[f"gradients of {name}"] = None if isinstance(value, str) else gradients(value, leaves)
    for shape in ((), (3,)) if "empty samples" in without else ((), (3,), (2, 0)):
        found[f"sample {shape}"] = tuple(d.sample(shape).shape), d.sample(shape).requires_grad,
        str(d.sample(shape).dtype).rpartition(".")[2]
        found[f"rsample {shape}"] = tried(lambda shape=shape: tuple(d.rsample(shape).shape)), tried(lambda: d.rsample(()).requires_grad)
    wide = d.expand((2, *d.batch_shape))
    found["expanded"] = type(wide).__name__, tuple(wide.batch_shape), tuple(wide.event_shape), tuple(wide.sample().shape)
    found["log_prob of expanded"] = tried(lambda: wide.log_prob(x.unsqueeze(-1 - n - len(d.event_shape))).detach())
    found["own sample"] = tuple(d.log_prob(d.sample((5,))).shape)
    return {key: value for key, value in found.items() if key not in without}


def distribution(params: Any, values: Any, *, dtype: Any = np.float64, without: Any = ()) -> Any:
    """Decorates a function (module of distributions, parameters): a program that compares all of the distribution that it makes."""

    def decorate(make: Any) -> Any:
        def run(m: Any) -> Any:
            return account(m, make, params, values, dtype, without)

        run.__name__ = make.__name__
        return program(run)

    return decorate


def column(*values: Any) -> Any:
    """Values that broadcast against a batch."""
    return np.array(values).reshape(-1, 1)


LOC, SCALE, SHAPE = [-1.0, 0.5, 2.0], [0.3, 1.0, 2.5], [0.4, 1.0, 3.7]
REAL = column(-2.0, 0.0, 0.3, 4.0)
POSITIVE = column(0.05, 0.7, 1.0, 6.0)
UNIT = column(0.05, 0.5, 0.93)
PROBS = [0.1, 0.5, 0.8]
CLASSES = [[0.2, 0.5, 0.3], [0.1, 0.1, 0.8]]
COUNTS = column(0.0, 1.0, 3.0)
SIMPLEX = [[[0.2, 0.5, 0.3]], [[0.6, 0.1, 0.3]]]
MATRIX = [[2.0, 0.3], [0.3, 0.7]]
FACTOR = [[1.2, 0.0], [-0.4, 0.6]]
VECTORS = [[0.1, -0.4], [1.0, 2.0], [0.0, 0.0]]

# ----- numbers ----------------------------------------------------------------------------------------------------------------


@distribution([LOC, SCALE], REAL)
def normal(D, loc, scale):
    return D.Normal(loc, scale)


@distribution([LOC, SCALE], REAL)
def cauchy(D, loc, scale):
    return D.Cauchy(loc, scale)


@distribution([LOC, SCALE], REAL)
def laplace(D, loc, scale):
    return D.Laplace(loc, scale)


@distribution([LOC, SCALE], REAL)
def gumbel(D, loc, scale):
    return D.Gumbel(loc, scale)


@distribution([LOC, SCALE], POSITIVE)
def log_normal(D, loc, scale):
    return D.LogNormal(loc, scale)


@distribution([SCALE], POSITIVE)
def half_normal(D, scale):
    return D.HalfNormal(scale)


@distribution([SCALE], POSITIVE)
def half_cauchy(D, scale):
    return D.HalfCauchy(scale)


@distribution([SCALE], POSITIVE)
def exponential(D, rate):
    return D.Exponential(rate)


@distribution([SHAPE, SCALE], POSITIVE, without=["gradients of cdf"])
def gamma(D, concentration, rate):
    return D.Gamma(concentration, rate)


@distribution([SHAPE], POSITIVE, without=["gradients of cdf"])
def chi2(D, df):
    return D.Chi2(df)


@distribution([[0.6, 1.5, 3.7], SCALE], POSITIVE, without=["gradients of cdf"])
def inverse_gamma(D, concentration, rate):
    return D.InverseGamma(concentration, rate)


@distribution([[0.7, 1.5, 4.0], LOC, SCALE], REAL)
def student_t(D, df, loc, scale):
    return D.StudentT(df, loc, scale)


@distribution([[1.0, 3.0, 6.0], [1.5, 3.0, 5.0]], POSITIVE)
def fisher_snedecor(D, df1, df2):
    return D.FisherSnedecor(df1, df2)


@distribution([SHAPE, [1.6, 2.0, 1.5]], UNIT)
def beta(D, a, b):
    return D.Beta(a, b)


@distribution([[0.4, 1.5, 3.7], [0.6, 2.0, 1.5]], UNIT, without=["mode"])
def kumaraswamy(D, a, b):
    return D.Kumaraswamy(a, b)


@distribution([[0.5, 1.0, 2.0], [2.1, 2.5, 3.0]], column(2.5, 4.0))
def pareto(D, scale, alpha):
    return D.Pareto(scale, alpha)


@distribution([SCALE, [1.0, 1.5, 3.0]], POSITIVE)
def weibull(D, scale, concentration):
    return D.Weibull(scale, concentration)


@distribution([[-1.0, 0.5, 0.0], SCALE, [0.3, 0.7, 1.2]], column(0.6, 3.0), dtype=np.float32, without=ATTRIBUTES)
def generalized_pareto_of_heavy_tails(D, loc, scale, concentration):
    return D.GeneralizedPareto(loc, scale, concentration)


@distribution([[-1.0, 0.0], [0.5, 1.0], [-0.3, 0.0]], [[-0.5, 0.3], [0.2, 0.9]], dtype=np.float32)
def generalized_pareto_of_bounded_and_exponential_tails(D, loc, scale, concentration):
    return D.GeneralizedPareto(loc, scale, concentration)


@distribution([[-1.0, 0.0, 2.0], [1.0, 0.5, 7.0]], column(0.0, 0.4))
def uniform_outside_of_its_support(D, low, high):
    return D.Uniform(low, high, validate_args=False)


@distribution([[-1.0, 0.0, -0.5], [1.0, 0.5, 7.0]], column(0.0, 0.4))
def uniform(D, low, high):
    return D.Uniform(low, high)


@distribution([PROBS], UNIT)
def continuous_bernoulli(D, probs):
    return D.ContinuousBernoulli(probs)


@distribution([[-1.0, 0.0, 3.0]], UNIT)
def continuous_bernoulli_by_logits(D, logits):
    return D.ContinuousBernoulli(logits=logits)


@distribution([LOC, SCALE], REAL, dtype=np.float32)
def von_mises(D, loc, concentration):
    return D.VonMises(loc, concentration)


@distribution([0.5, PROBS], UNIT)
def relaxed_bernoulli(D, temperature, probs):
    return D.RelaxedBernoulli(temperature, probs)


# ----- counts -----------------------------------------------------------------------------------------------------------------


@distribution([PROBS], column(0.0, 1.0))
def bernoulli(D, probs):
    return D.Bernoulli(probs)


@distribution([[-1.0, 0.0, 3.0]], column(0.0, 1.0))
def bernoulli_by_logits(D, logits):
    return D.Bernoulli(logits=logits)


@distribution([PROBS], COUNTS)
def geometric(D, probs):
    return D.Geometric(probs)


@distribution([[-1.0, 0.0, 3.0]], COUNTS)
def geometric_by_logits(D, logits):
    return D.Geometric(logits=logits)


@distribution([PROBS], COUNTS)
def binomial(D, probs):
    return D.Binomial(4, probs)


@distribution([[-1.0, 0.0, 3.0]], COUNTS)
def binomial_by_logits_of_several_counts(D, logits):
    m = torch if D is torch.distributions else ndgrad
    return D.Binomial(m.tensor([3.0, 4.0, 5.0], dtype=m.float64), logits=logits)


@distribution([[1.5, 2.0, 4.0], PROBS], COUNTS)
def negative_binomial(D, total_count, probs):
    return D.NegativeBinomial(total_count, probs)


@distribution([[0.5, 1.0, 7.5]], COUNTS)
def poisson(D, rate):
    return D.Poisson(rate)


@distribution([CLASSES], column(0.0, 2.0), without=["empty samples"])
def categorical(D, probs):
    return D.Categorical(probs)


@distribution([CLASSES], column(0.0, 2.0), without=["empty samples"])
def categorical_by_logits(D, logits):
    return D.Categorical(logits=logits)


@distribution([CLASSES], [[[0.0, 1.0, 0.0]], [[0.0, 0.0, 1.0]]], without=["empty samples"])
def one_hot_categorical(D, probs):
    return D.OneHotCategorical(probs)


@distribution([CLASSES], [[[0.0, 1.0, 0.0]]], without=["empty samples"])
def one_hot_categorical_straight_through(D, probs):
    return D.OneHotCategoricalStraightThrough(probs)


@distribution([CLASSES], [[[0.0, 3.0, 1.0]], [[2.0, 0.0, 2.0]]], without=["empty samples"])
def multinomial(D, probs):
    return D.Multinomial(4, probs)


# ----- vectors and matrices -----------------------------------------------------------------------------------------------------


@distribution([[[0.4, 1.0, 3.7], [2.0, 0.6, 1.1]]], SIMPLEX)
def dirichlet(D, concentration):
    return D.Dirichlet(concentration)


@distribution([0.7, CLASSES], SIMPLEX)
def relaxed_one_hot_categorical(D, temperature, probs):
    return D.RelaxedOneHotCategorical(temperature, probs)


@distribution([[0.3, -0.5], [0.4, 1.3]], [[0.2, 0.5, 0.3], [0.6, 0.1, 0.3]])
def logistic_normal(D, loc, scale):
    return D.LogisticNormal(loc, scale)


@distribution([[0.5, -1.0], MATRIX], VECTORS)
def multivariate_normal(D, loc, covariance):
    return D.MultivariateNormal(loc, covariance)


@distribution([[0.5, -1.0], MATRIX], VECTORS)
def multivariate_normal_by_precision(D, loc, precision):
    return D.MultivariateNormal(loc, precision_matrix=precision)


@distribution([[[0.5, -1.0], [0.0, 0.1]], FACTOR], np.array(VECTORS)[:, None])
def multivariate_normal_by_factor(D, loc, scale_tril):
    return D.MultivariateNormal(loc, scale_tril=scale_tril)


@distribution([[0.5, -1.0, 0.2], [[1.0], [0.5], [-0.3]], [0.2, 0.5, 1.5]], [[0.1, -0.4, 0.3], [1.0, 2.0, 3.0]])
def lowrank_multivariate_normal(D, loc, factor, diagonal):
    return D.LowRankMultivariateNormal(loc, factor, diagonal)


@distribution([[0.5, 1.0, 3.0]], [[[1.0, 0.0, 0.0], [0.6, 0.8, 0.0], [0.0, 0.28, 0.96]]])
def lkj_cholesky(D, concentration):
    return D.LKJCholesky(3, concentration)


@distribution([[2.5, 6.0], MATRIX], [[[1.0, 0.2], [0.2, 0.5]]])
def wishart(D, df, covariance):
    return D.Wishart(df, covariance)


@distribution([4.0, FACTOR], [[[1.0, 0.2], [0.2, 0.5]]])
def wishart_by_factor(D, df, scale_tril):
    return D.Wishart(df, scale_tril=scale_tril.tril())


# ----- made of others -----------------------------------------------------------------------------------------------------------


@distribution([LOC, SCALE], [LOC, SCALE])
def independent(D, loc, scale):
    return D.Independent(D.Normal(loc, scale), 1)


@distribution([[LOC, LOC], SCALE], [LOC])
def independent_of_a_batch(D, loc, scale):
    return D.Independent(D.Normal(loc, scale), 1)


@distribution([[1.0, 2.0, 0.5], LOC, SCALE], [-1.0, 0.0, 2.0], without=["empty samples"])
def mixture_of_normals(D, weights, loc, scale):
    return D.MixtureSameFamily(D.Categorical(weights), D.Normal(loc, scale))


@distribution([[[1.0, 2.0], [3.0, 1.0]], [VECTORS[:2], VECTORS[1:]]], [[0.3, 0.2]], without=["empty samples"])
def mixture_of_vectors(D, weights, loc):
    return D.MixtureSameFamily(D.Categorical(weights), D.Independent(D.Laplace(loc, 1.5), 1))


@distribution([LOC, SCALE], POSITIVE)
def transformed_by_several(D, loc, scale):
    return D.TransformedDistribution(D.Normal(loc, scale), [D.ExpTransform(), D.PowerTransform(2.0), D.AffineTransform(0.0, 3.0)])


@distribution([LOC, SCALE], REAL)
def transformed_by_a_falling_map(D, loc, scale):
    return D.TransformedDistribution(D.Normal(loc, 1.0), D.AffineTransform(0.3, -scale))


@distribution([[0.3, -0.5], [0.4, 1.3]], SIMPLEX[0])
def transformed_to_a_simplex(D, loc, scale):
    return D.TransformedDistribution(D.Normal(loc, scale), [D.StickBreakingTransform()])


@distribution([[0.3, -0.5], [0.4, 1.3]], [[0.3, 0.4], [-0.9, 0.2]])
def transformed_multivariate(D, loc, scale):
    base = D.MultivariateNormal(loc, scale_tril=scale.diag())
    return D.TransformedDistribution(base, [D.TanhTransform()])


# ----- transforms ---------------------------------------------------------------------------------------------------------------


def transformed(make: Any, *points: Any) -> Any:
    """A program that compares all that a transform says of itself and of some points."""

    def run(m: Any) -> Any:
        t = make(m.distributions)
        found: list[Any] = [
            text(t), text(t.inv), text(t.domain), text(t.codomain), t.bijective, tried(lambda: t.sign), tried(lambda: t.event_dim), t == t,
            t.inv.inv is t, t == make(m.distributions), t == m.distributions.ExpTransform(), t.inv == t, text(t.with_cache(1)),
            tried(lambda: hash(t)),
        ]  # fmt: skip
        for values in points:
            x = tensor(m, values, grad=True)
            y = t(x)
            found += [y, t.inv(y), tried(lambda x=x, y=y: t.log_abs_det_jacobian(x, y)), tuple(t.forward_shape(x.shape))]
            found += [tuple(t.inverse_shape(y.shape)), t.domain.check(x), t.codomain.check(y), gradients(y, [x])]
            det = tried(lambda x=x, y=y: gradients(t.log_abs_det_jacobian(x, y), [x]))
            cached = t.with_cache(1)
            z = cached(x)
            found += [det, cached.inv(z) is x, tried(lambda: t.inv.log_abs_det_jacobian(y, x))]  # noqa: B023
        return found

    return run


NUMBERS = [-3.0, -0.2, 0.0, 1.5, 40.0]
TRANSFORMS = {
    "exp": (lambda D: D.ExpTransform(), NUMBERS[:4]),
    "inverse_of_exp": (lambda D: D.ExpTransform().inv, [0.1, 2.0]),
    "abs": (lambda D: D.AbsTransform(), NUMBERS),
    "affine": (lambda D: D.AffineTransform(1.0, -2.5), NUMBERS),
    "affine_of_vectors": (lambda D: D.AffineTransform(0.5, 2.0, event_dim=1), [[0.1, 0.2], [0.3, 0.4]]),
    "power": (lambda D: D.PowerTransform(3), [0.5, 2.0]),
    "sigmoid": (lambda D: D.SigmoidTransform(), [*NUMBERS, 800.0, -800.0]),
    "softplus": (lambda D: D.SoftplusTransform(), NUMBERS),
    "tanh": (lambda D: D.TanhTransform(), NUMBERS[:4]),
    "softmax": (lambda D: D.SoftmaxTransform(), [[0.1, 0.4, -1.0], [3.0, 2.0, 1.0]]),
    "stick_breaking": (lambda D: D.StickBreakingTransform(), [[0.1, 0.4], [3.0, -2.0]]),
    "corr_cholesky": (lambda D: D.CorrCholeskyTransform(), [[0.1, 0.4, -1.0], [0.3, 2.0, 0.0]]),
    "lower_cholesky": (lambda D: D.LowerCholeskyTransform(), [[0.1, 0.4], [3.0, -2.0]]),
    "positive_definite": (lambda D: D.PositiveDefiniteTransform(), [[0.1, 0.4], [1.0, -0.5]]),
    "reshape": (lambda D: D.ReshapeTransform((2, 2), (4,)), [[[0.1, 0.4], [1.0, -0.5]]]),
    "independent": (lambda D: D.IndependentTransform(D.ExpTransform(), 1), [[0.1, 0.4], [1.0, -0.5]]),
    "composition": (lambda D: D.ComposeTransform([D.AffineTransform(0.1, 0.5), D.SigmoidTransform(), D.AffineTransform(1.0, 2.0)]),
    NUMBERS[:4]),
    "composition_to_vectors": (lambda D: D.ComposeTransform([D.AffineTransform(0.1, 0.5), D.StickBreakingTransform()]),
    [[0.1, 0.4], [3.0, -2.0]]),
    "identity": (lambda D: D.identity_transform, NUMBERS),
    "cat": (lambda D: D.CatTransform([D.ExpTransform(), D.identity_transform], dim=-1, lengths=[1, 2]),
    [[0.1, 0.4, 2.0], [1.0, -0.5, 0.0]]),
    "stack": (lambda D: D.StackTransform([D.ExpTransform(), D.AffineTransform(0.0, 2.0)], dim=-1), [[0.1, 0.4], [1.0, -0.5]]),
    "cumulative": (lambda D: D.CumulativeDistributionTransform(D.Normal(0.0, 1.0)), [-1.0, 0.3]),
}  # fmt: skip

for _name, (_make, *_points) in TRANSFORMS.items():
    _run = transformed(_make, *_points)
    _run.__name__ = f"transform_{_name}"
    program(_run)


@program
def transforms_of_constraints(m):
    D, C = m.distributions, m.distributions.constraints
    found = []
    for constraint in (
        C.real, C.positive, C.greater_than(1.0), C.greater_than_eq(-1.0), C.less_than(2.0), C.interval(-1.0, 3.0), C.unit_interval,
        C.half_open_interval(0.0, 2.0), C.simplex, C.lower_cholesky, C.positive_definite, C.positive_semidefinite, C.corr_cholesky,
        C.independent(C.positive, 1), C.cat([C.real, C.positive], -1, [1, 2]), C.stack([C.real, C.positive, C.unit_interval], -1),
        C.boolean, C.lower_triangular, C.nonnegative_integer,
    ):  # fmt: skip
        x = tensor(m, [[0.3, -0.2, 1.0], [2.0, 0.1, -1.0], [0.0, 0.0, 0.5]])
        for registry in (D.biject_to, D.transform_to):
            t = tried(lambda r=registry, c=constraint: r(c))
            found.append(text(t))
            if not isinstance(t, str):
                y = t(x)
                found += [y, constraint.check(y), t.inv(y)]
    return found


@program
def constraints_of_many_values(m):
    C = m.distributions.constraints
    numbers = tensor(m, [-2.0, -1.0, -0.5, 0.0, 0.5, 1.0, 2.0, 3.0, np.inf, -np.inf, np.nan])
    found = []
    bounds = tensor(m, [0.5])
    for c in (
        C.boolean, C.greater_than(0.5), C.greater_than_eq(0.5), C.less_than(0.5), C.interval(-1, 2), C.half_open_interval(-1, 2),
        C.integer_interval(-1, 2), C.nonnegative, C.nonnegative_integer, C.positive, C.positive_integer, C.real, C.unit_interval,
        C.greater_than(bounds), C.interval(bounds, 2),
    ):  # fmt: skip
        found += [text(c), c.check(numbers), c.event_dim, c.is_discrete]
    vectors = tensor(m, [[0.2, 0.8], [0.0, 1.0], [1.0, 1.0], [-0.5, 1.5], [0.5, 0.4], [np.nan, 1.0]])
    for c in (
        C.simplex, C.one_hot, C.multinomial(1), C.real_vector, C.independent(C.positive, 1), C.cat([C.positive, C.real], -1),
        C.stack([C.positive, C.boolean], -1),
    ):
        found += [text(c), c.check(vectors), c.event_dim, c.is_discrete]
    symmetric = [[[2.0, 0.5], [0.5, 1.0]], [[1.0, 2.0], [2.0, 1.0]], [[0.0, 0.0], [0.0, 0.0]], [[1.0, 0.0], [0.0, -1.0]]]
    matrices = tensor(m, [[[1.0, 0.0], [0.6, 0.8]], [[1.0, 0.5], [0.2, 1.0]], *symmetric])
    for c in (
        C.lower_triangular, C.lower_cholesky, C.corr_cholesky, C.square, C.symmetric, C.independent(C.real, 2),
    ):
        found += [text(c), c.check(matrices), c.event_dim, c.is_discrete]
    for c in (C.positive_definite, C.positive_semidefinite):
        found += [text(c), c.check(tensor(m, symmetric)), c.event_dim, c.is_discrete]
    for c in (C.square, C.symmetric, C.positive_definite):
        found.append(c.check(tensor(m, np.ones((4, 2, 3)))))
    found += [text(C.dependent), C.is_dependent(C.dependent), C.is_dependent(C.real), C.is_dependent(m.distributions.Uniform.support)]
    for f in (lambda: C.dependent.event_dim, lambda: C.dependent.check(numbers), lambda: C.independent(C.real, 2).check(numbers)):
        found.append(tried(f))
    return found


@program
def supports_of_instances(m):
    D = m.distributions
    found = []
    for d in (
        D.Normal(0.0, 1.0), D.Uniform(0.0, 2.0), D.Beta(1.0, 2.0), D.Binomial(3, m.tensor([0.5])), D.Categorical(m.ones(3)), D.Poisson(1.0),
        D.Pareto(m.tensor([1.0, 2.0]), 1.0), D.Multinomial(3, m.ones(2)), D.LogNormal(0.0, 1.0), D.LKJCholesky(3), D.HalfNormal(1.0),
        D.Independent(D.Normal(m.zeros(2), 1.0), 1), D.MixtureSameFamily(D.Categorical(m.ones(2)), D.Gamma(m.ones(2), 1.0)),
        D.TransformedDistribution(D.Normal(m.zeros(2), 1.0), [D.ExpTransform()]), D.GeneralizedPareto(0.0, 1.0, -0.5),
        D.TransformedDistribution(D.MultivariateNormal(m.zeros(2), m.eye(2)), [D.ExpTransform()]),
    ):  # fmt: skip
        found += [text(d.support), d.support.event_dim, d.support.is_discrete]
    return found


# ----- divergences ----------------------------------------------------------------------------------------------------------------


def families(m: Any) -> dict[str, list[Any]]:
    """Two of each family, and their parameters."""
    D = m.distributions

    def t(values: Any) -> Any:
        return tensor(m, values, grad=True)

    def pair(make: Any, *params: Any) -> list[Any]:
        return [(make(*leaves), leaves) for leaves in ([t(a) for a, _ in params], [t(b) for _, b in params])]

    p, c = (PROBS, [0.3, 0.5, 0.6]), (CLASSES, CLASSES[::-1])
    loc, scale, shape = (LOC, [0.3, 0.4, 3.0]), (SCALE, [0.5, 0.7, 4.0]), (SHAPE, [1.4, 0.7, 2.0])
    return {
        "Bernoulli": pair(D.Bernoulli, p), "Beta": pair(D.Beta, shape, scale), "Binomial": pair(lambda q: D.Binomial(4, q), p),
        "Categorical": pair(D.Categorical, c), "Cauchy": pair(D.Cauchy, loc, scale), "ContinuousBernoulli": pair(D.ContinuousBernoulli, p),
        "Dirichlet": pair(D.Dirichlet, (CLASSES, [[1.0, 2.0, 3.0], [0.5, 0.7, 1.0]])), "Exponential": pair(D.Exponential, scale),
        "Gamma": pair(D.Gamma, shape, scale), "Geometric": pair(D.Geometric, p), "Gumbel": pair(D.Gumbel, loc, scale),
        "HalfNormal": pair(D.HalfNormal, scale), "Laplace": pair(D.Laplace, loc, scale), "Normal": pair(D.Normal, loc, scale),
        "OneHotCategorical": pair(D.OneHotCategorical, c), "Pareto": pair(D.Pareto, scale, (SHAPE, [1.4, 2.7, 2.3])),
        "Poisson": pair(D.Poisson, scale), "Uniform": pair(D.Uniform, ([0.1, 0.2, 0.3], [-0.1, 0.1, -3.0]), ([0.5, 0.9, 2.0], [1.2, 0.8,
        4.0])),
        "LogNormal": pair(D.LogNormal, loc, scale), "Chi2": pair(D.Chi2, shape),
        "MultivariateNormal": pair(lambda a, b: D.MultivariateNormal(a, scale_tril=b.tril()), ([0.1, 0.3], [0.5, -1.0]),
        (FACTOR, np.eye(2))),
        "LowRankMultivariateNormal": pair(
            D.LowRankMultivariateNormal, ([0.1, 0.3], [0.5, -1.0]), ([[1.0], [0.5]], [[-0.3], [0.2]]), ([0.5, 1.0], [2.0, 0.3])),
        "Independent": [(D.Independent(d, 1), leaves) for d, leaves in pair(D.Normal, loc, scale)],
        "Weibull": pair(D.Weibull, scale, shape), "VonMises": pair(D.VonMises, loc, scale),
        "Kumaraswamy": pair(D.Kumaraswamy, shape, scale),
    }  # fmt: skip


def divergences(first: str) -> Any:
    def run(m: Any) -> Any:
        found = {}
        known = families(m)
        for second in known:
            (p, of_p), (q, of_q) = known[first][0], known[second][1]
            kl = tried(lambda p=p, q=q: m.distributions.kl_divergence(p, q))
            found[second] = kl if isinstance(kl, str) else kl.detach()
            leaves = [*of_p, *of_q]
            found["gradients for " + second] = (
                None if isinstance(kl, str) or not bool(kl.isfinite().all()) else [g for g in gradients(kl, leaves) or [] if g is not None]
            )
        return found

    run.__name__ = f"divergences_of_{first}"
    return run


FAMILIES = (
    "Bernoulli", "Beta", "Binomial", "Categorical", "Cauchy", "ContinuousBernoulli", "Dirichlet", "Exponential", "Gamma", "Geometric",
    "Gumbel", "HalfNormal", "Laplace", "Normal", "OneHotCategorical", "Pareto", "Poisson", "Uniform", "LogNormal", "Chi2",
    "MultivariateNormal", "LowRankMultivariateNormal", "Independent", "Weibull", "VonMises", "Kumaraswamy",
)  # fmt: skip
for _name in FAMILIES:
    program(divergences(_name))


@program
def divergences_at_the_ends_of_probabilities(m):
    D, t = m.distributions, lambda *v: tensor(m, v)
    return [
        D.kl_divergence(D.Bernoulli(t(0.0, 1.0, 0.0, 0.5)), D.Bernoulli(t(0.3, 0.3, 0.0, 1.0))),
        D.kl_divergence(D.Categorical(t(0.0, 1.0)), D.Categorical(t(0.5, 0.5))),
        D.kl_divergence(D.Categorical(t(0.5, 0.5)), D.Categorical(t(0.0, 1.0))),
        D.kl_divergence(D.Binomial(5, t(0.5)), D.Binomial(3, t(0.5))),
        tried(lambda: D.kl_divergence(D.Binomial(2, t(0.5)), D.Binomial(3, t(0.5)))),
        D.kl_divergence(D.Uniform(t(0.0, 0.0), t(1.0, 2.0)), D.Uniform(t(0.0, 0.0), t(2.0, 1.0))),
    ]


@program
def a_divergence_registered_for_subclasses(m):
    D = m.distributions

    class Mine(D.Normal):
        pass

    class Yours(D.Normal):
        pass

    before = D.kl_divergence(Mine(0.0, 1.0), Yours(1.0, 1.0))

    @D.register_kl(Mine, D.Normal)
    def first(p, q):
        return m.tensor(1.0)

    @D.register_kl(D.Normal, Yours)
    def second(p, q):
        return m.tensor(2.0)

    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        both = D.kl_divergence(Mine(0.0, 1.0), Yours(0.0, 1.0))
    return [
        before, both, [(c.category.__name__, str(c.message)) for c in caught], D.kl_divergence(Mine(0.0, 1.0), Mine(0.0, 1.0)),
        D.kl_divergence(Yours(0.0, 1.0), Yours(0.0, 1.0)), D.kl_divergence(D.Normal(0.0, 1.0), Mine(0.0, 1.0)),
    ]  # fmt: skip


# ----- errors ---------------------------------------------------------------------------------------------------------------------


def words(f: Any) -> Any:
    """The class of an error and its text, as far as torch's goes."""
    try:
        return text(f())
    except Exception as error:
        return type(error).__name__, re.sub(r"\b(torch|ndgrad)\.", "", without_code(str(error)))


BAD = {
    "Normal": lambda D, t: D.Normal(t([0.0, 1.0]), t([-1.0, 1.0])),
    "Normal nan": lambda D, t: D.Normal(t(np.nan), 1.0),
    "Normal text": lambda D, t: D.Normal("a", 1.0),
    "Beta": lambda D, t: D.Beta(-1.0, 1.0),
    "Bernoulli": lambda D, t: D.Bernoulli(t([1.5])),
    "Bernoulli neither": lambda D, t: D.Bernoulli(),
    "Bernoulli both": lambda D, t: D.Bernoulli(0.5, 0.5),
    "Categorical": lambda D, t: D.Categorical(t([-1.0, 2.0])),
    "Categorical number": lambda D, t: D.Categorical(t(1.0)),
    "Categorical value": lambda D, t: D.Categorical(t([1.0, 1.0])).log_prob(t(2.0)),
    "Chi2": lambda D, t: D.Chi2(-1.0),
    "Dirichlet": lambda D, t: D.Dirichlet(t([1.0, 0.0])),
    "Dirichlet number": lambda D, t: D.Dirichlet(t(1.0)),
    "Exponential value": lambda D, t: D.Exponential(1.0).log_prob(t(-1.0)),
    "Geometric": lambda D, t: D.Geometric(t([0.0, 0.5])),
    "Gamma": lambda D, t: D.Gamma(0.0, 1.0),
    "Gumbel": lambda D, t: D.Gumbel(0.0, -1.0),
    "HalfNormal": lambda D, t: D.HalfNormal(-1.0),
    "HalfNormal value": lambda D, t: D.HalfNormal(1.0).log_prob(t(-1.0)),
    "Independent": lambda D, t: D.Independent(D.Normal(0.0, 1.0), 1),
    "InverseGamma": lambda D, t: D.InverseGamma(0.0, 1.0),
    "Kumaraswamy": lambda D, t: D.Kumaraswamy(0.0, 1.0),
    "LKJCholesky": lambda D, t: D.LKJCholesky(1),
    "LKJCholesky shape": lambda D, t: D.LKJCholesky(3).log_prob(t(np.eye(2))),
    "LogNormal": lambda D, t: D.LogNormal(0.0, 0.0),
    "Multinomial": lambda D, t: D.Multinomial(t([1, 2]), t([0.5, 0.5])),
    "Multinomial value": lambda D, t: D.Multinomial(2, t([0.5, 0.5])).log_prob(t([3.0, 1.0])),
    "MultivariateNormal": lambda D, t: D.MultivariateNormal(t([0.0, 0.0]), t([[1.0, 2.0], [2.0, 1.0]])),
    "MultivariateNormal none": lambda D, t: D.MultivariateNormal(t([0.0, 0.0])),
    "MultivariateNormal number": lambda D, t: D.MultivariateNormal(t(0.0), t(np.eye(2))),
    "MultivariateNormal vector": lambda D, t: D.MultivariateNormal(t([0.0]), t([1.0])),
    "LowRankMultivariateNormal": lambda D, t: D.LowRankMultivariateNormal(t([0.0, 0.0]), t([[1.0]]), t([1.0, 1.0])),
    "NegativeBinomial": lambda D, t: D.NegativeBinomial(-1.0, t(0.5)),
    "Pareto": lambda D, t: D.Pareto(-1.0, 1.0),
    "Pareto value": lambda D, t: D.Pareto(1.0, 1.0).log_prob(t(0.5)),
    "Poisson": lambda D, t: D.Poisson(-1.0),
    "Poisson value": lambda D, t: D.Poisson(1.0).log_prob(t(0.5)),
    "Uniform": lambda D, t: D.Uniform(1.0, 1.0),
    "Uniform value": lambda D, t: D.Uniform(0.0, 1.0).log_prob(t(2.0)),
    "Uniform probability": lambda D, t: D.Uniform(0.0, 1.0).cdf(t(2.0)),
    "VonMises": lambda D, t: D.VonMises(t(0.0), t(-1.0)),
    "Weibull": lambda D, t: D.Weibull(-1.0, 1.0),
    "Wishart": lambda D, t: D.Wishart(t(0.5), t(np.eye(2))),
    "mixture of numbers": lambda D, t: D.MixtureSameFamily(1, 2),
    "mixture of too few": lambda D, t: D.MixtureSameFamily(D.Categorical(t([0.5, 0.5])), D.Normal(t([0.0, 1.0, 2.0]), 1.0)),
    "transform of text": lambda D, t: D.TransformedDistribution(D.Normal(0.0, 1.0), "x"),
    "transform of too little": lambda D, t: D.TransformedDistribution(D.Normal(0.0, 1.0), D.StickBreakingTransform()),
    "value of another shape": lambda D, t: D.Normal(t([0.0, 1.0]), 1.0).log_prob(t([0.0, 1.0, 2.0])),
    "value of another event": lambda D, t: D.MultivariateNormal(t([0.0, 0.0]), t(np.eye(2))).log_prob(t([0.0, 1.0, 2.0])),
    "value that is a number": lambda D, t: D.Normal(0.0, 1.0).log_prob(1.0),
    "no samples": lambda D, t: D.Bernoulli(0.5).rsample().shape,
    "no probability": lambda D, t: D.Bernoulli(0.5).cdf(t(1.0)),
    "cache": lambda D, t: D.ExpTransform(cache_size=2),
    "validation": lambda D, t: D.Distribution.set_default_validate_args(3),
    "biject": lambda D, t: D.biject_to(D.constraints.boolean),
    "register": lambda D, t: D.biject_to.register("x", lambda c: c),
    "families": lambda D, t: D.kl_divergence(D.Normal(0.0, 1.0), D.Poisson(1.0)),
    "unknown": lambda D, t: D.kl_divergence(D.StudentT(1.0), D.Poisson(1.0)),
    "not checked": lambda D, t: D.Normal(0.0, -1.0, validate_args=False).log_prob(t(np.nan)),
}  # fmt: skip


def test_bad_input_is_told_in_torchs_words():
    others = []
    ndgrad.set_default_dtype(ndgrad.float32)
    for name, f in BAD.items():
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            theirs = words(lambda: f(torch.distributions, lambda v: torch.tensor(np.asarray(v, np.float32))))  # noqa: B023
            ours = words(lambda: f(ndgrad.distributions, lambda v: ndgrad.tensor(np.asarray(v, np.float32))))  # noqa: B023
        if isinstance(theirs, tuple):
            start = " ".join(theirs[1].split()).rstrip(".")
            fits = isinstance(ours, tuple) and ours[0] == theirs[0] and " ".join(ours[1].split()).startswith(start)
        else:
            fits = ours == theirs
        if not fits:
            others.append((name, theirs, ours))
    assert not others, "\n".join(map(str, others))


# ----- the rest of the surface ----------------------------------------------------------------------------------------------------


@program
def numbers_become_tensors_of_the_default_dtype(m):
    D = m.distributions
    with_tensor = D.Normal(m.zeros(2, dtype=m.float64), 1)
    return [
        str(d.dtype).rpartition(".")[2]
        for d in (
            D.Normal(0, 1).loc, D.Normal(0.0, 1.0).sample(), with_tensor.scale, with_tensor.sample(), D.Bernoulli(0.5).sample(),
            D.Categorical(m.ones(3)).sample(), D.Poisson(2.0).sample(), D.Gamma(2, 1).sample(), D.Beta(1, 1).rsample(),
            D.Binomial(3, m.tensor(0.5)).sample(), D.OneHotCategorical(m.ones(3)).sample(),
            D.VonMises(m.tensor(0.0), m.tensor(1.0)).sample(),
            D.Normal(0.0, 1.0).log_prob(m.tensor(0)), D.Poisson(2.0).log_prob(m.tensor(1)),
            D.Geometric(0.5).sample(), D.Multinomial(3, m.ones(2)).sample(), D.LKJCholesky(2).sample(), D.Uniform(0, 1).sample(),
        )
    ]  # fmt: skip


@program
def texts_of_distributions(m):
    D, t = m.distributions, m.tensor
    made = [
        D.Normal(0.0, 1.0), D.Normal(t([0.0]), 1.0), D.Normal(t([0.0, 1.0]), 1.0), D.Beta(1.0, 2.0), D.Chi2(1.0), D.Gumbel(0.0, 1.0),
        D.LogNormal(0.0, 1.0), D.HalfNormal(1.0), D.Pareto(1.0, 2.0), D.Categorical(t([0.5, 0.5])), D.Bernoulli(logits=t(0.5)),
        D.Binomial(3, t([0.5, 0.25])), D.Multinomial(3, t([0.5, 0.5])), D.OneHotCategorical(t([0.5, 0.5])), D.Dirichlet(t([1.0, 2.0])),
        D.MultivariateNormal(t([0.0, 1.0]), scale_tril=m.eye(2)), D.LKJCholesky(3), D.Wishart(t(3.0), m.eye(2)), D.VonMises(t(0.0), t(1.0)),
        D.RelaxedBernoulli(t(1.0), 0.5), D.StudentT(1.0), D.InverseGamma(1.0, 2.0), D.Weibull(1.0, 2.0), D.Uniform(0.0, 1.0),
        D.TransformedDistribution(D.Normal(0.0, 1.0), []), D.Independent(D.Normal(t([0.0, 1.0]), 1.0), 1),
        D.MixtureSameFamily(D.Categorical(t([0.5, 0.5])), D.Normal(t([0.0, 1.0]), 1.0)), D.ContinuousBernoulli(0.25),
        D.FisherSnedecor(1.0, 2.0),
    ]  # fmt: skip
    after = D.Categorical(t([0.5, 0.5]))
    _ = after.logits
    return [text(d) for d in (*made, after)]


@program
def densities_without_validation_outside_of_supports(m):
    D, t = m.distributions, lambda *v: tensor(m, v)
    off = {"validate_args": False}
    return [
        D.Exponential(t(2.0), **off).log_prob(t(-1.0)), D.Uniform(t(0.0), t(1.0), **off).log_prob(t(-1.0, 0.0, 1.0, 2.0)),
        D.Uniform(t(0.0), t(1.0), **off).cdf(t(-1.0, 0.5, 2.0)), D.HalfNormal(t(1.0), **off).log_prob(t(-1.0)),
        D.Beta(t(2.0), t(3.0), **off).log_prob(t(0.0, 1.0)), D.Bernoulli(t(0.0, 1.0), **off).log_prob(t(1.0, 1.0)),
        D.Gamma(t(1.0), t(2.0), **off).log_prob(t(0.0)), D.Gamma(t(2.0), t(2.0), **off).log_prob(t(0.0)),
        D.Categorical(t(0.0, 1.0), **off).log_prob(t(0.0, 1.0)), D.Categorical(t(0.0, 1.0), **off).entropy(),
        D.Poisson(t(0.0), **off).log_prob(t(0.0, 1.0)), D.Geometric(t(1.0), **off).log_prob(t(0.0, 1.0)),
        D.Binomial(3, t(0.0), **off).log_prob(t(0.0, 1.0)), D.Binomial(3, t(1.0), **off).log_prob(t(3.0, 1.0)),
        D.NegativeBinomial(t(0.0), t(0.5), **off).log_prob(t(0.0)), D.Dirichlet(t(1.0, 2.0), **off).log_prob(t(0.0, 1.0)),
        D.Normal(t(0.0), t(1.0)).cdf(t(-40.0, 40.0)), D.Normal(t(0.0), t(1.0)).icdf(t(0.0, 0.5, 1.0)),
        D.Laplace(t(0.0), t(1.0)).icdf(t(0.0, 0.5, 1.0)),
        D.Cauchy(t(0.0), t(1.0)).log_prob(t(1e200)), D.StudentT(t(1e6)).log_prob(t(1.0)),
    ]  # fmt: skip


@program
def shapes_of_samples_and_values(m):
    D = m.distributions
    d = D.Normal(m.zeros(3, 1), m.ones(2))
    mvn = D.MultivariateNormal(m.zeros(4, 2), m.eye(2))
    return [
        tuple(d.sample().shape), tuple(d.sample((5,)).shape), tuple(d.sample(m.Size([5, 4])).shape),
        tuple(d.log_prob(m.zeros(7, 1, 1)).shape),
        tuple(mvn.sample((5,)).shape), tuple(mvn.log_prob(m.zeros(2)).shape), tuple(mvn.log_prob(m.zeros(6, 4, 2)).shape),
        tuple(mvn.expand((3, 4)).sample((2,)).shape), tuple(d._extended_shape((2,))), d.batch_shape.numel(),
        tuple(D.Bernoulli(m.ones(2, 3) / 2).enumerate_support().shape), tuple(D.Categorical(m.ones(2, 3)).enumerate_support().shape),
        tuple(D.OneHotCategorical(m.ones(2, 3)).enumerate_support().shape), tuple(D.Categorical(m.ones(2, 3)).sample((4, 5)).shape),
        tuple(D.Multinomial(5, m.ones(2, 3)).sample((4,)).shape), tuple(D.LKJCholesky(3, m.ones(2)).sample((4,)).shape),
        tuple(D.Wishart(m.tensor([3.0, 4.0]), m.eye(2)).rsample((5,)).shape),
        tuple(D.LogisticNormal(m.zeros(2, 3), 1.0).sample((4,)).shape),
        tuple(D.LogisticNormal(0.0, 1.0).sample().shape),
        tuple(D.MixtureSameFamily(D.Categorical(m.ones(4, 2)), D.Normal(m.zeros(4, 2), 1.0)).sample((3,)).shape),
    ]  # fmt: skip


@program
def utilities(m):
    U = m.distributions.utils
    x = tensor(m, np.arange(9.0).reshape(3, 3))
    return [
        U.broadcast_all(1, m.tensor([1, 2])), U.broadcast_all(1, 2.5), U.broadcast_all(tensor(m, [[1.0], [2.0]]), tensor(m, [1.0, 2.0])),
        U.clamp_probs(tensor(m, [0.0, 0.5, 1.0])), U.probs_to_logits(tensor(m, [0.0, 0.5, 1.0])), U.probs_to_logits(tensor(m, [0.2]), True),
        U.logits_to_probs(tensor(m, [0.0, 0.5])), U.logits_to_probs(tensor(m, [0.3]), is_binary=True), U.tril_matrix_to_vec(x),
        U.tril_matrix_to_vec(x, -1), U.tril_matrix_to_vec(x, 1), U.vec_to_tril_matrix(tensor(m, np.arange(6.0))),
        U.vec_to_tril_matrix(tensor(m, np.arange(12.0).reshape(2, 6)), -1), tried(lambda: U.vec_to_tril_matrix(tensor(m, np.arange(7.0)))),
        tried(lambda: U.tril_matrix_to_vec(x, 5)), tried(lambda: U.broadcast_all([1.0])), U.euler_constant, U._sum_rightmost(x, 1),
        tuple(U._standard_normal((2, 3), m.float64, "cpu").shape),
    ]  # fmt: skip


@program
def a_distribution_of_ones_own(m):
    D = m.distributions

    class Triangular(D.Distribution):
        arg_constraints = {"high": D.constraints.positive}  # noqa: RUF012  # as users write
        has_rsample = True

        def __init__(self, high, validate_args=None):
            (self.high,) = D.utils.broadcast_all(high)
            super().__init__(self.high.shape, validate_args=validate_args)

        @D.constraints.dependent_property(is_discrete=False, event_dim=0)
        def support(self):
            return D.constraints.interval(0, self.high)

        def expand(self, batch_shape, _instance=None):
            new = self._get_checked_instance(Triangular, _instance)
            new.high = self.high.expand(batch_shape)
            super(Triangular, new).__init__(m.Size(batch_shape), validate_args=False)
            new._validate_args = self._validate_args
            return new

        def log_prob(self, value):
            if self._validate_args:
                self._validate_sample(value)
            return m.log(2 * value / self.high**2)

    class Half(Triangular):
        def __init__(self):
            super().__init__(0.5)

    d = Triangular(tensor(m, [1.0, 2.0]))
    return [
        text(d), d.log_prob(tensor(m, 0.5)), text(d.expand((3, 2))), tried(lambda: d.log_prob(tensor(m, 3.0))), tried(lambda: d.rsample()),
        tried(lambda: d.mean), tried(lambda: Triangular(-1.0)), tried(lambda: Half().expand((2,))), text(type(d).support),
    ]  # fmt: skip


@program
def a_family_by_its_natural_parameters(m):
    D = m.distributions

    class ByBregman(D.Normal):
        entropy = D.ExponentialFamily.entropy

    p, q = ByBregman(tensor(m, LOC), tensor(m, SCALE)), ByBregman(tensor(m, 0.5), tensor(m, 2.0))
    kl = m.distributions.kl._kl_expfamily_expfamily
    gammas = D.Gamma(tensor(m, SHAPE), tensor(m, SCALE)), D.Gamma(tensor(m, 2.0), tensor(m, 1.0))
    dirichlets = D.Dirichlet(tensor(m, CLASSES)), D.Dirichlet(tensor(m, [1.0, 2.0, 3.0]).expand(2, 3))
    others = p, gammas[0], D.Exponential(tensor(m, SCALE)), D.Bernoulli(tensor(m, PROBS))
    entropies = [D.ExponentialFamily.entropy(d).detach() for d in others]
    return [p.entropy().detach(), kl(p, q).detach(), kl(*gammas).detach(), kl(*dirichlets).detach(), *entropies]


@program
def a_cache_returns_the_very_sample(m):
    D = m.distributions
    d = D.TransformedDistribution(D.Normal(tensor(m, 0.0), 1.0), [D.TanhTransform(cache_size=1)])
    y = d.rsample((4,))
    t = D.ComposeTransform([D.AffineTransform(0.0, 2.0), D.TanhTransform()], cache_size=1)
    x = tensor(m, [0.1, 30.0])
    return [bool(d.log_prob(y).isfinite().all()), t.inv(t(x)) is x, text(t), t.parts[0]._cache_size,
    text(D.ExpTransform(1).inv.with_cache(0))]


@program
def a_policy_gradient_and_a_reparametrised_loss(m):
    D = m.distributions
    logits = tensor(m, CLASSES, grad=True)
    policy = D.Categorical(logits=logits)
    loss = -(policy.log_prob(m.tensor([2, 0])) * tensor(m, [1.0, -0.5])).sum() - 0.1 * policy.entropy().sum()
    loss.backward()
    mu, rho = tensor(m, LOC, grad=True), tensor(m, SCALE, grad=True)
    posterior = D.Independent(D.Normal(mu, m.nn.functional.softplus(rho)), 1)
    prior = D.Independent(D.Normal(m.zeros_like(mu), m.ones_like(mu)), 1)
    kl = D.kl_divergence(posterior, prior)
    kl.backward()
    return [loss.detach(), logits.grad, kl.detach(), mu.grad, rho.grad]


# ----- the comparison ---------------------------------------------------------------------------------------------------------------


def run(f: Any, m: Any) -> Any:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        m.manual_seed(0)
        return f(m)


@pytest.mark.parametrize("f", PROGRAMS.values(), ids=PROGRAMS.keys())
def test_program_gives_the_same_with_ndgrad_as_with_torch(f):
    ndgrad.set_default_dtype(ndgrad.float32)
    same(run(f, torch), run(f, ndgrad), slack=10.0)  # torch's trigamma is good to 1e-8


def test_every_name_is_there():
    """Names only: what they do is compared above."""
    theirs, ours = torch.distributions, ndgrad.distributions
    assert sorted(ours.__all__) == sorted(theirs.__all__)
    for module in ("constraints", "transforms", "kl", "utils", "constraint_registry"):
        assert sorted(getattr(ours, module).__all__) == sorted(getattr(theirs, module).__all__)


def test_the_table_of_divergences_is_torchs():
    pairs = lambda m: sorted((p.__name__, q.__name__) for p, q in m.distributions.kl._KL_REGISTRY if p.__module__.startswith(m.__name__))
    assert pairs(ndgrad) == pairs(torch)


def test_gradients_of_gamma_and_dirichlet_samples():
    """At the same samples; torch's are approximations, good to three digits or more."""
    a = np.array([0.05, 0.5, 1.0, 3.0, 20.0, 400.0])
    z = np.array([1e-3, 0.7, 0.4, 4.5, 17.0, 410.0])
    theirs = torch._standard_gamma_grad(torch.tensor(a), torch.tensor(z)).numpy()
    np.testing.assert_allclose(ndgrad._standard_gamma_grad(ndgrad.tensor(a), ndgrad.tensor(z)).numpy(), theirs, rtol=1e-3)
    x, total = np.array([0.1, 0.3, 0.45, 0.6, 0.8, 0.99]), a + 1.5
    theirs = torch._dirichlet_grad(torch.tensor(x), torch.tensor(a), torch.tensor(total)).numpy()
    np.testing.assert_allclose(ndgrad._dirichlet_grad(*map(ndgrad.tensor, (x, a, total))).numpy(), theirs, rtol=3e-3)


def test_where_ndgrad_differs():
    deliberate("distributions")
    T, N = torch.distributions, ndgrad.distributions
    # second derivatives of samples
    for m, works in ((torch, False), (ndgrad, True)):
        a = m.tensor([0.5, 2.0], requires_grad=True)
        (g,) = m.autograd.grad(m.distributions.Gamma(a, 1.0).rsample().sum(), a, create_graph=True)
        assert isinstance(tried(lambda: m.autograd.grad(g.sum(), a)), tuple) is works  # noqa: B023
        # the entropy of a family by its natural parameters
        scale = m.tensor(2.0, requires_grad=True)
        entropy = m.distributions.ExponentialFamily.entropy(m.distributions.Normal(0.0, scale))
        found = tried(lambda: m.autograd.grad(entropy, scale)[0].item())  # noqa: B023
        assert (found == pytest.approx(0.5)) is works
    # modes and moments
    assert bool(T.Kumaraswamy(2.0, 2.0).mode.isnan())
    assert N.Kumaraswamy(2.0, 2.0).mode.item() == pytest.approx(3**-0.5)
    assert (T.Weibull(1.0, 0.5).mode.item(), N.Weibull(1.0, 0.5).mode.item()) == (1.0, 0.0)
    assert (T.Beta(0.4, 0.6).mode.item(), N.Beta(0.4, 0.6).mode.item()) == (1.0, 0.0)
    assert bool(T.GeneralizedPareto(0.0, 1.0, 1.5).mean.isnan())
    assert N.GeneralizedPareto(0.0, 1.0, 1.5).mean.item() == np.inf
    # divergences of distributions whose supports end together
    assert T.kl_divergence(T.ContinuousBernoulli(0.3), T.Uniform(0.0, 1.0)).item() == np.inf
    p = N.ContinuousBernoulli(0.3)
    assert N.kl_divergence(p, N.Uniform(0.0, 1.0)).item() == pytest.approx(-p.entropy().item())
    # checks
    matrices = np.array([[[1.0, 2.0], [2.0, 1.0]], [[1.0, 0.5], [0.2, 1.0]]])
    assert T.constraints.positive_definite.check(torch.tensor(matrices)).tolist() == [True, False]
    assert N.constraints.positive_definite.check(ndgrad.tensor(matrices)).tolist() == [False, False]
    assert T.ContinuousBernoulli(1.5).probs.item() < 1
    with pytest.raises(ValueError, match="probs"):
        N.ContinuousBernoulli(1.5)
    for m, works in ((torch, False), (ndgrad, True)):
        D = m.distributions
        assert isinstance(tried(lambda: D.Categorical(m.ones(2)).sample((0,)).tolist()), list) is works  # noqa: B023
        mixture = D.MixtureSameFamily(D.Categorical(m.ones(2)), D.Normal(m.zeros(4, 2), 1.0))
        assert isinstance(tried(lambda: mixture.sample().tolist()), list) is works  # noqa: B023
