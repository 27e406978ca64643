"""Registry from constraints to transforms whose values satisfy them, for unconstrained optimisers and samplers.

`biject_to` returns bijections, with a determinant; `transform_to` returns maps that may have more parameters than
needed, and are cheap and smooth.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, TypeVar

from ndgrad.distributions import constraints, transforms
from ndgrad.distributions.constraints import Constraint
from ndgrad.distributions.transforms import Transform

__all__ = ["ConstraintRegistry", "biject_to", "transform_to"]

Factory = TypeVar("Factory", bound=Callable[[Any], Transform])


class ConstraintRegistry:
    """Transforms by the class of a constraint. A call looks one up.

    >>> import ndgrad
    >>> t = ndgrad.distributions.transform_to(ndgrad.distributions.constraints.positive)
    >>> t(ndgrad.tensor(0.0))
    tensor(1.)
    """

    def __init__(self) -> None:
        self._registry: dict[type[Constraint], Callable[[Any], Transform]] = {}

    def register(self, constraint: Any, factory: Any = None) -> Any:
        """Register a function that creates the transform of a constraint.

        Args:
            constraint: class of constraints, or an instance of it.
            factory: function from a constraint to a transform. Without it a decorator is returned.
        """
        if factory is None:
            return lambda factory: self.register(constraint, factory)
        cls = type(constraint) if isinstance(constraint, Constraint) else constraint
        if not (isinstance(cls, type) and issubclass(cls, Constraint)):
            raise TypeError(
                f"Expected constraint to be either a Constraint subclass or instance, but got {constraint}: "
                "transforms are registered for those. [nd-distribution]"
            )
        self._registry[cls] = factory
        return factory

    def __call__(self, constraint: Constraint) -> Transform:
        factory = self._registry.get(type(constraint))
        if factory is None:
            raise NotImplementedError(
                f"Cannot transform {type(constraint).__name__} constraints: no transform is registered for them. "
                "Register one with `.register(constraint, factory)`. [nd-distribution]"
            )
        return factory(constraint)


biject_to = ConstraintRegistry()
transform_to = ConstraintRegistry()


def _both(*kinds: Any) -> Callable[[Factory], Factory]:
    """Register a function with both registries, for all these constraints."""

    def decorate(factory: Factory) -> Factory:
        for kind in kinds:
            biject_to.register(kind, factory)
            transform_to.register(kind, factory)
        return factory

    return decorate


@_both(constraints.real)
def _real(constraint: Any) -> Transform:
    return transforms.identity_transform


@_both(constraints.positive, constraints.nonnegative, constraints.greater_than, constraints.greater_than_eq)
def _map_above(constraint: Any) -> Transform:
    return transforms.ComposeTransform(
        [transforms.ExpTransform(), transforms.AffineTransform(constraint.lower_bound, 1)]
    )


@_both(constraints.less_than)
def _map_below(constraint: Any) -> Transform:
    return transforms.ComposeTransform(
        [transforms.ExpTransform(), transforms.AffineTransform(constraint.upper_bound, -1)]
    )


@_both(constraints.interval, constraints.half_open_interval)
def _map_between(constraint: Any) -> Transform:
    low, high = constraint.lower_bound, constraint.upper_bound
    if all(isinstance(bound, (int, float)) for bound in (low, high)) and (low, high) == (0, 1):
        return transforms.SigmoidTransform()
    return transforms.ComposeTransform([transforms.SigmoidTransform(), transforms.AffineTransform(low, high - low)])


@_both(constraints.corr_cholesky)
def _correlation(constraint: Any) -> Transform:
    return transforms.CorrCholeskyTransform()


biject_to.register(constraints.simplex, lambda constraint: transforms.StickBreakingTransform())
transform_to.register(constraints.simplex, lambda constraint: transforms.SoftmaxTransform())
transform_to.register(constraints.lower_cholesky, lambda constraint: transforms.LowerCholeskyTransform())
for _kind in (constraints.positive_definite, constraints.positive_semidefinite):
    transform_to.register(_kind, lambda constraint: transforms.PositiveDefiniteTransform())


def _register_compound(registry: ConstraintRegistry) -> None:
    """Register transforms of constraints built from other constraints."""

    def independent(constraint: Any) -> Transform:
        inner = registry(constraint.base_constraint)
        return transforms.IndependentTransform(inner, constraint.reinterpreted_batch_ndims)

    def cat(constraint: Any) -> Transform:
        return transforms.CatTransform([registry(c) for c in constraint.cseq], constraint.dim, constraint.lengths)

    def stack(constraint: Any) -> Transform:
        return transforms.StackTransform([registry(c) for c in constraint.cseq], constraint.dim)

    registry.register(constraints.independent, independent)
    registry.register(constraints.cat, cat)
    registry.register(constraints.stack, stack)


_register_compound(biject_to)
_register_compound(transform_to)
