"""The kind of a call: the facts about arguments and modes that a program depends on, as a key.

A key holds the structure of the arguments, four modes (`MODES`), and a part for each argument.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from ndgrad._src.arrays.library import is_on_device
from ndgrad._src.compiler.capture.graph_break import GraphBreak
from ndgrad._src.compiler.capture.number_slots import VARIES
from ndgrad._src.compiler.capture.tensor_facts import get_facts
from ndgrad._src.compiler.capture.trace_reasons import describe_facts, shorten
from ndgrad._src.compiler.capture.visit_containers import SMALL
from ndgrad._src.core.variable import Variable

if TYPE_CHECKING:
    from ndgrad._src.foundations.pytree import TreeSpec

#: Index in a key at which the parts of the arguments start.
KINDS = 5
#: The modes in a key, after the structure of the arguments.
MODES = ("the grad mode", "the default dtype", "the default device", "autocast")
#: Classes of arguments that are compared by value.
_BY_VALUE = (int, bool, str, bytes, type(None), type(Ellipsis))


def sizeless(key: Any) -> Any:
    """Return the kind of a call without the sizes of its tensors."""
    return tuple([(part[0], len(part[1]), part[2], *part[4:]) if _is_of_tensor(part) else part for part in key])


def shapes_of(key: Any) -> list[int]:
    """Return the sizes of the tensors in a kind of call."""
    return [n for part in key if _is_of_tensor(part) for n in part[1]]


def _is_of_tensor(part: Any) -> bool:
    return part.__class__ is tuple and isinstance(part[0], type) and issubclass(part[0], Variable)


def kind_of(leaf: Any, position: int, flat: list[Any]) -> Any:
    """Return the part of the key of a call that stands for one argument."""
    if isinstance(leaf, Variable):
        if not isinstance(leaf._array, (np.ndarray, np.generic)) and not is_on_device(leaf._array):
            raise GraphBreak(f"an argument is a tensor over {type(leaf._array).__name__}")
        first = next(i for i, other in enumerate(flat) if other is leaf)
        return *get_facts(leaf), first - position
    cls = leaf.__class__
    if cls in _BY_VALUE:
        return cls, leaf
    if cls is float:
        return cls, leaf.hex()
    if cls is complex:
        return cls, leaf.real.hex(), leaf.imag.hex()
    if isinstance(leaf, np.generic):
        return cls, leaf.dtype, leaf.tobytes()
    if isinstance(leaf, slice):
        return cls, *[kind_of(part, position, flat) for part in (leaf.start, leaf.stop, leaf.step)]
    if isinstance(leaf, np.ndarray):
        if leaf.nbytes > SMALL or leaf.dtype.hasobject:
            raise GraphBreak(
                f"an argument is a NumPy array of {leaf.nbytes} bytes, whose values may be different at "
                "each call: pass a tensor"
            )
        return cls, leaf.shape, leaf.dtype, leaf.strides, leaf.tobytes()
    return cls, id(leaf)  # the environment keeps the object alive and compares its contents


def closest_of(key: Any, others: list[Any]) -> Any:
    """Return the key that differs from a call in the fewest parts, then in the fewest facts; the newest among equals."""
    return min(reversed(others), key=lambda other: _count_differences(key, other))


def _count_differences(key: Any, other: Any) -> tuple[int, int]:
    """Return the numbers of different parts and of different facts of two keys."""
    if len(other) != len(key):
        return len(key) + 1, 0
    pairs = [(a, b) for a, b in zip(key, other, strict=True) if a != b]
    facts = 0
    for a, b in pairs:
        is_comparable = a.__class__ is b.__class__ is tuple and len(a) == len(b)
        facts += sum(x != y for x, y in zip(a, b, strict=True)) if is_comparable else 1
    return len(pairs), facts


def describe_change(key: Any, before: Any) -> str:
    """Return the difference between a call and an earlier one: the modes or the arguments that differ."""
    if key[0] != before[0]:
        return _describe_structure(key[0], before[0])
    for name, now, then in zip(MODES, key[1:KINDS], before[1:KINDS], strict=True):
        if now != then:
            return f"{name} has changed"
    changes = [
        _describe_argument(number, now, then)
        for number, (now, then) in enumerate(zip(key[KINDS:], before[KINDS:], strict=True))
        if now != then
    ]
    return ", and ".join(changes[:2]) or "arguments of another kind"


def _describe_structure(now: TreeSpec, then: TreeSpec) -> str:
    """Return the difference between the structures of the arguments of two calls: (positional, keywords)."""
    (args, keywords), (known, known_keywords) = now.children_specs, then.children_specs
    if len(args.children_specs) != len(known.children_specs):
        return f"{len(args.children_specs)} positional arguments instead of {len(known.children_specs)}"
    if keywords.context != known_keywords.context:
        return f"the keyword arguments are {_list_names(keywords.context)} instead of {_list_names(known_keywords.context)}"
    names = [*[f"argument {i}" for i in range(len(args.children_specs))], *[f"argument {k!r}" for k in keywords.context]]
    pairs = zip(
        names,
        [*args.children_specs, *keywords.children_specs],
        [*known.children_specs, *known_keywords.children_specs],
        strict=True,
    )
    for name, a, b in pairs:
        if a != b:
            return f"{name} has the structure {_draw(a)} instead of {_draw(b)}"
    return "the structure of the arguments has changed"


def _draw(spec: TreeSpec) -> str:
    return shorten(spec).removeprefix("TreeSpec(").removesuffix(")")


def _list_names(names: Iterable[str]) -> str:
    return ", ".join(names) or "none"


def describe_decision(tried: Sequence[Any]) -> str:
    """Return the reason for a trace after entries whose programs ran and were discarded."""
    places = dict.fromkeys(
        where for entry in tried if entry.specialisation is not None for where, _ in entry.specialisation.trace.decided
    )
    if not places:
        return "values need another program"
    return f"a condition on values has another outcome: {' or '.join(str(where) for where in places)}"


def _describe_argument(number: int, now: Any, then: Any) -> str:
    called = f"argument {number}"
    if _is_of_tensor(now) and _is_of_tensor(then):
        difference = describe_facts(called, now, then)
        if difference is None and now[-1]:
            return f"{called} is the same tensor as argument {number + now[-1]}"
        return difference or f"{called} is no longer the same tensor as argument {number + then[-1]}"
    if now[0] is not then[0]:
        return f"{called} is of class {now[0].__name__} instead of {then[0].__name__}"
    if now[0] is float and VARIES not in (now[1], then[1]):
        return f"{called} is {float.fromhex(now[1])!r} instead of {float.fromhex(then[1])!r}"
    if now[0] in _BY_VALUE and VARIES not in (now[1], then[1]):
        return f"{called} is {shorten(now[1])} instead of {shorten(then[1])}"
    if issubclass(now[0], (np.ndarray, np.generic, complex, slice, float)) or VARIES in (now[1], then[1]):
        return f"{called} has another value"
    return f"{called} is another object of class {now[0].__name__}"
