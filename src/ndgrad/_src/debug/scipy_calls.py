"""Advice for errors inside a SciPy function that asks a tensor for plain memory: its differentiable replacement. It
runs only after an error."""

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
        return f" It was {module}.{name} that asked, of which there is no derivative here."
    return (
        f" It was {module}.{name} that asked: ndgrad.{module}.{name} is the same with a derivative, and "
        "ndgrad.lift(f) of your function f that calls it takes that by itself."
    )


def _frames(frame: FrameType | None) -> list[FrameType]:
    """Return the SciPy frames below the innermost frame of other code, outermost first."""
    found: list[FrameType] = []
    while frame is not None:
        package = str(frame.f_globals.get("__name__", "")).partition(".")[0]
        if package == "scipy":
            found.append(frame)
        elif package not in ("ndgrad", "numpy") and found:
            break
        frame = frame.f_back
    return found[::-1]


def _public(frame: FrameType) -> tuple[str, str] | None:
    """Return the public module and name of a frame's function; None for a private helper of SciPy."""
    parts = str(frame.f_globals["__name__"]).split(".")
    module = ".".join(parts[: next((i for i, part in enumerate(parts) if part.startswith("_")), len(parts))])
    name, owner = frame.f_code.co_name, frame.f_locals.get("self")
    if owner is not None:
        # A method of a distribution (an object with a name) or of a class.
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
