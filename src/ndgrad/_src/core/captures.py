"""The tensors that a function uses without being given them.

A solver's derivative, or a loop's, needs all parameters of the user's function as arguments, and people write `lambda
x: x**2 - a`. So while the function runs, a watch sees every tensor that goes into an op, a write or a custom Function;
those that existed before and carry something (a graph, a tangent, a transform's level) are its closure. Later the same
function is run with other tensors in their places, by identity.

Note [Watching and replacing]
While the solver iterates, nothing of the outer world may be recorded: a captured tensor of an open transform is
replaced by its plain values, as `plain` gives them (a solver's stay batched, see Note [Levels of a solve]), and grad
mode is off. What the function makes itself, inside transforms of its own for instance, has a younger level or node and
is left alone. A leaf that requires grad has no age, so it counts as captured if it outlives the call.

Tensors that carry nothing are constants of the closure. They are not replaced, but the derivative is that of their
values at the time, so a write to one between the solve and the derivative must be an error; the versions of those seen
in the first call and at the solution are compared.

Watches nest (a function may solve inside): the outer one replaces first, and the inner one remembers the tensor by its
first identity, since that is what the closure will hand in again.
"""

from __future__ import annotations

import weakref
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from typing import Any

from ndgrad._src.core.modes import next_level_number, restore, scope, thread
from ndgrad._src.core.node import next_sequence_number
from ndgrad._src.core.variable import Variable, requires_grad
from ndgrad._src.core.view import tangents_of


class _Interceptor:
    """What sits in `thread.captures` and looks at the arguments of every op of the thread."""

    outer: _Interceptor | None = None

    def one(self, t: Any) -> Any:
        raise NotImplementedError

    def see(self, args: tuple[Any, ...]) -> tuple[Any, ...]:
        return tuple(self.one(a) if isinstance(a, Variable) else a for a in args)

    def see_write(self, target: Any, args: tuple[Any, ...]) -> tuple[Any, ...]:
        """The values of an in-place write. Its target must not be captured: the solver calls
        the function many times."""
        if self.one(target) is not target or self.knows(target):
            raise RuntimeError(
                "a function that is being solved or looped wrote in place into a tensor of shape "
                f"{tuple(target.shape)} from outside, "
                "which requires grad or belongs to a transform. It is called many times, so it must not change its "
                "surroundings: "
                "write into a clone() made inside it. [nd-transform-write]"
            )
        return self.see(args)

    def knows(self, t: Any) -> bool:
        return False

    @contextmanager
    def active(self) -> Iterator[None]:
        outside = scope()
        try:
            self.outer = outside.modes.captures
            restore(outside.changed(entered=outside.modes.entered + 1, captures=self))
            yield
        finally:
            restore(outside)
            del outside
            self.outer = None


class Watch(_Interceptor):
    """Finds what functions capture while they run under it."""

    def __init__(self, plain: Callable[[Any], Any]) -> None:
        """`plain` gives what stands for a tensor of a transform while functions run."""
        self.plain = plain
        self.level = next_level_number()
        self.sequence = next_sequence_number()
        #: identity -> (tensor as the closure holds it, as an outer watch sees it)
        self.found: dict[int, tuple[Any, Any]] = {}
        #: identity -> the same as the solver sees it, while its levels are open
        self._values: dict[int, Any] = {}
        self._leaves: dict[int, tuple[weakref.ref[Any], Any]] = {}
        self._own: set[int] = set()
        #: plain tensors that were seen while this is on; those that outlive the solve are constants of the closure
        self.looks_at_constants = True
        self._constants: dict[int, weakref.ref[Any]] = {}

    def knows(self, t: Any) -> bool:
        return id(t) in self.found

    def one(self, t: Any) -> Any:
        value = self._values.get(id(t))
        if value is not None:
            return value
        seen = t if self.outer is None else self.outer.one(t)
        if seen is not t:  # somebody's who is watched or replaced outside: only there is it known what it stands for
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
        if seen._node is None and requires_grad(seen) and not seen._meta.level and id(t) not in self._own:
            self._leaves[id(t)] = (weakref.ref(t), seen)
        return seen

    def _is_old(self, t: Any) -> bool:
        """Whether a tensor carries something from before the watch began."""
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
        """Watch one call of the function; `own` are the tensors that it is given."""
        self._own = {id(t) for t in own}
        # inside a younger grad transform, recording is what the transform is for
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
        """After a call: leaves that are still alive were captured, others belonged to the call."""
        for key, (reference, seen) in self._leaves.items():
            t = reference()
            if t is not None:
                self.found[key] = (t, seen)
        self._leaves.clear()

    def begin(self) -> None:
        """The solver starts, or starts again: values that belong to closed levels are forgotten."""
        self._values.clear()

    def captured(self) -> list[Any]:
        """The captured tensors, as the surroundings of the solve see them."""
        return [seen for _, seen in self.found.values()]

    def replacing(self) -> Replace:
        constants = [t for t in (reference() for reference in self._constants.values()) if t is not None]
        return Replace([t for t, _ in self.found.values()], constants)


class Replace:
    """Runs a function with other tensors in the places of those it captured."""

    def __init__(self, originals: list[Any], constants: list[Any]) -> None:
        self.originals = originals
        self._constants = [(t, _version(t)) for t in constants]

    def __call__(self, function: Callable[..., Any], given: Sequence[Any], *args: Any) -> Any:
        """`function(*args)` with `given` instead of the captured tensors."""
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
        # A replacement may itself stand over the tensor that it replaces, as a transform's leaf does. What the levels
        # that were open before are asked to compute is such a payload, and must stay what it is.
        self.depth = len(thread.levels)

    def knows(self, t: Any) -> bool:
        return id(t) in self.by_identity

    def one(self, t: Any) -> Any:
        found = self.by_identity.get(id(t))
        if found is not None and len(thread.levels) >= self.depth:
            return found
        return t if self.outer is None else self.outer.one(t)


def as_captured(t: Any) -> Any:
    """A tensor as ops would see it. Whoever looks at tensors without calling an op asks here first, since the function
    that is running may be somebody's closure (see Note [Watching and replacing])."""
    return t if thread.captures is None else thread.captures.one(t)


def _version(t: Any) -> int:
    return 0 if t._storage is None else int(t._storage.version.number)


def _carries_level(t: Any) -> bool:
    """Whether a captured tensor would take the solver's iterations into a transform."""
    if isinstance(t._array, Variable) or tangents_of(t):
        return True
    meta = t._meta
    return bool((t._node is not None and t._node.level) or (meta is not None and (meta.level or meta.batch_level)))


__all__ = ["Replace", "Watch", "as_captured"]
