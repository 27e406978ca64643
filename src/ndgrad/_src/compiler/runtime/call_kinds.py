"""The kind of a call: the facts about arguments and modes that a program depends on, as a key.

A key holds the structure of the arguments, four modes (`MODES`), and a part for each argument.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from ndgrad._src.arrays.library import is_on_device
from ndgrad._src.compiler.capture.graph_break import GraphBreak
from ndgrad._src.compiler.capture.number_slots import VARIES
from ndgrad._src.compiler.capture.tensor_facts import get_facts
from ndgrad._src.compiler.capture.visit_containers import SMALL
from ndgrad._src.core.variable import Variable

#: Index in a key at which the parts of the arguments start.
KINDS = 5
#: The modes in a key, after the structure of the arguments.
MODES = ("the grad mode", "the default dtype", "the default device", "autocast")
#: Classes of arguments that are compared by value.
_BY_VALUE = (int, bool, str, bytes, type(None), type(Ellipsis))
#: Facts of a tensor after its class (see `get_facts`), and the sameness of arguments.
_FACTS = ("shape", "dtype", "strides", "is_inference()", "requires_grad", "names", "")


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
        return "the structure of the arguments has changed"
    for name, now, then in zip(MODES, key[1:KINDS], before[1:KINDS], strict=True):
        if now != then:
            return f"{name} has changed"
    changes = [
        _describe_argument(number, now, then)
        for number, (now, then) in enumerate(zip(key[KINDS:], before[KINDS:], strict=True))
        if now != then
    ]
    return ", and ".join(changes[:2]) or "arguments of another kind"


def _describe_argument(number: int, now: Any, then: Any) -> str:
    called = f"argument {number}"
    if now[0] is not then[0]:
        return f"{called} is of {now[0].__name__} instead of {then[0].__name__}"
    if _is_of_tensor(now) and len(now) == len(then) == len(_FACTS) + 1:
        for fact, a, b in zip(_FACTS, now[1:], then[1:], strict=True):
            if a != b and fact:
                return f"{called} has {fact} {_shorten(a)} instead of {_shorten(b)}"
        return f"{called} is the same tensor as another argument, or no longer so"
    if now[0] is float and VARIES not in (now[1], then[1]):
        return f"{called} is {float.fromhex(now[1])!r} instead of {float.fromhex(then[1])!r}"
    if now[0] in _BY_VALUE and VARIES not in (now[1], then[1]):
        return f"{called} is {_shorten(now[1])} instead of {_shorten(then[1])}"
    if issubclass(now[0], (np.ndarray, np.generic, complex, slice, float)) or VARIES in (now[1], then[1]):
        return f"{called} has another value"
    return f"{called} is another object of {now[0].__name__}"


def _shorten(value: Any) -> str:
    text = str(value) if isinstance(value, np.dtype) else repr(value)
    return text if len(text) <= 40 else text[:37] + "..."
