"""Distributions, constraints and transforms apart from numbers: checks, copies, Jacobians, subclasses, gradients of entropies."""

from __future__ import annotations

import copy
import pickle
import warnings
import weakref

import numpy as np
import pytest

import ndgrad
from ndgrad import distributions as D
from ndgrad.distributions import constraints, transforms
from ndgrad.func import jacrev

TRANSFORMS = {
    "exp": (D.ExpTransform(), [0.3]), "power": (D.PowerTransform(1.7), [0.8]), "sigmoid": (D.SigmoidTransform(), [0.3]),
    "softplus": (D.SoftplusTransform(), [-0.4]), "tanh": (D.TanhTransform(), [0.9]), "affine": (D.AffineTransform(0.2, -3.0), [0.4]),
    "stick": (D.StickBreakingTransform(), [0.3, -0.2, 1.0]),
    "composition": (D.ComposeTransform([D.ExpTransform(), D.PowerTransform(0.5)]), [0.4]),
    "cumulative": (D.CumulativeDistributionTransform(D.Normal(0.3, 2.0)), [0.4]),
    "vectors": (D.ComposeTransform([D.AffineTransform(0.1, 2.0), D.StickBreakingTransform()]), [0.3, -0.2]),
    "cat": (D.CatTransform([D.ExpTransform(), D.IndependentTransform(D.TanhTransform(), 0)], -1, [1, 2]), [0.3, -0.2, 0.5]),
}  # fmt: skip


@pytest.mark.parametrize("name", TRANSFORMS)
def test_determinants_are_those_of_the_jacobian(name):
    t, point = TRANSFORMS[name]
    x = ndgrad.tensor(point)
    jacobian = jacrev(t)(x)[: len(point)]  # the last part of a stick follows from the others
    y = t(x)
    found = t.log_abs_det_jacobian(x, y).sum()
    assert float(found) == pytest.approx(float(ndgrad.linalg.slogdet(jacobian).logabsdet), rel=1e-10)
    np.testing.assert_allclose(t.inv(y).numpy(), point, rtol=1e-10)
    assert float(t.inv.log_abs_det_jacobian(y, x).sum()) == pytest.approx(-float(found))


def test_determinant_of_correlation_factors():
    x = ndgrad.tensor([0.3, -0.2, 1.0])
    t = D.CorrCholeskyTransform()
    rows, columns = ndgrad.tril_indices(3, 3, -1)
    jacobian = jacrev(lambda x: t(x)[rows, columns])(x)
    assert float(t.log_abs_det_jacobian(x, t(x))) == pytest.approx(float(ndgrad.linalg.slogdet(jacobian).logabsdet), rel=1e-10)
    np.testing.assert_allclose(t.inv(t(x)).numpy(), x.numpy(), rtol=1e-12)


def test_positive_definite_checks_each_matrix():
    """Also beside one that is not symmetric."""
    matrices = ndgrad.tensor([[[2.0, 0.5], [0.5, 1.0]], [[1.0, 2.0], [2.0, 1.0]], [[1.0, 0.5], [0.2, 1.0]]])
    assert constraints.positive_definite.check(matrices).tolist() == [True, False, False]
    assert constraints.positive_semidefinite.check(matrices).tolist() == [True, False, False]


def test_the_entropy_of_an_exponential_family_has_a_gradient():
    class ByNaturalParameters(D.Normal):
        entropy = D.ExponentialFamily.entropy

    scale = ndgrad.tensor([0.5, 2.0], requires_grad=True)
    ByNaturalParameters(0.0, scale).entropy().sum().backward()
    np.testing.assert_allclose(scale.grad.numpy(), [2.0, 0.5])  # the gradient of log(scale)


@pytest.mark.parametrize(
    "d",
    [
        D.Normal(ndgrad.tensor([0.0, 1.0]), 1.0), D.Gumbel(0.0, 1.0), D.Beta(1.0, 2.0), D.Categorical(ndgrad.tensor([0.2, 0.8])),
        D.MultivariateNormal(ndgrad.zeros(2), ndgrad.eye(2)),
        D.TransformedDistribution(D.Normal(0.0, 1.0), [D.TanhTransform(cache_size=1)]),
        D.MixtureSameFamily(D.Categorical(ndgrad.ones(2)), D.Normal(ndgrad.tensor([0.0, 1.0]), 1.0)), D.Binomial(3, ndgrad.tensor(0.5)),
    ],
    ids=lambda d: type(d).__name__,
)  # fmt: skip
def test_copies_and_pickles(d):
    x = d.sample()
    d.log_prob(x)  # caches the logits of probabilities
    for other in (copy.copy(d), copy.deepcopy(d), pickle.loads(pickle.dumps(d))):
        assert repr(other) == repr(d)
        assert other.log_prob(x).tolist() == d.log_prob(x).tolist()


def test_a_transform_and_its_inverse_die_by_reference_counting():
    t = D.ExpTransform()
    inverse = t.inv
    assert t.inv is inverse
    assert inverse.inv is t
    seen = weakref.ref(t), weakref.ref(inverse)
    del t, inverse
    assert [r() for r in seen] == [None, None]


def test_validation_can_be_switched_off_and_on():
    D.Distribution.set_default_validate_args(False)
    try:
        assert bool(D.Normal(0.0, -1.0).log_prob(ndgrad.tensor(0.0)).isnan())
        with pytest.raises(ValueError, match="Expected parameter scale"):
            D.Normal(0.0, -1.0, validate_args=True)
    finally:
        D.Distribution.set_default_validate_args(True)
    with pytest.raises(ValueError, match="Expected parameter scale .* to satisfy the constraint GreaterThan"):
        D.Normal(0.0, -1.0)
    assert D.Normal(0.0, 1.0, validate_args=False).expand((2,))._validate_args is False


def test_errors_say_what_to_do():
    for f, words in (
        (lambda: D.Normal(ndgrad.tensor([1.0, np.nan]), 1.0), "Expected parameter loc .Tensor of shape .2,.. of distribution Normal"),
        (lambda: D.Normal(0.0, 1.0).log_prob(ndgrad.tensor(np.nan)), "validate_args=False"),
        (lambda: D.Normal(0.0, 1.0).log_prob(1.0), r"ndgrad.tensor\(\)"),
        (lambda: D.ContinuousBernoulli(ndgrad.tensor(1.5)), "probs"),
        (lambda: D.utils.vec_to_tril_matrix(ndgrad.zeros(4)), "no triangle"),
        (lambda: D.Bernoulli(0.5).rsample(), "does not implement rsample"),
        (lambda: D.Poisson(1.0).entropy(), "does not implement"),
        (lambda: D.kl_divergence(D.StudentT(1.0), D.Poisson(1.0)), "register_kl"),
        (lambda: D.register_kl("int", D.Normal), "classes of distributions"),
        (lambda: D.CatTransform([D.ExpTransform()], lengths=[1, 2]), "lengths"),
        (lambda: D.CatTransform([D.ExpTransform()])(ndgrad.zeros(2)), "must equal length"),
        (lambda: D.StackTransform([1]), "must be Transforms"),
        (lambda: D.Wishart(0.5, ndgrad.eye(2)), "greater than ndim - 1"),
        (lambda: D.MixtureSameFamily(D.Categorical(ndgrad.ones(2)), D.Normal(0.0, 1.0)), "no batch"),
        (
            lambda: D.kl_divergence(
                D.MultivariateNormal(ndgrad.zeros(2), ndgrad.eye(2)), D.MultivariateNormal(ndgrad.zeros(3), ndgrad.eye(3))
            ),
            "event shapes",
        ),
    ):
        with pytest.raises((ValueError, TypeError, NotImplementedError, RuntimeError, AssertionError, IndexError), match=words):
            f()


def test_a_subclass_with_a_constructor_must_expand_itself():
    class Standard(D.Normal):
        def __init__(self):
            super().__init__(0.0, 1.0)

    assert Standard().log_prob(ndgrad.tensor(0.0)) == D.Normal(0.0, 1.0).log_prob(ndgrad.tensor(0.0))
    with pytest.raises(NotImplementedError, match="must also define a custom .expand"):
        Standard().expand((2,))

    class Plain(D.Normal):
        pass

    assert type(Plain(0.0, 1.0).expand((2,))) is Plain


def test_a_distribution_without_constraints_warns():
    class Bare(D.Distribution):
        pass

    with pytest.warns(UserWarning, match="does not define `arg_constraints`"):
        Bare()
    assert Bare(validate_args=False).batch_shape == ()


def test_numbers_beside_tensors_take_their_dtype_and_the_default_else():
    assert D.Normal(ndgrad.zeros(2, dtype=ndgrad.float32), 1).scale.dtype is ndgrad.float32
    ndgrad.set_default_dtype(ndgrad.float32)
    assert D.Normal(0, 1).sample().dtype is ndgrad.float32
    assert D.Poisson(2.0).log_prob(ndgrad.tensor(1)).dtype is ndgrad.float32


def test_modules_of_torchs_names():
    from ndgrad.distributions.kl import kl_divergence
    from ndgrad.distributions.multivariate_normal import MultivariateNormal
    from ndgrad.distributions.relaxed_bernoulli import LogitRelaxedBernoulli
    from ndgrad.distributions.relaxed_categorical import ExpRelaxedCategorical
    from ndgrad.distributions.studentT import StudentT
    from ndgrad.distributions.utils import broadcast_all

    assert MultivariateNormal is D.MultivariateNormal
    assert StudentT is D.StudentT
    assert kl_divergence is D.kl_divergence
    assert broadcast_all(1.0, 2.0)[0] == 1
    assert LogitRelaxedBernoulli(ndgrad.tensor(1.0), 0.5).rsample().shape == ()
    assert ExpRelaxedCategorical(ndgrad.tensor(1.0), ndgrad.ones(2)).rsample().shape == (2,)
    assert isinstance(transforms.identity_transform, D.ComposeTransform)


def test_fitting_by_constrained_parameters():
    """Maximum likelihood over unconstrained numbers, which transform_to makes parameters of."""
    ndgrad.manual_seed(0)
    data = D.Gamma(3.0, 2.0).sample((4000,))
    raw = ndgrad.zeros(2, requires_grad=True)
    to_positive = D.transform_to(D.Gamma.arg_constraints["rate"])
    optimizer = ndgrad.optim.LBFGS([raw], max_iter=60)

    def closure():
        optimizer.zero_grad()
        loss = -D.Gamma(*to_positive(raw)).log_prob(data).mean()
        loss.backward()
        return loss

    optimizer.step(closure)
    np.testing.assert_allclose(to_positive(raw).detach().numpy(), [3.0, 2.0], rtol=0.1)


def test_register_kl_takes_any_class():
    class Base:
        """A base class of a library's own distributions, which derives from nothing here."""

    class Mine(D.Normal, Base):
        pass

    @D.register_kl(Base, Base)
    def _(p, q):
        return p.loc - q.loc

    # The pair of Normal comes first in the order of the classes, and has its own formula.
    assert D.kl_divergence(Mine(0.0, 1.0), Mine(1.0, 1.0)).item() == 0.5

    @D.register_kl(Mine, Base)
    def _(p, q):
        return p.loc - q.loc

    with warnings.catch_warnings():
        warnings.simplefilter("ignore", RuntimeWarning)
        assert D.kl_divergence(Mine(3.0, 1.0), Mine(1.0, 1.0)).item() == 2.0
    with pytest.raises(TypeError, match="classes of distributions"):
        D.register_kl(3, Mine)


def test_override_without_docstring_takes_that_of_the_base_method():
    class Constant(D.Distribution):
        def sample(self, sample_shape=()):
            return ndgrad.zeros(sample_shape)

        def log_prob(self, value):
            """Return zero."""
            return ndgrad.zeros(())

    assert Constant.sample.__doc__ == D.Distribution.sample.__doc__
    assert Constant.log_prob.__doc__ == "Return zero."
    assert constraints.interval.check.__doc__ == constraints.Constraint.check.__doc__
