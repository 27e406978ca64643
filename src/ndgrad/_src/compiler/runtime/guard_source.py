"""Guards of a call as Python source: conditions that a generated function tests one after the other.

    source = GuardSource("args, kwargs")
    x = source.let("args[0]")
    source.require(f"{x}.__class__ is {source.name(Tensor)}")
    fits = source.function("True")

The interpreter specialises such code: reading a slot takes a few nanoseconds. A condition that raises an exception does
not hold. The function then returns None, and the general path decides.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from ndgrad._src.core.variable import requires_grad
from ndgrad._src.core.versions import InferenceStorage


class GuardSource:
    """Source of a function, with the objects that it names."""

    def __init__(self, parameters: str = "") -> None:
        self._parameters = parameters
        self._lines: list[str] = []
        self._objects: dict[str, Any] = {}
        self._names: dict[int, str] = {}
        self._count = 0

    def name(self, value: Any) -> str:
        """Return a name for an object. The function keeps the object alive."""
        found = self._names.get(id(value))
        if found is None:
            found = self._names[id(value)] = f"_{len(self._objects)}"
            self._objects[found] = value
        return found

    def let(self, expression: str) -> str:
        """Compute a value, and return the name of the local variable that holds it."""
        self._count += 1
        self._lines.append(f"x{self._count} = {expression}")
        return f"x{self._count}"

    def require(self, condition: str) -> None:
        """Return None unless a condition holds."""
        self._lines.append(f"if not ({condition}): return None")

    def require_tensor(self, t: str, facts: tuple[Any, ...]) -> None:
        """Require the facts about a tensor, apart from those about its array, and from names of dimensions."""
        cls, _, _, _, is_inference, has_gradient, _ = facts
        storage = f"{t}._storage.__class__ {'is' if is_inference else 'is not'} {self.name(InferenceStorage)}"
        self.require(f"{t}.__class__ is {self.name(cls)} and {storage}")
        ask = f"{self.name(requires_grad)}({t})"
        if has_gradient:
            self.require(f"{t}._node is not None or {t}._meta is not None and ({t}._meta.requires_grad or {ask})")
        else:
            self.require(f"{t}._node is None and ({t}._meta is None or not {ask})")

    def function(self, call: str, result: str) -> Callable[..., Any]:
        """Return the function. It returns None unless the conditions hold. Otherwise it assigns an expression to
        `found` and returns the result. Exceptions of that expression are not caught.
        """
        guards = "\n".join(f"        {line}" for line in self._lines)
        text = (
            f"def fits({self._parameters}):\n    try:\n{guards}\n        pass\n    except Exception:\n        return None\n"
            f"    found = {call}\n    return {result}\n"
        )
        space = dict(self._objects)
        exec(compile(text, "<ndgrad generated guards>", "exec"), space)
        made: Callable[..., Any] = space.pop("fits")
        return made
