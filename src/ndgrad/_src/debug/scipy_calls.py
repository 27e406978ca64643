"""Advice for errors of code that would lose a derivative: the differentiable replacement of a SciPy function, and the
line that lifts code written for NumPy. It runs only after an error."""

from __future__ import annotations

import importlib
import sys
from types import FrameType
from typing import Any


def advice() -> str:
    """Return a sentence for an error raised inside a call of SciPy, with a leading space; empty otherwise."""
    called = next(filter(None, map(_public, _frames(sys._getframe(1)))), None)
    if called is None:
        return ""
    module, name = called
    ours = _resolve(f"ndgrad.{module}", name)
    if ours is None or not str(getattr(ours, "__module__", "")).startswith("ndgrad."):
        return f" The call is {module}.{name}, which has no replacement in ndgrad.scipy."
    return (
        f" The call is {module}.{name}: use ndgrad.{module}.{name}, which has a derivative. ndgrad.lift(f) of your "
        "function f makes this replacement by itself."
    )


def lift_line() -> str:
    """Return a sentence with the line that runs the calling code on ndgrad's NumPy, with a leading space."""
    frame: FrameType | None = sys._getframe(1)
    found = None
    library_call: FrameType | None = None  # the outermost call of SciPy since the error
    while frame is not None:
        module = str(frame.f_globals.get("__name__", ""))
        package = module.partition(".")[0]
        if package == "scipy":
            library_call = frame
        elif library_call is not None and module.startswith("ndgrad._src.transforms"):
            # A transform called SciPy's function, so that is the function to lift.
            if found is None and (called := _public(library_call)) is not None:
                found = package, ".".join(called)
            break
        if type(frame.f_globals) is not dict:
            return ""  # The code is lifted already; lift explains its own errors.
        if package == "__main__" or not (package in _LIBRARIES or package in sys.stdlib_module_names):
            if found is not None and found[0] != package:
                break
            if not frame.f_code.co_name.startswith("<") and (found is None or _takes_tensor(frame)):
                found = package, _path_of(frame)
        frame = frame.f_back
    name = "f" if found is None else found[1]
    return f" To run code written for NumPy unchanged, lift the function that is called: ndgrad.lift({name})(...)."


_LIBRARIES = frozenset(("ndgrad", "numpy", "scipy"))


def _takes_tensor(frame: FrameType) -> bool:
    """True if a parameter of a frame's function is a tensor."""
    code, values = frame.f_code, frame.f_locals
    return any(hasattr(values.get(name), "_node") for name in code.co_varnames[: code.co_argcount])


def _path_of(frame: FrameType) -> str:
    """Return the name by which a frame's function can be imported, as far as known."""
    module, name = str(frame.f_globals.get("__name__", "")), frame.f_code.co_qualname
    if "<locals>" in name or module == "__main__":
        return name.rpartition(".")[2]
    if module not in sys.modules:
        return name
    public = module.partition(".")[0]
    is_public = getattr(sys.modules.get(public), name, None) is not None
    return f"{public if is_public else module}.{name}"


def _frames(frame: FrameType | None) -> list[FrameType]:
    """Return the SciPy frames below the innermost frame of other code, outermost first."""
    found: list[FrameType] = []
    while frame is not None:
        package = str(frame.f_globals.get("__name__", "")).partition(".")[0]
        if package == "scipy":
            found.append(frame)
        elif package != "numpy" and found:
            break
        frame = frame.f_back
    return found[::-1]


def _public(frame: FrameType) -> tuple[str, str] | None:
    """Return the public module and name of a frame's function; None for a private helper of SciPy."""
    parts = str(frame.f_globals["__name__"]).split(".")
    module = ".".join(parts[: next((i for i, part in enumerate(parts) if part.startswith("_")), len(parts))])
    name, owner = frame.f_code.co_name, frame.f_locals.get("self")
    if owner is not None:
        # The function is a method of a distribution (an object with a name) or of a class.
        label = getattr(getattr(owner, "dist", owner), "name", None)
        known = isinstance(label, str) and _resolve(module, label) is not None
        name = f"{label}.{name}" if known else type(owner).__name__
    return (module, name) if not name.startswith("_") and _resolve(module, name) is not None else None


def _resolve(module: str, name: str) -> Any:
    try:
        found: Any = importlib.import_module(module)
        for part in name.split("."):
            found = getattr(found, part)
    except (ImportError, AttributeError):
        return None
    return found
