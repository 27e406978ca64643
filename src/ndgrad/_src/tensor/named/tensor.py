"""`NamedTensor`: the class of tensors whose dimensions have names.

A tensor becomes a `NamedTensor` when names are set, and a plain `Tensor` again when they are removed. The class shows
whether names exist, so tensors without names cost nothing. The class overrides every public function: dimensions
given by name become numbers, the function runs on the same tensors without names, and the names of its results follow
from a rule (_src.tensor.named.inference). A function without a rule raises and changes nothing.

Autograd ignores names, as torch's did: gradients have none, and derivative rules do not see them.
"""

from __future__ import annotations

import inspect
import math
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import TYPE_CHECKING, Any

from ndgrad._src.core.modes import process
from ndgrad._src.core.subclass import DisableFunctionSubclass
from ndgrad._src.core.variable import Variable, meta_of
from ndgrad._src.ops import shape as ops
from ndgrad._src.ops.table import Op
from ndgrad._src.tensor.named.inference import Call, Names, refuse, rule_of, signature_of, tensors_in, writes
from ndgrad._src.tensor.tensor_class import Tensor

if TYPE_CHECKING:
    from ndgrad._typing import Payload

#: Parameters that take dimensions.
_DIMENSIONS = frozenset(
    ["dim", "dims", "dim0", "dim1", "dim2", "axis0", "axis1", "start_dim", "end_dim", "source", "destination"]
)
#: Functions that work with names, and functions that run user code, which may use names.
_SEES_NAMES = frozenset(
    "align_as align_tensors align_to has_names refine_names rename rename_ backward __reduce_ex__ "
    "__deepcopy__ __copy__ __repr__ __str__ __format__".split()
)


class NamedTensor(Tensor):
    """A tensor with named dimensions. Created by `names=` of factories, `rename()` and `refine_names()`.

    >>> import ndgrad
    >>> x = ndgrad.ones(2, 3, names=("batch", "feature"))
    >>> x.sum("feature")
    tensor([3., 3.], names=('batch',))
    """

    __slots__ = ()  # The layout of Tensor, so that a tensor can change its class.

    @classmethod
    def __ndgrad_function__(
        cls, func: Any, types: Any, args: tuple[Any, ...] = (), kwargs: dict[str, Any] | None = None
    ) -> Any:
        """Run a public function with a named tensor among its arguments."""
        options = kwargs or {}
        if not all(issubclass(cls, t) for t in types):
            return NotImplemented
        if isinstance(func, Op):
            return _run(func, args, options)
        if func.__name__ in _SEES_NAMES:
            return func.__wrapped__(*args, **options)
        handler = _HANDLERS.get(func.__name__)
        return _named_call(func, args, options) if handler is None else handler(*args, **options)

    __torch_function__ = __ndgrad_function__

    @property
    def T(self) -> Any:
        """The dimensions in reverse order, with their names."""
        return name_result(super().T, self.names[::-1])

    @property
    def mT(self) -> Any:
        """The last two dimensions swapped, with their names."""
        names = self.names
        return name_result(super().mT, (*names[:-2], *names[:-3:-1]))

    @property
    def H(self) -> Any:
        """The conjugate transpose of a matrix, with its names."""
        return name_result(super().H, self.names[::-1])

    @property
    def mH(self) -> Any:
        """The conjugate transpose of matrices, with their names."""
        names = self.names
        return name_result(super().mH, (*names[:-2], *names[:-3:-1]))

    @property
    def data(self) -> Any:
        """The same values outside of the graph, with their names."""
        base: Any = Tensor.data  # the property
        return name_result(base.__get__(self), self.names)

    @data.setter
    def data(self, value: object) -> None:
        base: Any = Tensor.data  # the property
        base.__set__(self, value)

    def __reduce_ex__(self, protocol: Any) -> Any:
        raise RuntimeError(
            f"NYI: Named tensors don't support serialization (this one has dims {list(self.names)}). Please drop names "
            "via `tensor = tensor.rename(None)` before serialization. [nd-pickle]"
        )


def _run(func: Any, args: Any, options: dict[str, Any]) -> Any:
    with DisableFunctionSubclass():
        return func(*args, **options)


def _named_call(func: Any, args: tuple[Any, ...], options: dict[str, Any]) -> Any:
    name = func.__name__
    try:
        bound = signature_of(func).bind(*args, **options)
    except TypeError:
        return _run(func, args, options)  # The function reports the error in its arguments.
    bound.apply_defaults()
    out: Any = bound.arguments.get("out")
    by_name = False
    first = next(tensors_in(list(bound.arguments.values())), None)
    for key in _DIMENSIONS.intersection(bound.arguments):
        found = as_numbers(bound.arguments[key], () if first is None else first.names)
        if found is not None:
            bound.arguments[key], by_name = found, True
    rule = rule_of(func, name)
    in_place = writes(name)
    if rule is None and in_place:
        refuse(name)  # before anything is written
    naming = None if rule is None else rule(Call(name, _flatten_arguments(bound)))
    if in_place and naming is not None:
        _check_target(args[0], naming(args[0]))
    result = _run(func, bound.args, bound.kwargs) if by_name else _run(func, args, options)
    for t in tensors_in(result):
        if naming is None:
            refuse(name)
        if t is out or (in_place and t is args[0]):
            names = naming(t)
            if t is out and t.has_names() and t.names != names:
                raise RuntimeError(
                    f"{name}(): the names of out={list(t.names)} and of the result, {list(names)}, differ. Give an out "
                    "without names, or rename() it. [nd-names]"
                )
            set_names(t, names)
        elif not any(t is a for a in tensors_in(list(args))):
            name_result(t, naming(t))
    return result


def _flatten_arguments(bound: inspect.BoundArguments) -> dict[str, Any]:
    """Return arguments by name, including those of **options."""
    found = dict(bound.arguments)
    for key, parameter in bound.signature.parameters.items():
        if parameter.kind is inspect.Parameter.VAR_KEYWORD:
            found.update(found.pop(key, {}))
    return found


def _check_target(target: Any, names: Names) -> None:
    """Check the names that an in-place function will give to its target."""
    if len(names) == target.ndim:
        check_names(names, target.ndim)
        if target.has_names() or any(names):
            _class_for_names(target)


def as_numbers(given: Any, names: Names) -> Any:
    """Replace names by dimension numbers; None if no dimension is given by name."""
    if isinstance(given, str):
        return number_of(given, names)
    if isinstance(given, (list, tuple)) and any(isinstance(d, str) for d in given):
        return tuple(number_of(d, names) if isinstance(d, str) else d for d in given)
    return None


def number_of(name: str, names: Names) -> int:
    if name not in names:
        raise RuntimeError(
            f"Name {name!r} not found in Tensor{list(names)}. Use one of its names, or a number. [nd-names]"
        )
    return names.index(name)


# ----- giving names ---------------------------------------------------------------------------------------------------


def check_names(names: Iterable[Any], ndim: int) -> Names:
    """Return names as a tuple: one identifier or None per dimension, without duplicates."""
    found = tuple(names)
    for name in found:
        if name is not None and not (isinstance(name, str) and name.isidentifier()):
            raise RuntimeError(
                f"Invalid name: a valid identifier contains only digits, underscores and letters, but {name!r} is "
                "not one. Use a word, or None for a dimension without a name. [nd-names]"
            )
    given = [n for n in found if n is not None]
    if len(found) != ndim:
        raise RuntimeError(
            f"Number of names ({len(found)}) and number of dimensions in tensor ({ndim}) do not match: {found} do not "
            f"name the {ndim} dimensions once each. Give one name, or None, per dimension. [nd-names]"
        )
    if len(set(given)) != len(given):
        twice = next(n for n in given if given.count(n) > 1)
        raise RuntimeError(
            f"Cannot construct a tensor with duplicate names. Got names: {list(found)}: {twice!r} must name one of "
            f"the {ndim} dimensions once. rename() a dimension first. [nd-names]"
        )
    return found


def _class_for_names(t: Variable) -> None:
    if type(t) is not NamedTensor and type(t) is not Tensor:
        raise NotImplementedError(
            f"a {type(t).__name__} (shape {tuple(t.shape)}) cannot have names of dimensions: they belong to plain "
            "tensors of class Tensor. Name a result computed from it, or a detach() of it. [nd-names]"
        )


def set_names(t: Variable, names: Sequence[str | None] | None) -> Any:
    """Set the names of a tensor's dimensions in place; return the tensor."""
    found = None if names is None else check_names(names, t.ndim)
    if found is None or not any(n is not None for n in found):
        if type(t) is NamedTensor:
            meta_of(t).names = None
            t.__class__ = Tensor  # type: ignore[assignment]  # the same layout
        return t
    _class_for_names(t)
    process.named = True
    meta_of(t).names = found
    t.__class__ = NamedTensor
    return t


def name_result(t: object, names: Sequence[str | None]) -> Any:
    """Set the names of a new result, which no other reference can see yet."""
    return set_names(t, names) if isinstance(t, Variable) else t


# ----- several dimensions as one, and one as several ------------------------------------------------------------------


def _flatten(
    input: Payload, start_dim: Any = 0, end_dim: Any = -1, out_dim: str | None = None, dims: Any = None
) -> Any:
    """Implement `flatten(dims, out_dim)` and `flatten(start_dim, end_dim)`. Without a name for the result, only one
    dimension may be flattened."""
    if isinstance(start_dim, (list, tuple)):
        dims, out_dim = start_dim, end_dim if isinstance(end_dim, str) else out_dim
    if dims is None:
        own, n = input.names, input.ndim
        first, last = (number_of(d, own) if isinstance(d, str) else d % n if n else 0 for d in (start_dim, end_dim))
        if first == last and n and out_dim is None:
            return input
        dims = range(first, last + 1)
    if out_dim is None:
        refuse("flatten", " without out_dim, the name of the result's dimension")
    return _flatten_dims(input, dims, out_dim)


def _flatten_dims(t: Variable, dims: Any, out_dim: str) -> Any:
    """Merge neighbouring dimensions, given by name, into one called `out_dim`."""
    own = t.names
    places = [number_of(d, own) if isinstance(d, str) else d % t.ndim for d in dims]
    if not places:
        raise RuntimeError(
            "flatten(tensor, dims, out_dim): dims cannot be empty. Name the dimensions to make one of. [nd-names]"
        )
    if places != list(range(places[0], places[0] + len(places))):
        raise RuntimeError(
            f"flatten(tensor, dims, out_dim): dims {list(dims)} must be consecutive in Tensor{list(own)}. Bring them "
            "together with align_to() first. [nd-names]"
        )
    first, last = places[0], places[-1]
    shape = tuple(t.shape)
    flat = ops.reshape(t, shape=(*shape[:first], math.prod(shape[first : last + 1]), *shape[last + 1 :]))
    return set_names(flat, (*own[:first], out_dim, *own[last + 1 :]))


def _unflatten(input: Payload, dim: str | int, sizes: Any) -> Any:
    """Split a dimension into several, given as pairs (name, size)."""
    own = input.names
    at = number_of(dim, own) if isinstance(dim, str) else dim % input.ndim
    pairs = list(sizes.items() if isinstance(sizes, Mapping) else sizes or ())
    if not pairs:
        raise RuntimeError("unflatten: sizes must be non-empty. Give (name, size) for each new dimension. [nd-names]")
    names, numbers = [name for name, _ in pairs], [int(size) for _, size in pairs]
    shape = tuple(input.shape)
    if math.prod(numbers) != shape[at]:
        raise RuntimeError(
            f"unflatten: Provided sizes {numbers} don't multiply up to the size of dim {dim!r} ({shape[at]}) in "
            f"Tensor{list(own)}. Give sizes whose product it is. [nd-names]"
        )
    parted = ops.reshape(input, shape=(*shape[:at], *numbers, *shape[at + 1 :]))
    return set_names(parted, (*own[:at], *names, *own[at + 1 :]))


#: Functions that handle names themselves.
_HANDLERS: dict[str, Callable[..., Any]] = {"flatten": _flatten, "unflatten": _unflatten}
