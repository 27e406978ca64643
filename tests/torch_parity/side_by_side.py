"""What programs that run on torch and on ndgrad alike are made of."""

from __future__ import annotations

from typing import Any

import numpy as np
import torch

import ndgrad

MODULES = (torch, ndgrad)


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


def plain(value: Any) -> Any:
    """A result as lists and numbers."""
    if isinstance(value, (tuple, list)):
        return [plain(v) for v in value]
    return value.tolist() if hasattr(value, "tolist") else value
