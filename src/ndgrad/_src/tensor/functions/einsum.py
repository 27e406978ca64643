"""einsum: any sum of products over named dimensions, as a sequence of contractions of two arrays.

An equation and the shapes of its operands are turned once into a cached plan: diagonals to take, dimensions to sum
first, pairs to contract, and their order. Each contraction is one op, whose gradients are contractions again. So
gradients cost as many products as the value, and under vmap the batch is one more named dimension.
"""

from __future__ import annotations

import functools
import importlib
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any, NamedTuple, overload

import numpy as np

from ndgrad._src.ops import product, reduce, shape, triangle
from ndgrad._src.tensor.arguments import as_dim, both_worlds
from ndgrad._src.tensor.functions.reduce import deliver

if TYPE_CHECKING:
    from types import EllipsisType

    from ndgrad._typing import Tensor

__all__ = ["einsum", "tensordot"]
METHODS = ()

_ELLIPSIS = 0xE000  # Names of the dimensions of "..." start here; no equation can contain them.


class _Operand(NamedTuple):
    """Preparation of an operand before its first contraction."""

    diagonals: tuple[tuple[int, int], ...]  # pairs of dimensions, applied one after the other
    shape: tuple[int, ...] | None  # without dimensions of size one that are larger in other operands
    summed: tuple[int, ...]  # dimensions absent from the other operands and the output


class _Plan(NamedTuple):
    operands: tuple[_Operand, ...]
    steps: tuple[tuple[int, int, str], ...]  # positions in the shrinking list of operands, and the contraction
    order: tuple[int, ...]  # order of the dimensions of a single operand


@overload
def einsum(equation: str, /, *operands: Tensor | Sequence[Tensor]) -> Tensor: ...


@overload
def einsum(
    operand: Tensor, sublist: Sequence[int | EllipsisType], /, *more: Tensor | Sequence[int | EllipsisType]
) -> Tensor: ...


def einsum(*args: Any) -> Tensor:
    """Return the sum of products described by an equation.

    Takes the equation and the operands, or operands alternating with lists: `einsum(x, [0, 1], y, [1], [0])`.

    Args:
        *args: an equation such as `"ij,jk->ik"` and its operands. The operands may be in one list. Letters missing
            behind the arrow are summed over, and `...` stands for broadcast dimensions.

    >>> import ndgrad
    >>> x, y = ndgrad.tensor([[1.0, 2.0], [3.0, 4.0]]), ndgrad.tensor([10.0, 1.0])
    >>> ndgrad.einsum("ij,j->i", x, y)
    tensor([12., 34.])
    """
    if not args:
        raise ValueError(
            "einsum(): takes an equation and operands, but got nothing. Write einsum('ij,jk->ik', x, y). [nd-equation]"
        )
    equation, operands = (args[0], args[1:]) if isinstance(args[0], str) else _from_sublists(args)
    if len(operands) == 1 and isinstance(operands[0], (list, tuple)):
        operands = tuple(operands[0])
    if not operands:
        raise ValueError(
            f"einsum(): must provide at least one operand for {equation!r}. Pass the tensors after the equation. "
            "[nd-equation]"
        )
    plan = _plan(equation, tuple(tuple(t.shape) for t in operands))
    left = [_prepare(t, p) for t, p in zip(operands, plan.operands, strict=True)]
    if len(left) == 1:
        return left[0] if plan.order == tuple(range(len(plan.order))) else shape.permute(left[0], dims=plan.order)
    for i, j, subscripts in plan.steps:
        y, x = left.pop(j), left.pop(i)
        left.append(product.contract.strict(x, y, subscripts=subscripts))
    return left[0]


def _prepare(x: Tensor, plan: _Operand) -> Tensor:
    for dim0, dim1 in plan.diagonals:
        x = triangle.diagonal(x, offset=0, dim0=dim0, dim1=dim1)
    if plan.shape is not None:
        x = shape.reshape(x, shape=plan.shape)
    return reduce.sum(x, dim=plan.summed, keepdim=False) if plan.summed else x


def _from_sublists(args: tuple[Any, ...]) -> tuple[str, tuple[Tensor, ...]]:
    """Return the equation for operands alternating with lists of numbers; the output's list, if given, is last."""
    operands, terms = args[0::2], [_letters(s) for s in args[1::2]]
    if len(args) % 2:
        operands, out = operands[:-1], _letters(args[-1])
        return ",".join(terms) + "->" + out, tuple(operands)
    return ",".join(terms), tuple(operands)


def _letters(numbers: Sequence[int | EllipsisType]) -> str:
    if not isinstance(numbers, (list, tuple)):
        raise TypeError(
            f"einsum(): expected a list of subscripts behind each operand, but got {type(numbers).__name__}. "
            "Write einsum(x, [0, 1], y, [1, 2], [0, 2]), or an equation as a string. [nd-equation]"
        )
    out = ""
    for n in numbers:
        if n is Ellipsis:
            out += "..."
        elif 0 <= n < 52:
            out += chr(ord("A") + n) if n < 26 else chr(ord("a") + n - 26)
        else:
            raise ValueError(
                f"einsum(): subscripts in lists are numbers from 0 to 51, but one is {n}. Number the dimensions anew. "
                "[nd-equation]"
            )
    return out


# ----- reading an equation --------------------------------------------------------------------------------------------


def _error(equation: str, problem: str) -> RuntimeError:
    return RuntimeError(
        f"einsum(): {problem} (in the equation {equation!r}). Correct the equation or the operands' shapes. "
        "[nd-equation]"
    )


def _read_inputs(equation: str, inputs: str, shapes: Sequence[tuple[int, ...]]) -> tuple[list[str], str]:
    """Return the names of each operand's dimensions, and those of the dots."""
    terms = inputs.split(",")
    if len(terms) != len(shapes):
        raise _error(
            equation,
            (
                f"{len(terms)} terms for {len(shapes)} operands: fewer or more operands were "
                "provided than the equation has"
            ),
        )
    split, longest = [], 0
    for number, (term, sizes) in enumerate(zip(terms, shapes, strict=True)):
        before, dots, after = term.partition("...")
        for c in before + after:
            if not (c.isascii() and c.isalpha()):
                raise _error(
                    equation, f"{c!r} of operand {number} is not a valid subscript: these are letters, or one '...'"
                )
        named = len(before) + len(after)
        if named > len(sizes) or (not dots and named != len(sizes)):
            raise _error(
                equation,
                f"the number of subscripts ({named}) does not match the {len(sizes)} dimensions of operand {number}",
            )
        split.append((before, after, len(sizes) - named))
        longest = max(longest, len(sizes) - named)
    dots_names = "".join(chr(_ELLIPSIS + i) for i in range(longest))
    return [before + dots_names[longest - count :] + after for before, after, count in split], dots_names


def _read_output(equation: str, output: str | None, names: list[str], dots: str) -> str:
    if output is None:
        every = "".join(names)
        return dots + "".join(sorted(c for c in set(every) - set(dots) if every.count(c) == 1))
    before, marker, after = output.partition("...")
    for c in before + after:
        if not any(c in n for n in names):
            raise _error(equation, f"output subscript {c} does not appear in the equation for any input operand")
        if (before + after).count(c) > 1:
            raise _error(equation, f"output subscript {c} appears more than once in the output")
    return before + (dots if marker else "") + after


def _sizes(equation: str, names: list[str], shapes: Sequence[tuple[int, ...]]) -> dict[str, int]:
    sizes: dict[str, int] = {}
    for number, (own, lengths) in enumerate(zip(names, shapes, strict=True)):
        seen: dict[str, int] = {}
        for c, n in zip(own, lengths, strict=True):
            if seen.setdefault(c, n) != n:
                raise _error(
                    equation,
                    f"subscript {c} is repeated for operand {number} but the sizes don't match, {n} != {seen[c]}",
                )
            known = sizes.get(c, 1)
            if known != 1 and n not in (1, known):
                shown = "..." if ord(c) >= _ELLIPSIS else c
                raise _error(
                    equation,
                    (
                        f"subscript {shown} has size {n} for operand {number}, which does not broadcast with "
                        f"previously seen size {known}"
                    ),
                )
            sizes[c] = known if n == 1 else n
    return sizes


# ----- the plan -------------------------------------------------------------------------------------------------------


@functools.lru_cache(maxsize=1024)
def _plan(equation: str, shapes: tuple[tuple[int, ...], ...]) -> _Plan:
    inputs, arrow, output = equation.replace(" ", "").partition("->")
    names, dots = _read_inputs(equation, inputs, shapes)
    out = _read_output(equation, output if arrow else None, names, dots)
    sizes = _sizes(equation, names, shapes)
    # A dimension of size one that is larger in another operand is left out, and broadcasts.
    large = [
        {c for c, n in zip(own, lengths, strict=True) if n == sizes[c]}
        for own, lengths in zip(names, shapes, strict=True)
    ]
    operands, left = [], []
    for number, own in enumerate(names):
        others = {*out, *(c for i, kept in enumerate(large) if i != number for c in kept)}
        prepared, remaining = _plan_operand(own, shapes[number], sizes, others)
        operands.append(prepared)
        left.append(remaining)
    if len(left) == 1:
        return _Plan(tuple(operands), (), tuple(left[0].index(c) for c in out))
    steps = []
    for i, j in _path(left, out, sizes):
        y, x = left.pop(j), left.pop(i)
        wanted = {*out, *(c for n in left for c in n)}
        made = (
            out if not left else "".join(c for c in dict.fromkeys([*(c for c in x if c in y), *x, *y]) if c in wanted)
        )
        steps.append((i, j, f"{x},{y}->{made}"))
        left.append(made)
    return _Plan(tuple(operands), tuple(steps), ())


def _plan_operand(own: str, lengths: tuple[int, ...], sizes: dict[str, int], others: set[str]) -> tuple[_Operand, str]:
    diagonals = []
    names, kept_sizes = list(own), list(lengths)
    for c in dict.fromkeys(own):
        while names.count(c) > 1:
            first = names.index(c)
            second = names.index(c, first + 1)
            diagonals.append((first, second))
            n = kept_sizes[first]
            # The diagonal becomes the last dimension.
            for dim in (second, first):
                del names[dim], kept_sizes[dim]
            names.append(c)
            kept_sizes.append(n)
    kept = [(c, n) for c, n in zip(names, kept_sizes, strict=True) if n == sizes[c]]
    reshaped = tuple(n for _, n in kept) if len(kept) < len(names) else None
    summed = tuple(i for i, (c, _) in enumerate(kept) if c not in others)
    return _Operand(tuple(diagonals), reshaped, summed), "".join(c for c, _ in kept if c in others)


def _path(names: list[str], out: str, sizes: dict[str, int]) -> list[tuple[int, int]]:
    """Return the pairs of operands to contract, in order; each result is appended to the list of operands."""
    if len(names) == 2:
        return [(0, 1)]
    letters = {c: i for i, c in enumerate(sizes)}
    found: Any = None
    try:
        opt_einsum = importlib.import_module("opt_einsum")
    except ImportError:
        if len(letters) <= 52:
            symbols = {c: chr(ord("a") + i) if i < 26 else chr(ord("A") + i - 26) for c, i in letters.items()}
            arrays = [np.broadcast_to(np.float64(0), tuple(sizes[c] for c in n)) for n in names]
            equation = ",".join("".join(symbols[c] for c in n) for n in names) + "->" + "".join(symbols[c] for c in out)
            found = np.einsum_path(equation, *arrays, optimize="optimal" if len(names) <= 5 else "greedy")[0][1:]
    else:
        symbols = {c: opt_einsum.get_symbol(i) for c, i in letters.items()}
        equation = ",".join("".join(symbols[c] for c in n) for n in names) + "->" + "".join(symbols[c] for c in out)
        found = opt_einsum.contract_path(equation, *(tuple(sizes[c] for c in n) for n in names), shapes=True)[0]
    return _pairs(found or [tuple(range(len(names)))], len(names))


def _pairs(path: Sequence[Sequence[int]], count: int) -> list[tuple[int, int]]:
    """Return a path in which every step takes two operands; larger steps are split."""
    pairs = []
    for step in path:
        positions = sorted(step)
        while len(positions) > 1:
            i, j = positions[0], positions[1]
            pairs.append((i, j))
            count -= 1
            # Later positions move up, and the result is the last one.
            positions = [p - (p > i) - (p > j) for p in positions[2:]]
            if positions:
                positions = sorted([*positions, count - 1])
    return pairs


# ----- tensordot ------------------------------------------------------------------------------------------------------


@both_worlds
def tensordot(
    a: Tensor, b: Tensor, dims: int | Tensor | Sequence[int | Sequence[int]] = 2, out: Tensor | None = None
) -> Tensor:
    """Sum products over the last `dims` dimensions of a and the first of b, or over two lists of dimensions.

    Args:
        a: first tensor.
        b: second tensor.
        dims: number of dimensions to sum over, or two lists: dimensions of `a`, and those of `b` that meet them.
        out: tensor that receives the result.

    Returns:
        A tensor with the remaining dimensions of `a`, then those of `b`.

    >>> import ndgrad
    >>> ndgrad.tensordot(ndgrad.ones(2, 3), ndgrad.ones(3, 4), dims=1).shape
    ndgrad.Size([2, 4])
    """
    first, second = _dims_to_contract(a, b, dims)
    for i, j in zip(first, second, strict=True):
        m, n = a.shape[i], b.shape[j]
        if m != n and 1 not in (m, n):
            raise RuntimeError(
                f"tensordot: contracted dimensions need to match, but first has size {m} in dim {i} "
                f"and second has size {n} in dim {j} (shapes {tuple(a.shape)} and {tuple(b.shape)}). "
                "Name dimensions of equal size in dims. [nd-matmul]"
            )
    names = [chr(_ELLIPSIS + i) for i in range(len(a.shape) + len(b.shape))]
    a_names, b_names = names[: len(a.shape)], names[len(a.shape) :]
    for i, j in zip(first, second, strict=True):
        b_names[j] = a_names[i]
    wanted = [c for i, c in enumerate(a_names) if i not in first] + [
        c for j, c in enumerate(b_names) if j not in second
    ]
    if any(a.shape[i] != b.shape[j] for i, j in zip(first, second, strict=True)):
        # For a dimension of size one that meets a longer one, sum the longer one first.
        a = _sum_longer(a, first, b, second)
        b = _sum_longer(b, second, a, first)
    result = product.contract.strict(a, b, subscripts=f"{''.join(a_names)},{''.join(b_names)}->{''.join(wanted)}")
    return deliver("tensordot", result, out, a, b)


def _sum_longer(x: Tensor, dims: list[int], y: Tensor, others: list[int]) -> Tensor:
    longer = tuple(i for i, j in zip(dims, others, strict=True) if x.shape[i] != y.shape[j] and y.shape[j] == 1)
    return reduce.sum(x, dim=longer, keepdim=True) if longer else x


def _dims_to_contract(a: Tensor, b: Tensor, dims: Any) -> tuple[list[int], list[int]]:
    if hasattr(dims, "tolist"):
        dims = dims.tolist()
    if isinstance(dims, int):
        if dims < 0 or dims > min(len(a.shape), len(b.shape)):
            raise RuntimeError(
                f"tensordot expects dims >= 0 and at most the dimensions of both tensors, but got dims={dims} for "
                f"shapes {tuple(a.shape)} and {tuple(b.shape)}. [nd-range]"
            )
        return list(range(len(a.shape) - dims, len(a.shape))), list(range(dims))
    first, second = dims
    first = [first] if isinstance(first, int) else list(first)
    second = [second] if isinstance(second, int) else list(second)
    if len(first) != len(second):
        raise RuntimeError(
            f"tensordot: both dimension lists should have same length, got {first} and {second}. Name as many of each. "
            "[nd-shape]"
        )
    lists = [as_dim(d, len(a.shape)) for d in first], [as_dim(d, len(b.shape)) for d in second]
    for found in lists:
        if len(set(found)) != len(found):
            raise RuntimeError(f"tensordot: a dimension appears twice in {found}. Name each once. [nd-dim]")
    return lists
