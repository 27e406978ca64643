"""Backend for scipy.fft's own functions on tensors."""

from __future__ import annotations

import importlib
from collections.abc import Callable
from typing import Any

import scipy.fft

from ndgrad._src.core.variable import Variable


class Backend:
    """The interface that `scipy.fft.register_backend` requires."""

    __ua_domain__ = "numpy.scipy.fft"

    @staticmethod
    def __ua_function__(method: Callable[..., Any], args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
        if not any(isinstance(a, Variable) for a in (*args, *kwargs.values())):
            return NotImplemented
        ours = importlib.import_module("ndgrad.scipy.fft")  # loaded with the first tensor
        function: Any = getattr(ours, method.__name__, None)
        has_rule = str(getattr(function, "__module__", "")).startswith("ndgrad.")
        return function(*args, **kwargs) if has_rule else NotImplemented


scipy.fft.register_backend(Backend)
