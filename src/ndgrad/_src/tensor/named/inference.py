"""Name inference: one rule per kind of function.

A rule receives the names and the arguments of a call before it runs, raises if names contradict each other, and
returns a function from each tensor of the result to its names. The kind of a function follows from the op table
(elementwise) or from its signature (a parameter `dim`). Only functions that move or contract dimensions have an
entry of their own. A function of no known kind is refused.

Two names match if they are equal or one of them is None; the more specific one wins.
"""

from __future__ import annotations

import functools
import inspect
from collections.abc import Callable, Sequence
from typing import Any, NoReturn

from ndgrad._src.core.variable import Variable
from ndgrad._src.ops.table import table

Names = tuple[str | None, ...]
#: Function from a tensor of the result to its names.
Naming = Callable[[Any], Names]


class Call:
    """A call of a public function: its arguments by name, with dimensions as numbers, and its tensors in order."""

    def __init__(self, name: str, arguments: dict[str, Any]) -> None:
        self.name, self.arguments = name, arguments
        self.tensors = [t for key, value in arguments.items() if key != "out" for t in tensors_in(value)]

    def names(self, number: int) -> Names:
        found: Names = self.tensors[number].names
        return found

    def dims(self, *keys: str) -> tuple[int, ...] | None:
        """Return the dimensions given by an argument, as non-negative numbers; None if it was left out."""
        given = next((self.arguments[key] for key in keys if self.arguments.get(key) is not None), None)
        if given is None:
            return None
        n = self.tensors[0].ndim
        return tuple(d % n if n else d for d in ((given,) if isinstance(given, int) else given))


def tensors_in(value: object) -> Any:
    """Yield the tensors in an argument, which may be a list of tensors."""
    if isinstance(value, Variable):
        yield value
    elif isinstance(value, (list, tuple)):
        for each in value:
            yield from tensors_in(each)


def refuse(name: str, why: str = "") -> NoReturn:
    raise RuntimeError(
        f"{name} is not yet supported with named tensors{why}. Please drop names via `tensor = tensor.rename(None)`, "
        "call the op with an unnamed tensor, and set names on the result of the operation. [nd-names]"
    )


# ----- matching -------------------------------------------------------------------------------------------------------


def unify(first: Names, second: Names) -> Names:
    """Return the names of two tensors that are broadcast against each other, from the right."""
    if first == second:
        return first
    n = max(len(first), len(second))
    padded = [(None,) * (n - len(names)) + names for names in (first, second)]
    result: list[str | None] = []
    for a, b in zip(*(names[::-1] for names in padded)):
        if a is not None and b is not None and a != b:
            raise RuntimeError(
                f"Error when attempting to broadcast dims {list(first)} and dims {list(second)}: dim {a!r} and dim "
                f"{b!r} are at the same position from the right but do not match. Bring one of the tensors into the "
                "other's order with align_as() or align_to(), or rename() its dimensions. [nd-names]"
            )
        for name, own, other in ((a, first, second), (b, second, first)):
            if name is not None and (a is None or b is None) and name in other:
                raise RuntimeError(
                    f"Misaligned dims when attempting to broadcast dims {list(own)} and dims {list(other)}: dim "
                    f"{name!r} appears in a different position from the right across both lists. Align the tensors by "
                    "name with align_as() or align_to(). [nd-names]"
                )
        result.append(b if a is None else a)
    return tuple(result[::-1])


def _unify_all(call: Call) -> Names:
    return functools.reduce(unify, (t.names for t in call.tensors))


def drop_dims(names: Names, dims: Sequence[int]) -> Names:
    return tuple(name for i, name in enumerate(names) if i not in dims)


# ----- rules by kind --------------------------------------------------------------------------------------------------


def elementwise(call: Call) -> Naming:
    """Unify the names of all arguments."""
    names = _unify_all(call)
    return lambda out: names


def keeps(call: Call) -> Naming:
    """Keep the names of the first argument; other arguments must not have names."""
    _only_first(call)
    names = call.names(0)
    return lambda out: names if out.ndim == len(names) else refuse(call.name, f" when it gives {out.ndim} dimensions")


def _only_first(call: Call) -> None:
    if any(t.has_names() for t in call.tensors[1:]):
        refuse(call.name, " in arguments other than the first")


def reduce_or_keep(call: Call) -> Naming:
    """Keep the dimensions along which a function works, or drop them: the rank of the result decides."""
    if isinstance(call.arguments.get("dim"), Variable):  # max(x, y)
        return elementwise(call)
    _only_first(call)
    names, dims = call.names(0), call.dims("dim", "dims")

    def naming(out: Any) -> Names:
        if out.ndim == len(names):
            return names
        rest = () if dims is None else drop_dims(names, dims)
        return rest if out.ndim == len(rest) else refuse(call.name, f" when it gives {out.ndim} dimensions")

    return naming


def unnamed(call: Call) -> Naming:
    """Give no names: the dimensions of the result are not those of the arguments."""
    return lambda out: (None,) * out.ndim


# ----- products -------------------------------------------------------------------------------------------------------


def _product(x: Names, y: Names) -> Names:
    if len(x) < 2 or len(y) < 2:
        return x[:-1] + (y[:-2] + y[-1:] if len(y) > 1 else ())
    return unify(x[:-2], y[:-2]) + (x[-2], y[-1])


def contracts(call: Call) -> Naming:
    """Drop the dimensions that are summed over, whatever their names; unify those of batches."""
    if len(call.tensors) != 2:
        return unnamed(call)  # The function itself reports the error.
    x, y = (call.names(1), call.names(0)) if call.name == "__rmatmul__" else (call.names(0), call.names(1))
    names = _product(x, y)
    return lambda out: names


def adds_product(call: Call) -> Naming:
    if len(call.tensors) != 3:
        return unnamed(call)
    names = unify(call.names(0), _product(call.names(1), call.names(2)))
    return lambda out: names


def linear(call: Call) -> Naming:
    """Rule of `nn.functional.linear`, whose weight is (out, in)."""
    if len(call.tensors) < 2:
        return unnamed(call)
    names = (*call.names(0)[:-1], *call.names(1)[:-1])
    if len(call.tensors) > 2:
        names = unify(names, call.names(2))
    return lambda out: names


# ----- dimensions that move -------------------------------------------------------------------------------------------


def permute_names(order: Sequence[int], names: Names) -> Naming:
    found = tuple(names[i] for i in order)
    return lambda out: found


def swaps(call: Call) -> Naming:
    names = call.names(0)
    order = list(range(len(names)))
    one, other = (call.dims(*keys) for keys in (("dim0", "axis0"), ("dim1", "axis1")))
    if one and other and order:
        i, j = one[0], other[0]
        order[i], order[j] = order[j], order[i]
    return permute_names(order, names)


def transposes(call: Call) -> Naming:
    names = call.names(0)
    return permute_names(range(len(names))[::-1], names)


def permutes(call: Call) -> Naming:
    dims = call.arguments["dims"]
    order = dims[0] if len(dims) == 1 and not isinstance(dims[0], int) else dims
    names = call.names(0)
    return permute_names([d % len(names) for d in order], names)


def moves(call: Call) -> Naming:
    names = call.names(0)
    source, destination = call.dims("source") or (), call.dims("destination") or ()
    order = [i for i in range(len(names)) if i not in source]
    for to, i in sorted(zip(destination, source)):
        order.insert(to, i)
    return permute_names(order, names)


def squeezes(call: Call) -> Naming:
    shape, dims = call.tensors[0].shape, call.dims("dim")
    gone = [i for i, n in enumerate(shape) if n == 1 and (dims is None or i in dims)]
    names = drop_dims(call.names(0), gone)
    return lambda out: names


def insert_unnamed(call: Call, names: Names) -> Naming:
    at = call.arguments["dim"] % (len(names) + 1)
    return lambda out: (*names[:at], None, *names[at:])


def unsqueezes(call: Call) -> Naming:
    return insert_unnamed(call, call.names(0))


def stacks(call: Call) -> Naming:
    return insert_unnamed(call, _unify_all(call))


def expands(call: Call) -> Naming:
    names = call.names(0)
    _only_first(call)
    return lambda out: (*(None,) * (out.ndim - len(names)), *names)


def takes_diagonal(call: Call) -> Naming:
    dims = (*(call.dims("dim1") or ()), *(call.dims("dim2") or ()))
    names = (*drop_dims(call.names(0), dims), None)
    return lambda out: names


def selects(call: Call) -> Naming:
    """Rule of `masked_select`: the names of both arguments must agree, and the result has none."""
    _unify_all(call)
    return unnamed(call)


def indexes(call: Call) -> Naming:
    """Rule of `x[...]` with numbers, slices, None and an ellipsis."""
    index = call.arguments["index"]
    items = index if isinstance(index, tuple) else (index,)
    names = call.names(0)
    found: list[str | None] = []
    used = sum(item is not None and item is not Ellipsis for item in items)
    left = list(names)
    for item in items:
        if item is None:
            found.append(None)
        elif item is Ellipsis:
            count = len(names) - used
            found += left[:count]
            del left[:count]
        elif isinstance(item, slice):
            found += left[:1]
            del left[:1]
        elif isinstance(item, int) and not isinstance(item, bool):
            del left[:1]
        else:
            refuse("indexing with tensors, lists or masks")
    return lambda out: (*found, *left)


def puts(call: Call) -> Naming:
    """Rule of `x[...] = y`: the names of the selected part and of the value must agree."""
    value = call.arguments["value"]
    if isinstance(value, Variable) and value.has_names() and call.tensors[0].has_names():
        unify(indexes(call)(None), value.names)
    return unnamed(call)


#: Python's operators, all elementwise but one.
_BINARY = "add sub mul truediv div floordiv mod pow and or xor lshift rshift".split()
_OPERATORS = [f"__{kind}{name}__" for kind in ("", "r", "i") for name in _BINARY]
_OPERATORS += [f"__{name}__" for name in "eq ne lt le gt ge neg pos abs invert".split()]


#: Rules of single functions, by name.
RULES: dict[str, Callable[[Call], Naming]] = {
    **dict.fromkeys(_OPERATORS, elementwise),
    **dict.fromkeys(("matmul", "mm", "bmm", "mv", "dot", "vdot", "__matmul__", "__rmatmul__"), contracts),
    **dict.fromkeys(("addmm", "addmv", "baddbmm"), adds_product),
    "linear": linear,
    **dict.fromkeys(("transpose", "swapaxes", "swapdims"), swaps),
    "t": transposes,
    "permute": permutes,
    **dict.fromkeys(("movedim", "moveaxis"), moves),
    "squeeze": squeezes,
    "unsqueeze": unsqueezes,
    "cat": elementwise,
    "stack": stacks,
    **dict.fromkeys(("expand", "expand_as", "broadcast_to"), expands),
    "diagonal": takes_diagonal,
    "masked_select": selects,
    "__getitem__": indexes,
    "__setitem__": puts,
    **dict.fromkeys(
        (
            # copies and casts
            "alias", "bfloat16", "bool", "byte", "cdouble", "cfloat", "char", "clone", "contiguous", "cpu", "cuda",
            "detach",
            "detach_", "double", "float", "half", "int", "long", "resolve_conj", "resolve_neg", "short", "to", "type",
            "pin_memory", "positive", "real", "imag", "conj_physical", "requires_grad_", "share_memory_",
            # new tensors with the shape of another one
            "empty_like", "full_like", "ones_like", "rand_like", "randint_like", "randn_like", "zeros_like",
            # random numbers and fills
            "alpha_dropout", "bernoulli", "bernoulli_", "cauchy_", "dropout", "exponential_", "fill_", "geometric_",
            "log_normal_", "normal_", "random_", "uniform_", "zero_", "fill",
            # elementwise functions made of several ops, or with special arguments
            "celu", "clip", "gelu", "hardsigmoid", "hardswish", "hardtanh", "leaky_relu", "elu", "mish", "relu6",
            "selu", "silu",
            "logsigmoid", "softplus", "softshrink", "softsign", "tanhshrink",
        ),
        keeps,
    ),
    **dict.fromkeys(
        ("divide", "float_power", "greater", "greater_equal", "less", "less_equal", "not_equal", "rsub", "subtract",
         "type_as",
         "true_divide", "absolute"),
        elementwise,
    ),
    **dict.fromkeys(("new_empty", "new_full", "new_ones", "new_tensor", "new_zeros", "tensor"), unnamed),
}  # fmt: skip

#: Functions whose `dim` or `dims` is not the dimension along which they work.
_NOT_ALONG = frozenset(
    ["gradient", "nanquantile", "norm_except_dim", "quantile", "rot90", "segment_reduce", "tensordot", "tile", "concat"]
)


@functools.cache
def signature_of(function: Any) -> inspect.Signature:
    return inspect.signature(function)


def writes(name: str) -> bool:
    """True if a function changes its first argument, judged by its name."""
    return name.startswith("__i") and name in RULES if name.endswith("__") else name.endswith("_")


def rule_of(function: Any, name: str) -> Callable[[Call], Naming] | None:
    """Return the rule of a public function. An in-place function has the rule of its out-of-place form."""
    plain = name[:-1] if writes(name) and not name.endswith("__") else name
    rule = RULES.get(name) or RULES.get(plain)
    if rule is not None:
        return rule
    op = getattr(function, "op", None) or table.get(plain)
    if op is not None and op.elementwise:
        return elementwise
    known = function.__module__ in ("ndgrad", "ndgrad.nn.functional") and plain not in _NOT_ALONG
    if known and not {"dim", "dims"}.isdisjoint(signature_of(function).parameters):
        return reduce_or_keep
    return None
