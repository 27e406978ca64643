"""Describe everything that can be seen of a value, and compare two descriptions."""

from __future__ import annotations

import collections
import math
import re
import types
from typing import Any

import numpy as np

import ndgrad

#: A fact: where it was seen, in which respect, and the value.
Fact = tuple[str, str, Any]
#: Relative and absolute distance of numbers that count as equal: another generator looks at roundings.
RELATIVE, ABSOLUTE = 1e-4, 1e-6
NUMBER = re.compile(r"-?\d+\.?\d*(?:[eE][-+]?\d+)?")
ADDRESS = re.compile(r"0x[0-9a-f]+|/[\w/.-]*/tmp[\w-]+|tmp\d+\w{8}")
DEEPEST = 6


def describe(value: Any, path: str, facts: list[Fact], depth: int = 0) -> None:
    """Add the facts of a value: its real type, and all that it holds."""
    cls = type(value)
    if cls.__module__.startswith("ndgrad._src.compiler"):
        facts.append((path, "placeholder", cls.__name__))
        return
    facts.append((path, "type", cls.__name__))
    if depth > DEEPEST:
        return
    if value is None or cls in (bool, int, float, complex, str, bytes):
        facts.append((path, "value", value))
    elif isinstance(value, np.generic):
        facts.append((path, "value", value.item()))
    elif issubclass(cls, ndgrad.Tensor):
        describe_tensor(value, path, facts, depth)
    elif isinstance(value, np.ndarray):
        facts += [(path, "dtype", value.dtype.str), (path, "shape", value.shape), (path, "strides", strides(value))]
        facts.append((path, "values", value.copy() if value.dtype.kind in "fciub" else repr(value.tolist())))
    elif isinstance(value, (list, tuple, collections.deque)):
        facts.append((path, "length", len(value)))
        for i, item in enumerate(list(value)[:20]):
            describe(item, f"{path}[{i}]", facts, depth + 1)
    elif isinstance(value, (set, frozenset)):
        facts.append((path, "value", sorted(map(repr, value))))
    elif isinstance(value, (dict, types.MappingProxyType)):
        facts.append((path, "keys", [plain_text(repr(k)) for k in value]))
        for key, item in value.items():
            describe(item, f"{path}[{plain_text(repr(key))}]", facts, depth + 1)
    elif cls.__module__ == "program" or cls in (types.SimpleNamespace,):
        for key, item in sorted(getattr(value, "__dict__", {}).items()):
            describe(item, f"{path}.{key}", facts, depth + 1)


def strides(array: np.ndarray[Any, Any]) -> Any:
    """The strides of dimensions that have more than one item: the others mean nothing."""
    return tuple(s for s, n in zip(array.strides, array.shape, strict=True) if n > 1) if array.size else ()


def describe_tensor(t: Any, path: str, facts: list[Fact], depth: int) -> None:
    array = t.detach()._array
    facts += [
        (path, "dtype", str(t.dtype)), (path, "shape", tuple(t.shape)), (path, "strides", strides(array)),
        (path, "requires_grad", t.requires_grad), (path, "is_leaf", t.is_leaf), (path, "values", np.array(array)),
    ]  # fmt: skip
    if t.is_leaf or t.retains_grad:
        if t.grad is None:
            facts.append((path, "grad", None))
        else:
            describe(t.grad, f"{path}.grad", facts, depth + 1)
    for key, item in sorted(vars(t).items()):
        describe(item, f"{path}.{key}", facts, depth + 1)


def plain_text(text: str) -> str:
    """A text without addresses and temporary folders."""
    return ADDRESS.sub("0x", text)


def close(a: Any, b: Any) -> bool:
    if isinstance(a, complex) or isinstance(b, complex):
        return close(complex(a).real, complex(b).real) and close(complex(a).imag, complex(b).imag)
    if a == b:
        return not (a == 0 and math.copysign(1, a) != math.copysign(1, b)) if isinstance(a, float) and isinstance(b, float) else True
    return (a != a and b != b) or math.isclose(a, b, rel_tol=RELATIVE, abs_tol=ABSOLUTE)


def same_text(a: str, b: str) -> bool:
    if a == b:
        return True
    if NUMBER.sub("0", a) != NUMBER.sub("0", b):
        return False
    return all(
        x == y or math.isclose(float(x), float(y), rel_tol=RELATIVE, abs_tol=ABSOLUTE)
        for x, y in zip(NUMBER.findall(a), NUMBER.findall(b), strict=True)
    )


def same_value(a: Any, b: Any) -> bool:
    if isinstance(a, np.ndarray) and isinstance(b, np.ndarray):
        if a.shape != b.shape or a.dtype != b.dtype:
            return False
        if a.dtype.kind in "fc":
            return bool(np.allclose(a, b, RELATIVE, ABSOLUTE, equal_nan=True))
        return a.tobytes() == b.tobytes()
    if isinstance(a, str) and isinstance(b, str):
        return same_text(a, b)
    if type(a) in (int, float, complex) and type(b) in (int, float, complex):
        return close(a, b)
    return bool(a == b)


def difference(eager: list[Fact], compiled: list[Fact]) -> tuple[str, str, str] | None:
    """The first difference of two descriptions: where, in which respect, and how; None if there is none."""
    for a, b in zip(eager, compiled, strict=False):
        if b[1] == "placeholder":
            return a[0], b[1], f"{a[0]}: eager {a[1]} {short(a[2])}, compiled a placeholder of the compiler's ({b[2]})"
        if a[:2] != b[:2]:
            if b[1] == "error":
                return b[0], "error of the compiled one alone", f"{b[0]}: only compiled raises {short(b[2])}"
            return a[0], "structure", f"eager has {a[0]} ({a[1]} {short(a[2])}), compiled {b[0]} ({b[1]} {short(b[2])})"
        if not same_value(a[2], b[2]):
            return a[0], a[1], f"{a[0]}, {a[1]}: eager {short(a[2])}, compiled {short(b[2])}"
    if len(eager) != len(compiled):
        more, whose = (eager, "eager") if len(eager) > len(compiled) else (compiled, "compiled")
        extra = more[min(len(eager), len(compiled))]
        return extra[0], "structure", f"only {whose} has {extra[0]}: {short(extra[2])}"
    return None


def short(value: Any) -> str:
    text = " ".join(repr(value.tolist() if isinstance(value, np.ndarray) else value).split())
    return text if len(text) < 160 else text[:150] + "..."
