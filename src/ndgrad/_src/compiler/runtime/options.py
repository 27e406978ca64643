"""torch.compile's `mode`, `backend` and `options`, with their meaning here.

    mode        "default"; "reduce-overhead" and "max-autotune" (with or without "-no-cudagraphs") are the same: there is
                no overhead between a call and its program that a mode could remove, and tiles follow from the processor,
                so there is nothing to search for
    backend     "inductor" or "ndgrad": native code; "aot_eager" or "numpy": the traced program on NumPy, as with `strict`;
                "eager": not compiled at all
    options     a dict of our own options, `strict` and `threads`

All other values are refused: a silently ignored setting is worse than a missing one.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

MODES = ("default", "reduce-overhead", "max-autotune", "max-autotune-no-cudagraphs")
NATIVE, ON_NUMPY, UNCOMPILED = ("inductor", "ndgrad"), ("aot_eager", "numpy"), ("eager",)
_OWN = ("strict", "threads")


def resolve_options(mode: Any, backend: Any, options: Any, own: dict[str, Any]) -> dict[str, Any] | None:
    """Return our own options merged with torch's arguments; None if nothing is to be compiled."""
    if mode is not None and options is not None:
        raise RuntimeError(
            "Either mode or options can be specified, but both can't be specified at the same time. [nd-exclusive]"
        )
    if mode is not None and mode not in MODES:
        raise RuntimeError(
            f"compile(mode={mode!r}): no such mode. There are {', '.join(map(repr, MODES))}, "
            "which are all the same here. [nd-option]"
        )
    found = {**own, **_check_options(options)}
    threads = found["threads"]
    if threads is not None and (isinstance(threads, bool) or not isinstance(threads, int) or threads < 1):
        raise ValueError(
            f"compile(threads={threads!r}): a number of threads is a positive int. "
            "Leave it out for as many as are allowed. [nd-range]"
        )
    if not isinstance(backend, str):
        raise TypeError(
            f"compile(backend={backend!r}): programs are not handed to functions of other compilers. "
            f"Give one of {', '.join(map(repr, (*NATIVE, *ON_NUMPY, *UNCOMPILED)))}, or leave it out. [nd-type]"
        )
    if backend in UNCOMPILED:
        return None
    if backend in ON_NUMPY:
        found["strict"] = True
    elif backend not in NATIVE:
        raise RuntimeError(
            f"compile(backend={backend!r}): no such backend. "
            f"There are {', '.join(map(repr, (*NATIVE, *ON_NUMPY, *UNCOMPILED)))}. [nd-option]"
        )
    return found


def _check_options(options: Any) -> Mapping[str, Any]:
    if options is None:
        return {}
    if not isinstance(options, Mapping):
        raise TypeError(
            f"compile(options=...) takes a dict, but got {type(options).__name__}. Write options={{'threads': 1}}. "
            "[nd-type]"
        )
    unknown = [name for name in options if name not in _OWN]
    if unknown:
        raise RuntimeError(
            f"compile(options=...): unknown option{'s' * (len(unknown) > 1)} {', '.join(map(repr, unknown))}. "
            "There are 'strict' and 'threads'; those of torch's inductor have no meaning here, so leave them out. "
            "[nd-option]"
        )
    return options
