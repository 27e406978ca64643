"""Vocabulary of programs that run on torch and on ndgrad."""

from __future__ import annotations

import warnings
from typing import Any

import numpy as np
import torch

import ndgrad

MODULES = (torch, ndgrad)


class Programs(dict[str, Any]):
    """Programs by name: functions of the module, torch or ndgrad, that return what there is to compare."""

    def enter(self, f: Any) -> Any:
        """Decorate a program with this to have it run; a second one of its name would hide the first."""
        assert f.__name__ not in self, f"two programs are called {f.__name__}"
        self[f.__name__] = f
        return f


def on_both(f: Any) -> list[Any]:
    """Return the outcomes of a program on torch and on ndgrad, errors included; the grad mode is unchanged."""
    found = []
    for m in MODULES:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            found.append(attempt(lambda m=m: plain(f(m))))
        assert m.is_grad_enabled()
    return found


def attempt(f: Any) -> Any:
    """The value of f(), or the class of the error it raised."""
    try:
        return f()
    except Exception as error:
        return error_name(error)


def error_name(error: Exception) -> str:
    """The built-in class of an error: what an `except` that knows neither library would name."""
    return next(c.__name__ for c in type(error).__mro__ if c.__module__ == "builtins")


def leaf(m: Any, *shape: int) -> Any:
    return m.tensor(np.arange(1.0, 1.0 + int(np.prod(shape))).reshape(shape), requires_grad=True)


def ones(m: Any, *shape: int) -> Any:
    return m.ones(*shape, dtype=m.float64)


def node_names(nodes: Any) -> list[str]:
    """The names of nodes, without the namespace that torch gives to accumulators."""
    return [n.name().split("::")[-1] for n in nodes]


def plain(value: Any) -> Any:
    """A result as lists and numbers."""
    if isinstance(value, (tuple, list)):
        return [plain(v) for v in value]
    return value.tolist() if hasattr(value, "tolist") else value
