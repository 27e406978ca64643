"""Results that a traced function takes from caches: functions with `functools.lru_cache` or `functools.cache`.

A cached result is a constant or an input of a trace, and a trace ends before a cache computes a new one. But an eager
call also changes the cache: it counts a hit, and a bounded cache drops the results that were used least recently. So a
trace records each use of a cache, and a compiled call repeats it after the program. A guard looks into the cache before
each call: if the result has been dropped, the function runs eagerly and the cache computes it again, with the side
effects of that.

The code of `functools` is C and reports no calls, so a `CacheStandIn` replaces the cached function in its slots during
a trace. If that is impossible, the function runs eagerly.

Note [Looking into a cache]
A trace must not change the counts of a cache, because an eager call may follow. A cache has no public way to look up a
result without counting. But the garbage collector knows the objects that a cache holds: for each result its key and
the result itself, least recently used first; the dictionary from keys to results or list entries; the function; and an
object that separates keywords in a key. `look_up` finds the result there, by a key made as `functools` makes it. A test
at first use checks that, and without success no cache is looked into.
"""

from __future__ import annotations

import functools
import gc
import types
from typing import TYPE_CHECKING, Any

from ndgrad._src.compiler.capture.graph_break import GraphBreak, current_tracer
from ndgrad._src.compiler.capture.number_placeholders import NumberPlaceholder
from ndgrad._src.core.variable import Variable
from ndgrad._src.foundations.pytree import tree_flatten

if TYPE_CHECKING:
    from ndgrad._src.compiler.capture.environment import Environment


#: Marks a result that a cache does not have.
_ABSENT = object()


def _make_key(separator: Any, args: tuple[Any, ...], kwargs: dict[str, Any], is_typed: bool) -> Any:
    """Return the key of a call in a cache."""
    if not is_typed and not kwargs:
        return args[0] if len(args) == 1 and type(args[0]) in (int, str) else args
    key = args
    if kwargs:
        key += (separator, *[part for item in kwargs.items() for part in item])
    if is_typed:
        key += (*map(type, args), *map(type, kwargs.values()))
    return key


def look_up(cache: Any, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
    """Return the result that a function has cached for these arguments, without a use of the cache; `_ABSENT` if it has
    none (see Note [Looking into a cache]).
    """
    held = gc.get_referents(cache)
    place = next((i for i in range(len(held) - 1, 0, -1) if held[i] is cache.__wrapped__ and type(held[i - 1]) is dict), None)
    if place is None or place + 1 == len(held):
        return _ABSENT
    table, separator = held[place - 1], held[place + 1]
    key = _make_key(separator, args, kwargs, cache.cache_parameters()["typed"])
    if key not in table:
        return _ABSENT
    if cache.cache_info().maxsize is None:
        return table[key]
    keys = {*map(id, table)}
    for width in (3, 2):  # for each entry its key, its result, and in newer versions of Python its type
        entries = held[place - 1 - width * len(table) : place - 1]
        if {*map(id, entries[::width])} == keys:
            return next((result for k, result in zip(entries[::width], entries[1::width], strict=True) if k == key), _ABSENT)
    return _ABSENT


@functools.cache
def can_look_up() -> bool:
    """True if `look_up` finds results in this version of Python."""
    made: list[dict[str, int]] = []

    def make(*args: Any, **kwargs: Any) -> dict[str, int]:
        made.append({"a": len(made)})
        return made[-1]

    for cache in (functools.lru_cache(maxsize=2)(make), functools.cache(make), functools.lru_cache(4, typed=True)(make)):
        for args, kwargs in (((1,), {}), (("a",), {}), ((1.5,), {}), (("a", 2), {}), ((3,), {"k": 1}), ((), {"j": 1, "k": "b"})):
            if look_up(cache, args, kwargs) is not _ABSENT:
                return False
            cache(*args, **kwargs)
            before = cache.cache_info()
            if look_up(cache, args, kwargs) is not made[-1] or cache.cache_info() != before:
                return False
    return True


class CacheStandIn:
    """Stand-in for a function with a cache during a trace. For other threads it acts as the function."""

    def __init__(self, original: Any, tracer: Any, environment: Environment) -> None:
        self.original = original
        self._tracer = tracer
        self._environment = environment

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        original = self.original
        if current_tracer.get() is not self._tracer:
            return original(*args, **kwargs)
        name = getattr(original, "__qualname__", repr(original))
        for leaf in tree_flatten((args, kwargs))[0]:
            reason = f"{name} caches its results, and an argument is a tensor or a number that changes"
            if type(leaf) is NumberPlaceholder:
                leaf.refuse(reason)  # a number from outside is taken by its value, which is part of the key
            if isinstance(leaf, Variable) or type(leaf).__module__.startswith("ndgrad._src.compiler."):
                raise GraphBreak(reason)
        found = look_up(original, args, kwargs) if can_look_up() else _ABSENT
        if found is _ABSENT:
            broken = GraphBreak(f"{name} caches its results and has none for these arguments yet")
            broken.is_passing = original.cache_info().maxsize != 0
            raise broken
        self._environment.reach_cached(f"the cached result of {name}", found, lambda: look_up(original, args, kwargs))
        self._tracer.deferred.append((functools.partial(original, *args, **kwargs), ()))
        return found

    def __get__(self, instance: Any, owner: type | None = None) -> Any:
        return self if instance is None else types.MethodType(self, instance)

    def __getattr__(self, name: str) -> Any:
        return getattr(self.original, name)
