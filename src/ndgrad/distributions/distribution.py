"""`Distribution`: the base class of all distributions.

A distribution is a batch of independent ones, of shape `batch_shape`; a sample of each has the shape `event_shape`. Its
parameters are tensors, whose constraints are in `arg_constraints`. These determine the checks at creation, the text,
and the expansion.
"""

from __future__ import annotations

import warnings
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any, ClassVar, Self

import ndgrad
from ndgrad._src.foundations.sizes import Size
from ndgrad.distributions import constraints
from ndgrad.distributions.constraints import Constraint
from ndgrad.distributions.utils import are_all, inherit_docstrings, lazy_property

if TYPE_CHECKING:
    from ndgrad._typing import Tensor

__all__ = ["Distribution"]


def require(valid: Tensor, message: Callable[[], str]) -> None:
    """Raise ValueError unless all are true."""
    if not are_all(valid):
        raise ValueError(message())


class Distribution:
    """A batch of probability distributions. Subclasses define sampling and the density.

    Args:
        batch_shape: shape of the batch of distributions.
        event_shape: shape of one sample.
        validate_args: whether parameters and values are checked. The default is that of
            `Distribution.set_default_validate_args`.

    >>> import ndgrad
    >>> d = ndgrad.distributions.Normal(ndgrad.tensor([0.0, 1.0]), 1.0)
    >>> d.batch_shape, d.event_shape
    (ndgrad.Size([2]), ndgrad.Size([]))
    """

    #: True if samples are differentiable in the parameters (`rsample`).
    has_rsample: Any = False
    has_enumerate_support: ClassVar[bool] = False
    _validate_args: bool = __debug__

    def __init_subclass__(cls, **kwargs: Any) -> None:
        super().__init_subclass__(**kwargs)
        inherit_docstrings(cls)

    @staticmethod
    def set_default_validate_args(value: bool) -> None:
        """Set whether new distributions check their parameters and values.

        Args:
            value: whether they check them.

        >>> import ndgrad
        >>> ndgrad.distributions.Distribution.set_default_validate_args(True)
        """
        if value not in (True, False):
            raise ValueError(f"set_default_validate_args() got {value!r}. Pass True or False. [nd-type]")
        Distribution._validate_args = value

    def __init__(
        self, batch_shape: Sequence[int] = (), event_shape: Sequence[int] = (), validate_args: bool | None = None
    ) -> None:
        self._batch_shape, self._event_shape = Size(batch_shape), Size(event_shape)
        if validate_args is not None:
            self._validate_args = validate_args
        if self._validate_args:
            self._check_parameters()

    def _check_parameters(self) -> None:
        try:
            found = self.arg_constraints
        except NotImplementedError:
            warnings.warn(
                f"{type(self)} does not define `arg_constraints`. Please set `arg_constraints = {{}}` or initialize "
                "the distribution with `validate_args=False` to turn off validation.",
                stacklevel=3,
            )
            return
        for name, constraint in found.items():
            if constraints.is_dependent(constraint):
                continue
            if name not in vars(self) and isinstance(getattr(type(self), name, None), lazy_property):
                continue  # it follows from another parameter
            self._check_parameter(name, constraint)

    def _check_parameter(self, name: str, constraint: Constraint) -> None:
        value = getattr(self, name)
        require(
            constraint.check(value),
            lambda: (
                f"Expected parameter {name} ({type(value).__name__} of shape {tuple(value.shape)}) of distribution "
                f"{self!r} to satisfy the constraint {constraint!r}, but found invalid values:\n{value}\n"
                "Give values that satisfy it, or pass validate_args=False to have none checked. [nd-distribution]"
            ),
        )

    # ----- shapes -----------------------------------------------------------------------------------------------------

    @property
    def batch_shape(self) -> Size:
        """The shape of the batch of distributions."""
        return self._batch_shape

    @property
    def event_shape(self) -> Size:
        """The shape of one sample."""
        return self._event_shape

    def _extended_shape(self, sample_shape: Sequence[int] = ()) -> Size:
        """Return the shape of that many samples."""
        return Size((*sample_shape, *self._batch_shape, *self._event_shape))

    def expand(self, batch_shape: Sequence[int], _instance: Any = None) -> Self:
        """Return the same distribution with its batch expanded, like `Tensor.expand`.

        Args:
            batch_shape: new shape of the batch.
        """
        raise self._missing("expand")

    def _expand_parameters(self, cls: type, batch_shape: Sequence[int], _instance: Any) -> Self:
        """Implement `expand` of `cls` if the parameters are the only state: expand those of `arg_constraints` that
        exist, keeping the dimensions of their own values.
        """
        new = self._get_checked_instance(cls, _instance)
        batch_shape = Size(batch_shape)
        for name, constraint in self.arg_constraints.items():
            if name in vars(self):
                value = getattr(self, name)
                setattr(new, name, value.expand((*batch_shape, *value.shape[value.ndim - constraint.event_dim :])))
        return self._finish_expanded(cls, new, batch_shape)

    def _finish_expanded(self, cls: type, new: Self, batch_shape: Sequence[int], event_shape: Any = None) -> Self:
        # A constructor in between, if any, takes other arguments.
        Distribution.__init__(
            new, batch_shape, self._event_shape if event_shape is None else event_shape, validate_args=False
        )
        new._validate_args = self._validate_args
        return new

    def _get_checked_instance(self, cls: type, _instance: Any = None) -> Self:
        """Return an instance to be filled by `cls.expand`, which must set all attributes of the constructor."""
        if _instance is None and type(self).__init__ is not cls.__init__:  # type: ignore[misc]  # they are compared
            raise NotImplementedError(
                f"Subclass {type(self).__name__} of {cls.__name__} that defines a custom __init__ method must also "
                "define a custom .expand() method. [nd-define]"
            )
        return type(self).__new__(type(self)) if _instance is None else _instance

    # ----- properties that a subclass defines -------------------------------------------------------------------------

    def _missing(self, name: str) -> NotImplementedError:
        return NotImplementedError(f"{type(self)} does not implement {name} [nd-define]")

    @property
    def arg_constraints(self) -> dict[str, Any]:
        """The constraint of each parameter."""
        raise self._missing("arg_constraints")

    @property
    def support(self) -> Any:
        """The constraint of samples."""
        raise self._missing("support")

    @property
    def mean(self) -> Tensor:
        """The mean."""
        raise self._missing("mean")

    @property
    def mode(self) -> Tensor:
        """The most likely value."""
        raise self._missing("mode")

    @property
    def variance(self) -> Tensor:
        """The variance."""
        raise self._missing("variance")

    @property
    def stddev(self) -> Tensor:
        """The standard deviation."""
        return self.variance.sqrt()

    def sample(self, sample_shape: Sequence[int] = ()) -> Tensor:
        """Return samples, which are constants for autograd.

        Args:
            sample_shape: shape of the batch of samples.

        Returns:
            A tensor of shape `sample_shape + batch_shape + event_shape`.
        """
        with ndgrad.no_grad():
            return self.rsample(sample_shape)

    def rsample(self, sample_shape: Sequence[int] = ()) -> Tensor:
        """Return samples that are differentiable in the parameters.

        Args:
            sample_shape: shape of the batch of samples.

        Returns:
            A tensor of shape `sample_shape + batch_shape + event_shape`.
        """
        raise self._missing("rsample")

    def sample_n(self, n: int) -> Tensor:
        """Return `n` samples.

        Args:
            n: number of samples.
        """
        warnings.warn("`sample_n(n)` will be deprecated. Use `sample((n,))` instead.", FutureWarning, stacklevel=2)
        return self.sample((n,))

    def log_prob(self, value: Tensor) -> Tensor:
        """Return the logarithm of the density, or of the probability, at a value.

        Args:
            value: tensor that broadcasts against `batch_shape + event_shape`.

        Returns:
            A tensor with one number for each value, without the dimensions of an event.
        """
        raise self._missing("log_prob")

    def cdf(self, value: Tensor) -> Tensor:
        """Return the probability of values up to `value`.

        Args:
            value: tensor that broadcasts against `batch_shape`.
        """
        raise self._missing("cdf")

    def icdf(self, value: Tensor) -> Tensor:
        """Return the quantile: the value up to which the probability is the given one.

        Args:
            value: probabilities in [0, 1].
        """
        raise self._missing("icdf")

    def enumerate_support(self, expand: bool = True) -> Tensor:
        """Return all values that a sample can have, along a new first dimension.

        Args:
            expand: whether values are repeated over the batch. Otherwise batch dimensions have size 1.
        """
        raise self._missing("enumerate_support")

    def entropy(self) -> Tensor:
        """Return the entropy, in nats."""
        raise self._missing("entropy")

    def perplexity(self) -> Tensor:
        """Return the exponential of the entropy."""
        return ndgrad.exp(self.entropy())

    # ----- checks, text -----------------------------------------------------------------------------------------------

    def _validate_sample(self, value: Tensor) -> None:
        """Refuse a value whose shape does not fit or that lies outside of the support."""
        if not isinstance(value, ndgrad.Tensor):
            raise ValueError(
                f"The value argument to log_prob must be a Tensor, but is a {type(value).__name__}. "
                "Make it one with ndgrad.tensor(). [nd-type]"
            )
        shape, events = value.shape, len(self._event_shape)
        if shape[len(shape) - events :] != self._event_shape:
            raise ValueError(
                f"The right-most size of value must match event_shape: {value.shape} vs {self._event_shape}. "
                f"One sample of {self!r} has that shape. [nd-shape]"
            )
        expected = self._batch_shape + self._event_shape
        for i, j in zip(reversed(shape), reversed(expected), strict=False):
            if i != 1 and j != 1 and i != j:
                raise ValueError(
                    f"Value is not broadcastable with batch_shape+event_shape: {value.shape} vs {expected}. "
                    "Sizes must agree or be 1. [nd-broadcast]"
                )
        try:
            support = self.support
        except NotImplementedError:
            warnings.warn(
                f"{type(self)} does not define `support` to enable sample validation. Please initialize the "
                "distribution with `validate_args=False` to turn off validation.",
                stacklevel=3,
            )
            return
        require(
            support.check(value),
            lambda: (
                f"Expected value argument ({type(value).__name__} of shape {tuple(value.shape)}) to be within the "
                f"support ({support!r}) of the distribution {self!r}, but found invalid values:\n{value}\n"
                "Give values of the support, or make the distribution with validate_args=False. [nd-distribution]"
            ),
        )

    def __repr__(self) -> str:
        shown = {name: getattr(self, name) for name in self.arg_constraints if name in vars(self)}
        texts = (f"{name}: {v if v.numel() == 1 else v.size()}" for name, v in shown.items())
        return f"{type(self).__name__}({', '.join(texts)})"
