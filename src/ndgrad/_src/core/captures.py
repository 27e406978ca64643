"""Captured tensors: tensors that a function uses without receiving them as arguments.

The derivative of a solver or a loop needs all parameters of the user's function as arguments, but users write
`lambda x: x**2 - a`. So while the function runs, a watch sees every tensor that enters an op, a write or a custom
Function. Tensors that existed before and carry a graph, a tangent or a transform's level form its closure. Later the
same function runs with other tensors in their places, by identity.

Note [Watching and replacing]
While the solver iterates, no op on outer tensors may be recorded. A captured tensor of an open transform is replaced
by its plain values, as given by `plain` (a solver's stay batched, see Note [Levels of a solve]), and grad mode is off.
Tensors that the function makes itself, inside its own transforms for instance, have a younger level or node and are not
replaced. A leaf that requires grad has no age, so it counts as captured if it outlives the call.

Tensors that carry none of these are constants of the closure. They are not replaced, but the derivative is that of
their values at the time. So a write to such a tensor between the solve and the derivative must be an error. The
versions of the constants seen in the first call and at the solution are compared.

Watches nest (a function may solve inside). The outer watch replaces first, and the inner watch remembers the tensor by
its original identity, because the closure will pass that object again.
"""

from __future__ import annotations

import weakref
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from typing import Any, TypeVar

from ndgrad._src.core.modes import restore, scope, thread
from ndgrad._src.core.node import next_sequence_number
from ndgrad._src.core.open_levels import next_level_number
from ndgrad._src.core.variable import Variable, meta_of, requires_grad
from ndgrad._src.core.view import tangents_of

T = TypeVar("T", bound="Variable")


#: Functions that run before a watch begins: they make the nodes of values that are recorded in another way.
before_watches: list[Callable[[], None]] = []


class _Interceptor:
    """Base of the objects in `thread.captures`, which see the arguments of every op of the thread."""

    outer: _Interceptor | None = None

    def one(self, t: Variable) -> Variable:
        """Return the tensor to use in place of `t`."""
        raise NotImplementedError

    def see(self, args: tuple[Any, ...]) -> tuple[Any, ...]:
        """Return the arguments of an op with tensors replaced."""
        return tuple(self.one(a) if isinstance(a, Variable) else a for a in args)

    def see_write(self, target: Variable, args: tuple[Any, ...]) -> tuple[Any, ...]:
        """Return the values of an in-place write. Its target must not be captured: the function runs many times."""
        if self.one(target) is not target or self.knows(target):
            raise RuntimeError(
                "a function that is being solved or looped wrote in place into a tensor of shape "
                f"{tuple(target.shape)} from outside, "
                "which requires grad or belongs to a transform. It is called many times, so it must not change its "
                "surroundings: "
                "write into a clone() made inside it. [nd-transform-write]"
            )
        return self.see(args)

    def knows(self, t: Variable) -> bool:
        """True if the tensor is known to be captured."""
        return False

    @contextmanager
    def active(self) -> Iterator[None]:
        outside = scope()
        try:
            self.outer = outside.modes.captures
            restore(outside.with_changes(entered=outside.modes.entered + 1, captures=self))
            yield
        finally:
            restore(outside)
            del outside
            self.outer = None


class Watch(_Interceptor):
    """Finds the tensors that functions capture while they run under it."""

    def __init__(self, plain: Callable[[Any], Any]) -> None:
        """`plain` returns the replacement of a transform's tensor while functions run."""
        for function in before_watches:
            function()
        self.plain = plain
        self.level = next_level_number()
        self.sequence = next_sequence_number()
        #: identity -> (tensor in the closure, the same tensor as an outer watch sees it)
        self.found: dict[int, tuple[Any, Any]] = {}
        #: identity -> the same tensor as the solver sees it, while its levels are open
        self._values: dict[int, Any] = {}
        self._leaves: dict[int, tuple[weakref.ref[Any], Any]] = {}
        self._own: set[int] = set()
        #: True while plain tensors are noted; those that outlive the solve are constants of the closure
        self.looks_at_constants = True
        self._constants: dict[int, weakref.ref[Any]] = {}

    def knows(self, t: Variable) -> bool:
        return id(t) in self.found

    def one(self, t: Variable) -> Variable:
        value = self._values.get(id(t))
        if value is not None:
            return value
        seen = t if self.outer is None else self.outer.one(t)
        if seen is not t:  # captured by an outer watch, which alone knows its replacement
            self.found[id(t)] = (t, seen)
            value = self._values[id(t)] = self.plain(seen) if _carries_level(seen) else seen
            return value
        if seen._meta is None and seen._node is None:
            if self.looks_at_constants and id(t) not in self._own:
                self._constants[id(t)] = weakref.ref(t)
            return seen
        if self._is_old(seen):
            self.found[id(t)] = (t, seen)
            value = self._values[id(t)] = self.plain(seen) if _carries_level(seen) else seen
            return value
        if seen._node is None and requires_grad(seen) and not meta_of(seen).level and id(t) not in self._own:
            self._leaves[id(t)] = (weakref.ref(t), seen)
        return seen

    def _is_old(self, t: Variable) -> bool:
        """True if a tensor carries a graph, tangent or level from before the watch began."""
        meta = t._meta
        if meta is not None:
            if meta.batch_level and meta.batch_level <= self.level:
                return True
            tangents = tangents_of(t)
            if tangents and min(tangents) <= self.level:
                return True
            if meta.view is not None and requires_grad(t):
                meta.view.refresh(t)
            if t._node is None:
                return bool(meta.level and meta.level <= self.level)
        return t._node is not None and t._node.seq < self.sequence

    @contextmanager
    def run(self, own: Sequence[Any] = ()) -> Iterator[None]:
        """Watch one call of the function; `own` are its arguments."""
        self._own = {id(t) for t in own}
        # Inside a younger grad transform, recording is the transform's purpose.
        inside = any(level.kind == "grad" and level.number > self.level for level in thread.levels)
        with self.active():
            outside = scope()
            try:
                restore(outside.recording(thread.grad_enabled and inside))
                yield
            finally:
                restore(outside)
                del outside
        self._own = set()
        self.looks_at_constants = False

    def settle(self) -> None:
        """Sort the leaves after a call: living leaves were captured, the others belonged to the call."""
        for key, (reference, seen) in self._leaves.items():
            t = reference()
            if t is not None:
                self.found[key] = (t, seen)
        self._leaves.clear()

    def begin(self) -> None:
        """Start or restart the solver: forget values of closed levels."""
        self._values.clear()

    def captured(self) -> list[Any]:
        """Return the captured tensors as the surroundings of the solve see them."""
        return [seen for _, seen in self.found.values()]

    def list_outside(self) -> list[Any]:
        """Return the tensors of the closure that the function used, captured or constant."""
        return [*[t for t, _ in self.found.values()], *self._living_constants()]

    def _living_constants(self) -> list[Any]:
        return [t for t in (reference() for reference in self._constants.values()) if t is not None]

    def replacing(self) -> Replace:
        return Replace([t for t, _ in self.found.values()], self._living_constants())


class Replace:
    """Runs a function with other tensors in place of its captured tensors."""

    def __init__(self, originals: list[Any], constants: list[Any]) -> None:
        self.originals = originals
        self._constants = [(t, _version(t)) for t in constants]

    def __call__(self, function: Callable[..., Any], given: Sequence[Any], *args: Any) -> Any:
        """Return `function(*args)` with `given` in place of the captured tensors."""
        if len(given) != len(self.originals):
            raise AssertionError(f"{len(given)} tensors for {len(self.originals)} captured ones [nd-bug]")
        for t, version in self._constants:
            if _version(t) != version:
                raise RuntimeError(
                    f"a tensor of shape {tuple(t.shape)} that a solved or looped function closes over was modified by "
                    "an inplace operation "
                    "after the solve, so the derivative would be taken with other values than the solution. Write "
                    "into a clone() instead. [nd-overwritten]"
                )
        with _Swap(self, given).active():
            return function(*args)


class _Swap(_Interceptor):
    def __init__(self, replace: Replace, given: Sequence[Any]) -> None:
        self.by_identity = {id(t): g for t, g in zip(replace.originals, given, strict=True)}
        # A replacement may itself wrap the tensor that it replaces, as a transform's leaf does. Levels that were open
        # before then compute with that tensor as a payload, which must not be replaced.
        self.depth = len(thread.levels)

    def knows(self, t: Variable) -> bool:
        return id(t) in self.by_identity

    def one(self, t: Variable) -> Variable:
        found = self.by_identity.get(id(t))
        if found is not None and len(thread.levels) >= self.depth:
            return found
        return t if self.outer is None else self.outer.one(t)


def as_captured(t: T) -> T:
    """Return a tensor as ops would see it.

    Code that inspects tensors without calling an op must use this first, because the running function may be a watched
    closure (see Note [Watching and replacing]).
    """
    return t if thread.captures is None else thread.captures.one(t)


def _version(t: Variable) -> int:
    return 0 if t._storage is None else int(t._storage.version.number)


def _carries_level(t: Variable) -> bool:
    """True if a captured tensor would pull the solver's iterations into a transform."""
    if isinstance(t._array, Variable) or tangents_of(t):
        return True
    meta = t._meta
    return bool((t._node is not None and t._node.level) or (meta is not None and (meta.level or meta.batch_level)))


__all__ = ["Replace", "Watch", "as_captured"]
