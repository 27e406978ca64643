"""Objects that functions reach: closures, defaults, globals, and the names that their code looks up in modules."""

from __future__ import annotations

import functools
import operator
import sys
import types
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from ndgrad._src.compiler.capture.captured_state import CapturedSlots, fill, read_cell, set_function
from ndgrad._src.compiler.capture.code_origin import is_foreign
from ndgrad._src.compiler.capture.known_calls import refuse_c_function
from ndgrad._src.compiler.capture.looked_up_names import attribute_chains, changed_attributes, codes_in, names_of
from ndgrad._src.compiler.capture.opaque_names import parameters_of
from ndgrad._src.compiler.capture.replaced_code import code_of
from ndgrad._src.compiler.capture.visit_objects import Visitor

if TYPE_CHECKING:
    from ndgrad._src.compiler.capture.reachable_objects import ReachableObjects


def visit_function(walk: ReachableObjects, what: str, f: Any, name: str | None) -> None:
    for code in codes_in(code_of(f)):
        walk.codes[id(code)] = code
    home = f.__globals__.get("__name__") or f.__module__ or ""  # generated code has no name there
    if is_foreign(home) and is_foreign(f.__module__) and _is_public(f):
        if home == "os" and f.__name__ == "getenv":
            walk.pending.append(("os.environ", sys.modules["os"].environ, name))
        return  # function or method of a library
    label = f"{getattr(f, '__qualname__', what)}: "
    parts = ["__code__", "__defaults__", "__kwdefaults__"]
    walk.capture(
        CapturedSlots(
            label,
            parts,
            lambda: [code_of(f), f.__defaults__, f.__kwdefaults__],
            functools.partial(set_function, f),
            ("function", f),
        ),
        parameters_of(code_of(f)),
    )
    if f.__closure__:
        _capture_cells(walk, label, code_of(f).co_freevars, f.__closure__)
    if is_foreign(home):
        if f.__dict__:
            walk.capture_attributes(label, f.__dict__)
        return
    walk.capture_attributes(label, f.__dict__)
    names = names_of(code_of(f))
    walk.names.used |= names
    space = f.__globals__
    if names & {"attrgetter", "methodcaller"}:
        walk.names.used.add("__dict__")  # any attribute may be looked up
    walk.capture_names("global ", None, space, sorted(names))
    walk.names.capture_builtins(walk, [n for n in sorted(names) if n not in space])
    walk.functions.append(f)
    follow_chains(walk, f)


def follow_chains(walk: ReachableObjects, f: Any) -> None:
    """Capture the names that a function reads from modules of libraries: `np.linalg.norm` reads `linalg` of one
    module and `norm` of another.
    """
    cells = dict(zip(code_of(f).co_freevars, f.__closure__ or (), strict=True))
    for name, chains in attribute_chains(code_of(f)).items():
        module = read_cell(cells[name]) if name in cells else f.__globals__.get(name)
        if not isinstance(module, types.ModuleType):
            continue
        if not is_foreign(module.__name__):
            asked = names_of(code_of(f)) if chains is None else {chain[0] for chain in chains if chain}
            walk.names.asked_of_modules.setdefault(id(module), set()).update(asked)
            continue
        if chains is None:
            walk.names.capture_library(walk, module, walk.names.used & vars(module).keys())
        for chain in chains or ():
            holder: Any = module
            for part in chain:
                if not isinstance(holder, types.ModuleType) or not is_foreign(holder.__name__):
                    break
                walk.names.capture_library(walk, holder, {part})
                holder = vars(holder).get(part)
    _follow_changes(walk, f, cells)


def _follow_changes(walk: ReachableObjects, f: Any, cells: dict[str, Any]) -> None:
    """Capture the attributes of modules that a function sets, and refuse its code if it changes a class of a
    library.
    """
    for code in codes_in(code_of(f)):
        for name, path, change in changed_attributes(code):
            walk.names.changed.add(change)
            holder: Any = read_cell(cells[name]) if name in cells else f.__globals__.get(name)
            for part in path:
                holder = None if holder is None else getattr(holder, "__dict__", {}).get(part)
            if isinstance(holder, types.ModuleType) and is_foreign(holder.__name__):
                walk.capture_names(f"{holder.__name__}.", holder, vars(holder), [change])
            elif isinstance(holder, type) and is_foreign(holder.__module__):
                walk.opaque.refused[id(code)] = f"{code.co_qualname} changes {holder.__qualname__}.{change}"


def _is_public(f: Any) -> bool:
    """True if a function is found under its name in its module, or in a class there."""
    found: Any = sys.modules.get(f.__module__)
    for name in f.__qualname__.split("."):
        found = getattr(found, name, None)
    return found is f


def _capture_cells(walk: ReachableObjects, what: str, labels: Sequence[str], cells: tuple[Any, ...]) -> None:
    walk.capture(
        CapturedSlots(what, labels, lambda: [read_cell(c) for c in cells], functools.partial(fill, cells), ("cells", cells)),
        list(labels),
    )


def visit_cell(walk: ReachableObjects, what: str, cell: Any, name: str | None) -> None:
    slots = CapturedSlots(what, ("",), lambda: [read_cell(cell)], functools.partial(fill, (cell,)), ("cells", (cell,)))
    walk.capture(slots, name)


def visit_method(walk: ReachableObjects, what: str, method: Any, name: str | None) -> None:
    walk.pending += [(what, method.__self__, name), (what, method.__func__, name)]


def visit_builtin(walk: ReachableObjects, what: str, function: Any, name: str | None) -> None:
    """Reach the object that a builtin method belongs to. An unsafe C function is refused when it is called. For C
    functions that other C functions may call, `refuse_code` uses the names recorded here.
    """
    owner = getattr(function, "__self__", None)
    if owner is not None and not isinstance(owner, (types.ModuleType, type)):
        walk.pending.append((what, owner, name))
    if isinstance(function, types.BuiltinFunctionType) and name is not None:
        refused = refuse_c_function(function)
        if refused is not None:
            walk.opaque.note_unsafe(name, refused)


def visit_partial(walk: ReachableObjects, what: str, value: Any, name: str | None) -> None:
    walk.capture(
        CapturedSlots(f"{what}.", ["func", "args", "keywords"], lambda: [value.func, value.args, value.keywords], None), name
    )
    refused = refuse_c_function(value.func) if isinstance(value.func, types.BuiltinFunctionType) else None
    if refused is not None:
        walk.opaque.note_object(what, value, name, f"the function may call {refused}, which may depend on or change something outside of it")
    if value.__dict__:
        walk.capture_attributes(what, value.__dict__)


def visit_property(walk: ReachableObjects, what: str, value: Any, name: str | None) -> None:
    walk.pending += [(what, f, name) for f in (value.fget, value.fset, value.fdel) if f is not None]


def visit_cached_property(walk: ReachableObjects, what: str, value: Any, name: str | None) -> None:
    walk.pending.append((what, value.func, name))


def visit_cache(walk: ReachableObjects, what: str, value: Any, name: str | None) -> None:
    """Reach a function that caches its results. A trace may use cached results. It ends before it computes new
    ones, see `refuse_code`.
    """
    walk.caches.append(value)
    if isinstance(value.__wrapped__, types.FunctionType):
        walk.opaque.remember(code_of(value.__wrapped__))
    walk.pending.append((what, value.__wrapped__, name))
    if value.__dict__:
        walk.capture_attributes(what, value.__dict__)


def visit_wrapper(walk: ReachableObjects, what: str, value: Any, name: str | None) -> None:
    walk.pending.append((what, value.__func__ if hasattr(value, "__func__") else value.__wrapped__, name))


def visit_getter(walk: ReachableObjects, what: str, value: Any, name: str | None) -> None:
    """Record the names that operator.attrgetter and operator.methodcaller look up."""
    walk.names.used |= {part for text in value.__reduce__()[1] if isinstance(text, str) for part in text.split(".")}


#: Visitors by exact class.
FUNCTIONS: dict[type, Visitor] = {
    types.FunctionType: visit_function,
    types.MethodType: visit_method,
    types.CellType: visit_cell,
    functools.partial: visit_partial,
    functools._lru_cache_wrapper: visit_cache,
    property: visit_property,
    functools.cached_property: visit_cached_property,
    staticmethod: visit_wrapper,
    classmethod: visit_wrapper,
    types.BuiltinFunctionType: visit_builtin,
    types.MethodWrapperType: visit_builtin,
    operator.attrgetter: visit_getter,
    operator.methodcaller: visit_getter,
}
