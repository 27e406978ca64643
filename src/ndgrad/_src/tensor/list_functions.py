"""torch's `_foreach_*` functions: one op on each tensor of a list, as optimizers and clipping code call them.

Each is a loop over the function or the in-place method of the same name. So dtypes, broadcasting, derivatives and
errors are those of the single op. Their other arguments are numbers, lists of numbers, lists of tensors, or one tensor
without dimensions.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any

from ndgrad._src.core.variable import Variable
from ndgrad._src.tensor.functions.norm import vector_norm
from ndgrad._src.tensor.methods import TensorMethods

if TYPE_CHECKING:
    from ndgrad._typing import Dtype, Tensor

#: Functions of one tensor.
UNARY = (
    "abs acos asin atan ceil cos cosh erf erfc exp expm1 floor frac lgamma log log10 log1p log2 neg reciprocal round "
    "rsqrt sigmoid sign sin sinh sqrt tan tanh trunc"
).split()
#: Functions of a tensor and a number or tensor, and the method that computes them.
BINARY = {
    "add": "add", "sub": "sub", "mul": "mul", "div": "div", "maximum": "clamp_min", "minimum": "clamp_max",
    "clamp_min": "clamp_min", "clamp_max": "clamp_max", "pow": "pow",
}  # fmt: skip
#: Binary functions that take one tensor without dimensions for all, and those that take `alpha`.
_WITH_TENSOR = frozenset(("add", "mul", "div"))
_WITH_ALPHA = frozenset(("add", "sub"))
POINTWISE = ("addcdiv", "addcmul")


def _check_list(name: str, tensors: Any) -> None:
    if not isinstance(tensors, (list, tuple)) or not all(isinstance(t, Variable) for t in tensors):
        raise TypeError(f"{name}(): expected a list or tuple of tensors, but got {type(tensors).__name__} [nd-type]")
    if not tensors:
        raise RuntimeError("Tensor list must have at least one tensor. Pass a list with tensors. [nd-too-few]")


def match_lengths(name: str, tensors: Sequence[Tensor], other: Any) -> Sequence[Any]:
    """Return one value per tensor, from a number, or from a list of numbers or tensors."""
    if not isinstance(other, (list, tuple)):
        return [other] * len(tensors)
    if len(other) != len(tensors):
        kind = "tensor" if other and isinstance(other[0], Variable) else "scalar"
        raise RuntimeError(
            f"Tensor list must have same number of elements as {kind} list. {name}() was given {len(tensors)} tensors "
            f"and {len(other)} values. [nd-shape]"
        )
    return other


def _read_scalars(name: str, tensors: Sequence[Tensor], scalars: Any) -> Sequence[Any]:
    """Return one number per tensor for `addcdiv` and `addcmul`, which also take the numbers as one tensor."""
    if isinstance(scalars, Variable):
        if scalars.ndim != 1:
            raise RuntimeError(
                f"Expected packed scalar Tensor to be of dimension 1. Got {scalars.ndim} instead, in {name}(). "
                "[nd-shape]"
            )
        scalars = scalars.tolist()
    return match_lengths(name, tensors, scalars)


def _finish(tensors: Sequence[Tensor], results: list[Any], in_place: bool) -> Any:
    return tensors if in_place else tuple(results)


def _make_unary(name: str, in_place: bool) -> Callable[..., Any]:
    method = getattr(TensorMethods, name + "_" * in_place)
    public = f"_foreach_{name}{'_' * in_place}"

    def run(self: Sequence[Tensor]) -> Any:
        _check_list(public, self)
        return _finish(self, [method(t) for t in self], in_place)

    return _name(run, public, name, in_place)


def _make_binary(name: str, in_place: bool) -> Callable[..., Any]:
    method = getattr(TensorMethods, BINARY[name] + "_" * in_place)
    public = f"_foreach_{name}{'_' * in_place}"
    absent = object()

    def run(self: Any, other: Any = absent, *, alpha: Any = 1, **named: Any) -> Any:
        if other is absent:
            other = next((named.pop(key) for key in ("scalar", "scalars", "exponent") if key in named), absent)
        if named or other is absent:
            raise TypeError(f"{public}() takes a list of tensors and one operand; got {sorted(named)} [nd-arguments]")
        if name == "pow" and not in_place and isinstance(self, (int, float, complex)):
            _check_list(public, other)
            return tuple(self**t for t in other)
        _check_list(public, self)
        if isinstance(other, Variable):
            if name not in _WITH_TENSOR:
                if other.ndim or other.requires_grad:
                    raise TypeError(f"{public}() takes numbers or a list of tensors, not one tensor [nd-type]")
                other = other.item()
            elif other.ndim:
                raise RuntimeError(
                    f"scalar tensor expected to be 0 dim but it has {other.ndim} dimensions and {other.numel()} "
                    f"elements, in {public}(). [nd-shape]"
                )
        elif alpha != 1 and not (isinstance(other, (list, tuple)) and other and isinstance(other[0], Variable)):
            raise TypeError(f"{public}() takes alpha only for tensors; multiply the numbers instead [nd-arguments]")
        if alpha != 1 and name not in _WITH_ALPHA:
            raise TypeError(f"{public}() has no argument alpha [nd-arguments]")
        settings = {"alpha": alpha} if name in _WITH_ALPHA else {}
        others = match_lengths(public, self, other)
        return _finish(self, [method(t, o, **settings) for t, o in zip(self, others, strict=True)], in_place)

    return _name(run, public, name, in_place)


def _make_pointwise(name: str, in_place: bool) -> Callable[..., Any]:
    method = getattr(TensorMethods, name + "_" * in_place)
    public = f"_foreach_{name}{'_' * in_place}"

    def run(
        self: Sequence[Tensor],
        tensor1: Sequence[Tensor],
        tensor2: Sequence[Tensor],
        value: Any = 1,
        *,
        scalars: Any = None,
    ) -> Any:
        for tensors in (self, tensor1, tensor2):
            _check_list(public, tensors)
        values = _read_scalars(public, self, value if scalars is None else scalars)
        both = zip(
            self, match_lengths(public, self, tensor1), match_lengths(public, self, tensor2), values, strict=True
        )
        return _finish(self, [method(t, a, b, value=v) for t, a, b, v in both], in_place)

    return _name(run, public, name, in_place)


def _make_lerp(in_place: bool) -> Callable[..., Any]:
    method = TensorMethods.lerp_ if in_place else TensorMethods.lerp
    public = f"_foreach_lerp{'_' * in_place}"

    def run(self: Sequence[Tensor], tensors1: Sequence[Tensor], weights: Any = None, *, weight: Any = None) -> Any:
        _check_list(public, self)
        _check_list(public, tensors1)
        if (weights is None) == (weight is None):
            raise TypeError(f"{public}() takes one weight, or a list of weights [nd-arguments]")
        values = match_lengths(public, self, weights if weight is None else weight)
        both = zip(self, match_lengths(public, self, tensors1), values, strict=True)
        return _finish(self, [method(t, end, w) for t, end, w in both], in_place)

    return _name(run, public, "lerp", in_place)


def _name(run: Callable[..., Any], public: str, name: str, in_place: bool) -> Callable[..., Any]:
    run.__name__ = run.__qualname__ = public
    run.__module__ = "ndgrad"
    returned = "list" if in_place else "results"
    run.__doc__ = f"Apply `{name}{'_' * in_place}` to each tensor of a list, and return the {returned}."
    return run


def _foreach_norm(self: Sequence[Tensor], ord: float = 2, dtype: Dtype | None = None) -> tuple[Tensor, ...]:
    """Return the norm of each tensor.

    >>> import ndgrad
    >>> ndgrad._foreach_norm([ndgrad.tensor([3.0, 4.0]), ndgrad.zeros(2)])
    (tensor(5.), tensor(0.))
    """
    _check_list("_foreach_norm", self)
    return tuple(vector_norm(t, ord, dtype=dtype) for t in self)


def _foreach_powsum(self: Sequence[Tensor], ord: float = 2, dtype: Dtype | None = None) -> tuple[Tensor, ...]:
    """Return the sum of the powers of absolute values of each tensor."""
    _check_list("_foreach_powsum", self)
    return tuple(t.abs().pow(ord).sum(dtype=dtype) for t in self)


def _foreach_max(self: Sequence[Tensor]) -> tuple[Tensor, ...]:
    """Return the largest element of each tensor."""
    _check_list("_foreach_max", self)
    return tuple(t.max() for t in self)


def _foreach_clone(self: Sequence[Tensor], *, memory_format: Any = None) -> tuple[Tensor, ...]:
    """Return a copy of each tensor."""
    _check_list("_foreach_clone", self)
    return tuple(t.clone() if memory_format is None else t.clone(memory_format=memory_format) for t in self)


def _foreach_mm(self: Sequence[Tensor], mat2: Sequence[Tensor]) -> tuple[Tensor, ...]:
    """Return the matrix product of each pair of matrices."""
    _check_list("_foreach_mm", self)
    _check_list("_foreach_mm", mat2)
    return tuple(a.mm(b) for a, b in zip(self, match_lengths("_foreach_mm", self, mat2), strict=True))


def _foreach_copy_(self: Sequence[Tensor], src: Sequence[Tensor], non_blocking: bool = False) -> Sequence[Tensor]:
    """Copy each tensor of `src` into the tensor at its position."""
    _check_list("_foreach_copy_", self)
    _check_list("_foreach_copy_", src)
    for target, source in zip(self, match_lengths("_foreach_copy_", self, src), strict=True):
        target.copy_(source, non_blocking)
    return self


def _foreach_zero_(self: Sequence[Tensor]) -> Sequence[Tensor]:
    """Set all elements of each tensor to zero."""
    _check_list("_foreach_zero_", self)
    for tensor in self:
        tensor.zero_()
    return self


for _in_place in (False, True):
    for _made in (
        *(_make_unary(n, _in_place) for n in UNARY),
        *(_make_binary(n, _in_place) for n in BINARY),
        *(_make_pointwise(n, _in_place) for n in POINTWISE),
        _make_lerp(_in_place),
    ):
        globals()[_made.__name__] = _made

#: All names of this kind.
FUNCTIONS = tuple(name for name in globals() if name.startswith("_foreach_"))
