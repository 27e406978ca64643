"""Dimension names: setting, changing and alignment (docs/named.md)."""

from __future__ import annotations

from types import EllipsisType
from typing import TYPE_CHECKING, Any

from ndgrad._src.ops import shape as ops
from ndgrad._src.tensor.named.tensor import number_of, set_names

if TYPE_CHECKING:
    from ndgrad._typing import Tensor

__all__ = ["align_tensors"]
METHODS = ("align_as", "align_to", "has_names", "refine_names", "rename", "rename_")


def _view(t: Tensor, names: Any) -> Tensor:
    return set_names(ops.alias(t), names)


def _expand_ellipsis(what: str, names: tuple[Any, ...], t: Tensor) -> tuple[str | None, ...]:
    """Replace an ellipsis among names by the tensor's names at that position."""
    if len(names) == 1 and isinstance(names[0], (list, tuple)):
        names = tuple(names[0])
    dots = [i for i, name in enumerate(names) if _is_dots(name)]
    if not dots:
        return names
    at, rest = dots[0], t.ndim - (len(names) - 1)
    if len(dots) > 1 or rest < 0:
        raise RuntimeError(
            f"{what}: the names {names} do not fit a tensor with dims {t.names}: one ellipsis stands for the "
            "remaining dimensions. Give one name per dimension, or one ellipsis. [nd-names]"
        )
    return (*names[:at], *t.names[at : at + rest], *names[at + 1 :])


def _parse_names(
    what: str, t: Tensor, names: tuple[Any, ...], mapping: dict[str, str]
) -> tuple[str | None, ...] | None:
    if names and mapping:
        raise RuntimeError(
            f"{what}: got both positional names {names} and keywords {mapping}. Use one of them. [nd-names]"
        )
    if names == (None,) and t.ndim != 1:
        return None
    if names == (None,):
        return (None,)
    if mapping:
        missing = sorted(mapping.keys() - set(t.names))
        if missing:
            raise RuntimeError(
                f"{what}: Tried to rename dim {missing[0]!r} to {mapping[missing[0]]!r} in Tensor[{t.names}] but dim "
                f"{missing[0]!r} does not exist. Use one of the tensor's names. [nd-names]"
            )
        return tuple(mapping.get(n, n) if n is not None else None for n in t.names)
    return _expand_ellipsis(what, names, t)


def rename(self: Tensor, *names: str | EllipsisType | None, **mapping: str) -> Tensor:
    """A view with other dimension names: all of them in order, or old=new. `rename(None)` drops them.

    Args:
        self: tensor to view.
        *names: new names of all dimensions in order. An ellipsis keeps the names at its place.
        **mapping: new names by the old ones.

    >>> import ndgrad
    >>> ndgrad.ones(2, 3).rename("row", "column").rename(row="sample").names
    ('sample', 'column')
    """
    return _view(self, _parse_names("rename", self, names, mapping))


def rename_(self: Tensor, *names: str | EllipsisType | None, **mapping: str) -> Tensor:
    """Set the dimension names in place.

    Args:
        self: tensor to change.
        *names: new names of all dimensions in order. An ellipsis keeps the names at its place.
        **mapping: new names by the old ones.

    >>> import ndgrad
    >>> ndgrad.ones(2, 3).rename_("row", None).names
    ('row', None)
    """
    return set_names(self, _parse_names("rename_", self, names, mapping))


def refine_names(self: Tensor, *names: str | EllipsisType | None) -> Tensor:
    """A view in which unnamed dimensions get names; existing names must be equal.

    Args:
        self: tensor to view.
        *names: names of all dimensions in order. An ellipsis keeps the names at its place.

    >>> import ndgrad
    >>> ndgrad.ones(2, 3).rename("row", None).refine_names("row", "column").names
    ('row', 'column')
    """
    wanted = _expand_ellipsis("refine_names", names, self)
    if len(wanted) != self.ndim:
        raise RuntimeError(
            f"refine_names: cannot coerce Tensor[{self.names}] to Tensor[{wanted}]: different number of dims "
            f"({self.ndim} vs {len(wanted)} respectively). Give one name per dimension, or an ellipsis. [nd-names]"
        )
    for old, name in zip(self.names, wanted):
        if old is not None and old != name:
            raise RuntimeError(
                f"refine_names: cannot coerce Tensor[{self.names}] to Tensor[{wanted}] because {old!r} is different "
                f"from {name!r}. Use rename(), which replaces names. [nd-names]"
            )
    return _view(self, wanted)


def has_names(self: Tensor) -> bool:
    """True if any dimension has a name.

    >>> import ndgrad
    >>> ndgrad.ones(2, 3).has_names()
    False
    """
    return any(n is not None for n in self.names)


def _is_dots(name: object) -> bool:
    return name is Ellipsis or name == "..."


def _check_alignment(own: tuple[str | None, ...], wanted: tuple[Any, ...]) -> None:
    """Raise if a tensor with the names `own` cannot be brought into the order `wanted`."""
    dots = sum(map(_is_dots, wanted))
    if None in wanted or dots > 1:
        raise RuntimeError(
            f"align_to: dims of the output {wanted} must all be named, with one ellipsis at most. Name them, or write "
            "an ellipsis for those that keep their order. [nd-names]"
        )
    if dots:
        for name in wanted:
            if not _is_dots(name):
                number_of(name, own)
    elif None in own:
        raise RuntimeError(
            f"align_to: All input dims must be named. Found unnamed dim at index {own.index(None)} of "
            f"Tensor{list(own)}. Please use tensor.refine_names(*names) to name it. [nd-names]"
        )
    elif not set(own) <= set(wanted):
        missing = next(name for name in own if name not in wanted)
        raise RuntimeError(
            f"align_to: Cannot find dim {missing!r} of Tensor{list(own)} in the desired alignment {wanted}. Name every "
            "dimension of the tensor, or write an ellipsis. [nd-names]"
        )


def align_to(self: Tensor, *names: str | EllipsisType | None) -> Tensor:
    """A view with the dimensions in the order of `names`; missing dimensions get size 1. An ellipsis stands for the
    dimensions that are not named, in their order.

    Args:
        self: tensor to view.
        *names: names of the dimensions in the new order.

    >>> import ndgrad
    >>> x = ndgrad.ones(2, 3, names=("batch", "feature"))
    >>> x.align_to("feature", "time", "batch").shape, x.align_to("feature", ...).names
    (ndgrad.Size([3, 1, 2]), ('feature', 'batch'))
    """
    own = self.names
    wanted: Any = tuple(names[0]) if len(names) == 1 and isinstance(names[0], (list, tuple)) else names
    _check_alignment(own, wanted)
    rest = [i for i, name in enumerate(own) if name is None or name not in wanted]
    places: list[int | None] = []
    for name in wanted:
        places += rest if _is_dots(name) else [own.index(name) if name in own else None]
    result = ops.permute(self, dims=tuple(i for i in places if i is not None))
    for at, place in enumerate(places):
        if place is None:
            result = ops.unsqueeze(result, dim=at)
    new = iter([name for name in wanted if not _is_dots(name) and name not in own])
    return set_names(result, [next(new) if place is None else own[place] for place in places])


def align_as(self: Tensor, other: Tensor) -> Tensor:
    """A view with the dimensions in the order of those of `other`, by name.

    Args:
        self: tensor to view.
        other: tensor whose dimensions all have names.

    >>> import ndgrad
    >>> scale, image = ndgrad.ones(3, names=("C",)), ndgrad.ones(2, 3, 4, names=("N", "C", "W"))
    >>> scale.align_as(image).shape
    ndgrad.Size([1, 3, 1])
    """
    if any(name is None for name in other.names):
        raise RuntimeError(
            f"align_as: dims of other {other.names} must all be named. Use refine_names() on it first. [nd-names]"
        )
    return align_to(self, *other.names)


def align_tensors(*tensors: Tensor) -> tuple[Tensor, ...]:
    """Views of tensors, all with the dimensions of the tensor that has most, by name.

    Args:
        *tensors: tensors whose dimensions all have names.

    >>> import ndgrad
    >>> x, y = ndgrad.ones(3, names=("C",)), ndgrad.ones(2, 3, names=("N", "C"))
    >>> [t.shape for t in ndgrad.align_tensors(x, y)]
    [ndgrad.Size([1, 3]), ndgrad.Size([2, 3])]
    """
    if not tensors:
        return ()
    longest = max(tensors, key=lambda t: t.ndim)
    return tuple(align_as(t, longest) for t in tensors)
