"""The names that code looks up: in globals, closures, modules and objects."""

from __future__ import annotations

import dis
import functools
import types

#: Instructions that load an object which has a name, and those that load an attribute of the object on the stack.
_LOADS = frozenset("LOAD_GLOBAL LOAD_NAME LOAD_DEREF LOAD_CLASSDEREF LOAD_FROM_DICT_OR_GLOBALS LOAD_FROM_DICT_OR_DEREF".split())
_ATTRIBUTES = frozenset(["LOAD_ATTR", "LOAD_METHOD"])
_CHANGES = frozenset(["STORE_ATTR", "DELETE_ATTR"])

#: The end of a chain whose last attribute is set or deleted.
CHANGED = "="


@functools.cache
def names_of(code: types.CodeType) -> frozenset[str]:
    """Return the names that code, and the code inside it, may look up in globals, modules and objects."""
    names = set(code.co_names)
    for constant in code.co_consts:
        if isinstance(constant, types.CodeType):
            names |= names_of(constant)
    return frozenset(names)


@functools.cache
def own_names(code: types.CodeType) -> frozenset[str]:
    """Return the names that code itself looks up, those of enclosing functions included."""
    return frozenset([*code.co_names, *code.co_freevars, *code.co_cellvars])


def codes_in(code: types.CodeType) -> list[types.CodeType]:
    """Return code, and the code of the functions and classes defined inside it."""
    found = [code]
    for constant in code.co_consts:
        if isinstance(constant, types.CodeType):
            found += codes_in(constant)
    return found


@functools.cache
def attribute_chains(code: types.CodeType) -> dict[str, frozenset[tuple[str, ...]] | None]:
    """Return the attributes that code, and the code inside it, reads of each name: `np.linalg.norm(x)` gives
    {"np": {("linalg", "norm")}}, and `np.a = 1` gives {"np": {("a", CHANGED)}}. A name that is also used otherwise, as an argument for instance, has None."""
    found: dict[str, set[tuple[str, ...]] | None] = {}
    for part in codes_in(code):
        name, path = None, []
        for instruction in dis.get_instructions(part):
            if instruction.opname in ("CACHE", "EXTENDED_ARG"):
                continue
            if name is not None and instruction.opname in _ATTRIBUTES:
                path.append(str(instruction.argval))
                continue
            if name is not None and instruction.opname in _CHANGES:
                path += [str(instruction.argval), CHANGED]
            if name is not None:
                _add(found, name, tuple(path))
                name, path = None, []
            if instruction.opname in _LOADS:
                name = str(instruction.argval)
        if name is not None:
            _add(found, name, tuple(path))
    return {name: None if paths is None else frozenset(paths) for name, paths in found.items()}


def _add(found: dict[str, set[tuple[str, ...]] | None], name: str, path: tuple[str, ...]) -> None:
    paths = found.setdefault(name, set())
    if not path:
        found[name] = None
    elif paths is not None:
        paths.add(path)
