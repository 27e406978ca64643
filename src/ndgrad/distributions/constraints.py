"""Constraints: the valid values of a parameter or a sample.

`check` tells whether each value of a tensor is valid. A value may be a scalar, a vector or a matrix: `event_dim` is its
number of dimensions, and `check` returns one bool for each value. A constraint that depends on parameters of a
distribution is a property (`dependent_property`), known once the parameters are.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any, ClassVar

import ndgrad
from ndgrad.distributions.utils import inherit_docstrings

if TYPE_CHECKING:
    from ndgrad._typing import Tensor

__all__ = [
    "Constraint", "boolean", "cat", "corr_cholesky", "dependent", "dependent_property", "greater_than",
    "greater_than_eq", "independent", "integer_interval", "interval", "half_open_interval", "is_dependent", "less_than",
    "lower_cholesky", "lower_triangular", "MixtureSameFamilyConstraint", "multinomial", "nonnegative",
    "nonnegative_integer", "one_hot", "positive", "positive_semidefinite", "positive_definite", "positive_integer",
    "real", "real_vector", "simplex", "square", "stack", "symmetric", "unit_interval",
]  # fmt: skip


class Constraint:
    """A region of values.

    >>> import ndgrad
    >>> ndgrad.distributions.constraints.positive.check(ndgrad.tensor([-1.0, 2.0]))
    tensor([False,  True])
    """

    is_discrete: Any = False
    event_dim: Any = 0
    #: Attributes shown in its text.
    _shown: ClassVar[tuple[str, ...]] = ()

    def __init_subclass__(cls, **kwargs: Any) -> None:
        super().__init_subclass__(**kwargs)
        inherit_docstrings(cls)

    def check(self, value: Tensor) -> Tensor:
        """Return True for each value that satisfies the constraint.

        Args:
            value: tensor of values, whose last `event_dim` dimensions are one value.

        Returns:
            A bool tensor without these dimensions.
        """
        raise NotImplementedError(
            f"{type(self).__name__} does not say what satisfies it: define check(value). [nd-define]"
        )

    def __repr__(self) -> str:
        shown = ", ".join(f"{name}={getattr(self, name)}" for name in self._shown)
        return f"{type(self).__name__.lstrip('_')}({shown})"


# ----- constraints that depend on values ------------------------------------------------------------------------------


class _Dependent(Constraint):
    """A constraint that is not known yet."""

    def __init__(self, *, is_discrete: Any = NotImplemented, event_dim: Any = NotImplemented) -> None:
        self._is_discrete, self._event_dim = is_discrete, event_dim

    @property
    def is_discrete(self) -> bool:
        if self._is_discrete is NotImplemented:
            raise NotImplementedError(
                ".is_discrete cannot be determined statically: ask an instance's constraint. [nd-distribution]"
            )
        return bool(self._is_discrete)

    @property
    def event_dim(self) -> int:
        if self._event_dim is NotImplemented:
            raise NotImplementedError(
                ".event_dim cannot be determined statically: ask an instance's constraint. [nd-distribution]"
            )
        return int(self._event_dim)

    def __call__(self, *, is_discrete: Any = NotImplemented, event_dim: Any = NotImplemented) -> _Dependent:
        """Return the same constraint, with more information."""
        return _Dependent(
            is_discrete=self._is_discrete if is_discrete is NotImplemented else is_discrete,
            event_dim=self._event_dim if event_dim is NotImplemented else event_dim,
        )

    def check(self, value: Tensor) -> Tensor:
        raise ValueError(
            "Cannot determine validity of dependent constraint: it depends on parameters. "
            "Ask an instance's constraint. [nd-distribution]"
        )


class _DependentProperty(property, _Dependent):
    """A property whose value is a constraint. On the class it is a dependent constraint, whose known attributes are
    keywords: `@dependent_property(is_discrete=False, event_dim=0)`.

    Args:
        fn: function that returns the constraint of an instance.
        is_discrete: whether the constraint is one of discrete values, if that is known.
        event_dim: number of dimensions of a value, if that is known.
    """

    def __init__(
        self,
        fn: Callable[..., Any] | None = None,
        *,
        is_discrete: Any = NotImplemented,
        event_dim: Any = NotImplemented,
    ) -> None:
        property.__init__(self, fn)
        _Dependent.__init__(self, is_discrete=is_discrete, event_dim=event_dim)

    def __call__(self, fn: Any = None, **known: Any) -> Any:
        return _DependentProperty(fn, is_discrete=self._is_discrete, event_dim=self._event_dim)


def is_dependent(constraint: object) -> bool:
    """True if a constraint depends on parameters.

    Args:
        constraint: constraint, or any other object.

    >>> from ndgrad.distributions import constraints
    >>> constraints.is_dependent(constraints.dependent), constraints.is_dependent(constraints.real)
    (True, False)
    """
    return isinstance(constraint, _Dependent)


class _IndependentConstraint(Constraint):
    """A constraint of each element of larger values: all must satisfy it.

    Args:
        base_constraint: constraint of the elements.
        reinterpreted_batch_ndims: number of last dimensions that become part of a value.
    """

    def __init__(self, base_constraint: Constraint, reinterpreted_batch_ndims: int) -> None:
        if reinterpreted_batch_ndims < 0:
            raise AssertionError(
                f"reinterpreted_batch_ndims must be >= 0, got {reinterpreted_batch_ndims}. It counts dimensions. "
                "[nd-range]"
            )
        self.base_constraint, self.reinterpreted_batch_ndims = base_constraint, reinterpreted_batch_ndims

    @property
    def is_discrete(self) -> bool:
        return bool(self.base_constraint.is_discrete)

    @property
    def event_dim(self) -> int:
        return int(self.base_constraint.event_dim) + self.reinterpreted_batch_ndims

    def check(self, value: Tensor) -> Tensor:
        result = self.base_constraint.check(value)
        if result.ndim < self.reinterpreted_batch_ndims:
            expected = self.base_constraint.event_dim + self.reinterpreted_batch_ndims
            raise ValueError(
                f"Expected value.dim() >= {expected} but got {value.ndim}: the shape is {tuple(value.shape)}, and one "
                f"value has {expected} dimensions. Add them. [nd-ndim]"
            )
        kept = result.shape[: result.ndim - self.reinterpreted_batch_ndims]
        return result.reshape((*kept, -1)).all(-1)

    def __repr__(self) -> str:
        return f"IndependentConstraint({self.base_constraint!r}, {self.reinterpreted_batch_ndims})"


class MixtureSameFamilyConstraint(Constraint):
    """The constraint of a mixture: that of its components, whose batch has one more dimension at the end.

    Args:
        base_constraint: constraint of the components.
    """

    def __init__(self, base_constraint: Constraint) -> None:
        self.base_constraint = base_constraint

    @property
    def is_discrete(self) -> bool:
        return bool(self.base_constraint.is_discrete)

    @property
    def event_dim(self) -> int:
        return int(self.base_constraint.event_dim)

    def check(self, value: Tensor) -> Tensor:
        """True if all components allow a value.

        Args:
            value: tensor of values, without a dimension for the components.
        """
        result = self.base_constraint.check(value.unsqueeze(-1 - self.event_dim))
        if value.ndim < self.event_dim:
            raise ValueError(
                f"Expected value.dim() >= {self.event_dim} but got {value.ndim}: the shape is {tuple(value.shape)}. "
                f"One value has {self.event_dim} dimensions. [nd-ndim]"
            )
        # The check has reduced the event dimensions, so the components come last.
        return result.all(-1)

    def __repr__(self) -> str:
        return f"MixtureSameFamilyConstraint({self.base_constraint!r})"


# ----- numbers --------------------------------------------------------------------------------------------------------


class _Boolean(Constraint):
    is_discrete = True

    def check(self, value: Tensor) -> Tensor:
        return (value == 0) | (value == 1)


class _Real(Constraint):
    def check(self, value: Tensor) -> Tensor:
        return value == value  # not nan


class _Bounded(Constraint):
    """One bound or two, which are numbers or tensors."""


class _GreaterThan(_Bounded):
    """Numbers above a bound.

    Args:
        lower_bound: bound, a number or a tensor.
    """
    _shown = ("lower_bound",)

    def __init__(self, lower_bound: Any) -> None:
        self.lower_bound = lower_bound

    def check(self, value: Tensor) -> Tensor:
        return value > self.lower_bound


class _GreaterThanEq(_Bounded):
    """Numbers of at least a bound.

    Args:
        lower_bound: bound, a number or a tensor.
    """
    _shown = ("lower_bound",)

    def __init__(self, lower_bound: Any) -> None:
        self.lower_bound = lower_bound

    def check(self, value: Tensor) -> Tensor:
        return value >= self.lower_bound


class _LessThan(_Bounded):
    """Numbers below a bound.

    Args:
        upper_bound: bound, a number or a tensor.
    """
    _shown = ("upper_bound",)

    def __init__(self, upper_bound: Any) -> None:
        self.upper_bound = upper_bound

    def check(self, value: Tensor) -> Tensor:
        return value < self.upper_bound


class _Interval(_Bounded):
    """Numbers of a closed interval.

    Args:
        lower_bound, upper_bound: numbers or tensors.
    """
    _shown = ("lower_bound", "upper_bound")

    def __init__(self, lower_bound: Any, upper_bound: Any) -> None:
        self.lower_bound, self.upper_bound = lower_bound, upper_bound

    def check(self, value: Tensor) -> Tensor:
        return (value >= self.lower_bound) & (value <= self.upper_bound)


class _HalfOpenInterval(_Interval):
    """Numbers of an interval without its upper end.

    Args:
        lower_bound, upper_bound: numbers or tensors.
    """
    def check(self, value: Tensor) -> Tensor:
        return (value >= self.lower_bound) & (value < self.upper_bound)


def _is_whole(value: Tensor) -> Tensor:
    return value % 1 == 0


class _IntegerInterval(_Interval):
    """Integers of a closed interval.

    Args:
        lower_bound, upper_bound: numbers or tensors.
    """
    is_discrete = True

    def check(self, value: Tensor) -> Tensor:
        return _is_whole(value) & (value >= self.lower_bound) & (value <= self.upper_bound)


class _IntegerLessThan(_LessThan):
    is_discrete = True

    def check(self, value: Tensor) -> Tensor:
        return _is_whole(value) & (value <= self.upper_bound)


class _IntegerGreaterThan(_GreaterThan):
    is_discrete = True

    def check(self, value: Tensor) -> Tensor:
        return _is_whole(value) & (value >= self.lower_bound)


# ----- vectors --------------------------------------------------------------------------------------------------------


class _OneHot(Constraint):
    is_discrete = True
    event_dim = 1

    def check(self, value: Tensor) -> Tensor:
        return ((value == 0) | (value == 1)).all(-1) & (value.sum(-1) == 1)


class _Simplex(Constraint):
    """Vectors of non-negative numbers whose sum is 1, up to rounding."""

    event_dim = 1

    def check(self, value: Tensor) -> Tensor:
        return (value >= 0).all(-1) & ((value.sum(-1) - 1).abs() < 1e-6)


class _Multinomial(Constraint):
    """Vectors of counts whose sum is `upper_bound`, or less.

    Args:
        upper_bound: largest sum.
    """

    is_discrete = True
    event_dim = 1

    def __init__(self, upper_bound: Any) -> None:
        self.upper_bound = upper_bound

    def check(self, value: Tensor) -> Tensor:
        return (value >= 0).all(-1) & (value.sum(-1) <= self.upper_bound)


# ----- matrices -------------------------------------------------------------------------------------------------------


class _MatrixConstraint(Constraint):
    event_dim = 2


def _all_elements(passed: Tensor) -> Tensor:
    """Reduce over the last two dimensions."""
    return passed.flatten(-2).all(-1)


def _is_lower_triangular(value: Tensor) -> Tensor:
    return _all_elements(value.tril() == value)


def _has_positive_diagonal(value: Tensor) -> Tensor:
    return (value.diagonal(dim1=-2, dim2=-1) > 0).all(-1)


class _LowerTriangular(_MatrixConstraint):
    def check(self, value: Tensor) -> Tensor:
        return _is_lower_triangular(value)


class _LowerCholesky(_MatrixConstraint):
    """Lower triangular, with a positive diagonal."""

    def check(self, value: Tensor) -> Tensor:
        return _is_lower_triangular(value) & _has_positive_diagonal(value)


class _CorrCholesky(_MatrixConstraint):
    """Cholesky factors of correlation matrices: rows have norm 1."""

    def check(self, value: Tensor) -> Tensor:
        slack = ndgrad.finfo(value.dtype).eps * value.shape[-1] * 10  # for rounding
        unit = (ndgrad.linalg.vector_norm(value.detach(), dim=-1) - 1).abs() < slack
        return unit.all(-1) & _is_lower_triangular(value) & _has_positive_diagonal(value)


class _Square(_MatrixConstraint):
    def check(self, value: Tensor) -> Tensor:
        square = value.shape[-2] == value.shape[-1]
        return ndgrad.full(value.shape[:-2], square, dtype=ndgrad.bool, device=value.device)


class _Symmetric(_Square):
    def check(self, value: Tensor) -> Tensor:
        if value.shape[-2] != value.shape[-1]:
            return super().check(value)
        return _all_elements(ndgrad.isclose(value, value.mT, atol=1e-6))


class _PositiveSemidefinite(_Symmetric):
    def check(self, value: Tensor) -> Tensor:
        symmetric = super().check(value)
        if value.shape[-2] != value.shape[-1]:
            return symmetric
        return symmetric & (ndgrad.linalg.eigvalsh(value.detach()) >= 0).all(-1)


class _PositiveDefinite(_Symmetric):
    def check(self, value: Tensor) -> Tensor:
        symmetric = super().check(value)
        if value.shape[-2] != value.shape[-1]:
            return symmetric
        return symmetric & (ndgrad.linalg.cholesky_ex(value.detach()).info == 0)


# ----- several beside each other --------------------------------------------------------------------------------------


class _Several(Constraint):
    """Constraints of the parts of a tensor along one dimension."""

    def __init__(self, cseq: Sequence[Constraint], dim: int) -> None:
        if not all(isinstance(c, Constraint) for c in cseq):
            raise AssertionError(f"each element of {cseq!r} must be a Constraint. [nd-type]")
        self.cseq, self.dim = list(cseq), dim

    @property
    def is_discrete(self) -> bool:
        return any(c.is_discrete for c in self.cseq)

    def _check_dim(self, value: Tensor) -> None:
        if not -value.ndim <= self.dim < value.ndim:
            raise AssertionError(
                f"dim {self.dim} is out of range for a value of {value.ndim} dimensions, of shape "
                f"{tuple(value.shape)}. [nd-dim]"
            )


class _Cat(_Several):
    """Constraints of parts of a tensor along a dimension.

    Args:
        cseq: constraints, one per part.
        dim: dimension of the parts.
        lengths: size of each part. The default is 1.
    """

    def __init__(self, cseq: Sequence[Constraint], dim: int = 0, lengths: Sequence[int] | None = None) -> None:
        super().__init__(cseq, dim)
        self.lengths = [1] * len(self.cseq) if lengths is None else list(lengths)
        if len(self.lengths) != len(self.cseq):
            raise AssertionError(
                f"{len(self.cseq)} constraints have {len(self.lengths)} lengths. Give one for each. [nd-shape]"
            )

    @property
    def event_dim(self) -> int:
        return max(int(c.event_dim) for c in self.cseq)

    def check(self, value: Tensor) -> Tensor:
        self._check_dim(value)
        parts = value.split(self.lengths, self.dim)
        return ndgrad.cat([c.check(part) for c, part in zip(self.cseq, parts, strict=True)], self.dim)


class _Stack(_Several):
    """Constraints of slices of a tensor along a dimension.

    Args:
        cseq: constraints, one per slice.
        dim: dimension of the slices.
    """

    def __init__(self, cseq: Sequence[Constraint], dim: int = 0) -> None:
        super().__init__(cseq, dim)

    @property
    def event_dim(self) -> int:
        most = max(int(c.event_dim) for c in self.cseq)
        return most + 1 if self.dim + most < 0 else most

    def check(self, value: Tensor) -> Tensor:
        self._check_dim(value)
        parts = value.unbind(self.dim)
        return ndgrad.stack([c.check(part) for c, part in zip(self.cseq, parts, strict=True)], self.dim)


# ----- the names that programs use ------------------------------------------------------------------------------------

dependent = _Dependent()
dependent_property = _DependentProperty
independent = _IndependentConstraint
boolean = _Boolean()
one_hot = _OneHot()
nonnegative_integer = _IntegerGreaterThan(0)
positive_integer = _IntegerGreaterThan(1)
integer_interval = _IntegerInterval
real = _Real()
real_vector = independent(real, 1)
positive = _GreaterThan(0.0)
nonnegative = _GreaterThanEq(0.0)
greater_than = _GreaterThan
greater_than_eq = _GreaterThanEq
less_than = _LessThan
multinomial = _Multinomial
unit_interval = _Interval(0.0, 1.0)
interval = _Interval
half_open_interval = _HalfOpenInterval
simplex = _Simplex()
lower_triangular = _LowerTriangular()
lower_cholesky = _LowerCholesky()
corr_cholesky = _CorrCholesky()
square = _Square()
symmetric = _Symmetric()
positive_semidefinite = _PositiveSemidefinite()
positive_definite = _PositiveDefinite()
cat = _Cat
stack = _Stack
