"""Shapes and dtypes of an op's results, found by running its forward function on arrays without data."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from ndgrad._src.arrays.meta import MetaArray
from ndgrad._src.compiler.program.program import Argument, Value, settings_key
from ndgrad._src.core.record import run_forward
from ndgrad._src.foundations.bounded_tables import make_room

#: Results of `infer` by op, arguments and settings.
_inferred: dict[Any, tuple[bool, tuple[tuple[tuple[int, ...], np.dtype[Any]], ...]]] = {}


def infer(
    op: Any, arguments: Sequence[Argument], settings: dict[str, Any]
) -> tuple[bool, tuple[tuple[tuple[int, ...], np.dtype[Any]], ...]]:
    """Return whether an op has several results on these arguments, and their shapes and dtypes."""
    known = settings_key(settings) if settings else ()
    key: Any = None
    if known is not None:
        key = op, tuple([(a.shape, a.dtype) if a.__class__ is Value else (a.__class__, a) for a in arguments]), known
    try:
        found = None if key is None else _inferred.get(key)
    except TypeError:  # unhashable argument
        key = found = None
    if found is None:
        arrays = [MetaArray(a.shape, a.dtype) if a.__class__ is Value else a for a in arguments]
        with np.errstate(all="ignore"):
            out = run_forward(op, np, tuple(arrays), arrays, settings)
        several = op.outputs != 1
        found = (several, tuple([(tuple(o.shape), o.dtype) for o in (out if several else (out,))]))
        if key is not None:
            make_room(_inferred, 20_000)
            _inferred[key] = found
    return found
