"""rearrange: a tensor with its dimensions named, split, joined and put in another order, as a pattern says.

A pattern becomes a reshape, a permute and a reshape, so it is differentiated and batched as those are.
"""

from __future__ import annotations

import math
import re
from collections.abc import Sequence
from typing import TYPE_CHECKING

from ndgrad._src.core.variable import Variable
from ndgrad._src.ops.vocabulary import tensor_ops

#: A side of a pattern: groups of names; "..." stands for itself in a group of its own, or among names on the right.

if TYPE_CHECKING:
    from collections.abc import Sequence

    from ndgrad._typing import Tensor
Side = list[list[str]]

_ELLIPSIS = "..."
_TOKEN = re.compile(r"\s*(\.\.\.|…|[A-Za-z]\w*|\d+|[()])")


def rearrange(tensor: Tensor | Sequence[Tensor], pattern: str, **axes_lengths: int) -> Tensor:
    """The tensor with the dimensions that the left of the pattern names, as its right orders and groups them.

    Names in parentheses are one dimension, `...` stands for any number of them, and `1` for one of length one. Of
    the names in a group on the left, all but one need their length. A list of tensors is taken as one with a
    dimension more, in front.

    >>> import ndgrad
    >>> x = ndgrad.arange(6.0).reshape(2, 3)
    >>> ndgrad.func.rearrange(x, "a b -> b a").shape
    ndgrad.Size([3, 2])
    >>> ndgrad.func.rearrange(x, "a b -> (b a)")
    tensor([0., 3., 1., 4., 2., 5.])
    >>> ndgrad.func.rearrange(x, "a (b c) -> c a b", c=3).shape
    ndgrad.Size([3, 2, 1])
    """
    if isinstance(tensor, (list, tuple)):
        tensor = tensor_ops.stack(*tensor, dim=0)
    if not isinstance(tensor, Variable):
        raise TypeError(
            f"rearrange: expected a tensor or a list of tensors, and got {type(tensor).__name__}. "
            "Use ndgrad.as_tensor(...). [nd-equation]"
        )
    left, right = _parse(pattern)
    shape = tuple(tensor.shape)
    lengths = _lengths(pattern, left, shape, axes_lengths)
    order = {name: i for i, name in enumerate(lengths)}
    hidden = [name for name in lengths if name.startswith(_ELLIPSIS)]
    groups = [
        [inner for name in group for inner in (hidden if name == _ELLIPSIS else [name])]
        for group in _spread(right, hidden)
    ]
    split = tensor_ops.reshape(tensor, shape=tuple(lengths.values()))
    moved = tensor_ops.permute(split, dims=tuple(order[name] for group in groups for name in group))
    return tensor_ops.reshape(moved, shape=tuple(math.prod(lengths[name] for name in group) for group in groups))


def _spread(side: Side, hidden: list[str]) -> Side:
    """A side whose `...` outside parentheses has become one group per dimension."""
    out: Side = []
    for group in side:
        out += [[name] for name in hidden] if group == [_ELLIPSIS] else [group]
    return out


def _lengths(pattern: str, left: Side, shape: Sequence[int], known: dict[str, int]) -> dict[str, int]:
    """The length of every name of the left side, in order; those behind `...` get names of their own."""
    free = len(shape) - sum(group != [_ELLIPSIS] for group in left)
    if free < 0 or (free and [_ELLIPSIS] not in left):
        raise ValueError(
            f"rearrange: the left of {pattern!r} names {len(left)} dimensions, and the tensor has shape "
            f"{tuple(shape)}. They must agree. [nd-equation]"
        )
    unknown = known.keys() - {name for group in left for name in group}
    if unknown:
        raise ValueError(
            f"rearrange: lengths are given for {sorted(unknown)}, which the left of {pattern!r} does "
            "not name. Leave them out. [nd-equation]"
        )
    sides = _spread(left, [f"{_ELLIPSIS}{i}" for i in range(free)])
    out: dict[str, int] = {}
    for group, length in zip(sides, shape, strict=True):
        missing = [name for name in group if name not in known]
        product = math.prod(known[name] for name in group if name in known)
        if len(missing) > 1:
            raise ValueError(
                f"rearrange: the lengths of {missing} in {pattern!r} cannot be told apart. Give all but one of them. "
                "[nd-equation]"
            )
        if (length % product if missing and product else length != product) or (missing and not product):
            raise ValueError(
                f"rearrange: a dimension of length {length} cannot be ({' '.join(group)}) with the lengths {known}, "
                f"in {pattern!r} for shape {tuple(shape)}. Their product must be that length. [nd-equation]"
            )
        for name in group:
            out[name] = known[name] if name in known else length // product
    return out


# ----- patterns -------------------------------------------------------------------------------------------------------


def _parse(pattern: str) -> tuple[Side, Side]:
    parts = pattern.split("->")
    if len(parts) != 2:
        raise ValueError(
            f"rearrange: the pattern {pattern!r} must have one '->', between what there is and what is wanted. "
            "[nd-equation]"
        )
    left, right = (_side(pattern, part) for part in parts)
    names = [[name for group in side for name in group] for side in (left, right)]
    for found in names:
        if len(set(found)) != len(found):
            raise ValueError(
                f"rearrange: a name stands twice on one side of {pattern!r}. Each dimension has its own. [nd-equation]"
            )
    if set(names[0]) != set(names[1]):
        only = sorted(set(names[0]) ^ set(names[1]))
        raise ValueError(
            f"rearrange: {only} stands on one side of {pattern!r} only. Both sides name the same dimensions. "
            "[nd-equation]"
        )
    if any(_ELLIPSIS in group and len(group) > 1 for group in left):
        raise ValueError(
            f"rearrange: '...' stands in parentheses on the left of {pattern!r}, "
            "where its dimensions cannot be told apart. [nd-equation]"
        )
    return left, right


def _side(pattern: str, text: str) -> Side:
    """The groups of one side; a dimension of length one is a group without names."""
    side: Side = []
    open_group: list[str] | None = None
    position = 0
    while text[position:].strip():
        match = _TOKEN.match(text, position)
        if match is None:
            raise ValueError(
                f"rearrange: {text[position:].strip()!r} in {pattern!r} is no name. Use letters, digits, '_', "
                "'...', '1' and parentheses. [nd-equation]"
            )
        position, token = match.end(), match.group(1)
        if token in "()":
            if (token == "(") == (open_group is not None):
                raise ValueError(
                    f"rearrange: the parentheses in {pattern!r} do not match, or lie in each other. "
                    "Write each group once. [nd-equation]"
                )
            if open_group is not None:
                side.append(open_group)
            open_group = [] if token == "(" else None
        elif token.isdigit():
            if token != "1":
                raise ValueError(
                    f"rearrange: the number {token} in {pattern!r} is no dimension. Only '1' is; "
                    "give other lengths by name. [nd-equation]"
                )
            if open_group is None:
                side.append([])
        else:
            name = _ELLIPSIS if token in ("...", "…") else token
            if open_group is None:
                side.append([name])
            else:
                open_group.append(name)
    if open_group is not None:
        raise ValueError(f"rearrange: a parenthesis in {pattern!r} is not closed. [nd-equation]")
    return side
