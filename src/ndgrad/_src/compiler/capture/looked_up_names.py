"""The names that code looks up in globals, closures, modules and objects."""

from __future__ import annotations

import dis
import functools
import types

#: Instructions that load an object by name, and instructions that load or change an attribute of the object on the
#: stack.
_LOADS = frozenset("LOAD_GLOBAL LOAD_NAME LOAD_DEREF LOAD_CLASSDEREF LOAD_FROM_DICT_OR_GLOBALS LOAD_FROM_DICT_OR_DEREF".split())
_ATTRIBUTES = frozenset(["LOAD_ATTR", "LOAD_METHOD"])
_CHANGES = frozenset(["STORE_ATTR", "DELETE_ATTR"])


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
    """Return the names that code itself looks up, including those of enclosing functions."""
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
    """Return the attributes that code, and the code inside it, reads from each name: `np.linalg.norm(x)` gives {"np":
    {("linalg", "norm")}}. A name that is also used in another way, such as an argument, has None.
    """
    found: dict[str, set[tuple[str, ...]] | None] = {}
    for name, path, change in _accesses(code):
        known = found.setdefault(name, set())
        if not path and change is None:
            found[name] = None
        elif known is not None and path:
            known.add(path)
    return {name: None if paths is None else frozenset(paths) for name, paths in found.items()}


def changed_attributes(code: types.CodeType) -> list[tuple[str, tuple[str, ...], str]]:
    """Return the attributes of named objects that code, and the code inside it, sets or deletes: `a.b.c = 1` gives
    ("a", ("b",), "c").
    """
    return [(name, path, change) for name, path, change in _accesses(code) if change is not None]


@functools.cache
def _accesses(code: types.CodeType) -> list[tuple[str, tuple[str, ...], str | None]]:
    """Return the names that code loads, each with the chain of attributes that it reads, and the attribute that it then
    sets or deletes, if there is one.
    """
    found: list[tuple[str, tuple[str, ...], str | None]] = []
    for part in codes_in(code):
        name: str | None = None
        path: list[str] = []
        for instruction in dis.get_instructions(part):
            if instruction.opname in ("CACHE", "EXTENDED_ARG"):
                continue
            if name is not None and instruction.opname in _ATTRIBUTES:
                path.append(str(instruction.argval))
                continue
            if name is not None:
                changes = instruction.opname in _CHANGES
                found.append((name, tuple(path), str(instruction.argval) if changes else None))
                name, path = None, []
            if instruction.opname in _LOADS:
                name = str(instruction.argval)
    return found
