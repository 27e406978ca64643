"""rearrange: name, split, join and reorder the dimensions of a tensor by a pattern.

A pattern becomes a reshape, a permute and a reshape, so derivatives and batching are those of these ops.
"""

from __future__ import annotations

import math
import re
from collections.abc import Sequence
from typing import TYPE_CHECKING

from ndgrad._src.core.variable import Variable
from ndgrad._src.foundations.public_path import set_module
from ndgrad._src.ops.vocabulary import tensor_ops

#: A side of a pattern: groups of names. "..." is a group of its own, or an item among names on the right.

if TYPE_CHECKING:
    from collections.abc import Sequence

    from ndgrad._typing import Tensor
Side = list[list[str]]

_ELLIPSIS = "..."
_TOKEN = re.compile(r"\s*(\.\.\.|…|[A-Za-z]\w*|\d+|[()])")


@set_module("ndgrad.func")
def rearrange(tensor: Tensor | Sequence[Tensor], pattern: str, **axes_lengths: int) -> Tensor:
    """Return the tensor with the dimensions named on the left of the pattern ordered and grouped as on its right.

    Names in parentheses form one dimension, `...` stands for any number of dimensions, and `1` for a dimension of
    length one. In a group on the left, all names but one need their length. A list of tensors is stacked along a new
    first dimension.

    Args:
        tensor: tensor, or list of tensors of one shape.
        pattern: names of the dimensions before and after, with an arrow between them: `"a b -> b a"`.
        **axes_lengths: length of names in a group on the left.

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
            f"rearrange: expected a tensor or a list of tensors, but got {type(tensor).__name__}. "
            "Use ndgrad.as_tensor(...). [nd-equation]"
        )
    left, right = _parse(pattern)
    shape = tuple(tensor.shape)
    lengths = _lengths(pattern, left, shape, axes_lengths)
    order = {name: i for i, name in enumerate(lengths)}
    hidden = [name for name in lengths if name.startswith(_ELLIPSIS)]
    groups = [
        [inner for name in group for inner in (hidden if name == _ELLIPSIS else [name])]
        for group in _expand_ellipsis(right, hidden)
    ]
    split = tensor_ops.reshape(tensor, shape=tuple(lengths.values()))
    moved = tensor_ops.permute(split, dims=tuple(order[name] for group in groups for name in group))
    return tensor_ops.reshape(moved, shape=tuple(math.prod(lengths[name] for name in group) for group in groups))


def _expand_ellipsis(side: Side, hidden: list[str]) -> Side:
    """Replace a `...` outside parentheses by one group per dimension."""
    out: Side = []
    for group in side:
        out += [[name] for name in hidden] if group == [_ELLIPSIS] else [group]
    return out


def _lengths(pattern: str, left: Side, shape: Sequence[int], known: dict[str, int]) -> dict[str, int]:
    """Return the length of every name of the left side, in order; dimensions of `...` get names of their own."""
    free = len(shape) - sum(group != [_ELLIPSIS] for group in left)
    if free < 0 or (free and [_ELLIPSIS] not in left):
        raise ValueError(
            f"rearrange: the left of {pattern!r} names {len(left)} dimensions, but the tensor has shape "
            f"{tuple(shape)}. They must agree. [nd-equation]"
        )
    unknown = known.keys() - {name for group in left for name in group}
    if unknown:
        raise ValueError(
            f"rearrange: lengths are given for {sorted(unknown)}, but the left of {pattern!r} does "
            "not name. Leave them out. [nd-equation]"
        )
    sides = _expand_ellipsis(left, [f"{_ELLIPSIS}{i}" for i in range(free)])
    out: dict[str, int] = {}
    for group, length in zip(sides, shape, strict=True):
        missing = [name for name in group if name not in known]
        product = math.prod(known[name] for name in group if name in known)
        if len(missing) > 1:
            raise ValueError(
                f"rearrange: the lengths of {missing} in {pattern!r} cannot be inferred. Give all but one of them. "
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
            f"rearrange: the pattern {pattern!r} must have one '->', between the present and the wanted dimensions. "
            "[nd-equation]"
        )
    left, right = (_side(pattern, part) for part in parts)
    names = [[name for group in side for name in group] for side in (left, right)]
    for found in names:
        if len(set(found)) != len(found):
            raise ValueError(
                f"rearrange: a name occurs twice on one side of {pattern!r}. Each needs its own. [nd-equation]"
            )
    if set(names[0]) != set(names[1]):
        only = sorted(set(names[0]) ^ set(names[1]))
        raise ValueError(
            f"rearrange: {only} occurs on one side of {pattern!r} only. Both sides name the same dimensions. "
            "[nd-equation]"
        )
    if any(_ELLIPSIS in group and len(group) > 1 for group in left):
        raise ValueError(
            f"rearrange: '...' occurs in parentheses on the left of {pattern!r}, "
            "where its lengths cannot be inferred. [nd-equation]"
        )
    return left, right


def _side(pattern: str, text: str) -> Side:
    """Parse one side into groups; a dimension of length one is a group without names."""
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
                    f"rearrange: the parentheses in {pattern!r} do not match, or are nested. "
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
