"""Base class of transforms, and transforms built from others: inverses, compositions, concatenations, reshapes.

A transform maps values of its `domain` to values of its `codomain`, two constraints; a value may be a scalar, a vector
or a matrix, and `log_abs_det_jacobian` has one number for each. The inverse of a transform that is not `bijective`
returns one of the points, and there is no determinant.
"""

from __future__ import annotations

import functools
import operator
import weakref
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any

import ndgrad
from ndgrad._src.foundations.sizes import Size
from ndgrad.distributions import constraints
from ndgrad.distributions.utils import _sum_rightmost, inherit_docstrings

if TYPE_CHECKING:
    from ndgrad._typing import Tensor
    from ndgrad.distributions.constraints import Constraint

__all__ = [
    "CatTransform", "ComposeTransform", "IndependentTransform", "ReshapeTransform", "StackTransform", "Transform",
    "identity_transform",
]  # fmt: skip


class Transform:
    """A map of tensors. Subclasses define `_call`, `_inverse` and `log_abs_det_jacobian(x, y)`.

    Args:
        cache_size: 1 keeps the last pair of x and y, so that the inverse of the last result is exact; 0 keeps none.

    >>> import ndgrad
    >>> t = ndgrad.distributions.ExpTransform()
    >>> y = t(ndgrad.tensor(2.0))
    >>> y, t.inv(ndgrad.tensor(10.0)), t.log_abs_det_jacobian(ndgrad.tensor(2.0), y)
    (tensor(7.3891), tensor(2.3026), tensor(2.))
    """

    bijective: Any = False
    domain: Any
    codomain: Any

    def __init_subclass__(cls, **kwargs: Any) -> None:
        super().__init_subclass__(**kwargs)
        inherit_docstrings(cls)

    def __init__(self, cache_size: int = 0) -> None:
        if cache_size not in (0, 1):
            raise ValueError(
                f"cache_size must be 0 or 1, but is {cache_size}: one pair of values is kept, or none. [nd-option]"
            )
        self._cache_size = cache_size
        self._cached_x_y: tuple[Any, Any] = None, None
        # A weak reference, since the inverse holds this one.
        self._inv_ref: weakref.ref[Transform] | None = None

    def __getstate__(self) -> dict[str, Any]:
        return {**vars(self), "_cached_x_y": (None, None), "_inv_ref": None}

    @property
    def event_dim(self) -> int:
        """The number of dimensions of one value, before and after."""
        if self.domain.event_dim != self.codomain.event_dim:
            raise ValueError(
                "Please use either .domain.event_dim or .codomain.event_dim: values have "
                f"{self.domain.event_dim} dimensions before and {self.codomain.event_dim} after. [nd-distribution]"
            )
        return int(self.domain.event_dim)

    @property
    def inv(self) -> Transform:
        """The inverse."""
        inverse = None if self._inv_ref is None else self._inv_ref()
        if inverse is None:
            inverse = self._make_inverse()
            self._inv_ref = weakref.ref(inverse)
        return inverse

    def _make_inverse(self) -> Transform:
        return _InverseTransform(self)

    @property
    def sign(self) -> Any:
        """+1 if a map of numbers increases, -1 if it decreases."""
        raise NotImplementedError(f"{type(self).__name__} has no sign: it is no monotonic map of numbers. [nd-define]")

    def with_cache(self, cache_size: int = 1) -> Transform:
        """Return the same transform, with or without a cache.

        Args:
            cache_size: 1 to keep the last pair of values, 0 to keep none.
        """
        if self._cache_size == cache_size:
            return self
        if type(self).__init__ is Transform.__init__:
            return type(self)(cache_size=cache_size)
        raise NotImplementedError(
            f"{type(self)}.with_cache is not implemented: define it where __init__ is defined. [nd-define]"
        )

    def __eq__(self, other: object) -> bool:
        return self is other

    __hash__ = None  # type: ignore[assignment]  # they are equal by their parameters

    def __call__(self, x: Tensor) -> Tensor:
        if not self._cache_size:
            return self._call(x)
        before, after = self._cached_x_y
        if x is before:
            found: Tensor = after
            return found
        y = self._call(x)
        self._cached_x_y = x, y
        return y

    def _inv_call(self, y: Tensor) -> Tensor:
        if not self._cache_size:
            return self._inverse(y)
        before, after = self._cached_x_y
        if y is after:
            found: Tensor = before
            return found
        x = self._inverse(y)
        self._cached_x_y = x, y
        return x

    def _call(self, x: Tensor) -> Tensor:
        raise NotImplementedError(f"{type(self).__name__} does not say what it maps to: define _call(x). [nd-define]")

    def _inverse(self, y: Tensor) -> Tensor:
        raise NotImplementedError(f"{type(self).__name__} has no inverse: define _inverse(y). [nd-define]")

    def log_abs_det_jacobian(self, x: Tensor, y: Tensor) -> Tensor:
        """Return log |det dy/dx| for each value.

        Args:
            x: values of the domain.
            y: their images.
        """
        raise NotImplementedError(f"{type(self).__name__} has no log_abs_det_jacobian. [nd-define]")

    def __repr__(self) -> str:
        return f"{type(self).__name__}()"

    def forward_shape(self, shape: Sequence[int]) -> Sequence[int]:
        """Return the shape of the result for an argument of some shape.

        Args:
            shape: shape of an argument.
        """
        return shape

    def inverse_shape(self, shape: Sequence[int]) -> Sequence[int]:
        """Return the shape of the inverse's result.

        Args:
            shape: shape of a result.
        """
        return shape


class _InverseTransform(Transform):
    """The inverse of a transform, to which it delegates everything."""

    def __init__(self, transform: Transform) -> None:
        super().__init__(cache_size=transform._cache_size)
        self._inv = transform

    def _make_inverse(self) -> Transform:
        return self._inv

    @constraints.dependent_property(is_discrete=False)
    def domain(self) -> Constraint:
        return self._inv.codomain

    @constraints.dependent_property(is_discrete=False)
    def codomain(self) -> Constraint:
        return self._inv.domain

    @property
    def bijective(self) -> bool:
        return bool(self._inv.bijective)

    @property
    def sign(self) -> Any:
        return self._inv.sign

    def with_cache(self, cache_size: int = 1) -> Transform:
        return self._inv.with_cache(cache_size).inv

    def __eq__(self, other: object) -> bool:
        return isinstance(other, _InverseTransform) and self._inv == other._inv

    def __call__(self, x: Tensor) -> Tensor:
        return self._inv._inv_call(x)

    def _inv_call(self, y: Tensor) -> Tensor:
        return self._inv(y)

    def log_abs_det_jacobian(self, x: Tensor, y: Tensor) -> Tensor:
        return -self._inv.log_abs_det_jacobian(y, x)

    def __repr__(self) -> str:
        return f"{type(self).__name__}({self._inv!r})"

    def forward_shape(self, shape: Sequence[int]) -> Sequence[int]:
        return self._inv.inverse_shape(shape)

    def inverse_shape(self, shape: Sequence[int]) -> Sequence[int]:
        return self._inv.forward_shape(shape)


# ----- transforms of transforms ---------------------------------------------------------------------------------------


class ComposeTransform(Transform):
    """A chain of transforms.

    Args:
        parts: transforms, of which the first is applied first.
        cache_size: 1 keeps the last pair of x and y, so that the inverse of the last result is exact; 0 keeps none.

    >>> from ndgrad.distributions import AffineTransform, ComposeTransform, ExpTransform
    >>> ComposeTransform([ExpTransform(), AffineTransform(1.0, 2.0)])(ndgrad.tensor(0.0))
    tensor(3.)
    """

    def __init__(self, parts: Sequence[Transform], cache_size: int = 0) -> None:
        super().__init__(cache_size=cache_size)
        self.parts = [part.with_cache(cache_size) for part in parts] if cache_size else list(parts)

    def __eq__(self, other: object) -> bool:
        return isinstance(other, ComposeTransform) and self.parts == other.parts

    def _event_dims(self, forward: bool) -> tuple[Constraint, int]:
        """Return the constraint at one end, and the number of dimensions that a value must have there, so that all
        parts map whole values.
        """
        steps = [(p.domain, p.codomain) if forward else (p.codomain, p.domain) for p in self.parts]
        if not forward:
            steps.reverse()
        # Go back from the far end: each step may change the number of dimensions, and needs its own.
        event_dim = int(steps[-1][1].event_dim)
        for near, far in reversed(steps):
            event_dim = max(event_dim + near.event_dim - far.event_dim, near.event_dim)
        return steps[0][0], event_dim

    def _end(self, forward: bool) -> Constraint:
        if not self.parts:
            return constraints.real
        constraint, event_dim = self._event_dims(forward)
        if event_dim < constraint.event_dim:
            raise AssertionError(
                f"a value of {constraint} has {constraint.event_dim} dimensions, not {event_dim}. [nd-distribution]"
            )
        more = event_dim - int(constraint.event_dim)
        return constraints.independent(constraint, more) if more else constraint

    @constraints.dependent_property(is_discrete=False)
    def domain(self) -> Constraint:
        return self._end(forward=True)

    @constraints.dependent_property(is_discrete=False)
    def codomain(self) -> Constraint:
        return self._end(forward=False)

    @property
    def bijective(self) -> bool:
        return all(p.bijective for p in self.parts)

    @property
    def sign(self) -> Any:
        return functools.reduce(operator.mul, (p.sign for p in self.parts), 1)

    def _make_inverse(self) -> Transform:
        return _InverseComposition(self)

    def with_cache(self, cache_size: int = 1) -> Transform:
        return self if self._cache_size == cache_size else ComposeTransform(self.parts, cache_size=cache_size)

    def __call__(self, x: Tensor) -> Tensor:
        for part in self.parts:
            x = part(x)
        return x

    def log_abs_det_jacobian(self, x: Tensor, y: Tensor) -> Tensor:
        if not self.parts:
            return ndgrad.zeros_like(x)
        points = [x]
        for part in self.parts[:-1]:
            points.append(part(points[-1]))
        points.append(y)
        terms = []
        event_dim = int(self.domain.event_dim)
        for part, before, after in zip(self.parts, points[:-1], points[1:], strict=True):
            own = part.log_abs_det_jacobian(before, after)
            terms.append(_sum_rightmost(own, event_dim - part.domain.event_dim))
            event_dim += part.codomain.event_dim - part.domain.event_dim
        return functools.reduce(operator.add, terms)

    def forward_shape(self, shape: Sequence[int]) -> Sequence[int]:
        for part in self.parts:
            shape = part.forward_shape(shape)
        return shape

    def inverse_shape(self, shape: Sequence[int]) -> Sequence[int]:
        for part in reversed(self.parts):
            shape = part.inverse_shape(shape)
        return shape

    def __repr__(self) -> str:
        return f"{type(self).__name__}(\n    " + ",\n    ".join(repr(p) for p in self.parts) + "\n)"


class _InverseComposition(ComposeTransform):
    """The inverses from the last to the first. It remembers the original."""

    def __init__(self, composition: ComposeTransform) -> None:
        super().__init__([p.inv for p in reversed(composition.parts)])
        self._cache_size = composition._cache_size
        self._inv = composition

    def _make_inverse(self) -> Transform:
        return self._inv

    def __repr__(self) -> str:
        return ComposeTransform(self.parts).__repr__()


identity_transform = ComposeTransform([])


class IndependentTransform(Transform):
    """A transform of the elements of larger values: the determinant is the product of theirs.

    Args:
        base_transform: transform of the elements.
        reinterpreted_batch_ndims: number of last dimensions that become part of a value.
        cache_size: 1 keeps the last pair of x and y, so that the inverse of the last result is exact; 0 keeps none.

    >>> from ndgrad.distributions import ExpTransform, IndependentTransform
    >>> t = IndependentTransform(ExpTransform(), 1)
    >>> t.log_abs_det_jacobian(ndgrad.tensor([1.0, 2.0]), None)
    tensor(3.)
    """

    def __init__(self, base_transform: Transform, reinterpreted_batch_ndims: int, cache_size: int = 0) -> None:
        super().__init__(cache_size=cache_size)
        self.base_transform = base_transform.with_cache(cache_size)
        self.reinterpreted_batch_ndims = reinterpreted_batch_ndims

    def with_cache(self, cache_size: int = 1) -> Transform:
        if self._cache_size == cache_size:
            return self
        return IndependentTransform(self.base_transform, self.reinterpreted_batch_ndims, cache_size=cache_size)

    @constraints.dependent_property(is_discrete=False)
    def domain(self) -> Constraint:
        return constraints.independent(self.base_transform.domain, self.reinterpreted_batch_ndims)

    @constraints.dependent_property(is_discrete=False)
    def codomain(self) -> Constraint:
        return constraints.independent(self.base_transform.codomain, self.reinterpreted_batch_ndims)

    @property
    def bijective(self) -> bool:
        return bool(self.base_transform.bijective)

    @property
    def sign(self) -> Any:
        return self.base_transform.sign

    def _check(self, value: Tensor, event_dim: int) -> None:
        if value.ndim < event_dim:
            raise ValueError(
                f"Too few dimensions on input: a value has {event_dim}, and the shape is {tuple(value.shape)}. "
                "[nd-ndim]"
            )

    def _call(self, x: Tensor) -> Tensor:
        self._check(x, self.domain.event_dim)
        return self.base_transform(x)

    def _inverse(self, y: Tensor) -> Tensor:
        self._check(y, self.codomain.event_dim)
        return self.base_transform.inv(y)

    def log_abs_det_jacobian(self, x: Tensor, y: Tensor) -> Tensor:
        return _sum_rightmost(self.base_transform.log_abs_det_jacobian(x, y), self.reinterpreted_batch_ndims)

    def __repr__(self) -> str:
        return f"{type(self).__name__}({self.base_transform!r}, {self.reinterpreted_batch_ndims})"

    def forward_shape(self, shape: Sequence[int]) -> Sequence[int]:
        return self.base_transform.forward_shape(shape)

    def inverse_shape(self, shape: Sequence[int]) -> Sequence[int]:
        return self.base_transform.inverse_shape(shape)


class ReshapeTransform(Transform):
    """Values of another shape with as many elements.

    Args:
        in_shape: shape of a value of the domain.
        out_shape: shape of its image, with as many elements.
        cache_size: 1 keeps the last pair of x and y, so that the inverse of the last result is exact; 0 keeps none.

    >>> ndgrad.distributions.ReshapeTransform((2, 2), (4,))(ndgrad.eye(2))
    tensor([1., 0., 0., 1.])
    """

    bijective = True

    def __init__(self, in_shape: Sequence[int], out_shape: Sequence[int], cache_size: int = 0) -> None:
        self.in_shape, self.out_shape = Size(in_shape), Size(out_shape)
        if self.in_shape.numel() != self.out_shape.numel():
            raise ValueError(
                f"in_shape, out_shape have different numbers of elements: {self.in_shape} has "
                f"{self.in_shape.numel()}, {self.out_shape} has {self.out_shape.numel()}. [nd-shape]"
            )
        super().__init__(cache_size=cache_size)

    @constraints.dependent_property
    def domain(self) -> Constraint:
        return constraints.independent(constraints.real, len(self.in_shape))

    @constraints.dependent_property
    def codomain(self) -> Constraint:
        return constraints.independent(constraints.real, len(self.out_shape))

    def with_cache(self, cache_size: int = 1) -> Transform:
        if self._cache_size == cache_size:
            return self
        return ReshapeTransform(self.in_shape, self.out_shape, cache_size=cache_size)

    def _call(self, x: Tensor) -> Tensor:
        return x.reshape((*x.shape[: x.ndim - len(self.in_shape)], *self.out_shape))

    def _inverse(self, y: Tensor) -> Tensor:
        return y.reshape((*y.shape[: y.ndim - len(self.out_shape)], *self.in_shape))

    def log_abs_det_jacobian(self, x: Tensor, y: Tensor) -> Tensor:
        return x.new_zeros(x.shape[: x.ndim - len(self.in_shape)])

    def forward_shape(self, shape: Sequence[int]) -> Sequence[int]:
        return self._replace_event_shape(shape, self.in_shape, self.out_shape)

    def inverse_shape(self, shape: Sequence[int]) -> Sequence[int]:
        return self._replace_event_shape(shape, self.out_shape, self.in_shape)

    def _replace_event_shape(self, shape: Sequence[int], old: Size, new: Size) -> tuple[int, ...]:
        cut = len(shape) - len(old)
        if cut < 0:
            raise ValueError(
                f"Too few dimensions on input: the shape is {tuple(shape)}, and a value has {old}. [nd-ndim]"
            )
        if tuple(shape[cut:]) != tuple(old):
            raise ValueError(
                f"Shape mismatch: expected {tuple(shape[cut:])} but got {old}. A value has the latter. [nd-shape]"
            )
        return (*shape[:cut], *new)


# ----- several beside each other --------------------------------------------------------------------------------------


def _check_parts(tseq: Sequence[Transform]) -> None:
    if not all(isinstance(t, Transform) for t in tseq):
        raise AssertionError(f"all elements of {tseq!r} must be Transforms. [nd-type]")


class CatTransform(Transform):
    """Transforms of parts of a tensor along a dimension.

    Args:
        tseq: transforms, one per part.
        dim: dimension of the parts.
        lengths: size of each part. The default is 1.
        cache_size: 1 keeps the last pair of x and y, so that the inverse of the last result is exact; 0 keeps none.

    >>> from ndgrad.distributions import CatTransform, ExpTransform, identity_transform
    >>> CatTransform([ExpTransform(), identity_transform], lengths=[1, 2])(ndgrad.zeros(3))
    tensor([1., 0., 0.])
    """

    transforms: list[Transform]

    def __init__(
        self, tseq: Sequence[Transform], dim: int = 0, lengths: Sequence[int] | None = None, cache_size: int = 0
    ) -> None:
        _check_parts(tseq)
        super().__init__(cache_size=cache_size)
        self.transforms = [t.with_cache(cache_size) for t in tseq] if cache_size else list(tseq)
        self.lengths = [1] * len(self.transforms) if lengths is None else list(lengths)
        if len(self.lengths) != len(self.transforms):
            raise AssertionError(
                f"{len(self.transforms)} transforms have {len(self.lengths)} lengths. Give one for each. [nd-shape]"
            )
        self.dim = dim

    @property
    def event_dim(self) -> int:
        return max(t.event_dim for t in self.transforms)

    @property
    def length(self) -> int:
        """The number of elements along the dimension."""
        return sum(self.lengths)

    def with_cache(self, cache_size: int = 1) -> Transform:
        if self._cache_size == cache_size:
            return self
        return CatTransform(self.transforms, self.dim, self.lengths, cache_size)

    def _parts(self, value: Tensor) -> tuple[Tensor, ...]:
        if not -value.ndim <= self.dim < value.ndim:
            raise AssertionError(f"dim {self.dim} is out of range for a value of shape {tuple(value.shape)}. [nd-dim]")
        if value.shape[self.dim] != self.length:
            raise AssertionError(
                f"value.size({self.dim}) = {value.shape[self.dim]} must equal length {self.length}, the sum of "
                "lengths. [nd-shape]"
            )
        return value.split(self.lengths, self.dim)

    def _call(self, x: Tensor) -> Tensor:
        parts = [t(part) for t, part in zip(self.transforms, self._parts(x), strict=True)]
        return ndgrad.cat(parts, dim=self.dim)

    def _inverse(self, y: Tensor) -> Tensor:
        parts = [t.inv(part) for t, part in zip(self.transforms, self._parts(y), strict=True)]
        return ndgrad.cat(parts, dim=self.dim)

    def log_abs_det_jacobian(self, x: Tensor, y: Tensor) -> Tensor:
        terms = []
        for t, before, after in zip(self.transforms, self._parts(x), self._parts(y), strict=True):
            own = t.log_abs_det_jacobian(before, after)
            terms.append(_sum_rightmost(own, self.event_dim - t.event_dim))
        dim = self.dim - x.ndim if self.dim >= 0 else self.dim  # from the end
        dim += self.event_dim
        return ndgrad.cat(terms, dim=dim) if dim < 0 else functools.reduce(operator.add, terms)

    @property
    def bijective(self) -> bool:
        return all(t.bijective for t in self.transforms)

    @constraints.dependent_property
    def domain(self) -> Constraint:
        return constraints.cat([t.domain for t in self.transforms], self.dim, self.lengths)

    @constraints.dependent_property
    def codomain(self) -> Constraint:
        return constraints.cat([t.codomain for t in self.transforms], self.dim, self.lengths)


class StackTransform(Transform):
    """Transforms of slices along a dimension, one each.

    Args:
        tseq: transforms, one per slice.
        dim: dimension of the slices.
        cache_size: 1 keeps the last pair of x and y, so that the inverse of the last result is exact; 0 keeps none.

    >>> from ndgrad.distributions import ExpTransform, StackTransform, identity_transform
    >>> StackTransform([ExpTransform(), identity_transform])(ndgrad.zeros(2))
    tensor([1., 0.])
    """

    transforms: list[Transform]

    def __init__(self, tseq: Sequence[Transform], dim: int = 0, cache_size: int = 0) -> None:
        _check_parts(tseq)
        super().__init__(cache_size=cache_size)
        self.transforms = [t.with_cache(cache_size) for t in tseq] if cache_size else list(tseq)
        self.dim = dim

    def with_cache(self, cache_size: int = 1) -> Transform:
        return self if self._cache_size == cache_size else StackTransform(self.transforms, self.dim, cache_size)

    def _slice(self, z: Tensor) -> tuple[Tensor, ...]:
        if not -z.ndim <= self.dim < z.ndim:
            raise AssertionError(f"dim {self.dim} is out of range for a value of shape {tuple(z.shape)}. [nd-dim]")
        if z.shape[self.dim] != len(self.transforms):
            raise AssertionError(
                f"x.size({self.dim}) = {z.shape[self.dim]} must equal len(transforms) {len(self.transforms)}. "
                "[nd-shape]"
            )
        return z.unbind(self.dim)

    def _stack_parts(self, apply: Callable[[Transform, Tensor], Tensor], z: Tensor) -> Tensor:
        return ndgrad.stack([apply(t, part) for t, part in zip(self.transforms, self._slice(z), strict=True)], self.dim)

    def _call(self, x: Tensor) -> Tensor:
        return self._stack_parts(lambda t, part: t(part), x)

    def _inverse(self, y: Tensor) -> Tensor:
        return self._stack_parts(lambda t, part: t.inv(part), y)

    def log_abs_det_jacobian(self, x: Tensor, y: Tensor) -> Tensor:
        pairs = zip(self.transforms, self._slice(x), self._slice(y), strict=True)
        return ndgrad.stack([t.log_abs_det_jacobian(before, after) for t, before, after in pairs], dim=self.dim)

    @property
    def bijective(self) -> bool:
        return all(t.bijective for t in self.transforms)

    @constraints.dependent_property
    def domain(self) -> Constraint:
        return constraints.stack([t.domain for t in self.transforms], self.dim)

    @constraints.dependent_property
    def codomain(self) -> Constraint:
        return constraints.stack([t.codomain for t in self.transforms], self.dim)
